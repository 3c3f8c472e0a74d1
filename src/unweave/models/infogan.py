"""The InfoGAN: a generator of images, a critic of them, and a recogniser of their codes."""

from __future__ import annotations

from typing import NamedTuple, cast

import torch
from torch import Tensor, nn

from unweave.core.noise import Noise
from unweave.latents import Latent, Posterior, with_hard_samples
from unweave.likelihoods import Likelihood, Observation
from unweave.models.model import Model, full
from unweave.networks import Kim2018GAN, Shape


class Drawn(NamedTuple):
    """Codes drawn from the prior, and what the generator makes of them."""

    c: Tensor  # (B, D)
    x: Tensor  # (B, *shape)


class Discriminator(nn.Module):
    """D(x): a trunk, which the recogniser reads too, and a layer on it."""

    def __init__(self, network: Kim2018GAN, shape: Shape) -> None:
        super().__init__()
        self.trunk = network.trunk(shape)
        self.last = network.discriminator()

    def judge(self, features: Tensor) -> Tensor:
        """The logit, or a critic's value, of features (B, F) of the trunk, (B,)."""
        return full(cast(Tensor, self.last(features))).squeeze(-1)

    def forward(self, x: Tensor) -> Tensor:
        """The logit, or a critic's value, of images (B, *shape), (B,)."""
        return self.judge(self.trunk(x))


class InfoGAN(Model):
    """p(c), x = G(c, e) with e ~ N(0, I), Q(c|x) and D(x).  [Chen2016] sec. 5, [Kim2018] app. G.

    `latent` are the codes c; `noise` counts the columns of e. Q(c|x) is the posterior of the latent
    space read off the trunk that Q and D share, so codes, rates and metrics are those of any model.
    Of the likelihood only the mean E[x|c, e] is used: with Bernoulli the sigmoid of the generator's
    output, which the critic sees as it is.

    Codes are drawn as they are under the prior: classes and bits exactly, never relaxed.

    The critic is a part of the model, since Q reads its trunk, and a player of its own.
    """

    players = ("critic",)

    def __init__(
        self,
        latent: Latent,
        network: Kim2018GAN,
        likelihood: Likelihood,
        shape: Shape,
        noise: int,
    ) -> None:
        super().__init__()
        self.latent, self.likelihood, self.noise = latent, likelihood, noise
        self.generator = network.generator(latent.size + noise, likelihood.raw_shape(shape))
        self.head = likelihood.head()
        self.recogniser = network.recogniser(latent.outputs)
        self.critic = Discriminator(network, shape)
        self.prior = latent.prior(shape)

    def raw(self, x: Tensor) -> Tensor:
        """The recogniser's output for images (B, *shape), from which `latent` makes Q(c|x)."""
        return full(cast(Tensor, self.recogniser(self.critic.trunk(x))))

    def decode(self, z: Tensor) -> Observation:
        """p(x|c, e) for codes c and noise e side by side, (B, D + noise)."""
        return self.likelihood(self.head(full(self.generator(z))))

    def judge(self, x: Tensor) -> tuple[Tensor, Posterior]:
        """D(x), (B,), and Q(c|x) in one pass through the trunk."""
        features = self.critic.trunk(x)
        return self.critic.judge(features), self.latent.posterior(full(self.recogniser(features)))

    def forward(self, count: int, noise: Noise) -> Drawn:
        """Draw codes and noise, and generate their images."""
        c = with_hard_samples(self.p()).rsample(noise.fold("codes"), (count,))
        e = noise.normal((count, self.noise), "noise", c.dtype)
        return Drawn(c, self.decode(torch.cat([c, e], -1)).mean)
