"""The engine and its record, lower precision, compiled steps, and too little memory."""

import dataclasses

import pytest
import torch

import unweave as uw
from datasets import CPU, CRITIC, DATASET, SMALL, small_run
from unweave.training import Lanes, compile as compiled, loop, train, weights
from unweave.training.engine import Engine
from unweave.training.precision import check_precision, half_precision, matmul_precision
from unweave.training.store import Store

RUNS = [
    small_run(
        objective=uw.FactorVAE(gamma=uw.Linear(0.0, 5.0, steps=30), critic=CRITIC), seed=seed,
        batch_size=48,
    )
    for seed in (0, 1)
]  # fmt: skip


def lanes_of(runs):
    return Lanes(runs, DATASET, CPU)


@pytest.fixture
def short_table(monkeypatch):
    """Hold the weights of 8 steps at a time."""
    monkeypatch.setattr(weights, "_STEPS", 8)


def test_the_engine_takes_the_same_steps_as_advance(short_table):
    """Over epochs of 5 steps, with weights held for 8 steps at a time."""
    at_once, one_by_one = Engine(lanes_of(RUNS)), lanes_of(RUNS)
    sums = {}
    at_once.run(19)
    for _ in range(19):
        for name, value in one_by_one.advance()[0].items():
            sums[name] = sums.get(name, 0) + value.double()
    assert at_once.lanes.step == one_by_one.step == int(at_once.lanes.clock[0]) == 19
    for name, value in one_by_one.state.parameters.items():
        assert torch.equal(at_once.lanes.state.parameters[name], value)
    rows = at_once.record.rows(19)
    for name, total in sums.items():
        for lane, row in enumerate(rows):
            assert row[name] == pytest.approx(total[lane].item() / 19, rel=1e-6)


def test_the_record_names_the_first_step_and_term_that_fail():
    engine = Engine(lanes_of(RUNS))
    engine.run(4)
    assert engine.record.failures() == {}
    engine.lanes.state.parameters["model.decoder.0.weight"][1, 0, 0] = torch.nan
    engine.run(3)
    assert engine.record.failures() == {1: {"step": 4, "term": "distortion"}}
    engine.record.clear()
    assert engine.record.failures() == {}


def test_weights_are_right_at_any_restored_step(short_table):
    whole, late = lanes_of(RUNS), lanes_of(RUNS)
    Engine(whole).run(21)
    late.restore([{n: t.clone() for n, t in whole.state.lane(k).items()} for k in (0, 1)], 21)
    Engine(whole).run(3)
    Engine(late).run(3)
    for name, value in whole.state.parameters.items():
        assert torch.equal(late.state.parameters[name], value)


@pytest.mark.parametrize("kept", [True, False])
def test_a_group_that_does_not_fit_into_memory_is_halved(monkeypatch, tmp_path, kept):
    """With the same results, because lanes are independent."""
    runs = [small_run(seed=seed, steps=6) for seed in range(5)]
    whole = train(runs, DATASET)
    tried, healthy = [], loop.Lanes

    def small(group, *rest):
        tried.append(len(group))
        if len(group) > 2:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return healthy(group, *rest)

    monkeypatch.setattr(loop, "Lanes", small)
    halves = train(runs, DATASET, Store(tmp_path) if kept else None)
    assert tried == [5, 2, 3, 1, 2]
    for one, two in zip(whole, halves, strict=True):
        assert one.run == two.run
        for name, value in one.weights.items():
            torch.testing.assert_close(two.weights[name], value, rtol=1e-3, atol=1e-5)


def test_a_sweep_that_cannot_fit_is_split_before_work_begins(monkeypatch, tmp_path):
    """The estimate covered one lane, however many would train at once."""
    runs, store = [small_run(seed=seed, steps=2) for seed in range(5)], Store(tmp_path)
    lanes = Lanes(runs, DATASET, CPU)
    kept = sum(value.nbytes for each in lanes.state.tensors.values() for value in each.values())
    one, two = (runs[0].lanes_memory(DATASET.shape, 5, at_once) for at_once in (1, 2))
    assert kept < one < two < one + kept
    small = runs[0].lanes_memory(DATASET.shape, 2, min(2, torch.get_num_threads()))
    monkeypatch.setattr("unweave.training.memory.main_memory", lambda: small)
    tried, healthy = [], loop.Lanes
    monkeypatch.setattr(loop, "Lanes", lambda group, *r: tried.append(group) or healthy(group, *r))
    (said,) = loop.notes(runs, DATASET, store)
    assert said == "5 runs do not fit into memory side by side, and are trained in 3 groups"
    train(runs, DATASET, store)
    assert [[run.seed for run in group] for group in tried] == [[0, 1], [2], [3, 4]]
    assert loop.notes(runs, DATASET, store) == [
        "all 5 runs are already finished; nothing is trained"
    ]


def test_a_single_run_that_does_not_fit_into_memory_is_an_error(monkeypatch):
    def none(group, *rest):
        raise torch.OutOfMemoryError("CUDA out of memory")

    monkeypatch.setattr(loop, "Lanes", none)
    with pytest.raises(torch.OutOfMemoryError):
        train([small_run()], DATASET)


def test_precisions_are_set_inside_and_restored_after():
    assert [check_precision(name) for name in ("fp32", "tf32", "bf16")] == ["fp32", "tf32", "bf16"]
    with pytest.raises(ValueError, match="did you mean 'bf16'"):
        check_precision("bf1")
    before = torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32
    for name, fast in (("fp32", False), ("tf32", True), ("bf16", True)):
        with matmul_precision(name):
            assert torch.backends.cuda.matmul.allow_tf32 == fast
            assert torch.backends.cudnn.allow_tf32 == fast
    assert (torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32) == before
    with half_precision(CPU, "bf16"):
        assert not torch.is_autocast_enabled("cpu")


