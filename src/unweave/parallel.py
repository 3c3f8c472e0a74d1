"""Several cores: how many there are, and one function of many things on all of them."""

from __future__ import annotations

import os
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")
R = TypeVar("R")


def usable_cores() -> int:
    """The cores this process may run on, which can be fewer than the machine has."""
    return len(os.sched_getaffinity(0)) if sys.platform == "linux" else (os.cpu_count() or 1)


def in_threads(function: Callable[[T], R], items: Iterable[T], threads: int) -> Iterator[R]:
    """A function of every item, in their order, in so many threads.

    Items are taken as threads come to need them, so few of them are there at once. Where a call
    fails, those that have begun are brought to their end and no other begins.

    >>> list(in_threads(lambda item: item**2, range(5), threads=2))
    [0, 1, 4, 9, 16]
    """
    begun: deque[Future[R]] = deque()
    with ThreadPoolExecutor(threads) as pool:
        try:
            for item in items:
                begun.append(pool.submit(function, item))
                if len(begun) > 2 * threads:
                    yield begun.popleft().result()
            while begun:
                yield begun.popleft().result()
        finally:
            pool.shutdown(cancel_futures=True)
