"""The datasets that papers compare on, read from their published files.

`unweave data get NAME` downloads one into a folder of its name under `data_folder()`. Compressed
data and archives of images, which cannot be read row by row, are unpacked there once, to a .npy
file.
"""

from collections.abc import Iterator
from io import BytesIO
from itertools import product
from typing import ClassVar, Literal

import numpy as np

from unweave.core.spec import spec, tag
from unweave.data.files.array_file import open_array_file
from unweave.data.files.images import resize
from unweave.data.files.rows import Array, InMemoryRows, blocks
from unweave.data.published.base import (
    About,
    Content,
    PublishedSpec,
    Side,
    TrainTestSplit,
    about,
    decode,
)
from unweave.data.published.download import Source
from unweave.data.published.formats import (
    archive,
    broken,
    norb_blocks,
    read_mat,
    read_norb,
    tar_members,
)
from unweave.data.published.labelled import MNIST, SVHN, CelebA, FashionMNIST
from unweave.data.random_split import DataSplit
from unweave.data.synthetic.shapes2d import Shapes2D


@spec
class DSprites(PublishedSpec):
    """The 737,280 binary images of dSprites, from their file.  [Matthey2017].

    `shapes2d` renders the same images without a file.
    """

    split: DataSplit = "all"
    kind: Literal["dsprites"] = tag("dsprites")

    ABOUT: ClassVar[About] = about("dsprites", lattice=Shapes2D().lattice)

    def read(self) -> Content:
        """Read the array `imgs`, and leave the pickled metadata alone."""
        return Content(open_array_file(self.first_file).rows("imgs"))


@spec
class Shapes3DFile(PublishedSpec):
    """The 480,000 images of 3D Shapes, from their file.  [Kim2018] sec. 5."""

    split: DataSplit = "all"
    kind: Literal["3dshapes"] = tag("3dshapes")

    ABOUT: ClassVar[About] = about("3dshapes")

    def read(self) -> Content:
        """Read the array `images`, which is unpacked once to 5.9 GB."""
        rows = open_array_file(self.first_file).rows("images")
        return Content(self.unpacked(rows.shape, lambda: (block for _, block in blocks(rows))))


@spec
class MPI3D(PublishedSpec):
    """The 1,036,800 images of MPI3D: toy renderings, realistic renderings, or photographs.

    [Gondal2019]
    """

    version: Literal["toy", "realistic", "real"] = "real"
    """Toy renderings, realistic renderings, or photographs."""
    split: DataSplit = "all"
    kind: Literal["mpi3d"] = tag("mpi3d")

    ABOUT: ClassVar[About] = about("mpi3d")

    @property
    def sources(self) -> tuple[Source, ...]:
        return tuple(s for s in self.ABOUT.sources if s.name == f"mpi3d_{self.version}.npz")

    def read(self) -> Content:
        return Content(open_array_file(self.first_file).rows("images"))


@spec
class Cars3D(PublishedSpec):
    """183 cars from 24 azimuths and 4 elevations, 17,568 images.  [Reed2015].

    The images are 128 x 128, resized to `side`.
    """

    side: Side = 64
    """Height and width of the images in pixels."""
    split: DataSplit = "all"
    kind: Literal["cars3d"] = tag("cars3d")

    ABOUT: ClassVar[About] = about("cars3d")

    def read(self) -> Content:
        """Read the cars in the order of their names; they are unpacked once."""
        lattice = self.ABOUT.lattice
        assert lattice is not None
        shape = (lattice.size, self.side, self.side, 3)
        return Content(self.unpacked(shape, lambda: [self._images(*lattice.sizes)]))

    def _images(self, elevations: int, azimuths: int, count: int) -> Array:
        path = self.first_file
        cars: dict[str, Array] = {}
        for match, content in tar_members(path, r"(?:\./)?data/cars/(car_\w+_mesh)\.mat"):
            car = read_mat(BytesIO(content), "im", 5, path)  # (128, 128, 3, 24, 4)
            if car.shape[2:] != (3, azimuths, elevations) or len(cars) == count:
                raise ValueError(broken(path, f"{match[1]} in it is of shape {car.shape}"))
            views = product(range(elevations), range(azimuths))
            cars[match[1]] = np.stack([resize(car[..., a, e], self.side) for e, a in views])
        if len(cars) != count:
            raise ValueError(broken(path, f"it has {len(cars)} cars, not {count}"))
        images = np.stack([cars[name] for name in sorted(cars)], 1)
        return images.reshape(-1, self.side, self.side, 3)


