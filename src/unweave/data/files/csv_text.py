"""The text of CSV files: encoding, delimiter, line of names, and decimal commas."""

import csv
import io
import math
import re
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from unweave.core.files import read_bytes
from unweave.core.text import unquoted
from unweave.data.files.labels import MISSING_WORDS, column_values

_DECIMAL = re.compile(r"[+-]?\d*,\d+([eE][+-]?\d+)?")  # 23,25
_GROUPED = re.compile(r"[+-]?[1-9]\d{0,2}(\.\d{3})+(,\d+)?")  # 1.234,5 and 1.234
_THREE_DIGITS = re.compile(r"[+-]?[1-9]\d{0,2},\d{3}")  # 1,234, which English writes for 1234


class CsvText(NamedTuple):
    """The names of the columns of a CSV file, and its lines of values."""

    names: list[str]
    lines: list[tuple[int, list[str]]]  # with their numbers in the file
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
        lines = [(reader.line_num, list(map(unquoted, line))) for line in reader if line]
    except UnicodeDecodeError:
        raise ValueError(_explain_encoding(path, content)) from None
    except csv.Error as error:
        raise ValueError(f"expected a CSV file at {path}, got {error}: save it again") from None
    if len(lines) < 2:
        raise ValueError(f"expected a line of names and lines of values in {path}, got too few")
    head = lines[0][1]
    pointed = head if delimiter == "," else [point(cell) for cell in head]
    named = are_numbered(head) or column_values(pointed).dtype == object
    names = [name.strip() for name in head]
    if not named:
        names = [f"column{number}" for number in range(len(head))]
    elif not names[0] and "row" not in names:  # pandas and R do not name the names of the rows
        names[0] = "row"
    for number, line in lines:
        if len(line) != len(names):
            raise ValueError(
                f"{path}, line {number}: expected {len(names)} values as in its first line, got "
                f"{len(line)}: a value is missing, or text that contains {delimiter!r} is not in "
                "quotes"
            )
    if "" in names:
        raise ValueError(
            f"{path}, line {lines[0][0]}: expected a name for every column, got none for column "
            f"{names.index('') + 1}: name it"
        )
    return CsvText(names, lines[1:] if named else lines, named, delimiter)


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
