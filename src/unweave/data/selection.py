"""Ways of sampling a dataset: each takes some of its observations, by their numbers."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Sequence
from typing import Annotated, Literal, Protocol

import torch
from pydantic import Field, PositiveFloat, PositiveInt
from torch import Tensor

from unweave.core.hints import nearest
from unweave.core.noise import Noise
from unweave.core.spec import Seed, spec, tag
from unweave.data.dataset import Factored
from unweave.data.lattice import counts_of, different

Share = Annotated[float, Field(gt=0, lt=1)]
HeldOutSplit = Literal["rest", "held-out"]
Class = int | float | str
Classes = Annotated[tuple[Class, ...], Field(min_length=1)]
Combination = Annotated[dict[str, Classes], Field(min_length=1)]

_WHOLE = re.compile(r"-?\d+")
_NUMBER = re.compile(r"-?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?")
_FEW = 12  # classes that a line names


class Way(Protocol):
    """What takes observations of a dataset."""

    def take(self, dataset: Factored, rows: Tensor) -> Tensor:
        """Numbers of the observations taken, of those with the numbers `rows`, on the CPU."""

    def told(self, dataset: Factored) -> str:
        """What is taken, in words, with classes as they are called."""


@spec
class Subset:
    """`count` observations at random, without replacement; they keep their order."""

    count: PositiveInt
    seed: Seed = 0
    kind: Literal["subset"] = tag("subset")

    def take(self, dataset: Factored, rows: Tensor) -> Tensor:
        """The rows drawn."""
        if self.count > len(rows):
            raise ValueError(
                f"expected count of at most the {len(rows)} observations there are, got "
                f"{self.count}: take fewer"
            )
        order = Noise(self.seed, 0, "subset").permutation(len(rows), "rows")
        return rows[order[: self.count].sort().values]

    def told(self, dataset: Factored) -> str:
        """How many."""
        return f"{self.count:,} at random"


@spec
class HeldOut:
    """Combinations of factors that are left out: all classes given, of every factor given.

    `classes` is one combination, {"shape": ("heart",), "x": (0, 1)}, or several, of which any is
    left out. A class goes by what it is called (`Dataset.factor_labels`): of your own data the text
    or the number that stands there, {"size": (0.5,)}; of factors that have neither, as positions of
    `Shapes2D`, it goes by its number from 0. "0..15" is all from 0 to 15. Classes that the dataset
    declares to be the same picture are left out with it. `split="held-out"` gives those and no
    others, to see what a model makes of combinations whose parts it knows one by one: zero-shot
    generalisation.  [Esmaeili2019] sec. 6.4
    """

    classes: Combination | Annotated[tuple[Combination, ...], Field(min_length=1)]
    split: HeldOutSplit = "rest"
    kind: Literal["held-out"] = tag("held-out")

    def take(self, dataset: Factored, rows: Tensor) -> Tensor:
        """The rows of the split."""
        factors = dataset.factors(rows).cpu()
        held = torch.zeros(len(rows), dtype=torch.bool)
        for combination in self._combinations(dataset):
            each = torch.ones(len(rows), dtype=torch.bool)
            for name, numbers in combination.items():
                each &= _among(dataset, factors, name, numbers)
            held |= each
        return rows[held if self.split == "held-out" else ~held]

    def told(self, dataset: Factored) -> str:
        """Which combinations."""
        each = [
            ",".join(called(dataset, name, numbers) for name, numbers in combination.items())
            for combination in self._combinations(dataset)
        ]
        return f"{'only' if self.split == 'held-out' else 'all but'} {'/'.join(each)}"

    def _combinations(self, dataset: Factored) -> list[dict[str, list[int]]]:
        """The numbers of the classes of each combination."""
        given = (self.classes,) if isinstance(self.classes, dict) else self.classes
        return [{name: _numbered(dataset, name, each[name]) for name in each} for each in given]


@spec
class Incomplete:
    """A lattice with gaps: a share of the combinations of some factors is missing, at random.

    round(share * combinations) of them, all their observations; `split="held-out"` gives those.
    Classes that the dataset declares to be the same picture are one.
    """

    factors: Annotated[tuple[str, ...], Field(min_length=1)]
    share: Share = 0.25
    seed: Seed = 0
    split: HeldOutSplit = "rest"
    kind: Literal["incomplete"] = tag("incomplete")

    def take(self, dataset: Factored, rows: Tensor) -> Tensor:
        """The rows of the split."""
        columns = [column(dataset, name) for name in self.factors]
        there = _numbers(dataset, _all_classes(dataset, columns), columns).unique()
        order = Noise(self.seed, 0, "incomplete").permutation(len(there), "combinations")
        left_out = there[order[: round(self.share * len(there))]]
        number = _numbers(dataset, dataset.factors(rows).cpu(), columns)
        missing = torch.isin(number, left_out)
        return rows[missing if self.split == "held-out" else ~missing]

    def told(self, dataset: Factored) -> str:
        """Which share of what."""
        taken = "only" if self.split == "held-out" else "all but"
        return f"{taken} {self.share:.3g} of the combinations of {', '.join(self.factors)}"


@spec
class Correlated:
    """Two factors that go together: observations drawn, with replacement, by a density.

    p(f, g) ~ exp(-(f / (n_f - 1) - g / (n_g - 1))^2 / (2 s^2))

    with f and g the classes, n their numbers, and s the `scale`: 0.2 couples them strongly, 0.7
    weakly. `count` observations, by default as many as there are.  [Trauble2021] sec. 3
    """

    factors: tuple[str, str]
    scale: PositiveFloat = 0.2
    count: PositiveInt | None = None
    seed: Seed = 0
    kind: Literal["correlated"] = tag("correlated")

    def take(self, dataset: Factored, rows: Tensor) -> Tensor:
        """The rows drawn."""
        columns = [column(dataset, name) for name in self.factors]
        f, g = (
            dataset.factors(rows).cpu()[:, each].double() / max(dataset.factor_sizes[each] - 1, 1)
            for each in columns
        )
        # Less the least, so that some weight is 1 however small the scale is.
        square = (f - g) ** 2
        excess = (square - square.min()) / self.scale / self.scale
        edges = torch.exp(-excess / 2).cumsum(0)
        noise = Noise(self.seed, 0, "correlated")
        level = noise.uniform((self.count or len(rows),), "rows", torch.float64) * edges[-1]
        return rows[torch.searchsorted(edges, level).clamp(max=len(rows) - 1)]

    def told(self, dataset: Factored) -> str:
        """What goes together, and how closely."""
        return f"{' and '.join(self.factors)} correlated, scale {self.scale:g}"


AnyWay = Annotated[Subset | HeldOut | Incomplete | Correlated, Field(discriminator="kind")]


def column(dataset: Factored, name: str) -> int:
    """The number of a factor of a dataset."""
    if name not in dataset.factor_names:
        hint = nearest(name, dataset.factor_names) if dataset.factor_names else "it has none."
        raise ValueError(f"{name!r} is not a factor of the dataset: {hint}")
    return dataset.factor_names.index(name)


def _different(dataset: Factored, factors: Tensor, place: int) -> Tensor:
    """How many classes of a factor are different pictures (N,), beside others (N, K)."""
    names, sizes = dataset.factor_names, dataset.factor_sizes
    return different(place, names, sizes, dataset.periods, factors)


def _among(dataset: Factored, factors: Tensor, name: str, numbers: Sequence[int]) -> Tensor:
    """Mask (N,) of the classes (N, K) whose factor `name` shows one of some classes."""
    place = column(dataset, name)
    count = _different(dataset, factors, place)
    shown, found = factors[:, place] % count, torch.zeros(len(factors), dtype=torch.bool)
    for number in numbers:
        found |= shown == number % count
    return found


def _all_classes(dataset: Factored, columns: Sequence[int]) -> Tensor:
    """All combinations (N, K) of factors, and of those that their periods depend on; others 0."""
    varied = set(columns)
    for each in columns:
        on, _ = counts_of(dataset.factor_names[each], dataset.factor_sizes[each], dataset.periods)
        varied |= set() if on is None else {column(dataset, on)}
    sizes = [n if k in varied else 1 for k, n in enumerate(dataset.factor_sizes)]
    return torch.cartesian_prod(*(torch.arange(n) for n in sizes)).view(-1, len(sizes))


def _numbers(dataset: Factored, factors: Tensor, columns: Sequence[int]) -> Tensor:
    """The number (N,) of the combination of some factors; those that are one picture have one."""
    number = torch.zeros(len(factors), dtype=torch.int64)
    for each in columns:
        shown = factors[:, each] % _different(dataset, factors, each)
        number = number * dataset.factor_sizes[each] + shown
    return number


def _numbered(dataset: Factored, name: str, given: Sequence[Class]) -> list[int]:
    """The numbers of classes of a factor, each once, by what they are called."""
    place = column(dataset, name)
    labels, size = dataset.factor_labels[place], dataset.factor_sizes[place]
    found = [number for each in given for number in _matching(name, each, labels, size)]
    return sorted(set(found))


def _matching(
    name: str, given: Class, labels: tuple[str | float, ...] | None, size: int
) -> list[int]:
    """The classes that are called so: one by its name, or all by a number or a range of numbers."""
    known = labels or ()
    if str(given) in known:
        return [known.index(str(given))]
    low, _, high = str(given).partition("..")
    first, last = _read(low), _read(high or low)
    numbers = _read_all(known, size)
    if found := [place for place, number in enumerate(numbers) if first <= number <= last]:
        return found
    raise ValueError(f"{given!r} is not a class of factor {name!r}: {_choices(given, known, size)}")


def _read(text: str | float) -> float:
    """The number that a text is; NaN where it is none."""
    if not _NUMBER.fullmatch(str(text)):
        return math.nan
    return int(text) if _WHOLE.fullmatch(str(text)) else float(text)


def _read_all(labels: Sequence[str | float], size: int) -> Sequence[float]:
    """The numbers that classes go by: their own, or their places where none has one."""
    numbers = [_read(label) for label in labels]
    return range(size) if all(map(math.isnan, numbers)) else numbers


def _choices(given: Class, labels: Sequence[str | float], size: int) -> str:
    """The classes that there are, or those near what was given where there are many."""
    if not labels:
        return f"its classes are numbers, 0 to {size - 1}."
    values = [label for label in labels if not isinstance(label, str)]
    if not values:
        return nearest(given, map(str, labels))
    if size <= _FEW:
        return f"its values are {', '.join(map(str, values))}."
    ends, number = f"it has {size} values from {values[0]} to {values[-1]}", _read(given)
    if math.isnan(number):
        return f"{ends}."
    near = sorted(values, key=lambda value: abs(value - number))[:2]
    return f"{ends}, near it {min(near)} and {max(near)}."


def called(dataset: Factored, name: str, numbers: Sequence[int]) -> str:
    """Classes of a factor by what they are called, written as on the command line.

    >>> from unweave.data import Shapes2D
    >>> dataset = Shapes2D().load(torch.device("cpu"))
    >>> called(dataset, "shape", [0, 2]), called(dataset, "x", [0, 5, 6, 7])
    ('shape=square+heart', 'x=0+5..7')
    """
    place = column(dataset, name)
    labels = dataset.factor_labels[place] or tuple(range(dataset.factor_sizes[place]))
    words = any(isinstance(label, str) for label in labels)
    parts: list[str] = []
    for _, group in itertools.groupby(enumerate(numbers), lambda each: each[1] - each[0]):
        run = [str(labels[number]) for _, number in group]
        parts += run if words or len(run) < 3 else [f"{run[0]}..{run[-1]}"]
    if len(parts) > _FEW:
        parts = [*parts[:3], f"({len(parts) - 4} more)", parts[-1]]
    return f"{name}={'+'.join(parts)}"
