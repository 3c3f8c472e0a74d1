"""Download and verify the files of published datasets.

An interrupted download resumes, tries every mirror, and only becomes the file once it is complete
and its checksum is right. If no checksum is published, that of the first download is recorded and
compared from then on. Files are compared again when they are loaded, if they have changed since.
"""

import errno
import hashlib
import http.client
import shutil
import time
import urllib.error
import urllib.request
import warnings
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from filelock import FileLock
from pydantic import NonNegativeInt

from unweave.core.adapters import adapter
from unweave.core.files import (
    NO_SPACE,
    OutputFile,
    delete,
    delete_unfinished,
    make_folder,
    move,
    write_json,
)
from unweave.data.cache import read_checked, write_checked

DownloadProgress = Callable[[int, int | None], object]  # bytes downloaded, and bytes in total

BLOCK = 2**20
SYNCED = 2**26  # bytes between syncs, the most that is downloaded again after a crash
TIMEOUT = 30  # seconds without a byte
TRIES = 4  # consecutive attempts at a mirror without a new byte
RECORDS = "checksums.json"

_AGENT = {"User-Agent": "unweave (https://pypi.org/project/unweave)"}


@dataclass(frozen=True)
class Source:
    """A file of a published dataset.

    `digest` is a published checksum, "sha256:..." or "md5:...", or None if none is known. A file
    without `urls` has to be downloaded manually.
    """

    name: str
    size: int | None = None
    digest: str | None = None
    urls: tuple[str, ...] = ()


class _State(NamedTuple):
    """The file that a partial download is of, and how many of its bytes are on the disk."""

    url: str
    tag: str | None  # by which the server tells versions of the file apart
    synced: NonNegativeInt = 0


class _MirrorError(Exception):
    """A mirror cannot deliver the file."""


def fetch(
    source: Source, folder: Path, progress: DownloadProgress = lambda done, total: None
) -> Path:
    """Return a file in a folder; download it if it does not exist, otherwise verify it."""
    path = folder / source.name
    partial = path.with_name(f"{source.name}.part")
    make_folder(folder)
    with FileLock(f"{path}.lock"):
        delete_unfinished(folder, _state_file(partial).name)
        if not path.exists():
            _download(source, path, partial, progress)
        elif problem := find_problem(source, folder):
            raise ValueError(f"{problem}: delete it and run the same command again")
        else:
            _discard(partial)
    return path


class _Verified(NamedTuple):
    """The size and times of a file when it was compared, and the checksum that it has to have."""

    size: int
    times: tuple[int, int]
    digest: str | None


def verify(source: Source, folder: Path) -> None:
    """Compare a file with its checksum, unless this was done and it has not changed since."""
    path = folder / source.name
    record = path.with_name(f"{path.name}.verified")
    status = path.stat()
    times = (status.st_mtime_ns, status.st_ctime_ns)
    found = _Verified(status.st_size, times, source.digest or _records(folder).get(source.name))
    with suppress(OSError, ValueError, RecursionError):
        if read_checked(record, _Verified) == found:
            return
    if problem := find_problem(source, folder):
        raise ValueError(
            f"{problem}: delete it, and download it again with `unweave data get {folder.name}`"
        )
    with suppress(OSError):  # in a folder that is not writable it is compared each time
        if digest := source.digest or _records(folder).get(source.name):
            write_checked(record, found._replace(digest=digest))


def find_problem(source: Source, folder: Path) -> str | None:
    """Verify a file: return what is wrong with it, or None. Record an unknown checksum."""
    path = folder / source.name
    size = path.stat().st_size
    if source.size is not None and size != source.size:
        return f"{path} has {size:,} bytes, and the published file {source.size:,}"
    digests = checksums(path)
    if source.digest and source.digest not in digests:
        kind = source.digest.partition(":")[0]
        mine = next(each for each in digests if each.startswith(kind))
        return f"{path} has the checksum {mine}, and the published file {source.digest}"
    records = _records(folder)
    if source.name not in records:
        with suppress(OSError):  # a folder that is not writable
            _record(folder, source.name, digests[0])
    elif records[source.name] != digests[0]:
        return (
            f"{path} has changed since it was downloaded: its checksum is {digests[0]}, and was "
            f"{records[source.name]}"
        )
    return None


