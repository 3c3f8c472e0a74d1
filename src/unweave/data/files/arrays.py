"""Data from arrays: a file of them, or an array that is already in Python."""

from __future__ import annotations

import dataclasses
import hashlib
import math
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal
from weakref import WeakKeyDictionary, WeakValueDictionary

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from pydantic import Field
from torch import Tensor

from unweave.core.spec import spec, tag
from unweave.data.dataset import Dataset, Place, Stored
from unweave.data.files.arrayfiles import ArrayFile, arrays_of
from unweave.data.files.reading import Reading, Scan, arranged, scan, understood
from unweave.data.files.rows import MOST, Floats, Held, Picked, Rows, blocks, fresh, width
from unweave.data.files.streaming import Streamed, how_shuffled
from unweave.data.files.tables import CsvFile, columns_of, name_of
from unweave.data.lattice import Factor, Kind, Labels, Lattice
from unweave.data.parts import DataSplit, members_of
from unweave.data.published.cache import remembered

Array = NDArray[Any]

USUAL_KEYS = ("imgs", "images", "x", "data")
NAMES_KEY = "factor_names"


@spec
class Arrays:
    """Observations in a file of arrays: .npy, .npz, HDF5, Parquet or CSV.

    Observations are (N, H, W), (N, H, W, C), (N, C, H, W) or vectors (N, D). Bytes are read as
    0..255 and scaled to [0, 1]; floats are kept as they are. `key` names the array; `factors_key`
    the factors (N, K), integers, text or floats that repeat, whose names are read from
    `factor_names` if the file has it. Of Parquet and CSV both are columns, several joined by
    commas, in quotes if they have one, and all numbers are kept as they are. `split` takes 80 % of
    the observations for training, 10 % for validation or 10 % for testing, always the same.
    Observations of more than 1 GiB are read from the file as they are needed; `stream` says
    otherwise.
    """

    path: Place
    key: str | None = None
    factors_key: str | None = None
    split: DataSplit = "all"
    stream: bool | None = None
    kind: Literal["arrays"] = tag("arrays")

    def load(self, device: torch.device) -> Dataset:
        """Read the file, or make ready to read it as it is needed."""
        file = arrays_of(Path(self.path))
        chosen = self.key or _usual(file, self.factors_key)
        keyed = self.factors_key
        factors, names = (None, None) if keyed is None else read_factors(file, keyed)
        rows, columns = file.rows(_known(file, chosen)), []
        if file.tabular:
            columns = columns_of(chosen, file.names)
            rows = _measured(file, rows, columns)
        keys = (chosen, keyed or "", NAMES_KEY, "")
        known = {column for each in keys for column in columns_of(each, file.names)}
        others = sorted({*file.names} - known)
        notes = [f"read {chosen!r}; not read: {', '.join(others)}"] if others else []
        if isinstance(file, CsvFile):
            notes += _csv_notes(file, columns_of(keyed or "", file.names))
        key = [self.path, chosen, *fresh(file.path)]
        try:
            dataset = dataset_of(rows, factors, names, notes, self.split, self.stream, key)
        except ValueError as error:
            raise ValueError(f"{self.path}: {error}") from None
        if dataset.shape == (len(columns),):
            dataset = dataclasses.replace(dataset, value_names=tuple(columns))
        return dataset.to(device)


@spec
class InMemory:
    """An array given in Python: the spec holds what identifies it, not the array.

    Made by `from_array`, which also binds the array to it, so that `load` finds the array for as
    long as that spec is in use in this process.
    """

    digest: Annotated[str, Field(pattern="^[0-9a-f]{64}$")]  # sha256 of images and factors
    shape: tuple[int, ...]
    dtype: str
    kind: Literal["memory"] = tag("memory")

    def load(self, device: torch.device) -> Dataset:
        """The bound array on a device."""
        bound = _DATASETS.get(self)
        if bound is None:
            raise ValueError(
                f"expected an array {self.shape} of {self.dtype} with digest {self.digest[:12]} to "
                "be bound in this process, got none: call from_array(images, factors) with it and "
                "keep the spec, or save it as .npz and use Arrays"
            )
        return bound.to(device)


