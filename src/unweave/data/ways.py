"""Ways of sampling a world: each takes some of its observations, by their numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal, Protocol

import torch
from pydantic import Field, PositiveFloat, PositiveInt
from torch import Tensor

from unweave.data.lattice import counts_of, different
from unweave.data.world import Factored
from unweave.noise import Noise
from unweave.spec import Seed, nearest, spec, tag

Share = Annotated[float, Field(gt=0, lt=1)]
WayPart = Literal["rest", "held"]
Class = Annotated[int, Field(ge=0)] | str
Classes = Annotated[tuple[Class, ...], Field(min_length=1)]
Combination = Annotated[dict[str, Classes], Field(min_length=1)]


class Way(Protocol):
    """What takes observations of a world."""

    def take(self, world: Factored, rows: Tensor) -> Tensor:
        """Numbers of the observations taken, of those with the numbers `rows`, on the CPU."""


@spec
class Subset:
    """`count` observations at random, without replacement; they keep their order."""

    count: PositiveInt
    seed: Seed = 0
    kind: Literal["subset"] = tag("subset")

    def take(self, world: Factored, rows: Tensor) -> Tensor:
        """The rows drawn."""
        if self.count > len(rows):
            raise ValueError(
                f"expected count of at most the {len(rows)} observations there are, got "
                f"{self.count}: take fewer"
            )
        order = Noise(self.seed, 0, "subset").permutation(len(rows), "rows")
        return rows[order[: self.count].sort().values]


@spec
class HeldOut:
    """Combinations of factors that are left out: all classes given, of every factor given.

    `classes` is one combination, {"shape": (2,), "x": (0, 1)}, or several, of which any is left
    out; a class is its number, or its name where the factor has names. Classes that the world
    declares to be the same picture are left out with it. `part="held"` gives those and no others,
    to see what a model makes of combinations whose parts it knows one by one: zero-shot
    generalisation.  [Esmaeili2019] sec. 6.4
    """

    classes: Combination | Annotated[tuple[Combination, ...], Field(min_length=1)]
    part: WayPart = "rest"
    kind: Literal["held-out"] = tag("held-out")

    def take(self, world: Factored, rows: Tensor) -> Tensor:
        """The rows of the part."""
        factors = world.factors(rows).cpu()
        combinations = (self.classes,) if isinstance(self.classes, dict) else self.classes
        held = torch.zeros(len(rows), dtype=torch.bool)
        for combination in combinations:
            each = torch.ones(len(rows), dtype=torch.bool)
            for name, classes in combination.items():
                numbers = [_class(world, name, given) for given in classes]
                each &= _among(world, factors, name, numbers)
            held |= each
        return rows[held if self.part == "held" else ~held]


@spec
class Incomplete:
    """A lattice with gaps: a share of the combinations of some factors is missing, at random.

    round(share * combinations) of them, all their observations; `part="held"` gives those. Classes
    that the world declares to be the same picture are one.
    """

    factors: Annotated[tuple[str, ...], Field(min_length=1)]
    share: Share = 0.25
    seed: Seed = 0
    part: WayPart = "rest"
    kind: Literal["incomplete"] = tag("incomplete")

    def take(self, world: Factored, rows: Tensor) -> Tensor:
        """The rows of the part."""
        columns = [column(world, name) for name in self.factors]
        there = _numbers(world, _all_classes(world, columns), columns).unique()
        order = Noise(self.seed, 0, "incomplete").permutation(len(there), "combinations")
        left_out = there[order[: round(self.share * len(there))]]
        number = _numbers(world, world.factors(rows).cpu(), columns)
        missing = torch.isin(number, left_out)
        return rows[missing if self.part == "held" else ~missing]


@spec
class Correlated:
    """Two factors that go together: observations drawn, with replacement, by a density.

    p(f, g) ~ exp(-(f / (n_f - 1) - g / (n_g - 1))^2 / (2 s^2))

    with f and g the classes, n their numbers, and s the `spread`: 0.2 couples them strongly, 0.7
    weakly. `count` observations, by default as many as there are.  [Trauble2021] sec. 3
    """

    factors: tuple[str, str]
    spread: PositiveFloat = 0.2
    count: PositiveInt | None = None
    seed: Seed = 0
    kind: Literal["correlated"] = tag("correlated")

    def take(self, world: Factored, rows: Tensor) -> Tensor:
        """The rows drawn."""
        columns = [column(world, name) for name in self.factors]
        f, g = (
            world.factors(rows).cpu()[:, each].double() / max(world.factor_sizes[each] - 1, 1)
            for each in columns
        )
        # Less the least, so that some weight is 1 however small the spread is.
        square = (f - g) ** 2
        excess = (square - square.min()) / self.spread / self.spread
        edges = torch.exp(-excess / 2).cumsum(0)
        noise = Noise(self.seed, 0, "correlated")
        level = noise.uniform((self.count or len(rows),), "rows", torch.float64) * edges[-1]
        return rows[torch.searchsorted(edges, level).clamp(max=len(rows) - 1)]


AnyWay = Annotated[Subset | HeldOut | Incomplete | Correlated, Field(discriminator="kind")]


def column(world: Factored, name: str) -> int:
    """The number of a factor of a world."""
    if name not in world.factor_names:
        hint = nearest(name, world.factor_names) if world.factor_names else "it has none."
        raise ValueError(f"{name!r} is not a factor of the world: {hint}")
    return world.factor_names.index(name)


def _different(world: Factored, factors: Tensor, place: int) -> Tensor:
    """How many classes of a factor are different pictures (N,), beside others (N, K)."""
    names, sizes = world.factor_names, world.factor_sizes
    return different(place, names, sizes, world.periods, factors)


def _among(world: Factored, factors: Tensor, name: str, numbers: Sequence[int]) -> Tensor:
    """Mask (N,) of the classes (N, K) whose factor `name` shows one of some classes."""
    place = column(world, name)
    count = _different(world, factors, place)
    shown, found = factors[:, place] % count, torch.zeros(len(factors), dtype=torch.bool)
    for number in numbers:
        found |= shown == number % count
    return found


def _all_classes(world: Factored, columns: Sequence[int]) -> Tensor:
    """All combinations (N, K) of factors, and of those that their periods depend on; others 0."""
    varied = set(columns)
    for each in columns:
        on, _ = counts_of(world.factor_names[each], world.factor_sizes[each], world.periods)
        varied |= set() if on is None else {column(world, on)}
    sizes = [n if k in varied else 1 for k, n in enumerate(world.factor_sizes)]
    return torch.cartesian_prod(*(torch.arange(n) for n in sizes)).view(-1, len(sizes))


def _numbers(world: Factored, factors: Tensor, columns: Sequence[int]) -> Tensor:
    """The number (N,) of the combination of some factors; those that are one picture have one."""
    number = torch.zeros(len(factors), dtype=torch.int64)
    for each in columns:
        shown = factors[:, each] % _different(world, factors, each)
        number = number * world.factor_sizes[each] + shown
    return number


def _class(world: Factored, name: str, given: int | str) -> int:
    """The number of a class of a factor, which may be given by its name."""
    place = column(world, name)
    if isinstance(given, str):
        labels = world.factor_labels[place] or ()
        if given not in labels:
            last = world.factor_sizes[place] - 1
            hint = nearest(given, labels) if labels else f"its classes are numbers, 0 to {last}."
            raise ValueError(f"{given!r} is not a class of factor {name!r}: {hint}")
        return labels.index(given)
    if given >= (size := world.factor_sizes[place]):
        raise ValueError(
            f"expected classes of factor {name!r} between 0 and {size - 1}, got {given}"
        )
    return given
