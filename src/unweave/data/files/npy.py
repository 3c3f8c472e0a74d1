"""Numpy files: .npy and .npz, never unpickled.

Headers are checked against the size of the file before anything is read or allocated.
"""

import math
import zipfile
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tokenize import TokenError
from typing import Any, BinaryIO

import numpy as np

from unweave.core.hints import nearest
from unweave.data.cache import cached_file, data_folder
from unweave.data.files.rows import (
    BLOCK,
    MOST,
    UNREADABLE,
    Array,
    FileRows,
    InMemoryRows,
    Rows,
    file_state,
    reading_arrays,
    reject_bombs,
)

_LOCAL_HEADER = 30  # bytes before the name of a member of a zip file


@dataclass(frozen=True)
class NpyFile:
    """A .npy file: one array without a name."""

    path: Path

    @property
    def names(self) -> list[str]:
        """The single array has no name."""
        return [""]

    def rows(self, name: str = "") -> Rows:
        """Return the array."""
        with reading_arrays(str(self.path)), self.path.open("rb") as file:
            shape, dtype, by_column = npy_header(file)
            offset = file.tell()
            expected = offset + math.prod(shape) * dtype.itemsize
            if (size := self.path.stat().st_size) != expected:
                raise ValueError(_mismatch(str(self.path), shape, dtype, expected, size))
            if by_column or not shape:
                _check_small(str(self.path), size)
                return InMemoryRows(_array(file, shape, dtype, by_column, str(self.path)))
        return FileRows(self.path, offset, shape, dtype)


@dataclass(frozen=True)
class NpzFile:
    """A .npz file: a zip archive of .npy files."""

    path: Path

    @property
    def names(self) -> list[str]:
        """Names of the arrays."""
        with reading_arrays(str(self.path)), zipfile.ZipFile(self.path) as file:
            return [name.removesuffix(".npy") for name in file.namelist()]

    def rows(self, name: str) -> Rows:
        """Return an array: in memory, or if it is large, in a file."""
        where = f"{name!r} of {self.path}"
        with reading_arrays(where), zipfile.ZipFile(self.path) as file:
            info = self._info(file, name)
            self._reject_bombs(file, where)
            with file.open(info) as member:
                shape, dtype, by_column, start = _member_header(member, info, where)
                if by_column:
                    _check_small(where, info.file_size)
                if info.file_size <= MOST:
                    return InMemoryRows(_array(member, shape, dtype, by_column, where))
        if info.compress_type != zipfile.ZIP_STORED:
            # Single rows cannot be read from compressed data: unpack it once, and keep the file.
            key = (str(self.path.absolute()), *file_state(self.path), name)
            path = cached_file(data_folder() / "unpacked", key, partial(self.unpack, name))
            return NpyFile(path).rows()
        return FileRows(self.path, _data_offset(self.path, info) + start, shape, dtype)

    def _reject_bombs(self, file: zipfile.ZipFile, where: str) -> None:
        """Compare all members with the size of the file: small ones add up, and may overlap."""
        packed, values = self.path.stat().st_size, 0
        unpacked = sum(info.file_size for info in file.infolist())
        reject_bombs(where, packed, unpacked)  # before headers, which may be large, too
        for info in file.infolist():
            with suppress(*UNREADABLE), file.open(info) as member:  # it may never be asked for
                values += min(math.prod(npy_header(member)[0]), info.file_size)
        reject_bombs(where, packed, unpacked, values)

    def unpack(self, name: str, target: BinaryIO) -> None:
        """Write an array as a .npy file without loading it into memory."""
        for block in self._blocks(name):
            target.write(block)

    def _blocks(self, name: str) -> Iterator[bytes]:
        """Read a .npy file; errors of the caller, who writes it elsewhere, are not caught."""
        where = f"{name!r} of {self.path}"
        with reading_arrays(where), zipfile.ZipFile(self.path) as file:
            info = self._info(file, name)
            with file.open(info) as member:
                _member_header(member, info, where)
            with file.open(info) as member:
                while block := member.read(BLOCK):
                    yield block

    def _info(self, file: zipfile.ZipFile, name: str) -> zipfile.ZipInfo:
        matches = [i for i in file.infolist() if i.filename.removesuffix(".npy") == name]
        if not matches:
            raise ValueError(
                f"there is no array {name!r} of {self.path}: {nearest(name, self.names)}"
            )
        return matches[-1]


