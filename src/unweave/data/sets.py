"""The data sets that papers are compared on, as they lie in their published files.

`unweave data get NAME` fetches them. They lie under `data_folder()`, a folder each. What cannot be
read row by row (packed, or pictures in an archive) is unpacked there once, to a .npy file.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from io import BytesIO
from itertools import product
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import Field

from unweave.data.arrays import world_of
from unweave.data.cache import data_folder, prepared
from unweave.data.folder import cut, decoding, shrunk
from unweave.data.formats import (
    archive,
    broken,
    norb_blocks,
    read_idx,
    read_mat,
    read_norb,
    read_table,
    reading,
    tar_members,
)
from unweave.data.lattice import Factor, Lattice
from unweave.data.parts import Part
from unweave.data.rows import Held, NpyFile, Rows, arrays_of, blocks, fresh, write_npy
from unweave.data.shapes2d import Shapes2D
from unweave.data.sources import Source, published
from unweave.data.world import World
from unweave.spec import spec, tag

Array = NDArray[Any]
Split = Literal["all", "train", "test"]
Side = Annotated[int, Field(ge=16, le=256)]

_GOOGLE = "https://storage.googleapis.com"
_AT_ONCE = 1024  # pictures that are decoded before they are written


@dataclass(frozen=True)
class About:
    """What is known of a data set.

    `lattice` is there where the set has every combination of its factors, in order; `factors` names
    those of others. `hand` says what a person has to do where a site asks for consent.
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


class Content(NamedTuple):
    """Observations and factors of a data set."""

    rows: Rows
    factors: Array | None = None
    names: Sequence[str] | None = None


class FileSet(ABC):
    """A published data set in files."""

    ABOUT: ClassVar[About]
    kind: Any
    part: Any

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
    def shuffled(self) -> Part:
        """The part that is drawn at random, where the set has none of its own."""
        part: Part = self.part if self.ABOUT.lattice else "all"
        return part

    def load(self, device: torch.device) -> World:
        """The world on a device; what has to be unpacked is, the first time."""
        if missing := self.missing:
            names = ", ".join(source.name for source in missing)
            raise ValueError(
                f"{self.kind} is not in {self.folder} ({names}): `unweave data get {self.kind}` "
                f"{'says how to fetch it by hand' if self.ABOUT.hand else 'fetches it'}"
            )
        content = self.read()
        lattice = self.ABOUT.lattice
        if lattice is not None or self.part == "all":
            self._expect(content.rows, self.ABOUT.count)
        if lattice is not None:
            grid = lattice.factors(torch.arange(lattice.size)).numpy()
            content = Content(content.rows, grid, lattice.names)
        key = [str(self.kind), *(fresh(self.folder / each.name) for each in self.sources)]
        world = world_of(*content, part=self.shuffled, key=[*key, repr(self)], lattice=lattice)
        return world.to(device)

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
        with reading(first):
            place = prepared(place, key, lambda file: write_npy(file, shape, made()))
        return NpyFile(place).rows()


def _factors(**sizes: int) -> Lattice:
    return Lattice(tuple(Factor(name, size) for name, size in sizes.items()))


_SPRITES = "dsprites_ndarray_co1sh3sc6or40x32y32_64x64.npz"


@spec
class DSprites(FileSet):
    """The 737,280 binary images of dSprites, from their file.  [Matthey2017].

    `shapes2d` draws the same images without any file.
    """

    part: Part = "all"
    kind: Literal["dsprites"] = tag("dsprites")

    ABOUT: ClassVar[About] = About(
        "dSprites",
        737_280,
        (1, 64, 64),
        "Apache 2.0",
        "https://github.com/google-deepmind/dsprites-dataset",
        published(
            "dsprites",
            [_SPRITES],
            "https://github.com/google-deepmind/dsprites-dataset/raw/master",
            "https://raw.githubusercontent.com/google-deepmind/dsprites-dataset/master",
        ),
        Shapes2D().lattice,
    )

    def read(self) -> Content:
        """The array `imgs`; the metadata, which is pickled, is left alone."""
        return Content(arrays_of(self.folder / _SPRITES).rows("imgs"))


