"""Options of every metric: intervals, nulls, ceilings and cyclic factors; tables of scores."""

import csv
import inspect
import io
import json
import re

import numpy as np
import pytest

from lattice_tables import QUICK, blurred, identity
from unweave.metrics import (
    METRICS,
    UNSUPERVISED,
    Score,
    Scores,
    Table,
    dci,
    downstream,
    evaluate,
    factor_vae_score,
    irs,
    merge,
    mig,
    sap,
)
from unweave.metrics.options import interval_around

metrics = pytest.mark.parametrize("metric", METRICS.values(), ids=METRICS)


def draw(seed, rows=600):
    """Random rows of a partly entangled dataset."""
    rng = np.random.default_rng(seed)
    v = rng.integers([4, 5, 6], size=(rows, 3))
    turned = (v / [1.1, 1.4, 1.7]) @ np.array([[1, 0.5, 0], [-0.5, 1, 0], [0, 0, 1.0]])
    return turned + 0.3 * rng.standard_normal((rows, 3)), v


@pytest.mark.parametrize("rows", [300, 600, 3000])
def test_interval_is_as_wide_as_the_variation_over_other_rows_and_covers_their_mean(rows):
    """Of 300 rows that are read from as many, from twice as many, and from many more."""
    values = [float(mig(*draw(seed, rows), samples=300, seed=seed)) for seed in range(200)]
    low, high = np.quantile(values, (0.05, 0.95))
    asked = {"samples": 300, "interval": 0.9, "resamples": 60}
    scores = [mig(*draw(1000 + n, rows), seed=n, **asked) for n in range(20)]
    widths = [score.interval[1] - score.interval[0] for score in scores]
    assert np.mean(widths) == pytest.approx(high - low, rel=0.2)
    held = [score.interval[0] <= np.mean(values) <= score.interval[1] for score in scores]
    assert np.mean(held) >= 0.8
    assert scores[0].details["rows of a resample"] == {300: 150, 600: 200, 3000: 273}[rows]


def test_the_bias_of_fewer_rows_is_removed():
    values = [float(mig(*draw(seed))) for seed in range(50)]
    score = mig(*draw(1000), interval=0.9, resamples=100)
    width = score.interval[1] - score.interval[0]
    assert np.mean(values) - score.details["mean of resamples"] > width / 3


@pytest.mark.parametrize(
    ("metric", "options", "read"),
    [
        (mig, {"samples": 100}, 100),
        (dci, {"protocol": "eastwood2018", "train": 80, "test": 40}, 120),
        (sap, {"protocol": "locatello2019", "train": 80, "test": 40}, 120),
        (sap, {"protocol": "kumar2018", "train": 80, "test": 40}, 600),
        (irs, {"samples": 100}, 100),
        (downstream, {"labels": (10,), "test": 40}, 50),
        (factor_vae_score, {"votes": 50}, 600),
    ],
)
def test_metrics_say_how_many_rows_they_read(metric, options, read):
    score = metric(*draw(3), **options)
    assert (score.rows_read or score.details["rows"]) == read


def test_the_rows_read_decide_how_large_subsets_are():
    score = mig(*draw(3), interval=0.5, resamples=2, samples=100)
    assert score.details["rows of a resample"] == round(600 * 100 / (600 + 100))
    base = blurred()  # the samples of a mixture are not rows
    score = mig(
        base.codes, base.factors, scales=base.scales, protocol="chen2018", samples=100,
        interval=0.9, resamples=2,
    )  # fmt: skip
    assert score.details["rows of a resample"] == 240


def test_reseeds_estimate_the_variation_over_seeds():
    codes, factors = draw(2, rows=200)
    few = {"batch": 5, "votes": 100}
    score = factor_vae_score(codes, factors, reseeds=30, **few)
    others = [float(factor_vae_score(codes, factors, seed=100 + n, **few)) for n in range(30)]
    assert score.details["seed std"] == pytest.approx(np.std(others), rel=0.5)
    assert score.details["seed std"] > 0
    assert score.details["reseeds"] == 30
    assert float(score) == float(factor_vae_score(codes, factors, **few))
    assert mig(codes, factors, reseeds=2).details["seed std"] == 0  # reads all rows


