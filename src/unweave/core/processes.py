"""Name a process so that others, also on other machines, can tell whether it has ended."""

import os
import re
import socket
import sys
import uuid
import zlib
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import NamedTuple, Self


class Process(NamedTuple):
    """A process among all machines that share a folder.

    `machine` tells boots and process namespaces apart, in which process numbers mean different
    things. `started` tells processes apart that got the same number one after the other.
    """

    host: str
    machine: str
    pid: int
    started: int

    def __str__(self) -> str:
        return "-".join(map(str, self))

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read what `str` returned; raise a ValueError for any other text."""
        host, machine, pid, started = text.rsplit("-", 3)
        return cls(host, machine, int(pid), int(started))


def this_process() -> Process:
    """Return the process that calls. UNWEAVE_HOST replaces the name of the machine."""
    pid = os.getpid()
    return Process(_host(), _machine(), pid, _started(pid) or 0)


def _host() -> str:
    name = os.environ.get("UNWEAVE_HOST") or socket.gethostname()
    return re.sub(r"[^\w.]+", ".", name)


def has_ended(process: Process) -> bool | None:
    """Return whether a process has ended; None if this process cannot find out."""
    if (process.host, process.machine) != (_host(), _machine()):
        return None
    if sys.platform == "linux":
        with suppress(OSError):  # too many files may be open
            started = _started(process.pid)
            hidden = started is None and not _is_unused(process.pid)  # from other users
            return None if hidden else started != process.started
        return None
    return None if sys.platform == "win32" else _is_unused(process.pid)


_DEAD = -1  # "start" of a process that has ended but still has an entry (a zombie)


@cache
def this_boot() -> str:
    """Name this boot of the machine; where it has no name (not Linux), all have the same."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip().replace("-", "")
    except OSError:
        return ""


@cache
def _machine() -> str:
    """Name this boot and process namespace (Linux), or this machine."""
    try:
        facts = f"{this_boot() or uuid.getnode()} {os.readlink('/proc/self/ns/pid')}"
    except OSError:
        facts = str(uuid.getnode())
    return f"{zlib.crc32(facts.encode()):08x}"


def _started(pid: int) -> int | None:
    """Return when a process was started, in ticks since the boot; None if there is none.

    Raise an OSError if that cannot be read: too many files may be open.
    """
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return None
    return _DEAD if fields[0] in "ZX" else int(fields[19])


def _is_unused(pid: int) -> bool | None:
    """Return True if no process has this number; None if one has, perhaps another one."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    except OSError:
        return None
    return None
