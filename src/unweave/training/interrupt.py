"""Stop training after Ctrl-C or SIGTERM at a moment when its state is complete."""

from __future__ import annotations

import contextlib
import signal
import sys
import threading
import time
from collections.abc import Iterator
from types import FrameType
from typing import Self

from unweave.core import torchrun
from unweave.core.signals import interrupt
from unweave.training.processes import Processes

# Handlers that are replaced; one that a program has set itself stays in place.
_REPLACED = {
    signal.SIGINT: (signal.default_int_handler, interrupt),
    signal.SIGTERM: (signal.SIG_DFL,),
}


class Interrupt:
    """Inside, the first Ctrl-C or SIGTERM is a request to stop.

    The second has its usual effect: Ctrl-C raises KeyboardInterrupt, SIGTERM ends the process. But
    torchrun repeats a signal that its processes have received, and kills them if they take long, so
    then the second has no effect. Only the main thread can handle signals.

    Attributes:
        requested: whether there was one.
        terminated: whether it was SIGTERM, after which the program should end.
    """

    def __init__(self) -> None:
        self.requested = self.terminated = False

    def __enter__(self) -> Self:
        main = threading.current_thread() is threading.main_thread()
        found = {number: signal.getsignal(number) for number in _REPLACED} if main else {}
        self._before = {n: each for n, each in found.items() if each in _REPLACED[n]}
        for number in self._before:
            signal.signal(number, self._request)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _request(self, number: int, _frame: FrameType | None) -> None:
        repeated = self.requested
        self.requested, self.terminated = True, number == signal.SIGTERM
        again = "" if self.terminated else "; press Ctrl-C again to stop at once"
        if not torchrun.launched():
            self.__exit__()
        elif repeated or torchrun.rank():
            return
        else:
            again = ""
        with contextlib.suppress(RuntimeError, OSError):  # stderr is in use, or closed
            print(f"\nstopping soon{again}", file=sys.stderr)

    def is_due(self, deadline: float, processes: Processes) -> bool:
        """Return whether to stop, because of a request or the deadline, in any process."""
        requested, late = processes.any(self.requested, time.monotonic() >= deadline)
        if requested:
            self.requested = True
        return requested or late

    @contextlib.contextmanager
    def catch(self) -> Iterator[None]:
        """Turn a KeyboardInterrupt inside into a request, unless there was one before."""
        try:
            yield
        except KeyboardInterrupt:
            if self.requested:
                raise
            self.requested = True
