"""Leases: one process at a time, the dead are replaced, and the replaced write nothing."""

import contextlib
import errno
import multiprocessing
import os
import signal
import sys
import threading
import time
from unittest.mock import patch

import pytest

from crash_replay import tree, using
from datasets import DATASET, small_run
from interleavings import OldLists, Schedule, ScheduledDisk, all_switches
from lease_takers import NOBODY, Clock, leases_in, leave, workers
from unweave.core import files
from unweave.core.files import write_atomically
from unweave.core.processes import Process, has_ended, this_process
from unweave.training import Silent, train
from unweave.training.heartbeats import Worker, read_record
from unweave.training.leases import FolderInUse, LeaseLost, Leases, own_leases
from unweave.training.run_files import RunFiles
from unweave.training.store import Store

# ---- interleavings


class Race:
    """Processes that take the lease of a folder, write there and release it, some rounds each.

    Leases that dead processes have left may be there. If the first is a zombie, the others take it
    for dead.
    """

    def __init__(self, folder, count, left, zombie, rounds, wait):
        self.folder, self.rounds, self.wait = folder, rounds, wait
        self.leases = workers(count, dead=[0] if zombie else [])
        self.inside, self.taken, self.lost = {}, 0, 0
        folder.mkdir()
        for number in range(left):
            leave(folder, number=number + 1)

    def run(self, switches, disk=ScheduledDisk):
        """Run all with these switches; return how many operations there were."""
        self.schedule = Schedule(switches, self.at_most_one_may_write)
        numbers = range(len(self.leases))
        with using(disk(self.schedule)), patch.object(files, "fence", no_fence):
            self.schedule.run([lambda number=number: self.work(number) for number in numbers])
        return self.schedule.operations

    def work(self, number):
        own = self.leases[number]
        own._sleep, own.working = self.schedule.sleep, contextlib.nullcontext
        for _ in range(self.rounds):
            with contextlib.suppress(FolderInUse), own.hold(self.folder, self.wait) as lease:
                self.inside[number] = lease
                self.taken += 1
                try:
                    lease.check()
                    lease.check()
                except LeaseLost:
                    self.lost += 1
                finally:
                    del self.inside[number]

    def at_most_one_may_write(self):
        there = {path.read_bytes() for path in self.folder.glob("lease-*")}
        assert sum(lease.content in there for lease in self.inside.values()) <= 1


def no_fence(folder, check):
    return contextlib.nullcontext()


RACES = {
    "a dead holder": dict(count=2, left=1, zombie=False, rounds=1, wait=True),
    "a free folder": dict(count=2, left=0, zombie=False, rounds=1, wait=True),
    "two dead holders and three takers": dict(count=3, left=2, zombie=False, rounds=1, wait=True),
    "a zombie": dict(count=2, left=0, zombie=True, rounds=1, wait=True),
    "a zombie and three takers": dict(count=3, left=1, zombie=True, rounds=1, wait=False),
    "names that are used again": dict(count=3, left=1, zombie=False, rounds=2, wait=True),
}


@pytest.mark.parametrize(
    ("name", "most"),
    [
        *((name, 1) for name in RACES),
        ("a dead holder", 2),
        *(pytest.param(name, 2, marks=pytest.mark.slow) for name in list(RACES)[1:]),
    ],
)
def test_at_most_one_process_may_write_whatever_the_order(tmp_path, name, most):
    setting = RACES[name]
    count = Race(tmp_path / "first", **setting).run({})
    for number, switches in enumerate(all_switches(count, setting["count"], most)):
        race = Race(tmp_path / str(number), **setting)
        race.run(switches)
        assert leases_in(race.folder) == []
        assert setting["zombie"] or race.lost == 0
        if setting["wait"] and not setting["zombie"]:
            assert race.taken == setting["count"] * setting["rounds"]
        assert race.taken > 0


@pytest.mark.parametrize("name", RACES)
def test_at_most_one_process_may_write_where_lists_of_names_are_old(tmp_path, name):
    setting = RACES[name]
    count = Race(tmp_path / "first", **setting).run({}, OldLists)
    for number, switches in enumerate(all_switches(count, setting["count"], 1)):
        race = Race(tmp_path / str(number), **setting)
        race.run(switches, OldLists)
        assert leases_in(race.folder) == []
        assert race.taken > 0


def test_operations_of_other_threads_do_not_switch():
    schedule = Schedule({1: 1}, lambda: None)
    order = []

    def first():
        other = threading.Thread(target=schedule.point)
        other.start()
        other.join(10)
        assert not other.is_alive()
        order.append("first")

    schedule.run([first, lambda: order.append("second")])
    assert (order, schedule.operations) == (["first", "second"], 0)


