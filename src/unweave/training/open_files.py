"""The limit of open files: every run that is being trained holds one, its lock."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator

try:
    import resource
except ImportError:  # Windows, which has no such limit
    resource = None  # type: ignore[assignment]

_OTHERS = 24  # files that may be opened beside the locks: checkpoints, pipes to workers
_ROOM = 512  # as many if the system allows it: libraries and metrics open files too


@contextlib.contextmanager
def allow_open_files(count: int) -> Iterator[None]:
    """Inside, this process may open `count` more files; raise a ValueError if it may not.

    The soft limit is raised if necessary, at most to the hard one, and restored afterwards.
    """
    if resource is None:
        yield
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    used = len(os.listdir("/dev/fd"))
    most = hard if hard != resource.RLIM_INFINITY else used + count + _ROOM
    if used + count + _OTHERS > max(soft, most):
        raise ValueError(
            f"expected at most {max(0, most - used - _OTHERS)} runs at once, because each keeps a "
            f"file open and this system allows {most}, got {count}; train them in several "
            "commands, or raise the limit with `ulimit -Hn`"
        )
    raised = max(soft, min(most, used + count + _ROOM))
    resource.setrlimit(resource.RLIMIT_NOFILE, (raised, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
