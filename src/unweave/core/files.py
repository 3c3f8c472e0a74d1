"""Write files so that after a crash each of them is complete or absent.

A file is written beside its place, synced, and renamed; then its folder is synced, so that the new
name survives a power failure too. Everything that changes files and folders goes through `disk`,
which tests replace to record every operation, to replay crashes and to let operations fail.

A folder may have a *fence*: a check that is made before a file in it is replaced or deleted, and
that raises an error if this process may not do that any more.
"""

import errno
import io
import json
import math
import os
import stat
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from pathlib import Path
from typing import Any, BinaryIO, cast

from unweave.core.context import within

UNFINISHED = ".unfinished-"  # prefix of the name of a file that is being written

_NAME_START = len(UNFINISHED) + 33  # after 32 hexadecimal digits and a hyphen

SMALL = 2**20  # bytes of leases and records of workers, at most

NO_SPACE = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
UNREACHABLE = (  # the server of a network file system, or the process that serves the mount
    errno.ENOTCONN,
    errno.ECONNABORTED,
    errno.ECONNREFUSED,
    errno.ECONNRESET,
    errno.EHOSTDOWN,
    errno.EHOSTUNREACH,
    errno.ENETUNREACH,
    errno.ETIMEDOUT,
)
DISK_FAILURE = (*NO_SPACE, errno.EIO, *UNREACHABLE)  # as opposed to one file that is not writable

# Folders cannot be synced on Windows (EACCES), nor in some network file systems.
_UNSYNCABLE = (errno.EACCES, errno.EPERM, errno.EINVAL, errno.ENOTSUP, errno.ENOSYS, errno.EBADF)

SHOWN_AFTER = 75.0  # seconds in which network file systems show what another machine wrote
_LISTING_PAUSE = 0.2  # seconds

_postponed: ContextVar[dict[Path, None] | None] = ContextVar("postponed", default=None)


@contextmanager
def _absent() -> Iterator[None]:
    """Leave the block if a file does not exist, or if another machine has just deleted it (NFS)."""
    try:
        yield
    except OSError as error:
        if error.errno not in (errno.ENOENT, errno.ESTALE):
            raise


class Disk:
    """The operations that change files and folders."""

    def open(self, path: Path, mode: str) -> BinaryIO:
        """Open a file for writing: "xb" creates it, "wb" empties it, "r+b" keeps its content."""
        return cast(BinaryIO, path.open(mode))

    def write(self, file: BinaryIO, content: Any) -> int:
        """Write bytes, or an array's memory, at the file's position."""
        count = file.write(content)
        file.flush()  # so that an error appears here
        return count

    def truncate(self, file: BinaryIO, size: int) -> None:
        """Cut off what is after the first bytes."""
        file.truncate(size)

    def sync(self, file: BinaryIO) -> None:
        """Wait until the content of a file is on the disk."""
        os.fsync(file.fileno())

    def replace(self, source: Path, target: Path) -> None:
        """Rename a file, and replace the target if there is one."""
        os.replace(source, target)

    def unlink(self, path: Path) -> None:
        """Delete a file, if it exists."""
        path.unlink(missing_ok=True)

    def create(self, path: Path, content: bytes) -> bool:
        """Write a new file; return False if it exists, also if others create it at this moment."""
        try:
            file = self.open(path, "xb")
        except FileExistsError:
            return False
        try:
            with file:
                self.write(file, content)
        except BaseException:
            with suppress(OSError):  # the first error is reported
                self.unlink(path)
            raise
        return True

    def put(self, path: Path, content: bytes) -> None:
        """Write a small file in place. Others may see a part of it, and a crash may leave one."""
        with self.open(path, "wb") as file:
            self.write(file, content)

    def read(self, path: Path, most: float = SMALL) -> bytes | None:
        """Return the content of a file as others see it now; None if it does not exist.

        Raise an OddFile for anything but a file, and for more than `most` bytes.
        """
        with _absent():
            return read_bytes(path, most)
        return None

    def names(self, folder: Path) -> list[str]:
        """Return the names in a folder as others see them now; none if it does not exist."""
        with _absent():
            return os.listdir(folder)
        return []

    def newest(self, folder: Path) -> list[str]:
        """Return the names in a folder, the latest change first; none if it does not exist."""
        times: dict[str, int] = {}
        for name in self.names(folder):
            with _absent():
                times[name] = (folder / name).stat().st_mtime_ns
        return sorted(times, key=lambda name: -times[name])

    def push(self, path: Path) -> None:
        """If a folder mirrors a remote one, upload a file that was written in place."""

    def pull(self, folder: Path) -> None:
        """If a folder mirrors a remote one, update it."""

    def fetch(self, path: Path) -> None:
        """If a folder mirrors a remote one, download a file that is not in it yet."""

    def name(self, path: Path) -> str:
        """Return the path, or the remote one that it mirrors."""
        return str(path)

    def mkdir(self, path: Path) -> None:
        """Create a folder, if it does not exist."""
        path.mkdir(exist_ok=True)

    def rmdir(self, path: Path) -> None:
        """Delete a folder, if it exists and is empty."""
        try:
            path.rmdir()
        except OSError as error:
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST, errno.ENOENT):
                raise

    def sync_folder(self, path: Path) -> None:
        """Wait until the names in a folder are on the disk, where folders can be synced."""
        try:
            folder = os.open(path, os.O_RDONLY)
            try:
                os.fsync(folder)
            finally:
                os.close(folder)
        except OSError as error:
            if error.errno not in _UNSYNCABLE:
                raise


