"""Small datasets for trying things out: a moving blob, and blocks that show any lattice."""

import functools
from typing import Annotated, Literal

import numpy as np
import torch
from pydantic import Field
from torch import Tensor

from unweave.core.spec import spec, tag
from unweave.data.dataset import Schema
from unweave.data.lattice import Factor, Lattice
from unweave.data.synthetic.renderer import RenderedDataset
from unweave.data.synthetic.shapes2d import spaced

Count = Annotated[int, Field(ge=1, le=256)]


@spec
class Blobs:
    """A round blob with four factors: brightness, width, x and y.

    image(i, j) = b exp(-((j + 1/2 - c_x)^2 + (i + 1/2 - c_y)^2) / (2 w^2))

    b is linspace(0.5, 1); w is linspace(1/16, 1/8) and c linspace(1/4, 3/4), both times the side. A
    single brightness is 1, a single width 1/8 of the side and a single position the centre.
    """

    side: Annotated[int, Field(ge=4, le=128)] = 16
    """Height and width of the images in pixels."""
    levels: Count = 2
    """Number of levels of brightness."""
    widths: Count = 3
    """Number of widths of the blob."""
    positions: Count = 8
    """Number of positions along each axis."""
    kind: Literal["blobs"] = tag("blobs")

    @property
    def lattice(self) -> Lattice:
        """The factors with their values."""
        ranges = {
            "brightness": spaced(0.5, 1, self.levels, 1),
            "width": spaced(1 / 16, 1 / 8, self.widths, 1 / 8),
            "x": spaced(0.25, 0.75, self.positions, 0.5),
            "y": spaced(0.25, 0.75, self.positions, 0.5),
        }
        return Lattice(
            tuple(
                Factor(name, len(values), "ordinal", tuple(map(float, values)))
                for name, values in ranges.items()
            )
        )

    def load(self, device: torch.device) -> RenderedDataset:
        """Load the dataset on a device."""
        level, width, position, _ = (np.array(factor.values) for factor in self.lattice.members)
        offset = (np.arange(self.side) + 0.5) / self.side - position[:, None]
        profile = np.exp(-(offset**2) / (2 * width[:, None, None] ** 2))  # (widths, positions, s)
        tables = [torch.from_numpy(table).to(device, torch.float32) for table in (level, profile)]
        paint = functools.partial(_paint_blobs, self.lattice, *tables)
        schema = Schema.on_lattice(self.lattice, (1, self.side, self.side))
        return RenderedDataset(schema, device, paint)


def _paint_blobs(lattice: Lattice, level: Tensor, profile: Tensor, index: Tensor) -> Tensor:
    """Multiply tables, which rounds in the same way on every device."""
    brightness, width, x, y = lattice.factors(index).unbind(-1)
    positions = profile.shape[1]
    across, down = (
        profile.flatten(0, 1).index_select(0, width * positions + place) for place in (x, y)
    )
    across = across * level.index_select(0, brightness).unsqueeze(-1)
    return (down.unsqueeze(-1) * across.unsqueeze(-2)).unsqueeze(1)


@spec
class Blocks:
    """An image of any lattice: a row of blocks for each factor, in which its class is lit.

    `sizes` are the numbers of classes of the factors; a block is `cell` pixels wide.
    """

    sizes: Annotated[tuple[Count, ...], Field(min_length=1, max_length=32)] = (4, 4, 4, 4)
    """Number of classes of each factor."""
    cell: Annotated[int, Field(ge=1, le=32)] = 4
    """Side of a block in pixels."""
    kind: Literal["blocks"] = tag("blocks")

    @property
    def lattice(self) -> Lattice:
        """The factors factor0, factor1, ..."""
        return Lattice(tuple(Factor(f"factor{k}", size) for k, size in enumerate(self.sizes)))

    def load(self, device: torch.device) -> RenderedDataset:
        """Load the dataset on a device."""
        shape = (1, len(self.sizes) * self.cell, max(self.sizes) * self.cell)
        paint = functools.partial(_paint_blocks, self.lattice, self.cell)
        return RenderedDataset(Schema.on_lattice(self.lattice, shape), device, paint)


def _paint_blocks(lattice: Lattice, cell: int, index: Tensor) -> Tensor:
    columns = torch.arange(max(lattice.sizes), device=index.device)
    lit = (lattice.factors(index).unsqueeze(-1) == columns).to(torch.float32)
    return lit.repeat_interleave(cell, 1).repeat_interleave(cell, 2).unsqueeze(1)