# The arrays behind the specs. Both maps are weak: an array is held while its spec is in use.
_SPECS: WeakValueDictionary[str, InMemory] = WeakValueDictionary()
_DATASETS: WeakKeyDictionary[InMemory, Stored] = WeakKeyDictionary()


def from_array(
    images: ArrayLike | Tensor,
    factors: ArrayLike | Tensor | None = None,
    names: Sequence[str] | None = None,
    *,
    device: torch.device | str = "cpu",
) -> tuple[InMemory, Dataset]:
    """The spec of an array, and the dataset it is; while the spec lives, so does the binding.

    The array is copied: what the caller does to it later changes nothing here.

    >>> spec, dataset = from_array(np.zeros((5, 8, 8), np.uint8))
    >>> spec.shape, dataset.shape
    ((5, 8, 8), (1, 8, 8))
    """
    if isinstance(images, np.memmap) and images.nbytes > MOST:
        raise ValueError(
            f"expected an array that may be copied into memory, got {images.nbytes / 2**30:.1f} GB "
            f"mapped from {images.filename}: give the path of the .npy file, which is then read as "
            "it is needed"
        )
    images = as_numpy(images)
    factors = None if factors is None else as_numpy(factors)
    dataset = in_memory(images, factors, names).to(torch.device(device))
    digest = _digest(images, factors, dataset.factor_names)
    made = InMemory(digest, images.shape, str(images.dtype))
    identity = _SPECS.setdefault(digest, made)
    _DATASETS.setdefault(identity, dataset)
    return identity, dataset


def in_memory(
    images: Array, factors: Array | None = None, names: Sequence[str] | None = None
) -> Stored:
    """The dataset of an array, after every check that can be made on it."""
    dataset = dataset_of(Held(images), factors, names, stream=False)
    assert isinstance(dataset, Stored)
    return dataset


def dataset_of(
    rows: Rows,
    factors: Array | None = None,
    names: Sequence[str] | None = None,
    notes: Sequence[str] = (),
    split: DataSplit = "all",
    stream: bool | None = None,
    key: Sequence[object] = (),
    lattice: Lattice | None = None,
    reading: Reading | None = None,
) -> Stored | Streamed:
    """A dataset of rows, in memory or read as they are needed, after every check that can be made.

    `key` says where the rows are from, so that what a pass over large ones finds is kept. A lattice
    that is given, with periods or labels, takes the place of the one that the factors enumerate. A
    reading that is given takes the place of what is found by looking at the numbers. A class of a
    factor has the same number in every split, and an integer of an observation the same meaning.
    """
    if reading is None:
        arranged(rows.shape)  # before its rows are walked over: they may be many, and empty
    count = rows.shape[0]
    codes, sizes, named = recode(None if factors is None else _rows_of(factors, count), count)
    whole = rows
    if (chosen := members_of(split, count)) is not None:
        rows, codes = Picked(rows, chosen), codes[torch.from_numpy(chosen)]
        notes = [*notes, f"the {split} split: {len(chosen):,} of {count:,} observations"]
    streamed = rows.shape[0] * width(rows) > MOST if stream is None else stream
    kept = key and (streamed or count * width(whole) > MOST)
    # Of all rows, whatever the split: an integer stands for the same number in every split.
    found = Scan(*remembered(key, lambda: scan(whole))) if kept else scan(whole)
    reading = reading or understood(rows, found)
    labels = _names(names, len(sizes))
    grid = lattice or _grid(labels, sizes, named)
    shown = grid if grid and _enumerated(grid, codes) else None
    repeats, named = (lattice.periods, lattice.labels) if lattice else ({}, named)
    told = (*notes, *reading.notes)
    if streamed:
        told = (*told, *how_shuffled(rows))
        about = (labels, sizes, named, shown, repeats, told)
        checksum = found.checksum if chosen is None else zlib.crc32(chosen.data, found.checksum)
        return Streamed(rows, reading, codes, *about, checksum, torch.device("cpu"))
    return Stored(
        data=_gathered(rows, reading),
        codes=codes,
        unit=reading.unit,
        bounded=reading.bounded,
        factor_names=labels,
        factor_sizes=sizes,
        factor_labels=named,
        lattice=shown,
        periods=repeats,
        notes=told,
        integer_unit=reading.integer_unit,
    )


