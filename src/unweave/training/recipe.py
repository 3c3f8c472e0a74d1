"""The recipe of a run: its fields as a table, and the command line that makes it again."""

from __future__ import annotations

import dataclasses
import json
import re
import shlex
from typing import Any, NamedTuple

from pydantic import BaseModel

from unweave.core.spec import to_json
from unweave.data import (
    AnySelection,
    Arrays,
    Data,
    Dataset,
    Folder,
    HeldOut,
    InMemory,
    Paired,
    Selected,
)
from unweave.latents import Latent, Product
from unweave.training.run import Run

# What the command line takes as plain text; anything else is written as JSON.
_PLAIN = re.compile(r"[A-Za-z_/][\w./-]*")
_WORDS = ("true", "false", "null", "NaN", "Infinity")
_WIDTH = 88
_SAVED = "images.npz"  # stands in a command for an array that was only ever in memory


class Field(NamedTuple):
    """One number or name of a spec, and whether it is other than the default."""

    name: str
    value: str
    changed: bool


class Part(NamedTuple):
    """A part of a run, such as its objective: the choice made, and the fields of it."""

    name: str
    choice: str
    fields: list[Field]


def parts(run: Run, dataset: Dataset) -> list[Part]:
    """The parts of a run; the last one holds its plain numbers."""
    usual = defaults(run, dataset)
    specs = {name: value for name, value in _fields(run).items() if _is_spec(value)}
    found = [
        Part(name, type(value).__name__, _flat(value, usual[name])) for name, value in specs.items()
    ]
    numbers = [
        Field(name.replace("_", " "), _shown(value), value != usual[name])
        for name, value in _fields(run).items()
        if name not in specs
    ]
    return [*found, Part("training", "", numbers)]


def command(run: Run, dataset: Dataset) -> list[str]:
    """The arguments of `unweave train` that give this run, in lines of what belongs together.

    >>> import torch
    >>> dataset = Run().data.load(torch.device("cpu"))
    >>> command(Run(seed=3).resolve(dataset), dataset)
    ['seed=3']
    """
    usual = defaults(run, dataset)
    groups = [
        _data(value) if name == "data" else _differences(name, value, usual[name])
        for name, value in _fields(run).items()
    ]
    return [line for group in groups for line in _lines([shlex.quote(each) for each in group])]


def _lines(arguments: list[str]) -> list[str]:
    """Arguments side by side as long as a line holds them."""
    lines: list[str] = []
    for argument in arguments:
        if lines and len(lines[-1]) + len(argument) < _WIDTH:
            lines[-1] += f" {argument}"
        else:
            lines.append(argument)
    return lines


def defaults(run: Run, dataset: Dataset) -> dict[str, Any]:
    """The fields of a run of which nothing but the data was chosen."""
    # The default batch may be larger than the data; then no run can be resolved with it.
    small = Run(data=run.data, batch_size=1).resolve(dataset)
    network = small.network if run.objective.autoencodes else None
    return _fields(small) | {
        "data": Run().data,
        "network": network,
        "batch_size": Run().batch_size,
    }


def _data(value: object) -> list[str]:
    if isinstance(value, InMemory):
        return [f"data={_SAVED}"]
    return _differences("data", value, Run().data)


def _differences(path: str, value: Any, default: object) -> list[str]:
    """Assignments that turn the default into the value."""
    if value == default:
        return []
    if not _is_spec(value):
        return [f"{path}={_written(value)}"]
    chosen = [] if type(value) is type(default) else [f"{path}={value.kind}"]
    usual = _fields(default) if not chosen else _defaults(type(value))
    for name, field in _fields(value).items():
        chosen += _differences(f"{path}.{name}", field, usual.get(name, dataclasses.MISSING))
    return chosen


def _flat(value: object, default: object, prefix: str = "") -> list[Field]:
    """All fields of a spec, those of nested specs under dotted names."""
    usual = _fields(default) if type(value) is type(default) else _defaults(type(value))
    rows: list[Field] = []
    for name, field in _fields(value).items():
        known = usual.get(name, dataclasses.MISSING)
        if _is_spec(field):
            if type(field) is not type(known):
                rows.append(Field(prefix + name, field.kind, True))
            rows += _flat(field, known, f"{prefix}{name}.")
        else:
            rows.append(Field(prefix + name, _shown(field), field != known))
    return rows


def _is_spec(value: object) -> bool:
    return dataclasses.is_dataclass(value) or isinstance(value, BaseModel)


def _fields(value: Any) -> dict[str, Any]:
    """The fields of a spec without its kind."""
    if isinstance(value, BaseModel):
        return dict(value.__pydantic_extra__ or {})
    names = [field.name for field in dataclasses.fields(value) if field.name != "kind"]
    return {name: getattr(value, name) for name in names}


