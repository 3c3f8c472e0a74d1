"""The store: atomic, checked, resumable under SIGKILL, and clear when a disk or file is bad."""

import contextlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
import torch

import unweave as uw
from datasets import CPU, CRITIC, SMALL, small_run
from unweave.core import files
from unweave.core.files import write_atomically
from unweave.core.spec import to_json
from unweave.training import train
from unweave.training.store import RunFolder, Store, read_tensors, write_tensors

UNWEAVE = [sys.executable, "-c", "from unweave.cli.main import main; main()"]


def test_tensors_survive(tmp_path):
    tensors = {
        "a": torch.randn(3, 4), "b": torch.tensor(7), "empty": torch.zeros(0, 2),
        "laid out": torch.randn(2, 3, 4, 4).to(memory_format=torch.channels_last),
    }  # fmt: skip
    write_tensors(tmp_path / "t.safetensors", tensors, {"step": 5})
    again, facts = read_tensors(tmp_path / "t.safetensors")
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
def test_a_damaged_file_is_recognised(tmp_path, damage):
    path = tmp_path / "t.safetensors"
    write_tensors(path, {"a": torch.randn(100)}, {"step": 5})
    content = bytearray(path.read_bytes())
    if damage == "truncated":
        content = content[:-40]
    elif damage == "flipped":
        content[-10] ^= 1
    else:
        content = b"" if damage == "empty" else b"not tensors at all, only text"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=r"cannot be read .* damaged. Delete it"):
        read_tensors(path)


def test_two_processes_cannot_train_one_run(tmp_path):
    run = small_run()
    store = Store(tmp_path)
    store.folder(run).create(run)
    with (
        store.folder(run).lock(),
        pytest.raises(ValueError, match="trained by another process"),
    ):
        train([run], SMALL.load(CPU), store)


def test_runs_are_found_by_the_beginning_of_their_name(tmp_path):
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


def test_a_finished_run_is_not_trained_again(tmp_path):
    run, store = small_run(steps=5), Store(tmp_path)
    (first,) = train([run], SMALL.load(CPU), store)
    written = store.folder(run).weights.stat().st_mtime_ns
    (second,) = train([run], SMALL.load(CPU), store)
    assert store.folder(run).weights.stat().st_mtime_ns == written
    assert second.log == first.log
    assert all(torch.equal(second.weights[n], first.weights[n]) for n in first.weights)
    assert sorted(p.name for p in store.folder(run).path.iterdir()) == [
        "data.json", "lock", "log.jsonl", "run.json", "weights.safetensors"
    ]  # fmt: skip


def kill_runs(steps):
    fields = dict(objective=uw.FactorVAE(gamma=5.0, critic=CRITIC), steps=steps)
    return [small_run(seed=seed, **fields) for seed in (0, 1)]


def kill_command(tmp_path, store, runs, *options):
    base = tmp_path / "base.json"
    base.write_text(json.dumps(to_json(runs[0])))
    return [*UNWEAVE, "train", "seed=0,1", "--from", str(base), "--store", str(store),
            "--checkpoint-seconds", "0.05", "--threads", "1", *options]  # fmt: skip


ON_A_GPU = ("--device", "cuda", "--precision", "bf16")


def kill_somewhere(process, store, draw):
    """Kill at a moment of its start or a little after a new checkpoint; False if it ended first."""
    before = checkpoints(store)
    starting = draw.random() < 0.3
    deadline = time.monotonic() + (draw.uniform(0.1, 3.0) if starting else 300)
    while process.poll() is None and time.monotonic() < deadline:
        if checkpoints(store) - before:
            time.sleep(draw.uniform(0.0, 0.1))
            break
        time.sleep(0.01)
    if process.poll() is not None:
        return False
    process.send_signal(signal.SIGKILL)
    process.communicate()
    return True


def checkpoints(store):
    return {step for folder in store.folders() for step in folder.states}


@pytest.mark.parametrize(
    ("times", "steps", "options"),
    [
        (10, 600, ("--device", "cpu")),
        pytest.param(3, 12_000, ON_A_GPU, marks=pytest.mark.gpu),  # long enough to be compiled
    ],
    ids=["cpu", "gpu"],
)
def test_killed_many_times_a_run_ends_bit_for_bit_as_uninterrupted(tmp_path, times, steps, options):
    """Two lanes of a FactorVAE, SIGKILL at moments anywhere in the life of the process."""
    runs = kill_runs(steps)
    whole, killed = Store(tmp_path / "whole"), Store(tmp_path / "killed")
    subprocess.run(
        kill_command(tmp_path, whole.root, runs, *options), check=True, capture_output=True
    )
    command = kill_command(tmp_path, killed.root, runs, *options)
    draw = random.Random(0)
    kills, reached = 0, set()
    while kills < times or len(reached) < min(3, times - 1):
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        if kill_somewhere(process, killed, draw):
            kills += 1
            reached |= checkpoints(killed)
        else:
            assert process.returncode == 0
            compare(whole, killed, runs)  # it got to its end first: check, and start anew
            shutil.rmtree(killed.root)
    subprocess.run(command, check=True, capture_output=True)
    compare(whole, killed, runs)


