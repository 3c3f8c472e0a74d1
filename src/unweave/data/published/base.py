"""Published datasets: what is known about one, and how its files become a dataset."""

import functools
import tomllib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, NamedTuple

import numpy as np
import torch
from pydantic import Field

from unweave.data.cache import cached_file, data_folder
from unweave.data.dataset import DataNotFound, Dataset
from unweave.data.files.build import build_dataset
from unweave.data.files.factors import FactorTable
from unweave.data.files.images import AT_ONCE, centre_crop, decoding
from unweave.data.files.npy import NpyFile, write_npy
from unweave.data.files.rows import Array, Rows, file_state
from unweave.data.lattice import Factor, Lattice
from unweave.data.published.download import Source, verify
from unweave.data.published.formats import reading_fetched
from unweave.data.random_split import DataSplit

TrainTestSplit = Literal["all", "train", "test"]
Side = Annotated[int, Field(ge=16, le=256)]


@dataclass(frozen=True)
class About:
    """What is known about a published dataset.

    Args:
        title: name of the dataset.
        count: number of images.
        shape: shape of an image as loaded by default.
        licence: terms of use.
        page: address of its web page.
        sources: its files.
        lattice: its factors, if it has every combination of them, in order.
        factors: description of the factors of other datasets.
        hand: how to download it manually, if the site asks for consent.
        needs: a library that it needs and that may not be installed.
        picture: what its picture in the documentation shows, if there is one.
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
    needs: str = ""
    picture: str = ""


@functools.cache
def _entries() -> dict[str, dict[str, Any]]:
    text = files("unweave.data.published").joinpath("datasets.toml").read_text(encoding="utf-8")
    return tomllib.loads(text)


def about(kind: str, lattice: Lattice | None = None) -> About:
    """Return what `datasets.toml` has about a dataset; a lattice may have more than sizes."""
    facts = dict(_entries()[kind])
    sizes, mirrors = facts.pop("lattice", {}), facts.pop("mirrors", [])
    sources = []
    for name, file in facts.pop("files").items():
        moved = [file["moved"]] if "moved" in file else []
        urls = (*moved, *(f"{mirror}/{name}" for mirror in mirrors))
        sources.append(Source(name, file.get("size"), file.get("digest"), urls))
    if sizes:
        lattice = Lattice(tuple(Factor(name, size) for name, size in sizes.items()))
    shape = tuple(facts.pop("shape"))
    return About(shape=shape, sources=tuple(sources), lattice=lattice, **facts)


class Content(NamedTuple):
    """Observations and factors of a dataset.

    If the observations are a split, `factors` are those of the whole dataset, so that a class has
    the same number in every split, and `factor_rows` are the rows of the observations in them.
    """

    rows: Rows
    factors: Array | None = None
    names: Sequence[str] | None = None
    factor_rows: Array | None = None


class PublishedSpec(ABC):
    """Base class of the specs of published datasets, which are read from files."""

    ABOUT: ClassVar[About]
    kind: Any
    split: Any
    """Split to read: train, validation, test, or all of the data."""

    @abstractmethod
    def read(self) -> Content:
        """Read observations and factors from the files."""

    @property
    def sources(self) -> tuple[Source, ...]:
        """The files that this spec reads."""
        return self.ABOUT.sources

    @property
    def folder(self) -> Path:
        """Folder of the files."""
        return data_folder() / str(self.kind)

    @property
    def first_file(self) -> Path:
        """Path of the first file; most datasets have no other."""
        return self.folder / self.sources[0].name

    @property
    def missing(self) -> list[Source]:
        """The files that are not in the folder."""
        return [source for source in self.sources if not (self.folder / source.name).is_file()]

    @property
    def random_split(self) -> DataSplit:
        """The split to draw at random; "all" if the dataset has splits of its own."""
        return self.split if self.ABOUT.lattice else "all"

    def load(self, device: torch.device) -> Dataset:
        """Load the dataset; the first time, unpack files that need it."""
        if missing := self.missing:
            absent = ", ".join(source.name for source in missing)
            raise DataNotFound(
                f"{self.kind} is not in {self.folder} ({absent}): `unweave data get {self.kind}` "
                f"{'explains how to download it manually' if self.ABOUT.hand else 'downloads it'}"
            )
        for source in self.sources:
            verify(source, self.folder)
        content = self.read()
        lattice = self.ABOUT.lattice
        count, expected = content.rows.shape[0], self.ABOUT.count
        if (lattice is not None or self.split == "all") and count != expected:
            raise ValueError(
                f"expected {expected:,} observations of {self.kind} in {self.folder}, got "
                f"{count:,}: these are not the published files; download them again"
            )
        factors = None if lattice is None else FactorTable.from_lattice(lattice)
        if content.factors is not None:
            factors = FactorTable.from_values(content.factors, content.names)
            if content.factor_rows is not None:
                factors = factors.take(content.factor_rows)
        states = [file_state(self.folder / source.name) for source in self.sources]
        key = [str(self.kind), *states, repr(self)]
        dataset = build_dataset(
            content.rows, factors, split=self.random_split, key=key, inspect=False
        )
        return dataset.to(device)

    def unpacked(self, shape: tuple[int, ...], read: Callable[[], Iterable[Array]]) -> Rows:
        """Return observations from a .npy file, which is written once from blocks of them."""
        key = [repr(self), *(file_state(self.folder / each.name) for each in self.sources)]
        with reading_fetched(self.first_file):
            path = cached_file(
                self.folder / "unpacked", key, lambda file: write_npy(file, shape, read())
            )
        return NpyFile(path).rows()


def decode(
    names: Sequence[str], read: Callable[[str], bytes], crop: int | None, side: int
) -> Iterator[Array]:
    """Decode images of an archive in blocks (n, side, side, 3), on all cores."""

    def image(name: str) -> Array:
        try:
            content = read(name)
        except KeyError:
            raise ValueError(
                f"there is no image {name} in the archive: download it again"
            ) from None
        return np.moveaxis(centre_crop(content, name, crop, side), 0, -1)

    with decoding() as pool:
        for start in range(0, len(names), AT_ONCE):
            yield np.stack(list(pool.map(image, names[start : start + AT_ONCE])))