def test_null_is_the_mean_of_shuffles():
    codes, factors = draw(0)
    score = mig(codes, factors, null=True, shuffles=40)
    rng = np.random.default_rng(5)
    expected = [float(mig(codes, factors[rng.permutation(600)])) for _ in range(40)]
    assert score.details["null std"] == pytest.approx(np.std(expected), rel=0.5)
    assert score.null == pytest.approx(np.mean(expected), abs=4 * np.std(expected) / 40**0.5)
    assert score.null < 0.03 < float(score)


def test_interval_and_null_depend_on_the_seed_alone(monkeypatch):
    codes, factors = draw(1, rows=200)
    asked = {"interval": 0.9, "resamples": 20, "null": True, "shuffles": 3}
    first = factor_vae_score(codes, factors, seed=3, **asked)
    monkeypatch.setattr("unweave.core.parallel.usable_cores", lambda: 2)
    for seed in (3, np.random.default_rng(3)):
        assert factor_vae_score(codes, factors, seed=seed, **asked).to_json() == first.to_json()
    plain = factor_vae_score(codes, factors, seed=3)
    assert (float(plain), plain.interval, plain.null) == (float(first), None, None)
    assert factor_vae_score(codes, factors, seed=3, null=True, shuffles=3).null == first.null
    assert factor_vae_score(codes, factors, seed=4, **asked).null != first.null


def test_scales_are_resampled_with_the_codes():
    base = blurred()
    score = mig(
        base.codes, base.factors, scales=base.scales, protocol="chen2018", samples=500,
        interval=0.9, resamples=4,
    )  # fmt: skip
    assert score.interval[0] < float(score) < score.interval[1]


def test_interval_around():
    values = np.array([0.1, 0.2, 0.3, 0.4, 0.5])
    assert interval_around(0.3, values, 0.5) == (0.2, 0.4)
    assert interval_around(0.95, values, 0.999)[1] == 1.0
    assert interval_around(1.5, values, 0.5) == (1.4, 1.6)


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"interval": 95}, "between 0 and 1, got 95"),
        ({"interval": 0.9, "resamples": 1}, "at least 2 resamples"),
        ({"null": True, "shuffles": 0}, "2 shuffles"),
        ({"reseeds": 1}, "at least 2 reseeds, or 0 for none, got 1"),
    ],
)
def test_bad_keywords(asked, message):
    with pytest.raises(ValueError, match=message):
        mig(*draw(0), **asked)


@pytest.mark.filterwarnings("ignore::unweave.metrics.FewRowsWarning")
def test_too_few_rows_for_subsets():
    with pytest.raises(ValueError, match="at least 4 rows for an interval"):
        mig([[0.0], [1.0], [2.0]], [[0], [1], [2]], interval=0.9)
    with pytest.raises(ValueError, match=r"random subset .* cannot be scored .* give more rows"):
        mig(np.arange(4.0)[:, None], [[0], [0], [0], [1]], interval=0.9)


@metrics
def test_every_metric_documents_the_shared_arguments(metric):
    shared = {
        "periods",
        "continuous",
        "interval",
        "resamples",
        "null",
        "shuffles",
        "reseeds",
        "ceiling",
        "seed",
        "discrete",
        "factor_names",
        "leave_out",
    }
    parameters = inspect.signature(metric.compute).parameters
    assert shared <= set(parameters)
    assert all(parameters[name].kind is inspect.Parameter.KEYWORD_ONLY for name in shared)
    assert all(f"        {name}: " in metric.compute.__doc__ for name in shared)
    with pytest.raises(TypeError, match=f"{metric.name}.. got an unexpected keyword .*'intervall'"):
        metric.compute(*draw(0), intervall=0.9)


# Factors that repeat.