def _defaults(cls: type) -> dict[str, Any]:
    if not dataclasses.is_dataclass(cls):
        return {}
    return {field.name: field.default for field in dataclasses.fields(cls)}


def _written(value: object) -> str:
    """A value as the command line reads it: plain text where that cannot be misread, else JSON."""
    if isinstance(value, str) and _PLAIN.fullmatch(value) and value not in _WORDS:
        return value
    return json.dumps(_plain(value), ensure_ascii=False)


def _plain(value: object) -> object:
    """A value as JSON has it, with the specs in it."""
    if isinstance(value, (tuple, list)):
        return [_plain(item) for item in value]
    return to_json(value) if _is_spec(value) else value


def _shown(value: object) -> str:
    if isinstance(value, bool) or value is None:
        return {True: "yes", False: "no", None: "not given"}[value]
    if isinstance(value, (tuple, list)):
        return ", ".join(_shown(item) for item in value) or "none"
    if _is_spec(value):
        return " ".join(f"{name} {_shown(part)}" for name, part in _fields(value).items() if part)
    if isinstance(value, int):
        return f"{value:,}"
    return f"{value:g}" if isinstance(value, float) else str(value)


def in_memory(run: Run) -> bool:
    """Whether the data were an array in Python, which no command line can name."""
    return isinstance(run.data, InMemory)


def data_text(data: Data) -> str:
    """Data as commands take them: a name or path, the fields that were chosen, ways of sampling.

    >>> from unweave.data import Shapes2D, Subset
    >>> data_text(Selected(Shapes2D(side=32), (Subset(5000),)))
    'shapes2d side=32 --select subset:count=5000'
    """
    if isinstance(data, InMemory):
        return f"an array {data.shape} of {data.dtype} in memory"
    if isinstance(data, Selected):
        ways = [f"--select {shlex.quote(way_text(way))}" for way in data.select]
        features = [f"--features {shlex.quote(data.features)}"] if data.features else []
        return " ".join([data_text(data.source), *features, *ways])
    fields, usual = _fields(data), _defaults(type(data))
    if isinstance(data, Paired):
        name = f"pairs of {data_text(fields.pop('source'))}"
    else:
        name = shlex.quote(fields.pop("path")) if isinstance(data, (Arrays, Folder)) else data.kind
    chosen = [shlex.quote(each) for f, v in fields.items() for each in _differences(f, v, usual[f])]
    return " ".join([name, *chosen])


def way_text(way: AnySelection) -> str:
    """A way of sampling as the command line takes it.

    >>> way_text(HeldOut(({"shape": ("heart",), "x": (0, 1)}, {"scale": (5,)}), split="held-out"))
    'held-out:shape=heart,x=0+1/scale=5,split=held-out'
    """
    fields, usual = _fields(way), _defaults(type(way))
    texts = []
    if isinstance(way, HeldOut):
        given = fields.pop("classes")
        combinations = (given,) if isinstance(given, dict) else given
        each = ([f"{k}={'+'.join(map(str, v))}" for k, v in one.items()] for one in combinations)
        texts = ["/".join(map(",".join, each))]
    for name, value in fields.items():
        if value != usual.get(name, dataclasses.MISSING):
            joined = "+".join(value) if isinstance(value, tuple) else _written(value)
            texts.append(f"{name}={joined}")
    return f"{way.kind}:{','.join(texts)}"


def data_name(run: Run) -> str:
    """The data in a word or two."""
    if isinstance(run.data, (Arrays, Folder)):
        return run.data.path.rstrip("/").rsplit("/", 1)[-1]
    return "an array in memory" if in_memory(run) else type(run.data).__name__


def latent_name(latent: Latent) -> str:
    """The latent space in a few words: its variables, and the blocks they are in.

    >>> from unweave.latents import Categorical, Gaussian
    >>> latent_name(Product(style=Gaussian(8), what=Product(shape=Categorical(3))))
    '9 latent variables (style Gaussian 8, what (shape Categorical 3))'
    >>> latent_name(Gaussian(10))
    '10 latent variables (Gaussian)'
    """
    count = len(latent.variables)
    blocks = blocks_of(latent) if isinstance(latent, Product) else f"({type(latent).__name__})"
    return f"{count} latent variable{'s' if count != 1 else ''} {blocks}"


def blocks_of(latent: Latent) -> str:
    """The blocks of a latent space in a few words."""
    if not isinstance(latent, Product):
        return f"{type(latent).__name__} {latent.size}"
    return f"({', '.join(f'{name} {blocks_of(part)}' for name, part in latent.blocks.items())})"