_NORB = ("smallnorb-5x46789x9x18x6x2x96x96-training", "smallnorb-5x01235x9x18x6x2x96x96-testing")
_NORB_FACTORS = ("category", "instance", "elevation", "azimuth", "lighting")


@spec
class SmallNORB(PublishedSpec):
    """Toys of five categories under several lights and angles, 48,600 images.  [LeCun2004].

    The first image of each stereo pair, 96 x 96, resized to `side`, and sorted by category,
    instance, elevation, azimuth and lighting. `split` is that of the authors, with five of the ten
    instances of each category in either.
    """

    side: Side = 64
    """Height and width of the images in pixels."""
    split: TrainTestSplit = "all"
    kind: Literal["smallnorb"] = tag("smallnorb")

    ABOUT: ClassVar[About] = about("smallnorb")

    def read(self) -> Content:
        files = {"train": _NORB[:1], "test": _NORB[1:]}.get(self.split, _NORB)
        tables = [self._table(name) for name in _NORB]
        factors = np.concatenate(tables)
        origin = np.repeat(_NORB, [len(table) for table in tables])
        rows = np.flatnonzero(np.isin(origin, files))
        order = np.lexsort(factors[rows].T[::-1])
        shape = (len(rows), self.side, self.side)

        def images() -> list[Array]:
            return [np.concatenate([self._images(name) for name in files])[order]]

        return Content(self.unpacked(shape, images), factors, _NORB_FACTORS, rows[order])

    def _table(self, name: str) -> Array:
        """Read category, instance, elevation, azimuth and lighting, (N, 5)."""
        classes = read_norb(self.folder / f"{name}-cat.mat.gz")
        others = read_norb(self.folder / f"{name}-info.mat.gz")
        if classes.ndim != 1 or others.shape != (len(classes), 4):
            where = self.folder / f"{name}-info.mat.gz"
            raise ValueError(broken(where, f"{classes.shape} and {others.shape} do not fit"))
        return np.column_stack([classes, others])

    def _images(self, name: str) -> Array:
        path = self.folder / f"{name}-dat.mat.gz"
        shape, blocks_of_pairs = norb_blocks(path)
        if len(shape) != 4:
            raise ValueError(broken(path, f"its shape is {shape}, not (N, 2, 96, 96)"))
        return np.stack([resize(pair[0], self.side) for block in blocks_of_pairs for pair in block])


@spec
class Chairs3D(PublishedSpec):
    """1,393 chairs from 31 azimuths and 2 elevations, 86,366 images.  [Aubry2014].

    The images are 600 x 600, resized to `side`.
    """

    side: Side = 64
    """Height and width of the images in pixels."""
    split: DataSplit = "all"
    kind: Literal["3dchairs"] = tag("3dchairs")

    ABOUT: ClassVar[About] = about("3dchairs")

    def read(self) -> Content:
        """Read the images in the order of chair, elevation and azimuth; they are unpacked once."""
        return Content(self.unpacked((self.ABOUT.count, self.side, self.side, 3), self._images))

    def _images(self) -> Iterator[Array]:
        with archive(self.first_file) as (names, read):
            # image_001_p020_t011_r096.png: elevation p, azimuth t.
            images = [n for n in names if "/renders/" in n and n.endswith(".png")]
            order = sorted(images, key=lambda n: (n.split("/")[-3], *n.split("_")[-3:-1]))
            yield from decode(order, read, None, self.side)


@spec
class Faces3D(PublishedSpec):
    """50 faces from 21 azimuths and 11 elevations in 11 lights, 127,050 images.  [Paysan2009].

    The renderings of [Chen2018] of the Basel face model, as a .npy file.
    """

    split: DataSplit = "all"
    kind: Literal["3dfaces"] = tag("3dfaces")
    also_cites: ClassVar[tuple[str, ...]] = ("Chen2018",)

    ABOUT: ClassVar[About] = about("3dfaces")

    def read(self) -> Content:
        """Read the array (50, 21, 11, 11, 64, 64) or (127050, 64, 64)."""
        rows = open_array_file(self.first_file).rows("")
        lattice = self.ABOUT.lattice
        assert lattice is not None
        if len(rows.shape) < 3 or rows.shape[:-2] not in (lattice.sizes, (lattice.size,)):
            wanted = (*lattice.sizes, *self.ABOUT.shape[1:])
            raise ValueError(broken(self.first_file, f"its shape is {rows.shape}, not {wanted}"))
        return Content(InMemoryRows(rows.read(0, rows.shape[0]).reshape(-1, *rows.shape[-2:])))


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
