"""Agreement and sensitivity of metrics against loops, and their figures."""

import functools
import itertools
import math
import xml.etree.ElementTree as ET

import numpy as np
import pytest

from lattice_tables import blurred, lattice
from unweave.metrics import (
    Score,
    agreement,
    beta_vae_score,
    factor_vae_score,
    mig,
    sensitivity,
)
from unweave.report import agreement_chart, save, sensitivity_chart

RNG = np.random.default_rng(6)
QUALITY = RNG.random(12)
VALUES = {
    "a/one": QUALITY,
    "b/two": -(QUALITY**3),
    "c": QUALITY + 0.4 * RNG.random(12),
    "d": np.round(QUALITY * 4),  # with ties
    "noise": RNG.random(12),
}
RUNS = [{name: float(v[run]) for name, v in VALUES.items()} for run in range(12)]


def ranks(values):
    return np.array([(values < v).sum() + ((values == v).sum() + 1) / 2 for v in values])


def pearson(x, y):
    x, y = x - x.mean(), y - y.mean()
    return (x * y).sum() / math.sqrt((x**2).sum() * (y**2).sum())


def kendall(x, y):
    """tau-b: pairs in the same order less pairs in the other, over those that are not tied."""
    pairs = list(itertools.combinations(range(len(x)), 2))
    signs = [(np.sign(x[i] - x[j]), np.sign(y[i] - y[j])) for i, j in pairs]
    total = sum(s * t for s, t in signs)
    return total / math.sqrt(sum(s != 0 for s, _ in signs) * sum(t != 0 for _, t in signs))


def test_correlations_are_those_of_loops():
    found = agreement(RUNS)
    assert found.names == tuple(VALUES)
    assert (found.runs, found.left_out) == (12, {})
    for one, two in itertools.combinations(VALUES, 2):
        x, y = VALUES[one], VALUES[two]
        pair = found.pair(one, two)
        assert pair["pearson"] == pytest.approx(pearson(x, y))
        assert pair["spearman"] == pytest.approx(pearson(ranks(x), ranks(y)))
        assert pair["kendall"] == pytest.approx(kendall(x, y))
        assert pair == found.pair(two, one)
    for name in ("pearson", "spearman", "kendall"):
        np.testing.assert_array_equal(np.diag(found.matrix(name)), 1)
        assert np.abs(found.matrix(name)).max() <= 1
    assert found.pair("a/one", "b/two")["kendall"] == pytest.approx(-1)
    assert found.p_values["spearman"][0, 1] < 1e-6 < found.p_values["spearman"][0, 4]


def test_metrics_that_cannot_be_compared_are_left_out_with_the_reason():
    runs = [
        run | {"flat": 1.0, "endless": math.inf if n else 0.0, "score": Score("s", "p", run["c"])}
        for n, run in enumerate(RUNS)
    ]
    runs[3] = runs[3] | {"rare": 1.0}
    found = agreement(runs)
    assert set(found.left_out) == {"flat", "endless", "rare"}
    assert found.pair("c", "score")["pearson"] == pytest.approx(1)
    assert "same for all" in found.left_out["flat"]
    assert "11 of 12" in found.left_out["rare"]
    with pytest.raises(ValueError, match="same for all"):
        found.pair("c", "flat")
    with pytest.raises(ValueError, match="at least three runs"):
        agreement(runs[:2])
    with pytest.raises(ValueError, match="two metrics to compare"):
        agreement([{"a": n, "b": 1.0} for n in range(4)])
    with pytest.raises(ValueError, match="the choices are kendall, pearson, spearman"):
        found.matrix("tau")


def test_sensitivity_is_the_metric_at_every_cell():
    table = blurred()
    grid = {"batch": (5, 40), "votes": (30, 60, 90)}
    found = sensitivity(factor_vae_score, table.codes, table.factors, grid, seeds=(3, 4, 5))
    assert found.values.shape == (2, 3, 3)
    assert found.name == "factor_vae_score/kim2018"
    for (b, batch), (v, votes), (r, seed) in itertools.product(
        enumerate(grid["batch"]), enumerate(grid["votes"]), enumerate((3, 4, 5))
    ):
        score = factor_vae_score(table.codes, table.factors, batch=batch, votes=votes, seed=seed)
        assert found.values[b, v, r] == score.value
    cell = found.values[0, 1]
    assert found.mean[0, 1] == pytest.approx(sum(cell) / 3)
    assert found.stddev[0, 1] == pytest.approx(math.sqrt(sum((cell - cell.mean()) ** 2) / 2))


