"""Where commands print, and what they have in common."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

out = Console()
err = Console(stderr=True)

StoreOption = Annotated[Path, typer.Option(help="Folder that holds the runs.")]
WayOption = Annotated[
    list[str] | None,
    typer.Option(help="Sample the data: subset:count=5000, held-out:shape=heart,x=0..15, ..."),
]
FeaturesOption = Annotated[
    Path | None,
    typer.Option(help="Classes that ways may name, as `unweave data features` writes them."),
]
DeviceOption = Annotated[str, typer.Option(help="auto, cpu, cuda, cuda:1, ...")]

_WRAPPED = ("objective", "what", "claim", "got", "factors")  # columns whose texts may be long


def plain_table(first: str, *columns: str) -> Table:
    """A plain table whose first column, a name to copy, is never cut."""
    table = Table(box=SIMPLE_HEAD, padding=(0, 1, 0, 0))
    table.add_column(first, no_wrap=True)
    for column in columns:
        table.add_column(column, no_wrap=column not in _WRAPPED)
    return table
