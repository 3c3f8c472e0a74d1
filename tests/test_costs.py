"""The cost model: its closed forms against simulations, and `unweave estimate`."""

import json
import math
import statistics

import pytest

from unweave.bench.costs import Conditions, StepTime, estimate

PREEMPTED = [
    Conditions(1, starting=60, checkpoint_seconds=30, saving=1, preemptions=1, waiting=0),
    Conditions(1, starting=20, checkpoint_seconds=300, saving=5, preemptions=6, waiting=120),
    Conditions(1, starting=20, checkpoint_seconds=30, saving=10, preemptions=6, waiting=120),
    Conditions(1, starting=0, checkpoint_seconds=1000, saving=0, preemptions=10, waiting=60),
]


def near(values, expected):
    """Whether a mean of samples is within four standard errors of what is expected."""
    return abs(statistics.mean(values) - expected) <= 4 * statistics.stdev(values) / math.sqrt(
        len(values)
    )


@pytest.mark.parametrize("conditions", PREEMPTED)
@pytest.mark.parametrize("training", [10.0, 700.0, 2400.0])
def test_the_expected_seconds_of_a_task_are_those_of_simulations(conditions, training):
    found = [conditions.simulate([training], seed) for seed in range(2000)]
    spent = conditions.spent(training)
    assert near([paid for _, paid in found], spent.total)
    away = 1 + conditions.rate * conditions.waiting  # of the only worker
    assert near([end for end, _ in found], spent.total * away)
    assert spent.training == training
    assert spent.lost > 0


def test_without_preemption_equal_tasks_take_whole_rounds():
    conditions = Conditions(4, starting=10, checkpoint_seconds=30, saving=1)
    end, paid = conditions.simulate([100.0] * 10, 0)
    task = 10 + 100 + 4 * 1  # four checkpoints, the last at the end
    assert end == pytest.approx(3 * task)
    assert paid == pytest.approx(10 * task)
    found = estimate([100.0] * 10, conditions)
    assert found.times == pytest.approx((3 * task,) * 3)
    assert found.spent == pytest.approx((1000, 100, 40, 0))
    assert found.least == pytest.approx(2.5 * task)


@pytest.mark.parametrize("workers", [2, 7, 50])
@pytest.mark.parametrize("rate", [0.0, 0.2, 2.0])
def test_simulated_studies_take_at_least_the_lower_bound(workers, rate):
    conditions = Conditions(workers, preemptions=rate, waiting=100)
    tasks = [600.0 + 10 * number for number in range(101)]
    ends, paid = zip(*(conditions.simulate(tasks, seed) for seed in range(50)), strict=True)
    assert conditions.least(tasks) <= statistics.mean(ends)
    expected = sum(conditions.spent(training).total for training in tasks)
    assert statistics.mean(paid) == pytest.approx(expected, rel=0.02)


def test_with_idle_workers_a_preempted_task_does_not_wait():
    """The bound used to be twice the mean: it counted the time until a replacement comes."""
    conditions = Conditions(10, preemptions=1, waiting=3600)
    ends = [conditions.simulate([3600.0], seed)[0] for seed in range(300)]
    assert near(ends, conditions.least([3600.0]))


def test_the_last_of_many_preempted_tasks_takes_longer_than_a_mean_one():
    """There used to be an upper bound as well, at half of the mean."""
    conditions = Conditions(64, checkpoint_seconds=3600, preemptions=2)
    found = estimate([3600.0] * 64, conditions)
    assert found.times[0] > 2 * found.least
    assert found.times[1] > found.least


def test_the_best_interval_between_checkpoints_is_near_that_of_young():
    best = Conditions(1, saving=2, preemptions=1).best_interval
    assert best == pytest.approx(120)
    lost = {
        factor: Conditions(1, 60, factor * best, 2, 1).spent(24 * 3600).total
        for factor in (0.5, 1.0, 2.0)
    }
    assert lost[1.0] < min(lost[0.5], lost[2.0])


def test_step_times_go_through_both_measurements():
    step = StepTime.fit(1, 3.0, 64, 66.0)
    assert (step.seconds(1), step.seconds(64)) == pytest.approx((3.0, 66.0))
    assert StepTime.fit(1, 3.0, 1, 3.0) == (0.0, 3.0)
    assert StepTime.fit(1, 3.0, 8, 2.5) == (3.0, 0.0)  # noise: more lanes cannot be faster
    assert StepTime.fit(1, 3.0, 2, 9.0) == (0.0, 4.5)  # slower than one by one: only the last


def test_the_command_prints_times_and_the_price(unweave):
    words = ["estimate", "seed=0..99", "--seconds", 36, "--lanes", 10, "--workers", 5]
    words += ["--starting", 0, "--saving", 0, "--price", 3]
    code, out, _ = unweave(*words)
    assert code == 0
    assert "100 runs in 10 tasks, 36 s of training for each run" in out
    assert "5 workers: 12 minutes, if a task starts in 0 s (--starting)" in out
    assert "1 worker-hours: 1 training, 0 starting, 0 saving, 0 lost" in out
    assert "price: 3.00" in out
    code, out, _ = unweave(*words, "--json", "--preemptions", 1)
    found = json.loads(out)
    assert (code, found["runs"], found["tasks"]) == (0, 100, 10)
    assert found["worker_seconds"]["training"] == pytest.approx(3600)
    assert found["price"] == pytest.approx(3 * sum(found["worker_seconds"].values()) / 3600)


@pytest.mark.parametrize("lanes", [1, 3])
def test_the_command_times_every_structure_alone_and_side_by_side(unweave, monkeypatch, lanes):
    seen = []

    def time_step(run, lanes, dataset, precision, seconds):
        seen.append((run.latent.size, lanes))
        return 1e6 * (2 + lanes)  # microseconds

    monkeypatch.setattr("unweave.bench.throughput.time_step", time_step)
    words = "data=shapes2d data.side=16 network=mlp latent.size=2,3 seed=0..4 steps=10 --lanes"
    code, out, err = unweave("estimate", *words.split(), lanes, "--device", "cpu", "--json")
    counts = [1] if lanes == 1 else [1, 3]
    assert (code, seen) == (0, [(size, count) for size in (2, 3) for count in counts])
    assert err.count("1 run of beta-vae: 3e+03 ms for a step") == 2
    sizes = [1] * 5 if lanes == 1 else [3, 2]
    found = json.loads(out)
    assert found["tasks"] == 2 * len(sizes)
    training = 2 * 10 * sum(2 + size for size in sizes)
    assert found["worker_seconds"]["training"] == pytest.approx(training)
    assert found["least_seconds"] == pytest.approx(found["seconds"]["mean"])  # of one worker


def test_the_best_interval_is_printed_only_if_checkpoints_take_time(unweave):
    words = ["estimate", "--seconds", 36, "--preemptions", 1, "--saving"]
    assert "checkpoints every 85 s would lose the least" in unweave(*words, 1)[1]
    assert "would lose" not in unweave(*words, 0)[1]


@pytest.mark.parametrize("starting", [3600, 86_400])
def test_tasks_that_never_reach_a_checkpoint_are_one_line(unweave, starting):
    words = ["estimate", "--seconds", 36, "--preemptions", 60, "--starting", starting]
    code, _, err = unweave(*words)
    assert code == 2
    assert err.startswith("error: expected at most 1,000,000 starts of tasks, got ")
