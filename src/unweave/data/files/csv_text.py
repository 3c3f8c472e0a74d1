"""The text of CSV files: encoding, delimiter, line of names, and decimal commas."""

import csv
import io
import itertools
import math
import re
from array import array
from collections.abc import Iterator, Sequence
from operator import itemgetter
from pathlib import Path
from typing import NamedTuple, final, overload

import numpy as np

from unweave.core.files import read_bytes
from unweave.core.text import unquoted
from unweave.data.files.labels import MISSING_WORDS, column_values
from unweave.data.files.rows import Array

_CELLS = 2**17  # that are texts of Python while a file is read
_FEWEST, _MOST_ROWS = 8, 256  # of a block; with more, garbage is collected all the time
_DECIMAL = re.compile(r"[+-]?\d*,\d+([eE][+-]?\d+)?")  # 23,25
_GROUPED = re.compile(r"[+-]?[1-9]\d{0,2}(\.\d{3})+(,\d+)?")  # 1.234,5 and 1.234
_THREE_DIGITS = re.compile(r"[+-]?[1-9]\d{0,2},\d{3}")  # 1,234, which English writes for 1234


class _Cells:
    """The cells of all columns, row by row, in blocks of joined text.

    A text of Python takes 50 bytes more than its characters.
    """

    def __init__(self, width: int) -> None:
        self.width = width
        self.step = max(_FEWEST, min(_MOST_ROWS, _CELLS // max(1, width)))  # rows of a block
        self.blocks: list[tuple[str, Array]] = []  # text, where each cell begins, and its end
        self.count = 0  # rows

    def add(self, rows: Sequence[Sequence[str]]) -> None:
        """Add a block of rows; all but the last have `step` rows."""
        cells = [*itertools.chain.from_iterable(rows)]
        ends = np.zeros(len(cells) + 1, np.uint32)
        np.cumsum(np.fromiter(map(len, cells), np.uint32, len(cells)), out=ends[1:])
        self.blocks.append(("".join(cells), ends))
        self.count += len(rows)


@final
class TextCells(Sequence[str]):
    """The cells of a column.

    >>> cells = _Cells(width=2)
    >>> cells.add([["1", "red"], ["2", ""]])
    >>> column = TextCells(cells, 1)
    >>> column[0], column[-1:], len(column)
    ('red', [''], 2)
    """

    def __init__(self, cells: _Cells, column: int) -> None:
        self._cells, self._column = cells, column

    def __len__(self) -> int:
        return self._cells.count

    @overload
    def __getitem__(self, place: int) -> str: ...

    @overload
    def __getitem__(self, place: slice) -> list[str]: ...

    def __getitem__(self, place: int | slice) -> str | list[str]:
        if isinstance(place, slice):
            return [self[each] for each in range(len(self))[place]]
        block, row = divmod(range(len(self))[place], self._cells.step)
        text, ends = self._cells.blocks[block]
        cell = row * self._cells.width + self._column
        return text[ends[cell] : ends[cell + 1]]

    def __iter__(self) -> Iterator[str]:
        width, column = self._cells.width, self._column
        for text, ends in self._cells.blocks:
            starts, stops = ends[column:-1:width].tolist(), ends[column + 1 :: width].tolist()
            yield from map(text.__getitem__, map(slice, starts, stops))


class CsvText(NamedTuple):
    """The names of the columns of a CSV file, and their cells."""

    names: list[str]
    columns: list[TextCells]
    lines: Sequence[int]  # the number of the line of each row in the file
    named: bool  # whether the names are those of the first line
    delimiter: str


def read_csv(path: Path) -> CsvText:
    """Read a CSV file in UTF-8, separated by commas, semicolons or tabs."""
    content = read_bytes(path)  # not line by line: a file that still grows would never end
    try:
        delimiter = _delimiter(_text_lines(content).readline())
        rows = _numbered_rows(content, delimiter)
        number, head = next(rows, (1, []))
        pointed = head if delimiter == "," else [point(cell) for cell in head]
        named = are_numbered(head) or column_values(pointed).dtype == object
        lines, columns, ragged = _columns(
            rows if named else itertools.chain([(number, head)], rows), len(head)
        )
    except UnicodeDecodeError:
        raise ValueError(_explain_encoding(path, content)) from None
    except csv.Error as error:
        raise ValueError(f"expected a CSV file at {path}, got {error}: save it again") from None
    if len(lines) + named < 2 and not ragged:
        raise ValueError(f"expected a line of names and lines of values in {path}, got too few")
    names = [name.strip() for name in head]
    if not named:
        names = [f"column{number}" for number in range(len(head))]
    elif not names[0] and "row" not in names:  # pandas and R do not name the names of the rows
        names[0] = "row"
    if ragged:
        place, count = ragged
        raise ValueError(
            f"{path}, line {place}: expected {len(names)} values as in its first line, got "
            f"{count}: a value is missing, or text that contains {delimiter!r} is not in quotes"
        )
    if "" in names:
        raise ValueError(
            f"{path}, line {number}: expected a name for every column, got none for column "
            f"{names.index('') + 1}: name it"
        )
    return CsvText(names, columns, lines, named, delimiter)


def _text_lines(content: bytes) -> io.TextIOWrapper:
    return io.TextIOWrapper(io.BytesIO(content), "utf-8-sig", newline="")


def _numbered_rows(content: bytes, delimiter: str) -> Iterator[tuple[int, list[str]]]:
    """Read the rows that have cells, each with the number of its (last) line."""
    reader = csv.reader(_text_lines(content), delimiter=delimiter, strict=True)
    numbered: Iterator[tuple[int, list[str]]] = enumerate(reader, 1)
    if b'"' in content or b"'" in content:  # a row may have several lines, a cell a quote
        numbered = ((reader.line_num, [*map(unquoted, row)]) for row in reader)
    return filter(itemgetter(1), numbered)


def _columns(
    rows: Iterator[tuple[int, list[str]]], width: int
) -> tuple[Sequence[int], list[TextCells], tuple[int, int] | None]:
    """Read rows: their lines, and cells by column; line and length of one of another width."""
    lines, cells, ragged = array("q"), _Cells(width), None
    while block := list(itertools.islice(rows, cells.step)):
        numbers, texts = zip(*block, strict=True)
        lines.extend(numbers)
        if not ragged and {*map(len, texts)} != {width}:
            ragged = next((line, len(row)) for line, row in block if len(row) != width)
        if not ragged:
            cells.add(texts)
    return lines, [TextCells(cells, column) for column in range(width)], ragged


def is_number(cell: str) -> bool:
    """Return whether a cell is a finite number."""
    try:
        return math.isfinite(float(cell))
    except ValueError:
        return False


def are_numbered(names: Sequence[str]) -> bool:
    """Return whether names are 0, 1, 2, ..., as pandas names columns without names."""
    return len(names) > 1 and list(names) == [str(number) for number in range(len(names))]


def has_decimal_commas(cells: Sequence[str], delimiter: str) -> bool | None:
    """Return whether the numbers of a column have decimal commas; None if that is in doubt.

    At least half of the cells have to be numbers then. In doubt are 1.234 beside 23,25, which may
    be 1234, and columns of a tab-separated file whose numbers all look like 1,234.

    >>> [has_decimal_commas(cells, ";") for cells in (["2,5", "1"], ["a,b"], ["1.234", "2,5"])]
    [True, False, None]
    """
    if delimiter == "," or not any("," in cell for cell in cells):
        return False
    texts = [text for cell in cells if (text := cell.strip()) not in MISSING_WORDS]
    readable = [text for text in texts if is_number(point(text))]
    numbers = [text for text in readable if "," in text]
    if not numbers or 2 * len(readable) < len(texts):
        return False
    grouped = any("." in text for text in numbers)
    points = [text for text in texts if "." in text and is_number(text)]
    unclear = any(bool(_GROUPED.fullmatch(text)) != grouped for text in points)
    english = delimiter == "\t" and all(map(_THREE_DIGITS.fullmatch, numbers))
    return None if unclear or english else True


def may_be_grouped(cells: Sequence[str]) -> bool:
    """Return whether all points of a column may separate thousands, as in 1.234.

    >>> may_be_grouped(["1.234", "12"]), may_be_grouped(["1.234", "0.5"]), may_be_grouped(["12"])
    (True, False, False)
    """
    points = [cell.strip() for cell in cells if "." in cell]
    return bool(points) and all(map(_GROUPED.fullmatch, points))


def point(cell: str) -> str:
    """Write a number that has a decimal comma with a point; leave other cells as they are.

    >>> point("23,25"), point("1.234,5"), point("1.234.567"), point("1,2,3")
    ('23.25', '1234.5', '1234567', '1,2,3')
    """
    text = cell.strip()
    if _DECIMAL.fullmatch(text):
        return text.replace(",", ".")
    if _GROUPED.fullmatch(text):
        return text.replace(".", "").replace(",", ".")
    return cell


def _delimiter(first: str) -> str:
    """Return the delimiter of a file by its first line: the most frequent one outside of quotes.

    Commas within numbers, as in 0,5;0,3, are not delimiters.
    """
    plain = re.sub(r'"[^"]*"', "", first).rstrip("\r\n")
    for sign in "\t;":
        cells = plain.split(sign)
        if len(cells) > 1 and all(map(is_number, map(point, cells))):
            return sign
    return max("\t;,", key=plain.count) if any(sign in plain for sign in "\t;,") else ","


def _explain_encoding(path: Path, content: bytes) -> str:
    """Explain which line of a file is not UTF-8, and what it may be."""
    if content.startswith((b"\xff\xfe", b"\xfe\xff")):
        return f"expected a CSV file in UTF-8 at {path}, got UTF-16: save it as UTF-8"
    number, line = next(
        (number, line)
        for number, line in enumerate(content.splitlines(), 1)
        if line.decode(errors="replace").encode() != line
    )
    return (
        f"{path}, line {number}: expected UTF-8, got another encoding: save it as UTF-8 (it seems "
        "to be Latin-1 or Windows-1252, in which the line reads "
        f"{line.decode('cp1252', errors='replace')[:60]!r})"
    )
