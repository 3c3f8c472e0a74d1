"""Where the runs that a server shows come from: models in memory, and folders of a store."""

import os
import time
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from operator import itemgetter
from pathlib import Path
from typing import Protocol

from unweave.evaluation.model import FittedModel
from unweave.explorer.contents import RunData
from unweave.explorer.run_data import run_data
from unweave.training.run_files import created_at
from unweave.training.store import RunFolder

_TIME_STEP = 2 * 10**9  # nanoseconds between times that every file system can distinguish


class RunSource(Protocol):
    """Where a run to show comes from."""

    @property
    def key(self) -> str:
        """What tells the source from others."""

    def version(self) -> Hashable:
        """Return a value that changes with the state, settings, scores or curves of the run."""

    def weights_version(self) -> Hashable:
        """Return a value that changes with the newest weights."""

    def run_data(self, rows: int) -> RunData:
        """Return the run without its weights, and at most `rows` rows of each curve."""

    def model(self) -> FittedModel:
        """Return the model with its newest weights."""


@dataclass(frozen=True)
class LoadedRun:
    """A model in memory, which does not change."""

    loaded: FittedModel

    @property
    def key(self) -> str:
        """The digest of the run."""
        return self.loaded.run.digest

    def version(self) -> Hashable:
        """Return the same value always."""
        return None

    def weights_version(self) -> Hashable:
        """Return the same value always."""
        return None

    def run_data(self, rows: int) -> RunData:
        """Return the run without its weights, and at most `rows` rows of each curve."""
        return run_data(self.loaded, rows)

    def model(self) -> FittedModel:
        """Return the model."""
        return self.loaded


@dataclass
class StoredRun:
    """A run in its folder. `load` reads a model from it."""

    folder: RunFolder
    load: Callable[[Path], FittedModel]
    key: str = field(init=False)  # the path of the folder
    _changed: int = field(default=-1, init=False)
    _trained: bool = field(default=False, init=False)  # now, by a process

    def __post_init__(self) -> None:
        self.key = str(self.folder.path)

    def version(self) -> Hashable:
        """Return when the folder has changed, and whether the run is being trained.

        Files are written under another name and then renamed, which changes the folder, and so
        does the start of training. A folder that has changed just now may do so again without a
        new time, so its files count too.
        """
        changed = os.stat(self.key).st_mtime_ns
        if self._trained or changed != self._changed:
            self._trained = not self.folder.weights.exists() and self.folder.locked
            self._changed = changed
        files = self._files() if abs(time.time_ns() - changed) < _TIME_STEP else None
        return changed, files, self._trained

    def _files(self) -> Hashable:
        with os.scandir(self.key) as entries:
            return frozenset(_facts(entry) for entry in entries)

    def weights_version(self) -> Hashable:
        """Return the file of the newest weights, and when it was written."""
        states = self.folder.states
        newest = states.get(max(states, default=0))
        path = self.folder.weights if self.folder.weights.exists() else newest
        return path and (path.name, path.stat().st_mtime_ns)

    def run_data(self, rows: int) -> RunData:
        """Read the run without its weights, and at most `rows` rows of each curve."""
        return run_data(self.folder.path, rows)

    def model(self) -> FittedModel:
        """Load the model."""
        return self.load(self.folder.path)


def _facts(entry: os.DirEntry[str]) -> tuple[str, int, int]:
    try:
        status = entry.stat()
    except FileNotFoundError:  # it was replaced since the folder was listed
        return entry.name, 0, 0
    return entry.name, status.st_mtime_ns, status.st_size


@dataclass
class StoredRuns:
    """Finds the runs of a store, the newest last; folders that it knows are not opened again."""

    root: Path
    load: Callable[[Path], FittedModel]
    _known: dict[str, tuple[float, StoredRun]] = field(default_factory=dict, init=False)

    def __call__(self) -> list[RunSource]:
        """List the runs as they are now."""
        try:
            names = os.listdir(self.root)
        except FileNotFoundError:  # training will make the store
            names = []
        sources = ((name, self._known.get(name) or self._opened(name)) for name in names)
        self._known = {name: run for name, run in sources if run}
        return [run for _, run in sorted(self._known.values(), key=itemgetter(0))]

    def _opened(self, name: str) -> tuple[float, StoredRun] | None:
        """Return a run and when it was created, or None if the folder has no run."""
        created = created_at(self.root, name)
        run = StoredRun(RunFolder(self.root / name), self.load)
        return None if created is None else (created, run)
