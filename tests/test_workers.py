"""The pool: however lanes are dealt over processes, each is the run alone, and nothing hangs."""

import ctypes
import multiprocessing
import os
import resource
import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

import unweave as uw
from datasets import CPU, CRITIC, SMALL, small_run
from unweave.core.parallel import WorkerKilled, process_map
from unweave.training import Lanes, train
from unweave.training import workers as pool
from unweave.training.engine import Engine
from unweave.training.memory import reuse_memory
from unweave.training.store import Store
from unweave.training.worker_processes import can_fork
from unweave.training.operations import count_operations
from unweave.training.workers import LanePool, Plan, make_plan

FACTOR = uw.FactorVAE(gamma=5.0, critic=CRITIC)
NORMALISED = uw.DCGAN(base=4)

# All together, unequal shares, a share each with fewer workers than lanes, and as many.
PLANS = [Plan(1, 1, 1), Plan(2, 2, 1), Plan(3, 1, 1), Plan(3, 2, 1), Plan(3, 3, 1)]


def runs_of(**parts):
    return [small_run(seed=seed, **parts) for seed in range(3)]


def lanes_of(runs):
    return Lanes(runs, SMALL.load(CPU), CPU)


def copied(lanes):
    return [{n: t.clone() for n, t in lanes.state.lane(k).items()} for k in range(len(lanes.runs))]


@pytest.fixture
def dealt(monkeypatch):
    """Every pool has as many workers as lanes."""
    monkeypatch.setattr(pool, "plan_for", lambda lanes: Plan(len(lanes.runs), len(lanes.runs), 1))


@pytest.mark.parametrize("network", [uw.MLP((16,)), uw.Conv(base=4, hidden=8), NORMALISED])
@pytest.mark.parametrize("plan", PLANS, ids=str)
def test_however_lanes_are_dealt_each_is_the_run_alone(plan, network):
    """State and log; of two players, one of whom leaves the other a carry."""
    runs = runs_of(objective=FACTOR, network=network)
    together = LanePool(lanes_of(runs), plan)
    together.run(5)
    together.run(4)
    assert together.lanes.step == int(together.lanes.clock[0]) == 9
    rows = together.rows()
    assert together.failures() == {}
    # Normalisation divides rounding errors by small deviations.
    tolerance = 1e-3 if network is NORMALISED else 2e-5
    for lane, run in enumerate(runs):
        alone = LanePool(lanes_of([run]), Plan(1, 1, 1))
        alone.run(9)
        assert rows[lane] == pytest.approx(alone.rows()[0], rel=1e-3, abs=1e-3)
        for name, value in alone.lanes.state.lane(0).items():
            found = together.lanes.state.lane(lane)[name]
            torch.testing.assert_close(found, value, rtol=1e-3, atol=tolerance)


@pytest.mark.parametrize("plan", PLANS, ids=str)
def test_however_lanes_are_dealt_they_resume_bit_for_bit(plan):
    runs = runs_of(objective=FACTOR, network=NORMALISED)
    whole, resumed = (LanePool(lanes_of(runs), plan) for _ in range(2))
    whole.run(4)
    resumed.lanes.restore(copied(whole.lanes), 4)
    whole.run(7)
    for _ in range(7):
        resumed.run(1)
    for one, two in zip(copied(whole.lanes), copied(resumed.lanes), strict=True):
        assert all(torch.equal(value, two[name]) for name, value in one.items())


def test_dealt_out_a_run_of_the_store_resumes_bit_for_bit(dealt, tmp_path, monkeypatch):
    runs = runs_of(steps=40, objective=FACTOR)
    whole = train(runs, SMALL.load(CPU))
    healthy = Engine.step

    def interrupted(engine):
        if engine.lanes.step == 25:
            raise KeyboardInterrupt
        return healthy(engine)

    with monkeypatch.context() as patch:
        patch.setattr(Engine, "step", interrupted)
        with pytest.raises(KeyboardInterrupt):
            train(runs, SMALL.load(CPU), Store(tmp_path), checkpoint_seconds=0)
    for one, two in zip(whole, train(runs, SMALL.load(CPU), Store(tmp_path)), strict=True):
        assert one.log == two.log
        assert all(torch.equal(value, two.weights[name]) for name, value in one.weights.items())


