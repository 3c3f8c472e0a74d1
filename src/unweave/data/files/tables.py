"""Tables: columns of Parquet and CSV files."""

import csv
import dataclasses
import fnmatch
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from unweave.core.hints import nearest
from unweave.data.files.csv_text import (
    CsvText,
    TextCells,
    are_numbered,
    has_decimal_commas,
    is_number,
    may_be_grouped,
    point,
    read_csv,
)
from unweave.data.files.labels import MISSING_WORDS, LabelColumn, column_values
from unweave.data.files.parquet_footer import RowGroup, read_row_groups
from unweave.data.files.rows import (
    MOST,
    Array,
    InMemoryRows,
    ReaderRows,
    Rows,
    describe_missing,
    optional_module,
    reading_arrays,
    reject_bombs,
)

# Beginnings of the names of types of Parquet.
_NUMBERS = ("int", "uint", "float", "halffloat", "double", "decimal", "bool")
_TEXT = ("string", "large_string")


@dataclass(frozen=True)
class ParquetFile:
    """A Parquet file: numeric columns, columns of text, and columns of lists of equal length.

    Dates, times and other values that can be written as text are read as text. So are truth values,
    unless they are asked for as numbers.
    """

    path: Path

    @property
    def names(self) -> list[str]:
        """Names of the columns."""
        return list(self._types)

    @property
    def count(self) -> int:
        """The number of rows."""
        with reading_arrays(str(self.path)):
            return int(self._open().metadata.num_rows)

    def is_text(self, column: str) -> bool:
        """Return whether a column holds text, truth values or anything else but numbers."""
        kind = self._types[column]
        return kind == "bool" or not (kind.startswith(_NUMBERS) or "list" in kind)

    def labels(self, column: str) -> LabelColumn:
        """Return a column as labels; nulls are missing."""
        with reading_arrays(f"{column!r} of {self.path}"):
            whole = self._column(column)
            if "list" in str(whole.type):
                raise ValueError(
                    f"expected one label for each row in column {column!r}, got {whole.type}"
                )
            values = _plain(whole, self._types[column], column).combine_chunks()
            known = np.array(values.is_valid().to_numpy(zero_copy_only=False))
            plain = values.drop_null().to_numpy(zero_copy_only=False)
            if plain.dtype.kind == "b":
                plain = plain.astype(str)
        labels = LabelColumn.from_array(column, plain, in_table=True)
        known[known] = labels.known
        return dataclasses.replace(labels, known=known)

    def rows(self, columns: Sequence[str]) -> Rows:
        """Return columns side by side (N, columns), or a column of lists as (N, length)."""
        where = str(self.path)
        with reading_arrays(where):
            groups = self._row_groups
            ends = np.cumsum([0, *(each.rows for each in groups)])

            def group(number: int) -> Array:
                table = self._read(columns, [number])
                if any(table.column(c).null_count for c in columns):
                    self._reject_missing(columns)
                plain = [_plain(table.column(c), self._types[c], c) for c in columns]
                return _side_by_side(plain, columns, where)

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

    def _column(self, name: str) -> Any:
        """Read a whole column, unless it is a likely bomb."""
        return self._read([name], range(len(self._row_groups))).column(name)

    def _read(self, columns: Sequence[str], groups: Iterable[int]) -> Any:
        """Read columns of row groups, text as dictionaries: a long word that repeats is a bomb."""
        text = [column for column in columns if self._types[column] in _TEXT]
        table = self._open(text).read_row_groups(list(groups), columns=list(columns))
        size = sum(_text_size(table.column(column)) for column in text)
        reject_bombs(str(self.path), self.path.stat().st_size, size)
        return table

    @cached_property
    def _row_groups(self) -> list[RowGroup]:
        """The row groups, after rejecting files that are likely bombs."""
        groups = read_row_groups(self.path)
        values = sum(count for group in groups for _, count in group.values)
        reject_bombs(str(self.path), self.path.stat().st_size, 8 * values)
        return groups

    def _reject_missing(self, columns: Sequence[str]) -> None:
        """Reject columns of observations in which values are null."""
        missing: dict[str, Array] = {}
        for column in columns:
            nulls = self._column(column).is_null(nan_is_null=True)
            missing[column] = np.flatnonzero(nulls.to_numpy())
        reject_missing(missing, self.path)

    @cached_property
    def _types(self) -> dict[str, str]:
        with reading_arrays(str(self.path)):
            schema = self._open().schema_arrow
            check_distinct(schema.names, self.path)
            kinds = {name: schema.field(name).type for name in schema.names}
            # A categorical column, as pandas writes it, has the type of its values.
            return {
                name: str(kind.value_type if str(kind).startswith("dictionary") else kind)
                for name, kind in kinds.items()
            }

    def _open(self, dictionaries: Sequence[str] = ()) -> Any:
        optional_module("pyarrow", "Parquet", self.path)
        parquet = import_module("pyarrow.parquet")
        return parquet.ParquetFile(self.path, read_dictionary=list(dictionaries))


