"""Print scores as a table, JSON or CSV."""

from __future__ import annotations

import json
import statistics
import sys
from collections.abc import Mapping, Sequence

from rich.table import Table as RichTable

from unweave.core.console import out, plain_table
from unweave.data.splits import split_of
from unweave.evaluation.model import FittedModel
from unweave.metrics import Scores
from unweave.metrics.score import CSV_COLUMNS, csv_text

_MOST_COLUMNS = 4  # the table of more runs has summary statistics instead of a column per run


def print_scores(scores: Mapping[str, Scores], format: str) -> None:
    """Print scores by run; a table without a run has the label ""."""
    if format == "table":
        out.print(scores_table(scores))
    else:
        sys.stdout.write(scores_text(scores, format))


def scores_text(scores: Mapping[str, Scores], format: str) -> str:
    """Return scores by run as "json" or "csv"."""
    only = scores.get("")
    if format == "json":
        by_run = {run: each.to_json() for run, each in scores.items()}
        return json.dumps(by_run if only is None else only.to_json(), indent=2) + "\n"
    rows = [[run, *row] for run, each in scores.items() for row in each.csv_rows()]
    return csv_text(("run", *CSV_COLUMNS), rows) if only is None else only.to_csv()


def scores_table(scores: Mapping[str, Scores]) -> RichTable:
    """Return a table with a row per metric.

    One run has columns for everything that was computed; up to four runs have a column each; more
    runs are summarised by mean, standard deviation, minimum and maximum. With several runs,
    intervals, nulls and ceilings get rows of their own.
    """
    if len(scores) == 1:
        (only,) = scores.values()
        table = plain_table(*only.columns())
        for score in only.values():
            table.add_row(*only.row(score))
        return table
    rows: dict[str, dict[str, float]] = {}  # value by row label and run
    for run, each in scores.items():
        for key, score in each.items():
            for name, value in {"": score.value, **score.extras}.items():
                rows.setdefault(f"{key} {name}".rstrip(), {})[run] = value
    few = len(scores) <= _MOST_COLUMNS
    table = plain_table("metric", *(scores if few else ("runs", "mean", "std", "min", "max")))
    for column in table.columns[1:]:
        column.min_width = 6  # numbers are never shortened; names fold instead
    table.columns[0].no_wrap, table.columns[0].overflow = False, "fold"
    for label, by_run in rows.items():
        if few:
            table.add_row(label, *(f"{by_run[run]:.3f}" if run in by_run else "" for run in scores))
        else:
            values = list(by_run.values())
            summary = statistics.fmean(values), statistics.pstdev(values), min(values), max(values)
            table.add_row(label, str(len(values)), *(f"{number:.3f}" for number in summary))
    return table


def evaluation_notes(models: Sequence[FittedModel], rows: int) -> list[str]:
    """Return which split the models were scored on and how many observations, without repeats."""
    lines = []
    for model in models:
        trained_on = split_of(model.run.data)
        split = f"{model.split} split"
        split += "" if model.split == trained_on else f", trained on the {trained_on} split"
        lines.append(f"measured on {min(rows, model.dataset.size):,} observations of the {split}")
    return list(dict.fromkeys(lines))
