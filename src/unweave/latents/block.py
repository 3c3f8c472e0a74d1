"""What a latent block is: columns, variables, a posterior, a prior and the rate between them."""

from __future__ import annotations

import contextlib
import functools
import itertools
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NamedTuple, Self

import torch
from torch import Tensor, nn

from unweave.core.tensors import Numbers, floating
from unweave.latents.densities import Factorised
from unweave.latents.distributions import (
    HALF_LOG_2PI,
    DiagonalGaussian,
    Distribution,
    FullGaussian,
    Posterior,
    log_sum,
    log_tables,
)

# A posterior narrower or wider than this is numerically a point or flat; exp stays in float32.
LOG_VARIANCE_BOUNDS = (-30.0, 20.0)
_EDGE = 2**-24  # how far from 0 and 1 the distribution function of a prior stays
_NARROWEST = 1e-3  # standard deviation for which traversals are made: a walk is never a point

Encode = Callable[[Tensor], Tensor]  # observations to the encoder's raw output for a block
Spectrum = Callable[[int], Sequence[float]]  # the k largest principal variances of the data
Encoding = Literal["diagonal", "full"]


class Node(NamedTuple):
    """A node of a latent tree: a group of variables, or one variable (a leaf)."""

    name: str  # "" for the root
    parent: int | None
    leaf: bool


class Block(ABC):
    """A part of a latent space: `size` columns of z that form one or more variables."""

    kind: str

    if TYPE_CHECKING:  # a field of blocks, the sum of the blocks' of a product

        @property
        def size(self) -> int:
            """Columns of z."""

    @property
    @abstractmethod
    def outputs(self) -> int:
        """Numbers that the encoder puts out for this block."""

    @property
    def discrete_outputs(self) -> tuple[bool, ...]:
        """Whether each of these numbers is a logit of a discrete variable."""
        return (any(self.discrete),) * self.outputs

    @property
    @abstractmethod
    def variables(self) -> tuple[int, ...]:
        """Columns of each variable."""

    @property
    def names(self) -> tuple[str, ...]:
        """A name for every variable."""
        return tuple(str(i) for i in range(len(self.variables)))

    @property
    def discrete(self) -> tuple[bool, ...]:
        """Whether each variable takes one of finitely many values."""
        return (False,) * len(self.variables)

    @property
    def normal(self) -> tuple[bool, ...]:
        """Whether q(z_v|x) of each variable is a normal distribution."""
        return (False,) * len(self.variables)

    @property
    def columns(self) -> tuple[slice, ...]:
        """Where in z the columns of each variable are."""
        return side_by_side(self.variables)

    @property
    def learned(self) -> bool:
        """Whether the prior has parameters."""
        return False

    @property
    def nodes(self) -> tuple[Node, ...]:
        """The tree from the root down, each node before its children."""
        if len(self.variables) == 1:
            return (Node("", None, True),)
        return (Node("", None, False), *(Node(name, 0, True) for name in self.names))

    @abstractmethod
    def posterior(self, raw: Tensor) -> Posterior:
        """q(z|x) from the encoder's output (..., outputs)."""

    @abstractmethod
    def prior(self, shape: tuple[int, ...]) -> nn.Module:
        """A module that returns p(z), for a model of observations of a shape."""

    @abstractmethod
    def rate(self, q: Distribution, p: Distribution, z: Tensor) -> Tensor:
        """KL(q(z|x) || p(z)), or its estimate on the sample z of q where there is no formula."""

    @abstractmethod
    def rates(self, q: Distribution, p: Distribution, z: Tensor) -> Tensor:
        """KL(q(z_v|x) || p(z_v)) of every variable on its own, (..., V)."""

    def log_nodes(self, d: Distribution, z: Tensor) -> Tensor:
        """Log-density of every node of the tree under a distribution over z, (..., nodes)."""
        marginals = d.log_marginals(z)
        if len(self.variables) == 1:
            return marginals
        return torch.cat([d.log_prob(z).unsqueeze(-1), marginals], -1)

    def log_sums(self, d: Distribution, z: Tensor) -> tuple[Tensor, Tensor]:
        """For points z (S, D) and a batch d of N: log q(z_s|x_n), (S, N), and below it the sums.

        Those are log sum_n q(z_s|x_n) at every node below the block's own, (S, nodes - 1).
        """
        joint, each = log_tables(d, z)
        below = log_sum(each)
        return joint, below if len(self.variables) > 1 else below[:, :0]

    def hard_samples(self, z: Tensor) -> Tensor:
        """Samples (..., D) as q(z|x) and p(z) know them: relaxed variables as hard samples.

        The corner nearest to a relaxed sample is a sample of the masses; its gradient is that of
        the relaxed one (straight through).
        """
        return z

    def target(self, value: Tensor, classes: int) -> Tensor:
        """The code (..., size) that stands for a class 0..classes-1 of a labelled factor (...).

        Here the classes are evenly spaced, with mean 0 and variance 1. Raises a ValueError where no
        code can.
        """
        self._check_label(classes)
        centred = value.unsqueeze(-1) - (classes - 1) / 2
        return centred / math.sqrt((classes**2 - 1) / 12)

    def _check_label(self, classes: int) -> None:
        if sum(self.variables) != 1 or classes < 2:
            raise ValueError(
                f"a label needs a block of one variable and a factor of two classes at least, got "
                f"{len(self.variables)} variables and {classes} classes; use a block of size 1, or "
                f"categorical of size {classes}"
            )

    def codes(self, q: Distribution) -> Tensor:
        """A number for every variable: the posterior's mean, or the likeliest value, (..., V)."""
        return q.mean

    def prior_codes(self, q: Distribution, p: Distribution) -> Tensor:
        """Codes as normal quantiles under the prior, Phi^-1(F_v(E_q[z_v])), (..., V).

        F_v is the distribution function of the prior of variable v, so draws of the prior become
        standard normal. F_v is kept 2^-24 away from 0 and 1. [Mathieu2019] app. B.
        """
        share: Tensor = p.cdf(q.mean.double())  # type: ignore[attr-defined]
        quantile: Tensor = torch.special.ndtri(share.clamp(_EDGE, 1 - _EDGE))
        return quantile.to(q.mean.dtype)

    def reach(self, p: Distribution) -> tuple[Tensor, Tensor]:
        """Where traversals begin and end: 2 standard deviations about the prior's mean, (D,)."""
        half = 2 * p.spread.clamp(min=_NARROWEST)
        return p.mean - half, p.mean + half

    def walks(self, p: Distribution, steps: int) -> tuple[Tensor, ...]:
        """The values of every variable in a traversal, (n, its columns) each.

        A continuous variable takes `steps` values over its reach under the prior p, a discrete one
        each of its values.
        """
        low, high = self.reach(p)
        share = torch.linspace(0, 1, steps, dtype=low.dtype, device=low.device).unsqueeze(-1)
        values = low + (high - low) * share
        return tuple(values[:, columns] for columns in self.columns)

    def resolve(self, spectrum: Spectrum) -> Self:
        """The block with what it takes from the data filled in."""
        return self


