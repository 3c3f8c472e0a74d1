"""Read codes and factors for a table from files: .npz, .npy, CSV, Parquet and HDF5, no pickles.

What is decided about columns, labels and the order of rows is issued as warnings.
"""

import os
import re
import warnings
from collections.abc import Sequence
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from unweave.core.hints import naming
from unweave.data.files.array_file import (
    ArrayFile,
    TableFile,
    open_array_file,
    read_array,
    read_rows,
)
from unweave.data.files.columns import choose_columns, csv_notes, list_some
from unweave.data.files.labels import LabelColumn
from unweave.data.files.tables import expand_columns, join_columns
from unweave.metrics.arrays import as_texts

Array = NDArray[Any]

CODES, FACTORS = "codes", "factors"
NAME, ERROR, SCALE = "name", "rmse", ".sd"  # columns that `unweave encode` writes beside codes


class _Codes(NamedTuple):
    values: Array  # (N, D)
    row_names: tuple[str, ...]
    factors: list[LabelColumn]  # in the same file


class _Labels(NamedTuple):
    columns: list[LabelColumn]
    row_names: tuple[str, ...]


def read_files(
    codes: str | os.PathLike[str],
    factors: str | os.PathLike[str] | None,
    codes_key: str,
    factors_key: str,
) -> dict[str, Any]:
    """Return the columns of a table from a file of codes and, if it is given, a file of factors.

    A CSV or Parquet file of codes may have columns of text: one that names the rows is joined with
    the names in the file of factors, and those that repeat are factors if no other file is given.
    Without names in both files, rows are matched by their order.
    """
    with naming(codes):
        read = _read_codes(Path(codes), codes_key, factors_key if factors is None else "")
    values, columns, names = read.values, read.factors, read.row_names
    if factors is not None:
        with naming(factors):
            labels = _read_labels(Path(factors), factors_key)
        rows, columns = _join(read, labels, str(codes), str(factors))
        values = values[rows]
        names = tuple(names[row] for row in rows) if names else ()
    return {CODES: values, **labels_as_factors(columns, len(values)), "row_names": names}


def labels_as_factors(columns: Sequence[LabelColumn], count: int) -> dict[str, Any]:
    """Return labels as a table has them: text as classes, numbers as they are, NaN if missing."""
    factors = np.full((count, len(columns)), np.nan)
    for k, column in enumerate(columns):
        values = column.values
        if column.text:
            values = column.codes[column.known]
            texts = list_some([str(label) for label in column.labels])
            _note(f"{column.name}: {len(column.labels)} classes ({texts})")
        elif not column.continuous and values.size and values.dtype.kind in "iub":
            values = values - min(0, int(values.min()))
        factors[column.known, k] = values
    whole = np.isfinite(factors).all() and (factors == np.rint(factors)).all()
    return {
        FACTORS: factors.astype(np.int64) if whole else factors,
        "factor_names": tuple(column.name for column in columns),
        "continuous": [column.name for column in columns if column.continuous],
    }


def label_columns(array: Array, names: Sequence[str] = ()) -> list[LabelColumn]:
    """Return the columns of an array of labels, (N,) or (N, K), of numbers or text."""
    columns = array[:, None] if array.ndim == 1 else array
    if columns.ndim != 2 or not columns.shape[1]:
        raise ValueError(f"expected factors of shape (N, K) or (N,), got {array.shape}")
    named = names or [f"factor {k}" for k in range(columns.shape[1])]
    if len(named) != columns.shape[1]:
        raise ValueError(
            f"expected {columns.shape[1]} different factor names, got {', '.join(named)}"
        )
    return [LabelColumn.from_array(n, c) for n, c in zip(named, columns.T, strict=True)]


def _read_codes(path: Path, key: str, factors_key: str) -> _Codes:
    file = open_array_file(path)
    if not isinstance(file, TableFile):
        values = np.atleast_1d(read_array(file, _choose(file, key, CODES, "--codes-key")))
        if values.ndim == 1:
            values = values[:, None]
        return _Codes(values, _row_names(file), [])
    ignored = join_columns([] if key else _beside_codes(file.names))
    chosen = choose_columns(file, key or None, factors_key or None, ignored)
    for note in chosen.factors.notes:
        _note(f"{path.name}: {_as_codes(note)}")
    values = np.asarray(read_rows(file.rows(chosen.observed), str(path)), np.float64)
    names = chosen.factors.names
    return _Codes(values, chosen.factors.row_names, [file.labels(name) for name in names])


