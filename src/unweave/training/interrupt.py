"""Stop training after Ctrl-C at a moment when its state is complete."""

from __future__ import annotations

import contextlib
import signal
import sys
import threading
from collections.abc import Iterator
from types import FrameType
from typing import Self


class Interrupt:
    """Inside, the first Ctrl-C is a request to stop, and the second raises KeyboardInterrupt.

    A handler that a program has set itself stays in place, and only the main thread can set one.
    """

    def __init__(self) -> None:
        self.requested = False

    def __enter__(self) -> Self:
        main = threading.current_thread() is threading.main_thread()
        self._handles = main and signal.getsignal(signal.SIGINT) is signal.default_int_handler
        if self._handles:
            signal.signal(signal.SIGINT, self._request)
        return self

    def __exit__(self, *_: object) -> None:
        if self._handles:
            signal.signal(signal.SIGINT, signal.default_int_handler)

    def _request(self, _signal: int, _frame: FrameType | None) -> None:
        self.requested = True
        signal.signal(signal.SIGINT, signal.default_int_handler)
        print("\nstopping soon; press Ctrl-C again to stop at once", file=sys.stderr)

    @contextlib.contextmanager
    def catch(self) -> Iterator[None]:
        """Turn a KeyboardInterrupt inside into a request, unless there was one before."""
        try:
            yield
        except KeyboardInterrupt:
            if self.requested:
                raise
            self.requested = True
