"""Bars fit the terminal for every objective, and update in place in a notebook."""

import io
import re
import sys
import types

import pytest
import torch

import unweave as uw
from datasets import SMALL
from unweave.catalogue.methods import default_objectives
from unweave.core.console import PlainConsole
from unweave.core.progress import ProgressDisplay, fit_line
from unweave.evaluation.fit import _lines_before
from unweave.evaluation.tasks import Job, Task
from unweave.training import progress, train
from unweave.training.progress import ConsoleProgress, Speed

OBJECTIVES = default_objectives()
LONG = [{"step": 29_500, "distortion": -123456.78, "rate": 1e9, "loss": -12345.67}]


def terminal(width):
    return PlainConsole(file=io.StringIO(), force_terminal=True, width=width, color_system=None)


def lines_of(console):
    """Every line that was drawn, without control sequences."""
    plain = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", console.file.getvalue())
    return [line for line in re.split(r"[\r\n]+", plain) if line.strip()]


@pytest.fixture
def clock(monkeypatch):
    """The clock of progress, which stands still unless a test moves it."""
    clock = types.SimpleNamespace(now=0.0)
    monkeypatch.setattr(progress, "time", types.SimpleNamespace(monotonic=lambda: clock.now))
    return clock


@pytest.fixture(scope="module")
def logged():
    """A log row of every objective, after one step on small images."""
    rows = {}
    for name, objective in OBJECTIVES.items():
        latent = uw.Gaussian(3)
        if objective.incompatibility(latent):
            latent = uw.Product(a=uw.Gaussian(2), b=uw.Categorical(3))
        if objective.incompatibility(latent):
            latent = uw.Uniform(3)
        size = SMALL.load(torch.device("cpu")).size if objective.needs_full_batch else 16
        fields = {"network": uw.MLP((8,)) if objective.autoencodes else None}
        run = uw.Run(data=SMALL, latent=latent, objective=objective, batch_size=size, steps=1,
                     **fields)  # fmt: skip
        dataset = SMALL.load(torch.device("cpu"))
        (outcome,) = train([run.resolve(dataset)], dataset)
        rows[name] = (outcome.run, outcome.log[-1])
    return rows


@pytest.mark.parametrize("width", [40, 80, 120])
@pytest.mark.parametrize("name", OBJECTIVES)
def test_a_line_fits_and_has_step_time_left_and_loss(name, width, logged):
    run, row = logged[name]
    console = terminal(width)
    shown = ConsoleProgress(console)
    shown.begin([run], 0)
    shown.advance(1, [row])
    shown.end()
    assert all(len(line) <= width for line in lines_of(console)[1:])  # the terminal wraps the first
    last = lines_of(console)[-1]
    assert "1/1" in last
    assert "0:00:00" in last
    assert f"loss {row['loss']:.2f}" in last or f"loss {row['loss']:.2e}" in last
    assert run.objective.kind in lines_of(console)[0]
    if width >= 80:
        assert "━" in last


def test_a_usual_line_shows_the_terms_and_the_speed_in_80_columns(clock):
    """The speed did not fit, because the name was given room before it."""
    console = terminal(80)
    shown = ConsoleProgress(console)
    shown.begin([uw.Run(steps=30_000)], 0)
    clock.now += 100
    row = {"step": 25_000, "distortion": 123.45, "rate": 12.34, "loss": 172.81}
    shown.advance(25_000, [row])
    shown.end()
    last = lines_of(console)[-1]
    for text in ("25000/30000", "loss 172.81", "distortion 123.45", "rate 12.34", "250 steps/s"):
        assert text in last


def test_long_training_says_once_how_long_it_takes(clock):
    """`12208 s left` had to be converted, and stood only in the lines of progress."""
    console = PlainConsole(file=io.StringIO(), width=200)
    shown = ConsoleProgress(console)
    shown.begin([uw.Run(steps=30_000)], 0)
    for step in (10, 20, 30):
        clock.now += 4.07
        shown.advance(step, [{"step": step, "loss": 5.0}])
    shown.end()
    text = console.file.getvalue()
    assert text.count("beta-vae seed 0: about 3 h 23 min left at the present speed; Ctrl-C") == 1
    assert "2.5 steps/s  3 h 23 min left" in text
    assert " s left" not in text


def test_the_speed_is_that_of_the_last_minute(clock):
    """It was that since the start: "50 seconds left" stood for minutes on a machine that slowed."""
    speed, step, seen = Speed(100), 100, []
    for pause in [1.0] * 200 + [10.0] * 7 + [300.0, 1.0]:
        clock.now, step = clock.now + pause, step + 1
        seen.append(speed.at(step))
    assert seen[:200] == pytest.approx([1.0] * 200)
    assert seen[205] == pytest.approx(0.1)
    assert seen[-2:] == pytest.approx([1 / 300, 2 / 301])


