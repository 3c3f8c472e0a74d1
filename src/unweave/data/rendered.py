"""A lattice with a renderer: a world of which nothing is stored."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import final

import torch
from torch import Tensor

from unweave.data.lattice import Lattice, checked

# Values drawn at once: on a CPU the work stays in cache, and is enough for what each call costs.
CHUNK_VALUES = {"cpu": 2**19, "cuda": 2**26}


@final
@dataclass(frozen=True, eq=False)
class Rendered:
    """Observations that a function draws by their numbers in a lattice.

    `draw` maps numbers (n,), int64 on the device, to observations (n, *shape), float32. It reads
    nothing back from the device, so that a CUDA graph can hold it.
    """

    lattice: Lattice
    shape: tuple[int, ...]
    device: torch.device
    draw: Callable[[Tensor], Tensor] = field(repr=False)
    integer_unit: float = 1.0
    bounded: bool = True
    notes: tuple[str, ...] = ()
    fingerprint: str = ""  # the spec says it all

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

    def factors(self, index: Tensor) -> Tensor:
        """Classes of the factors (..., K) by the numbers (...)."""
        return self.lattice.factors(index).to(self.device)

    def images(self, index: Tensor) -> Tensor:
        """Observations (..., *shape) by their numbers (...)."""
        flat = checked(index, self.size, "indices of the data").to(self.device).reshape(-1)
        return drawn(self.draw, flat, self.shape).view(*index.shape, *self.shape)


def drawn(draw: Callable[[Tensor], Tensor], index: Tensor, shape: tuple[int, ...]) -> Tensor:
    """Observations (n, *shape) of numbers (n,), drawn some at a time."""
    values = max(1, torch.Size(shape).numel())
    most = max(1, CHUNK_VALUES.get(index.device.type, CHUNK_VALUES["cuda"]) // values)
    if len(index) <= most:
        return draw(index)
    canvas = torch.empty(len(index), *shape, device=index.device)
    for part, place in zip(index.split(most), canvas.split(most), strict=True):
        place.copy_(draw(part))
    return canvas
