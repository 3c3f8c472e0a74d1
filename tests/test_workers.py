"""Lanes over worker processes: same results for every plan, and no worker outlives its use."""

import itertools
import math
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import pytest
import torch
from loky import get_reusable_executor

import unweave as uw
from datasets import CPU, CRITIC, DATASET, small_run
from unweave.core.parallel import CannotFork, WorkerKilled, process_map
from unweave.training import Lanes, memory, train, worker_processes, workers as pool
from unweave.training.engine import Engine
from unweave.training.operations import count_operations
from unweave.training.store import Store
from unweave.training.worker_processes import can_fork
from unweave.training.workers import LanePool, Plan, make_plan, plan_for

FACTOR = uw.FactorVAE(gamma=5.0, critic=CRITIC)
NORMALISED = uw.DCGAN(base=4)

# One part, unequal parts, a part for each lane with one worker, with fewer and with as many.
PLANS = [Plan(1, 1, 1), Plan(2, 2, 1), Plan(3, 1, 1), Plan(3, 2, 1), Plan(3, 3, 1)]


def runs_of(**parts):
    return [small_run(seed=seed, **parts) for seed in range(3)]


def lanes_of(runs):
    return Lanes(runs, DATASET, CPU)


def copied(lanes):
    return [{n: t.clone() for n, t in lanes.state.lane(k).items()} for k in range(len(lanes.runs))]


@pytest.fixture
def one_worker_per_lane(monkeypatch):
    """Give every pool as many workers as lanes."""
    monkeypatch.setattr(pool, "plan_for", lambda lanes: Plan(len(lanes.runs), len(lanes.runs), 1))


NETWORKS = [uw.MLP((16,)), uw.Conv(base=4, hidden=8), NORMALISED]


@pytest.mark.parametrize(
    ("plan", "network"),
    [*((plan, NETWORKS[0]) for plan in PLANS), *((PLANS[3], network) for network in NETWORKS[1:])],
    ids=str,
)
def test_with_every_plan_a_lane_trains_like_a_single_run(plan, network):
    """State and log, of two players of which one leaves the other a carry."""
    runs = runs_of(objective=FACTOR, network=network)
    together = LanePool(lanes_of(runs), plan)
    together.run(3)
    together.run(2)
    assert together.lanes.step == int(together.lanes.clock[0]) == 5
    rows = together.rows()
    assert together.failures() == {}
    # Normalisation divides rounding errors by small standard deviations.
    tolerance = 1e-3 if network is NORMALISED else 2e-5
    for lane, run in enumerate(runs):
        alone = LanePool(lanes_of([run]), Plan(1, 1, 1))
        alone.run(5)
        assert rows[lane] == pytest.approx(alone.rows()[0], rel=1e-3, abs=1e-3)
        for name, value in alone.lanes.state.lane(0).items():
            found = together.lanes.state.lane(lane)[name]
            torch.testing.assert_close(found, value, rtol=1e-3, atol=tolerance)


@pytest.mark.parametrize("plan", PLANS, ids=str)
def test_with_every_plan_lanes_resume_bit_for_bit(plan):
    runs = runs_of(objective=FACTOR, network=NORMALISED)
    whole, resumed = (LanePool(lanes_of(runs), plan) for _ in range(2))
    whole.run(2)
    resumed.lanes.restore(copied(whole.lanes), 2)
    whole.run(3)
    for _ in range(3):
        resumed.run(1)
    for one, two in zip(copied(whole.lanes), copied(resumed.lanes), strict=True):
        assert all(torch.equal(value, two[name]) for name, value in one.items())


def test_stored_runs_resume_bit_for_bit_in_workers(one_worker_per_lane, tmp_path, monkeypatch):
    runs = runs_of(steps=12, objective=FACTOR)
    whole = train(runs, DATASET)
    healthy = Engine.step

    def interrupted(engine):
        if engine.lanes.step == 7:
            raise KeyboardInterrupt
        return healthy(engine)

    with monkeypatch.context() as patch:
        patch.setattr(Engine, "step", interrupted)
        with pytest.raises(KeyboardInterrupt):
            train(runs, DATASET, Store(tmp_path), checkpoint_seconds=0)
    for one, two in zip(whole, train(runs, DATASET, Store(tmp_path)), strict=True):
        assert one.log == two.log
        assert all(torch.equal(value, two.weights[name]) for name, value in one.weights.items())


def test_a_lane_that_fails_in_a_worker_does_not_affect_the_others(one_worker_per_lane):
    weights = [1.0, 1e39, 2.0]
    runs = [small_run(objective=uw.BetaVAE(beta=beta), steps=6) for beta in weights]
    outcomes = train(runs, DATASET)
    assert [outcome.failure is None for outcome in outcomes] == [True, False, True]
    assert outcomes[1].failure == {"step": 0, "term": "rate"}
    for run, outcome in zip(runs[::2], outcomes[::2], strict=True):
        (alone,) = train([run], DATASET)
        for name, value in alone.weights.items():
            torch.testing.assert_close(outcome.weights[name], value, rtol=1e-3, atol=2e-5)


