"""Data from a folder of images."""

from __future__ import annotations

import math
import os
import warnings
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from io import BytesIO
from pathlib import Path
from typing import Annotated, Literal, NamedTuple, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image, ImageOps
from pydantic import BeforeValidator, Field

from unweave.core.hints import nearest_path
from unweave.core.spec import spec, tag
from unweave.data.cache import cached_file, data_folder
from unweave.data.dataset import AbsolutePath, Dataset
from unweave.data.files.arrays import build_dataset
from unweave.data.files.interpretation import COLOURS, Interpretation
from unweave.data.files.label_files import find_label_file, read_labels
from unweave.data.files.npy import NpyFile, write_npy
from unweave.data.files.rows import MOST, InMemoryRows, Rows, file_state
from unweave.data.random_split import DataSplit
from unweave.data.scaling import BYTES

Bytes = NDArray[np.uint8]
Pixels = Annotated[int, Field(ge=1, le=4096)]
PathText = Annotated[str, BeforeValidator(lambda path: os.fspath(path))]

EXTENSIONS = frozenset(
    (
        ".bmp",
        ".gif",
        ".jpeg",
        ".jpg",
        ".pbm",
        ".pgm",
        ".png",
        ".pnm",
        ".ppm",
        ".tif",
        ".tiff",
        ".webp",
    )
)
# Listed, so that no file makes Pillow start another program, as PostScript would.
FORMATS = ("BMP", "GIF", "JPEG", "PNG", "PPM", "TIFF", "WEBP")
GREY = frozenset(("1", "L", "LA", "La", "I"))
DEFAULT_SIZE = (64, 64)
MODES = {1: "L", 3: "RGB", 4: "RGBA"}
ROTATED = frozenset((5, 6, 7, 8))  # EXIF orientations that swap height and width
EXIF_ORIENTATION = 0x0112
Fit = Literal["crop", "pad", "stretch"]
FITS: dict[Fit, str] = {
    "crop": "are cropped to their centre (fit=crop; fit=pad and fit=stretch keep all of them)",
    "pad": "are padded with bars (fit=pad)",
    "stretch": "are stretched (fit=stretch)",
}
T = TypeVar("T")

_AT_ONCE = 1024  # images decoded before they are written


@spec
class Folder:
    """All images in a folder and its subfolders, sorted by path.

    `size` is the side, or (height, width), to which every image is resized with anti-aliasing. By
    default images that all have the same size keep it, and others become 64 x 64. If the aspect
    ratio of an image differs, `fit` takes the largest centred crop ("crop"), adds black bars,
    which are transparent with four channels ("pad"), or distorts the image ("stretch"). `channels`
    is 1 (grey), 3 (RGB) or 4 (RGBA); by default 1 if all images are grey, otherwise 3, with
    transparent images laid on white. Only the first frame of an animation is read. `factors` is a
    CSV file of labels, in the folder or elsewhere; by default factors.csv or the only CSV file in
    the folder, and without one the class of an image is its subfolder. One column names the images,
    by their paths or names, with or without extension; the others are factors, except those that
    `ignore` names, as in `Arrays`. `split` and `stream` work as in `Arrays`; images of more than 1
    GiB are decoded once, to a file.
    """

    path: AbsolutePath
    size: Pixels | tuple[Pixels, Pixels] | None = None
    channels: Literal[1, 3, 4] | None = None
    fit: Fit = "crop"
    factors: PathText | None = None
    split: DataSplit = "all"
    stream: bool | None = None
    ignore: str = ""
    kind: Literal["folder"] = tag("folder")

    def __post_init__(self) -> None:
        if self.factors is not None and not Path(self.factors).is_absolute():
            object.__setattr__(self, "factors", find_label_file(self.path, self.factors))

    def load(self, device: torch.device) -> Dataset:
        """Decode all images, into memory or to a file, and put them on a device."""
        folder = Path(self.path)
        files = _files(folder)
        with decoding() as pool:
            headers = list(pool.map(_header, files))
            size, size_notes = _choose_size(self.size, headers)
            channels, channel_notes = _choose_channels(self.channels, headers)
            shape = (len(files), channels, *size)
            rows, key = self._decoded(files, shape, pool)
        decisions = (
            f"{shape[0]:,} images of {size[0]} x {size[1]}, {COLOURS[channels]}",
            *size_notes,
            *_fit_notes(self.fit, size, headers),
            *channel_notes,
            *_depth_notes(headers),
        )
        interpretation = Interpretation(shape[1:], False, np.uint8, 1 / 255, True, decisions, BYTES)
        given = None if self.factors is None else Path(self.factors)
        labels = read_labels(folder, files, given, self.ignore)
        try:
            dataset = build_dataset(rows, labels, (), self.split, self.stream, key, interpretation)
        except ValueError as error:
            raise ValueError(f"{folder}: {error}") from None
        return dataset.to(device)

    def _decoded(
        self, files: Sequence[Path], shape: tuple[int, ...], pool: ThreadPoolExecutor
    ) -> tuple[Rows, list[object]]:
        """Decode all images into memory, or to a file that is reused while they do not change."""
        blocks = partial(_blocks, files, shape, self.fit, pool)
        if not (math.prod(shape) > MOST if self.stream is None else self.stream):
            data = np.empty(shape, np.uint8)
            for number, block in enumerate(blocks()):
                data[number * _AT_ONCE :][: len(block)] = block
            return InMemoryRows(data), []
        key = [shape, self.fit, *([str(file), *file_state(file)] for file in files)]
        path = cached_file(
            data_folder() / "folders", key, lambda file: write_npy(file, shape, blocks())
        )
        return NpyFile(path).rows(), [str(path)]


