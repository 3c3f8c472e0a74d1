"""`unweave compare`."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from contextlib import suppress
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
    from unweave.evaluation.model import FittedModel
    from unweave.metrics.registry import MetricChoice


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
        bool, typer.Option("--csv", help="Print CSV: a line for each group and quantity.")
    ] = False,
) -> None:
    """Compare runs: what differs in their settings, and what that changes.

    Runs that differ only in their seed form a group. Each quantity is a mean over the seeds with
    its interval, and the best group by each score is compared with the second best. Latents are
    matched across the seeds of a group, and UDR says how much the seeds agree. Runs on different
    data are kept apart.

    Examples:

      unweave compare runs/*

      unweave compare runs/* --metrics mig,log_likelihood --html compare.html

      unweave compare 3f2a 81c0 --csv > compare.csv
    """
    if json_output and csv_output:
        raise ValueError("expected --json or --csv, got both: choose one")
    wanted = ScoringOptions(metrics=metrics).names  # reject unknown metrics at once

    from unweave.cli.score_output import run_labels
    from unweave.cli.scoring import find_runs, score_runs
    from unweave.evaluation.compare import compare_runs, compared_folder, compared_models
    from unweave.evaluation.loading import load_each
    from unweave.metrics import Scores
    from unweave.training.store import RunFolder

    folders = find_runs(names, store)
    chosen = cast("AnySplit | None", split)
    models, reasons = print_warnings(
        err, lambda: load_each(folders, data=data, split=chosen, device=device)
    )
    stored = []
    for path, reason in reasons.items():
        what = "left out"
        with suppress(ValueError):
            if RunFolder(path).weights.exists():
                stored.append(compared_folder(RunFolder(path), split))
                what = "compared by what is stored alone"
        print_notes(err, [f"{path} is {what}: {reason.removeprefix(f'{path} ')}"])
    problems: dict[str, str] = {}

    def score(
        models: Sequence[FittedModel], rows: int, *, metrics: Sequence[MetricChoice], seed: int
    ) -> list[Scores]:
        options = ScoringOptions(metrics=",".join(map(str, metrics)), seed=seed)
        scored = score_runs(list(models), rows, options)
        problems.update(scored.failures)
        print_notes(err, (f"{name}: {reason}" for name, reason in scored.failures.items()))
        labels = run_labels(models)
        return [scored.scores.get(labels[m.folder], Scores({})) for m in models if m.folder]

    runs = [*compared_models(models, wanted, rows, score=score), *stored]
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
    if reasons or problems:
        raise typer.Exit(1)
