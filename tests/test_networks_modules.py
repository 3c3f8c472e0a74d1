"""`uw.Modules`: any two torch modules as encoder and decoder."""

import dataclasses
import importlib
import inspect
import shlex
import sys

import numpy as np
import pytest
import torch
from torch import nn

import unweave as uw
from datasets import CPU, DATASET, SMALL, small_run
from unweave.core.parts import UNNAMED, own_modules
from unweave.core.spec import from_json, to_json
from unweave.evaluation.stacked import join
from unweave.evaluation.tasks import Task
from unweave.networks import modules as modules_file
from unweave.training import Lanes
from unweave.training.overrides import runs_from, train_arguments
from unweave.training.run import Run

SHAPE = (1, 16, 16)


def encoder():
    return nn.Sequential(nn.Flatten(), nn.Linear(256, 16), nn.ReLU(), nn.Linear(16, 6))


def decoder():
    return nn.Sequential(nn.Linear(3, 16), nn.ReLU(), nn.Linear(16, 256), nn.Unflatten(1, SHAPE))


def changed(change):
    """An encoder that `change` has made untrainable."""
    module = nn.Sequential(*encoder(), nn.Tanh(), nn.Linear(6, 6), nn.Linear(6, 6))
    change(module)
    return module


def frozen(module):
    module[1].weight.requires_grad_(False)


def tied(module):
    module[6].weight = module[5].weight


def unused(module):
    module[1].register_parameter("scale", nn.Parameter(torch.ones(3)))


class Branching(nn.Module):
    """An encoder whose control flow depends on its values, which `vmap` cannot map."""

    def __init__(self):
        super().__init__()
        self.layers = encoder()

    def forward(self, x):
        y = self.layers(x)
        return y if y.sum().item() > -1e9 else -y


@pytest.fixture
def network():
    return uw.Modules(encoder, decoder)


@pytest.fixture
def forgotten(monkeypatch):
    """As in another process: modules that were built here are not known."""
    monkeypatch.setattr(modules_file, "_known", {})


@pytest.mark.parametrize(
    "source", [encoder, lambda: encoder(), encoder()], ids=["f", "lambda", "m"]
)
def test_modules_train_in_lanes_as_alone(source):
    run, dataset = small_run(network=uw.Modules(source, decoder)), SMALL.load(CPU)
    lanes = Lanes([run, dataclasses.replace(run, seed=1)], dataset, CPU)
    alone = Lanes([dataclasses.replace(run, seed=1)], dataset, CPU)
    assert lanes.vectorised
    for name, value in alone.state.parameters.items():
        assert torch.equal(lanes.state.parameters[name][1], value[0])
        assert name.endswith("bias") or not torch.equal(*lanes.state.parameters[name])
    for _ in range(3):
        lanes.advance()
        alone.advance()
    for name, value in alone.state.parameters.items():
        torch.testing.assert_close(lanes.state.parameters[name][1], value[0], rtol=1e-4, atol=1e-5)


class Scaled(nn.Module):
    """Layers of several kinds, an own parameter and a buffer, all drawn where they are built."""

    def __init__(self):
        super().__init__()
        self.conv, self.back = nn.Conv1d(1, 2, 4, 4), nn.ConvTranspose1d(2, 1, 2, 2)
        self.scale = nn.Parameter(torch.randn(128))
        self.attention = nn.MultiheadAttention(4, 2)
        self.register_buffer("offset", torch.randn(128))
        self.last = nn.Linear(128, 6)

    def forward(self, x):
        y = self.back(self.conv(x.flatten(1).unsqueeze(1))).flatten(1) * self.scale + self.offset
        z = y.unflatten(1, (32, 4)).transpose(0, 1)
        return self.last(y + self.attention(z, z, z)[0].transpose(0, 1).flatten(1))


@pytest.mark.parametrize("source", [Scaled, lambda: Scaled()], ids=["class", "lambda"])
def test_all_that_a_module_draws_is_a_function_of_the_seed(source):
    run, dataset = small_run(network=uw.Modules(source, decoder)), SMALL.load(CPU)
    runs, before = [dataclasses.replace(run, seed=seed) for seed in (3, 4)], torch.get_rng_state()
    lanes = Lanes(runs, dataset, CPU).state
    assert torch.equal(torch.get_rng_state(), before)
    torch.rand(5)
    alone = Lanes(runs[1:], dataset, CPU).state
    for name, value in (alone.parameters | alone.buffers).items():
        both = (lanes.parameters | lanes.buffers)[name]
        assert torch.equal(both[1], value[0])
        assert (value[0] == value[0].flatten()[0]).all() or not torch.equal(*both), name


def test_a_module_that_cannot_be_drawn_anew_is_refused():
    uw.Modules(nn.Sequential(encoder(), nn.BatchNorm1d(6), nn.PReLU(6)), decoder)
    with pytest.raises(ValueError, match=r"scale of a Scaled .* pass a function that builds"):
        uw.Modules(Scaled(), decoder)


