"""Read image files: what is known before decoding, the pages of stacks, and pixels."""

import json
import logging
import math
import os
import re
import threading
import warnings
import zlib
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from io import BytesIO
from pathlib import Path
from typing import IO, Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageFile, ImageOps, PngImagePlugin, TiffImagePlugin, UnidentifiedImageError

from unweave.core.notes import quietly
from unweave.data.files.rows import Array, optional_module, reject_bombs

Bytes = NDArray[np.uint8]
Fit = Literal["crop", "pad", "stretch"]
PageAxes = tuple[tuple[str, int], ...]  # name and length of each axis of pages, slowest first

TIFF = frozenset((".tif", ".tiff"))
EXTENSIONS = TIFF | frozenset(
    (".bmp", ".gif", ".jpeg", ".jpg", ".pbm", ".pgm", ".png", ".pnm", ".ppm", ".webp")
)
# Listed, so that no file makes Pillow start another program, as PostScript would.
FORMATS = ("BMP", "GIF", "JPEG", "PNG", "PPM", "TIFF", "WEBP")
MODES = {1: "L", 3: "RGB", 4: "RGBA"}
AT_ONCE = 1024  # images decoded before they are written
DECODED_AT_ONCE = 2**29  # bytes of images that all threads decode at once

_GREY = frozenset(("1", "L", "LA", "La"))
_ROTATED = frozenset((5, 6, 7, 8))  # EXIF orientations that swap height and width
_ORIENTATION = 0x0112  # tags of EXIF and TIFF
_PNG = b"\x89PNG\r\n\x1a\n"
_PNG_METADATA = (b"IHDR", b"eXIf", b"iTXt", b"tEXt", b"zTXt")
_WIDTH, _LENGTH, _BITS, _DESCRIPTION, _SAMPLES, _SAMPLE_FORMAT = 256, 257, 258, 270, 277, 339
_LISTED = 5  # unreadable files that are named


class Header(NamedTuple):
    """Properties of an image file that are known before it is decoded."""

    size: tuple[int, int]  # height and width as displayed
    dtype: str  # of the values as they are stored, such as uint8 or uint16
    samples: int  # channels of a page: 1 for grey, 3 for colour, any number for others
    alpha: bool = False
    pages: int = 1
    axes: PageAxes | None = None  # what the pages are; None if the file does not say
    reduced: bool = False  # whether more than 8 bits are stored, and Pillow drops the rest
    by_pillow: bool = True

    @property
    def page_bytes(self) -> int:
        """The memory that a page takes while it is decoded: Pillow stores RGB in four bytes."""
        return math.prod(self.size) * max(4, self.samples * np.dtype(self.dtype).itemsize)

    @property
    def plain(self) -> bool:
        """Whether a page is an ordinary picture of 8 bits: grey, colour or transparent."""
        return self.by_pillow and self.dtype == "uint8"


class UnreadableImage(ValueError):
    """An image file that cannot be read."""


class _Budget:
    """Bytes that threads share; each waits until those that it needs are free."""

    def __init__(self) -> None:
        self._used, self._changed = 0, threading.Condition()

    @contextmanager
    def taking(self, size: int) -> Iterator[None]:
        """Take some bytes inside this block; more than there are, only alone."""
        with self._changed:
            self._changed.wait_for(lambda: not self._used or self._used + size <= DECODED_AT_ONCE)
            self._used += size
        try:
            yield
        finally:
            with self._changed:
                self._used -= size
                self._changed.notify_all()


_budget = _Budget()


@contextmanager
def _reading_image(file: Path | str) -> Iterator[None]:
    """Turn errors while reading an image into errors that name the file."""
    try:
        yield
    except (Image.DecompressionBombError, Image.DecompressionBombWarning) as error:
        raise UnreadableImage(
            f"expected an image of ordinary size, got {file}: {error} Scale it down, or remove it "
            "from the folder"
        ) from None
    except MemoryError:  # which says nothing about the file
        raise
    except Exception as error:  # Pillow and tifffile raise many kinds if a file is damaged
        if str(file) in str(error) and "pip install" in str(error):
            raise
        reason = str(error) or type(error).__name__
        raise UnreadableImage(
            f"expected a readable image, got {file}: {reason}. Repair or remove the file"
        ) from None


def read_header(file: Path) -> Header:
    """Read the properties of an image file."""
    with _reading_image(file):
        try:
            with _pillow(file) as image:
                header = _header(image)
                if header.pages > 1:  # Pillow limits the size of one page
                    unpacked = header.pages * math.prod(header.size) * header.samples
                    reject_bombs(str(file), file.stat().st_size, unpacked)
                if not isinstance(image, TiffImagePlugin.TiffImageFile):
                    return header
                if _is_faithful(image):
                    description = str(image.tag_v2.get(_DESCRIPTION, ""))
                    return header._replace(axes=page_axes(description, header.pages))
        except UnidentifiedImageError:
            if file.suffix.lower() not in TIFF:
                raise
        return _tiff_header(file)


