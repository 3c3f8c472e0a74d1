"""Several processes, also of several machines, that work with one store."""

import errno
import json
import os
import signal
import subprocess
import sys
import time
from contextlib import ExitStack, contextmanager, nullcontext
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import Mock

import pytest

import unweave as uw
from datasets import CPU, SMALL, small_run
from executor_laws import check_outcomes, files as files_of, sweep, train_on
from fake_engine import Fake
from unweave.cli.errors import os_error_text
from unweave.core import files
from unweave.core.files import Disk
from unweave.core.processes import Process
from unweave.evaluation.scoring import ScoringTask
from unweave.evaluation.tasks import Job, Task, ThisProcess
from unweave.executors import local
from unweave.executors.driver import _score_parts
from unweave.executors.slurm import Requeued
from unweave.executors.worker import Ended, request, work
from unweave.training import Silent, TrainingInterrupted, tensor_files, train
from unweave.training.interrupt import Interrupt
from unweave.training.leases import FolderInUse, own_leases
from unweave.training.own_data import Datasets
from unweave.training.store import Store

HOLD = """
import sys
from pathlib import Path
from unweave.training.run_files import RunFiles
with RunFiles(Path(sys.argv[1])).lock():
    print("held", flush=True)
    sys.stdin.read()
"""


@contextmanager
def held_elsewhere(folder, host="elsewhere"):
    """Let a process of another machine hold the lease of a folder."""
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, folder.path], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        env=os.environ | {"UNWEAVE_HOST": host}, text=True,
    ) as process:  # fmt: skip
        assert process.stdout.readline() == "held\n"
        try:
            yield process
        finally:
            process.stdin.close()


class Order(Silent):
    """Records which runs train and what is printed; calls a function when training waits."""

    def __init__(self, waits=lambda: None):
        self.trained, self.notes, self.waits = [], [], waits

    def begin(self, runs, step):
        self.trained.append([run.seed for run in runs])

    def note(self, text):
        self.notes.append(text)
        self.waits()


@pytest.fixture
def impatient(monkeypatch):
    monkeypatch.setattr("unweave.evaluation.tasks._LOOK_AGAIN", 0.0)


# ---- this process and others


@pytest.mark.parametrize("on", [None, uw.Local(lanes=2), ThisProcess(lanes=2)])
def test_runs_of_another_process_are_left_to_it_and_waited_for(tmp_path, impatient, on):
    """The plain command used to stop with an error."""
    runs = [small_run(steps=5, seed=seed) for seed in range(4)]
    runs += [small_run(steps=5, seed=4, latent=uw.Gaussian(2))]
    folder = Store(tmp_path).folder(runs[1])
    folder.create(runs[1])
    with ExitStack() as stack:
        other = stack.enter_context(held_elsewhere(folder))
        order = Order(waits=other.stdin.close)
        outcomes = train_on(on, tmp_path, runs, progress=order)
    assert all(outcome.weights is not None for outcome in outcomes)
    left = [0, 1] if on else [0, 1, 2, 3]
    assert order.trained == [each for each in ([2, 3], [4]) if on or each != [2, 3]] + [left]
    assert order.notes == [f"waiting for {len(left)} runs that other processes train"]


def test_runs_that_another_process_trained_are_read(tmp_path, impatient):
    """While this one waits, the other ends its runs."""
    runs = [small_run(steps=5, seed=seed) for seed in range(2)]
    there = tmp_path / "there"
    expected = train(runs, SMALL.load(CPU), Store(there))
    with ExitStack() as stack:
        folders = [Store(tmp_path / "here").folder(run) for run in runs]
        for run, folder in zip(runs, folders, strict=True):
            folder.create(run)
        other = stack.enter_context(held_elsewhere(folders[0]))

        def end():
            for run, folder in zip(runs, folders, strict=True):
                for path in Store(there).folder(run).path.iterdir():
                    files.write_atomically(folder.path / path.name, path.read_bytes())
            other.stdin.close()

        order = Order(waits=end)
        outcomes = train_on(None, tmp_path / "here", runs, progress=order)
    check_outcomes(outcomes, expected)
    assert order.trained == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_ctrl_c_ends_the_wait(tmp_path, impatient, number):
    runs = [small_run(steps=5), small_run(steps=5, latent=uw.Gaussian(2))]
    folder = Store(tmp_path).folder(runs[0])
    folder.create(runs[0])
    with held_elsewhere(folder):
        order = Order(waits=lambda: signal.raise_signal(number))
        with pytest.raises(TrainingInterrupted) as stopped:
            train_on(None, tmp_path, runs, progress=order)
    assert [each.weights is not None for each in stopped.value.outcomes] == [False, True]
    assert stopped.value.terminated == (number == signal.SIGTERM)


