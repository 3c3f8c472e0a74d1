"""Use several cores: how many there are, and a function mapped over items on all of them."""

import multiprocessing
import os
import signal
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from typing import Any, TypeVar

from unweave.core.signals import blocked

T = TypeVar("T")
R = TypeVar("R")


class WorkerKilled(RuntimeError):
    """A worker process died unexpectedly."""


class CannotFork(RuntimeError):
    """The system refuses to start more processes."""


@contextmanager
def starting_processes(*signals: signal.Signals) -> Iterator[None]:
    """Inside this block, start processes without these signals, or raise `CannotFork`."""
    try:
        with blocked(*signals):
            yield
    except BlockingIOError as error:
        raise CannotFork("can't start new process") from error


_share = threading.local()  # the cores of a worker of `thread_map` or `process_map`


def usable_cores() -> int:
    """Return how many cores this process may use, which can be fewer than the machine has."""
    return len(os.sched_getaffinity(0)) if sys.platform == "linux" else (os.cpu_count() or 1)


def own_cores() -> int:
    """Return how many cores this thread may use: a worker's share, or `usable_cores()`."""
    return int(getattr(_share, "cores", 0)) or usable_cores()


def use_cores(count: int) -> None:
    """Let this thread use this many cores, because others use the rest; 0 for all of them."""
    _share.cores = count


def thread_map(
    function: Callable[[T], R], items: Iterable[T], threads: int | None = None
) -> Iterator[R]:
    """Yield `function(item)` for every item, in order, computed in threads.

    There are `own_cores()` threads by default, and each gets an equal share of the cores, so nested
    calls do not use more threads than cores. A single thread is the caller's own. Items are read as
    they are needed. If a call fails, those that have started are finished and no other starts.

    >>> list(thread_map(lambda item: item**2, range(5)))
    [0, 1, 4, 9, 16]
    """
    cores = own_cores()
    count = threads or cores
    if count == 1:
        yield from map(function, items)
        return

    def call(item: T) -> R:
        use_cores(max(1, cores // count))
        return function(item)

    with ThreadPoolExecutor(count) as pool:
        yield from _in_order(pool, call, items, count)


def process_map(
    function: Callable[[T], R], items: Iterable[T], processes: int | None = None
) -> Iterator[R]:
    """Like `thread_map`, but in processes, avoiding the GIL.

    Processes take seconds to start, wait a minute for the next call, and are stopped if the caller
    is interrupted. Function, items and results are pickled. A daemonic process, such as one of
    `multiprocessing.Pool`, may not have children and uses threads.
    """
    cores = own_cores()
    count = processes or cores
    if count == 1 or multiprocessing.current_process().daemon:
        yield from thread_map(function, items, count)
        return
    pool = _pool(count, cores)
    try:
        yield from _in_order(pool, function, items, count)
    except (KeyboardInterrupt, GeneratorExit):
        pool.shutdown(wait=False, kill_workers=True)
        raise
    except BrokenProcessPool as error:
        raise _worker_killed(count) from error


def run_in_background(function: Callable[[T], R], items: Sequence[T]) -> Callable[[], list[R]]:
    """Start `function(item)` for every item in processes; return a function that waits for them.

    With a single core the calls are made here, before this returns.

    >>> run_in_background(abs, [-1, 2])()
    [1, 2]
    """
    cores = own_cores()
    if cores == 1 or not items or multiprocessing.current_process().daemon:
        results = [function(item) for item in items]
        return lambda: results
    count = min(cores, len(items))
    pool = _pool(count, cores)
    with starting_processes(signal.SIGINT):
        futures = [pool.submit(function, item) for item in items]

    def wait() -> list[R]:
        try:
            return [future.result() for future in futures]
        except KeyboardInterrupt:
            _pool(count, cores).shutdown(wait=False, kill_workers=True)
            raise
        except BrokenProcessPool as error:
            raise _worker_killed(count) from error

    return wait


def _pool(count: int, cores: int) -> Any:
    """Return processes that share the cores and are kept for a minute.

    Workers never handle interrupts, not even during their first import: signals are blocked
    wherever workers start, which is here if their number changes, and otherwise when work is
    submitted.
    """
    import loky  # takes half of this module's import time

    share = max(1, cores // count)
    threads = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), str(share))
    with starting_processes():
        _start_trackers()
    with starting_processes(signal.SIGINT):
        return loky.get_reusable_executor(
            count, timeout=60, initializer=_start_worker, initargs=(share,), env=threads
        )


def _start_trackers() -> None:
    """Start the clean-up processes now; otherwise the first worker would start them.

    Starting them unblocks interrupts, so workers would then receive interrupts too.
    """
    if hasattr(signal, "pthread_sigmask"):  # not on Windows, which has no such processes
        from multiprocessing import resource_tracker

        import loky.backend.resource_tracker

        resource_tracker.ensure_running()
        loky.backend.resource_tracker.ensure_running()


def _worker_killed(count: int) -> WorkerKilled:
    return WorkerKilled(
        f"one of {count} processes was killed, probably because memory ran out: measure fewer "
        "rows, or fewer runs at once"
    )


def _start_worker(cores: int) -> None:
    """Take a share of the cores, and leave interrupts to the parent."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    use_cores(cores)


def _in_order(
    pool: Executor, function: Callable[[T], R], items: Iterable[T], count: int
) -> Iterator[R]:
    started: deque[Future[R]] = deque()
    try:
        for item in items:
            with starting_processes(signal.SIGINT):
                started.append(pool.submit(function, item))
            if len(started) > 2 * count:
                yield started.popleft().result()
        while started:
            yield started.popleft().result()
    finally:
        for future in started:
            future.cancel()
