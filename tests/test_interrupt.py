"""Ctrl-C and SIGTERM: what was trained is kept, training resumes from there, and no traceback."""

import contextlib
import io
import os
import signal
import subprocess
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import pytest
import torch

import unweave as uw
from datasets import CPU, SMALL, small_run
from stopping import Stops
from unweave.core.console import PlainConsole
from unweave.core.files import UNFINISHED
from unweave.evaluation.fit import train_runs
from unweave.training import Silent, TrainingInterrupted, train
from unweave.training.own_data import Datasets
from unweave.training.store import Store

FIELDS = dict(network=uw.MLP((16,)), latent=uw.Gaussian(3), batch_size=16, progress=False)


class Presses(Silent):
    """Presses Ctrl-C at some steps, or sends another signal."""

    def __init__(self, *steps, number=signal.SIGINT):
        self.steps, self.number = steps, number

    def advance(self, step, rows):
        if step in self.steps:
            signal.raise_signal(self.number)


@pytest.mark.parametrize("progress", [Stops(), Presses(20), Presses(20, number=signal.SIGTERM)])
def test_an_interrupted_run_is_saved_and_ends_with_the_same_bits(tmp_path, progress):
    runs, data = [small_run(steps=50, seed=seed) for seed in (0, 1)], SMALL.load(CPU)
    store = Store(tmp_path)
    whole = train(runs, data)
    with pytest.raises(TrainingInterrupted, match="interrupted at step 20 of 50") as stopped:
        train(runs, data, store, progress)
    for run, outcome in zip(runs, stopped.value.outcomes, strict=True):
        assert outcome.log[-1]["step"] == 20
        folder = store.folder(run)
        assert (folder.status, list(folder.states)) == ("stopped", [20])
        saved = uw.load(folder.path).trained.weights
        assert all(torch.equal(saved[n][0], w) for n, w in outcome.weights.items())
    for one, two in zip(train(runs, data, store), whole, strict=True):
        assert one.log == two.log
        assert all(torch.equal(one.weights[name], two.weights[name]) for name in one.weights)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL


def test_a_second_interrupt_stops_at_once(tmp_path, capsys):
    run, data = small_run(steps=50), SMALL.load(CPU)

    class Twice(Presses):
        def end(self):  # after the first one, while the run is being saved
            signal.raise_signal(signal.SIGINT)

    with pytest.raises(KeyboardInterrupt) as stopped:
        train([run], data, Store(tmp_path), Twice(20))
    assert not isinstance(stopped.value, TrainingInterrupted)
    assert "press Ctrl-C again to stop at once" in capsys.readouterr().err
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_groups_that_had_not_begun_have_no_weights():
    runs = [small_run(steps=50), small_run(steps=50, latent=uw.Gaussian(4))]
    with pytest.raises(TrainingInterrupted) as stopped:
        train(runs, SMALL.load(CPU), None, Stops())
    one, two = stopped.value.outcomes
    assert one.weights is not None
    assert two.weights is None


@pytest.mark.parametrize("seed", [0, (0, 1)])
def test_fit_returns_the_model_so_far(tmp_path, monkeypatch, seed):
    whole = uw.fit(SMALL, steps=50, seed=seed, **FIELDS)
    monkeypatch.setattr("unweave.evaluation.fit.Silent", Stops)
    text = "interrupted at step 20 of 50; the result is the model so far"
    with pytest.warns(UserWarning, match=f"{text}$"):
        in_memory = uw.fit(SMALL, steps=50, seed=seed, **FIELDS)
    with pytest.warns(UserWarning, match=f"{text}; the same call resumes there"):
        stored = uw.fit(SMALL, steps=50, seed=seed, store=tmp_path, **FIELDS)
    monkeypatch.undo()
    resumed = uw.fit(SMALL, steps=50, seed=seed, store=tmp_path, **FIELDS)
    if seed == 0:
        in_memory, stored, resumed, whole = [in_memory], [stored], [resumed], [whole]
    assert len(in_memory) == len(whole)
    x = whole[0].observations(range(5))
    for short, kept, end, expected in zip(in_memory, stored, resumed, whole, strict=True):
        assert "20 steps" in repr(short)
        assert np.array_equal(short.encode(x), kept.encode(x))
        assert not np.array_equal(short.encode(x), expected.encode(x))
        assert np.array_equal(end.encode(x), expected.encode(x))


def test_runs_that_have_not_started_are_counted(tmp_path):
    """`unweave runs` did not list them, and nothing said so."""
    blobs = uw.data.Blobs(side=8, positions=4)  # loaded after the other data
    settings = [*({"latent": uw.Gaussian(size)} for size in (2, 3, 4)), {"data": blobs}]
    runs = [small_run(steps=50, seed=seed, **each) for each in settings for seed in (0, 1)]

    def said(runs, step):
        console = PlainConsole(file=io.StringIO(), width=200)
        with pytest.raises(TrainingInterrupted):
            train_runs(runs, Datasets(CPU), Store(tmp_path), Stops(step), console)
        return [line for line in console.file.getvalue().splitlines() if "not started" in line]

    assert said(runs[:2], 20) == []
    for step in (30, 40):
        (line,) = said(runs, step)
        assert line == "6 of 8 runs have not started: run this again to train them too"
    assert len(list(Store(tmp_path).folders())) == 2


