"""Data from arrays: a file of arrays, or an array in memory."""

from __future__ import annotations

import dataclasses
import hashlib
import zlib
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, ClassVar, Literal, NamedTuple
from weakref import WeakValueDictionary, finalize

import numpy as np
import torch
from numpy.typing import ArrayLike
from pydantic import Field
from torch import Tensor

from unweave.core.hints import naming
from unweave.core.memory import main_memory
from unweave.core.spec import spec, tag
from unweave.data.cache import cached_json
from unweave.data.dataset import AbsolutePath, ArrayDataset, Dataset, Schema
from unweave.data.files.array_file import ArrayFile, TableFile, check_key, open_array_file
from unweave.data.files.columns import choose_columns, list_some
from unweave.data.files.factors import NAMES_KEY, FactorTable, read_factors
from unweave.data.files.interpretation import (
    ArrayAxes,
    Interpretation,
    Layout,
    choose_method,
    group_names,
    interpret,
    interpret_shape,
    measure,
)
from unweave.data.files.labels import LABEL_WORDS
from unweave.data.files.rows import (
    MOST,
    Array,
    IndexedRows,
    InMemoryRows,
    RawRows,
    Rows,
    blocks,
    describe_missing,
    file_state,
    row_bytes,
)
from unweave.data.files.statistics import Scan, find_not_finite, scan
from unweave.data.files.streaming import StreamedDataset, streaming_notes
from unweave.data.files.tables import CsvFile, join_columns
from unweave.data.random_split import DataSplit, split_rows
from unweave.data.scaling import Scaling, ScalingMethod

USUAL_KEYS = ("imgs", "images", "x", "data")


@spec
class Arrays:
    """Observations in a file of arrays: .npy, .npz, HDF5, Parquet or CSV.

    Observations are (N, H, W), (N, H, W, C), (N, C, H, W) or vectors (N, D); `axes` says whether
    channels are last ("nhwc") or first ("nchw") if the shape leaves it open. `scale` says how
    values are scaled: divided by 255 ("bytes"), between two percentiles of each channel
    ("percentile"), to mean 0 and standard deviation 1 of each column ("standardise"), or not at
    all ("none", and "counts" for counts of something). By default images of bytes are divided by
    255, other images are scaled by percentiles unless they are floats in [0, 1], and vectors of
    floats are standardised; other integers are only read if `scale` says what they are.

    `key` names the array of observations, and `factors_key` that of the factors (N, K): integers,
    text or real numbers, of which NaN is missing. Their names are read from the array
    `factor_names` if the file has it. In Parquet and CSV files both keys name columns, joined by
    commas (quote names that contain a comma): 400..900 stands for all columns whose names are
    numbers in that range, and gene* for all that begin with gene. By default all columns of numbers
    are observations, columns of text that repeats are factors, and text that does not repeat names
    the rows; `ignore` names columns to leave out.

    `split` takes 80 % of the observations for training, 10 % for validation or 10 % for testing,
    always the same ones. Files with more than 1 GiB of observations are streamed instead of loaded;
    `stream` overrides that.
    """

    path: AbsolutePath
    """Where the data are: a file or a folder."""
    key: str | None = None
    """Array of the observations in the file, or the columns of a table."""
    factors_key: str | None = None
    """Array or columns with the known factors of the observations."""
    split: DataSplit = "all"
    """Split to read: train, validation, test, or all of the data."""
    stream: bool | None = None
    """Whether to read observations while training; by default if they exceed 1 GiB."""
    scale: ScalingMethod | None = None
    """How values are scaled: none, bytes, percentile, standardise or counts; by default chosen from
    the data."""
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

    def raw(self) -> RawRows:
        """Open the observations as they are stored, without labels."""
        file = open_array_file(Path(self.path))
        rows, _, columns, factors, notes = dataclasses.replace(self, factors_key=None)._open(file)
        if columns:
            notes = [f"{len(columns):,} columns are observations: {list_some(columns)}"]
        return RawRows(rows, factors.row_names if factors else (), notes)

    def _open(self, file: ArrayFile) -> _Opened:
        if isinstance(file, TableFile):
            columns, factors = choose_columns(file, self.key, self.factors_key, self.ignore)
            key = join_columns(columns)
            rows = file.rows(key)
            _reject_text(file, rows, columns)
            return _Opened(rows, key, columns, factors, [])
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

    `from_array` creates it and binds the array to it, so that `load` finds the array for as long
    as a spec of it is in use in this process. `split` works as in `Arrays`.
    """

    digest: Annotated[str, Field(pattern="^[0-9a-f]{64}$")]  # sha256 of images and factors
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
            _IN_USE[id(self)] = bound
            finalize(self, _IN_USE.pop, id(self), None)

    def load(self, device: torch.device) -> Dataset:
        """Copy the bound array, or a split of it, to a device."""
        bound = _BOUND.get(self._array)
        if bound is None:
            raise ValueError(
                f"expected an array {self.shape} of {self.dtype} with digest {self.digest[:12]} to "
                "be bound in this process, got none: call from_array(images, factors) with it and "
                "keep the spec, or save it as .npz and use Arrays"
            )
        return take_split(bound, self.split).to(device)

    @property
    def _array(self) -> tuple[str | None, ...]:
        """What identifies the array and how it is read, whatever the split."""
        return self.digest, self.scale, self.axes


# The arrays behind the specs, and those that each spec keeps alive, by the spec's id.
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
    """Return a spec for an array, and the dataset; the array is bound while the spec is in use.

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
    images = as_numpy(images)
    factors = None if factors is None else as_numpy(factors)
    dataset = array_dataset(images, factors, names, scale=scale, axes=axes)
    digest = _digest(images, factors, dataset.factor_names)
    dataset = dataset.to(place)
    _BOUND.setdefault((digest, scale, axes), dataset)
    return InMemory(digest, images.shape, str(images.dtype), scale, axes), dataset


