"""Images as PNG data URIs: sheets of small pictures with gaps between them."""

from __future__ import annotations

import base64
import io
from typing import Any, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from PIL import Image

Array = NDArray[np.floating[Any]]
Span = tuple[float, float]

# A page shows a picture about 80 pixels wide; more would only make the file larger.
_LARGEST_GREY, _LARGEST_COLOUR = 96, 64
_COARSE = 48  # pictures with fewer pixels on a side are shown with sharp pixels
_LEAST = 32  # smaller ones are enlarged, so that a gap of one pixel is not a broad bar
# A faint grey between pictures: white ones would run into a light page, black ones into a dark one.
_GAP = (128, 128, 128, 72)


class Sheet(NamedTuple):
    """A PNG with pictures in rows and columns, and where its columns lie."""

    uri: str
    width: int
    height: int
    columns: int
    cell: int  # pixels across one picture
    gap: int  # pixels between two
    coarse: bool

    def centre(self, column: float) -> float:
        """Where the middle of a column lies, as a part of the width; between columns too."""
        return (column * (self.cell + self.gap) + self.cell / 2) / self.width

    @property
    def share(self) -> float:
        """The width of one picture as a part of the width."""
        return self.cell / self.width


def is_image(shape: tuple[int, ...]) -> bool:
    """Whether observations of a shape are pictures (C, H, W)."""
    return len(shape) == 3


def display_span(images: Array, bounded: bool) -> Span:
    """The values to show as black and white: 0 and 1, or the range of unbounded data."""
    if bounded:
        return 0.0, 1.0
    low, high = (float(bound) for bound in np.quantile(images, (0.005, 0.995)))
    return (low, high) if high > low else (low, low + 1.0)


def sheet(rows: list[Array], span: Span) -> Sheet:
    """Rows of as many pictures each, (n, C, H, W), as one PNG."""
    picture, cell, gap = tiled(rows, span)
    coarse = max(rows[0].shape[2:]) < _COARSE
    return Sheet(_uri(picture), picture.width, picture.height, len(rows[0]), cell, gap, coarse)


def tiled(rows: list[Array], span: Span) -> tuple[Image.Image, int, int]:
    """Rows of as many pictures each, (n, C, H, W); pixels across one of them and across a gap."""
    pixels = [_pixels(images, span) for images in rows]  # (n, h, w, channels) each
    count, height, width, channels = pixels[0].shape
    gap = max(1, width // 28)
    shape = (len(rows) * (height + gap) - gap, count * (width + gap) - gap, channels)
    canvas = np.full(shape, _GAP[-channels:], np.uint8)
    for r, row in enumerate(pixels):
        for c, picture in enumerate(row):
            top, left = r * (height + gap), c * (width + gap)
            canvas[top : top + height, left : left + width] = picture
    bands = [Image.fromarray(np.ascontiguousarray(band)) for band in np.moveaxis(canvas, -1, 0)]
    return Image.merge("LA" if len(bands) == 2 else "RGBA", bands), width, gap


def _pixels(images: Array, span: Span) -> NDArray[np.uint8]:
    """Pictures as bytes with an alpha channel last: (n, h, w, 2) in grey or (n, h, w, 4)."""
    sized = _resized(torch.as_tensor(images, dtype=torch.float32))
    low, high = span
    scaled = ((sized - low) / (high - low)).clamp(0, 1)
    if scaled.shape[1] not in (1, 3, 4):
        scaled = scaled.mean(1, keepdim=True)
    if scaled.shape[1] in (1, 3):
        scaled = torch.cat([scaled, torch.ones_like(scaled[:, :1])], 1)
    pixels: NDArray[np.uint8] = (scaled * 255).round().to(torch.uint8).movedim(1, -1).numpy()
    return pixels


def _resized(images: torch.Tensor) -> torch.Tensor:
    """Large pictures brought down by averaging, small ones up by repeating pixels."""
    largest = _LARGEST_GREY if images.shape[1] == 1 else _LARGEST_COLOUR
    height, width = images.shape[2:]
    side = max(height, width)
    if side > largest:
        size = [max(1, round(length * largest / side)) for length in (height, width)]
        return F.interpolate(images, size=size, mode="area")
    return F.interpolate(images, scale_factor=float(-(-_LEAST // side)), mode="nearest")


def _uri(picture: Image.Image) -> str:
    file = io.BytesIO()
    picture.save(file, "PNG", optimize=True)
    return "data:image/png;base64," + base64.b64encode(file.getvalue()).decode()