def test_the_speed_does_not_count_the_start(clock):
    """Four seconds of start doubled the time left that was shown at first."""
    speed, seen = Speed(0), []
    for pause in (4.0, 1.0, 1.0):
        clock.now += pause
        seen.append(speed.at(100 * (len(seen) + 1)))
    assert seen == pytest.approx([25, 100, 100])


def test_the_loss_is_the_weighted_sum_of_the_terms(logged):
    run, row = logged["beta-vae"]
    assert row["loss"] == pytest.approx(row["distortion"] + run.objective.beta * row["rate"])
    _, row = logged["info-gan"]
    assert "loss" in row  # of the generator, although the critic is updated too


def test_plain_train_says_that_it_trains_the_default_run(unweave, monkeypatch, tmp_path):
    """`unweave train` started 30,000 steps without a word about what it trains."""
    jobs = []

    def prepared(runs, datasets, *_, **__):
        jobs.append(_lines_before(Job.prepare(Task(runs=tuple(runs)), datasets)))
        return []

    monkeypatch.setattr("unweave.evaluation.fit.train_runs", prepared)
    code, _, err = unweave("train", "--store", tmp_path, "--device", "cpu")
    assert (code, "no settings were given" in err) == (0, True)
    code, _, err = unweave("train", "seed=1", "--store", tmp_path, "--device", "cpu")
    assert (code, "no settings were given" in err) == (0, False)
    what = "beta-vae, beta 4; 10 latent variables (Gaussian); shapes2d; 30,000 steps of 64"
    assert [f"training {what} observations" in lines for lines in jobs] == [True, True]


@pytest.mark.parametrize("width", [40, 60, 80, 100, 140])
def test_large_numbers_fit(width):
    console = terminal(width)
    shown = ConsoleProgress(console)
    shown.begin([uw.Run(steps=300_000)], 0)
    shown.advance(299_999, LONG)
    shown.end()
    assert all(len(line) <= width for line in lines_of(console)[1:])  # the terminal wraps the first
    assert "299999/300000" in lines_of(console)[-1]
    assert "loss -12345.67" in lines_of(console)[-1]


def test_parts_of_a_line_are_dropped_in_order_until_it_fits():
    for width in range(24, 130):
        found = fit_line("name of a run", ["1/2", "0:00:01", "loss 1.00"], ["a 1", "b 2"], width)
        line = f"{found.name} {'-' * found.bar} {found.texts}".strip()
        assert len(line) <= width
        assert ("b 2" in line) <= ("a 1" in line)
        assert found.bar >= 4 or not found.name
    assert "b 2" in line


class Handle:
    def __init__(self, shown):
        self.shown = [shown]

    def update(self, shown):
        self.shown.append(shown)


@pytest.fixture
def notebook(monkeypatch):
    """A stand-in for IPython that keeps what it displays."""
    handles = []

    def display(shown, display_id):
        assert display_id is True
        handles.append(Handle(shown))
        return handles[-1]

    module = types.SimpleNamespace(HTML=str, display=display)
    monkeypatch.setitem(sys.modules, "IPython", types.SimpleNamespace(display=module))
    monkeypatch.setitem(sys.modules, "IPython.display", module)
    return handles


def test_a_notebook_shows_one_bar_that_is_replaced(notebook):
    text = io.StringIO()
    console = PlainConsole(file=text, force_jupyter=True)
    shown = ConsoleProgress(console)
    shown.begin([uw.Run(steps=50)], 0)
    for step in (10, 50):
        shown.advance(step, [{"step": step, "rate": 2.0, "loss": 5.0}])
    shown.end()
    (handle,) = notebook
    assert 'value="0.0000"' in handle.shown[0]
    assert 'value="1.0000"' in handle.shown[-1]
    assert "50/50 · 0:00:00 · loss 5.00 · rate 2.00" in handle.shown[-1]
    assert text.getvalue() == ""


def test_names_are_escaped_in_a_notebook(notebook):
    console = PlainConsole(file=io.StringIO(), force_jupyter=True)
    with ProgressDisplay(console, {"<script>": 2}) as display:
        display.update("<script>", 1, detail=["<b>"])
    final = notebook[0].shown[-1]
    assert "<script>" not in final
    assert "&lt;script&gt;" in final
    assert "&lt;b&gt;" in final