def test_merge():
    factors = np.column_stack([np.repeat([0, 1, 2], 12), np.tile(np.arange(12), 3)])
    np.testing.assert_array_equal(merge(factors, {"factor 1": 4})[:, 1], np.tile([0, 1, 2, 3], 9))
    merged = merge(factors, {"turn": {"shape": [3, 6, 12]}}, ("shape", "turn"))
    for before, after in zip(factors, merged, strict=True):
        assert after[0] == before[0]
        assert after[1] == before[1] % (3, 6, 12)[before[0]]
    angles = np.linspace(0, 2 * np.pi, 5)[:, None]
    np.testing.assert_allclose(
        merge(angles, {"factor 0": 2 * np.pi})[:, 0], [0, np.pi / 2, np.pi, 3 * np.pi / 2, 0]
    )


@pytest.mark.parametrize(
    ("periods", "message"),
    [
        ({"turn": 0}, "positive periods of turn"),
        ({"turn": 2.5}, "whole periods of turn"),
        ({"spin": 3}, "periods to name factors among shape, turn"),
        ({"turn": {"size": [1]}}, "periods to name factors among shape, turn"),
        ({"turn": {"shape": [3]}}, "values of shape from 0 to 0, .* got 0 to 1"),
        ({"turn": {}}, "one factor that the period of turn depends on"),
    ],
)
def test_bad_periods(periods, message):
    factors = np.array([[0, 1], [1, 2]])
    with pytest.raises(ValueError, match=message):
        merge(factors, periods, ("shape", "turn"))
    with pytest.raises(ValueError, match=message):
        Table(np.eye(2), factors, factor_names=("shape", "turn"), periods=periods)


def test_a_code_of_the_visible_orientation_is_perfect_once_periods_are_given():
    """A square looks the same every 3 of the 12 steps of a turn: its code can have 3 values."""
    shape, turn = np.divmod(np.tile(np.arange(24), 20), 12)
    factors = np.column_stack([shape, turn])
    seen = np.where(shape == 0, turn % 3, turn)
    codes = np.column_stack([shape, seen]) * 1.0
    periods = {"turn": {"shape": [3, 12]}}
    names = ("shape", "turn")
    undeclared = mig(codes, factors, factor_names=names)
    declared = mig(codes, factors, factor_names=names, periods=periods)
    # Which steps occur depends on the shape, so the code of the turn knows the shape too.
    assert undeclared.matrix[1, 1] < 0.8
    assert declared.matrix[1, 1] == pytest.approx(1.0)
    assert 0.6 < float(declared) < 0.95
    best = mig(codes[:, ::-1], factors, factor_names=names, periods=periods, ceiling=True)
    assert best.details["ceiling"] == pytest.approx(float(declared), abs=1e-9)
    table = Table(codes, factors, factor_names=names, periods=periods)
    assert float(evaluate(table)["mig/locatello2019"]) == float(declared)
    np.testing.assert_array_equal(table.merged_factors[:, 1], seen)


