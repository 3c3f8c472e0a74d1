"""Choose a data spec by a path: a file of arrays, or a folder of images."""

from pathlib import Path

from unweave.core.hints import nearest_path
from unweave.data.files import images
from unweave.data.files.array_file import EXTENSIONS
from unweave.data.files.arrays import Arrays
from unweave.data.files.folder import Folder


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