@spec
class Shapes3DFile(FileSet):
    """The 480,000 images of 3D Shapes, from their file.  [Kim2018] sec. 5."""

    part: Part = "all"
    kind: Literal["3dshapes"] = tag("3dshapes")

    ABOUT: ClassVar[About] = About(
        "3D Shapes",
        480_000,
        (3, 64, 64),
        "Apache 2.0",
        "https://github.com/google-deepmind/3d-shapes",
        published("3dshapes", ["3dshapes.h5"], f"{_GOOGLE}/3d-shapes"),
        _factors(floor_hue=10, wall_hue=10, object_hue=10, scale=8, shape=4, orientation=15),
        needs="h5py",
    )

    def read(self) -> Content:
        """The dataset `images`, unpacked once: 5.9 GB."""
        rows = arrays_of(self.folder / "3dshapes.h5").rows("images")
        return Content(self.unpacked(rows.shape, lambda: (block for _, block in blocks(rows))))


@spec
class MPI3D(FileSet):
    """The 1,036,800 images of MPI3D: rendered simply, realistically, or photographed.

    [Gondal2019]
    """

    version: Literal["toy", "realistic", "real"] = "real"
    part: Part = "all"
    kind: Literal["mpi3d"] = tag("mpi3d")

    ABOUT: ClassVar[About] = About(
        "MPI3D",
        1_036_800,
        (3, 64, 64),
        "CC BY 4.0",
        "https://github.com/rr-learning/disentanglement_dataset",
        published(
            "mpi3d",
            [f"mpi3d_{version}.npz" for version in ("toy", "realistic", "real")],
            f"{_GOOGLE}/disentanglement_dataset/Final_Dataset",
        ),
        _factors(
            object_colour=6,
            object_shape=6,
            object_size=2,
            camera_height=3,
            background_colour=3,
            horizontal_axis=40,
            vertical_axis=40,
        ),
    )

    @property
    def sources(self) -> tuple[Source, ...]:
        """The file of the version."""
        return tuple(s for s in self.ABOUT.sources if s.name == f"mpi3d_{self.version}.npz")

    def read(self) -> Content:
        """The array `images`."""
        return Content(arrays_of(self.folder / self.sources[0].name).rows("images"))


@spec
class Cars3D(FileSet):
    """183 cars from 24 sides and 4 heights, 17,568 images.  [Reed2015].

    Of 128 x 128 pixels, brought to `side`.
    """

    side: Side = 64
    part: Part = "all"
    kind: Literal["cars3d"] = tag("cars3d")

    ABOUT: ClassVar[About] = About(
        "Cars3D",
        17_568,
        (3, 64, 64),
        "not stated; for research",
        "https://papers.nips.cc/paper/5845-deep-visual-analogy-making",
        published("cars3d", ["nips2015-analogy-data.tar.gz"], "http://www.scottreed.info/files"),
        _factors(elevation=4, azimuth=24, car=183),
    )

    def read(self) -> Content:
        """The cars, in the order of their names, unpacked once."""
        lattice = self.ABOUT.lattice
        assert lattice is not None
        shape = (lattice.size, self.side, self.side, 3)
        return Content(self.unpacked(shape, lambda: [self._pictures(*lattice.sizes)]))

    def _pictures(self, heights: int, sides: int, count: int) -> Array:
        path = self.folder / self.sources[0].name
        found: dict[str, Array] = {}
        for match, content in tar_members(path, r"(?:\./)?data/cars/(car_\w+_mesh)\.mat"):
            car = read_mat(BytesIO(content), "im", 5, path)  # (128, 128, 3, 24, 4)
            if car.shape[2:] != (3, sides, heights) or len(found) == count:
                raise ValueError(broken(path, f"{match[1]} in it is of shape {car.shape}"))
            views = product(range(heights), range(sides))
            found[match[1]] = np.stack([shrunk(car[..., s, h], self.side) for h, s in views])
        if len(found) != count:
            raise ValueError(broken(path, f"it holds {len(found)} cars, not {count}"))
        cars = np.stack([found[name] for name in sorted(found)], 1)
        return cars.reshape(-1, self.side, self.side, 3)


_NORB = ("smallnorb-5x46789x9x18x6x2x96x96-training", "smallnorb-5x01235x9x18x6x2x96x96-testing")
_NORB_FACTORS = ("category", "instance", "elevation", "azimuth", "lighting")


