"""The runs that a server shows: listed without their weights, and read again when files change."""

from __future__ import annotations

import os
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple, Protocol

import unweave
from unweave.core.console import err
from unweave.core.notes import print_notes
from unweave.evaluation.model import FittedModel
from unweave.explorer.contents import Manifest, RunData, manifest_json
from unweave.explorer.page import render
from unweave.explorer.run_data import MOST_ROWS, named, run_data, terms
from unweave.training.store import RunFolder

MOST_OPEN = 4  # runs side by side
_ATTEMPTS = 3  # to read a checkpoint, which training may replace meanwhile
_MOST_BYTES = 2**29  # of bundles in memory
_ALL_ROWS = 60_000  # of the curves of all runs, so that the manifest of a large store stays small
_LEAST_ROWS = 24  # of a curve
_FILES = ("run.json", "data.json", "log.jsonl", "measures.jsonl", "failed.json")
_BEGINNINGS = ("state-", "weights.", "scores")


class RunSource(Protocol):
    """Where a run to show comes from."""

    @property
    def key(self) -> str:
        """What tells the source from others."""

    def version(self) -> Hashable:
        """Return a value that changes with anything that the manifest says of the run."""

    def weights_version(self) -> Hashable:
        """Return a value that changes with the newest weights."""

    def run_data(self, rows: int) -> RunData:
        """Return what the manifest says of the run, with `rows` rows of a curve at most."""

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
        """Return what the manifest says of the run, with `rows` rows of a curve at most."""
        return run_data(self.loaded, rows)

    def model(self) -> FittedModel:
        """Return the model."""
        return self.loaded


@dataclass(frozen=True)
class StoredRun:
    """A run in its folder. `load` reads a model from it."""

    folder: RunFolder
    load: Callable[[Path], FittedModel]

    @property
    def key(self) -> str:
        """The path of the folder."""
        return str(self.folder.path)

    def version(self) -> Hashable:
        """Return names, times and sizes of the files, and whether the run is being trained."""
        with os.scandir(self.folder.path) as entries:
            found = frozenset(_facts(entry) for entry in entries if _concerns(entry.name))
        return found, not self.folder.weights.exists() and self.folder.locked

    def weights_version(self) -> Hashable:
        """Return the file of the newest weights, and when it was written."""
        states = self.folder.states
        newest = states.get(max(states, default=0))
        path = self.folder.weights if self.folder.weights.exists() else newest
        return path and (path.name, path.stat().st_mtime_ns)

    def run_data(self, rows: int) -> RunData:
        """Read what the manifest says of the run, with `rows` rows of a curve at most."""
        return run_data(self.folder.path, rows)

    def model(self) -> FittedModel:
        """Load the model."""
        return self.load(self.folder.path)


def _concerns(name: str) -> bool:
    return name in _FILES or name.startswith(_BEGINNINGS)


def _facts(entry: os.DirEntry[str]) -> tuple[str, int, int]:
    try:
        status = entry.stat()
    except FileNotFoundError:  # it was replaced since the folder was listed
        return entry.name, 0, 0
    return entry.name, status.st_mtime_ns, status.st_size


class _Listed(NamedTuple):
    """A source, its version when it was read, and what was read; None if it could not be."""

    source: RunSource
    version: Hashable
    data: RunData | None