def compete(number, folder, barrier, taken, rounds, ended):
    """Try to take a lease in each round, together with others, and keep it until all have tried."""
    for each in range(rounds):
        if number == 0 and each % 2:
            leave(folder, ended)
        barrier.wait(60)
        with contextlib.ExitStack() as stack:
            with contextlib.suppress(FolderInUse):
                stack.enter_context(own_leases().hold(folder, wait=False))
                taken[each * 8 + number] = 1
            barrier.wait(60)
        barrier.wait(60)


def test_one_of_eight_processes_wins_each_race(tmp_path):
    """In every other race, a lease is there whose process has ended."""
    rounds, folder = 20, tmp_path / "run"
    folder.mkdir()
    context = multiprocessing.get_context("fork")
    barrier, taken = context.Barrier(8), context.Array("b", 8 * rounds)
    gone = context.Process()
    gone.start()
    ended = this_process()._replace(pid=gone.pid)
    gone.join()
    facts = folder, barrier, taken, rounds, ended
    processes = [context.Process(target=compete, args=(each, *facts)) for each in range(8)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(60)
        assert process.exitcode == 0
    assert [sum(taken[8 * each : 8 * each + 8]) for each in range(rounds)] == [1] * rounds
    assert tree(tmp_path) == {"run": None}


# ---- dead processes


def hold_forever(folder, taken):
    with own_leases().hold(folder):
        taken.set()
        time.sleep(600)


def test_the_lease_of_a_killed_process_is_taken_at_once(tmp_path):
    folder, context = tmp_path / "run", multiprocessing.get_context("fork")
    folder.mkdir()
    taken = context.Event()
    process = context.Process(target=hold_forever, args=(folder, taken))
    process.start()
    assert taken.wait(60)
    assert RunFiles(folder).locked
    with pytest.raises(FolderInUse, match=rf"process {process.pid} on "):
        own_leases()._take(folder, wait=False)
    os.kill(process.pid, signal.SIGKILL)
    while RunFiles(folder).locked:  # also before its parent has waited for it
        time.sleep(0.001)
    with RunFiles(folder).lock(wait=False):
        assert leases_in(folder) == ["lease-2.json"]
        assert len(list(tmp_path.glob(".workers/*"))) == 1
    process.join()
    assert tree(tmp_path) == {"run": None}


def test_a_process_is_identified_by_its_number_and_start():
    here = this_process()
    assert Process.parse(str(here)) == here
    assert has_ended(here) is False
    assert has_ended(here._replace(started=here.started - 1)) is True
    assert has_ended(here._replace(host="elsewhere")) is None
    assert has_ended(here._replace(machine="0")) is None


def test_the_name_of_the_machine_can_be_chosen(monkeypatch):
    monkeypatch.setenv("UNWEAVE_HOST", "node-7/a")
    assert this_process().host == "node.7.a"
    assert Process.parse(str(this_process())) == this_process()


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"worker": "me"}', b'{"worker": 3}'])
def test_a_lease_that_was_never_completed_is_stale_after_a_second(tmp_path, content):
    leave(tmp_path, content=content)
    clock = Clock()
    (lease,) = workers(1, clock=clock, sleep=clock.sleep)
    with pytest.raises(FolderInUse), lease.hold(tmp_path, wait=False):
        pass
    assert not lease.is_held(tmp_path)
    with lease.hold(tmp_path):
        assert 1.0 <= clock() < 1.1


@pytest.mark.parametrize("digits", [18, 19, 200])
def test_all_numbers_of_leases_are_seen(tmp_path, digits):
    """A stale lease of 18 nines hid the next one, so two processes held the folder."""
    folder = tmp_path / "run"
    folder.mkdir()
    leave(folder, number=10**digits - 1)
    first, second = workers(2)
    with first.hold(folder):
        assert leases_in(folder) == [f"lease-{10**digits}.json"]
        with pytest.raises(FolderInUse), second.hold(folder, wait=False):
            pass
    assert leases_in(folder) == []


@pytest.mark.parametrize("dead", [True, None])
def test_a_folder_among_the_records_of_workers_stops_nobody(tmp_path, dead):
    folder = tmp_path / ".workers" / f"{NOBODY}.json"
    folder.mkdir(parents=True)
    (tmp_path / "run").mkdir()
    with Leases(this_process(), lambda _: dead).hold(tmp_path / "run"):
        assert leases_in(tmp_path / "run") == ["lease-1.json"]
    assert list((tmp_path / ".workers").iterdir()) == [folder]


# ---- fences


