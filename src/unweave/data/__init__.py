"""Data: a lattice of factors with a renderer, or files and arrays by the same door.

A data spec says what the data are; `load(device)` gives the `Dataset` to draw batches from. The
union `Data` is the registry: a new data set is one spec and one name in it.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from unweave.data.dataset import Dataset
from unweave.data.drawn.paper_generators import Mixing, MovingDigit, Pinwheel
from unweave.data.drawn.shapes2d import Shapes2D
from unweave.data.drawn.shapes2d_variants import ColourShapes2D, NoisyShapes2D, TexturedShapes2D
from unweave.data.drawn.shapes3d import Shapes3D
from unweave.data.drawn.toy import Blobs, Blocks
from unweave.data.files.arrays import Arrays, InMemory, as_numpy, from_array, read_like
from unweave.data.files.features import in_classes, write_features
from unweave.data.files.folder import Folder
from unweave.data.files.streaming import Streamed
from unweave.data.lattice import Factor, Lattice
from unweave.data.published.base import FileSet
from unweave.data.published.labelled import MNIST, SVHN, CelebA, FashionMNIST
from unweave.data.published.sets import (
    MPI3D,
    Cars3D,
    Chairs3D,
    DSprites,
    Faces3D,
    Published,
    Shapes3DFile,
    SmallNORB,
)
from unweave.data.sampling import Paired, Selected, Whole
from unweave.data.selection import AnyWay, Correlated, HeldOut, Incomplete, Subset
from unweave.data.spectrum import principal_variances

Data = Annotated[Whole | Selected | Paired, Field(discriminator="kind")]

__all__ = [
    "MNIST",
    "MPI3D",
    "SVHN",
    "AnyWay",
    "Arrays",
    "Blobs",
    "Blocks",
    "Cars3D",
    "CelebA",
    "Chairs3D",
    "ColourShapes2D",
    "Correlated",
    "DSprites",
    "Data",
    "Dataset",
    "Faces3D",
    "Factor",
    "FashionMNIST",
    "FileSet",
    "Folder",
    "HeldOut",
    "InMemory",
    "Incomplete",
    "Lattice",
    "Mixing",
    "MovingDigit",
    "NoisyShapes2D",
    "Paired",
    "Pinwheel",
    "Published",
    "Selected",
    "Shapes2D",
    "Shapes3D",
    "Shapes3DFile",
    "SmallNORB",
    "Streamed",
    "Subset",
    "TexturedShapes2D",
    "Whole",
    "as_numpy",
    "from_array",
    "in_classes",
    "principal_variances",
    "read_like",
    "write_features",
]