def picked(dataset: Streamed, numbers: Array, which: str) -> Stored | Streamed:
    """Rows of a streamed dataset by their numbers, in order; in memory where they fit."""
    rows = Picked(dataset.rows, numbers)
    told = dataset.notes[: -len(how_shuffled(dataset.rows))]
    told = (*told, f"{len(numbers):,} observations of {dataset.size:,}: {which}")
    codes = dataset.codes[torch.from_numpy(numbers).to(dataset.codes.device)]
    if len(numbers) * width(rows) > MOST:
        checksum = zlib.crc32(numbers.data, dataset.checksum)
        told = (*told, *how_shuffled(rows))
        return dataclasses.replace(
            dataset, rows=rows, codes=codes, lattice=None, notes=told, checksum=checksum
        )
    return Stored(
        data=_gathered(rows, dataset.reading),
        codes=codes,
        unit=dataset.reading.unit,
        bounded=dataset.bounded,
        factor_names=dataset.factor_names,
        factor_sizes=dataset.factor_sizes,
        factor_labels=dataset.factor_labels,
        lattice=None,
        periods=dataset.periods,
        notes=told,
        integer_unit=dataset.integer_unit,
        value_names=dataset.value_names,
    )


def read_like(dataset: Dataset, observations: ArrayLike | Tensor) -> Tensor:
    """Observations (N, *shape) as float32 on the dataset's device, read as the dataset's own were.

    Integers are multiplied by the dataset's unit, so what they mean does not depend on which others
    come with them; floats are taken as they are. Images may have their channels last, or none.
    """
    array = as_numpy(observations)
    if array.shape[1:] == dataset.shape[1:] and dataset.shape[0] == 1 and len(dataset.shape) == 3:
        array = array[:, None]
    elif array.shape[1:] == (*dataset.shape[1:], dataset.shape[0]) != dataset.shape:
        array = np.moveaxis(array, -1, 1)
    if array.ndim == 0 or array.shape[1:] != dataset.shape or not len(array):
        raise ValueError(
            f"expected observations of shape (N, {', '.join(map(str, dataset.shape))}), as in the "
            f"data, got {array.shape}"
        )
    unit = dataset.integer_unit if array.dtype.kind in "iu" else 1.0
    values = (
        torch.from_numpy(np.array(array, dtype=np.float32, order="C")).to(dataset.device) * unit
    )
    if not values.isfinite().all():
        raise ValueError("expected finite observations, got NaN or infinity: remove or replace it")
    if dataset.bounded and not 0 <= values.min() <= values.max() <= 1:
        raise ValueError(
            f"expected values in [0, 1] as in the data, got {values.min():g} to {values.max():g}"
        )
    return values


def _gathered(rows: Rows, reading: Reading) -> Tensor:
    """All observations as they are stored, without a second copy of them on the way."""
    kind = reading(rows.read(0, 0)).dtype
    data = torch.empty((rows.shape[0], *reading.shape), dtype=kind)
    for start, block in blocks(rows):
        data[start : start + len(block)] = reading(block)
    return data


