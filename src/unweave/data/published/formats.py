"""The file formats of published data sets. Nothing is unpickled, nothing is unpacked by name."""

from __future__ import annotations

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
from numpy.typing import NDArray

from unweave.data.files.rows import BLOCK

Array = NDArray[Any]

# [LeCun2004]: the first four bytes say the type, little-endian.
_NORB: dict[int, np.dtype[Any]] = {0x1E3D4C55: np.dtype("u1"), 0x1E3D4C54: np.dtype("<i4")}
_LARGEST = 2**26  # bytes of a picture or a car in an archive
_WHOLE = 2**30  # bytes of a file that is read whole; the largest published one has 450 MB
_HEADER = 2**20  # bytes of a name or of other facts about a member of a tar archive
_BOMB = 2**28  # bytes from which on a MATLAB file may not be packed denser than _DENSEST
_DENSEST = 500
_BROKEN = (
    OSError,
    EOFError,
    ValueError,
    MemoryError,
    zlib.error,
    zipfile.BadZipFile,
    tarfile.TarError,
)
_FACTS = (*b"xgXLK",)  # types of members of a tar archive that tell of others: pax, Solaris, GNU


@contextmanager
def reading_fetched(path: Path) -> Iterator[None]:
    """Errors that say which file is wrong, and to fetch it again.

    More than `rows.reading` takes for one: archives too, and sizes that no memory holds, since the
    published files are known to be good. A file that may not be read is not wrong.
    """
    try:
        yield
    except PermissionError:
        raise
    except _BROKEN as error:
        raise ValueError(broken(path, error)) from None


def broken(path: Path, error: object) -> str:
    """What is said of a file that is not what it should be."""
    text = str(error) or type(error).__name__
    if str(path.parent) in text:  # it, or a file beside it, is named
        return text
    return f"{path} is damaged or is another file: {text}; delete it and fetch it again"


def read_idx(path: Path, dimensions: int) -> Array:
    """Bytes of a gzipped file in the format of MNIST.  [LeCun1998].

    Two zero bytes, 8 for unsigned bytes, the number of dimensions, and each as a big-endian 32-bit
    integer; then the bytes.
    """
    with reading_fetched(path), gzip.open(path) as file:
        head = _exactly(file, 4)
        if head != bytes([0, 0, 8, dimensions]):
            raise ValueError(f"it begins with {head.hex()}, not with 000008{dimensions:02x}")
        shape = np.frombuffer(_exactly(file, 4 * dimensions), ">u4").astype(int).tolist()
        return _numbers(file, tuple(shape), np.dtype("u1"))