def test_a_module_with_data_dependent_control_flow_trains_one_lane_after_the_other(network):
    dataset = SMALL.load(CPU)
    branching = small_run(network=uw.Modules(Branching, decoder))
    lanes = Lanes([branching, dataclasses.replace(branching, seed=1)], dataset, CPU)
    assert not lanes.vectorised
    alone = Lanes([dataclasses.replace(branching, seed=1)], dataset, CPU)
    for _ in range(3):
        lanes.advance()
        alone.advance()
    for name, value in alone.state.parameters.items():
        assert torch.equal(value[0], lanes.state.parameters[name][1])


def test_batch_normalisation_of_torch_trains_in_lanes_as_alone():
    def normalised():
        return nn.Sequential(
            nn.Flatten(), nn.Linear(256, 8, bias=False), nn.BatchNorm1d(8), nn.Linear(8, 6)
        )

    run, dataset = small_run(network=uw.Modules(normalised, decoder)), SMALL.load(CPU)
    lanes = Lanes([run, dataclasses.replace(run, seed=1)], dataset, CPU)
    alone = Lanes([dataclasses.replace(run, seed=1)], dataset, CPU)
    for _ in range(3):
        lanes.advance()
        alone.advance()
    for ours, theirs in (
        (lanes.state.parameters, alone.state.parameters),
        (lanes.state.buffers, alone.state.buffers),
    ):
        for name, value in theirs.items():
            torch.testing.assert_close(ours[name][1], value[0], rtol=1e-4, atol=1e-5)
    assert lanes.state.buffers["model.encoder.module.2.running_mean"].abs().sum() > 0


def test_a_run_is_stored_and_loaded_by_the_import_path_of_its_factories(network, tmp_path):
    model = uw.fit(SMALL, network=network, latent=uw.Gaussian(3), steps=3, batch_size=16,
                   store=tmp_path, progress=False, device="cpu")  # fmt: skip
    names = {role: f"{__name__}:{role}" for role in ("encoder", "decoder")}
    stored = to_json(model.run)["network"]
    assert stored.pop("kind") == "modules"
    assert {role: text.partition("@")[0] for role, text in stored.items()} == names
    again = from_json(Run, to_json(model.run))
    assert again == model.run
    assert again.digest == model.run.digest
    x = model.observations([0, 1])
    assert np.array_equal(uw.load(model.folder, device="cpu").encode(x), model.encode(x))


@pytest.mark.usefixtures("forgotten")
def test_modules_that_cannot_be_imported_are_passed_when_loading(tmp_path):
    fields = {"latent": uw.Gaussian(3), "steps": 3, "batch_size": 16, "store": tmp_path}
    model = uw.fit(SMALL, network=uw.Modules(encoder(), decoder()), progress=False, device="cpu",
                   **fields)  # fmt: skip
    x = model.observations([0, 1])
    modules_file._known.clear()
    with pytest.raises(ValueError, match="pass the modules again"):
        uw.load(model.folder, device="cpu")
    with pytest.raises(ValueError, match="was trained with network"):
        uw.load(model.folder, device="cpu", network=uw.MLP())
    again = uw.load(model.folder, device="cpu", network=uw.Modules(encoder(), decoder()))
    assert np.array_equal(again.encode(x), model.encode(x))


@pytest.mark.usefixtures("forgotten")
def test_an_importable_factory_needs_no_registration(network):
    again = from_json(Run, to_json(small_run(network=network)))
    modules_file._known.clear()
    assert again.build(SHAPE).model.encoder(torch.zeros(2, *SHAPE)).shape == (2, 6)


@pytest.mark.usefixtures("forgotten")
def test_modules_that_cannot_be_imported_are_known_by_their_structure():
    one, two = uw.Modules(encoder(), decoder()), uw.Modules(encoder(), decoder())
    assert one == two
    other = uw.Modules(nn.Sequential(encoder(), nn.Tanh()), decoder())
    assert other != one
    assert small_run(network=one).digest == small_run(network=two).digest
    assert small_run(network=one).digest != small_run(network=other).digest
    content = to_json(small_run(network=one))
    modules_file._known.clear()
    with pytest.raises(ValueError, match=r"not known here .*network=uw.Modules\("):
        from_json(Run, content).build(SHAPE)
    uw.Modules(encoder(), decoder())  # the modules again
    from_json(Run, content).build(SHAPE)