@contextmanager
def _pillow(file: Path) -> Iterator[ImageFile.ImageFile]:
    # Given a path, Pillow maps TIFF files into memory, and then reads rotated images as noise.
    with file.open("rb") as stream:
        try:
            image = Image.open(stream, formats=FORMATS)
        except UnidentifiedImageError:
            raise UnidentifiedImageError(f"it is none of {', '.join(FORMATS)}") from None
        with image:
            yield image


def _header(image: ImageFile.ImageFile) -> Header:
    height, width = image.height, image.width
    if isinstance(image, TiffImagePlugin.TiffImageFile):  # new versions of Pillow rotate the size
        height, width = image.tag_v2[_LENGTH], image.tag_v2[_WIDTH]
    if _exif(image).get(_ORIENTATION) in _ROTATED:
        height, width = width, height
    samples = 1 if image.mode in _GREY or _deep_type(image) else 3
    dtype, frames = _deep_type(image) or "uint8", getattr(image, "n_frames", 1)
    pages = 1 if image.format == "MPO" else frames  # a photograph and its previews
    alpha = image.has_transparency_data
    return Header((height, width), dtype, samples, alpha, pages, None, _is_reduced(image))


def _exif(image: ImageFile.ImageFile) -> Image.Exif:
    """Return the EXIF metadata of an image without decoding it."""
    if not isinstance(image, PngImagePlugin.PngImageFile):
        return image.getexif()
    # These may follow the pixels, and Pillow decodes those to find them. So it gets the others.
    chunks = [*_png_metadata(image.fp, image.is_animated), (b"IDAT", b""), (b"IEND", b"")]
    kept = b"".join(_png_chunk(*chunk) for chunk in chunks)
    with Image.open(BytesIO(_PNG + kept), formats=["PNG"]) as bare:
        return Image.Image.getexif(bare)


def _png_chunk(kind: bytes, content: bytes) -> bytes:
    checksum = zlib.crc32(kind + content)  # of metadata, programs sometimes write a wrong one
    return len(content).to_bytes(4, "big") + kind + content + checksum.to_bytes(4, "big")


def _png_metadata(file: IO[bytes] | None, animated: bool) -> Iterator[tuple[bytes, bytes]]:
    """Read the header of a PNG file, and its chunks of metadata, up to its second frame."""
    assert file is not None
    place, pixels, end = len(_PNG), False, file.seek(0, os.SEEK_END)
    while True:
        file.seek(place)
        start = file.read(8)
        size, kind = int.from_bytes(start[:4], "big"), start[4:]
        if kind in (b"", b"IEND") or (animated and pixels and kind == b"fcTL"):
            return
        pixels |= kind == b"IDAT"
        if kind in _PNG_METADATA:
            yield kind, file.read(min(size, end - place))  # a chunk may claim to be longer
        place += 12 + size


def _deep_type(image: Image.Image) -> str:
    """Return the type of values of more than 8 bits; "" for others."""
    if image.mode == "F":
        return "float32"
    if image.mode == "I" and image.format == "TIFF":
        return "int32"
    return "uint16" if image.mode == "I" or image.mode.startswith("I;16") else ""


def _is_reduced(image: ImageFile.ImageFile) -> bool:
    """Return whether Pillow reads the image with fewer bits than it has."""
    if _deep_type(image) or not image.tile:
        return False
    arguments = image.tile[0].args
    names = arguments if isinstance(arguments, tuple) else (arguments,)
    if image.format == "PPM":
        return isinstance(names[-1], int) and image.tile[0].codec_name == "ppm" and names[-1] > 255
    return any(isinstance(name, str) and name.endswith(";16B") for name in names)


def _is_faithful(image: TiffImagePlugin.TiffImageFile) -> bool:
    """Return whether Pillow reads all channels and bits of the first page of a TIFF file."""
    tags = image.tag_v2
    bits, kinds = max(tags.get(_BITS, (1,))), set(tags.get(_SAMPLE_FORMAT, (1,)))
    if tags.get(_SAMPLES, 1) != len(image.getbands()):
        return False
    if bits <= 8:
        return kinds == {1}
    known = {"I": kinds == {2}, "F": kinds == {3}}
    return known.get(image.mode, image.mode.startswith("I;16"))


