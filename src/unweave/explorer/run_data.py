"""Read what the explorer's page shows of runs: settings, scores and curves, without weights."""

import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

from unweave.core import spec
from unweave.core.parts import MissingPart
from unweave.data.splits import split_of
from unweave.evaluation.compare import direction
from unweave.evaluation.model import FittedModel
from unweave.explorer.contents import Curves, RunData, Setting, State, TermLabel
from unweave.explorer.paths import without_paths
from unweave.metrics.score import NO_EVIDENCE
from unweave.report.text import cut, is_aggregate, measured_title, metric_title
from unweave.training.final_terms import final_terms, mean_terms
from unweave.training.flat_settings import differing, flatten, value_text
from unweave.training.grouping import without_places
from unweave.training.run import Run
from unweave.training.run_files import evenly_spaced, why_unused
from unweave.training.store import RunFolder

MOST_ROWS = 300  # of a curve
_DIGITS = 6  # of a number in a curve
_LARGEST = 3.4e38  # of float32; what training and metrics compute is not larger
_IN_NATS = ("loss", "distortion", "rate")
_VALUE = 32  # characters of a setting in a name
_PARTS = ("objective", "latent", "data", "likelihood", "network")  # of a run, by preference
_DIGEST = 4  # characters of a digest that tell runs with equal settings apart

# Why a run without weights cannot be opened, by its state.
_REASONS: dict[State, str] = {
    "running": "is training and has no checkpoint yet",
    "failed": "failed before its first checkpoint",
    "stopped": "stopped before its first checkpoint",
    "not started": "has not started to train",
    "finished": "has no weights",
}

Row = Mapping[str, Any]


def run_data(source: str | Path | FittedModel, rows: int = MOST_ROWS) -> RunData:
    """Read a run from its folder, or from a model; `named` gives runs their names.

    Curves have at most `rows` rows. Weights are not read. A run whose objective, network or other
    part is not known here has its settings and curves, but cannot be explored.
    """
    if isinstance(source, FittedModel):
        if source.folder is None:
            return _of_model(source, rows)
        return replace(_of_folder(source.folder, rows), id=source.run.digest)
    return _of_folder(Path(source), rows)


def _of_folder(path: Path, rows: int) -> RunData:
    folder = RunFolder(path)
    run, missing = _known_run(folder)
    settings = shareable_settings(folder.settings)
    log = folder.read_log(most=rows)
    state = folder.status
    trained = folder.weights.exists() or bool(folder.states)
    reason = missing or ("" if trained else _REASONS[state])
    scores = own_scores(folder, run, log) if run else {}
    return RunData(
        id=run.digest if run else path.name,
        name="",
        state=state,
        step=int(log[-1]["step"]) if log else 0,
        steps=int(settings["steps"] or 0),
        settings=settings,
        scores={key: score["value"] for key, score in scores.items()},
        log=curves(log),
        measures=curves(folder.read_measures(most=rows)),
        explorable=not reason,
        reason=reason,
        final=_ends(mean_terms(folder.read_log_end())),
        no_evidence={
            key: str(score["details"][NO_EVIDENCE])
            for key, score in scores.items()
            if NO_EVIDENCE in score["details"]
        },
    )


def _known_run(folder: RunFolder) -> tuple[Run | None, str]:
    """Return a run and "", or None and which of its parts is not known here."""
    try:
        return folder.read_run(), ""
    except MissingPart as error:
        return None, f"cannot be opened: {without_paths(str(error))}"


def shareable_settings(content: Row) -> dict[str, Setting]:
    """Return the settings of a run from its JSON form, without any path of its data.

    The fields that say where known data are, are left out. Those of a user's own data are not
    known, so every text of them that is a path keeps only its last part.

    >>> shareable_settings({"seed": 0, "data": {"kind": "my:Data", "files": ["/home/ada/a.csv"]}})
    {'seed': 0, 'data': 'my:Data', 'data.files': '["a.csv"]'}
    """
    return flatten({**content, "data": _without_own_paths(without_places(content["data"]))})


def _without_own_paths(data: Row) -> Row:
    own = ":" in str(data.get("kind", ""))  # a module and a class
    return {
        name: _without_own_paths(value)
        if isinstance(value, Mapping)
        else _last_part(value)
        if own and name != "kind"
        else value
        for name, value in data.items()
    }


def _last_part(value: Any) -> Any:
    if isinstance(value, list):
        return [_last_part(each) for each in value]
    return re.split(r"[/\\]", value.rstrip("/\\"))[-1] if isinstance(value, str) else value


def _of_model(model: FittedModel, rows: int) -> RunData:
    step = int(model.log[-1]["step"]) if model.log else 0
    return RunData(
        id=model.run.digest,
        name="",
        state="finished" if step >= model.run.steps else "stopped",
        step=step,
        steps=model.run.steps,
        settings=shareable_settings(spec.to_json(model.run)),
        scores={},
        log=curves(model.log, rows),
        measures=curves(model.measures, rows),
        explorable=True,
        final=_ends(final_terms(model.log)),
    )


