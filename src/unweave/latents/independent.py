"""Blocks of independent columns that are not normal: Student-t, sparse, Laplace, uniform."""

from __future__ import annotations

import dataclasses
import math
from typing import Annotated, Literal

import torch
import torch.nn.functional as F
from pydantic import Field, PositiveFloat, PositiveInt, model_validator
from torch import Tensor

from unweave.core.spec import spec, tag
from unweave.core.tensors import Numbers
from unweave.latents.block import Annealed, Encoding, Fixed, Independent, normal, positive
from unweave.latents.densities import (
    Factorised,
    LaplaceDensity,
    SparseDensity,
    StudentDensity,
    UniformDensity,
    half_step,
)
from unweave.latents.distributions import DiagonalGaussian, Distribution, Squashed
from unweave.latents.quadrature import Peaks, cells


@spec
class StudentT(Independent):
    """p(z) = prod_j t(z_j / scale; df) / scale: heavy tails, not invariant to rotation.

    [Mathieu2019] sec. 6, fig. 5. The posterior stays Gaussian; the rate is by quadrature where the
    paper samples it (`sampled_rate=True`).
    """

    size: PositiveInt = 10
    df: PositiveFloat = 5.0
    scale: PositiveFloat = 1.0
    encoding: Encoding = "diagonal"
    sampled_rate: bool = False
    kind: Literal["student-t"] = tag("student-t")

    def density(self, zero: Tensor) -> StudentDensity:
        """p(z), with the size, type and device of zeros (D,)."""
        return StudentDensity(zero, self.df, self.scale)

    def reach(self, p: Distribution) -> tuple[Tensor, Tensor]:
        """Where traversals begin and end; 2 scales from the middle where df <= 2, (D,)."""
        half = 2 * p.spread.where(p.spread.isfinite(), self.scale)
        return p.mean - half, p.mean + half

    def entropy(self) -> float:
        """D [(df + 1) / 2 (psi((df + 1) / 2) - psi(df / 2)) - log c], c = p(0)."""
        slope = (self.df + 1) / 2 * half_step(self.df / 2).slope
        return self.size * (slope - self._log_peak)

    def log_normaliser(self, beta: float) -> float:
        """log F_beta = D [beta log c - log c'], c' the peak of the annealed prior."""
        return self.size * (beta * self._log_peak - self.annealed(beta)._log_peak)

    def annealed(self, beta: float) -> StudentT:
        """p(z)^beta / F_beta: df' = beta (df + 1) - 1 and scale' = scale sqrt(df / df')."""
        df = positive(beta) * (self.df + 1) - 1
        if df <= 0:
            raise ValueError(
                f"expected beta above 1 / (df + 1) = {1 / (self.df + 1):.3g}, got {beta}: the "
                "tails of p(z)^beta have no integral"
            )
        return dataclasses.replace(self, df=df, scale=self.scale * math.sqrt(self.df / df))

    @property
    def _log_peak(self) -> float:
        zero = torch.zeros(1, dtype=torch.float64)
        return float(self.density(zero).log_prob(zero))


@spec
class Sparse(Independent):
    """p(z) = prod_j w N(z_j; 0, s^2) + (1 - w) N(z_j; 0, 1).

    [Mathieu2019] app. B: most columns of a code are off, within a spike whose standard deviation s
    is `spike_scale`; `spike_weight`, w, is the share of columns that are off.
    """

    size: PositiveInt = 50
    spike_weight: Annotated[float, Field(ge=0, le=1)] = 0.8
    spike_scale: Annotated[float, Field(gt=0, lt=1)] = 0.05
    encoding: Encoding = "diagonal"
    sampled_rate: bool = False
    kind: Literal["sparse"] = tag("sparse")

    def density(self, zero: Tensor) -> Factorised:
        """p(z), with the size, type and device of zeros (D,)."""
        if self.spike_weight in (0, 1):
            scale = self.spike_scale if self.spike_weight else 1.0
            return DiagonalGaussian(zero, zero + math.log(scale))
        return SparseDensity(zero, self.spike_weight, self.spike_scale)

    def reach(self, p: Distribution) -> tuple[Tensor, Tensor]:
        """Where traversals begin and end: 2 standard deviations of the wide part, (D,)."""
        return p.mean - 2, p.mean + 2

    def entropy(self) -> float:
        """-E[log p]: the mean of the cross terms with the spike and with the wide part."""
        p = self.density(torch.zeros(1, dtype=torch.float64))
        zero = torch.zeros(2, dtype=torch.float64)
        both = torch.tensor([self.spike_scale, 1.0], dtype=torch.float64)
        shares = torch.tensor([self.spike_weight, 1 - self.spike_weight], dtype=torch.float64)
        return -self.size * float(shares @ p.cross(zero, both))

    def log_normaliser(self, beta: float) -> float:
        """log F_beta = D log of the integral of p(z_j)^beta, by quadrature."""
        p = self.density(torch.zeros(1, dtype=torch.float64))
        root = math.sqrt(positive(beta))
        scales = torch.tensor([[self.spike_scale], [1.0]], dtype=torch.float64)
        around = Peaks(torch.zeros_like(scales), scales / min(root, 1.0), scales / max(root, 1.0))
        found = cells(lambda z: beta * p.log_prob(z), around)
        return self.size * found.log_integral

    def annealed(self, beta: float) -> Annealed:
        """p(z)^beta / F_beta."""
        return Annealed(self, positive(beta))