def page_axes(description: str, pages: int) -> PageAxes | None:
    r"""Return the axes of the pages of a TIFF file by its description; None if it does not say.

    Descriptions are those of ImageJ, of OME-TIFF, and of tifffile.

    >>> page_axes("ImageJ=1.54f\nimages=6\nchannels=3\nframes=2\nhyperstack=true", 6)
    (('t', 2), ('z', 1), ('c', 3))
    """
    axes: PageAxes | None = None
    if description.startswith("ImageJ="):
        axes = _imagej_axes(dict(re.findall(r"^(\w+)=(.*)$", description, re.MULTILINE)), pages)
    elif len(pixels := re.findall(r"<Pixels\s[^>]*>", description)) == 1:
        fields = dict(re.findall(r'(\w+)="([^"]*)"', pixels[0]))
        order = fields.get("DimensionOrder", "XYCZT")[:1:-1].lower()
        axes = tuple((name, int(fields.get(f"Size{name.upper()}", 0))) for name in order)
    elif description.startswith("{"):
        axes = _json_axes(description)
    return axes if axes and math.prod(count for _, count in axes) == pages else None


def _imagej_axes(fields: dict[str, str], pages: int) -> PageAxes | None:
    counts = {name: int(fields.get(name, 1)) for name in ("frames", "slices", "channels", "images")}
    if counts["images"] > pages:
        raise ValueError(
            f"it describes {counts['images']} images but lists {pages}, as ImageJ does above 4 GB: "
            "save it in parts"
        )
    if counts["channels"] == 1 and fields.get("hyperstack") != "true":
        return None  # ImageJ names the pages of any stack slices
    return ("t", counts["frames"]), ("z", counts["slices"]), ("c", counts["channels"])


def _json_axes(description: str) -> PageAxes | None:
    try:
        fields = json.loads(description)
        pairs = zip(str(fields["axes"]).lower(), fields["shape"], strict=True)
        return tuple((name, int(count)) for name, count in pairs if name not in "yxs")
    except (ValueError, KeyError, TypeError):
        return None


def _tiff_header(file: Path) -> Header:
    """Read the properties of a TIFF file that Pillow cannot read, or not at full precision."""
    with _tifffile(file) as tiff:
        first, pages = tiff.pages[0], len(tiff.pages)
        if first.axes not in ("YX", "YXS", "SYX"):
            raise ValueError(f"its pages have the axes {first.axes}, not those of an image")
        reject_bombs(str(file), file.stat().st_size, pages * first.nbytes)
        dtype = "float32" if first.dtype.kind == "f" else str(first.dtype)
        axes = page_axes(str(first.description), pages)
        size = (int(first.imagelength), int(first.imagewidth))
        samples = int(first.samplesperpixel)
        if min(*size, samples) < 1:
            raise ValueError("its pages have no pixels")
        return Header(size, dtype, samples, False, pages, axes, by_pillow=False)


@contextmanager
def _tifffile(file: Path) -> Iterator[Any]:
    library = optional_module("tifffile", "TIFF that Pillow cannot read at full precision", file)
    try:
        with library.TiffFile(file) as tiff:
            yield tiff
    except library.TiffFileError as error:
        raise ValueError(str(error)) from None


def read_pages(
    file: Path, header: Header, pages: Array, size: tuple[int, int], samples: int, fit: Fit
) -> Array:
    """Decode observations whose channels are the samples of pages (n, P): (n, P * samples, H, W).

    Pictures of 8 bits are converted to a number of samples per page: 1, 3 or 4; others have to have
    that number. All pages are brought to a size.
    """
    with _reading_image(file), _budget.taking(header.page_bytes):
        if header.by_pillow:
            with _pillow(file) as image:
                decoded = [
                    _pillow_page(image, page, header, size, samples, fit)
                    for page in pages.reshape(-1).tolist()
                ]
        else:
            with _tifffile(file) as tiff:
                decoded = [
                    _resize_values(_tifffile_page(tiff, page, header), size, fit)
                    for page in pages.reshape(-1).tolist()
                ]
        return np.stack(decoded).reshape(len(pages), -1, *size)


def _pillow_page(
    image: Image.Image, page: int, header: Header, size: tuple[int, int], samples: int, fit: Fit
) -> Array:
    if header.pages > 1:
        image.seek(page)
    shown = ImageOps.exif_transpose(image)
    if (shown.height, shown.width) != header.size or bool(_deep_type(image)) == header.plain:
        raise ValueError(f"its page {page + 1} has another size or type than its first page")
    if header.plain:
        return _convert(shown, size, samples, fit)
    return _resize_values(np.asarray(shown).astype(header.dtype)[None], size, fit)


def _tifffile_page(tiff: Any, page: int, header: Header) -> Array:
    values = tiff.pages[page].asarray()
    values = np.moveaxis(values, -1, 0) if tiff.pages[page].axes == "YXS" else values
    values = values.reshape(-1, *values.shape[-2:])
    if values.shape != (header.samples, *header.size):
        raise ValueError(f"its page {page + 1} has another shape than its first page")
    converted: Array = values.astype(header.dtype)
    return converted