@pytest.mark.parametrize("metric", [m for m in QUICK.values() if not m.slow], ids=lambda m: m.key)
def test_the_ceiling_of_a_table(metric):
    base = blurred()
    score = metric(base, ceiling=True)
    assert score.details["ceiling"] >= metric.perfect
    assert float(score) == float(metric(base))
    shape = base.factors[:, 0]
    merged = np.where(shape[:, None] == 0, base.factors // [1, 9, 9], base.factors)
    dependent = metric(Table(merged * 1.0, merged, scales=np.full((480, 3), 0.01)), ceiling=True)
    assert dependent.details["ceiling"] == pytest.approx(float(dependent), abs=0.1)


def test_periods_are_saved_with_the_table(tmp_path):
    table = Table(np.eye(4), np.arange(4)[:, None], factor_names=("turn",), periods={"turn": 3})
    table.save(tmp_path / "table.npz")
    again = Table.load(tmp_path / "table.npz")
    assert again.periods == {"turn": 3}
    assert again.merged_factors.tolist() == [[0], [1], [2], [0]]


# Tables of scores.


def some_scores():
    base = identity()
    return evaluate(base.codes, base.factors, metrics="mig", interval=0.9, resamples=5, null=True)


def test_scores_print_as_a_table():
    plain = evaluate(identity(), metrics="mig")
    assert str(plain).splitlines() == [
        "metric             value",
        "mig/locatello2019  1.0000",
        f"mig/chen2018       {float(plain['mig/chen2018']):.4f}",
    ]
    head, line = str(some_scores()).splitlines()
    assert head.split() == ["metric", "value", "interval", "null"]
    assert re.fullmatch(r"mig/locatello2019  1\.0000  0\.9\d+ to 1\.0000  0\.0\d+", line)
    assert str(Scores()) == "metric  value"


def test_scores_as_json_and_csv():
    scores = some_scores()
    again = Scores.from_json(json.loads(json.dumps(scores.to_json())))
    assert again.to_json() == scores.to_json()
    assert repr(again) == repr(scores)
    rows = list(csv.DictReader(io.StringIO(scores.to_csv())))
    assert [row["part"] for row in rows] == ["", "factor 0", "factor 1", "factor 2"]
    score = scores["mig/locatello2019"]
    assert float(rows[0]["value"]) == float(score)
    assert (float(rows[0]["low"]), float(rows[0]["high"])) == score.interval
    assert float(rows[0]["null"]) == score.null
    old = {key: value for key, value in score.to_json().items() if key not in ("interval", "null")}
    assert Score.from_json(old).interval is None


def test_arrays_or_a_table():
    base = identity()
    shifted = evaluate(base.codes, base.factors - 7, metrics="mig")
    assert float(shifted["mig/locatello2019"]) == pytest.approx(1.0)
    with pytest.raises(ValueError, match="got codes alone"):
        evaluate(base.codes)
    with pytest.raises(ValueError, match="got a table and factors"):
        evaluate(base, base.factors)
    assert set(evaluate(base.codes, np.zeros((480, 0)))) <= set(UNSUPERVISED)


# Continuous factors.


def test_a_continuous_factor_is_cut_into_bins():
    rng = np.random.default_rng(0)
    v = np.column_stack([rng.uniform(size=500), rng.integers(4, size=500)])
    z = np.column_stack([v[:, 0] + 0.1 * rng.standard_normal(500), v[:, 1]])
    low, high = v[:, 0].min(), v[:, 0].max()
    cut = np.minimum((v[:, 0] - low) / (high - low) * 20, 19).astype(int)
    manual = mig(z, np.column_stack([cut, v[:, 1].astype(int)]))
    assert mig(z, v).details["factors cut into bins"] == ["factor 0"]
    assert manual.details["factors cut into bins"] == []
    assert float(mig(z, v)) == pytest.approx(float(manual), abs=1e-9)
    table = Table(z, v, factor_names=("x", "shape"))
    assert repr(table) == "Table(500 rows, 2 codes, 2 factors: x of real numbers, shape 4)"
    assert "factor_vae_score/kim2018" not in evaluate(table)
    with pytest.raises(ValueError, match=r"classes, got real numbers that differ in factor 0"):
        factor_vae_score(z, v)
    assert float(factor_vae_score(z, v, leave_out=[0])) == 1.0


@pytest.mark.parametrize("metric", [m for m in QUICK.values() if not m.slow], ids=lambda m: m.key)
@pytest.mark.filterwarnings("ignore::unweave.metrics.FewRowsWarning")
def test_classes_may_have_any_values(metric):
    """Angles that repeat are classes as their numbers are, and none of 40 is lost to 20 bins."""
    rng = np.random.default_rng(0)
    v = np.column_stack([np.repeat(np.arange(40), 6), np.tile(np.arange(3), 80)])
    z = v / [12.0, 1.0] + 0.1 * rng.standard_normal(v.shape)
    angles = np.column_stack([np.linspace(0, 2 * np.pi, 40)[v[:, 0]], v[:, 1]])
    tables = [Table(z, factors, scales=np.full(z.shape, 0.1)) for factors in (v, angles)]
    numbered, angled = (metric(each) for each in tables)
    assert angled.parts == pytest.approx(numbered.parts, abs=1e-9)
    np.testing.assert_allclose(angled.matrix, numbered.matrix, atol=1e-9)