def test_dealt_out_a_lane_that_breaks_breaks_alone(dealt):
    weights = [1.0, 1e39, 2.0]
    runs = [small_run(objective=uw.BetaVAE(beta=beta), steps=20) for beta in weights]
    outcomes = train(runs, SMALL.load(CPU))
    assert [outcome.failure is None for outcome in outcomes] == [True, False, True]
    assert outcomes[1].failure == {"step": 0, "term": "rate", "checkpoint": None}
    for run, outcome in zip(runs[::2], outcomes[::2], strict=True):
        (alone,) = train([run], SMALL.load(CPU))
        for name, value in alone.weights.items():
            torch.testing.assert_close(outcome.weights[name], value, rtol=1e-3, atol=2e-5)


@pytest.fixture
def seen():
    """Numbers that processes forked from here put down for all to see."""
    return multiprocessing.get_context("fork").Array("l", 10_000)


@pytest.mark.parametrize("error", [ValueError("no"), MemoryError("full"), KeyboardInterrupt()])
def test_what_a_worker_raises_is_raised_here_and_stops_the_others(error, seen, monkeypatch):
    healthy = Engine.step

    def fails(engine):
        seen[engine.lanes.step] += 1
        if engine.lanes.runs[0].seed == 1 and engine.lanes.step == 2:
            raise error
        return healthy(engine)

    monkeypatch.setattr(Engine, "step", fails)
    before = set(threading.enumerate())
    with pytest.raises(type(error)) as raised:
        LanePool(lanes_of(runs_of()), Plan(3, 3, 1)).run(9_000)
    assert "in fails" in raised.value.__notes__[0]
    assert sum(seen) < 1_000
    assert set(threading.enumerate()) == before
    assert multiprocessing.active_children() == []
    assert torch.get_num_threads() == 1


class TwoWords(Exception):
    def __init__(self, one, two):
        super().__init__(f"{one} {two}")


def test_an_error_that_cannot_be_pickled_is_told_in_words(monkeypatch):
    def fails(engine):
        raise TwoWords("no", "way")

    monkeypatch.setattr(Engine, "step", fails)
    with pytest.raises(RuntimeError, match="TwoWords: no way"):
        LanePool(lanes_of(runs_of()), Plan(3, 2, 1)).run(5)


def test_a_worker_that_is_killed_is_missed(monkeypatch):
    """In a step, and between two stretches of steps."""
    crews = [LanePool(lanes_of(runs_of()), Plan(3, 2, 1)) for _ in range(2)]
    crews[0].run(1)
    for child in multiprocessing.active_children():
        os.kill(child.pid, signal.SIGKILL)
        child.join()
    monkeypatch.setattr(Engine, "step", lambda engine: os.kill(os.getpid(), signal.SIGKILL))
    for each in crews:
        with pytest.raises(WorkerKilled, match="process that trained lanes was killed"):
            each.run(5)
    assert multiprocessing.active_children() == []


def test_where_no_process_can_be_forked_that_is_raised(monkeypatch):
    def refused():
        raise BlockingIOError(11, "Resource temporarily unavailable")

    before = set(threading.enumerate())
    monkeypatch.setattr(os, "fork", refused)
    with pytest.raises(BlockingIOError):
        LanePool(lanes_of(runs_of()), Plan(3, 2, 1)).run(5)
    assert set(threading.enumerate()) == before


def test_a_process_that_may_not_have_others_takes_the_steps_itself(monkeypatch):
    lanes = lanes_of(runs_of())
    assert can_fork(lanes.dataset, CPU)
    monkeypatch.setattr(multiprocessing.current_process(), "_config", {"daemon": True})
    assert not can_fork(lanes.dataset, CPU)
    assert list(process_map(lambda item: os.getpid(), range(3), 2)) == 3 * [os.getpid()]


KILLED = """
import os, signal, sys, torch
sys.path[:0] = {paths!r}
from test_workers import LanePool, Plan, Engine, lanes_of, runs_of
healthy = Engine.step
def told(engine):
    if engine.lanes.step == 3:
        os.write(1, b"%d\\n" % os.getpid())
    return healthy(engine)
Engine.step = told
LanePool(lanes_of(runs_of()), Plan(3, 3, 1)).run(10**9)
"""


def test_workers_end_with_the_process_they_work_for():
    script = KILLED.format(paths=sys.path)
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE) as process:
        pids = [int(process.stdout.readline()) for _ in range(3)]
        process.kill()
        process.communicate(timeout=60)  # until none of them has the other end open
    assert len(set(pids)) == 3


