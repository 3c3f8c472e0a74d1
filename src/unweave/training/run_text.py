"""The configuration of a run in words: its parts, data and latent space."""

import dataclasses
from collections.abc import Sequence
from typing import NamedTuple

from unweave.data import Arrays, Data, Dataset, Folder, InMemory, Paired, Selected
from unweave.latents import Latent, Product
from unweave.objectives import Divergence
from unweave.training.overrides import (
    data_text,
    default_fields,
    defaults_of,
    fields_of,
    is_spec,
)
from unweave.training.records import RunSummary
from unweave.training.run import Run

_MOST = 3  # different values that are shown


class Field(NamedTuple):
    """A field of a spec, and whether it differs from its default."""

    name: str
    value: str
    changed: bool


class ConfiguredPart(NamedTuple):
    """A part of a run, such as its objective: the chosen class and its fields."""

    name: str
    choice: str
    fields: list[Field]


def parts(run: Run, dataset: Dataset) -> list[ConfiguredPart]:
    """Return the parts of a run; the last one has its numbers, such as steps and seed."""
    usual, fields = default_fields(run, dataset), fields_of(run)
    numbers = [
        Field(name.replace("_", " "), value_in_words(value), value != usual[name])
        for name, value in fields.items()
        if not is_spec(value)
    ]
    specs = {name: value for name, value in fields.items() if is_spec(value)}
    return [
        *(
            ConfiguredPart(name, type(spec).__name__, _rows(spec, usual[name]))
            for name, spec in specs.items()
        ),
        ConfiguredPart("training", "", numbers),
    ]


def _rows(value: object, default: object, prefix: str = "") -> list[Field]:
    """Return all fields of a spec; those of nested specs have dotted names."""
    usual = fields_of(default) if type(value) is type(default) else defaults_of(type(value))
    rows: list[Field] = []
    for name, field in fields_of(value).items():
        known = usual.get(name, dataclasses.MISSING)
        if is_spec(field):
            if type(field) is not type(known):
                rows.append(Field(prefix + name, field.kind, True))
            rows += _rows(field, known, f"{prefix}{name}.")
        else:
            rows.append(Field(prefix + name, value_in_words(field), field != known))
    return rows


def value_in_words(value: object) -> str:
    """Return a value of a field in words."""
    if isinstance(value, bool) or value is None:
        return {True: "yes", False: "no", None: "not given"}[value]
    if isinstance(value, (tuple, list)):
        return ", ".join(value_in_words(item) for item in value) or "none"
    if is_spec(value):
        return " ".join(f"{name} {value_in_words(v)}" for name, v in fields_of(value).items() if v)
    if isinstance(value, int):
        return f"{value:,}"
    return f"{value:g}" if isinstance(value, float) else str(value)


def data_name(data: Data) -> str:
    """Return a short name of the data.

    >>> from unweave.data import Shapes2D, Subset
    >>> data_name(Selected(Arrays("/home/ada/t.csv"), (Subset(50),)))
    't.csv (selection)'
    >>> data_name(Paired(Shapes2D(), changed=1))
    'pairs of Shapes2D'
    """
    if isinstance(data, Selected):
        return f"{data_name(data.source)} (selection)"
    if isinstance(data, Paired):
        return f"pairs of {data_name(data.source)}"
    if isinstance(data, (Arrays, Folder)):
        return data.path.rstrip("/").rsplit("/", 1)[-1]
    return "an array in memory" if isinstance(data, InMemory) else type(data).__name__


def objective_text(run: Run) -> str:
    """Return the objective of a run with its divergence and weights, in a few words."""
    weights = ", ".join(
        f"{name} {weight:g}" if isinstance(weight, float) else f"{name} {weight}"
        for name, weight in run.weights.items()
    )
    values = fields_of(run.objective).values()
    divergences = [value.kind for value in values if isinstance(value, Divergence)]
    kind = run.objective.kind + (f" with {' and '.join(divergences)}" if divergences else "")
    return f"{kind}, {weights}" if weights else kind


def sweep_text(runs: Sequence[Run]) -> str:
    """Return in one line what is trained; where runs differ, a few of their values.

    >>> sweep_text([Run(seed=seed) for seed in range(2)])
    'beta-vae, beta 4; 10 latent variables (Gaussian); shapes2d; 30,000 steps of 64 observations'
    """
    columns = zip(
        *(
            (
                objective_text(run),
                latent_text(run.latent),
                data_text(run.data),
                f"{run.steps:,} steps of {run.batch_size:,} observations",
            )
            for run in runs
        ),
        strict=True,
    )
    texts = (list(dict.fromkeys(column)) for column in columns)
    return "; ".join(" | ".join([*each[:_MOST], *["..."] * (len(each) > _MOST)]) for each in texts)


def summary_of(run: Run) -> RunSummary:
    """Return a run in words, for a list of runs."""
    return {
        "objective": objective_text(run),
        "latent": blocks_text(run.latent),
        "data": data_text(run.data),
    }


def latent_text(latent: Latent) -> str:
    """Describe a latent space: the number of its variables, and their blocks.

    >>> from unweave.latents import Categorical, Gaussian
    >>> latent_text(Product(style=Gaussian(8), what=Product(shape=Categorical(3))))
    '9 latent variables (style Gaussian 8, what (shape Categorical 3))'
    >>> latent_text(Gaussian(10))
    '10 latent variables (Gaussian)'
    """
    count = len(latent.variables)
    blocks = blocks_text(latent) if isinstance(latent, Product) else f"({type(latent).__name__})"
    return f"{count} latent variable{'s' if count != 1 else ''} {blocks}"


def blocks_text(latent: Latent) -> str:
    """Describe the blocks of a latent space in a few words."""
    if not isinstance(latent, Product):
        return f"{type(latent).__name__} {latent.size}"
    return f"({', '.join(f'{name} {blocks_text(block)}' for name, block in latent.blocks.items())})"