def _resize_values(values: Array, size: tuple[int, int], fit: Fit) -> Array:
    """Resize the channels (C, h, w) of an image at full precision; bars have its lowest value."""
    if values.shape[1:] == size:
        return values
    height, width = size
    resized = np.stack(
        [
            np.asarray(_resize(Image.fromarray(channel), width, height, fit, float(channel.min())))
            for channel in values.astype(np.float32)
        ]
    )
    return (np.rint(resized) if values.dtype.kind in "iu" else resized).astype(values.dtype)


def explain_unreadable(
    first: UnreadableImage, files: Sequence[Path], pool: ThreadPoolExecutor
) -> str:
    """Name the images that cannot be read; if there are none, tell the first.

    They are decoded, unless they would unpack like a zip bomb.
    """
    headers = dict(zip(files, pool.map(_read_or_error, files), strict=True))
    good = {file: each for file, each in headers.items() if isinstance(each, Header)}
    errors = {file: str(each) for file, each in headers.items() if file not in good}
    with suppress(ValueError):
        unpacked = sum(header.pages * header.page_bytes for header in good.values())
        reject_bombs("the images", sum(file.stat().st_size for file in good), unpacked)
        errors |= dict(zip(good, pool.map(_error, good, good.values()), strict=True))
    bad = [file for file in files if errors.get(file)]
    if len(bad) < 2:
        return errors[bad[0]] if bad else str(first)
    listed = ", ".join(map(str, bad[:_LISTED])) + (", ..." if len(bad) > _LISTED else "")
    return (
        f"expected readable images, got {len(bad):,} of {len(files):,} files that are broken or "
        f"too large, {listed}: repair or remove them"
    )


def _read_or_error(file: Path) -> Header | UnreadableImage:
    try:
        return read_header(file)
    except UnreadableImage as error:
        return error


def _error(file: Path, header: Header) -> str:
    """Say why an image file cannot be decoded; "" if it can."""
    try:
        for start in range(0, header.pages, AT_ONCE):
            pages = np.arange(start, min(start + AT_ONCE, header.pages))[:, None]
            read_pages(file, header, pages, (1, 1), header.samples, "stretch")
    except UnreadableImage as error:
        return str(error)
    return ""


@contextmanager
def decoding() -> Iterator[ThreadPoolExecutor]:
    """Provide threads to decode images, which releases the GIL."""
    # What tifffile logs of a damaged file has its metadata as they are; errors name the file.
    with quietly("tifffile", logging.CRITICAL):
        # Pillow only warns about images so large that decoding them may exhaust the memory.
        warnings.simplefilter("error", Image.DecompressionBombWarning)
        with ThreadPoolExecutor() as pool:
            yield pool


def centre_crop(content: bytes, name: str, crop: int | None, side: int) -> Bytes:
    """Decode an image and resize its centred square of `crop` pixels: (3, side, side)."""
    with _reading_image(name), Image.open(BytesIO(content), formats=FORMATS) as image:
        image.load()
        width, height = image.size
        length = min(width, height) if crop is None else crop
        if length > min(width, height):
            raise ValueError(f"it has {width} x {height} pixels, fewer than {length}")
        left, top = (width - length) // 2, (height - length) // 2
        square = image.crop((left, top, left + length, top + length))
    return _convert(square, (side, side), 3, "stretch")


def resize(pixels: Bytes, side: int) -> Bytes:
    """Resize an image (H, W) or (H, W, C) bilinearly."""
    if pixels.shape[:2] == (side, side):
        return pixels
    image = Image.fromarray(np.ascontiguousarray(pixels))
    return np.asarray(image.resize((side, side), Image.Resampling.BILINEAR))


def _convert(shown: Image.Image, size: tuple[int, int], channels: int, fit: Fit) -> Bytes:
    """Bring an image of 8 bits to a size and number of channels, (C, H, W)."""
    coloured = _to_mode(shown, MODES[channels])
    height, width = size
    sized = _resize(coloured, width, height, fit)
    pixels = np.asarray(sized, dtype=np.uint8).reshape(height, width, channels)
    return np.moveaxis(pixels, -1, 0)


def _resize(image: Image.Image, width: int, height: int, fit: Fit, bars: float = 0) -> Image.Image:
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
    # Black, or transparent; values of other types are bars of a given value.
    canvas = Image.new(image.mode, (width, height), bars if image.mode == "F" else 0)
    canvas.paste(image.resize(inner, smooth), ((width - inner[0]) // 2, (height - inner[1]) // 2))
    return canvas


def _to_mode(image: Image.Image, mode: str) -> Image.Image:
    """Convert an image to a colour mode; blend it onto white unless the mode keeps transparency."""
    if mode == "RGBA" or not image.has_transparency_data:
        return image.convert(mode)
    layer = image.convert("RGBA")
    white = Image.new("RGBA", layer.size, "white")
    return Image.alpha_composite(white, layer).convert(mode)
