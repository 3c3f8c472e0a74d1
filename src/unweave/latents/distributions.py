"""Small distributions over the columns of a latent block, sampled from noise that is passed in.

They work under `torch.func.vmap`, which those of `torch.distributions` do not all do. Shapes are
batch first: parameters and values are (..., D) and broadcast, so `q.log_prob(z[:, None])` of a
batch (B, D) of each is the matrix log q(z_i | x_j) of shape (B, B).
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Protocol, TypeVar

import torch
import torch.nn.functional as F
from torch import Tensor

from unweave.core.noise import Noise
from unweave.latents.quadrature import expectation

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


class Posterior(Distribution, Protocol):
    """A distribution whose entropy is known."""

    def entropy(self) -> Tensor:
        """-E[log q(z)], (...)."""
        ...


class Columns(ABC):
    """Independent variables of one column each: the joint is the product of the marginals."""

    @abstractmethod
    def log_marginals(self, z: Tensor) -> Tensor:
        """Log-density of every column, (..., D)."""

    def log_prob(self, z: Tensor) -> Tensor:
        """Joint log-density, (...)."""
        return self.log_marginals(z).sum(-1)


@dataclass(frozen=True)
class DiagonalGaussian(Columns):
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

    def log_marginals(self, z: Tensor) -> Tensor:
        """Log-density of every column, (..., D)."""
        standard = (z - self.loc) * torch.exp(-self.log_scale)
        return -0.5 * standard.square() - self.log_scale - HALF_LOG_2PI

    def cdf(self, z: Tensor) -> Tensor:
        """Distribution function of every column, (..., D)."""
        share: Tensor = torch.special.ndtr((z - self.loc) * torch.exp(-self.log_scale))
        return share

    def entropy(self) -> Tensor:
        """Sum of log scale + (1 + log 2 pi) / 2, (...)."""
        return (self.log_scale + (0.5 + HALF_LOG_2PI)).sum(-1)

    def cross(self, mean: Tensor, scale: Tensor) -> Tensor:
        """E[log p(z_j)] for z_j ~ N(mean, scale^2), for every column, (..., D)."""
        second = (mean - self.loc).square() + scale.square()
        return -0.5 * second * torch.exp(-2 * self.log_scale) - self.log_scale - HALF_LOG_2PI

    def kl(self, other: DiagonalGaussian) -> Tensor:
        """KL(self || other) of every column, (..., D).

        log(s_p / s_q) + (s_q^2 + (m_q - m_p)^2) / (2 s_p^2) - 1/2.  [Kingma2014] app. B.
        """
        ratio = 2 * (self.log_scale - other.log_scale)
        shift = (self.loc - other.loc) * torch.exp(-other.log_scale)
        return 0.5 * (torch.exp(ratio) + shift.square() - 1 - ratio)


@dataclass(frozen=True)
class FullGaussian:
    """N(z; loc, L L^T), with loc (..., D) and the lower triangular factor L (..., D, D)."""

    loc: Tensor
    factor: Tensor

    @property
    def mean(self) -> Tensor:
        """Expectation, (..., D)."""
        return self.loc

    @property
    def spread(self) -> Tensor:
        """Standard deviation of every column, (..., D)."""
        return self.factor.square().sum(-1).sqrt()

    @property
    def marginals(self) -> DiagonalGaussian:
        """The columns on their own."""
        return DiagonalGaussian(self.loc, 0.5 * self.factor.square().sum(-1).log())

    def rsample(self, noise: Noise, shape: Sequence[int] = ()) -> Tensor:
        """Mean + L eps with eps ~ N(0, I)."""
        eps = noise.normal((*shape, *self.loc.shape), "gaussian", self.loc.dtype)
        return self.loc + (self.factor @ eps.unsqueeze(-1)).squeeze(-1)

    def log_prob(self, z: Tensor) -> Tensor:
        """Joint log-density, (...)."""
        standard = _solve(self.factor, z - self.loc)
        return -0.5 * standard.square().sum(-1) - self._log_det - z.shape[-1] * HALF_LOG_2PI

    def log_marginals(self, z: Tensor) -> Tensor:
        """Log-density of every column on its own, (..., D)."""
        return self.marginals.log_marginals(z)

    def cdf(self, z: Tensor) -> Tensor:
        """Distribution function of every column on its own, (..., D)."""
        return self.marginals.cdf(z)

    def entropy(self) -> Tensor:
        """log det L + D (1 + log 2 pi) / 2, (...)."""
        return self._log_det + self.loc.shape[-1] * (0.5 + HALF_LOG_2PI)

    def kl(self, other: FullGaussian) -> Tensor:
        """KL(self || other), (...).

        log det L_p - log det L_q + (|L_p^-1 L_q|^2 + |L_p^-1 (m_q - m_p)|^2 - D) / 2.
        """
        ratio: Tensor = torch.linalg.solve_triangular(other.factor, self.factor, upper=False)
        spread = ratio.square().sum((-1, -2))
        shift = _solve(other.factor, self.loc - other.loc).square().sum(-1)
        size = self.loc.shape[-1]
        return other._log_det - self._log_det + 0.5 * (spread + shift - size)

    @property
    def _log_det(self) -> Tensor:
        return self.factor.diagonal(dim1=-2, dim2=-1).log().sum(-1)


def _solve(factor: Tensor, z: Tensor) -> Tensor:
    """L^-1 z of points (..., D)."""
    column: Tensor = torch.linalg.solve_triangular(factor, z.unsqueeze(-1), upper=False)
    return column.squeeze(-1)


@dataclass(frozen=True)
class Squashed(Columns):
    """z = low + (high - low) Phi(u) with u ~ N(loc, exp(log_scale)^2): on an interval.

    Phi, the distribution function of N(0, 1), takes N(0, I) to the uniform distribution, so a KL
    between two of these, or to the uniform distribution, is that of their u.
    """

    base: DiagonalGaussian
    low: float
    high: float

    @property
    def mean(self) -> Tensor:
        """Expectation, low + (high - low) Phi(m / sqrt(1 + s^2)), (..., D)."""
        u = self.base.loc / torch.sqrt(1 + self.base.spread.square())
        return self._place(u)

    @property
    def spread(self) -> Tensor:
        """Standard deviation, (high - low) sqrt(E[(Phi(u) - E[Phi(u)])^2]), (..., D)."""
        share = torch.special.ndtr(self.base.loc / torch.sqrt(1 + self.base.spread.square()))

        def deviation(u: Tensor) -> Tensor:
            distance: Tensor = torch.special.ndtr(u) - share.unsqueeze(-1)
            return distance.square()

        variance = expectation(deviation, self.base.loc, self.base.spread, (-math.inf, math.inf))
        spread: Tensor = (self.high - self.low) * variance.sqrt()
        return spread

    def rsample(self, noise: Noise, shape: Sequence[int] = ()) -> Tensor:
        """A sample of u, squashed."""
        return self._place(self.base.rsample(noise, shape))

    def log_marginals(self, z: Tensor) -> Tensor:
        """log N(u; loc, scale) - log N(u; 0, 1) - log(high - low), (..., D)."""
        u = unsquash(z, self.low, self.high)
        standard = -0.5 * u.square() - HALF_LOG_2PI
        return self.base.log_marginals(u) - standard - math.log(self.high - self.low)

    def entropy(self) -> Tensor:
        """H(u) + E[log N(u; 0, 1)] + D log(high - low), (...)."""
        second = self.base.loc.square() + self.base.spread.square()
        log_slope = -0.5 * second - HALF_LOG_2PI + math.log(self.high - self.low)
        return self.base.entropy() + log_slope.sum(-1)

    def _place(self, u: Tensor) -> Tensor:
        share: Tensor = torch.special.ndtr(u)
        return (self.low + (self.high - self.low) * share).clamp(self.low, self.high)


def unsquash(z: Tensor, low: float, high: float) -> Tensor:
    """The u with z = low + (high - low) Phi(u); ends of the interval are taken just inside."""
    eps = torch.finfo(z.dtype).eps
    u: Tensor = torch.special.ndtri(((z - low) / (high - low)).clamp(eps, 1 - eps))
    return u


@dataclass(frozen=True)
class OneHot:
    """One of K classes as a one-hot vector, relaxed to the simplex when sampled.

    The distribution is the categorical one: log p(z) = <z, log pi> is the log-mass of the class at
    the corners and linear between them, for posterior, prior and aggregate alike. Samples are
    softmax((log pi + gumbel) / temperature) [Jang2017] eq. 2; `hard` rounds them to the nearest
    corner and keeps the gradient.
    """

    log_probs: Tensor
    temperature: float
    hard: bool = False

    @property
    def mean(self) -> Tensor:
        """Probabilities of the classes, (..., K)."""
        return self.log_probs.exp()

    @property
    def spread(self) -> Tensor:
        """Standard deviation of each indicator, (..., K)."""
        p = self.mean
        return torch.sqrt(p * (1 - p))

    def rsample(self, noise: Noise, shape: Sequence[int] = ()) -> Tensor:
        """A relaxed or rounded one-hot vector, (*shape, ..., K)."""
        full = (*shape, *self.log_probs.shape)
        gumbel = -torch.log(-torch.log(noise.uniform(full, "gumbel", self.log_probs.dtype)))
        soft = torch.softmax((self.log_probs + gumbel) / self.temperature, -1)
        return one_hot_corner(soft) if self.hard else soft

    def log_prob(self, z: Tensor) -> Tensor:
        """<z, log pi>, (...)."""
        return (z * self.log_probs).sum(-1)

    def log_marginals(self, z: Tensor) -> Tensor:
        """The same: the classes are one variable, (..., 1)."""
        return self.log_prob(z).unsqueeze(-1)

    def entropy(self) -> Tensor:
        """-sum pi log pi, (...)."""
        return -(self.mean * self.log_probs).sum(-1)

    def kl(self, other: OneHot) -> Tensor:
        """sum pi log(pi / pi'), (...)."""
        return (self.mean * (self.log_probs - other.log_probs)).sum(-1)


@dataclass(frozen=True)
class Bits(Columns):
    """Independent zeros and ones with the given logits (..., D), relaxed when sampled.

    log p(z) = sum z log p + (1 - z) log(1 - p), the log-mass as hard samples. Samples are
    sigmoid((logit + logistic) / temperature)  [Maddison2017] app. B; `hard` rounds them.
    """

    logits: Tensor
    temperature: float
    hard: bool = False

    @property
    def mean(self) -> Tensor:
        """Probability of a one, (..., D)."""
        return torch.sigmoid(self.logits)

    @property
    def spread(self) -> Tensor:
        """Standard deviation, (..., D)."""
        return torch.sqrt(self.mean * torch.sigmoid(-self.logits))

    def rsample(self, noise: Noise, shape: Sequence[int] = ()) -> Tensor:
        """Relaxed or rounded zeros and ones, (*shape, ..., D)."""
        u = noise.uniform((*shape, *self.logits.shape), "logistic", self.logits.dtype)
        soft = torch.sigmoid((self.logits + torch.logit(u)) / self.temperature)
        return bit_corner(soft) if self.hard else soft

    def log_marginals(self, z: Tensor) -> Tensor:
        """z log p + (1 - z) log(1 - p), (..., D)."""
        return z * F.logsigmoid(self.logits) + (1 - z) * F.logsigmoid(-self.logits)

    def entropy(self) -> Tensor:
        """Sum of the entropies of the bits, (...)."""
        return -self.log_marginals(self.mean).sum(-1)

    def kl(self, other: Bits) -> Tensor:
        """KL of every bit, (..., D)."""
        return self.log_marginals(self.mean) - other.log_marginals(self.mean)


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
        return torch.stack([p.log_prob(part) for p, part in self.split(z)]).sum(0)

    def log_marginals(self, z: Tensor) -> Tensor:
        """The parts' marginals side by side, (..., V)."""
        return torch.cat([p.log_marginals(part) for p, part in self.split(z)], -1)

    def entropy(self) -> Tensor:
        """Sum of the parts' entropies, (...)."""
        return torch.stack([p.entropy() for p in self.parts.values()]).sum(0)  # type: ignore[attr-defined]

    def with_hard_samples(self) -> Joint:
        """The same with samples of discrete variables as hard samples."""
        return Joint(
            {name: with_hard_samples(part) for name, part in self.parts.items()}, self.sizes
        )

    def split(self, z: Tensor) -> list[tuple[Distribution, Tensor]]:
        """Every part with its columns of z."""
        return list(zip(self.parts.values(), z.split(self.sizes, -1), strict=True))


def one_hot_corner(soft: Tensor) -> Tensor:
    """The nearest one-hot vector, with the gradient of the relaxed one (straight through)."""
    return _through(soft, F.one_hot(soft.argmax(-1), soft.shape[-1]).to(soft.dtype))


def bit_corner(soft: Tensor) -> Tensor:
    """The nearest zeros and ones, with the gradient of the relaxed ones (straight through)."""
    return _through(soft, (soft > 0.5).to(soft.dtype))


def _through(soft: Tensor, corner: Tensor) -> Tensor:
    return corner + (soft - soft.detach())


def log_tables(d: Distribution, z: Tensor) -> tuple[Tensor, Tensor]:
    """log q(z_s|x_n) for points z (S, D) and a batch of N: joint (S, N), of variables (S, V, N).

    The batch comes last, where a sum over it is fast.
    """
    if not isinstance(d, DiagonalGaussian):
        return d.log_prob(z[:, None]), d.log_marginals(z[:, None]).movedim(-1, 1)
    # log q = constant - u^2 with u = (z - loc) / (sqrt(2) scale): two passes over the table.
    loc, log_scale = d.loc.mT.contiguous(), d.log_scale.mT.contiguous()
    inverse = torch.exp(-log_scale) * math.sqrt(0.5)
    u = torch.addcmul(-loc * inverse, z.unsqueeze(-1), inverse)
    each = torch.addcmul(-log_scale - HALF_LOG_2PI, u, u, value=-1)
    return each.sum(1), each


def log_sum(x: Tensor) -> Tensor:
    """log sum exp over the last axis, (..., N) to (...).

    What is e^-80 of the largest and less is taken as e^-80 of it, so that no number is subnormal,
    which makes processors ten times as slow; the sum changes by less than N e^-80 of itself.
    """
    top = x.amax(-1, keepdim=True).clamp(min=torch.finfo(x.dtype).min)
    total = (x - top).clamp(min=-80.0).exp().sum(-1).log() + top.squeeze(-1)
    return torch.where(torch.isneginf(x.amax(-1)), -torch.inf, total)


def with_hard_samples(d: Distribution) -> Distribution:
    """The same distribution, but its discrete variables give hard samples."""
    if isinstance(d, Joint):
        return d.with_hard_samples()
    return replace(d, hard=True) if isinstance(d, (OneHot, Bits)) else d


T = TypeVar("T")


def rows(d: T, index: slice | Tensor) -> T:
    """The distributions at some places of the first axis of a batch of them."""
    return type(d)(**{f.name: _taken(getattr(d, f.name), index) for f in fields(d)})  # type: ignore[arg-type]


def _taken(value: Any, index: slice | Tensor) -> Any:
    if isinstance(value, Tensor):
        return value[index]
    if isinstance(value, Mapping):
        return {name: _taken(part, index) for name, part in value.items()}
    return rows(value, index) if hasattr(value, "__dataclass_fields__") else value
