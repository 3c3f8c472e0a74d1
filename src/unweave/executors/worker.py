"""A worker: does the tasks that another process describes, and says how each of them ended.

`python -m unweave.executors.worker` reads a task in each line of its standard input and answers
each with a line. It ends with the process that started it, after saving what it trains.
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
import queue
import signal
import socket
import sys
import threading
import time
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal, NamedTuple, TextIO

import torch

from unweave.core.console import PlainConsole
from unweave.core.devices import machine
from unweave.core.files import make_folder
from unweave.core.outputs import RUN
from unweave.core.parallel import WorkerKilled, usable_cores, use_cores
from unweave.core.parts import parts_of
from unweave.core.processes import this_process
from unweave.core.spec import digest, from_json
from unweave.evaluation.scoring import ScoringTask
from unweave.evaluation.tasks import Job, Task
from unweave.training import TrainingInterrupted, pick_device
from unweave.training.heartbeats import log_path
from unweave.training.leases import FolderInUse
from unweave.training.own_data import Datasets
from unweave.training.progress import ConsoleProgress

HowEnded = Literal["done", "busy", "stopped", "died", "failed"]

_PATIENCE = 10.0  # seconds until a network file system shows what another machine wrote
_WIDTH = 200  # characters of a line of the log


class Ended(NamedTuple):
    """How an attempt at a task ended.

    done: all of its runs are finished, or have failed, or are scored, as `text` says. busy: another
    process trains one of them. stopped: it was asked to stop, and saved what it had. died: its
    worker is gone. failed: an error that would come again, described by `text`.
    """

    how: HowEnded
    text: str = ""
    seconds: float = 0.0
    machine: str = ""  # hardware of the worker

    @classmethod
    def read(cls, reply: str) -> Ended:
        """Read what `work` returned."""
        return cls(*json.loads(reply))


def request(task: Task | ScoringTask, probe: bool = False) -> str:
    """Describe a task to `work`; a probe only checks that a worker could do it."""
    return json.dumps({**task.to_json(), "probe": probe})


def work(text: str) -> str:
    """Do the task that `request` described, in any process; describe how it ended."""
    begun = time.monotonic()
    with _stoppable():
        ended = _attempt(json.loads(text))
    return json.dumps(ended._replace(seconds=time.monotonic() - begun))


def _attempt(content: dict[str, Any]) -> Ended:
    host = socket.gethostname()
    try:
        if "scoring" in content:
            return Ended("done", json.dumps(_score(from_json(ScoringTask, content["scoring"]))))
        task = Task.from_json(content)
        _find_store(task)
        _find_data(task)
        if not content["probe"]:
            _train(task)
        return Ended("done", machine=machine(pick_device(task.device)))
    except FolderInUse as error:
        return Ended("busy", str(error))
    except (TrainingInterrupted, KeyboardInterrupt):
        return Ended("stopped")
    except (WorkerKilled, OSError) as error:  # a passing one, perhaps
        return Ended("died", f"{str(error) or type(error).__name__} (on {host})")
    except Exception as error:
        return Ended("failed", f"{str(error) or type(error).__name__} (on {host})")


def _find_store(task: Task) -> None:
    """Look for the run folders, which the process that sent the task has created."""
    path, deadline = task.folders[0].path / RUN, time.monotonic() + _PATIENCE
    while not path.exists():
        if time.monotonic() > deadline:
            raise ValueError(
                f"the workers cannot see the store: there is no {path}; use a folder that all "
                "machines share"
            )
        time.sleep(0.2)
    if not os.access(path.parent, os.W_OK):
        raise ValueError(f"the workers cannot write to the store: {path.parent} is read-only")


def _find_data(task: Task) -> None:
    """Look for the files that the data of a task are read from."""
    for part in parts_of(task.runs[0].data):
        path = getattr(part, "path", None)
        if path is not None and not Path(path).exists():
            raise ValueError(
                f"the workers cannot see the data: there is no {path}; copy it to a folder that "
                "all machines share"
            )


def _score(task: ScoringTask) -> dict[str, Any]:
    """Score runs."""
    with _threads(task.threads):
        return task.run()


@contextlib.contextmanager
def _threads(threads: int) -> Iterator[None]:
    """Inside, use this many threads, or all cores for 0."""
    before, cores = torch.get_num_threads(), threads or usable_cores()
    torch.set_num_threads(cores)
    use_cores(cores)
    try:
        yield
    finally:
        torch.set_num_threads(before)
        use_cores(0)


def _train(task: Task) -> None:
    """Train a task, with a log in the store."""
    assert task.store is not None
    with _threads(task.threads), _log(Path(task.store)) as log:
        console = PlainConsole(file=log, width=_WIDTH)
        console.print(f"{time.strftime('%Y-%m-%d %H:%M:%S')} {task.device}:", end=" ")
        console.print(", ".join(run.digest for run in task.runs), soft_wrap=True)
        try:
            job = Job.prepare(task, _datasets(digest(task.runs[0].data), task.device))
            job.train(ConsoleProgress(console))
        except Exception:
            traceback.print_exc(file=log)
            raise


@contextlib.contextmanager
def _log(store: Path) -> Iterator[TextIO]:
    """Open the log of this worker; what is printed inside goes there."""
    path = log_path(store, str(this_process()))
    make_folder(path.parent)
    with (
        path.open("a", encoding="utf-8", buffering=1) as log,
        contextlib.redirect_stdout(log),
        contextlib.redirect_stderr(log),
    ):
        yield log


@functools.lru_cache(maxsize=1)
def _datasets(_data: str, device: str) -> Datasets:
    """Keep the data of the last task, which the next one often needs too."""
    return Datasets(pick_device(device))


@contextlib.contextmanager
def _stoppable() -> Iterator[None]:
    """Inside, SIGTERM and Ctrl-C have their usual effects, so training stops after saving.

    Ray and submitit set handlers of their own.
    """
    usual: dict[signal.Signals, Any] = {
        signal.SIGTERM: signal.SIG_DFL,
        signal.SIGINT: signal.default_int_handler,
    }
    main = threading.current_thread() is threading.main_thread()
    before = {n: signal.signal(n, each) for n, each in usual.items()} if main else {}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def main() -> None:
    """Do tasks until the standard input ends; then save and stop."""
    replies = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what anything prints is no reply
    texts: queue.Queue[str | None] = queue.Queue()
    busy = threading.Event()

    def read() -> None:
        for text in sys.stdin:
            texts.put(text)
        texts.put(None)
        if busy.is_set():
            os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=read, daemon=True).start()
    while (text := texts.get()) is not None:
        busy.set()
        reply = work(text)
        busy.clear()
        with contextlib.suppress(BrokenPipeError):
            print(reply, file=replies, flush=True)


if __name__ == "__main__":
    main()
