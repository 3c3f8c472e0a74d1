"""Score stored runs or a table of codes, showing progress and printing warnings as notes."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from unweave.cli.options import ScoringOptions
from unweave.cli.score_output import run_labels
from unweave.core import files
from unweave.core.console import err
from unweave.core.files import DISK_FAILURE
from unweave.core.groups import grouped
from unweave.core.notes import capture_warnings, print_notes
from unweave.core.progress import ProgressDisplay
from unweave.evaluation.evaluate import map_tables, score_facts, score_models
from unweave.evaluation.model import Codes, FittedModel
from unweave.evaluation.scoring import (
    Scorer,
    ScoringTask,
    TableScores,
    map_tables_on,
    try_to_score,
)
from unweave.evaluation.shared_latents import is_informed
from unweave.metrics import METRICS, Score, Scores, Table, evaluate, left_out
from unweave.metrics.model_metrics import split_model_metrics
from unweave.metrics.registry import select
from unweave.metrics.table_npz import table_bytes
from unweave.training.leases import FolderInUse
from unweave.training.store import RunFolder, ScoreFacts, Store, refuse_model_file

_MOST_NAMED = 3  # left-out metrics that are named for each reason


class Scored(NamedTuple):
    """The scores of runs by label, and the reasons why others could not be scored."""

    scores: dict[str, Scores]
    failures: dict[str, str]
    disk_errors: list[OSError]  # why scores were not stored; raise one after printing them
    left_out: dict[str, dict[str, str]]  # metrics that were named but do not apply, and why
    uninformed: list[str]  # runs of which no variable carries information, scored by factors


def score_runs(
    models: list[FittedModel],
    rows: int,
    options: ScoringOptions | None = None,
    codes: Codes = "mean",
    on: Scorer | None = None,
    task: ScoringTask | None = None,
) -> Scored:
    """Score runs; labels are digests, or folders if a digest occurs twice.

    The scores and the table they were computed from are written to the folder of each run as soon
    as it is scored, so they survive an interruption. A run that cannot be scored does not stop the
    others. If no metrics are named, say which are left out. With `on`, other processes encode
    and score the tables; the split, the data and the device are those of the task.
    """
    options = options or ScoringOptions()
    names, by_folder = options.names, run_labels(models)
    labels = [by_folder[model.folder] for model in models if model.folder is not None]
    of_tables, of_models = split_model_metrics(names)
    score = partial(
        try_to_score, partial(evaluate, seed=options.seed, **options.keywords), of_tables
    )
    facts = [score_facts(m, rows, codes, options.seed, options.continuous) for m in models]
    scored, encoded = Scored({}, {}, [], {}, []), dict[int, Table]()
    totals = {"encoded": sum(each.rows for each in facts)} if on is None else {}
    totals |= {"measured": len(models)}
    printed: set[str] = set()
    with ProgressDisplay(err, totals) as counts:
        count_encoded = partial(counts.add, "encoded")
        results: Iterable[tuple[int, Table | None, TableScores]]
        if on is None or task is None:
            results = map_tables(models, rows, score, count_encoded, codes)
        else:
            asked: dict[str, Any] = {"rows": rows, "codes": codes, "seed": options.seed}
            chosen = None if of_tables is None else tuple(map(str, of_tables))
            task = replace(task, metrics=chosen, options={**options.keywords}, **asked)
            results = map_tables_on(on, models, task)
        for number, table, result in results:
            counts.add("measured")
            stored: list[str] = []
            encoded |= {number: table} if of_models and table is not None else {}
            if result.problems:
                scored.failures[labels[number]] = "; ".join(result.problems)
            if result.scores or not (result.problems or of_models):
                scored.scores[labels[number]] = result.scores
                if table is not None:
                    if not is_informed(table) and METRICS.keys() & result.scores.keys():
                        scored.uninformed.append(labels[number])
                    given = models[number], table, facts[number], result.scores
                    stored = _store(*given, scored.disk_errors)
            skipped = omitted(table) if table is not None and names is None else []
            if table is not None and names is not None:
                scored.left_out[labels[number]] = left_out(table, names)
            notes = [*map(str, result.warned), *skipped, *stored]
            print_notes(err, (note for note in notes if note not in printed))
            printed.update(notes)
    if of_models:
        _score_models(models, labels, of_models, encoded, facts, scored)
    order = [label for label in labels if label in scored.scores]
    return scored._replace(scores={label: scored.scores[label] for label in order})


def _score_models(
    models: list[FittedModel],
    labels: list[str],
    keys: list[str],
    tables: dict[int, Table],
    facts: list[ScoreFacts],
    scored: Scored,
) -> None:
    """Add and store the scores that need more than a model's own table, such as the likelihood.

    A model without a table is not scored.
    """
    known, seed = sorted(tables), facts[0].seed if facts else 0
    for number, label in enumerate(labels):
        if number not in tables:
            scored.failures.setdefault(label, f"no {', '.join(keys)}: its codes are not stored")
    chosen = [models[number] for number in known]
    by_place = {place: tables[number] for place, number in enumerate(known)}
    with ProgressDisplay(err, {"metrics of models": len(chosen) * len(keys)}) as counts:
        for place, result in score_models(chosen, keys, by_place, seed):
            number = known[place]
            model, label = models[number], labels[number]
            counts.add("metrics of models")
            if isinstance(result, ValueError):
                problems = [scored.failures[label]] if label in scored.failures else []
                scored.failures[label] = "; ".join([*problems, str(result)])
                continue
            own = scored.scores.setdefault(label, Scores({}))
            own[result.key] = result
            given = model, tables[number], facts[number], own
            print_notes(err, _store(*given, scored.disk_errors))


def _store(
    model: FittedModel,
    table: Table,
    facts: ScoreFacts,
    scores: Scores,
    disk_errors: list[OSError],
) -> list[str]:
    """Write codes and scores into the folder of a run; return a note if that is not possible.

    Errors of a disk that is full or broken are added to `disk_errors`.
    """
    folder = RunFolder(model.folder or Path())
    try:
        with folder.lock():
            folder.write_table(model.split, partial(table_bytes, table))
            _, warned = capture_warnings(folder.write_scores, facts, scores.to_json())
    except FolderInUse as error:
        return [f"scores of run {model.run.digest} are not stored: {error}"]
    except OSError as error:
        if error.errno in DISK_FAILURE:
            disk_errors.append(error)
            return []
        store = files.disk.name(folder.path.parent)
        return [f"scores are not stored: {store} is not writable ({error.strerror})"]
    return [str(warning) for warning in warned]


def score_table(table: Table, options: ScoringOptions, scores: Scores) -> list[str]:
    """Add the scores of a table to `scores` one by one, so an interruption keeps those done.

    Return which of the metrics that were named are left out.
    """
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
    return [] if names is None else left_out_lines({"": left_out(table, names)})


def left_out_lines(by_run: Mapping[str, Mapping[str, str]]) -> list[str]:
    """Say which metrics that were named do not apply to which runs; a table has the label "".

    >>> left_out_lines({"a": {"mig/chen2018": "it needs scales"}, "b": {}})
    ['mig/chen2018 is left out: it needs scales (a)']
    """
    lines = grouped((f"{key} is left out: {reason}", run)
                    for run, reasons in by_run.items()
                    for key, reason in reasons.items())  # fmt: skip
    return [f"{line} ({', '.join(runs)})" if any(runs) and len(by_run) > 1 else line
            for line, runs in lines.items()]  # fmt: skip


def omitted(table: Table) -> list[str]:
    """Return which metrics are left out if none are named, one line per reason."""
    reasons = left_out(table)
    lines = []
    for reason, keys in grouped((why, key) for key, why in reasons.items()).items():
        which = ", ".join(keys)
        if len(keys) > _MOST_NAMED:
            which = f"{len(keys)}, such as {keys[0]}; `unweave metrics --page` says what each needs"
        lines.append(f"some metrics are left out: {reason} ({which})")
    slow = [key for key, metric in METRICS.items() if metric.slow and key not in reasons]
    if slow and len(reasons) + len(slow) < len(METRICS):
        lines.append(f"slow metrics are left out (--metrics all): {', '.join(slow)}")
    return lines


def find_runs(names: Iterable[str], store: Path) -> list[Path]:
    """Return the folders of runs by digest, start of a digest or folder, each once.

    Files and folders that are not runs, as in `runs/*`, are skipped with a note; a name that is
    neither a run nor a path is an error.
    """
    skipped = [
        name for name in names if Path(name).exists() and not (Path(name) / "run.json").exists()
    ]
    wanted = [name for name in names if name not in skipped]
    if skipped and not wanted:
        refuse_model_file(skipped[0])
        raise ValueError(
            f"expected folders of runs, got {', '.join(skipped)}, without run.json: `unweave runs` "
            "lists the runs"
        )
    print_notes(err, (f"skipped {name}: it is not a run" for name in skipped))
    return Store(store).find_all(wanted)