@pytest.fixture(autouse=True, scope="module")
def no_processes_of_other_tests():
    get_reusable_executor().shutdown(wait=True, kill_workers=True)


@pytest.fixture
def seen():
    """Counters in memory that forked processes share."""
    return multiprocessing.get_context("fork").Array("l", 10_000)


@pytest.mark.parametrize("error", [ValueError("no"), MemoryError("full"), KeyboardInterrupt()])
def test_an_error_in_a_worker_is_raised_here_and_stops_the_others(error, monkeypatch):
    """The others never finish by themselves."""
    healthy = Engine.step

    def fails(engine):
        if engine.lanes.step == 2:
            if engine.lanes.runs[0].seed == 1:
                raise error
            time.sleep(3600)
        return healthy(engine)

    monkeypatch.setattr(Engine, "step", fails)
    before = set(threading.enumerate())
    with pytest.raises(type(error)) as raised:
        LanePool(lanes_of(runs_of()), Plan(3, 3, 1)).run(5)
    assert "in fails" in raised.value.__notes__[0]
    assert set(threading.enumerate()) == before
    assert multiprocessing.active_children() == []
    assert torch.get_num_threads() == 1


class TwoWords(Exception):
    def __init__(self, one, two):
        super().__init__(f"{one} {two}")


def test_an_error_that_cannot_be_pickled_is_described(monkeypatch):
    def fails(engine):
        raise TwoWords("no", "way")

    monkeypatch.setattr(Engine, "step", fails)
    with pytest.raises(RuntimeError, match="TwoWords: no way"):
        LanePool(lanes_of(runs_of()), Plan(3, 2, 1)).run(5)


def test_a_killed_worker_is_detected(monkeypatch):
    """During a step, and between two calls."""
    pools = [LanePool(lanes_of(runs_of()), Plan(3, 2, 1)) for _ in range(2)]
    pools[0].run(1)
    for child in multiprocessing.active_children():
        os.kill(child.pid, signal.SIGKILL)
        child.join()
    monkeypatch.setattr(Engine, "step", lambda engine: os.kill(os.getpid(), signal.SIGKILL))
    for each in pools:
        with pytest.raises(WorkerKilled, match="process that trained lanes was killed"):
            each.run(5)
    assert multiprocessing.active_children() == []


def test_workers_leave_signals_to_their_parent(monkeypatch, capfd):
    """From the moment in which they are forked."""
    fork, signals = os.fork, (signal.SIGINT, signal.SIGTERM)

    def pressed():
        if not (child := fork()):
            for number in signals:
                os.kill(os.getpid(), number)
        return child

    monkeypatch.setattr(os, "fork", pressed)
    together = LanePool(lanes_of(runs_of()), Plan(3, 2, 1))
    together.run(1)
    for child in multiprocessing.active_children():
        for number in signals:
            os.kill(child.pid, number)
    together.run(1)
    assert together.lanes.step == 2
    together.close()
    assert capfd.readouterr().err == ""


def test_workers_that_are_still_there_at_exit_are_ended():
    """They do not receive the signal by which multiprocessing would end them."""
    left = []

    def leave():
        left.append(LanePool(lanes_of(runs_of()), Plan(3, 3, 1)))
        left[0].run(1)

    process = multiprocessing.get_context("fork").Process(target=leave)
    process.start()
    process.join(60)
    assert process.exitcode == 0


def test_a_failed_fork_is_raised(monkeypatch):
    def refused():
        raise BlockingIOError(11, "Resource temporarily unavailable")

    before = set(threading.enumerate())
    monkeypatch.setattr(os, "fork", refused)
    with pytest.raises(CannotFork):
        LanePool(lanes_of(runs_of()), Plan(3, 2, 1)).run(5)
    assert set(threading.enumerate()) == before


def test_a_daemonic_process_takes_the_steps_itself(monkeypatch):
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
def report(engine):
    if engine.lanes.step == 3:
        os.write(1, b"%d\\n" % os.getpid())
    return healthy(engine)
