"""Selections: specs that choose observations of a dataset by their row indices."""

import itertools
import math
import re
from collections.abc import Sequence
from typing import Annotated, Literal

import torch
from pydantic import Field, PositiveFloat
from torch import Tensor

from unweave.core.hints import nearest
from unweave.core.noise import Noise
from unweave.core.spec import Count, Seed, spec, tag
from unweave.data.dataset import MISSING, Dataset, Schema

Share = Annotated[float, Field(gt=0, lt=1)]
HeldOutSplit = Literal["rest", "held-out"]
Class = int | float | str
Classes = Annotated[tuple[Class, ...], Field(min_length=1)]
Combination = Annotated[dict[str, Classes], Field(min_length=1)]

_INTEGER = re.compile(r"-?\d+")
_NUMBER = re.compile(r"-?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?")
_FEW = 12  # classes that are listed in a line of text


@spec
class Subset:
    """`count` observations at random without replacement, in their original order."""

    count: Count
    """Number of observations to draw."""
    seed: Seed = 0
    """Seed of the random numbers."""
    kind: Literal["subset"] = tag("subset")

    def take(self, dataset: Dataset, rows: Tensor) -> Tensor:
        """Return a random subset of the rows."""
        if self.count > len(rows):
            raise ValueError(
                f"expected count of at most the {len(rows)} observations there are, got "
                f"{self.count}: take fewer"
            )
        order = Noise(self.seed, 0, "subset").permutation(len(rows), "rows")
        return rows[order[: self.count].sort().values]

    def describe(self, dataset: Dataset) -> str:
        """Say how many observations are drawn."""
        return f"{self.count:,} at random"


@spec
class HeldOut:
    """Hold out combinations of factors, to test zero-shot generalisation.

    An observation is held out if it has one of the given classes of every given factor. `classes`
    is one combination, {"shape": ("heart",), "x": (0, 1)}, or a list of combinations. Name a class
    by its label (`Dataset.factor_labels`), which in your own data is the text or number in the
    file, {"size": (0.5,)}. If a factor has no labels, like the positions of `Shapes2D`, give the
    number of the class, from 0. "0..15" stands for all classes from 0 to 15. Classes that show the
    same image according to the dataset are held out together. `split="rest"` keeps the other
    observations, and `split="held-out"` those held out: combinations of classes that a model
    trained on the rest has only seen separately. Observations without a label of a given factor are
    in neither. [Esmaeili2019] sec. 6.4
    """

    classes: Combination | Annotated[tuple[Combination, ...], Field(min_length=1)]
    """Combinations of factors to hold out."""
    split: HeldOutSplit = "rest"
    """Observations to keep: the rest, or those held out."""
    kind: Literal["held-out"] = tag("held-out")

    def take(self, dataset: Dataset, rows: Tensor) -> Tensor:
        """Return the rows of the split."""
        combinations = self._combinations(dataset.schema)
        columns = [dataset.schema.column(name) for each in combinations for name in each]
        rows, factors = _labelled(dataset, rows, columns)
        held_out = torch.zeros(len(rows), dtype=torch.bool)
        for combination in combinations:
            matches = torch.ones(len(rows), dtype=torch.bool)
            for name, numbers in combination.items():
                matches &= _shows_any(dataset.schema, factors, name, numbers)
            held_out |= matches
        return rows[held_out if self.split == "held-out" else ~held_out]

    def describe(self, dataset: Dataset) -> str:
        """List the combinations that are held out."""
        combinations = [
            ",".join(format_classes(dataset.schema, *item) for item in combination.items())
            for combination in self._combinations(dataset.schema)
        ]
        kept = "only" if self.split == "held-out" else "all but"
        names = [name for each in self._combinations(dataset.schema) for name in each]
        return f"{kept} {'/'.join(combinations)}{_without_labels(dataset, names)}"

    def _combinations(self, schema: Schema) -> list[dict[str, list[int]]]:
        given = (self.classes,) if isinstance(self.classes, dict) else self.classes
        return [{name: _class_numbers(schema, name, each[name]) for name in each} for each in given]


