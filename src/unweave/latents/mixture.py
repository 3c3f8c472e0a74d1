"""Mixture priors: Gaussian mixtures, and mixtures of the encodings of pseudo-inputs."""

from __future__ import annotations

import math
from typing import Annotated, Any, Literal

import torch
from pydantic import BeforeValidator, NonNegativeFloat, PositiveFloat, model_validator
from torch import Tensor, nn

from unweave.core.noise import Noise
from unweave.core.spec import Size, spec, tag
from unweave.core.tensors import Numbers
from unweave.latents.block import (
    Encode,
    Encoding,
    FixedPrior,
    GaussianPosteriorBlock,
    SampledRateBlock,
)
from unweave.latents.densities import Mixture
from unweave.latents.distributions import DiagonalGaussian, Distribution
from unweave.latents.prior import positive, quasi_random_expectation
from unweave.latents.quadrature import REACH, Cells, Peaks, cells

_GRID = 2  # integrals over up to this many columns use a grid
_NODES = {1: 4096, 2: 512}  # grid nodes for each column


def _as_lists(value: Any) -> Any:
    return value.tolist() if hasattr(value, "tolist") else value


Each = Annotated[tuple[PositiveFloat, ...], BeforeValidator(_as_lists)]
Points = Annotated[tuple[tuple[float, ...], ...], BeforeValidator(_as_lists)]
Widths = Annotated[tuple[tuple[PositiveFloat, ...], ...], BeforeValidator(_as_lists)]
Shares = Annotated[tuple[NonNegativeFloat, ...], BeforeValidator(_as_lists)]


class LearnedMixture(nn.Module):
    """A mixture with learned centres and scales."""

    def __init__(self, mixture: Mixture) -> None:
        super().__init__()
        components = mixture.components
        assert isinstance(components, DiagonalGaussian)
        self.centres = nn.Parameter(components.loc)
        self.log_scales = nn.Parameter(components.log_scale)
        self.register_buffer("log_weights", mixture.log_weights, persistent=False)
        self.log_weights: Tensor

    def forward(self, encode: Encode) -> Mixture:
        """Return p(z) over z of shape (D,)."""
        return Mixture(DiagonalGaussian(self.centres, self.log_scales), self.log_weights)


@spec
class GaussianMixture(SampledRateBlock):
    """p(z) = sum_c weights_c N(z; centres_c, diag(scales_c^2)).  [Mathieu2019] eq. 9.

    `centres` is (C, D); `scales` is one number, one per component, or one per component and column;
    `weights` are equal by default. The default is the prior of [Mathieu2019] fig. 6 with the
    centres of its released code. With `learn` centres and scales are learned. The rate is estimated
    on the sample.
    """

    centres: Points = ((0.0, -1.0), (0.0, 1.0), (1.0, 0.0), (-1.0, 0.0))
    """Centres of the components, (C, D)."""
    scales: PositiveFloat | Widths | Each = math.sqrt(0.03)
    """Standard deviations: one, one per component, or one per component and column."""
    weights: Shares | None = None
    """Probabilities of the components; by default equal."""
    learn: bool = False
    """Whether centres and scales are learned."""
    encoding: Encoding = "diagonal"
    kind: Literal["gaussian-mixture"] = tag("gaussian-mixture")
    finite_variance = True
    factorised = False

    @model_validator(mode="after")
    def _check(self) -> GaussianMixture:
        count, size = len(self.centres), len(self.centres[0]) if self.centres else 0
        if not size or any(len(centre) != size for centre in self.centres):
            raise ValueError("expected centres as rows of equal length, one for each component")
        if isinstance(self.scales, tuple) and len(self.scales) != count:
            raise ValueError(f"expected scales for {count} components, got {len(self.scales)}")
        if any(isinstance(row, tuple) and len(row) != size for row in self._component_scales):
            raise ValueError(f"expected {size} scales for each component, as it has centres")
        if self.weights is not None and len(self.weights) != count:
            raise ValueError(f"expected weights for {count} components, got {len(self.weights)}")
        if self.weights is not None and sum(self.weights) <= 0:
            raise ValueError("expected at least one weight above 0, got only zeros")
        return self

    @property
    def size(self) -> int:  # type: ignore[override]
        """Number of columns of z."""
        return len(self.centres[0])

    @property
    def fixed_prior(self) -> bool:
        return not self.learn

    def density(self, zero: Tensor) -> Mixture:
        loc = torch.tensor(self.centres, dtype=zero.dtype, device=zero.device)
        rows = [
            torch.as_tensor(row, dtype=torch.float64).expand(self.size)
            for row in self._component_scales
        ]
        shares = self.weights or (1.0,) * len(self.centres)
        weights = torch.tensor(shares, dtype=torch.float64) / sum(shares)
        return Mixture(
            DiagonalGaussian(loc, torch.stack(rows).log().to(loc)), weights.log().to(loc)
        )

    def prior(self, shape: tuple[int, ...]) -> nn.Module:
        if not self.learn:
            return FixedPrior(self)
        return LearnedMixture(self.density(torch.zeros(self.size)))

    def kl(self, mean: Numbers, scale: Numbers) -> Tensor:
        """Compute KL(N(mean, diag(scale^2)) || p), (...).

        For up to two columns by the trapezoidal rule, to 1e-4 for components at least a tenth as
        wide as `scale`; otherwise by 8192 quasi-random points.
        """
        on_grid = self.size <= _GRID
        return self._kl_by(_grid_expectation if on_grid else quasi_random_expectation, mean, scale)

    def entropy(self) -> float:
        """Compute -E[log p(z)] by quadrature, for up to two columns."""
        rule = self._cells(1.0, "entropy")
        return -float((torch.exp(rule.log_weights + rule.values) * rule.values).sum())

    def log_normaliser(self, beta: float) -> float:
        """Compute log F_beta by quadrature, for up to two columns."""
        return self._cells(positive(beta), "F_beta").log_integral

    def _cells(self, beta: float, what: str) -> Cells:
        """Return a quadrature rule for integrals over p^beta."""
        if self.size > _GRID:
            raise ValueError(
                f"the {what} of a mixture is known for one or two columns, got {self.size}; "
                "estimate it from samples of block.density(...)"
            )
        p = self.density(torch.zeros(self.size, dtype=torch.float64))
        loc, stddev, root = p.components.mean, p.components.stddev, math.sqrt(beta)
        peaks = Peaks(loc, stddev / min(root, 1.0), stddev / max(root, 1.0))
        return cells(lambda z: beta * p.log_prob(z), peaks)

    @property
    def _component_scales(self) -> tuple[Any, ...]:
        """The scales of every component: one number, or one for each column."""
        return self.scales if isinstance(self.scales, tuple) else (self.scales,) * len(self.centres)