@dataclass(frozen=True)
class CsvFile:
    """A CSV file: a line of names, then a line for each observation.

    Values are separated by commas, semicolons or tabs. Unless they are separated by commas, numbers
    may have decimal commas, as 23,25 and 1.234,5 do. If the first line has only numbers, it is an
    observation and the columns are named column0, column1, ..., unless it numbers the columns, as
    0,1,2 does. A first column without a name is called row.
    """

    path: Path

    @property
    def names(self) -> list[str]:
        """Names of the columns."""
        return self._table.names

    @property
    def numbered(self) -> bool:
        """Whether the first line numbers the columns from 0, and is read as their names."""
        return are_numbered(self.names)

    @property
    def unnamed(self) -> bool:
        """Whether the first line has only numbers, and is read as an observation."""
        return not self._table.named

    @property
    def decimal_commas(self) -> list[str]:
        """The columns whose decimal commas are read as points."""
        return [name for name, comma in self._commas.items() if comma]

    @property
    def doubtful_commas(self) -> list[str]:
        """The columns of text that may be numbers with decimal commas, or with thousands."""
        return [name for name, comma in self._commas.items() if comma is None]

    @property
    def doubtful_points(self) -> list[str]:
        """The columns, in a file of decimal commas, whose points may separate thousands."""
        if not self.decimal_commas:
            return []
        others = [name for name, comma in self._commas.items() if comma is False]
        return [name for name in others if may_be_grouped(self._texts[name])]

    @property
    def count(self) -> int:
        """The number of rows."""
        return len(self._table.lines)

    def is_text(self, column: str) -> bool:
        """Return whether a column is text: fewer than half of its cells are surely numbers."""
        if self._commas[column] is None:
            return True
        if self._values(column).dtype != object:
            return False
        known = [cell for cell in self.cells(column) if cell.strip() not in MISSING_WORDS]
        return 2 * sum(map(is_number, known)) < len(known)

    def labels(self, column: str) -> LabelColumn:
        """Return a column as labels; see `MISSING_WORDS` for cells that are missing."""
        return LabelColumn.from_cells(column, self.cells(column))

    def rows(self, columns: Sequence[str]) -> Rows:
        """Return columns side by side (N, columns): numbers, or objects if there is text."""
        self._reject_missing(columns)
        return InMemoryRows(np.stack([self._values(column) for column in columns], 1))

    def first_text(self, column: str) -> str:
        """Locate the first cell that is text among numbers of a column; "" if there is none."""
        place = first_text(self.cells(column))
        return "" if place is None else self._where(column, place)

    def cells(self, column: str) -> Sequence[str]:
        """Return the cells of a column."""
        return self._columns[column]

    def line(self, row: int) -> int:
        """Return the number of the line of a row."""
        return self._table.lines[row]

    def _where(self, column: str, place: int) -> str:
        """Describe a cell that should be a number: its line, column and content."""
        cell = self.cells(column)[place]
        content = repr(cell) if cell.strip() else "an empty cell"
        return f"line {self.line(place)}, column {column!r}: expected a number, got {content}"

    def _reject_missing(self, columns: Sequence[str]) -> None:
        """Reject columns of observations in which cells are missing, or text among numbers."""
        missing = {column: self._not_numbers(column) for column in columns}
        if (first := _first_missing(missing)) is not None:
            row, column = first
            raise ValueError(f"{self.path}, {self._where(column, row)}; {_missing_text(missing)}")

    def _not_numbers(self, column: str) -> Array:
        """Return the rows of a column of numbers that have none; no rows for a column of text."""
        values = self._values(column)
        if values.dtype.kind == "f":
            return np.flatnonzero(~np.isfinite(values))
        if values.dtype == object and not self.is_text(column):
            return np.flatnonzero([not is_number(cell) for cell in self.cells(column)])
        return np.empty(0, np.int64)

    def _values(self, column: str) -> Array:
        if column not in self._parsed:
            self._parsed[column] = column_values(self.cells(column))
        return self._parsed[column]

    @cached_property
    def _parsed(self) -> dict[str, Array]:
        return {}

    @cached_property
    def _columns(self) -> dict[str, Sequence[str]]:
        """The cells of each column; decimal commas of numbers are points."""
        columns: dict[str, Sequence[str]] = dict(self._texts)
        for name in self.decimal_commas:
            columns[name] = [point(cell) for cell in columns[name]]
        return columns

    @cached_property
    def _texts(self) -> dict[str, TextCells]:
        """The cells of each column as they are written."""
        return dict(zip(self.names, self._table.columns, strict=True))

    @cached_property
    def _commas(self) -> dict[str, bool | None]:
        """Whether each column has decimal commas; None if that is in doubt."""

        def decide(delimiter: str) -> dict[str, bool | None]:
            return {name: has_decimal_commas(each, delimiter) for name, each in self._texts.items()}

        commas = decide(self._table.delimiter)
        # One column that surely has decimal commas tells what the commas of the others are.
        return decide(";") if True in commas.values() else commas

    @cached_property
    def _table(self) -> CsvText:
        if (size := self.path.stat().st_size) > MOST:
            raise ValueError(
                f"expected a CSV file of at most {MOST:,} bytes, got {self.path} of {size:,}: save "
                "it as Parquet or .npy, which can be streamed"
            )
        text = read_csv(self.path)
        check_distinct(text.names, self.path)
        return text


