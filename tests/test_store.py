"""The store: atomic, checked, resumable under SIGKILL, and clear when a disk or file is bad."""

import contextlib
import errno
import json
import os
import random
import resource
import shutil
import struct
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import torch

import unweave as uw
from crash_replay import call_and_kill
from datasets import CPU, CRITIC, SMALL, small_run
from stopping import Stops
from unweave.cli.errors import os_error_text
from unweave.core import files
from unweave.core.files import write_atomically
from unweave.core.spec import to_json
from unweave.training import TrainingInterrupted, train
from unweave.training.leases import own_leases
from unweave.training.store import RunFolder, Store
from unweave.training.tensor_files import read_tensors, write_tensors


def test_tensors_survive_writing_and_reading(tmp_path):
    tensors = {
        "a": torch.randn(3, 4), "b": torch.tensor(7), "empty": torch.zeros(0, 2),
        "laid out": torch.randn(2, 3, 4, 4).to(memory_format=torch.channels_last),
    }  # fmt: skip
    write_tensors(tmp_path / "t.safetensors", tensors, "c0ffee", {"step": 5})
    again, facts = read_tensors(tmp_path / "t.safetensors", "c0ffee")
    assert facts["step"] == 5
    assert again.keys() == tensors.keys()
    assert all(torch.equal(again[name], tensors[name]) for name in tensors)


def test_a_failed_write_leaves_the_old_file_and_no_litter(tmp_path, monkeypatch):
    path = tmp_path / "file"
    write_atomically(path, b"old")

    def fail(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(files.os, "replace", fail)
    with pytest.raises(OSError, match="No space"):
        write_atomically(path, b"new")
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("damage", ["truncated", "flipped", "empty", "text"])
def test_a_damaged_file_is_detected(tmp_path, damage):
    path = tmp_path / "t.safetensors"
    write_tensors(path, {"a": torch.randn(100)}, "c0ffee", {"step": 5})
    content = bytearray(path.read_bytes())
    if damage == "truncated":
        content = content[:-40]
    elif damage == "flipped":
        content[-10] ^= 1
    else:
        content = b"" if damage == "empty" else b"not tensors at all, only text"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=r"cannot be read .* damaged; restore it"):
        read_tensors(path, "c0ffee")


@pytest.mark.parametrize(
    ("kind", "shape", "size"),
    [("F8_E8M0", [4], 4), ("F4", [8], 4), ("F32", [0, 2**63], 0), ("F32", [2**62, 0], 0)],
)
def test_tensors_that_torch_cannot_hold_are_damage(tmp_path, kind, shape, size):
    path = tmp_path / "t.safetensors"
    header = json.dumps({"a": {"dtype": kind, "shape": shape, "data_offsets": [0, size]}}).encode()
    path.write_bytes(struct.pack("<Q", len(header)) + header + bytes(size))
    with pytest.raises(ValueError, match=r"cannot be read .* damaged; restore it"):
        read_tensors(path, "c0ffee")


@pytest.mark.parametrize("left", ["state-5.safetensors", "weights.safetensors"])
def test_lost_facts_of_the_data_are_not_replaced_by_those_of_today(tmp_path, left):
    run, store, dataset = small_run(), Store(tmp_path), SMALL.load(CPU)
    folder = store.folder(run)
    folder.create(run)
    (folder.path / left).touch()
    for use in (folder.read_data, lambda: folder.check_data(dataset)):
        with pytest.raises(ValueError, match=r"has no data\.json: restore it"):
            use()
    (folder.path / left).unlink()
    folder.check_data(dataset)
    assert folder.read_data().fingerprint == dataset.fingerprint


def test_two_processes_cannot_train_one_run(tmp_path):
    run = small_run()
    store = Store(tmp_path)
    store.folder(run).create(run)
    with (
        store.folder(run).lock(),
        pytest.raises(ValueError, match="another process is writing in"),
    ):
        train([run], SMALL.load(CPU), store)


def test_runs_are_found_by_the_start_of_their_digest(tmp_path):
    store, run = Store(tmp_path), small_run()
    with pytest.raises(ValueError, match="there are none yet"):
        store.find("abc")
    store.folder(run).create(run)
    assert store.find(run.digest[:4]).read_run() == run
    assert store.find(str(tmp_path / run.digest)).read_run() == run
    with pytest.raises(ValueError, match=f"is not a run in .* there are {run.digest}"):
        store.find("zzz")
    for seed in range(1, 10):
        store.folder(small_run(seed=seed)).create(small_run(seed=seed))
    with pytest.raises(ValueError, match="the newest of 10 are"):
        store.find("zzz")
    with pytest.raises(ValueError, match=r"no run\.json"):
        RunFolder(tmp_path).read_run()


