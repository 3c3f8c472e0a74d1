"""Images of observations as files: sheets of thumbnails, and strips of traversals."""

import io
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image

from unweave.explorer.contents import Colours, File, Thumbnails
from unweave.report.pictures import ColourMap, as_bytes, shrunk

Floats = NDArray[np.floating[Any]]
Pixels = NDArray[np.uint8]

_TILE = 64  # pixels of the longer side of a tile
_SHEET = 2048  # pixels of the side of a sheet; every browser takes textures of this size
_QUALITY = 85  # of lossy WebP
_WORTH = 0.5  # size relative to lossless files from which a lossy one is taken
_TYPES = {"png": "image/png", "webp": "image/webp", "lossy": "image/webp"}


def colours_of(shown: ColourMap) -> Colours:
    """Return how channels become colours, as the page needs it."""
    return Colours(shown.low, shown.high, shown.colours, shown.diverging, shown.alpha)


def thumbnail_sheets(images: Floats, colours: ColourMap) -> Thumbnails:
    """Draw images (n, C, H, W) as sheets of tiles, in the format that takes the fewest bytes."""
    tiles = _tiles(images, colours)
    count, height, width = tiles.shape[:3]
    columns, rows = max(1, _SHEET // width), max(1, _SHEET // height)
    each = columns * rows
    sheets = [_sheet(tiles[n : n + each], columns) for n in range(0, count, each)]
    kind = _smallest(sheets[0], may_lose=colours.pixels)
    files = [File(_encoded(sheet, kind)) for sheet in sheets]
    return Thumbnails(count, columns, rows, (width, height), files, _TYPES[kind])


def strip(images: Floats, colours: ColourMap) -> File:
    """Draw images (n, C, H, W) side by side as a PNG."""
    tiles = _tiles(images, colours)
    return File(_encoded(_sheet(tiles, len(tiles)), "png"))


def _tiles(images: Floats, colours: ColourMap) -> Pixels:
    """Return images as bytes of at most 64 pixels a side, without opacity if all is opaque."""
    small = shrunk(torch.as_tensor(images, dtype=torch.float32), _TILE)
    pixels = as_bytes(small, colours)
    return pixels if colours.alpha else pixels[..., :-1]


def _sheet(tiles: Pixels, columns: int) -> Image.Image:
    """Put tiles (n, h, w, bands) into rows of `columns`; the rest of the last row is black."""
    count, height, width, bands = tiles.shape
    columns = min(columns, count)
    rows = -(-count // columns)
    filled = np.zeros((rows * columns, height, width, bands), np.uint8)
    filled[:count] = tiles
    grid = filled.reshape(rows, columns, height, width, bands).swapaxes(1, 2)
    canvas = grid.reshape(rows * height, columns * width, bands)
    return Image.fromarray(canvas[..., 0] if bands == 1 else canvas)


_FORMATS: dict[str, dict[str, Any]] = {  # options of Pillow
    "png": {"format": "PNG", "optimize": True},
    "webp": {"format": "WEBP", "lossless": True, "method": 4},
    "lossy": {"format": "WEBP", "quality": _QUALITY, "method": 4},
}


def _encoded(sheet: Image.Image, kind: str) -> bytes:
    file = io.BytesIO()
    sheet.save(file, **_FORMATS[kind])
    return file.getvalue()


def _smallest(sheet: Image.Image, may_lose: bool) -> str:
    """Choose the format with the fewest bytes; a lossy one only for pixels, if it halves them.

    Colours that stand for measured channels would run into each other.
    """
    kinds = [kind for kind in _FORMATS if may_lose or kind != "lossy"]
    sizes = {kind: len(_encoded(sheet, kind)) for kind in kinds}
    return min(kinds, key=lambda kind: sizes[kind] / (_WORTH if kind == "lossy" else 1))
