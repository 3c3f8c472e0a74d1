"""Score stored runs or a table of codes, showing progress and printing warnings as notes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from functools import partial
from pathlib import Path

from unweave.cli.options import ScoringOptions
from unweave.core.console import err
from unweave.core.notes import capture_warnings, print_notes
from unweave.core.progress import ProgressDisplay
from unweave.evaluation.evaluate import map_tables
from unweave.evaluation.model import Codes, FittedModel
from unweave.metrics import METRICS, Score, Scores, Table, evaluate, left_out
from unweave.metrics.registry import select
from unweave.training.store import RunFolder


def score_runs(
    models: list[FittedModel],
    rows: int,
    options: ScoringOptions | None = None,
    codes: Codes = "mean",
) -> dict[str, Scores]:
    """Score runs and return their scores by digest, or by folder if a digest occurs twice.

    The scores and the table they were computed from are written to the folder of each run as soon
    as it is scored, so they survive an interruption. If no metrics are named, say which are left
    out.
    """
    options = options or ScoringOptions()
    names, labels = options.names, run_labels(models)
    scores_by_label = {label: Scores() for label in labels.values()}
    score = partial(
        capture_warnings, partial(evaluate, metrics=names, seed=options.seed, **options.keywords)
    )
    totals = {"encoded": sum(min(rows, m.dataset.size) for m in models), "measured": len(models)}
    printed: set[str] = set()
    with ProgressDisplay(err, totals) as counts:
        count_encoded = partial(counts.add, "encoded")
        for number, table, (scores, warned) in map_tables(
            models, rows, score, count_encoded, codes
        ):
            model = models[number]
            assert model.folder is not None
            folder = RunFolder(model.folder)
            table.save(folder.table_path(model.split))
            folder.write_scores(model.split, len(table), codes, scores.to_json())
            scores_by_label[labels[model.folder]] = scores
            notes = [*map(str, warned), *(omitted(table) if names is None else [])]
            print_notes(err, (note for note in notes if note not in printed))
            printed.update(notes)
            counts.add("measured")
    return scores_by_label


def score_table(table: Table, options: ScoringOptions, scores: Scores) -> None:
    """Add the scores of a table to `scores` one by one, so an interruption keeps those done."""
    if (continuous := options.keywords["continuous"]) is not None:
        table = replace(table, continuous=continuous)
    names = options.names
    chosen = select(table, names)
    notes = [*table.notes, *([table.too_few_rows] if table.too_few_rows else [])]
    print_notes(err, notes)
    with ProgressDisplay(err, {"measured": len(chosen)}) as counts:

        def progress(key: str, score: Score | None) -> None:
            if score is None:
                counts.begin("measured", key, chosen[key].slow)
            else:
                scores[key] = score
                counts.add("measured")

        score = partial(
            evaluate, metrics=names, seed=options.seed, progress=progress, **options.keywords
        )
        _, warned = capture_warnings(score, table)
    print_notes(err, (text for text in map(str, warned) if text not in notes))
    print_notes(err, omitted(table) if names is None else [])


def omitted(table: Table) -> list[str]:
    """Return which metrics are left out if none are named, one line per reason."""
    reasons = left_out(table)
    lines = []
    for reason in dict.fromkeys(reasons.values()):
        keys = [key for key, why in reasons.items() if why == reason]
        lines.append(f"some metrics are left out: {reason} ({', '.join(keys)})")
    slow = [key for key, metric in METRICS.items() if metric.slow and key not in reasons]
    if slow and len(reasons) + len(slow) < len(METRICS):
        lines.append(f"slow metrics are left out (--metrics all): {', '.join(slow)}")
    return lines


def run_labels(models: Iterable[FittedModel]) -> dict[Path, str]:
    """Return the digest of each run by folder, or the folder where two share a digest."""
    digests = {model.folder: model.run.digest for model in models if model.folder is not None}
    counts = Counter(digests.values())
    return {
        folder: digest if counts[digest] == 1 else str(folder) for folder, digest in digests.items()
    }
