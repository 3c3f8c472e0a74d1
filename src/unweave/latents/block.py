"""Latent blocks: the base classes from which every kind of latent variable is built.

A block owns some columns of z and provides a posterior, a prior and the rate between them. It also
declares the properties that objectives rely on (`continuous`, `gaussian_posterior`, ...).
"""

from __future__ import annotations

import itertools
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Literal, NamedTuple, Self

import torch
from torch import Tensor, nn

from unweave.core.noise import Noise
from unweave.core.tensors import Numbers
from unweave.latents.densities import FactorisedPrior
from unweave.latents.distributions import (
    HALF_LOG_2PI,
    DiagonalGaussian,
    Distribution,
    FullGaussian,
    IndependentColumns,
    Posterior,
    log_sum,
    log_tables,
)
from unweave.latents.prior import PriorDensity, normal, points, quasi_random_expectation

# A posterior narrower or wider than this is numerically a point or flat; exp stays in float32.
LOG_VARIANCE_BOUNDS = (-30.0, 20.0)
_CDF_MARGIN = 2**-24  # distance that a prior's cdf keeps from 0 and 1
_MIN_TRAVERSAL_STDDEV = 1e-3  # so that a traversal never collapses to a point
_TRAVERSAL_SAMPLES = 10_000  # of a prior without a finite variance
_ROWS = 4  # distributions at once, where an expectation needs many points for each

Encode = Callable[[Tensor], Tensor]  # observations to the encoder's raw output for a block
Spectrum = Callable[[int], Sequence[float]]  # the k largest principal variances of the data
Encoding = Literal["diagonal", "full"]


class Node(NamedTuple):
    """A node of a latent tree: a group of variables, or one variable (a leaf)."""

    name: str  # "" for the root
    parent: int | None
    leaf: bool


