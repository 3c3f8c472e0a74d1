"""Executors: the same files wherever runs are trained, and nothing lost with a worker."""

import io
import json
import os
import shutil
import signal
import time
from contextlib import ExitStack
from functools import partial

import pytest
import torch

import unweave as uw
from crash_replay import Recorder, call_and_kill, using
from datasets import CPU, SMALL, small_run
from executor_laws import (
    check_laws,
    check_outcomes,
    files,
    sweep,
    task_of,
    times,
    train_on,
    train_plainly,
)
from fake_engine import Fake, FakePool
from stopping import Stops
from unweave.core import files as files_module
from unweave.core.console import PlainConsole
from unweave.core.files import Disk
from unweave.core.processes import Process
from unweave.evaluation.tasks import Job, Task, TasksFailed
from unweave.executors import executor_from, local
from unweave.executors.driver import _Attempt
from unweave.executors.worker import Ended, request, work
from unweave.training import Silent, TrainingInterrupted, train
from unweave.training.heartbeats import record_path
from unweave.training.interrupt import Interrupt
from unweave.training.leases import Leases, own_leases, read_leases
from unweave.training.own_data import Datasets
from unweave.training.progress import ConsoleProgress
from unweave.training.status import read_status
from unweave.training.store import Store


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    return train_plainly(tmp_path_factory.mktemp("plain"))


def kill_once(monkeypatch):
    """Kill the first worker process that gets a task; return the list of those killed."""
    killed, send = [], local._Worker.send

    def kill_and_send(self, text):
        if '"probe": false' in text and not killed:
            killed.append(self.process.pid)
            self.process.kill()
        send(self, text)

    monkeypatch.setattr(local._Worker, "send", kill_and_send)
    return killed


@pytest.mark.parametrize("on", [uw.Local(lanes=2), Fake()], ids=["local", "fake"])
def test_every_executor_leaves_the_files_of_the_plain_command(on, tmp_path, plain):
    check_laws(on, tmp_path, plain)


def test_processes_leave_the_files_of_the_plain_command_though_one_is_killed(
    tmp_path, plain, monkeypatch
):
    killed = kill_once(monkeypatch)
    check_laws(uw.Local(processes=2, lanes=2), tmp_path, plain)
    assert killed
    logs = [path.read_text() for path in (tmp_path / ".workers").glob("*.txt")]
    assert all(any(run.digest in log for log in logs) for run in sweep()[:4])
    assert not list((tmp_path / ".workers").glob("*.json"))


def one_worker(call, root, runs):
    """Train in workers; the first works inside `call`."""

    def attempt(text):
        reply = call(work, text)
        return Ended.read(reply) if reply else Ended("died")

    return train_on(Fake([attempt], lanes=3), root, runs)


def whole_command(call, root, runs):
    """Train inside of `call`, and again."""
    call(train_on, Fake(lanes=3), root, runs)
    return train_on(Fake(lanes=3), root, runs)


@pytest.mark.parametrize("every", [13, pytest.param(1, marks=pytest.mark.slow)])
@pytest.mark.parametrize("killed", [one_worker, whole_command])
def test_a_kill_at_any_file_operation_leaves_the_files_of_the_plain_command(
    killed, every, tmp_path, monkeypatch
):
    """A process killed after its runs had ended used to leave its leases and a record."""
    monkeypatch.setattr("unweave.training.leases._HALF_WRITTEN", 0.0)
    monkeypatch.setattr("unweave.core.files.disk", Recorder())  # does not wait for real disks
    runs, plain, recorder = sweep(steps=2)[:3], tmp_path / "plain", Recorder()

    def record(function, *arguments):
        with using(recorder):
            return function(*arguments)

    outcomes, operations = killed(record, plain, runs), recorder.operations
    ended = max(n for n, each in enumerate(operations) if each.path.suffix == ".safetensors")
    moments = [*range(0, ended, every), *range(ended, len(operations))]
    for moment in moments:
        root = tmp_path / str(moment)
        check_outcomes(killed(partial(call_and_kill, moment), root, runs), outcomes)
        assert files(root) == files(plain)
        assert not list((root / ".workers").glob("*.json"))
    print(f"\nkilled at {len(moments)} of {len(operations)} operations")


