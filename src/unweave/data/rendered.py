"""A lattice with a renderer: a world of which nothing is stored."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import final

import torch
from torch import Tensor

from unweave.data.lattice import Lattice, Periods, checked

# Values painted at once. On a CPU the work stays in cache and below the size at which torch wakes
# its threads, which on a busy machine wait for each other far longer than they work.
CHUNK_VALUES = {"cpu": 2**15 - 1, "cuda": 2**26}


@dataclass(frozen=True, eq=False)
class OnLattice:
    """Observations that are all combinations of factors, and of which nothing is stored."""

    lattice: Lattice
    device: torch.device
    notes: tuple[str, ...] = field(default=(), kw_only=True)
    bounded: bool = field(default=True, kw_only=True)
    integer_unit: float = field(default=1.0, kw_only=True)
    fingerprint: str = field(default="", kw_only=True)  # the spec says it all

    @property
    def size(self) -> int:
        """Number of observations."""
        return self.lattice.size

    @property
    def factor_names(self) -> tuple[str, ...]:
        """Names of the factors."""
        return self.lattice.names

    @property
    def factor_sizes(self) -> tuple[int, ...]:
        """Number of classes of each factor."""
        return self.lattice.sizes

    @property
    def periods(self) -> Periods:
        """Those of the lattice."""
        return self.lattice.periods

    def factors(self, index: Tensor) -> Tensor:
        """Classes of the factors (..., K) by the numbers (...)."""
        return self.lattice.factors(index).to(self.device)


@final
@dataclass(frozen=True, eq=False)
class Rendered(OnLattice):
    """Observations that functions draw by their numbers in a lattice.

    `prepare` turns numbers (n,), int64 on the device, into tensors (n, ...), and `paint` these into
    observations (n, *shape), float32. Neither reads anything back from the device, so that a CUDA
    graph can hold them.
    """

    shape: tuple[int, ...]
    paint: Callable[..., Tensor] = field(repr=False)
    prepare: Callable[[Tensor], tuple[Tensor, ...]] = field(repr=False, default=lambda i: (i,))
    together: int | None = None  # the most that a CPU prepares at once

    def images(self, index: Tensor) -> Tensor:
        """Observations (..., *shape) by their numbers (...)."""
        flat = checked(index, self.size, "indices of the data").to(self.device).reshape(-1)
        canvas = torch.empty(len(flat), *self.shape, device=self.device)
        most = self.together if self.together and self.device.type == "cpu" else max(1, len(flat))
        for part, place in zip(flat.split(most), canvas.split(most), strict=True):
            self._fill(place, self.prepare(part))
        return canvas.view(*index.shape, *self.shape)

    def _fill(self, canvas: Tensor, given: tuple[Tensor, ...]) -> None:
        """Paint observations, some at a time."""
        chunk = CHUNK_VALUES.get(self.device.type, CHUNK_VALUES["cuda"])
        most = max(1, chunk // torch.Size(self.shape).numel())
        parts = zip(*(each.split(most) for each in given), strict=True)
        for place, part in zip(canvas.split(most), parts, strict=True):
            place.copy_(self.paint(*part))
