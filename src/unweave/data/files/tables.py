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
    Held,
    Rows,
    Table,
    optional,
    reading,
    refuse_bombs,
)


@dataclass(frozen=True)
class ParquetFile:
    """A Parquet file: numeric columns, and columns of lists of one length.

    The name of an array is that of a column, or of several, joined by commas.
    """

    path: Path
    tabular: ClassVar[bool] = True

    @property
    def names(self) -> list[str]:
        """The columns."""
        with reading(str(self.path)):
            return _distinct(list(self._open().schema_arrow.names), self.path)

    def rows(self, name: str) -> Rows:
        """Columns side by side, (N, columns); one of lists gives its lists, (N, length)."""
        columns = _columns(name, self.names, self.path)
        where = f"{name!r} of {self.path}"
        with reading(where):
            file = self._open()
            groups = [file.metadata.row_group(g) for g in range(file.num_row_groups)]
            ends = np.cumsum([0, *(each.num_rows for each in groups)])
            values = sum(_values(each, columns) for each in groups)
            refuse_bombs(where, self.path.stat().st_size, 8 * values)

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
        return Table(self.path, (int(ends[-1]), first.shape[1]), first.dtype, grain, read)

    def _open(self) -> Any:
        optional("pyarrow", "Parquet", self.path)
        return import_module("pyarrow.parquet").ParquetFile(self.path)


@dataclass(frozen=True)
class CsvFile:
    """A CSV file: a line of names, then a line for each observation.

    Values are separated by commas, semicolons or tabs. Where the first line is numbers it is an
    observation too, and the columns are column0, column1, ..., unless it counts the columns, as
    0,1,2 does; the name of an array is that of a column, or of several, joined by commas.
    """

    path: Path
    tabular: ClassVar[bool] = True

    @property
    def names(self) -> list[str]:
        """The columns."""
        return self._table[0]

    @property
    def counted(self) -> bool:
        """Whether the first line counts the columns from 0, and is taken for their names."""
        return _counts(self.names)

    def rows(self, name: str) -> Rows:
        """Columns side by side, (N, columns): numbers where all are, else numbers and text."""
        found = [self._values(column) for column in _columns(name, self.names, self.path)]
        mixed = len({each.dtype.kind == "U" for each in found}) > 1
        return Held(np.stack([each.astype(object) if mixed else each for each in found], 1))

    def stray(self, column: str) -> str:
        """Where a column has the first cell that is not a number though others are; "" if none."""
        cells = self._cells(column)
        place = stray(cells)
        return "" if place is None else self._where(column, place)

    def _cells(self, column: str) -> list[str]:
        names, lines = self._table
        place = names.index(column)
        return [line[place] for _, line in lines]

    def _where(self, column: str, place: int) -> str:
        """The line and column of a cell, and what it holds."""
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
        """The names of the columns, and the lines of values with their numbers."""
        if (size := self.path.stat().st_size) > MOST:
            raise ValueError(
                f"expected a CSV file of at most {MOST:,} bytes, got {self.path} of {size:,}: save "
                "it as Parquet or .npy, which are read as they are needed"
            )
        lines = read_csv(self.path)
        names = _named(lines[0][1])
        return _distinct(names, self.path), lines[1:] if _heads(lines[0][1]) else lines


def read_csv(path: Path) -> list[tuple[int, list[str]]]:
    """The lines of a CSV file and their numbers; commas, semicolons or tabs part values."""
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            first = file.readline()
            file.seek(0)
            part = max(",;\t", key=first.count)
            reader = csv.reader(file, delimiter=part, strict=True)
            lines = [(reader.line_num, line) for line in reader if line]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise ValueError(f"expected a CSV file at {path}, got {error}: save it again") from None
    if len(lines) < 2:
        raise ValueError(f"expected a line of names and lines of values in {path}, got too few")
    names = _named(lines[0][1])
    for number, line in lines:
        if len(line) != len(names):
            raise ValueError(
                f"{path}, line {number}: expected {len(names)} values as in its first line, got "
                f"{len(line)}: a value is missing, or text with a {part!r} in it is not in quotes"
            )
        empty = [name for name, cell in zip(names, line, strict=True) if not cell.strip()]
        if empty and number == lines[0][0]:
            raise ValueError(
                f"{path}, line {number}: expected a name of every column, got none of column "
                f"{names.index('') + 1}: name it; pandas leaves its index out with index=False"
            )
        if empty:
            raise ValueError(
                f"{path}, line {number}, column {empty[0]!r}: expected a value, got an empty cell: "
                "fill it in, or remove the line"
            )
    return lines


def stray(cells: Sequence[str]) -> int | None:
    """The place of the first cell that is not a number where others are; None if there is none.

    >>> stray(["1", "2.5", "n/a"]), stray(["1", "2"]), stray(["red", "blue"])
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
    """Values of a column: whole numbers if all are, else numbers if all are, else text."""
    for kind in (np.int64, np.float64):
        try:
            return np.array(texts).astype(kind)
        except (ValueError, OverflowError):
            continue
    return np.array(texts)


def columns_of(name: str, known: Sequence[str] = ()) -> list[str]:
    """The columns that a name stands for: one by its name, or several, parted by commas.

    Among several, one with a comma in its name is in quotes.

    >>> columns_of('height, "a,b"')
    ['height', 'a,b']
    """
    if name in known:
        return [name]
    return [column.strip() for column in next(csv.reader([name], skipinitialspace=True), [""])]


def name_of(columns: Sequence[str]) -> str:
    """The name that stands for columns.

    >>> name_of(["height", "a,b"])
    'height,"a,b"'
    """
    line = io.StringIO()
    csv.writer(line, lineterminator="").writerow(columns)
    return line.getvalue()


def _heads(first: Sequence[str]) -> bool:
    """Whether the first line of a CSV file names its columns: it counts them, or has text."""
    return _counts(first) or column_values(first).dtype.kind == "U"


def _named(first: Sequence[str]) -> list[str]:
    """The columns of a CSV file by its first line."""
    if _heads(first):
        return [name.strip() for name in first]
    return [f"column{number}" for number in range(len(first))]


def _counts(names: Sequence[str]) -> bool:
    """Whether names are 0, 1, 2, ..., as pandas names columns that have no names."""
    return len(names) > 1 and list(names) == [str(number) for number in range(len(names))]


def _distinct(names: list[str], path: Path) -> list[str]:
    """Names of columns, each of which is there once."""
    if twice := [name for name, count in Counter(names).items() if count > 1]:
        raise ValueError(
            f"expected columns of distinct names in {path}, got {', '.join(twice)} more than once: "
            "rename them"
        )
    return names


def _columns(name: str, known: list[str], path: Path) -> list[str]:
    """The columns that a name stands for, if they are there."""
    columns = columns_of(name, known)
    for column in columns:
        if column not in known:
            raise ValueError(f"{path} holds no column {column!r}: {nearest(column, known)}")
    return columns


def _values(group: Any, columns: Sequence[str]) -> int:
    """How many values columns have in a group of rows; those of their lists count each."""
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
                f"{where}: column {name!r} is of {whole.type}; expected numbers, or lists of one "
                "length of them"
            )
        parts.append(flat.reshape(len(whole), -1) if lists else flat[:, None])
    return parts[0] if len(parts) == 1 else np.concatenate(parts, axis=1)
