"""Arrays that are read by rows, wherever they are: in memory, in a file, or by a library."""

from __future__ import annotations

import math
import os
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, BinaryIO, Protocol, final

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

BLOCK = 2**24  # bytes that are read at once where a whole array passes through
MOST = 2**30  # bytes of observations that are held in memory; more are read as they are needed
UNREADABLE = (OSError, EOFError, ValueError, zipfile.BadZipFile, zlib.error, RuntimeError)

_BOMB = 2**28  # bytes from which on a member of an archive may not be packed denser than _DENSEST
_SPARSE = 8  # rows between two that are picked, from which on they are read singly
_DENSEST = 500  # dSprites, which is almost all zeros, is packed 1 to 115


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
    """Some rows of others, in their order; some perhaps more than once."""

    rows: Rows
    numbers: Array  # not decreasing

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
        """Picked rows from start to stop: out of all between them, or singly if they are few."""
        if stop <= start:
            return self.rows.read(0, 0)
        numbers = self.numbers[start:stop]
        first = int(numbers[0])
        if int(numbers[-1]) - first > _SPARSE * len(numbers):
            return self.take(np.arange(start, stop))
        picked: Array = self.rows.read(first, int(numbers[-1]) + 1)[numbers - first]
        return picked

    def take(self, index: Array) -> Array:
        """Picked rows by their numbers."""
        numbers, places = np.unique(self.numbers[index], return_inverse=True)
        taken: Array = self.rows.take(numbers)[places.reshape(-1)]
        return taken


@final
@dataclass(frozen=True, eq=False)
class Floats:
    """Rows of others as floating-point numbers."""

    rows: Rows
    dtype: np.dtype[Any] = np.dtype(np.float32)  # noqa: RUF009  (types are values)

    @property
    def shape(self) -> tuple[int, ...]:
        """That of the others."""
        return self.rows.shape

    @property
    def grain(self) -> int:
        """That of the others."""
        return self.rows.grain

    def read(self, start: int, stop: int) -> Array:
        """Rows from start to stop."""
        return self.rows.read(start, stop).astype(self.dtype)

    def take(self, index: Array) -> Array:
        """Rows by their numbers."""
        return self.rows.take(index).astype(self.dtype)


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
def reading(where: str) -> Iterator[None]:
    """Errors that say which file of arrays is wrong, and to save it again."""
    try:
        yield
    except UNREADABLE as error:
        raise ValueError(unreadable(where, error)) from None


def refuse_bombs(where: str, packed: int, unpacked: int) -> None:
    """Refuse what is packed denser than data are."""
    if unpacked > max(_BOMB, _DENSEST * packed):
        raise ValueError(
            f"{where} would unpack {packed:,} bytes to {unpacked:,}, as a zip bomb does: not "
            "unpacked; if you trust it, save it with numpy.save"
        )


def optional(module: str, what: str, path: Path) -> Any:
    """A library that is only needed for some files, or how to get it."""
    try:
        return import_module(module)
    except ImportError:
        raise ValueError(
            f"{path} is a file of {what}, which needs {module}: "
            f"pip install 'unweave[files]', or pip install {module}"
        ) from None


def fresh(path: Path) -> list[int]:
    """What changes when a file does: its size, and when it was last written."""
    status = os.stat(path)
    return [status.st_size, status.st_mtime_ns]
