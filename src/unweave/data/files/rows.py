"""Arrays that are read row by row, whether they are in memory or in a file."""

import lzma
import math
import os
import struct
import zipfile
import zlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, final

import numpy as np
from numpy.typing import NDArray

from unweave.core.hints import count_noun

Array = NDArray[Any]

BLOCK = 2**24  # bytes read at once in a pass over a whole array
_SAMPLE = BLOCK  # bytes of a sample of rows
MOST = 2**30  # bytes of observations that are loaded into memory; larger datasets are streamed
# Errors of damaged files; NumPy, h5py and pyarrow, whose own errors these include, raise them too.
UNREADABLE = (OSError, EOFError, ValueError, RuntimeError, LookupError, TypeError, struct.error,
              zipfile.BadZipFile, zlib.error, lzma.LZMAError)  # fmt: skip

# Errors of pyarrow, which is imported only when needed, that are none of the above.
_UNREADABLE_PARQUET = ("ArrowCapacityError", "ArrowSerializationError")
BOMB = 2**24  # unpacked bytes of a file above which the compression ratio is limited
MOST_COMPRESSED = 500  # dSprites, which is almost all zeros, is compressed 115 to 1
_MOST_AS_DOUBLES = 2000  # the same for its values in double precision: 906 to 1 for dSprites
_NAMED = 8  # columns that are named in an error
_SPARSE = 8  # average gap between rows above which they are read one by one


class Rows(ABC):
    """An array (N, ...) whose rows can be read a few at a time.

    `grain` is the number of rows that a file stores together: reading one costs as much as all.
    """

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    grain: int

    @abstractmethod
    def read(self, start: int, stop: int) -> Array:
        """Read the rows from start to stop."""

    @abstractmethod
    def take(self, index: Array) -> Array:
        """Read rows by their indices, which increase."""


class RawRows(NamedTuple):
    """Observations as they are stored, the names of the rows (or none), and notes on them."""

    rows: Rows
    row_names: Sequence[str]
    notes: Sequence[str]


def row_bytes(rows: Rows) -> int:
    """Return the number of bytes of one row."""
    return math.prod(rows.shape[1:]) * rows.dtype.itemsize