def npy_header(file: Any) -> tuple[tuple[int, ...], np.dtype[Any], bool]:
    """Read the header of a .npy stream: shape, type, and whether it is stored column by column.

    The stream is then at the values.
    """
    version = np.lib.format.read_magic(file)
    if version not in ((1, 0), (2, 0)):
        raise ValueError(f"a header of version {version}")
    first = version == (1, 0)
    reader = np.lib.format.read_array_header_1_0 if first else np.lib.format.read_array_header_2_0
    try:
        shape, fortran_order, dtype = reader(file)
    except (SyntaxError, TokenError, TypeError, RecursionError):
        raise ValueError("a damaged header") from None
    if dtype.hasobject:
        raise ValueError("pickled objects")
    if dtype.kind not in "biufcSU" or not dtype.itemsize or min(shape, default=0) < 0:
        raise ValueError(f"shape {shape} of {dtype}")
    return tuple(shape), dtype, fortran_order and len(shape) > 1


def _check_small(where: str, size: int) -> None:
    """Reject an array that is stored column by column and too large to be read at once."""
    if size > MOST:
        raise ValueError(
            f"{where} is stored column by column, so single rows cannot be read: save "
            "numpy.ascontiguousarray of it"
        )


def write_npy(file: BinaryIO, shape: tuple[int, ...], blocks: Iterable[Array]) -> None:
    """Write an array block by block as a .npy file."""
    kind: np.dtype[Any] | None = None
    written = 0
    for block in blocks:
        if kind is None:
            kind = block.dtype
            header = {"descr": kind.str, "fortran_order": False, "shape": shape}
            np.lib.format.write_array_header_1_0(file, header)
        written += len(block)
        file.write(np.ascontiguousarray(block, kind).data)
    if written != shape[0]:
        raise ValueError(f"expected {shape[0]:,} rows, got {written:,}")


def _mismatch(
    where: str, shape: tuple[int, ...], dtype: np.dtype[Any], expected: int, size: int
) -> str:
    problem = "it is truncated or its header is wrong" if size < expected else "its header is wrong"
    return (
        f"{where} should have {expected:,} bytes according to its header, {shape} of {dtype}, but "
        f"has {size:,}: "
        f"{problem}; save or download it again"
    )


def _member_header(
    member: Any, info: zipfile.ZipInfo, where: str
) -> tuple[tuple[int, ...], np.dtype[Any], bool, int]:
    """Read and check the header of a member: as `npy_header`, and the length of the header."""
    shape, dtype, by_column = npy_header(member)
    start = member.tell()
    expected = start + math.prod(shape) * dtype.itemsize
    if expected != info.file_size:
        raise ValueError(_mismatch(where, shape, dtype, expected, info.file_size))
    return shape, dtype, by_column, start


def _array(
    member: Any, shape: tuple[int, ...], dtype: np.dtype[Any], by_column: bool, where: str
) -> Array:
    """Read the values of a member to its end, where zipfile compares the checksum."""
    out = np.empty(shape[::-1] if by_column else shape, dtype)
    left = out.reshape(-1).view(np.uint8).data
    while len(left):
        got = member.readinto(left[:BLOCK])
        if not got:
            raise ValueError(f"{where} ends too early")
        left = left[got:]
    member.read(1)
    return np.ascontiguousarray(out.T) if by_column else out


def _data_offset(path: Path, info: zipfile.ZipInfo) -> int:
    """Return the offset of the bytes of an uncompressed member."""
    with path.open("rb") as file:
        file.seek(info.header_offset)
        header = file.read(_LOCAL_HEADER)
    if header[:4] != b"PK\x03\x04":
        raise ValueError(f"{path} is a damaged archive; save or download it again")
    name, extra = (int.from_bytes(header[at : at + 2], "little") for at in (26, 28))
    return info.header_offset + _LOCAL_HEADER + name + extra