def test_an_interruption_keeps_the_outcomes_of_earlier_tasks(tmp_path):
    """Those of the last task alone would be lost to `fit`."""

    class Stops(Silent):
        def begin(self, runs, step):
            self.second = runs[0].seed == 2

        def advance(self, step, rows):
            if self.second:
                raise KeyboardInterrupt

    runs = [small_run(steps=5, seed=seed) for seed in range(6)]
    with pytest.raises(TrainingInterrupted) as stopped:
        train_on(uw.Local(lanes=2), tmp_path, runs, progress=Stops())
    found = {each.run.seed: each.weights is not None for each in stopped.value.outcomes}
    assert found == {0: True, 1: True, 2: True, 3: True}


def test_failed_runs_that_another_process_tries_again_are_left_to_it(
    tmp_path, impatient, monkeypatch
):
    """Two commands with --retry-failed used to stop each other."""
    run = small_run(steps=5)
    folder = Store(tmp_path).folder(run)
    folder.create(run)
    folder.write_failure({"step": 2, "term": "rate"})
    refused = []
    with held_elsewhere(folder) as other:

        def forget_and_end(job, progress, deadline):
            try:
                return train_here(job, progress, deadline)
            except FolderInUse:
                refused.append(job)
                folder.forget_failure()
                other.stdin.close()
                raise

        train_here = Job.train
        monkeypatch.setattr(Job, "train", forget_and_end)
        order = Order()
        (outcome,) = train_on(None, tmp_path, [run], progress=order, retry_failed=True)
    assert refused
    assert order.trained == [[0]]
    assert outcome.weights is not None


# ---- signals of a scheduler


class Signals(Silent):
    """Sends signals when a step is reached, and others while the run is being saved."""

    def advance(self, step, rows):
        if step == 10:
            os.kill(os.getpid(), signal.SIGUSR2)
            time.sleep(0.01)

    def end(self):
        for number in (signal.SIGUSR2, signal.SIGTERM, signal.SIGINT, signal.SIGTERM):
            os.kill(os.getpid(), number)
            time.sleep(0.01)


def test_signals_that_slurm_repeats_do_not_end_a_job_that_saves(tmp_path, monkeypatch):
    """The second one used to kill it."""
    monkeypatch.setattr("unweave.executors.worker.ConsoleProgress", lambda console: Signals())
    task = Task(runs=(small_run(steps=50).resolve(SMALL.load(CPU)),), store=str(tmp_path),
                device="cpu", threads=1, checkpoint_seconds=1000)  # fmt: skip
    (folder,) = task.folders
    folder.create(task.runs[0])
    requeued = []

    def requeue(number, frame):  # as submitit does
        requeued.append(number)
        raise SystemExit(-1)

    handlers = {signal.SIGUSR2: requeue, signal.SIGTERM: signal.SIG_IGN}
    before = {number: signal.signal(number, handler) for number, handler in handlers.items()}
    try:
        with pytest.raises(SystemExit):
            Requeued()(request(task))
        assert {n: signal.getsignal(n) for n in handlers} == handlers
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    assert requeued == [signal.SIGUSR2]
    assert (list(folder.states), folder.status) == ([10], "stopped")


def test_a_signal_before_training_is_not_lost(tmp_path, monkeypatch):
    """It used to kill a job that was still loading its data."""
    from unweave.executors import worker

    run = small_run(steps=50).resolve(SMALL.load(CPU))
    task = Task(runs=(run,), store=str(tmp_path), device="cpu", threads=1)
    task.folders[0].create(run)
    find = worker._find_data

    def find_and_signal(task):
        os.kill(os.getpid(), signal.SIGTERM)
        find(task)

    monkeypatch.setattr(worker, "_find_data", find_and_signal)
    assert worker.Ended.read(worker.work(request(task))).how == "stopped"
    assert not task.folders[0].states


def test_one_interrupt_inside_another_shares_its_requests():
    with Interrupt() as outer:
        with Interrupt() as inner:
            signal.raise_signal(signal.SIGINT)
        assert inner.requested
        assert outer.requested
    with Interrupt() as outer:
        with Interrupt(unattended=True) as inner, Interrupt() as innermost:
            for _ in range(3):
                signal.raise_signal(signal.SIGTERM)
        assert innermost.terminated
        assert (inner.requested, outer.requested) == (True, False)
    assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL


# ---- network file systems


