"""The integers from which the sprite kernel draws."""

from typing import NamedTuple


class SpriteGeometry(NamedTuple):
    """Sizes and fixed-point constants of a sprite dataset; see `data.synthetic.shapes2d`."""

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
    steps: int  # of the table of a shape's outline
    coarse: int  # bits from products to the plane
    fine: int  # bits from the plane to steps of a table
