"""Laws that every registered metric obeys under every protocol.

A metric is tested by being registered. Slow metrics run with fewer pairs, votes, labels and rounds
of boosting (`lattice_tables.QUICK`). The scores of a table are computed once.
"""

import inspect
import json
import math
from dataclasses import replace
from functools import cache
from types import MappingProxyType

import numpy as np
import pytest

from lattice_tables import (
    QUICK,
    TABLES,
    blurred,
    few_fits,
    identity,
    lattice,
    noise,
    rotated,
    table,
    with_columns,
)
from unweave.metrics import METRICS, UNSUPERVISED, FewRowsWarning, Score, Table


@pytest.fixture(autouse=True, scope="module")
def fewer_fits():
    with few_fits(10):
        yield


def over(members):
    """Parametrise over metrics."""
    return pytest.mark.parametrize("metric", members.values(), ids=members)


metrics = over(QUICK)


@cache
def scored(metric, make):
    """The score of a table that a function without arguments makes; inputs stay unchanged."""
    base = make()
    before = base.codes.copy(), base.factors.copy(), base.scales.copy()
    score = metric(base)
    for old, new in zip(before, (base.codes, base.factors, base.scales), strict=True):
        np.testing.assert_array_equal(old, new)
    return score


def change(one, two):
    """The largest difference of two scores, in value or in any part; parts in any order."""
    assert len(one.parts) == len(two.parts)
    apart = np.sort(list(one.parts.values())) - np.sort(list(two.parts.values()))
    return max(abs(float(one) - float(two)), *np.abs(apart))


@metrics
def test_one_code_for_each_factor_scores_top(metric):
    perfect = float(scored(metric, identity))
    assert metric.perfect <= perfect <= 1
    for make in TABLES:
        assert float(scored(metric, make)) <= perfect + 0.01


@metrics
@pytest.mark.parametrize("make", TABLES, ids=lambda make: make.__name__)
def test_values_are_in_the_unit_interval_and_all_else_is_finite(metric, make):
    score = scored(metric, make)
    assert 0 <= float(score) <= 1
    assert score.parts
    assert np.isfinite(list(score.parts.values())).all()
    if score.matrix is not None:
        assert score.matrix.shape == (make().codes.shape[1], 3)
        assert np.isfinite(score.matrix).all()


@metrics
def test_noise_scores_its_null(metric):
    score = metric(noise(), null=True, shuffles=2)
    assert float(score) == pytest.approx(score.null, abs=5 * score.details["null std"] + 0.05)
    assert float(score) < float(scored(metric, identity)) - 0.1


def constant():
    return table(np.full((480, 3), 0.1), scales=np.ones((480, 3)))


@metrics
def test_constant_codes_score_no_more_than_noise(metric):
    assert 0 <= float(metric(constant())) <= float(scored(metric, noise)) + 0.03


# Further changes of a table are in `test_metrics_invariance`.


def identity_and_dead():
    return with_columns(identity(), np.full((480, 2), 0.1), np.ones((480, 2)))


def blurred_and_dead():
    return with_columns(blurred(), np.full((480, 2), 0.1), np.ones((480, 2)))


# Parts that are defined by the number of all codes, dead or not: entropy in base D, and K / D.
OF_ALL_CODES = {"completeness", "size"}


@metrics
def test_dead_codes_do_not_matter(metric):
    makes = [(identity, identity_and_dead), (blurred, blurred_and_dead)]
    pairs = [(scored(metric, make), scored(metric, dead)) for make, dead in makes]
    same = all(float(one) == pytest.approx(float(two), abs=1e-9) for one, two in pairs)
    assert same != ("dead" in metric.sensitive_to)
    for one, two in pairs if same else []:
        assert set(one.parts) == set(two.parts)
        for name in set(one.parts) - OF_ALL_CODES:
            # InfoE is fitted by iterations, which are not run to their end.
            assert one.parts[name] == pytest.approx(two.parts[name], abs=1e-4)


@over({key: metric for key, metric in QUICK.items() if metric.name in ("dci", "dci_es")})
def test_dead_codes_raise_completeness_and_lower_size(metric):
    before, after = scored(metric, blurred).parts, scored(metric, blurred_and_dead).parts
    assert "completeness" in before
    for name in OF_ALL_CODES & set(before):
        assert (after[name] > before[name]) == (name == "completeness")
        assert abs(after[name] - before[name]) > 0.1