def norb_blocks(path: Path) -> tuple[tuple[int, ...], Iterator[Array]]:
    """Shape and rows, some at a time, of a gzipped matrix in the format of NORB.  [LeCun2004]."""
    with reading_fetched(path), gzip.open(path) as file:
        shape, dtype = _norb_header(file)

    def blocks() -> Iterator[Array]:
        each = math.prod(shape[1:]) * dtype.itemsize
        with reading_fetched(path), gzip.open(path) as file:
            _norb_header(file)
            for start in range(0, shape[0], step := max(1, BLOCK // each)):
                count = min(step, shape[0] - start)
                content = _exactly(file, count * each)
                yield np.frombuffer(content, dtype).reshape(count, *shape[1:])
            if file.read(1):
                raise ValueError("there is more in it than it says")

    return shape, blocks()


def read_norb(path: Path) -> Array:
    """A small matrix in the format of NORB."""
    return np.concatenate(list(norb_blocks(path)[1]))


def _norb_header(file: Any) -> tuple[tuple[int, ...], np.dtype[Any]]:
    kind, dimensions = np.frombuffer(_exactly(file, 8), "<i4").tolist()
    if kind not in _NORB or not 1 <= dimensions <= 8:
        raise ValueError("it does not begin as a matrix of bytes or integers does")
    # At least three sizes are there, whatever the number of dimensions.
    sizes = np.frombuffer(_exactly(file, 4 * max(3, dimensions)), "<i4").tolist()
    shape = tuple(sizes[:dimensions])
    if min(shape) < 1 or math.prod(shape) > _WHOLE:
        raise ValueError(f"it says that its shape is {shape}")
    return shape, _NORB[kind]


def read_mat(path: Path | BinaryIO, name: str, dimensions: int, where: Path) -> Array:
    """Bytes under a name in a MATLAB file of version 5 to 7; looked at before they are read.

    scipy reads numbers by their own headers: it runs nothing that is in the file.
    """
    import scipy.io  # slow to load, and for these files alone

    try:
        _refuse_bombs(path)
        listed = {each: (shape, kind) for each, shape, kind in scipy.io.whosmat(path)}
        if name not in listed:
            raise ValueError(f"it holds no {name!r}, but {', '.join(listed) or 'nothing'}")
        shape, kind = listed[name]
        if len(shape) != dimensions or kind not in ("uint8", "double") or math.prod(shape) > _WHOLE:
            raise ValueError(f"its {name!r} is of shape {shape} of {kind}")
        found = np.asarray(scipy.io.loadmat(path, variable_names=[name])[name])
    except Exception as error:  # of many kinds, as scipy stumbles over what is not a MATLAB file
        raise ValueError(broken(where, error)) from None
    return found


def _refuse_bombs(path: Path | BinaryIO) -> None:
    """Unpack a MATLAB file of version 5 to 7 without keeping it, to see that it can be.

    After 128 bytes, the last two of which tell the order of bytes, there are elements: type and
    length, as 32-bit integers, and content; type 15 is packed. Inside, lengths can say anything.
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
                    if unpacked > max(_BOMB, _DENSEST * size):
                        raise ValueError(f"it would unpack {size:,} bytes to {unpacked:,} or more")
        file.seek(0)


class _Member(tarfile.TarInfo):
    """A member of an archive; tarfile reads at once what is told about the next one."""

    @classmethod
    def frombuf(cls, buf: bytes | bytearray, encoding: str, errors: str) -> Self:
        """A member by its header."""
        made = super().frombuf(buf, encoding, errors)
        if made.type[0] in _FACTS and made.size > _HEADER:
            raise ValueError(f"{made.size:,} bytes in it are about the name of a member")
        return made


def tar_members(path: Path, pattern: str) -> Iterator[tuple[re.Match[str], bytes]]:
    """The plain files of an archive whose names match, with their content, as they come.

    Names are only compared, never used as places: nothing is unpacked.
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
    """Names of the plain files of a zip or tar archive, and what reads one; from any thread."""
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
                    return _exactly(content, size)

        yield list(members), read


def _members(file: zipfile.ZipFile | tarfile.TarFile) -> dict[str, tuple[int, int]]:
    """Size and place of every plain file."""
    if isinstance(file, zipfile.ZipFile):
        return {info.filename: (info.file_size, 0) for info in file.infolist() if not info.is_dir()}
    return {member.name: (member.size, member.offset_data) for member in file if member.isfile()}


def read_table(path: Path, skip: int) -> tuple[list[str], list[list[str]]]:
    """The line of names and the rows of a table with blanks between its columns."""
    with reading_fetched(path):
        lines = path.read_text(encoding="utf-8").splitlines()[skip:]
        rows = [line.split() for line in lines if line.strip()]
    if not rows:
        raise ValueError(broken(path, "it has no rows"))
    return rows[0], rows[1:]


def _exactly(file: Any, count: int) -> bytes:
    parts = io.BytesIO()
    while parts.tell() < count:
        block = file.read(min(BLOCK, count - parts.tell()))
        if not block:
            raise ValueError(f"it ends {count - parts.tell():,} bytes too early")
        parts.write(block)
    return parts.getvalue()


def _numbers(file: Any, shape: Sequence[int], dtype: np.dtype[Any]) -> Array:
    """The rest of a stream as an array of a shape; it is read before it is believed."""
    if math.prod(shape) > _WHOLE:
        raise ValueError(f"it says that its shape is {tuple(shape)}")
    content = _exactly(file, math.prod(shape) * dtype.itemsize)
    if file.read(1):
        raise ValueError(f"there is more in it than its shape {tuple(shape)} says")
    return np.frombuffer(content, dtype).reshape(shape)