class FixedPrior(nn.Module):
    """A prior without parameters."""

    def __init__(self, block: Fixed) -> None:
        super().__init__()
        self.block = block
        self.register_buffer("zero", torch.zeros(block.size), persistent=False)
        self.zero: Tensor
        self._made: tuple[Tensor, Distribution] | None = None

    def forward(self, encode: Encode) -> Distribution:
        """p(z) over z of shape (D,), made once for a device and type."""
        if self._made is None or self._made[0] is not self.zero:
            self._made = (self.zero, self.block.density(self.zero))
        return self._made[1]


class Plain(ABC):
    """A prior that is known beforehand, for use on plain tensors."""

    @property
    @abstractmethod
    def size(self) -> int:
        """Columns of z."""

    @abstractmethod
    def log_prob(self, z: Numbers) -> Tensor:
        """log p(z) of points (..., D), (...)."""

    @abstractmethod
    def kl(self, mean: Numbers, scale: Numbers) -> Tensor:
        """KL(N(mean, diag(scale^2)) || p(z)): of every column, (..., D), where p(z) factorises."""

    @abstractmethod
    def entropy(self) -> float:
        """-E[log p(z)] over all columns, in nats."""

    @abstractmethod
    def log_normaliser(self, beta: float) -> float:
        """log F_beta = log of the integral of p(z)^beta.  [Mathieu2019] theorem 1."""

    @abstractmethod
    def annealed(self, beta: float) -> Plain | Annealed:
        """The annealed prior f_beta(z) = p(z)^beta / F_beta.  [Mathieu2019] theorem 1."""


class Fixed(Block, Plain):
    """A block whose prior is known beforehand."""

    @abstractmethod
    def density(self, zero: Tensor) -> Distribution:
        """p(z), with the size, type and device of zeros (D,)."""

    def log_prob(self, z: Numbers) -> Tensor:
        """log p(z) of points (..., D), (...)."""
        z = points(z, self.size)
        return self.density(z.new_zeros(self.size)).log_prob(z)

    def prior(self, shape: tuple[int, ...]) -> nn.Module:
        """A module that returns p(z)."""
        return FixedPrior(self)


