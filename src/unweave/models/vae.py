"""The variational autoencoder, as functions that return distributions."""

from typing import NamedTuple, cast

from torch import Tensor

from unweave.core.noise import Noise
from unweave.core.row_division import rowwise
from unweave.latents import Distribution, Latent, Posterior
from unweave.likelihoods import Likelihood, Observation
from unweave.models.model import Model, as_float32, observe
from unweave.networks import Network, Shape


class ForwardPass(NamedTuple):
    """The results of one forward pass over a batch of B observations."""

    x: Tensor  # (B, *shape)
    raw: Tensor  # the encoder's output, the parameters of q, (B, outputs)
    q: Posterior  # q(z|x), batch shape (B,)
    z: Tensor  # the sample of q that the decoder sees, discrete variables relaxed, (B, D)
    p: Distribution  # p(z), batch shape ()
    px: Observation  # p(x|z)
    latent: Latent

    @property
    def distortion(self) -> Tensor:
        """-log p(x|z) of every observation, (B,)."""
        return -self._per_row("log_prob", self.px, self.px.log_prob(self.x))

    @property
    def rate(self) -> Tensor:
        """KL(q(z|x) || p(z)) of every observation, (B,)."""
        return self._per_row("rate", self.latent, self.latent.rate(self.q, self.p, self.z))

    def _per_row(self, name: str, owner: object, value: Tensor) -> Tensor:
        """Return a value that has one number for each observation, or raise a ValueError."""
        if value.shape != (len(self.x),):
            raise ValueError(
                f"{type(owner).__name__}.{name}: expected one number for each of {len(self.x)} "
                f"observations, got shape {tuple(value.shape)}"
            )
        return value

    @property
    def hard_samples(self) -> Tensor:
        """The sample with discrete variables rounded to their values, (B, D)."""
        return self.latent.hard_samples(self.z)


class VAEModel(Model):
    """p(z), q(z|x) and p(x|z), given by networks.  [Kingma2014] sec. 3."""

    def __init__(
        self, latent: Latent, network: Network, likelihood: Likelihood, shape: Shape
    ) -> None:
        super().__init__()
        self.latent, self.likelihood = latent, likelihood
        self.encoder = network.encoder(shape, latent.discrete_outputs)
        self.decoder = network.decoder(latent.size, likelihood.raw_shape(shape))
        self.head = likelihood.head()
        self.prior = latent.prior(shape)

    @rowwise
    def raw(self, x: Tensor) -> Tensor:
        return as_float32(cast(Tensor, self.encoder(self.likelihood.encoder_input(x))))

    def decode(self, z: Tensor) -> Observation:
        return observe(self.likelihood, lambda z: self.head(as_float32(self.decoder(z))), z)

    def forward(self, x: Tensor, noise: Noise) -> ForwardPass:
        """Encode, sample and decode a batch."""
        raw = self.raw(x)
        q = self.latent.posterior(raw)
        z = q.rsample(noise.fold("posterior"))
        return ForwardPass(x, raw, q, z, self.p(), self.decode(z), self.latent)
