"""Laws that every metric keeps under every protocol."""

import json
from dataclasses import replace

import numpy as np
import pytest

from lattice_tables import blurred, identity, rotated, table, with_columns
from unweave.metrics import METRICS, Score

metrics = pytest.mark.parametrize("metric", METRICS.values(), ids=METRICS)

# Metrics whose parts are not those of the factors, with laws of their own in their tests.
WHOLE = ("dci", "irs", "downstream")
# Metrics of what all codes tell together: a rotation of the codes tells as much.
PROBES = ("explicitness", "downstream")
# Their steps are those of other metrics, and take long.
HEAVY = ("downstream/locatello2019", "factor_vae_score/mathieu2019")
light = pytest.mark.parametrize(
    "metric",
    [metric for key, metric in METRICS.items() if key not in HEAVY],
    ids=[key for key in METRICS if key not in HEAVY],
)
apart = pytest.mark.parametrize(
    "metric",
    [metric for metric in METRICS.values() if metric.name not in PROBES],
    ids=[key for key, metric in METRICS.items() if metric.name not in PROBES],
)
# Linear classifiers do not tell apart values in the middle of a range, and penalise large slopes.
LINEAR = ("sap/locatello2019",)
# Linear classifiers of the factor that pairs share: told by exclusion, and with penalties.
PAIRS = ("beta_vae_score/kim2018", "beta_vae_score/locatello2019")
by_factor = pytest.mark.parametrize(
    "metric",
    [metric for metric in METRICS.values() if metric.name not in WHOLE + PROBES],
    ids=[key for key, metric in METRICS.items() if metric.name not in WHOLE + PROBES],
)


@apart
def test_identity_scores_top(metric):
    if metric.key in LINEAR:
        pytest.skip("no table scores 1")
    rows = len(identity())
    dead = with_columns(identity(), np.zeros((rows, 2)), np.ones((rows, 2)))
    for perfect in (identity(), dead):
        score = metric(perfect)
        assert float(score) > 0.99
        assert min(score.parts.values()) > 0.97  # a penalty keeps a predictor from 1
        assert metric.name in WHOLE or set(score.parts) == {"shape", "scale", "x"}


@apart
def test_constant_codes_score_zero(metric):
    rows = len(identity())
    score = metric(table(np.full((rows, 3), 0.1), scales=np.ones((rows, 3))))
    assert float(score) == 0.0
    assert metric.name in WHOLE or set(score.parts.values()) == {0.0}


@by_factor
def test_noise_scores_low(metric):
    rng = np.random.default_rng(0)
    score = metric(table(rng.standard_normal((len(identity()), 6))))
    # The score of votes has chance 1/K as its floor; gaps have 0.
    assert float(score) < (0.5 if "chance" in score.details else 0.1)


@apart
def test_rotation_scores_lower(metric):
    assert float(metric(rotated())) < float(metric(identity())) - (
        0.1 if metric.key in LINEAR else 0.2
    )


@light
@pytest.mark.parametrize("base", [identity, blurred])
def test_order_sign_and_scale_of_codes_do_not_matter(metric, base):
    base = base()
    order, sign, scale = [2, 0, 1], np.array([-1, 1, -1]), np.array([3.0, 1.0, 7.0])
    expected = float(metric(base))
    permuted = replace(base, codes=base.codes[:, order], scales=base.scales[:, order])
    scaled = replace(base, codes=base.codes * scale, scales=base.scales * scale)
    flipped = replace(base, codes=base.codes * sign)
    assert float(metric(permuted)) == pytest.approx(expected, abs=1e-9)
    if metric.name != "irs":  # which weighs codes by how far they stray
        near = 0.1 if metric.key in LINEAR + PAIRS else 1e-9
        assert float(metric(scaled)) == pytest.approx(expected, abs=near)
    # A flipped code meets other noise, and its numbers on the edge of a bin fall to the other side.
    assert float(metric(flipped)) == pytest.approx(expected, abs=0.02)


@metrics
@pytest.mark.parametrize("base", [identity, rotated, blurred])
def test_value_is_in_the_unit_interval_and_is_made_of_its_parts(metric, base):
    score = metric(base())
    values = [float(score), *score.parts.values()]
    assert all(0 <= value <= 1 for value in values)
    assert min(score.parts.values()) <= float(score) <= max(score.parts.values())
    if metric.name not in PROBES:
        assert score.matrix.shape == (3, 3)
        assert np.isfinite(score.matrix).all()


@light
@pytest.mark.parametrize("base", [identity, blurred])
def test_dead_codes_do_not_matter(metric, base):
    base = base()
    rng = np.random.default_rng(1)
    rows = len(base)
    constant = with_columns(base, np.zeros((rows, 3)), np.ones((rows, 3)))
    assert float(metric(constant)) == float(metric(base))
    nearly = with_columns(base, 0.01 * rng.standard_normal((rows, 3)), np.ones((rows, 3)))
    # 20 bins over the range of tiny noise find some information in 480 rows; see `mig`.
    assert float(metric(nearly)) == pytest.approx(float(metric(base)), abs=0.07)


@light
def test_same_rng_same_number_and_another_rng_a_near_one(metric):
    base = blurred()
    assert float(metric(base, rng=3)) == float(metric(base, rng=3))
    assert float(metric(base, rng=np.random.default_rng(3))) == float(metric(base, rng=3))
    assert float(metric(base, rng=4)) == pytest.approx(float(metric(base, rng=3)), abs=0.04)


@metrics
def test_a_factor_with_one_value_is_left_out(metric):
    base = identity()
    factors = np.column_stack([base.factors, np.zeros(len(base), int)])
    wider = replace(base, factors=factors, factor_names=("a", "b", "c", "d"), factor_sizes=())
    score = metric(wider)
    assert float(score) == float(metric(base))
    assert score.details["factors left out"] == ["d"]
    assert "d" not in score.parts
    if metric.name not in PROBES:
        assert score.matrix.shape == (3, 4)
        assert not score.matrix[:, 3].any()


@by_factor
def test_more_factors_than_codes(metric):
    if metric.key in LINEAR + PAIRS:
        pytest.skip("chance is not taken away")
    base = identity()
    score = metric(replace(base, codes=base.codes[:, :1], scales=base.scales[:, :1]))
    # One code can tell one factor; under votes it is the factor that was fixed most often.
    assert sorted(score.parts.values()) == pytest.approx([0, 0, 1], abs=0.05)
    assert float(score) == pytest.approx(1 / 3, abs=0.05)


@metrics
def test_inputs_are_not_changed(metric):
    base = blurred()
    before = base.codes.copy(), base.factors.copy(), base.scales.copy()
    metric(base)
    for old, new in zip(before, (base.codes, base.factors, base.scales), strict=True):
        np.testing.assert_array_equal(old, new)


@metrics
def test_numbers_of_the_factor_values_do_not_matter(metric):
    base = blurred()
    renamed = base.factors * 7 + 3
    again = replace(base, factors=renamed, factor_sizes=())
    assert float(metric(again)) == pytest.approx(float(metric(base)), abs=1e-12)


@metrics
def test_docstring_cites_its_protocol(metric):
    assert f"[{metric.protocol.capitalize()}]" in metric.compute.__doc__


@metrics
def test_score_survives_json(metric):
    score = metric(identity())
    again = Score.from_json(json.loads(json.dumps(score.to_json())))
    assert again.to_json() == score.to_json()
    assert repr(again) == repr(score)
    assert metric.key in repr(score)
