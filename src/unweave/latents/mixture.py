"""Mixtures: of given or learned Gaussians, and of encodings of learned pseudo-inputs."""

from __future__ import annotations

import math
from typing import Annotated, Any, Literal

import torch
from pydantic import BeforeValidator, NonNegativeFloat, PositiveFloat, PositiveInt, model_validator
from torch import Tensor, nn

from unweave.core.noise import Noise
from unweave.core.spec import spec, tag
from unweave.core.tensors import Numbers
from unweave.latents.block import (
    Annealed,
    Continuous,
    Encode,
    Encoding,
    Fixed,
    FixedPrior,
    normal,
    positive,
)
from unweave.latents.densities import Mixture
from unweave.latents.distributions import DiagonalGaussian
from unweave.latents.quadrature import REACH, Cells, Peaks, cells

_GRID = 2  # columns up to which integrals are done on a grid
_NODES = {1: 4096, 2: 512}  # nodes for each column
_ROWS = 4  # distributions at once


def _listed(value: Any) -> Any:
    """Arrays and tensors as nested lists."""
    return value.tolist() if hasattr(value, "tolist") else value


Each = Annotated[tuple[PositiveFloat, ...], BeforeValidator(_listed)]
Points = Annotated[tuple[tuple[float, ...], ...], BeforeValidator(_listed)]
Widths = Annotated[tuple[tuple[PositiveFloat, ...], ...], BeforeValidator(_listed)]
Shares = Annotated[tuple[NonNegativeFloat, ...], BeforeValidator(_listed)]


class LearnedMixture(nn.Module):
    """A mixture whose centres and scales are learned."""

    def __init__(self, mixture: Mixture) -> None:
        super().__init__()
        components = mixture.components
        assert isinstance(components, DiagonalGaussian)
        self.centres = nn.Parameter(components.loc)
        self.log_scales = nn.Parameter(components.log_scale)
        self.register_buffer("log_weights", mixture.log_weights, persistent=False)
        self.log_weights: Tensor

    def forward(self, encode: Encode) -> Mixture:
        """p(z) over z of shape (D,)."""
        return Mixture(DiagonalGaussian(self.centres, self.log_scales), self.log_weights)


@spec
class GaussianMixture(Continuous, Fixed):
    """p(z) = sum_c weights_c N(z; centres_c, diag(scales_c^2)).  [Mathieu2019] eq. 9.

    `centres` is (C, D); `scales` is one number, one for each component or one for each column of
    each; `weights` are equal unless given. The default is the prior of [Mathieu2019] fig. 6 with
    the centres of its released code. With `learn` centres and scales are learned. The rate is
    estimated on the sample.
    """

    centres: Points = ((0.0, -1.0), (0.0, 1.0), (1.0, 0.0), (-1.0, 0.0))
    scales: PositiveFloat | Widths | Each = math.sqrt(0.03)
    weights: Shares | None = None
    learn: bool = False
    encoding: Encoding = "diagonal"
    kind: Literal["gaussian-mixture"] = tag("gaussian-mixture")

    @model_validator(mode="after")
    def _check(self) -> GaussianMixture:
        count, size = len(self.centres), len(self.centres[0]) if self.centres else 0
        if not size or any(len(centre) != size for centre in self.centres):
            raise ValueError("expected centres as rows of equal length, one for each component")
        if isinstance(self.scales, tuple) and len(self.scales) != count:
            raise ValueError(f"expected scales for {count} components, got {len(self.scales)}")
        if any(isinstance(row, tuple) and len(row) != size for row in self._rows):
            raise ValueError(f"expected {size} scales for each component, as it has centres")
        if self.weights is not None and len(self.weights) != count:
            raise ValueError(f"expected weights for {count} components, got {len(self.weights)}")
        if self.weights is not None and sum(self.weights) <= 0:
            raise ValueError("expected weights of which one at least is above 0")
        return self

    @property
    def size(self) -> int:  # type: ignore[override]
        """Columns of z."""
        return len(self.centres[0])

    @property
    def learned(self) -> bool:
        """Whether the prior has parameters."""
        return self.learn

    def density(self, zero: Tensor) -> Mixture:
        """p(z), with the type and device of zeros (D,)."""
        loc = torch.tensor(self.centres, dtype=zero.dtype, device=zero.device)
        rows = [torch.as_tensor(row, dtype=torch.float64).expand(self.size) for row in self._rows]
        shares = self.weights or (1.0,) * len(self.centres)
        weights = torch.tensor(shares, dtype=torch.float64) / sum(shares)
        return Mixture(
            DiagonalGaussian(loc, torch.stack(rows).log().to(loc)), weights.log().to(loc)
        )

    def prior(self, shape: tuple[int, ...]) -> nn.Module:
        """A module that returns p(z)."""
        if not self.learn:
            return FixedPrior(self)
        return LearnedMixture(self.density(torch.zeros(self.size)))

    def kl(self, mean: Numbers, scale: Numbers) -> Tensor:
        """KL(N(mean, diag(scale^2)) || p) of points (..., D), (...).

        By the trapezoidal rule for up to two columns, to 1e-4 for components down to a tenth as
        wide as `scale`; else by 8192 quasi-random points, the same for all.
        """
        q = normal(mean, scale, self.size)
        p = self.density(q.mean.new_zeros(self.size))
        parts = [t.reshape(-1, self.size).split(_ROWS) for t in (q.mean, q.scale)]
        cross = _on_grid if self.size <= _GRID else _by_points
        crosses = torch.cat([cross(p, m, s) for m, s in zip(*parts, strict=True)])
        found = -q.entropy().sum(-1) - crosses.reshape(q.mean.shape[:-1])
        return found.to(q.dtype)

    def entropy(self) -> float:
        """-E[log p(z)], by quadrature for up to two columns."""
        found = self._cells(1.0, "entropy")
        return -float((torch.exp(found.log_weights + found.values) * found.values).sum())

    def log_normaliser(self, beta: float) -> float:
        """log F_beta, by quadrature for up to two columns."""
        return self._cells(positive(beta), "F_beta").log_integral

    def annealed(self, beta: float) -> Annealed:
        """p(z)^beta / F_beta."""
        return Annealed(self, positive(beta))

    def _cells(self, beta: float, what: str) -> Cells:
        """Where p^beta is, for integrals over it."""
        if self.size > _GRID:
            raise ValueError(
                f"the {what} of a mixture is known for one or two columns, got {self.size}; "
                "estimate it from samples of block.density(...)"
            )
        p = self.density(torch.zeros(self.size, dtype=torch.float64))
        loc, spread, root = p.components.mean, p.components.spread, math.sqrt(beta)
        peaks = Peaks(loc, spread / min(root, 1.0), spread / max(root, 1.0))
        return cells(lambda z: beta * p.log_prob(z), peaks)

    @property
    def _rows(self) -> tuple[Any, ...]:
        """The scales of every component: a number, or one for each column."""
        return self.scales if isinstance(self.scales, tuple) else (self.scales,) * len(self.centres)


