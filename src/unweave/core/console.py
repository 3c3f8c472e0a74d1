"""The consoles that commands print to, and the layout of their tables."""

from __future__ import annotations

from pathlib import Path

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

out = Console()
err = Console(stderr=True)

PAPERS = Path("papers")  # default folder for the pages of papers

_LEAST_WIDTH = 18  # characters of a column whose texts are wrapped
_WRAPPED = ("objective", "what", "claim", "got", "factors", "time")  # columns with long texts


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
