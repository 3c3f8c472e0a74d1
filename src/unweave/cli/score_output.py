"""Print scores as a table, JSON or CSV."""

import statistics
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from unweave.core.console import out
from unweave.core.groups import grouped
from unweave.core.text import csv_text, json_text
from unweave.data.splits import split_of
from unweave.evaluation.comparison_text import udr_text
from unweave.evaluation.evaluate import code_of, content_of, seed_groups
from unweave.evaluation.model import FittedModel
from unweave.metrics import Scores
from unweave.metrics.model_metrics import LIKELIHOOD, UDR
from unweave.metrics.score import CSV_COLUMNS, notes_on_runs
from unweave.training.flat_settings import differing, settings_text
from unweave.training.grouping import data_label, settings_of

_MOST_COLUMNS = 4  # the table of more runs has summary statistics instead of a column per run


def print_scores(scores: Mapping[str, Scores], format: str) -> None:
    """Print scores by run; a table without a run has the label ""."""
    if format == "table":
        _print_table(scores)
    else:
        out.write(scores_text(scores, format))


def scores_text(scores: Mapping[str, Scores], format: str) -> str:
    """Return scores by run as "json" or "csv"."""
    only = scores.get("")
    if format == "json":
        by_run = {run: each.to_json() for run, each in scores.items()}
        return json_text(by_run if only is None else only.to_json())
    rows = [[run, *row] for run, each in scores.items() for row in each.csv_rows()]
    return csv_text(("run", *CSV_COLUMNS), rows) if only is None else only.to_csv()


class ScoresTable(NamedTuple):
    """A table of scores, and the notes above it: which of them are no evidence."""

    columns: list[str]
    rows: list[list[str]]
    notes: list[str]


def _print_table(scores: Mapping[str, Scores]) -> None:
    table = scores_table(scores)
    for note in table.notes:
        out.print(note)
    out.print_table(table.columns, table.rows)


def scores_table(scores: Mapping[str, Scores]) -> ScoresTable:
    """Return a table with a row per metric.

    One run has columns for everything that was computed; up to four runs have a column each; more
    runs are summarised by mean, standard deviation, minimum and maximum. With several runs,
    components, intervals, nulls and ceilings get rows of their own.
    """
    if len(scores) == 1:
        (only,) = scores.values()
        return ScoresTable(only.columns(), only.rows(), only.notes())
    rows: dict[str, dict[str, float]] = {}  # value by row label and run
    for run, each in scores.items():
        for key, score in each.items():
            for name, value in {"": score.value, **score.components, **score.extras}.items():
                rows.setdefault(f"{key} {name}".rstrip(), {})[run] = value
    few = len(scores) <= _MOST_COLUMNS
    cells: list[list[str]] = []
    for label, by_run in rows.items():
        if few:
            own = [f"{by_run[run]:.3f}" if run in by_run else "" for run in scores]
        else:
            values = list(by_run.values())
            summary = statistics.fmean(values), statistics.pstdev(values), min(values), max(values)
            own = [str(len(values)), *(f"{number:.3f}" for number in summary)]
        cells.append([label, *own])
    columns = ["metric", *(scores if few else ("runs", "mean", "std", "min", "max"))]
    return ScoresTable(columns, cells, notes_on_runs(scores))


