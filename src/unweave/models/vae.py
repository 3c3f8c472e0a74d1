"""The variational autoencoder: functions that return distributions, and no loss."""

from __future__ import annotations

from typing import NamedTuple, cast

from torch import Tensor

from unweave.core.noise import Noise
from unweave.latents import Distribution, Latent, Posterior
from unweave.likelihoods import Likelihood, Observation
from unweave.models.model import Model, full
from unweave.networks import Network, Shape


class ForwardPass(NamedTuple):
    """All that an objective reads of one forward pass over a batch of B observations."""

    x: Tensor  # (B, *shape)
    raw: Tensor  # the encoder's output, of which q is made, (B, outputs)
    q: Posterior  # q(z|x), batch shape (B,)
    z: Tensor  # a sample of q as the decoder sees it, discrete variables relaxed, (B, D)
    p: Distribution  # p(z), batch shape ()
    px: Observation  # p(x|z)
    latent: Latent

    @property
    def distortion(self) -> Tensor:
        """-log p(x|z) of every observation, (B,)."""
        return -self.px.log_prob(self.x)

    @property
    def rate(self) -> Tensor:
        """KL(q(z|x) || p(z)) of every observation, (B,)."""
        return self.latent.rate(self.q, self.p, self.z)

    @property
    def hard_samples(self) -> Tensor:
        """The sample as q(z) and p(z) know it, discrete variables as hard samples, (B, D)."""
        return self.latent.hard_samples(self.z)


class VAE(Model):
    """p(z), q(z|x) and p(x|z) with networks inside.  [Kingma2014] sec. 3."""

    def __init__(
        self, latent: Latent, network: Network, likelihood: Likelihood, shape: Shape
    ) -> None:
        super().__init__()
        self.latent, self.likelihood = latent, likelihood
        self.encoder = network.encoder(shape, latent.discrete_outputs)
        self.decoder = network.decoder(latent.size, likelihood.raw_shape(shape))
        self.head = likelihood.head()
        self.prior = latent.prior(shape)

    def raw(self, x: Tensor) -> Tensor:
        """The encoder's output for a batch (B, *shape), from which `latent` makes q(z|x)."""
        return full(cast(Tensor, self.encoder(x)))

    def decode(self, z: Tensor) -> Observation:
        """p(x|z) for codes (B, D)."""
        return self.likelihood(self.head(full(self.decoder(z))))

    def forward(self, x: Tensor, noise: Noise) -> ForwardPass:
        """Encode, sample and decode a batch."""
        raw = self.raw(x)
        q = self.latent.posterior(raw)
        z = q.rsample(noise.fold("posterior"))
        return ForwardPass(x, raw, q, z, self.p(), self.decode(z), self.latent)
