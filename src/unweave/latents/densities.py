"""Densities of priors that are not normal: independent columns, and mixtures.

Densities with independent columns offer `expected_log_prob(mean, scale)`, E[log p(z)] under a
normal distribution. With the entropy of the posterior it gives the rate.
"""

import math
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import torch
import torch.nn.functional as F
from torch import Tensor

from unweave.core.noise import Noise
from unweave.latents.distributions import (
    HALF_LOG_2PI,
    DiagonalGaussian,
    Distribution,
    FullGaussian,
    IndependentColumns,
)
from unweave.latents.quadrature import expectation


class FactorisedPrior(Distribution, Protocol):
    """A prior with independent columns and a known cross-entropy to normal distributions."""

    @abstractmethod
    def expected_log_prob(self, mean: Tensor, scale: Tensor) -> Tensor:
        """Compute E[log p(z_j)] for z_j ~ N(mean, scale^2), for every column, (..., D)."""


@dataclass(frozen=True)
class CentredColumns(IndependentColumns):
    """Independent columns around 0."""

    zero: Tensor  # (D,), sets the size, type and device

    @property
    def mean(self) -> Tensor:
        """The centre, 0: the expectation, or the median where there is none, (D,)."""
        return self.zero


class HalfStep(NamedTuple):
    """The value of log Gamma(x + 1/2) - log Gamma(x), and its derivative with respect to x."""

    value: float
    slope: float


def log_gamma_half_step(x: float) -> HalfStep:
    """Compute log Gamma(x + 1/2) - log Gamma(x), for large x by a series that keeps digits.

    >>> round(log_gamma_half_step(1.0).value, 12)
    -0.120782237635
    >>> log_gamma_half_step(1e15).value - 0.5 * math.log(1e15)
    0.0
    """
    if x < 1e3:
        psi = torch.special.digamma(torch.tensor([x + 0.5, x], dtype=torch.float64))
        return HalfStep(math.lgamma(x + 0.5) - math.lgamma(x), (psi[0] - psi[1]).item())
    return HalfStep(
        0.5 * math.log(x) - 1 / (8 * x) + 1 / (192 * x**3),
        1 / (2 * x) + 1 / (8 * x**2) - 1 / (64 * x**4),
    )


@dataclass(frozen=True)
class StudentDensity(CentredColumns):
    """Independent Student-t columns: t = z / scale has df degrees of freedom."""

    df: float
    scale: float

    @property
    def stddev(self) -> Tensor:
        """Standard deviation, infinite for df <= 2, (D,)."""
        variance = self.df / (self.df - 2) if self.df > 2 else math.inf
        return self.zero + self.scale * math.sqrt(variance)

    def rsample(self, noise: Noise, shape: Sequence[int] = ()) -> Tensor:
        """Draw scale sqrt(df (u^(-2/df) - 1)) cos(2 pi v) for uniform u, v.  [Bailey1994]."""
        full = (*shape, *self.zero.shape)
        u = noise.uniform(full, "radius", self.zero.dtype)
        v = noise.uniform(full, "angle", self.zero.dtype)
        radius = torch.sqrt(self.df * torch.expm1(-2 / self.df * torch.log(u)))
        # Below half a degree of freedom the most extreme samples overflow float32.
        radius = radius.clamp(max=torch.finfo(u.dtype).max / 1e3)
        return self.scale * radius * torch.cos(2 * math.pi * v)

    def log_marginals(self, z: Tensor) -> Tensor:
        return self._constant - 0.5 * (self.df + 1) * self._log_tail(z)

    def cdf(self, z: Tensor) -> Tensor:
        """Compute the cdf of every column, without a gradient, (..., D)."""
        from scipy.special import stdtr

        share = stdtr(self.df, (z.detach().double() / self.scale).cpu().numpy())
        return torch.as_tensor(share, dtype=z.dtype, device=z.device)

    def expected_log_prob(self, mean: Tensor, scale: Tensor) -> Tensor:
        """Compute E[log p(z_j)] under N(mean, scale^2) by quadrature, (..., D)."""
        # Panels end where the log-density bends, and where it has become a logarithm.
        near, far = (c * self.scale * math.sqrt(self.df) for c in (3, 30))
        edges = (-math.inf, -far, -near, 0.0, near, far, math.inf)
        tail = expectation(self._log_tail, mean, scale, edges)
        return self._constant - 0.5 * (self.df + 1) * tail

    def _log_tail(self, z: Tensor) -> Tensor:
        """Compute log(1 + t^2 / df) without overflow."""
        ratio = z.abs() / (self.scale * math.sqrt(self.df))
        return torch.where(
            ratio > 1e4, 2 * torch.log(ratio.clamp(min=1e4)), torch.log1p(ratio.clamp(max=1e4) ** 2)
        )

    @property
    def _constant(self) -> float:
        ratio = log_gamma_half_step(self.df / 2).value
        return ratio - 0.5 * math.log(math.pi * self.df) - math.log(self.scale)


