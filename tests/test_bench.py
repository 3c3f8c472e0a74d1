"""The benchmark: its counts, its cases, its timer and its chart."""

from xml.etree import ElementTree

import pytest

from datasets import CPU
from unweave.bench import throughput as bench
from unweave.bench.chart import speed_chart
from unweave.cli import bench as bench_commands


def test_the_work_of_a_step_equals_that_of_the_network():
    """6.1 GFLOP, three times the forward products less the gradient of the images."""
    forward = 2 * 64 * (1024 * 16 * 32 + 256 * 512 * 32 + 64 * 512 * 64 + 16 * 1024 * 64)
    dense = 2 * 64 * (1024 * 128 + 128 * 20 + 10 * 128 + 128 * 1024)
    images = 2 * 64 * 1024 * 16 * 32
    found = bench.work("fp32")
    assert found.operations == pytest.approx(3 * (2 * forward + dense) - images, rel=0.01)
    assert bench.work("bf16").bytes < found.bytes


def test_every_case_is_measured(monkeypatch):
    """A pool counts the operations of a step by taking one, so each case runs once."""
    monkeypatch.setattr(bench, "timed", lambda step, device, seconds: 100.0)
    monkeypatch.setattr(bench, "_STORED", 200)
    bench.plain_step(CPU)()
    bench.plain_factor_step(CPU)()
    found = list(bench.figures(CPU, "fp32", [1], seconds=0.0))
    names = {figure.name for figure in found}
    assert {"plain loop, beta-vae", "beta-vae", "factor-vae", "128x128 images"} <= names
    for figure in found:
        plain = figure.name.startswith("plain")
        steps = 1 if plain else figure.lanes * bench._STRETCH["cpu"]
        assert figure.microseconds == pytest.approx(100.0 / steps)
        if figure.name in bench.OBJECTIVES:
            assert figure.ratio == pytest.approx(steps)
        assert (figure.arithmetic is None) == (figure.name != "beta-vae")


class Clock:
    """A clock that advances only when a step takes time."""

    now, steps = 0.0, 0

    def perf_counter(self):
        return self.now

    def step(self, seconds):
        self.now += seconds
        self.steps += 1


@pytest.mark.parametrize(
    ("seconds", "steps"),
    [(0.001, 26), (0.06, 2)],  # 6 + 4 rounds of 5; one to warm up, one that is timed
)
def test_a_step_is_timed_within_the_given_time(seconds, steps, monkeypatch):
    clock = Clock()
    monkeypatch.setattr(bench, "time", clock)
    assert bench.timed(lambda: clock.step(seconds), CPU, 0.02) == pytest.approx(1e6 * seconds)
    assert clock.steps == steps


def test_a_missing_folder_is_rejected_before_anything_is_timed(unweave):
    code, out, err = unweave("bench", "--svg", "nowhere/speed.svg")
    assert (code, out) == (2, "")
    assert "there is no folder nowhere" in err


def test_invalid_numbers_of_lanes_are_rejected():
    assert bench_commands._counts("1,16") == [1, 16]
    for text in ("0", "1,,2", "many", "10000", "9" * 5000):
        with pytest.raises(ValueError, match="numbers of lanes"):
            bench_commands._counts(text)


def test_the_chart_has_bars_on_a_logarithmic_axis():
    times = {"plain loop, beta-vae": 4000.0, "beta-vae": 40.0, "a <b> & c": 400.0}
    figures = [bench.Figure(name, 2, t, 1e6, 3.0, None, None) for name, t in times.items()]
    drawing = ElementTree.fromstring(speed_chart(figures, "Speed & <more>"))
    space = "{http://www.w3.org/2000/svg}"
    widths = [float(bar.get("width")) for bar in drawing.iter(f"{space}rect")]
    assert widths[0] - widths[2] == pytest.approx(widths[2] - widths[1], abs=0.2)
    texts = [text.text for text in drawing.iter(f"{space}text")]
    assert {"Speed & <more>", "plain loop, beta-vae", "a <b> & c, 2 lanes"} <= set(texts)
    assert "40 us  (3.0 times)" in texts


def test_finished_measurements_are_shown_if_a_later_case_fails(unweave, monkeypatch):
    def figures(*settings):
        yield bench.Figure("beta-vae", 3, 81.5, 7.9e5, None, None, None)
        raise ValueError("the second does not fit")

    monkeypatch.setattr(bench, "figures", figures)
    code, out, err = unweave("bench")
    assert code == 2
    assert "beta-vae" in out
    assert "790,000" in out
    assert "the second does not fit" in err