class Block(ABC):
    """A part of a latent space: `size` columns of z that form one or more variables.

    To define your own, start from the most specific base class: `FactorisedBlock` (independent
    columns, write `density`), `SampledRateBlock` (any known prior, write `density`),
    `FixedPriorBlock` (a posterior that is not Gaussian), or this class (a prior that is learned).
    """

    if TYPE_CHECKING:  # at run time pydantic would make these fields of `Product`
        size: int  # number of columns of z
        kind: str

    @property
    @abstractmethod
    def outputs(self) -> int:
        """Number of values that the encoder outputs for this block."""

    @abstractmethod
    def posterior(self, raw: Tensor) -> Posterior:
        """Return q(z|x) for the encoder's output (..., outputs)."""

    @abstractmethod
    def prior(self, shape: tuple[int, ...]) -> nn.Module:
        """Return a module that returns p(z) when called, for observations of this shape.

        The module is called with a function that encodes observations, for priors built from
        encodings such as `VampPrior`.
        """

    @abstractmethod
    def rates(self, q: Distribution, p: Distribution, z: Tensor) -> Tensor:
        """Compute KL(q(z_v|x) || p(z_v)) of every variable, or estimate it on the sample z of q.

        The result has shape (..., V).
        """

    def rate(self, q: Distribution, p: Distribution, z: Tensor) -> Tensor:
        """Compute KL(q(z|x) || p(z)), or estimate it on the sample z of q, (...).

        By default variables are independent under both, and the rate is the sum of `rates`.
        """
        return self.rates(q, p, z).sum(-1)

    @property
    def variables(self) -> tuple[int, ...]:
        """Number of columns of each variable; by default each column is a variable."""
        return (1,) * self.size

    @property
    def continuous(self) -> bool:
        """Whether no variable is discrete."""
        return not any(self.discrete)

    @property
    def gaussian_posterior(self) -> bool:
        """Whether q(z|x) is Gaussian."""
        return False

    @property
    def factorised_posterior(self) -> bool:
        """Whether the variables are independent under q(z|x)."""
        return True

    @property
    def fixed_prior(self) -> bool:
        """Whether the prior has no parameters that are learned."""
        return True

    def density(self, zero: Tensor) -> Distribution:
        """Return p(z) with the size, type and device of zeros (D,), if it is known beforehand."""
        raise ValueError(unknown_prior(type(self).__name__))

    @property
    def finite_variance(self) -> bool:
        """Whether every column has a finite variance under the prior."""
        return True

    @property
    def factorised(self) -> bool:
        """Whether the variables are independent under the prior.

        If in doubt, return False: objectives that rely on independence then refuse the block.
        """
        return len(self.variables) == 1

    @property
    def leaf_blocks(self) -> dict[str, Block]:
        """The blocks of the tree that are not products, by path; "" is this block itself.

        >>> from unweave.latents import Categorical, Gaussian, Product
        >>> list(Product(style=Gaussian(3), what=Product(shape=Categorical(3))).leaf_blocks)
        ['style', 'what.shape']
        """
        return {"": self}

    @property
    def discrete_outputs(self) -> tuple[bool, ...]:
        """Whether each of the encoder's values is a logit of a discrete variable."""
        return (any(self.discrete),) * self.outputs

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
        return (self.gaussian_posterior,) * len(self.variables)

    @property
    def columns(self) -> tuple[slice, ...]:
        """The columns of z that belong to each variable."""
        return consecutive_slices(self.variables)

    @property
    def nodes(self) -> tuple[Node, ...]:
        """The nodes of the tree, each before its children."""
        if len(self.variables) == 1:
            return (Node("", None, True),)
        return (Node("", None, False), *(Node(name, 0, True) for name in self.names))

    def log_nodes(self, d: Distribution, z: Tensor) -> Tensor:
        """Compute the log-density of every node of the tree at z under d, (..., nodes)."""
        marginals = d.log_marginals(z)
        if len(self.variables) == 1:
            return marginals
        return torch.cat([d.log_prob(z).unsqueeze(-1), marginals], -1)

    def log_sums(self, d: Distribution, z: Tensor) -> tuple[Tensor, Tensor]:
        """Compute log q(z_s|x_n), (S, N), for points z (S, D) and a batch d of N posteriors.

        The second result is log sum_n q(z_s|x_n) at every node below the root, (S, nodes - 1).
        """
        joint, each = log_tables(d, z)
        below = log_sum(each)
        return joint, below if len(self.variables) > 1 else below[:, :0]

    def hard_samples(self, z: Tensor) -> Tensor:
        """Round relaxed samples (..., D) of discrete variables to their nearest values.

        The nearest value of a relaxed sample is a sample of the discrete distribution. The gradient
        is that of the relaxed sample (straight through). Continuous columns stay as they are.
        """
        return z

    def target(self, value: Tensor, classes: int) -> Tensor:
        """Return the code (..., size) for class 0..classes-1 of a labelled factor (...).

        By default the classes are evenly spaced with mean 0 and variance 1. Raises a ValueError if
        the block cannot represent the factor.
        """
        self._check_label(classes)
        centred = value.unsqueeze(-1) - (classes - 1) / 2
        return centred / math.sqrt((classes**2 - 1) / 12)

    def _check_label(self, classes: int) -> None:
        if sum(self.variables) != 1 or classes < 2:
            raise ValueError(
                f"a label needs a block of one variable and a factor with at least two classes, "
                f"got {len(self.variables)} variables and {classes} classes; use a block of size "
                f"1, or categorical of size {classes}"
            )

    def codes(self, q: Distribution) -> Tensor:
        """Return one number for every variable: the mean or the most likely value, (..., V)."""
        return q.mean

    def prior_codes(self, q: Distribution, p: Distribution) -> Tensor:
        """Express codes as normal quantiles under the prior, Phi^-1(F_v(E_q[z_v])), (..., V).

        F_v is the cdf of variable v under the prior, so samples of the prior become standard
        normal. F_v is kept 2^-24 away from 0 and 1. [Mathieu2019] app. B.
        """
        if not hasattr(p, "cdf"):
            raise ValueError(f"{type(p).__name__} needs a method cdf(z) for codes as quantiles")
        share: Tensor = p.cdf(q.mean.double())
        quantile: Tensor = torch.special.ndtri(share.clamp(_CDF_MARGIN, 1 - _CDF_MARGIN))
        return quantile.to(q.mean.dtype)

    def traversal_range(self, p: Distribution) -> tuple[Tensor, Tensor]:
        """Return where traversals start and end: the prior's mean -/+ 2 stddevs, (D,) each.

        Without a finite variance, they span the central 95.4% of samples of the prior, the same
        share as -/+ 2 stddevs of a normal distribution.
        """
        if not self.finite_variance:
            samples = p.rsample(Noise(0, 0, "traversal", p.mean.device), (_TRAVERSAL_SAMPLES,))
            shares = torch.special.ndtr(samples.new_tensor([-2.0, 2.0]))
            low, high = samples.detach().quantile(shares, 0)
            return low, high
        half = 2 * p.stddev.clamp(min=_MIN_TRAVERSAL_STDDEV)
        return p.mean - half, p.mean + half

    def traversal_values(self, p: Distribution, steps: int) -> tuple[Tensor, ...]:
        """Return the values of every variable in a traversal, (n, its columns) each.

        A continuous variable takes `steps` values over its traversal range under the prior p, a
        discrete one each of its values.
        """
        low, high = self.traversal_range(p)
        share = torch.linspace(0, 1, steps, dtype=low.dtype, device=low.device).unsqueeze(-1)
        values = low + (high - low) * share
        return tuple(values[:, columns] for columns in self.columns)

    def resolve(self, spectrum: Spectrum) -> Self:
        """Fill in settings that the block takes from the data, given its principal variances."""
        return self


