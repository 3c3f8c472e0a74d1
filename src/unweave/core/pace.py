"""When checkpoints are written."""

import contextlib
import math
import time
from collections.abc import Iterator

_SHARE = 0.05  # of the time, at most, is spent on writing checkpoints


def pause(seconds: float, saving: float) -> float:
    """Return how long to train before the next checkpoint, if writing one takes `saving` seconds.

    That is `seconds`, or longer, so that checkpoints take at most a twentieth of the time.

    >>> pause(30.0, saving=1.0), pause(30.0, saving=5.0)
    (30.0, 95.0)
    """
    return max(seconds, saving * (1 / _SHARE - 1))


class CheckpointPace:
    """Says when a checkpoint is due. With an interval of 0 seconds one is always due.

    The next pause depends on the quicker one of the last two checkpoints. Otherwise a file system
    that does not answer for a minute would put off the next checkpoint by 19 minutes.
    """

    def __init__(self, seconds: float) -> None:
        self.seconds, self._due = seconds, time.monotonic() + seconds
        self._last = math.inf  # how long the last checkpoint took

    @property
    def is_due(self) -> bool:
        """Whether to write a checkpoint now."""
        return time.monotonic() >= self._due

    @contextlib.contextmanager
    def saving(self) -> Iterator[None]:
        """Time a checkpoint that is written inside this block."""
        started = time.monotonic()
        yield
        saved = time.monotonic()
        quicker, self._last = min(self._last, saved - started), saved - started
        self._due = saved + (pause(self.seconds, quicker) if self.seconds else 0.0)
