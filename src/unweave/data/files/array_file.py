"""Open a file of arrays; its format is recognised by its first bytes."""

import math
from collections.abc import Callable
from pathlib import Path

from unweave.core.hints import not_a_file
from unweave.core.memory import main_memory
from unweave.data.files.frames import Frame
from unweave.data.files.hdf5 import Hdf5File
from unweave.data.files.npy import NpyFile, NpzFile
from unweave.data.files.rows import Array, InMemoryRows, Rows
from unweave.data.files.tables import CsvFile, ParquetFile

EXTENSIONS = (".npy", ".npz", ".h5", ".hdf5", ".parquet", ".csv")


# `rows(columns)` reads several columns side by side.
TableFile = CsvFile | ParquetFile | Frame
ArrayFile = NpyFile | NpzFile | Hdf5File | TableFile  # `names` of arrays, and `rows(name)` of each

_SIGNATURES: dict[bytes, Callable[[Path], ArrayFile]] = {
    b"\x93NUMPY": NpyFile,
    b"PK": NpzFile,
    b"\x89HDF\r\n\x1a\n": Hdf5File,
    b"PAR1": ParquetFile,
}


def open_array_file(path: Path) -> ArrayFile:
    """Open a file of arrays by its first bytes, whatever its name is; CSV files by their name."""
    if not path.is_file():
        raise ValueError(
            f"expected a file of arrays ({', '.join(EXTENSIONS)}) at {path}, {not_a_file(path)}"
        )
    with path.open("rb") as file:
        beginning = file.read(8)
    if not beginning:
        raise ValueError(f"expected a file of arrays, got {path}, which is empty; save it again")
    if path.suffix.lower() == ".csv":  # text has no signature
        return CsvFile(path)
    for signature, opener in _SIGNATURES.items():
        if beginning.startswith(signature):
            return opener(path)
    raise ValueError(
        f"expected a file of arrays ({', '.join(EXTENSIONS)}), got {path}, which is none of "
        "these: if it holds pickled objects, they could run code and are never loaded; save plain "
        "arrays with numpy.savez"
    )


def read_array(file: ArrayFile, name: str) -> Array:
    """Read a whole array of a file, unless it cannot fit into memory."""
    return read_rows(file.rows(name), f"{name!r} of {file.path}")


def read_rows(rows: Rows, where: str) -> Array:
    """Read all rows, unless they cannot fit into memory."""
    if isinstance(rows, InMemoryRows):
        return rows.array
    if (size := math.prod(rows.shape) * rows.dtype.itemsize) > main_memory():
        raise ValueError(f"{where} has {size:,} bytes, which do not fit in memory")
    return rows.read(0, rows.shape[0])


def check_key(file: ArrayFile, name: str) -> str:
    """Return the name of an array, after rejecting names for files whose array has none."""
    if file.names == [""] and name:
        raise ValueError(
            f"expected no key for {file.path}, a single array without keys, got {name!r}: leave "
            "key and factors_key out, or save images and factors together as .npz"
        )
    return name
