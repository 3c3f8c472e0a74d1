"""Jobs of Slurm: submitit runs them on this machine, or scripts replace the commands of Slurm."""

import json
import os
import signal
import sys
import time
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import pytest

import unweave as uw
from datasets import CPU, SMALL, small_run
from executor_laws import check_laws, check_outcomes, train_on, train_plainly
from fake_engine import Fake
from preempted import Preempted
from unweave.core import files, signals
from unweave.core.assignments import override
from unweave.evaluation.scoring import ScoringTask
from unweave.executors import executor_from
from unweave.executors.slurm import ArrayJobs
from unweave.executors.worker import Ended
from unweave.training import train

LOCAL = {"cluster": "local", "gpus": 0, "cpus": 1}


class FakeJob:
    """A job of submitit; a test writes what it would write."""

    def __init__(self, folder, job_id):
        self.job_id = job_id
        names = {"result_pickle": "result.pkl", "stdout": "log.out", "stderr": "log.err"}
        paths = {key: folder / f"{job_id}_0_{name}" for key, name in names.items()}
        self.paths = SimpleNamespace(folder=folder, **paths)

    def result(self):
        return self.paths.result_pickle.read_text()


class Cluster:
    """Slurm's commands, which read and write the file `queue`."""

    def __init__(self, root, monkeypatch):
        self.folder, self.queue, self.arrays = root / "jobs", root / "queue", 0
        self.folder.mkdir()
        self.queue.touch()
        self._command(root / "bin/squeue", f"cat {self.queue}")
        cancel = f'for id in "$@"; do sed -i "/^$id\\$/d" {self.queue}; done'
        self._command(root / "bin/scancel", cancel)
        monkeypatch.setenv("PATH", str(root / "bin"), prepend=":")

    @staticmethod
    def _command(path, line):
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"#!/bin/sh\n{line}\n")
        path.chmod(0o755)

    def map_array(self, function, texts):
        self.arrays += 1
        jobs = [FakeJob(self.folder, f"{self.arrays}_{n}") for n in range(len(texts))]
        self.queue.write_text(self.queue.read_text() + "".join(f"{j.job_id}\n" for j in jobs))
        return jobs

    def end(self, key):
        self.queue.write_text(self.queue.read_text().replace(f"{key}\n", ""))

    def pool(self):
        return ArrayJobs(self, uw.Slurm(gpus=0), "cpu", self.folder)


@pytest.fixture
def cluster(tmp_path, monkeypatch):
    monkeypatch.setattr(signals, "jobs_go_on", False)
    monkeypatch.setattr("unweave.executors.slurm._LOOK", 0.0)
    monkeypatch.setattr("unweave.executors.slurm._LOOK_STOPPED", 0.0)
    monkeypatch.setattr(files, "SHOWN_AFTER", 0.0)
    return Cluster(tmp_path, monkeypatch)


def test_a_job_without_a_result_is_noticed_when_slurm_no_longer_lists_it(cluster):
    """Its process was killed. Submitit asked sacct, at most every ten minutes."""
    pool = cluster.pool()
    one, two = pool.submit(["one", "two"])
    assert pool.wait(0) == {}
    (cluster.folder / f"{one}_0_result.pkl").write_text(json.dumps(Ended("done")))
    (cluster.folder / f"{two}_0_log.out").touch()
    (cluster.folder / f"{two}_0_log.err").write_text("first\nslurmstepd: error: oom-kill\n")
    assert pool.wait(0) == {one: Ended("done")}
    cluster.end(two)
    last = "job 1_1 ended without a result, and printed last: slurmstepd: error: oom-kill"
    assert pool.wait(0) == {two: Ended("died", last)}
    assert pool.wait(0) == {}


def test_a_job_is_not_lost_as_long_as_its_result_may_appear(cluster, monkeypatch):
    monkeypatch.setattr(files, "SHOWN_AFTER", 1000.0)
    pool = cluster.pool()
    (key,) = pool.submit(["one"])
    cluster.end(key)
    assert pool.wait(0) == pool.wait(0) == {}
    cluster.queue.write_text(f"{key}\n")  # it was queued again
    assert pool.wait(0) == {}
    monkeypatch.setattr(files, "SHOWN_AFTER", 0.0)
    assert pool.wait(0) == {}


def test_a_queue_that_does_not_answer_costs_no_job(cluster, tmp_path):
    pool = cluster.pool()
    pool.submit(["one"])
    cluster.queue.unlink()
    assert pool.wait(0) == {}


