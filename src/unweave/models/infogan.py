"""The InfoGAN: a generator of images, a critic of images, and a recogniser of codes."""

from typing import NamedTuple, cast

import torch
from torch import Tensor, nn

from unweave.core.noise import Noise
from unweave.core.row_division import rowwise
from unweave.latents import Latent, Posterior, with_hard_samples
from unweave.likelihoods import Likelihood, Observation
from unweave.models.model import Model, as_float32, observe
from unweave.networks import Kim2018GAN, Shape


class GeneratedBatch(NamedTuple):
    """Codes drawn from the prior, and the images generated from them."""

    c: Tensor  # (B, D)
    x: Tensor  # (B, *shape)


class ImageCritic(nn.Module):
    """D(x): a trunk, shared with the recogniser, and one layer on top of it."""

    def __init__(self, network: Kim2018GAN, shape: Shape) -> None:
        super().__init__()
        self.trunk = network.trunk(shape)
        self.last = network.critic_head()

    def from_features(self, features: Tensor) -> Tensor:
        """Compute the critic's output for features (B, F) of the trunk, (B,)."""
        return as_float32(cast(Tensor, self.last(features))).squeeze(-1)

    @rowwise
    def forward(self, x: Tensor) -> Tensor:
        """Compute the critic's output, a logit or a score, for images (B, *shape), (B,)."""
        return self.from_features(self.trunk(x))


class InfoGANModel(Model):
    """p(c), x = G(c, e) with e ~ N(0, I), Q(c|x) and D(x).  [Chen2016] sec. 5, [Kim2018] app. G.

    `latent` is the space of the codes c; `noise` is the number of columns of e. Q(c|x) is the
    posterior of the latent space, computed from the trunk that Q and D share, so codes, rates and
    metrics work as for any model. Only the mean E[x|c, e] of the likelihood is used: for Bernoulli
    the sigmoid of the generator's output, which the critic sees.

    Codes are exact samples of the prior: classes and bits are never relaxed. The critic belongs to
    the model, because Q reads its trunk, but is a separate player.
    """

    players = ("critic",)

    def __init__(
        self, latent: Latent, network: Kim2018GAN, likelihood: Likelihood, shape: Shape, noise: int
    ) -> None:
        super().__init__()
        self.latent, self.likelihood, self.noise = latent, likelihood, noise
        self.generator = network.generator(latent.size + noise, likelihood.raw_shape(shape))
        self.head = likelihood.head()
        self.recogniser = network.recogniser(latent.outputs)
        self.critic = ImageCritic(network, shape)
        self.prior = latent.prior(shape)

    @rowwise
    def raw(self, x: Tensor) -> Tensor:
        """Compute the recogniser's output for images (B, *shape); `latent` gives Q(c|x)."""
        return as_float32(cast(Tensor, self.recogniser(self.critic.trunk(x))))

    def decode(self, z: Tensor) -> Observation:
        """Return p(x|c, e) for codes c followed by noise e, (B, D + noise)."""
        return observe(self.likelihood, lambda z: self.head(as_float32(self.generator(z))), z)

    def criticise(self, x: Tensor) -> tuple[Tensor, Posterior]:
        """Compute D(x), (B,), and Q(c|x) with one pass through the trunk."""
        output, raw = self._outputs(x)
        return output, self.latent.posterior(raw)

    @rowwise
    def _outputs(self, x: Tensor) -> tuple[Tensor, Tensor]:
        features = self.critic.trunk(x)
        return self.critic.from_features(features), as_float32(self.recogniser(features))

    def forward(self, count: int, noise: Noise) -> GeneratedBatch:
        """Draw codes and noise, and generate their images."""
        c = with_hard_samples(self.p()).rsample(noise.fold("codes"), (count,))
        e = noise.normal((count, self.noise), "noise", c.dtype)
        return GeneratedBatch(c, self.decode(torch.cat([c, e], -1)).mean)
