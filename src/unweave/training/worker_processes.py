"""Processes that take steps of lanes whose state they share with this one, on the CPU of Linux."""

from __future__ import annotations

import contextlib
import ctypes
import multiprocessing
import os
import pickle
import signal
import sys
import threading
import traceback
import warnings
import weakref
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess

import torch

from unweave.core.parallel import Killed
from unweave.data import Dataset, StreamedDataset
from unweave.training.engine import Engine, Told

_TURNS = 8  # in which lanes that are not as many for each process are taken
_DIE_WITH_PARENT = 1  # PR_SET_PDEATHSIG of Linux


def can_fork(dataset: Dataset, device: torch.device) -> bool:
    """Whether processes can take steps: not where something besides memory would be shared.

    A dataset larger than memory is read ahead by a thread, autograd forbids it where it has threads
    for a GPU, and systems other than Linux fork without what their libraries need. A process of
    `multiprocessing.Pool` may not have others.
    """
    return (
        sys.platform == "linux"
        and not multiprocessing.current_process().daemon
        and device.type == "cpu"
        and not torch.cuda.is_available()
        and not isinstance(dataset, StreamedDataset)
    )


class WorkerProcesses:
    """Processes that are forked once and told which steps of which engine to take.

    All of them have all engines, and the state of the lanes is in memory that they share, so any
    can go on where another stopped; what they return is the record of the steps. They ignore an
    interrupt, which is for this process to handle, and end when it does.
    """

    def __init__(self, engines: Sequence[Engine], workers: int, threads: int) -> None:
        self.engines = engines
        pairs = [multiprocessing.Pipe() for _ in range(workers)]
        self._ends = [ours for ours, _ in pairs]
        self._takers: dict[int, Connection] = {}  # who took steps of an engine last
        context = multiprocessing.get_context("fork")
        processes = [
            context.Process(
                target=_serve, args=(engines, pairs, number, threads, os.getpid()), daemon=True
            )
            for number in range(workers)
        ]
        # OpenMP cannot be used in the copy of a thread that used it, and a process ends with the
        # thread that forked it: both want one that does nothing else, and stays.
        done, started = threading.Event(), threading.Event()
        failures: list[BaseException] = []
        keeper = threading.Thread(
            target=_fork, args=(processes, started, done, failures), daemon=True
        )
        keeper.start()
        started.wait()
        for _, theirs in pairs:
            theirs.close()
        self.close = weakref.finalize(self, _end, self._ends, processes, done, keeper)
        for failure in failures:
            self.close()
            raise failure

    def run(self, step: int, steps: int) -> None:
        """Have all engines take steps from a step on, and their records take in what is told."""
        try:
            self._run(step, steps)
        except BaseException:
            self.close()
            raise

    def _run(self, step: int, steps: int) -> None:
        uneven = len(self.engines) % len(self._ends)
        chunk = -(-steps // _TURNS) if uneven else steps
        waiting = deque((number, step) for number in range(len(self.engines)))
        idle, busy = list(self._ends), dict[Connection, tuple[int, int]]()
        while waiting or busy:
            while waiting and idle:
                worker = idle.pop()
                number, start = self._next(waiting, worker)
                stop = min(start + chunk, step + steps)
                self._takers[number] = worker
                busy[worker] = number, stop
                _tell(worker, (number, start, stop - start))
            ready = set(wait(busy))
            for worker in [worker for worker in busy if worker in ready]:
                number, stop = busy.pop(worker)
                self.engines[number].record.join(_answer(worker))
                idle.append(worker)
                if stop < step + steps:
                    waiting.append((number, stop))

    def _next(self, waiting: deque[tuple[int, int]], worker: Connection) -> tuple[int, int]:
        """Of the engines that wait, the first that this worker had last, else the first of all."""
        for place, (number, _) in enumerate(waiting):
            if self._takers.get(number, worker) is worker:
                found = waiting[place]
                del waiting[place]
                return found
        return waiting.popleft()


def _tell(worker: Connection, task: tuple[int, int, int]) -> None:
    with _missed():
        worker.send(task)


def _answer(worker: Connection) -> Told:
    with _missed():
        told = worker.recv()
    if isinstance(told, BaseException):
        raise told
    result: Told = told
    return result


@contextlib.contextmanager
def _missed() -> Iterator[None]:
    """Says what the end of a worker means."""
    try:
        yield
    except (EOFError, ConnectionError):
        raise Killed(
            "a process that trained lanes was killed, which happens where memory is short: train "
            "fewer runs at once, or with smaller batches; what was saved is kept"
        ) from None


def _fork(
    processes: Iterable[BaseProcess],
    started: threading.Event,
    done: threading.Event,
    failures: list[BaseException],
) -> None:
    try:
        with warnings.catch_warnings():
            # Python warns of forking where there are threads: this one is for that.
            warnings.simplefilter("ignore", DeprecationWarning)
            for process in processes:
                process.start()
    except BaseException as error:
        failures.append(error)
    started.set()
    done.wait()


def _serve(
    engines: Sequence[Engine],
    pairs: Sequence[tuple[Connection, Connection]],
    number: int,
    threads: int,
    parent: int,
) -> None:
    """Take steps as told, until there is nobody to tell."""
    ctypes.CDLL(None).prctl(_DIE_WITH_PARENT, signal.SIGKILL)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    for other, (ours, theirs) in enumerate(pairs):
        ours.close()
        if other != number:
            theirs.close()
    torch.set_num_threads(threads)
    end = pairs[number][1]
    with contextlib.suppress(EOFError, BrokenPipeError):
        while os.getppid() == parent:
            which, step, steps = end.recv()
            engine = engines[which]
            try:
                engine.lanes.seek(step)
                engine.record.clear()
                engine.run(steps)
                end.send(engine.record.tell())
            except BaseException as error:
                end.send(_portable(error))


def _portable(error: BaseException) -> BaseException:
    """An error with its traceback as a note, or where it cannot be pickled, what it says."""
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:
        error = RuntimeError(f"{type(error).__name__}: {error}")
    error.add_note(traceback.format_exc())
    return error


def _end(
    ends: Iterable[Connection],
    processes: Iterable[BaseProcess],
    done: threading.Event,
    keeper: threading.Thread,
) -> None:
    for end in ends:
        end.close()
    for process in processes:
        if process.pid is not None:  # it was begun
            process.kill()
            process.join()
    done.set()
    keeper.join()