disk = Disk()

_fences: dict[str, Callable[[], None]] = {}  # by folder
if hasattr(os, "register_at_fork"):  # a child may not use the rights of its parent
    os.register_at_fork(after_in_child=_fences.clear)


class OutputFile(io.BufferedIOBase):
    """A file to write to through `disk`, whose errors name it.

    It is no plain file for NumPy, which would write to one without `disk`, and whose errors would
    not say what went wrong.
    """

    def __init__(self, path: Path, mode: str, place: Path | None = None) -> None:
        self.place = place or path  # its final path, which errors name
        with _naming(self.place):
            self._file = disk.open(path, mode)

    def write(self, content: Any) -> int:
        """Write bytes, or an array's memory."""
        with _naming(self.place):
            return disk.write(self._file, content)

    def truncate(self, size: int | None = None) -> int:
        """Cut off what is after the first bytes, by default after the position."""
        size = self.tell() if size is None else size
        with _naming(self.place):
            disk.truncate(self._file, size)
        return size

    def sync(self) -> None:
        """Wait until the content is on the disk."""
        with _naming(self.place):
            disk.sync(self._file)

    def close(self) -> None:
        if "_file" not in vars(self):  # it could not be opened, and is being finalised
            return
        with _naming(self.place):
            self._file.close()
        super().close()

    def seek(self, offset: int, whence: int = 0) -> int:
        return self._file.seek(offset, whence)

    def tell(self) -> int:
        return self._file.tell()

    def seekable(self) -> bool:
        return True

    def writable(self) -> bool:
        return True


class OddFile(OSError):
    """A path that is not a regular file, or is larger than expected."""


def check_regular(path: Path) -> os.stat_result:
    """Raise an OddFile unless a path is a file: reading a pipe or a device may never end."""
    facts = os.stat(path)
    if not stat.S_ISREG(facts.st_mode):
        what = "a folder" if stat.S_ISDIR(facts.st_mode) else "a pipe or a device"
        raise OddFile(errno.EINVAL, f"expected a file, got {what}", disk.name(path))
    return facts


def read_bytes(path: Path, most: float = math.inf) -> bytes:
    """Read a file that anyone may have written, up to its length at this moment.

    Raise an OddFile for anything but a file, and for more than `most` bytes.
    """
    check_regular(path)
    with _naming(path), path.open("rb") as file:
        # A network file system may remember the length of a file that was replaced since, until
        # the file is opened.
        size = os.fstat(file.fileno()).st_size
        if size > most:
            reason = f"expected at most {most:,} bytes, got {size:,}"
            raise OddFile(errno.EINVAL, reason, disk.name(path))
        return file.read(size)


def error_text(error: Exception) -> str:
    """Describe an error of reading a file; those of the operating system name it.

    >>> error_text(PermissionError(13, "Permission denied", "runs/a/run.json"))
    'cannot read or write runs/a/run.json: Permission denied'
    """
    if isinstance(error, OSError):
        where = f" {error.filename}" if error.filename else ""
        return f"cannot read or write{where}: {error.strerror or error}"
    return "nested too deeply" if isinstance(error, RecursionError) else str(error)


