"""Blocks with independent columns that are not normal: Student-t, sparse, Laplace, uniform."""

import dataclasses
import math
from typing import Annotated, Literal, Self

import torch
import torch.nn.functional as F
from pydantic import Field, PositiveFloat, model_validator
from torch import Tensor

from unweave.core.spec import Size, spec, tag
from unweave.core.tensors import Numbers
from unweave.latents.block import Encoding, FactorisedBlock, FixedPriorBlock
from unweave.latents.densities import (
    FactorisedPrior,
    LaplaceDensity,
    SparseDensity,
    StudentDensity,
    UniformDensity,
    log_gamma_half_step,
)
from unweave.latents.distributions import DiagonalGaussian, Distribution, Squashed
from unweave.latents.prior import normal, positive
from unweave.latents.quadrature import Peaks, cells


@spec
class StudentT(FactorisedBlock):
    """p(z) = prod_j t(z_j / scale; df) / scale: heavy tails, not invariant to rotation.

    [Mathieu2019] sec. 6, fig. 5. The posterior stays Gaussian. The rate is computed by quadrature;
    the paper estimates it on the sample (`sampled_rate=True`).
    """

    size: Size = 10
    """Number of latent variables in the block."""
    df: PositiveFloat = 5.0
    """Degrees of freedom; fewer have heavier tails."""
    scale: PositiveFloat = 1.0
    """Scale of the distribution."""
    encoding: Encoding = "diagonal"
    sampled_rate: bool = False
    kind: Literal["student-t"] = tag("student-t")

    def density(self, zero: Tensor) -> StudentDensity:
        return StudentDensity(zero, self.df, self.scale)

    def traversal_range(self, p: Distribution) -> tuple[Tensor, Tensor]:
        """Return where traversals start and end; for df <= 2, -/+ 2 scales, (D,) each."""
        half = 2 * p.stddev.where(p.stddev.isfinite(), self.scale)
        return p.mean - half, p.mean + half

    def entropy(self) -> float:
        """Compute D [(df + 1) / 2 (psi((df + 1) / 2) - psi(df / 2)) - log c], c = p(0)."""
        slope = (self.df + 1) / 2 * log_gamma_half_step(self.df / 2).slope
        return self.size * (slope - self._log_peak)

    def log_normaliser(self, beta: float) -> float:
        """Compute log F_beta = D [beta log c - log c'], c' the peak of the annealed prior."""
        return self.size * (beta * self._log_peak - self.annealed(beta)._log_peak)

    def annealed(self, beta: float) -> Self:
        """Return p(z)^beta / F_beta: df' = beta (df + 1) - 1, scale' = scale sqrt(df / df')."""
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
class Sparse(FactorisedBlock):
    """p(z) = prod_j w N(z_j; 0, s^2) + (1 - w) N(z_j; 0, 1).

    [Mathieu2019] app. B: most columns of a code are off, that is within a spike of standard
    deviation s, `spike_scale`; `spike_weight`, w, is the share of columns that are off.
    """

    size: Size = 50
    """Number of latent variables in the block."""
    spike_weight: Annotated[float, Field(ge=0, le=1)] = 0.8
    """Share of the columns that are off."""
    spike_scale: Annotated[float, Field(gt=0, lt=1)] = 0.05
    """Standard deviation of the columns that are off."""
    encoding: Encoding = "diagonal"
    sampled_rate: bool = False
    kind: Literal["sparse"] = tag("sparse")

    def density(self, zero: Tensor) -> FactorisedPrior:
        if self.spike_weight in (0, 1):
            scale = self.spike_scale if self.spike_weight else 1.0
            return DiagonalGaussian(zero, zero + math.log(scale))
        return SparseDensity(zero, self.spike_weight, self.spike_scale)

    def traversal_range(self, p: Distribution) -> tuple[Tensor, Tensor]:
        """Return where traversals start and end: -/+ 2 stddevs of the slab, (D,) each."""
        return p.mean - 2, p.mean + 2

    def entropy(self) -> float:
        """Compute -E[log p], the mean over the spike and the slab."""
        p = self.density(torch.zeros(1, dtype=torch.float64))
        zero = torch.zeros(2, dtype=torch.float64)
        both = torch.tensor([self.spike_scale, 1.0], dtype=torch.float64)
        shares = torch.tensor([self.spike_weight, 1 - self.spike_weight], dtype=torch.float64)
        return -self.size * float(shares @ p.expected_log_prob(zero, both))

    def log_normaliser(self, beta: float) -> float:
        """Compute log F_beta = D log of the integral of p(z_j)^beta, by quadrature."""
        p = self.density(torch.zeros(1, dtype=torch.float64))
        root = math.sqrt(positive(beta))
        scales = torch.tensor([[self.spike_scale], [1.0]], dtype=torch.float64)
        peaks = Peaks(torch.zeros_like(scales), scales / min(root, 1.0), scales / max(root, 1.0))
        return self.size * cells(lambda z: beta * p.log_prob(z), peaks).log_integral


