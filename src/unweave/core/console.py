"""The consoles that commands print to, and the layout of their tables."""

import re
from collections.abc import Iterable, Sequence
from itertools import zip_longest
from pathlib import Path
from typing import Any, NamedTuple, Self

from rich.cells import cell_len, chop_cells
from rich.console import Console
from rich.text import Text

from unweave.core.text import visible

PAPERS = Path("papers")  # default folder for the pages of papers

_LEAST_TEXT = 18  # characters of a column of long texts, unless nothing else fits
_LEAST_PIECE = 8  # characters of any column that is not of numbers
_LONGEST_WORD = 40  # longer words of a text, such as paths, may be cut
_LONGEST_NUMBER = 24  # characters of a number with its unit or interval; longer cells are texts
_LONGEST_NAME = 32  # to which names shrink along with texts
_MARGIN, _GAP, _INDENT = " ", "  ", "   "
_NUMBER = re.compile(r"[-+−±\[(]?\d|[-–]?$|not finite$")  # how the cell of a number begins
_TEXT_PIECE = re.compile(r"\s*(?:\[[-+\d., ]+\]|\S)+\s*")  # a word, or an interval
_NAME_PIECE = re.compile(r"(?:[^\s/_.]|(?<=\d)\.(?=\d))+[\s/_.]*|[\s/_.]+")