def checksums(path: Path) -> list[str]:
    """Compute the sha256 and md5 of a file."""
    sums = [hashlib.sha256(), hashlib.md5(usedforsecurity=False)]
    with path.open("rb") as file:
        while block := file.read(BLOCK):
            for each in sums:
                each.update(block)
    return [f"{each.name}:{each.hexdigest()}" for each in sums]


def _download(source: Source, path: Path, partial: Path, progress: DownloadProgress) -> None:
    reasons = []
    for url in source.urls:
        try:
            digest = _verified(source, url, partial, progress)
        except _MirrorError as error:
            reasons.append(f"{url}: {error}")
            continue
        _record(path.parent, source.name, digest)
        move(partial, path)
        _discard(partial)
        return
    again = "rerun the command"
    if _size(partial) > 0:
        again = "the partial download was kept; rerun the command to resume"
    raise ValueError(
        f"{source.name} could not be downloaded ({'; '.join(reasons)}): {again}, or put the file "
        f"at {path} yourself"
    )


def _verified(source: Source, url: str, partial: Path, progress: DownloadProgress) -> str:
    """Download a file from a mirror and return its sha256; delete it if its checksum is wrong.

    If it was resumed, what was there before may be wrong: then it is downloaded once more.
    """
    resumed = _size(partial) > 0
    _from_mirror(source, url, partial, progress)
    digests = checksums(partial)
    if not source.digest or source.digest in digests:
        return digests[0]
    _discard(partial)
    if resumed:
        return _verified(source, url, partial, progress)
    raise _MirrorError(f"its checksum is not {source.digest}")


def _discard(partial: Path) -> None:
    delete(partial)
    delete(_state_file(partial))


def _from_mirror(source: Source, url: str, partial: Path, progress: DownloadProgress) -> None:
    """Download the file from a mirror, reconnecting as often as needed."""
    tries = 0
    while True:
        before = _size(partial)
        try:
            _download_piece(source, url, partial, progress)
            return
        except OSError as error:
            if error.errno in NO_SPACE:
                raise ValueError(_no_space(source, partial)) from None
            if isinstance(error, urllib.error.HTTPError):
                if error.code < 500:
                    raise _MirrorError(f"the server says {error.code} {error.reason}") from None
            elif error.filename:  # an error of the disk
                raise
            why = getattr(error, "reason", error)
        except http.client.HTTPException as error:
            why = error or type(error).__name__
        tries = 0 if _size(partial) > before else tries + 1
        if tries == TRIES:
            raise _MirrorError(f"{why}")
        time.sleep(0.5 * 2**tries if tries else 0)


def _download_piece(source: Source, url: str, partial: Path, progress: DownloadProgress) -> None:
    """Append to the file what one connection delivers."""
    known = _read_state(partial)
    have, same = _size(partial), known and known.url == url and known.tag
    # Without a checksum to compare at the end, resume only if it is certainly the same file, and
    # only from what is certainly on the disk.
    if not source.digest:
        have = min(have, known.synced) if known and same else 0
    headers = dict(_AGENT)
    if have:
        headers["Range"] = f"bytes={have}-"
        if same:
            headers["If-Range"] = same
    try:
        answer = urllib.request.urlopen(
            urllib.request.Request(url, headers=headers), timeout=TIMEOUT
        )
    except urllib.error.HTTPError as error:
        error.close()
        if error.code == 416 and have:  # there is nothing after these bytes
            if _is_complete(source, have, str(error.headers.get("Content-Range", ""))):
                return
            delete(partial)
            raise ConnectionError("the partial download was of another file") from None
        raise
    with answer:
        if answer.status != 206:
            have = 0
        total = _total(answer, have)
        if source.size is not None and total is not None and total != source.size:
            raise _MirrorError(
                f"it offers {total:,} bytes, and the published file has {source.size:,}"
            )
        end = total if total is not None else source.size
        # An answer in chunks marks its own end.
        chunked = str(answer.headers.get("Transfer-Encoding", "")).lower() == "chunked"
        if end is None and not source.digest and not chunked:
            raise _MirrorError(
                "it does not say how long the file is, so truncation would go unnoticed"
            )
        if shutil.disk_usage(partial.parent).free < (total or 0) - have:
            raise OSError(errno.ENOSPC, "no space")
        state = _State(url, answer.headers.get("ETag") or answer.headers.get("Last-Modified"))
        have = _append(answer, partial, have, end, state, progress)
    if end is not None and have < end:
        raise ConnectionError(f"the connection ended after {have:,} of {end:,} bytes")


