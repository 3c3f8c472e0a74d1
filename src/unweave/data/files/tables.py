"""Tables: columns of Parquet and CSV files."""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from unweave.core.hints import nearest
from unweave.data.files.rows import (
    MOST,
    Array,
    InMemoryRows,
    ReaderRows,
    Rows,
    optional_module,
    reading,
    reject_bombs,
)


@dataclass(frozen=True)
class ParquetFile:
    """A Parquet file: numeric columns, and columns of lists of equal length.

    An array is one column, or several whose names are joined by commas.
    """

    path: Path
    tabular: ClassVar[bool] = True

    @property
    def names(self) -> list[str]:
        """Names of the columns."""
        with reading(str(self.path)):
            return _distinct(list(self._open().schema_arrow.names), self.path)

    def rows(self, name: str) -> Rows:
        """Return columns side by side (N, columns), or a column of lists as (N, length)."""
        columns = _known_columns(name, self.names, self.path)
        where = f"{name!r} of {self.path}"
        with reading(where):
            file = self._open()
            groups = [file.metadata.row_group(g) for g in range(file.num_row_groups)]
            ends = np.cumsum([0, *(each.num_rows for each in groups)])
            values = sum(_value_count(each, columns) for each in groups)
            reject_bombs(where, self.path.stat().st_size, 8 * values)

            def group(number: int) -> Array:
                table = self._open().read_row_group(number, columns=columns)
                return _side_by_side([table.column(c) for c in columns], columns, where)

            first = group(0) if len(ends) > 1 else np.empty((0, 0), np.float32)

        def read(start: int, stop: int) -> Array:
            parts = [np.empty((0, first.shape[1]), first.dtype)]
            for number in range(len(ends) - 1):
                low, high = max(start, int(ends[number])), min(stop, int(ends[number + 1]))
                if low < high:
                    part = group(number)[low - int(ends[number]) : high - int(ends[number])]
                    if part.shape[1] != first.shape[1]:
                        raise ValueError(
                            f"lists of {first.shape[1]} and of {part.shape[1]} numbers"
                        )
                    parts.append(part.astype(first.dtype, copy=False))
            return np.concatenate(parts)

        grain = max(1, int(np.diff(ends).max(initial=1)))
        return ReaderRows(self.path, (int(ends[-1]), first.shape[1]), first.dtype, grain, read)

    def _open(self) -> Any:
        optional_module("pyarrow", "Parquet", self.path)
        return import_module("pyarrow.parquet").ParquetFile(self.path)


@dataclass(frozen=True)
class CsvFile:
    """A CSV file: a line of names, then a line for each observation.

    Values are separated by commas, semicolons or tabs. If the first line has only numbers, it is an
    observation and the columns are named column0, column1, ..., unless it numbers the columns, as
    0,1,2 does. An array is one column, or several whose names are joined by commas.
    """

    path: Path
    tabular: ClassVar[bool] = True

    @property
    def names(self) -> list[str]:
        """Names of the columns."""
        return self._table[0]

    @property
    def numbered(self) -> bool:
        """Whether the first line numbers the columns from 0, and is read as their names."""
        return _are_numbered(self.names)

    def rows(self, name: str) -> Rows:
        """Return columns side by side (N, columns): numbers, text, or objects if both occur."""
        columns = _known_columns(name, self.names, self.path)
        arrays = [self._values(column) for column in columns]
        if len({array.dtype.kind == "U" for array in arrays}) > 1:
            arrays = [array.astype(object) for array in arrays]
        return InMemoryRows(np.stack(arrays, 1))

    def first_text(self, column: str) -> str:
        """Locate the first cell that is text among numbers of a column; "" if there is none."""
        place = first_text(self._cells(column))
        return "" if place is None else self._where(column, place)

    def _cells(self, column: str) -> list[str]:
        names, lines = self._table
        place = names.index(column)
        return [line[place] for _, line in lines]

    def _where(self, column: str, place: int) -> str:
        """Describe a cell that should be a number: its line, column and content."""
        number, cell = self._table[1][place][0], self._cells(column)[place]
        return f"line {number}, column {column!r}: expected a number, got {cell!r}"

    def _values(self, column: str) -> Array:
        values = column_values(self._cells(column))
        if values.dtype.kind == "f" and not np.isfinite(values).all():
            where = self._where(column, int((~np.isfinite(values)).argmax()))
            raise ValueError(f"{self.path}, {where}: fill it in, or remove the line")
        return values

    @cached_property
    def _table(self) -> tuple[list[str], list[tuple[int, list[str]]]]:
        """The names of the columns, and the lines of values with their line numbers."""
        if (size := self.path.stat().st_size) > MOST:
            raise ValueError(
                f"expected a CSV file of at most {MOST:,} bytes, got {self.path} of {size:,}: save "
                "it as Parquet or .npy, which can be streamed"
            )
        lines = read_csv(self.path)
        names = _column_names(lines[0][1])
        return _distinct(names, self.path), lines[1:] if _is_header(lines[0][1]) else lines


