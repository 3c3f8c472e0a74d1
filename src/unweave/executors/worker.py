"""A worker: do the tasks that another process describes, and report how each ended.

`python -m unweave.executors.worker` reads a task in each line of its standard input and answers
each with a line. It ends with the process that started it, after saving what it trains.
"""

import contextlib
import functools
import io
import json
import math
import os
import queue
import signal
import socket
import sys
import threading
import time
import traceback
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Literal, NamedTuple, Self, TextIO, cast

import unweave
from unweave.core import files
from unweave.core.console import PlainConsole
from unweave.core.memory import is_out_of_memory
from unweave.core.outputs import RUN
from unweave.core.parallel import WorkerKilled, usable_cores, use_cores
from unweave.core.parts import import_module, parts_of
from unweave.core.processes import this_process
from unweave.core.spec import digest, from_json
from unweave.data import Arrays, Folder
from unweave.evaluation.scoring import ScoringTask
from unweave.evaluation.tasks import Job, Task, Trained
from unweave.training import TrainingInterrupted, pick_device
from unweave.training.heartbeats import BEAT, log_header, log_path
from unweave.training.interrupt import Interrupt
from unweave.training.leases import FolderInUse, own_leases
from unweave.training.own_data import Datasets
from unweave.training.progress import ConsoleProgress
from unweave.training.workers import torch_threads

HowEnded = Literal["done", "busy", "stopped", "died", "failed"]

_QUICK = 15.0  # seconds that a probe waits for the store, which this machine has not read before
_SAVING = 300.0  # seconds to save what is trained, when the driver is gone
_WIDTH = 200  # characters of a line of the log


class Ended(NamedTuple):
    """How an attempt at a task ended.

    done: all of its runs are finished, or have failed, or are scored, as `text` says. busy: another
    process trains one of them. stopped: it was asked to stop, and saved what it had. died: its
    worker is gone, or had an error that may be its machine's. failed: an error that would come
    again, described by `text`.
    """

    how: HowEnded
    text: str = ""
    seconds: float = 0.0
    steps: int = 0  # of all runs together, in these seconds
    machine: str = ""  # hardware of the worker
    host: str = ""  # name of the worker's machine, if it answered
    place: str = ""  # the device, node or host where it was, as its pool names it, if known

    @property
    def may_lack_memory(self) -> bool:
        """Whether its worker died without an answer, or reported that memory ran out."""
        return not self.host or is_out_of_memory(RuntimeError(self.text))

    @property
    def reason(self) -> str:
        """The text, and on which machine."""
        return f"{self.text} (on {self.host})" if self.host and self.text else self.text

    @classmethod
    def read(cls, reply: str) -> Self:
        """Read what `work` returned."""
        return cls(*json.loads(reply))


def request(task: Task | ScoringTask, probe: bool = False) -> str:
    """Describe a task to `work`; a probe only checks that a worker could do it."""
    return json.dumps({**task.to_json(), "probe": probe, "version": unweave.__version__})


def work(text: str) -> str:
    """Do the task that `request` described, and return how it ended, as text."""
    begun, content = time.monotonic(), json.loads(text)
    with _interruptible() if "scoring" in content else Interrupt(unattended=True):
        ended = _attempt(content)
    host = os.environ.get("SLURMD_NODENAME") or socket.gethostname()
    seconds = time.monotonic() - begun
    return json.dumps(ended._replace(seconds=seconds, host=host, place=host))


def _attempt(content: dict[str, Any]) -> Ended:
    try:
        _check_version(content["version"])
        patience = _QUICK if content["probe"] else files.SHOWN_AFTER
        if "scoring" in content:
            return _score(content, patience)
        task = Task.from_json(content)
        _find_folder(task.folders[0].path, patience)
        _find_data(task)
        if content["probe"]:
            return Ended("done")
        trained = _train(task)
        return Ended("done", steps=trained.steps, machine=trained.machine)
    except FolderInUse as error:
        return Ended("busy", str(error))
    except (TrainingInterrupted, KeyboardInterrupt):
        return Ended("stopped")
    except Exception as error:
        # Perhaps an error of the machine: its memory, GPU or network. Another try may succeed.
        passing = isinstance(error, (OSError, RuntimeError, MemoryError, WorkerKilled, NotSeen))
        how: HowEnded = "died" if passing and not content["probe"] else "failed"
        return Ended(how, str(error) or type(error).__name__)


class NotSeen(ValueError):
    """A worker does not see the store or the data, perhaps because its machine is not set up."""


def _check_version(version: str) -> None:
    if version != unweave.__version__:
        raise ValueError(
            f"the workers have unweave {unweave.__version__}, and this command {version}: install "
            "the same version everywhere"
        )


