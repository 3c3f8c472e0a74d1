"""Mixtures: of given or learned Gaussians, and of encodings of learned pseudo-inputs."""

from __future__ import annotations

import math
from typing import Annotated, Any, Literal

import torch
from pydantic import BeforeValidator, NonNegativeFloat, PositiveFloat, PositiveInt, model_validator
from torch import Tensor, nn

from unweave.latents.block import (
    Annealed,
    Continuous,
    Encode,
    Encoding,
    Fixed,
    FixedPrior,
    positive,
)
from unweave.latents.densities import Mixture
from unweave.latents.distributions import DiagonalGaussian
from unweave.latents.quadrature import REACH, integral
from unweave.noise import Noise
from unweave.spec import spec, tag

_GRID = 2  # columns up to which integrals are done on a grid


def _listed(value: Any) -> Any:
    """Arrays and tensors as nested lists."""
    return value.tolist() if hasattr(value, "tolist") else value


Numbers = Annotated[tuple[PositiveFloat, ...], BeforeValidator(_listed)]
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
    scales: PositiveFloat | Widths | Numbers = math.sqrt(0.03)
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

    def kl(self, mean: Tensor, scale: Tensor) -> Tensor:
        """KL(N(mean, diag(scale^2)) || p) of points (..., D), (...).

        On a grid for up to two columns, else by 4096 samples that are always the same.
        """
        mean, scale = torch.broadcast_tensors(mean, torch.as_tensor(scale))
        q = DiagonalGaussian(mean.double(), scale.double().log())
        p = self.density(torch.zeros(self.size, dtype=torch.float64))
        if self.size > _GRID:
            z = q.rsample(Noise(0, 0, "mixture", mean.device), (4096,))
            return (q.log_prob(z) - p.log_prob(z)).mean(0).to(mean)
        flat = zip(q.loc.reshape(-1, self.size), q.spread.reshape(-1, self.size), strict=True)
        values = [self._grid_kl(loc, width, p) for loc, width in flat]
        return torch.stack(values).reshape(mean.shape[:-1]).to(mean)

    def entropy(self) -> float:
        """-E[log p(z)], on a grid for up to two columns."""
        p = self._on_grid("entropy")
        edges = self._edges(1.0)
        return -integral(lambda z: p.log_prob(z).exp() * p.log_prob(z), edges).item()

    def log_normaliser(self, beta: float) -> float:
        """log F_beta, on a grid for up to two columns."""
        p = self._on_grid("F_beta")
        edges = self._edges(min(positive(beta), 1.0))
        return math.log(integral(lambda z: torch.exp(beta * p.log_prob(z)), edges).item())

    def annealed(self, beta: float) -> Annealed:
        """p(z)^beta / F_beta."""
        return Annealed(self, positive(beta))

    def _on_grid(self, what: str) -> Mixture:
        if self.size > _GRID:
            raise ValueError(
                f"the {what} of a mixture is known for one or two columns, got {self.size}; "
                "estimate it from samples of block.density(...)"
            )
        return self.density(torch.zeros(self.size, dtype=torch.float64))

    def _grid_kl(self, loc: Tensor, width: Tensor, p: Mixture) -> Tensor:
        q = DiagonalGaussian(loc, width.log())
        edges = []
        for axis, m, s in zip(self._edges(1.0), loc.tolist(), width.tolist(), strict=True):
            low, high = m - REACH * s, m + REACH * s
            edges.append([low, m, high, *[e for e in axis if low < e < high]])
        return integral(lambda z: q.log_prob(z).exp() * (q.log_prob(z) - p.log_prob(z)), edges)

    def _edges(self, power: float) -> list[list[float]]:
        """Cuts for each column: around every centre, as far as p^power reaches."""
        p = self.density(torch.zeros(self.size, dtype=torch.float64)).components
        steps = [c / math.sqrt(power) for c in (-REACH, -3.0, 0.0, 3.0, REACH)]
        return [
            sorted({m + c * s for m, s in zip(ms, ss, strict=True) for c in steps})
            for ms, ss in zip(p.mean.T.tolist(), p.spread.T.tolist(), strict=True)
        ]

    @property
    def _rows(self) -> tuple[Any, ...]:
        """The scales of every component: a number, or one for each column."""
        return self.scales if isinstance(self.scales, tuple) else (self.scales,) * len(self.centres)


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
