"""The consoles that commands print to, and the layout of their tables."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from unweave.core.text import visible

PAPERS = Path("papers")  # default folder for the pages of papers

_LEAST_WIDTH = 18  # characters of a column whose texts are wrapped
_WRAPPED = ("objective", "what", "claim", "got", "factors", "time")  # columns with long texts


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


out = PlainConsole()
err = PlainConsole(stderr=True)


def plain_table(first: str, *columns: str) -> Table:
    """Return a plain table that never truncates its first column, a name to copy."""
    table = Table(box=SIMPLE_HEAD, padding=(0, 1, 0, 0))
    table.add_column(first, no_wrap=True)
    for column in columns:
        wrapped = column in _WRAPPED
        table.add_column(
            column,
            no_wrap=not wrapped,
            overflow="fold" if wrapped else "ellipsis",
            min_width=_LEAST_WIDTH if wrapped else None,
        )
    return table