def test_checkpoints_that_a_power_failure_brought_back_are_deleted(tmp_path):
    run = small_run(steps=5)
    train_on(Fake(), tmp_path, [run])
    before, folder = files(tmp_path), Store(tmp_path).folder(run)
    shutil.copy(folder.states[5], folder.path / "state-3.safetensors")
    train_on(Fake(), tmp_path, [run])
    assert files(tmp_path) == before


def test_a_lost_worker_is_replaced(tmp_path, plain, monkeypatch):
    monkeypatch.setattr("unweave.executors.driver._LOOK_AGAIN", 0.0)
    on = Fake([Ended("died"), Ended("stopped"), Ended("busy"), None, Ended("died")])
    check_outcomes(train_on(on, tmp_path), plain[1])
    assert files(tmp_path) == plain[0]


def test_the_time_of_a_stopped_worker_does_not_count(tmp_path, monkeypatch):
    """It does not say how many steps it took, so networks would seem to take longer."""
    monkeypatch.setattr("unweave.executors.driver._LOOK_AGAIN", 0.0)
    stopped = Ended("stopped", seconds=1e6)
    on = Fake([stopped, Ended("busy", seconds=1e6)])
    trained = list(on.run([job_of([small_run(steps=5)], tmp_path)], Silent()))
    assert sum(each.steps for each in trained) == 5
    assert sum(each.seconds for each in trained) < 1e5


def test_a_worker_that_always_dies_is_given_up_and_the_others_end(tmp_path):
    def dies(text):
        return Ended("died", "out of memory") if bad in text else Ended.read(work(text))

    bad = json.dumps(Task(runs=(sweep()[0],)).to_json()["task"]["runs"][0])
    on = Fake([dies] * 10)
    with pytest.raises(TasksFailed, match=r"1 of 4 tasks failed.*lost 3 times.*out of memory"):
        train_on(on, tmp_path)
    assert sum(bad in text for text in on.pools[0].submitted) == 3
    statuses = [Store(tmp_path).folder(run).status for run in sweep()]
    assert statuses == ["not started"] * 2 + ["finished"] * 4


@pytest.mark.parametrize(
    ("host", "text", "advised"),
    [("a", "CUDA error: assert", False), ("a", "CUDA out of memory", True), ("", "", True)],
)
def test_fewer_lanes_are_advised_only_if_memory_may_have_run_out(tmp_path, host, text, advised):
    on = Fake([Ended("died", text, host=host)] * 3)
    with pytest.raises(TasksFailed) as error:
        train_on(on, tmp_path, [small_run(steps=5)])
    assert ("use fewer --lanes" in str(error.value)) == advised


def test_a_task_whose_machine_vanished_begins_at_once_elsewhere(tmp_path, monkeypatch):
    """The driver, and then the next worker, used to wait for a minute without a heartbeat each."""
    monkeypatch.setattr("unweave.executors.driver.BEAT", 0.0)
    monkeypatch.setattr("unweave.training.leases.EXPIRY", 1.0)
    folder = task_of(run := small_run(steps=5), tmp_path).folders[0]
    vanished, real, moments = Process("gone", "0", 1, 0), FakePool.wait, []

    def wait(pool, seconds):
        """The first worker vanishes, which Ray, say, notices later."""
        if not pool.submitted or moments[1:] or not pool._waiting:
            return real(pool, seconds)
        if not moments:
            record = {"host": "gone", "pid": 1, "beats": 1, "time": time.time()}
            files_module.write_json(record_path(tmp_path, str(vanished)), record)
            assert Leases(vanished)._take(folder.path, 0)
            moments.append(time.monotonic())
        if time.monotonic() < moments[0] + 1.5:
            return {}
        moments.append(time.monotonic())
        return {pool._waiting.popitem()[0]: Ended("died")}

    def begins(text):
        assert not read_leases(folder.path)
        moments.append(time.monotonic())
        return Ended.read(work(text))

    monkeypatch.setattr(FakePool, "wait", wait)
    (outcome,) = train_on(Fake([begins]), tmp_path, [run])
    assert outcome.weights is not None
    assert moments[2] - moments[1] < 1


