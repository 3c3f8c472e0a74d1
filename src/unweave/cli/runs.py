"""`unweave runs`, `unweave report` and `unweave cite`."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from unweave.cli.options import (
    DataOption,
    DeviceOption,
    RowsOption,
    RunArgument,
    RunsArgument,
    StoreOption,
    output_format,
)
from unweave.core.console import err, out
from unweave.core.notes import capture_warnings, print_notes


def runs_command(
    store: StoreOption = Path("runs"),
    where: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=VALUE",
            help="Only runs with this value, such as objective.beta=4, status=finished or "
            "collapsed=true (repeatable).",
        ),
    ] = None,
    sort: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="Sort by a setting, term or score, such as rate; -mig puts the largest first (by "
            "default the newest is last).",
        ),
    ] = "",
    columns: Annotated[
        str,
        typer.Option(help="Numbers to show: settings, terms of the log and stored scores."),
    ] = "distortion,rate",
    json_output: Annotated[
        bool, typer.Option("--json", help="Print everything that is stored as JSON.")
    ] = False,
    csv_output: Annotated[
        bool, typer.Option("--csv", help="Print settings that differ, terms and scores as CSV.")
    ] = False,
) -> None:
    """List the runs of a store: finished, running, stopped (resumable), failed or not started.

    Runs whose latents are all off (a rate of about 0 nats) are marked. Scores are those of the
    split that a run was trained on.

    Examples:

      unweave runs --store runs

      unweave runs --where objective.beta=4 --where status=finished

      unweave runs --sort -mig --columns rate,mig

      unweave runs --csv > runs.csv
    """
    from unweave.cli.run_list import (
        filter_runs,
        find_names,
        read_run,
        runs_csv,
        runs_json,
        runs_table,
        sort_runs,
    )
    from unweave.training.store import Store

    form = output_format(json_output, csv_output)
    every = [read_run(folder) for folder in Store(store).folders()]
    if not every and form == "table":
        out.print(f"{store} contains no runs yet; train one with `unweave train`")
        return
    runs = filter_runs(every, where or ())
    if sort:
        runs, name = sort_runs(runs, sort)
        print_notes(err, [f"sorted by {name}"] if name != sort.removeprefix("-") else [])
    print_notes(err, (run.problem for run in runs if run.problem))
    if form == "json":
        out.write(json.dumps(runs_json(runs), indent=2) + "\n")
        return
    if form == "csv":
        out.write(runs_csv(runs))
        return
    if not runs:
        out.print(f"0 of {len(every)} runs")
        return
    asked = [name.strip() for name in columns.split(",") if name.strip()]
    terms = ("distortion", "rate")  # not every objective has them
    shown = [full for n in asked for full in ([n] if n in terms else find_names(every, n))]
    common, table = runs_table(runs, shown)
    if common:
        out.print(f"all: {common}")
    out.print(table)
    if off := [run.name for run in runs if run.collapsed]:
        out.print(
            f"all latents are off in {len(off)} of {len(runs)} runs (their rate is about 0 nats): "
            f"{', '.join(off[:4])}{', ...' if len(off) > 4 else ''}; they learned nothing about "
            "the data",
        )
    if len(runs) < len(every):
        out.print(f"{len(runs)} of {len(every)} runs")


def report_command(
    names: RunsArgument,
    store: StoreOption = Path("runs"),
    device: DeviceOption = "auto",
    data: DataOption = None,
    rows: RowsOption = 10_000,
    explorer: Annotated[
        bool,
        typer.Option(
            "--explorer/--no-explorer", help="Also write explorer.html, which the report links to."
        ),
    ] = True,
) -> None:
    """Write a self-contained page about each run, report.html in its folder.

    The explorer of the run, as `unweave share` writes it, is beside it: explorer.html.

    Examples:

      unweave report 3f2a

      unweave report runs/* --no-explorer
    """
    from unweave.cli.explore import write_explorer
    from unweave.evaluation.loading import load
    from unweave.report import write_report
    from unweave.training.store import Store

    for model in load(Store(store).find_all(names), data=data, device=device):
        assert model.folder is not None
        beside = write_explorer(model) if explorer else None
        link = beside.name if beside else ""
        write = partial(write_report, path=model.folder / "report.html", rows=rows, explorer=link)
        path, warned = capture_warnings(write, model)
        print_notes(err, [f"run {model.run.digest}, scores of its report: {w}" for w in warned])
        print_notes(out, [str(each) for each in (path, beside) if each])


def cite_command(name: RunArgument, store: StoreOption = Path("runs")) -> None:
    """Print BibTeX entries for everything a run uses and for the metrics it was scored with.

    Example:

      unweave cite 3f2a > paper.bib
    """
    from unweave.core.bibliography import citations
    from unweave.metrics.registry import metric_citations
    from unweave.training.store import Store

    folder = Store(store).find(name)
    for entry in (citations(folder.read_run()) | metric_citations(folder.metrics)).values():
        out.write(entry + "\n\n")
