"""Stop training after Ctrl-C or SIGTERM at a moment when its state is complete."""

from __future__ import annotations

import contextlib
import signal
import sys
import threading
from collections.abc import Iterator
from types import FrameType
from typing import Self

from unweave.core.signals import interrupt

# Handlers that are replaced; one that a program has set itself stays in place.
_REPLACED = {
    signal.SIGINT: (signal.default_int_handler, interrupt),
    signal.SIGTERM: (signal.SIG_DFL,),
}


class Interrupt:
    """Inside, the first Ctrl-C or SIGTERM is a request to stop.

    The second has its usual effect: Ctrl-C raises KeyboardInterrupt, SIGTERM ends the process. Only
    the main thread can handle signals.

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
        self.requested, self.terminated = True, number == signal.SIGTERM
        self.__exit__()
        again = "" if self.terminated else "; press Ctrl-C again to stop at once"
        with contextlib.suppress(RuntimeError, OSError):  # stderr is in use, or closed
            print(f"\nstopping soon{again}", file=sys.stderr)

    @contextlib.contextmanager
    def catch(self) -> Iterator[None]:
        """Turn a KeyboardInterrupt inside into a request, unless there was one before."""
        try:
            yield
        except KeyboardInterrupt:
            if self.requested:
                raise
            self.requested = True
