"""Executors with their engines, which have to be installed: pip install 'unweave[ray]'."""

import os
import queue
import re
import signal
import subprocess
import sys
import threading
import time
from collections import Counter

import pytest

import unweave as uw
from datasets import CPU, SMALL, small_run
from executor_laws import check_laws, files, train_on, train_plainly
from unweave.evaluation.tasks import Task
from unweave.executors import local
from unweave.executors.ray import _find_cluster, _keep_sigterm
from unweave.executors.worker import request
from unweave.training import TrainingInterrupted
from unweave.training.remote_stores import store_root
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
    with _keep_sigterm():  # otherwise later tests are ended by it
        cluster = Cluster(initialize_head=True, head_node_args=quiet)
        cluster.add_node(num_cpus=1)
    try:
        check_laws(uw.Ray(address=cluster.address, lanes=2), tmp_path, plain)
        assert not ray.is_initialized()
    finally:
        cluster.shutdown()


def test_a_worker_ends_with_the_process_that_started_it(tmp_path):
    """Its standard input ends, it saves what it trains, and is gone."""
    run = ENDLESS
    task = Task(runs=(run.resolve(SMALL.load(CPU)),), store=str(tmp_path), device="cpu", threads=1)
    folder = task.folders[0]
    folder.create(task.runs[0])
    worker = local._Worker("cpu", 0, queue.Queue())
    worker.send(request(task))
    wait_for_steps(tmp_path)
    worker.process.stdin.close()
    worker.process.wait(60)
    worker.close()
    assert folder.status == "stopped"
    assert list(folder.states)


def wait_until(holds):
    deadline = time.monotonic() + 120
    while not holds() and time.monotonic() < deadline:
        time.sleep(0.05)


ENDLESS = small_run(steps=1_000_000)


def wait_for_steps(root):
    """Wait until a worker has taken some steps, according to its record; return the worker."""
    wait_until(lambda: any(worker.step for worker in read_status(root).workers))
    return next(worker for worker in read_status(root).workers if worker.step)


def interrupt_when_running(root, number):
    """Send a signal to this process when a run is being trained."""

    def press():
        wait_for_steps(root)
        os.kill(os.getpid(), number)

    threading.Thread(target=press, daemon=True).start()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("on", [uw.Local(processes=2), uw.Ray(gpus=0)], ids=lambda on: on.kind)
def test_signals_save_what_workers_train(on, number, tmp_path):
    """No checkpoint is due before the end, so the one that is found was saved when it stopped."""
    interrupt_when_running(tmp_path, number)
    with pytest.raises(TrainingInterrupted) as stopped:
        train_on(on, tmp_path, [ENDLESS])
    assert stopped.value.terminated == (number == signal.SIGTERM)
    folder = Store(tmp_path).folder(ENDLESS)
    (step,) = folder.states
    assert 0 < step < ENDLESS.steps
    assert folder.status == "stopped"


def test_a_ray_cluster_that_cannot_be_reached_is_one_line(tmp_path, monkeypatch):
    """Wherever its address is from: Ray would wait for minutes for one that has ended."""
    gone = r"^cannot reach a Ray cluster at 127\.0\.0\.1:9 \(.*refused\): start one .* here$"
    with pytest.raises(ValueError, match=gone):
        train_on(uw.Ray(address="127.0.0.1:9"), tmp_path)
    monkeypatch.setenv("RAY_TMPDIR", str(tmp_path))
    (tmp_path / "ray").mkdir()
    (tmp_path / "ray/ray_current_cluster").write_text("127.0.0.1:9\n")
    with pytest.raises(ValueError, match=gone):
        train_on(uw.Ray(address="auto"), tmp_path)
    assert _find_cluster(None) == "local"
    monkeypatch.setenv("RAY_ADDRESS", "127.0.0.1:9")
    with pytest.raises(ValueError, match=gone):
        train_on(uw.Ray(), tmp_path)
    assert not Store(tmp_path).folders()


