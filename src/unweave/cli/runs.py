"""`unweave runs`, `unweave report` and `unweave cite`."""

from functools import partial
from typing import Annotated

import typer

from unweave.cli.errors import os_error_text
from unweave.cli.options import (
    DataOption,
    DeviceOption,
    RowsOption,
    RunArgument,
    RunsArgument,
    StoreOption,
    output_format,
)
from unweave.core import files
from unweave.core.console import err, out
from unweave.core.files import DISK_FAILURE
from unweave.core.notes import capture_warnings, print_notes, print_warnings
from unweave.core.outputs import DEFAULT_STORE
from unweave.core.text import json_text

_MOST = 200  # runs in a table


def runs_command(
    store: StoreOption = DEFAULT_STORE,
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
            help="Sort by a setting, term, measured value or score: rate puts the smallest rate "
            "first, -mig the largest mig (by default the newest run is last).",
        ),
    ] = "",
    columns: Annotated[
        str,
        typer.Option(
            help="Columns to show: settings, terms of the log, values measured in training or "
            "stored scores (by default distortion, rate, and a few stored scores if they fit)."
        ),
    ] = "",
    json_output: Annotated[bool, typer.Option("--json", help="Print everything as JSON.")] = False,
    csv_output: Annotated[
        bool, typer.Option("--csv", help="Print CSV: settings that differ, terms and scores.")
    ] = False,
) -> None:
    """List the runs of a store: finished, running, stopped (resumable), failed or not started.

    Runs whose latent variables are all off (a rate of about 0 nats) are marked. Scores are those
    on the split that a run was trained on. Terms, such as terms/total_correlation, are what the
    objective estimates from training batches, averaged over the end of training; metrics, such as
    metrics/total_correlation, are what `unweave train --measure` measured last.

    Examples:

      unweave runs --store runs

      unweave runs --where objective.beta=4 --where status=finished

      unweave runs --sort -mig --columns beta,rate,mig

      unweave runs --csv > runs.csv
    """
    from unweave.cli.run_list import (
        ALWAYS_SHOWN,
        filter_runs,
        find_names,
        headline_scores,
        read_run,
        runs_csv,
        runs_json,
        runs_table,
        sort_runs,
        unused_lines,
    )
    from unweave.training.run_files import RunFiles, run_paths
    from unweave.training.status import recorded_steps

    form = output_format(json_output, csv_output)
    paths, steps = run_paths(store), recorded_steps([store])
    chosen = paths[-_MOST:] if form == "table" and not where and not sort else paths
    every = [read_run(RunFiles(path), steps.get(path.name, 0)) for path in chosen]
    if not every and form == "table":
        out.print(f"{files.disk.name(store)} contains no runs yet; train one with `unweave train`")
        return
    runs = filter_runs(every, where or ())
    if sort:
        runs, name = sort_runs(runs, sort)
        print_notes(err, [f"sorted by {name}"] if name != sort.removeprefix("-") else [])
    print_notes(err, (run.problem for run in runs if run.problem))
    if form == "json":
        out.write(json_text(runs_json(runs)))
        return
    if form == "csv":
        out.write(runs_csv(runs))
        return
    if not runs:
        out.print(f"0 of {len(every)} runs")
        return
    found, runs = len(runs), runs[:_MOST] if sort else runs[-_MOST:]
    asked = [name.strip() for name in columns.split(",") if name.strip()]
    known = {name: [f"terms/{name}"] for name in ALWAYS_SHOWN}
    usual = [name for name in known if any(f"terms/{name}" in run.final for run in runs)]
    shown = [full for n in asked or usual for full in known.get(n) or find_names(every, n)]
    table = runs_table(runs, shown, [] if asked else headline_scores(runs), out.width)
    if table.common:
        out.print(f"all: {table.common}")
    out.print_table(table.columns, table.rows, table.below)
    if off := [run.name for run in runs if run.collapsed]:
        out.print(
            f"all latents are off in {len(off)} of {len(runs)} runs (their rate is about 0 nats): "
            f"{', '.join(off[:4])}{', ...' if len(off) > 4 else ''}; they learned nothing about "
            "the data",
        )
    for line in unused_lines(runs):
        out.print(line)
    if len(runs) < len(paths):
        more = "; --where chooses, and --csv and --json print all" if found >= _MOST else ""
        out.print(f"{len(runs)} of {len(paths)} runs{more}")


def report_command(
    names: RunsArgument,
    store: StoreOption = DEFAULT_STORE,
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

    The command also writes the explorer of the run, explorer.html, as `unweave share` does.

    Examples:

      unweave report 3f2a

      unweave report runs/* --no-explorer
    """
    from unweave.cli.explore import write_explorer
    from unweave.core.outputs import check_writable
    from unweave.evaluation.loading import load_each
    from unweave.report import write_report
    from unweave.training.leases import FolderInUse
    from unweave.training.store import Store

    folders = Store(store).find_all(names)
    models, reasons = print_warnings(err, partial(load_each, folders, data=data, device=device))
    for model in models:
        assert model.folder is not None
        try:
            check_writable(model.folder)  # before anything is computed
            name = f"run {model.run.digest}"
            print_notes(err, [f"{name}: exporting its networks to the explorer"] * explorer)
            beside = write_explorer(model) if explorer else None
            print_notes(err, [f"{name}: encoding and scoring data for the report"])
            place, link = model.folder / "report.html", beside.name if beside else ""
            write = partial(write_report, path=place, rows=rows, explorer=link)
            path, warned = capture_warnings(write, model)
        except FolderInUse as error:
            reasons[model.folder] = str(error)
            continue
        except OSError as error:
            if error.errno in DISK_FAILURE:  # the others would fail too
                raise
            reasons[model.folder] = os_error_text(error, store)
            continue
        print_notes(err, [f"{name}, scores in the report: {w}" for w in warned])
        print_notes(out, [str(each) for each in (path, beside) if each])
    if len(folders) == len(reasons) == 1:
        raise ValueError(next(iter(reasons.values())))
    if reasons:
        shown = ((files.disk.name(path), why) for path, why in reasons.items())
        print_notes(err, (f"there is no report of {path}: {why}" for path, why in shown))
        raise typer.Exit(2)


def cite_command(name: RunArgument, store: StoreOption = DEFAULT_STORE) -> None:
    """Print BibTeX entries for everything that a run uses, including its metrics.

    Example:

      unweave cite 3f2a > paper.bib
    """
    from unweave.core.bibliography import citations
    from unweave.metrics.registry import metric_citations
    from unweave.training.store import Store

    folder = Store(store).find(name)
    for entry in (citations(folder.read_run()) | metric_citations(folder.metrics)).values():
        out.write(entry + "\n\n")
