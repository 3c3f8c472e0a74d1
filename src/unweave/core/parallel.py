"""Several cores: how many there are, and one function of many things on all of them."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from typing import Any, TypeVar

T = TypeVar("T")
R = TypeVar("R")


class Killed(RuntimeError):
    """A process that worked for this one is no more, and nobody told it to end."""


_share = threading.local()  # the cores of a thread that `in_threads` or `in_processes` has begun


def usable_cores() -> int:
    """The cores this process may run on, which can be fewer than the machine has."""
    return len(os.sched_getaffinity(0)) if sys.platform == "linux" else (os.cpu_count() or 1)


def own_cores() -> int:
    """The cores that this thread may take: in one of `in_threads` or `in_processes`, its share."""
    return int(getattr(_share, "cores", 0)) or usable_cores()


def in_threads(
    function: Callable[[T], R], items: Iterable[T], threads: int | None = None
) -> Iterator[R]:
    """A function of every item, in their order, in so many threads; by default in `own_cores()`.

    Each of these has its share of the cores in turn, so that threads within threads are no more
    than cores. One thread is that of the caller. Items are taken as threads come to need them, so
    few of them are there at once. Where a call fails, those that have begun are brought to their
    end and no other begins.

    >>> list(in_threads(lambda item: item**2, range(5)))
    [0, 1, 4, 9, 16]
    """
    cores = own_cores()
    count = threads or cores
    if count == 1:
        yield from map(function, items)
        return

    def shared(item: T) -> R:
        _share.cores = max(1, cores // count)
        return function(item)

    with ThreadPoolExecutor(count) as pool:
        yield from _in_order(pool, shared, items, count)


def in_processes(
    function: Callable[[T], R], items: Iterable[T], processes: int | None = None
) -> Iterator[R]:
    """The same in processes, which do not wait for each other where Python works.

    It takes seconds to begin them, so they are for what takes longer than that; they wait a minute
    for the next call, and are stopped where this one is interrupted. Function, items and results
    are pickled. A process that may not have others, as those of `multiprocessing.Pool`, has
    threads.
    """
    cores = own_cores()
    count = processes or cores
    if count == 1 or multiprocessing.current_process().daemon:
        yield from in_threads(function, items, count)
        return
    pool = _pool(count, cores)
    try:
        yield from _in_order(pool, function, items, count)
    except (KeyboardInterrupt, GeneratorExit):
        pool.shutdown(wait=False, kill_workers=True)
        raise
    except BrokenProcessPool as error:
        raise _killed(count) from error


def in_background(function: Callable[[T], R], items: Sequence[T]) -> Callable[[], list[R]]:
    """Begin like `in_processes` and return at once; the result waits for what the function gives.

    On one core the function is called here, before this returns.

    >>> in_background(abs, [-1, 2])()
    [1, 2]
    """
    cores = own_cores()
    if cores == 1 or not items or multiprocessing.current_process().daemon:
        found = [function(item) for item in items]
        return lambda: found
    count = min(cores, len(items))
    futures = [_pool(count, cores).submit(function, item) for item in items]

    def wait() -> list[R]:
        try:
            return [future.result() for future in futures]
        except KeyboardInterrupt:
            _pool(count, cores).shutdown(wait=False, kill_workers=True)
            raise
        except BrokenProcessPool as error:
            raise _killed(count) from error

    return wait


def _pool(count: int, cores: int) -> Any:
    """So many processes, which share the cores and are kept for a minute."""
    import loky  # half of what this module takes to load

    share = max(1, cores // count)
    threads = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), str(share))
    return loky.get_reusable_executor(
        count, timeout=60, initializer=_begin, initargs=(share,), env=threads
    )


def _killed(count: int) -> Killed:
    return Killed(
        f"one of {count} processes was killed, which happens where memory is short: "
        "measure fewer rows, or fewer runs at once"
    )


def _begin(cores: int) -> None:
    """Take a share of the cores, and leave it to the first process to be interrupted."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _share.cores = cores


def _in_order(
    pool: Executor, function: Callable[[T], R], items: Iterable[T], count: int
) -> Iterator[R]:
    begun: deque[Future[R]] = deque()
    try:
        for item in items:
            begun.append(pool.submit(function, item))
            if len(begun) > 2 * count:
                yield begun.popleft().result()
        while begun:
            yield begun.popleft().result()
    finally:
        for future in begun:
            future.cancel()