def _find_folder(path: Path, patience: float) -> None:
    """Look for a run folder, which the process that sent the task has created."""
    if not files.appears(path / RUN, patience):
        raise NotSeen(
            f"the workers cannot see the store: there is no {files.disk.name(path / RUN)}; use a "
            "folder that all machines share"
        )
    if path.exists() and not os.access(path, os.W_OK):
        raise NotSeen(f"the workers cannot write to the store: {path} is read-only")


def _find_data(task: Task) -> None:
    """Look for the files that the data of a task are read from."""
    for part in parts_of(task.runs[0].data):
        if isinstance(part, (Arrays, Folder)) and not Path(part.path).exists():
            raise NotSeen(
                f"the workers cannot see the data: there is no {part.path}; copy it to a "
                "folder that all machines share"
            )


def _score(content: dict[str, Any], patience: float) -> Ended:
    """Score runs."""
    for module in content["imports"]:
        import_module(module)
    task = from_json(ScoringTask, content["scoring"])
    _find_folder(next(iter(task.paths)), patience)
    if content["probe"]:
        return Ended("done")
    root = next(iter(task.paths)).parent
    with _threads(task.threads), _log(root, "scoring", (p.name for p in task.paths)):
        return Ended("done", json.dumps(task.run()))


@contextlib.contextmanager
def _threads(threads: int) -> Iterator[None]:
    """Use this many threads inside the block; 0 means all cores."""
    cores = threads or usable_cores()
    use_cores(cores)
    try:
        with torch_threads(cores):
            yield
    finally:
        use_cores(0)


def _train(task: Task) -> Trained:
    """Train a task, with a log in the store."""
    assert task.run_store is not None
    digests, root = (run.digest for run in task.runs), task.run_store.root
    with _threads(task.threads), _log(root, task.device, digests) as log:
        job = Job.prepare(task, _datasets(digest(task.runs[0].data), task.device))
        return job.train(ConsoleProgress(PlainConsole(file=log, width=_WIDTH)))


class _Log(io.TextIOBase):
    """The log of this worker. Where the store is elsewhere, it is copied there now and then.

    Training goes on without a log if the disk is full; if another file cannot be written, that is
    an error, which a failing log must not hide.
    """

    def __init__(self, path: Path) -> None:
        self._path, self._file = path, path.open("a", encoding="utf-8", buffering=1)
        self._pushed = -math.inf

    def write(self, text: str) -> int:
        """Write text."""
        with contextlib.suppress(OSError):
            self._file.write(text)
        if time.monotonic() - self._pushed >= BEAT:
            self._push()
        return len(text)

    def close(self) -> None:
        """Write what is left."""
        with contextlib.suppress(OSError):
            self._file.close()
        self._push()
        super().close()

    def _push(self) -> None:
        with contextlib.suppress(OSError):
            files.disk.push(self._path)
        self._pushed = time.monotonic()


@contextlib.contextmanager
def _log(store: Path, what: str, runs: Iterable[str]) -> Iterator[TextIO]:
    """Begin a section about runs in the log of this worker, and redirect printed text to it."""
    path = log_path(store, str(this_process()))
    with (
        own_leases().working(store),  # its record keeps others from deleting the folder
        contextlib.closing(_Log(path)) as log,
        contextlib.redirect_stdout(cast(TextIO, log)),
        contextlib.redirect_stderr(cast(TextIO, log)),
    ):
        text = cast(TextIO, log)
        text.write(log_header(what, runs))
        try:
            yield text
        except Exception:
            traceback.print_exc(file=text)
            raise


@functools.lru_cache(maxsize=1)
def _datasets(_data: str, device: str) -> Datasets:
    """Keep the data of the last task, which the next one often needs too."""
    return Datasets(pick_device(device))


@contextlib.contextmanager
def _interruptible() -> Iterator[None]:
    """Raise KeyboardInterrupt on SIGTERM and Ctrl-C, whatever handlers the engine has set."""
    main = threading.current_thread() is threading.main_thread()
    numbers = (signal.SIGTERM, signal.SIGINT) if main else ()
    before = {number: signal.signal(number, signal.default_int_handler) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def main() -> None:
    """Do tasks until the standard input ends; then save and stop."""
    replies = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # printed text is no reply
    texts: queue.Queue[str | None] = queue.Queue()
    busy, orphaned = threading.Event(), threading.Event()

    def read() -> None:
        for text in sys.stdin:
            texts.put(text)
        orphaned.set()
        texts.put(None)
        if busy.is_set():
            os.kill(os.getpid(), signal.SIGTERM)
            time.sleep(_SAVING)
            os._exit(1)

    threading.Thread(target=read, daemon=True).start()
    while (text := texts.get()) is not None:
        busy.set()
        if orphaned.is_set():  # nobody reads the last reply
            break
        reply = work(text)
        busy.clear()
        with contextlib.suppress(BrokenPipeError):
            print(reply, file=replies, flush=True)


if __name__ == "__main__":
    main()