class Continuous(Block):
    """Real columns, each a variable, with a Gaussian posterior.

    The encoder puts out the means, then the log-variances; with `encoding="full"` the logarithms
    of the squared diagonal of a triangular factor, then what is below it.
    """

    size: int
    encoding: Encoding

    @property
    def outputs(self) -> int:
        """Numbers that the encoder puts out for this block."""
        below = self.size * (self.size - 1) // 2
        return 2 * self.size + (below if self.encoding == "full" else 0)

    @property
    def variables(self) -> tuple[int, ...]:
        """Columns of each variable."""
        return (1,) * self.size

    @property
    def normal(self) -> tuple[bool, ...]:
        """Whether q(z_v|x) of each variable is a normal distribution."""
        return (True,) * self.size

    def posterior(self, raw: Tensor) -> DiagonalGaussian | FullGaussian:
        """N(z; mean, S) from the encoder's output."""
        loc, log_variance = raw[..., : self.size], raw[..., self.size : 2 * self.size]
        log_scale = 0.5 * log_variance.clamp(*LOG_VARIANCE_BOUNDS)
        if self.encoding == "diagonal":
            return DiagonalGaussian(loc, log_scale)
        return FullGaussian(loc, triangle(log_scale.exp(), raw[..., 2 * self.size :]))

    def rate(self, q: Distribution, p: Distribution, z: Tensor) -> Tensor:
        """KL(q(z|x) || p(z)) on the sample: log q(z|x) - log p(z), (...)."""
        return q.log_prob(z) - p.log_prob(z)

    def rates(self, q: Distribution, p: Distribution, z: Tensor) -> Tensor:
        """KL(q(z_j|x) || p(z_j)) of every column on its own, on the sample, (..., D)."""
        return q.log_marginals(z) - p.log_marginals(z)


class Formula(Continuous, Fixed):
    """Real columns whose rate has a formula; with `sampled_rate` it is taken on the sample.

    The sample is the papers' way.
    """

    sampled_rate: bool

    def rate(self, q: Distribution, p: Distribution, z: Tensor) -> Tensor:
        """KL(q(z|x) || p(z)), (...)."""
        return super().rate(q, p, z) if self.sampled_rate else self.joint_rate(q, p)

    def rates(self, q: Distribution, p: Distribution, z: Tensor) -> Tensor:
        """KL(q(z_j|x) || p(z_j)) of every column on its own, (..., D)."""
        return super().rates(q, p, z) if self.sampled_rate else self.column_rates(q, p)

    @abstractmethod
    def joint_rate(self, q: Distribution, p: Distribution) -> Tensor:
        """KL(q(z|x) || p(z)) by the formula, (...)."""

    @abstractmethod
    def column_rates(self, q: Distribution, p: Distribution) -> Tensor:
        """KL(q(z_j|x) || p(z_j)) of every column by the formula, (..., D)."""


class Independent(Formula):
    """Independent columns whose rate is the posterior's entropy and one integral a column."""

    @abstractmethod
    def density(self, zero: Tensor) -> Factorised:
        """p(z), with the size, type and device of zeros (D,)."""

    def kl(self, mean: Numbers, scale: Numbers) -> Tensor:
        """KL(N(mean, scale^2) || p(z_j)) of every column, (..., D)."""
        q = normal(mean, scale, self.size)
        p = self.density(q.mean.new_zeros(self.size))
        return _from_entropy(q.mean, q.scale, p).to(q.dtype)

    def joint_rate(self, q: Distribution, p: Distribution) -> Tensor:
        """-H(q(z|x)) - sum_j E_q[log p(z_j)], (...)."""
        return -q.entropy() - p.cross(q.mean, q.spread).sum(-1)  # type: ignore[attr-defined, no-any-return]

    def column_rates(self, q: Distribution, p: Distribution) -> Tensor:
        """-H(q(z_j|x)) - E_q[log p(z_j)], (..., D)."""
        return _from_entropy(q.mean, q.spread, p)  # type: ignore[arg-type]


