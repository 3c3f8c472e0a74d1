"""Executors: what cannot train is refused in one line, before any work."""

import errno
import json
import socketserver
import sys
import threading
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import unweave as uw
from datasets import SMALL, small_run
from executor_laws import task_of, train_on
from fake_engine import Fake
from unweave.executors import executor_from
from unweave.executors.worker import Ended, request, work
from unweave.training.store import Store


def test_a_worker_says_what_it_cannot_find(tmp_path, monkeypatch):
    monkeypatch.setattr("unweave.executors.worker._QUICK", 0.0)
    run = small_run()
    task = task_of(run, tmp_path / "elsewhere")
    ended = Ended.read(work(request(task, probe=True)))
    assert ended.how == "failed"
    assert "the workers cannot see the store: there is no" in ended.text
    task.folders[0].create(run)
    assert Ended.read(work(request(task, probe=True))).how == "done"
    content = json.loads(request(task, probe=True)) | {"imports": ["no_such_parts"]}
    ended = Ended.read(work(json.dumps(content)))
    assert "there is no module 'no_such_parts' here" in ended.text
    path = tmp_path / "images.npy"
    np.save(path, np.zeros((60, 8, 8), np.uint8))
    own = replace(task, runs=(replace(task.runs[0], data=uw.Arrays(str(path))),))
    own.folders[0].create(own.runs[0])
    path.unlink()
    ended = Ended.read(work(request(own, probe=True)))
    assert f"the workers cannot see the data: there is no {path}" in ended.text
    content = json.loads(request(task, probe=True)) | {"digests": ["0123456789ab"]}
    ended = Ended.read(work(json.dumps(content | {"imports": ["json"]})))
    assert (ended.how, "the workers have other code of json" in ended.text) == ("failed", True)
    content = json.loads(request(task, probe=True)) | {"version": "0.0"}
    ended = Ended.read(work(json.dumps(content)))
    assert (ended.how, "this command 0.0: install the same version" in ended.text) == (
        "failed",
        True,
    )


@pytest.mark.skipif(sys.platform != "linux", reason="writes to /dev/full")
def test_a_log_that_cannot_be_written_neither_stops_a_worker_nor_hides_its_error(
    tmp_path, monkeypatch
):
    task = task_of(small_run(), tmp_path)
    task.folders[0].create(task.runs[0])
    monkeypatch.setattr("unweave.executors.worker.log_path", lambda *_: Path("/dev/full"))
    with monkeypatch.context() as patch:
        patch.setattr("unweave.evaluation.tasks.train", failing)
        ended = Ended.read(work(request(task)))
    assert (ended.how, "No space left on device: 'weights" in ended.text) == ("died", True)
    assert Ended.read(work(request(task))).how == "done"
    assert task.is_done


def failing(*_):
    raise OSError(errno.ENOSPC, "No space left on device", "weights.safetensors")


def test_a_probe_that_fails_ends_the_command_before_any_work(tmp_path, monkeypatch):
    on = Fake()
    monkeypatch.setattr("unweave.executors.worker._find_data", lambda task: 1 / 0)
    with pytest.raises(ValueError, match="division by zero"):
        train_on(on, tmp_path)
    assert not on.pools[0].submitted


def test_data_in_memory_and_runs_without_a_store_are_refused_by_other_processes(tmp_path):
    images = np.zeros((60, 8, 8), np.uint8)
    with pytest.raises(ValueError, match="data in memory cannot be read by other processes"):
        uw.fit(images, store=tmp_path, steps=5, on=Fake(), progress=False)
    with pytest.raises(ValueError, match="needs a store that they share"):
        uw.fit(SMALL, steps=5, on=Fake(), progress=False)


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("slrm", "--on: 'slrm' is not known: did you mean 'slurm'"),
        ("local:processes=0", "--on local:processes=0: processes"),
        ("local:speed=3", "--on local:speed=3: "),
        ("ray", r"--on ray needs ray: pip install 'unweave\[ray\]'"),
        ("slurm", r"--on slurm needs submitit: pip install 'unweave\[slurm\]'"),
    ],
)
def test_an_executor_that_cannot_train_raises_one_line_before_any_work(
    text, error, unweave, monkeypatch, tmp_path
):
    monkeypatch.setitem(sys.modules, "ray", None)
    monkeypatch.setitem(sys.modules, "submitit", None)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ValueError, match=error):
        executor_from(text)
    code, _, err = unweave("train", "--on", text)
    assert code == 2
    assert err.startswith("error: --on")
    assert err.count("\n") == 1
    assert not list(tmp_path.iterdir())


class FakeRay:
    """As much of Ray as is needed to connect, which fails."""

    def __init__(self, error):
        self.error = error

    def is_initialized(self):
        return False

    def init(self, **_):
        raise self.error


def test_a_ray_that_does_not_start_is_one_line(tmp_path, monkeypatch):
    """On a busy machine Ray gives up after half a minute, with an error of no particular kind."""
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    monkeypatch.setenv("RAY_TMPDIR", str(tmp_path))
    monkeypatch.setitem(sys.modules, "ray", FakeRay(Exception("the node timed out\nsee its logs")))
    late = r"^cannot start a Ray cluster here \(the node timed out\): start one with .* again$"
    with pytest.raises(ValueError, match=late):
        train_on(uw.Ray(), tmp_path / "runs")
    assert not Store(tmp_path / "runs").folders()


HTTP2 = b"\0\0\6\4\0\0\0\0\0\0\5\0\0@\0"  # the settings that a server sends first


@contextmanager
def answering(answer):
    """Serve one connection at a time on this machine, with one answer; yield the address."""

    class Answer(socketserver.BaseRequestHandler):
        def handle(self):
            self.request.recv(1000)
            self.request.sendall(answer)

    with socketserver.TCPServer(("127.0.0.1", 0), Answer) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"127.0.0.1:{server.server_address[1]}"
        server.shutdown()


@pytest.mark.parametrize("answer", [b"HTTP/1.1 400 Bad Request\r\n\r\n", b"SSH-2", b""])
def test_a_port_of_another_service_is_one_line(tmp_path, monkeypatch, answer):
    """Such as that of Ray's dashboard, for which Ray itself would wait a quarter of an hour."""
    connected = AssertionError("Ray was asked to connect")
    monkeypatch.setitem(sys.modules, "ray", FakeRay(connected))
    with answering(answer) as address:
        other = (
            rf"^cannot reach a Ray cluster at {address} \(another service answers there\): start"
        )
        with pytest.raises(ValueError, match=other):
            train_on(uw.Ray(address=address), tmp_path)
    with (
        answering(HTTP2) as address,
        pytest.raises(ValueError, match="Ray was asked to connect"),
    ):
        train_on(uw.Ray(address=address), tmp_path)


def test_a_cluster_that_expects_a_token_says_so(tmp_path, monkeypatch):
    """Ray sends a token only if RAY_AUTH_MODE asks for it; the error is the cause of another."""
    denied = ConnectionError("Failed to connect to Ray cluster")
    denied.__cause__ = RuntimeError("Failed: Unauthenticated: RPC error: InvalidAuthToken: ...")
    monkeypatch.setitem(sys.modules, "ray", FakeRay(denied))
    with (
        answering(HTTP2) as address,
        pytest.raises(ValueError, match=r"expects another token: set RAY_AUTH_MODE=token, and"),
    ):
        train_on(uw.Ray(address=address), tmp_path)