def own_scores(folder: RunFolder, run: Run, log: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return the stored scores of a run on the split that it was trained on, if finite.

    Scores of an earlier step than the last of the log, or of other codes, are left out.
    """
    stored = folder.scores.get(split_of(run.data))
    used = stored["scores"] if stored and not why_unused(stored, log) else {}
    return {key: score for key, score in used.items() if _is_drawable(score["value"])}


def curves(rows: Sequence[Row], most: int = MOST_ROWS) -> Curves:
    """Return at most `most` rows of a log or of measurements as columns, numbers to six digits.

    >>> curves([{"step": 5, "rate": 2.0}, {"step": 9, "rate": float("nan")}])
    Curves(step=[5, 9], terms={'rate': [2.0, None]})
    >>> curves([{"step": 5, "validation": {"rate": 2.0}, "metrics": {"mig/chen2018": 0.3}}]).terms
    {'validation/rate': [2.0], 'metrics/mig/chen2018': [0.3]}
    """
    flat = [_flat(row) for row in evenly_spaced(rows, most)]
    keys = dict.fromkeys(key for row in flat for key in row if key != "step")
    columns = {key: [_rounded(row.get(key)) for row in flat] for key in keys}
    return Curves([int(row["step"]) for row in flat], columns)


def _flat(row: Row) -> Row:
    """Return a measurement as a flat row; names begin with their kind."""
    if not any(isinstance(value, Mapping) for value in row.values()):
        return row
    flat: dict[str, Any] = {}
    for kind, value in row.items():
        if isinstance(value, Mapping):
            flat |= {f"{kind}/{name}": v for name, v in value.items()}
        else:
            flat[kind] = value
    return flat


def _rounded(value: object) -> float | None:
    number = float(value) if isinstance(value, (int, float)) else math.nan
    return float(f"{number:.{_DIGITS}g}") if _is_drawable(number) else None


def _ends(terms: Row) -> dict[str, float | None]:
    return {name: _rounded(value) for name, value in terms.items()}


def _is_drawable(number: float) -> bool:
    """Whether an axis can show a number: a range of larger ones would have an infinite width."""
    return abs(number) <= _LARGEST


def terms(runs: Sequence[RunData]) -> dict[str, TermLabel]:
    """Return readable names of the scores and terms of runs, by their keys."""
    every = [each for run in runs for each in (run.scores, run.log.terms, run.measures.terms)]
    return {key: _term(key) for keys in every for key in keys}


def _term(key: str) -> TermLabel:
    """Describe a score or a term.

    >>> _term("mig/chen2018")
    TermLabel(name='MIG · chen2018', unit='', better='higher')
    >>> _term("validation/distortion")
    TermLabel(name='held-out distortion', unit='nats', better='lower')
    >>> _term("metrics/total_correlation")
    TermLabel(name='exact total correlation', unit='nats', better='')
    """
    kind, _, measured = key.partition("/")
    if kind in ("terms", "metrics", "validation"):
        name = measured_title(key)
    else:
        name, measured = metric_title(key), key
    unit = "nats" if measured in _IN_NATS or is_aggregate(measured) else ""
    better: dict[int | None, Literal["higher", "lower"]] = {1: "higher", -1: "lower"}
    return TermLabel(name, unit, better.get(direction(key), ""))


def named(runs: Sequence[RunData]) -> list[RunData]:
    """Return runs with names that tell them apart."""
    return [replace(run, name=name) for run, name in zip(runs, names(runs), strict=True)]


def names(runs: Sequence[RunData]) -> list[str]:
    """Return names that tell runs apart: the objective, few settings that differ, and the seed.

    Runs with equal settings get the start of their digest too.
    """
    shown = _short_names(_telling_apart([run.settings for run in runs]))
    texts = [_text(run, shown) for run in runs]
    counts = Counter(texts)
    return [
        f"{text}, {run.id[:_DIGEST]}" if counts[text] > 1 else text
        for run, text in zip(runs, texts, strict=True)
    ]


def _telling_apart(every: Sequence[Mapping[str, Setting]]) -> list[str]:
    """Return few settings that tell runs apart, besides the objective; the seed is the last.

    They are chosen one by one: each separates as many runs as possible that those before it do not.
    Settings that only some runs have come last.

    >>> small = {"objective": "vae", "latent.size": 2, "steps": 10, "seed": 0}
    >>> _telling_apart([small, small | {"latent.size": 4, "steps": 20}, small | {"seed": 1}])
    ['latent.size', 'seed']
    """
    candidates = sorted(differing(every), key=_preference)
    shared = [name for name in candidates if all(name in each for each in every)]
    chosen = ["objective"]

    def kinds(settings: Sequence[str]) -> int:
        return len({tuple(each.get(name) for name in settings) for each in every})

    for group in (shared, candidates):
        while kinds(chosen) < kinds([*chosen, *group]):
            chosen.append(max(group, key=lambda name: kinds([*chosen, name])))
    seeds = {each.get("seed") for each in every}
    return sorted(chosen[1:], key=_preference) + ["seed"] * (len(seeds) > 1)


def _preference(name: str) -> int:
    """Return the place of a setting among those that a name may have."""
    part = name.partition(".")[0]
    return _PARTS.index(part) if part in _PARTS else len(_PARTS)


def _text(run: RunData, shown: Mapping[str, str]) -> str:
    """Return the objective and the settings that are shown, with their short names."""
    parts = [value_text(run.settings.get("objective"))]
    for setting, short in shown.items():
        if setting in run.settings:
            parts.append(f"{short} {cut(value_text(run.settings[setting]), _VALUE)}")
    return ", ".join(parts)


def _short_names(settings: Sequence[str]) -> dict[str, str]:
    """Return the name of each setting without its first part, or all of it if that is not unique.

    >>> _short_names(["latent.size", "objective.beta.start"])
    {'latent.size': 'size', 'objective.beta.start': 'beta start'}
    """
    last = [(setting.partition(".")[2] or setting).replace(".", " ") for setting in settings]
    return {
        setting: setting if last.count(word) > 1 else word
        for setting, word in zip(settings, last, strict=True)
    }