def test_sensitivity_as_in_figures_16_and_17():
    """Codes of two factors out of three, as in [Kim2018] fig. 3.

    If the third factor is fixed, the vote of `factor_vae_score` is wrong: the score is the share of
    votes for the other two, with mean 2/3 and variance 2/9 per vote. A linear classifier learns
    that the third factor is fixed if all codes vary, so `beta_vae_score` reaches 1 with enough
    steps.
    """
    factors = lattice((4, 5, 6))
    codes, seeds = factors[:, :2] * 1.0, range(60)
    votes = np.array([50, 800])
    grid = {"batch": (40, 100), "votes": votes}
    ours = sensitivity(factor_vae_score, codes, factors, grid, seeds=seeds)
    expected = np.sqrt(2 / 9 / votes)
    assert (abs(ours.mean - 2 / 3) < 4 * expected / np.sqrt(60)).all()
    np.testing.assert_allclose(ours.stddev, np.tile(expected, (2, 1)), rtol=0.4)
    grid = {"pairs": (1, 50), "steps": (5, 3000)}
    theirs = sensitivity(beta_vae_score, codes, factors, grid, seeds=range(3))
    assert theirs.mean[1, 1] > 0.99
    assert theirs.mean[1, 0] < 0.95
    assert theirs.mean[0, 1] < 0.85  # a single pair says little
    with pytest.raises(ValueError, match="expected at least 1 step, and a protocol"):
        beta_vae_score(codes, factors, protocol="locatello2019", steps=5)


def test_sensitivity_of_a_partial_metric():
    table = blurred()
    bound = functools.partial(mig, protocol="locatello2019", samples=100)
    found = sensitivity(bound, table.codes, table.factors, {"bins": (5, 20)}, seeds=(0, 1))
    assert found.values[1, 1] == bound(table.codes, table.factors, bins=20, seed=1).value
    for settings, seeds in (
        ({}, (0, 1)),
        ({"bns": (2,)}, (0, 1)),
        ({"bins": ()}, (0, 1)),
        ({"bins": (5,)}, (0,)),
    ):
        with pytest.raises(ValueError, match="expected"):
            sensitivity(bound, table.codes, table.factors, settings, seeds=seeds)


def test_studies_print_as_tables():
    found = agreement([run | {"flat": 1.0} for run in RUNS])
    for correlation in ("pearson", "spearman", "kendall"):
        head, *lines, left_out = found.table(correlation).splitlines()
        assert head.split() == [f"{correlation},", "12", "runs", "1", "2", "3", "4", "5"]
        for n, (line, name) in enumerate(zip(lines, VALUES, strict=True)):
            numbers = [f"{value:.2f}" for value in found.matrix(correlation)[n]]
            assert line.split() == [str(n + 1), name, *numbers]
        assert left_out == "left out: flat, it is the same for all runs"
    assert str(found) == found.table("spearman")
    table = blurred()
    grid = {"batch": (5, 40), "votes": (30, 60)}
    study = sensitivity(factor_vae_score, table.codes, table.factors, grid, seeds=(3, 4))
    title, head, *lines = str(study).splitlines()
    assert title == "factor_vae_score/kim2018, 2 seeds"
    assert head.split() == ["batch", "votes", "mean", "std"]
    cells = itertools.product(range(2), range(2))
    for line, (b, v) in zip(lines, cells, strict=True):
        numbers = [f"{study.mean[b, v]:.4f}", f"{study.stddev[b, v]:.4f}"]
        assert line.split() == [str(grid["batch"][b]), str(grid["votes"][v]), *numbers]


def texts(path):
    return [node.text for node in ET.parse(path).iter() if node.tag.endswith("}text")]


def test_agreement_is_drawn_with_every_name_and_number(tmp_path):
    found = agreement(RUNS)
    for correlation in ("pearson", "spearman", "kendall"):
        shown = texts(save(agreement_chart(found, correlation), tmp_path / "a.svg"))
        assert f"{correlation.capitalize()}, 12 runs" in shown
        assert "a · one  1" in shown
        numbers = [f"{v:.2f}".replace("-", "−") for v in found.matrix(correlation).ravel()]
        assert sorted(numbers) == sorted(t for t in shown if "." in t)


@pytest.mark.parametrize("lines", [1, 2, 5, 40])
def test_sensitivity_is_drawn_with_a_line_for_each_value(lines, tmp_path):
    table = blurred()
    grid = {"batch": (5, 20, 40), "votes": tuple(range(10, 10 + lines))}
    found = sensitivity(factor_vae_score, table.codes, table.factors, grid, seeds=(0, 1))
    path = save(sensitivity_chart(found), tmp_path / "deep" / "s.svg")
    nodes = [node for node in ET.parse(path).iter() if node.tag.endswith("}path")]
    assert sum("line" in node.get("class") for node in nodes) == lines
    shown = texts(path)
    assert {"FactorVAE score · kim2018, 2 seeds", "batch", "votes:", "5", "20"} <= set(shown)
    assert all(str(value) in shown for value in grid["votes"])


def test_one_setting_is_drawn_and_three_are_not(tmp_path):
    table = blurred()
    draw = functools.partial(
        sensitivity, factor_vae_score, table.codes, table.factors, seeds=(0, 1)
    )
    shown = texts(save(sensitivity_chart(draw({"batch": (5, 9)})), tmp_path / "s.svg"))
    assert "batch" in shown
    three = draw({"batch": (5,), "votes": (9,), "kl_threshold": (0.1,)})
    with pytest.raises(ValueError, match="one or two settings"):
        sensitivity_chart(three)
