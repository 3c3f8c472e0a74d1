"""The runs that a server shows: listed without their weights, and read again when files change."""

import secrets
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import unweave
from unweave.core.console import err
from unweave.core.files import error_text
from unweave.core.notes import print_notes
from unweave.evaluation.model import FittedModel
from unweave.explorer.contents import Manifest, RunData, Setting, manifest_json
from unweave.explorer.http_messages import NotFound
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

    source: RunSource
    data: RunData
    run: RunData
    revision: int


class Snapshot(NamedTuple):
    """The runs of one revision of a library, by id, and their manifest."""

    manifest: Manifest
    runs: Mapping[str, _Named]
    revision: int

    def since(self, revision: int) -> Manifest:
        """Return the manifest with only the runs that have changed, and the ids of all."""
        changed = [each.run for each in self.runs.values() if each.revision > revision]
        return replace(self.manifest, runs=changed, ids=list(self.runs))


def _named(before: _Named | None, now: _Named) -> _Named:
    """Return a run as it was before if it has not changed."""
    same = before and before.data is now.data and before.run.name == now.run.name
    return before if before and same else now


def _data(listed: Mapping[str, _Listed]) -> list[tuple[str, RunData | None]]:
    return [(key, each.data) for key, each in listed.items()]


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
    _names: _Names = field(default_factory=lambda: _Names([], []), init=False)
    _snapshot: Snapshot = field(init=False)  # is replaced, and never changes itself
    _secret: str = field(default_factory=lambda: secrets.token_hex(8), init=False)
    _bundles: OrderedDict[str, tuple[Hashable, bytes]] = field(
        default_factory=OrderedDict, init=False
    )
    _notes: set[str] = field(default_factory=set, init=False)
    _listing: threading.Lock = field(default_factory=threading.Lock, init=False)
    _using: threading.Lock = field(default_factory=threading.Lock, init=False)
    # One at a time for all models: exports change the state of torch.
    _building: threading.Lock = field(default_factory=threading.Lock, init=False)

    def __post_init__(self) -> None:
        self._snapshot = self._new_snapshot({}, 0)

    def page(self) -> bytes:
        """Return the page, with the manifest and without bundles."""
        return render(self.read().manifest, {})

    def manifest(self, known: str = "") -> tuple[str, bytes]:
        """Return the tag of the manifest, and as JSON what has changed since a `known` one."""
        snapshot = self.read()
        library, _, revision = known.partition("-")
        own = library == self._secret and revision.isdecimal()
        manifest = snapshot.since(int(revision)) if own else snapshot.manifest
        return manifest.tag, manifest_json(manifest).encode()

    def read(self) -> Snapshot:
        """List the runs; only those whose files have changed are read again."""
        with self._listing:
            sources = self.find()
            rows = max(_LEAST_ROWS, min(MOST_ROWS, _ALL_ROWS // max(1, len(sources))))
            before, last = self._listed, self._snapshot
            self._listed = {source.key: self._read(source, rows) for source in sources}
            if _data(before) != _data(self._listed):
                self._snapshot = self._new_snapshot(last.runs, last.revision + 1)
            return self._snapshot

    def _read(self, source: RunSource, rows: int) -> _Listed:
        before, version = self._listed.get(source.key), None
        try:
            version = source.version()
            if before and before.version == version:
                return before
            return _Listed(source, version, source.run_data(rows))
        except (ValueError, OSError) as error:
            self._note(f"{source.key} is left out: {error_text(error)}")
            return _Listed(source, version, None)

    def _note(self, text: str) -> None:
        if text not in self._notes:
            self._notes.add(text)
            print_notes(err, [text])

    def _new_snapshot(self, before: Mapping[str, _Named], revision: int) -> Snapshot:
        known = self._known()
        texts = self._names_of([data for _, data in known.values()])
        named = {
            run: _named(before.get(run), _Named(source, data, replace(data, name=name), revision))
            for (run, (source, data)), name in zip(known.items(), texts, strict=True)
        }
        runs = [each.run for each in named.values()]
        ids = [run.id for run in runs if run.explorable]
        opened = ids[: self.first] if self.first > 0 else ids[self.first :]
        tag, version = f"{self._secret}-{revision}", unweave.__version__
        manifest = Manifest(self.title, version, True, self.watch, runs, opened, terms(runs), tag)
        return Snapshot(manifest, named, revision)

    def _names_of(self, runs: Sequence[RunData]) -> list[str]:
        """Return names of runs, which depend on their settings alone."""
        settings = [(run.id, run.settings) for run in runs]
        if settings != self._names.settings:
            self._names = _Names(settings, names(runs))
        return self._names.names

    def _known(self) -> dict[str, tuple[RunSource, RunData]]:
        known: dict[str, tuple[RunSource, RunData]] = {}
        for key, (source, _, data) in self._listed.items():
            if data and data.id in known:
                self._note(f"{key} is left out: another folder has the same run")
            elif data:
                known[data.id] = source, data
        return known

    def bundle(self, run: str) -> bytes:
        """Return the bundle of the newest weights of a run; raise `NotFound` for an unknown run."""
        if (named := self._snapshot.runs.get(run)) is None:
            raise NotFound
        for _ in range(_ATTEMPTS - 1):
            with suppress(FileNotFoundError):  # training has replaced the checkpoint
                return self._newest_bundle(named)
        return self._newest_bundle(named)

    def _newest_bundle(self, named: _Named) -> bytes:
        if (found := self._stored_bundle(named.run.id, named.source.weights_version())) is not None:
            return found
        with self._building:
            return self._new_bundle(named)

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

    def _new_bundle(self, named: _Named) -> bytes:
        """Compute a bundle, unless another request has done so meanwhile."""
        run, version = named.run, named.source.weights_version()
        if (found := self._stored_bundle(run.id, version)) is not None:
            return found
        content = self.build(named.source.model(), run.name)
        self._store_bundle(run.id, version, content)
        return content
