"""Disks that record what a command does, fail or lose power, and what a crash may leave of it.

A crash may keep or lose, independently of each other: every change of a name in a folder since the
folder was last synced, and every write to a file since the file was last synced. A file may also be
left with a part of what was written to it, or with zeros instead.
"""

import contextlib
import hashlib
import itertools
import math
import os
import random
import shutil
import signal
import warnings
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple
from unittest.mock import patch

from unweave.core import files
from unweave.core.files import UNFINISHED, Disk

PARTS = 4  # of a file that was not synced, of which only the first ones may be left


class Operation(NamedTuple):
    kind: str
    path: Path
    argument: object = None


class WatchedDisk(Disk):
    """A disk that calls `before` ahead of each operation, and does not wait for real disks."""

    def before(self, operation):
        raise NotImplementedError

    def sync(self, file):
        self.before(Operation("sync", Path(file.name)))

    def sync_folder(self, path):
        self.before(Operation("sync_folder", path))

    def write(self, file, content):
        copy = bytes(memoryview(content))
        self.before(Operation("write", Path(file.name), (file.tell(), copy)))
        return super().write(file, content)

    def truncate(self, file, size):
        self.before(Operation("truncate", Path(file.name), size))
        super().truncate(file, size)

    def open(self, path, mode):
        self.before(Operation("open", path, mode))
        return super().open(path, mode)

    def replace(self, source, target):
        self.before(Operation("replace", source, target))
        super().replace(source, target)

    def unlink(self, path):
        self.before(Operation("unlink", path))
        super().unlink(path)

    def mkdir(self, path):
        self.before(Operation("mkdir", path))
        super().mkdir(path)

    def rmdir(self, path):
        self.before(Operation("rmdir", path))
        super().rmdir(path)


class Recorder(WatchedDisk):
    """Records every operation."""

    def __init__(self):
        self.operations = []

    def before(self, operation):
        self.operations.append(operation)


class FailingDisk(WatchedDisk):
    """Fails at an operation, counted from 0; a full disk stays full, but files can be deleted."""

    def __init__(self, at, number):
        self.left, self.number, self.failed = at, number, None

    def before(self, operation):
        self.left -= 1
        full = self.number == files.errno.ENOSPC and operation.kind != "unlink"
        if self.left == -1 or (self.left < 0 and full):
            self.failed = self.failed or operation
            raise OSError(self.number, files.os.strerror(self.number))


class Killed(BaseException):
    """The process was killed."""


class DyingDisk(WatchedDisk):
    """Does nothing any more from an operation on, as if the process had been killed."""

    def __init__(self, at):
        self.left = at

    def before(self, operation):
        self.left -= 1
        if self.left < 0:
            self.die()

    def die(self):
        raise Killed


class KillingDisk(DyingDisk):
    """Kills the process before an operation, counted from 0."""

    def die(self):
        os.kill(os.getpid(), signal.SIGKILL)


def call_and_kill(at, function, *arguments):
    """Call a function in a process that is killed before an operation; return its text, or ""."""
    reading, writing = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # about threads of this process
        process = os.fork()
    if process == 0:
        try:
            with using(KillingDisk(at)):
                os.write(writing, str(function(*arguments)).encode())
        finally:
            os._exit(1)
    os.close(writing)
    with open(reading, "rb") as file:
        text = file.read().decode()
    os.waitpid(process, 0)
    return text


@contextlib.contextmanager
def using(disk):
    """Let unweave write to a disk."""
    with patch.object(files, "disk", disk):
        yield disk


