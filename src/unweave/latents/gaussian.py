"""The Gaussian block, with a fixed or learned prior covariance."""

import dataclasses
import math
from typing import Literal, Self

import torch
from pydantic import PositiveFloat, model_validator
from torch import Tensor, nn

from unweave.core.spec import Size, spec, tag
from unweave.core.tensors import Numbers
from unweave.latents.block import (
    ClosedFormRateBlock,
    Encode,
    Encoding,
    FixedPrior,
    Spectrum,
    triangle,
)
from unweave.latents.distributions import HALF_LOG_2PI, DiagonalGaussian, Distribution, FullGaussian
from unweave.latents.prior import normal, positive


class LearnedVariances(nn.Module):
    """N(0, diag(v)) with learned variances v = T softmax(w) of constant sum T."""

    def __init__(self, variances: tuple[float, ...]) -> None:
        super().__init__()
        self.log_variances = nn.Parameter(torch.tensor(variances).log())
        self.total = sum(variances)

    def forward(self, encode: Encode) -> DiagonalGaussian:
        """Return p(z) over z of shape (D,)."""
        log_shares = torch.log_softmax(self.log_variances, -1)
        return DiagonalGaussian(
            torch.zeros_like(log_shares), 0.5 * (log_shares + math.log(self.total))
        )


class LearnedCovariance(nn.Module):
    """N(0, L L^T) with L learned and the trace of the covariance constant."""

    def __init__(self, variances: tuple[float, ...]) -> None:
        super().__init__()
        size = len(variances)
        self.log_diagonal = nn.Parameter(0.5 * torch.tensor(variances).log())
        self.below = nn.Parameter(torch.zeros(size * (size - 1) // 2))
        self.total = sum(variances)

    def forward(self, encode: Encode) -> FullGaussian:
        """Return p(z) over z of shape (D,)."""
        factor = triangle(self.log_diagonal.exp(), self.below)
        scale = torch.sqrt(self.total / factor.square().sum())
        return FullGaussian(torch.zeros_like(self.log_diagonal), scale * factor)


@spec
class Gaussian(ClosedFormRateBlock):
    """p(z) = N(z; 0, diag(variances)), by default N(0, I).  [Kingma2014] sec. 3.

    `variances="pca"` uses those of the data's principal components, scaled to a mean of 1:
    v_i = D s_i^2 / sum s^2, largest first.  [Mathieu2019] app. B. `learn="variances"` learns them
    with the same normalisation, `learn="covariance"` a full covariance [Esmaeili2019] sec. 5.
    """

    size: Size = 10
    """Number of latent variables in the block."""
    variances: Literal["pca"] | tuple[PositiveFloat, ...] | None = None
    """Variances of the prior; pca takes those of the data's principal components."""
    learn: Literal["nothing", "variances", "covariance"] = "nothing"
    """Parameters of the prior to learn: nothing, variances or covariance."""
    encoding: Encoding = "diagonal"
    sampled_rate: bool = False
    kind: Literal["gaussian"] = tag("gaussian")
    finite_variance = True

    @model_validator(mode="after")
    def _check(self) -> Self:
        if isinstance(self.variances, tuple) and len(self.variances) != self.size:
            raise ValueError(
                f"expected one variance for each of the {self.size} columns, got "
                f"{len(self.variances)}"
            )
        return self

    @property
    def also_cites(self) -> tuple[str, ...]:
        """The sources of variances of the data and of a learned covariance, if they are used."""
        pca = ("Mathieu2019",) if self.variances == "pca" else ()
        return (*pca, "Esmaeili2019") if self.learn == "covariance" else pca

    @property
    def fixed_prior(self) -> bool:
        return self.learn == "nothing"

    @property
    def factorised(self) -> bool:
        return self.learn != "covariance"

    def density(self, zero: Tensor) -> DiagonalGaussian:
        variances = torch.tensor(self._variances, dtype=zero.dtype, device=zero.device)
        return DiagonalGaussian(zero, 0.5 * variances.log())

    def prior(self, shape: tuple[int, ...]) -> nn.Module:
        if self.learn == "nothing":
            return FixedPrior(self)
        learned = LearnedVariances if self.learn == "variances" else LearnedCovariance
        return learned(self._variances)

    def resolve(self, spectrum: Spectrum) -> Self:
        """Replace `variances="pca"` by the principal variances of the data."""
        if self.variances != "pca":
            return self
        values = spectrum(self.size)
        if min(values) <= 0:
            rank = sum(value > 0 for value in values)
            raise ValueError(
                f"the data vary in {rank} directions, too few for {self.size} principal "
                f"components; use latent.size={rank} or less"
            )
        mean = sum(values) / len(values)
        shares = tuple(float(f"{value / mean:.6g}") for value in values)
        return dataclasses.replace(self, variances=shares)

    def kl(self, mean: Numbers, scale: Numbers) -> Tensor:
        """Compute KL(N(mean, scale^2) || p(z_j)) per column, (..., D).  [Kingma2014] app. B."""
        q = normal(mean, scale, self.size)
        p = self.density(q.mean.new_zeros(self.size))
        return DiagonalGaussian(q.mean, q.scale.log()).kl(p).to(q.dtype)

    def entropy(self) -> float:
        """Compute the sum of (1 + log 2 pi v_j) / 2."""
        return sum(0.5 + HALF_LOG_2PI + 0.5 * math.log(v) for v in self._variances)

    def log_normaliser(self, beta: float) -> float:
        """Compute log F_beta = sum of (1 - beta) log(2 pi v_j) / 2 - log(beta) / 2."""
        half = 0.5 * math.log(positive(beta))
        return sum((1 - beta) * (HALF_LOG_2PI + 0.5 * math.log(v)) - half for v in self._variances)

    def annealed(self, beta: float) -> Self:
        """Return p(z)^beta / F_beta = N(0, diag(variances) / beta)."""
        return dataclasses.replace(
            self, variances=tuple(v / positive(beta) for v in self._variances)
        )

    def joint_rate(self, q: Distribution, p: Distribution) -> Tensor:
        if isinstance(q, DiagonalGaussian) and isinstance(p, DiagonalGaussian):
            return q.kl(p).sum(-1)
        return as_full(q).kl(as_full(p))

    def marginal_rates(self, q: Distribution, p: Distribution) -> Tensor:
        return _marginals(q).kl(_marginals(p))

    @property
    def _variances(self) -> tuple[float, ...]:
        if self.variances == "pca":
            raise ValueError(
                'variances="pca" needs the data, which is not known yet; give the variances, '
                "Gaussian(size, variances=(...)), or use the latent of a resolved run"
            )
        return self.variances or (1.0,) * self.size


def as_full(d: Distribution) -> FullGaussian:
    """Return a Gaussian with its covariance as a full factor."""
    return d if isinstance(d, FullGaussian) else FullGaussian(d.mean, torch.diag_embed(d.stddev))


def _marginals(d: Distribution) -> DiagonalGaussian:
    if isinstance(d, FullGaussian):
        return d.marginals
    assert isinstance(d, DiagonalGaussian)
    return d