class FixedPrior(nn.Module):
    """The prior of a block without learned parameters."""

    def __init__(self, block: FixedPriorBlock) -> None:
        super().__init__()
        self.block = block
        self.register_buffer("zero", torch.zeros(block.size), persistent=False)
        self.zero: Tensor
        self._cache: tuple[Tensor, Distribution] | None = None

    def forward(self, encode: Encode) -> Distribution:
        """Return p(z) over z of shape (D,), built once for each device and type."""
        if self._cache is None or self._cache[0] is not self.zero:
            self._cache = (self.zero, self.block.density(self.zero))
        return self._cache[1]


def unknown_prior(name: str) -> str:
    """Say that the prior of a block is not known before training."""
    return (
        f"the prior of {name} is learned, so it is not known before training: use prior() of a "
        "fitted model"
    )


class FixedPriorBlock(Block, PriorDensity):
    """A block whose prior is known before training."""

    @abstractmethod
    def density(self, zero: Tensor) -> Distribution:
        """Return p(z) with the size, type and device of zeros (D,)."""

    @property
    def finite_variance(self) -> bool:
        return bool(self.density(torch.zeros(self.size)).stddev.isfinite().all())

    @property
    def factorised(self) -> bool:
        """Whether the variables are independent under the prior.

        True by default for one variable and for densities that are `IndependentColumns`.
        """
        single = len(self.variables) == 1
        return single or isinstance(self.density(torch.zeros(self.size)), IndependentColumns)

    def log_prob(self, z: Numbers) -> Tensor:
        z = points(z, self.size)
        return self.density(z.new_zeros(self.size)).log_prob(z)

    def kl(self, mean: Numbers, scale: Numbers) -> Tensor:
        """Estimate KL(N(mean, diag(scale^2)) || p) by 8192 quasi-random points, (...)."""
        return self._kl_by(quasi_random_expectation, mean, scale)

    def prior(self, shape: tuple[int, ...]) -> nn.Module:
        return FixedPrior(self)

    def _kl_by(
        self,
        expected_log_prob: Callable[[Distribution, Tensor, Tensor], Tensor],
        mean: Numbers,
        scale: Numbers,
    ) -> Tensor:
        """Compute -H(q) - E_q[log p(z)], a few rows of q at a time, (...)."""
        q = normal(mean, scale, self.size)
        p = self.density(q.mean.new_zeros(self.size))
        rows = [t.reshape(-1, self.size).split(_ROWS) for t in (q.mean, q.scale)]
        cross = torch.cat([expected_log_prob(p, m, s) for m, s in zip(*rows, strict=True)])
        return (-q.entropy().sum(-1) - cross.reshape(q.mean.shape[:-1])).to(q.dtype)


class GaussianPosteriorBlock(Block):
    """Real columns, each a variable, with a Gaussian posterior and a rate on the sample.

    The encoder outputs the means, then the log-variances. With `encoding="full"` it outputs the
    means, the logs of the squared diagonal of a triangular factor, and the entries below it.
    """

    encoding: Encoding = "diagonal"
    """Covariance of the posterior q(z|x): diagonal or full."""
    gaussian_posterior = True

    @property
    def outputs(self) -> int:
        below = self.size * (self.size - 1) // 2
        return 2 * self.size + (below if self.encoding == "full" else 0)

    @property
    def factorised_posterior(self) -> bool:
        return self.encoding == "diagonal"

    def posterior(self, raw: Tensor) -> DiagonalGaussian | FullGaussian:
        loc, log_variance = raw[..., : self.size], raw[..., self.size : 2 * self.size]
        log_scale = 0.5 * log_variance.clamp(*LOG_VARIANCE_BOUNDS)
        if self.encoding == "diagonal":
            return DiagonalGaussian(loc, log_scale)
        return FullGaussian(loc, triangle(log_scale.exp(), raw[..., 2 * self.size :]))

    def rate(self, q: Distribution, p: Distribution, z: Tensor) -> Tensor:
        """Estimate KL(q(z|x) || p(z)) on the sample: log q(z|x) - log p(z), (...)."""
        return q.log_prob(z) - p.log_prob(z)

    def rates(self, q: Distribution, p: Distribution, z: Tensor) -> Tensor:
        """Estimate KL(q(z_j|x) || p(z_j)) of every column on the sample, (..., D)."""
        return q.log_marginals(z) - p.log_marginals(z)