@spec
class SmallNORB(FileSet):
    """Toys of five categories under light and from angles, 48,600 images.  [LeCun2004].

    The first picture of each stereo pair, of 96 x 96 pixels, brought to `side`; sorted by category,
    instance, elevation, azimuth and lighting. `part` is that of the authors: other toys.
    """

    side: Side = 64
    part: Split = "all"
    kind: Literal["smallnorb"] = tag("smallnorb")

    ABOUT: ClassVar[About] = About(
        "SmallNORB",
        48_600,
        (1, 64, 64),
        "for research only, not to be sold",
        "https://cs.nyu.edu/~ylclab/data/norb-v1.0-small/",
        published(
            "smallnorb",
            [f"{name}-{part}.mat.gz" for name in _NORB for part in ("dat", "cat", "info")],
            "https://cs.nyu.edu/~ylclab/data/norb-v1.0-small",
            "https://cs.nyu.edu/~yann/data/norb-v1.0-small",
        ),
        factors="category 5, instance 10, elevation 9, azimuth 18, lighting 6",
    )

    def read(self) -> Content:
        """Pictures and factors of the parts, sorted."""
        chosen = {"train": _NORB[:1], "test": _NORB[1:]}.get(self.part, _NORB)
        factors = np.concatenate([self._table(name) for name in chosen])
        order = np.lexsort(factors.T[::-1])
        shape = (len(factors), self.side, self.side)

        def made() -> list[Array]:
            return [np.concatenate([self._pictures(name) for name in chosen])[order]]

        return Content(self.unpacked(shape, made), factors[order], _NORB_FACTORS)

    def _table(self, name: str) -> Array:
        """Category; instance, elevation, azimuth and lighting."""
        classes = read_norb(self.folder / f"{name}-cat.mat.gz")
        others = read_norb(self.folder / f"{name}-info.mat.gz")
        if classes.ndim != 1 or others.shape != (len(classes), 4):
            where = self.folder / f"{name}-info.mat.gz"
            raise ValueError(broken(where, f"{classes.shape} and {others.shape} do not fit"))
        return np.column_stack([classes, others])

    def _pictures(self, name: str) -> Array:
        path = self.folder / f"{name}-dat.mat.gz"
        shape, found = norb_blocks(path)
        if len(shape) != 4:
            raise ValueError(broken(path, f"its shape is {shape}, not (N, 2, 96, 96)"))
        return np.stack([shrunk(pair[0], self.side) for block in found for pair in block])


@spec
class Chairs3D(FileSet):
    """1,393 chairs from 31 sides and 2 heights, 86,366 images.  [Aubry2014].

    The whole picture, of 600 x 600 pixels, brought to `side`.
    """

    side: Side = 64
    part: Part = "all"
    kind: Literal["3dchairs"] = tag("3dchairs")

    ABOUT: ClassVar[About] = About(
        "3D Chairs",
        86_366,
        (3, 64, 64),
        "not stated; for research",
        "https://www.di.ens.fr/willow/research/seeing3Dchairs/",
        published(
            "3dchairs",
            ["rendered_chairs.tar"],
            "https://www.di.ens.fr/willow/research/seeing3Dchairs/data",
            "http://www.di.ens.fr/willow/research/seeing3Dchairs/data",
        ),
        _factors(chair=1393, elevation=2, azimuth=31),
    )

    def read(self) -> Content:
        """The pictures in the order of chair, elevation and azimuth, unpacked once."""
        return Content(self.unpacked((self.ABOUT.count, self.side, self.side, 3), self._pictures))

    def _pictures(self) -> Iterator[Array]:
        with archive(self.folder / self.sources[0].name) as (names, read):
            # image_001_p020_t011_r096.png: elevation p, azimuth t.
            pictures = [n for n in names if "/renders/" in n and n.endswith(".png")]
            order = sorted(pictures, key=lambda n: (n.split("/")[-3], *n.split("_")[-3:-1]))
            yield from _decoded(order, read, None, self.side)