@dataclass
class Node:
    """A file or folder: what is on the disk, and all that it may become before the next sync."""

    versions: list[bytes] = field(default_factory=lambda: [b""])
    folder: bool = False

    def contents(self):
        """Return what a crash may leave, such as a part of the last version, or zeros."""
        if len(self.versions) == 1:
            return self.versions
        old, new = self.versions[0], self.versions[-1]
        grown = max(0, len(new) - len(old))
        parts = [new[: len(old) + grown * part // PARTS] for part in range(PARTS)]
        return list(dict.fromkeys([*self.versions, *parts, old + bytes(grown)]))


class DiskModel:
    """Names and nodes under a folder, each with its versions since the last sync."""

    def __init__(self, root):
        self.root, self.names = root, {}
        for path, content in tree(root).items():
            self.names[path] = [Node([content or b""], content is None)]

    def apply(self, operation):
        kind, path, argument = operation
        if not path.is_relative_to(self.root) or (path == self.root and kind == "mkdir"):
            return
        name = self._name(path)
        if kind == "sync_folder":
            for each, versions in self.names.items():
                if str(Path(each).parent) == name:
                    del versions[:-1]
        elif kind == "replace":
            self._set(self._name(argument), self._node(name))
            self._set(name, None)
        elif kind in ("unlink", "rmdir"):
            self._set(name, None)
        elif kind == "mkdir" and not self._node(name):
            self._set(name, Node(folder=True))
        elif kind == "open" and not self._node(name):
            self._set(name, Node())
        elif kind in ("open", "write", "truncate", "sync"):
            self._change(self._node(name), kind, argument)

    def _change(self, node, kind, argument):
        old = node.versions[-1]
        if kind == "sync":
            del node.versions[:-1]
        elif kind == "write":
            start, content = argument
            node.versions.append(old[:start] + content + old[start + len(content) :])
        elif kind == "truncate":
            node.versions.append(old[:argument])
        elif argument == "wb":
            node.versions.append(b"")

    def _name(self, path):
        return str(path.relative_to(self.root))

    def _node(self, name):
        return self.names.get(name, [None])[-1]

    def _set(self, name, node):
        versions = self.names.setdefault(name, [None])
        if versions[-1] is not node:
            versions.append(node)

    def crashes(self, most, draw):
        """Yield trees that a crash may leave: all of them, or `most` of them drawn at random."""
        nodes = {id(node): node for versions in self.names.values() for node in versions}
        names = {name: list(map(id, versions)) for name, versions in self.names.items()}
        contents = {key: node.contents() for key, node in nodes.items() if node}
        keys = [*names, *contents]
        options = [list(dict.fromkeys(each)) for each in (*names.values(), *contents.values())]
        if math.prod(map(len, options)) <= most:
            chosen = itertools.product(*options)
        else:
            whole = [[each[end] for each in names.values()] for end in (0, -1)]
            last = [each[-1] for each in contents.values()]
            chosen = [[*each, *last] for each in whole]
            chosen += [[draw.choice(each) for each in options] for _ in range(most - 2)]
        for each in chosen:
            picked = dict(zip(keys, each, strict=True))
            found = {name: nodes[picked[name]] for name in names if nodes[picked[name]]}
            yield {
                name: None if node.folder else picked[id(node)]
                for name, node in found.items()
                if all(str(parent) in found for parent in list(Path(name).parents)[:-1])
            }


def crash_states(root, before, operations, most=256, seed=0):
    """Return the distinct trees that a crash during operations may leave, and how many were made.

    Those that differ only in unfinished files count once, with as many of these as there may be.
    Leases and records of workers, which are never synced, are added to each as they were written,
    in part, or not at all.
    """
    draw, found, made = random.Random(seed), {}, 0
    passing = [operation for operation in operations if is_passing(operation.path)]
    operations = [operation for operation in operations if not is_passing(operation.path)]
    model = DiskModel(root)
    model.names = {name: [Node([c or b""], c is None)] for name, c in before.items()}
    for operation in [None, *operations]:
        if operation:
            model.apply(operation)
        for state in model.crashes(most, draw):
            made += 1
            key = digest({name: c for name, c in state.items() if UNFINISHED not in name})
            if len(state) > len(found.get(key, ())) or key not in found:
                found[key] = state
    written = {each.path: each.argument[1] for each in passing if each.kind == "write"}
    for path, content in written.items():
        for state in found.values():
            left = draw.choice([None, content, content[: len(content) // 2], b""])
            if left is not None and str(path.parent.relative_to(root)) in state:
                state[str(path.relative_to(root))] = left
    return list(found.values()), made


def is_passing(path):
    """Whether a file is deleted when the command that wrote it ends."""
    return path.name.startswith("lease-") or path.parent.name == ".workers"


def tree(root):
    """Return the content of all files by name, None for folders; without locks of downloads."""
    return {
        str(path.relative_to(root)): None if path.is_dir() else path.read_bytes()
        for path in sorted(root.rglob("*"))
        if path.suffix != ".lock"
    }


def build(root, state):
    """Replace a folder by a tree."""
    shutil.rmtree(root, ignore_errors=True)
    root.mkdir()
    for name, content in sorted(state.items()):
        if content is None:
            (root / name).mkdir()
        else:
            (root / name).write_bytes(content)


def digest(state):
    total = hashlib.sha256()
    for name, content in sorted(state.items()):
        total.update(f"{name}\0{content is None}\0{len(content or b'')}\0".encode())
        total.update(content or b"")
    return total.digest()
