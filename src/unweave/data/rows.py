"""Arrays in files, read by rows: .npy, .npz, HDF5 and Parquet, none of which is ever unpickled.

What a file says of itself is checked against its size before anything is read or allocated.
"""

from __future__ import annotations

import math
import os
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any, BinaryIO, Protocol, final

import numpy as np
from numpy.typing import NDArray

from unweave.data.cache import data_folder, prepared
from unweave.spec import nearest

Array = NDArray[Any]

BLOCK = 2**24  # bytes that are read at once where a whole array passes through
MOST = 2**30  # bytes of observations that are held in memory; more are read as they are needed
UNREADABLE = (OSError, EOFError, ValueError, zipfile.BadZipFile, zlib.error, NotImplementedError)
EXTENSIONS = (".npy", ".npz", ".h5", ".hdf5", ".parquet")

_BEGINNINGS = {b"\x93NUMPY": "npy", b"PK": "npz", b"\x89HDF\r\n\x1a\n": "hdf5", b"PAR1": "parquet"}
_BOMB = 2**28  # bytes from which on a member of an archive may not be packed denser than _DENSEST
_DENSEST = 500  # dSprites, which is almost all zeros, is packed 1 to 115
_LOCAL_HEADER = 30  # bytes of a zip file before the name of a member