def _beside_codes(names: Sequence[str]) -> list[str]:
    """Return the columns that `unweave encode` writes beside codes: scales, and errors.

    >>> _beside_codes(["name", "z0", "z1", "z0.sd", "z1.sd", "rmse"])
    ['z0.sd', 'z1.sd', 'rmse']
    """
    scales = [name for name in names if name.endswith(SCALE) and name.removesuffix(SCALE) in names]
    ends = names[0] == NAME and names[-1] == ERROR
    return [*scales, *([ERROR] if ends else [])]


def _read_labels(path: Path, key: str) -> _Labels:
    file = open_array_file(path)
    if not isinstance(file, TableFile):
        name = _choose(file, key, FACTORS, "--factors-key")
        names: list[str] = []
        if "factor_names" in file.names:
            names = list(as_texts(read_array(file, "factor_names")))
        array = np.atleast_1d(read_array(file, name))
        if not names and array.ndim == 1:
            names = [name.rpartition("/")[2] or path.stem]
        return _Labels(label_columns(array, names), _row_names(file))
    for note in csv_notes(file, []):
        _note(f"{path.name}: {note.replace('an observation', 'a row')}")
    columns = [file.labels(n) for n in file.names]
    namers = [column for column in columns if column.names_rows and column.row_names]
    chosen = set(expand_columns(key, file.names, path) if key else file.names)
    for column in namers[:1]:
        _note(f"{path.name}: {column.name} names the rows, and is not a factor")
    for column in namers[1:]:
        _note(f"{path.name}: {column.describe()}: left out")
    factors = [c for c in columns if c.name in chosen and (bool(key) or not c.names_rows)]
    if not factors:
        raise ValueError(
            f"expected columns of labels in {path}, got {list_some(file.names)}, which name the "
            "rows: add a column, or name one with --factors-key"
        )
    return _Labels(factors, namers[0].row_names if namers else ())


def _choose(file: ArrayFile, key: str, usual: str, option: str) -> str:
    """Return the name of an array: the one given, the usual one, or the only one there is."""
    arrays = [name for name in file.names if name not in ("factor_names", "row_names")]
    if key or usual in arrays:
        return key or usual
    if len(arrays) == 1:
        return arrays[0]
    raise ValueError(
        f"expected an array named {usual} in {file.path}, got {list_some(file.names)}: name it "
        f"with {option}"
    )


def _row_names(file: ArrayFile) -> tuple[str, ...]:
    return as_texts(read_array(file, "row_names")) if "row_names" in file.names else ()


def _join(
    codes: _Codes, labels: _Labels, codes_path: str, labels_path: str
) -> tuple[Array, list[LabelColumn]]:
    """Return the rows of the codes that have labels, and the labels in the order of these rows."""
    count, known = len(codes.values), len(labels.columns[0].known)
    if not (codes.row_names and labels.row_names):
        if count != known:
            raise ValueError(
                f"expected as many labels as codes, got {known:,} in {labels_path} and {count:,} "
                f"in {codes_path}: give both files a column of row names, or make the rows the same"
            )
        _note(f"rows of {codes_path} and {labels_path} are matched by their order")
        return np.arange(count), labels.columns
    for form in (str, lambda name: PurePosixPath(name).stem):
        place = {form(name): row for row, name in enumerate(labels.row_names)}
        pairs = [
            (row, place[form(name)])
            for row, name in enumerate(codes.row_names)
            if form(name) in place
        ]
        if pairs and len(place) == known:
            break
    else:
        raise ValueError(
            f"expected names of rows that {codes_path} and {labels_path} share, got "
            f"{codes.row_names[0]}, ... and {labels.row_names[0]}, ...: correct the names"
        )
    rows, places = np.array(pairs).T
    left = f"; {count - len(rows):,} without labels are left out" if len(rows) < count else ""
    _note(f"{len(rows):,} rows of {codes_path} and {labels_path} are matched by their names{left}")
    return rows, [_taken(column, places) for column in labels.columns]


def _taken(column: LabelColumn, rows: Array) -> LabelColumn:
    values = np.zeros(len(column.known), column.values.dtype)
    values[column.known] = column.values
    known = column.known[rows]
    return LabelColumn(column.name, values[rows][known], known, column.continuous)


def _as_codes(note: str) -> str:
    """Say in the words and options of scores what was decided about a table."""
    kept = re.sub(r"leave (it|them) out with data\.ignore=.*, or ", "", note)
    return kept.replace("observations", "codes").replace("data.factors_key=", "--factors-key ")


def _note(text: str) -> None:
    warnings.warn(text, stacklevel=2)
