"""Small distributions over the columns of a latent block, sampled from noise that is passed in.

They work under `torch.func.vmap`, which those of `torch.distributions` do not all do. Shapes are
batch first: parameters and values are (..., D) and broadcast, so `q.log_prob(z[:, None])` of a
batch (B, D) of each is the matrix log q(z_i | x_j) of shape (B, B).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from unweave.noise import Noise

HALF_LOG_2PI = 0.5 * math.log(2 * math.pi)


class Distribution(Protocol):
    """A distribution over z of shape (..., D), made of V variables (a one-hot group is one)."""

    @property
    def mean(self) -> Tensor:
        """Expectation, (..., D)."""
        ...

    @property
    def spread(self) -> Tensor:
        """Standard deviation of every column, (..., D)."""
        ...

    def rsample(self, noise: Noise, shape: Sequence[int] = ()) -> Tensor:
        """A reparameterised sample (*shape, ..., D)."""
        ...

    def log_prob(self, z: Tensor) -> Tensor:
        """Joint log-density, (...)."""
        ...

    def log_marginals(self, z: Tensor) -> Tensor:
        """Log-density of every variable on its own, (..., V)."""
        ...


@dataclass(frozen=True)
class DiagonalGaussian:
    """N(z; mean, diag(exp(log_scale))^2), with mean and log_scale of shape (..., D)."""

    loc: Tensor
    log_scale: Tensor

    @property
    def mean(self) -> Tensor:
        """Expectation, (..., D)."""
        return self.loc

    @property
    def spread(self) -> Tensor:
        """Standard deviation, (..., D)."""
        return torch.exp(self.log_scale)

    def rsample(self, noise: Noise, shape: Sequence[int] = ()) -> Tensor:
        """Mean + scale * eps with eps ~ N(0, I).  [Kingma2014] sec. 2.4."""
        eps = noise.normal((*shape, *self.loc.shape), "gaussian", self.loc.dtype)
        return self.loc + self.spread * eps

    def log_prob(self, z: Tensor) -> Tensor:
        """Joint log-density, (...)."""
        return self.log_marginals(z).sum(-1)

    def log_marginals(self, z: Tensor) -> Tensor:
        """Log-density of every column, (..., D)."""
        standard = (z - self.loc) * torch.exp(-self.log_scale)
        return -0.5 * standard.square() - self.log_scale - HALF_LOG_2PI

    def kl(self, other: DiagonalGaussian) -> Tensor:
        """KL(self || other) of every column, (..., D).

        log(s_p / s_q) + (s_q^2 + (m_q - m_p)^2) / (2 s_p^2) - 1/2.  [Kingma2014] app. B.
        """
        ratio = 2 * (self.log_scale - other.log_scale)
        shift = (self.loc - other.loc) * torch.exp(-other.log_scale)
        return 0.5 * (torch.exp(ratio) + shift.square() - 1 - ratio)


@dataclass(frozen=True)
class Joint:
    """Independent parts side by side: prod_g p_g(z_g), columns in the order of the parts."""

    parts: Mapping[str, Distribution]
    sizes: tuple[int, ...]

    @property
    def mean(self) -> Tensor:
        """Expectation, (..., D)."""
        return torch.cat([part.mean for part in self.parts.values()], -1)

    @property
    def spread(self) -> Tensor:
        """Standard deviation, (..., D)."""
        return torch.cat([part.spread for part in self.parts.values()], -1)

    def rsample(self, noise: Noise, shape: Sequence[int] = ()) -> Tensor:
        """A sample of every part, each from a stream of its own."""
        samples = [part.rsample(noise.fold(name), shape) for name, part in self.parts.items()]
        return torch.cat(samples, -1)

    def log_prob(self, z: Tensor) -> Tensor:
        """Sum of the parts' joint log-densities, (...)."""
        return torch.stack([p.log_prob(part) for p, part in self._pairs(z)]).sum(0)

    def log_marginals(self, z: Tensor) -> Tensor:
        """The parts' marginals side by side, (..., V)."""
        return torch.cat([p.log_marginals(part) for p, part in self._pairs(z)], -1)

    def _pairs(self, z: Tensor) -> list[tuple[Distribution, Tensor]]:
        return list(zip(self.parts.values(), z.split(self.sizes, -1), strict=True))
