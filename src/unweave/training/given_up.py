"""Records of why an executor gave up runs, whose folders do not contain a reason."""

import json
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from pydantic import FiniteFloat
from typing_extensions import TypedDict  # pydantic needs it before Python 3.12

from unweave.core import files
from unweave.core.adapters import adapter
from unweave.training.heartbeats import FOLDER

_SUFFIX = ".failed"


class GivenUp(TypedDict):
    """Why a run was given up, on which machine and when."""

    text: str
    host: str  # "" if that is not known
    time: FiniteFloat


def give_up(root: Path, runs: Iterable[str], text: str, host: str) -> None:
    """Record why runs of a store were given up; the disk may be full, and this is only a note."""
    record = GivenUp(text=text, host=host, time=time.time())
    with suppress(OSError):
        files.make_folder(root / FOLDER)
        for run in runs:
            files.put(_path(root, run), json.dumps(record).encode())


def forget(root: Path, runs: Iterable[str]) -> None:
    """Delete the records of runs that have ended after all."""
    there = files.disk.names(root / FOLDER)
    for run in runs:
        if _path(root, run).name in there:
            files.delete(_path(root, run))


def given_up(root: Path) -> dict[str, GivenUp]:
    """Return the records of a store by run, without damaged ones."""
    found = {}
    for name in files.disk.names(root / FOLDER):
        if (run := name.removesuffix(_SUFFIX)) != name:
            with suppress(ValueError, files.OddFile):
                content = files.disk.read(_path(root, run)) or b""
                found[run] = adapter(GivenUp).validate_json(content, strict=True)
    return found


def _path(root: Path, run: str) -> Path:
    return root / FOLDER / f"{run}{_SUFFIX}"
