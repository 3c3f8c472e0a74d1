"""Files of published data sets: where they are, how they are fetched, and whether they are whole.

A download goes on where it stopped, tries every mirror, and takes its place only when it is whole
and its checksum is right. Where nobody has published a checksum, the one of the first download is
put down, and compared from then on.
"""

from __future__ import annotations

import errno
import hashlib
import http.client
import json
import os
import shutil
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

from filelock import FileLock

from unweave.core.files import write_atomically

Told = Callable[[int, int | None], object]  # bytes there are, and bytes in all

BLOCK = 2**20
PATIENCE = 30  # seconds without a byte
TRIES = 4  # of a mirror in a row that bring nothing new
RECORDS = "checksums.json"

_AGENT = {"User-Agent": "unweave (https://pypi.org/project/unweave)"}
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


@dataclass(frozen=True)
class Source:
    """A file of a data set.

    `digest` is a published checksum, as "sha256:..." or "md5:...", or None where there is none that
    we know of. Without `urls` it is to be fetched by hand.
    """

    name: str
    size: int | None = None
    digest: str | None = None
    urls: tuple[str, ...] = ()


def published(kind: str, names: Sequence[str], *mirrors: str) -> tuple[Source, ...]:
    """The files of a data set, with their sizes and checksums as far as they are published."""
    text = files("unweave.data.published").joinpath("checksums.txt").read_text(encoding="utf-8")
    known = {name: rest for name, *rest in map(str.split, text.splitlines())}
    found = []
    for name in names:
        size, digest = known.get(f"{kind}/{name}", ("-", None))
        urls = tuple(f"{mirror}/{name}" for mirror in mirrors)
        found.append(Source(name, None if size == "-" else int(size), digest, urls))
    return tuple(found)


class _Wrong(Exception):
    """A mirror that gives something else than what is wanted."""


def fetch(source: Source, folder: Path, told: Told = lambda done, total: None) -> Path:
    """The file in a folder, downloaded if it is not there, and checked."""
    place = folder / source.name
    folder.mkdir(parents=True, exist_ok=True)
    with FileLock(f"{place}.lock"):
        if not place.exists():
            _download(source, place, told)
        elif problem := wrong_with(source, folder):
            raise ValueError(f"{problem}: delete it and run the same command again")
    return place


def wrong_with(source: Source, folder: Path) -> str | None:
    """What is wrong with a file that is there, if anything; an unknown checksum is put down."""
    place = folder / source.name
    size = place.stat().st_size
    if source.size is not None and size != source.size:
        return f"{place} has {size:,} bytes, and the published file {source.size:,}"
    found = checksums(place)
    if source.digest and source.digest not in found:
        kind = source.digest.partition(":")[0]
        mine = next(each for each in found if each.startswith(kind))
        return f"{place} has the checksum {mine}, and the published file {source.digest}"
    records = _records(folder)
    if source.name not in records:
        _record(folder, source.name, found[0])
    elif records[source.name] != found[0]:
        return f"{place} is not what it was when it came: {found[0]}, then {records[source.name]}"
    return None


def checksums(path: Path) -> list[str]:
    """Sha256 and md5 of a file."""
    sums = [hashlib.sha256(), hashlib.md5(usedforsecurity=False)]
    with path.open("rb") as file:
        while block := file.read(BLOCK):
            for each in sums:
                each.update(block)
    return [f"{each.name}:{each.hexdigest()}" for each in sums]


def _download(source: Source, place: Path, told: Told) -> None:
    beside = place.with_name(f"{source.name}.part")
    reasons = []
    for url in source.urls:
        try:
            _from_mirror(source, url, beside, told)
            found = _verified(source, beside)
        except _Wrong as error:
            reasons.append(f"{url}: {error}")
            continue
        _record(place.parent, source.name, found)
        os.replace(beside, place)
        _about(beside).unlink(missing_ok=True)
        return
    raise ValueError(
        f"{source.name} could not be fetched ({'; '.join(reasons)}). What came is kept, and the "
        f"same command goes on from there; or put the file at {place} by hand"
    )


def _verified(source: Source, beside: Path) -> str:
    """The sha256 of what came, if it is what is published."""
    found = checksums(beside)
    if source.digest and source.digest not in found:
        beside.unlink()
        _about(beside).unlink(missing_ok=True)
        raise _Wrong(f"its checksum is not {source.digest}")
    return found[0]


def _from_mirror(source: Source, url: str, beside: Path, told: Told) -> None:
    """Bring the file beside its place to its end, in as many pieces as it takes."""
    tries = 0
    while True:
        before = _size(beside)
        try:
            _piece(source, url, beside, told)
            return
        except OSError as error:
            if error.errno in _FULL:
                raise ValueError(_no_room(source, beside)) from None
            if isinstance(error, urllib.error.HTTPError) and error.code < 500:
                raise _Wrong(f"the server says {error.code} {error.reason}") from None
            why = getattr(error, "reason", error)
        except http.client.HTTPException as error:
            why = error or type(error).__name__
        tries = 0 if _size(beside) > before else tries + 1
        if tries == TRIES:
            raise _Wrong(f"{why}")
        time.sleep(0.5 * 2**tries if tries else 0)


