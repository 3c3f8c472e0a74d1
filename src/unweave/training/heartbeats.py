"""Records of the processes that write in a store: who they are, what they do, and heartbeats."""

import json
import re
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from itertools import chain, pairwise, repeat
from pathlib import Path
from typing import Annotated, Any, Required

from pydantic import Field, FiniteFloat
from typing_extensions import TypedDict  # pydantic needs it before Python 3.12

from unweave.core import files
from unweave.core.adapters import adapter
from unweave.core.processes import Process

FOLDER = ".workers"  # of a store
BEAT = 10.0  # seconds between two heartbeats
LATE = 1.5  # how many times as long a heartbeat may take that nothing delays
_PAUSE = 0.05  # seconds between attempts to write the first one
_header = re.compile(r"^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d \w+: \w.*$", re.MULTILINE).finditer
_words = re.compile(r"\w+").findall

_Count = Annotated[int, Field(ge=0, lt=2**63)]


class WorkerRecord(TypedDict, total=False):
    """The content of the record of a worker; `device` to `steps_per_second` while it trains."""

    host: Required[str]
    pid: Required[int]
    beats: Required[int]
    time: Required[FiniteFloat]
    device: str
    runs: list[str]
    step: _Count
    steps: _Count
    steps_per_second: Annotated[FiniteFloat, Field(ge=0, lt=1e15)]
    submitted: _Count  # runs that it has given to other workers, or to a queue


class StoreClock:
    """Seconds during which this process could see what others write in a store.

    Its accesses to the store show that: its heartbeats while it works there, and otherwise its
    looks. If they stop for longer than a heartbeat may take, the file system did not answer, the
    process was suspended, or it did not look. That time does not count: others may have been unable
    to write too, or this process may not have seen it.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock, self._lock = clock, threading.Lock()
        self._seconds, self._last, self._beating = 0.0, clock(), False  # at the last access
        self.outages = 0
        """How often there was no access for so long that not all of the time counts."""

    def look(self) -> float:
        """Return the time, just after this process has read in the store."""
        with self._lock:
            if not self._beating:
                self._note_access()
            return self._seconds + self._passed()

    def beat(self) -> None:
        """Note that this process has just written in the store."""
        with self._lock:
            self._beating = True
            self._note_access()

    def stop(self) -> None:
        """Note that the heartbeats of this process have ended."""
        self._beating = False

    def _note_access(self) -> None:
        self.outages += self._clock() - self._last > LATE * BEAT
        self._seconds += self._passed()
        self._last = self._clock()

    def _passed(self) -> float:
        return min(self._clock() - self._last, LATE * BEAT)


class Worker:
    """The record of this process in a store, which a thread rewrites while it is open.

    `facts` is what the process does, for `unweave status`. Others see that the record changes: its
    heartbeats are counted, and clocks are not compared.
    """

    def __init__(self, root: Path, process: Process, clock: StoreClock | None = None) -> None:
        self.path, self.process = record_path(root, str(process)), process
        self._clock = clock or StoreClock(time.monotonic)
        self.facts: dict[str, Any] = {}
        self._beats = 0
        self._ended = threading.Event()
        self._writing = threading.Lock()

    def begin(self) -> None:
        """Write the record, and start rewriting it."""
        deadline = time.monotonic() + files.SHOWN_AFTER
        while True:
            files.make_folder(self.path.parent)
            try:
                self.beat()
                break
            except FileNotFoundError:
                # A process that ended has just deleted the empty folder. A network file system may
                # remember the folder, and therefore not create it, for a while.
                if time.monotonic() >= deadline:
                    raise
                time.sleep(_PAUSE)
        threading.Thread(target=self._keep_beating, name="heartbeats", daemon=True).start()

    def beat(self) -> None:
        """Write the record with the next number. A crash may lose it: it is not synced."""
        with self._writing:
            if self._ended.is_set():
                return
            self._beats += 1
            files.create_folder(self.path.parent)  # others delete it when it is empty
            record = {
                "host": self.process.host,
                "pid": self.process.pid,
                "beats": self._beats,
                "time": time.time(),
                **self.facts,
            }
            files.put(self.path, json.dumps(record).encode())
            self._clock.beat()

    def _keep_beating(self) -> None:
        """Rewrite the record regularly; often at first, so that others soon see it change."""
        pauses = chain((BEAT / 2**power for power in range(4, 0, -1)), repeat(BEAT))
        while not self._ended.wait(next(pauses)):
            with suppress(OSError):  # others wait for several heartbeats
                self.beat()

    def end(self) -> None:
        """Delete the record."""
        self._ended.set()
        with self._writing:
            self._clock.stop()
            files.delete(self.path)
            files.delete_empty_folder(self.path.parent)


def record_path(root: Path, worker: str) -> Path:
    """Return the file of the record of a worker."""
    return root / FOLDER / f"{worker}.json"


def log_path(root: Path, worker: str) -> Path:
    """Return the file of the log of a worker that an executor has started."""
    return root / FOLDER / f"{worker}.txt"


def log_header(what: str, runs: Iterable[str]) -> str:
    """Return the line with which a log's section about some runs begins.

    >>> log_header("cuda", ["0123456789ab"])[19:].strip()
    'cuda: 0123456789ab'
    """
    return f"{time.strftime('%Y-%m-%d %H:%M:%S')} {what}: {', '.join(runs)}\n"


def log_sections(text: str, run: str) -> list[str]:
    """Return the sections of a log that are about a run, each with its header."""
    starts = [found.start() for found in _header(text)]
    sections = (text[start:end] for start, end in pairwise([*starts, len(text)]))
    return [f"{s.rstrip()}\n" for s in sections if run in _words(s.partition("\n")[0])]


def read_record(root: Path, worker: str) -> WorkerRecord | None:
    """Return the record of a worker; None if there is none, or if it is being written."""
    with suppress(ValueError, files.OddFile):
        content = files.disk.read(record_path(root, worker)) or b""
        record: WorkerRecord = adapter(WorkerRecord).validate_json(content, strict=True)
        return record
    return None


def delete_records(root: Path, is_dead: Callable[[str], bool]) -> None:
    """Delete the records of dead workers; leave what is no record, such as a folder."""
    for name in files.disk.names(root / FOLDER):
        worker = name.removesuffix(".json")
        with suppress(files.OddFile):
            if worker != name and is_dead(worker):
                files.disk.read(root / FOLDER / name)
                files.delete(root / FOLDER / name)
