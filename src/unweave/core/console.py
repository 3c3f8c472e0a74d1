"""Where commands print, and what they have in common."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

out = Console()
err = Console(stderr=True)

PAPERS = Path("papers")  # where pages of papers are written, if nobody says where

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
        help="As mig,dci/locatello2019; all: the slow ones too; measures: those without labels; "
        "else the quick ones."
    ),
]
IntervalOption = Annotated[
    float | None, typer.Option(help="Level of an interval about each value, such as 0.95.")
]
ResamplesOption = Annotated[
    int, typer.Option(help="Random parts of the rows that intervals are made of.")
]
NullOption = Annotated[bool, typer.Option("--null", help="Give values on shuffled factors too.")]
ReseedsOption = Annotated[
    int, typer.Option(help="Other seeds on the same rows, for the spread over the rng.")
]
CeilingOption = Annotated[
    bool, typer.Option("--ceiling", help="Give the values of the factors themselves as codes too.")
]
ContinuousOption = Annotated[
    str | None,
    typer.Option(
        help="Factors that are numbers, as x,y or 0,2; '': none. Else those of real numbers that "
        "do not repeat."
    ),
]
RngOption = Annotated[int, typer.Option(min=0, help="Seed of whatever is random.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]
CsvOption = Annotated[bool, typer.Option("--csv", help="Print CSV, with the parts of each score.")]

_LEAST = 18  # characters of a column whose texts are wrapped
# Columns whose texts may be long.
_WRAPPED = ("objective", "what", "claim", "got", "factors", "time")


def plain_table(first: str, *columns: str) -> Table:
    """A plain table whose first column, a name to copy, is never cut."""
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