def test_a_digest_alone_is_looked_for_where_commands_keep_runs(tmp_path, monkeypatch):
    """It was looked for in this folder only: "is not a run in .: there are none yet"."""
    monkeypatch.chdir(tmp_path)
    run = small_run(steps=2)
    train([run], SMALL.load(CPU), Store(Path("runs")))
    assert uw.load(run.digest[:4]).run == run
    with pytest.raises(ValueError, match=f"'zzz' is not a run in runs: there are {run.digest}"):
        uw.load("zzz")
    other = small_run(steps=2, seed=1)
    train([other], SMALL.load(CPU), Store(Path()))
    assert uw.load(other.digest[:4]).run == other  # runs in this folder come first
    assert uw.load(run.digest[:4]).run == run  # this used to fail beside any run in this folder


def test_an_exact_path_is_loaded_whatever_lies_beside_it(tmp_path, monkeypatch):
    """`load("runs/run1")` used to load `./run1`, and to refuse if `runs/run10` existed."""
    monkeypatch.chdir(tmp_path)
    store = Store(Path("runs"))
    for name, seed in {"runs/run1": 0, "runs/run10": 1, "run1": 2, "runs/other5": 3}.items():
        run = small_run(steps=2, seed=seed)
        train([run], SMALL.load(CPU), store)
        store.folder(run).path.rename(name)
    assert uw.load("runs/run1").run.seed == 0
    assert uw.load(Path("runs/run1")).run.seed == 0
    assert uw.load("run1").run.seed == 2
    assert [model.run.seed for model in uw.load(["runs/run10", "run1"])] == [1, 2]
    assert store.find("runs/run1").path == Path("runs/run1")
    assert store.named("run1").path == Path("runs/run1")
    assert uw.load("runs/ot").run.seed == 3
    with pytest.raises(ValueError, match="'run' is the start of several runs in runs: there are"):
        uw.load("runs/run")
    (tmp_path / "runs" / "ot").mkdir()
    with pytest.raises(ValueError, match="runs/ot is not a run"):
        uw.load("runs/ot")


def test_status_tells_running_from_stopped(tmp_path, unweave):
    """A run whose process ended before it finished used to be listed as running."""
    run, store = small_run(steps=40), Store(tmp_path)
    folder = store.folder(run)
    folder.create(run)
    assert folder.status == "not started"
    with folder.lock():
        assert folder.status == "running"
    assert folder.status == "not started"
    folder.check_data(SMALL.load(CPU))  # as training does before its first step
    assert folder.status == "stopped"  # it was killed before its first checkpoint
    with pytest.raises(TrainingInterrupted):
        train([run], SMALL.load(CPU), store, Stops())
    assert folder.status == "stopped"
    with folder.lock():
        assert folder.status == "running"
        assert " running " in unweave("runs", "--store", tmp_path)[1]
    assert " stopped " in unweave("runs", "--store", tmp_path)[1]
    folder.write_failure({"step": 10, "term": "rate"})
    with folder.lock():
        assert folder.status == "failed"
    (folder.path / "failed.json").unlink()
    folder.write_weights({}, 40)
    assert folder.status == "finished"


def test_training_waits_for_a_lock_that_is_held_for_a_moment(tmp_path, monkeypatch):
    """`evaluate` and `report` hold it while they write."""
    run, store = small_run(steps=2), Store(tmp_path)
    folder = store.folder(run)
    folder.create(run)
    held = contextlib.ExitStack()
    held.enter_context(folder.lock())
    waited = []

    def sleep(seconds):
        waited.append(seconds)
        held.close()

    monkeypatch.setattr(own_leases(), "_sleep", sleep)
    (outcome,) = train([run], SMALL.load(CPU), store)
    assert outcome.weights is not None
    assert len(waited) == 1


def test_a_finished_run_is_not_trained_again(tmp_path):
    run, store = small_run(steps=5), Store(tmp_path)
    (first,) = train([run], SMALL.load(CPU), store)
    written = store.folder(run).weights.stat().st_mtime_ns
    (second,) = train([run], SMALL.load(CPU), store)
    assert store.folder(run).weights.stat().st_mtime_ns == written
    assert second.log == first.log
    assert all(torch.equal(second.weights[n], first.weights[n]) for n in first.weights)
    assert sorted(p.name for p in store.folder(run).path.iterdir()) == [
        "data.json", "log.jsonl", "run.json", "state-5.safetensors", "weights.safetensors"
    ]  # fmt: skip


def killed_runs(steps):
    fields = dict(objective=uw.FactorVAE(gamma=5.0, critic=CRITIC), steps=steps)
    return [small_run(seed=seed, **fields) for seed in (0, 1)]