@dataclass(frozen=True)
class LaplaceDensity(CentredColumns):
    """Independent Laplace columns: log p = -|z| / scale - log(2 scale)."""

    scale: float

    @property
    def stddev(self) -> Tensor:
        """Standard deviation, sqrt(2) scale, (D,)."""
        return self.zero + math.sqrt(2) * self.scale

    def rsample(self, noise: Noise, shape: Sequence[int] = ()) -> Tensor:
        u = noise.uniform((*shape, *self.zero.shape), "laplace", self.zero.dtype) - 0.5
        return -self.scale * torch.sign(u) * torch.log1p(-2 * u.abs())

    def log_marginals(self, z: Tensor) -> Tensor:
        return -z.abs() / self.scale - math.log(2 * self.scale)

    def cdf(self, z: Tensor) -> Tensor:
        """Compute the cdf of every column, (..., D)."""
        tail = 0.5 * torch.exp(-z.abs() / self.scale)
        return torch.where(z < 0, tail, 1 - tail)

    def expected_log_prob(self, mean: Tensor, scale: Tensor) -> Tensor:
        """Compute -E|z| / b - log 2 b, with E|z| of a folded normal, (..., D)."""
        ratio = mean / scale.clamp(min=torch.finfo(scale.dtype).tiny)
        folded = scale * math.sqrt(2 / math.pi) * torch.exp(-0.5 * ratio.square())
        folded = folded + mean * torch.erf(ratio / math.sqrt(2))
        return -folded / self.scale - math.log(2 * self.scale)


@dataclass(frozen=True)
class SparseDensity(CentredColumns):
    """Independent columns: weight N(z; 0, spike^2) + (1 - weight) N(z; 0, 1), 0 < weight < 1."""

    weight: float
    spike: float

    @property
    def stddev(self) -> Tensor:
        return self.zero + math.sqrt(self.weight * self.spike**2 + 1 - self.weight)

    def rsample(self, noise: Noise, shape: Sequence[int] = ()) -> Tensor:
        full = (*shape, *self.zero.shape)
        on = noise.uniform(full, "on", self.zero.dtype) > self.weight
        eps = noise.normal(full, "normal", self.zero.dtype)
        return torch.where(on, eps, self.spike * eps)

    def log_marginals(self, z: Tensor) -> Tensor:
        return self._log_slab(z.square()) + self._log_excess(z)

    def cdf(self, z: Tensor) -> Tensor:
        """Compute the cdf of every column, (..., D)."""
        both = torch.special.ndtr(torch.stack([z / self.spike, z], -1))
        share: Tensor = both @ both.new_tensor([self.weight, 1 - self.weight])
        return share

    def expected_log_prob(self, mean: Tensor, scale: Tensor) -> Tensor:
        """Compute E[log p(z_j)]: the slab in closed form, the spike by quadrature, (..., D)."""
        start, stop = self._spike_edges
        edges = (-stop, -start, start, stop)
        excess = expectation(self._log_excess, mean, scale, edges)
        return self._log_slab(mean.square() + scale.square()) + excess

    def _log_slab(self, square: Tensor) -> Tensor:
        return math.log1p(-self.weight) - HALF_LOG_2PI - 0.5 * square

    def _log_excess(self, z: Tensor) -> Tensor:
        """Compute log(1 + spike / slab) = softplus(height - steepness z^2)."""
        return F.softplus(self._height - self._steepness * z.square())

    @property
    def _height(self) -> float:
        return math.log(self.weight) - math.log1p(-self.weight) - math.log(self.spike)

    @property
    def _steepness(self) -> float:
        return 0.5 * (self.spike**-2 - 1)

    @property
    def _spike_edges(self) -> tuple[float, float]:
        """Where spike and slab are equal, and where the spike is e^-40 of the slab."""
        crossing = math.sqrt(max(self._height, 0.0) / self._steepness)
        return crossing, math.sqrt(max(self._height + 40.0, 40.0) / self._steepness)


