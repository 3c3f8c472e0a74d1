"""What a kernel needs to know of a dataset of sprites."""

from __future__ import annotations

from typing import NamedTuple


class Frame(NamedTuple):
    """The integers that the sprite kernel draws from; see `unweave.data.synthetic.shapes2d`."""

    side: int
    width: int  # of the window around a sprite, in pixels
    positions: int
    orientations: int
    scales: int
    half: int  # half a pixel, over the common denominator
    field: int  # a pixel
    reach: int  # from a sprite's centre to the edge of its window
    spacing: int  # between two positions
    origin: int  # the first position
    steps: int  # of a shape's table
    coarse: int  # bits from products to the plane
    fine: int  # bits from the plane to steps of a table
