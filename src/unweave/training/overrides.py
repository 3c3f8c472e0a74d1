"""Command-line assignments to runs: choices, numbers, paths, and lists that mean several runs.

Ways of sampling the data are written as KIND:name=value,name=value.
"""

from __future__ import annotations

import dataclasses
import difflib
import itertools
import json
import re
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast, get_type_hints

from unweave.core import spec
from unweave.core.hints import near_paths, nearest, nearest_path
from unweave.data import AnyWay, Data, HeldOut, Paired, Selected
from unweave.data.files.detect import from_path
from unweave.training.run import Run

_LIST = re.compile(r"[\w.+-]+(,[\w.+-]+)+")
_NAMES = ("key", "factors_key")  # of columns, of which several joined by commas are one value
_RANGE = re.compile(r"(\d+)\.\.(\d+)")


def runs_from(
    assignments: Sequence[str],
    base: dict[str, Any] | None = None,
    select: Sequence[str] = (),
    features: Path | None = None,
) -> list[Run]:
    """The runs that assignments describe; a list or a range of values is one run each.

    Their data are sampled by the ways, which may speak of the features of a file.

    >>> [(r.seed, r.objective.beta) for r in runs_from(["seed=0..1", "objective.beta=1,4"])]
    [(0, 1.0), (0, 4.0), (1, 1.0), (1, 4.0)]
    """
    choices = [_choices(assignment) for assignment in assignments]
    combinations = [itertools.chain(*each) for each in itertools.product(*choices)]
    runs = [spec.override(Run, combination, base) for combination in combinations]
    if not select and features is None:
        return runs
    taken = tuple(way_from(text) for text in select)
    return [dataclasses.replace(run, data=_selected(run.data, taken, features)) for run in runs]


def base_from(path: Path) -> dict[str, Any]:
    """The JSON form of the run in a file: a run.json, or TOML of the same fields."""
    if not path.is_file():
        raise ValueError(
            f"--from: there is no file {path}: {nearest_path(path)} Give a run.json or a .toml file"
        )
    try:
        content = (
            tomllib.loads(path.read_text())
            if path.suffix == ".toml"
            else json.loads(path.read_text())
        )
    except (json.JSONDecodeError, tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ValueError(
            f"{path} is not valid {'TOML' if path.suffix == '.toml' else 'JSON'}: {error}"
        ) from None
    base: dict[str, Any] = spec.to_json(spec.from_json(Run, content))
    return base


def way_from(text: str) -> AnyWay:
    """A way of sampling: KIND:field=value,... or, of held-out, FACTOR=CLASS,...

    Several classes are joined by +, or are a range; several combinations by /.

    >>> way_from("held-out:shape=heart,x=0..2/scale=0+5,split=held-out").classes
    ({'shape': ('heart',), 'x': ('0..2',)}, {'scale': (0, 5)})
    >>> way_from("correlated:factors=floor_hue+wall_hue,scale=0.2").factors
    ('floor_hue', 'wall_hue')
    """
    kind, _, rest = text.partition(":")
    known = spec.members(AnyWay)
    if kind not in known:
        raise ValueError(f"--select: {kind!r} is not known: {nearest(kind, known)}")
    fields = {field.name for field in dataclasses.fields(known[kind])}
    content: dict[str, Any] = {"kind": kind}
    combinations: list[dict[str, list[Any]]] = []
    for combination in rest.split("/"):
        classes: dict[str, list[Any]] = {}
        for item in combination.split(","):
            name, sign, value = item.partition("=")
            if not (sign and name and value):
                raise ValueError(
                    f"--select {text}: expected name=value, got {item!r}; as in subset:count=5000, "
                    "held-out:shape=heart,x=0..15 or correlated:factors=floor_hue+wall_hue"
                )
            if name in fields or known[kind] is not HeldOut:
                content[name] = value.split("+") if name == "factors" else _number(value)
            else:
                classes[name] = [_class(each) for each in value.split("+")]
        combinations.append(classes)
    if known[kind] is HeldOut:
        content["classes"] = combinations
    try:
        return cast(AnyWay, spec.from_json(known[kind], content))
    except ValueError as error:
        raise ValueError(f"--select {text}: {error}") from None


def _class(text: str) -> Any:
    """What a class is called: a number where it is written as one, else text."""
    number = _number(text)
    return number if type(number) in (int, float) and str(number) == text else text


def _number(text: str) -> Any:
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        return text


def _selected(data: Data, ways: tuple[AnyWay, ...], features: Path | None) -> Selected:
    if isinstance(data, Paired):
        raise ValueError("--select: pairs are made of a whole dataset; leave it out")
    place = None if features is None else str(features)
    if isinstance(data, Selected):
        return dataclasses.replace(
            data, select=(*data.select, *ways), features=place or data.features
        )
    return Selected(data, ways, place)


def _choices(assignment: str) -> list[list[str]]:
    """The alternatives of one assignment, each as the assignments that it stands for."""
    path, sign, text = assignment.partition("=")
    if not sign:
        raise ValueError(f"expected an assignment, field=value, got {path!r}: {_meant(path)}")
    if path == "data":
        return [_data(text)]
    if path.rpartition(".")[2] in _NAMES:
        return [[assignment]]
    span = _RANGE.fullmatch(text)
    if span and int(span[1]) > int(span[2]):
        raise ValueError(f"{path}: {text} is empty; write the smaller number first")
    if span:
        return [[f"{path}={n}"] for n in range(int(span[1]), int(span[2]) + 1)]
    if _LIST.fullmatch(text):
        return [[f"{path}={value}"] for value in text.split(",")]
    return [[assignment]]


def _meant(text: str) -> str:
    """A hint for a word alone: what there is of that name, or nearly, with its field."""
    if Path(text).exists():
        return f"did you mean data={text}?"
    hints = get_type_hints(Run, include_extras=True).items()
    known = {kind: f"{name}={kind}" for name, hint in hints for kind in spec.members(hint)}
    known |= {name: f"{name}=VALUE" for name in get_type_hints(Run)}
    close = difflib.get_close_matches(text, known, n=1, cutoff=0.5)
    return f"did you mean {known[close[0]]}?" if close else "as data=shapes2d, steps=50 or seed=3"


def _data(text: str) -> list[str]:
    """`data=NAME` chooses a data set; `data=PATH` a file of arrays or a folder of images."""
    known = spec.members(Data)
    if text in known:
        return [f"data={text}"]
    if Path(text).exists():
        found = from_path(text)
        return [f"data={found.kind}", f"data.path={found.path}"]
    raise ValueError(
        f"data: {text!r} is neither a data set nor a file or folder that exists: "
        f"{nearest(Path(text), [*known, *near_paths(text)])}"
    )
