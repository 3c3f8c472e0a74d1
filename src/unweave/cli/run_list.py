"""List the runs of a store: read, filter, sort and print them."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from unweave.core.console import is_one_line_per_row
from unweave.core.files import error_text
from unweave.core.groups import grouped
from unweave.core.hints import MOST_LISTED, nearest, suggestion
from unweave.core.text import csv_text, number_text
from unweave.training.final_terms import ends_collapsed, final_values
from unweave.training.flat_settings import (
    differing,
    flatten,
    relative_text,
    sort_key,
    value_text,
)
from unweave.training.run_files import RunFiles, why_unused

ALWAYS_SHOWN = ("distortion", "rate")  # terms, although not every objective has them
_HEADLINES = ("mig", "dci", "factor_vae_score", "sap")  # metrics that are shown if they are stored
_FACTS = ("run", "status", "collapsed", "step")
_HUGE = 1e9  # from which a number is written with an exponent
_MOST_NAMED = 4  # runs that a line names
_MISSING = object()  # in place of a value


@dataclass(frozen=True)
class ListedRun:
    """A run as its folder stores it. `problem` says why it could not be read."""

    name: str
    status: str
    settings: dict[str, Any] = field(default_factory=dict)
    parts: tuple[str, ...] = ()  # objective, latent space, data and scored splits, in words
    step: int = 0
    final: dict[str, float] = field(default_factory=dict)  # terms and measured values, by name
    scores: dict[str, dict[str, float]] = field(default_factory=dict)  # by split and key
    unused_scores: dict[str, str] = field(default_factory=dict)  # why not, by split
    collapsed: bool = False
    problem: str = ""

    @property
    def first_scores(self) -> dict[str, float]:
        """The scores of the split that the run was trained on, or of the only other one."""
        return next(iter(self.scores.values()), {})

    @property
    def values(self) -> dict[str, Any]:
        """Everything that a run can be filtered and sorted by."""
        facts = {name: getattr(self, "name" if name == "run" else name) for name in _FACTS}
        return facts | self.settings | self.final | self.first_scores

    def of_kind(self, kind: str) -> dict[str, float]:
        """Return the terms, metrics or validation losses by name, without their kind."""
        prefix = f"{kind}/"
        return {n.removeprefix(prefix): x for n, x in self.final.items() if n.startswith(prefix)}


def read_run(folder: RunFiles, step: int = 0) -> ListedRun:
    """Read the folder of a run; describe a damaged one instead of raising an error.

    `step` is the one that the run has reached according to the process that trains it; the log has
    those up to the last checkpoint.
    """
    name = folder.path.name
    try:
        return _read(folder, step)
    except (ValueError, OSError, RecursionError) as error:
        text = error_text(error)
        return ListedRun(name, "damaged", problem=text if name in text else f"{name}: {text}")


def _read(folder: RunFiles, step: int) -> ListedRun:
    summary, log = folder.summary, folder.read_log_end()
    stored = folder.score_values
    unused = {split: why for split, each in stored.items() if (why := why_unused(each, log))}
    scores = {
        split: {key: score["value"] for key, score in each["scores"].items()}
        for split, each in stored.items()
        if split not in unused
    }
    scored = f"scored on {', '.join(scores)}" if scores else ""
    return ListedRun(
        folder.path.name,
        folder.status,
        flatten(folder.settings),
        (summary["objective"], summary["latent"], relative_text(summary["data"]), scored),
        max(log[-1]["step"] if log else 0, step),
        final_values(log, folder.read_measures()),
        scores,
        unused,
        ends_collapsed(log),
    )


def filter_runs(runs: Sequence[ListedRun], conditions: Iterable[str]) -> list[ListedRun]:
    """Return the runs that meet all conditions, such as objective.beta=4 or status=finished."""
    kept = list(runs)
    for condition in conditions:
        name, sign, text = condition.partition("=")
        if not sign:
            raise ValueError(
                f"--where: expected name=value, got {condition!r}; as in objective.beta=4 or "
                "status=finished"
            )
        known = find_names(runs, name)[0]
        kept = [run for run in kept if _equal(run.values.get(known, _MISSING), text)]
    return kept


def sort_runs(runs: Sequence[ListedRun], name: str) -> tuple[list[ListedRun], str]:
    """Sort runs by a name, or by "-name" from the largest down; return the full name too.

    Runs without the value, or with NaN, come last.
    """
    known = find_names(runs, name.removeprefix("-"))[0]
    values = [(run.values.get(known), run) for run in runs]
    having = [(sort_key(value), run) for value, run in values if _is_known(value)]
    having.sort(key=lambda each: each[0], reverse=name.startswith("-"))
    rest = [run for value, run in values if not _is_known(value)]
    return [*(run for _, run in having), *rest], known


def _is_known(value: object) -> bool:
    return value is not None and value == value  # which NaN is not


def find_names(runs: Sequence[ListedRun], name: str) -> list[str]:
    """Return the full names that a name stands for.

    These are the name itself, what was measured in training and the term of this name, the
    protocols of a metric, or the setting whose last part it is.
    """
    known = _known_names(runs)
    found = _matches(known, name)
    if not found:
        raise ValueError(f"no run has {name!r}: {_choices(runs, known, name)}")
    if len(found) > 1 and found[0].endswith(f".{name}"):
        raise ValueError(f"{name!r} is the end of several names: write {' or '.join(found)}")
    return found


def _known_names(runs: Iterable[ListedRun]) -> list[str]:
    return list(dict.fromkeys(key for run in runs for key in run.values))


def _matches(known: Sequence[str], name: str) -> list[str]:
    """Return the known names that a name stands for; several settings if it is ambiguous.

    >>> _matches(["objective.beta", "terms/rate", "mig/a", "mig/b"], "beta")
    ['objective.beta']
    >>> _matches(["latent.learn", "likelihood.learn"], "learn")
    ['latent.learn', 'likelihood.learn']
    """
    if name.removesuffix(".kind") in known:
        return [name.removesuffix(".kind")]
    if kinds := [full for kind in ("metrics", "terms") if (full := f"{kind}/{name}") in known]:
        return kinds
    if protocols := [key for key in known if key.startswith(f"{name}/")]:
        return protocols
    return [key for key in known if key.endswith(f".{name}")]


def _choices(runs: Sequence[ListedRun], known: Sequence[str], name: str) -> str:
    """Ask for the nearest name, and list the names by kind unless there are very many."""
    if len(known) > MOST_LISTED:
        return nearest(name, known)
    final = {key for run in runs for key in run.final}
    terms = {key for key in final if key.startswith("terms/")}
    kinds = {
        "facts": set(_FACTS),
        "settings": {key for run in runs for key in run.settings},
        "terms": terms,
        "measured": final - terms,
        "scores": {key for run in runs for key in run.first_scores},
    }
    ends = (key.rpartition(".")[2] for key in kinds["settings"])
    hint = suggestion(name, [*known, *ends])
    listed = (f"{kind}: {', '.join(sorted(names))}" for kind, names in kinds.items() if names)
    return f"{hint}{'The' if hint else 'the'} choices are {'; '.join(listed)}"


def _equal(value: object, text: str) -> bool:
    if value is _MISSING:
        return False
    if value_text(value) == text or str(value) == text:
        return True
    try:
        return isinstance(value, (int, float)) and float(value) == float(text)
    except ValueError:
        return False


class RunsTable(NamedTuple):
    """What all runs have in common, and the table of the rest, with a text below each row."""

    common: str
    columns: list[str]
    rows: list[list[str]]
    below: list[str]


def runs_table(
    runs: Sequence[ListedRun], columns: Sequence[str], optional: Sequence[str], width: int
) -> RunsTable:
    """Return the table of runs, with a column for each of some values.

    Descriptions of runs are the last column if no cell has to be wrapped, otherwise they stand
    below the rows.
    Optional columns are added as far as they fit into the width.
    """
    is_beside = _is_one_line_per_row(_runs_table(runs, columns, True), width)
    table = _runs_table(runs, columns, is_beside)
    for name in optional:
        wider = _runs_table(runs, columns := [*columns, name], is_beside)
        if not _is_one_line_per_row(wider, width):
            break
        table = wider
    return table


def _is_one_line_per_row(table: RunsTable, width: int) -> bool:
    return is_one_line_per_row(table.columns, table.rows, width)


def headline_scores(runs: Sequence[ListedRun]) -> list[str]:
    """Return the keys of a few stored scores: one protocol of each of some metrics."""
    stored = dict.fromkeys(key for run in runs for key in run.first_scores)
    found = ([key for key in stored if key.partition("/")[0] == name] for name in _HEADLINES)
    return [keys[0] for keys in found if keys]


def _runs_table(runs: Sequence[ListedRun], columns: Sequence[str], is_beside: bool) -> RunsTable:
    """Return the table of runs, with what they are in the last column or below their rows."""
    parts = [run.parts for run in runs if run.parts]
    several = len(runs) > 1
    places = range(1, 4) if several else ()  # the objective is always said
    shared = [place for place in places if len({each[place] for each in parts}) == 1]
    facts = {
        "status": [run.status for run in runs],
        "steps": [_steps_text(run) for run in runs],
    }
    same = {name: each[0] for name, each in facts.items() if several and len({*each}) == 1}
    common = [same.get("status", ""), f"{same['steps']} steps" if same.get("steps") else ""]
    common += [parts[0][place] for place in shared] if parts else []
    shown = {name: each for name, each in facts.items() if name not in same}
    rows = [
        [
            run.name,
            *(each[place] for each in shown.values()),
            value_text(run.settings.get("seed")) if run.settings else "",
            *(_cell(run, name) for name in columns),
        ]
        for place, run in enumerate(runs)
    ]
    texts = [_what_text(run, shared) for run in runs]
    known = _known_names(runs)
    head = ["run", *shown, "seed", *(_heading(known, name) for name in columns)]
    if is_beside:
        head, rows, texts = [*head, "what"], [[*r, t] for r, t in zip(rows, texts, strict=True)], []
    return RunsTable("; ".join(filter(None, common)), head, rows, texts)


def _heading(known: Sequence[str], name: str) -> str:
    """Shorten a name to its last part, or a usual term, if that stands for no other.

    >>> known = ["terms/rate", "terms/total_correlation", "objective.beta", "data.rate"]
    >>> [_heading(known, name) for name in known]
    ['rate', 'terms/total_correlation', 'beta', 'data.rate']
    """
    usual = [f"terms/{term}" for term in ALWAYS_SHOWN]
    short = name.rpartition("/" if name in usual else ".")[2]
    return short if _matches(known, short) == [name] else name


def _steps_text(run: ListedRun) -> str:
    if run.status == "damaged":
        return ""
    steps = run.settings.get("steps", 0)
    return str(steps) if run.step == steps else f"{run.step}/{steps}"


def _what_text(run: ListedRun, shared: Sequence[int]) -> str:
    own = [part for place, part in enumerate(run.parts) if part and place not in shared]
    return "; ".join([*(["all latents off"] if run.collapsed else []), *own])


def _cell(run: ListedRun, name: str) -> str:
    value = run.values.get(name)
    if value is None:
        return ""
    if name in run.settings or not isinstance(value, float):
        return value_text(value)
    form = ".3f" if abs(value) < 1 else ".2f" if abs(value) < _HUGE else ".3g"
    return number_text(value, form)


def unused_lines(runs: Sequence[ListedRun]) -> list[str]:
    """Say which stored scores are not shown, a line for each reason."""
    found = grouped((why, f"{run.name} on {split}")
                    for run in runs for split, why in run.unused_scores.items())  # fmt: skip
    return [
        f"scores of {', '.join(which[:_MOST_NAMED])}{', ...' * (len(which) > _MOST_NAMED)} are not "
        f"shown: {why}; `unweave evaluate` computes them again"
        for why, which in found.items()
    ]


def runs_json(runs: Sequence[ListedRun]) -> list[dict[str, Any]]:
    """Return everything that is stored of runs as plain dicts."""
    return [
        {
            "run": run.name,
            "status": run.status,
            "collapsed": run.collapsed,
            "step": run.step,
            "settings": run.settings,
            **{kind: run.of_kind(kind) for kind in ("terms", "metrics", "validation")},
            "scores": run.scores,
            "unused_scores": run.unused_scores,
        }
        | ({"problem": run.problem} if run.problem else {})
        for run in runs
    ]


def runs_csv(runs: Sequence[ListedRun]) -> str:
    """Return CSV text, a line for each run.

    It has facts, settings that differ, terms, values measured in training, and scores.
    """
    settings = ["seed", *differing(run.settings for run in runs if run.settings)]
    final = dict.fromkeys(name for run in runs for name in run.final)
    scores = dict.fromkeys((split, key) for run in runs for split in run.scores
                           for key in run.scores[split])  # fmt: skip
    one_split = len({split for split, _ in scores}) < 2
    head = [*_FACTS, *settings, *final]
    head += [key if one_split else f"{key} on {split}" for split, key in scores]
    rows = []
    for run in runs:
        values = run.values
        own = [values.get(name, "") for name in (*_FACTS, *settings)]
        own += [run.final.get(name, "") for name in final]
        rows.append(own + [run.scores.get(split, {}).get(key, "") for split, key in scores])
    return csv_text(head, rows)
