"""The data specs that stand on their own, and which of them a path stands for."""

from pathlib import Path
from typing import Annotated

from unweave.core.hints import nearest_path
from unweave.core.parts import Open
from unweave.data.dataset import DataSpec
from unweave.data.files import images
from unweave.data.files.array_file import EXTENSIONS
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


def from_path(path: str | Path) -> Arrays | Folder:
    """Return the data spec for a file of arrays, a folder of images or a stack of images."""
    place = Path(path)
    if place.is_dir() or (place.suffix.lower() in images.EXTENSIONS and place.exists()):
        return Folder(str(place))
    if not place.exists():
        raise ValueError(
            f"expected a folder of images or a file of arrays at {path}, got nothing there: "
            f"{nearest_path(place)}"
        )
    if place.suffix.lower() in EXTENSIONS:
        return Arrays(str(place))
    raise ValueError(
        f"{path} is neither a folder of images, nor a stack of images such as a TIFF file, nor a "
        f"file of arrays: {', '.join(EXTENSIONS)}"
    )