Engine.step = report
LanePool(lanes_of(runs_of()), Plan(3, 3, 1)).run(10**9)
"""


def test_workers_end_with_their_parent():
    script = KILLED.format(paths=sys.path)
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE) as process:
        pids = [int(process.stdout.readline()) for _ in range(3)]
        process.kill()
        process.communicate(timeout=60)  # until none of them has the other end open
    assert len(set(pids)) == 3


@pytest.mark.parametrize(("engines", "workers"), [(3, 2), (5, 2), (4, 2)])
def test_workers_share_steps_evenly(engines, workers, monkeypatch):
    """Simulated workers of equal speed: no one takes two of three lanes while another rests."""
    tasks, taken, steps = [], Counter(), 24 * workers

    def send(worker, task):
        tasks.append(task)
        taken[worker] += task[2]

    monkeypatch.setattr(worker_processes, "_send", send)
    monkeypatch.setattr(worker_processes, "_receive", lambda worker: None)
    monkeypatch.setattr(worker_processes, "wait", list)  # all workers finish at the same time
    pool = object.__new__(worker_processes.WorkerProcesses)
    pool._workers, pool._last_worker = list(range(workers)), {}
    pool.engines = [SimpleNamespace(record=SimpleNamespace(merge=lambda sums: None))] * engines
    pool._run(10, steps, range(engines))
    for engine in range(engines):
        own = [task for task in tasks if task[0] == engine]
        ends = list(itertools.accumulate((count for *_, count in own), initial=10))
        assert [start for _, start, _ in own] == ends[:-1]
        assert ends[-1] == 10 + steps
    assert set(taken.values()) == {engines * steps // workers}


@pytest.mark.parametrize("plan", [Plan(1, 1, 1), Plan(3, 1, 2), Plan(3, 2, 1), Plan(3, 2, 2)])
def test_steps_use_the_threads_of_the_plan(plan, seen, monkeypatch):
    """And torch uses as many as before afterwards."""
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


def test_workers_can_use_threads_after_their_parent_did():
    """A thread pool of OpenMP does not survive a fork."""
    torch.set_num_threads(2)
    runs = runs_of(network=uw.MLP((256, 256)), batch_size=64)[:2]
    pools = [LanePool(lanes_of(runs), plan) for plan in (Plan(2, 1, 2), Plan(2, 2, 2))]
    for each in pools:
        each.run(1)
    for one, two in zip(*(copied(each.lanes) for each in pools), strict=True):
        for name, value in one.items():
            torch.testing.assert_close(two[name], value, rtol=1e-3, atol=2e-5)


@pytest.mark.parametrize("cores", [1, 2, 3, 16, 64])
@pytest.mark.parametrize("count", [1, 2, 3, 16, 100])
@pytest.mark.parametrize("mapped", [True, False])
def test_a_plan_fits_cores_and_lanes(cores, count, mapped):
    for work in (0, 10**6, 10**8, 10**9, 10**11):
        plan = make_plan(count, work, mapped, cores)
        assert 1 <= plan.workers <= plan.parts <= count
        assert 1 <= plan.workers * plan.threads <= cores
        assert plan.parts in (plan.workers, count)
        here = make_plan(count, work, mapped, cores, forks=False)
        assert here.workers == 1
        assert here.parts in (1, count)
    assert make_plan(count, 10**11, mapped, cores).workers == min(count, cores)


def test_the_plan_depends_on_the_network(monkeypatch):
    """A small MLP is vectorised; lanes of a large one, and of convolutions, run one by one."""
    monkeypatch.setattr(torch, "get_num_threads", lambda: 2)
    small = lanes_of(runs_of())
    large = lanes_of(runs_of(network=uw.MLP((300, 300)), batch_size=256))
    convolved = lanes_of(runs_of(network=uw.Conv(base=4, hidden=8)))
    batch, inputs, hidden, codes = 16, 256, 16, 3
    layers = (inputs * hidden, hidden * 2 * codes, codes * hidden, hidden * inputs)
    work = 2 * batch * (3 * sum(layers) - layers[0])  # no gradient of the images
    assert count_operations(small) == work
    assert plan_for(small) == Plan(1, 1, 1)
    assert plan_for(large) == Plan(3, 2, 1)
    assert plan_for(convolved) == Plan(3, 2, 1)
    monkeypatch.setattr(pool, "can_fork", lambda dataset, device: False)
    assert plan_for(large).workers == 1


def test_counting_operations_changes_nothing():
    lanes = lanes_of(runs_of(objective=FACTOR, network=NORMALISED))
    before = copied(lanes)
    count_operations(lanes)
    assert lanes.step == int(lanes.clock[0]) == 0
    for one, two in zip(before, copied(lanes), strict=True):
        assert all(torch.equal(value, two[name]) for name, value in one.items())


class Glibc:
    """Records how the allocator is set; versions before 2.35 refuse values above a limit."""

    def __init__(self, limit):
        self.limit, self.settings, self.trims = limit, {}, 0

    def mallopt(self, parameter, value):
        if value > self.limit:
            return 0
        self.settings[parameter] = value
        return 1

    def malloc_trim(self, pad):
        self.trims += 1


@pytest.mark.parametrize(("limit", "inside"), [(math.inf, 2**30), (2**26, None)])
def test_memory_is_reused_inside_and_returned_after(limit, inside, monkeypatch):
    library, defaults = Glibc(limit), {memory._MAP: 2**25, memory._TRIM: 2**26}
    monkeypatch.setattr(memory.ctypes, "CDLL", lambda name: library)
    monkeypatch.setattr(memory.sys, "platform", "linux")
    with memory.reuse_memory(CPU):
        assert library.settings == (dict.fromkeys(defaults, inside) if inside else defaults)
        assert library.trims == 0
    assert library.settings == defaults
    assert library.trims == 1
