"""Leases and heartbeats where file systems list names late, remember them, or do not answer."""

import pytest

from crash_replay import using
from lease_takers import Clock, leases_in, leave, workers
from unweave.core.files import Disk
from unweave.core.processes import Process, this_process
from unweave.training import heartbeats
from unweave.training.heartbeats import Worker
from unweave.training.leases import FolderInUse, Leases


class OldList(Disk):
    """A network file system that lists the leases of others only after some looks."""

    looks = 1000

    def names(self, folder):
        self.looks -= 1
        return [name for name in super().names(folder) if self.looks <= 0 or "lease" not in name]


def test_a_lease_that_is_not_listed_yet_is_found(tmp_path):
    """With sshfs, a process used to try for up to 20 seconds to create the same file."""
    leave(tmp_path, Process("there", "0", 1, 0))
    clock = Clock()
    mine = Leases(Process("here", "0", 1, 0), lambda _: None, clock, clock.sleep)
    with using(OldList()) as disk:
        with pytest.raises(FolderInUse, match="process 1 on there"), mine.hold(tmp_path, wait=0):
            pass
        assert disk.looks > 990
    assert leases_in(tmp_path) == ["lease-1.json"]


def test_a_stale_lease_that_is_not_listed_yet_is_taken_over(tmp_path):
    """It was found, but missed in the list that is read again, until it was listed."""
    leave(tmp_path)
    with using(OldList()) as disk:
        with workers(1)[0].hold(tmp_path):
            assert disk.looks > 990
        assert leases_in(tmp_path) == []


def beside_another(store):
    """Return a clock and the leases of a process that uses it, beside a run of another machine."""
    clock, other = Clock(), Process("there", "0", 1, 0)
    (store / "run").mkdir()
    leave(store / "run", other)
    (store / ".workers").mkdir()
    Worker(store, other).beat()
    return clock, Leases(Process("here", "0", 1, 0), lambda _: None, clock, clock.sleep)


def test_time_in_which_the_store_does_not_answer_does_not_count(tmp_path):
    """After a server had stopped for a minute, live processes were taken for dead."""
    clock, mine = beside_another(tmp_path)
    with mine.working(tmp_path) as own:
        for pause in (0.0, 80.0, *[10.0] * 4):  # in the long pause the server does not answer
            clock.sleep(pause)
            with pytest.raises(FolderInUse), mine.hold(tmp_path / "run", wait=0):
                pass
            own.beat()
        clock.sleep(10.0)
        with mine.hold(tmp_path / "run", wait=0):
            pass


def test_time_in_which_the_store_does_not_answer_a_process_that_waits_does_not_count(tmp_path):
    """A process that waits for runs of others has no heartbeats, and took live ones for dead."""
    clock, mine = beside_another(tmp_path)
    for pause in (0.0, 3.0, 80.0, *[3.0] * 13):  # in the long pause the server does not answer
        clock.sleep(pause)
        assert mine.is_held(tmp_path / "run")
        with pytest.raises(FolderInUse), mine.hold(tmp_path / "run", wait=0):
            pass
    for _ in range(3):
        clock.sleep(3.0)
        mine.is_held(tmp_path / "run")
    assert not mine.is_held(tmp_path / "run")


def test_an_hour_in_which_a_process_did_not_look_does_not_count(tmp_path):
    """Then a store that had just become reachable again made live processes seem dead."""
    clock, other = Clock(), Process("there", "0", 1, 0)
    (tmp_path / "run").mkdir()
    leave(tmp_path / "run", other)
    mine = Leases(Process("here", "0", 1, 0), lambda _: None, clock, clock.sleep)
    for _ in range(2):
        with pytest.raises(FolderInUse), mine.hold(tmp_path / "run", wait=0):
            pass
        clock.sleep(3600.0)


class RememberedFolder(Disk):
    """A network file system that remembers a folder which another machine has deleted."""

    tries = 500

    def mkdir(self, path):
        self.tries -= path.name == ".workers"
        if self.tries <= 0 or path.name != ".workers":
            super().mkdir(path)


def test_a_deleted_folder_that_a_network_file_system_remembers_is_created(tmp_path, monkeypatch):
    """With sshfs, a command ended with an error if the last worker elsewhere had just ended."""
    monkeypatch.setattr(heartbeats, "_PAUSE", 0.0)
    worker = Worker(tmp_path, this_process())
    with using(RememberedFolder()):
        worker.begin()
        assert worker.path.exists()
        worker.end()