def _csv_notes(file: CsvFile, factors: Sequence[str]) -> list[str]:
    """What is not plain in a CSV file."""
    counted = "the first line, which counts the columns, is taken for their names"
    mixed = [where for column in factors if column in file.names and (where := file.stray(column))]
    return [counted] * file.counted + [f"{where}; its classes are text" for where in mixed]


def _measured(file: ArrayFile, rows: Rows, columns: Sequence[str]) -> Rows:
    """Columns of a table as the numbers that they are: in a table, 255 is not white."""
    if rows.dtype.kind == "O":
        first = rows.read(0, 1)[0]
        known = len(first) == len(columns)  # else lists are beside the text
        pairs = zip(columns, first, strict=True) if known else ((name, "") for name in columns)
        text = [name for name, value in pairs if isinstance(value, str)]
    else:
        text = list(columns) if rows.dtype.kind == "U" else []
    for name in text:
        if isinstance(file, CsvFile) and (where := file.stray(name)):
            raise ValueError(f"{file.path}, {where}: correct it, or remove the line")
    if text:
        raise ValueError(
            f"expected columns of numbers in {file.path}, got text in {', '.join(text)}: choose "
            f"others with key, or name these as factors, data.factors_key={name_of(text)}"
        )
    return Floats(rows) if rows.dtype.kind in "iu" else rows


def _known(file: ArrayFile, name: str) -> str:
    """The name of an array that the file has."""
    if file.names == [""] and name:
        raise ValueError(
            f"expected no key for {file.path}, a single array without keys, got {name!r}: leave "
            "key and factors_key out, or save images and factors together as .npz"
        )
    return name


def read_factors(file: ArrayFile, key: str) -> tuple[Array, list[str] | None]:
    """Factors by the key of their array, and their names where the file has them."""
    rows = file.rows(_known(file, key))
    if rows.shape[0] * width(rows) > MOST:
        raise ValueError(f"{key!r} of {file.path} is too large for factors: {rows.shape}")
    factors = rows.read(0, rows.shape[0])
    if file.tabular:
        columns = columns_of(key, file.names)
        return factors, columns if len(columns) == factors.shape[1] else None
    if NAMES_KEY not in file.names:
        return factors, [key.rpartition("/")[2]] if key and factors.ndim == 1 else None
    told = file.rows(NAMES_KEY)
    return factors, [str(name) for name in told.read(0, told.shape[0])]


def _usual(file: ArrayFile, factors_key: str | None) -> str:
    """The array that holds the observations when none is named."""
    if file.tabular:
        taken = columns_of(factors_key or "", file.names)
        return name_of([name for name in file.names if name not in taken])
    keys = file.names
    if len(keys) == 1:
        return keys[0]
    for key in USUAL_KEYS:
        if key in keys:
            return key
    raise ValueError(
        f"expected one array in {file.path}, or one named {', '.join(USUAL_KEYS)}, got "
        f"{', '.join(sorted(keys)) or 'none'}: choose it with key, as data.key="
        f"{next(iter(keys), 'NAME')}"
    )


def _rows_of(factors: Array, count: int) -> Array:
    """Factors as (N, K), a row for each observation."""
    if factors.ndim == 1:
        factors = factors[:, None]
    if factors.ndim != 2 or len(factors) != count or factors.shape[1] == 0:
        raise ValueError(
            f"expected factors of shape ({count}, K), one row for each observation, got "
            f"{factors.shape}: check that both come from the same set"
        )
    return factors