def test_fit_does_not_go_on_after_sigterm(tmp_path, monkeypatch):
    """The program is to end; what was trained is in the store."""
    monkeypatch.setattr("unweave.evaluation.fit.Silent", lambda: Presses(20, number=signal.SIGTERM))
    with pytest.raises(TrainingInterrupted, match="at step 20"):
        uw.fit(SMALL, steps=50, store=tmp_path, **FIELDS)
    (folder,) = Store(tmp_path).folders()
    assert list(folder.states) == [20]


def test_fit_raises_if_nothing_was_trained(monkeypatch):
    class Early(Silent):
        def begin(self, runs, step):
            signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr("unweave.evaluation.fit.Silent", Early)
    with pytest.raises(KeyboardInterrupt):
        uw.fit(SMALL, steps=50, **FIELDS)


@pytest.mark.parametrize("workers", [2, pytest.param(1, marks=pytest.mark.slow)])
def test_the_command_keeps_what_it_trained(tmp_path, workers):
    """Ctrl-C in the first 30 seconds used to keep nothing."""
    command = [sys.executable, "-m", "unweave", "train", "data=shapes2d", "data.side=16",
               "data.positions=4", "data.orientations=1", "network=mlp", "batch_size=8",
               "steps=8000", "seed=0..7", "--device", "cpu", "--threads", str(workers),
               "--store", str(tmp_path)]  # fmt: skip
    process = subprocess.Popen(
        command, stderr=subprocess.PIPE, text=True, start_new_session=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )  # fmt: skip
    said = ""
    while "for 8,000 steps" not in said:
        line = process.stderr.readline()
        assert line, said
        said += line
    time.sleep(1)
    os.killpg(process.pid, signal.SIGINT)
    _, rest = process.communicate(timeout=60)
    assert process.returncode == 130, rest
    assert "what was trained is saved, and the same command resumes from there" in rest
    folders = Store(tmp_path).folders()
    assert len(folders) == 8
    assert {folder.status for folder in folders} == {"stopped"}
    assert len({max(folder.states) for folder in folders}) == 1


INTERRUPTED = """
import os, runpy, signal, sys

class Presses:
    def find_spec(self, name, path, target=None):
        if name == {name!r}:
            os.kill(os.getpid(), signal.SIGINT)

signal.signal(signal.SIGINT, signal.default_int_handler)
sys.meta_path.insert(0, Presses())
sys.argv = ["unweave", "train", "steps=5", "--store", {store!r}]
runpy.run_module("unweave", run_name="__main__", alter_sys=True)
"""


@pytest.mark.parametrize("name", ["typer", "unweave.cli.train", "torch", "torch._C"])
def test_an_interrupted_import_ends_the_command(name, tmp_path):
    """The imports of the command line, of torch, and of what torch is made of."""
    script = INTERRUPTED.format(name=name, store=str(tmp_path))
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "\nstopped\n")
    assert not list(tmp_path.iterdir())


TRAINING = ["train", "data=shapes2d", "data.side=16", "data.positions=4", "data.orientations=1",
            "network=mlp", "batch_size=8", "steps=100000", "seed=0..7", "--device", "cpu",
            "--threads", "2", "--measure-every", "50", "--measure", "mig"]  # fmt: skip
DOWNLOAD = """
import runpy, sys, urllib.request
real = urllib.request.urlopen
urllib.request.urlopen = lambda request, **options: real({url!r}, **options)
sys.argv = ["unweave", "data", "get", "mnist"]
runpy.run_module("unweave", run_name="__main__", alter_sys=True)
"""


class SlowHandler(BaseHTTPRequestHandler):
    def log_message(self, *arguments):
        pass

    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        with contextlib.suppress(OSError):
            while True:
                self.wfile.write(bytes(1000))
                time.sleep(0.01)


@contextlib.contextmanager
def long_command(name, folder):
    """Yield a command that takes minutes, without its first word, in a folder of its own."""
    if name == "train":
        yield ["-m", "unweave", *TRAINING, "--store", str(folder)]
    elif name == "evaluate":
        uw.fit(SMALL, store=folder, seed=range(2), steps=2, **FIELDS)
        paths = [str(each.path) for each in Store(folder).folders()]
        yield ["-m", "unweave", "evaluate", *paths, "--metrics", "all", "--reseeds", "1000"]
    else:
        with ThreadingHTTPServer(("127.0.0.1", 0), SlowHandler) as server:
            threading.Thread(target=server.serve_forever, daemon=True).start()
            yield ["-c", DOWNLOAD.format(url=f"http://127.0.0.1:{server.server_port}/a")]
            server.shutdown()


@pytest.mark.slow
@pytest.mark.parametrize("name", ["train", "evaluate", "data get"])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_at_any_moment_ends_the_command_without_a_traceback(tmp_path, number, name):
    """To all processes of the command, from its imports until its workers compute."""
    environment = os.environ | {"UNWEAVE_DATA": str(tmp_path / "data")}
    with long_command(name, tmp_path / "runs") as words:
        for delay in np.linspace(0.5, 12.0, 20):
            process = subprocess.Popen(
                [sys.executable, *words], stderr=subprocess.PIPE, text=True, env=environment,
                start_new_session=True, stdout=subprocess.DEVNULL,
                preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
            )  # fmt: skip
            time.sleep(delay)
            os.killpg(process.pid, number)
            _, said = process.communicate(timeout=60)
            assert "Traceback" not in said, (delay, said)
            assert process.returncode in (130, -number), (delay, said)
    assert not [path for path in tmp_path.rglob("*") if path.name.startswith(UNFINISHED)]