@dataclass(frozen=True)
class Annealed(Plain):
    """The annealed prior f_beta(z) = p(z)^beta / F_beta.  [Mathieu2019] theorem 1."""

    block: Plain
    beta: float

    @property
    def size(self) -> int:
        """Columns of z."""
        return self.block.size

    def log_prob(self, z: Numbers) -> Tensor:
        """beta log p(z) - log F_beta of points (..., D), (...)."""
        return self.beta * self.block.log_prob(z) - self._log_f

    def kl(self, mean: Numbers, scale: Numbers) -> Tensor:
        """KL(q || f_beta) = beta KL(q || p) + (beta - 1) H(q) + log F_beta, as the block's."""
        q = normal(mean, scale, self.size)
        plain, entropy = self.block.kl(q.mean, q.scale), q.entropy()
        if plain.dim() == entropy.dim():  # of every column, all of which are alike
            found = self.beta * plain + (self.beta - 1) * entropy + self._log_f / self.size
        else:
            found = self.beta * plain + (self.beta - 1) * entropy.sum(-1) + self._log_f
        return found.to(q.dtype)

    def entropy(self) -> float:
        """log F_beta - beta d/dbeta log F_beta, the derivative from differences."""
        step = 1e-3 * self.beta
        ahead, behind = (
            [self.block.log_normaliser(self.beta + sign * k * step) for k in (1, 2)]
            for sign in (1, -1)
        )
        slope = (8 * (ahead[0] - behind[0]) - (ahead[1] - behind[1])) / (12 * step)
        return self._log_f - self.beta * slope

    def log_normaliser(self, beta: float) -> float:
        """log of the integral of f^beta: log F of the product of the powers, less beta log F."""
        return self.block.log_normaliser(self.beta * positive(beta)) - beta * self._log_f

    def annealed(self, beta: float) -> Annealed:
        """f^beta / its integral: the powers multiply."""
        return Annealed(self.block, self.beta * positive(beta))

    @functools.cached_property
    def _log_f(self) -> float:
        return self.block.log_normaliser(self.beta)


def side_by_side(widths: Sequence[int]) -> tuple[slice, ...]:
    """Where parts of the given widths are that stand side by side.

    >>> side_by_side((2, 1))
    (slice(0, 2, None), slice(2, 3, None))
    """
    stops = itertools.accumulate(widths)
    return tuple(slice(stop - n, stop) for n, stop in zip(widths, stops, strict=True))


def positive(beta: float) -> float:
    """A power to which a density can be raised."""
    if not beta > 0 or math.isinf(beta):
        raise ValueError(f"expected a power beta above 0, got {beta}: p(z)^beta has no integral")
    return beta


def triangle(diagonal: Tensor, below: Tensor) -> Tensor:
    """The lower triangular matrix (..., D, D) of a diagonal (..., D) and what is below it."""
    size = diagonal.shape[-1]
    index = torch.full((size, size), size + below.shape[-1], device=diagonal.device)
    rows, columns = torch.tril_indices(size, size, -1, device=diagonal.device)
    index[rows, columns] = torch.arange(size, size + below.shape[-1], device=diagonal.device)
    index.diagonal().copy_(torch.arange(size, device=diagonal.device))
    return torch.cat([diagonal, below, torch.zeros_like(diagonal[..., :1])], -1)[..., index]


def _from_entropy(mean: Tensor, scale: Tensor, p: Factorised) -> Tensor:
    return -(torch.log(scale) + 0.5 + HALF_LOG_2PI) - p.cross(mean, scale)


class Normals(NamedTuple):
    """Normal distributions over points: mean and scale (..., D), and the type asked for.

    The numbers are in float64, where a small divergence keeps its digits.
    """

    mean: Tensor
    scale: Tensor
    dtype: torch.dtype

    def entropy(self) -> Tensor:
        """Of every column, (..., D)."""
        return self.scale.log() + (0.5 + HALF_LOG_2PI)


def normal(mean: Numbers, scale: Numbers, size: int) -> Normals:
    """Normal distributions of a mean (..., size) and a scale that broadcasts, or a ValueError."""
    m, s = points(mean, size), floating(scale)
    if s.dim() and s.shape[-1] not in (1, size):
        raise ValueError(f"expected one scale or {size}, as the mean has, got {tuple(s.shape)}")
    with contextlib.suppress(RuntimeError):  # under vmap no value can be looked at
        if (s < 0).any():
            raise ValueError(f"expected a scale of 0 or more, got {s.min().item():g}")
    dtype = torch.promote_types(m.dtype, s.dtype) if s.dim() else m.dtype
    m, s = torch.broadcast_tensors(m.double(), s.to(m.device).double())
    return Normals(m, s, dtype)


def points(z: Numbers, size: int) -> Tensor:
    """Points (..., size), or a ValueError."""
    z = floating(z)
    if z.dim() == 0 or z.shape[-1] != size:
        raise ValueError(f"expected points of shape (..., {size}), got {tuple(z.shape)}")
    return z