class Command:
    """Train with the command line in a new process."""

    startup = 3.0
    options = ("--device", "cpu")

    def __init__(self, folder, store, runs):
        base = folder / "base.json"
        base.write_text(json.dumps(to_json(runs[0])))
        command = [sys.executable, "-m", "unweave", "train", "seed=0,1", "--from", str(base),
                   "--store", str(store.root), "--checkpoint-seconds", "0.05", "--threads", "1",
                   *self.options]  # fmt: skip
        quiet = subprocess.DEVNULL
        self.process = subprocess.Popen(command, stdout=quiet, stderr=quiet)

    def wait(self):
        assert self.process.wait() == 0

    def running(self):
        return self.process.poll() is None

    def kill(self):
        self.process.kill()
        self.process.wait()


class GpuCommand(Command):
    options = ("--device", "cuda", "--precision", "bf16")


def kill_somewhere(child, store, draw):
    """Kill a child during its start or soon after a new checkpoint; False if it ended first."""
    before = checkpoints(store)
    starting = draw.random() < 0.3
    deadline = time.monotonic() + (draw.uniform(0, child.startup) if starting else 300)
    while child.running() and time.monotonic() < deadline:
        if checkpoints(store) - before:
            time.sleep(draw.uniform(0.0, 0.1))
            break
        time.sleep(0.01)
    if not child.running():
        return False
    child.kill()
    return True


def checkpoints(store):
    return {step for folder in store.folders() for step in folder.states}


@pytest.mark.parametrize(
    ("start", "times", "steps"),
    [
        pytest.param(Command, 10, 600, marks=pytest.mark.slow),
        pytest.param(GpuCommand, 3, 12_000, marks=pytest.mark.gpu),  # long enough to be compiled
    ],
)
def test_a_run_killed_many_times_ends_with_the_bits_of_one_that_was_not(
    tmp_path, start, times, steps
):
    """Two lanes of a FactorVAE; SIGKILL at random moments."""
    runs = killed_runs(steps)
    whole, killed = Store(tmp_path / "whole"), Store(tmp_path / "killed")
    start(tmp_path, whole, runs).wait()
    draw = random.Random(0)
    kills, reached = 0, set()
    while kills < times or len(reached) < min(3, times - 1):
        if kill_somewhere(start(tmp_path, killed, runs), killed, draw):
            kills += 1
            reached |= checkpoints(killed)
        else:
            compare(whole, killed, runs)  # it finished first: compare, and start again
            shutil.rmtree(killed.root)
    start(tmp_path, killed, runs).wait()
    compare(whole, killed, runs)


def test_runs_killed_again_and_again_end_with_the_bits_of_those_that_were_not(tmp_path):
    """Two lanes of a FactorVAE, with a checkpoint after every step."""
    runs, data, draw, reached = killed_runs(40), SMALL.load(CPU), random.Random(0), set()
    whole, killed = Store(tmp_path / "whole"), Store(tmp_path / "killed")
    train(runs, data, whole)
    for _ in range(6):
        assert not call_and_kill(draw.randrange(150), train, runs, data, killed, None, 0.0)
        reached |= checkpoints(killed)
    assert len(reached) >= 3
    train(runs, data, killed)
    compare(whole, killed, runs)


def compare(whole, killed, runs):
    """Check that weights and logs are equal and no temporary files are left."""
    for run in runs:
        one, two = whole.folder(run), killed.folder(run)
        assert one.weights.read_bytes() == two.weights.read_bytes()
        assert one.read_log() == two.read_log()
        names = sorted(path.name for path in two.path.iterdir())
        state = f"state-{run.steps}.safetensors"
        assert names == ["data.json", "log.jsonl", "run.json", state, "weights.safetensors"]
        assert (one.path / state).read_bytes() == (two.path / state).read_bytes()


@pytest.mark.parametrize("writes", range(1, 9))
def test_lanes_stopped_between_any_two_writes_end_with_the_same_bits(tmp_path, monkeypatch, writes):
    """The last checkpoint and the weights of two lanes are eight files; stop after each."""
    runs = [small_run(steps=10, seed=seed) for seed in (0, 1)]
    whole = train(runs, SMALL.load(CPU), Store(tmp_path / "whole"))
    real, done = os.replace, []

    def stop(source, target):
        if target.name not in ("run.json", "data.json"):
            done.append(target)
        if len(done) > writes:
            raise KeyboardInterrupt
        real(source, target)

    with monkeypatch.context() as patch:
        patch.setattr(files.os, "replace", stop)
        with contextlib.suppress(KeyboardInterrupt):
            train(runs, SMALL.load(CPU), Store(tmp_path / "cut"), checkpoint_seconds=1000)
    resumed = train(runs, SMALL.load(CPU), Store(tmp_path / "cut"))
    for one, two in zip(whole, resumed, strict=True):
        assert one.log == two.log
        assert all(torch.equal(one.weights[name], two.weights[name]) for name in one.weights)


