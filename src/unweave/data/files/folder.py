"""Data from a folder of pictures."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from io import BytesIO
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image, ImageOps
from pydantic import Field

from unweave.core.hints import nearest_path
from unweave.core.spec import spec, tag
from unweave.data.dataset import Dataset, Place
from unweave.data.files.arrays import dataset_of
from unweave.data.files.npy import NpyFile, write_npy
from unweave.data.files.reading import COLOURS, Reading
from unweave.data.files.rows import MOST, Held, Rows, fresh
from unweave.data.files.tables import column_values, read_csv, stray
from unweave.data.parts import DataSplit
from unweave.data.published.cache import data_folder, prepared

Array = NDArray[Any]
Bytes = NDArray[np.uint8]
Pixels = Annotated[int, Field(ge=1, le=4096)]

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
# Named, so that no file makes Pillow start another program (as PostScript would).
FORMATS = ("BMP", "GIF", "JPEG", "PNG", "PPM", "TIFF", "WEBP")
GREY = frozenset(("1", "L", "LA", "La", "I"))
DEFAULT_SIZE = (64, 64)
MODES = {1: "L", 3: "RGB", 4: "RGBA"}
QUARTER_TURNED = frozenset((5, 6, 7, 8))  # EXIF orientations that exchange height and width
EXIF_ORIENTATION = 0x0112
FACTORS = "factors.csv"
Fit = Literal["crop", "pad", "stretch"]
FITS: dict[Fit, str] = {
    "crop": "are cut to their centre (fit=crop; fit=pad and fit=stretch keep all of them)",
    "pad": "have bars beside them (fit=pad)",
    "stretch": "are stretched (fit=stretch)",
}
T = TypeVar("T")

_AT_ONCE = 1024  # pictures that are decoded before they are written


@spec
class Folder:
    """All pictures under a folder and its subfolders, in the order of their paths.

    `size` is the side, or (height, width), to bring every picture to, scaled with anti-aliasing.
    Without it pictures of one size keep it and others become 64 x 64. Of pictures of another form,
    `fit` takes the largest centred part ("crop"), or all, with bars of black beside it, transparent
    where there are four channels ("pad"), or all, distorted ("stretch"). `channels` is 1 (grey), 3
    (RGB) or 4 (RGBA); without it grey folders have 1, others 3, and transparent pictures are laid
    on white. Of a moving picture the first frame is taken. `factors` is a CSV file with a header,
    whose first column names pictures by their paths in the folder and whose other columns are
    factors; without it, factors.csv in the folder, if it is there. `split` and `stream` are as
    those of `Arrays`; pictures of more than 1 GiB are decoded once, to a file.
    """

    path: Place
    size: Pixels | tuple[Pixels, Pixels] | None = None
    channels: Literal[1, 3, 4] | None = None
    fit: Fit = "crop"
    factors: Place | None = None
    split: DataSplit = "all"
    stream: bool | None = None
    kind: Literal["folder"] = tag("folder")

    def load(self, device: torch.device) -> Dataset:
        """Decode all pictures, into memory or to a file, and put them on a device."""
        folder = Path(self.path)
        files = _files(folder)
        with decoding() as pool:
            headers = list(pool.map(_header, files))
            size, size_notes = _choose_size(self.size, headers)
            channels, channel_notes = _choose_channels(self.channels, headers)
            shape = (len(files), channels, *size)
            rows, key = self._decoded(files, shape, pool)
        form_notes = _form_notes(self.fit, size, headers)
        notes = (*size_notes, *form_notes, *channel_notes, *_depth_notes(headers))
        pictures = f"{shape[0]:,} pictures, read as {size[0]} x {size[1]}, {COLOURS[channels]}"
        reading = Reading(shape[1:], False, np.uint8, 1 / 255, True, (pictures, *notes), 1 / 255)
        table = Path(self.factors or folder / FACTORS)
        known = _listed(table, folder, files, self.factors is None)
        try:
            dataset = dataset_of(rows, *known, self.split, self.stream, key, reading=reading)
        except ValueError as error:
            raise ValueError(f"{folder if known[0] is None else table}: {error}") from None
        return dataset.to(device)

    def _decoded(
        self, files: Sequence[Path], shape: tuple[int, ...], pool: ThreadPoolExecutor
    ) -> tuple[Rows, list[object]]:
        """All pictures: in memory, or in a file that is found again while they are as they were."""
        blocks = partial(_blocks, files, shape, self.fit, pool)
        if not (math.prod(shape) > MOST if self.stream is None else self.stream):
            data = np.empty(shape, np.uint8)
            for number, block in enumerate(blocks()):
                data[number * _AT_ONCE :][: len(block)] = block
            return Held(data), []
        key = [shape, self.fit, *([str(file), *fresh(file)] for file in files)]
        place = prepared(
            data_folder() / "folders", key, lambda file: write_npy(file, shape, blocks())
        )
        return NpyFile(place).rows(), [str(place)]


class _Header(NamedTuple):
    """What is known of a picture before it is decoded."""

    size: tuple[int, int]  # height, width as the picture is shown
    grey: bool
    alpha: bool
    deep: bool  # more than 8 bits


def _files(folder: Path) -> list[Path]:
    if not folder.is_dir():
        raise ValueError(
            f"expected a folder of pictures at {folder}, got none: {nearest_path(folder)}"
        )
    found = [
        path
        for path in folder.rglob("*")
        if path.suffix.lower() in EXTENSIONS and path.is_file() and not path.name.startswith(".")
    ]
    if not found:
        raise ValueError(
            f"expected pictures under {folder}, got none: known extensions are "
            f"{', '.join(sorted(EXTENSIONS))}"
        )
    return sorted(found, key=lambda path: path.relative_to(folder).as_posix())


@contextmanager
def _reading(file: Path | str, content: bytes | None = None) -> Iterator[Image.Image]:
    """A picture to read from, with errors that name the file; of an archive, with its content."""
    try:
        source = file if content is None else BytesIO(content)
        with Image.open(source, formats=FORMATS) as image:
            yield image
    except (Image.DecompressionBombError, Image.DecompressionBombWarning) as error:
        raise ValueError(
            f"expected a picture of ordinary size, got {file}: {error} Scale it down, or remove it "
            "from the folder"
        ) from None
    except (OSError, EOFError, SyntaxError, ValueError) as error:
        raise ValueError(
            f"expected a picture that opens, got {file}: {error}. Repair or remove the file"
        ) from None


def _header(file: Path) -> _Header:
    with _reading(file) as image:
        height, width, mode, deep = image.height, image.width, image.mode, _is_deep(image)
        alpha = image.has_transparency_data
        turned = image.getexif().get(EXIF_ORIENTATION) in QUARTER_TURNED
    if mode == "F":
        raise ValueError(
            f"expected pictures of 8 or 16 bits, got {file} with floating-point values: save them "
            "as .npz and use Arrays"
        )
    size = (width, height) if turned else (height, width)
    return _Header(size, deep or mode in GREY, alpha, deep)


def _is_deep(image: Image.Image) -> bool:
    return image.mode == "I" or image.mode.startswith("I;16")


def _choose_size(
    wanted: int | tuple[int, int] | None, headers: Sequence[_Header]
) -> tuple[tuple[int, int], list[str]]:
    """Height and width of the observations, and a note if nobody asked for them."""
    if isinstance(wanted, int):
        return (wanted, wanted), []
    if wanted is not None:
        return wanted, []
    sizes = {header.size for header in headers}
    if len(sizes) == 1:
        return sizes.pop(), []
    height, width = DEFAULT_SIZE
    return DEFAULT_SIZE, [
        f"pictures come in {len(sizes)} sizes: scaled to {height} x {width}; choose another with "
        "size"
    ]


def _form_notes(fit: Fit, size: tuple[int, int], headers: Sequence[_Header]) -> list[str]:
    """What becomes of pictures that are not of the form of a size, if there are some."""
    others = sum(h.size[0] * size[1] != h.size[1] * size[0] for h in headers)
    those = f"{others} of {len(headers)} pictures, of another form than {size[0]} x {size[1]},"
    return [f"{those} {FITS[fit]}"] if others else []


def _choose_channels(wanted: int | None, headers: Sequence[_Header]) -> tuple[int, list[str]]:
    """Number of channels, and a note of what is lost or added."""
    grey = sum(header.grey for header in headers)
    channels = wanted or (1 if grey == len(headers) else 3)
    notes = []
    if wanted is None and 0 < grey < len(headers):
        notes.append(f"{grey} grey pictures among {len(headers)} read as RGB")
    transparent = sum(header.alpha for header in headers)
    if transparent and channels != 4:
        notes.append(f"{transparent} pictures with transparency laid on white; channels=4 keeps it")
    return channels, notes


def _depth_notes(headers: Sequence[_Header]) -> list[str]:
    deep = sum(header.deep for header in headers)
    return [f"{deep} pictures of 16 bits reduced to 8 bits"] if deep else []


@contextmanager
def decoding() -> Iterator[ThreadPoolExecutor]:
    """Threads that decode pictures, which releases the interpreter lock."""
    with warnings.catch_warnings():
        # Pillow only warns of a picture so large that decoding it may exhaust the memory.
        warnings.simplefilter("error", Image.DecompressionBombWarning)
        with ThreadPoolExecutor() as pool:
            yield pool


def _blocks(
    files: Sequence[Path], shape: tuple[int, ...], fit: Fit, pool: ThreadPoolExecutor
) -> Iterator[Bytes]:
    """All pictures (n, C, H, W), some at a time."""
    _, channels, height, width = shape
    read = partial(_pixels, size=(height, width), channels=channels, fit=fit)
    yield from in_blocks(read, files, pool)


def in_blocks(
    read: Callable[[T], Bytes], pictures: Sequence[T], pool: ThreadPoolExecutor
) -> Iterator[Bytes]:
    """Pictures that a function gives, some at a time."""
    for start in range(0, len(pictures), _AT_ONCE):
        yield np.stack(list(pool.map(read, pictures[start : start + _AT_ONCE])))


def _pixels(file: Path, size: tuple[int, int], channels: int, fit: Fit) -> Bytes:
    """One picture (C, H, W)."""
    with _reading(file) as image:
        shown = ImageOps.exif_transpose(image)
    return _brought(shown, file, size, channels, fit)


def cut(content: bytes, name: str, crop: int | None, side: int) -> Bytes:
    """A picture of an archive (3, side, side): its centred square, `crop` pixels wide."""
    with _reading(name, content) as image:
        image.load()
        width, height = image.size
        part = min(width, height) if crop is None else crop
        if part > min(width, height):
            raise ValueError(f"it has {width} x {height} pixels, fewer than {part}")
        left, top = (width - part) // 2, (height - part) // 2
        square = image.crop((left, top, left + part, top + part))
    return _brought(square, name, (side, side), 3, "stretch")


def shrunk(pixels: Bytes, side: int) -> Bytes:
    """A picture (H, W) or (H, W, C) at another size."""
    if pixels.shape[:2] == (side, side):
        return pixels
    image = Image.fromarray(np.ascontiguousarray(pixels))
    return np.asarray(image.resize((side, side), Image.Resampling.BILINEAR))


def _brought(
    shown: Image.Image, file: Path | str, size: tuple[int, int], channels: int, fit: Fit
) -> Bytes:
    """A picture at a size and with channels, (C, H, W)."""
    coloured = _coloured(_eight_bits(shown, file), MODES[channels])
    height, width = size
    sized = _sized(coloured, width, height, fit)
    pixels = np.asarray(sized, dtype=np.uint8).reshape(height, width, channels)
    return np.moveaxis(pixels, -1, 0)


def _sized(image: Image.Image, width: int, height: int, fit: Fit) -> Image.Image:
    """A picture at a size: a part of it, all of it between bars, or all of it distorted."""
    # Bilinear in Pillow averages over the area of a target pixel, and does not overshoot.
    smooth = Image.Resampling.BILINEAR
    if image.size == (width, height):
        return image
    if fit == "crop":
        return ImageOps.fit(image, (width, height), smooth)
    if fit == "stretch":
        return image.resize((width, height), smooth)
    scale = min(width / image.width, height / image.height)
    inner = (max(1, round(image.width * scale)), max(1, round(image.height * scale)))
    canvas = Image.new(image.mode, (width, height))  # black, and transparent if it can be
    canvas.paste(image.resize(inner, smooth), ((width - inner[0]) // 2, (height - inner[1]) // 2))
    return canvas


def _eight_bits(image: Image.Image, file: Path | str) -> Image.Image:
    """A 16-bit picture at 8 bits, v / 257 rounded; others as they are."""
    if not _is_deep(image):
        return image
    values = np.asarray(image).astype(np.int64)
    if values.min() < 0 or values.max() > 65535:
        raise ValueError(
            f"expected pictures of 8 or 16 bits, got {file} with values from {values.min()} to "
            f"{values.max()}: save them as .npz and use Arrays"
        )
    return Image.fromarray(((values + 128) // 257).astype(np.uint8))


def _coloured(image: Image.Image, mode: str) -> Image.Image:
    """The picture in a colour mode; transparency is laid on white unless the mode keeps it."""
    if mode == "RGBA" or not image.has_transparency_data:
        return image.convert(mode)
    layer = image.convert("RGBA")
    white = Image.new("RGBA", layer.size, "white")
    return Image.alpha_composite(white, layer).convert(mode)


def _listed(
    path: Path, folder: Path, files: Sequence[Path], may_be_missing: bool
) -> tuple[Array | None, list[str] | None, list[str]]:
    """Factors (N, K) of the pictures by a CSV file, their names, and what was decided."""
    if may_be_missing and not path.is_file():
        return None, None, []
    (_, head), *lines = read_csv(path)
    if len(head) < 2:
        raise ValueError(
            f"expected names of pictures and factors in {path}, got the column {head[0]} alone: "
            "the first column names pictures, the others are factors"
        )
    found: dict[str, list[str]] = {}
    for number, (name, *values) in lines:
        if name in found:
            raise ValueError(f"{path}, line {number}: {name} is there already; remove one of them")
        found[name] = values
    names = [file.relative_to(folder).as_posix() for file in files]
    if missing := [name for name in names if name not in found]:
        raise ValueError(
            f"{path} has no row for {len(missing)} of {len(names)} pictures, the first of them "
            f"{missing[0]}: add it, or move the picture out of the folder"
        )
    told = [f"factors {', '.join(head[1:])} read from {path.name}"]
    if others := len(found) - len(names):
        told.append(f"{others} rows of {path.name} name no picture here, and are left out")
    columns = list(zip(*(found[name] for name in names), strict=True))
    for factor, cells in zip(head[1:], columns, strict=True):
        if (place := stray(cells)) is not None:
            told.append(f"{cells[place]!r} of {names[place]} is text among numbers of {factor}")
    factors = np.stack([column_values(each).astype(object) for each in columns], -1)
    return factors, head[1:], told
