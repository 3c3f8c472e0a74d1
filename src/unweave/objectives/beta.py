"""Objectives that weight the whole rate: VAE, beta-VAE, CapacityVAE, EntropyVAE."""

from typing import ClassVar, Literal

from unweave.core.noise import Noise
from unweave.core.schedules import Linear, Weight
from unweave.core.spec import spec, tag
from unweave.latents.distributions import HALF_LOG_2PI
from unweave.models import ForwardPass
from unweave.objectives.base import (
    Batch,
    Requirements,
    Term,
    Terms,
    VAEObjective,
    elbo_terms,
    weight_value,
)


@spec
class VAE(VAEObjective):
    """E_q[-log p(x|z)] + KL(q(z|x) || p(z)): the negative evidence lower bound.

    [Kingma2014] eq. 3.
    """

    kind: Literal["vae"] = tag("vae")

    def loss(self, forward: ForwardPass, batch: Batch, noise: Noise) -> Terms:
        return elbo_terms(forward)


@spec
class BetaVAE(VAEObjective):
    """E_q[-log p(x|z)] + beta KL(q(z|x) || p(z)).  [Higgins2017] eq. 4."""

    beta: Weight = 4.0  # [Kim2018] sec. 6: the best beta on 2D Shapes
    """Weight of the rate: larger values use fewer, more separate variables."""
    kind: Literal["beta-vae"] = tag("beta-vae")

    def loss(self, forward: ForwardPass, batch: Batch, noise: Noise) -> Terms:
        return elbo_terms(forward, rate=self.beta)


@spec
class CapacityVAE(VAEObjective):
    """E_q[-log p(x|z)] + gamma |KL(q(z|x) || p(z)) - capacity|.  [Burgess2018] eq. 8.

    The capacity, in nats, usually increases during training; the rate is the batch mean.
    """

    gamma: Weight = 1000.0  # [Burgess2018] sec. 5.2 and [Locatello2019] app. H
    """Weight of the distance between rate and capacity."""
    capacity: Weight = Linear(0.0, 25.0, steps=100_000)
    """Rate to reach, in nats; it usually grows during training."""
    kind: Literal["capacity-vae"] = tag("capacity-vae")

    def loss(self, forward: ForwardPass, batch: Batch, noise: Noise) -> Terms:
        rate = forward.rate
        distance = (rate.mean() - weight_value(self.capacity)).abs()
        return {
            "distortion": Term(1.0, forward.distortion),
            "rate": Term(0.0, rate.detach()),
            "capacity": Term(self.gamma, distance),
        }


@spec
class EntropyVAE(VAEObjective):
    """-ELBO - (beta - 1) log |S(x)| / 2 with S(x) the covariance of q(z|x).  [Mathieu2019] eq. 5.

    For a Gaussian prior it equals the beta-VAE up to a scaling of the codes by sqrt(beta).
    """

    beta: Weight = 4.0
    """Weight of the posterior's entropy."""
    kind: Literal["entropy-vae"] = tag("entropy-vae")
    requires: ClassVar[Requirements] = {
        "gaussian_posterior": "eq. 5 uses the covariance of Gaussian posteriors"
    }

    def loss(self, forward: ForwardPass, batch: Batch, noise: Noise) -> Terms:
        size = forward.z.shape[-1]
        half_log_det = forward.q.entropy() - size * (0.5 + HALF_LOG_2PI)
        weight = 1.0 - weight_value(self.beta)
        return elbo_terms(forward) | {"half_log_det": Term(weight, half_log_det)}
