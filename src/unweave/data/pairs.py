"""Pairs of observations that share some of their factors: weak supervision."""

import dataclasses
import math
from dataclasses import dataclass
from typing import Literal, final

import torch
from torch import Tensor

from unweave.core.noise import Noise
from unweave.core.spec import Count, Seed, spec, tag
from unweave.data.dataset import Dataset, Schema
from unweave.data.files.streaming import StreamedDataset
from unweave.data.lattice import Lattice
from unweave.data.sources import SourceData
from unweave.data.synthetic.shapes2d import Shapes2D


@spec
class Paired:
    """Pairs of observations that share factors.

    Pair i is observation i of the dataset and a second one that agrees with it in the `shared`
    factors; its other factors are drawn at random. With `changed=k` the two differ in exactly k
    factors, which are drawn for each pair; classes that show the same image of the first
    observation do not count as different. The two images are concatenated along the channels, and
    the factors of the second are named other_*.  [Locatello2020] sec. 3
    """

    source: SourceData = Shapes2D()
    """The dataset whose observations are paired."""
    shared: tuple[str, ...] = ()
    """Factors that both observations of a pair share."""
    changed: Count | None = None
    """Number of factors in which the two differ."""
    seed: Seed = 0
    """Seed of the random numbers."""
    kind: Literal["paired"] = tag("paired")

    def __post_init__(self) -> None:
        if (self.changed is None) == (not self.shared):
            raise ValueError(
                "expected either shared, the names of the factors that pairs have in common, or "
                f"changed, how many differ, got shared={self.shared} and changed={self.changed}"
            )

    def load(self, device: torch.device) -> Dataset:
        """Load the source and pair its observations."""
        source = self.source.load(device)
        name = getattr(self.source, "kind", type(self.source).__name__)
        if isinstance(source, StreamedDataset) and device.type == "cuda":
            raise ValueError(
                f"expected pairs of data of at most 1 GiB on a GPU, got {name}, which is streamed "
                "from its file: save a subset of it as a file, or use the CPU"
            )
        if source.lattice is None:
            raise ValueError(
                "expected a dataset with all combinations of its factors, to make pairs, got "
                f"{name}: use one with a lattice, such as shapes2d"
            )
        schema = source.schema
        columns = range(len(schema.factor_names))
        count = sum(min(schema.distinct_counts(column)[1]) > 1 for column in columns)
        if self.changed is not None and self.changed > count:
            raise ValueError(
                f"expected changed of at most the {count} factors that change every image, got "
                f"{self.changed}"
            )
        shared = tuple(schema.column(name) for name in self.shared)
        return PairedDataset(
            _schema_of_pairs(schema),
            source.device,
            source,
            source.lattice,
            shared,
            self.changed,
            self.seed,
        )


@final
@dataclass(frozen=True, eq=False)
class PairedDataset(Dataset):
    """Pairs of observations of a dataset on a lattice; the second is drawn by its index."""

    schema: Schema
    device: torch.device
    source: Dataset
    members: Lattice
    shared: tuple[int, ...]  # columns
    changed: int | None
    seed: int

    @property
    def fingerprint(self) -> str:
        return self.source.fingerprint

    @property
    def labels_fingerprint(self) -> str:
        return self.source.labels_fingerprint

    def images(self, index: Tensor) -> Tensor:
        index = self.check(index)
        second = self.members.index(self._second(index))
        pair = [self.source.images(each) for each in (index, second)]
        return torch.cat(pair, -len(self.source.shape))

    def factors(self, index: Tensor) -> Tensor:
        index = self.check(index)
        return torch.cat([self.source.factors(index), self._second(index)], -1)

    def _second(self, index: Tensor) -> Tensor:
        """Draw the classes (..., K) of the second observation of each pair."""
        noise = Noise(torch.full_like(index, self.seed), index, "pairs", index.device)
        first = self.source.factors(index)
        columns = list(first.unbind(-1))
        names, sizes, schema = self.members.names, self.members.sizes, self.source.schema
        free = [k for k, size in enumerate(sizes) if size > 1 and k not in self.shared]
        if self.changed is None:
            for k in free:
                columns[k] = noise.integers(sizes[k], (), f"factor {names[k]}")
            return torch.stack(columns, -1)
        counts = torch.stack([schema.distinct(k, first) for k in free], -1)
        # Factors that cannot change the first image, such as the angle of a square, come last.
        order = noise.permutation(len(free), "order") + len(free) * (counts == 1)
        rank = order.argsort(-1).argsort(-1)
        for place, k in enumerate(free):
            count = counts[..., place]
            steps = [max(1, each - 1) for each in schema.distinct_counts(k)[1]]
            # Uniform modulo each of the steps.
            number = noise.integers(math.lcm(*steps), (), f"factor {names[k]}")
            another = (columns[k] + 1 + number % (count - 1).clamp(min=1)) % count
            columns[k] = torch.where(rank[..., place] < self.changed, another, columns[k])
        return torch.stack(columns, -1)


def _schema_of_pairs(schema: Schema) -> Schema:
    """Describe pairs of observations: twice the channels and twice the factors."""
    channels, *size = schema.shape
    periods = {
        f"other_{name}": each
        if isinstance(each, int)
        else {f"other_{other}": steps for other, steps in each.items()}
        for name, each in schema.periods.items()
    }
    return dataclasses.replace(
        schema,
        shape=(2 * channels, *size),
        value_names=_both(schema.value_names),
        factor_names=_both(schema.factor_names),
        factor_sizes=2 * schema.factor_sizes,
        factor_labels=2 * schema.factor_labels,
        periods={**schema.periods, **periods},
        lattice=None,
    )


def _both(names: tuple[str, ...]) -> tuple[str, ...]:
    return (*names, *(f"other_{name}" for name in names))
