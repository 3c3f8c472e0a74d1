"""`unweave compare`."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer

from unweave.cli.options import (
    DataOption,
    DeviceOption,
    RowsOption,
    RunsArgument,
    ScoringOptions,
    SplitOption,
    StoreOption,
)
from unweave.core.console import err, out
from unweave.core.notes import print_notes, print_warnings

if TYPE_CHECKING:
    from unweave.data.splits import AnySplit


def compare_command(
    names: RunsArgument,
    store: StoreOption = Path("runs"),
    metrics: Annotated[
        str,
        typer.Option(
            help="Metrics to compare, such as mig,log_likelihood; missing scores are computed and "
            "stored (by default all scores that are stored)."
        ),
    ] = "",
    split: SplitOption = None,
    data: DataOption = None,
    rows: RowsOption = 10_000,
    level: Annotated[
        float, typer.Option(min=0.5, max=0.999, help="Confidence level of the intervals.")
    ] = 0.95,
    device: DeviceOption = "auto",
    html: Annotated[
        Path | None, typer.Option(help="Also write a self-contained page to this file.")
    ] = None,
    json_output: Annotated[
        bool, typer.Option("--json", help="Print JSON instead of text.")
    ] = False,
    csv_output: Annotated[
        bool, typer.Option("--csv", help="Print CSV: a line for each group and number.")
    ] = False,
) -> None:
    """Compare runs: what differs in their settings, and what that changes.

    Runs that differ only in their seed form a group. Each number is a mean over the seeds with its
    interval, and the best group by each score is compared with the second best. Latents are matched
    across the seeds of a group, and UDR says how much the seeds agree. Runs on different data are
    kept apart.

    Examples:

      unweave compare runs/*

      unweave compare runs/* --metrics mig,log_likelihood --html compare.html

      unweave compare 3f2a 81c0 --csv > compare.csv
    """
    if json_output and csv_output:
        raise ValueError("expected --json or --csv, got both: choose one")
    options = ScoringOptions(metrics=metrics)
    wanted = options.names  # reject unknown metrics before anything is loaded

    from unweave.cli.scoring import find_runs, score_runs
    from unweave.evaluation.compare import (
        compare_runs,
        compared_folder,
        compared_models,
        lacks_metrics,
    )
    from unweave.evaluation.loading import load_each
    from unweave.training.store import RunFolder

    folders = find_runs(names, store)
    chosen = cast("AnySplit | None", split)
    models, reasons = print_warnings(
        err, lambda: load_each(folders, data=data, split=chosen, device=device)
    )
    finished = [path for path in reasons if RunFolder(path).weights.exists()]
    for path, reason in reasons.items():
        what = "compared by what is stored alone" if path in finished else "left out"
        short = reason.removeprefix(f"{path} ")
        print_notes(err, [f"{path} is {what}: {short}"])
    failures: dict[str, str] = {}
    if wanted:
        missing = [model for model in models if lacks_metrics(model, wanted, rows)]
        failures = score_runs(missing, rows, options).failures if missing else {}
        models = [model for model in models if model.run.digest not in failures]
        print_notes(err, (f"{name} is left out: {reason}" for name, reason in failures.items()))
    runs = compared_models(models, wanted, rows)
    runs += [compared_folder(RunFolder(path), split) for path in finished]
    comparison = compare_runs(runs, level)
    if html is not None:
        from unweave.report.compare import write_comparison

        place = write_comparison(comparison, html)
        print_notes(err, [f"wrote {place}"])
    if json_output:
        sys.stdout.write(json.dumps(comparison.to_json(), indent=2) + "\n")
    elif csv_output:
        sys.stdout.write(comparison.to_csv())
    else:
        out.print(str(comparison), highlight=False, markup=False, soft_wrap=True)
    if reasons or failures:
        raise typer.Exit(1)
