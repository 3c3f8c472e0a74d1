"""`unweave compare`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer

from unweave.cli.options import (
    DataOption,
    DeviceOption,
    OverwriteOption,
    RowsOption,
    RunsArgument,
    ScoringOptions,
    SplitOption,
    StoreOption,
    output_format,
)
from unweave.core import files
from unweave.core.console import err, out
from unweave.core.hints import count_noun
from unweave.core.notes import print_notes, print_warnings
from unweave.core.outputs import DEFAULT_STORE, check_output
from unweave.core.text import json_text

if TYPE_CHECKING:
    from unweave.data.splits import AnySplit
    from unweave.evaluation.comparison import ComparedRun
    from unweave.evaluation.model import FittedModel
    from unweave.metrics import Scores
    from unweave.metrics.registry import MetricChoice


def compare_command(
    names: RunsArgument,
    store: StoreOption = DEFAULT_STORE,
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
    pairwise: Annotated[
        bool,
        typer.Option(
            "--pairwise",
            help="Also print the differences of all pairs of groups, with p-values corrected by "
            "Holm's method. CSV then has only these, and JSON has them as well.",
        ),
    ] = False,
    device: DeviceOption = "auto",
    html: Annotated[
        Path | None, typer.Option(help="Also write the comparison to this file, as an HTML page.")
    ] = None,
    overwrite: OverwriteOption = False,
    json_output: Annotated[
        bool, typer.Option("--json", help="Print JSON instead of text.")
    ] = False,
    csv_output: Annotated[
        bool, typer.Option("--csv", help="Print CSV: a line for each group and quantity.")
    ] = False,
) -> None:
    """Compare runs: what differs in their settings, and what that changes.

    Runs that differ only in their seed form a group. The command prints means over the seeds with
    intervals, and compares the best group by each score with the second best. It matches latents
    across the seeds of a group, and UDR measures how well the seeds agree. Runs on different data
    are compared separately.

    Examples:

      unweave compare runs/*

      unweave compare runs/* --metrics mig,log_likelihood --html compare.html

      unweave compare 3f2a 81c0 --csv > compare.csv

      unweave compare runs/* --pairwise
    """
    form = output_format(json_output, csv_output)
    check_output(html, "--html", overwrite)
    wanted = ScoringOptions(metrics=metrics).names  # reject unknown metrics at once

    from unweave.cli.scoring import find_runs
    from unweave.evaluation.compare import compare_runs, compared_models
    from unweave.evaluation.comparison_text import comparison_text
    from unweave.evaluation.loading import load_each

    chosen, scorer = cast("AnySplit | None", split), _Scorer(rows)
    read = partial(load_each, find_runs(names, store), data=data, split=chosen, device=device)
    models, reasons = print_warnings(err, read)
    stored = _read_stored(reasons, split)
    if models:
        print_notes(err, [f"encoding data with {count_noun(len(models), 'run')}, then comparing"])
    runs = [*compared_models(models, wanted, rows, score=scorer), *stored]
    comparison = compare_runs(runs, level)
    if html is not None:
        from unweave.report.compare import write_comparison

        print_notes(err, [f"wrote {write_comparison(comparison, html)}"])
    if form == "json":
        out.write(json_text(comparison.to_json(pairwise=pairwise)))
    elif form == "csv":
        out.write(comparison.pairwise_csv() if pairwise else comparison.to_csv())
    else:
        out.write(comparison_text(comparison, out.width, pairwise) + "\n")
    if scorer.disk_errors:
        raise scorer.disk_errors[0]
    if reasons or scorer.failures:
        raise typer.Exit(1)


def _read_stored(reasons: Mapping[Path, str], split: str | None) -> list[ComparedRun]:
    """Read the stored results of runs that cannot be loaded, and print why they cannot."""
    from unweave.evaluation.compare import compared_folder
    from unweave.training.store import RunFolder

    stored = []
    for path, reason in reasons.items():
        what, folder = "left out", RunFolder(path)
        with suppress(ValueError):
            if folder.weights.exists():
                stored.append(compared_folder(folder, split))
                what = "compared only by what is stored"
        shown = files.disk.name(path)
        print_notes(err, [f"{shown} is {what}: {reason.removeprefix(f'{shown} ')}"])
    return stored


@dataclass(frozen=True)
class _Scorer:
    """Scores runs as `unweave evaluate` does, and keeps why metrics could not be computed."""

    rows: int
    failures: dict[str, str] = field(default_factory=dict)
    disk_errors: list[OSError] = field(default_factory=list)

    def __call__(
        self, models: Sequence[FittedModel], metrics: Sequence[MetricChoice]
    ) -> list[Scores]:
        from unweave.cli.score_output import run_labels
        from unweave.cli.scoring import score_runs
        from unweave.metrics import Scores

        options = ScoringOptions(metrics=",".join(map(str, metrics)))
        scored = score_runs(list(models), self.rows, options)
        self.failures.update(scored.failures)
        self.disk_errors.extend(scored.disk_errors)
        print_notes(err, (f"{name}: {reason}" for name, reason in scored.failures.items()))
        labels = run_labels(models)
        return [scored.scores.get(labels[m.folder], Scores({})) for m in models if m.folder]