def _append(
    answer: Any,
    partial: Path,
    have: int,
    end: int | None,
    state: _State,
    progress: DownloadProgress,
) -> int:
    """Write what a connection delivers after the first bytes, which are kept; return the size.

    The file beside the partial download says how much of it is on the disk.
    """
    synced = have
    write_checked(_state_file(partial), state._replace(synced=synced))
    with OutputFile(partial, "r+b" if have else "wb") as file:
        file.truncate(have)
        file.seek(have)
        progress(have, end)
        try:
            while block := answer.read(BLOCK):
                file.write(block)
                have += len(block)
                progress(have, end)
                if end is not None and have > end:
                    raise _MirrorError(f"it sends more than the {end:,} bytes it should")
                if have - synced >= SYNCED:
                    synced = have
                    _sync(file, state, synced)
        finally:
            _sync(file, state, have)
    return have


def _sync(file: OutputFile, state: _State, size: int) -> None:
    file.sync()
    write_checked(_state_file(file.place), state._replace(synced=size))


def _is_complete(source: Source, have: int, content_range: str) -> bool:
    """Return whether all bytes are there, or a checksum will tell."""
    length = content_range.rpartition("/")[2]
    known = {source.size, int(length) if length.isdigit() else None} - {None}
    return known == {have} if known else bool(source.digest)


def _total(answer: Any, have: int) -> int | None:
    """Return the size of the whole file according to the server."""
    if answer.status == 206:
        span, _, total = str(answer.headers.get("Content-Range", "")).partition("/")
        if not span.startswith(f"bytes {have}-"):
            raise _MirrorError(f"asked for bytes from {have}, it sends {span or 'others'}")
        return int(total) if total.isdigit() else None
    length = str(answer.headers.get("Content-Length", ""))
    return int(length) if length.isdigit() else None


def _no_space(source: Source, partial: Path) -> str:
    size = f", which has {source.size:,} bytes" if source.size else ""
    return (
        f"there is not enough space in {partial.parent} for {source.name}{size}; the partial "
        "download was kept. Free some space and rerun the command, or choose another folder with "
        "the environment variable UNWEAVE_DATA"
    )


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def _state_file(partial: Path) -> Path:
    return partial.with_name(f"{partial.name}.json")


def _read_state(partial: Path) -> _State | None:
    """Return the record of a partial download; discard the download if its record is damaged."""
    path = _state_file(partial)
    try:
        return read_checked(path, _State) if path.exists() else None
    except (ValueError, RecursionError):
        warnings.warn(f"{path} was damaged: the download starts again", stacklevel=2)
        _discard(partial)
        return None


def _records(folder: Path) -> dict[str, str]:
    """Read the checksums of files by name; {} if there are none yet."""
    path = folder / RECORDS
    try:
        content = path.read_bytes() if path.exists() else b"{}"
        return {**adapter(dict[str, str]).validate_json(content)}
    except ValueError:
        raise ValueError(
            f"expected a JSON object of names and checksums in {path}: restore it, or delete it "
            "to trust the files next to it"
        ) from None


def _record(folder: Path, name: str, digest: str) -> None:
    with FileLock(folder / f"{RECORDS}.lock"):
        delete_unfinished(folder, RECORDS)
        write_json(folder / RECORDS, _records(folder) | {name: digest})
