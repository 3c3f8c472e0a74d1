"""Write observations in the user's units: images to files, vectors to a CSV file."""

from collections.abc import Sequence
from io import BytesIO
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from unweave.core.files import make_folder, sync_once, write_atomically
from unweave.data.dataset import Schema

Array = NDArray[np.floating]


def csv_cell(value: object) -> object:
    """Return a number with as many digits as distinguish float32, or float64 of numpy.

    >>> csv_cell(np.float32(0.1)), csv_cell(np.float64(0.1)), csv_cell("north")
    ('0.100000001', '0.1', 'north')
    """
    if isinstance(value, np.float64):
        return repr(float(value))
    return f"{value:.9g}" if isinstance(value, (float, np.floating)) else value


def write_images(folder: Path, images: Array, names: Sequence[str], schema: Schema) -> list[Path]:
    """Write images (N, C, H, W) in the user's units to a folder, and return their paths.

    Images with values in [0, 1] or from 8-bit data become 8-bit PNG files if they have 1, 3 or 4
    channels. Others become TIFF files with one page per channel: 16-bit if the data were 16-bit,
    otherwise float32, also for counts, whose expectations have fractions. The files have the names
    of the observations, with the extension of the format.
    """
    pages, extension = _pages(images, schema)
    paths = _paths(folder, names, extension)
    with sync_once():
        for path, own in zip(paths, pages, strict=True):
            make_folder(path.parent)
            first, *others = own
            more: dict[str, Any] = {"save_all": True, "append_images": others} if others else {}
            file = BytesIO()
            first.save(file, format="PNG" if extension == ".png" else "TIFF", **more)
            write_atomically(path, file.getvalue())
    return paths


def _pages(images: Array, schema: Schema) -> tuple[list[list[Image.Image]], str]:
    """Return the pages of each image, and the extension of the files."""
    pixels: NDArray[Any] = images.astype(np.float32)
    if schema.scaling.method in ("bytes", "none") and schema.bounded:
        pixels = np.rint(images.clip(0, 1) * 255).astype(np.uint8)
    elif schema.dtype in ("uint8", "uint16") and schema.scaling.method != "counts":
        pixels = np.rint(images.clip(0, np.iinfo(schema.dtype).max)).astype(schema.dtype)
    if pixels.dtype == np.uint8 and pixels.shape[1] == 1:
        return [[Image.fromarray(each[0])] for each in pixels], ".png"
    if pixels.dtype == np.uint8 and pixels.shape[1] in (3, 4):
        return [[Image.fromarray(each)] for each in np.moveaxis(pixels, 1, -1)], ".png"
    return [[Image.fromarray(channel) for channel in each] for each in pixels], ".tif"


def _paths(folder: Path, names: Sequence[str], extension: str) -> list[Path]:
    """Return a different path in the folder for each name; refuse names that lead out of it."""
    used: set[Path] = set()
    paths = []
    for name in names:
        relative, windows = PurePosixPath(name), PureWindowsPath(name)
        # As Windows reads them, names have drives and backslashes, too.
        if windows.anchor or ".." in windows.parts or not relative.name:
            raise ValueError(f"expected names of files within a folder, got {name!r}")
        plain = relative.with_suffix("")
        path, copy = folder / f"{plain}{extension}", 1
        while path in used:
            copy += 1
            path = folder / f"{plain}-{copy}{extension}"
        used.add(path)
        paths.append(path)
    return paths