def read_csv(path: Path) -> list[tuple[int, list[str]]]:
    """Read the lines of a CSV file, separated by commas, semicolons or tabs, with line numbers."""
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            first = file.readline()
            file.seek(0)
            delimiter = max(",;\t", key=first.count)
            reader = csv.reader(file, delimiter=delimiter, strict=True)
            lines = [(reader.line_num, line) for line in reader if line]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise ValueError(f"expected a CSV file at {path}, got {error}: save it again") from None
    if len(lines) < 2:
        raise ValueError(f"expected a line of names and lines of values in {path}, got too few")
    names = _column_names(lines[0][1])
    for number, line in lines:
        if len(line) != len(names):
            raise ValueError(
                f"{path}, line {number}: expected {len(names)} values as in its first line, got "
                f"{len(line)}: a value is missing, or text that contains {delimiter!r} is not in "
                "quotes"
            )
        empty = [name for name, cell in zip(names, line, strict=True) if not cell.strip()]
        if empty and number == lines[0][0]:
            raise ValueError(
                f"{path}, line {number}: expected a name for every column, got none for column "
                f"{names.index('') + 1}: name it; pandas omits its index with index=False"
            )
        if empty:
            raise ValueError(
                f"{path}, line {number}, column {empty[0]!r}: expected a value, got an empty cell: "
                "fill it in, or remove the line"
            )
    return lines


def first_text(cells: Sequence[str]) -> int | None:
    """Return the place of the first cell that is text among numbers; None if there is none.

    >>> first_text(["1", "2.5", "n/a"]), first_text(["1", "2"]), first_text(["red", "blue"])
    (2, None, None)
    """
    if column_values(cells).dtype.kind != "U":
        return None
    words = [not _is_number(cell) for cell in cells]
    return None if all(words) else words.index(True)


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True


def column_values(texts: Sequence[str]) -> Array:
    """Convert a column to integers if all cells are, otherwise to numbers if possible, or text."""
    for kind in (np.int64, np.float64):
        try:
            return np.array(texts).astype(kind)
        except (ValueError, OverflowError):
            continue
    return np.array(texts)


def split_columns(name: str, known: Sequence[str] = ()) -> list[str]:
    """Split the names of columns at commas, unless a column has that very name.

    Names that contain a comma are in quotes.

    >>> split_columns('height, "a,b"')
    ['height', 'a,b']
    """
    if name in known:
        return [name]
    return [column.strip() for column in next(csv.reader([name], skipinitialspace=True), [""])]


def join_columns(columns: Sequence[str]) -> str:
    """Join the names of columns by commas.

    >>> join_columns(["height", "a,b"])
    'height,"a,b"'
    """
    line = io.StringIO()
    csv.writer(line, lineterminator="").writerow(columns)
    return line.getvalue()


def _is_header(first: Sequence[str]) -> bool:
    """Return whether the first line of a CSV file numbers its columns or has text."""
    return _are_numbered(first) or column_values(first).dtype.kind == "U"


def _column_names(first: Sequence[str]) -> list[str]:
    """Return the names of the columns of a CSV file by its first line."""
    if _is_header(first):
        return [name.strip() for name in first]
    return [f"column{number}" for number in range(len(first))]


def _are_numbered(names: Sequence[str]) -> bool:
    """Return whether names are 0, 1, 2, ..., as pandas names columns without names."""
    return len(names) > 1 and list(names) == [str(number) for number in range(len(names))]


def _distinct(names: list[str], path: Path) -> list[str]:
    """Return the names of columns after checking that they are distinct."""
    if twice := [name for name, count in Counter(names).items() if count > 1]:
        raise ValueError(
            f"expected columns with distinct names in {path}, got {', '.join(twice)} more than "
            "once: rename them"
        )
    return names


def _known_columns(name: str, known: list[str], path: Path) -> list[str]:
    """Split the names of columns and check that the file has them."""
    columns = split_columns(name, known)
    for column in columns:
        if column not in known:
            raise ValueError(f"{path} has no column {column!r}: {nearest(column, known)}")
    return columns


def _value_count(group: Any, columns: Sequence[str]) -> int:
    """Count the values of columns in a row group, including those in lists."""
    chunks = [group.column(number) for number in range(group.num_columns)]
    starts = tuple(f"{column}." for column in columns)
    return sum(c.num_values for c in chunks if f"{c.path_in_schema}.".startswith(starts))


def _side_by_side(columns: Sequence[Any], names: Sequence[str], where: str) -> Array:
    parts = []
    for column, name in zip(columns, names, strict=True):
        if column.null_count:
            raise ValueError(f"{where}: column {name!r} has {column.null_count} missing values")
        whole = column.combine_chunks()
        lists = "list" in str(whole.type)
        flat = (whole.flatten() if lists else whole).to_numpy(zero_copy_only=False)
        lengths = {len(each) for each in whole} if lists else {1}
        if flat.dtype.kind not in ("biuf" if lists else "biufO") or len(lengths) > 1:
            raise ValueError(
                f"{where}: expected numbers, or lists of numbers of equal length, in column "
                f"{name!r}, got {whole.type}"
            )
        parts.append(flat.reshape(len(whole), -1) if lists else flat[:, None])
    return parts[0] if len(parts) == 1 else np.concatenate(parts, axis=1)