def first_text(cells: Sequence[str]) -> int | None:
    """Return the place of the first cell that is text among numbers; None if there is none.

    >>> first_text(["1", "2.5", "big"]), first_text(["1", "n/a"]), first_text(["red", "blue"])
    (2, None, None)
    """
    if column_values(cells).dtype != object:
        return None
    places = [n for n, cell in enumerate(cells) if cell.strip() not in MISSING_WORDS]
    words = [n for n in places if not is_number(cells[n])]
    return words[0] if 0 < len(words) < len(places) else None


def expand_columns(
    text: str, known: Sequence[str], path: Path, none_matches: bool = False
) -> list[str]:
    """Return the columns of a file that a text names, in order and once each.

    Names are joined by commas, and may be ranges or globs: 400..900 stands for the columns whose
    names are numbers from 400 to 900, first..last for those from one to another in the order of the
    file, and gene* for all that begin with gene.

    >>> expand_columns("5..9,b*", ["a", "5", "7.5", "10", "b1", "b2"], Path("a.csv"))
    ['5', '7.5', 'b1', 'b2']

    Args:
        text: names, ranges and globs.
        known: names of the columns of the file, which are never read as a range or glob.
        path: the file, for errors.
        none_matches: whether a name, range or glob may match no column.
    """
    columns: dict[str, None] = {}
    names = set(known)
    for item in split_columns(text, known):
        matches = [item] if item in names else _matching_columns(item, known)
        if not matches and not none_matches:
            hint = nearest(item, known)
            raise ValueError(f"{path} has no column {item!r}: {hint}")
        columns |= dict.fromkeys(matches)
    return list(columns)


def _matching_columns(item: str, known: Sequence[str]) -> list[str]:
    """Return the columns in a range, or that match a glob."""
    first, dots, last = (end.strip() for end in item.partition(".."))
    if dots and is_number(first) and is_number(last):
        low, high = float(first), float(last)
        return [name for name in known if is_number(name) and low <= float(name) <= high]
    if dots and first in known and last in known:
        return list(known[known.index(first) : known.index(last) + 1])
    globs = any(sign in item for sign in "*?[")
    return [name for name in known if globs and fnmatch.fnmatchcase(name, item)]


