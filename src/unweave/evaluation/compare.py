"""Compare trained models: what differs in their settings, and what that changes.

Models that differ only in their seed form a group. Every quantity of a group is a mean over its
seeds with Student's t interval, and groups are compared by Welch's interval of the difference, or
seed by seed if they differ only in steps.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from unweave.core import spec
from unweave.core.groups import grouped
from unweave.core.parts import reading_again
from unweave.data.splits import on_split, split_of
from unweave.evaluation.comparison import (
    ComparedRun,
    Comparison,
    Contrast,
    RunGroup,
    Section,
    is_score,
)
from unweave.evaluation.evaluate import content_of, evaluate, score_facts, tables
from unweave.evaluation.model import FittedModel
from unweave.evaluation.shared_latents import (
    LEAST_INFORMATION,
    NO_INFORMATION,
    most_information,
    shared_latents,
)
from unweave.metrics import Scores, Table, udr
from unweave.metrics.model_metrics import LIKELIHOOD, UDR, split_model_metrics
from unweave.metrics.registry import MetricChoice, metric_keys
from unweave.metrics.score import notes_on_runs
from unweave.training.flat_settings import differing, sort_key
from unweave.training.grouping import (
    code_in,
    data_identity,
    data_label,
    same_but_for_the_seed,
    settings_of,
)
from unweave.training.run_files import why_unused
from unweave.training.store import RunFolder, ScoreFacts

_LOWER = "distortion"  # the only quantity of a log that is better if it is lower
ScoreModels = Callable[[Sequence[FittedModel], Sequence[MetricChoice]], list[Scores]]


def compare(
    models: Sequence[FittedModel],
    *,
    metrics: str | Sequence[MetricChoice] | None = None,
    rows: int = 10_000,
    level: float = 0.95,
    seed: int = 0,
) -> Comparison:
    """Compare models group by group: the models of a group differ only in their seed.

    The comparison has final terms, scores, the best group by each, and, for groups of two or more
    models, the latents matched across seeds and UDR. Models on different data are never pooled:
    each dataset has a section of its own.

    Args:
        models: as `fit` and `load` return them in a list.
        metrics: what to compute, as in `unweave.evaluate`. Default: the scores stored with the
            models, for their split.
        rows: number of observations to encode.
        level: confidence level of the intervals.
        seed: seed of the metrics.
    """
    if isinstance(models, FittedModel):
        raise TypeError("expected a list of models to compare, got one: give [one, two, ...]")
    return compare_runs(compared_models(models, metrics, rows, seed), level, seed)


def compared_models(
    models: Sequence[FittedModel],
    metrics: str | Sequence[MetricChoice] | None = None,
    rows: int = 10_000,
    seed: int = 0,
    score: ScoreModels | None = None,
) -> list[ComparedRun]:
    """Return the results of models that a comparison needs: stored or computed scores, and codes.

    `score(models, metrics)` computes the scores that are missing, from the same rows and seed
    (default: `evaluate`). A score that it leaves out is missing in the comparison.
    """

    def compute(models: Sequence[FittedModel], metrics: Sequence[MetricChoice]) -> list[Scores]:
        return evaluate(models, rows, metrics=metrics, seed=seed)

    runs = [compared_model(model) for model in models]
    if metrics is not None:
        runs = _with_metrics(runs, models, metrics, rows, seed, score or compute)
    encoded = tables(models, rows)
    return [replace(run, table=table) for run, table in zip(runs, encoded, strict=True)]


def compared_model(model: FittedModel) -> ComparedRun:
    """Describe a model, with its stored scores on the same split and labels."""
    run = ComparedRun(model.run.digest, model.run, "", model.log, model.measures)
    if model.folder is not None:
        with reading_again():
            run = compared_folder(RunFolder(model.folder), model.split)
        if run.facts and run.facts.labels != model.dataset.labels_fingerprint:
            run = replace(run, scores={}, facts=None, unused="they were computed from other labels")
    return replace(run, data=content_of(model), extremes=model.schema.extremes)


def compared_folder(folder: RunFolder, split: str | None = None) -> ComparedRun:
    """Return the stored log of a run, and its scores on a split (default: its own)."""
    run, every, record = folder.read_run(), folder.scores, folder.read_data()
    log = folder.read_log()
    stored = every.get(split) if split else next(iter(every.values()), None)
    facts = ScoreFacts.of(stored) if stored else None
    unused = why_unused(stored, log) if stored else ""
    labels = facts.labels if facts else record.labels_fingerprint
    data = on_split(run.data, facts.split if facts else split or split_of(run.data))
    return ComparedRun(
        folder.path.name,
        run,
        data_identity(data, record.fingerprint, labels),
        log,
        folder.read_measures(),
        Scores.from_json(stored["scores"]) if stored and not unused else {},
        None if unused else facts,
        unused,
        extremes=record.schema.extremes,
        code=code_in(folder.settings),
    )


def _with_metrics(
    runs: Sequence[ComparedRun],
    models: Sequence[FittedModel],
    metrics: str | Sequence[MetricChoice],
    rows: int,
    seed: int,
    score: ScoreModels,
) -> list[ComparedRun]:
    """Add the requested scores to each run, reusing stored ones that have the same `ScoreFacts`.

    UDR is left out: groups compute it.
    """
    of_tables, of_models = split_model_metrics(metrics)
    choices = [*(of_tables or ()), *(key for key in of_models if key != UDR)]
    scored = []
    for run, model in zip(runs, models, strict=True):
        facts = score_facts(model, rows, seed=seed)
        scores = run.scores if run.facts == facts else {}
        scored.append(replace(run, scores=scores, facts=facts, unused=""))
    missing = [n for n, run in enumerate(scored) if _lacks(run.scores, choices)]
    if missing:
        computed = score([models[n] for n in missing], choices)
        for n, scores in zip(missing, computed, strict=True):
            scored[n] = replace(scored[n], scores={**scored[n].scores, **scores})
    wanted = metric_keys(choices)
    return [
        replace(run, scores={key: s for key, s in run.scores.items() if key in wanted})
        for run in scored
    ]


def _lacks(scores: Iterable[str], choices: Iterable[MetricChoice]) -> bool:
    """Return whether a chosen metric has no score.

    Some protocols of a metric may not apply, so one score is enough.
    """
    present, by_metric = set(scores), dict[tuple[int, str], set[str]]()
    for number, choice in enumerate(choices):
        for key in metric_keys(choice):
            by_metric.setdefault((number, key.partition("/")[0]), set()).add(key)
    return any(not keys & present for keys in by_metric.values())


def compare_runs(runs: Sequence[ComparedRun], level: float = 0.95, seed: int = 0) -> Comparison:
    """Compare runs by their logs, scores and codes, as `compare` does."""
    notes = []
    finished = [run for run in runs if not run.log or run.log[-1]["step"] >= run.run.steps]
    if unfinished := [run.name for run in runs if run not in finished]:
        notes.append(f"left out, because their training has not finished: {', '.join(unfinished)}")
    alike = _same_but_for_the_seed(finished)
    chosen: dict[tuple[int, int], int] = {}
    for group, numbers in enumerate(alike):
        for number in numbers:
            chosen.setdefault((group, finished[number].run.seed), number)
    distinct = [finished[number] for number in sorted(chosen.values())]
    if len(distinct) < 2:
        why = f"; {len(unfinished)} have not finished training" if unfinished else ""
        raise ValueError(
            f"expected at least two different finished runs to compare, got {len(distinct)}{why}"
        )
    if copies := len(finished) - len(distinct):
        are = "is a copy" if copies == 1 else "are copies"
        notes.append(f"{copies} of the runs {are} of others and left out")
    datasets = grouped((run.data, run) for run in distinct)
    if len(datasets) > 1:
        notes.append(
            f"the runs are on {len(datasets)} different datasets, each in a section of its own: "
            "results on different data are not compared"
        )
    sections = tuple(_section(own, level, seed) for own in datasets.values())
    for section in sections:
        notes += _section_notes(section, level)
    return Comparison(sections, tuple(dict.fromkeys(notes)), level)


def _same_but_for_the_seed(runs: Sequence[ComparedRun]) -> list[list[int]]:
    return same_but_for_the_seed(
        [run.run for run in runs], [run.data for run in runs], [run.code for run in runs]
    )


def _section(runs: Sequence[ComparedRun], level: float, seed: int) -> Section:
    every = [{**settings_of(run.run, places=False), **run.code} for run in runs]
    names = tuple(differing(every))
    numbers = _same_but_for_the_seed(runs)
    chosen = [{name: every[own[0]].get(name) for name in names} for own in numbers]
    order = sorted(range(len(numbers)), key=lambda g: [sort_key(v) for v in chosen[g].values()])
    groups = tuple(
        _group(_letter(place), chosen[g], [runs[n] for n in numbers[g]], seed)
        for place, g in enumerate(order)
    )
    values = tuple(dict.fromkeys(name for run in runs for name in run.values))
    contrasts = tuple(c for name in values if (c := _contrast(name, groups, level)))
    title = data_label(runs[0].run.data)
    return Section(title, names, groups, values, contrasts)


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
    kl = [np.full(t.codes.shape[1], np.inf) if t.kl is None else t.kl for _, t in encoded]
    scores = udr([table.codes for _, table in encoded], kl=kl, seed=seed)
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
        name, settings, by_seed, tuple(run for run, _ in encoded), tuple(scores), tuple(latents)
    )


def _active(table: Table) -> Any:
    """Return the mask (D,) of the latents to match: numbers that vary and carry information."""
    mask = (table.codes != table.codes[:1]).any(0) & (most_information(table) >= LEAST_INFORMATION)
    return mask if table.discrete is None else mask & ~table.discrete


def _contrast(name: str, groups: Sequence[RunGroup], level: float) -> Contrast | None:
    """Return the best group by a quantity with a known direction, if two groups have it."""
    better = direction(name)
    having = [group for group in groups if group.values(name)]
    if better is None or len(having) < 2:
        return None
    best, *rest = sorted(having, key=lambda g: -better * float(np.mean(g.values(name))))
    second = next((group for group in rest if not group.shares_runs(best)), rest[0])
    return Contrast(name, best, second, best.difference(second, name, level))


def direction(name: str) -> int | None:
    """Return 1 if a larger value is better, -1 if a smaller one is, None if neither holds."""
    last = name.split("/")[-1]
    if last == _LOWER:
        return -1
    return 1 if is_score(name) or name == LIKELIHOOD or last == "r2" else None


def _leaves_range(group: RunGroup, name: str, level: float) -> bool:
    """Whether the interval of a score between 0 and 1 leaves this range."""
    estimate, values = group.estimate(name, level), group.values(name)
    if not is_score(name) or estimate is None or estimate.low is None:
        return False
    ends = estimate.low, estimate.high or 0.0
    return all(0 <= value <= 1 for value in values) and not all(0 <= end <= 1 for end in ends)


def _sharing(groups: Sequence[RunGroup]) -> list[list[RunGroup]]:
    """Return the groups that share runs, together."""
    found: list[list[RunGroup]] = []
    for group in groups:
        own = next((each for each in found if each[0].shares_runs(group)), None)
        own.append(group) if own else found.append([group])
    return [each for each in found if len(each) > 1]


def _section_notes(section: Section, level: float) -> list[str]:
    """Say what is missing or not comparable."""
    runs = [run for group in section.groups for run in group.runs]
    extremes = dict.fromkeys(run.extremes for run in runs if run.extremes)
    notes = [f"{section.data}: {each.advice}" for each in extremes]
    proofs = notes_on_runs({run.name: Scores(run.scores) for run in runs if run.scores})
    notes += [f"{section.data}: {each}" for each in proofs]
    scored = [run for run in runs if any(map(is_score, run.values))]
    if hollow := [run for run in scored if not run.informed]:
        notes.append(
            f"{section.data}: no evidence: {NO_INFORMATION} (all scores in {len(hollow)} of "
            f"{len(scored)} runs)"
        )
    notes += [
        f"the stored scores of {run.name} are not used: {run.unused}; name metrics to compute them"
        for run in runs
        if run.unused
    ]
    notes += [
        f"{run.name}: {', '.join(run.not_finite)} not finite, left out"
        for run in runs
        if run.not_finite
    ]
    places = len({spec.digest(run.run.data) for run in runs})
    if places > 1:
        notes.append(
            f"{section.data}: {places} places hold the same data, which count as one dataset"
        )
    facts = [run.facts for run in runs if run.facts]
    kinds = {
        "splits": {each.split for each in facts},
        "numbers of rows": {f"{each.rows:,}" for each in facts},
        "seeds of the metrics": {str(each.seed) for each in facts},
    }
    for kind, values in kinds.items():
        if len(values) > 1:
            notes.append(
                f"{section.data}: stored scores have different {kind} "
                f"({', '.join(sorted(values))}), so they are not quite comparable; score all runs "
                "again, or name metrics to compute"
            )
    unscored = [run.name for run in runs if run.facts is None and not run.unused]
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
    steps = sorted({run.run.steps for run in runs})
    if len(steps) > 1:
        notes.append(
            f"{section.data}: the groups have trained for different numbers of steps "
            f"({', '.join(f'{count:,}' for count in steps)}), which may explain differences"
        )
    if same := _sharing(section.groups):
        names = ", ".join(" and ".join(group.name for group in own) for own in same)
        notes.append(
            f"{section.data}: groups that differ only in steps ({names}) share the first steps of "
            "each seed: if they have the same seeds, their differences are taken seed by seed; and "
            "a group is compared with the best of the others"
        )
    if any(_leaves_range(group, name, level) for group in section.groups
           for name in section.quantities):  # fmt: skip
        notes.append(
            "intervals are symmetric, so for scores between 0 and 1 they may leave this range"
        )
    if all(len(group.runs) == 1 for group in section.groups):
        notes.append(
            f"{section.data}: every group has a single seed, so differences may be chance; "
            "train more seeds, as in seed=0..4"
        )
    off = [run.name for run in runs if run.table is None]
    if off:
        notes.append(
            f"{section.data}: {len(off)} of {len(runs)} runs could not be encoded, so they are "
            "missing from UDR and matched latents"
        )
    return notes
