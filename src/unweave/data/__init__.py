"""Datasets: rendered, read from files, or arrays in memory.

A data spec describes the data, and its `load(device)` returns a `Dataset`, from which batches are
drawn. The union `Data` is the registry of specs.
"""

from typing import Annotated

from unweave.core.lazy import public_names
from unweave.core.parts import Open
from unweave.data.dataset import (
    MISSING as MISSING,
    AbsolutePath as AbsolutePath,
    ArrayDataset as ArrayDataset,
    Dataset as Dataset,
    DataSpec as DataSpec,
    Schema as Schema,
)
from unweave.data.features import in_classes as in_classes, write_features as write_features
from unweave.data.files.arrays import (
    Arrays as Arrays,
    InMemory as InMemory,
    from_array as from_array,
)
from unweave.data.files.build import array_dataset as array_dataset, as_numpy as as_numpy
from unweave.data.files.folder import Folder as Folder
from unweave.data.files.new_observations import (
    NewObservations as NewObservations,
    read_like as read_like,
)
from unweave.data.files.streaming import StreamedDataset as StreamedDataset
from unweave.data.lattice import Factor as Factor, Lattice as Lattice
from unweave.data.pairs import Paired as Paired
from unweave.data.pca import (
    noise_deviation as noise_deviation,
    principal_variances as principal_variances,
)
from unweave.data.published.base import PublishedSpec as PublishedSpec
from unweave.data.published.datasets import (
    MPI3D as MPI3D,
    Cars3D as Cars3D,
    Chairs3D as Chairs3D,
    DSprites as DSprites,
    Faces3D as Faces3D,
    Published as Published,
    Shapes3DFile as Shapes3DFile,
    SmallNORB as SmallNORB,
)
from unweave.data.published.labelled import (
    MNIST as MNIST,
    SVHN as SVHN,
    CelebA as CelebA,
    FashionMNIST as FashionMNIST,
)
from unweave.data.selected import Selected as Selected
from unweave.data.selection import (
    AnySelection as AnySelection,
    Correlated as Correlated,
    HeldOut as HeldOut,
    Incomplete as Incomplete,
    Subset as Subset,
)
from unweave.data.sources import SourceData as SourceData
from unweave.data.synthetic.paper_generators import (
    Mixing as Mixing,
    MovingDigit as MovingDigit,
    Pinwheel as Pinwheel,
)
from unweave.data.synthetic.renderer import RenderedDataset as RenderedDataset
from unweave.data.synthetic.shapes2d import Shapes2D as Shapes2D
from unweave.data.synthetic.shapes2d_variants import (
    ColourShapes2D as ColourShapes2D,
    NoisyShapes2D as NoisyShapes2D,
    TexturedShapes2D as TexturedShapes2D,
)
from unweave.data.synthetic.shapes3d import Shapes3D as Shapes3D
from unweave.data.synthetic.toy import Blobs as Blobs, Blocks as Blocks

__all__ = public_names(__name__)

Data = Annotated[SourceData | Selected | Paired, Open()]