def compare(whole, killed, runs):
    """The same weights and log, and nothing left over."""
    for run in runs:
        one, two = whole.folder(run), killed.folder(run)
        assert one.weights.read_bytes() == two.weights.read_bytes()
        assert one.read_log() == two.read_log()
        names = sorted(path.name for path in two.path.iterdir())
        assert names == ["data.json", "lock", "log.jsonl", "run.json", "weights.safetensors"]


@pytest.mark.parametrize("writes", range(1, 9))
def test_stopped_between_any_two_writes_the_lanes_end_the_same(tmp_path, monkeypatch, writes):
    """The last checkpoint and the weights of two lanes are eight files; stop after each."""
    runs = [small_run(steps=40, seed=seed) for seed in (0, 1)]
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


def limited(*arguments, file_size=None):
    """Run the command line, with a limit on the size of any file it writes."""

    def limit():
        import resource

        resource.setrlimit(resource.RLIMIT_FSIZE, (file_size, file_size))

    return subprocess.run(
        [*UNWEAVE, *arguments], capture_output=True, text=True,
        preexec_fn=limit if file_size else None, env={**os.environ, "COLUMNS": "200"},
    )  # fmt: skip


SHORT = ["train", "data=shapes2d", "data.side=16", "data.positions=4", "data.orientations=1",
         "network=mlp", "batch_size=8", "steps=20", "--device", "cpu"]  # fmt: skip


def one_line_error(process, *words):
    assert process.returncode == 2, process.stderr
    assert "Traceback" not in process.stderr
    assert process.stdout == ""
    last = process.stderr.strip().splitlines()[-1]
    assert last.startswith("error: ")
    for word in words:
        assert word in last, last


def test_a_full_disk_loses_nothing(tmp_path):
    """A file-size limit makes the operating system refuse to write the checkpoint."""
    store = tmp_path / "runs"
    one_line_error(limited(*SHORT, "--store", str(store), file_size=20_000), "cannot read or write",
                   "run the same command again")  # fmt: skip
    (folder,) = Store(store).folders()
    assert folder.status == "not started"
    assert not list(folder.path.glob(".*"))
    assert limited(*SHORT, "--store", str(store)).returncode == 0
    assert folder.status == "finished"


def test_a_store_that_cannot_be_written_is_one_line(tmp_path):
    (tmp_path / "file").write_text("")
    one_line_error(limited(*SHORT, "--store", str(tmp_path / "file" / "runs")), "--store")
    one_line_error(limited(*SHORT, "--store", "/proc/unweave"), "--store")


def test_a_damaged_checkpoint_is_one_line_and_nothing_is_lost(tmp_path):
    run = small_run(steps=200)
    store = Store(tmp_path / "runs")
    folder = store.folder(run)
    folder.create(run)
    state = folder.path / "state-100.safetensors"
    state.write_bytes(b"half a checkpoint")
    base = tmp_path / "base.json"
    base.write_text(json.dumps(to_json(run)))
    command = ["train", "--from", str(base), "--store", str(store.root)]
    one_line_error(limited(*command), "state-100.safetensors", "Delete it")
    assert state.read_bytes() == b"half a checkpoint"
    state.unlink()
    assert limited(*command).returncode == 0


def test_a_damaged_log_or_run_is_named(tmp_path):
    run = small_run(steps=5)
    store = Store(tmp_path)
    train([run], SMALL.load(CPU), store)
    folder = store.folder(run)
    (folder.path / "log.jsonl").write_text("{no json")
    with pytest.raises(ValueError, match=r"log\.jsonl cannot be read"):
        folder.read_log()
    listing = limited("runs", "--store", str(tmp_path))
    assert listing.returncode == 0
    assert "damaged" in listing.stdout
    assert "log.jsonl cannot be read" in listing.stderr


def test_files_are_readable_as_the_umask_says(tmp_path):
    old = os.umask(0o022)
    try:
        write_atomically(tmp_path / "file", b"x")
    finally:
        os.umask(old)
    assert (tmp_path / "file").stat().st_mode & 0o777 == 0o644


def test_data_that_changed_are_noticed(tmp_path):
    path = tmp_path / "x.npy"
    np.save(path, np.zeros((20, 4)))
    command = [
        "train",
        f"data={path}",
        "steps=3",
        "batch_size=4",
        "--store",
        str(tmp_path / "runs"),
    ]
    assert limited(*command).returncode == 0
    np.save(path, np.ones((20, 4)))
    one_line_error(limited(*command), "the data have changed", "delete that folder")
    (folder,) = Store(tmp_path / "runs").folders()
    with pytest.raises(ValueError, match="the data have changed"):
        uw.load(folder.path)