@metrics
def test_same_seed_same_number(metric):
    again = metric(blurred(), seed=np.random.default_rng(0))
    assert again.to_json() == scored(metric, blurred).to_json()


@metrics
def test_a_factor_with_one_value_is_left_out(metric):
    base = identity()
    factors = np.column_stack([base.factors, np.zeros(len(base), int)])
    wider = replace(base, factors=factors, factor_names=("a", "b", "c", "d"), factor_sizes=())
    score = metric(wider)
    assert change(score, scored(metric, identity)) < 1e-9
    assert score.details["factors left out"] == ["d"]
    assert "d" not in score.parts
    if score.matrix is not None:
        assert not score.matrix[:, 3].any()


@metrics
def test_values_equal_modulo_the_period_are_merged(metric):
    base = blurred()
    turns = np.random.default_rng(0).integers(3, size=len(base))
    factors = base.factors.copy()
    factors[:, 2] += 6 * turns
    repeated = replace(base, factors=factors, factor_sizes=(), periods={"x": 6})
    assert float(metric(repeated)) == float(scored(metric, blurred))


@metrics
def test_interval_holds_the_value(metric):
    score = metric(rotated(), interval=0.9, resamples=2)
    low, high = score.interval
    assert 0 <= low <= float(score) <= high <= 1
    assert float(score) == float(scored(metric, rotated))


# Degenerate input.


def rare(place):
    """A class with a single row, on one side of the split of seed 0."""

    def make():
        factors = lattice(repeats=4)
        factors[np.random.default_rng(0).permutation(480)[place], 0] = 4
        return table(identity().codes, factors)

    return make


def duplicates():
    """The same row but for two."""
    factors = np.zeros((12, 2), int)
    factors[:2] = [[1, 0], [0, 1]]
    return Table(factors * 1.0, factors, scales=np.ones((12, 2)))


