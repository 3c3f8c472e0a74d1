"""When checkpoints are written."""

import itertools
from types import SimpleNamespace

import pytest

from unweave.core import pace


def simulated(monkeypatch, seconds, cost, rows=2_000):
    """Return the times of checkpoints if a row of the log takes a second, and a checkpoint `cost`.

    The cost may depend on the time. Also return the time at which training ended.
    """
    clock, saved = [0.0], []
    monkeypatch.setattr(pace, "time", SimpleNamespace(monotonic=lambda: clock[0]))
    checkpoints = pace.CheckpointPace(seconds)
    for _ in range(rows):
        clock[0] += 1.0
        if checkpoints.is_due:
            with checkpoints.saving():
                saved.append(clock[0])
                clock[0] += cost(clock[0]) if callable(cost) else cost
    return saved, clock[0]


@pytest.mark.parametrize("seconds", [1.0, 30.0, 500.0])
@pytest.mark.parametrize("cost", [0.01, 1.0, 5.0, 40.0])
def test_checkpoints_take_at_most_a_twentieth_of_the_time(monkeypatch, seconds, cost):
    saved, end = simulated(monkeypatch, seconds, cost)
    assert len(saved) >= 2
    assert (len(saved) - 1) * cost <= 0.05 * (end - saved[0])
    gaps = [later - earlier for earlier, later in itertools.pairwise(saved)]
    # No later than needed: the pause, and the row of the log that is being computed.
    assert all(gap <= cost + max(seconds, 19 * cost) + 1 for gap in gaps)
    assert all(gap >= seconds for gap in gaps)


def test_a_checkpoint_that_had_to_wait_for_the_file_system_does_not_put_off_the_next(monkeypatch):
    """A server that had stopped for 80 seconds put it off by 25 minutes."""
    saved, _ = simulated(monkeypatch, 30.0, lambda now: 80.0 if 100.0 < now < 130.0 else 1.0)
    gaps = [later - earlier for earlier, later in itertools.pairwise(saved)]
    assert max(gaps) == 80.0 + 30.0


def test_without_an_interval_there_is_a_checkpoint_at_every_row(monkeypatch):
    saved, _ = simulated(monkeypatch, 0.0, 5.0, rows=10)
    assert len(saved) == 10


def test_a_checkpoint_that_fails_is_due_again(monkeypatch):
    clock = [0.0]
    monkeypatch.setattr(pace, "time", SimpleNamespace(monotonic=lambda: clock[0]))
    checkpoints = pace.CheckpointPace(30.0)
    clock[0] = 31.0
    with pytest.raises(OSError, match="full"), checkpoints.saving():
        raise OSError("full")
    assert checkpoints.is_due
