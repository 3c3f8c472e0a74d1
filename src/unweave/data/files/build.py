"""Build datasets of rows: in memory or streamed, checked and scaled; and take parts of them."""

import dataclasses
import zlib
from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor

from unweave.core.hints import count_noun
from unweave.core.memory import main_memory
from unweave.data.cache import cached_json
from unweave.data.dataset import ArrayDataset, Schema
from unweave.data.files.columns import choose_columns
from unweave.data.files.copies import are_compared, first_copies
from unweave.data.files.factors import FactorTable, check_names
from unweave.data.files.frames import Frame, as_frame, is_frame
from unweave.data.files.interpretation import (
    ArrayAxes,
    Interpretation,
    Layout,
    choose_method,
    curves_notes,
    group_names,
    interpret,
    interpret_shape,
    measure,
)
from unweave.data.files.outliers import Extremes, describe_extremes, find_extremes
from unweave.data.files.rows import (
    MOST,
    Array,
    IndexedRows,
    InMemoryRows,
    Rows,
    blocks,
    describe_missing,
    row_bytes,
    sample,
)
from unweave.data.files.statistics import Scan, find_not_finite, scan
from unweave.data.files.streaming import StreamedDataset, streaming_notes
from unweave.data.files.tables import join_columns
from unweave.data.random_split import DataSplit, split_rows
from unweave.data.scaling import Scaling, ScalingMethod


def array_dataset(
    images: ArrayLike | Tensor,
    factors: ArrayLike | Tensor | None = None,
    names: Sequence[str] | None = None,
    *,
    scale: ScalingMethod | None = None,
    axes: ArrayAxes | None = None,
) -> ArrayDataset:
    """Return a dataset of observations in memory and their factors, for a data spec of your own.

    Arrays are interpreted, scaled and checked as in `Arrays`. A table with named columns, such as a
    DataFrame of pandas or polars, is read like a CSV file: columns of numbers are observations,
    text that repeats is a factor, and other text names the rows.

    >>> array_dataset(np.eye(4), [0, 0, 1, 1], ["half"]).factor_sizes
    (2,)

    Args:
        images: (N, H, W), (N, H, W, C), (N, C, H, W) or (N, D) observations, or a table.
        factors: (N, K) or (N,) integers, text or real numbers, or a table; NaN is a missing label.
        names: names of the K factors; by default those of the columns of a table.
        scale: how to scale values, as in `Arrays`; by default chosen from the values.
        axes: "nhwc" or "nchw", if the shape does not show where the channels are.
    """
    return observed_dataset(observe(images, factors, names), scale, axes)


class Observed(NamedTuple):
    """Observations in memory, their factors, and the names of their values."""

    images: Array
    factors: FactorTable | None
    value_names: tuple[str, ...] = ()


def observe(
    images: ArrayLike | Tensor,
    factors: ArrayLike | Tensor | None = None,
    names: Sequence[str] | None = None,
) -> Observed:
    """Read arrays, or tables with named columns, as `array_dataset` takes them."""
    if not is_frame(images):
        array = as_numpy(images)
        return Observed(array, _read_labels(factors, names, array.shape[:1]))
    frame = Frame(images)
    columns, table = choose_columns(frame, None, None if factors is None else "", "")
    if (labels := _read_labels(factors, names, (frame.count,))) is not None:
        notes = (*table.notes, *labels.notes)
        table = dataclasses.replace(labels, row_names=table.row_names, notes=notes)
    return Observed(frame.rows(columns).array, table, tuple(columns))


def _read_labels(
    factors: ArrayLike | Tensor | None, names: Sequence[str] | None, shape: tuple[int, ...]
) -> FactorTable | None:
    """Read the factors of observations in memory: an array, a table or a column of one."""
    if factors is None:
        return None
    frame = as_frame(factors)
    if frame is None or shape != (frame.count,):
        return FactorTable.from_values(as_numpy(factors), names, shape[0] if shape else None)
    columns = [frame.labels(name) for name in frame.names]
    named = check_names(frame.names if names is None else names, len(columns))
    renamed = [
        dataclasses.replace(each, name=name) for name, each in zip(named, columns, strict=True)
    ]
    return FactorTable.from_columns(renamed, frame.count)


