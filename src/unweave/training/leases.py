"""Leases: the right to write in a run folder, for one process of all machines that share a store.

A lease is a file `lease-<number>.json` in the folder, which names its worker, a process. It is
created only if it does not exist, and deleted when the worker is done. The lease of a worker that
has ended is *stale*. The operating system knows whether a process of this machine has ended. A
worker of another machine counts as ended if its record (`heartbeats.py`) has not changed for a
minute, on the clock of the process that checks. Time in which that process could not see the store
does not count.

To take a lease, a process reads all leases of the folder, which must all be stale. It creates the
lease with the next number and reads the others again. If they have not changed, it deletes them and
holds the folder; otherwise it deletes its own lease and starts again. So no two processes hold a
folder: whichever created its file later saw the other's, and deleted it as stale or withdrew. This
needs a file system that lists a folder anew after this process has created a file there; before
that, its list may be old. A process whose file is gone holds nothing; `core/files` checks this
before it replaces or deletes a file in the folder.
"""

import json
import os
import random
import re
import threading
import time
import uuid
import warnings
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Literal, NamedTuple

from unweave.core import files
from unweave.core.processes import Process, has_ended, this_process
from unweave.training.heartbeats import StoreClock, Worker, delete_records, read_record, record_path

EXPIRY = 60.0  # seconds without a heartbeat after which a worker of another machine is dead
_SKEW = 600.0  # seconds by which the clocks of two machines may differ, at the first look
_HALF_WRITTEN = 1.0  # seconds after which an incomplete lease stays incomplete
_WAIT = 1.0  # seconds to wait for a folder: results are written in less
_PAUSE = 0.05

_lease_number = re.compile(r"lease-([0-9]+)\.json").fullmatch
Verdict = Literal["held", "unknown", "stale"]


class FolderInUse(ValueError):
    """Another process writes in the folder of a run."""


class LeaseLost(FolderInUse):
    """Another process has taken over the folder of a run from this one."""


class Lease(NamedTuple):
    """The file of a lease."""

    path: Path
    content: bytes

    @property
    def number(self) -> int:
        """The number in the name."""
        match = _lease_number(self.path.name)
        return int(match[1]) if match else 0

    @property
    def worker(self) -> Process | None:
        """The process that created it; None if the file is still empty."""
        with suppress(ValueError, LookupError, TypeError, AttributeError, RecursionError):
            return Process.parse(json.loads(self.content)["worker"])
        return None

    def check(self) -> None:
        """Raise a LeaseLost unless the file still has the content that was written."""
        if files.disk.read(self.path) != self.content:
            raise LeaseLost(
                f"another process has taken over {files.disk.name(self.path.parent)}, because this "
                f"one seemed dead for {EXPIRY:.0f} seconds: nothing more is written; run "
                "the command again"
            )


class _Sighting(NamedTuple):
    """A file's content, when this process first saw it, and whether it had changed by then."""

    content: bytes | None
    since: float
    changed: bool
    outages: int  # of the clock by then