@dataclass
class Library:
    """The manifest of runs, and their bundles, computed when they are first asked for.

    Args:
        find: lists the sources of all runs, each time that the manifest is asked for.
        build: computes the bundle of a model, which gets a name.
        title: of the page.
        first: how many runs to open first, from the start of the list; from its end if negative.
        watch: whether the page asks for changes again and again.
    """

    find: Callable[[], Sequence[RunSource]]
    build: Callable[[FittedModel, str], bytes]
    title: str
    first: int = MOST_OPEN
    watch: bool = False
    _listed: dict[str, _Listed] = field(default_factory=dict, init=False)
    _runs: dict[str, tuple[RunSource, str]] = field(default_factory=dict, init=False)
    _manifest: Manifest | None = field(default=None, init=False)
    _json: tuple[Manifest, bytes] | None = field(default=None, init=False)
    _bundles: OrderedDict[str, tuple[Hashable, bytes]] = field(
        default_factory=OrderedDict, init=False
    )
    _notes: set[str] = field(default_factory=set, init=False)
    _listing: threading.Lock = field(default_factory=threading.Lock, init=False)
    _using: threading.Lock = field(default_factory=threading.Lock, init=False)
    # One at a time for all models: exports change the state of torch.
    _building: threading.Lock = field(default_factory=threading.Lock, init=False)

    def page(self) -> bytes:
        """Return the page, with the manifest and without bundles."""
        return render(self.read(), {})

    def manifest(self) -> bytes:
        """Return the manifest as JSON."""
        manifest = self.read()
        if self._json is None or self._json[0] is not manifest:
            self._json = manifest, manifest_json(manifest).encode()
        return self._json[1]

    def read(self) -> Manifest:
        """List the runs; only those whose files have changed are read again."""
        with self._listing:
            sources = self.find()
            rows = max(_LEAST_ROWS, min(MOST_ROWS, _ALL_ROWS // max(1, len(sources))))
            listed = {source.key: self._read(source, rows) for source in sources}
            if self._manifest is None or listed != self._listed:
                self._listed = listed
                self._manifest = self._new_manifest()
            return self._manifest

    def _read(self, source: RunSource, rows: int) -> _Listed:
        before, version = self._listed.get(source.key), None
        try:
            version = source.version()
            if before and before.version == version:
                return before
            return _Listed(source, version, source.run_data(rows))
        except (ValueError, OSError) as error:
            self._note(f"{source.key} is left out: {error}")
            return _Listed(source, version, None)

    def _note(self, text: str) -> None:
        """Print a note once."""
        if text not in self._notes:
            self._notes.add(text)
            print_notes(err, [text])

    def _new_manifest(self) -> Manifest:
        known = self._known()
        runs = named([each.data for each in known.values() if each.data])
        self._runs = {run.id: (known[run.id].source, run.name) for run in runs}
        ids = [run.id for run in runs if run.explorable]
        opened = ids[: self.first] if self.first > 0 else ids[self.first :]
        return Manifest(
            self.title, unweave.__version__, True, self.watch, runs, opened, terms(runs)
        )

    def _known(self) -> dict[str, _Listed]:
        """Return the runs that could be read by id, each once."""
        known: dict[str, _Listed] = {}
        for key, each in self._listed.items():
            if each.data and each.data.id in known:
                self._note(f"{key} is left out: another folder has the same run")
            elif each.data:
                known[each.data.id] = each
        return known

    def bundle(self, run: str) -> bytes:
        """Return the bundle of the newest weights of a run; raise a KeyError for an unknown run."""
        source, name = self._runs[run]
        if (found := self._stored_bundle(run, source.weights_version())) is not None:
            return found
        with self._building:
            return self._new_bundle(run, source, name)

    def _stored_bundle(self, run: str, version: Hashable) -> bytes | None:
        with self._using:
            known, content = self._bundles.get(run, (None, None))
            if content is None or known != version:
                return None
            self._bundles.move_to_end(run)
            return content

    def _store_bundle(self, run: str, version: Hashable, content: bytes) -> None:
        """Keep a bundle; those that were used least recently make room."""
        with self._using:
            self._bundles[run] = version, content
            self._bundles.move_to_end(run)
            size = sum(len(each) for _, each in self._bundles.values())
            while len(self._bundles) > 1 and size > _MOST_BYTES:
                size -= len(self._bundles.popitem(last=False)[1][1])

    def _new_bundle(self, run: str, source: RunSource, name: str) -> bytes:
        """Compute a bundle, unless another request has done so meanwhile."""
        for attempt in range(_ATTEMPTS):
            version = source.weights_version()
            if (found := self._stored_bundle(run, version)) is not None:
                return found
            try:
                content = self.build(source.model(), name)
                break
            except FileNotFoundError:  # training has replaced the checkpoint
                if attempt == _ATTEMPTS - 1:
                    raise
        self._store_bundle(run, version, content)
        return content