def _as_device(name: torch.device | str) -> torch.device:
    try:
        return torch.device(name)
    except RuntimeError:
        raise ValueError(f"expected a device such as cpu or cuda:1, got {name!r}") from None


def array_dataset(
    images: ArrayLike | Tensor,
    factors: ArrayLike | Tensor | None = None,
    names: Sequence[str] | None = None,
    *,
    scale: ScalingMethod | None = None,
    axes: ArrayAxes | None = None,
) -> ArrayDataset:
    """Return a dataset of observations in memory and their factors, for a data spec of your own.

    Arrays are interpreted, scaled and checked as those of `Arrays` are.

    >>> array_dataset(np.eye(4), [0, 0, 1, 1], ["half"]).factor_sizes
    (2,)

    Args:
        images: (N, H, W), (N, H, W, C), (N, C, H, W) or (N, D) observations.
        factors: (N, K) or (N,) integers, text or real numbers; NaN is a missing label.
        names: names of the K factors.
        scale: how to scale values, as in `Arrays`; by default chosen from the values.
        axes: "nhwc" or "nchw", if the shape leaves open where the channels are.
    """
    rows = InMemoryRows(as_numpy(images))
    layout = interpret_shape(rows.shape, axes)
    table = None
    if factors is not None:
        table = FactorTable.from_values(as_numpy(factors), names, rows.shape[0])
    dataset = build_dataset(rows, table, stream=False, layout=layout, scale=scale)
    assert isinstance(dataset, ArrayDataset)
    return dataset


