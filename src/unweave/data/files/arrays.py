"""Data from arrays: a file of arrays, or an array in memory."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, ClassVar, Literal, NamedTuple
from weakref import WeakValueDictionary, finalize

import numpy as np
import torch
from numpy.typing import ArrayLike
from pydantic import Field
from torch import Tensor

from unweave.core.hints import naming
from unweave.core.spec import Place, spec, tag
from unweave.data.dataset import AbsolutePath, ArrayDataset, DataNotFound, Dataset
from unweave.data.files.array_file import ArrayFile, TableFile, check_key, open_array_file
from unweave.data.files.build import as_numpy, build_dataset, observe, observed_dataset, take_split
from unweave.data.files.columns import choose_columns, list_some, observations_note
from unweave.data.files.factors import NAMES_KEY, FactorTable, read_factors
from unweave.data.files.frames import as_frame
from unweave.data.files.interpretation import ArrayAxes, interpret_shape
from unweave.data.files.labels import LABEL_WORDS
from unweave.data.files.rows import MOST, Array, RawRows, Rows, file_state
from unweave.data.files.tables import CsvFile, join_columns
from unweave.data.random_split import DataSplit
from unweave.data.scaling import ScalingMethod

USUAL_KEYS = ("imgs", "images", "x", "data")


@spec
class Arrays:
    """Observations in a file of arrays: .npy, .npz, HDF5, Parquet or CSV.

    Observations are (N, H, W), (N, H, W, C), (N, C, H, W) or vectors (N, D); `axes` says whether
    channels are last ("nhwc") or first ("nchw") if the shape is ambiguous. `scale` says how values
    are scaled: divided by 255 ("bytes"), between two percentiles of each channel ("percentile"), to
    mean 0 and standard deviation 1 of each column ("standardise"), to mean 0 of each column and one
    scale for all ("common"), or not at all ("none", and "counts" for counts of something). By
    default, 8-bit images are divided by 255, other images are scaled by percentiles unless they are
    floats in [0, 1], and vectors of floats are standardised, but spectra, whose columns are named
    by rising or falling numbers, get a common scale; other integers are only read if `scale` says
    what they are.

    `key` names the array of observations, and `factors_key` that of the factors (N, K): integers,
    text or real numbers, where NaN is a missing label. Their names are read from the array
    `factor_names` if the file has it. In Parquet and CSV files both keys name columns, separated by
    commas (quote names that contain a comma): 400..900 stands for all columns whose names are
    numbers in that range, and gene* for all that begin with gene. By default all columns of numbers
    are observations, columns of text that repeats are factors, and text that does not repeat names
    the rows; `ignore` names columns to leave out.

    `split` takes 80 % of the observations for training, 10 % for validation or 10 % for testing,
    always the same ones. Files with more than 1 GiB of observations are streamed instead of loaded;
    `stream` overrides that.
    """

    path: AbsolutePath
    """Where the data are: a file."""
    key: str | None = None
    """Array of the observations in the file, or the columns of a table."""
    factors_key: str | None = None
    """Array or columns with the known factors of the observations."""
    split: DataSplit = "all"
    """Split to read: train, validation, test, or all of the data."""
    stream: bool | None = None
    """Whether to read observations while training; by default only above 1 GiB."""
    scale: ScalingMethod | None = None
    """How values are scaled: none, bytes, percentile, standardise, common or counts; by default
    chosen from the data."""
    axes: ArrayAxes | None = None
    """Where channels are, nhwc (last) or nchw (first), if the shape leaves it open."""
    ignore: str = ""
    """Columns to leave out, by name or glob, such as sample,plate*."""
    kind: Literal["arrays"] = tag("arrays")

    OTHER_NAMES: ClassVar[dict[str, str]] = {
        **dict.fromkeys((*LABEL_WORDS, "factors"), "data.factors_key"),
        **dict.fromkeys(("columns", "features", "x"), "data.key"),
    }

    def load(self, device: torch.device) -> Dataset:
        """Load the file, or prepare to stream it."""
        with naming(self.path):
            file = open_array_file(Path(self.path))
            rows, key, columns, factors, notes = self._open(file)
            source = [self.path, key, *file_state(file.path)]
            layout = interpret_shape(rows.shape, self.axes)
            if not columns and self.factors_key is not None:
                factors = read_factors(file, self.factors_key, rows.shape[0])
            dataset = build_dataset(
                rows,
                factors,
                notes,
                self.split,
                self.stream,
                source,
                layout,
                self.scale,
                tuple(columns),
            )
        return dataset.to(device)

    def raw(self, columns: Sequence[str] | None = None) -> RawRows:
        """Open the observations as they are stored, without labels.

        `columns` are those of a table to read, by default those that `key` names.
        """
        file = open_array_file(Path(self.path))
        unlabelled = dataclasses.replace(self, factors_key=None)
        rows, _, columns, factors, notes = unlabelled._open(file, columns)
        if columns:
            notes = [observations_note(columns)]
        return RawRows(rows, factors.row_names if factors else (), notes)

    def _open(self, file: ArrayFile, columns: Sequence[str] | None = None) -> _Opened:
        if isinstance(file, TableFile):
            key = columns or self.key
            columns, factors = choose_columns(file, key, self.factors_key, self.ignore)
            rows = file.rows(columns)
            _reject_text(file, rows, columns)
            return _Opened(rows, join_columns(columns), columns, factors, [])
        key = check_key(file, self.key or _usual_key(file))
        return _Opened(file.rows(key), key, [], None, self._unread(file, key))

    def _unread(self, file: ArrayFile, key: str) -> list[str]:
        """Note the arrays of a file that are not read."""
        if self.ignore:
            raise ValueError(
                f"expected a table whose columns to ignore, got {self.path}, a file of arrays: "
                "leave ignore out, and choose an array with key"
            )
        others = sorted({*file.names} - {key, self.factors_key, NAMES_KEY})
        return [f"read {key!r}; not read: {list_some(others)}"] if others else []


class _Opened(NamedTuple):
    """The rows of a file of arrays, their key, and for a table its columns and their factors."""

    rows: Rows
    key: str
    columns: Sequence[str]
    factors: FactorTable | None
    notes: list[str]


@spec
class InMemory:
    """An array in memory: the spec holds what identifies the array, not the array itself.

    `from_array` creates the spec and binds the array to it, so that `load` finds the array as long
    as the spec is in use in this process. `split` works as in `Arrays`.
    """

    # sha256 of images and factors
    digest: Annotated[str, Field(pattern="^[0-9a-f]{64}$"), Place()]
    """Checksum of the array."""
    shape: tuple[int, ...]
    """Shape of the array."""
    dtype: str
    """Type of its numbers."""
    scale: ScalingMethod | None = None
    """How values are scaled, as in a file."""
    axes: ArrayAxes | None = None
    """Where channels are, nhwc (last) or nchw (first), if the shape leaves it open."""
    split: DataSplit = "all"
    """Split to read: train, validation, test, or all of the data."""
    kind: Literal["memory"] = tag("memory")

    def __post_init__(self) -> None:
        if (bound := _BOUND.get(self._array)) is not None:
            self.bind(bound)

    def bind(self, dataset: ArrayDataset) -> None:
        """Keep the dataset as long as the spec is in use."""
        _IN_USE[id(self)] = dataset
        finalize(self, _IN_USE.pop, id(self), None)

    @property
    def bound(self) -> ArrayDataset | None:
        """The whole of the data, if they are bound in this process."""
        return _IN_USE.get(id(self), _BOUND.get(self._array))

    def load(self, device: torch.device) -> Dataset:
        """Copy the bound array, or a split of it, to a device."""
        if (bound := self.bound) is None:
            raise DataNotFound(
                f"expected an array {self.shape} of {self.dtype} with digest {self.digest[:12]} to "
                "be bound in this process, got none: call from_array(images, factors) with it and "
                "keep the spec, or save it as .npz and use Arrays"
            )
        return take_split(bound, self.split).to(device)

    @property
    def _array(self) -> tuple[str | None, ...]:
        """What identifies the array and how it is read, whatever the split."""
        return self.digest, self.scale, self.axes


# The arrays behind the specs, the latest of those that differ only in names of the rows; and the
# one that each spec keeps alive, by the spec's id.
_BOUND: WeakValueDictionary[tuple[str | None, ...], ArrayDataset] = WeakValueDictionary()
_IN_USE: dict[int, ArrayDataset] = {}


def from_array(
    images: ArrayLike | Tensor,
    factors: ArrayLike | Tensor | None = None,
    names: Sequence[str] | None = None,
    *,
    scale: ScalingMethod | None = None,
    axes: ArrayAxes | None = None,
    device: torch.device | str = "cpu",
) -> tuple[InMemory, Dataset]:
    """Return a spec for an array, and the dataset; the array is kept while the spec is in use.

    The array is copied, so later changes to it have no effect. The arguments are those of
    `array_dataset`.

    >>> spec, dataset = from_array(np.zeros((5, 8, 8), np.uint8))
    >>> spec.shape, dataset.shape
    ((5, 8, 8), (1, 8, 8))
    """
    if isinstance(images, np.memmap) and images.nbytes > MOST:
        raise ValueError(
            f"expected an array that may be copied into memory, got {images.nbytes / 2**30:.1f} GB "
            f"mapped from {images.filename}: pass the path of the .npy file, which is then streamed"
        )
    place = _as_device(device)
    observed = observe(images, factors, names)
    dataset = observed_dataset(observed, scale, axes)
    if observed.value_names or as_frame(factors) is not None:
        labels = dataset.codes.numpy()
        named = (dataset.factor_names, dataset.factor_labels, observed.value_names)
        digest = _digest(observed.images, labels, named)
    else:
        values = None if factors is None else as_numpy(factors)
        digest = _digest(observed.images, values, dataset.factor_names)
    dataset = dataset.to(place)
    known = _BOUND.get((digest, scale, axes))
    if known is None or list(known.row_names) != list(dataset.row_names):
        _BOUND[digest, scale, axes] = dataset
    shape, dtype = observed.images.shape, str(observed.images.dtype)
    return InMemory(digest, shape, dtype, scale, axes), dataset


def _as_device(name: torch.device | str) -> torch.device:
    try:
        return torch.device(name)
    except RuntimeError:
        raise ValueError(f"expected a device such as cpu or cuda:1, got {name!r}") from None


def _reject_text(file: ArrayFile, rows: Rows, columns: Sequence[str]) -> None:
    if rows.dtype != object:
        return
    first = rows.read(0, 1)[0]
    aligned = len(first) == len(columns)  # otherwise there are lists besides the text
    pairs = zip(columns, first, strict=True) if aligned else ((name, "") for name in columns)
    text = [name for name, value in pairs if isinstance(value, str)]
    for name in text:
        if isinstance(file, CsvFile) and (where := file.first_text(name)):
            raise ValueError(f"{file.path}, {where}: correct it, or remove the line")
    if text:
        raise ValueError(
            f"expected columns of numbers in {file.path}, got text in {', '.join(text)}: choose "
            f"others with key, or use these as factors, data.factors_key={join_columns(text)}"
        )


def _usual_key(file: ArrayFile) -> str:
    """Return the array of observations if none is named."""
    if len(file.names) == 1:
        return file.names[0]
    for key in USUAL_KEYS:
        if key in file.names:
            return key
    raise ValueError(
        f"expected one array in {file.path}, or one named {', '.join(USUAL_KEYS)}, got "
        f"{', '.join(sorted(file.names)) or 'none'}: choose it with key, as data.key="
        f"{next(iter(file.names), 'NAME')}"
    )


def _digest(images: Array, factors: Array | None, names: tuple[object, ...]) -> str:
    """Return the sha256 of types, shapes, bytes and names."""
    state = hashlib.sha256(repr(names).encode())
    for array in (images,) if factors is None else (images, factors):
        state.update(f"{array.dtype.str}{array.shape}".encode())
        objects = array.dtype.hasobject  # whose bytes are addresses
        state.update(repr(array.tolist()).encode() if objects else np.ascontiguousarray(array).data)
    return state.hexdigest()