class _Header(NamedTuple):
    """Properties of an image that are known before it is decoded."""

    size: tuple[int, int]  # height and width as displayed
    grey: bool
    alpha: bool
    deep: bool  # more than 8 bits


def _files(folder: Path) -> list[Path]:
    if not folder.is_dir():
        raise ValueError(
            f"expected a folder of images at {folder}, got none: {nearest_path(folder)}"
        )
    images = [
        path
        for path in folder.rglob("*")
        if path.suffix.lower() in EXTENSIONS and path.is_file() and not path.name.startswith(".")
    ]
    if not images:
        raise ValueError(
            f"expected images under {folder}, got none: known extensions are "
            f"{', '.join(sorted(EXTENSIONS))}"
        )
    return sorted(images, key=lambda path: path.relative_to(folder).as_posix())


@contextmanager
def _reading(file: Path | str, content: bytes | None = None) -> Iterator[Image.Image]:
    """Open an image, from its content if given, with errors that name the file."""
    try:
        source = file if content is None else BytesIO(content)
        with Image.open(source, formats=FORMATS) as image:
            yield image
    except (Image.DecompressionBombError, Image.DecompressionBombWarning) as error:
        raise ValueError(
            f"expected an image of ordinary size, got {file}: {error} Scale it down, or remove it "
            "from the folder"
        ) from None
    except (OSError, EOFError, SyntaxError, ValueError) as error:
        raise ValueError(
            f"expected a readable image, got {file}: {error}. Repair or remove the file"
        ) from None


def _header(file: Path) -> _Header:
    with _reading(file) as image:
        height, width, mode, deep = image.height, image.width, image.mode, _is_deep(image)
        alpha = image.has_transparency_data
        rotated = image.getexif().get(EXIF_ORIENTATION) in ROTATED
    if mode == "F":
        raise ValueError(
            f"expected images of 8 or 16 bits, got {file} with floating-point values: save them "
            "as .npz and use Arrays"
        )
    size = (width, height) if rotated else (height, width)
    return _Header(size, deep or mode in GREY, alpha, deep)


def _is_deep(image: Image.Image) -> bool:
    return image.mode == "I" or image.mode.startswith("I;16")


def _choose_size(
    wanted: int | tuple[int, int] | None, headers: Sequence[_Header]
) -> tuple[tuple[int, int], list[str]]:
    """Return the height and width of the observations, and a note if they were not given."""
    if isinstance(wanted, int):
        return (wanted, wanted), []
    if wanted is not None:
        return wanted, []
    sizes = {header.size for header in headers}
    if len(sizes) == 1:
        return sizes.pop(), []
    height, width = DEFAULT_SIZE
    return DEFAULT_SIZE, [
        f"the images have {len(sizes)} sizes: resized to {height} x {width}; choose another with "
        "size"
    ]


def _fit_notes(fit: Fit, size: tuple[int, int], headers: Sequence[_Header]) -> list[str]:
    """Note what happens to images of another aspect ratio, if there are any."""
    others = sum(h.size[0] * size[1] != h.size[1] * size[0] for h in headers)
    ratio = f"whose aspect ratio is not that of {size[0]} x {size[1]},"
    return [f"{others} of {len(headers)} images, {ratio} {FITS[fit]}"] if others else []


def _choose_channels(wanted: int | None, headers: Sequence[_Header]) -> tuple[int, list[str]]:
    """Return the number of channels, and notes on what is lost or added."""
    grey = sum(header.grey for header in headers)
    channels = wanted or (1 if grey == len(headers) else 3)
    notes = []
    if wanted is None and 0 < grey < len(headers):
        notes.append(f"{grey} of {len(headers)} images are grey, read as RGB")
    transparent = sum(header.alpha for header in headers)
    if transparent and channels != 4:
        notes.append(f"{transparent} transparent images laid on white; channels=4 keeps alpha")
    return channels, notes


