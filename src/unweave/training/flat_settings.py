"""The settings of runs as plain values by dotted name, as commands take them."""

import json
import os
from collections.abc import Iterable, Mapping
from typing import Any

Settings = Mapping[str, Any]


def flatten(content: Settings, prefix: str = "") -> dict[str, Any]:
    """Flatten the JSON form of a run; a list is one setting, as JSON text if it is not empty."""
    flat: dict[str, Any] = {}
    if prefix and "kind" in content:
        flat[prefix] = content["kind"]
    for name, value in content.items():
        path = f"{prefix}.{name}" if prefix else name
        if isinstance(value, dict):
            flat |= flatten(value, path)
        elif name != "kind" or not prefix:
            flat[path] = json.dumps(value) if isinstance(value, list) else value
    return flat


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
    if not partial:
        return chosen
    distinct = {tuple(each.get(name) for name in names) for each in every}
    if len({tuple(each.get(name) for name in chosen) for each in every}) < len(distinct):
        chosen = [name for name in names if name in chosen or name in partial]
    return chosen


def relative_text(text: str) -> str:
    """Write the paths in a text relative to the current folder."""
    return text.replace(f"{os.getcwd()}/", "")


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
