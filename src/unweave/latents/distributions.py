"""Distributions over the columns of a latent block.

Unlike those of `torch.distributions`, all of them work under `torch.func.vmap` and are sampled from
noise that the caller passes. Parameters and values have shape (..., D) and broadcast, so for a
batch (B, D) of each `q.log_prob(z[:, None])` is the matrix log q(z_i | x_j), (B, B).
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Protocol, Self, TypeVar

import torch
import torch.nn.functional as F
from torch import Tensor

from unweave.core.noise import Noise
from unweave.latents.quadrature import expectation

HALF_LOG_2PI = 0.5 * math.log(2 * math.pi)


class Distribution(Protocol):
    """A distribution over z of shape (..., D) with V variables (a one-hot group is one variable).

    Implementations are dataclasses whose tensor fields have the batch dimensions first, so that
    `rows` can select from a batch.
    """

    @property
    @abstractmethod
    def mean(self) -> Tensor:
        """Expectation, (..., D)."""

    @property
    @abstractmethod
    def stddev(self) -> Tensor:
        """Standard deviation of every column, (..., D)."""

    @abstractmethod
    def rsample(self, noise: Noise, shape: Sequence[int] = ()) -> Tensor:
        """Draw a reparameterised sample, (*shape, ..., D)."""

    @abstractmethod
    def log_prob(self, z: Tensor) -> Tensor:
        """Compute the joint log-density, (...)."""

    @abstractmethod
    def log_marginals(self, z: Tensor) -> Tensor:
        """Compute the log-density of every variable on its own, (..., V)."""


class Posterior(Distribution, Protocol):
    """A distribution with a known entropy."""

    @abstractmethod
    def entropy(self) -> Tensor:
        """Compute -E[log q(z)], (...)."""


class IndependentColumns(Distribution):
    """Independent variables of one column each; subclasses write `log_marginals`."""

    def log_prob(self, z: Tensor) -> Tensor:
        return self.log_marginals(z).sum(-1)


@dataclass(frozen=True)
class DiagonalGaussian(IndependentColumns):
    """N(z; mean, diag(exp(log_scale))^2), with mean and log_scale of shape (..., D)."""

    loc: Tensor
    log_scale: Tensor

    @property
    def mean(self) -> Tensor:
        return self.loc

    @property
    def stddev(self) -> Tensor:
        return torch.exp(self.log_scale)

    def rsample(self, noise: Noise, shape: Sequence[int] = ()) -> Tensor:
        """Draw mean + scale * eps with eps ~ N(0, I).  [Kingma2014] sec. 2.4."""
        eps = noise.normal((*shape, *self.loc.shape), "gaussian", self.loc.dtype)
        return self.loc + self.stddev * eps

    def log_marginals(self, z: Tensor) -> Tensor:
        standard = (z - self.loc) * torch.exp(-self.log_scale)
        return -0.5 * standard.square() - self.log_scale - HALF_LOG_2PI

    def cdf(self, z: Tensor) -> Tensor:
        """Compute the cdf of every column, (..., D)."""
        share: Tensor = torch.special.ndtr((z - self.loc) * torch.exp(-self.log_scale))
        return share

    def entropy(self) -> Tensor:
        """Compute the sum of log scale + (1 + log 2 pi) / 2, (...)."""
        return (self.log_scale + (0.5 + HALF_LOG_2PI)).sum(-1)

    def expected_log_prob(self, mean: Tensor, scale: Tensor) -> Tensor:
        """Compute E[log p(z_j)] for z_j ~ N(mean, scale^2), for every column, (..., D)."""
        second = (mean - self.loc).square() + scale.square()
        return -0.5 * second * torch.exp(-2 * self.log_scale) - self.log_scale - HALF_LOG_2PI

    def kl(self, other: DiagonalGaussian) -> Tensor:
        """Compute KL(self || other) of every column, (..., D).

        log(s_p / s_q) + (s_q^2 + (m_q - m_p)^2) / (2 s_p^2) - 1/2.  [Kingma2014] app. B.
        """
        ratio = 2 * (self.log_scale - other.log_scale)
        shift = (self.loc - other.loc) * torch.exp(-other.log_scale)
        return 0.5 * (torch.exp(ratio) + shift.square() - 1 - ratio)


@dataclass(frozen=True)
class FullGaussian(Posterior):
    """N(z; loc, L L^T), with loc (..., D) and the lower triangular factor L (..., D, D)."""

    loc: Tensor
    factor: Tensor

    @property
    def mean(self) -> Tensor:
        return self.loc

    @property
    def stddev(self) -> Tensor:
        return self.factor.square().sum(-1).sqrt()

    @property
    def marginals(self) -> DiagonalGaussian:
        """The distribution with the same marginals and independent columns."""
        return DiagonalGaussian(self.loc, 0.5 * self.factor.square().sum(-1).log())

    def rsample(self, noise: Noise, shape: Sequence[int] = ()) -> Tensor:
        """Draw mean + L eps with eps ~ N(0, I)."""
        eps = noise.normal((*shape, *self.loc.shape), "gaussian", self.loc.dtype)
        return self.loc + (self.factor @ eps.unsqueeze(-1)).squeeze(-1)

    def log_prob(self, z: Tensor) -> Tensor:
        standard = _solve(self.factor, z - self.loc)
        return -0.5 * standard.square().sum(-1) - self._log_det - z.shape[-1] * HALF_LOG_2PI

    def log_marginals(self, z: Tensor) -> Tensor:
        return self.marginals.log_marginals(z)

    def cdf(self, z: Tensor) -> Tensor:
        """Compute the cdf of every column on its own, (..., D)."""
        return self.marginals.cdf(z)

    def entropy(self) -> Tensor:
        """Compute log det L + D (1 + log 2 pi) / 2, (...)."""
        return self._log_det + self.loc.shape[-1] * (0.5 + HALF_LOG_2PI)

    def kl(self, other: FullGaussian) -> Tensor:
        """Compute KL(self || other), (...).

        log det L_p - log det L_q + (|L_p^-1 L_q|^2 + |L_p^-1 (m_q - m_p)|^2 - D) / 2.
        """
        ratio: Tensor = torch.linalg.solve_triangular(other.factor, self.factor, upper=False)
        trace = ratio.square().sum((-1, -2))
        shift = _solve(other.factor, self.loc - other.loc).square().sum(-1)
        size = self.loc.shape[-1]
        return other._log_det - self._log_det + 0.5 * (trace + shift - size)

    @property
    def _log_det(self) -> Tensor:
        return self.factor.diagonal(dim1=-2, dim2=-1).log().sum(-1)


def _solve(factor: Tensor, z: Tensor) -> Tensor:
    """Compute L^-1 z for points (..., D)."""
    column: Tensor = torch.linalg.solve_triangular(factor, z.unsqueeze(-1), upper=False)
    return column.squeeze(-1)


@dataclass(frozen=True)
class Squashed(IndependentColumns):
    """z = low + (high - low) Phi(u) with u ~ N(loc, exp(log_scale)^2), on an interval.

    Phi, the cdf of N(0, 1), maps N(0, 1) to the uniform distribution. The KL between two of these
    distributions, or to the uniform distribution, therefore equals the KL between their u.
    """

    base: DiagonalGaussian
    low: float
    high: float

    @property
    def mean(self) -> Tensor:
        """Expectation, low + (high - low) Phi(m / sqrt(1 + s^2)), (..., D)."""
        u = self.base.loc / torch.sqrt(1 + self.base.stddev.square())
        return self._squash(u)

    @property
    def stddev(self) -> Tensor:
        """Standard deviation, (high - low) sqrt(E[(Phi(u) - E[Phi(u)])^2]), (..., D)."""
        share = torch.special.ndtr(self.base.loc / torch.sqrt(1 + self.base.stddev.square()))

        def deviation(u: Tensor) -> Tensor:
            distance: Tensor = torch.special.ndtr(u) - share.unsqueeze(-1)
            return distance.square()

        variance = expectation(deviation, self.base.loc, self.base.stddev, (-math.inf, math.inf))
        return (self.high - self.low) * variance.sqrt()

    def rsample(self, noise: Noise, shape: Sequence[int] = ()) -> Tensor:
        """Draw u and squash it."""
        return self._squash(self.base.rsample(noise, shape))

    def log_marginals(self, z: Tensor) -> Tensor:
        """Compute log N(u; loc, scale) - log N(u; 0, 1) - log(high - low), (..., D)."""
        u = unsquash(z, self.low, self.high)
        standard = -0.5 * u.square() - HALF_LOG_2PI
        return self.base.log_marginals(u) - standard - math.log(self.high - self.low)

    def entropy(self) -> Tensor:
        """Compute H(u) + E[log N(u; 0, 1)] + D log(high - low), (...)."""
        second = self.base.loc.square() + self.base.stddev.square()
        log_slope = -0.5 * second - HALF_LOG_2PI + math.log(self.high - self.low)
        return self.base.entropy() + log_slope.sum(-1)

    def _squash(self, u: Tensor) -> Tensor:
        share: Tensor = torch.special.ndtr(u)
        return (self.low + (self.high - self.low) * share).clamp(self.low, self.high)


def unsquash(z: Tensor, low: float, high: float) -> Tensor:
    """Solve z = low + (high - low) Phi(u) for u; the ends of the interval are moved inside."""
    eps = torch.finfo(z.dtype).eps
    u: Tensor = torch.special.ndtri(((z - low) / (high - low)).clamp(eps, 1 - eps))
    return u


class RelaxedDistribution:
    """A discrete distribution with relaxed samples; the field `hard` rounds them."""

    def with_hard_samples(self) -> Self:
        """Return the same distribution with samples rounded to its values."""
        return replace(self, hard=True)  # type: ignore[type-var]


@dataclass(frozen=True)
class OneHot(RelaxedDistribution, Posterior):
    """One of K classes as a one-hot vector, relaxed to the simplex when sampled.

    The distribution is categorical: log p(z) = <z, log pi> is the log-probability of the class at
    one-hot vectors and linear between them, for posterior, prior and aggregate alike. Samples are
    softmax((log pi + gumbel) / temperature) [Jang2017] eq. 2; `hard` rounds them to the nearest
    one-hot vector and keeps the gradient.
    """

    log_probs: Tensor
    temperature: float
    hard: bool = False

    @property
    def mean(self) -> Tensor:
        """Probabilities of the classes, (..., K)."""
        return self.log_probs.exp()

    @property
    def stddev(self) -> Tensor:
        """Standard deviation of each indicator, (..., K)."""
        p = self.mean
        return torch.sqrt(p * (1 - p))

    def rsample(self, noise: Noise, shape: Sequence[int] = ()) -> Tensor:
        full = (*shape, *self.log_probs.shape)
        gumbel = -torch.log(-torch.log(noise.uniform(full, "gumbel", self.log_probs.dtype)))
        soft = torch.softmax((self.log_probs + gumbel) / self.temperature, -1)
        return nearest_one_hot(soft) if self.hard else soft

    def log_prob(self, z: Tensor) -> Tensor:
        """Compute <z, log pi>, (...)."""
        return (z * self.log_probs).sum(-1)

    def log_marginals(self, z: Tensor) -> Tensor:
        """Return `log_prob` as (..., 1): the classes are one variable."""
        return self.log_prob(z).unsqueeze(-1)

    def entropy(self) -> Tensor:
        """Compute -sum pi log pi, (...)."""
        return -(self.mean * self.log_probs).sum(-1)

    def kl(self, other: OneHot) -> Tensor:
        """Compute sum pi log(pi / pi'), (...)."""
        return (self.mean * (self.log_probs - other.log_probs)).sum(-1)


@dataclass(frozen=True)
class Bits(IndependentColumns, RelaxedDistribution):
    """Independent bits with the given logits (..., D), relaxed when sampled.

    log p(z) = sum z log p + (1 - z) log(1 - p) is the log-probability at zeros and ones. Samples
    are sigmoid((logit + logistic) / temperature)  [Maddison2017] app. B; `hard` rounds them.
    """

    logits: Tensor
    temperature: float
    hard: bool = False

    @property
    def mean(self) -> Tensor:
        return torch.sigmoid(self.logits)

    @property
    def stddev(self) -> Tensor:
        return torch.sqrt(self.mean * torch.sigmoid(-self.logits))

    def rsample(self, noise: Noise, shape: Sequence[int] = ()) -> Tensor:
        u = noise.uniform((*shape, *self.logits.shape), "logistic", self.logits.dtype)
        soft = torch.sigmoid((self.logits + torch.logit(u)) / self.temperature)
        return nearest_bits(soft) if self.hard else soft

    def log_marginals(self, z: Tensor) -> Tensor:
        """Compute z log p + (1 - z) log(1 - p), (..., D)."""
        return z * F.logsigmoid(self.logits) + (1 - z) * F.logsigmoid(-self.logits)

    def entropy(self) -> Tensor:
        """Compute the sum of the entropies of the bits, (...)."""
        return -self.log_marginals(self.mean).sum(-1)

    def kl(self, other: Bits) -> Tensor:
        """Compute the KL of every bit, (..., D)."""
        return self.log_marginals(self.mean) - other.log_marginals(self.mean)


@dataclass(frozen=True)
class Joint(Posterior):
    """The product of independent parts, prod_g p_g(z_g), with columns in the parts' order."""

    parts: Mapping[str, Distribution]
    sizes: tuple[int, ...]

    @property
    def mean(self) -> Tensor:
        return torch.cat([part.mean for part in self.parts.values()], -1)

    @property
    def stddev(self) -> Tensor:
        return torch.cat([part.stddev for part in self.parts.values()], -1)

    def rsample(self, noise: Noise, shape: Sequence[int] = ()) -> Tensor:
        """Draw a sample of every part, each from its own noise stream."""
        samples = [part.rsample(noise.fold(name), shape) for name, part in self.parts.items()]
        return torch.cat(samples, -1)

    def log_prob(self, z: Tensor) -> Tensor:
        return torch.stack([p.log_prob(part) for p, part in self.split(z)]).sum(0)

    def log_marginals(self, z: Tensor) -> Tensor:
        return torch.cat([p.log_marginals(part) for p, part in self.split(z)], -1)

    def entropy(self) -> Tensor:
        return torch.stack([p.entropy() for p in self.parts.values()]).sum(0)  # type: ignore[attr-defined]

    def with_hard_samples(self) -> Joint:
        """Return the same distribution with hard samples of its discrete variables."""
        return Joint(
            {name: with_hard_samples(part) for name, part in self.parts.items()}, self.sizes
        )

    def split(self, z: Tensor) -> list[tuple[Distribution, Tensor]]:
        """Pair every part with its columns of z."""
        return list(zip(self.parts.values(), z.split(self.sizes, -1), strict=True))


def nearest_one_hot(soft: Tensor) -> Tensor:
    """Round to the nearest one-hot vector, keeping the gradient (straight through)."""
    return _straight_through(soft, F.one_hot(soft.argmax(-1), soft.shape[-1]).to(soft.dtype))


def nearest_bits(soft: Tensor) -> Tensor:
    """Round to the nearest zeros and ones, keeping the gradient (straight through)."""
    return _straight_through(soft, (soft > 0.5).to(soft.dtype))


def _straight_through(soft: Tensor, hard: Tensor) -> Tensor:
    return hard + (soft - soft.detach())


def log_tables(d: Distribution, z: Tensor) -> tuple[Tensor, Tensor]:
    """Compute log q(z_s|x_n), (S, N), and log q(z_sv|x_n), (S, V, N), for points z (S, D).

    The batch of N posteriors comes last, where summing over it is fast.
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
    """Compute log sum exp over the last axis, (..., N) to (...).

    Summands below e^-80 of the largest are raised to e^-80 of it: subnormal numbers would make the
    processor ten times slower. The relative change of the sum is below N e^-80.
    """
    top = x.amax(-1, keepdim=True).clamp(min=torch.finfo(x.dtype).min)
    total = (x - top).clamp(min=-80.0).exp().sum(-1).log() + top.squeeze(-1)
    return torch.where(torch.isneginf(x.amax(-1)), -torch.inf, total)


def with_hard_samples(d: Distribution) -> Distribution:
    """Return the same distribution with hard samples of its discrete variables."""
    return d.with_hard_samples() if isinstance(d, (Joint, RelaxedDistribution)) else d


def prior_samples(p: Distribution, count: int, noise: Noise) -> Tensor:
    """Draw samples of the prior, hard for discrete variables, (count, D)."""
    return with_hard_samples(p).rsample(noise.fold("prior"), (count,))


def distribution_at(d: Distribution, path: str) -> Distribution:
    """Return the distribution of the block at a path of the latent tree."""
    for name in path.split(".") if path else ():
        assert isinstance(d, Joint)
        d = d.parts[name]
    return d


T = TypeVar("T")


def rows(d: T, index: slice | Tensor) -> T:
    """Select rows from the first axis of a batch of distributions."""
    return type(d)(**{f.name: _select(getattr(d, f.name), index) for f in fields(d)})  # type: ignore[arg-type]


def _select(value: Any, index: slice | Tensor) -> Any:
    if isinstance(value, Tensor):
        return value[index]
    if isinstance(value, Mapping):
        return {name: _select(part, index) for name, part in value.items()}
    return rows(value, index) if hasattr(value, "__dataclass_fields__") else value
