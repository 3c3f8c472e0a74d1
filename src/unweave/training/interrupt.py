"""Stop training after Ctrl-C or SIGTERM at a moment when its state is complete."""

from __future__ import annotations

import contextlib
import signal
import sys
import threading
import time
from collections.abc import Iterator
from types import FrameType
from typing import Any

from unweave.core import torchrun
from unweave.core.signals import interrupt
from unweave.training.processes import Processes

# Handlers that are replaced; one that a program has set itself stays in place.
_REPLACED = {
    signal.SIGINT: (signal.default_int_handler, interrupt),
    signal.SIGTERM: (signal.SIG_DFL,),
}


_active: Interrupt | None = None  # what handles signals now


class Interrupt:
    """Inside this block, the first Ctrl-C or SIGTERM is a request to stop.

    The second has its usual effect: Ctrl-C raises KeyboardInterrupt, SIGTERM ends the process. It
    has no effect in a process of torchrun or of a scheduler (`unattended`): these repeat signals,
    and kill processes that take too long. A block inside another shares its requests, unless only
    the inner one is unattended. Only the main thread can handle signals.

    Args:
        unattended: whether a program started this process and sends the signals. Handlers that it
            has set are replaced too.

    Attributes:
        requested: whether there was one.
        terminated: whether it was SIGTERM, after which the program should end.
    """

    def __init__(self, unattended: bool = False) -> None:
        self.requested = self.terminated = False
        self._all = unattended
        self._once = unattended or torchrun.launched()
        self._before: dict[int, Any] = {}
        self._outer: Interrupt | None = None

    def __enter__(self) -> Interrupt:
        global _active
        if threading.current_thread() is not threading.main_thread():
            return self
        if _active is not None and (_active._all or not self._all):
            return _active
        now = {number: signal.getsignal(number) for number in _REPLACED}
        self._before = {n: each for n, each in now.items() if self._all or each in _REPLACED[n]}
        for number in self._before:
            signal.signal(number, self._request)
        self._outer, _active = _active, self
        return self

    def __exit__(self, *_: object) -> None:
        global _active
        if _active is self:
            _active = self._outer
            self._restore()

    def _restore(self) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _request(self, number: int, _frame: FrameType | None) -> None:
        repeated = self.requested
        self.requested, self.terminated = True, number == signal.SIGTERM
        if not self._once:
            self._restore()
        elif repeated or torchrun.rank():
            return
        again = "" if self._once or self.terminated else "; press Ctrl-C again to stop at once"
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
