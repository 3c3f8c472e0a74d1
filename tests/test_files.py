"""The one layer that writes files: what it does in which order, and that nothing goes around it."""

import errno
import os
import re
from pathlib import Path

import numpy as np
import pytest

from crash_replay import FailingDisk, Recorder, using
from unweave.core import files
from unweave.core.files import (
    UNFINISHED,
    Disk,
    atomically,
    delete_unfinished,
    make_folder,
    sync_once,
    write_atomically,
)

SOURCE = Path(files.__file__).parents[1]
WRITES = re.compile(
    r"\.(write_text|write_bytes|unlink|rmdir|rmtree|mkdir|touch|symlink_to|hardlink_to)\("
    r"|\bos\.(replace|rename|remove|makedirs|link|symlink|truncate)\("
    r"|\bdisk\.(open|write|truncate|sync|sync_folder|replace|create|put)\("  # errors need the path
    r"""|\bopen\([^()]*["']([wax]b?|r\+b?)["']"""
)


def kinds(recorder):
    return [operation.kind for operation in recorder.operations]


def test_a_file_that_was_never_opened_can_be_closed():
    """The finaliser closes it, and prints what is raised then."""
    files.OutputFile.__new__(files.OutputFile).close()


def test_a_file_is_synced_then_renamed_then_its_folder_is_synced(tmp_path):
    with using(Recorder()) as recorder:
        write_atomically(tmp_path / "file", b"content")
    assert kinds(recorder) == ["open", "write", "sync", "replace", "sync_folder"]
    assert recorder.operations[-1].path == tmp_path


def test_every_new_folder_is_synced_in_its_parent(tmp_path):
    with using(Recorder()) as recorder:
        make_folder(tmp_path / "a" / "b")
    done = [(operation.kind, operation.path) for operation in recorder.operations]
    assert done == [
        ("mkdir", tmp_path / "a"), ("sync_folder", tmp_path),
        ("mkdir", tmp_path / "a" / "b"), ("sync_folder", tmp_path / "a"),
    ]  # fmt: skip


def test_many_files_share_one_sync_of_their_folder(tmp_path):
    with using(Recorder()) as recorder:
        with sync_once():
            for name in "abc":
                write_atomically(tmp_path / name, b"")
            assert "sync_folder" not in kinds(recorder)
        write_atomically(tmp_path / "d", b"")
    assert kinds(recorder).count("sync_folder") == 2


@pytest.mark.parametrize("number", [errno.EACCES, errno.EINVAL, errno.EIO])
def test_folders_that_cannot_be_synced_are_left_alone(tmp_path, monkeypatch, number):
    """Windows refuses to open a folder, and some file systems to sync one."""

    def refuse(*_):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "open" if number == errno.EACCES else "fsync", refuse)
    if number == errno.EIO:
        with pytest.raises(OSError, match="Input/output error"):
            Disk().sync_folder(tmp_path)
    else:
        Disk().sync_folder(tmp_path)


@pytest.mark.parametrize("place", range(5))
def test_errors_name_the_file_and_leave_the_old_one(tmp_path, place):
    path = tmp_path / "x.npy"
    write_atomically(path, b"old")
    failing, full = using(FailingDisk(place, errno.ENOSPC)), "No space left"
    with failing, pytest.raises(OSError, match=full) as error, atomically(path) as file:
        np.save(file, np.zeros(0, np.uint8))  # one write, of the header
    assert error.value.filename == str(tmp_path if place == 4 else path)
    assert [each.name for each in tmp_path.iterdir()] == ["x.npy"]
    assert (path.read_bytes() == b"old") == (place < 4)


def test_only_unfinished_files_of_the_name_are_deleted(tmp_path):
    ours, longer = (tmp_path / f"{UNFINISHED}{'0' * 32}-{name}" for name in ("a", "b-a"))
    for path in (ours, longer, tmp_path / "a"):
        path.write_bytes(b"")
    delete_unfinished(tmp_path, "a")
    assert sorted(tmp_path.iterdir()) == [longer, tmp_path / "a"]
    delete_unfinished(tmp_path)
    assert list(tmp_path.iterdir()) == [tmp_path / "a"]


def test_only_the_file_layer_writes_files():
    mirror = SOURCE / "training/remote_stores.py"  # copies of objects, which are put whole
    log = SOURCE / "executors/worker.py"  # what a worker prints
    others = {*SOURCE.rglob("*.py")} - {Path(files.__file__), mirror, log}
    found = [f"{path}: {each[0]}" for path in others for each in WRITES.finditer(path.read_text())]
    assert not found
