"""The importance-weighted bound as an objective."""

from __future__ import annotations

import math
from typing import Literal

import torch
from pydantic import PositiveInt
from torch import Tensor

from unweave.core.noise import Noise
from unweave.core.spec import spec, tag
from unweave.latents import Distribution
from unweave.models import Model
from unweave.objectives.base import MODEL, BaseObjective, Batch, Carry, Nets, Term, Terms, Update


def importance_bound(model: Model, x: Tensor, noise: Noise, particles: int) -> tuple[Tensor, ...]:
    """log 1/K sum_k p(x, z_k) / q(z_k|x), and distortion and rate of the particles, (B,) each.

    A lower bound of log p(x) that tightens as K grows.  [Burda2016] eq. 8. Discrete variables are
    as hard samples, where the weights are their masses and which the decoder sees as well.
    """
    return particle_bound(model, model.encode(x), x, noise, particles)


def particle_bound(
    model: Model, q: Distribution, x: Tensor, noise: Noise, particles: int
) -> tuple[Tensor, ...]:
    """The same with q(z|x) given."""
    p = model.p()
    z = model.latent.hard_samples(q.rsample(noise.fold("posterior"), (particles,)))  # (K, B, D)
    everyone = x.unsqueeze(0).expand(particles, *x.shape).flatten(0, 1)
    distortion = -model.decode(z.flatten(0, 1)).log_prob(everyone).unflatten(0, z.shape[:2])
    rate = q.log_prob(z) - p.log_prob(z)
    bound = torch.logsumexp(-distortion - rate, 0) - math.log(particles)
    return bound, distortion.mean(0), rate.mean(0)


@spec
class IWAE(BaseObjective):
    """-log 1/K sum_k p(x, z_k) / q(z_k|x) with z_k ~ q(z|x).  [Burda2016] eq. 8.

    With one particle it is the negative ELBO on the sample. The decoder sees classes and bits
    rounded, straight through, whatever the block says: importance weights are of true samples.
    """

    particles: PositiveInt = 50
    kind: Literal["iwae"] = tag("iwae")

    @property
    def updates(self) -> tuple[Update, ...]:
        """The model moves."""
        return (Update(MODEL, self.play),)

    def play(self, nets: Nets, batch: Batch, noise: Noise, carry: Carry) -> tuple[Terms, Carry]:
        """The bound; distortion and rate are means over the particles, only reported."""
        raw = nets.model.raw(batch.x)
        q = nets.model.latent.posterior(raw)
        bound, distortion, rate = particle_bound(nets.model, q, batch.x, noise, self.particles)
        return {
            "distortion": Term(0.0, distortion.detach()),
            "rate": Term(0.0, rate.detach()),
            "bound": Term(1.0, -bound),
        }, {"raw": raw}