def test_jobs_that_cannot_see_the_folder_end_the_command(cluster):
    """It used to end after several jobs, and to name a file of submitit."""
    pool = cluster.pool()
    for key in pool.submit(["one", "two"]):
        cluster.end(key)
    with pytest.raises(ValueError, match=r"cannot see this folder; use a folder that all machines"):
        pool.wait(0)
    (cluster.folder / "1_0_0_log.out").touch()
    (cluster.folder / "1_0_0_log.err").touch()
    assert {ended.how for ended in pool.wait(0).values()} == {"died"}


def test_cancelled_jobs_of_the_queue_have_ended_at_once(cluster):
    """Each was waited for until two minutes had passed."""
    pool = cluster.pool()
    keys = pool.submit(["one", "two", "three"])
    cluster._command(cluster.queue.parent / "bin/scancel", f"echo {keys[2]} > {cluster.queue}")
    start = time.monotonic()
    pool.stop()
    assert pool.wait(0) == dict.fromkeys(keys[:2], Ended("stopped"))  # the third saves its runs
    cluster.end(keys[2])
    assert pool.wait(0) == {keys[2]: Ended("stopped")}
    assert time.monotonic() - start < 10


def test_the_next_command_takes_over_the_jobs_of_one_that_was_ended(cluster, monkeypatch, capsys):
    """It used to submit their tasks again, and Ctrl-C then left the first jobs in the queue."""
    submitit = SimpleNamespace(SlurmJob=FakeJob)
    monkeypatch.setattr("unweave.executors.slurm.import_engine", lambda *_: submitit)
    first = cluster.pool()
    keys = first.submit(["one", "two", "three"])
    cluster.end(keys[2])
    first.close()
    text = "2 jobs of Slurm will go on: repeat the command to collect the results, or cancel with"
    assert capsys.readouterr().err == f"{text} scancel 1\n"
    second = cluster.pool()
    assert second.submit(["two", "three"]) == [keys[1], "2_0"]
    second.stop()
    second.close()  # the first task is not of this command
    assert cluster.queue.read_text() == f"{keys[0]}\n"
    assert "1 job of Slurm will go on" in capsys.readouterr().err
    third = cluster.pool()
    third.stop()
    cluster.end(keys[0])
    third.close()
    assert not list(cluster.folder.glob("left-*"))
    assert not capsys.readouterr().err


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_driver_that_is_stopped_has_one_last_line(number, cluster, unweave, monkeypatch):
    """After SIGTERM it said that the jobs go on, and then that what they trained was saved."""

    def submit_and_stop(function, texts):
        os.kill(os.getpid(), number)
        return Cluster.map_array(cluster, function, texts)

    monkeypatch.setattr(cluster, "map_array", submit_and_stop, raising=False)
    monkeypatch.setattr(uw.Slurm, "check", lambda self: None)
    monkeypatch.setattr(uw.Slurm, "_executor", lambda self, store: cluster)
    store = ("--store", cluster.folder.parent / "runs", "--on", "slurm:gpus=0", "--device", "cpu")
    code, _, err = unweave("train", "data=shapes2d", "data.side=16", "steps=5", *store)
    last = [line for line in err.partition("stopping soon")[2].splitlines() if line[:5] != "steps"]
    left = "1 job of Slurm will go on: repeat the command to collect the results, or cancel with "
    stopped = "stopped; what was trained is saved, and the same command resumes from there"
    unstarted = "1 of 1 run has not started: run this again to train it too"
    assert last[1:] == ([f"{left}scancel 1"] if number == signal.SIGTERM else [unstarted, stopped])
    assert code == 130


def test_jobs_have_time_to_train_before_they_save():
    """They save 90 seconds before the limit, so a job of one minute never trained."""
    with pytest.raises(ValueError, match="minutes: expected at least 5, got 4"):
        uw.Slurm(minutes=4)


def test_options_of_sbatch_have_their_names_and_values():
    text = "--qos=high --gpus-per-node=a100:1 --exclude=n1,n2"
    on = override(uw.Slurm, [f"extra={text}"])
    assert on._options() == {"qos": "high", "gpus_per_node": "a100:1", "exclude": "n1,n2"}
    with pytest.raises(ValueError, match=r"extra: expected .*, --name=value, got '-p'"):
        uw.Slurm(extra="-p gpu")


