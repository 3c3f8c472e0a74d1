"""Compare trained models: what differs in their settings, and what that changes.

Models that differ only in their seed form a group. Every number of a group is a mean over its seeds
with Student's t interval, and groups are compared by Welch's interval of the difference.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np

from unweave.core import spec
from unweave.core.intervals import Estimate, difference_interval, mean_interval
from unweave.evaluation.evaluate import evaluate, tables
from unweave.evaluation.model import FittedModel
from unweave.evaluation.shared_latents import SharedLatent, shared_latents
from unweave.metrics import METRICS, Score, Scores, Table, udr
from unweave.metrics.model_metrics import LIKELIHOOD, UDR, split_model_metrics
from unweave.metrics.registry import MetricChoice, find_metrics, metric_keys
from unweave.metrics.score import csv_text
from unweave.training.final_terms import final_terms
from unweave.training.grouping import (
    data_label,
    differing,
    same_but_for_the_seed,
    settings_of,
    value_text,
)
from unweave.training.run import Run
from unweave.training.store import RunFolder

_INFORMATIVE = 0.01  # nats of KL above which a latent is active, as for UDR
_EQUAL = 1e-9  # smaller differences are due to rounding
_LOWER = "distortion"  # the only number of a log that is better if it is lower
_FINAL = ("distortion", "rate")  # terms at the end of a log


@dataclass(frozen=True, eq=False)
class ComparedRun:
    """What a comparison reads of a run: its settings, its log, its scores and its codes.

    `data` identifies the data. `table` is None if the run could not be encoded.
    """

    name: str
    run: Run
    data: str
    log: Sequence[Mapping[str, Any]]
    measures: Sequence[Mapping[str, Any]] = ()
    scores: Mapping[str, Score] = field(default_factory=dict)
    rows: int | None = None  # that the scores were computed on
    table: Table | None = None

    @property
    def values(self) -> dict[str, float]:
        """The numbers to compare by name: the end of the log, the held-out loss, the scores."""
        final = {name: value for name, value in final_terms(self.log).items() if name in _FINAL}
        held_out = [row["validation"] for row in self.measures if "validation" in row][-1:]
        for name, value in held_out[0].items() if held_out else ():
            if value is not None:
                final[f"validation/{name}"] = float(value)
        for key, score in self.scores.items():
            if key != UDR:  # which is of a group
                final[key] = float(score.value)
                final |= {f"{key} {part}": value for part, value in score.components.items()}
        return final


@dataclass(frozen=True)
class RunGroup:
    """Runs that differ only in their seed.

    `settings` are those that differ between groups. `udr` has a score for each run of `encoded`, in
    order of the seeds, and `latents` the latents matched across them, where models are numbers of
    `encoded`; both are empty for fewer than two encoded runs.
    """

    name: str
    settings: dict[str, Any]
    runs: tuple[ComparedRun, ...]
    encoded: tuple[ComparedRun, ...] = ()
    udr: tuple[Score, ...] = ()
    latents: tuple[SharedLatent, ...] = ()

    def values(self, name: str) -> list[float]:
        """Return the values of a number by run, of the runs that have it."""
        return [run.values[name] for run in self.runs if name in run.values]

    def estimate(self, name: str, level: float) -> Estimate | None:
        """Return the mean of a number over the seeds with its interval; None without values."""
        values = self.values(name)
        return mean_interval(values, level) if values else None

    @property
    def title(self) -> str:
        """The settings as text."""
        texts = (f"{name}={value_text(value)}" for name, value in self.settings.items())
        return ", ".join(texts) or "all runs"


class Contrast(NamedTuple):
    """The best group by one number, the second best, and the difference of their means."""

    number: str
    best: RunGroup
    second: RunGroup
    difference: Estimate

    @property
    def tied(self) -> bool:
        """Whether both means are the same, up to rounding."""
        return abs(self.difference.value) < _EQUAL

    @property
    def distinguishable(self) -> bool | None:
        """Whether the interval of the difference excludes 0; None without an interval."""
        low, high = self.difference.low, self.difference.high
        return None if low is None or high is None else low > 0 or high < 0


@dataclass(frozen=True)
class Section:
    """The runs on one dataset: their groups, and the best by every number."""

    data: str  # as text
    settings: tuple[str, ...]
    groups: tuple[RunGroup, ...]
    numbers: tuple[str, ...]
    contrasts: tuple[Contrast, ...]


@dataclass(frozen=True, repr=False)
class Comparison:
    """A comparison of runs, with a section for each dataset; it prints as text.

    `level` is that of all intervals. `notes` say what a reader should know.
    """

    sections: tuple[Section, ...]
    notes: tuple[str, ...]
    level: float = 0.95

    def __str__(self) -> str:
        from unweave.evaluation.comparison_text import comparison_text

        return comparison_text(self)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        from unweave.evaluation.comparison_text import comparison_html

        return comparison_html(self)

    def to_csv(self) -> str:
        """Return CSV text: a line for each group and number, with its mean and interval."""
        settings = list(dict.fromkeys(name for s in self.sections for name in s.settings))
        head = ["data", "group", *settings, "number", "seeds", "mean", "low", "high"]
        rows: list[list[object]] = []
        for section in self.sections:
            for group in section.groups:
                own = [group.settings.get(name, "") for name in settings]
                for name in section.numbers:
                    if estimate := group.estimate(name, self.level):
                        ends = ["" if end is None else end for end in estimate]
                        count = len(group.values(name))
                        rows.append([section.data, group.name, *own, name, count, *ends])
                if group.udr:
                    mean = float(np.mean([s.value for s in group.udr]))
                    key, count = group.udr[0].key, len(group.udr)
                    rows.append([section.data, group.name, *own, key, count, mean, "", ""])
        return csv_text(head, rows)

    def to_json(self) -> dict[str, Any]:
        """Return the comparison as plain dicts, lists, strings and numbers."""
        return {
            "level": self.level,
            "notes": list(self.notes),
            "sections": [
                {
                    "data": section.data,
                    "settings": list(section.settings),
                    "groups": [_group_json(g, section.numbers, self.level) for g in section.groups],
                    "best": [
                        {
                            "number": each.number,
                            "best": each.best.name,
                            "second": each.second.name,
                            "difference": each.difference._asdict(),
                            "distinguishable": each.distinguishable,
                        }
                        for each in section.contrasts
                    ],
                }
                for section in self.sections
            ],
        }


def _group_json(group: RunGroup, numbers: Iterable[str], level: float) -> dict[str, Any]:
    encoded = [run.name for run in group.encoded]
    estimates = {name: group.estimate(name, level) for name in numbers}
    return {
        "group": group.name,
        "settings": group.settings,
        "runs": [
            {"run": run.name, "seed": run.run.seed, "values": run.values} for run in group.runs
        ],
        "means": {name: each._asdict() for name, each in estimates.items() if each},
        "udr": {name: score.value for name, score in zip(encoded, group.udr, strict=True)}
        if group.udr
        else None,
        "latents": [
            {
                "run": encoded[each.model],
                "latent": each.latent,
                "found by": [encoded[m] for m in each.found_by],
                "matches": {encoded[m]: match._asdict() for m, match in each.matches.items()},
            }
            for each in group.latents
        ],
    }


def compare(
    models: Sequence[FittedModel],
    *,
    metrics: str | Sequence[MetricChoice] | None = None,
    rows: int = 10_000,
    level: float = 0.95,
    seed: int = 0,
) -> Comparison:
    """Compare models group by group: the models of a group differ only in their seed.

    The comparison has the end of each log, scores, the best group by each, and, for groups of two
    models or more, the latents matched across seeds and UDR. Models on different data are never
    pooled: each dataset has a section of its own.

    Args:
        models: as `fit` and `load` return them in a list.
        metrics: what to compute, as `unweave.evaluate` takes it. Default: the scores that are
            stored with the models, of the split that the models are on.
        rows: observations to encode.
        level: of the intervals.
        seed: of rows and metrics.
    """
    if isinstance(models, FittedModel):
        raise TypeError("expected a list of models to compare, got one: give [one, two, ...]")
    return compare_runs(compared_models(models, metrics, rows, seed), level, seed)


def compared_models(
    models: Sequence[FittedModel],
    metrics: str | Sequence[MetricChoice] | None = None,
    rows: int = 10_000,
    seed: int = 0,
) -> list[ComparedRun]:
    """Return what a comparison reads of models: stored or computed scores, and codes."""
    runs = [compared_model(model) for model in models]
    if metrics is not None:
        runs = _with_metrics(runs, models, metrics, rows, seed)
    encoded = tables(models, rows, seed)
    return [replace(run, table=table) for run, table in zip(runs, encoded, strict=True)]


def compared_model(model: FittedModel) -> ComparedRun:
    """Return what is known of a model, with the stored scores of the split it is on."""
    if model.folder is not None:
        run = compared_folder(RunFolder(model.folder), model.split)
        return replace(run, data=_identity(model.run, model.dataset.fingerprint))
    data = _identity(model.run, model.dataset.fingerprint)
    return ComparedRun(model.run.digest, model.run, data, model.log, model.measures)


def compared_folder(folder: RunFolder, split: str | None = None) -> ComparedRun:
    """Return what is stored of a run: its log, and its scores of a split (default: its own)."""
    run, every = folder.read_run(), folder.scores
    content: dict[str, Any] = every.get(split, {}) if split else next(iter(every.values()), {})
    fingerprint = folder.path / "data.json"
    stored = json.loads(fingerprint.read_text()).get("fingerprint") if fingerprint.exists() else ""
    return ComparedRun(
        folder.path.name,
        run,
        _identity(run, stored),
        folder.read_log(),
        folder.read_measures(),
        Scores.from_json(content.get("scores", {})),
        content.get("rows"),
    )


def _identity(run: Run, fingerprint: str) -> str:
    """Return what is equal for runs on the same data: the spec, and the content."""
    return f"{spec.digest(run.data)} {fingerprint}"


def _with_metrics(
    runs: Sequence[ComparedRun],
    models: Sequence[FittedModel],
    metrics: str | Sequence[MetricChoice],
    rows: int,
    seed: int,
) -> list[ComparedRun]:
    """Give each run the scores that were asked for, stored ones if they are of as many rows."""
    wanted = metric_keys(metrics)
    missing = [n for n, model in enumerate(models) if lacks_metrics(model, metrics, rows)]
    computed = evaluate([models[n] for n in missing], rows, metrics=metrics, seed=seed)
    scores = {n: run.scores for n, run in enumerate(runs)} | dict(
        zip(missing, computed, strict=True)
    )
    return [
        replace(
            run,
            scores={key: score for key, score in scores[n].items() if key in wanted},
            rows=min(rows, models[n].dataset.size),
        )
        for n, run in enumerate(runs)
    ]


def lacks_metrics(model: FittedModel, metrics: str | Sequence[MetricChoice], rows: int) -> bool:
    """Return whether a metric of a choice has no stored score of so many rows of a model.

    A name stands for several protocols, of which some may not apply: one is enough.
    """
    run = compared_model(model)
    of_tables, of_models = split_model_metrics(metrics)
    each = [set(find_metrics(choice)) for choice in of_tables or ()]
    each += [{key} for key in of_models if key != UDR]
    count = min(rows, model.dataset.size)
    return run.rows != count or any(not keys & set(run.scores) for keys in each)


def compare_runs(runs: Sequence[ComparedRun], level: float = 0.95, seed: int = 0) -> Comparison:
    """Compare what is known of runs, as `compare` does."""
    notes = []
    finished = [run for run in runs if not run.log or run.log[-1]["step"] >= run.run.steps]
    if unfinished := [run.name for run in runs if run not in finished]:
        notes.append(f"left out, not trained to the end: {', '.join(unfinished)}")
    by_digest: dict[tuple[str, str], ComparedRun] = {}
    for run in finished:
        by_digest.setdefault((run.run.digest, run.data), run)
    distinct = list(by_digest.values())
    if len(distinct) < 2:
        raise ValueError(
            f"expected at least two different finished runs to compare, got {len(distinct)}"
        )
    if copies := len(finished) - len(distinct):
        are = "is a copy" if copies == 1 else "are copies"
        notes.append(f"{copies} of the runs {are} of others, left out")
    datasets: dict[str, list[ComparedRun]] = {}
    for run in distinct:
        datasets.setdefault(run.data, []).append(run)
    if len(datasets) > 1:
        notes.append(
            f"the runs are on {len(datasets)} different datasets, each in a section of its own: "
            "numbers on different data are not compared"
        )
    sections = tuple(_section(own, level, seed) for own in datasets.values())
    for section in sections:
        notes += _section_notes(section)
    return Comparison(sections, tuple(dict.fromkeys(notes)), level)


def _section(runs: Sequence[ComparedRun], level: float, seed: int) -> Section:
    every = [settings_of(run.run) for run in runs]
    names = tuple(differing(every))
    numbers = same_but_for_the_seed([run.run for run in runs])
    chosen = [{name: every[own[0]].get(name) for name in names} for own in numbers]
    order = sorted(range(len(numbers)), key=lambda g: [_sort_key(v) for v in chosen[g].values()])
    groups = tuple(
        _group(_letter(place), chosen[g], [runs[n] for n in numbers[g]], seed)
        for place, g in enumerate(order)
    )
    values = tuple(dict.fromkeys(name for run in runs for name in run.values))
    contrasts = tuple(c for name in values if (c := _contrast(name, groups, level)))
    title = data_label(runs[0].run.data)
    return Section(title, names, groups, values, contrasts)


def _sort_key(value: object) -> tuple[int, float, str]:
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return (0, float(value), "") if number else (1, 0.0, str(value))  # type: ignore[arg-type]


def _letter(place: int) -> str:
    """Return A, B, ..., Z, AA, AB, ...

    >>> _letter(0), _letter(25), _letter(26)
    ('A', 'Z', 'AA')
    """
    return (_letter(place // 26 - 1) if place >= 26 else "") + chr(ord("A") + place % 26)


def _group(name: str, settings: dict[str, Any], runs: Sequence[ComparedRun], seed: int) -> RunGroup:
    by_seed = tuple(sorted(runs, key=lambda run: run.run.seed))
    encoded = [(run, run.table) for run in by_seed if run.table is not None]
    if len(encoded) < 2 or len({len(table) for _, table in encoded}) > 1:
        return RunGroup(name, settings, by_seed)
    scores = udr(
        [table.codes for _, table in encoded],
        kl=[_kl(table) for _, table in encoded],
        seed=seed,
    )
    # The model that agrees most with the others comes first: its latents name the rest.
    order = sorted(range(len(encoded)), key=lambda n: -scores[n].value)
    active = [_active(encoded[n][1]) for n in order]
    codes = [encoded[n][1].codes[:, mask] for n, mask in zip(order, active, strict=True)]
    names = [
        [name for name, on in zip(encoded[n][0].run.latent.names, mask, strict=True) if on]
        for n, mask in zip(order, active, strict=True)
    ]
    latents = [
        each._replace(
            model=order[each.model], matches={order[m]: match for m, match in each.matches.items()}
        )
        for each in shared_latents(codes, names)
    ]
    return RunGroup(
        name,
        settings,
        by_seed,
        tuple(run for run, _ in encoded),
        tuple(scores),
        tuple(latents),
    )


def _kl(table: Table) -> Any:
    return np.full(table.codes.shape[1], np.inf) if table.kl is None else table.kl


def _active(table: Table) -> Any:
    """Return the mask (D,) of the latents to match: numbers that vary and carry information."""
    mask = (table.codes != table.codes[:1]).any(0) & (_kl(table) > _INFORMATIVE)
    return mask if table.discrete is None else mask & ~table.discrete


def _contrast(name: str, groups: Sequence[RunGroup], level: float) -> Contrast | None:
    """Return the best group by a number with a known direction, if two groups have the number."""
    better = _direction(name)
    having = [group for group in groups if group.values(name)]
    if better is None or len(having) < 2:
        return None
    best, second = sorted(having, key=lambda g: better * float(np.mean(g.values(name))))[-2:][::-1]
    difference = difference_interval(best.values(name), second.values(name), level)
    return Contrast(name, best, second, difference)


def _direction(name: str) -> int | None:
    """Return 1 if a larger number is better, -1 if a smaller one is, None if neither holds."""
    last = name.split("/")[-1]
    if last == _LOWER:
        return -1
    return 1 if name.split()[0] in METRICS or name == LIKELIHOOD or last == "r2" else None


def _section_notes(section: Section) -> list[str]:
    """Say what is missing or not comparable."""
    runs = [run for group in section.groups for run in group.runs]
    notes = []
    rows = sorted({run.rows for run in runs if run.scores and run.rows is not None})
    if len(rows) > 1:
        listed = ", ".join(f"{count:,}" for count in rows)
        notes.append(
            f"{section.data}: stored scores are of different numbers of rows ({listed}), so they "
            "are not quite comparable; score all runs again, or name metrics to compute"
        )
    unscored = [run.name for run in runs if not run.scores]
    if unscored and len(unscored) < len(runs):
        notes.append(
            f"{section.data}: {len(unscored)} of {len(runs)} runs have no stored scores; score "
            "them with `unweave evaluate`, or name metrics to compute"
        )
    elif unscored:
        notes.append(
            f"{section.data}: no scores are stored; score the runs with `unweave evaluate`, or "
            "name metrics to compute"
        )
    if all(len(group.runs) == 1 for group in section.groups):
        notes.append(
            f"{section.data}: every group has a single seed, so differences cannot be told from "
            "chance; train more seeds, as in seed=0..4"
        )
    off = [run.name for run in runs if run.table is None]
    if off:
        notes.append(
            f"{section.data}: {len(off)} of {len(runs)} runs could not be encoded, and have no "
            "part in UDR and matched latents"
        )
    return notes
