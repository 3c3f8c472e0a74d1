"""Several processes that train one run give the result of one process."""

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

import unweave as uw
from datasets import ADVERSARIAL, LIKELIHOODS, OBJECTIVES, SMALL, small_run
from two_processes import GRADIENTS, NORMALISED, TRAINED, difference
from unweave.core import console, torchrun
from unweave.training import train
from unweave.training.interrupt import Interrupt
from unweave.training.processes import ALONE, Processes, join
from unweave.training.store import Store

HERE = Path(__file__).parent


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    """Everything that two processes compute together."""
    folder = tmp_path_factory.mktemp("pair")
    subprocess.run([sys.executable, HERE / "two_processes.py", folder], check=True, timeout=600)
    found = [json.loads((folder / f"results{rank}").read_text()) for rank in (0, 1)]
    for each in found:
        assert "error" not in each, each["error"]
    return found


def named(fields):
    return "-".join(str(getattr(value, "kind", name)) for name, value in fields.items())


@pytest.mark.parametrize("case", range(len(GRADIENTS)), ids=lambda n: named(GRADIENTS[n]))
def test_gradients_are_those_of_one_process(results, case):
    """Every objective, latent space and likelihood, and batch normalisation, in float64."""
    assert [each["gradients"][case] for each in results] == ["", ""]


@pytest.mark.parametrize("case", range(len(TRAINED) + 1))
def test_parameters_after_some_steps_are_those_of_one_process(results, case):
    """Every objective of an autoencoder, labels, and last data that are read in windows."""
    assert [each["trained"][case] for each in results] == ["", ""]


def test_observations_are_those_of_one_process(results):
    """Means, samples, log-densities and what a likelihood has besides."""
    assert [each["observed"] for each in results] == [[""] * len(LIKELIHOODS)] * 2


def test_networks_and_data_are_divided(results):
    """Every process reads, encodes, decodes and criticises 8 of a batch of 16.

    In its own update the critic sees 8 codes of each of the two distributions.
    """
    halves = {"dataset": [8], "encoder": [8], "decoder": [8], "critic": [8, 16]}
    assert [each["work"] for each in results] == [halves, halves]


def test_processes_stop_resume_and_fail_together(results):
    first, second = (each["stored"] for each in results)
    assert first.pop("logged") == list(range(1, 21))
    assert second.pop("logged") is None
    assert (first.pop("recalled"), second.pop("recalled")) == (True, False)
    assert first == second
    assert first["stopped early"]
    assert first["resumed"] == ""
    assert first["failures"] == [{"step": 0, "term": "rate"}, None, None]
    assert first["trained"] == [False, True, True]
    assert first["refusal of batch_size"] == (
        "batch_size=15 cannot be divided among 2 processes; use batch_size=16"
    )
    assert "statistics over a batch" in first["refusal of network"]
    assert "its steps had processes=2, and these have processes=1" in first["notes"][0]


def test_without_torchrun_this_process_is_alone():
    assert (torchrun.launched(), torchrun.rank(), torchrun.local_size()) == (False, 0, 1)
    assert join(torch.device("cpu")) == (ALONE, torch.device("cpu"))


@pytest.fixture
def launched(monkeypatch):
    """Set the environment of the second of two processes of torchrun."""
    names = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE")
    for name, value in zip(names, (1, 1, 2, 2), strict=True):
        monkeypatch.setenv(name, str(value))
    monkeypatch.setenv("TORCHELASTIC_RUN_ID", "test")


def test_signals_that_torchrun_repeats_have_no_effect(launched, capsys):
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # also in the background
    with Interrupt() as interrupt:
        for _ in range(2):
            signal.raise_signal(signal.SIGINT)
    signal.signal(signal.SIGINT, before)
    assert interrupt.requested
    assert capsys.readouterr().err == ""  # the first process speaks for all


