"""Ctrl-C and SIGTERM: when a command stops at once, and processes that leave them to their parent.

This module is imported before anything that takes long, and needs only the standard library.
"""

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

STOPPED = 130  # exit code after Ctrl-C: 128 and the number of the signal

jobs_go_on = False  # whether this command has printed that its jobs go on without it

_IMPORT = "<frozen importlib._bootstrap>"


def interrupt(_signal: int, frame: FrameType | None) -> None:
    """Handle Ctrl-C in a command: raise KeyboardInterrupt, but during an import exit at once.

    An import that is interrupted may report another error, such as a broken installation.
    """
    while frame:
        if frame.f_code.co_filename == _IMPORT:
            os.write(2, b"\nstopped\n")
            os._exit(STOPPED)
        frame = frame.f_back
    raise KeyboardInterrupt


@contextmanager
def blocked(*signals: signal.Signals) -> Iterator[None]:
    """Block these signals for this thread, and forever for processes that it starts.

    A signal that arrives meanwhile is received afterwards.
    """
    if not hasattr(signal, "pthread_sigmask"):  # Windows
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, signals)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
