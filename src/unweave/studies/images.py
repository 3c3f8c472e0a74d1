"""Encode images and arrays as text for files of results, and decode them.

Images are sheets of tiles as small PNGs; arrays are stored in half precision, or as bytes.
"""

import base64
import io
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from PIL import Image

from unweave.core.text import error_line
from unweave.evaluation.model import FittedModel
from unweave.report.pictures import tiled
from unweave.studies.drawing import Axes, Figure, panels

_PIXELS = 2**24  # of a picture; those of the papers have a million


def encode_png(rows: Sequence[NDArray[np.float32]], levels: int = 16) -> str:
    """Encode rows of images (n, C, H, W) in [0, 1] as one PNG in base64.

    Grey images are rounded to a number of levels: 16 do for drawings, and photographs need more.
    """
    sheet, _, _ = tiled(list(rows))
    grey = sheet.mode == "LA"
    page = Image.new("L" if grey else "RGB", sheet.size, "white")
    page.paste(sheet.convert(page.mode), mask=sheet.getchannel("A"))
    if grey:
        steps = np.rint(np.asarray(page) / 255 * (levels - 1)).astype(np.uint8)
        page = Image.fromarray(steps, "P")
        shades = [round(255 * level / (levels - 1)) for level in range(levels)]
        page.putpalette([value for shade in shades for value in (shade, shade, shade)])
    content = io.BytesIO()
    page.save(content, "PNG", optimize=True)
    return base64.b64encode(content.getvalue()).decode()


@contextmanager
def _opened(text: str) -> Iterator[Image.Image]:
    """Open a PNG in base64; raise a ValueError for anything else, or one of too many pixels."""
    try:
        content = io.BytesIO(base64.b64decode(text, validate=True))
        with Image.open(content, formats=["PNG"]) as image:
            if image.width * image.height > _PIXELS:
                raise ValueError(f"it has {image.width} x {image.height} pixels")
            yield image
    except Exception as error:  # Pillow raises many kinds if an image is damaged
        raise ValueError(
            f"expected a PNG in base64 of at most {_PIXELS:,} pixels: {error_line(error)}"
        ) from None


def check_png(text: str) -> str:
    """Return a PNG in base64; raise a ValueError if its header is of something else."""
    with _opened(text):
        return text


def decode_png(text: str) -> NDArray[np.uint8]:
    """Return the pixels (H, W, 3) of a PNG in base64."""
    with _opened(text) as image:
        return np.asarray(image.convert("RGB"))


def draw_png(axis: Axes, text: str, columns: int = 0, rows: int = 0) -> None:
    """Draw a PNG in base64 without axes; with sizes, coordinates count its columns and rows."""
    extent = (0, columns, rows, 0) if columns else None
    axis.imshow(decode_png(text), interpolation="none", extent=extent)
    axis.set(xticks=[], yticks=[])
    axis.grid(False)
    axis.spines[:].set_visible(False)
    axis.tick_params(length=0)


def draw_pictures(
    rows: int,
    columns: int,
    pictures: Mapping[int, tuple[str, str]],
    width: float,
    height: float,
    fontsize: float = 8,
) -> Figure:
    """Draw PNGs in base64 with their titles, by the numbers of their panels; others stay empty."""
    figure, axes = panels(rows, columns, width, height)
    for number, axis in enumerate(axes):
        axis.set_axis_off()
        if number in pictures:
            text, title = pictures[number]
            draw_png(axis, text)
            axis.set_title(title, fontsize=fontsize)
    return figure


def traversals_png(
    model: FittedModel,
    kl: NDArray[np.floating],
    shown: ArrayLike,
    start: int,
    latents: int,
    levels: int = 16,
) -> str:
    """Encode observations, their reconstructions, and traversals as a sheet of tiles.

    The first row shows the observations `shown`, the second their reconstructions, and the others
    traversals from the observation `start` of the `latents` with the largest `kl`, (D,).
    """
    originals = model.observations(shown)
    traversals = model.traverse(model.observations([start]), steps=len(originals))
    order = np.argsort(-kl)[:latents]
    reconstructions = model.reconstruct(originals)
    rows = [originals, reconstructions, *(traversals[each] for each in order)]
    return encode_png(rows, levels)


def pack_array(values: NDArray[Any]) -> str:
    """Encode an array in base64: bytes as they are, other numbers in half precision."""
    kept = values if values.dtype == np.uint8 else values.astype(np.float16)
    return base64.b64encode(kept.tobytes()).decode()


def unpack_array(text: str, *shape: int, dtype: type = np.float16) -> NDArray[Any]:
    """Decode an array of a given shape, to double precision unless it holds bytes.

    >>> unpack_array(pack_array(np.array([[0.5, 2.0]])), -1, 2)
    array([[0.5, 2. ]])
    """
    values: NDArray[Any] = np.frombuffer(base64.b64decode(text), dtype).reshape(shape)
    return values if dtype == np.uint8 else values.astype(np.float64)
