"""Available memory."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path


def main_memory() -> int:
    """Return the bytes of memory of this machine, or of the container that limits this process."""
    limits = [os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")]
    with contextlib.suppress(OSError, ValueError):  # no container, or one without a limit: "max"
        limits.append(int(Path("/sys/fs/cgroup/memory.max").read_text()))
    return min(limits)
