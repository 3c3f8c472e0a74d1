"""Progress of long work: bars on a terminal, lines elsewhere."""

import io

import pytest

from datasets import small_run
from unweave.core import progress
from unweave.core.console import PlainConsole
from unweave.training.progress import ConsoleProgress


@pytest.mark.parametrize("terminal", [True, False])
def test_progress_is_a_bar_on_a_terminal_and_lines_elsewhere(terminal, monkeypatch):
    text, now = io.StringIO(), iter(range(0, 100, 3))
    if not terminal:
        monkeypatch.setattr(progress.time, "monotonic", lambda: next(now))
    console = PlainConsole(file=text, force_terminal=terminal, width=80)
    with progress.ProgressDisplay(console, {"runs": 3}) as counts:
        for _ in range(3):  # 3 seconds pass at each call, and lines are 5 seconds apart
            counts.add("runs")
    if terminal:
        assert "3/3" in text.getvalue()
    else:
        assert text.getvalue() == "runs 2 of 3\nruns 3 of 3\n"


def test_short_work_prints_no_line_in_a_pipe():
    text = io.StringIO()
    with progress.ProgressDisplay(PlainConsole(file=text), {"runs": 1}) as counts:
        counts.add("runs")
    assert text.getvalue() == ""


def test_bytes_are_named_and_totals_may_come_later(monkeypatch):
    text, now = io.StringIO(), iter(range(0, 100, 6))
    monkeypatch.setattr(progress.time, "monotonic", lambda: next(now))
    with progress.ProgressDisplay(
        PlainConsole(file=text), {"a.npz": None}, in_bytes=True
    ) as display:
        display.update("a.npz", 1_000)
        display.update("a.npz", 2_000, total=4_000)
    assert text.getvalue() == "a.npz 1,000 bytes\na.npz 2,000 of 4,000 bytes\n"


def test_training_prints_its_start_failures_and_last_step():
    text, runs = io.StringIO(), [small_run(seed=seed, steps=20) for seed in (0, 1)]
    shown = ConsoleProgress(PlainConsole(file=text, width=200))
    shown.begin(runs, step=5)
    shown.advance(12, [{"step": 12, "rate": 1.0}, {"step": 12, "rate": 2.0}])
    shown.broke(runs[1], {"step": 11, "term": "rate"})
    shown.advance(20, [{"step": 20, "rate": 0.5}])
    shown.end()
    start, failure, last = text.getvalue().splitlines()
    assert start == "training 2 runs of beta-vae from step 5 to 20, side by side (as lanes)"
    assert failure == f"run {runs[1].digest} (seed 1) stopped at step 11: its rate is not finite"
    assert last.startswith("2 runs of beta-vae 20 of 20, ")
    assert last.endswith("steps/s  0 seconds left  rate 0.50")
