"""Which runs have the same settings and the same data."""

import contextlib
import json
from collections.abc import Mapping, Sequence
from typing import Any

from unweave.core import spec
from unweave.core.groups import grouped
from unweave.core.parts import HASH, MissingPart, find_part, is_part_name
from unweave.data import Data
from unweave.training.flat_settings import Settings, flatten, relative_text
from unweave.training.overrides import data_text
from unweave.training.run import Run


def settings_of(run: Run, places: bool = True) -> dict[str, Any]:
    """Return the settings of a run, as in `objective.beta`; `objective` is its kind.

    `places` says whether to include where the data are.

    >>> settings = settings_of(Run(seed=3))
    >>> settings["objective"], settings["objective.beta"], settings["seed"]
    ('beta-vae', 4.0, 3)
    """
    content = spec.to_json(run)
    return flatten(content if places else content | {"data": without_places(content["data"])})


def code_in(content: Settings) -> dict[str, str]:
    """Return the hashes of the own parts in the JSON form of a run by setting, without its data.

    Those of a stored run are of the code that it was trained with, which may have changed since.
    """
    flat = flatten({name: value for name, value in content.items() if name != "data"})
    return {name: value for name, value in flat.items() if name.endswith(f".{HASH}")}


def without_places(content: Mapping[str, Any]) -> dict[str, Any]:
    """Return the JSON form of data without the fields that say where they are.

    The fields of a user's own dataset are known if its module is imported.
    """
    kind = str(content.get("kind"))
    cls = spec.members(Data).get(kind)
    if is_part_name(kind):
        with contextlib.suppress(MissingPart):
            cls = find_part(kind)
    places = spec.place_fields(cls) if cls else ()
    return {
        name: without_places(value) if isinstance(value, dict) else value
        for name, value in content.items()
        if name not in places
    }


def data_identity(data: Data, fingerprint: str = "", labels: str = "") -> str:
    """Return text that is equal for equal data and labels, wherever they are.

    `fingerprint` and `labels` are those of the content; "" if the spec alone determines it.
    """
    content = spec.to_json(data)
    rest = without_places(content) if fingerprint else content
    return f"{fingerprint} {labels} {json.dumps(rest)}"


def same_but_for_the_seed(
    runs: Sequence[Run], data: Sequence[str] = (), codes: Sequence[Mapping[str, str]] = ()
) -> list[list[int]]:
    """Return the indices of the runs that differ only in their seed, group by group.

    `data` identifies the data of each run, by default by their spec. `codes` are the hashes of
    `code_in` that a run was trained with, by default those of the code as it is.

    >>> same_but_for_the_seed([Run(seed=0), Run(steps=5), Run(seed=1)])
    [[0, 2], [1]]
    """
    each = data or [data_identity(run.data) for run in runs]

    def rest(run: Run, code: Mapping[str, str]) -> str:
        content = {n: v for n, v in spec.to_json(run).items() if n not in ("seed", "data")}
        return json.dumps({**flatten(content), **code})

    rests = map(rest, runs, codes or [{}] * len(runs))
    pairs = enumerate(zip(rests, each, strict=True))
    return list(grouped((key, number) for number, key in pairs).values())


def data_label(data: Data) -> str:
    """Write data as commands take them, with paths relative to the current folder."""
    return relative_text(data_text(data))