@pytest.mark.usefixtures("forgotten")
def test_a_factory_that_is_gone_gives_a_clear_error(network):
    content = to_json(small_run(network=network)) | {
        "network": {"kind": "modules", "encoder": "no_such_file:encoder@12", "decoder": "x"}
    }
    with pytest.raises(ValueError, match="`import no_such_file` first, or on the command line"):
        from_json(Run, content).build(SHAPE)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: uw.Modules(nn.Flatten(), decoder),
         r"encoder to map \(B, 1, 16, 16\) to \(B, 6\), because .* got \(B, 256\)"),
        (lambda: uw.Modules(encoder, nn.Linear(3, 256)),
         r"decoder to map \(B, 3\) to \(B, 1, 16, 16\), .* got \(B, 256\)"),
        (lambda: uw.Modules(encoder, nn.Linear(4, 256)), "got 'RuntimeError: mat1 and mat2"),
        (lambda: uw.Modules(nn.Sequential(encoder(), nn.Dropout()), decoder), "remove dropout"),
        (lambda: uw.Modules(changed(frozen), decoder), "frozen parameter 1.weight"),
        (lambda: uw.Modules(changed(tied), decoder), "between 5.weight and 6.weight"),
        (lambda: uw.Modules(changed(unused), decoder), "does not use its parameter 1.scale"),
        (lambda: uw.Modules(lambda: 3, decoder), "expected a torch.nn.Module from"),
        (lambda: uw.Modules(3, decoder), "expected a torch.nn.Module, or a function"),
    ],
)  # fmt: skip
def test_modules_that_do_not_fit_are_refused_before_training(make, message):
    with pytest.raises(ValueError, match=message):
        small_run(network=make()).resolve(SMALL.load(CPU))


def test_given_modules_are_copied():
    given = encoder()
    before = {name: value.clone() for name, value in given.state_dict().items()}
    run = small_run(network=uw.Modules(given, decoder))
    lanes = Lanes([run], SMALL.load(CPU), CPU)
    lanes.advance()
    assert all(torch.equal(before[name], value) for name, value in given.state_dict().items())


class Counting(nn.Module):
    """An encoder whose buffer counts its calls and is part of its result."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(256, 6)
        self.register_buffer("calls", torch.zeros(()))

    def forward(self, x):
        self.calls += 1
        return self.linear(x.flatten(1)) + 0.01 * self.calls


def test_evaluation_does_not_write_to_the_buffers_of_a_module():
    """Neither alone nor with the lanes of several models in one call."""
    models = uw.fit(SMALL, network=uw.Modules(Counting, decoder), latent=uw.Gaussian(3), steps=3,
                    batch_size=16, seed=[0, 1], progress=False, device="cpu")  # fmt: skip
    x = DATASET.images(torch.arange(8))
    assert np.array_equal(models[0].encode(x), models[0].encode(x))
    stacked = join([model.trained for model in models])
    assert stacked.vectorised
    first, second = (stacked.together(lambda nets, x: nets.model.raw(x), x) for _ in range(2))
    assert torch.equal(first, second)


@pytest.fixture
def module_file(tmp_path, monkeypatch):
    """A file nets.py in the working directory, with the functions `encoder` and `decoder`."""
    code = "".join(map(inspect.getsource, (encoder, decoder)))
    (tmp_path / "nets.py").write_text(f"from torch import nn\nSHAPE = {SHAPE}\n{code}")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path, str(tmp_path)])
    yield
    sys.modules.pop("nets", None)


@pytest.mark.usefixtures("module_file")
def test_the_command_line_names_the_functions_that_build_modules():
    (run,) = runs_from(["network=modules", "network.encoder=nets:encoder", "latent.size=3",
                        "network.decoder=nets:decoder", "data.side=16"])  # fmt: skip
    assert own_modules([run]) == ["nets"]
    assert run.network.encoder.import_path == "nets:encoder"
    dataset = run.data.load(CPU)
    words = train_arguments(run.resolve(dataset), dataset)
    (again,) = runs_from(shlex.split(" ".join(words)))
    assert again.network == run.network
    for value in ("nets:no_such_name", "nets", "nets:SHAPE"):
        with pytest.raises(ValueError, match="function without arguments that builds the module"):
            runs_from(["network=modules", f"network.encoder={value}"])


def test_the_command_of_a_report_says_where_modules_in_memory_go(tmp_path):
    model = uw.fit(SMALL, network=uw.Modules(encoder(), decoder()), progress=False, device="cpu",
                   latent=uw.Gaussian(3), steps=2, batch_size=8)  # fmt: skip
    assert f"network.encoder={UNNAMED}" in " ".join(train_arguments(model.run, model.dataset))
    page = uw.write_report(model, tmp_path / "report.html", scores={}).read_text()
    assert f"in place of <code>{UNNAMED}</code>" in page
    with pytest.raises(TypeError, match="expected one model, got a list: write one report for"):
        uw.write_report([model], tmp_path / "other.html")


@pytest.mark.usefixtures("module_file")
def test_worker_processes_import_the_functions_that_build_modules(tmp_path):
    nets = importlib.import_module("nets")
    network = uw.Modules(nets.encoder, nets.decoder)
    task = Task(runs=(small_run(network=network),), store=str(tmp_path))
    assert task.to_json()["imports"] == ["nets"]