def build_dataset(
    rows: Rows,
    factors: FactorTable | None = None,
    notes: Sequence[str] = (),
    split: DataSplit = "all",
    stream: bool | None = None,
    key: Sequence[object] = (),
    layout: Layout | None = None,
    scale: ScalingMethod | None = None,
    value_names: tuple[str, ...] = (),
) -> ArrayDataset | StreamedDataset:
    """Build a dataset of rows, in memory or streamed, after checking all values.

    All rows decide how values are scaled, whatever the split, so that a number means the same in
    every split. So does a class, since `factors` are those of all rows.

    Args:
        rows: all observations.
        factors: their factors, if they are known.
        notes: decisions made so far.
        split: the split to take.
        stream: whether to stream the rows from their file; by default if they exceed 1 GiB.
        key: identifies the source of the rows, to cache the result of a pass over large ones.
        layout: the axes of the rows; by default inferred from their shape.
        scale: how to scale values; by default chosen from them.
        value_names: names of the values, used if the observations are vectors of that length.
    """
    # Before reading the rows: there may be many empty ones.
    layout = layout or interpret_shape(rows.shape)
    value_names = value_names if layout.shape == (len(value_names),) else ()
    whole, count = rows, rows.shape[0]
    factors = factors or FactorTable(torch.zeros(count, 0, dtype=torch.int64))
    notes = [*notes, *factors.notes]
    if (numbers := split_rows(split, count)) is not None:
        rows, factors = IndexedRows(rows, numbers), factors.take(numbers)
        notes = [*notes, f"the {split} split: {len(numbers):,} of {count:,} observations"]
    streamed = rows.shape[0] * row_bytes(rows) > MOST if stream is None else stream
    cached = bool(key) and (streamed or count * row_bytes(whole) > MOST)
    pass_key = [*key, *layout[:2]]
    if cached:
        values = cached_json([*pass_key, "scan"], Scan, lambda: scan(whole, layout.arrange))
    else:
        values = scan(whole, layout.arrange)
    if values.broken is not None:
        raise ValueError(_explain_not_finite(whole, layout, value_names))
    dtype = rows.dtype.newbyteorder("=")
    method = choose_method(dtype, values, layout, scale)
    second = partial(measure, whole, layout, method)
    scaling = cached_json([*pass_key, "scaling", method], Scaling, second) if cached else second()
    interpretation = interpret(dtype, values, layout, scaling, value_names)
    schema = Schema(
        size=rows.shape[0],
        shape=layout.shape,
        factor_names=factors.names,
        factor_sizes=factors.sizes,
        factor_labels=factors.labels,
        continuous=factors.continuous,
        periods=factors.lattice.periods if factors.lattice else {},
        lattice=factors.enumerated,
        bounded=interpretation.bounded,
        scaling=scaling,
        dtype=str(dtype),
        channels_last=layout.channels_last,
        value_names=value_names,
        notes=(*notes, *interpretation.notes),
    )
    checksum = _checksum_of(f"{values.checksum:08x}", numbers)
    return _load_or_stream(
        schema, rows, interpretation, factors.codes, checksum, streamed, factors.row_names
    )


def _explain_not_finite(rows: Rows, layout: Layout, value_names: Sequence[str]) -> str:
    """Say where observations have NaN or infinity, and what to do."""
    found = find_not_finite(rows, layout.by_channel)
    row, column, place = found.first
    if layout.is_image:
        y, x = divmod(place, layout.shape[2])
        return (
            "expected finite float32 values, got NaN or infinity, first in observation "
            f"{row}, channel {column}, at row {y} and column {x}; {found.cells:,} values of "
            f"{found.rows:,} images are not finite: remove or replace them"
        )
    names = group_names(layout.shape, value_names)
    columns = [str(names[number]) for number in found.columns]
    missing = describe_missing(found.cells, found.rows, columns, table=bool(value_names))
    return (
        "expected finite float32 values, got NaN or infinity, first in observation "
        f"{row}, {'column ' * bool(value_names)}{names[column]}; {missing}"
    )


def _checksum_of(whole: str, numbers: Array | None) -> str:
    """Return the checksum of some rows of data, by the checksum of all and their numbers."""
    return whole if numbers is None else f"{zlib.crc32(numbers.data, int(whole, 16)):08x}"