@spec
class Laplace(Independent):
    """p(z) = prod_j exp(-|z_j| / scale) / (2 scale): a factored prior that singles out axes.

    [Mathieu2019] sec. 6. The rate is in closed form.
    """

    size: PositiveInt = 10
    scale: PositiveFloat = 1.0
    encoding: Encoding = "diagonal"
    sampled_rate: bool = False
    kind: Literal["laplace"] = tag("laplace")

    def density(self, zero: Tensor) -> LaplaceDensity:
        """p(z), with the size, type and device of zeros (D,)."""
        return LaplaceDensity(zero, self.scale)

    def entropy(self) -> float:
        """D (1 + log 2 scale)."""
        return self.size * (1 + math.log(2 * self.scale))

    def log_normaliser(self, beta: float) -> float:
        """log F_beta = D ((1 - beta) log 2 scale - log beta)."""
        return self.size * ((1 - beta) * math.log(2 * self.scale) - math.log(positive(beta)))

    def annealed(self, beta: float) -> Laplace:
        """p(z)^beta / F_beta = Laplace(scale / beta)."""
        return dataclasses.replace(self, scale=self.scale / positive(beta))


@spec
class Uniform(Fixed):
    """p(z) uniform on (low, high) in every column.  [Kim2018] app. H: the codes of an InfoGAN.

    The posterior is z = low + (high - low) Phi(u) with u ~ N(mean(x), diag(scale(x)^2)), from a
    narrow distribution to the uniform one; its rate is that of u.
    """

    size: PositiveInt = 4
    low: float = -1.0
    high: float = 1.0
    kind: Literal["uniform"] = tag("uniform")

    @model_validator(mode="after")
    def _check(self) -> Uniform:
        if not self.low < self.high:
            raise ValueError(f"expected low < high, got low={self.low} and high={self.high}")
        return self

    @property
    def outputs(self) -> int:
        """Numbers that the encoder puts out for this block."""
        return 2 * self.size

    @property
    def variables(self) -> tuple[int, ...]:
        """Columns of each variable."""
        return (1,) * self.size

    def posterior(self, raw: Tensor) -> Squashed:
        """q(z|x) from the encoder's output: means and log-variances of u, both bounded.

        Means are within 3 (where Phi is 0.999) and scales from 0.03 to 1, so that z keeps the
        digits that its density needs in float32.
        """
        loc, log_variance = raw.chunk(2, -1)
        bounded = -F.softplus(-log_variance).clamp(max=7.0)
        return Squashed(
            DiagonalGaussian(3 * torch.tanh(loc / 3), 0.5 * bounded), self.low, self.high
        )

    def target(self, value: Tensor, classes: int) -> Tensor:
        """The middle of one of as many parts of the interval as there are classes, (..., 1)."""
        self._check_label(classes)
        return self.low + (self.high - self.low) * (value.unsqueeze(-1) + 0.5) / classes

    def density(self, zero: Tensor) -> UniformDensity:
        """p(z), with the size, type and device of zeros (D,)."""
        return UniformDensity(zero, self.low, self.high)

    def reach(self, p: Distribution) -> tuple[Tensor, Tensor]:
        """Where traversals begin and end: the ends of the interval, (D,)."""
        return torch.full_like(p.mean, self.low), torch.full_like(p.mean, self.high)

    def rate(self, q: Distribution, p: Distribution, z: Tensor) -> Tensor:
        """KL(q(z|x) || p(z)) = KL(q(u|x) || N(0, I)), (...)."""
        return self.rates(q, p, z).sum(-1)

    def rates(self, q: Distribution, p: Distribution, z: Tensor) -> Tensor:
        """The same for every column, (..., D)."""
        assert isinstance(q, Squashed)
        zero = torch.zeros_like(q.base.loc)
        return q.base.kl(DiagonalGaussian(zero, zero))

    def kl(self, mean: Numbers, scale: Numbers) -> Tensor:
        """Infinite: a normal distribution has mass where p(z) has none, (..., D)."""
        q = normal(mean, scale, self.size)
        return torch.full_like(q.mean, math.inf, dtype=q.dtype)

    def entropy(self) -> float:
        """D log(high - low)."""
        return self.size * math.log(self.high - self.low)

    def log_normaliser(self, beta: float) -> float:
        """log F_beta = D (1 - beta) log(high - low)."""
        return (1 - positive(beta)) * self.entropy()

    def annealed(self, beta: float) -> Uniform:
        """p(z)^beta / F_beta: the same."""
        positive(beta)
        return self
