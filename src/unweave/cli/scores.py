"""Scores on the command line: what can be asked for, how runs are measured, how it is written."""

from __future__ import annotations

import json
import statistics
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TypeVar

from rich.console import Console
from rich.table import Table as RichTable

from unweave.core.console import plain_table
from unweave.data.splits import split_of
from unweave.evaluation.evaluate import measured, noted
from unweave.evaluation.model import Codes, FittedModel
from unweave.metrics import METRICS, MetricOptions, Score, Scores, Table, evaluate, left_out
from unweave.metrics.registry import find_metrics as known
from unweave.metrics.registry import select, split_names
from unweave.metrics.score import CSV_COLUMNS, csv_text
from unweave.training.progress import Counts
from unweave.training.store import write_json

R = TypeVar("R")
T = TypeVar("T")

_FEW = 4  # runs that have a column of their own on a terminal


def named(metrics: str) -> list[str] | None:
    """The metrics that a text names; None for all."""
    names = split_names(metrics)
    for name in names:
        known(name)  # raises where it is not
    return names or None


def frame_of(
    interval: float | None,
    resamples: int,
    null: bool,
    reseeds: int,
    ceiling: bool,
    continuous: str | None,
) -> MetricOptions:
    """The keywords of every metric that the options stand for."""
    return {
        "continuous": None if continuous is None else split_names(continuous),
        "interval": interval,
        "resamples": resamples,
        "null": null,
        "reseeds": reseeds,
        "ceiling": ceiling,
    }


def evaluate_all(
    models: list[FittedModel],
    rows: int,
    console: Console,
    measure: Callable[[Table], Scores] = evaluate,
    whole: bool = True,
    codes: Codes = "mean",
) -> dict[str, Scores]:
    """Scores of runs by digest, kept in their folders with the tables they were computed from.

    Where the same run lies in two folders, those are the names. A run is measured and kept while
    others are encoded, so what is done stays if this is stopped. Where `whole`, no metrics were
    named, and what is left out is told.
    """
    totals = {"encoded": sum(min(rows, m.dataset.size) for m in models), "measured": len(models)}
    names = names_of(models)
    found = {name: Scores() for name in names.values()}
    told: set[str] = set()
    with Counts(console, totals) as counts:
        work, encoded = partial(noted, measure), partial(counts.add, "encoded")
        for number, table, (scores, lines) in measured(models, rows, work, encoded, codes):
            folder = models[number].folder
            assert folder is not None
            table.save(folder / "table.npz")
            about = {"split": models[number].split, "rows": len(table), "codes": codes}
            write_json(folder / "scores.json", {**about, "scores": scores.to_json()})
            found[names[folder]] = scores
            notes = [*map(str, lines), *(omitted(table) if whole else [])]
            tell(console, [line for line in notes if line not in told])
            told.update(notes)
            counts.add("measured")
    return found


def score_table(
    table: Table,
    metrics: list[str] | None,
    rng: int,
    frame: MetricOptions,
    console: Console,
    found: Scores,
) -> None:
    """Put the scores of a table into `found` as they are done: interrupted, these are there.

    What is running and what was decided is told; where no metrics are named, what is left out too.
    """
    if (continuous := frame.get("continuous")) is not None:
        table = replace(table, continuous=continuous)
    chosen = select(table, metrics)
    notes = [*table.notes, *([table.too_few_rows] if table.too_few_rows else [])]
    tell(console, notes)
    with Counts(console, {"measured": len(chosen)}) as counts:

        def progress(key: str, score: Score | None) -> None:
            if score is None:
                counts.begin("measured", key, chosen[key].slow)
            else:
                found[key] = score
                counts.add("measured")

        measure = partial(evaluate, metrics=metrics, seed=rng, progress=progress, **frame)
        _, warned = noted(measure, table)
    tell(console, [line for line in map(str, warned) if line not in notes])
    tell(console, omitted(table) if metrics is None else [])


