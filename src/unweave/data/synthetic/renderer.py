"""Datasets that are rendered on demand: a lattice of factors and functions that draw images."""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import final

import torch
from torch import Tensor

from unweave.data.dataset import Dataset, Schema

# Values painted at once. On a CPU the work stays in cache and below the size at which torch wakes
# its threads, which on a busy machine wait for each other far longer than they work.
CHUNK_VALUES = {"cpu": 2**15 - 1, "cuda": 2**26}


@final
@dataclass(frozen=True, eq=False)
class RenderedDataset(Dataset):
    """Observations that functions draw by their indices in a lattice.

    `prepare` maps indices (n,), int64 on the device, to tensors (n, ...), and `paint` maps these to
    observations (n, *shape): float32, or bytes, scaled by `schema.scaling`. Neither may read
    values back from the device, so that a CUDA graph can capture them.
    """

    schema: Schema
    device: torch.device
    paint: Callable[..., Tensor] = field(repr=False)
    prepare: Callable[[Tensor], tuple[Tensor, ...]] = field(repr=False, default=lambda i: (i,))
    together: int | None = None  # the most observations that a CPU paints at once

    def images(self, index: Tensor) -> Tensor:
        flat = self.check(index).reshape(-1)
        canvas = torch.empty(len(flat), *self.shape, device=self.device)
        values = CHUNK_VALUES.get(self.device.type, CHUNK_VALUES["cuda"])
        fitting = max(1, values // math.prod(self.shape))
        most = self.together if self.together and self.device.type == "cpu" else fitting
        inputs = zip(*(each.split(most) for each in self.prepare(flat)), strict=True)
        for target, arguments in zip(canvas.split(most), inputs, strict=True):
            painted = self.paint(*arguments)
            for here, piece in zip(target.split(fitting), painted.split(fitting), strict=True):
                here.copy_(piece)
                if piece.dtype == torch.uint8:
                    here.mul_(self.schema.scaling.unit[0])
        return canvas.view(*index.shape, *self.shape)