def recode(factors: Array | None, count: int) -> tuple[Tensor, tuple[int, ...], Labels]:
    """Factors (N, K) as classes 0..n-1 in the order of their values, the sizes n, and those values.

    Values are text or numbers: what a class is called.
    """
    if factors is None:
        return torch.zeros(count, 0, dtype=torch.int64), (), ()
    if factors.dtype.kind not in "biufUSO":
        raise ValueError(f"expected factors as integers or text, got {factors.dtype}: convert them")
    if factors.dtype.kind == "O":  # columns of numbers beside columns of text
        columns = [np.array(column.tolist()) for column in factors.T]
    else:
        columns = list(factors.T)
    found = [np.unique(column, return_inverse=True) for column in columns]
    for number, (values, code) in enumerate(found):
        if values.dtype.kind == "f" and not np.isfinite(values).all():
            row = int(np.flatnonzero(~np.isfinite(values)[code.reshape(-1)])[0])
            raise ValueError(
                f"expected finite factors, got NaN or infinity in column {number}, first in row "
                f"{row}: remove or replace it"
            )
        real = values.dtype.kind == "f" and (values != np.rint(values)).any()
        if real and 2 * len(values) > count:
            raise ValueError(
                f"expected factors as classes, which repeat, got {len(values):,} real numbers in "
                f"the {count:,} rows of column {number}: leave it out, or cut it into bins with "
                "numpy.digitize"
            )
    codes = np.stack([code.reshape(-1) for _, code in found], axis=1)
    sizes = tuple(len(values) for values, _ in found)
    labels = tuple(tuple(map(_plain, values)) for values, _ in found)
    return torch.from_numpy(codes.astype(np.int64)), sizes, labels


def _plain(value: Any) -> str | float:
    """A value of a factor as it is written: text, a whole number, or the shortest decimal."""
    if value.dtype.kind in "US":
        return value.decode(errors="replace") if isinstance(value, bytes) else str(value)
    number = float(str(value)) if value.dtype.kind == "f" else int(value)
    return int(number) if abs(number) < 2**53 and number == int(number) else number


def _names(names: Sequence[str] | None, count: int) -> tuple[str, ...]:
    if names is None:
        return tuple(f"factor{k}" for k in range(count))
    if len(names) != count or len(set(names)) != count:
        raise ValueError(
            f"expected {count} distinct factor names, got {list(names)}: name each column once"
        )
    return tuple(names)


def _grid(names: tuple[str, ...], sizes: tuple[int, ...], labels: Labels) -> Lattice | None:
    """All combinations of factors, unless there are none, or more than can be numbered."""
    if not sizes or math.prod(sizes) >= 2**62:
        return None
    return Lattice(tuple(_factor(*each) for each in zip(names, sizes, labels, strict=True)))


def _factor(name: str, size: int, called: tuple[str | float, ...] | None) -> Factor:
    """A factor whose classes came as numbers, which are its values, or as text: their names."""
    texts = tuple(each for each in called or () if isinstance(each, str))
    numbers = tuple(float(each) for each in called or () if not isinstance(each, str))
    kind: Kind = "categorical" if texts else "ordinal"
    return Factor(name, size, kind, numbers or None, texts or None)


def _enumerated(lattice: Lattice, codes: Tensor) -> bool:
    """Whether the observations are exactly the combinations of a lattice, in order."""
    if lattice.size != len(codes):
        return False
    return bool((lattice.index(codes) == torch.arange(len(codes))).all())


def as_numpy(array: ArrayLike | Tensor) -> Array:
    """An array of anything that is one, tensors on any device included."""
    if isinstance(array, Tensor):
        try:
            return array.detach().cpu().numpy()
        except TypeError:
            raise ValueError(
                f"expected a dense tensor of a type that numpy has, got {array.dtype}, "
                f"{array.layout}: convert it with .float() or .to_dense()"
            ) from None
    try:
        return np.asarray(array)
    except ValueError as error:
        raise ValueError(f"expected a regular array, got {error}: make all rows equal") from None


def _digest(images: Array, factors: Array | None, names: tuple[str, ...]) -> str:
    """Sha256 of the content: types, shapes, bytes and names."""
    state = hashlib.sha256(repr(names).encode())
    for array in (images,) if factors is None else (images, factors):
        state.update(f"{array.dtype.str}{array.shape}".encode())
        state.update(np.ascontiguousarray(array).data)
    return state.hexdigest()