def tell(console: Console, lines: Iterable[str]) -> None:
    """Print notes, a line each."""
    for line in lines:
        console.print(line, highlight=False, soft_wrap=True, markup=False)


def telling(function: Callable[[T], R], item: T, console: Console) -> R:
    """What a function gives of something; what it warns of is printed."""
    found, notes = noted(function, item)
    tell(console, map(str, notes))
    return found


def omitted(table: Table) -> list[str]:
    """Which metrics are left out where none are named, and why: a line for each reason."""
    lacking = left_out(table)
    lines = []
    for reason in dict.fromkeys(lacking.values()):
        keys = [key for key, why in lacking.items() if why == reason]
        lines.append(f"some metrics are left out: {reason} ({', '.join(keys)})")
    slow = [key for key, metric in METRICS.items() if metric.slow and key not in lacking]
    if slow and len(lacking) + len(slow) < len(METRICS):
        lines.append(f"slow ones are left out, --metrics all has them: {', '.join(slow)}")
    return lines


def names_of(models: Iterable[FittedModel]) -> dict[Path, str]:
    """What a run is called by its folder: its digest, or the folder if another has the same."""
    folders = {model.folder: model.run.digest for model in models if model.folder is not None}
    often = Counter(folders.values())
    return {f: digest if often[digest] == 1 else str(f) for f, digest in folders.items()}


def measured_on(models: Sequence[FittedModel], rows: int) -> list[str]:
    """Which split of their data runs were measured on, and how much of it: a line for each."""
    lines = []
    for m in models:
        trained = split_of(m.run.data)
        where = f"{m.split} split"
        where += "" if m.split == trained else f", trained on the {trained} split"
        lines.append(f"measured on {min(rows, m.dataset.size):,} observations of the {where}")
    return list(dict.fromkeys(lines))


def show(scores: Mapping[str, Scores], form: str, console: Console) -> None:
    """Print scores by run as a table, or write them as JSON or CSV."""
    if form == "table":
        console.print(as_table(scores))
    else:
        sys.stdout.write(as_text(scores, form))


def as_text(scores: Mapping[str, Scores], form: str) -> str:
    """Scores by run as "json" or "csv"; the name "" is of no run."""
    alone = scores.get("")
    if form == "json":
        found = {run: each.to_json() for run, each in scores.items()}
        return json.dumps(found if alone is None else alone.to_json(), indent=2) + "\n"
    rows = [[run, *row] for run, each in scores.items() for row in each.csv_rows()]
    return csv_text(("run", *CSV_COLUMNS), rows) if alone is None else alone.to_csv()


def form_of(as_json: bool, as_csv: bool) -> str:
    """What `as_text` is to write, or "table"."""
    if as_json and as_csv:
        raise ValueError("expected --json or --csv, got both: ask for one")
    return "json" if as_json else "csv" if as_csv else "table"


def as_table(scores: Mapping[str, Scores]) -> RichTable:
    """A row for each metric: its columns for one run, a column a run for few, else their spread.

    Of several runs what was asked for beside the values, such as nulls, has rows of its own.
    """
    if len(scores) == 1:
        (only,) = scores.values()
        table = plain_table(*only.columns())
        for score in only.values():
            table.add_row(*only.row(score))
        return table
    rows: dict[str, dict[str, float]] = {}  # of each number the value of each run that has it
    for run, each in scores.items():
        for key, score in each.items():
            for name, value in {"": score.value, **score.extras}.items():
                rows.setdefault(f"{key} {name}".rstrip(), {})[run] = value
    few = len(scores) <= _FEW
    table = plain_table("metric", *(scores if few else ("runs", "mean", "spread", "least", "most")))
    for label, values in rows.items():
        if few:
            table.add_row(label, *(f"{values[run]:.3f}" if run in values else "" for run in scores))
        else:
            found = list(values.values())
            about = statistics.fmean(found), statistics.pstdev(found), min(found), max(found)
            table.add_row(label, str(len(found)), *(f"{number:.3f}" for number in about))
    return table