def test_a_file_that_another_machine_has_just_deleted_does_not_exist(tmp_path, monkeypatch):
    """NFS reports a stale handle for it."""

    def stale(*_, **__):
        raise OSError(errno.ESTALE, "Stale file handle")

    (tmp_path / "file").touch()
    monkeypatch.setattr(os, "stat", stale)
    assert Disk().read(tmp_path / "file") is None
    assert Disk().newest(tmp_path) == []
    monkeypatch.setattr(os, "listdir", stale)
    assert Disk().names(tmp_path) == []


def test_a_file_that_another_machine_has_just_replaced_is_read_in_full(tmp_path, monkeypatch):
    """NFS may remember the length of the old one until the new one is opened: it was cut off."""
    path, stat = tmp_path / "file", os.stat
    path.write_bytes(b"short")
    remembered = stat(path)
    path.write_bytes(b"no longer short")
    monkeypatch.setattr(os, "stat", lambda p, **how: remembered if p == path else stat(p, **how))
    assert Disk().read(path) == b"no longer short"


@pytest.mark.parametrize("number", [errno.ENOTCONN, errno.ECONNABORTED])
def test_a_file_system_that_vanishes_is_named_and_the_command_says_what_to_do(
    tmp_path, monkeypatch, number
):
    """An error in the middle of a file named no file; only EIO and a full disk had advice."""
    path = tmp_path / "run.json"
    path.touch()

    def vanish(*_):
        raise OSError(number, "the mount is gone")

    with path.open() as file:
        opened = SimpleNamespace(fileno=file.fileno, read=vanish)
        monkeypatch.setattr(Path, "open", lambda *_: nullcontext(opened))
        with pytest.raises(OSError, match="the mount is gone") as error:
            Disk().read(path)
    assert os_error_text(error.value, tmp_path) == (
        f"cannot read or write {path}: the mount is gone. Its file system cannot be reached. "
        "Stored files are unchanged; when it is mounted and answers again, run the command again"
    )


def test_a_checkpoint_on_a_file_system_that_fails_is_an_error_of_the_system(tmp_path, monkeypatch):
    """PyTorch raises a RuntimeError, which was a traceback."""
    run = small_run(steps=5).resolve(SMALL.load(CPU))
    train([run], SMALL.load(CPU), Store(tmp_path))
    folder = Store(tmp_path).folder(run)
    reason = "unable to open file </x> in read-only mode: Input/output error (5)"
    monkeypatch.setattr(tensor_files, "safe_open", Mock(side_effect=RuntimeError(reason)))
    with pytest.raises(OSError, match="Input/output error") as error:
        folder.read_state_facts(5)
    assert (error.value.errno, error.value.filename) == (errno.EIO, str(folder.states[5]))


# ---- the workers of an executor


def test_an_error_of_the_consumer_stops_the_workers(tmp_path):
    on = Fake()
    results = on.run(jobs_of(tmp_path), Silent())
    while not on.pools or not on.pools[0].submitted:
        next(results)
    results.close()  # as an error in a loop over the results does
    assert on.pools[0].stopped


def jobs_of(root):
    task = Task(runs=tuple(sweep()), store=str(root), device="cpu", threads=1)
    return [Job.prepare(task, Datasets(CPU))]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_jobs_of_a_queue_go_on_when_sigterm_ends_the_driver(tmp_path, number):
    """A driver that is a job itself reaches its time limit; Ctrl-C stops everything."""

    class Queue(Fake):
        outlasting = True

    def ends(text):
        os.kill(os.getpid(), number)
        return Ended("stopped")

    on = Queue([ends])
    with pytest.raises(TrainingInterrupted):
        train_on(on, tmp_path)
    assert on.pools[0].stopped == (number == signal.SIGINT)


def test_a_worker_that_is_killed_while_it_replies_has_died(tmp_path, monkeypatch):
    """A part of a line used to be read as a reply."""
    code = "import sys; input(); print('[', end=''); print('no memory', file=sys.stderr)"
    start = subprocess.Popen
    command = [sys.executable, "-c", code]
    monkeypatch.setattr(local.subprocess, "Popen", lambda _, **given: start(command, **given))
    pool = local.LocalPool(["cpu"])
    (key,) = pool.submit(["{}"])
    ended = {}
    while key not in ended:
        ended |= pool.wait(1.0)
    pool.close()
    assert ended == {key: Ended("died", "it printed last: no memory", place="0")}


