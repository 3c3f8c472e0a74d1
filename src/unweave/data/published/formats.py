"""Read the file formats of published datasets, without unpickling or extracting anything."""

import gzip
import io
import math
import re
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any, BinaryIO, Self

import numpy as np

from unweave.data.files.rows import BLOCK, BOMB, MOST_COMPRESSED, Array

# [LeCun2004]: the first four bytes are the type, little-endian.
_NORB: dict[int, np.dtype[Any]] = {0x1E3D4C55: np.dtype("u1"), 0x1E3D4C54: np.dtype("<i4")}
_LARGEST = 2**26  # bytes of an image or a car in an archive
_WHOLE = 2**30  # bytes of a file that is read at once; the largest published one has 450 MB
_HEADER = 2**20  # bytes of metadata about a member of a tar archive
_BROKEN = (
    OSError,
    EOFError,
    ValueError,
    MemoryError,
    zlib.error,
    zipfile.BadZipFile,
    tarfile.TarError,
)
_METADATA = (*b"xgXLK",)  # types of tar members that describe others: pax, Solaris, GNU


@contextmanager
def reading_fetched(path: Path) -> Iterator[None]:
    """Turn errors while reading a downloaded file into one that advises to download it again.

    Since the published files are known to be good, this includes sizes that do not fit into
    memory, unlike `rows.reading`. It excludes files without permission to read them.
    """
    try:
        yield
    except PermissionError:
        raise
    except _BROKEN as error:
        raise ValueError(broken(path, error)) from None


def broken(path: Path, error: object) -> str:
    """Explain that a file is not the published one."""
    text = str(error) or type(error).__name__
    if str(path.parent) in text:  # the message names it, or a file beside it
        return text
    return f"{path} is damaged or is another file: {text}; delete it and download it again"


def read_idx(path: Path, dimensions: int) -> Array:
    """Read the bytes of a gzipped file in the format of MNIST.  [LeCun1998].

    It has two zero bytes, 8 for unsigned bytes, the number of dimensions, each dimension as a
    big-endian 32-bit integer, and then the values.
    """
    with reading_fetched(path), gzip.open(path) as file:
        head = _read_exactly(file, 4)
        if head != bytes([0, 0, 8, dimensions]):
            raise ValueError(f"it begins with {head.hex()}, not with 000008{dimensions:02x}")
        shape = np.frombuffer(_read_exactly(file, 4 * dimensions), ">u4").astype(int).tolist()
        return _read_array(file, tuple(shape), np.dtype("u1"))