def split_columns(name: str, known: Sequence[str] = ()) -> list[str]:
    """Split the names of columns at commas, unless a column has that very name.

    Names that contain a comma, or begin or end with a space, are in quotes.

    >>> split_columns('height , "a,b"')
    ['height', 'a,b']
    """
    if name in known:
        return [name]
    try:
        items = next(csv.reader([name], skipinitialspace=True), [""])
    except csv.Error:
        raise ValueError(
            f"expected names of columns, got {name!r}: put a name with a line break in quotes"
        ) from None
    return [item if item in known else item.strip() for item in items]


def join_columns(columns: Sequence[str]) -> str:
    """Join the names of columns by commas, as `split_columns` reads them.

    >>> join_columns(["height", "a,b"])
    'height,"a,b"'
    """
    return ",".join(map(_quoted, columns))


def _quoted(name: str) -> str:
    plain = name and name == name.strip() and not any(sign in name for sign in ',"\r\n')
    return name if plain else '"{}"'.format(name.replace('"', '""'))


def reject_missing(missing: dict[str, Array], path: Path, in_memory: bool = False) -> None:
    """Reject columns of observations that have no number in some rows, which are given for each."""
    if (first := _first_missing(missing)) is not None:
        raise ValueError(
            f"{path}, row {first[0]}, column {first[1]!r}: expected a number, got none; "
            f"{_missing_text(missing, in_memory)}"
        )


def _first_missing(missing: dict[str, Array]) -> tuple[int, str] | None:
    """Return the first row in which columns have no value, and the column; None if all have one."""
    firsts = [(int(rows[0]), column) for column, rows in missing.items() if len(rows)]
    return min(firsts, key=lambda each: each[0], default=None)


def _missing_text(missing: dict[str, Array], in_memory: bool = False) -> str:
    """Say how many values are missing, by the rows of each column in which they are."""
    rows = np.concatenate(list(missing.values()))
    columns = [join_columns([name]) for name, each in missing.items() if len(each)]
    removal = "table.dropna() of pandas" if in_memory else ""
    return describe_missing(len(rows), len(np.unique(rows)), columns, removal)


def check_distinct(names: list[str], path: Path) -> list[str]:
    """Return names of columns, after rejecting those that are not distinct."""
    if twice := [name for name, count in Counter(names).items() if count > 1]:
        raise ValueError(
            f"expected columns with distinct names in {path}, got {', '.join(twice)} more than "
            "once: rename them"
        )
    return names


def _plain(column: Any, kind: str, name: str) -> Any:
    """Return decimals as floats, and values that are neither numbers nor lists as text."""
    if kind.startswith("decimal"):
        return column.cast("float64")
    if kind.startswith((*_NUMBERS, *_TEXT)) or "list" in kind:
        return column
    try:
        return column.cast("string")
    except (NotImplementedError, ValueError):
        raise ValueError(
            f"column {name!r} of {kind} is neither numbers nor text: leave it out with "
            f"data.ignore={join_columns([name])}"
        ) from None


def _text_size(column: Any) -> int:
    """Return the bytes of a column of text that is read as dictionaries."""
    compute = import_module("pyarrow.compute")
    lengths = [
        compute.binary_length(c.dictionary).cast("int64").take(c.indices) for c in column.chunks
    ]
    return sum(compute.sum(each).as_py() or 0 for each in lengths)


def _side_by_side(columns: Sequence[Any], names: Sequence[str], where: str) -> Array:
    parts = []
    for column, name in zip(columns, names, strict=True):
        whole = column.combine_chunks()
        lists = "list" in str(whole.type)
        flat = (whole.flatten() if lists else whole).to_numpy(zero_copy_only=False)
        lengths = {len(each) for each in whole} if lists else {1}
        if flat.dtype.kind not in ("biuf" if lists else "biufO") or len(lengths) > 1:
            raise ValueError(
                f"{where}: expected numbers, or lists of numbers of equal length, in column "
                f"{name!r}, got {whole.type}: leave it out with data.ignore={join_columns([name])}"
            )
        parts.append(flat.reshape(len(whole), -1) if lists else flat[:, None])
    return parts[0] if len(parts) == 1 else np.concatenate(parts, axis=1)
