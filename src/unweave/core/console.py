"""Consoles, options and tables that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

out = Console()
err = Console(stderr=True)

PAPERS = Path("papers")  # default folder for the pages of reproduced papers

StoreOption = Annotated[Path, typer.Option(help="Folder that holds the runs.")]
SelectOption = Annotated[
    list[str] | None,
    typer.Option(help="Select observations: subset:count=5000, held-out:shape=heart,x=0..15, ..."),
]
FeaturesOption = Annotated[
    Path | None,
    typer.Option(help="Classes that --select may name, as `unweave data features` writes them."),
]
DeviceOption = Annotated[str, typer.Option(help="auto, cpu, cuda, cuda:1, ...")]
SplitOption = Annotated[
    str | None,
    typer.Option(
        help="Split to evaluate on: train, validation, test or held-out. Default: the one "
        "the run was trained on."
    ),
]
CodesOption = Annotated[
    Literal["mean", "prior-cdf"],
    typer.Option(
        help="Codes to score: posterior means, or these as normal quantiles under the prior."
    ),
]
RowsOption = Annotated[int, typer.Option(min=2, help="Observations to encode.")]
MetricsOption = Annotated[
    str,
    typer.Option(
        help="Names such as mig,dci/locatello2019; all (slow ones too); measures (unsupervised "
        "ones). Default: all that are quick."
    ),
]
IntervalOption = Annotated[
    float | None, typer.Option(help="Level of an interval around each value, such as 0.95.")
]
ResamplesOption = Annotated[
    int, typer.Option(help="Random subsets of the rows from which intervals are computed.")
]
NullOption = Annotated[bool, typer.Option("--null", help="Also score shuffled factors.")]
ReseedsOption = Annotated[
    int,
    typer.Option(help="Repeat with this many other seeds, for the standard deviation over seeds."),
]
CeilingOption = Annotated[
    bool, typer.Option("--ceiling", help="Also score the factors themselves as codes.")
]
ContinuousOption = Annotated[
    str | None,
    typer.Option(
        help="Continuous factors, by name or index, such as x,y or 0,2 ('' for none). Default: "
        "real-valued columns without repeats."
    ),
]
RngOption = Annotated[int, typer.Option(min=0, help="Seed of everything random.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]
CsvOption = Annotated[
    bool, typer.Option("--csv", help="Print CSV, with the details of each score.")
]

_LEAST = 18  # least width of a column that is wrapped
# Columns that may have long texts.
_WRAPPED = ("objective", "what", "claim", "got", "factors", "time")


def plain_table(first: str, *columns: str) -> Table:
    """Return a plain table whose first column, a name to copy, is never truncated."""
    table = Table(box=SIMPLE_HEAD, padding=(0, 1, 0, 0))
    table.add_column(first, no_wrap=True)
    for column in columns:
        wrapped = column in _WRAPPED
        table.add_column(
            column,
            no_wrap=not wrapped,
            overflow="fold" if wrapped else "ellipsis",
            min_width=_LEAST if wrapped else None,
        )
    return table