def _on_grid(p: Mixture, mean: Tensor, scale: Tensor) -> Tensor:
    """E[log p(z)] under N(mean, scale^2), (N, D) with one or two columns, (N,).

    By the trapezoidal rule, which suits what decays fast and is smooth.
    """
    size = mean.shape[-1]
    u = torch.linspace(-REACH, REACH, _NODES[size], dtype=mean.dtype, device=mean.device)
    share = torch.softmax(-0.5 * u.square(), 0)
    z = mean[:, None] + scale[:, None] * u[:, None]  # (N, nodes, D)
    each = p.components.log_marginals(z[:, :, None]).movedim(1, -1)  # (N, C, D, nodes)
    first = each[:, :, 0] + p.log_weights[:, None]
    if size == 1:
        return torch.logsumexp(first, 1) @ share
    # At the points of the grid log-densities are sums of those of the two columns.
    return torch.logsumexp(first[..., None] + each[:, :, 1, None], 1) @ share @ share


def _by_points(p: Mixture, mean: Tensor, scale: Tensor) -> Tensor:
    """E[log p(z)] under N(mean, scale^2), (N, D), by quasi-random points, (N,)."""
    sobol = torch.quasirandom.SobolEngine(mean.shape[-1], scramble=True, seed=0)
    share = sobol.draw(8192, dtype=torch.float64).clamp(1e-12, 1 - 1e-12)
    u = torch.special.ndtri(share).to(mean)
    return p.log_prob(mean[:, None] + scale[:, None] * u).mean(-1)


class PseudoInputs(nn.Module):
    """p(z) = 1/K sum_k q(z | u_k) with learned pseudo-inputs u_k."""

    def __init__(self, block: VampPrior, shape: tuple[int, ...]) -> None:
        super().__init__()
        self.block = block
        self.inputs = nn.Parameter(torch.full((block.components, *shape), 0.5))

    def initial(self, noise: Noise, path: str) -> dict[str, Tensor]:
        """Initial pseudo-inputs, uniform on (0, 1)."""
        name = f"{path}.inputs"
        return {name: noise.uniform(self.inputs.shape, name, self.inputs.dtype)}

    def forward(self, encode: Encode) -> Mixture:
        """p(z) over z of shape (D,)."""
        components = self.block.posterior(encode(self.inputs))
        count = self.block.components
        return Mixture(components, components.mean.new_full((count,), -math.log(count)))


@spec
class VampPrior(Continuous):
    """p(z) = 1/K sum_k q(z | u_k): a mixture of the encodings of K learned pseudo-inputs.

    [Tomczak2018] eq. 9. The pseudo-inputs are free parameters in the space of the observations.
    The rate is estimated on the sample.
    """

    size: PositiveInt = 10
    components: PositiveInt = 50
    encoding: Encoding = "diagonal"
    kind: Literal["vamp"] = tag("vamp")

    @property
    def learned(self) -> bool:
        """Whether the prior has parameters."""
        return True

    def prior(self, shape: tuple[int, ...]) -> nn.Module:
        """A module that returns p(z)."""
        return PseudoInputs(self, shape)
