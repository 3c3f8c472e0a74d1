"""Available memory, and errors that say it is used up."""

import contextlib
import math
import os
from pathlib import Path

# Lower-case phrases by which libraries report a lack of memory.
_NO_MEMORY = (
    "can't allocate memory",
    "cannot allocate memory",
    "not enough memory",
    "out of memory",
    "bad_alloc",
    "failed to map segment",  # of a library that is imported
)


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


def is_out_of_memory(error: Exception) -> bool:
    """Return whether an error says that memory is used up; not only MemoryErrors do.

    >>> is_out_of_memory(RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to"))
    True
    """
    text = str(error).lower() if isinstance(error, (RuntimeError, ImportError)) else ""
    return isinstance(error, MemoryError) or any(sign in text for sign in _NO_MEMORY)
