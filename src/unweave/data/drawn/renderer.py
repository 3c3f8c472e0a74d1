"""A lattice with a renderer: a dataset of which nothing is stored."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import final

import torch
from torch import Tensor

from unweave.data.lattice import Labels, Lattice, Periods, checked

# Values painted at once. On a CPU the work stays in cache and below the size at which torch wakes
# its threads, which on a busy machine wait for each other far longer than they work.
CHUNK_VALUES = {"cpu": 2**15 - 1, "cuda": 2**26}


@dataclass(frozen=True, eq=False)
class OnLattice:
    """Observations that are all combinations of factors, and of which nothing is stored."""

    lattice: Lattice
    device: torch.device
    value_names: tuple[str, ...] = field(default=(), kw_only=True)
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
    def factor_labels(self) -> Labels:
        """Those of the lattice."""
        return self.lattice.labels

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
    observations (n, *shape): float32, or bytes, which stand for `integer_unit` each. Neither reads
    anything back from the device, so that a CUDA graph can hold them.
    """

    shape: tuple[int, ...]
    paint: Callable[..., Tensor] = field(repr=False)
    prepare: Callable[[Tensor], tuple[Tensor, ...]] = field(repr=False, default=lambda i: (i,))
    together: int | None = None  # the most that a CPU paints at once

    def images(self, index: Tensor) -> Tensor:
        """Observations (..., *shape) by their numbers (...)."""
        flat = checked(index, self.size, "indices of the data").to(self.device).reshape(-1)
        canvas = torch.empty(len(flat), *self.shape, device=self.device)
        fitting = max(1, chunk_values(self.device) // torch.Size(self.shape).numel())
        most = self.together if self.together and self.device.type == "cpu" else fitting
        parts = zip(*(each.split(most) for each in self.prepare(flat)), strict=True)
        for place, part in zip(canvas.split(most), parts, strict=True):
            painted = self.paint(*part)
            for here, piece in zip(place.split(fitting), painted.split(fitting), strict=True):
                here.copy_(piece)
                if piece.dtype == torch.uint8:
                    here.mul_(self.integer_unit)
        return canvas.view(*index.shape, *self.shape)


def chunk_values(device: torch.device) -> int:
    """Values that are worked on at once."""
    return CHUNK_VALUES.get(device.type, CHUNK_VALUES["cuda"])