class Rob(Silent):
    """Takes the lease of a run away when a step is reached."""

    def __init__(self, folder, step):
        self.folder, self.step, self.robber = folder, step, contextlib.ExitStack()

    def advance(self, step, rows):
        if step == self.step:
            (robber,) = workers(1)
            robber._has_ended = lambda process: True
            with patch.object(files, "fence", no_fence):
                self.robber.enter_context(robber.hold(self.folder))
            self.before = tree(self.folder)


@pytest.mark.parametrize("seconds", [0.0, 1000.0])
def test_a_process_that_was_taken_for_dead_writes_nothing_more(tmp_path, seconds):
    run, store = small_run(steps=4), Store(tmp_path)
    folder = store.folder(run)
    rob = Rob(folder.path, 2)
    with pytest.raises(LeaseLost, match="another process has taken over"):
        train([run], DATASET, store, rob, checkpoint_seconds=seconds)
    assert tree(folder.path) == rob.before
    rob.robber.close()
    assert leases_in(folder.path) == []
    (outcome,) = train([run], DATASET, store)
    assert outcome.weights is not None


def test_a_fence_is_checked_before_files_are_replaced_and_deleted(tmp_path):
    (lease,) = workers(1)
    write_atomically(tmp_path / "old", b"old")
    with lease.hold(tmp_path):
        write_atomically(tmp_path / "new", b"new")
        (tmp_path / "lease-1.json").unlink()
        for write in (lambda: write_atomically(tmp_path / "old", b"new"),
                      lambda: files.delete(tmp_path / "old")):  # fmt: skip
            with pytest.raises(LeaseLost):
                write()
    write_atomically(tmp_path / "new", b"newer")
    assert (tmp_path / "old").read_bytes() == b"old"
    assert not list(tmp_path.glob(".unfinished*"))


def test_a_forked_process_does_not_own_the_leases_of_its_parent(tmp_path):
    def child():
        assert not files._fences
        with pytest.raises(FolderInUse):
            own_leases()._take(tmp_path, wait=False)

    with own_leases().hold(tmp_path):
        process = multiprocessing.get_context("fork").Process(target=child)
        process.start()
        process.join()
        assert process.exitcode == 0
        assert leases_in(tmp_path) == ["lease-1.json"]


# ---- records


class Look(Silent):
    """Looks at the store while runs train."""

    def __init__(self, root):
        self.root = root

    def begin(self, runs, step):
        self.records = list(self.root.glob(".workers/*"))
        self.leases = list(self.root.glob("*/lease-*"))
        self.open_files = len(os.listdir("/dev/fd"))


def test_many_runs_have_one_record_and_no_open_file(tmp_path):
    count = len(os.listdir("/dev/fd"))
    look = Look(tmp_path)
    train([small_run(seed=seed, steps=1) for seed in range(9)], DATASET, Store(tmp_path), look)
    assert (len(look.records), len(look.leases), look.open_files) == (1, 9, count)
    assert not [name for name in tree(tmp_path) if "lease" in name or "workers/" in name]


def test_the_record_says_what_a_process_does(tmp_path, monkeypatch):
    monkeypatch.setattr("unweave.training.heartbeats.BEAT", 0.001)
    found = {}

    class Watch(Silent):
        def advance(self, step, rows):
            deadline = time.monotonic() + 60
            while found.get("step") != step and time.monotonic() < deadline:
                found.update(read_record(tmp_path, str(this_process())) or {})

    run = small_run(steps=3)
    train([run], DATASET, Store(tmp_path), Watch())
    assert (found["runs"], found["steps"], found["device"]) == ([run.digest], 3, "cpu")
    assert found["steps_per_second"] > 0
    assert (found["host"], found["pid"]) == (this_process().host, os.getpid())
    assert found["beats"] > 3


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_a_process_that_cannot_be_read_has_not_ended(monkeypatch):
    """With too many open files, or where other users' processes are hidden, heartbeats decide."""
    own = this_process()
    assert has_ended(own) is False
    assert has_ended(own._replace(started=own.started + 1)) is True

    def refuse(*_, **__):
        raise OSError(errno.EMFILE, "Too many open files")

    with monkeypatch.context() as patch:
        patch.setattr("pathlib.Path.read_text", refuse)
        assert has_ended(own) is None
    with monkeypatch.context() as patch:
        patch.setattr("unweave.core.processes._started", lambda pid: None)
        assert has_ended(own) is None


def test_a_heartbeat_that_is_due_at_the_end_leaves_no_folder(tmp_path):
    worker, due = Worker(tmp_path, this_process()), iter([False, True])
    worker.begin()
    worker.end()
    with patch.object(worker._ended, "wait", lambda seconds: next(due)):
        worker._keep_beating()
    assert not list(tmp_path.iterdir())
