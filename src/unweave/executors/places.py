"""The places where a pool has workers, and which of them to avoid because tasks die there."""

import time
from collections.abc import Hashable, Set
from typing import Protocol

from unweave.executors.worker import Ended

_MOST_LOST = 2  # different tasks that a place may lose without doing one
_PAUSE = 600.0  # seconds that a broken place gets no tasks after it has lost one


class HasPlaces(Protocol):
    """What `Places` needs to know about a pool."""

    @property
    def places(self) -> Set[str] | None:
        """The places that can do a task now; None if they are not known."""


class Places:
    """What became of tasks at each place, such as a device, a node or a host.

    A place whose GPU or disk is broken fails quickly. So it is always the first to be free, and
    all tasks would soon die there.
    """

    def __init__(self, pool: HasPlaces) -> None:
        self._pool = pool
        self._lost: dict[str, set[Hashable]] = {}  # tasks by place, since one was done there
        self._last: dict[str, float] = {}  # when the place lost a task

    def record(self, ended: Ended, task: Hashable) -> None:
        """Note how a task ended, if it is known where."""
        if ended.place and ended.how == "died":
            self._lost.setdefault(ended.place, set()).add(task)
            self._last[ended.place] = time.monotonic()
        elif ended.how == "done":
            self._lost.pop(ended.place, None)

    def to_avoid(self, lost: Set[str]) -> frozenset[str]:
        """Return the places that a task should avoid, given those where it was lost.

        These are the broken places and those that lost it, unless nothing else is left.
        """
        now, there = time.monotonic(), self._pool.places
        broken = frozenset(
            place
            for place, tasks in self._lost.items()
            if len(tasks) > _MOST_LOST and now - self._last[place] < _PAUSE
        )
        choices = broken | lost, broken
        return next((each for each in choices if there is None or there - each), frozenset())
