"""A lane that fails keeps its place: no bit of another lane, and no failure, depends on when."""

import shutil

import pytest
import torch

import unweave as uw
from crash_replay import tree
from datasets import ADVERSARIAL, CPU, DATASET, LATENTS, OBJECTIVES, SMALL, small_run
from unweave.core import files, pace
from unweave.training import (
    Lanes,
    Silent,
    TrainingInterrupted,
    log_rows,
    loop,
    resumption,
    train,
    workers as pool,
)
from unweave.training.engine import Engine
from unweave.training.store import Store
from unweave.training.workers import LanePool, Plan

# One part; parts of two and three lanes; a part for each lane, in this process and in two.
PLANS = [Plan(1, 1, 1), Plan(2, 1, 1), Plan(2, 2, 1), Plan(5, 1, 1), Plan(5, 2, 1)]
STEPS, ROW = 16, 4  # steps of a run, and between two rows of its log

# The weights of five runs. The second overflows at once, and the fourth only in its moments; a
# weight of the third becomes NaN at step 9.
BETAS = (1.0, 1e39, 2.0, 1e24, 3.0)
POISONED, POISONED_AT = 2, 9
FAILURES = {
    1: {"step": 0, "term": "rate"},
    2: {"step": 9, "term": "distortion"},
    3: {"step": 3, "term": "gradient"},
}
HEALTHY = (0, 4)


class Killed(BaseException):
    """A kill, which no handler of exceptions in the code catches."""


@pytest.fixture(autouse=True)
def few_rows(monkeypatch):
    monkeypatch.setattr(log_rows, "log_interval", lambda steps: ROW)


def runs_of(betas=BETAS, **parts):
    objectives = [uw.BetaVAE(beta=beta) for beta in betas]
    return [
        small_run(objective=objective, seed=seed, **({"steps": STEPS} | parts))
        for seed, objective in enumerate(objectives)
    ]


def hook(monkeypatch, act):
    """Call `act(lanes)` before every step of an engine, in every process."""
    healthy = Engine.step

    def step(engine):
        act(engine.lanes)
        return healthy(engine)

    monkeypatch.setattr(Engine, "step", step)


def poison(lanes):
    """Break the run of one seed at one step."""
    for lane, run in enumerate(lanes.runs):
        if run.seed == POISONED and lanes.step == POISONED_AT:
            parameters = lanes.state.parameters
            name = next(name for name in parameters if name.startswith("model.decoder"))
            parameters[name][lane][(0,) * (parameters[name].dim() - 1)] = torch.nan


def poison_moment(lanes):
    """Break the run of one seed during step 5, which terms show only at step 6."""
    for lane, run in enumerate(lanes.runs):
        if run.seed == POISONED and lanes.step == 5:
            for moment in lanes.state.moments.values():
                moment["model.decoder.0.weight"][lane] = torch.nan


def killer(step):
    """Return a function that stops training at a step, for `hook`."""

    def kill(lanes):
        if lanes.step == step:
            raise Killed

    return kill


class Clock(Silent):
    """A clock on which checkpoints are due after some steps and no others."""

    def __init__(self, monkeypatch, *steps):
        self.steps, self.now = steps, 0.0
        monkeypatch.setattr(pace.time, "monotonic", lambda: self.now)

    def advance(self, step, rows):
        self.now += 100.0 if step in self.steps else 0.0


def results(store, runs):
    """Return the files that a run ends with."""
    return [
        {
            path.name: path.read_bytes()
            for path in store.folder(run).path.iterdir()
            if not (path.name.startswith("state") and store.folder(run).failure)
        }
        for run in runs
    ]


