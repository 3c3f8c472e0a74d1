"""Data from a folder of pictures."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Literal, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image, ImageOps
from pydantic import Field

from unweave.data.world import Place, Stored, World
from unweave.spec import spec, tag

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


@spec
class Folder:
    """All pictures under a folder and its subfolders, in the order of their paths.

    `size` is the side, or (height, width), to bring every picture to: the largest centred part of
    that form, scaled with anti-aliasing. Without it pictures of one size keep it and others become
    64 x 64. `channels` is 1 (grey), 3 (RGB) or 4 (RGBA); without it grey folders have 1, others 3,
    and transparent pictures are laid on white. Of a moving picture the first frame is taken.
    """

    path: Place
    size: Pixels | tuple[Pixels, Pixels] | None = None
    channels: Literal[1, 3, 4] | None = None
    kind: Literal["folder"] = tag("folder")

    def load(self, device: torch.device) -> World:
        """Read all pictures into memory and put them on a device."""
        files = _files(Path(self.path))
        with warnings.catch_warnings():
            # Pillow only warns of a picture so large that decoding it may exhaust the memory.
            warnings.simplefilter("error", Image.DecompressionBombWarning)
            with ThreadPoolExecutor() as pool:  # decoding releases the interpreter lock
                headers = list(pool.map(_header, files))
                size, size_notes = _choose_size(self.size, headers)
                channels, channel_notes = _choose_channels(self.channels, headers)
                data = np.empty((len(files), channels, *size), np.uint8)
                _fill(data, files, pool)
        notes = (*size_notes, *channel_notes, *_depth_notes(headers))
        return _world(torch.from_numpy(data), notes).to(device)


class _Header(NamedTuple):
    """What is known of a picture before it is decoded."""

    size: tuple[int, int]  # height, width as the picture is shown
    grey: bool
    alpha: bool
    deep: bool  # more than 8 bits


def _files(folder: Path) -> list[Path]:
    if not folder.is_dir():
        raise ValueError(f"expected a folder of pictures at {folder}, got none: check the path")
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
def _reading(file: Path) -> Iterator[Image.Image]:
    """A picture to read from, with errors that name the file."""
    try:
        with Image.open(file, formats=FORMATS) as image:
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
        f"pictures come in {len(sizes)} sizes: cut to the centred square and scaled to "
        f"{height} x {width}; choose another with size"
    ]


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


def _fill(data: Bytes, files: Sequence[Path], pool: ThreadPoolExecutor) -> None:
    """Every picture into its place (C, H, W) of the block (N, C, H, W)."""
    _, channels, height, width = data.shape

    def fill(place: Bytes, file: Path) -> None:
        place[...] = _pixels(file, (height, width), channels)

    for _ in pool.map(fill, data, files):  # a result is asked for so that an error surfaces
        pass


def _pixels(file: Path, size: tuple[int, int], channels: int) -> Bytes:
    """One picture (C, H, W)."""
    with _reading(file) as image:
        shown = ImageOps.exif_transpose(image)
    coloured = _coloured(_eight_bits(shown, file), MODES[channels])
    height, width = size
    if coloured.size != (width, height):
        # Bilinear in Pillow averages over the area of a target pixel, and does not overshoot.
        coloured = ImageOps.fit(coloured, (width, height), Image.Resampling.BILINEAR)
    pixels = np.asarray(coloured, dtype=np.uint8).reshape(height, width, channels)
    return np.moveaxis(pixels, -1, 0)


def _eight_bits(image: Image.Image, file: Path) -> Image.Image:
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


def _world(data: torch.Tensor, notes: tuple[str, ...]) -> Stored:
    return Stored(
        data=data,
        codes=torch.zeros(len(data), 0, dtype=torch.int64),
        unit=1 / 255,
        bounded=True,
        factor_names=(),
        factor_sizes=(),
        lattice=None,
        notes=notes,
        integer_unit=1 / 255,
    )