def test_ray_without_the_resources_of_a_task_raises_a_clear_error(tmp_path):
    with pytest.raises(ValueError, match="no machine of the Ray cluster has 0 GPUs and 999 cores"):
        train_on(uw.Ray(cpus=999), tmp_path)


STARTED = re.compile(r" (starts|resumes at step \d+), .*\(run (\w+)\)")
WORKERS = ("--on", "local:processes=2")


@pytest.mark.parametrize("places", [((), ()), (WORKERS, WORKERS), ((), WORKERS)])
def test_a_study_that_two_machines_train_at_once_is_trained_once(tmp_path, places):
    """Two commands with different names of their machines share a store; both end well."""
    sweep = "data=shapes2d data.side=16 data.positions=4 data.orientations=1 network=mlp "
    sweep += "network.hidden=[16] latent.size=3 batch_size=16 steps=300 seed=0..7"
    command = [sys.executable, "-m", "unweave", "train", *sweep.split(), "--store", tmp_path]
    command += ["--device", "cpu", "--threads", "1", "--lanes", "1"]
    commands = []
    for host, on in zip(("one", "two"), places, strict=True):
        given = {"env": os.environ | {"UNWEAVE_HOST": host}, "text": True}
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        commands.append(subprocess.Popen([*command, *on], **given, **pipes))
    texts = []
    for each in commands:
        out, err = each.communicate(timeout=600)
        assert each.returncode == 0, err
        assert "(one of 8 runs)" in out
        texts.append(err)
    texts += [log.read_text() for log in (tmp_path / ".workers").glob("*.txt")]
    counts = Counter(run for text in texts for _, run in STARTED.findall(text))
    assert len(counts) == 8
    assert set(counts.values()) == {1}
    assert {folder.status for folder in Store(tmp_path).folders()} == {"finished"}
    assert not list(tmp_path.glob("*/lease-*"))


@pytest.mark.parametrize("engine", ["ray", "slurm"])
def test_engines_train_in_object_storage(engine, bucket, tmp_path):
    on = {"ray": uw.Ray(gpus=0, lanes=2), "slurm": uw.Slurm(**SLURM, folder=str(tmp_path / "jobs"))}
    train_on(uw.Local(lanes=2), tmp_path / "runs")
    train_on(on[engine], store_root("s3://bucket/study"))
    found = {name: each for name, each in bucket().items() if "/.workers/" not in name}
    expected = files(tmp_path / "runs")
    assert found == {f"study/{name}": each for name, each in expected.items()}


def test_ray_workers_without_the_store_or_of_another_version_raise_one_line_before_any_work(
    tmp_path, monkeypatch
):
    with monkeypatch.context() as patch:
        patch.setattr("unweave.executors.driver._create_folders", lambda tasks: None)
        with pytest.raises(ValueError, match="the workers cannot see the store: there is no"):
            train_on(uw.Ray(gpus=0), tmp_path)
    assert not Store(tmp_path).folders()
    monkeypatch.setattr("unweave.__version__", "9")
    with pytest.raises(ValueError, match=r"the workers have unweave .*, and this command 9: inst"):
        train_on(uw.Ray(gpus=0), tmp_path)
    assert {folder.status for folder in Store(tmp_path).folders()} == {"not started"}


def test_workers_end_with_a_driver_that_is_killed(tmp_path):
    """They save what they train, and the same command goes on from there."""
    command = [sys.executable, "-m", "unweave", "train", "data=shapes2d", "data.side=16",
               "data.positions=4", "data.orientations=1", "network=mlp", "batch_size=8",
               "steps=100000", "seed=0..1", "--device", "cpu", "--store", tmp_path, *WORKERS,
               "--lanes", "1", "--checkpoint-seconds", "1000"]  # fmt: skip
    driver = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    wait_until(lambda: sum(each.step > 0 for each in read_status(tmp_path).workers) == 2)
    driver.kill()
    driver.wait()
    wait_until(lambda: not read_status(tmp_path).workers)
    folders = Store(tmp_path).folders()
    assert [(folder.status, len(folder.states)) for folder in folders] == [("stopped", 1)] * 2