def test_lanes_that_do_not_divide_are_taken_in_turns(seen, monkeypatch):
    """No process takes two of three lanes while the other rests."""
    healthy = Engine.step

    def counted(engine):
        seen[os.getpid() % 10_000] += 1
        return healthy(engine)

    monkeypatch.setattr(Engine, "step", counted)
    LanePool(lanes_of(runs_of(network=uw.MLP((300,)))), Plan(3, 2, 1)).run(160)
    taken = [count for count in seen if count]
    assert len(taken) == 2
    assert sum(taken) == 3 * 160
    assert min(taken) > 160


@pytest.mark.parametrize("plan", [Plan(1, 1, 1), Plan(3, 1, 2), Plan(3, 2, 1), Plan(3, 2, 2)])
def test_threads_are_as_make_plan_inside_and_as_before_outside(plan, seen, monkeypatch):
    healthy = Engine.step

    def looked_at(engine):
        seen[torch.get_num_threads()] += 1
        return healthy(engine)

    monkeypatch.setattr(Engine, "step", looked_at)
    torch.set_num_threads(3)
    LanePool(lanes_of(runs_of()), plan).run(2)
    assert {number for number, count in enumerate(seen) if count} == {plan.threads}
    assert torch.get_num_threads() == 3
    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(torch.get_num_threads).result() == 3


def test_after_threads_were_used_here_processes_can_use_them():
    """A thread pool of OpenMP does not outlive a fork."""
    torch.set_num_threads(2)
    runs = runs_of(network=uw.MLP((400, 400)), batch_size=64)[:2]
    crews = [LanePool(lanes_of(runs), plan) for plan in (Plan(2, 1, 2), Plan(2, 2, 2))]
    for each in crews:
        each.run(1)
    for one, two in zip(*(copied(each.lanes) for each in crews), strict=True):
        for name, value in one.items():
            torch.testing.assert_close(two[name], value, rtol=1e-3, atol=2e-5)


@pytest.mark.parametrize("cores", [1, 2, 3, 16, 64])
@pytest.mark.parametrize("count", [1, 2, 3, 16, 100])
@pytest.mark.parametrize("mapped", [True, False])
def test_a_plan_takes_no_more_than_there_is(cores, count, mapped):
    for work in (0, 10**6, 10**8, 10**9, 10**11):
        plan = make_plan(count, work, mapped, cores)
        assert 1 <= plan.workers <= plan.parts <= count
        assert 1 <= plan.workers * plan.threads <= cores
        assert plan.parts in (plan.workers, count)
        here = make_plan(count, work, mapped, cores, forks=False)
        assert here.workers == 1
        assert here.parts in (1, count)
    assert make_plan(count, 10**11, mapped, cores).workers == min(count, cores)


def test_the_plan_follows_from_the_network(monkeypatch):
    """A small MLP is mapped, a large one and convolutions are a lane each; threads as torch has."""
    torch.set_num_threads(2)
    small = lanes_of(runs_of())
    large = lanes_of(runs_of(network=uw.MLP((1000, 1000)), batch_size=64))
    convolved = lanes_of(runs_of(network=uw.Conv(base=4, hidden=8)))
    batch, inputs, hidden, codes = 16, 256, 16, 3
    layers = (inputs * hidden, hidden * 2 * codes, codes * hidden, hidden * inputs)
    work = 2 * batch * (3 * sum(layers) - layers[0])  # no gradient of the images
    assert count_operations(small) == work
    assert LanePool(small).plan == Plan(1, 1, 1)
    assert LanePool(large).plan == Plan(3, 2, 1)
    assert LanePool(convolved).plan == Plan(3, 2, 1)
    monkeypatch.setattr(pool, "can_fork", lambda dataset, device: False)
    assert LanePool(large).plan.workers == 1


def test_counting_operations_changes_nothing():
    lanes = lanes_of(runs_of(objective=FACTOR, network=NORMALISED))
    before = copied(lanes)
    count_operations(lanes)
    assert lanes.step == int(lanes.clock[0]) == 0
    for one, two in zip(before, copied(lanes), strict=True):
        assert all(torch.equal(value, two[name]) for name, value in one.items())


def faults(blocks):
    """Pages that the system had to hand out while blocks were made and dropped."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(blocks):
        torch.ones(2**24)
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before


def test_memory_is_kept_inside_and_given_back_after():
    """Blocks of 64 MB are 16,384 pages each: taken again, until they are the system's again."""
    with reuse_memory(CPU):
        faults(5)
        kept = min(faults(5) for _ in range(3))  # a busy system may take pages back in between
    after = faults(5)
    if hasattr(ctypes.CDLL(None), "mallopt"):
        assert kept < 1_000 < after
