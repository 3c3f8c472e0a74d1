"""Stores in object storage, mirrored in a local folder; every change is written through.

`store_root("s3://bucket/study")` returns the mirror. Files are written there as in any store. When
a file gets its final name or is deleted, its object is uploaded whole or deleted before anything
else happens, so objects change in the same order as files. Leases and worker records exist only as
objects. The text files of runs are downloaded when the store or a run is opened; other files are
empty in the mirror until they are read. A worker trains a few runs of many, so it downloads text
only when it opens a run.

Anyone may have put objects into a bucket. The mirror has only those whose names lead to a file in
it, on any system.
"""

import atexit
import errno
import math
import os
import re
import shutil
import stat
import uuid
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import datetime
from fnmatch import fnmatchcase
from itertools import chain
from pathlib import Path
from typing import Any

from unweave.core import files
from unweave.core.files import SMALL, UNFINISHED, Disk, OddFile
from unweave.core.outputs import RUN
from unweave.core.processes import Process, has_ended, this_boot, this_process
from unweave.training.heartbeats import FOLDER
from unweave.training.records import LARGEST, RECORDS

_UNUSABLE = re.compile(r'[\\:*?"<>|\[\x00-\x1f\ud800-\udfff]').search  # in names of files
_MISNAMED = (errno.EEXIST, errno.EISDIR, errno.ENOTDIR, errno.ENAMETOOLONG, errno.EILSEQ)
_AT_ONCE = 128  # small files that are downloaded together
_SHOWN = 80  # characters of the name of an object