@dataclass(frozen=True)
class UniformDensity(IndependentColumns):
    """Independent uniform columns on (low, high)."""

    zero: Tensor
    low: float
    high: float

    @property
    def mean(self) -> Tensor:
        return self.zero + 0.5 * (self.low + self.high)

    @property
    def stddev(self) -> Tensor:
        """Standard deviation, (high - low) / sqrt 12, (D,)."""
        return self.zero + (self.high - self.low) / math.sqrt(12)

    def rsample(self, noise: Noise, shape: Sequence[int] = ()) -> Tensor:
        u = noise.uniform((*shape, *self.zero.shape), "uniform", self.zero.dtype)
        return self.low + (self.high - self.low) * u

    def log_marginals(self, z: Tensor) -> Tensor:
        """Return -log(high - low) inside the interval and minus infinity outside, (..., D)."""
        inside = (z >= self.low) & (z <= self.high)
        level = torch.full_like(z, -math.log(self.high - self.low))
        return torch.where(inside, level, -math.inf)

    def cdf(self, z: Tensor) -> Tensor:
        """Compute the cdf of every column, (..., D)."""
        return ((z - self.low) / (self.high - self.low)).clamp(0, 1)

    def expected_log_prob(self, mean: Tensor, scale: Tensor) -> Tensor:
        """Return minus infinity: a normal distribution has mass outside, (..., D)."""
        return torch.full_like(mean + scale, -math.inf)


@dataclass(frozen=True)
class Mixture(Distribution):
    """sum_c pi_c N(z; loc_c, .) with components of batch shape (K,) and log pi of shape (K,)."""

    components: DiagonalGaussian | FullGaussian
    log_weights: Tensor

    @property
    def mean(self) -> Tensor:
        return (self._weights * self.components.mean).sum(-2)

    @property
    def stddev(self) -> Tensor:
        second = self.components.mean.square() + self.components.stddev.square()
        variance = (self._weights * second).sum(-2) - self.mean.square()
        return variance.clamp(min=0).sqrt()

    def rsample(self, noise: Noise, shape: Sequence[int] = ()) -> Tensor:
        """Draw from every component and keep one of the samples."""
        samples = self.components.rsample(noise, shape)  # (*shape, K, D)
        u = noise.uniform((*shape, 1), "component", samples.dtype)
        chosen = (u > self._weights[..., 0].cumsum(-1)[:-1]).sum(-1, keepdim=True)
        index = torch.arange(samples.shape[-2], device=samples.device)
        return torch.where((index == chosen).unsqueeze(-1), samples, 0).sum(-2)

    def log_prob(self, z: Tensor) -> Tensor:
        """Compute log sum_c pi_c N(z; c), (...)."""
        return torch.logsumexp(self.log_weights + self.components.log_prob(z.unsqueeze(-2)), -1)

    def log_marginals(self, z: Tensor) -> Tensor:
        """Compute log sum_c pi_c N(z_j; c), (..., D)."""
        each = self.components.log_marginals(z.unsqueeze(-2))
        return torch.logsumexp(self.log_weights.unsqueeze(-1) + each, -2)

    def cdf(self, z: Tensor) -> Tensor:
        """Compute the cdf of every column on its own, (..., D)."""
        return (self._weights * self.components.cdf(z.unsqueeze(-2))).sum(-2)

    @property
    def _weights(self) -> Tensor:
        return self.log_weights.exp().unsqueeze(-1)
