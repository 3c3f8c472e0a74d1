"""Datasets: rendered, read from files, or arrays in memory.

A data spec describes the data, and its `load(device)` returns a `Dataset`, from which batches are
drawn. The union `Data` is the registry of specs.
"""

from __future__ import annotations

from typing import Annotated

from unweave.core.parts import Open
from unweave.data.dataset import MISSING, ArrayDataset, Dataset, DataSpec, Schema
from unweave.data.features import in_classes, write_features
from unweave.data.files.arrays import Arrays, InMemory, from_array
from unweave.data.files.build import array_dataset, as_numpy
from unweave.data.files.folder import Folder
from unweave.data.files.new_observations import NewObservations, read_like
from unweave.data.files.streaming import StreamedDataset
from unweave.data.lattice import Factor, Lattice
from unweave.data.pairs import Paired
from unweave.data.pca import principal_variances
from unweave.data.published.base import PublishedSpec
from unweave.data.published.datasets import (
    MPI3D,
    Cars3D,
    Chairs3D,
    DSprites,
    Faces3D,
    Published,
    Shapes3DFile,
    SmallNORB,
)
from unweave.data.published.labelled import MNIST, SVHN, CelebA, FashionMNIST
from unweave.data.selected import Selected
from unweave.data.selection import AnySelection, Correlated, HeldOut, Incomplete, Subset
from unweave.data.sources import SourceData
from unweave.data.synthetic.paper_generators import Mixing, MovingDigit, Pinwheel
from unweave.data.synthetic.renderer import RenderedDataset
from unweave.data.synthetic.shapes2d import Shapes2D
from unweave.data.synthetic.shapes2d_variants import ColourShapes2D, NoisyShapes2D, TexturedShapes2D
from unweave.data.synthetic.shapes3d import Shapes3D
from unweave.data.synthetic.toy import Blobs, Blocks

Data = Annotated[SourceData | Selected | Paired, Open()]

__all__ = [
    "MISSING",
    "MNIST",
    "MPI3D",
    "SVHN",
    "AnySelection",
    "ArrayDataset",
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
    "DataSpec",
    "Dataset",
    "Faces3D",
    "Factor",
    "FashionMNIST",
    "Folder",
    "HeldOut",
    "InMemory",
    "Incomplete",
    "Lattice",
    "Mixing",
    "MovingDigit",
    "NewObservations",
    "NoisyShapes2D",
    "Paired",
    "Pinwheel",
    "Published",
    "PublishedSpec",
    "RenderedDataset",
    "Schema",
    "Selected",
    "Shapes2D",
    "Shapes3D",
    "Shapes3DFile",
    "SmallNORB",
    "SourceData",
    "StreamedDataset",
    "Subset",
    "TexturedShapes2D",
    "array_dataset",
    "as_numpy",
    "from_array",
    "in_classes",
    "principal_variances",
    "read_like",
    "write_features",
]