def write_json(path: Path, content: object) -> None:
    """Write indented JSON atomically."""
    write_atomically(path, (json.dumps(content, indent=2) + "\n").encode())


def write_atomically(path: Path, content: bytes) -> None:
    """Write a file that is complete or absent, even after a crash."""
    with atomically(path) as file:
        file.write(content)


@contextmanager
def atomically(path: Path) -> Iterator[BinaryIO]:
    """Open a temporary file to write to, which replaces `path` when the block is left normally."""
    beside = path.with_name(f"{UNFINISHED}{uuid.uuid4().hex}-{path.name}")
    try:
        with OutputFile(beside, "xb", path) as file:
            yield cast(BinaryIO, file)
            file.sync()
        move(beside, path)
    except BaseException:
        with suppress(OSError):  # the first error is reported
            disk.unlink(beside)
        raise


def create(path: Path, content: bytes) -> bool:
    """Write a new file, not durably; return False if it exists."""
    with _naming(path):
        return disk.create(path, content)


def put(path: Path, content: bytes) -> None:
    """Write a small file in place, not durably."""
    with _naming(path):
        disk.put(path, content)


@contextmanager
def fence(folder: Path, check: Callable[[], None]) -> Iterator[None]:
    """Inside this block, call `check` before a file in the folder is replaced or deleted."""
    key = os.path.abspath(folder)
    _fences[key] = check
    try:
        yield
    finally:
        _fences.pop(key, None)


def _check_fence(path: Path) -> None:
    if check := _fences.get(os.path.abspath(path.parent)):
        check()


def move(source: Path, target: Path) -> None:
    """Rename a file within its folder, durably."""
    _check_fence(target)
    with _naming(target):
        disk.replace(source, target)
    _sync_folder(target.parent)


def delete(path: Path) -> None:
    """Delete a file, if it exists. It may be there again after a power failure."""
    _check_fence(path)
    with _naming(path):
        disk.unlink(path)


def appears(path: Path, seconds: float | None = None) -> bool:
    """Wait until a file is there that another machine has written; return False if it is not.

    Network file systems remember for up to a minute that a file does not exist, so the folder is
    listed again and again, by default for `SHOWN_AFTER` seconds.
    """
    deadline = time.monotonic() + (SHOWN_AFTER if seconds is None else seconds)
    while path.name not in disk.names(path.parent):
        if time.monotonic() >= deadline:
            return False
        time.sleep(_LISTING_PAUSE)
    return True


def make_folder(path: Path) -> None:
    """Create a folder and its parents where they do not exist, durably."""
    missing = [parent for parent in path.parents if not parent.exists()]
    for each in (*reversed(missing), path):
        create_folder(each)
        # Also if it exists: the process that created it may have been killed before this.
        _sync_folder(each.parent)


def create_folder(path: Path) -> None:
    """Create a folder, unless it exists; its parent must exist. A power failure may undo this."""
    with _naming(path):
        disk.mkdir(path)


def delete_empty_folder(path: Path) -> None:
    """Delete a folder, if it exists and is empty. A power failure may undo this."""
    with _naming(path):
        disk.rmdir(path)


@contextmanager
def sync_once() -> Iterator[None]:
    """Sync the folders of all files that are written in this block once, at its end.

    Until then a power failure may undo any of the renames, in any order.
    """
    folders: dict[Path, None] = {}
    with within(_postponed, folders):
        yield
    for folder in folders:
        _sync_folder(folder)


def delete_unfinished(folder: Path, name: str | None = None) -> None:
    """Delete what killed processes left unfinished of the file `name`, or of all files.

    The caller holds the lock that writers of these files hold.
    """
    for entry in folder.glob(f"{UNFINISHED}*"):
        if name in (None, entry.name[_NAME_START:]):
            delete(entry)


def _sync_folder(folder: Path) -> None:
    postponed = _postponed.get()
    if postponed is not None:
        postponed[folder] = None
        return
    with _naming(folder):
        disk.sync_folder(folder)


@contextmanager
def _naming(path: Path) -> Iterator[None]:
    """Name a file in the errors of the operating system."""
    try:
        yield
    except OSError as error:
        error.filename = disk.name(path)
        raise