def observed_dataset(
    observed: Observed, scale: ScalingMethod | None = None, axes: ArrayAxes | None = None
) -> ArrayDataset:
    """Return the dataset of observations in memory, read as `array_dataset` does."""
    rows = InMemoryRows(observed.images)
    dataset = build_dataset(
        rows,
        observed.factors,
        stream=False,
        layout=interpret_shape(rows.shape, axes),
        scale=scale,
        value_names=observed.value_names,
    )
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
    inspect: bool = True,
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
        inspect: whether to look for mistakes in the values, as in data that nobody has checked.
    """
    # Before reading the rows: there may be many empty ones.
    layout = layout or interpret_shape(rows.shape)
    value_names = value_names if layout.shape == (len(value_names),) else ()
    whole, count = rows, rows.shape[0]
    factors = factors or FactorTable(torch.zeros(count, 0, dtype=torch.int64))
    row_names = factors.row_names
    notes = [*notes, *factors.notes]
    first = first_copies(whole, layout.arrange) if inspect else None
    if (numbers := split_rows(split, count, first)) is not None:
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
    method = choose_method(dtype, values, layout, scale, value_names)
    second = partial(measure, whole, layout, method)
    scaling = cached_json([*pass_key, "scaling", method], Scaling, second) if cached else second()
    interpretation = interpret(dtype, values, layout, scaling, value_names)
    described = list(interpretation.notes)
    if scale is None and method == "standardise":
        described += curves_notes(sample(rows))
    if first is not None:
        described.append(
            f"{count:,} observations, {len(np.unique(first)):,} distinct: copies are in the same "
            "split, so that no held-out observation has a copy in the training split"
        )
    elif inspect and not are_compared(whole):
        described.append(
            "data of more than 1 GiB are not searched for copies: if there are any, they may be in "
            "different splits"
        )
    extreme = None
    if inspect:
        third = partial(find_extremes, whole, layout, scaling, first)
        known = [*pass_key, "extremes", method]
        extremes = cached_json(known, Extremes, third) if cached else third()
        extreme = describe_extremes(
            extremes, layout, scaling, value_names, row_names, in_memory=not key
        )
        described += [extreme.note] if extreme else []
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
        notes=(*notes, *described),
        extremes=extreme,
    )
    checksum = _checksum_of(f"{values.checksum:08x}", numbers)
    dataset = _load_or_stream(
        schema, rows, interpretation, factors.codes, checksum, streamed, factors.row_names
    )
    return dataclasses.replace(dataset, first=first) if numbers is None else dataset


def _explain_not_finite(rows: Rows, layout: Layout, value_names: Sequence[str]) -> str:
    broken = find_not_finite(rows, layout.by_channel)
    row, column, place = broken.first
    if layout.is_image:
        y, x = divmod(place, layout.shape[2])
        return (
            "expected finite float32 values, got NaN or infinity, first in observation "
            f"{row}, channel {column}, at row {y} and column {x}; "
            f"{count_noun(broken.cells, 'value')} of {count_noun(broken.rows, 'image')} "
            f"{'is' if broken.cells == 1 else 'are'} not finite: remove or replace them"
        )
    names = group_names(layout.shape, value_names)
    columns = [join_columns([str(names[number])]) for number in broken.columns]
    removal = "" if value_names else "x[numpy.isfinite(x).all(1)]"
    missing = describe_missing(broken.cells, broken.rows, columns, removal)
    return (
        "expected finite float32 values, got NaN or infinity, first in observation "
        f"{row}, {'column ' * bool(value_names)}{names[column]}; {missing}"
    )


def _checksum_of(whole: str, numbers: Array | None) -> str:
    """Return the checksum of some rows, computed from that of all rows and their indices."""
    return whole if numbers is None else f"{zlib.crc32(numbers.data, int(whole, 16)):08x}"


def take_split(dataset: ArrayDataset, split: DataSplit) -> ArrayDataset:
    """Return a split of a dataset that was loaded as a whole, as if it had been loaded so."""
    numbers = split_rows(split, dataset.size, dataset.first)
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
        first=None,
    )


def select_streamed(
    dataset: StreamedDataset, numbers: Array, description: str, checksum: str
) -> ArrayDataset | StreamedDataset:
    """Select rows of a streamed dataset by their sorted indices; load them if they fit."""
    rows = IndexedRows(dataset.rows, numbers)
    earlier = dataset.notes[: -len(streaming_notes(dataset.rows))]
    some = count_noun(len(numbers), "observation")
    notes = (*earlier, f"{some} of {dataset.size:,}: {description}")
    schema = dataclasses.replace(dataset.schema, size=len(numbers), lattice=None, notes=notes)
    codes = dataset.codes[torch.from_numpy(numbers).to(dataset.codes.device)]
    streamed = len(numbers) * row_bytes(rows) > MOST
    names = [dataset.row_names[row] for row in numbers.tolist()] if dataset.row_names else ()
    selected = _load_or_stream(
        schema, rows, dataset.interpretation, codes, checksum, streamed, names
    )
    if dataset.first is None:
        return selected
    _, firsts, copies = np.unique(dataset.first[numbers], return_index=True, return_inverse=True)
    return dataclasses.replace(selected, first=firsts[copies])


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