@spec
class Incomplete:
    """A lattice with gaps: hold out a random share of the combinations of some factors.

    round(share * combinations) combinations are missing, with all their observations;
    `split="held-out"` keeps those instead of the rest. Classes that show the same image according
    to the dataset count as one. Observations without a label of these factors are in neither.
    """

    factors: Annotated[tuple[str, ...], Field(min_length=1)]
    """Factors whose combinations are missing."""
    share: Share = 0.25
    """Share of the combinations that is missing."""
    seed: Seed = 0
    """Seed of the random numbers."""
    split: HeldOutSplit = "rest"
    """Observations to keep: the rest, or those held out."""
    kind: Literal["incomplete"] = tag("incomplete")

    def take(self, dataset: Dataset, rows: Tensor) -> Tensor:
        """Return the rows of the split."""
        schema = dataset.schema
        columns = [schema.column(name) for name in self.factors]
        combinations = _combination_numbers(schema, _all_classes(schema, columns), columns).unique()
        order = Noise(self.seed, 0, "incomplete").permutation(len(combinations), "combinations")
        missing = combinations[order[: round(self.share * len(combinations))]]
        rows, factors = _labelled(dataset, rows, columns)
        numbers = _combination_numbers(schema, factors, columns)
        held_out = torch.isin(numbers, missing)
        return rows[held_out if self.split == "held-out" else ~held_out]

    def describe(self, dataset: Dataset) -> str:
        """Say which share of which combinations is held out."""
        kept = "only" if self.split == "held-out" else "all but"
        combinations = f"{self.share:.3g} of the combinations of {', '.join(self.factors)}"
        return f"{kept} {combinations}{_without_labels(dataset, self.factors)}"


@spec
class Correlated:
    """Draw observations with replacement so that two factors are correlated.

    p(f, g) ~ exp(-(f / (n_f - 1) - g / (n_g - 1))^2 / (2 s^2))

    where f and g are the classes, n the numbers of classes and s the `scale`: 0.2 correlates the
    factors strongly, 0.7 weakly. `count` is the number of observations to draw, by default as many
    as there are. Observations without a label of one of the two factors are not drawn.
    [Trauble2021] sec. 3
    """

    factors: tuple[str, str]
    """The two factors to correlate."""
    scale: PositiveFloat = 0.2
    """Strength: 0.2 correlates strongly, 0.7 weakly."""
    count: Count | None = None
    """Number of observations to draw; by default as many as there are."""
    seed: Seed = 0
    """Seed of the random numbers."""
    kind: Literal["correlated"] = tag("correlated")

    def take(self, dataset: Dataset, rows: Tensor) -> Tensor:
        """Return rows drawn with replacement."""
        columns, sizes = list(map(dataset.schema.column, self.factors)), dataset.schema.factor_sizes
        rows, classes = _labelled(dataset, rows, columns)
        if not len(rows):
            return rows
        f, g = (classes[:, column].double() / max(sizes[column] - 1, 1) for column in columns)
        # Subtract the minimum, so that some weight is 1 however small the scale is.
        square = (f - g) ** 2
        excess = (square - square.min()) / self.scale / self.scale
        edges = torch.exp(-excess / 2).cumsum(0)
        noise = Noise(self.seed, 0, "correlated")
        level = noise.uniform((self.count or len(rows),), "rows", torch.float64) * edges[-1]
        return rows[torch.searchsorted(edges, level).clamp(max=len(rows) - 1)]

    def describe(self, dataset: Dataset) -> str:
        """Name the correlated factors and the scale."""
        text = f"{' and '.join(self.factors)} correlated, scale {self.scale:g}"
        return text + _without_labels(dataset, self.factors)


AnySelection = Annotated[Subset | HeldOut | Incomplete | Correlated, Field(discriminator="kind")]


def _labelled(dataset: Dataset, rows: Tensor, columns: Sequence[int]) -> tuple[Tensor, Tensor]:
    """Return the rows that lack no label of some factors, and all their factors, on the CPU."""
    factors = dataset.factors(rows).cpu()
    known = (factors[:, columns] != MISSING).all(1)
    return rows[known], factors[known]


def _without_labels(dataset: Dataset, names: Sequence[str]) -> str:
    """Say how many observations of the dataset cannot be selected because a label is missing."""
    schema = dataset.schema
    if schema.lattice is not None:
        return ""
    columns = [schema.column(name) for name in names]
    lost = schema.size - len(_labelled(dataset, torch.arange(schema.size), columns)[0])
    return (
        f", without {lost:,} that have no label of {', '.join(dict.fromkeys(names))}"
        if lost
        else ""
    )