def test_a_worker_that_makes_progress_is_not_given_up(tmp_path, plain):
    """Four deaths in a row, each after one more step, and then the end."""

    def dies_later(text):
        content = json.loads(text)
        task = Task.from_json(content)
        store = Store(tmp_path)
        reached = max(store.folder(task.runs[0]).states, default=0)
        with Interrupt(unattended=True), pytest.raises(TrainingInterrupted):
            train(task.runs, SMALL.load(CPU), store, Stops(reached + 2), 1000)
        return Ended("died")

    runs = [small_run(steps=20, seed=seed) for seed in range(2)]
    outcomes = train_on(Fake([dies_later] * 4), tmp_path, runs)
    check_outcomes(outcomes, train(runs, SMALL.load(CPU)))


@pytest.fixture
def impatient(monkeypatch):
    """Look again at once, and do not wait for files."""
    monkeypatch.setattr("unweave.executors.driver._LOOK_AGAIN", 0.0)
    monkeypatch.setattr(files_module, "SHOWN_AFTER", 0.0)


def test_a_driver_says_how_many_runs_it_has_submitted(tmp_path):
    """Its record is written again every few seconds, here at once."""
    seen = []

    def look(text):
        own_leases()._workers[str(tmp_path)][0].beat()
        seen.extend(worker.submitted for worker in read_status(tmp_path).workers)
        return Ended.read(work(text))

    train_on(Fake([None, look], lanes=1), tmp_path, [small_run(steps=2, seed=n) for n in range(4)])
    assert seen == [3]
    assert not read_status(tmp_path).workers


def test_results_that_do_not_appear_are_an_error(tmp_path, impatient):
    on = Fake([Ended("done")] * 4)
    with pytest.raises(TasksFailed, match=r"do not appear in .*use a shared folder"):
        train_on(on, tmp_path, [small_run(steps=5)])


class LateDisk(Disk):
    """A network file system that shows some files only when their folder was listed a few times."""

    def __init__(self, late, looks):
        self.late, self.looks = late, looks

    def names(self, folder):
        found = super().names(folder)
        hidden = self.late.intersection(found) if self.looks > 0 else set()
        self.looks -= bool(hidden)
        return [name for name in found if name not in hidden]


def test_files_that_appear_late_are_waited_for(tmp_path, monkeypatch):
    """A finished task used to be taken for lost, because its files could not be seen yet."""
    monkeypatch.setattr("unweave.executors.driver._LOOK_AGAIN", 0.0)
    monkeypatch.setattr(files_module, "disk", LateDisk({"weights.safetensors"}, 5))
    on = Fake()
    (outcome,) = train_on(on, tmp_path, [small_run(steps=5)])
    assert outcome.weights is not None
    assert len(on.pools[0].submitted) == 1
    assert files_module.disk.looks == 0


def test_a_worker_waits_for_a_folder_that_appears_late(tmp_path, monkeypatch):
    monkeypatch.setattr(files_module, "_LISTING_PAUSE", 0.0)
    monkeypatch.setattr(files_module, "disk", LateDisk({"run.json"}, 5))
    task = task_of(small_run(), tmp_path)
    task.folders[0].create(task.runs[0])
    assert Ended.read(work(request(task, probe=True))).how == "done"
    assert files_module.disk.looks == 0


def test_an_error_of_a_worker_is_reported_and_not_tried_again(tmp_path):
    on = Fake([Ended("failed", "the data are gone")])
    with pytest.raises(TasksFailed, match=r"1 of 4 tasks failed.*stored; run .*: the data are"):
        train_on(on, tmp_path)
    assert len(on.pools[0].submitted) == 4