class RemoteStore:
    """A remote store, reached through fsspec, and the folder that mirrors it."""

    def __init__(self, url: str, root: Path) -> None:
        import fsspec  # not at the top: few stores are remote

        self.url, self.root = url.rstrip("/"), root
        self._system, base = fsspec.core.url_to_fs(self.url, skip_instance_cache=True)
        self._base = base.rstrip("/")
        self._versions: dict[Path, object] = {}  # of files as they were downloaded
        self._absent: dict[Path, int] = {}  # files that are not downloaded yet, and their sizes
        self._skipped: set[str] = set()  # objects that the mirror cannot have

    def name(self, path: Path) -> str:
        """Return the URL of a file."""
        return f"{self.url}/{path.relative_to(self.root).as_posix()}".removesuffix("/.")

    def _key(self, path: Path) -> str:
        return f"{self._base}/{path.relative_to(self.root).as_posix()}".removesuffix("/.")

    def check(self) -> None:
        """Raise an error unless the storage can create objects only if they do not exist."""
        path = self.root / FOLDER / f"check-{uuid.uuid4().hex}"
        try:
            created = self.create(path, b"first"), self.create(path, b"second")
            self.delete(path)
        except PermissionError:
            return  # what can be read can be shown
        if created != (True, False):
            raise ValueError(
                f"{self.url} cannot create an object only if it does not exist (conditional put), "
                "which leases need: use another store"
            )

    def create(self, path: Path, content: bytes) -> bool:
        """Put a new object; return False if it exists."""
        try:
            with self._errors(path):
                self._system.pipe_file(self._key(path), content, mode="create")
        except FileExistsError:
            return False
        return True

    def put(self, path: Path, content: bytes) -> None:
        """Put an object whole."""
        with self._errors(path):
            self._system.pipe_file(self._key(path), content)

    def upload(self, path: Path) -> None:
        """Put the content of a file of the mirror."""
        self._forget(path)
        with self._errors(path):
            self._system.put_file(str(path), self._key(path))

    def delete(self, path: Path) -> None:
        """Delete an object, if it exists."""
        self._forget(path)
        with suppress(FileNotFoundError), self._errors(path):
            self._system.rm_file(self._key(path))

    def _forget(self, path: Path) -> None:
        """Forget which version of an object the mirror has."""
        self._absent.pop(path, None)
        self._versions.pop(path, None)

    def read(self, path: Path, most: float) -> bytes | None:
        """Return the current content of an object; None if it does not exist.

        Raise an OddFile for more than `most` bytes, without downloading the rest.
        """
        try:
            with self._errors(path):
                content = self._begin(self._key(path), most)
        except FileNotFoundError:
            return None
        if len(content) > most:
            reason = f"expected at most {most:,} bytes, got more"
            raise OddFile(errno.EINVAL, reason, self.name(path))
        return content

    def _begin(self, key: str, most: float) -> bytes:
        """Return the first `most` bytes of an object, and one more if it has more."""
        end = None if math.isinf(most) else int(most) + 1
        try:
            content: bytes = self._system.cat_file(key, end=end)
        except Exception:
            if self._system.size(key):
                raise
            return b""  # of an empty object, S3 has no range of bytes
        return content

    def names(self, folder: Path) -> list[str]:
        """Return the names of all objects in a folder now, the latest change first."""
        try:
            with self._errors(folder):
                self._system.invalidate_cache()
                found = self._system.ls(self._key(folder), detail=True)
        except FileNotFoundError:
            return []
        newest = sorted(found, key=lambda facts: -_seconds(facts))
        return [facts["name"].rstrip("/").rpartition("/")[2] for facts in newest]

    def pull(self, folder: Path, text: bool = True) -> None:
        """Update a folder of the mirror: text is downloaded, other files are empty.

        Without `text`, only the settings of runs are downloaded.
        """
        with self._errors(folder):
            self._system.invalidate_cache()
            objects = self._system.find(self._key(folder), detail=True)
            there = self._mirrored(objects)
            for path in [path for path in folder.rglob("*") if path.is_file()]:
                if path not in there and path.parent.name != FOLDER:  # this process's own log
                    path.unlink()
                    self._forget(path)
            new = {path: _version(facts) for path, facts in there.items()}
            changed = [path for path in new if self._versions.get(path) != new[path]]
            now = [p for p in changed if p.name == RUN or (text and _is_text(p))]
            now = [path for path in now if there[path]["size"] <= LARGEST]
            later = set(changed).difference(now)
            for path in later:
                path.write_bytes(b"")
                self._absent[path] = there[path]["size"]
            large = {path for path in now if there[path]["size"] > SMALL}
            small = [path for path in now if path not in large]
            batches = (small[i : i + _AT_ONCE] for i in range(0, len(small), _AT_ONCE))
            got = chain(map(self._get, large), map(self._cat, batches))
            self._versions |= {path: new[path] for path in chain(later, *got)}
        for path, facts in there.items():
            if path.name == RUN and (time := _seconds(facts)):
                with suppress(FileNotFoundError):  # deleted meanwhile
                    os.utime(path, (time, time))  # runs are listed by the times of these files

    def _mirrored(self, objects: Mapping[str, Any]) -> dict[Path, Mapping[str, Any]]:
        """Create the folders of the objects that the mirror has; note others that are not empty."""
        lasting = {key: facts for key, facts in objects.items() if _lasts(key)}
        found = {path: key for key in lasting if (path := self._path(key))}
        folders = {folder for path in found for folder in path.parents}
        there = {}
        for path, key in found.items():
            if path not in folders and (path in self._versions or self._can_hold(path)):
                there[path] = lasting[key]
        used = {found[path] for path in there}
        skipped = {key for key, facts in lasting.items() if facts["size"] and key not in used}
        if new := sorted(skipped - self._skipped):
            self._skipped |= skipped
            others = f" and {len(new) - 1} more" if len(new) > 1 else ""
            warnings.warn(
                f"{self.url} has objects that cannot be files of a store, which are ignored: "
                f"{new[0][:_SHOWN]!r}{others}",
                stacklevel=2,
            )
        return there

    def _can_hold(self, path: Path) -> bool:
        """Create the folder of a file; return False if the mirror cannot have it beside others."""
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            return not stat.S_ISDIR(path.lstat().st_mode)
        except FileNotFoundError:
            return True
        except OSError as error:
            if error.errno in _MISNAMED:
                return False
            raise

    def fetch(self, path: Path) -> None:
        """Download a file that is empty in the mirror; raise an OddFile for too large a text."""
        size = self._absent.get(path)
        if size is None:
            return
        if _is_text(path) and size > LARGEST:
            reason = f"expected at most {LARGEST:,} bytes, got {size:,}"
            raise OddFile(errno.EINVAL, reason, self.name(path))
        with self._errors(path):
            self._system.get_file(self._key(path), str(path))
        del self._absent[path]

    def _path(self, key: str) -> Path | None:
        """Return the file of an object; None unless its name leads to one in the mirror."""
        base, key = self._base.lstrip("/") + "/", key.lstrip("/")
        names = key.removeprefix(base).split("/")
        fine = key.startswith(base) and all(map(_is_name, names))
        return self.root.joinpath(*names) if fine else None

    def _get(self, path: Path) -> list[Path]:
        """Download a file; return it, unless it was deleted meanwhile."""
        with suppress(FileNotFoundError):
            self._system.get_file(self._key(path), str(path))
            self._absent.pop(path, None)
            return [path]
        return []

    def _cat(self, paths: list[Path]) -> list[Path]:
        """Download small files; return all but those that were deleted meanwhile."""
        keys = {self._key(path): path for path in paths}
        downloaded = []
        for key, content in self._system.cat(list(keys), on_error="return").items():
            if isinstance(content, FileNotFoundError):
                continue
            if isinstance(content, Exception):
                raise content
            keys[key].write_bytes(content)
            self._absent.pop(keys[key], None)
            downloaded.append(keys[key])
        return downloaded

    @contextmanager
    def _errors(self, path: Path) -> Iterator[None]:
        """Convert the errors of storage libraries to an OSError that names the object."""
        try:
            yield
        except (FileExistsError, FileNotFoundError):
            raise
        except Exception as error:
            number = error.errno if isinstance(error, OSError) else None
            raise OSError(number or errno.EIO, str(error), self.name(path)) from error