def take_split(dataset: ArrayDataset, split: DataSplit) -> ArrayDataset:
    """Return a split of a dataset that was loaded as a whole, as if it had been loaded so."""
    numbers = split_rows(split, dataset.size)
    if numbers is None:
        return dataset
    rows = torch.from_numpy(numbers).to(dataset.device)
    note = f"the {split} split: {len(numbers):,} of {dataset.size:,} observations"
    schema = dataclasses.replace(
        dataset.schema, size=len(numbers), lattice=None, notes=(note, *dataset.notes)
    )
    names = dataset.row_names
    return dataclasses.replace(
        dataset,
        schema=schema,
        checksum=_checksum_of(dataset.fingerprint, numbers),
        data=dataset.data[rows],
        codes=dataset.codes[rows],
        row_names=[names[number] for number in numbers] if names else (),
    )


def select_streamed(
    dataset: StreamedDataset, numbers: Array, description: str, checksum: str
) -> ArrayDataset | StreamedDataset:
    """Select rows of a streamed dataset by their sorted numbers; load them if they fit."""
    rows = IndexedRows(dataset.rows, numbers)
    earlier = dataset.notes[: -len(streaming_notes(dataset.rows))]
    notes = (*earlier, f"{len(numbers):,} observations of {dataset.size:,}: {description}")
    schema = dataclasses.replace(dataset.schema, size=len(numbers), lattice=None, notes=notes)
    codes = dataset.codes[torch.from_numpy(numbers).to(dataset.codes.device)]
    streamed = len(numbers) * row_bytes(rows) > MOST
    names = [dataset.row_names[row] for row in numbers.tolist()] if dataset.row_names else ()
    return _load_or_stream(schema, rows, dataset.interpretation, codes, checksum, streamed, names)


def _load_or_stream(
    schema: Schema,
    rows: Rows,
    interpretation: Interpretation,
    codes: Tensor,
    checksum: str,
    streamed: bool,
    row_names: Sequence[str],
) -> ArrayDataset | StreamedDataset:
    if streamed:
        schema = dataclasses.replace(schema, notes=(*schema.notes, *streaming_notes(rows)))
        return StreamedDataset(schema, rows, interpretation, codes, checksum, row_names=row_names)
    # Read block by block, without a second copy in memory.
    dtype = interpretation(rows.read(0, 0)).dtype
    data = torch.empty((rows.shape[0], *interpretation.shape), dtype=dtype)
    for start, block in blocks(rows):
        data[start : start + len(block)] = interpretation(block)
    return ArrayDataset(
        schema, data, codes, interpretation.unit, row_names=row_names, checksum=checksum
    )


def as_numpy(array: ArrayLike | Tensor) -> Array:
    """Convert anything array-like to numpy, including tensors on any device."""
    if isinstance(array, Tensor):
        try:
            return array.detach().cpu().numpy()
        except TypeError:
            raise ValueError(
                f"expected a dense tensor of a type that numpy has, got {array.dtype}, "
                f"{array.layout}: convert it with .float() or .to_dense()"
            ) from None
    try:
        converted = np.asarray(array)
    except ValueError as error:
        raise ValueError(f"expected a regular array, got {error}: make all rows equal") from None
    if converted.nbytes > main_memory() and not isinstance(array, np.memmap):
        raise ValueError(f"expected an array that fits in memory, got shape {converted.shape}")
    return converted


def _reject_text(file: ArrayFile, rows: Rows, columns: Sequence[str]) -> None:
    """Reject columns of text."""
    if rows.dtype != object:
        return
    first = rows.read(0, 1)[0]
    aligned = len(first) == len(columns)  # otherwise there are lists beside the text
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


def _digest(images: Array, factors: Array | None, names: tuple[str, ...]) -> str:
    """Return the sha256 of types, shapes, bytes and names."""
    state = hashlib.sha256(repr(names).encode())
    for array in (images,) if factors is None else (images, factors):
        state.update(f"{array.dtype.str}{array.shape}".encode())
        objects = array.dtype.hasobject  # whose bytes are addresses
        state.update(repr(array.tolist()).encode() if objects else np.ascontiguousarray(array).data)
    return state.hexdigest()