class PlainConsole(Console):
    """A console that prints text as it is: brackets are no markup, and nothing is highlighted.

    Names in files can be anything, so control characters are printed as escapes, also in tables.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(markup=False, emoji=False, highlight=False, **options)

    def render_str(self, text: str, **options: Any) -> Text:
        """Make text of a string; everything that is printed passes here."""
        return super().render_str(visible(text), **options)

    def write(self, text: str) -> None:
        """Write text without wrapping it to the width of the console."""
        self.file.write(visible(text))

    def print_table(
        self, columns: Sequence[str], rows: Iterable[Sequence[str]], below: Sequence[str] = ()
    ) -> None:
        """Print a table, laid out by `lay_out_table`."""
        for block in lay_out_table(columns, list(rows), self.width, below):
            self.print()
            self.print("\n".join(block.head), style="bold", soft_wrap=True)
            self.print("\n".join(block.body), soft_wrap=True)
        self.print()


out = PlainConsole()
err = PlainConsole(stderr=True)


class TableBlock(NamedTuple):
    """Lines of a table, or of some of its columns."""

    head: list[str]
    body: list[str]


def lay_out_table(
    columns: Sequence[str], rows: Sequence[Sequence[str]], width: int, below: Sequence[str] = ()
) -> list[TableBlock]:
    r"""Lay out a table in a number of characters without leaving anything out.

    Columns of numbers never shrink. Other columns are wrapped between words, and the first, which
    has names, also after a slash. Columns that still do not fit go into a block below, with the
    names repeated; so the first column should tell the rows apart. `below` has a text for each row,
    which is written under it, in the whole width.

    >>> (block,) = lay_out_table(["metric", "value"], [["mig/chen2018", "0.25"]], 16)
    >>> print("\n".join(block.head + block.body))
     metric    value
     ───────────────
     mig/      0.25
     chen2018
    """
    cells = ([visible(cell) for cell in line] for line in (columns, *rows))
    names, *rest = (
        _Column.of(list(own), is_name=place == 0)
        for place, own in enumerate(zip(*cells, strict=True))
    )
    blocks: list[list[_Column]] = [[]]
    for column in rest:
        beside = [names, *blocks[-1], column]
        if blocks[-1] and _total(each.least for each in beside) > width:
            blocks.append([])
        blocks[-1].append(column)
    texts = [below, *[()] * len(blocks)]  # below the rows of the first block
    return [_block([names, *block], width, own) for block, own in zip(blocks, texts, strict=False)]


def is_one_line_per_row(columns: Sequence[str], rows: Sequence[Sequence[str]], width: int) -> bool:
    """Return whether a table fits into a width without wrapping any cell below the headings."""
    first, *others = lay_out_table(columns, rows, width)
    return not others and len(first.body) == 1 + len(rows)


def table_text(columns: Sequence[str], rows: Sequence[Sequence[str]], width: int) -> str:
    """Return a table, laid out by `lay_out_table`, as text."""
    blocks = lay_out_table(columns, rows, width)
    return "\n\n".join("\n".join(block.head + block.body) for block in blocks)


class _Column(NamedTuple):
    lines: list[str]  # the heading, and the cells
    is_name: bool
    natural: int  # width without wrapping
    least: int  # width to which it shrinks to make room for others
    shortest: int  # width to which it shrinks if it is the only other one beside the names

    @classmethod
    def of(cls, lines: list[str], is_name: bool) -> Self:
        heading, *cells = lines
        head, natural = _longest_piece(heading, True), max(map(_length, lines))
        if not is_name and all(map(_is_number, cells)):
            least = max([head, *map(_length, cells)])
            return cls(lines, is_name, natural, least, least)
        word = max((_longest_piece(cell, is_name) for cell in cells), default=0)
        if not is_name:
            word = max(min(word, _LONGEST_WORD), min(_LEAST_TEXT, natural // 2))
        least = max(head, word)
        return cls(lines, is_name, natural, least, min(least, _LEAST_PIECE))

    def wrap(self, place: int, width: int) -> list[str]:
        """Break a line into lines of a width."""
        return _wrap(self.lines[place], width, self.is_name or place == 0)


def _wrap(text: str, width: int, is_name: bool = False) -> list[str]:
    """Break text into lines of a width, between its pieces where possible."""
    lines = []
    for part in text.split("\n"):
        line = ""
        for piece in _pieces(part, is_name):
            if line.strip() and _length(line + piece) > width:
                lines.append(line)
                line = ""
            *whole, line = chop_cells(line + piece.rstrip(), width) or [""]
            lines += whole
            line += piece[len(piece.rstrip()) :]
        lines.append(line)
    return [line.rstrip() for line in lines]


def _is_number(cell: str) -> bool:
    return bool(_NUMBER.match(cell)) and _length(cell) <= _LONGEST_NUMBER


def _pieces(text: str, is_name: bool) -> list[str]:
    """Split text where it may be broken.

    >>> _pieces("mig/chen_2018 of 1.5", True), _pieces("1.5 [-0.5, 3.5] nats", False)
    (['mig/', 'chen_', '2018 ', 'of ', '1.5'], ['1.5 ', '[-0.5, 3.5] ', 'nats'])
    """
    return (_NAME_PIECE if is_name else _TEXT_PIECE).findall(text) or [""]


def _longest_piece(text: str, is_name: bool) -> int:
    return max(map(_length, _pieces(text, is_name)))


def _length(text: str) -> int:
    return max(cell_len(line.rstrip()) for line in text.split("\n"))


def _total(widths: Iterable[int]) -> int:
    return len(_MARGIN) - len(_GAP) + sum(len(_GAP) + width for width in widths)


def _block(columns: Sequence[_Column], width: int, below: Sequence[str]) -> TableBlock:
    """Lay out columns beside each other: headings of numbers wrap first, then texts, then names."""
    widths = [each.natural for each in columns]
    for limits in (
        [each.least if each.least == each.shortest else each.natural for each in columns],
        [max(c.least, min(c.natural, _LONGEST_NAME)) if c.is_name else c.least for c in columns],
        [each.least for each in columns],
        [each.shortest for each in columns],
    ):
        while _total(widths) > width:
            able = [n for n, limit in enumerate(limits) if widths[n] > limit]
            if not able:
                break
            widths[max(able, key=widths.__getitem__)] -= 1
    wrapped = [
        [column.wrap(place, own) for column, own in zip(columns, widths, strict=True)]
        for place in range(len(columns[0].lines))
    ]
    head, *rows = (_beside(cells, widths) for cells in wrapped)
    for row, text in zip(rows, below, strict=False):  # headings have none below
        lines = _wrap(visible(text), width - len(_INDENT)) if text else []
        row += [_INDENT + line for line in lines]
    rule = _MARGIN + "─" * (_total(widths) - len(_MARGIN))
    return TableBlock(head, [rule, *(line for row in rows for line in row)])


def _beside(cells: Sequence[Sequence[str]], widths: Sequence[int]) -> list[str]:
    """Return the lines of cells that stand beside each other."""
    lines = (
        [cell + " " * (width - cell_len(cell)) for cell, width in zip(line, widths, strict=True)]
        for line in zip_longest(*cells, fillvalue="")
    )
    return [(_MARGIN + _GAP.join(line)).rstrip() for line in lines]
