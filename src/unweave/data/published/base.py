"""What a published data set is: what is known of it, and how its files become a dataset."""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import Field

from unweave.data.dataset import Dataset
from unweave.data.files.arrays import dataset_of, recode
from unweave.data.files.folder import cut, decoding, in_blocks
from unweave.data.files.npy import NpyFile, write_npy
from unweave.data.files.rows import Rows, fresh
from unweave.data.lattice import Factor, Lattice
from unweave.data.parts import DataSplit
from unweave.data.published.cache import data_folder, prepared
from unweave.data.published.download import Source
from unweave.data.published.formats import reading_fetched

Array = NDArray[Any]
TrainTestSplit = Literal["all", "train", "test"]
Side = Annotated[int, Field(ge=16, le=256)]

GOOGLE = "https://storage.googleapis.com"


@dataclass(frozen=True)
class About:
    """What is known of a data set.

    `lattice` is there where the set has every combination of its factors, in order; `factors` names
    those of others. `hand` says what a person has to do where a site asks for consent. `picture`
    says what the picture of the set in the documentation shows, where there is one.
    """

    title: str
    count: int
    shape: tuple[int, ...]
    licence: str
    page: str
    sources: tuple[Source, ...]
    lattice: Lattice | None = None
    factors: str = ""
    hand: str = ""
    needs: str = ""  # a library that is not always there
    picture: str = ""


class Content(NamedTuple):
    """Observations and factors of a data set.

    Where the set has more observations than those of a split, `factors` are those of all, and
    `chosen` says which rows of them the observations have: a class has one number in all splits.
    """

    rows: Rows
    factors: Array | None = None
    names: Sequence[str] | None = None
    chosen: Array | None = None


class FileSet(ABC):
    """A published data set in files."""

    ABOUT: ClassVar[About]
    kind: Any
    split: Any

    @abstractmethod
    def read(self) -> Content:
        """Observations and factors out of the files."""

    @property
    def sources(self) -> tuple[Source, ...]:
        """The files that this spec reads."""
        return self.ABOUT.sources

    @property
    def folder(self) -> Path:
        """Where the files lie."""
        return data_folder() / str(self.kind)

    @property
    def missing(self) -> list[Source]:
        """The files that are not there."""
        return [source for source in self.sources if not (self.folder / source.name).is_file()]

    @property
    def shuffled(self) -> DataSplit:
        """The split that is drawn at random, where the set has none of its own."""
        split: DataSplit = self.split if self.ABOUT.lattice else "all"
        return split

    def load(self, device: torch.device) -> Dataset:
        """The dataset on a device; what has to be unpacked is, the first time."""
        if missing := self.missing:
            absent = ", ".join(source.name for source in missing)
            raise ValueError(
                f"{self.kind} is not in {self.folder} ({absent}): `unweave data get {self.kind}` "
                f"{'says how to fetch it by hand' if self.ABOUT.hand else 'fetches it'}"
            )
        content = self.read()
        lattice = self.ABOUT.lattice
        if lattice is not None or self.split == "all":
            self._expect(content.rows, self.ABOUT.count)
        if lattice is not None:
            grid = lattice.factors(torch.arange(lattice.size)).numpy()
            content = Content(content.rows, grid, lattice.names)
        key = [str(self.kind), *(fresh(self.folder / each.name) for each in self.sources)]
        rows, factors, names, chosen = content
        here = factors if factors is None or chosen is None else factors[chosen]
        dataset = dataset_of(
            rows, here, names, split=self.shuffled, key=[*key, repr(self)], lattice=lattice
        )
        if factors is not None and chosen is not None:
            codes, sizes, labels = recode(factors, len(factors))
            dataset = dataclasses.replace(
                dataset,
                codes=codes[torch.from_numpy(chosen)],
                factor_sizes=sizes,
                factor_labels=labels,
                lattice=dataset.lattice if sizes == dataset.factor_sizes else None,
            )
        return dataset.to(device)

    def _expect(self, rows: Rows, count: int) -> None:
        """Refuse files that hold another number of observations than the published ones."""
        if rows.shape[0] != count:
            raise ValueError(
                f"expected {count:,} observations in the files of {self.kind}, got "
                f"{rows.shape[0]:,}: they are other files; fetch them again"
            )

    def unpacked(self, shape: tuple[int, ...], made: Callable[[], Iterable[Array]]) -> Rows:
        """Observations in a file of their own, made once."""
        first = self.folder / self.sources[0].name
        key = [repr(self), *(fresh(self.folder / each.name) for each in self.sources)]
        place = self.folder / "unpacked"
        with reading_fetched(first):
            place = prepared(place, key, lambda file: write_npy(file, shape, made()))
        return NpyFile(place).rows()


def factors_of(**sizes: int) -> Lattice:
    """A lattice of factors by their numbers of classes."""
    return Lattice(tuple(Factor(name, size) for name, size in sizes.items()))


def decoded(
    names: Sequence[str], read: Callable[[str], bytes], crop: int | None, side: int
) -> Iterator[Array]:
    """Pictures of an archive (n, side, side, 3), some at a time, by all cores."""

    def picture(name: str) -> Array:
        try:
            content = read(name)
        except KeyError:
            raise ValueError(f"there is no picture {name} in the archive: fetch it again") from None
        return np.moveaxis(cut(content, name, crop, side), 0, -1)

    with decoding() as pool:
        yield from in_blocks(picture, names, pool)
