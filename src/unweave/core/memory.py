"""Available memory."""

from __future__ import annotations

import contextlib
import math
import os
from pathlib import Path


def main_memory() -> float:
    """Return the bytes of memory of this machine, or of the container that limits this process.

    Where that is not known, as on Windows, memory is infinite, and nothing is refused for its size.
    """
    limits = [math.inf]
    with contextlib.suppress(AttributeError, OSError, ValueError):  # Windows has no os.sysconf
        limits.append(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    with contextlib.suppress(OSError, ValueError):  # no container, or one without a limit: "max"
        limits.append(int(Path("/sys/fs/cgroup/memory.max").read_text()))
    return min(limits)