def _piece(source: Source, url: str, beside: Path, told: Told) -> None:
    """One connection: from where the file ends to where the server does."""
    have, known = _size(beside), _read_about(beside)
    # Without a checksum to compare in the end, only what is surely the same file is gone on with.
    if not source.digest and not (known.get("url") == url and known.get("tag")):
        have = 0
    headers = dict(_AGENT)
    if have:
        headers["Range"] = f"bytes={have}-"
        if known.get("url") == url and known.get("tag"):
            headers["If-Range"] = known["tag"]
    try:
        answer = urllib.request.urlopen(
            urllib.request.Request(url, headers=headers), timeout=PATIENCE
        )
    except urllib.error.HTTPError as error:
        error.close()
        if error.code == 416 and have:  # there is nothing after what we have
            if _all_there(source, have, str(error.headers.get("Content-Range", ""))):
                return
            beside.unlink()
            raise ConnectionError("what was there was not the beginning of the file") from None
        raise
    with answer:
        if answer.status != 206:
            have = 0
        total = _total(answer, have)
        if source.size is not None and total is not None and total != source.size:
            raise _Wrong(f"it offers {total:,} bytes, and the published file has {source.size:,}")
        end = total if total is not None else source.size
        if end is None and not source.digest and not _in_chunks(answer):
            raise _Wrong("it does not say how long the file is, so that a cut would not be seen")
        _check_room(beside, (total or 0) - have)
        about = {
            "url": url,
            "tag": answer.headers.get("ETag") or answer.headers.get("Last-Modified"),
        }
        write_atomically(_about(beside), json.dumps(about).encode())
        with beside.open("r+b" if have else "wb") as file:
            file.seek(have)
            told(have, end)
            while block := answer.read(BLOCK):
                file.write(block)
                have += len(block)
                told(have, end)
                if end is not None and have > end:
                    raise _Wrong(f"it sends more than the {end:,} bytes it should")
            file.flush()
            os.fsync(file.fileno())
    if end is not None and have < end:
        raise ConnectionError(f"the connection ended after {have:,} of {end:,} bytes")


def _all_there(source: Source, have: int, told: str) -> bool:
    """Whether as many bytes are there as the file has, or a checksum will say so."""
    length = told.rpartition("/")[2]
    known = {source.size, int(length) if length.isdigit() else None} - {None}
    return known == {have} if known else bool(source.digest)


def _in_chunks(answer: Any) -> bool:
    """Whether an answer has an end of its own, without which it counts as cut off."""
    return str(answer.headers.get("Transfer-Encoding", "")).lower() == "chunked"


def _total(answer: Any, have: int) -> int | None:
    """Bytes of the whole file by the server's word."""
    if answer.status == 206:
        span, _, total = str(answer.headers.get("Content-Range", "")).partition("/")
        if not span.startswith(f"bytes {have}-"):
            raise _Wrong(f"asked for bytes from {have}, it sends {span or 'others'}")
        return int(total) if total.isdigit() else None
    length = str(answer.headers.get("Content-Length", ""))
    return int(length) if length.isdigit() else None


def _check_room(beside: Path, wanted: int) -> None:
    if shutil.disk_usage(beside.parent).free < wanted:
        raise OSError(errno.ENOSPC, "no room")


def _no_room(source: Source, beside: Path) -> str:
    size = f", which has {source.size:,} bytes" if source.size else ""
    return (
        f"there is no room in {beside.parent} for {source.name}{size}; what came is kept. Free "
        "some space and run the same command again, or choose another place with the variable "
        "UNWEAVE_DATA"
    )


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def _about(beside: Path) -> Path:
    return beside.with_name(f"{beside.name}.json")


def _read_about(beside: Path) -> dict[str, str]:
    try:
        return _read_json(_about(beside))
    except ValueError:
        return {}


def _records(folder: Path) -> dict[str, str]:
    return _read_json(folder / RECORDS)


def _read_json(path: Path) -> dict[str, str]:
    """What a file of names and values says, where it is there."""
    try:
        content = json.loads(path.read_text()) if path.exists() else {}
    except ValueError as error:
        content = error
    if not isinstance(content, dict):
        raise ValueError(
            f"expected names with their values in {path}, as we write them, got {content}: put it "
            "back as it was, or delete it, and what is here is then taken as right"
        )
    return content


def _record(folder: Path, name: str, digest: str) -> None:
    with FileLock(folder / f"{RECORDS}.lock"):
        records = _records(folder) | {name: digest}
        write_atomically(folder / RECORDS, (json.dumps(records, indent=2) + "\n").encode())
