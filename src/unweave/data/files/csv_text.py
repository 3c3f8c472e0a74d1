"""The text of CSV files: encoding, delimiter, line of names, and decimal commas."""

import csv
import io
import itertools
import math
import re
from array import array
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple, final, overload

import numpy as np

from unweave.core.files import read_bytes
from unweave.core.text import unquoted
from unweave.data.files.labels import MISSING_WORDS, column_values
from unweave.data.files.rows import Array

_AT_ONCE = 2**18  # cells that are texts of Python while a file is read
_DECIMAL = re.compile(r"[+-]?\d*,\d+([eE][+-]?\d+)?")  # 23,25
_GROUPED = re.compile(r"[+-]?[1-9]\d{0,2}(\.\d{3})+(,\d+)?")  # 1.234,5 and 1.234
_THREE_DIGITS = re.compile(r"[+-]?[1-9]\d{0,2},\d{3}")  # 1,234, which English writes for 1234


@final
class TextCells(Sequence[str]):
    """The cells of a column in blocks of joined text: a text of Python takes 50 bytes more.

    >>> cells = TextCells(2)
    >>> cells.add(["1", "red"])
    >>> cells.add([""])
    >>> cells[1], cells[1:], len(cells)
    ('red', ['red', ''], 3)
    """

    def __init__(self, step: int) -> None:
        self._step, self._count = step, 0  # cells of each block but the last
        self._blocks: list[tuple[str, Array]] = []

    def add(self, cells: Sequence[str]) -> None:
        """Add a block of cells."""
        ends = np.cumsum([0, *map(len, cells)], dtype=np.uint32)
        self._blocks.append(("".join(cells), ends))
        self._count += len(cells)

    def __len__(self) -> int:
        return self._count

    @overload
    def __getitem__(self, place: int) -> str: ...

    @overload
    def __getitem__(self, place: slice) -> list[str]: ...

    def __getitem__(self, place: int | slice) -> str | list[str]:
        if isinstance(place, slice):
            return [self[each] for each in range(len(self))[place]]
        block, at = divmod(range(len(self))[place], self._step)
        text, ends = self._blocks[block]
        return text[ends[at] : ends[at + 1]]

    def __iter__(self) -> Iterator[str]:
        for text, ends in self._blocks:
            yield from (text[a:b] for a, b in itertools.pairwise(ends.tolist()))


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
        file = io.StringIO(content.decode("utf-8-sig"), newline="")
        delimiter = _delimiter(file.readline())
        file.seek(0)
        reader = csv.reader(file, delimiter=delimiter, strict=True)
        rows = ((reader.line_num, [*map(unquoted, line)]) for line in reader if line)
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


def _columns(
    rows: Iterator[tuple[int, list[str]]], width: int
) -> tuple[Sequence[int], list[TextCells], tuple[int, int] | None]:
    """Read lines: their numbers, and cells by column; number and length of one of another width."""
    step = max(1, _AT_ONCE // max(1, width))
    numbers, columns, ragged = array("q"), [TextCells(step) for _ in range(width)], None
    while block := list(itertools.islice(rows, step)):
        others = ((number, len(line)) for number, line in block if len(line) != width)
        ragged = ragged or next(others, None)
        numbers.extend(number for number, _ in block)
        if not ragged:
            for column, cells in zip(
                columns, zip(*[line for _, line in block], strict=True), strict=True
            ):
                column.add(cells)
    return numbers, columns, ragged


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
