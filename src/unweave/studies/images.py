"""Images and arrays as text in files of results, and back.

Images are sheets of tiles as small PNGs; arrays have half precision, or are bytes.
"""

from __future__ import annotations

import base64
import io
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from PIL import Image

from unweave.evaluation.model import FittedModel
from unweave.report.pictures import tiled

_LEVELS = 16  # of grey


def encoded_png(rows: Sequence[NDArray[np.float32]]) -> str:
    """Rows of images (n, C, H, W) in [0, 1] as one PNG in base64; grey ones have 16 levels."""
    sheet, _, _ = tiled(list(rows), (0.0, 1.0))
    grey = sheet.mode == "LA"
    page = Image.new("L" if grey else "RGB", sheet.size, "white")
    page.paste(sheet.convert(page.mode), mask=sheet.getchannel("A"))
    if grey:
        levels = np.rint(np.asarray(page) / 255 * (_LEVELS - 1)).astype(np.uint8)
        page = Image.fromarray(levels, "P")
        shades = [round(255 * level / (_LEVELS - 1)) for level in range(_LEVELS)]
        page.putpalette([value for shade in shades for value in (shade, shade, shade)])
    content = io.BytesIO()
    page.save(content, "PNG", optimize=True)
    return base64.b64encode(content.getvalue()).decode()


def decoded_png(text: str) -> NDArray[np.uint8]:
    """The pixels (H, W, 3) of a PNG in base64."""
    with Image.open(io.BytesIO(base64.b64decode(text))) as image:
        return np.asarray(image.convert("RGB"))


def traversals_png(
    model: FittedModel, kl: NDArray[np.floating], shown: ArrayLike, start: int, latents: int
) -> str:
    """Encode a sheet of what a network has learned.

    Rows are the observations `shown`, their reconstructions, and traversals from the observation
    `start` of the latents with the largest `kl`, (D,).
    """
    originals = model.observations(shown)
    walked = model.traverse(model.observations([start]), steps=len(originals))
    order = np.argsort(-kl)[:latents]
    return encoded_png([originals, model.reconstruct(originals), *(walked[each] for each in order)])


def packed(values: NDArray[Any]) -> str:
    """An array in base64: bytes as they are, other numbers in half precision."""
    kept = values if values.dtype == np.uint8 else values.astype(np.float16)
    return base64.b64encode(kept.tobytes()).decode()


def unpacked(text: str, *shape: int, dtype: type = np.float16) -> NDArray[Any]:
    """The array of a shape that was packed, in double precision if it has no bytes.

    >>> unpacked(packed(np.array([[0.5, 2.0]])), -1, 2)
    array([[0.5, 2. ]])
    """
    found: NDArray[Any] = np.frombuffer(base64.b64decode(text), dtype).reshape(shape)
    return found if dtype == np.uint8 else found.astype(np.float64)
