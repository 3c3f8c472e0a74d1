"""The settings of runs by dotted name, as commands take them: which differ, and which agree."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from unweave.core import spec
from unweave.data import Data
from unweave.training.overrides import data_text
from unweave.training.run import Run

Settings = Mapping[str, Any]

# The fields of data, by kind, that say where they are. The content is compared by a fingerprint.
_PLACES = {
    "arrays": ("path",),
    "folder": ("path", "factors"),
    "memory": ("digest",),
    "selected": ("features",),
}


def settings_of(run: Run, places: bool = True) -> dict[str, Any]:
    """Return the settings of a run, as in `objective.beta`; `objective` is the kind of it.

    `places` says whether to include where the data are.

    >>> settings = settings_of(Run(seed=3))
    >>> settings["objective"], settings["objective.beta"], settings["seed"]
    ('beta-vae', 4.0, 3)
    """
    content = spec.to_json(run)
    return flatten(content if places else content | {"data": without_places(content["data"])})


def data_identity(data: Data, fingerprint: str = "", labels: str = "") -> str:
    """Return text that is equal for equal data and labels, wherever they are.

    `fingerprint` and `labels` are those of the content; "" if the spec alone determines it.
    """
    content = spec.to_json(data)
    rest = without_places(content) if fingerprint else content
    return f"{fingerprint} {labels} {json.dumps(rest)}"


def without_places(content: Settings) -> dict[str, Any]:
    """Return the JSON form of data without the fields that say where they are."""
    places = _PLACES.get(content.get("kind", ""), ())
    return {
        name: without_places(value) if isinstance(value, dict) else value
        for name, value in content.items()
        if name not in places
    }


def flatten(content: Settings, prefix: str = "") -> dict[str, Any]:
    """Flatten the JSON form of a run; a list is one setting, as JSON text if it is not empty."""
    flat: dict[str, Any] = {}
    kind_first = sorted(content.items(), key=lambda item: item[0] != "kind")
    for name, value in kind_first:
        path = (prefix if name == "kind" else f"{prefix}.{name}").strip(".")
        if isinstance(value, dict):
            flat |= flatten(value, path)
        else:
            flat[path] = json.dumps(value) if isinstance(value, list) else value
    return flat


def same_but_for_the_seed(runs: Sequence[Run], data: Sequence[str] = ()) -> list[list[int]]:
    """Return the numbers of the runs that differ only in their seed, group by group.

    `data` identifies the data of each run, by default by their spec.

    >>> same_but_for_the_seed([Run(seed=0), Run(steps=5), Run(seed=1)])
    [[0, 2], [1]]
    """
    groups: dict[tuple[str, str], list[int]] = {}
    each = data or [data_identity(run.data) for run in runs]
    for number, (run, own) in enumerate(zip(runs, each, strict=True)):
        settings = spec.to_json(run).items()
        rest = {name: value for name, value in settings if name not in ("seed", "data")}
        groups.setdefault((json.dumps(rest), own), []).append(number)
    return list(groups.values())


def differing(every: Iterable[Settings]) -> list[str]:
    """Return the names of the settings, other than the seed, that tell settings apart.

    A setting that only some have is listed only if it is needed: the critic of one objective
    follows from the kind of the objective.

    >>> a = {"objective": "beta-vae", "objective.beta": 4.0, "steps": 10, "seed": 0}
    >>> b = {"objective": "factor-vae", "objective.gamma": 6.0, "steps": 10, "seed": 1}
    >>> differing([a, b]), differing([a, b, a | {"objective.beta": 1.0}])
    (['objective'], ['objective', 'objective.beta'])
    """
    every = list(every)
    names = [name for name in dict.fromkeys(n for each in every for n in each) if name != "seed"]
    values = {name: {each[name] for each in every if name in each} for name in names}
    chosen = [name for name in names if len(values[name]) > 1]
    partial = [name for name in names if any(name not in each for each in every)]
    distinct = {tuple(each.get(name) for name in names) for each in every}
    if len({tuple(each.get(name) for name in chosen) for each in every}) < len(distinct):
        chosen = [name for name in names if name in chosen or name in partial]
    return chosen


def data_label(data: Data) -> str:
    """Write data as commands take them, with paths relative to the current folder."""
    return data_text(data).replace(f"{Path.cwd()}/", "")


def value_text(value: object) -> str:
    """Write the value of a setting as commands take it; a missing one as a dash.

    >>> value_text(4.0), value_text(None), value_text("beta-vae"), value_text(True)
    ('4', '-', 'beta-vae', 'true')
    """
    if value is None:
        return "-"
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value:g}" if isinstance(value, float) else str(value)


def settings_text(settings: Settings) -> str:
    """Write the settings of a group of runs.

    >>> settings_text({"objective.beta": 4.0, "steps": 10}), settings_text({})
    ('objective.beta=4, steps=10', 'all runs')
    """
    texts = (f"{name}={value_text(value)}" for name, value in settings.items())
    return ", ".join(texts) or "all runs"


def sort_key(value: object) -> tuple[int, float, str]:
    """Return a key that sorts values of a setting or a score: numbers first, then text.

    >>> sorted(["b", 10, 9.5, "a"], key=sort_key)
    [9.5, 10, 'a', 'b']
    """
    if isinstance(value, (int, float)):
        return 0, float(value), ""
    return 1, 0.0, str(value)
