"""The data folder, and files in it that are computed once and reused."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, BinaryIO

from filelock import FileLock

from unweave.core.files import atomically, delete_unfinished, make_folder, write_atomically


def data_folder() -> Path:
    """Return the folder of datasets: $UNWEAVE_DATA, or ~/.cache/unweave by default."""
    return Path(os.environ.get("UNWEAVE_DATA") or Path.home() / ".cache" / "unweave").absolute()


def cached_file(
    folder: Path,
    key: Sequence[object],
    write: Callable[[BinaryIO], object],
    suffix: str = ".npy",
) -> Path:
    """Return the file for a key, calling `write` to create it if it does not exist yet."""
    path = folder / f"{_name(key)}{suffix}"
    if path.exists():
        return path
    try:
        make_folder(folder)
        with FileLock(f"{path}.lock"):
            if not path.exists():
                delete_unfinished(folder, path.name)
                with atomically(path) as file:
                    write(file)
    except OSError as error:
        if error.errno != errno.ENOSPC:
            raise
        raise ValueError(
            f"there is not enough space in {folder} to unpack the data: free some, or choose "
            "another folder with the environment variable UNWEAVE_DATA"
        ) from None
    return path


def cached_json(key: Sequence[object], compute: Callable[[], Any]) -> Any:
    """Return the JSON value for a key, calling `compute` if it was not stored before."""
    path = data_folder() / "known" / f"{_name(key)}.json"
    with contextlib.suppress(OSError, ValueError):
        return json.loads(path.read_text())
    value = compute()
    with contextlib.suppress(OSError):  # if it cannot be stored, it is computed again next time
        make_folder(path.parent)
        write_atomically(path, json.dumps(value).encode())
    return value


def _name(key: Sequence[object]) -> str:
    return hashlib.sha256(json.dumps(key, default=str).encode()).hexdigest()[:24]