def test_ctrl_c_stops_the_workers_and_the_same_command_ends(tmp_path, plain):
    def interrupts(text):
        os.kill(os.getpid(), signal.SIGINT)
        return Ended("stopped")

    on, console = Fake([None, interrupts]), PlainConsole(file=io.StringIO(), width=200)
    with pytest.raises(TrainingInterrupted) as stopped:
        train_on(on, tmp_path, console=console)
    assert on.pools[0].stopped
    (said,) = [line for line in console.file.getvalue().splitlines() if "not started" in line]
    assert said.endswith("of 6 runs have not started: run this again to train them too")
    assert sum(each.status == "not started" for each in Store(tmp_path).folders()) == int(said[0])
    assert sum(each.weights is not None for each in stopped.value.outcomes) in (1, 2)
    check_outcomes(train_on(Fake(), tmp_path), plain[1])
    assert files(tmp_path) == plain[0]


def test_runs_of_another_process_are_waited_for(tmp_path, monkeypatch):
    """The folder is free after it was looked at."""
    run, on, held, looks, look = small_run(steps=5), Fake(), ExitStack(), [], _Attempt.look

    def look_and_release(attempt):
        looks.append(look(attempt))
        held.close()
        return looks[-1]

    folder = Store(tmp_path).folder(run)
    folder.create(run)
    held.enter_context(folder.lock())
    monkeypatch.setattr(_Attempt, "look", look_and_release)
    monkeypatch.setattr("unweave.executors.driver._LOOK_AGAIN", 0.0)
    (outcome,) = train_on(on, tmp_path, [run])
    assert outcome.weights is not None
    assert looks[:2] == ["waits", "ready"]
    assert len(on.pools[0].submitted) == 1


def test_progress_counts_runs_and_steps(tmp_path):
    text = io.StringIO()
    console = PlainConsole(file=text, width=200)
    train_on(Fake(), tmp_path, progress=ConsoleProgress(console))
    assert text.getvalue().splitlines()[-1] == "steps 50 of 60, 5 of 6 runs done  1 failed"


def test_runs_that_cannot_be_loaded_are_one_line(unweave, tmp_path):
    """There was nothing to score, and a traceback."""
    train_on(None, tmp_path, [sweep()[1]])
    words = ["--store", tmp_path, "--device", "cpu", "--metrics", "mig"]
    here = unweave("evaluate", sweep()[1].digest, *words)
    there = unweave("evaluate", sweep()[1].digest, *words, "--on", "local:processes=2")
    assert there == here
    assert (here[0], here[2].count("\n")) == (2, 1)


# ---- failed runs


@pytest.mark.parametrize("on", [uw.Local(), Fake()], ids=["local", "fake"])
def test_failed_runs_start_again_only_if_asked_to(on, tmp_path):
    """A failure that has passed: the run goes on from its checkpoint, with the same bits."""
    run, store = small_run(steps=20), Store(tmp_path)
    folder = store.folder(run)
    (expected,) = train([run], SMALL.load(CPU))

    with pytest.raises(TrainingInterrupted):
        train([run], SMALL.load(CPU), store, Stops(10))
    folder.write_failure({"step": 12, "term": "rate"})
    (outcome,) = train_on(on, tmp_path, [run])
    assert outcome.failure == {"step": 12, "term": "rate"}
    (outcome,) = train_on(on, tmp_path, [run], retry_failed=True)
    check_outcomes([outcome], [expected])
    assert folder.status == "finished"


@pytest.mark.parametrize("on", [uw.Local(), Fake()], ids=["local", "fake"])
def test_a_run_that_fails_again_is_reported_again(on, tmp_path, plain):
    train_on(on, tmp_path)
    before = times(tmp_path)
    outcomes = train_on(on, tmp_path, retry_failed=True)
    assert [bool(each.failure) for each in outcomes] == [False, True, False, False, False, False]
    changed = [path for path, time in times(tmp_path).items() if before.get(path) != time]
    changed = {path.split("/")[-2] for path in changed}
    assert changed == {sweep()[1].digest}