class Leases:
    """The leases that a process holds, and what it has seen of others.

    Args:
        process: the process; another one in tests.
        has_ended: tells whether a process has ended; None if that is not known here.
        clock: seconds that only this process reads.
        sleep: waits for some seconds.
    """

    def __init__(
        self,
        process: Process,
        has_ended: Callable[[Process], bool | None] = has_ended,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.process, self._has_ended, self._clock, self._sleep = process, has_ended, clock, sleep
        self._held: set[bytes] = set()
        self._workers: dict[str, tuple[Worker, int]] = {}  # by store, and how often it is used
        self._seen: dict[str, _Sighting] = {}
        self._store_clocks: dict[str, StoreClock] = {}
        self._counting = threading.Lock()

    @contextmanager
    def hold(self, folder: Path, wait: float | None = None) -> Iterator[Lease]:
        """Hold the lease of a folder; raise FolderInUse if another process holds it.

        `wait` is how many seconds to wait for it, by default one. Unless it is 0, wait also long
        enough to see whether a worker of another machine is alive.
        """
        with self.working(folder.parent):
            lease = self._take(folder, _WAIT if wait is None else wait)
            with _closing(lambda: self._release(lease)), files.fence(folder, lease.check):
                yield lease

    def is_held(self, folder: Path) -> bool:
        """Return whether a process seems to write in the folder: see `seems_alive`."""
        return any(self._seems_held(lease) for lease in read_leases(folder))

    def seems_alive(self, root: Path, worker: Process) -> bool:
        """Return whether a worker of a store seems to be alive, without waiting.

        A worker of another machine is alive while its record changes. When this process has not
        watched it for long enough to know, the time in the record decides, which is of another
        clock: it may be ten minutes off.
        """
        verdict = self._judge_worker(root, worker)
        if verdict != "unknown":
            return verdict == "held"
        record = read_record(root, str(worker))
        return record is not None and abs(time.time() - record["time"]) < _SKEW

    @contextmanager
    def working(self, root: Path) -> Iterator[Worker]:
        """Keep a worker record in a store; nested calls in this process share it."""
        key = os.path.abspath(root)
        with self._counting:
            worker, users = self._workers.get(key) or (self._new_worker(root), 0)
            if not users:
                self.delete_dead_records(root)
                worker.begin()
            self._workers[key] = worker, users + 1
        with _closing(lambda: self._leave(root)):
            yield worker

    def _new_worker(self, root: Path) -> Worker:
        return Worker(root, self.process, self._store_clock(root))

    def _store_clock(self, root: Path) -> StoreClock:
        return self._store_clocks.setdefault(os.path.abspath(root), StoreClock(self._clock))

    def _leave(self, root: Path) -> None:
        with self._counting:
            worker, users = self._workers.pop(os.path.abspath(root))
            if users > 1:
                self._workers[os.path.abspath(root)] = worker, users - 1
            else:
                with _closing(worker.end):
                    self.delete_dead_records(root)

    def delete_dead_records(self, root: Path) -> None:
        """Delete the records in a store of processes that have certainly ended."""
        delete_records(root, lambda name: self._is_dead(root, name))

    def _take(self, folder: Path, wait: float) -> Lease:
        """Wait for the lease of a folder, and create it."""
        began, warned = self._clock(), False
        unlisted: set[str] = set()
        while True:
            leases = read_leases(folder, unlisted)
            verdicts = [self._judge(lease) for lease in leases]
            if set(verdicts) <= {"stale"}:
                name = f"lease-{max((lease.number for lease in leases), default=0) + 1}.json"
                if taken := self._create(folder / name, leases):
                    return taken
                unlisted.add(name)  # it may exist: network file systems may list names late
            waited = self._clock() - began
            held = [lease for lease, each in zip(leases, verdicts, strict=True) if each != "stale"]
            if held and (not wait or ("held" in verdicts and waited >= wait)):
                raise FolderInUse(_in_use(folder, held[0].worker))
            if held and not warned and waited >= _WAIT:
                warned = True
                alive = "held" in verdicts
                warnings.warn(_waiting(folder, held[0].worker, alive), stacklevel=2)
            self._sleep(_PAUSE * random.random())

    def _create(self, path: Path, stale: list[Lease]) -> Lease | None:
        """Create a lease and delete the stale ones; return None if others interfere."""
        content = json.dumps({"worker": str(self.process), "lease": uuid.uuid4().hex}).encode()
        lease = Lease(path, content)
        self._held.add(content)
        with _closing(lambda: None if taken else self._release(lease)):
            taken = False
            taken = files.create(lease.path, content) and _supersede(stale, lease)
        return lease if taken else None

    def _release(self, lease: Lease) -> None:
        """Delete a lease, unless another process has taken the folder over."""
        self._held.discard(lease.content)
        if files.disk.read(lease.path) == lease.content:
            files.delete(lease.path)

    def _judge(self, lease: Lease) -> Verdict:
        """Return whether a lease is held; "unknown" if it has not been watched for long enough."""
        if lease.worker is None:
            root = lease.path.parent.parent
            return self._watch(root, str(lease.path), lease.content, _HALF_WRITTEN)
        if lease.worker == self.process:
            return "held" if lease.content in self._held else "stale"
        return self._judge_worker(lease.path.parent.parent, lease.worker)

    def _judge_worker(self, root: Path, worker: Process) -> Verdict:
        ended = self._has_ended(worker)
        if ended is not None:
            return "stale" if ended else "held"
        path = record_path(root, str(worker))
        return self._watch(root, str(path), files.disk.read(path), EXPIRY)

    def _watch(self, root: Path, key: str, content: bytes | None, limit: float) -> Verdict:
        """Judge by whether a content has changed in a time on this process's clock of the store.

        A file that is gone is no change: others may have deleted what a dead worker left.
        """
        clock, seen = self._store_clock(root), self._seen.get(key)
        now = clock.look()
        if seen is None or content not in (None, seen.content):
            self._seen[key] = _Sighting(content, now, seen is not None, clock.outages)
            return "unknown" if seen is None else "held"
        if now - seen.since >= limit:
            return "stale"
        return "held" if seen.changed and seen.outages == clock.outages else "unknown"

    def _is_dead(self, root: Path, name: str) -> bool:
        """Return whether the worker of a record has certainly ended."""
        try:
            worker = Process.parse(name)
        except ValueError:
            return False
        return worker != self.process and self._judge_worker(root, worker) == "stale"

    def _seems_held(self, lease: Lease) -> bool:
        worker = lease.worker
        if worker is None or worker == self.process:
            return lease.content in self._held
        return self.seems_alive(lease.path.parent.parent, worker)


@contextmanager
def _closing(close: Callable[[], None]) -> Iterator[None]:
    """Call `close` after the block. If both fail, the error of the block is raised."""
    try:
        yield
    except BaseException:
        with suppress(OSError):
            close()
        raise
    close()


def read_leases(folder: Path, unlisted: Collection[str] = ()) -> list[Lease]:
    """Return all leases of a folder, by name; also those of `unlisted` that exist."""
    names = sorted({*files.disk.names(folder), *unlisted})
    paths = [folder / name for name in names if _lease_number(name)]
    contents = [(path, files.disk.read(path)) for path in paths]
    return [Lease(path, content) for path, content in contents if content is not None]


def _supersede(stale: list[Lease], lease: Lease) -> bool:
    """Delete the stale leases beside a new one; return False if there are others by now."""
    known = [each.path.name for each in stale]  # perhaps not listed yet
    if [each for each in read_leases(lease.path.parent, known) if each != lease] != stale:
        return False
    with suppress(LeaseLost):
        for each in stale:
            lease.check()
            files.delete(each.path)
        lease.check()
        return True
    return False


def _in_use(folder: Path, worker: Process | None) -> str:
    who = f" (process {worker.pid} on {worker.host})" if worker else ""
    return (
        f"another process is writing in {files.disk.name(folder)}, which is being trained or "
        f"measured{who}: wait for it or stop it"
    )


def _waiting(folder: Path, worker: Process | None, alive: bool) -> str:
    who = f"process {worker.pid} on {worker.host}" if worker else "the process"
    if alive:
        return f"waiting for {who}, which writes in {files.disk.name(folder)}"
    return f"waiting to see whether {who}, which was writing in {files.disk.name(folder)}, is alive"


@cache
def own_leases() -> Leases:
    """Return the leases of this process."""
    return Leases(this_process())


if hasattr(os, "register_at_fork"):  # a forked process is another one
    os.register_at_fork(after_in_child=own_leases.cache_clear)