def _depth_notes(headers: Sequence[_Header]) -> list[str]:
    deep = sum(header.deep for header in headers)
    return [f"{deep} images of 16 bits reduced to 8 bits"] if deep else []


@contextmanager
def decoding() -> Iterator[ThreadPoolExecutor]:
    """Provide threads to decode images, which releases the GIL."""
    with warnings.catch_warnings():
        # Pillow only warns about images so large that decoding them may exhaust the memory.
        warnings.simplefilter("error", Image.DecompressionBombWarning)
        with ThreadPoolExecutor() as pool:
            yield pool


def _blocks(
    files: Sequence[Path], shape: tuple[int, ...], fit: Fit, pool: ThreadPoolExecutor
) -> Iterator[Bytes]:
    """Decode all images in blocks (n, C, H, W)."""
    _, channels, height, width = shape
    read = partial(_pixels, size=(height, width), channels=channels, fit=fit)
    yield from in_blocks(read, files, pool)


def in_blocks(
    read: Callable[[T], Bytes], images: Sequence[T], pool: ThreadPoolExecutor
) -> Iterator[Bytes]:
    """Read images with a function, in blocks."""
    for start in range(0, len(images), _AT_ONCE):
        yield np.stack(list(pool.map(read, images[start : start + _AT_ONCE])))


def _pixels(file: Path, size: tuple[int, int], channels: int, fit: Fit) -> Bytes:
    """Decode one image (C, H, W)."""
    with _reading(file) as image:
        shown = ImageOps.exif_transpose(image)
    return _convert(shown, file, size, channels, fit)


def centre_crop(content: bytes, name: str, crop: int | None, side: int) -> Bytes:
    """Decode an image and resize its centred square of `crop` pixels: (3, side, side)."""
    with _reading(name, content) as image:
        image.load()
        width, height = image.size
        length = min(width, height) if crop is None else crop
        if length > min(width, height):
            raise ValueError(f"it has {width} x {height} pixels, fewer than {length}")
        left, top = (width - length) // 2, (height - length) // 2
        square = image.crop((left, top, left + length, top + length))
    return _convert(square, name, (side, side), 3, "stretch")


def resize(pixels: Bytes, side: int) -> Bytes:
    """Resize an image (H, W) or (H, W, C) bilinearly."""
    if pixels.shape[:2] == (side, side):
        return pixels
    image = Image.fromarray(np.ascontiguousarray(pixels))
    return np.asarray(image.resize((side, side), Image.Resampling.BILINEAR))


def _convert(
    shown: Image.Image, file: Path | str, size: tuple[int, int], channels: int, fit: Fit
) -> Bytes:
    """Bring an image to a size and number of channels, (C, H, W)."""
    coloured = _to_mode(_to_eight_bits(shown, file), MODES[channels])
    height, width = size
    sized = _resize(coloured, width, height, fit)
    pixels = np.asarray(sized, dtype=np.uint8).reshape(height, width, channels)
    return np.moveaxis(pixels, -1, 0)


def _resize(image: Image.Image, width: int, height: int, fit: Fit) -> Image.Image:
    """Resize an image: crop it, pad it with bars, or distort it."""
    # Bilinear resizing in Pillow averages over the area of a target pixel and does not overshoot.
    smooth = Image.Resampling.BILINEAR
    if image.size == (width, height):
        return image
    if fit == "crop":
        return ImageOps.fit(image, (width, height), smooth)
    if fit == "stretch":
        return image.resize((width, height), smooth)
    scale = min(width / image.width, height / image.height)
    inner = (max(1, round(image.width * scale)), max(1, round(image.height * scale)))
    canvas = Image.new(image.mode, (width, height))  # black, or transparent
    canvas.paste(image.resize(inner, smooth), ((width - inner[0]) // 2, (height - inner[1]) // 2))
    return canvas


def _to_eight_bits(image: Image.Image, file: Path | str) -> Image.Image:
    """Convert a 16-bit image to 8 bits, v / 257 rounded; return others unchanged."""
    if not _is_deep(image):
        return image
    values = np.asarray(image).astype(np.int64)
    if values.min() < 0 or values.max() > 65535:
        raise ValueError(
            f"expected images of 8 or 16 bits, got {file} with values from {values.min()} to "
            f"{values.max()}: save them as .npz and use Arrays"
        )
    return Image.fromarray(((values + 128) // 257).astype(np.uint8))


def _to_mode(image: Image.Image, mode: str) -> Image.Image:
    """Convert an image to a colour mode; lay it on white unless the mode keeps transparency."""
    if mode == "RGBA" or not image.has_transparency_data:
        return image.convert(mode)
    layer = image.convert("RGBA")
    white = Image.new("RGBA", layer.size, "white")
    return Image.alpha_composite(white, layer).convert(mode)