def few(rows):
    def make():
        rng = np.random.default_rng(0)
        codes = rng.standard_normal((rows, 5))
        return Table(codes, np.arange(rows)[:, None] // [1, 2], scales=np.ones((rows, 5)))

    return make


def wide_numbers():
    base = identity()
    return replace(
        base, codes=base.codes * [1e-12, 1e12, 1.0], scales=base.scales * [1e-12, 1e12, 1]
    )


def one_factor():
    base = identity()
    return Table(base.codes, base.factors[:, :1], scales=base.scales)


def with_codes(count):
    def make():
        base = identity()
        return replace(base, codes=base.codes[:, :count], scales=base.scales[:, :count])

    return make


def one_value():
    base = identity()
    return Table(base.codes, base.factors * [1, 0, 1], scales=base.scales)


def continuous():
    rng = np.random.default_rng(0)
    factors = rng.uniform(size=(200, 3))
    return Table(factors + 0.1 * rng.standard_normal((200, 3)), factors, scales=np.ones((200, 3)))


ODD = {
    "a class missing from the test": rare(0),
    "a class missing from training": rare(-1),
    "constant codes": constant,
    "a factor with one value": one_value,
    "more factors than codes": with_codes(2),
    "equal rows": duplicates,
    "2 rows": few(2),
    "3 rows": few(3),
    "7 rows": few(7),
    "tiny and huge numbers": wide_numbers,
    "one factor": one_factor,
    "one code": with_codes(1),
    "continuous factors": continuous,
}


EVERY = QUICK | UNSUPERVISED
every = over(EVERY)


def call(metric, codes, factors, **columns):
    """Call a metric with those arguments that it has parameters for."""
    given = {"codes": codes, "factors": factors, "protocol": metric.protocol, **columns}
    given |= {"samples": 500, "kl": np.ones(np.shape(codes)[1])}
    own = inspect.signature(metric.compute).parameters
    return metric.compute(**{name: value for name, value in given.items() if name in own})


@every
@pytest.mark.parametrize("make", ODD.values(), ids=ODD)
@pytest.mark.filterwarnings("ignore::unweave.metrics.FewRowsWarning")
def test_odd_tables_have_a_defined_value_or_a_clear_error(metric, make):
    base = replace(make(), kl=np.ones(make().codes.shape[1]))
    if metric.unmet(base):
        with pytest.raises(ValueError, match=r"expected .* got "):
            call(metric, base.codes, base.factors, scales=base.scales)
        return
    score = call(metric, base.codes, base.factors, scales=base.scales)
    assert 0 <= float(score) <= (1 if metric.key in METRICS else math.inf)
    assert np.isfinite(list(score.parts.values())).all()
    assert score.matrix is None or np.isfinite(score.matrix).all()


@every
@pytest.mark.parametrize(
    ("codes", "message"),
    [(np.full((8, 2), np.nan), "finite codes"), (np.zeros((8, 0)), "D >= 1")],
)
def test_bad_codes_are_refused(metric, codes, message):
    with pytest.raises(ValueError, match=message):
        call(metric, codes, np.arange(8)[:, None], scales=np.ones((8, 2)))


@metrics
@pytest.mark.parametrize(
    ("factors", "message"),
    [
        (np.full((8, 2), np.nan), "finite factors"),
        (np.arange(7)[:, None], "as many rows"),
        (np.ones((8, 2), int), "at least two values"),
    ],
)
def test_bad_factors_are_refused(metric, factors, message):
    with pytest.raises(ValueError, match=message):
        call(metric, np.zeros((8, 2)), factors, scales=np.ones((8, 2)))


@over({key: EVERY[key] for key in ("mig/chen2018", "relative_scale/mathieu2019")})
def test_scales_that_do_not_fit_are_refused(metric):
    base = identity()
    for scales in (np.ones((480, 2)), np.full((480, 3), np.nan), np.zeros((480, 3))):
        with pytest.raises(ValueError, match=r"expected .*scales"):
            call(metric, base.codes, base.factors, scales=scales)


@over({key: metric for key, metric in QUICK.items() if metric.unmet(few(3)()) is None})
def test_three_rows_issue_one_warning(metric):
    with pytest.warns(
        FewRowsWarning, match="3 rows are too few: for 5 codes there should be at least 50"
    ) as warned:
        metric(few(3)())
    assert len(warned) == 1


# Factors that are numbers.


def angles(jitter=0.0):
    """A factor of 12 angles, which repeat but for a jitter, and one of 3 classes."""
    rng = np.random.default_rng(0)
    v = np.column_stack([np.repeat(np.arange(12) * 0.7, 20), np.tile(np.arange(3), 80)])
    z = v + 0.3 * rng.standard_normal(v.shape)
    v[:, 0] += jitter * rng.uniform(size=240)
    return Table(z, v, scales=np.full(z.shape, 0.1), factor_names=("angle", "shape"))


@metrics
def test_a_factor_chosen_as_continuous_counts_as_one_without_repeats(metric):
    named = replace(angles(), continuous=["angle"])
    assert metric.unmet(named) == metric.unmet(angles(1e-9))
    if metric.unmet(named):
        with pytest.raises(ValueError, match="real numbers that differ in angle"):
            metric(named)
        why = metric.unmet(replace(angles(1e-9), continuous=[]))  # 240 classes then
        assert why is None or "more than 200 classes" in why
    else:
        score = metric(named)
        assert score.parts == pytest.approx(metric(angles(1e-9)).parts, abs=0.005)
        assert metric(angles(), continuous=[0]).to_json() == score.to_json()


@metrics
def test_an_unknown_protocol_is_refused(metric):
    with pytest.raises(ValueError, match=r"protocol: 'nobody1900' is not known: "):
        metric.compute(identity().codes, identity().factors, protocol="nobody1900")


# Documentation and storage.


@metrics
def test_docstring_has_all_sections_and_cites_the_protocol(metric):
    text = inspect.getdoc(metric.compute)
    assert f"[{metric.protocol.capitalize()}]" in text
    for part in ("Protocols:", "Args:", "Returns:", ">>> "):
        assert part in text
    assert f"`{metric.protocol}`" in text


@metrics
def test_score_survives_json(metric):
    score = scored(metric, identity)
    again = Score.from_json(json.loads(json.dumps(score.to_json())))
    assert again.to_json() == score.to_json()
    assert repr(again) == repr(score)
    assert metric.key in repr(score)
    assert (score.name, score.protocol) == (metric.name, metric.protocol)


def test_json_of_a_score_is_a_copy_of_plain_dicts():
    """Changing the dicts must not change the score."""
    score = Score("own", "", 1.0, parts=MappingProxyType({"a": 1.0}), details={"b": 2})
    content = score.to_json()
    assert json.loads(json.dumps(content))["parts"] == {"a": 1.0}
    content["details"]["b"] = content["parts"]["a"] = 3
    assert (score.parts["a"], score.details["b"]) == (1.0, 2)
