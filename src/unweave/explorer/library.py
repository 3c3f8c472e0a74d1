"""The runs that a server shows: listed without their weights, and read again when files change."""

from __future__ import annotations

import secrets
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import unweave
from unweave.core.console import err
from unweave.core.notes import print_notes
from unweave.evaluation.model import FittedModel
from unweave.explorer.contents import Manifest, RunData, Setting, manifest_json
from unweave.explorer.page import render
from unweave.explorer.run_data import MOST_ROWS, names, terms
from unweave.explorer.sources import RunSource

MOST_OPEN = 4  # runs side by side
_ATTEMPTS = 3  # to read a checkpoint, which training may replace meanwhile
_MOST_BYTES = 2**29  # of bundles in memory
_ALL_ROWS = 60_000  # of the curves of all runs, so that the manifest of a large store stays small
_LEAST_ROWS = 24  # of a curve


class _Listed(NamedTuple):
    """A source, its version when it was read, and what was read; None if it could not be."""

    source: RunSource
    version: Hashable
    data: RunData | None


class _Names(NamedTuple):
    """Names of runs, and the settings that they tell apart."""

    settings: list[tuple[str, Mapping[str, Setting]]]
    names: list[str]


class _Named(NamedTuple):
    """A run without and with its name, and the revision of the library in which it last changed."""

    data: RunData
    run: RunData
    revision: int


def _data(listed: Mapping[str, _Listed]) -> list[RunData | None]:
    return [each.data for each in listed.values()]


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
    _sources: dict[str, RunSource] = field(default_factory=dict, init=False)
    _names: _Names = field(default_factory=lambda: _Names([], []), init=False)
    _runs: dict[str, _Named] = field(default_factory=dict, init=False)
    _manifest: Manifest | None = field(default=None, init=False)
    _revision: int = field(default=0, init=False)
    _secret: str = field(default_factory=lambda: secrets.token_hex(8), init=False)
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

    def manifest(self, known: str = "") -> tuple[str, bytes]:
        """Return the tag of the manifest, and as JSON what has changed since a `known` one."""
        manifest = self.read()
        library, _, revision = known.partition("-")
        if library == self._secret and revision.isdecimal():
            changed = [each.run for each in self._runs.values() if each.revision > int(revision)]
            manifest = replace(manifest, runs=changed, ids=[run.id for run in manifest.runs])
        return manifest.tag, manifest_json(manifest).encode()

    def read(self) -> Manifest:
        """List the runs; only those whose files have changed are read again."""
        with self._listing:
            sources = self.find()
            rows = max(_LEAST_ROWS, min(MOST_ROWS, _ALL_ROWS // max(1, len(sources))))
            before = self._listed
            self._listed = {source.key: self._read(source, rows) for source in sources}
            if self._manifest is None or _data(before) != _data(self._listed):
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
        self._revision += 1
        self._sources = {run: each.source for run, each in known.items()}
        self._name([each.data for each in known.values() if each.data])
        runs = [each.run for each in self._runs.values()]
        ids = [run.id for run in runs if run.explorable]
        opened = ids[: self.first] if self.first > 0 else ids[self.first :]
        tag = f"{self._secret}-{self._revision}"
        version = unweave.__version__
        return Manifest(self.title, version, True, self.watch, runs, opened, terms(runs), tag)

    def _name(self, runs: Sequence[RunData]) -> None:
        """Name runs, and note which have changed. Names depend on the settings alone."""
        settings = [(run.id, run.settings) for run in runs]
        if settings != self._names.settings:
            self._names = _Names(settings, names(runs))
        named = zip(runs, self._names.names, strict=True)
        self._runs = {run.id: self._named(run, name) for run, name in named}

    def _named(self, data: RunData, name: str) -> _Named:
        before = self._runs.get(data.id)
        if before and before.data is data and before.run.name == name:
            return before
        return _Named(data, replace(data, name=name), self._revision)

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
        source, name = self._sources[run], self._runs[run].run.name
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
