"""Tables in memory, such as DataFrames of pandas and polars, read like CSV files."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from unweave.data.files.csv_text import is_number
from unweave.data.files.labels import MISSING_WORDS, LabelColumn, column_values
from unweave.data.files.rows import Array, InMemoryRows
from unweave.data.files.tables import check_distinct, expand_columns, reject_missing

_NO_TIME = "NaT"  # as pandas writes a missing time


def is_frame(value: object) -> bool:
    """Return whether a value is a table with named columns, as those of pandas and polars are."""
    return hasattr(value, "columns") and hasattr(value, "__getitem__") and hasattr(value, "__len__")


@dataclass(frozen=True, eq=False)
class Frame:
    """A table in memory, whose columns can be converted to NumPy.

    Columns of numbers and booleans are numbers. All others are read by the text of their cells, as
    in a CSV file: numbers, or text.
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
        if self._values(column).dtype != object:
            return False
        known = [cell for cell in self._cells(column) if cell not in MISSING_WORDS]
        return 2 * sum(map(is_number, known)) < len(known)

    def labels(self, column: str) -> LabelColumn:
        """Return a column as labels."""
        array = self._array(column)
        if array.dtype.kind in "biuf":
            return LabelColumn.from_array(column, array, in_table=True)
        return LabelColumn.from_cells(column, self._cells(column))

    def rows(self, name: str) -> InMemoryRows:
        """Return columns side by side (N, columns)."""
        columns = expand_columns(name, self.names, self.path)
        missing = {column: self._not_numbers(column) for column in columns}
        reject_missing(missing, self.path, in_memory=True)
        return InMemoryRows(np.stack([self._values(column) for column in columns], 1))

    def _not_numbers(self, column: str) -> Array:
        values = self._values(column)
        if values.dtype == object:
            return np.flatnonzero([not is_number(cell) for cell in self._cells(column)])
        return np.flatnonzero(~np.isfinite(values))

    def _values(self, column: str) -> Array:
        array = self._array(column)
        return array if array.dtype.kind in "biuf" else column_values(self._cells(column))

    def _cells(self, column: str) -> list[str]:
        texts = ("" if value is None else str(value).strip() for value in self._array(column))
        return ["" if text == _NO_TIME else text for text in texts]

    def _array(self, column: str) -> Array:
        return np.asarray(self.frame[self._keys[self.names.index(column)]])

    @cached_property
    def _keys(self) -> Sequence[Any]:
        """What the columns are called: text, numbers or something else."""
        # The columns of an Arrow table are arrays.
        return list(getattr(self.frame, "column_names", self.frame.columns))
