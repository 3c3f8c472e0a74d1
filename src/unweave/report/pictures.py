"""Sheets of small images with gaps between them, as PNG data URIs; any number of channels."""

import base64
import colorsys
import dataclasses
import io
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from PIL import Image

from unweave.data import Schema
from unweave.report.text import significant

Array = NDArray[np.floating[Any]]
Colour = tuple[float, float, float]  # red, green and blue, from 0 to 1

# The page shows an image about 80 pixels wide; more would only make the file larger.
_LARGEST_GREY, _LARGEST_COLOUR = 96, 64
_COARSE = 48  # images with shorter sides are shown with sharp pixels
_LEAST = 32  # smaller images are enlarged, so that a gap of one pixel stays narrow
# Faint grey gaps: white would blend into a light page, black into a dark one.
_GAP = (128, 128, 128, 72)
_QUANTILES = (0.005, 0.995)  # of the values of a channel that become dark and bright
_SIGNED = 0.1  # share of the largest value from which negative values are shown in a colour
_BELOW, _ZERO, _ABOVE = (0.0, 0.45, 0.70), (0.96, 0.96, 0.96), (0.84, 0.37, 0.0)
_HUES = ("red", "orange", "yellow", "lime", "green", "mint", "cyan", "azure", "blue", "violet",
         "magenta", "rose")  # fmt: skip
_PRIMARY = ((1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0))


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


def are_pixels(schema: Schema) -> bool:
    """Whether values are pixels from 0 (dark) to 1 (bright), not another quantity."""
    return schema.bounded and schema.scaling.method in ("none", "bytes")


def is_image(shape: tuple[int, ...]) -> bool:
    """Whether observations of this shape are images (C, H, W)."""
    return len(shape) == 3


class LegendEntry(NamedTuple):
    """A colour of a picture, as "red green blue" from 0 to 255, its name, and its meaning."""

    colour: str
    name: str
    text: str


@dataclass(frozen=True)
class ColourMap:
    """How the values of images are shown: channel c from low[c] (dark) to high[c] (bright).

    One channel is grey, or blue and orange about 0 if `diverging`; three are red, green and blue,
    and four RGBA if they are `pixels`. Otherwise each channel has a colour of its own, and the
    colours are added. `channels` selects channels, in order; by default all are shown.
    """

    low: tuple[float, ...] = (0.0,)
    high: tuple[float, ...] = (1.0,)
    channels: tuple[int, ...] = ()
    pixels: bool = True
    diverging: bool = False

    @property
    def legend(self) -> list[LegendEntry]:
        """What colours stand for; nothing for pictures that show pixels as they are."""
        if self.pixels and len(self.low) in (1, 3, 4):
            return []
        if len(self.low) == 1:
            colours = (_BELOW, _ABOVE) if self.diverging else ((0.0, 0.0, 0.0), (1.0, 1.0, 1.0))
            names = ("blue", "orange") if self.diverging else ("black", "white")
            ends = zip(colours, names, (*self.low, *self.high), strict=True)
            return [
                LegendEntry(_css(colour), name, significant(value)) for colour, name, value in ends
            ]
        numbers = self.channels or range(len(self.low))
        spans = zip(numbers, self.colours, self.low, self.high, strict=True)
        return [
            LegendEntry(
                _css(colour),
                _HUES[round(12 * colorsys.rgb_to_hsv(*colour)[0]) % 12],
                f"channel {number}: {significant(low)} to {significant(high)}",
            )
            for number, colour, low, high in spans
        ]

    @property
    def alpha(self) -> bool:
        """Whether the last channel is the opacity."""
        return self.pixels and len(self.low) == 4

    @property
    def colours(self) -> list[Colour]:
        """The colour of each channel; of a diverging map those at low, in the middle, at high."""
        if self.diverging:
            return [_BELOW, _ZERO, _ABOVE]
        if self.alpha:
            return [*_PRIMARY, (0.0, 0.0, 0.0)]
        return [(1.0, 1.0, 1.0)] if len(self.low) == 1 else false_colours(len(self.low))

    def apply(self, images: torch.Tensor) -> torch.Tensor:
        """Return images (n, C, h, w) as (n, 2, h, w), grey and alpha, or (n, 4, h, w), RGBA."""
        chosen = images[:, list(self.channels)] if self.channels else images
        low, high = (torch.tensor(ends).reshape(1, -1, 1, 1) for ends in (self.low, self.high))
        shown = ((chosen - low) / (high - low)).clamp(0, 1)
        count = shown.shape[1]  # one span may be that of all channels
        if self.pixels and count == 4:
            return shown
        if self.diverging:
            shown = _diverging(shown)
        elif count not in (1, 3):
            shown = torch.einsum("nchw,cr->nrhw", shown, torch.tensor(false_colours(count)))
        return torch.cat([shown.clamp(0, 1), torch.ones_like(shown[:, :1])], 1)


PIXELS = ColourMap()


def colour_map(images: Array, pixels: bool, channels: Sequence[int] = ()) -> ColourMap:
    """Choose how to show images (n, C, H, W) that are pixels in [0, 1], or any other values.

    The span of each channel is that of its values, without the most extreme ones. `channels`
    selects channels by index.
    """
    count = images.shape[1]
    if wrong := [c for c in channels if not 0 <= c < count]:
        raise ValueError(f"expected channels from 0 to {count - 1}, got {wrong[0]}")
    chosen = images[:, list(channels)] if len(channels) else images
    count = chosen.shape[1]
    if pixels and count in (1, 3, 4):
        return ColourMap((0.0,) * count, (1.0,) * count, tuple(channels))
    low, high = zip(*(_span(chosen[:, c]) for c in range(count)), strict=True)
    most = max(-low[0], high[0])
    if count == 1 and min(-low[0], high[0]) > _SIGNED * most:
        return ColourMap((-most,), (most,), tuple(channels), pixels=False, diverging=True)
    return ColourMap(low, high, tuple(channels), pixels=False)


