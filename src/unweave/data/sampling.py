"""Ways of sampling a world: parts of it, factors that go together, pairs that share some.

`Sampled` takes observations of a world by ways, one after the other; each maps a list of numbers of
observations to another. The result is a world like any other.

>>> from unweave.data import Blocks
>>> data = Sampled(Blocks((3, 4)), ways=(HeldOut({"factor0": (2,), "factor1": (0, 1)}),))
>>> data.load(torch.device("cpu")).size
10
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import reduce
from typing import Annotated, Literal, Protocol, final

import torch
from pydantic import Field, PositiveFloat, PositiveInt
from torch import Tensor

from unweave.data.arrays import Arrays, InMemory
from unweave.data.folder import Folder
from unweave.data.generators import Mixing, MovingDigit, Pinwheel
from unweave.data.lattice import Lattice, Periods, checked
from unweave.data.scenery import ColourShapes2D, NoisyShapes2D, TexturedShapes2D
from unweave.data.sets import Published
from unweave.data.shapes2d import Shapes2D
from unweave.data.shapes3d import Shapes3D
from unweave.data.small import Blobs, Blocks
from unweave.data.streamed import Streamed
from unweave.data.world import World
from unweave.noise import Noise
from unweave.spec import nearest, spec, tag

Seed = Annotated[int, Field(ge=0, lt=2**63)]
Share = Annotated[float, Field(gt=0, lt=1)]
Classes = Annotated[tuple[Annotated[int, Field(ge=0)], ...], Field(min_length=1)]

Whole = Annotated[
    Shapes2D
    | ColourShapes2D
    | NoisyShapes2D
    | TexturedShapes2D
    | Shapes3D
    | Blobs
    | Blocks
    | Pinwheel
    | Mixing
    | MovingDigit
    | Published
    | Arrays
    | Folder
    | InMemory,
    Field(discriminator="kind"),
]


class Way(Protocol):
    """What takes observations of a world."""

    def take(self, world: World, rows: Tensor) -> Tensor:
        """Numbers of the observations taken, of those with the numbers `rows`, on the CPU."""


@spec
class Subset:
    """`count` observations at random, without replacement; they keep their order."""

    count: PositiveInt
    seed: Seed = 0
    kind: Literal["subset"] = tag("subset")

    def take(self, world: World, rows: Tensor) -> Tensor:
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
    """Combinations of factors that are left out: every class given, of all factors given.

    `part="held"` gives those and no others, to see what a model makes of combinations whose parts
    it knows one by one: zero-shot generalisation.  [Esmaeili2019] sec. 6.4
    """

    classes: Annotated[dict[str, Classes], Field(min_length=1)]
    part: Literal["rest", "held"] = "rest"
    kind: Literal["held-out"] = tag("held-out")

    def take(self, world: World, rows: Tensor) -> Tensor:
        """The rows of the part."""
        factors = world.factors(rows).cpu()
        sizes = _sizes(world)
        held = torch.ones(len(rows), dtype=torch.bool)
        for name, classes in self.classes.items():
            column = _column(world, name)
            if max(classes) >= sizes[name]:
                raise ValueError(
                    f"expected classes of factor {name!r} between 0 and {sizes[name] - 1}, got "
                    f"{max(classes)}"
                )
            held &= torch.isin(factors[:, column], torch.tensor(classes))
        return rows[held if self.part == "held" else ~held]


@spec
class Incomplete:
    """A lattice with gaps: a share of the combinations of some factors is missing, at random.

    round(share * combinations) of them, all their observations; `part="missing"` gives those.
    """

    factors: Annotated[tuple[str, ...], Field(min_length=1)]
    share: Share = 0.25
    seed: Seed = 0
    part: Literal["rest", "missing"] = "rest"
    kind: Literal["incomplete"] = tag("incomplete")

    def take(self, world: World, rows: Tensor) -> Tensor:
        """The rows of the part."""
        columns = [_column(world, name) for name in self.factors]
        members = [world.factor_sizes[column] for column in columns]
        codes = world.factors(rows).cpu()
        number = torch.zeros(len(rows), dtype=torch.int64)
        for column, size in zip(columns, members, strict=True):
            number = number * size + codes[:, column]
        count = torch.Size(members).numel()
        order = Noise(self.seed, 0, "incomplete").permutation(count, "combinations")
        missing = torch.isin(number, order[: round(self.share * count)])
        return rows[missing if self.part == "missing" else ~missing]


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

    def take(self, world: World, rows: Tensor) -> Tensor:
        """The rows drawn."""
        columns = [_column(world, name) for name in self.factors]
        f, g = (
            world.factors(rows).cpu()[:, column].double() / max(world.factor_sizes[column] - 1, 1)
            for column in columns
        )
        edges = torch.exp(-((f - g) ** 2) / (2 * self.spread**2)).cumsum(0)
        noise = Noise(self.seed, 0, "correlated")
        level = noise.uniform((self.count or len(rows),), "rows", torch.float64) * edges[-1]
        return rows[torch.searchsorted(edges, level).clamp(max=len(rows) - 1)]


AnyWay = Annotated[Subset | HeldOut | Incomplete | Correlated, Field(discriminator="kind")]


@spec
class Sampled:
    """Observations of a world, taken by ways that follow one another; without ways, all of it.

    Held-out combinations of [Esmaeili2019], correlated factors of [Trauble2021], and others.
    """

    world: Whole = Shapes2D()
    ways: tuple[AnyWay, ...] = ()
    kind: Literal["sampled"] = tag("sampled")

    def load(self, device: torch.device) -> World:
        """The world on a device, with the numbers of what was taken."""
        source = _source(self.world, device)
        whole = torch.arange(source.size)
        rows = reduce(lambda taken, way: way.take(source, taken), self.ways, whole)
        if not len(rows):
            raise ValueError(
                f"expected ways that leave an observation, got none of {source.size}: "
                "hold out fewer combinations"
            )
        return Part(source, rows.to(device)) if self.ways else source


@spec
class Paired:
    """Pairs of observations that share factors: weak supervision.

    Pair i is observation i of the world and another that has the factors `shared` in common with
    it, the others drawn anew; with `changed=k` the two differ in k factors and no others, which
    are drawn for each pair. The two pictures lie one after the other along the channels, and the
    factors of the second are named other_*.  [Locatello2020] sec. 3
    """

    world: Whole = Shapes2D()
    shared: tuple[str, ...] = ()
    changed: PositiveInt | None = None
    seed: Seed = 0
    kind: Literal["paired"] = tag("paired")

    def __post_init__(self) -> None:
        if (self.changed is None) == (not self.shared):
            raise ValueError(
                "expected either shared, the names of the factors that pairs have in common, or "
                f"changed, how many differ, got shared={self.shared} and changed={self.changed}"
            )

    def load(self, device: torch.device) -> World:
        """The pairs on a device."""
        source = _source(self.world, device)
        if source.lattice is None:
            raise ValueError(
                f"expected a world of all combinations of factors to make pairs of, got "
                f"{self.world.kind}: use one with a lattice, such as shapes2d"
            )
        count = sum(size > 1 for size in source.factor_sizes)
        if self.changed is not None and self.changed > count:
            raise ValueError(
                f"expected changed of at most the {count} factors that vary, got {self.changed}"
            )
        shared = tuple(_column(source, name) for name in self.shared)
        return Pairs(source, source.lattice, shared, self.changed, self.seed)


@dataclass(frozen=True, eq=False)
class _Drawn:
    """What is made of the observations of a world."""

    source: World

    @property
    def device(self) -> torch.device:
        """That of the source."""
        return self.source.device

    @property
    def bounded(self) -> bool:
        """As the source is."""
        return self.source.bounded

    @property
    def fingerprint(self) -> str:
        """That of the source."""
        return self.source.fingerprint

    @property
    def integer_unit(self) -> float:
        """That of the source."""
        return self.source.integer_unit

    @property
    def lattice(self) -> Lattice | None:
        """None: not all combinations are there, or not in order."""
        return None


@final
@dataclass(frozen=True, eq=False)
class Part(_Drawn):
    """Observations of a world by a list of their numbers in it."""

    rows: Tensor = field(repr=False)  # (N,) int64 on the device

    @property
    def size(self) -> int:
        """Number of observations."""
        return len(self.rows)

    @property
    def shape(self) -> tuple[int, ...]:
        """That of the source."""
        return self.source.shape

    @property
    def factor_names(self) -> tuple[str, ...]:
        """Those of the source."""
        return self.source.factor_names

    @property
    def factor_sizes(self) -> tuple[int, ...]:
        """Those of the source, whether or not all classes were taken."""
        return self.source.factor_sizes

    @property
    def periods(self) -> Periods:
        """Those of the source."""
        return self.source.periods

    @property
    def notes(self) -> tuple[str, ...]:
        """Those of the source, and how much was taken."""
        return (*self.source.notes, f"{self.size:,} observations of {self.source.size:,}")

    def images(self, index: Tensor) -> Tensor:
        """Observations (..., *shape) by their numbers (...) among those taken."""
        return self.source.images(self._taken(index))

    def factors(self, index: Tensor) -> Tensor:
        """Classes of the factors (..., K) by the numbers (...)."""
        return self.source.factors(self._taken(index))

    def _taken(self, index: Tensor) -> Tensor:
        index = checked(index, self.size, "indices of the data").to(self.device)
        return self.rows[index]


@final
@dataclass(frozen=True, eq=False)
class Pairs(_Drawn):
    """Pairs of observations of a lattice, drawn by their number."""

    members: Lattice
    shared: tuple[int, ...]  # columns
    changed: int | None
    seed: int

    @property
    def size(self) -> int:
        """Number of pairs."""
        return self.source.size

    @property
    def shape(self) -> tuple[int, ...]:
        """Twice the channels."""
        first, *rest = self.source.shape
        return (2 * first, *rest)

    @property
    def factor_names(self) -> tuple[str, ...]:
        """Those of the first, and those of the second as other_*."""
        names = self.source.factor_names
        return (*names, *(f"other_{name}" for name in names))

    @property
    def factor_sizes(self) -> tuple[int, ...]:
        """Those of the source, twice."""
        return 2 * self.source.factor_sizes

    @property
    def periods(self) -> Periods:
        """Those of the source, and the same of the second."""
        own = self.source.periods
        return {**own, **{f"other_{name}": _of_other(each) for name, each in own.items()}}

    @property
    def notes(self) -> tuple[str, ...]:
        """Those of the source."""
        return self.source.notes

    def images(self, index: Tensor) -> Tensor:
        """Pairs (..., 2 C, H, W) by their numbers (...)."""
        index = checked(index, self.size, "indices of the data").to(self.device)
        other = self.members.index(self._other(index))
        pair = [self.source.images(each) for each in (index, other)]
        return torch.cat(pair, -len(self.source.shape))

    def factors(self, index: Tensor) -> Tensor:
        """Classes of both, (..., 2 K)."""
        index = checked(index, self.size, "indices of the data").to(self.device)
        return torch.cat([self.source.factors(index), self._other(index)], -1)

    def _other(self, index: Tensor) -> Tensor:
        """Classes (..., K) of the second of each pair."""
        noise = Noise(torch.full_like(index, self.seed), index, "pairs", index.device)
        columns = list(self.source.factors(index).unbind(-1))
        free = [k for k, size in enumerate(self.members.sizes) if size > 1 and k not in self.shared]
        order = noise.permutation(len(free), "order")
        for place, k in enumerate(free):
            size, stream = self.members.sizes[k], f"factor {self.members.names[k]}"
            if self.changed is None:
                columns[k] = noise.integers(size, (), stream)
            else:
                another = (columns[k] + 1 + noise.integers(size - 1, (), stream)) % size
                columns[k] = torch.where(order[..., place] < self.changed, another, columns[k])
        return torch.stack(columns, -1)


def _of_other(period: int | Mapping[str, list[int]]) -> int | Mapping[str, list[int]]:
    """The period of a factor of the second of a pair."""
    if isinstance(period, int):
        return period
    return {f"other_{name}": each for name, each in period.items()}


def _source(data: Whole, device: torch.device) -> World:
    """The world that is drawn from."""
    world = data.load(device)
    if isinstance(world, Streamed) and device.type == "cuda":
        raise ValueError(
            f"expected data of at most 1 GiB to be sampled on a GPU, got {data.kind}, which is "
            "read from its file as needed: save what you want of it as a file, or use the CPU"
        )
    return world


def _sizes(world: World) -> dict[str, int]:
    return dict(zip(world.factor_names, world.factor_sizes, strict=True))


def _column(world: World, name: str) -> int:
    if name not in world.factor_names:
        hint = nearest(name, world.factor_names) if world.factor_names else "it has none."
        raise ValueError(f"{name!r} is not a factor of the world: {hint}")
    return world.factor_names.index(name)