@spec
class Faces3D(FileSet):
    """50 faces by azimuth 21, elevation 11 and light 11, 127,050 grey images.  [Paysan2009].

    The renders of [Chen2018] of the Basel face model, as a .npy file.
    """

    part: Part = "all"
    kind: Literal["3dfaces"] = tag("3dfaces")

    ABOUT: ClassVar[About] = About(
        "3D Faces",
        127_050,
        (1, 64, 64),
        "of the Basel face model: for research, by an agreement that each user makes",
        "https://faces.dmi.unibas.ch/bfm/",
        published("3dfaces", ["3dfaces.npy"]),
        _factors(face=50, azimuth=21, elevation=11, light=11),
        hand="Agree to the licence of the Basel face model at https://faces.dmi.unibas.ch/bfm/ "
        "and get basel_face_renders.pth (50 x 21 x 11 x 11 images of 64 x 64) from its makers, the "
        "authors of https://github.com/rtqichen/beta-tcvae. It is a pickle, which is never loaded "
        'here; turn it into an array yourself: python -c "import numpy, torch; '
        "numpy.save('3dfaces.npy', torch.load('basel_face_renders.pth', weights_only=True)"
        ".numpy())\". The papers' 239,840 images of Kim & Mnih are not public.",
    )

    def read(self) -> Content:
        """The array (50, 21, 11, 11, 64, 64), or (127050, 64, 64)."""
        path = self.folder / self.sources[0].name
        rows = arrays_of(path).rows("")
        lattice = self.ABOUT.lattice
        assert lattice is not None
        if len(rows.shape) < 3 or rows.shape[:-2] not in (lattice.sizes, (lattice.size,)):
            wanted = (*lattice.sizes, *self.ABOUT.shape[1:])
            raise ValueError(broken(path, f"its shape is {rows.shape}, not {wanted}"))
        return Content(Held(rows.read(0, rows.shape[0]).reshape(-1, *rows.shape[-2:])))


@spec
class CelebA(FileSet):
    """202,599 faces of celebrities with 40 attributes.  [Liu2015].

    The centred square of `crop` pixels of the aligned pictures of 178 x 218, brought to `side`. The
    papers train on all of them at 64 x 64, "cropped", without saying how; 148 is the usual crop.
    `part` is that of the authors: other people.
    """

    crop: Annotated[int, Field(ge=16, le=178)] = 148
    side: Side = 64
    part: Part = "all"
    kind: Literal["celeba"] = tag("celeba")

    ABOUT: ClassVar[About] = About(
        "CelebA",
        202_599,
        (3, 64, 64),
        "for research that is not commercial",
        "https://mmlab.ie.cuhk.edu.hk/projects/CelebA.html",
        published(
            "celeba", ["img_align_celeba.zip", "list_attr_celeba.txt", "list_eval_partition.txt"]
        ),
        factors="40 attributes of two classes each",
        hand="Agree to the terms at https://mmlab.ie.cuhk.edu.hk/projects/CelebA.html and download "
        "from the folder that it links to: Img/img_align_celeba.zip (1.4 GB), "
        "Anno/list_attr_celeba.txt and Eval/list_eval_partition.txt.",
    )

    def read(self) -> Content:
        """The pictures of a part in the order of their numbers, and their attributes."""
        attributes, rows = read_table(self.folder / "list_attr_celeba.txt", 1)
        names = [row[0] for row in rows]
        with reading(self.folder / "list_attr_celeba.txt"):
            table = np.array([row[1:] for row in rows], dtype=np.int64)
            if table.shape != (len(names), len(attributes)):
                raise ValueError(f"{table.shape} values, and {len(attributes)} attributes")
        chosen = self._chosen(names)
        picked = [names[number] for number in chosen]
        shape = (len(chosen), self.side, self.side, 3)

        def made() -> Iterator[Array]:
            with archive(self.folder / "img_align_celeba.zip") as (_, read):
                places = [f"img_align_celeba/{name}" for name in picked]
                yield from _decoded(places, read, self.crop, self.side)

        return Content(self.unpacked(shape, made), table[chosen], attributes)

    def _chosen(self, names: Sequence[str]) -> list[int]:
        if self.part == "all":
            return list(range(len(names)))
        path = self.folder / "list_eval_partition.txt"
        first, rest = read_table(path, 0)
        parts = {row[0]: row[1] for row in (first, *rest) if len(row) == 2}
        wanted = {"train": "0", "validation": "1", "test": "2"}[self.part]
        if missing := [name for name in names if name not in parts]:
            raise ValueError(broken(path, f"it does not say to which part {missing[0]} belongs"))
        return [number for number, name in enumerate(names) if parts[name] == wanted]

    @property
    def shuffled(self) -> Part:
        """None: the parts are those of the authors."""
        return "all"


