"""Ways of sampling a dataset: parts of it, factors that go together, pairs that share some.

`Selected` takes observations of a dataset by ways, one after the other; each maps a list of numbers
of observations to another. The result is a dataset like any other.

>>> from unweave.data import Blocks, HeldOut
>>> data = Selected(Blocks((3, 4)), select=(HeldOut({"factor0": (2,), "factor1": (0, 1)}),))
>>> data.load(torch.device("cpu")).size
10
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import reduce
from pathlib import Path
from typing import Annotated, Literal, final

import torch
from pydantic import Field, PositiveInt
from torch import Tensor

from unweave.core.noise import Noise
from unweave.core.spec import Seed, spec, tag
from unweave.data.dataset import Dataset, Place
from unweave.data.drawn.paper_generators import Mixing, MovingDigit, Pinwheel
from unweave.data.drawn.shapes2d import Shapes2D
from unweave.data.drawn.shapes2d_variants import ColourShapes2D, NoisyShapes2D, TexturedShapes2D
from unweave.data.drawn.shapes3d import Shapes3D
from unweave.data.drawn.toy import Blobs, Blocks
from unweave.data.files.arrays import Arrays, InMemory, picked
from unweave.data.files.features import with_features
from unweave.data.files.folder import Folder
from unweave.data.files.streaming import Streamed
from unweave.data.lattice import Labels, Lattice, Periods, checked, counts_of, different
from unweave.data.published.sets import Published
from unweave.data.selection import AnyWay, column

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


@spec
class Selected:
    """Observations of a dataset, taken by ways that follow one another; without ways, all of it.

    Held-out combinations of [Esmaeili2019], correlated factors of [Trauble2021], and others.

    `features` is a file of classes that ways may speak of as of factors, though they are none of
    the dataset's: features that a model has learned, cut into classes by `write_features`. The
    array
    `features` (N, K) has a row for each observation of the dataset, and `factor_names` names its
    columns.
    """

    source: Whole = Shapes2D()
    select: tuple[AnyWay, ...] = ()
    features: Place | None = None
    kind: Literal["selected"] = tag("selected")

    def load(self, device: torch.device) -> Dataset:
        """The dataset on a device, with the numbers of what was taken."""
        source = self.source.load(device)
        more = None if self.features is None else with_features(source, Path(self.features))
        seen, whole = more or source, torch.arange(source.size)
        rows = reduce(lambda taken, way: way.take(seen, taken), self.select, whole)
        if not len(rows):
            raise ValueError(
                f"expected ways that leave an observation, got none of {source.size}: hold out "
                "fewer combinations; several that are held together go into one held-out"
            )
        if not self.select:
            return source
        told = "; ".join(way.told(seen) for way in self.select)
        if isinstance(source, Streamed):
            return picked(source, rows.sort().values.numpy(), told).to(device)
        return Part(source, rows.to(device), told, more.checksum if more else "")


@spec
class Paired:
    """Pairs of observations that share factors: weak supervision.

    Pair i is observation i of the dataset and another that has the factors `shared` in common with
    it, the others drawn anew; with `changed=k` the two differ in k factors and no others, which
    are drawn for each pair; classes that the dataset declares to be one picture of the first do not
    differ. The two pictures lie one after the other along the channels, and the factors of the
    second are named other_*.  [Locatello2020] sec. 3
    """

    source: Whole = Shapes2D()
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

    def load(self, device: torch.device) -> Dataset:
        """The pairs on a device."""
        source = self.source.load(device)
        if isinstance(source, Streamed) and device.type == "cuda":
            raise ValueError(
                f"expected pairs of data of at most 1 GiB on a GPU, got {self.source.kind}, which "
                "is read from its file as needed: save a part of it as a file, or use the CPU"
            )
        if source.lattice is None:
            raise ValueError(
                f"expected a dataset of all combinations of factors to make pairs of, got "
                f"{self.source.kind}: use one with a lattice, such as shapes2d"
            )
        each = zip(source.factor_names, source.factor_sizes, strict=True)
        count = sum(min(counts_of(*one, source.periods)[1]) > 1 for one in each)
        if self.changed is not None and self.changed > count:
            raise ValueError(
                f"expected changed of at most the {count} factors that change every picture, got "
                f"{self.changed}"
            )
        shared = tuple(column(source, name) for name in self.shared)
        return Pairs(source, source.lattice, shared, self.changed, self.seed)


@dataclass(frozen=True, eq=False)
class _Drawn:
    """What is made of the observations of a dataset."""

    source: Dataset

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
    """Observations of a dataset by a list of their numbers in it."""

    rows: Tensor = field(repr=False)  # (N,) int64 on the device
    told: str  # which they are
    features: str = ""  # checksum of what the ways saw besides the factors

    @property
    def size(self) -> int:
        """Number of observations."""
        return len(self.rows)

    @property
    def fingerprint(self) -> str:
        """That of the source, and of the features."""
        return self.source.fingerprint + self.features

    @property
    def shape(self) -> tuple[int, ...]:
        """That of the source."""
        return self.source.shape

    @property
    def value_names(self) -> tuple[str, ...]:
        """Those of the source."""
        return self.source.value_names

    @property
    def factor_names(self) -> tuple[str, ...]:
        """Those of the source."""
        return self.source.factor_names

    @property
    def factor_sizes(self) -> tuple[int, ...]:
        """Those of the source, whether or not all classes were taken."""
        return self.source.factor_sizes

    @property
    def factor_labels(self) -> Labels:
        """Those of the source."""
        return self.source.factor_labels

    @property
    def periods(self) -> Periods:
        """Those of the source."""
        return self.source.periods

    @property
    def notes(self) -> tuple[str, ...]:
        """Those of the source, and what was taken."""
        taken = f"{self.size:,} observations of {self.source.size:,}: {self.told}"
        return (*self.source.notes, taken)

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
    def value_names(self) -> tuple[str, ...]:
        """Those of the first, and those of the second as other_*."""
        names = self.source.value_names
        return (*names, *(f"other_{name}" for name in names))

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
    def factor_labels(self) -> Labels:
        """Those of the source, twice."""
        return 2 * self.source.factor_labels

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
        first = self.source.factors(index)
        columns = list(first.unbind(-1))
        free = [k for k, size in enumerate(self.members.sizes) if size > 1 and k not in self.shared]
        if self.changed is None:
            for k in free:
                size, stream = self.members.sizes[k], f"factor {self.members.names[k]}"
                columns[k] = noise.integers(size, (), stream)
            return torch.stack(columns, -1)
        names, sizes, periods = self.members.names, self.members.sizes, self.members.periods
        counts = torch.stack([different(k, names, sizes, periods, first) for k in free], -1)
        # Factors that change nothing in the first, as the angle of a square may, come last.
        order = noise.permutation(len(free), "order") + len(free) * (counts == 1)
        rank = order.argsort(-1).argsort(-1)
        for place, k in enumerate(free):
            count = counts[..., place]
            steps = [max(1, each - 1) for each in counts_of(names[k], sizes[k], periods)[1]]
            # Uniform modulo each of the steps.
            drawn = noise.integers(math.lcm(*steps), (), f"factor {names[k]}")
            another = (columns[k] + 1 + drawn % (count - 1).clamp(min=1)) % count
            columns[k] = torch.where(rank[..., place] < self.changed, another, columns[k])
        return torch.stack(columns, -1)


def _of_other(period: int | Mapping[str, list[int]]) -> int | Mapping[str, list[int]]:
    """The period of a factor of the second of a pair."""
    if isinstance(period, int):
        return period
    return {f"other_{name}": each for name, each in period.items()}