def colour_legend(colours: ColourMap, schema: Schema) -> list[LegendEntry]:
    """Return what colours stand for in the user's units, if images are shown as networks see them.

    >>> from unweave.data.scaling import Scaling
    >>> schema = Schema(9, (1, 8, 8), scaling=Scaling("percentile", (500.0,), (0.001,)))
    >>> [entry.text for entry in colour_legend(ColourMap(pixels=False), schema)]
    ['500', '1500']
    """
    numbers = list(colours.channels or range(schema.shape[0]))
    ends = np.zeros((2, *schema.shape[:1], 1, 1), np.float32)
    ends[:, numbers, 0, 0] = colours.low, colours.high
    low, high = schema.scaling.invert(ends)[:, numbers, 0, 0].tolist()
    return dataclasses.replace(colours, low=tuple(low), high=tuple(high)).legend


def _span(values: Array) -> tuple[float, float]:
    """Return the ends of nearly all values, or of all if nearly all are equal; they differ."""
    low, high = (float(end) for end in np.quantile(values, _QUANTILES))
    if not high > low:
        low, high = float(values.min()), float(values.max())
    return (low, high) if high > low else (low, low + 1.0)


def false_colours(count: int) -> list[Colour]:
    """Return a colour for each channel; added, they are about white.

    >>> false_colours(2)
    [(0.0, 1.0, 0.0), (1.0, 0.0, 1.0)]
    """
    if count == 3:
        return list(_PRIMARY)
    hues = [colorsys.hsv_to_rgb((1 / 3 + n / count) % 1, 1.0, 1.0) for n in range(count)]
    dim = max(1.0, count / 3) ** -0.5  # of many channels, few are bright at the same pixel
    return [(round(r * dim, 6), round(g * dim, 6), round(b * dim, 6)) for r, g, b in hues]


def _diverging(shown: torch.Tensor) -> torch.Tensor:
    """Colour one channel (n, 1, h, w): blue at 0, nearly white at 1/2, orange at 1."""
    below, zero, above = (
        torch.tensor(colour).reshape(1, 3, 1, 1) for colour in (_BELOW, _ZERO, _ABOVE)
    )
    away = 2 * shown - 1
    return zero + (below - zero) * (-away).clamp(0, 1) + (above - zero) * away.clamp(0, 1)


def _css(colour: Colour) -> str:
    return " ".join(str(round(255 * part)) for part in colour)


def sheet(rows: list[Array], colours: ColourMap = PIXELS) -> Sheet:
    """Draw rows of at most n images each, (n, C, H, W), as one PNG."""
    picture, cell, gap = tiled(rows, colours)
    coarse = max(rows[0].shape[2:]) < _COARSE
    return Sheet(_uri(picture), picture.width, picture.height, len(rows[0]), cell, gap, coarse)


def tiled(
    rows: list[Array], colours: ColourMap = PIXELS, least: int = _LEAST
) -> tuple[Image.Image, int, int]:
    """Draw rows of images, (n, C, H, W) each; return also the width of an image and of a gap.

    Images with a side below `least` pixels are enlarged. Shorter rows end in transparent space.
    """
    # Bytes with an alpha channel: (n, h, w, 2) if grey, (n, h, w, 4) if not.
    floats = (torch.as_tensor(images, dtype=torch.float32) for images in rows)
    pixels = [as_bytes(_resized(each, least), colours) for each in floats]
    _, height, width, channels = pixels[0].shape
    count = max(len(row) for row in pixels)
    gap = max(1, width // 28)
    shape = (len(rows) * (height + gap) - gap, count * (width + gap) - gap, channels)
    canvas = np.full(shape, _GAP[-channels:], np.uint8)
    for r, row in enumerate(pixels):
        top = r * (height + gap)
        canvas[top : top + height, len(row) * (width + gap) :] = 0
        for c, picture in enumerate(row):
            left = c * (width + gap)
            canvas[top : top + height, left : left + width] = picture
    bands = [Image.fromarray(np.ascontiguousarray(band)) for band in np.moveaxis(canvas, -1, 0)]
    return Image.merge("LA" if len(bands) == 2 else "RGBA", bands), width, gap


def as_bytes(images: torch.Tensor, colours: ColourMap) -> NDArray[np.uint8]:
    """Show images (n, C, h, w) as bytes, (n, h, w, 2) or (n, h, w, 4), as `ColourMap.apply`."""
    shown = (colours.apply(images) * 255).round().to(torch.uint8)
    return shown.movedim(1, -1).numpy()


def _resized(images: torch.Tensor, least: int) -> torch.Tensor:
    """Shrink large images by averaging, and enlarge small ones by repeating pixels."""
    largest = _LARGEST_GREY if images.shape[1] == 1 else _LARGEST_COLOUR
    side = max(images.shape[2:])
    if side > largest:
        return shrunk(images, largest)
    return F.interpolate(images, scale_factor=float(-(-least // side)), mode="nearest")


def shrunk(images: torch.Tensor, largest: int) -> torch.Tensor:
    """Shrink images (n, C, h, w) by averaging, so that no side is longer than `largest`."""
    side = max(images.shape[2:])
    if side <= largest:
        return images
    size = [max(1, round(length * largest / side)) for length in images.shape[2:]]
    return F.interpolate(images, size=size, mode="area")


def _uri(picture: Image.Image) -> str:
    file = io.BytesIO()
    picture.save(file, "PNG", optimize=True)
    return "data:image/png;base64," + base64.b64encode(file.getvalue()).decode()
