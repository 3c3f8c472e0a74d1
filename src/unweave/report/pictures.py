"""Sheets of small images with gaps between them, as PNG data URIs."""

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

# The page shows an image about 80 pixels wide; more would only make the file larger.
_LARGEST_GREY, _LARGEST_COLOUR = 96, 64
_COARSE = 48  # images with shorter sides are shown with sharp pixels
_LEAST = 32  # smaller images are enlarged, so that a gap of one pixel stays narrow
# Faint grey gaps: white would blend into a light page, black into a dark one.
_GAP = (128, 128, 128, 72)


class Sheet(NamedTuple):
    """A PNG with images in rows and columns, and the positions of its columns."""

    uri: str
    width: int
    height: int
    columns: int
    cell: int  # width of an image in pixels
    gap: int  # pixels between two images
    coarse: bool

    def centre(self, column: float) -> float:
        """Return the centre of a column, possibly a fraction, as a share of the width."""
        return (column * (self.cell + self.gap) + self.cell / 2) / self.width

    @property
    def share(self) -> float:
        """The width of one image as a share of the width."""
        return self.cell / self.width


def is_image(shape: tuple[int, ...]) -> bool:
    """Whether observations of this shape are images (C, H, W)."""
    return len(shape) == 3


def display_span(images: Array, bounded: bool) -> Span:
    """Return the values shown as black and white: 0 and 1, or the range of unbounded data."""
    if bounded:
        return 0.0, 1.0
    low, high = (float(bound) for bound in np.quantile(images, (0.005, 0.995)))
    return (low, high) if high > low else (low, low + 1.0)


def sheet(rows: list[Array], span: Span) -> Sheet:
    """Draw rows of n images each, (n, C, H, W), as one PNG."""
    picture, cell, gap = tiled(rows, span)
    coarse = max(rows[0].shape[2:]) < _COARSE
    return Sheet(_uri(picture), picture.width, picture.height, len(rows[0]), cell, gap, coarse)


def tiled(rows: list[Array], span: Span) -> tuple[Image.Image, int, int]:
    """Draw rows of n images each, (n, C, H, W); return also the width of an image and of a gap."""
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
    """Return images as bytes with an alpha channel: (n, h, w, 2) if grey, (n, h, w, 4) if not."""
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
    """Shrink large images by averaging, and enlarge small ones by repeating pixels."""
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