def blocks(rows: Rows) -> Iterator[tuple[int, Array]]:
    """Read all rows in blocks of some megabytes; yield the index of the first row, and a block."""
    size = max(1, BLOCK // max(1, row_bytes(rows)))
    size = -(-size // rows.grain) * rows.grain
    for start in range(0, rows.shape[0], size):
        yield start, rows.read(start, min(start + size, rows.shape[0]))


def sample(rows: Rows, most: int = 1001, least: int = 10) -> Array:
    """Take rows at equal distances: at most 1,001, or fewer of some megabytes, but ten."""
    count = rows.shape[0]
    size = min(count, most, max(least, _SAMPLE // max(1, row_bytes(rows))))
    return rows.take(np.linspace(0, count - 1, size).astype(np.int64))


@final
class InMemoryRows(Rows):
    """Rows of an array in memory."""

    def __init__(self, array: Array) -> None:
        self.array, self.shape, self.dtype, self.grain = array, array.shape, array.dtype, 1

    def read(self, start: int, stop: int) -> Array:
        return self.array[start:stop]

    def take(self, index: Array) -> Array:
        return self.array[index]


@final
@dataclass(frozen=True)
class FileRows(Rows):
    """Uncompressed rows that follow one another in a file, from an offset on."""

    path: Path
    offset: int
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    grain: int = 1

    def read(self, start: int, stop: int) -> Array:
        out = np.empty((stop - start, *self.shape[1:]), self.dtype)
        with self.path.open("rb", buffering=0) as file:
            self._fill(file, start, out)
        return out

    def take(self, index: Array) -> Array:
        out = np.empty((len(index), *self.shape[1:]), self.dtype)
        with self.path.open("rb", buffering=0) as file:
            for place, row in enumerate(index.tolist()):
                self._fill(file, row, out[place : place + 1])
        return out

    def _fill(self, file: BinaryIO, start: int, out: Array) -> None:
        # Not memory-mapped: mapped pages count as memory of this process.
        file.seek(self.offset + start * row_bytes(self))
        left = out.reshape(-1).view(np.uint8).data
        while len(left):
            got = file.readinto(left)  # type: ignore[attr-defined]
            if not got:
                raise ValueError(
                    f"{self.path} ends before observation {start}: it was shortened while in use; "
                    "restore it"
                )
            left = left[got:]


@final
@dataclass(frozen=True)
class ReaderRows(Rows):
    """Rows that a function of a library reads: an HDF5 dataset, or columns of a Parquet file."""

    path: Path
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    grain: int
    reader: Callable[[int, int], Array]

    def read(self, start: int, stop: int) -> Array:
        with reading_arrays(str(self.path)):
            return self.reader(start, stop)

    def take(self, index: Array) -> Array:
        """Read rows by their indices; those that are stored together are read together."""
        out = np.empty((len(index), *self.shape[1:]), self.dtype)
        grains = index // self.grain
        for grain in np.unique(grains).tolist():
            mine = grains == grain
            first, last = int(index[mine][0]), int(index[mine][-1]) + 1
            out[mine] = self.read(first, last)[index[mine] - first]
        return out


@final
class IndexedRows(Rows):
    """Some rows of another array by their sorted indices, possibly repeated."""

    def __init__(self, rows: Rows, numbers: Array) -> None:
        self.rows, self.numbers, self.dtype = rows, numbers, rows.dtype
        self.shape = (len(numbers), *rows.shape[1:])
        self.grain = max(1, rows.grain * len(numbers) // rows.shape[0])  # on average

    def read(self, start: int, stop: int) -> Array:
        """Read the indexed rows from start to stop: from one block, or one by one if sparse."""
        if stop <= start:
            return self.rows.read(0, 0)
        numbers = self.numbers[start:stop]
        first = int(numbers[0])
        if int(numbers[-1]) - first > _SPARSE * len(numbers):
            return self.take(np.arange(start, stop))
        indexed: Array = self.rows.read(first, int(numbers[-1]) + 1)[numbers - first]
        return indexed

    def take(self, index: Array) -> Array:
        numbers, places = np.unique(self.numbers[index], return_inverse=True)
        return self.rows.take(numbers)[places.reshape(-1)]


def unreadable(where: str, error: Exception) -> str:
    """Explain what is wrong with a file and what to do."""
    if "pickle" in str(error):
        return (
            f"expected arrays of numbers in {where}, got pickled objects: pickles can run code and "
            "are never loaded; save plain arrays with numpy.savez"
        )
    if where in str(error):
        return str(error)
    return f"expected a readable file of arrays, got {where}: {error}; save it again"


@contextmanager
def reading_arrays(where: str) -> Iterator[None]:
    """Turn errors while reading an array file into a ValueError that names the file."""
    try:
        yield
    except Exception as error:
        if not isinstance(error, UNREADABLE) and type(error).__name__ not in _UNREADABLE_PARQUET:
            raise
        raise ValueError(unreadable(where, error)) from None


def reject_bombs(
    where: str,
    packed: int,
    unpacked: int,
    values: int = 0,
    advice: str = "if you trust it, save it with numpy.save",
) -> None:
    """Reject likely zip bombs: large data that are compressed more than real data can be.

    The bytes are those of a whole file, and `values` the number of its values, which are computed
    with in double precision, however few bytes store them.
    """
    size = max(unpacked, 8 * values)
    if size > BOMB and (
        unpacked > MOST_COMPRESSED * packed or 8 * values > _MOST_AS_DOUBLES * packed
    ):
        raise ValueError(
            f"{where} would unpack {packed:,} bytes to {size:,}, as a zip bomb does: not "
            f"unpacked; {advice}"
        )


def describe_missing(cells: int, rows: int, columns: Sequence[str], removal: str = "") -> str:
    """Say how many values of observations are missing, and what to do.

    `removal` is the code that removes rows of data in memory; "" for a file, some of whose columns
    can be ignored.

    >>> describe_missing(1, 1, ["u"]).partition(":")[0]
    '1 value in 1 row and 1 column (u) is missing or not finite'
    """
    few = len(columns) <= _NAMED
    named = ", ".join(columns[:_NAMED]) + ("" if few else ", ...")
    counts = cells, rows, len(columns)
    value, row, column = map(count_noun, counts, ("value", "row", "column"))
    where = f"{value} in {row} and {column}"
    does = "is" if cells == 1 else "are"
    left_out = ",".join(columns) if few else "NAMES"
    remove = f"remove the row{'s' * (rows != 1)}"
    way = f"or {remove}, as in {removal}"
    if not removal:
        one = len(columns) == 1
        way = (
            f"{remove}, or leave the column{'s' * (not one)} out with data.ignore={left_out}; if "
            f"{'it is a label' if one else 'they are labels'}, set data.factors_key={left_out}"
        )
    return (
        f"{where} ({named}) {does} missing or not finite: observations have to be complete; fill "
        f"{'it' if cells == 1 else 'them'} in, {way}"
    )


def optional_module(module: str, what: str, path: Path) -> Any:
    """Import a library that only some files need, or explain how to install it."""
    try:
        return import_module(module)
    except ImportError:
        raise ValueError(
            f"{path} is a file of {what}, which needs {module}: pip install {module}"
        ) from None


def file_state(path: Path) -> list[int]:
    """Return the size and modification time of a file, which change when its content does."""
    status = os.stat(path)
    return [status.st_size, status.st_mtime_ns]