class FakeWorker:
    """A worker that answers at once; those at the first place die, or say that they have."""

    silent, lost = True, ()

    def __init__(self, device, place, replies):
        self.place, self.replies, self.open = place, replies, True
        self.last_stderr_line = "no more words"

    def send(self, text):
        assert self.open
        broken = self.place == 0
        if broken:
            self.lost.append(text)
        ended = Ended("died", "a CUDA error") if broken else Ended("done", "{}")
        self.replies.put((self, "" if broken and self.silent else json.dumps(ended)))
        if broken and not self.silent:
            self.replies.put((self, ""))  # it ends later

    def end(self, kill):
        self.open = False

    def close(self, kill=True):
        self.open = False


@pytest.mark.parametrize("silent", [True, False])
def test_a_broken_device_does_not_take_all_tasks(monkeypatch, silent):
    """It would fail quickly, and so get one task after the other."""
    monkeypatch.setattr(local, "_Worker", FakeWorker)
    monkeypatch.setattr(FakeWorker, "silent", silent)
    monkeypatch.setattr(FakeWorker, "lost", [])
    pool = local.LocalPool(["cpu", "cpu"])
    parts = [ScoringTask((f"folder {n}",)) for n in range(9)]
    assert list(_score_parts(pool, parts, tries=3)) == [{}] * 9
    pool.close()
    assert len(FakeWorker.lost) == len(set(FakeWorker.lost)) == 3


def test_errors_of_a_machine_are_tried_again_and_those_of_a_task_are_not(tmp_path, monkeypatch):
    run = small_run().resolve(SMALL.load(CPU))
    task = Task(runs=(run,), store=str(tmp_path), device="cpu", threads=1)
    task.folders[0].create(run)
    for error, how in ((RuntimeError("CUDA error"), "died"), (ValueError("no factor"), "failed")):

        def fail(*_, error=error):
            raise error

        monkeypatch.setattr("unweave.executors.worker.Job.prepare", fail)
        ended = Ended.read(work(request(task)))
        assert (ended.how, str(error) in ended.text) == (how, True)


def test_the_driver_does_not_wait_for_the_lease_of_a_lost_machine(tmp_path, monkeypatch):
    """It used to wait for a minute and submit nothing; now it looks again at the end."""
    run = small_run(steps=5)
    train_on(Fake(), tmp_path, [run])
    folder = Store(tmp_path).folder(run)
    before = files_of(tmp_path)
    (folder.path / "lease-7.json").write_text(json.dumps({"worker": str(Process("a", "b", 1, 0))}))

    def wait(seconds):
        raise AssertionError("the driver waits")

    monkeypatch.setattr(own_leases(), "_sleep", wait)
    monkeypatch.setattr("unweave.training.leases.EXPIRY", 0.0)
    assert not folder.clean_up(wait=0)  # not known yet
    monkeypatch.setattr(own_leases(), "_seen", {})
    (outcome,) = train_on(Fake(), tmp_path, [run])
    assert outcome.weights is not None
    assert files_of(tmp_path) == before


def test_the_lease_of_a_machine_that_died_in_a_finished_folder_is_deleted(tmp_path, monkeypatch):
    """Without workers it was left behind if the folder had been looked at before."""
    run = small_run(steps=5)
    train_on(None, tmp_path / "undisturbed", [run])
    train_here, worker = Job.train, Process("a", "b", 1, 0)

    def die_elsewhere(job, progress, deadline):
        trained = train_here(job, progress, deadline)
        (path,) = [folder.path for folder in job.task.folders]
        (path / "lease-7.json").write_text(json.dumps({"worker": str(worker)}))
        return trained

    monkeypatch.setattr(Job, "train", die_elsewhere)
    monkeypatch.setattr("unweave.training.leases.EXPIRY", 0.0)
    train_on(None, tmp_path / "store", [run])
    assert files_of(tmp_path / "store") == files_of(tmp_path / "undisturbed")


def test_unfinished_runs_are_not_waited_for_after_the_deadline(tmp_path, monkeypatch):
    """A command waited a second for each that another machine had begun to train since."""
    looked, train_here = [], Job.train

    def train_nothing(job, progress, deadline):
        return train_here(job, progress, 0.0)

    monkeypatch.setattr(Job, "train", train_nothing)
    monkeypatch.setattr("unweave.training.store.RunFolder.clean_up", looked.append)
    (outcome,) = train_on(None, tmp_path, [small_run(steps=5)])
    assert (outcome.weights, looked) == (None, [])


def test_both_commands_leave_the_files_of_one(tmp_path):
    """Without workers and with them: what is trained does not depend on who trains it."""
    train_on(uw.Local(lanes=2), tmp_path / "one")
    train_on(ThisProcess(lanes=2), tmp_path / "two")
    train_on(Fake(), tmp_path / "two")
    assert files_of(tmp_path / "one") == files_of(tmp_path / "two")
