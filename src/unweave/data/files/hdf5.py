"""HDF5 files."""

from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from unweave.core.hints import nearest
from unweave.data.files.rows import (
    Array,
    ReaderRows,
    Rows,
    optional_module,
    reading_arrays,
    reject_bombs,
)


@dataclass(frozen=True)
class Hdf5File:
    """An HDF5 file; the names of its arrays are their paths in the file."""

    path: Path

    @property
    def names(self) -> list[str]:
        """Names of the arrays."""
        names: list[str | bytes] = []
        h5py = optional_module("h5py", "HDF5", self.path)
        with reading_arrays(str(self.path)), h5py.File(self.path, "r") as file:
            file.visititems(
                lambda name, item: names.append(name) if isinstance(item, h5py.Dataset) else None
            )
        # h5py returns names that are not in UTF-8 as bytes, and cannot read these arrays.
        return [name if isinstance(name, str) else name.decode(errors="replace") for name in names]

    def _reject_bombs(self, file: Any, array: type[Any], where: str) -> None:
        """Compare the sizes of arrays with the bytes stored: chunks may never have been written."""
        sizes = []

        def add(_: str | bytes, item: Any) -> None:
            if isinstance(item, array) and not (item.is_virtual or item.external):
                with suppress(TypeError):  # a type that NumPy does not have
                    sizes.append((item.id.get_storage_size(), item.nbytes, item.size or 0))

        file.visititems(add)
        stored, unpacked, values = (sum(each) for each in zip(*sizes, strict=True))
        packed = min(stored, self.path.stat().st_size)  # chunks may overlap
        reject_bombs(where, packed, unpacked, values)

    def rows(self, name: str) -> Rows:
        """Return an array."""
        h5py = optional_module("h5py", "HDF5", self.path)
        where = f"{name!r} of {self.path}"
        with reading_arrays(where), h5py.File(self.path, "r") as file:
            dataset = file
            # External links and virtual datasets could read any other file.
            for step in name.strip("/").split("/"):
                within = isinstance(dataset, h5py.Group)
                link = dataset.get(step, getlink=True) if within else None
                dataset = dataset[step] if isinstance(link, h5py.HardLink) else None
            if not isinstance(dataset, h5py.Dataset):
                raise ValueError(f"there is no array {where}: {nearest(name, self.names)}")
            if dataset.is_virtual or dataset.external:
                raise ValueError(f"{where} lies in other files: copy it into one")
            if dataset.dtype.kind not in "biuf":
                raise ValueError(f"expected numbers in {where}, got {dataset.dtype}")
            if not dataset.shape:
                raise ValueError(f"expected an array in {where}, got a single number or nothing")
            self._reject_bombs(file, h5py.Dataset, where)
            shape, dtype = tuple(dataset.shape), dataset.dtype
            grain = dataset.chunks[0] if dataset.chunks else 1

        def read(start: int, stop: int) -> Array:
            with h5py.File(self.path, "r") as file:
                return np.asarray(file[name][start:stop])

        return ReaderRows(self.path, shape, dtype, grain, read)
