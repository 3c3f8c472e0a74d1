"""Densities of priors that are not normal: independent columns, and mixtures.

A density with independent columns knows `cross(mean, scale)`, the expectation of its logarithm
under a normal distribution, which is what a rate needs beside the entropy of the posterior.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import torch
import torch.nn.functional as F
from torch import Tensor

from unweave.core.noise import Noise
from unweave.latents.distributions import (
    HALF_LOG_2PI,
    Columns,
    DiagonalGaussian,
    Distribution,
    FullGaussian,
)
from unweave.latents.quadrature import expectation


class Factorised(Distribution, Protocol):
    """A distribution with independent columns that a Gaussian posterior can be held against."""

    def cross(self, mean: Tensor, scale: Tensor) -> Tensor:
        """E[log p(z_j)] for z_j ~ N(mean, scale^2), for every column, (..., D)."""
        ...


@dataclass(frozen=True)
class Centred(Columns):
    """Independent columns around 0."""

    zero: Tensor  # (D,), gives size, type and device

    @property
    def mean(self) -> Tensor:
        """The centre, 0: the expectation, or the median where there is none, (D,)."""
        return self.zero


class HalfStep(NamedTuple):
    """log Gamma(x + 1/2) - log Gamma(x), and its derivative by x."""

    value: float
    slope: float


def half_step(x: float) -> HalfStep:
    """The step of log Gamma by a half, by its series where the difference would lose digits.

    >>> round(half_step(1.0).value, 12), half_step(1e15).value - 0.5 * math.log(1e15)
    (-0.120782237635, 0.0)
    """
    if x < 1e3:
        psi = torch.special.digamma(torch.tensor([x + 0.5, x], dtype=torch.float64))
        return HalfStep(math.lgamma(x + 0.5) - math.lgamma(x), (psi[0] - psi[1]).item())
    return HalfStep(
        0.5 * math.log(x) - 1 / (8 * x) + 1 / (192 * x**3),
        1 / (2 * x) + 1 / (8 * x**2) - 1 / (64 * x**4),
    )


@dataclass(frozen=True)
class StudentDensity(Centred):
    """Independent Student-t columns: t = z / scale has df degrees of freedom."""

    df: float
    scale: float

    @property
    def spread(self) -> Tensor:
        """Standard deviation; where df <= 2 it is infinite, (D,)."""
        variance = self.df / (self.df - 2) if self.df > 2 else math.inf
        return self.zero + self.scale * math.sqrt(variance)

    def rsample(self, noise: Noise, shape: Sequence[int] = ()) -> Tensor:
        """scale sqrt(df (u^(-2/df) - 1)) cos(2 pi v) for uniform u, v.  [Bailey1994]."""
        full = (*shape, *self.zero.shape)
        u = noise.uniform(full, "radius", self.zero.dtype)
        v = noise.uniform(full, "angle", self.zero.dtype)
        radius = torch.sqrt(self.df * torch.expm1(-2 / self.df * torch.log(u)))
        # Below half a degree of freedom the farthest draws leave the range of float32.
        radius = radius.clamp(max=torch.finfo(u.dtype).max / 1e3)
        return self.scale * radius * torch.cos(2 * math.pi * v)

    def log_marginals(self, z: Tensor) -> Tensor:
        """Log-density of every column, (..., D)."""
        return self._constant - 0.5 * (self.df + 1) * self._log_tail(z)

    def cdf(self, z: Tensor) -> Tensor:
        """Distribution function of every column, without a gradient, (..., D)."""
        from scipy.special import stdtr

        share = stdtr(self.df, (z.detach().double() / self.scale).cpu().numpy())
        return torch.as_tensor(share, dtype=z.dtype, device=z.device)

    def cross(self, mean: Tensor, scale: Tensor) -> Tensor:
        """E[log p(z_j)] under N(mean, scale^2), (..., D)."""
        # From where it bends to where it is a logarithm, over three decades.
        near, far = (c * self.scale * math.sqrt(self.df) for c in (3, 30))
        edges = (-math.inf, -far, -near, 0.0, near, far, math.inf)
        tail = expectation(self._log_tail, mean, scale, edges)
        return self._constant - 0.5 * (self.df + 1) * tail

    def _log_tail(self, z: Tensor) -> Tensor:
        """log(1 + t^2 / df), without overflow."""
        ratio = z.abs() / (self.scale * math.sqrt(self.df))
        return torch.where(
            ratio > 1e4, 2 * torch.log(ratio.clamp(min=1e4)), torch.log1p(ratio.clamp(max=1e4) ** 2)
        )

    @property
    def _constant(self) -> float:
        ratio = half_step(self.df / 2).value
        return ratio - 0.5 * math.log(math.pi * self.df) - math.log(self.scale)


@dataclass(frozen=True)
class LaplaceDensity(Centred):
    """Independent Laplace columns: log p = -|z| / scale - log(2 scale)."""

    scale: float

    @property
    def spread(self) -> Tensor:
        """Standard deviation, sqrt(2) scale, (D,)."""
        return self.zero + math.sqrt(2) * self.scale

    def rsample(self, noise: Noise, shape: Sequence[int] = ()) -> Tensor:
        """By the inverse of the distribution function."""
        u = noise.uniform((*shape, *self.zero.shape), "laplace", self.zero.dtype) - 0.5
        return -self.scale * torch.sign(u) * torch.log1p(-2 * u.abs())

    def log_marginals(self, z: Tensor) -> Tensor:
        """Log-density of every column, (..., D)."""
        return -z.abs() / self.scale - math.log(2 * self.scale)

    def cdf(self, z: Tensor) -> Tensor:
        """Distribution function of every column, (..., D)."""
        tail = 0.5 * torch.exp(-z.abs() / self.scale)
        return torch.where(z < 0, tail, 1 - tail)

    def cross(self, mean: Tensor, scale: Tensor) -> Tensor:
        """-E|z| / b - log 2 b, with E|z| that of a folded normal, (..., D)."""
        ratio = mean / scale.clamp(min=torch.finfo(scale.dtype).tiny)
        folded = scale * math.sqrt(2 / math.pi) * torch.exp(-0.5 * ratio.square())
        folded = folded + mean * torch.erf(ratio / math.sqrt(2))
        return -folded / self.scale - math.log(2 * self.scale)


@dataclass(frozen=True)
class SparseDensity(Centred):
    """Independent columns: weight N(z; 0, spike^2) + (1 - weight) N(z; 0, 1), 0 < weight < 1."""

    weight: float
    spike: float

    @property
    def spread(self) -> Tensor:
        """Standard deviation, (D,)."""
        return self.zero + math.sqrt(self.weight * self.spike**2 + 1 - self.weight)

    def rsample(self, noise: Noise, shape: Sequence[int] = ()) -> Tensor:
        """A normal draw from one of the two."""
        full = (*shape, *self.zero.shape)
        on = noise.uniform(full, "on", self.zero.dtype) > self.weight
        eps = noise.normal(full, "normal", self.zero.dtype)
        return torch.where(on, eps, self.spike * eps)

    def log_marginals(self, z: Tensor) -> Tensor:
        """Log-density of every column, (..., D)."""
        return self._log_slab(z.square()) + self._log_excess(z)

    def cdf(self, z: Tensor) -> Tensor:
        """Distribution function of every column, (..., D)."""
        both = torch.special.ndtr(torch.stack([z / self.spike, z], -1))
        share: Tensor = both @ both.new_tensor([self.weight, 1 - self.weight])
        return share

    def cross(self, mean: Tensor, scale: Tensor) -> Tensor:
        """E[log p(z_j)]: closed form for the wide part, quadrature where the spike is seen."""
        start, stop = self._reach
        edges = (-stop, -start, start, stop)
        excess = expectation(self._log_excess, mean, scale, edges)
        return self._log_slab(mean.square() + scale.square()) + excess

    def _log_slab(self, square: Tensor) -> Tensor:
        return math.log1p(-self.weight) - HALF_LOG_2PI - 0.5 * square

    def _log_excess(self, z: Tensor) -> Tensor:
        """log(1 + spike part / wide part) = softplus(height - steepness z^2)."""
        return F.softplus(self._height - self._steepness * z.square())

    @property
    def _height(self) -> float:
        return math.log(self.weight) - math.log1p(-self.weight) - math.log(self.spike)

    @property
    def _steepness(self) -> float:
        return 0.5 * (self.spike**-2 - 1)

    @property
    def _reach(self) -> tuple[float, float]:
        """Where the two parts are equal, and where the spike is e^-40 of the wide part."""
        crossing = math.sqrt(max(self._height, 0.0) / self._steepness)
        return crossing, math.sqrt(max(self._height + 40.0, 40.0) / self._steepness)


@dataclass(frozen=True)
class UniformDensity(Columns):
    """Independent uniform columns on (low, high)."""

    zero: Tensor
    low: float
    high: float

    @property
    def mean(self) -> Tensor:
        """The middle, (D,)."""
        return self.zero + 0.5 * (self.low + self.high)

    @property
    def spread(self) -> Tensor:
        """Standard deviation, (high - low) / sqrt 12, (D,)."""
        return self.zero + (self.high - self.low) / math.sqrt(12)

    def rsample(self, noise: Noise, shape: Sequence[int] = ()) -> Tensor:
        """Uniform draws."""
        u = noise.uniform((*shape, *self.zero.shape), "uniform", self.zero.dtype)
        return self.low + (self.high - self.low) * u

    def log_marginals(self, z: Tensor) -> Tensor:
        """-log(high - low) inside, minus infinity outside, (..., D)."""
        inside = (z >= self.low) & (z <= self.high)
        level = torch.full_like(z, -math.log(self.high - self.low))
        return torch.where(inside, level, -math.inf)

    def cdf(self, z: Tensor) -> Tensor:
        """Distribution function of every column, (..., D)."""
        return ((z - self.low) / (self.high - self.low)).clamp(0, 1)

    def cross(self, mean: Tensor, scale: Tensor) -> Tensor:
        """Minus infinity: a normal distribution has mass outside, (..., D)."""
        return torch.full_like(mean + scale, -math.inf)


@dataclass(frozen=True)
class Mixture:
    """sum_c pi_c N(z; loc_c, .) with components of batch shape (K,) and log pi of shape (K,)."""

    components: DiagonalGaussian | FullGaussian
    log_weights: Tensor

    @property
    def mean(self) -> Tensor:
        """Expectation, (D,)."""
        return (self._weights * self.components.mean).sum(-2)

    @property
    def spread(self) -> Tensor:
        """Standard deviation, (D,)."""
        second = self.components.mean.square() + self.components.spread.square()
        variance = (self._weights * second).sum(-2) - self.mean.square()
        return variance.clamp(min=0).sqrt()

    def rsample(self, noise: Noise, shape: Sequence[int] = ()) -> Tensor:
        """A draw of every component, of which one is kept."""
        everyone = self.components.rsample(noise, shape)  # (*shape, K, D)
        u = noise.uniform((*shape, 1), "component", everyone.dtype)
        chosen = (u > self._weights[..., 0].cumsum(-1)[:-1]).sum(-1, keepdim=True)
        index = torch.arange(everyone.shape[-2], device=everyone.device)
        return torch.where((index == chosen).unsqueeze(-1), everyone, 0).sum(-2)

    def log_prob(self, z: Tensor) -> Tensor:
        """log sum_c pi_c N(z; c), (...)."""
        return torch.logsumexp(self.log_weights + self.components.log_prob(z.unsqueeze(-2)), -1)

    def log_marginals(self, z: Tensor) -> Tensor:
        """log sum_c pi_c N(z_j; c), (..., D)."""
        each = self.components.log_marginals(z.unsqueeze(-2))
        return torch.logsumexp(self.log_weights.unsqueeze(-1) + each, -2)

    def cdf(self, z: Tensor) -> Tensor:
        """Distribution function of every column on its own, (..., D)."""
        return (self._weights * self.components.cdf(z.unsqueeze(-2))).sum(-2)

    @property
    def _weights(self) -> Tensor:
        return self.log_weights.exp().unsqueeze(-1)