class Rows(Protocol):
    """An array (N, ...) whose rows can be read a few at a time."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the whole array."""

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of the numbers."""

    @property
    def grain(self) -> int:
        """How many rows the file keeps together, so that one costs as much as all of them."""

    def read(self, start: int, stop: int) -> Array:
        """Rows from start to stop."""

    def take(self, index: Array) -> Array:
        """Rows by their numbers, in order and each once."""


def width(rows: Rows) -> int:
    """Bytes of one row."""
    return math.prod(rows.shape[1:]) * rows.dtype.itemsize


def blocks(rows: Rows) -> Iterator[tuple[int, Array]]:
    """All rows in blocks of some megabytes, each with the number of its first row."""
    size = max(1, BLOCK // max(1, width(rows)))
    size = -(-size // rows.grain) * rows.grain
    for start in range(0, rows.shape[0], size):
        yield start, rows.read(start, min(start + size, rows.shape[0]))


@final
@dataclass(frozen=True, eq=False)
class Held:
    """Rows of an array in memory."""

    array: Array
    grain: int = 1

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the array."""
        return self.array.shape

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of the numbers."""
        return self.array.dtype

    def read(self, start: int, stop: int) -> Array:
        """Rows from start to stop."""
        return self.array[start:stop]

    def take(self, index: Array) -> Array:
        """Rows by their numbers."""
        taken: Array = self.array[index]
        return taken


@final
@dataclass(frozen=True)
class Plain:
    """Rows that lie one after the other in a file, from an offset on."""

    path: Path
    offset: int
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    grain: int = 1

    def read(self, start: int, stop: int) -> Array:
        """Rows from start to stop, by one read of the file."""
        out = np.empty((stop - start, *self.shape[1:]), self.dtype)
        with self.path.open("rb", buffering=0) as file:
            self._fill(file, start, out)
        return out

    def take(self, index: Array) -> Array:
        """Rows by their numbers, by one read each."""
        out = np.empty((len(index), *self.shape[1:]), self.dtype)
        with self.path.open("rb", buffering=0) as file:
            for place, row in enumerate(index.tolist()):
                self._fill(file, row, out[place : place + 1])
        return out

    def _fill(self, file: BinaryIO, start: int, out: Array) -> None:
        # Read, not mapped: pages of a map count as memory of this process.
        file.seek(self.offset + start * width(self))
        left = out.reshape(-1).view(np.uint8).data
        while len(left):
            got = file.readinto(left)  # type: ignore[attr-defined]
            if not got:
                raise ValueError(
                    f"{self.path} ends before observation {start}: it became shorter while it was "
                    "in use; bring it back whole"
                )
            left = left[got:]


@final
@dataclass(frozen=True)
class Table:
    """Rows of a file that a library reads: a dataset of HDF5, or columns of Parquet."""

    path: Path
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    grain: int
    reader: Callable[[int, int], Array]

    def read(self, start: int, stop: int) -> Array:
        """Rows from start to stop."""
        try:
            return self.reader(start, stop)
        except (OSError, ValueError, RuntimeError) as error:
            raise ValueError(unreadable(str(self.path), error)) from None

    def take(self, index: Array) -> Array:
        """Rows by their numbers; those that are kept together are read together."""
        out = np.empty((len(index), *self.shape[1:]), self.dtype)
        grains = index // self.grain
        for grain in np.unique(grains).tolist():
            held = grains == grain
            first, last = int(index[held][0]), int(index[held][-1]) + 1
            out[held] = self.read(first, last)[index[held] - first]
        return out


@final
@dataclass(frozen=True, eq=False)
class Picked:
    """Some rows of others, in their order."""

    rows: Rows
    numbers: Array  # increasing

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of what is picked."""
        return (len(self.numbers), *self.rows.shape[1:])

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of the numbers."""
        return self.rows.dtype

    @property
    def grain(self) -> int:
        """As the others'; fewer of them are picked."""
        return max(1, self.rows.grain * len(self.numbers) // self.rows.shape[0])

    def read(self, start: int, stop: int) -> Array:
        """Picked rows from start to stop, out of all between them."""
        if stop <= start:
            return self.rows.read(0, 0)
        numbers = self.numbers[start:stop]
        first = int(numbers[0])
        picked: Array = self.rows.read(first, int(numbers[-1]) + 1)[numbers - first]
        return picked

    def take(self, index: Array) -> Array:
        """Picked rows by their numbers."""
        return self.rows.take(self.numbers[index])


def arrays_of(path: Path) -> ArrayFile:
    """The arrays of a file by its first bytes, whatever its name is."""
    if not path.is_file():
        raise ValueError(
            f"expected a file of arrays ({', '.join(EXTENSIONS)}) at {path}, got nothing there: "
            "check the path"
        )
    with path.open("rb") as file:
        beginning = file.read(8)
    kinds = [kind for start, kind in _BEGINNINGS.items() if beginning.startswith(start)]
    if not beginning:
        raise ValueError(f"expected a file of arrays, got {path}, which is empty; save it again")
    if not kinds:
        raise ValueError(
            f"expected a file of arrays ({', '.join(EXTENSIONS)}), got {path}, which is none by "
            "its first bytes: perhaps pickled objects, which can run code and are never loaded; "
            "save plain arrays with numpy.savez"
        )
    return _FILES[kinds[0]](path)


class ArrayFile(Protocol):
    """A file of one or more arrays."""

    @property
    def path(self) -> Path:
        """Where it is."""

    @property
    def names(self) -> list[str]:
        """The arrays that can be asked for; [""] where a file is one array without a name."""

    def rows(self, name: str) -> Rows:
        """An array by its name."""


@dataclass(frozen=True)
class NpyFile:
    """A .npy file: one array without a name."""

    path: Path

    @property
    def names(self) -> list[str]:
        """One array, without a name."""
        return [""]

    def rows(self, name: str = "") -> Rows:
        """The array."""
        with _reading(str(self.path)), self.path.open("rb") as file:
            shape, dtype = npy_header(file, str(self.path))
            offset = file.tell()
        expected = offset + math.prod(shape) * dtype.itemsize
        if (size := self.path.stat().st_size) != expected:
            raise ValueError(_mismatch(str(self.path), shape, dtype, expected, size))
        return Plain(self.path, offset, shape, dtype)


@dataclass(frozen=True)
class NpzFile:
    """A .npz file: a zip archive of .npy files, of which nothing is unpacked by name."""

    path: Path

    @property
    def names(self) -> list[str]:
        """The arrays."""
        with _reading(str(self.path)), zipfile.ZipFile(self.path) as file:
            return [name.removesuffix(".npy") for name in file.namelist()]

    def rows(self, name: str) -> Rows:
        """An array: in memory, or where it is large and not packed, in its place in the file."""
        where = f"{name!r} of {self.path}"
        with _reading(where), zipfile.ZipFile(self.path) as file:
            info = self._info(file, name)
            with file.open(info) as member:
                shape, dtype, start = _member_header(member, info, where)
                if info.file_size <= MOST:
                    return Held(_array(member, shape, dtype, where))
        if info.compress_type != zipfile.ZIP_STORED:
            # Packed rows cannot be read singly: unpacked once, to be found there the next time.
            key = (str(self.path.absolute()), *fresh(self.path), name)
            place = prepared(data_folder() / "unpacked", key, partial(self.pour, name))
            return NpyFile(place).rows()
        return Plain(self.path, _data_offset(self.path, info) + start, shape, dtype)

    def pour(self, name: str, target: BinaryIO) -> None:
        """Write an array as a .npy file, without holding it in memory."""
        where = f"{name!r} of {self.path}"
        with _reading(where), zipfile.ZipFile(self.path) as file:
            info = self._info(file, name)
            with file.open(info) as member:
                _member_header(member, info, where)
            with file.open(info) as member:
                while block := member.read(BLOCK):
                    target.write(block)

    def _info(self, file: zipfile.ZipFile, name: str) -> zipfile.ZipInfo:
        found = [i for i in file.infolist() if i.filename.removesuffix(".npy") == name]
        if not found:
            raise ValueError(_missing(self, name))
        return found[-1]


@dataclass(frozen=True)
class Hdf5File:
    """An HDF5 file; its datasets are named by their paths in it."""

    path: Path

    @property
    def names(self) -> list[str]:
        """The datasets."""
        found: list[str] = []
        h5py = optional("h5py", "HDF5", self.path)
        with _reading(str(self.path)), h5py.File(self.path, "r") as file:
            file.visititems(
                lambda name, item: found.append(name) if isinstance(item, h5py.Dataset) else None
            )
        return found

    def rows(self, name: str) -> Rows:
        """A dataset."""
        h5py = optional("h5py", "HDF5", self.path)
        where = f"{name!r} of {self.path}"
        with _reading(where), h5py.File(self.path, "r") as file:
            # An external link would read any other file, and a virtual dataset too.
            link = file.get(name, getlink=True)
            dataset = file[name] if isinstance(link, h5py.HardLink) else None
            if not isinstance(dataset, h5py.Dataset):
                raise ValueError(
                    f"{self.path} holds no array {name!r}: {nearest(name, self.names)}"
                )
            if dataset.is_virtual or dataset.external:
                raise ValueError(f"{where} lies in other files: copy it into one")
            if dataset.dtype.kind not in "biuf":
                raise ValueError(f"expected numbers in {where}, got {dataset.dtype}")
            _refuse_bombs(where, dataset.id.get_storage_size(), dataset.nbytes)
            shape, dtype = tuple(dataset.shape), dataset.dtype
            grain = dataset.chunks[0] if dataset.chunks else 1

        def read(start: int, stop: int) -> Array:
            with h5py.File(self.path, "r") as file:
                return np.asarray(file[name][start:stop])

        return Table(self.path, shape, dtype, grain, read)


@dataclass(frozen=True)
class ParquetFile:
    """A Parquet file: numeric columns, and columns of lists of one length.

    The name of an array is that of a column, or of several, joined by commas.
    """

    path: Path

    @property
    def names(self) -> list[str]:
        """The columns."""
        with _reading(str(self.path)):
            return list(self._open().schema_arrow.names)

    def rows(self, name: str) -> Rows:
        """Columns side by side, (N, columns); one of lists gives its lists, (N, length)."""
        columns = [column.strip() for column in name.split(",")]
        for column in columns:
            if column not in (known := self.names):
                raise ValueError(
                    f"{self.path} holds no column {column!r}: {nearest(column, known)}"
                )
        where = f"{name!r} of {self.path}"
        with _reading(where):
            file = self._open()
            ends = np.cumsum(
                [0, *(file.metadata.row_group(g).num_rows for g in range(file.num_row_groups))]
            )

            _refuse_bombs(where, self.path.stat().st_size, 8 * len(columns) * int(ends[-1]))

            def group(number: int) -> Array:
                table = self._open().read_row_group(number, columns=columns)
                return _side_by_side([table.column(c) for c in columns], columns, str(self.path))

            first = group(0) if len(ends) > 1 else np.empty((0, 0), np.float32)

        def read(start: int, stop: int) -> Array:
            parts = [np.empty((0, first.shape[1]), first.dtype)]
            for number in range(len(ends) - 1):
                low, high = max(start, int(ends[number])), min(stop, int(ends[number + 1]))
                if low < high:
                    part = group(number)[low - int(ends[number]) : high - int(ends[number])]
                    if part.shape[1] != first.shape[1]:
                        raise ValueError(
                            f"lists of {first.shape[1]} and of {part.shape[1]} numbers"
                        )
                    parts.append(part.astype(first.dtype, copy=False))
            return np.concatenate(parts)

        grain = max(1, int(np.diff(ends).max(initial=1)))
        return Table(self.path, (int(ends[-1]), first.shape[1]), first.dtype, grain, read)

    def _open(self) -> Any:
        optional("pyarrow", "Parquet", self.path)
        return import_module("pyarrow.parquet").ParquetFile(self.path)


_FILES: dict[str, Callable[[Path], ArrayFile]] = {
    "npy": NpyFile,
    "npz": NpzFile,
    "hdf5": Hdf5File,
    "parquet": ParquetFile,
}


def _missing(file: ArrayFile, name: str) -> str:
    return f"{file.path} holds no array {name!r}: {nearest(name, file.names)}"


def optional(module: str, what: str, path: Path) -> Any:
    """A library that is only needed for some files, or how to get it."""
    try:
        return import_module(module)
    except ImportError:
        raise ValueError(
            f"{path} is a file of {what}, which needs {module}: "
            f"pip install 'unweave[files]', or pip install {module}"
        ) from None


def npy_header(file: Any, where: str) -> tuple[tuple[int, ...], np.dtype[Any]]:
    """Shape and type of the array that a .npy stream holds; the stream is then at its numbers."""
    version = np.lib.format.read_magic(file)
    if version not in ((1, 0), (2, 0)):
        raise ValueError(f"a header of version {version}")
    first = version == (1, 0)
    reader = np.lib.format.read_array_header_1_0 if first else np.lib.format.read_array_header_2_0
    shape, by_columns, dtype = reader(file)
    if dtype.hasobject:
        raise ValueError("pickled objects")
    if dtype.kind not in "biufcSU" or min(shape, default=0) < 0:
        raise ValueError(f"shape {shape} of {dtype}")
    if by_columns and len(shape) > 1:
        raise ValueError(
            f"{where} is stored column by column, so that a row cannot be read by itself: save "
            "numpy.ascontiguousarray of it"
        )
    return tuple(shape), dtype


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


def unreadable(where: str, error: Exception) -> str:
    """What is wrong with a file, and what to do."""
    if "pickle" in str(error):
        return (
            f"expected arrays of numbers in {where}, got pickled objects: pickles can run code and "
            "are never loaded; save plain arrays with numpy.savez"
        )
    if where in str(error):
        return str(error)
    return f"expected a readable file of arrays, got {where}: {error}; save it again"


@contextmanager
def _reading(where: str) -> Iterator[None]:
    """Errors that say which file is wrong."""
    try:
        yield
    except UNREADABLE as error:
        raise ValueError(unreadable(where, error)) from None


def _mismatch(
    where: str, shape: tuple[int, ...], dtype: np.dtype[Any], expected: int, size: int
) -> str:
    short = "it is cut short or its header is wrong" if size < expected else "its header is wrong"
    return (
        f"{where} says that it holds {shape} of {dtype}, {expected:,} bytes, but it has {size:,}: "
        f"{short}; save or download it again"
    )


def _member_header(
    member: Any, info: zipfile.ZipInfo, where: str
) -> tuple[tuple[int, ...], np.dtype[Any], int]:
    """Shape, type and length of the header of a member that is what it says it is."""
    _refuse_bombs(where, info.compress_size, info.file_size)
    shape, dtype = npy_header(member, where)
    start = member.tell()
    expected = start + math.prod(shape) * dtype.itemsize
    if expected != info.file_size:
        raise ValueError(_mismatch(where, shape, dtype, expected, info.file_size))
    return shape, dtype, start


def _refuse_bombs(where: str, packed: int, unpacked: int) -> None:
    """Refuse what is packed denser than data are."""
    if unpacked > max(_BOMB, _DENSEST * packed):
        raise ValueError(
            f"{where} would unpack {packed:,} bytes to {unpacked:,}, as a zip bomb does: not "
            "unpacked; if you trust it, save it with numpy.save"
        )


def _array(member: Any, shape: tuple[int, ...], dtype: np.dtype[Any], where: str) -> Array:
    """The numbers of a member, to its end, where its checksum is compared."""
    out = np.empty(shape, dtype)
    left = out.reshape(-1).view(np.uint8).data
    while len(left):
        got = member.readinto(left[:BLOCK])
        if not got:
            raise ValueError(f"{where} ends too early")
        left = left[got:]
    member.read(1)
    return out


def _data_offset(path: Path, info: zipfile.ZipInfo) -> int:
    """Where the bytes of a member that is not packed begin."""
    with path.open("rb") as file:
        file.seek(info.header_offset)
        header = file.read(_LOCAL_HEADER)
    if header[:4] != b"PK\x03\x04":
        raise ValueError(f"{path} is a damaged archive; save or download it again")
    name, extra = (int.from_bytes(header[at : at + 2], "little") for at in (26, 28))
    return info.header_offset + _LOCAL_HEADER + name + extra


def _side_by_side(columns: Sequence[Any], names: Sequence[str], where: str) -> Array:
    parts = []
    for column, name in zip(columns, names, strict=True):
        if column.null_count:
            raise ValueError(f"{where}: column {name!r} has {column.null_count} missing values")
        whole = column.combine_chunks()
        lists = "list" in str(whole.type)
        flat = (whole.flatten() if lists else whole).to_numpy(zero_copy_only=False)
        lengths = {len(each) for each in whole} if lists else {1}
        if flat.dtype.kind not in "biufO" or len(lengths) > 1:
            raise ValueError(
                f"{where}: column {name!r} is of {whole.type}; expected numbers, or lists of one "
                "length of them"
            )
        parts.append(flat.reshape(len(whole), -1) if lists else flat[:, None])
    return parts[0] if len(parts) == 1 else np.concatenate(parts, axis=1)


def fresh(path: Path) -> list[int]:
    """What changes when a file does: its size, and when it was last written."""
    status = os.stat(path)
    return [status.st_size, status.st_mtime_ns]
