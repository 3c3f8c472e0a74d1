"""The data specs that stand on their own, from which selections and pairs can be made."""

from typing import Annotated

from unweave.core.parts import Open
from unweave.data.dataset import DataSpec
from unweave.data.files.arrays import Arrays, InMemory
from unweave.data.files.folder import Folder
from unweave.data.published.datasets import Published
from unweave.data.synthetic.paper_generators import Mixing, MovingDigit, Pinwheel
from unweave.data.synthetic.shapes2d import Shapes2D
from unweave.data.synthetic.shapes2d_variants import ColourShapes2D, NoisyShapes2D, TexturedShapes2D
from unweave.data.synthetic.shapes3d import Shapes3D
from unweave.data.synthetic.toy import Blobs, Blocks

SourceData = Annotated[
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
    | InMemory
    | DataSpec,
    Open(),
]
