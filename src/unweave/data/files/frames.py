"""Tables in memory, such as DataFrames of pandas and polars, read like CSV files."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from unweave.data.files.csv_text import is_number
from unweave.data.files.labels import MISSING_WORDS, LabelColumn, column_values
from unweave.data.files.rows import Array, InMemoryRows
from unweave.data.files.tables import check_distinct, reject_missing

_NO_TIME = "NaT"  # as pandas writes a missing time
_NESTED = (list, tuple, dict, set, np.ndarray)  # values of a cell that are several


def is_frame(value: object) -> bool:
    """Return whether a value is a table with named columns, as those of pandas and polars are."""
    return hasattr(value, "columns") and hasattr(value, "__getitem__") and hasattr(value, "__len__")


def as_frame(value: object) -> Frame | None:
    """Return a table, or a column of one (a Series), as a table; None for anything else."""
    if is_frame(value):
        return Frame(value)
    if not hasattr(value, "to_frame"):
        return None
    name = getattr(value, "name", None)
    return Frame(value.to_frame("factor0" if name is None or name == "" else name))


class _Column(NamedTuple):
    """Values of a column, (N,) or (N, length), and the text of its cells unless it has numbers."""

    values: Array
    cells: list[str] | None


@dataclass(frozen=True, eq=False)
class Frame:
    """A table in memory, whose columns can be converted to NumPy.

    Columns of numbers, and of lists of numbers of equal length, are numbers. All others are read by
    the text of their cells, as in a CSV file: numbers, or text. Truth values are text, unless they
    are asked for as numbers.
    """

    frame: Any
    path: Path = Path("the table")  # for errors

    @cached_property
    def names(self) -> list[str]:
        """Names of the columns."""
        return check_distinct([str(key) for key in self._keys], self.path)

    @property
    def count(self) -> int:
        """The number of rows."""
        return len(self.frame)

    def is_text(self, column: str) -> bool:
        """Return whether a column is text: fewer than half of its cells are numbers."""
        values, cells = self._column(column)
        if values.dtype != object or cells is None:
            return values.dtype.kind == "b"
        known = [cell for cell in cells if cell not in MISSING_WORDS]
        return 2 * sum(map(is_number, known)) < len(known)

    def labels(self, column: str) -> LabelColumn:
        """Return a column as labels."""
        values, cells = self._column(column)
        if values.ndim > 1:
            raise ValueError(f"expected one label for each row in column {column!r}, got lists")
        if values.dtype.kind == "b":
            cells = list(map(str, values.tolist()))
        if cells is not None:
            return LabelColumn.from_cells(column, cells)
        return LabelColumn.from_array(column, values, in_table=True)

    def rows(self, columns: Sequence[str]) -> InMemoryRows:
        """Return columns side by side (N, columns), lists as several columns."""
        parts = [self._column(column).values for column in columns]
        array = np.concatenate([x if x.ndim > 1 else x[:, None] for x in parts], 1)
        if array.dtype == object or not np.isfinite(array).all():
            missing = {column: self._not_numbers(column) for column in columns}
            reject_missing(missing, self.path, in_memory=True)
        return InMemoryRows(array)

    def _not_numbers(self, column: str) -> Array:
        values, cells = self._column(column)
        if values.dtype == object and cells is not None:
            return np.flatnonzero([not is_number(cell) for cell in cells])
        return np.flatnonzero(~np.isfinite(values.reshape(len(values), -1)).all(1))

    def _column(self, column: str) -> _Column:
        if column not in self._read:
            self._read[column] = self._convert(column)
        return self._read[column]

    def _convert(self, column: str) -> _Column:
        array = np.asarray(self.frame[self._key_of[column]])
        if array.ndim > 1 or (array.dtype == object and any(isinstance(x, _NESTED) for x in array)):
            return _Column(_stack(array, column, self.path), None)
        if array.dtype.kind in "biuf":
            return _Column(array, None)
        cells = ["" if value is None else str(value).strip() for value in array]
        cells = ["" if cell == _NO_TIME else cell for cell in cells]
        return _Column(column_values(cells), cells)

    @cached_property
    def _read(self) -> dict[str, _Column]:
        return {}

    @cached_property
    def _key_of(self) -> dict[str, Any]:
        return dict(zip(self.names, self._keys, strict=True))

    @cached_property
    def _keys(self) -> Sequence[Any]:
        """What the columns are called: text, numbers or something else."""
        # The columns of an Arrow table are arrays.
        return list(getattr(self.frame, "column_names", self.frame.columns))


def _stack(array: Array, column: str, path: Path) -> Array:
    """Return a column of lists of numbers as (N, length)."""
    with suppress(ValueError):  # lists of different lengths
        stacked = np.array(array.tolist())
        if stacked.ndim == 2 and stacked.dtype.kind in "biuf":
            return stacked
    raise ValueError(
        f"expected numbers, or lists of numbers of equal length, in column {column!r} of {path}, "
        f"got {array[0]!r} in the first row: leave the column out of the table"
    )