def norb_blocks(path: Path) -> tuple[tuple[int, ...], Iterator[Array]]:
    """Read the shape of a gzipped NORB matrix, and its rows in blocks.  [LeCun2004]."""
    with reading_fetched(path), gzip.open(path) as file:
        shape, dtype = _norb_header(file)

    def blocks() -> Iterator[Array]:
        each = math.prod(shape[1:]) * dtype.itemsize
        with reading_fetched(path), gzip.open(path) as file:
            _norb_header(file)
            for start in range(0, shape[0], step := max(1, BLOCK // each)):
                count = min(step, shape[0] - start)
                content = _read_exactly(file, count * each)
                yield np.frombuffer(content, dtype).reshape(count, *shape[1:])
            if file.read(1):
                raise ValueError("it is longer than its header says")

    return shape, blocks()


def read_norb(path: Path) -> Array:
    """Read a small NORB matrix."""
    return np.concatenate(list(norb_blocks(path)[1]))


def _norb_header(file: Any) -> tuple[tuple[int, ...], np.dtype[Any]]:
    kind, dimensions = np.frombuffer(_read_exactly(file, 8), "<i4").tolist()
    if kind not in _NORB or not 1 <= dimensions <= 8:
        raise ValueError("it does not begin as a matrix of bytes or integers does")
    # The file has at least three sizes, whatever the number of dimensions.
    sizes = np.frombuffer(_read_exactly(file, 4 * max(3, dimensions)), "<i4").tolist()
    shape = tuple(sizes[:dimensions])
    if min(shape) < 1 or math.prod(shape) > _WHOLE:
        raise ValueError(f"its header announces the shape {shape}")
    return shape, _NORB[kind]


def read_mat(path: Path | BinaryIO, name: str, dimensions: int, where: Path) -> Array:
    """Read an array of bytes from a MATLAB file of version 5 to 7, after checking its header.

    scipy only decodes numbers: it does not run anything that is in the file.
    """
    import scipy.io  # slow to load, and for these files alone

    try:
        _reject_bombs(path)
        listed = {each: (shape, kind) for each, shape, kind in scipy.io.whosmat(path)}
        if name not in listed:
            raise ValueError(f"it has no {name!r}, but {', '.join(listed) or 'nothing'}")
        shape, kind = listed[name]
        if len(shape) != dimensions or kind not in ("uint8", "double") or math.prod(shape) > _WHOLE:
            raise ValueError(f"its {name!r} is of shape {shape} of {kind}")
        return np.asarray(scipy.io.loadmat(path, variable_names=[name])[name])
    except Exception as error:  # scipy raises many kinds if a file is not a MATLAB file
        raise ValueError(broken(where, error)) from None


def _reject_bombs(path: Path | BinaryIO) -> None:
    """Unpack a MATLAB file of version 5 to 7 without storing it, to reject likely zip bombs.

    A header of 128 bytes, the last two of which give the byte order, is followed by elements: type
    and length as 32-bit integers, and content. Type 15 is compressed; lengths inside cannot be
    trusted.
    """
    with path.open("rb") if isinstance(path, Path) else nullcontext(path) as file:
        size = file.seek(0, 2)
        file.seek(0)
        order = {b"IM": "<u4", b"MI": ">u4"}.get(file.read(128)[126:])
        unpacked = 0
        while order and len(head := file.read(8)) == 8:
            kind, left = np.frombuffer(head, order).tolist()
            if kind != 15:
                file.seek(left, 1)
                continue
            inflate = zlib.decompressobj()
            while left and (block := file.read(min(BLOCK // 2**8, left))):
                left -= len(block)
                while block:
                    unpacked += len(inflate.decompress(block, BLOCK))
                    block = inflate.unconsumed_tail
                    if unpacked > max(BOMB, MOST_COMPRESSED * size):
                        raise ValueError(f"it would unpack {size:,} bytes to {unpacked:,} or more")
        file.seek(0)


class _Member(tarfile.TarInfo):
    """A member of a tar archive, with limited metadata, which tarfile loads into memory."""

    @classmethod
    def frombuf(cls, buf: bytes | bytearray, encoding: str, errors: str) -> Self:
        member = super().frombuf(buf, encoding, errors)
        if member.type[0] in _METADATA and member.size > _HEADER:
            raise ValueError(f"it has {member.size:,} bytes of metadata about a member")
        return member


def tar_members(path: Path, pattern: str) -> Iterator[tuple[re.Match[str], bytes]]:
    """Yield the regular files of an archive whose names match a pattern, with their content.

    Names are never used as paths: nothing is extracted.
    """
    matches = re.compile(pattern).fullmatch
    with reading_fetched(path), tarfile.open(path, "r|*", tarinfo=_Member) as file:
        for member in file:
            if (match := matches(member.name)) is None or not member.isfile():
                continue
            if member.size > _LARGEST:
                raise ValueError(f"{member.name} in it has {member.size:,} bytes")
            content = file.extractfile(member)
            assert content is not None
            yield match, content.read()


@contextmanager
def archive(path: Path) -> Iterator[tuple[list[str], Callable[[str], bytes]]]:
    """Open a zip or tar archive: the names of its files, and a thread-safe function to read one."""
    with reading_fetched(path):
        zipped = zipfile.is_zipfile(path)
        opened = (
            zipfile.ZipFile(path) if zipped else tarfile.open(path, "r:", tarinfo=_Member)  # noqa: SIM115
        )
    with opened as file:
        with reading_fetched(path):
            members = _members(file)

        def read(name: str) -> bytes:
            size, offset = members[name]
            if size > _LARGEST:
                raise ValueError(broken(path, f"{name} in it has {size:,} bytes"))
            with reading_fetched(path):
                if isinstance(file, zipfile.ZipFile):
                    return file.read(name)
                with path.open("rb") as content:
                    content.seek(offset)
                    return _read_exactly(content, size)

        yield list(members), read


def _members(file: zipfile.ZipFile | tarfile.TarFile) -> dict[str, tuple[int, int]]:
    if isinstance(file, zipfile.ZipFile):
        return {info.filename: (info.file_size, 0) for info in file.infolist() if not info.is_dir()}
    return {member.name: (member.size, member.offset_data) for member in file if member.isfile()}


def read_table(path: Path, skip: int) -> tuple[list[str], list[list[str]]]:
    """Read the header and the rows of a table whose columns are separated by blanks."""
    with reading_fetched(path):
        lines = path.read_text(encoding="utf-8").splitlines()[skip:]
        rows = [line.split() for line in lines if line.strip()]
    if not rows:
        raise ValueError(broken(path, "it has no rows"))
    return rows[0], rows[1:]


def _read_exactly(file: Any, count: int) -> bytes:
    content = io.BytesIO()
    while content.tell() < count:
        block = file.read(min(BLOCK, count - content.tell()))
        if not block:
            raise ValueError(f"it ends {count - content.tell():,} bytes too early")
        content.write(block)
    return content.getvalue()


def _read_array(file: Any, shape: Sequence[int], dtype: np.dtype[Any]) -> Array:
    """Read the rest of a stream as an array, without allocating memory for a wrong shape."""
    if math.prod(shape) > _WHOLE:
        raise ValueError(f"its header announces the shape {tuple(shape)}")
    content = _read_exactly(file, math.prod(shape) * dtype.itemsize)
    if file.read(1):
        raise ValueError(f"it is longer than its shape {tuple(shape)} says")
    return np.frombuffer(content, dtype).reshape(shape)
