"""Forked processes that train lanes in memory they share with their parent (Linux, CPU)."""

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
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from multiprocessing.util import Finalize

import torch

from unweave.core.parallel import WorkerKilled, starting_processes
from unweave.data import Dataset, StreamedDataset
from unweave.training.engine import Engine, Sums

_ROUNDS = 8  # in which steps are taken if the engines cannot be divided evenly among the workers
_PR_SET_PDEATHSIG = 1  # Linux: which signal a process gets when its parent dies


def can_fork(dataset: Dataset, device: torch.device) -> bool:
    """Return whether forked processes can take the steps.

    They cannot if they would share more than memory: a dataset larger than memory is read by a
    thread, autograd has threads for a GPU, and other systems than Linux cannot fork safely. A
    daemonic process, such as one of `multiprocessing.Pool`, may not have children.
    """
    return (
        sys.platform == "linux"
        and not multiprocessing.current_process().daemon
        and device.type == "cpu"
        and not torch.cuda.is_available()
        and not isinstance(dataset, StreamedDataset)
    )


class WorkerProcesses:
    """Processes, forked once, that take steps of engines on request.

    Every worker has all engines, and the state of the lanes is in shared memory, so any worker can
    continue where another stopped. Workers return the records of their steps. They never receive
    Ctrl-C or SIGTERM, which the parent handles, and end when the parent does.
    """

    def __init__(self, engines: Sequence[Engine], workers: int, threads: int) -> None:
        self.engines = engines
        pipes = [multiprocessing.Pipe() for _ in range(workers)]
        self._workers = [parent_end for parent_end, _ in pipes]
        self._last_worker: dict[int, Connection] = {}  # by engine
        context = multiprocessing.get_context("fork")
        processes = [
            context.Process(
                target=_serve, args=(engines, pipes, number, threads, os.getpid()), daemon=True
            )
            for number in range(workers)
        ]
        # Fork from a thread that does nothing else and outlives the workers: OpenMP fails in a fork
        # of a thread that used it, and a worker dies with the thread that forked it.
        done, started = threading.Event(), threading.Event()
        failures: list[BaseException] = []
        forker = threading.Thread(
            target=_fork, args=(processes, started, done, failures), daemon=True
        )
        forker.start()
        # Also called at exit, before multiprocessing waits for its children.
        ends = self._workers, processes, started, done, forker
        self.close = Finalize(self, _end, ends, exitpriority=0)
        try:
            started.wait()
            for _, worker_end in pipes:
                worker_end.close()
            for failure in failures:
                raise failure
        except BaseException:
            self.close()
            raise

    def run(self, step: int, steps: int, numbers: Sequence[int]) -> None:
        """Take steps of some engines, from `step` on, and merge the workers' records."""
        try:
            self._run(step, steps, numbers)
        except BaseException:
            self.close()
            raise

    def _run(self, step: int, steps: int, numbers: Sequence[int]) -> None:
        uneven = len(numbers) % len(self._workers)
        chunk = -(-steps // _ROUNDS) if uneven else steps
        waiting = deque((number, step) for number in numbers)
        idle, busy = list(self._workers), dict[Connection, tuple[int, int]]()
        while waiting or busy:
            while waiting and idle:
                worker = idle.pop()
                number, start = self._next(waiting, worker)
                stop = min(start + chunk, step + steps)
                self._last_worker[number] = worker
                busy[worker] = number, stop
                _send(worker, (number, start, stop - start))
            ready = set(wait(busy))
            for worker in [worker for worker in busy if worker in ready]:
                number, stop = busy.pop(worker)
                self.engines[number].record.merge(_receive(worker))
                idle.append(worker)
                if stop < step + steps:
                    waiting.append((number, stop))

    def _next(self, waiting: deque[tuple[int, int]], worker: Connection) -> tuple[int, int]:
        """Pick an engine for a worker: the first that it had before or that is new, if any.

        An engine that stays with its worker finds its data in that core's cache.
        """
        for place, (number, _) in enumerate(waiting):
            if self._last_worker.get(number, worker) is worker:
                task = waiting[place]
                del waiting[place]
                return task
        return waiting.popleft()


def _send(worker: Connection, task: tuple[int, int, int]) -> None:
    with _detect_killed():
        worker.send(task)


def _receive(worker: Connection) -> Sums:
    with _detect_killed():
        answer = worker.recv()
    if isinstance(answer, BaseException):
        raise answer
    sums: Sums = answer
    return sums


@contextlib.contextmanager
def _detect_killed() -> Iterator[None]:
    try:
        yield
    except (EOFError, ConnectionError):
        raise WorkerKilled(
            "a process that trained lanes was killed, probably because memory ran out: train fewer "
            "runs at once, or with smaller batches; saved checkpoints are kept"
        ) from None


def _fork(
    processes: Iterable[BaseProcess],
    started: threading.Event,
    done: threading.Event,
    failures: list[BaseException],
) -> None:
    try:
        with warnings.catch_warnings(), starting_processes(signal.SIGINT, signal.SIGTERM):
            # Python warns about forking a process that has threads, which this thread is for.
            warnings.simplefilter("ignore", DeprecationWarning)
            for process in processes:
                process.start()
    except BaseException as error:
        failures.append(error)
    started.set()
    done.wait()


def _serve(
    engines: Sequence[Engine],
    pipes: Sequence[tuple[Connection, Connection]],
    number: int,
    threads: int,
    parent: int,
) -> None:
    """Take steps on request, until the parent is gone."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    for other, (parent_end, worker_end) in enumerate(pipes):
        parent_end.close()
        if other != number:
            worker_end.close()
    torch.set_num_threads(threads)
    pipe = pipes[number][1]
    with contextlib.suppress(EOFError, BrokenPipeError):
        while os.getppid() == parent:
            which, step, steps = pipe.recv()
            engine = engines[which]
            try:
                engine.lanes.seek(step)
                engine.record.clear()
                engine.run(steps)
                pipe.send(engine.record.export())
            except BaseException as error:
                pipe.send(_portable(error))


def _portable(error: BaseException) -> BaseException:
    """Add the traceback to an error as a note; replace an error that cannot be pickled."""
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:
        error = RuntimeError(f"{type(error).__name__}: {error}")
    error.add_note(traceback.format_exc())
    return error


def _end(
    workers: Iterable[Connection],
    processes: Iterable[BaseProcess],
    started: threading.Event,
    done: threading.Event,
    forker: threading.Thread,
) -> None:
    started.wait()
    for worker in workers:
        worker.close()
    for process in processes:
        if process.pid is not None:  # it was started
            process.kill()
            process.join()
    done.set()
    forker.join()
