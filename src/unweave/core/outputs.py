"""Files that users ask for: where they may be, and which existing ones they may replace.

The folder of a run belongs to the store, and nothing else is written there. Pages, pictures and
archives of arrays say inside that unweave wrote them, and are replaced. Any other file is replaced
only with --overwrite.
"""

from __future__ import annotations

import contextlib
import errno
import importlib
import io
import json
import os
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from unweave.core.files import read_bytes

if TYPE_CHECKING:
    from PIL.Image import Image

RUN = "run.json"  # the file that makes a folder one of a run
DEFAULT_STORE = Path("runs")  # of commands and of `explore`

_WRITER = b"Written by unweave"
_AT_START = (b'<meta name="generator" content="unweave', b"Software\0" + _WRITER)  # HTML, PNG
_START, _END = 4096, 64  # bytes in which files say who wrote them


def check_matplotlib() -> None:
    """Raise if figures of papers cannot be drawn because matplotlib is not installed."""
    try:
        importlib.import_module("matplotlib")
    except ImportError:
        raise ValueError(
            "figures of papers need matplotlib, which is not installed: pip install "
            "'unweave[papers]'"
        ) from None


def check_output(
    path: Path | None,
    option: str,
    overwrite: bool,
    extensions: tuple[str, ...] = (),
    *,
    folder: bool = False,
) -> None:
    """Refuse to write to a path, before anything is computed.

    Args:
        path: where to write; None, standard output, is never refused.
        option: the option that gives it.
        overwrite: whether any existing file may be replaced.
        extensions: what the name of a file may end in; () is anything.
        folder: whether a path without an extension is a folder of files.
    """
    if path is None:
        return
    in_folder = folder and not path.suffix
    if extensions and not in_folder and path.suffix.lower() not in extensions:
        expected = f"{'a folder, or ' if folder else ''}a file that ends in {', '.join(extensions)}"
        raise ValueError(f"expected {expected}, got {option} {path}")
    if not in_folder and path.is_dir():
        raise ValueError(f"expected a file to write, got {option} {path}, which is a folder")
    if path.exists() and not path.is_file() and not path.is_dir():
        raise ValueError(f"expected a file to write, got {option} {path}, a pipe or a device")
    if not path.parent.is_dir():
        raise ValueError(f"{option}: there is no folder {path.parent}; create it first")
    check_writable(path if path.is_dir() else path.parent)
    refuse_run_folder(path)
    if in_folder and path.exists() and not path.is_dir():
        raise ValueError(f"expected a folder, got {option} {path}, which is a file")
    replaced = any(path.iterdir()) if path.is_dir() else os.path.lexists(path) and not _ours(path)
    if replaced and not overwrite:
        raise ValueError(
            f"{path} exists, and unweave may not have written it: choose another {option}, or "
            "replace it with --overwrite"
        )


def check_writable(folder: Path) -> None:
    """Raise a PermissionError if nothing may be written in a folder."""
    if not os.access(folder, os.W_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(folder))


def refuse_run_folder(path: Path) -> None:
    """Refuse to write a user's file, or a folder of them, into the folder of a run.

    Files there are those of the store, and whoever holds its lock deletes unfinished ones.
    """
    for folder in (path, path.parent):
        if (folder / RUN).exists():
            raise ValueError(
                f"expected a path outside run folders, got {path}: {folder} is the folder of a "
                "run, which has no other files; choose another folder"
            )


def run_beside(path: Path) -> str | None:
    """Return the digest of the run in whose folder a file is; None if it is in no such folder."""
    with contextlib.suppress(OSError, ValueError, LookupError, TypeError, RecursionError):
        return str(json.loads(read_bytes(path.parent / RUN))["seal"]["run"])
    return None


def _ours(path: Path) -> bool:
    """Whether a file says that unweave wrote it."""
    if not path.is_file():
        return False
    with path.open("rb") as file:
        start = file.read(_START)
        file.seek(max(0, path.stat().st_size - _END))
        return any(mark in start for mark in _AT_START) or _WRITER in file.read()


def npz_bytes(arrays: Mapping[str, Any]) -> bytes:
    """Return arrays as an .npz file."""
    import numpy as np  # not at the top: the help of commands needs none of it

    content = io.BytesIO()
    np.savez(content, **arrays)
    with zipfile.ZipFile(content, "a") as archive:
        archive.comment = _WRITER
    return content.getvalue()


def png_bytes(picture: Image) -> bytes:
    """Return a picture as a PNG file."""
    from PIL.PngImagePlugin import PngInfo

    content, facts = io.BytesIO(), PngInfo()
    facts.add_text("Software", _WRITER.decode())
    picture.save(content, "PNG", optimize=True, pnginfo=facts)
    return content.getvalue()


def svg_bytes(drawing: str) -> bytes:
    """Return a drawing as an SVG file."""
    return drawing.encode() + b"<!-- " + _WRITER + b" -->\n"