def test_an_error_of_all_processes_is_printed_once(launched, unweave, monkeypatch):
    store = torch.distributed.TCPStore("localhost", 0, is_master=True, wait_for_workers=False)
    monkeypatch.setenv("MASTER_ADDR", "localhost")
    monkeypatch.setenv("MASTER_PORT", str(store.port))
    for each in (console.out, console.err):
        monkeypatch.setattr(each, "quiet", False)
    said = []
    for rank, command in (("0", "runs"), ("1", "runs"), ("1", "demo")):
        monkeypatch.setenv("RANK", rank)
        code, out, err = unweave(command)
        assert (code, out) == (2, "")
        said.append(err)
    refusal = "torchrun is for `unweave train`; run `unweave {}` without it\n"
    assert said[0] == f"error: {refusal.format('runs')}"
    assert said[1:] == ["", f"error: process 1: {refusal.format('demo')}"]


def test_devices_that_processes_cannot_share_are_refused(launched, monkeypatch):
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    with pytest.raises(ValueError, match="2 processes on a machine with 1 GPUs; use --nproc"):
        join(torch.device("cuda"))
    with pytest.raises(ValueError, match="got cuda:0; choose GPUs with CUDA_VISIBLE_DEVICES"):
        join(torch.device("cuda", 0))


def torchrun_command(processes, store, *assignments):
    """Return the command that trains a small run in several processes."""
    data = ["data=shapes2d", "data.side=16", "data.scales=2", "data.orientations=1"]
    launch = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(processes)]
    run = ["-m", "unweave", "train", *data, "data.positions=8", "network=mlp", *assignments]
    options = ["--device", "cpu", "--store", str(store), "--checkpoint-seconds", "0"]
    return [sys.executable, *(launch if processes else []), *run, *options]


def run_command(*arguments):
    return subprocess.run(torchrun_command(*arguments), capture_output=True, text=True, timeout=600)


@pytest.mark.slow
def test_torchrun_trains_stops_resumes_and_reports_errors_once(tmp_path):
    """The command line, interrupted by Ctrl-C and repeated, gives the weights of one process."""
    with (tmp_path / "output").open("w") as output:
        started = subprocess.Popen(
            torchrun_command(2, tmp_path / "two", "steps=400"), stderr=output, stdout=output
        )
        while not (states := list(tmp_path.glob("two/*/state-*"))):
            time.sleep(0.1)
            assert started.poll() is None
        started.send_signal(signal.SIGINT)
        started.wait(timeout=60)
    said = (tmp_path / "output").read_text()
    assert said.count("starts, 400 steps") == said.count("stopping soon\n") == 1
    assert said.count("stopped; what was trained is saved") == 1
    folder = states[0].parent
    assert not (folder / "weights.safetensors").exists()
    resumed = run_command(2, tmp_path / "two", "steps=400")
    assert resumed.returncode == 0, resumed.stderr
    assert resumed.stderr.count("resumes at step") == 1
    assert resumed.stdout.count(f"unweave report {folder.name}") == 1
    assert run_command(0, tmp_path / "one", "steps=400").returncode == 0
    weights = [
        Store(tmp_path / store).named(folder.name).read_weights() for store in ("two", "one")
    ]
    assert difference(*weights, rtol=1e-2, atol=1e-4) == ""
    refused = run_command(2, tmp_path / "two", "batch_size=33")
    assert refused.returncode
    assert refused.stderr.count("error: batch_size=33 cannot be divided among 2 processes") == 1
    assert "process 1" not in refused.stderr


@pytest.fixture
def one_gpu():
    """The process group of one process with one GPU."""
    device = torch.device("cuda", 0)
    store = torch.distributed.HashStore()
    torch.distributed.init_process_group("nccl", store=store, rank=0, world_size=1)
    yield Processes(device)
    torch.distributed.destroy_process_group()


@pytest.mark.gpu
def test_one_gpu_trains_as_without_torchrun(one_gpu):
    """All collective operations with one process: the bits of a plain run."""
    cases = [
        *({"objective": objective} for objective in OBJECTIVES),
        *({"objective": objective, "network": None} for objective in ADVERSARIAL),
        *({"objective": objective, "network": NORMALISED} for objective in OBJECTIVES[:6]),
        *({"network": network} for network in (uw.Conv(base=4, hidden=8), NORMALISED)),
    ]
    dataset = SMALL.load(torch.device("cuda", 0))
    for fields in cases:
        run = small_run(**fields, steps=10).resolve(dataset)
        (together,), (alone,) = (
            train([run], dataset, processes=processes) for processes in (one_gpu, ALONE)
        )
        for name, value in alone.weights.items():
            assert torch.equal(together.weights[name], value), (fields, name)