class SampledRateBlock(GaussianPosteriorBlock, FixedPriorBlock):
    """Real columns with a Gaussian posterior and any known prior; write `density`."""


class ClosedFormRateBlock(GaussianPosteriorBlock, FixedPriorBlock):
    """Real columns whose rate has a formula; `sampled_rate` estimates it on the sample instead.

    The papers estimate it on the sample.
    """

    sampled_rate: bool = False
    """Whether to estimate the rate on the sample, even if it has a closed form."""

    def rate(self, q: Distribution, p: Distribution, z: Tensor) -> Tensor:
        return super().rate(q, p, z) if self.sampled_rate else self.joint_rate(q, p)

    def rates(self, q: Distribution, p: Distribution, z: Tensor) -> Tensor:
        return super().rates(q, p, z) if self.sampled_rate else self.marginal_rates(q, p)

    @abstractmethod
    def joint_rate(self, q: Distribution, p: Distribution) -> Tensor:
        """Compute KL(q(z|x) || p(z)) by its formula, (...)."""

    @abstractmethod
    def marginal_rates(self, q: Distribution, p: Distribution) -> Tensor:
        """Compute KL(q(z_j|x) || p(z_j)) of every column by its formula, (..., D)."""


class FactorisedBlock(ClosedFormRateBlock):
    """Independent columns whose rate is the posterior's entropy and one integral per column.

    The density that `density` returns needs `expected_log_prob`, the integral.
    """

    @abstractmethod
    def density(self, zero: Tensor) -> FactorisedPrior:
        """Return p(z) with the size, type and device of zeros (D,)."""

    def kl(self, mean: Numbers, scale: Numbers) -> Tensor:
        """Compute KL(N(mean, scale^2) || p(z_j)) of every column, (..., D)."""
        q = normal(mean, scale, self.size)
        p = self.density(q.mean.new_zeros(self.size))
        return _column_kl(q.mean, q.scale, p).to(q.dtype)

    def joint_rate(self, q: Distribution, p: Distribution) -> Tensor:
        """Compute -H(q(z|x)) - sum_j E_q[log p(z_j)], (...)."""
        return -q.entropy() - p.expected_log_prob(q.mean, q.stddev).sum(-1)  # type: ignore[attr-defined, no-any-return]

    def marginal_rates(self, q: Distribution, p: Distribution) -> Tensor:
        """Compute -H(q(z_j|x)) - E_q[log p(z_j)], (..., D)."""
        return _column_kl(q.mean, q.stddev, p)  # type: ignore[arg-type]


def _column_kl(mean: Tensor, scale: Tensor, p: FactorisedPrior) -> Tensor:
    return -(torch.log(scale) + 0.5 + HALF_LOG_2PI) - p.expected_log_prob(mean, scale)


def consecutive_slices(widths: Sequence[int]) -> tuple[slice, ...]:
    """Return one slice for each width, each starting where the one before it ends.

    >>> consecutive_slices((2, 1))
    (slice(0, 2, None), slice(2, 3, None))
    """
    stops = itertools.accumulate(widths)
    return tuple(slice(stop - n, stop) for n, stop in zip(widths, stops, strict=True))


def triangle(diagonal: Tensor, below: Tensor) -> Tensor:
    """Build a lower triangular matrix (..., D, D) from its diagonal and the entries below."""
    size = diagonal.shape[-1]
    column = torch.arange(size, device=diagonal.device)
    row = column.unsqueeze(-1)
    zero = torch.full_like(column, size + below.shape[-1])
    index = torch.where(row == column, column, zero)
    index = torch.where(row > column, size + row * (row - 1) // 2 + column, index)
    return torch.cat([diagonal, below, torch.zeros_like(diagonal[..., :1])], -1)[..., index]
