"""Where data sets lie, and what is worked out of files once and kept."""

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

from unweave.core.files import UNFINISHED, atomically, write_atomically


def data_folder() -> Path:
    """The folder of data sets: that of the variable UNWEAVE_DATA, else ~/.cache/unweave."""
    return Path(os.environ.get("UNWEAVE_DATA") or Path.home() / ".cache" / "unweave").absolute()


def prepared(
    folder: Path,
    key: Sequence[object],
    write: Callable[[BinaryIO], object],
    suffix: str = ".npy",
) -> Path:
    """The file that `write` makes of what the key says, made if it is not there yet."""
    place = folder / f"{_name(key)}{suffix}"
    if place.exists():
        return place
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with FileLock(f"{place}.lock"):
            if not place.exists():
                for litter in folder.glob(f"{UNFINISHED}*-{place.name}"):  # of one that was killed
                    litter.unlink()
                with atomically(place) as file:
                    write(file)
    except OSError as error:
        if error.errno != errno.ENOSPC:
            raise
        raise ValueError(
            f"there is no room in {folder} for what is unpacked there: free some, or choose "
            "another place with the variable UNWEAVE_DATA"
        ) from None
    return place


def remembered(key: Sequence[object], work_out: Callable[[], Any]) -> Any:
    """What `work_out` gives, as JSON; kept by key where there is a place to keep it."""
    place = data_folder() / "known" / f"{_name(key)}.json"
    with contextlib.suppress(OSError, ValueError):
        return json.loads(place.read_text())
    found = work_out()
    with contextlib.suppress(OSError):  # it is worked out again where it cannot be kept
        place.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(place, json.dumps(found).encode())
    return found


def _name(key: Sequence[object]) -> str:
    return hashlib.sha256(json.dumps(key, default=str).encode()).hexdigest()[:24]