@pytest.fixture(scope="module", params=PLANS, ids=str)
def whole(request, tmp_path_factory):
    """A plan, and the files of the group that was never stopped."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(log_rows, "log_interval", lambda steps: ROW)
        patch.setattr(pool, "plan_for", lambda lanes: request.param)
        hook(patch, poison)
        runs, store = runs_of(), Store(tmp_path_factory.mktemp("whole"))
        outcomes = train(runs, DATASET, store)
        failures = {lane: each.failure for lane, each in enumerate(outcomes) if each.failure}
        assert failures == FAILURES
    return request.param, results(store, runs)


@pytest.mark.parametrize(("saved", "killed"), [((4,), 6), ((8,), 10), ((4, 8, 12), 15)])
def test_killed_and_resumed_all_files_end_the_same(whole, saved, killed, monkeypatch, tmp_path):
    plan, expected = whole
    monkeypatch.setattr(pool, "plan_for", lambda lanes: plan)
    hook(monkeypatch, poison)

    runs, store = runs_of(), Store(tmp_path)
    with monkeypatch.context() as patch:
        hook(patch, killer(killed))
        with pytest.raises(Killed):
            train(runs, DATASET, store, Clock(patch, *saved))
    for lane, run in enumerate(runs):
        good = [step for step in saved if step <= FAILURES.get(lane, {"step": killed})["step"]]
        assert list(store.folder(run).states) == good[-1:]
    train(runs, DATASET, store)
    assert results(store, runs) == expected


def test_healthy_lanes_end_as_if_no_lane_had_failed(whole, monkeypatch, tmp_path):
    plan, expected = whole
    monkeypatch.setattr(pool, "plan_for", lambda lanes: plan)
    runs, store = runs_of((1.0, 5.0, 2.0, 6.0, 3.0)), Store(tmp_path)
    train(runs, DATASET, store)
    found = results(store, runs)
    for lane in HEALTHY:
        for name in ("weights.safetensors", "log.jsonl"):
            assert found[lane][name] == expected[lane][name]


@pytest.mark.parametrize("every", [6, pytest.param(1, marks=pytest.mark.slow)])
def test_killed_between_two_writes_all_files_end_the_same(monkeypatch, tmp_path, every):
    """Three lanes of which one fails, killed before each of their files, or before some."""
    runs = runs_of((1e24, 1.0, 2.0), steps=8)
    store, replace, count = Store(tmp_path / "whole"), files.os.replace, 0

    def kill(*paths):
        nonlocal count
        count -= 1
        if count == 0:
            raise Killed
        replace(*paths)

    monkeypatch.setattr(files.os, "replace", kill)
    train(runs, DATASET, store, checkpoint_seconds=0)
    expected, writes = results(store, runs), -count
    assert ["failed.json" in each for each in expected] == [True, False, False]
    for write in range(writes, 0, -every):  # the last file is that of the last lane's weights
        store, count = Store(tmp_path / f"{write}"), write
        with pytest.raises(Killed):
            train(runs, DATASET, store, checkpoint_seconds=0)
        train(runs, DATASET, store, checkpoint_seconds=0)
        assert results(store, runs) == expected, write


@pytest.mark.parametrize(
    "parts",
    [
        *({"objective": objective} for objective in OBJECTIVES),
        *({"objective": objective, "network": None} for objective in ADVERSARIAL),
        *({"latent": latent} for latent in LATENTS),
        {"network": uw.Conv(base=4, hidden=8)},
        {"network": uw.DCGAN(base=4)},
    ],
    ids=lambda parts: "-".join(getattr(part, "kind", "own") for part in parts.values()),
)
def test_the_numbers_of_a_lane_do_not_matter_to_the_others(parts):
    """In every objective and latent space: vectorised, and one by one for convolutions."""
    pools = [
        LanePool(
            Lanes([small_run(seed=seed, **parts) for seed in range(3)], DATASET, CPU), PLANS[0]
        )
        for _ in range(2)
    ]
    for tensor in pools[1].lanes.state.lane(1).values():
        tensor.fill_(torch.nan)
    for each in pools:
        each.run(1)
    rows = [each.rows() for each in pools]
    for lane in (0, 2):
        assert rows[0][lane] == rows[1][lane]
        one, two = (each.lanes.state.lane(lane) for each in pools)
        assert all(torch.equal(tensor, two[name]) for name, tensor in one.items())


@pytest.mark.gpu
@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("precision", ["fp32", "tf32", "bf16"])
@pytest.mark.parametrize("network", [uw.MLP((32,)), uw.Conv(base=8, hidden=16), uw.DCGAN(base=4)])
def test_on_cuda_all_files_end_the_same(network, precision, compiled, monkeypatch, tmp_path):
    """Killed and resumed or not, and of healthy lanes as if no lane had failed; recorded once."""
    monkeypatch.setattr(resumption, "_WORTH_COMPILING", 1 if compiled else 10_000)
    hook(monkeypatch, poison)
    recorded, graph = [], torch.cuda.graph
    monkeypatch.setattr(torch.cuda, "graph", lambda each: recorded.append(each) or graph(each))
    data, runs = SMALL.load(torch.device("cuda")), runs_of(network=network)
    whole, store = Store(tmp_path / "whole"), Store(tmp_path / "fine")
    outcomes = train(runs, data, whole, precision=precision)
    assert len(recorded) == 1
    expected = results(whole, runs)
    failures = {lane: each.failure for lane, each in enumerate(outcomes) if each.failure}
    assert set(failures) == set(FAILURES), failures
    fine = runs_of((1.0, 5.0, 2.0, 6.0, 3.0), network=network)
    train(fine, data, store, precision=precision)
    for lane in HEALTHY:
        assert (
            store.folder(fine[lane]).weights.read_bytes() == expected[lane]["weights.safetensors"]
        )
    for killed in (2, 6, 10, 15):
        store = Store(tmp_path / f"{killed}")
        with monkeypatch.context() as patch:
            hook(patch, killer(killed))
            with pytest.raises(Killed):
                train(runs, data, store, precision=precision, checkpoint_seconds=0)
        train(runs, data, store, precision=precision)
        assert results(store, runs) == expected, killed


def test_a_group_ends_with_its_last_healthy_lane(monkeypatch):
    seen = []
    hook(monkeypatch, lambda lanes: seen.append(lanes.step))
    outcomes = train(runs_of((1e39, 1e24)), DATASET)
    assert [each.failure["term"] for each in outcomes] == ["rate", "gradient"]
    assert max(seen) == ROW - 1


def test_a_part_takes_no_steps_without_a_healthy_lane(monkeypatch):
    """It could be one lane of convolutions, which would go on costing as much as any other."""
    taken = []
    monkeypatch.setattr(pool, "plan_for", lambda lanes: Plan(3, 1, 1))
    hook(monkeypatch, lambda lanes: taken.append(lanes.runs[0].seed))
    train(runs_of((1.0, 1e39, 2.0)), DATASET)
    assert [taken.count(seed) for seed in range(3)] == [STEPS, ROW, STEPS]


def test_a_run_that_failed_before_the_first_checkpoint_keeps_its_place(tmp_path):
    """Trained alone or stopped early, it has no checkpoint that says beside which others."""
    runs = runs_of((1e39, 1.0, 2.0))
    train(runs, DATASET, Store(tmp_path / "whole"))
    train(runs[:1], DATASET, Store(tmp_path / "parts"))
    train(runs, DATASET, Store(tmp_path / "parts"))
    one, two = (results(Store(tmp_path / name), runs) for name in ("whole", "parts"))
    assert one == two


@pytest.mark.parametrize("interrupted", [False, True])
def test_more_steps_continue_a_group_in_which_a_lane_failed(tmp_path, monkeypatch, interrupted):
    """The failed lane fails as before, and the others have the bits of one go."""
    hook(monkeypatch, poison)
    short, longer = runs_of(), runs_of(steps=2 * STEPS)
    train(longer, DATASET, Store(tmp_path / "whole"))
    store = Store(tmp_path / "parts")
    train(short, DATASET, store)
    said = loop.notes(longer, DATASET, store)
    names = [run.digest for run in short]
    assert said == [
        f"continues run {name} from step 16" if lane in HEALTHY
        else f"fails as run {name} did, at step {FAILURES[lane]['step']}"
        for lane, name in enumerate(names)
    ]  # fmt: skip
    if interrupted:
        with monkeypatch.context() as patch:
            hook(patch, killer(22))
            with pytest.raises(Killed):
                train(longer, DATASET, store, checkpoint_seconds=0)
        (store.folder(longer[1]).path / "failed.json").unlink()  # killed before it was written
    train(longer, DATASET, store)
    assert results(store, longer) == results(Store(tmp_path / "whole"), longer)


@pytest.mark.parametrize("interval", [6, 7])
def test_failures_with_more_steps_are_those_of_an_uninterrupted_command(
    tmp_path, monkeypatch, interval
):
    """The step of a broken gradient is that of a log row, and a longer run has other rows."""
    monkeypatch.setattr(log_rows, "log_interval", lambda steps: ROW if steps == 8 else interval)
    monkeypatch.setattr(pool, "plan_for", lambda lanes: Plan(1, 1, 1))
    hook(monkeypatch, poison_moment)
    for betas in ((1.0, 1e24), (1.0, 3.0, 2.0)):
        short, longer = runs_of(betas, steps=8), runs_of(betas, steps=20)
        whole, parts = Store(tmp_path / f"whole {betas}"), Store(tmp_path / f"parts {betas}")
        expected = [(each.failure, each.weights) for each in train(longer, DATASET, whole)]
        train(short, DATASET, parts)
        said = loop.notes(longer, DATASET, parts)
        for outcome, (failure, weights) in zip(
            train(longer, DATASET, parts), expected, strict=True
        ):
            assert outcome.failure == failure
            assert all(torch.equal(outcome.weights[n], w) for n, w in (weights or {}).items())
        alike = expected[-1][0] == parts.folder(short[-1]).failure
        assert ("continues run" in said[0]) == alike, said
        assert alike or f"run {short[-1].digest}, trained side by side" in said[0]


def found_failure(breaks, shows, steps):
    """Return the failure of a run whose state breaks during one step, and a term at another."""
    interval = log_rows.log_interval(steps)
    for row in [*range(interval, steps, interval), steps]:
        if shows < row:
            return {"step": shows, "term": "rate"}
        if breaks < row:
            return {"step": row - 1, "term": "gradient"}
    return None


@pytest.mark.parametrize(("short", "longer"), [(8, 9), (8, 24), (9, 30), (12, 20), (15, 18)])
def test_failures_that_are_inherited_are_those_of_the_longer_run(monkeypatch, short, longer):
    monkeypatch.setattr(log_rows, "log_interval", lambda steps: max(1, steps // 4))
    inherited = 0
    for breaks in range(short):
        for shows in range(breaks, 2 * longer):
            failure = found_failure(breaks, shows, short)
            if log_rows.fails_alike(failure, short, longer):
                inherited += 1
                assert failure == found_failure(breaks, shows, longer)
    assert inherited


def test_a_failed_run_alone_starts_again_with_more_steps(tmp_path):
    """Without lanes to keep its place for there is nothing to save."""
    (short,), (longer,) = runs_of((1e39,)), runs_of((1e39,), steps=2 * STEPS)
    store = Store(tmp_path)
    train([short], DATASET, store)
    (said,) = loop.notes([longer], DATASET, store)
    assert said == f"starts again instead of continuing run {short.digest}: it has failed"
    shutil.rmtree(store.folder(short).path)
    assert loop.notes([longer], DATASET, store) == []


@pytest.mark.parametrize("log", ["older", "missing"])
def test_a_log_that_ends_before_its_checkpoint_is_named(tmp_path, log):
    """Its missing rows used to be left out without a word."""

    class Stop(Silent):
        def advance(self, *_):
            raise KeyboardInterrupt

    run, store = small_run(steps=12), Store(tmp_path)
    path, logs = store.folder(run).path / "log.jsonl", []
    for _ in range(2):
        with pytest.raises(TrainingInterrupted):
            train([run], DATASET, store, Stop())
        logs.append(path.read_bytes())
    if log == "older":
        path.write_bytes(logs[0])
        before = tree(tmp_path)
        match = r"log.jsonl .*of step 4, and the checkpoint of step 8.* delete it to continue"
        with pytest.raises(ValueError, match=match):
            train([run], DATASET, store)
        assert tree(tmp_path) == before
    path.unlink()
    with pytest.warns(match=r"log.jsonl is missing: training continues from step 8"):
        (outcome,) = train([run], DATASET, store)
    assert [row["step"] for row in outcome.log] == [12]
