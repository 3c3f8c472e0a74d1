"""Workers on several machines, each with its own clock, that die, stall and wake up."""

import contextlib
import tempfile
from pathlib import Path
from unittest.mock import patch

import pytest
from hypothesis import settings, strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
    run_state_machine_as_test,
)

from crash_replay import Recorder, tree, using
from unweave.core import files
from unweave.core.files import write_atomically
from unweave.core.processes import Process
from unweave.training import heartbeats
from unweave.training.leases import EXPIRY, FolderInUse, LeaseLost, Leases

HOSTS = ("here", "here", "there")
numbers = st.integers(0, len(HOSTS) - 1)
SECONDS = st.sampled_from([5.0, 30.0, 70.0])


class SimulatedWorker:
    """A process on a machine. Its clock is early or late, and goes a little fast or slow."""

    def __init__(self, machine, number, host, pid):
        self.machine, self.alive = machine, True
        self.process = Process(host, "0", pid, 0)
        self.leases = Leases(self.process, self.has_ended, self.clock)
        self.offset, self.speed = 1000.0 * number, (0.9, 1.0, 1.1)[number]
        self.fences, self.held = {}, contextlib.ExitStack()
        self.record = self.holding = None
        self.last_beat = machine.now

    def clock(self):
        return self.offset + self.speed * self.machine.now

    def has_ended(self, process):
        """Only what processes of the same machine do is known."""
        if process.host != self.process.host:
            return None
        return process not in [each.process for each in self.machine.workers if each.alive]

    @contextlib.contextmanager
    def acting(self):
        """Act as this process, which has fences of its own."""
        with patch.object(files, "_fences", self.fences):
            yield

    def take(self, folder):
        with self.acting(), contextlib.suppress(FolderInUse):
            self.record = self.held.enter_context(self.leases.working(folder.parent))
            self.holding = self.held.enter_context(self.leases.hold(folder, wait=False))
            self.last_beat = self.machine.now
        if not self.holding:
            self.release()

    def release(self):
        with self.acting():
            self.held.close()
        self.record = self.holding = None

    def believes(self):
        """Whether it would write now."""
        if not self.holding:
            return False
        with contextlib.suppress(LeaseLost):
            self.holding.check()
            return True
        return False


class LeaseMachine(RuleBasedStateMachine):
    """Three workers, two of them on one machine, and one run folder."""

    @initialize()
    def open(self):
        self.files = contextlib.ExitStack()
        self.files.enter_context(using(Recorder()))
        self.files.enter_context(patch.object(heartbeats, "BEAT", 1e9))
        root = Path(self.files.enter_context(tempfile.TemporaryDirectory()))
        self.folder, self.now, self.started = root / "run", 0.0, 0
        self.folder.mkdir()
        self.workers, self.dead = [], []
        self.workers = [self.start(number) for number in range(len(HOSTS))]

    def start(self, number):
        self.started += 1
        return SimulatedWorker(self, number, HOSTS[number], self.started)

    @rule(number=numbers)
    def take_or_release(self, number):
        worker = self.workers[number]
        if worker.holding:
            worker.release()
            return
        others = [each for each in self.workers if each.believes()]
        left = [path.read_text() for path in self.folder.glob("lease-*")]
        worker.take(self.folder)
        if not others and not any(f'"{self.elsewhere(number)}-' in each for each in left):
            assert worker.holding  # all of them were left by dead processes of the same machine
        if worker.holding:
            for other in others:  # it was taken for dead
                assert other.process.host != worker.process.host
                assert self.now - other.last_beat >= EXPIRY / 1.1

    def elsewhere(self, number):
        return {"here": "there", "there": "here"}[HOSTS[number]]

    @rule(number=numbers)
    def write(self, number):
        worker = self.workers[number]
        if not worker.holding:
            return
        may, path = worker.believes(), self.folder / "file"
        before = path.read_bytes() if path.exists() else None
        with worker.acting(), contextlib.suppress(LeaseLost):
            write_atomically(path, f"{number} {self.now}".encode())
            assert may
        assert may or (path.read_bytes() if path.exists() else None) == before

    @rule(number=numbers)
    def kill(self, number):
        """SIGKILL: its files stay, and another process is started."""
        self.workers[number].alive = False
        self.dead.append(self.workers[number])  # deleting it would release its lease
        if self.workers[number].record:
            self.workers[number].record._ended.set()
        self.workers[number] = self.start(number)

    @rule(seconds=SECONDS, beating=st.sets(numbers, max_size=2))
    def wait(self, seconds, beating):
        """Let time go on; some workers have heartbeats, and the others stall."""
        self.now += seconds
        for number in beating:
            if self.workers[number].record:
                record = self.workers[number].record
                record.path.parent.mkdir(exist_ok=True)  # as the thread does
                record.beat()
                self.workers[number].last_beat = self.now

    @rule(number=numbers, seconds=SECONDS)
    def look_twice(self, number, seconds):
        """Try to take the lease before and after all workers have stalled."""
        for pause in (seconds, 0.0):
            if not self.workers[number].holding:
                self.take_or_release(number)
                self.wait(pause, set())

    @invariant()
    def at_most_one_may_write(self):
        if hasattr(self, "workers"):
            assert sum(worker.believes() for worker in self.workers) <= 1

    def teardown(self):
        """Whatever is left is taken over within a minute, and nothing stays."""
        if not hasattr(self, "files"):
            return
        with self.files:
            for worker in self.workers:
                worker.release()
            for number in (1, 2):  # on both machines
                self.workers[number].take(self.folder)
                self.now += 1.2 * EXPIRY
                if not self.workers[number].holding:
                    self.workers[number].take(self.folder)
                assert self.workers[number].holding
                self.workers[number].release()
            left = tree(self.folder.parent)
            assert [name for name in left if name not in ("run", "run/file")] == []


@pytest.mark.parametrize(
    ("examples", "rules"), [(60, 30), pytest.param(2000, 50, marks=pytest.mark.slow)]
)
def test_leases_of_machines_with_clocks_of_their_own(examples, rules):
    run_state_machine_as_test(
        LeaseMachine,
        settings=settings(
            max_examples=examples, stateful_step_count=rules, deadline=None, derandomize=True,
            database=None,
        ),
    )  # fmt: skip
