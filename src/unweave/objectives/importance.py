"""The importance-weighted autoencoder."""

import math
from typing import Literal

import torch
from torch import Tensor

from unweave.core.noise import Noise
from unweave.core.spec import Size, spec, tag
from unweave.latents import Distribution
from unweave.models import Model
from unweave.objectives.base import BaseObjective, Batch, Carry, Loss, Nets, Term


def importance_bound(model: Model, x: Tensor, noise: Noise, particles: int) -> tuple[Tensor, ...]:
    """Compute log 1/K sum_k p(x, z_k) / q(z_k|x), and mean distortion and rate, (B,) each.

    This lower bound on log p(x) gets tighter as K grows.  [Burda2016] eq. 8. Discrete variables
    have hard samples, in the weights and for the decoder.
    """
    return particle_bound(model, model.encode(x), x, noise, particles)


def particle_bound(
    model: Model, q: Distribution, x: Tensor, noise: Noise, particles: int
) -> tuple[Tensor, ...]:
    """Compute `importance_bound` for a given q(z|x)."""
    p = model.p()
    z = model.latent.hard_samples(q.rsample(noise.fold("posterior"), (particles,)))  # (K, B, D)
    repeated = x.unsqueeze(0).expand(particles, *x.shape).flatten(0, 1)
    distortion = -model.decode(z.flatten(0, 1)).log_prob(repeated).unflatten(0, z.shape[:2])
    rate = q.log_prob(z) - p.log_prob(z)
    bound = torch.logsumexp(-distortion - rate, 0) - math.log(particles)
    return bound, distortion.mean(0), rate.mean(0)


@spec
class IWAE(BaseObjective):
    """-log 1/K sum_k p(x, z_k) / q(z_k|x) with z_k ~ q(z|x).  [Burda2016] eq. 8.

    With one particle it is the sampled negative ELBO. The decoder always sees hard samples of
    discrete variables (straight through), because importance weights need true samples.
    """

    particles: Size = 50
    """Samples of z for each observation, K."""
    kind: Literal["iwae"] = tag("iwae")

    @property
    def decodes_per_observation(self) -> int:
        """The particles."""
        return self.particles

    def model_loss(self, nets: Nets, batch: Batch, noise: Noise, carry: Carry) -> Loss:
        raw = nets.model.raw(batch.x)
        q = nets.model.latent.posterior(raw)
        bound, distortion, rate = particle_bound(nets.model, q, batch.x, noise, self.particles)
        return {
            "distortion": Term(0.0, distortion.detach()),
            "rate": Term(0.0, rate.detach()),
            "bound": Term(1.0, -bound),
        }, {"raw": raw}
