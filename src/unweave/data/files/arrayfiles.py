"""Files of arrays, by what they begin with."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from unweave.core.hints import nearest_path
from unweave.data.files.hdf5 import Hdf5File
from unweave.data.files.npy import NpyFile, NpzFile
from unweave.data.files.rows import Rows
from unweave.data.files.tables import CsvFile, ParquetFile

EXTENSIONS = (".npy", ".npz", ".h5", ".hdf5", ".parquet", ".csv")


class ArrayFile(Protocol):
    """A file of one or more arrays."""

    @property
    def path(self) -> Path:
        """Where it is."""

    @property
    def tabular(self) -> bool:
        """Whether the arrays are columns of a table, and several may be asked for together."""

    @property
    def names(self) -> list[str]:
        """The arrays that can be asked for; [""] where a file is one array without a name."""

    def rows(self, name: str) -> Rows:
        """An array by its name."""


_BEGINNINGS: dict[bytes, Callable[[Path], ArrayFile]] = {
    b"\x93NUMPY": NpyFile,
    b"PK": NpzFile,
    b"\x89HDF\r\n\x1a\n": Hdf5File,
    b"PAR1": ParquetFile,
}


def arrays_of(path: Path) -> ArrayFile:
    """The arrays of a file by its first bytes, whatever its name is; of CSV, by its name."""
    if not path.is_file():
        raise ValueError(
            f"expected a file of arrays ({', '.join(EXTENSIONS)}) at {path}, got nothing there: "
            f"{nearest_path(path)}"
        )
    with path.open("rb") as file:
        beginning = file.read(8)
    kinds = [kind for start, kind in _BEGINNINGS.items() if beginning.startswith(start)]
    if path.suffix.lower() == ".csv":  # text, which begins in any way
        kinds = [CsvFile]
    if not beginning:
        raise ValueError(f"expected a file of arrays, got {path}, which is empty; save it again")
    if not kinds:
        raise ValueError(
            f"expected a file of arrays ({', '.join(EXTENSIONS)}), got {path}, which is none by "
            "its first bytes: perhaps pickled objects, which can run code and are never loaded; "
            "save plain arrays with numpy.savez"
        )
    return kinds[0](path)