@pytest.mark.gpu
@pytest.mark.parametrize("precision", ["tf32", "bf16"])
def test_lower_precision_trains_like_float32(precision):
    """After 200 steps distortion and rate agree within a tenth, or half a nat."""
    cuda = torch.device("cuda")
    runs = [
        dataclasses.replace(small_run(network=uw.Conv(base=32, hidden=64), seed=seed), steps=200)
        for seed in range(3)
    ]
    plain = train(runs, SMALL.load(cuda))
    fast = train(runs, SMALL.load(cuda), precision=precision)
    for one, two in zip(plain, fast, strict=True):
        for name in ("distortion", "rate"):
            assert two.log[-1][name] == pytest.approx(one.log[-1][name], rel=0.1, abs=0.5)


@pytest.mark.gpu
def test_replayed_steps_equal_steps_from_python():
    """To float tolerance over 200 steps."""
    cuda = torch.device("cuda")
    dataset = SMALL.load(cuda)
    replayed, plain = Lanes(RUNS, dataset, cuda), Lanes(RUNS, dataset, cuda)
    with matmul_precision("fp32"):
        Engine(replayed).run(200)
        for _ in range(200):
            plain.advance()
    for name, value in plain.state.parameters.items():
        torch.testing.assert_close(replayed.state.parameters[name], value, rtol=1e-4, atol=1e-6)


MIXED = uw.Product(place=uw.Gaussian(3), what=uw.Categorical(4))


@pytest.mark.gpu
@pytest.mark.parametrize(
    ("precision", "fields"),
    [
        ("fp32", {"objective": uw.BetaVAE()}),
        ("bf16", {"objective": uw.BetaVAE()}),
        ("fp32", {"objective": uw.FactorVAE(critic=CRITIC), "network": uw.DCGAN(base=4)}),
        ("bf16", {"objective": uw.HFVAE(), "latent": MIXED}),
        ("fp32", {"objective": uw.AlphaBetaVAE(), "network": uw.MLP(hidden=(32,))}),
    ],
    ids=["convolutions", "half", "normalised", "mixed", "mmd"],
)
@pytest.mark.parametrize("count", [1, 3])
def test_compiled_steps_equal_plain_ones(precision, fields, count):
    """In their terms; weights whose gradient is noise differ. Compiled twice, all bits agree."""
    cuda = torch.device("cuda")
    dataset = SMALL.load(cuda)
    runs = [small_run(**fields, seed=seed) for seed in range(count)]
    with matmul_precision(precision):
        plain, one, two = (Engine(Lanes(runs, dataset, cuda, precision, c)) for c in (0, 1, 1))
        for engine in (plain, one, two):
            engine.run(20)
    for name, value in one.lanes.state.parameters.items():
        assert torch.equal(two.lanes.state.parameters[name], value), name
    near = {"fp32": 1e-4, "bf16": 1e-2}[precision]
    for found, expected in zip(one.record.rows(20), plain.record.rows(20), strict=True):
        assert found == pytest.approx(expected, rel=near, abs=near)


def test_a_function_that_cannot_be_compiled_runs_uncompiled(monkeypatch):
    def broken(*_):
        raise RuntimeError("no compiler\nsecond line")

    monkeypatch.setattr(compiled, "_compile_flat", broken)
    double = compiled.Compiled(lambda tensors, by: {"y": tensors["x"] * by})
    with pytest.warns(UserWarning, match="steps are not compiled, which is slower: no compiler$"):
        found = double({"x": torch.ones(2)}, torch.tensor(3.0))
    assert found["y"].tolist() == [3.0, 3.0]

    def full(*_):
        raise torch.OutOfMemoryError("CUDA out of memory")

    monkeypatch.setattr(compiled, "_compile_flat", full)
    with pytest.raises(torch.OutOfMemoryError):
        compiled.Compiled(lambda x: x)(torch.ones(2))


def test_a_compiled_function_maps_differentiates_and_writes_in_place():
    """As an update does, compiled for the CPU."""

    def update(parameters, buffers, x):
        def loss(w, x):
            return (x @ w).relu().square().sum()

        leaf = parameters["w"].detach().requires_grad_()
        losses = torch.func.vmap(loss)(leaf, x)
        buffers["mean"].mul_(0.9).add_(0.1 * x.mean(1))
        return torch.autograd.grad(losses.sum(), leaf)[0], {"loss": losses.detach()}

    def given():
        torch.manual_seed(0)
        return {"w": torch.randn(2, 4, 3)}, {"mean": torch.zeros(2, 4)}, torch.randn(2, 5, 4)

    plain, program, found = given(), given(), compiled.Compiled(update)
    for _ in range(2):
        expected, (gradient, terms) = update(*plain), found(*program)
        torch.testing.assert_close(gradient, expected[0])
        torch.testing.assert_close(terms["loss"], expected[1]["loss"])
        torch.testing.assert_close(program[1]["mean"], plain[1]["mean"])


def test_on_the_cpu_nothing_is_compiled(monkeypatch):
    monkeypatch.setattr(compiled, "available", lambda: True)
    lanes = Lanes(RUNS, DATASET, CPU, compiles=True)
    assert not lanes.compiles
    assert not any(
        isinstance(function, compiled.Compiled) for function in (lanes._read, *lanes._gradients)
    )
