"""Write observations in the user's units: images to files, vectors to a CSV file."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Sequence
from io import BytesIO
from pathlib import Path, PurePosixPath
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from unweave.core.files import write_atomically
from unweave.data.dataset import Schema

Array = NDArray[np.float32]


def write_csv(file: IO[str], header: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Write a table; numbers have as many digits as distinguish float32 values."""
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(header)
    for row in rows:
        writer.writerow([f"{v:.9g}" if isinstance(v, (float, np.floating)) else v for v in row])


def write_images(folder: Path, images: Array, names: Sequence[str], schema: Schema) -> list[Path]:
    """Write images (N, C, H, W) in the user's units to a folder, and return their paths.

    Values in [0, 1] become PNG files of 8 bits with 1, 3 or 4 channels. Others become TIFF files
    with one page for each channel, of 16 bits if the data were integers of up to 16 bits as far as
    their scaling tells, and of 32-bit floats otherwise. The files have the names of the
    observations, with the extension of the format.
    """
    pages, extension = _pages(images, schema)
    paths = _paths(folder, names, extension)
    for path, own in zip(paths, pages, strict=True):
        path.parent.mkdir(parents=True, exist_ok=True)
        first, *others = own
        more: dict[str, Any] = {"save_all": True, "append_images": others} if others else {}
        file = BytesIO()
        first.save(file, format="PNG" if extension == ".png" else "TIFF", **more)
        write_atomically(path, file.getvalue())
    return paths


def _pages(images: Array, schema: Schema) -> tuple[list[list[Image.Image]], str]:
    """Return the pages of each image, and the extension of the files."""
    if schema.scaling.method in ("bytes", "none") and schema.bounded:
        pixels: NDArray[Any] = np.rint(images.clip(0, 1) * 255).astype(np.uint8)
        if pixels.shape[1] == 1:
            return [[Image.fromarray(each[0])] for each in pixels], ".png"
        if pixels.shape[1] in (3, 4):
            return [[Image.fromarray(each)] for each in np.moveaxis(pixels, 1, -1)], ".png"
    elif _is_16_bit(schema):
        pixels = np.rint(images.clip(0, 65535)).astype(np.uint16)
    else:
        pixels = images
    return [[Image.fromarray(channel) for channel in each] for each in pixels], ".tif"


def _is_16_bit(schema: Schema) -> bool:
    """Return whether percentiles of the data lie in the range of 16-bit integers, not of [0, 1]."""
    scaling = schema.scaling
    if scaling.method != "percentile":
        return False
    highest = max(o + 1 / u for o, u in zip(scaling.offset, scaling.unit, strict=True))
    return min(scaling.offset) >= 0 and 1 < highest <= 65535


def _paths(folder: Path, names: Sequence[str], extension: str) -> list[Path]:
    """Return a different path in the folder for each name; refuse names that lead out of it."""
    used: set[Path] = set()
    paths = []
    for name in names:
        relative = PurePosixPath(name)
        if relative.is_absolute() or ".." in relative.parts or not relative.name:
            raise ValueError(f"expected names of files within a folder, got {name!r}")
        plain = relative.with_suffix("")
        path, copy = folder / f"{plain}{extension}", 1
        while path in used:
            copy += 1
            path = folder / f"{plain}-{copy}{extension}"
        used.add(path)
        paths.append(path)
    return paths
