"""Published datasets of labelled images: CelebA, MNIST, Fashion-MNIST and SVHN."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from pydantic import Field

from unweave.core.spec import spec, tag
from unweave.data.files.images import resize
from unweave.data.files.rows import Array, InMemoryRows, Rows
from unweave.data.published.base import (
    About,
    Content,
    PublishedSpec,
    Side,
    TrainTestSplit,
    about,
    decode,
)
from unweave.data.published.formats import (
    archive,
    broken,
    read_idx,
    read_mat,
    read_table,
    reading_fetched,
)
from unweave.data.published.strokes import STROKES, in_fifths
from unweave.data.random_split import DataSplit


@spec
class CelebA(PublishedSpec):
    """202,599 faces of celebrities with 40 attributes.  [Liu2015].

    The centred square of `crop` pixels of the aligned images of 178 x 218, resized to `side`.
    Papers train on all of them at 64 x 64, "cropped", without saying how; 148 is the usual crop.
    `split` is that of the authors, with different people in each.
    """

    crop: Annotated[int, Field(ge=16, le=178)] = 148
    """Side of the centred square that is cut out, in pixels."""
    side: Side = 64
    """Height and width of the images in pixels."""
    split: DataSplit = "all"
    kind: Literal["celeba"] = tag("celeba")

    ABOUT: ClassVar[About] = about("celeba")

    def read(self) -> Content:
        """Read the images of a split in the order of their numbers, and their attributes."""
        attributes, lines = read_table(self.folder / "list_attr_celeba.txt", 1)
        names = [line[0] for line in lines]
        with reading_fetched(self.folder / "list_attr_celeba.txt"):
            table = np.array([line[1:] for line in lines], dtype=np.int64)
            if table.shape != (len(names), len(attributes)):
                raise ValueError(f"{table.shape} values, and {len(attributes)} attributes")
        rows = self._split_rows(names)
        members = [f"img_align_celeba/{names[row]}" for row in rows]
        shape = (len(rows), self.side, self.side, 3)

        def images() -> Iterator[Array]:
            with archive(self.folder / "img_align_celeba.zip") as (_, read):
                yield from decode(members, read, self.crop, self.side)

        return Content(self.unpacked(shape, images), table, attributes, np.array(rows, np.int64))

    def _split_rows(self, names: Sequence[str]) -> list[int]:
        if self.split == "all":
            return list(range(len(names)))
        path = self.folder / "list_eval_partition.txt"
        first, rest = read_table(path, 0)
        splits = {row[0]: row[1] for row in (first, *rest) if len(row) == 2}
        wanted = {"train": "0", "validation": "1", "test": "2"}[self.split]
        if missing := [name for name in names if name not in splits]:
            raise ValueError(broken(path, f"it does not say to which split {missing[0]} belongs"))
        return [number for number, name in enumerate(names) if splits[name] == wanted]


def _ten_classes(rows: Rows, labels: Array, more: Array | None = None) -> Content:
    """Return images and their classes 0 to 9, which keep their numbers if some are missing.

    `more` are further factors (N, 2) of classes 0 to 4: thickness and width.
    """
    known = np.r_[labels, np.arange(10)][:, None]
    if more is not None:
        known = np.c_[known, np.r_[more, np.stack([np.arange(10) % 5] * 2, 1)]]
    return Content(rows, known, ("class", *STROKES)[: known.shape[1]], np.arange(len(labels)))


class _Idx(PublishedSpec):
    """Images and labels in the format of MNIST."""

    side: Any
    """Height and width of the images in pixels."""

    def measured(self, images: Array, labels: Array) -> Array | None:
        """Measure factors besides the class in images (N, 28, 28) of bytes; by default none."""
        return None

    def read(self) -> Content:
        names = {"train": ("train",), "test": ("t10k",)}.get(self.split, ("train", "t10k"))
        files = [read_idx(self.folder / f"{name}-images-idx3-ubyte.gz", 3) for name in names]
        labels = [read_idx(self.folder / f"{name}-labels-idx1-ubyte.gz", 1) for name in names]
        images, label = np.concatenate(files), np.concatenate(labels)
        measured = self.measured(images, label)
        if self.side != images.shape[1]:
            images = np.stack([resize(image, self.side) for image in images])
        return _ten_classes(InMemoryRows(images), label, measured)


@spec
class MNIST(_Idx):
    """70,000 handwritten digits, 60,000 of them for training.  [LeCun1998].

    The images are 28 x 28; another `side` resizes them bilinearly. With `strokes` the thickness of
    the stroke and the width of the digit are factors too, measured in the images and binned into
    fifths of the digits of each class, so that thick sevens can be held out.
    """

    side: Side = 28
    split: TrainTestSplit = "train"
    strokes: bool = False
    """Whether thickness and width of the stroke are factors too."""
    kind: Literal["mnist"] = tag("mnist")

    ABOUT: ClassVar[About] = about("mnist")

    def measured(self, images: Array, labels: Array) -> Array | None:
        return in_fifths(images / np.float32(255), labels) if self.strokes else None


@spec
class FashionMNIST(_Idx):
    """70,000 images of ten kinds of clothes, 60,000 of them for training.  [Xiao2017].

    The images are 28 x 28; another `side` resizes them bilinearly.
    """

    side: Side = 28
    split: TrainTestSplit = "train"
    kind: Literal["fashion-mnist"] = tag("fashion-mnist")

    ABOUT: ClassVar[About] = about("fashion-mnist")


@spec
class SVHN(PublishedSpec):
    """99,289 colour images of digits of house numbers, 73,257 for training.  [Netzer2011]."""

    split: TrainTestSplit = "train"
    kind: Literal["svhn"] = tag("svhn")

    ABOUT: ClassVar[About] = about("svhn")

    def read(self) -> Content:
        """Read images and digits; the file has 10 for the digit 0."""
        names = {"train": ("train",), "test": ("test",)}.get(self.split, ("train", "test"))
        pairs = [self._read_split(self.folder / f"{name}_32x32.mat") for name in names]
        images, labels = (np.concatenate(each) for each in zip(*pairs, strict=True))
        return _ten_classes(InMemoryRows(images), labels)

    def _read_split(self, path: Path) -> tuple[Array, Array]:
        images, labels = read_mat(path, "X", 4, path), read_mat(path, "y", 2, path).reshape(-1)
        if images.shape[:3] != (32, 32, 3) or images.shape[3] != len(labels):
            raise ValueError(broken(path, f"{images.shape} and {labels.shape} do not fit"))
        return np.moveaxis(images, -1, 0), labels.astype(np.int64) % 10