@spec
class Laplace(FactorisedBlock):
    """p(z) = prod_j exp(-|z_j| / scale) / (2 scale): a factorised prior with preferred axes.

    [Mathieu2019] sec. 6. The rate has a closed form.
    """

    size: Size = 10
    """Number of latent variables in the block."""
    scale: PositiveFloat = 1.0
    """Scale of the distribution."""
    encoding: Encoding = "diagonal"
    sampled_rate: bool = False
    kind: Literal["laplace"] = tag("laplace")

    def density(self, zero: Tensor) -> LaplaceDensity:
        return LaplaceDensity(zero, self.scale)

    def entropy(self) -> float:
        """Compute D (1 + log 2 scale)."""
        return self.size * (1 + math.log(2 * self.scale))

    def log_normaliser(self, beta: float) -> float:
        """Compute log F_beta = D ((1 - beta) log 2 scale - log beta)."""
        return self.size * ((1 - beta) * math.log(2 * self.scale) - math.log(positive(beta)))

    def annealed(self, beta: float) -> Self:
        """Return p(z)^beta / F_beta = Laplace(scale / beta)."""
        return dataclasses.replace(self, scale=self.scale / positive(beta))


@spec
class Uniform(FixedPriorBlock):
    """p(z) uniform on (low, high) in every column.  [Kim2018] app. H: the codes of an InfoGAN.

    The posterior is z = low + (high - low) Phi(u) with u ~ N(mean(x), diag(scale(x)^2)). It ranges
    from a narrow distribution to the uniform one; its rate is that of u.
    """

    size: Size = 4
    """Number of latent variables in the block."""
    low: float = -1.0
    """Lower end of the interval."""
    high: float = 1.0
    """Upper end of the interval."""
    kind: Literal["uniform"] = tag("uniform")

    @model_validator(mode="after")
    def _check(self) -> Self:
        if not self.low < self.high:
            raise ValueError(f"expected low < high, got low={self.low} and high={self.high}")
        return self

    @property
    def outputs(self) -> int:
        return 2 * self.size

    def posterior(self, raw: Tensor) -> Squashed:
        """Return q(z|x) for the encoder's output: means and log-variances of u, both bounded.

        Means lie within 3 of 0 (where Phi is 0.999) and scales between 0.03 and 1, so that z keeps
        the digits its density needs in float32.
        """
        loc, log_variance = raw.chunk(2, -1)
        bounded = -F.softplus(-log_variance).clamp(max=7.0)
        return Squashed(
            DiagonalGaussian(3 * torch.tanh(loc / 3), 0.5 * bounded), self.low, self.high
        )

    def target(self, value: Tensor, classes: int) -> Tensor:
        """Divide the interval into one part per class and return the part's middle, (..., 1)."""
        self._check_label(classes)
        return self.low + (self.high - self.low) * (value.unsqueeze(-1) + 0.5) / classes

    def density(self, zero: Tensor) -> UniformDensity:
        return UniformDensity(zero, self.low, self.high)

    def traversal_range(self, p: Distribution) -> tuple[Tensor, Tensor]:
        """Return where traversals start and end: the ends of the interval, (D,) each."""
        return torch.full_like(p.mean, self.low), torch.full_like(p.mean, self.high)

    def rates(self, q: Distribution, p: Distribution, z: Tensor) -> Tensor:
        """Compute KL(q(z_j|x) || p(z_j)) = KL(q(u_j|x) || N(0, 1)) of every column, (..., D)."""
        assert isinstance(q, Squashed)
        zero = torch.zeros_like(q.base.loc)
        return q.base.kl(DiagonalGaussian(zero, zero))

    def kl(self, mean: Numbers, scale: Numbers) -> Tensor:
        """Return infinity: a normal distribution has mass where p(z) has none, (..., D)."""
        q = normal(mean, scale, self.size)
        return torch.full_like(q.mean, math.inf, dtype=q.dtype)

    def entropy(self) -> float:
        """Compute D log(high - low)."""
        return self.size * math.log(self.high - self.low)

    def log_normaliser(self, beta: float) -> float:
        """Compute log F_beta = D (1 - beta) log(high - low)."""
        return (1 - positive(beta)) * self.entropy()

    def annealed(self, beta: float) -> Self:
        """Return p(z)^beta / F_beta, which is p(z) itself."""
        positive(beta)
        return self