def print_run_scores(
    models: Sequence[FittedModel], scores: Mapping[str, Scores], format: str
) -> None:
    """Print scores by run; as tables, one for each dataset, and UDR by group of seeds.

    The runs of a table of means differ only in their seed: other settings have tables of their own.
    """
    if format != "table":
        print_scores(scores, format)
        return
    labels = run_labels(models)
    own = [(m, scores[labels[m.folder]]) for m in models if m.folder and labels[m.folder] in scores]
    datasets = grouped((content_of(model), model) for model, _ in own)
    for chosen in datasets.values():
        by_run = {labels[m.folder]: scores[labels[m.folder]] for m in chosen if m.folder}
        if len(datasets) > 1:
            alone = f": run {next(iter(by_run))}" if len(by_run) == 1 else ""
            out.print(f"\n{data_label(chosen[0].run.data)}{alone}")
        rest = {run: Scores({k: s for k, s in each.items() if k != UDR})
                for run, each in by_run.items()}  # fmt: skip
        runs, groups = list(rest), _groups(chosen, models)
        if any(rest.values()) and len(groups) > 1 and len(runs) > _MOST_COLUMNS:
            for title, numbers in groups.items():
                out.print(f"\n{title}:", soft_wrap=True)
                _print_table({runs[n]: rest[runs[n]] for n in numbers})
        elif any(rest.values()):
            for title, numbers in groups.items() if len(groups) > 1 else ():
                of = ", ".join(runs[n] for n in numbers)
                out.print(f"{of}: {title}", soft_wrap=True)
            _print_table(rest)
        for line in _udr_lines(chosen, list(by_run.values()), groups):
            out.print(line)
        if len(groups) > 1:
            out.print(
                f"{len(groups)} groups of settings; `unweave compare` of the same runs says which "
                "differences are larger than those between seeds",
                soft_wrap=True,
            )


def _groups(chosen: Sequence[FittedModel], models: Sequence[FittedModel]) -> dict[str, list[int]]:
    """Return the indices of the models that differ only in their seed, by the other settings.

    The settings are those that differ among all models on the same data.
    """
    own = [model for model in models if content_of(model) == content_of(chosen[0])]
    names = differing(settings_of(model.run, places=False) | code_of(model) for model in own)
    groups: dict[str, list[int]] = {}
    for numbers in seed_groups(chosen):
        settings = settings_of(chosen[numbers[0]].run) | code_of(chosen[numbers[0]])
        title = settings_text({name: settings.get(name) for name in names})
        groups.setdefault(title, []).extend(numbers)
    return groups


def _udr_lines(
    models: Sequence[FittedModel], scores: Sequence[Scores], groups: Mapping[str, Sequence[int]]
) -> list[str]:
    """Return the UDR of each group of runs that differ only in their seed, with its settings."""
    lines = []
    for group, numbers in groups.items():
        own = {models[n].run.seed: scores[n][UDR] for n in numbers if UDR in scores[n]}
        if own:
            lines.append(f"{UDR} of {group}: {udr_text(list(own.values()))}")
    return lines


def evaluation_notes(
    models: Sequence[FittedModel], rows: int, scores: Mapping[str, Scores]
) -> list[str]:
    """Return what the scored models were measured on, without repeats.

    If they are on several datasets, the lines name these.
    """
    lines, unfinished, labels = list[str](), list[tuple[str, str]](), run_labels(models)
    own = [model for model in models if model.folder and labels[model.folder] in scores]
    several = len({content_of(model) for model in own}) > 1
    for model in own:
        assert model.folder is not None
        name = f"{data_label(model.run.data)}: " if several else ""
        trained_on, split = split_of(model.run.data), _split_text(model.split)
        if model.split != trained_on:
            split += f" (trained on {_split_text(trained_on)})"
        size = f"{min(rows, model.dataset.size):,}"
        lines.append(f"{name}measured on {size} observations of {split}")
        if model.progress:
            unfinished.append((model.progress, labels[model.folder]))
        if bound := scores[labels[model.folder]].get(LIKELIHOOD):
            count, particles = bound.details["observations"], bound.details["particles"]
            lines.append(
                f"{LIKELIHOOD}: mean bound in nats over {count} observations, {particles} "
                "particles each"
            )
    for progress, runs in grouped(unfinished).items():
        more = f" and {len(runs) - _MOST_COLUMNS} more" * (len(runs) > _MOST_COLUMNS)
        lines.append(f"run {', '.join(runs[:_MOST_COLUMNS])}{more}: {progress}")
    return list(dict.fromkeys(lines))


def _split_text(split: str) -> str:
    return "all data" if split == "all" else f"the {split} split"


def run_labels(models: Iterable[FittedModel]) -> dict[Path, str]:
    """Return the digest of each run by folder, or the folder where two share a digest."""
    digests = {model.folder: model.run.digest for model in models if model.folder is not None}
    counts = Counter(digests.values())
    return {
        folder: digest if counts[digest] == 1 else str(folder) for folder, digest in digests.items()
    }
