"""Several cores: how many there are, and one function of many things on all of them."""

from __future__ import annotations

import os
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")
R = TypeVar("R")

_share = threading.local()  # the cores of a thread that `in_threads` has begun


def usable_cores() -> int:
    """The cores this process may run on, which can be fewer than the machine has."""
    return len(os.sched_getaffinity(0)) if sys.platform == "linux" else (os.cpu_count() or 1)


def own_cores() -> int:
    """The cores that the work of this thread may take: in a thread of `in_threads`, its share."""
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

    begun: deque[Future[R]] = deque()
    with ThreadPoolExecutor(count) as pool:
        try:
            for item in items:
                begun.append(pool.submit(shared, item))
                if len(begun) > 2 * count:
                    yield begun.popleft().result()
            while begun:
                yield begun.popleft().result()
        finally:
            pool.shutdown(cancel_futures=True)