class RemoteDisk(Disk):
    """The disk of a process that also writes to remote stores."""

    def __init__(self) -> None:
        self.stores: dict[Path, RemoteStore] = {}  # by mirror

    def _store(self, path: Path) -> RemoteStore | None:
        stores = (store for root, store in self.stores.items() if path.is_relative_to(root))
        return next(stores, None)

    def replace(self, source: Path, target: Path) -> None:
        super().replace(source, target)
        if store := self._store(target):
            store.upload(target)

    def unlink(self, path: Path) -> None:
        super().unlink(path)
        if (store := self._store(path)) and not path.name.startswith(UNFINISHED):
            store.delete(path)

    def create(self, path: Path, content: bytes) -> bool:
        store = self._store(path)
        return store.create(path, content) if store else super().create(path, content)

    def put(self, path: Path, content: bytes) -> None:
        store = self._store(path)
        return store.put(path, content) if store else super().put(path, content)

    def read(self, path: Path, most: float = SMALL) -> bytes | None:
        store = self._store(path)
        return store.read(path, most) if store else super().read(path, most)

    def names(self, folder: Path) -> list[str]:
        store = self._store(folder)
        return store.names(folder) if store else super().names(folder)

    def newest(self, folder: Path) -> list[str]:
        store = self._store(folder)
        return store.names(folder) if store else super().newest(folder)

    def push(self, path: Path) -> None:
        if store := self._store(path):
            store.upload(path)

    def pull(self, folder: Path) -> None:
        if store := self._store(folder):
            store.pull(folder)

    def fetch(self, path: Path) -> None:
        if store := self._store(path):
            store.fetch(path)

    def name(self, path: Path) -> str:
        store = self._store(path)
        return store.name(path) if store else super().name(path)


def store_root(place: str | Path, refresh: bool = True) -> Path:
    """Return the folder of a store: the place itself, or the mirror of a URL such as s3://a/b.

    With `refresh`, the text of all runs is downloaded, as far as it has changed. Without, a mirror
    that this process has already stays as it is, and text is downloaded when it is read. Raise a
    ValueError if the store cannot be opened.
    """
    url = str(place)
    if "://" not in url:
        return Path(place)
    if not isinstance(files.disk, RemoteDisk):
        files.disk = RemoteDisk()
    stores = files.disk.stores
    store = next((each for each in stores.values() if each.url == url.rstrip("/")), None)
    if store and not refresh:
        return store.root
    try:
        store = store or RemoteStore(url, _new_mirror(url))
        store.pull(store.root, text=refresh)
        store.check()
    except ImportError as error:
        raise ValueError(f"{url}: {error}; for s3:// use `pip install unweave[s3]`") from None
    except OSError as error:
        what = "there is no such bucket" if isinstance(error, FileNotFoundError) else error.strerror
        raise ValueError(
            f"cannot open the store {url} ({what or error}): check the name of the bucket, your "
            "credentials and the address of the service"
        ) from None
    stores[store.root] = store
    return store.root


def _new_mirror(url: str) -> Path:
    """Create a folder that is deleted when this process ends; delete those of dead processes.

    A process of this machine is also dead if the machine has been booted since.
    """
    from unweave.data.cache import data_folder  # not at the top: it needs torch

    parent = data_folder() / "stores"
    for name in os.listdir(parent) if parent.is_dir() else []:
        boot, _, owner = name.partition("-")
        with suppress(ValueError):
            process = Process.parse(owner)
            rebooted = process.host == this_process().host and boot != this_boot()
            if rebooted or has_ended(process):
                shutil.rmtree(parent / name, ignore_errors=True)
    own = parent / f"{this_boot()}-{this_process()}"
    if not own.exists():
        atexit.register(shutil.rmtree, own, ignore_errors=True)
    folder = own / re.sub(r"[^\w.-]+", "-", url)
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _lasts(key: str) -> bool:
    """Whether the mirror keeps an object: not leases, worker records, or markers of folders.

    >>> _lasts("bucket/study/3f2a/run.json"), _lasts("bucket/study/3f2a/")
    (True, False)
    """
    folder, _, name = key.rpartition("/")
    return not name.startswith("lease-") and name != "" and not folder.endswith(f"/{FOLDER}")


def _is_name(name: str) -> bool:
    """Whether a part of a key can name a file or a folder, on any system and in any folder.

    >>> [name for name in ("run.json", "", ".", "..", "C:", "*", "x" * 256) if _is_name(name)]
    ['run.json']
    """
    return name not in ("", ".", "..") and not _UNUSABLE(name) and len(name.encode()) <= 255


def _is_text(path: Path) -> bool:
    """Whether a file is text of a run."""
    return any(fnmatchcase(path.name, name) for name in RECORDS)


def _version(facts: Mapping[str, Any]) -> object:
    """Return a value that changes whenever the object does."""
    return facts.get("ETag") or (facts["size"], str(_changed(facts)))


def _changed(facts: Mapping[str, Any]) -> datetime | None:
    """Return when an object was put; fsspec's file systems name this differently."""
    times = (facts.get(name) for name in ("LastModified", "last_modified", "created", "mtime"))
    return next((time for time in times if isinstance(time, datetime)), None)


def _seconds(facts: Mapping[str, Any]) -> float:
    """Return when an object was put, on the clock of the storage; 0 if that is not known."""
    changed = _changed(facts)
    return changed.timestamp() if changed else 0.0