SHORT = ["train", "data=shapes2d", "data.side=16", "data.positions=4", "data.orientations=1",
         "network=mlp", "batch_size=8", "steps=20", "--device", "cpu"]  # fmt: skip


def check_error(result, *texts):
    code, out, err = result
    assert (code, out) == (2, "")
    last = err.strip().splitlines()[-1]
    assert last.startswith("error: ")
    for text in texts:
        assert text in last, last


@contextlib.contextmanager
def limited_file_size(size):
    """Make the operating system refuse to write larger files."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_full_disk_loses_nothing(unweave, tmp_path):
    store = tmp_path / "runs"
    with limited_file_size(20_000):
        result = unweave(*SHORT, "--store", store)
    check_error(result, "cannot read or write", "free space", "--store", "run the command again")
    (folder,) = Store(store).folders()
    assert (folder.status, folder.states) == ("stopped", {})
    assert not list(folder.path.glob(".*"))
    assert unweave(*SHORT, "--store", store)[0] == 0
    assert folder.status == "finished"


def test_a_store_that_cannot_be_written_suggests_another(unweave, tmp_path):
    (tmp_path / "file").write_text("")
    check_error(unweave(*SHORT, "--store", tmp_path / "file" / "runs"), "--store")
    check_error(unweave(*SHORT, "--store", "/proc/unweave"), "--store")


STORE = Path("/data/runs")


@pytest.mark.parametrize(
    ("error", "store", "advice"),
    [
        (OSError(errno.ENOSPC, "No space left on device"), STORE, "free space, or choose"),
        (OSError(errno.ENOSPC, "No space left on device"), None, "free space, and run"),
        (OSError(errno.EACCES, "Permission denied", "/data/runs/1/log.jsonl"), STORE, "--store"),
        (OSError(errno.EROFS, "Read-only file system", "/data"), STORE, "--store"),
        (OSError(errno.EACCES, "Permission denied", "/photos/1.png"), STORE, None),
        (OSError(errno.ENOENT, "No such file or directory", "/photos"), STORE, None),
        (OSError(errno.ECONNRESET, "Connection reset by peer"), STORE, None),
        (OSError(errno.EIO, "Input/output error", "/data/runs/1/log.jsonl"), STORE, None),
        (TimeoutError("timed out"), STORE, None),
    ],
)
def test_only_errors_about_the_store_suggest_another_store(error, store, advice):
    text = os_error_text(error, store)
    assert (error.strerror or str(error)) in text
    if advice:
        assert advice in text
    if advice is None or store is None:
        assert "--store" not in text
    if advice is None:
        assert "space" not in text


def test_a_damaged_checkpoint_is_one_line_and_nothing_is_lost(unweave, tmp_path):
    run = small_run(steps=20)
    store = Store(tmp_path / "runs")
    folder = store.folder(run)
    folder.create(run)
    state = folder.path / "state-10.safetensors"
    state.write_bytes(b"half a checkpoint")
    base = tmp_path / "base.json"
    base.write_text(json.dumps(to_json(run)))
    command = ["train", "--from", base, "--store", store.root]
    check_error(unweave(*command), "state-10.safetensors", "move it elsewhere")
    assert state.read_bytes() == b"half a checkpoint"
    state.unlink()
    assert unweave(*command)[0] == 0


def test_a_damaged_log_is_named(unweave, tmp_path):
    run = small_run(steps=5)
    store = Store(tmp_path)
    train([run], SMALL.load(CPU), store)
    folder = store.folder(run)
    (folder.path / "log.jsonl").write_text("{no json")
    with pytest.raises(ValueError, match=r"log\.jsonl cannot be read"):
        folder.read_log()
    code, out, err = unweave("runs", "--store", tmp_path)
    assert code == 0
    assert "damaged" in out
    assert "log.jsonl cannot be read" in err


def test_files_have_the_permissions_of_the_umask(tmp_path):
    old = os.umask(0o022)
    try:
        write_atomically(tmp_path / "file", b"x")
    finally:
        os.umask(old)
    assert (tmp_path / "file").stat().st_mode & 0o777 == 0o644


def test_changed_data_are_detected(unweave, tmp_path):
    path = tmp_path / "x.npy"
    np.save(path, np.zeros((20, 4)))
    command = ["train", f"data={path}", "steps=3", "batch_size=4", "--store", tmp_path / "runs"]
    assert unweave(*command)[0] == 0
    np.save(path, np.ones((20, 4)))
    check_error(unweave(*command), "the data in ", "x.npy have changed", "in another store")
    (folder,) = Store(tmp_path / "runs").folders()
    model = uw.load(folder.path)
    with pytest.raises(ValueError, match=r"the data in .*x\.npy have changed"):
        model.table()
