"""Executors with their engines, which have to be installed: pip install 'unweave[ray,slurm]'."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections import Counter

import pytest

import unweave as uw
from datasets import CPU, SMALL, small_run
from executor_laws import check_laws, check_outcomes, train_on, train_plainly
from unweave.evaluation.tasks import Task
from unweave.executors import local
from unweave.executors.worker import request
from unweave.training import TrainingInterrupted, train
from unweave.training.status import read_status
from unweave.training.store import Store

pytestmark = pytest.mark.slow

SLURM = {"cluster": "local", "gpus": 0, "cpus": 1, "lanes": 2}


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    return train_plainly(tmp_path_factory.mktemp("plain"))


def test_ray_leaves_the_files_of_the_plain_command_on_two_nodes(tmp_path, plain):
    import ray
    from ray.cluster_utils import Cluster

    quiet = {"include_dashboard": False, "num_cpus": 1}
    cluster = Cluster(initialize_head=True, head_node_args=quiet)
    cluster.add_node(num_cpus=1)
    try:
        check_laws(uw.Ray(address=cluster.address, lanes=2), tmp_path, plain)
        assert not ray.is_initialized()
    finally:
        cluster.shutdown()


def test_slurm_leaves_the_files_of_the_plain_command(tmp_path, plain):
    check_laws(uw.Slurm(**SLURM), tmp_path, plain)


def test_a_worker_ends_with_the_process_that_started_it(tmp_path):
    """Its standard input ends, it saves what it trains, and is gone."""
    run = small_run(steps=100_000)
    task = Task(runs=(run.resolve(SMALL.load(CPU)),), store=str(tmp_path), device="cpu", threads=1)
    folder = task.folders[0]
    folder.create(task.runs[0])
    worker = local._Worker("cpu", lambda reply: None)
    worker.send(request(task))
    wait_until(lambda: folder.status == "running")
    time.sleep(0.5)
    worker.process.stdin.close()
    worker.process.wait(60)
    assert folder.status == "stopped"
    assert list(folder.states)


def wait_until(holds):
    deadline = time.monotonic() + 120
    while not holds() and time.monotonic() < deadline:
        time.sleep(0.05)


def long_run():
    return small_run(steps=1_000)


def states(root):
    return list(Store(root).folder(long_run()).states)


def interrupt_when_running(root):
    """Press Ctrl-C in this process when the long run is being trained."""

    def press():
        wait_until(lambda: any(worker.runs for worker in read_status(root).workers))
        time.sleep(2)
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=press, daemon=True).start()


@pytest.mark.parametrize("on", [uw.Local(processes=2), uw.Ray(gpus=0)], ids=lambda on: on.kind)
def test_ctrl_c_saves_what_workers_train(on, tmp_path):
    """No checkpoint is due before the end, so the one that is found was saved when it stopped."""
    interrupt_when_running(tmp_path)
    with pytest.raises(TrainingInterrupted):
        train_on(on, tmp_path, [long_run()])
    (step,) = states(tmp_path)
    assert 0 < step < 1_000
    assert Store(tmp_path).folder(long_run()).status == "stopped"


def test_a_preempted_job_saves_and_is_queued_again(tmp_path):
    """The signal comes once; the job resumes from what it saved and ends, with the same bits."""
    seen = []

    def preempt():
        wait_until(lambda: any(worker.runs for worker in read_status(tmp_path).workers))
        time.sleep(1)
        (worker,) = read_status(tmp_path).workers
        os.kill(worker.pid, signal.SIGUSR2)
        wait_until(lambda: states(tmp_path))
        seen.extend(states(tmp_path))

    threading.Thread(target=preempt, daemon=True).start()
    outcomes = train_on(uw.Slurm(**SLURM), tmp_path, [long_run()])
    assert 0 < seen[0] < 1_000
    check_outcomes(outcomes, train([long_run()], SMALL.load(CPU)))


def test_a_ray_cluster_that_cannot_be_reached_is_one_line(tmp_path):
    with pytest.raises(ValueError, match=r"cannot reach a Ray cluster at 127\.0\.0\.1:9 \("):
        train_on(uw.Ray(address="127.0.0.1:9"), tmp_path)
    with pytest.raises(ValueError, match="cannot reach a Ray cluster at auto"):
        train_on(uw.Ray(address="auto"), tmp_path)


def test_ray_without_gpus_says_so(tmp_path):
    with pytest.raises(ValueError, match="has 0 GPUs, and a task needs 1: use --on ray:gpus=0"):
        train_on(uw.Ray(gpus=1), tmp_path)


def starts(root):
    """How often the training of each run has started, according to the logs of all workers."""
    counts = Counter()
    for log in (root / ".workers").glob("*.txt"):
        for line in log.read_text().splitlines():
            if " cpu: " in line:
                digests = line.partition(" cpu: ")[2].split(", ")
            elif " start, " in line or " starts, " in line:
                counts.update(digests)
    return counts


def test_a_study_that_two_machines_train_at_once_is_trained_once(tmp_path):
    """Two commands with different names of their machines share a store; both end well."""
    sweep = "data=shapes2d data.side=16 data.positions=4 data.orientations=1 network=mlp "
    sweep += "network.hidden=[16] latent.size=3 batch_size=16 steps=100 seed=0..7"
    command = [sys.executable, "-m", "unweave", "train", *sweep.split(), "--store", tmp_path]
    command += ["--device", "cpu", "--threads", "1", "--on", "local:processes=2", "--lanes", "2"]
    hosts = [os.environ | {"UNWEAVE_HOST": name} for name in ("one", "two")]
    both = [subprocess.Popen(command, env=host, stdout=subprocess.DEVNULL) for host in hosts]
    assert [each.wait(300) for each in both] == [0, 0]
    counts = starts(tmp_path)
    assert len(counts) == 8
    assert set(counts.values()) == {1}
    assert {log.name[:3] for log in (tmp_path / ".workers").glob("*.txt")} == {"one", "two"}