def _shows_any(schema: Schema, factors: Tensor, name: str, numbers: Sequence[int]) -> Tensor:
    """Return which rows of factors (N, K) show one of some classes of a factor, (N,)."""
    column = schema.column(name)
    count = schema.distinct(column, factors)
    shown, matches = factors[:, column] % count, torch.zeros(len(factors), dtype=torch.bool)
    for number in numbers:
        matches |= shown == number % count
    return matches


def _all_classes(schema: Schema, columns: Sequence[int]) -> Tensor:
    """Return all combinations (N, K) of some factors and of those their periods depend on."""
    varied = {*columns}
    for column in columns:
        other, _ = schema.distinct_counts(column)
        varied |= set() if other is None else {other}
    sizes = [size if k in varied else 1 for k, size in enumerate(schema.factor_sizes)]
    return torch.cartesian_prod(*(torch.arange(n) for n in sizes)).view(-1, len(sizes))


def _combination_numbers(schema: Schema, factors: Tensor, columns: Sequence[int]) -> Tensor:
    """Number (N,) the combinations of some factors; those that show the same image are one."""
    number = torch.zeros(len(factors), dtype=torch.int64)
    for column in columns:
        shown = factors[:, column] % schema.distinct(column, factors)
        number = number * schema.factor_sizes[column] + shown
    return number


def _class_numbers(schema: Schema, name: str, given: Sequence[Class]) -> list[int]:
    """Return the indices of the given classes of a factor, sorted and without repeats."""
    column = schema.column(name)
    labels, size = schema.factor_labels[column], schema.factor_sizes[column]
    return sorted({number for each in given for number in _matches(name, each, labels, size)})


def _matches(
    name: str, given: Class, labels: tuple[str | float, ...] | None, size: int
) -> list[int]:
    """Return the classes that a label, a number or a range of numbers stands for."""
    known = labels or ()
    if str(given) in known:
        return [known.index(str(given))]
    low, _, high = str(given).partition("..")
    first, last = _as_number(low), _as_number(high or low)
    values: Sequence[float] = [_as_number(label) for label in known]
    if all(map(math.isnan, values)):  # no label is a number: classes go by their own numbers
        values = range(size)
    if numbers := [number for number, value in enumerate(values) if first <= value <= last]:
        return numbers
    raise ValueError(f"{given!r} is not a class of factor {name!r}: {_choices(given, known, size)}")


def _as_number(text: str | float) -> float:
    """Return the number that a text denotes, or NaN."""
    if not _NUMBER.fullmatch(str(text)):
        return math.nan
    return int(text) if _INTEGER.fullmatch(str(text)) else float(text)


def _choices(given: Class, labels: Sequence[str | float], size: int) -> str:
    """List the classes of a factor, or the nearest ones if there are many."""
    if not labels:
        return f"its classes are numbers, 0 to {size - 1}."
    values = [label for label in labels if not isinstance(label, str)]
    if not values:
        return nearest(given, map(str, labels))
    if size <= _FEW:
        return f"its values are {', '.join(map(str, values))}."
    ends, number = f"it has {size} values from {values[0]} to {values[-1]}", _as_number(given)
    if math.isnan(number):
        return f"{ends}."
    near = sorted(values, key=lambda value: abs(value - number))[:2]
    return f"{ends}, near it {min(near)} and {max(near)}."


def format_classes(schema: Schema, name: str, numbers: Sequence[int]) -> str:
    """Write classes of a factor as on the command line.

    >>> from unweave.data import Shapes2D
    >>> schema = Shapes2D().load(torch.device("cpu")).schema
    >>> format_classes(schema, "shape", [0, 2]), format_classes(schema, "x", [0, 5, 6, 7])
    ('shape=square+heart', 'x=0+5..7')
    """
    column = schema.column(name)
    labels = schema.factor_labels[column] or tuple(range(schema.factor_sizes[column]))
    words = any(isinstance(label, str) for label in labels)
    texts: list[str] = []
    for _, group in itertools.groupby(enumerate(numbers), lambda each: each[1] - each[0]):
        run = [str(labels[number]) for _, number in group]
        texts += run if words or len(run) < 3 else [f"{run[0]}..{run[-1]}"]
    if len(texts) > _FEW:
        texts = [*texts[:3], f"({len(texts) - 4} more)", texts[-1]]
    return f"{name}={'+'.join(texts)}"
