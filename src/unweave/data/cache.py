"""The data folder, and files in it that are computed once and reused."""

import contextlib
import errno
import hashlib
import json
import os
import warnings
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import BinaryIO, NamedTuple, TypeVar

from filelock import FileLock

from unweave.core.adapters import adapter
from unweave.core.files import atomically, delete_unfinished, make_folder, write_atomically

T = TypeVar("T")

_BLOCK = 2**22  # bytes of a file read at once


def data_folder() -> Path:
    """Return the folder of datasets: $UNWEAVE_DATA, or ~/.cache/unweave by default."""
    return Path(os.environ.get("UNWEAVE_DATA") or Path.home() / ".cache" / "unweave").absolute()


def cached_file(folder: Path, key: Sequence[object], write: Callable[[BinaryIO], object]) -> Path:
    """Return the .npy file for a key, calling `write` to create it if it does not exist yet.

    A file that has changed since is written again.
    """
    path = folder / f"{_name(key)}.npy"
    if _is_intact(path):
        return path
    try:
        make_folder(folder)
        with FileLock(f"{path}.lock"):
            if not _is_intact(path):
                if path.exists():
                    warnings.warn(f"{path} was damaged, and is written again", stacklevel=2)
                delete_unfinished(folder, path.name)
                delete_unfinished(folder, _facts_path(path).name)
                with atomically(path) as file:
                    write(file)
                _write_facts(path, _checksum(path))
    except OSError as error:
        if error.errno != errno.ENOSPC:
            raise
        raise ValueError(
            f"there is not enough space in {folder} to unpack the data: free some, or choose "
            "another folder with the environment variable UNWEAVE_DATA"
        ) from None
    return path


class _Facts(NamedTuple):
    """Size, checksum and times of a file in the cache, to notice changes."""

    size: int
    crc32: int
    times: tuple[int, int]


def _is_intact(path: Path) -> bool:
    """Return whether a file is the one that was written; it is read only if its times differ."""
    try:
        facts, status = read_checked(_facts_path(path), _Facts), path.stat()
    except (OSError, ValueError, RecursionError):
        return False
    if status.st_size != facts.size:
        return False
    if _times(status) == facts.times:
        return True
    if _checksum(path) != facts.crc32:
        return False
    with contextlib.suppress(OSError):  # a folder that is not writable
        _write_facts(path, facts.crc32)
    return True


def _write_facts(path: Path, crc32: int) -> None:
    status = path.stat()
    write_checked(_facts_path(path), _Facts(status.st_size, crc32, _times(status)))


def _facts_path(path: Path) -> Path:
    return path.with_name(f"{path.name}.json")


def _times(status: os.stat_result) -> tuple[int, int]:
    return status.st_mtime_ns, status.st_ctime_ns


def _checksum(path: Path) -> int:
    value = 0
    with path.open("rb") as file:
        while block := file.read(_BLOCK):
            value = zlib.crc32(block, value)
    return value


def cached_json(key: Sequence[object], form: type[T], compute: Callable[[], T]) -> T:
    """Return the value of a form for a key, calling `compute` if it was not stored before."""
    path = data_folder() / "known" / f"{_name(key)}.json"
    with contextlib.suppress(OSError, ValueError, RecursionError):
        return read_checked(path, form)
    value = compute()
    with contextlib.suppress(OSError):  # if it cannot be stored, it is computed again next time
        make_folder(path.parent)
        with FileLock(path.parent / "lock"):
            delete_unfinished(path.parent)
            write_checked(path, value)
    return value


def write_checked(path: Path, value: object) -> None:
    """Write a value with a checksum, which covers the name of the file too."""
    text = json.dumps(adapter(type(value)).dump_python(value))
    write_atomically(path, f"{zlib.crc32((path.name + text).encode()):08x} {text}\n".encode())


def read_checked(path: Path, form: type[T]) -> T:
    """Read what `write_checked` wrote; raise a ValueError for anything else."""
    crc32, _, text = path.read_text(encoding="utf-8").removesuffix("\n").partition(" ")
    if crc32 != f"{zlib.crc32((path.name + text).encode()):08x}":
        raise ValueError(f"{path} is damaged")
    value: T = adapter(form).validate_python(json.loads(text))
    return value


def _name(key: Sequence[object]) -> str:
    return hashlib.sha256(json.dumps(key, default=str).encode()).hexdigest()[:24]
