"""Objectives that weigh the rate as a whole."""

from __future__ import annotations

from typing import Literal

from unweave.core.noise import Noise
from unweave.core.schedules import Linear, Weight
from unweave.core.spec import spec, tag
from unweave.latents import Latent
from unweave.latents.distributions import HALF_LOG_2PI
from unweave.models import ForwardPass
from unweave.objectives.base import Batch, OnePlayer, Term, Terms, elbo, number
from unweave.objectives.compatibility import gaussian_only


@spec
class VAE(OnePlayer):
    """E_q[-log p(x|z)] + KL(q(z|x) || p(z)): the negative evidence lower bound.

    [Kingma2014] eq. 3.
    """

    kind: Literal["vae"] = tag("vae")

    def terms(self, passed: ForwardPass, batch: Batch, noise: Noise) -> Terms:
        """Distortion and rate."""
        return elbo(passed)


@spec
class BetaVAE(OnePlayer):
    """E_q[-log p(x|z)] + beta KL(q(z|x) || p(z)).  [Higgins2017] eq. 4."""

    beta: Weight = 4.0  # [Kim2018] sec. 6: the best beta on 2D Shapes
    kind: Literal["beta-vae"] = tag("beta-vae")

    def terms(self, passed: ForwardPass, batch: Batch, noise: Noise) -> Terms:
        """Distortion and the weighted rate."""
        return elbo(passed, rate=self.beta)


@spec
class CapacityVAE(OnePlayer):
    """E_q[-log p(x|z)] + gamma |KL(q(z|x) || p(z)) - capacity|.  [Burgess2018] eq. 8.

    The capacity, in nats, usually rises during training; the rate is the mean over the batch.
    """

    gamma: Weight = 1000.0  # [Burgess2018] sec. 5.2 and [Locatello2019] app. H
    capacity: Weight = Linear(0.0, 25.0, steps=100_000)
    kind: Literal["capacity-vae"] = tag("capacity-vae")

    def terms(self, passed: ForwardPass, batch: Batch, noise: Noise) -> Terms:
        """Distortion, and how far the rate is from the capacity."""
        rate = passed.rate
        away = (rate.mean() - number(self.capacity)).abs()
        return {
            "distortion": Term(1.0, passed.distortion),
            "rate": Term(0.0, rate.detach()),
            "capacity": Term(self.gamma, away),
        }


@spec
class EntropyVAE(OnePlayer):
    """-ELBO - (beta - 1) log |S(x)| / 2 with S(x) the covariance of q(z|x).  [Mathieu2019] eq. 5.

    The beta-VAE up to a scaling of the codes by sqrt(beta), for a Gaussian prior.
    """

    beta: Weight = 4.0
    kind: Literal["entropy-vae"] = tag("entropy-vae")

    def terms(self, passed: ForwardPass, batch: Batch, noise: Noise) -> Terms:
        """Distortion, rate, and the entropy of the encodings."""
        size = passed.z.shape[-1]
        half_log_det = passed.q.entropy() - size * (0.5 + HALF_LOG_2PI)
        weight = 1.0 - number(self.beta)
        return elbo(passed) | {"half_log_det": Term(weight, half_log_det)}

    def incompatibility(self, latent: Latent) -> str | None:
        """Why a latent space cannot be trained in this way, if it cannot."""
        return gaussian_only(latent, "eq. 5 is about the covariance of Gaussian encodings")