def _grid_expectation(p: Distribution, mean: Tensor, scale: Tensor) -> Tensor:
    """Compute E[log p(z)] of a mixture under N(mean, scale^2), (N, D) for D = 1 or 2, (N,).

    Uses the trapezoidal rule, which suits smooth integrands that decay fast.
    """
    assert isinstance(p, Mixture)
    size = mean.shape[-1]
    u = torch.linspace(-REACH, REACH, _NODES[size], dtype=mean.dtype, device=mean.device)
    share = torch.softmax(-0.5 * u.square(), 0)
    z = mean[:, None] + scale[:, None] * u[:, None]  # (N, nodes, D)
    each = p.components.log_marginals(z[:, :, None]).movedim(1, -1)  # (N, C, D, nodes)
    first = each[:, :, 0] + p.log_weights[:, None]
    if size == 1:
        return torch.logsumexp(first, 1) @ share
    # On the grid the log-density of a component is the sum over its two columns.
    return torch.logsumexp(first[..., None] + each[:, :, 1, None], 1) @ share @ share


class PseudoInputs(nn.Module):
    """p(z) = 1/K sum_k q(z | u_k) with learned pseudo-inputs u_k."""

    def __init__(self, block: VampPrior, shape: tuple[int, ...]) -> None:
        super().__init__()
        self.block = block
        self.inputs = nn.Parameter(torch.full((block.components, *shape), 0.5))

    def initial(self, noise: Noise, path: str) -> dict[str, Tensor]:
        """Draw initial pseudo-inputs, uniform on (0, 1)."""
        name = f"{path}.inputs"
        return {name: noise.uniform(self.inputs.shape, name, self.inputs.dtype)}

    def forward(self, encode: Encode) -> Mixture:
        """Return p(z) over z of shape (D,)."""
        components = self.block.posterior(encode(self.inputs))
        count = self.block.components
        return Mixture(components, components.mean.new_full((count,), -math.log(count)))


@spec
class VampPrior(GaussianPosteriorBlock):
    """p(z) = 1/K sum_k q(z | u_k): a mixture of the encodings of K learned pseudo-inputs.

    [Tomczak2018] eq. 9. The pseudo-inputs are parameters with the shape of observations. The rate
    is estimated on the sample.
    """

    size: Size = 10
    """Number of latent variables in the block."""
    components: Size = 50
    """Number of learned pseudo-inputs."""
    encoding: Encoding = "diagonal"
    kind: Literal["vamp"] = tag("vamp")
    fixed_prior = False
    factorised = False

    def prior(self, shape: tuple[int, ...]) -> nn.Module:
        return PseudoInputs(self, shape)