# ---- division


def job_of(runs, root):
    return Job.prepare(Task(runs=tuple(runs), store=str(root), device="cpu"), Datasets(CPU))


def test_division_depends_on_the_runs_of_the_command_and_not_on_what_has_ended(tmp_path):
    job = job_of(sweep(), tmp_path)
    every = [[run.digest for run in task.runs] for task in job.divide(2, CPU)]
    digests = [run.digest for run in sweep()]
    assert every == [digests[0:2], digests[2:4], digests[4:5], digests[5:]]
    assert [d for part in every for d in part] == digests
    train(sweep()[2:3], SMALL.load(CPU), Store(tmp_path))
    left = [[run.digest for run in task.runs] for task in job.divide(2, CPU)]
    assert left == [every[0], every[1][1:], *every[2:]]


def test_runs_with_checkpoints_stay_with_those_they_were_saved_with(tmp_path):
    runs = sweep()
    with pytest.raises(TrainingInterrupted):
        train([runs[0], *runs[2:5]], SMALL.load(CPU), Store(tmp_path), Stops(1))
    parts = [list(task.runs) for task in job_of(runs, tmp_path).divide(2, CPU)]
    assert parts == [[runs[0], *runs[2:5]], [runs[1]], [runs[5]]]


def test_a_study_that_is_finished_needs_no_workers(tmp_path, plain):
    on = Fake()
    train_on(on, tmp_path)
    check_outcomes(train_on(on, tmp_path), plain[1])
    assert len(on.pools) == 1
    assert files(tmp_path) == plain[0]


def test_settings_of_executors_are_read_like_selections():
    assert executor_from("local") == uw.Local()
    assert executor_from("local:processes=2,tries=5", lanes=3) == uw.Local(
        processes=2, tries=5, lanes=3
    )


def test_one_device_is_this_process_and_two_gpus_are_two(monkeypatch):
    assert uw.Local().devices("auto") == ["cpu"]
    assert uw.Local(processes=2).devices("cpu") == ["cpu", "cpu"]
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    assert uw.Local().devices("auto") == ["cuda:0", "cuda:1"]
    assert uw.Local(processes=4).devices("auto") == ["cuda:0", "cuda:1"] * 2
    assert uw.Local().devices("cpu") == ["cpu"]
    assert uw.Local().load_on("auto") == CPU
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "4,7")
    assert local._environment("cuda:1")["CUDA_VISIBLE_DEVICES"] == "7"
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES")
    assert local._environment("cuda:1")["CUDA_VISIBLE_DEVICES"] == "1"


def test_processes_on_one_gpu_share_its_memory(monkeypatch):
    monkeypatch.setattr(local, "device_memory", lambda device: 80.0)
    assert local.LocalPool(["cuda:0", "cuda:1"]).memory == 80
    assert local.LocalPool(["cuda:0", "cuda:1", "cuda:0"]).memory == 40


def test_fit_returns_models_from_other_processes(tmp_path):
    options = {"steps": 5, "network": uw.MLP((8,)), "seed": range(3), "progress": False}
    here = uw.fit(SMALL, store=tmp_path / "here", on=uw.Local(lanes=2), **options)
    there = uw.fit(SMALL, store=tmp_path / "there", on=Fake(), **options)
    for one, two in zip(here, there, strict=True):
        assert one.run == two.run
        assert all(torch.equal(one.trained.weights[n], w) for n, w in two.trained.weights.items())


def test_a_study_has_the_same_results_wherever_it_is_trained(tmp_path):
    """Results of the study of `test_papers_study`, by the fake engine in other parts."""
    from test_papers_study import at, content, study_of
    from unweave.studies.training import train_or_load

    here, there = tmp_path / "here", tmp_path / "there"
    assert train_or_load(at(here, on=uw.Local(lanes=2)), study_of(lanes=3)).complete
    assert train_or_load(at(there, on=Fake(), worker_device="cpu"), study_of(lanes=3)).complete
    assert content(here) == content(there)