_IDX = [
    f"{part}-{what}-ubyte.gz"
    for part in ("train", "t10k")
    for what in ("images-idx3", "labels-idx1")
]


class _Idx(FileSet):
    """Images and labels in the format of MNIST."""

    def read(self) -> Content:
        """Images and classes, training before testing."""
        names = {"train": ("train",), "test": ("t10k",)}.get(self.part, ("train", "t10k"))
        images = [read_idx(self.folder / f"{name}-images-idx3-ubyte.gz", 3) for name in names]
        labels = [read_idx(self.folder / f"{name}-labels-idx1-ubyte.gz", 1) for name in names]
        return Content(Held(np.concatenate(images)), np.concatenate(labels), ("class",))


@spec
class MNIST(_Idx):
    """70,000 written digits, of which 60,000 are for training.  [LeCun1998]."""

    part: Split = "train"
    kind: Literal["mnist"] = tag("mnist")

    ABOUT: ClassVar[About] = About(
        "MNIST",
        70_000,
        (1, 28, 28),
        "CC BY-SA 3.0",
        "http://yann.lecun.com/exdb/mnist/",
        published(
            "mnist",
            _IDX,
            f"{_GOOGLE}/cvdf-datasets/mnist",
            "https://ossci-datasets.s3.amazonaws.com/mnist",
        ),
        factors="class 10",
    )


@spec
class FashionMNIST(_Idx):
    """70,000 pictures of clothes of ten kinds, of which 60,000 are for training.  [Xiao2017]."""

    part: Split = "train"
    kind: Literal["fashion-mnist"] = tag("fashion-mnist")

    ABOUT: ClassVar[About] = About(
        "Fashion-MNIST",
        70_000,
        (1, 28, 28),
        "MIT",
        "https://github.com/zalandoresearch/fashion-mnist",
        published(
            "fashion-mnist",
            _IDX,
            "https://github.com/zalandoresearch/fashion-mnist/raw/master/data/fashion",
            "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com",
        ),
        factors="class 10",
    )


@spec
class SVHN(FileSet):
    """99,289 house numbers in colour, cut to single digits, 73,257 for training.  [Netzer2011]."""

    part: Split = "train"
    kind: Literal["svhn"] = tag("svhn")

    ABOUT: ClassVar[About] = About(
        "SVHN",
        99_289,
        (3, 32, 32),
        "for use that is not commercial",
        "http://ufldl.stanford.edu/housenumbers/",
        published(
            "svhn",
            ["train_32x32.mat", "test_32x32.mat"],
            "http://ufldl.stanford.edu/housenumbers",
            "https://ufldl.stanford.edu/housenumbers",
        ),
        factors="class 10",
    )

    def read(self) -> Content:
        """Images and digits; the file has 10 for the digit 0."""
        names = {"train": ("train",), "test": ("test",)}.get(self.part, ("train", "test"))
        found = [self._part(self.folder / f"{name}_32x32.mat") for name in names]
        images, labels = (np.concatenate(each) for each in zip(*found, strict=True))
        return Content(Held(images), labels, ("class",))

    def _part(self, path: Path) -> tuple[Array, Array]:
        images, labels = read_mat(path, "X", 4, path), read_mat(path, "y", 2, path).reshape(-1)
        if images.shape[:3] != (32, 32, 3) or images.shape[3] != len(labels):
            raise ValueError(broken(path, f"{images.shape} and {labels.shape} do not fit"))
        return np.moveaxis(images, -1, 0), labels.astype(np.int64) % 10


def _decoded(
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
        for start in range(0, len(names), _AT_ONCE):
            yield np.stack(list(pool.map(picture, names[start : start + _AT_ONCE])))


Published = (
    DSprites
    | Shapes3DFile
    | MPI3D
    | Cars3D
    | SmallNORB
    | Chairs3D
    | Faces3D
    | CelebA
    | MNIST
    | FashionMNIST
    | SVHN
)