def test_a_value_of_an_executor_may_have_commas(monkeypatch):
    monkeypatch.setattr(uw.Slurm, "check", lambda self: None)
    text = "slurm:minutes=30,extra=--qos=high --exclude=n1,n2,setup=module load cuda"
    assert executor_from(text) == uw.Slurm(
        minutes=30, extra="--qos=high --exclude=n1,n2", setup="module load cuda"
    )


# ---- submitit


def test_slurm_leaves_the_files_of_the_plain_command(tmp_path):
    plain = train_plainly(tmp_path / "plain", lanes=5)
    check_laws(uw.Slurm(**LOCAL, lanes=5), tmp_path / "jobs", plain)


def test_a_preempted_job_saves_and_is_queued_again(tmp_path, monkeypatch):
    """The signal comes once; the job resumes from what it saved and ends, with the same bits."""
    once, run = tmp_path / "preempted", small_run(steps=50, objective=Preempted())
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, sys.path)))
    monkeypatch.setenv("PREEMPTED", str(once))
    outcomes = train_on(uw.Slurm(**LOCAL), tmp_path / "runs", [run])
    assert once.exists()
    logs = [path.read_text() for path in (tmp_path / "runs/.workers").glob("*.txt")]
    assert sum(log.count(f"cpu: {run.digest}") for log in logs) == 2  # attempts
    check_outcomes(outcomes, train([run], SMALL.load(CPU)))


def test_the_script_of_a_job_has_all_options_once(tmp_path, monkeypatch):
    """Those in `extra` replace others of the same name."""
    (tmp_path / "srun").touch(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    extra = "--qos=high --gpus-per-node=a100:1 --reservation=course"
    on = uw.Slurm(partition="gpu", extra=extra, setup="module load cuda")
    executor = on._executor(str(tmp_path))
    script = executor._executor._make_submission_file_text("train", "1")
    lines = ("--qos=high", "--gpus-per-node=a100:1", "--reservation=course", "--partition=gpu")
    for line in (*(f"#SBATCH {each}" for each in lines), "module load cuda"):
        assert script.splitlines().count(line) == 1
    assert script.count("gpus-per-node") == 1


def test_submitit_needs_a_folder_beside_a_store_elsewhere():
    with pytest.raises(ValueError, match="use --on slurm:folder=/shared/jobs"):
        uw.Slurm(cluster="local").open("cpu", "s3://bucket/study").__enter__()


class QueuedJob:
    """A job of Slurm that waits in the queue."""

    def __init__(self, number):
        self.job_id, self.cancelled = str(number), False

    def done(self):
        return self.cancelled

    def cancel(self, check):
        self.cancelled = True

    def result(self):
        raise RuntimeError("cancelled")


class Queue(Fake):
    """Submits arrays of jobs; the third raises `error`."""

    def __init__(self, error):
        super().__init__(lanes=1)
        self.error, self.jobs = error, []

    def map_array(self, function, texts):
        if len(self.jobs) == 4:
            raise self.error
        self.jobs += (added := [QueuedJob(len(self.jobs) + n) for n in range(len(texts))])
        return added

    @contextmanager
    def open(self, device, store):
        yield ArrayJobs(self, uw.Slurm(cluster="local", gpus=0), device, Path(store))


@pytest.mark.parametrize("scoring", [False, True])
@pytest.mark.parametrize(
    ("error", "raised"),
    [(RuntimeError("MaxSubmitJobs"), ValueError), (KeyboardInterrupt(), KeyboardInterrupt)],
)
def test_no_job_of_slurm_goes_on_after_an_error(tmp_path, monkeypatch, error, raised, scoring):
    """Arrays that were submitted before one was refused used to stay in the queue."""
    monkeypatch.setattr("unweave.executors.slurm._ARRAY", 2)
    on = Queue(error)
    folders = tuple(f"{tmp_path}/{n}" for n in range(6))
    with pytest.raises(raised):
        list(on.score(ScoringTask(folders)) if scoring else train_on(on, tmp_path))
    assert [job.cancelled for job in on.jobs] == [True] * 4


def test_cancelled_jobs_are_not_asked_for_results():
    """Submitit waits 15 seconds for each result, also of jobs that never left the queue."""
    jobs = ArrayJobs(Queue(None), uw.Slurm(cluster="local", gpus=0), "cpu", Path())
    keys = jobs.submit(["one", "two"])
    jobs.stop()
    assert jobs.wait(0) == dict.fromkeys(keys, Ended("stopped"))
