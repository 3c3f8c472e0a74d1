"""Laws that every metric keeps under every protocol, and each piece against its formula."""

import json
import logging
import math
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import norm

from unweave.metrics import (
    METRICS,
    Score,
    Table,
    evaluate,
    factor_vae_score,
    left_out,
    mig,
    mutual_information_matrix,
)
from unweave.metrics.information import (
    _mixture_information,
    discretise,
    entropy,
    mixture_density,
    mutual_information,
    top_gap,
)
from unweave.metrics.inputs import read
from unweave.metrics.interventional import (
    _combinations_missing,
    _right,
    fixed_factor_rows,
    group_rows,
    spread,
)

SIZES = (4, 5, 6)
metrics = pytest.mark.parametrize("metric", METRICS.values(), ids=METRICS)
functions = pytest.mark.parametrize("function", [factor_vae_score, mig])


def lattice(sizes=SIZES, repeats=1):
    """All combinations of factor values, each `repeats` times: (N, K)."""
    return np.tile(np.argwhere(np.ones(sizes)), (repeats, 1))


def standardised(values):
    return (values - values.mean(0)) / values.std(0)


def table(codes, factors=None, **columns):
    """A table over the lattice whose posteriors are narrow enough to tell the values apart."""
    factors = lattice(repeats=4) if factors is None else factors
    columns = {"scales": np.full(np.shape(codes), 0.05)} | columns
    return Table(
        codes, factors, factor_names=("shape", "scale", "x")[: factors.shape[1]], **columns
    )


def identity():
    """One code for each factor."""
    return table(standardised(lattice(repeats=4)))


def rotated():
    """The identity with its first two codes turned by 45 degrees."""
    turn = np.eye(3)
    turn[:2, :2] = np.array([[1, -1], [1, 1]]) / math.sqrt(2)
    return replace(identity(), codes=identity().codes @ turn)


def blurred():
    """The rotation with noise, which leaves no exact ties: a score in between."""
    rng = np.random.default_rng(7)
    codes = rotated().codes
    return replace(rotated(), codes=codes + 0.3 * rng.standard_normal(codes.shape))


def with_columns(base, codes, scales):
    return replace(
        base,
        codes=np.column_stack([base.codes, codes]),
        scales=np.column_stack([base.scales, scales]),
    )


# Laws of every metric under every protocol.


@metrics
def test_identity_scores_top(metric):
    rows = len(identity())
    dead = with_columns(identity(), np.zeros((rows, 2)), np.ones((rows, 2)))
    for perfect in (identity(), dead):
        score = metric(perfect)
        assert float(score) > 0.99
        assert set(score.parts) == {"shape", "scale", "x"}
        assert min(score.parts.values()) > 0.99


@metrics
def test_constant_codes_score_zero(metric):
    rows = len(identity())
    score = metric(table(np.full((rows, 3), 0.1), scales=np.ones((rows, 3))))
    assert float(score) == 0.0
    assert set(score.parts.values()) == {0.0}


@metrics
def test_noise_scores_low(metric):
    rng = np.random.default_rng(0)
    score = metric(table(rng.standard_normal((len(identity()), 6))))
    # The score of votes has chance 1/K as its floor; gaps have 0.
    assert float(score) < (0.5 if "chance" in score.details else 0.1)


@metrics
def test_rotation_scores_lower(metric):
    assert float(metric(rotated())) < float(metric(identity())) - 0.2


@metrics
@pytest.mark.parametrize("base", [identity, blurred])
def test_order_sign_and_scale_of_codes_do_not_matter(metric, base):
    base = base()
    order, sign, scale = [2, 0, 1], np.array([-1, 1, -1]), np.array([3.0, 1.0, 7.0])
    expected = float(metric(base))
    permuted = replace(base, codes=base.codes[:, order], scales=base.scales[:, order])
    scaled = replace(base, codes=base.codes * scale, scales=base.scales * scale)
    flipped = replace(base, codes=base.codes * sign)
    assert float(metric(permuted)) == pytest.approx(expected, abs=1e-9)
    assert float(metric(scaled)) == pytest.approx(expected, abs=1e-9)
    # A flipped code meets other noise, and its numbers on the edge of a bin fall to the other side.
    assert float(metric(flipped)) == pytest.approx(expected, abs=0.02)


@metrics
@pytest.mark.parametrize("base", [identity, rotated, blurred])
def test_value_is_in_the_unit_interval_and_is_made_of_its_parts(metric, base):
    score = metric(base())
    values = [float(score), *score.parts.values()]
    assert all(0 <= value <= 1 for value in values)
    assert min(score.parts.values()) <= float(score) <= max(score.parts.values())
    assert score.matrix.shape == (3, 3)
    assert np.isfinite(score.matrix).all()


@metrics
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


@metrics
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
    assert score.matrix.shape == (3, 4)
    assert not score.matrix[:, 3].any()


@metrics
def test_more_factors_than_codes(metric):
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


# Bad input.


@functions
@pytest.mark.parametrize(
    ("codes", "factors", "message"),
    [
        (np.array([[0.0, np.nan], [1.0, 0.0]]), [[0], [1]], r"finite codes.*columns \[1\]"),
        (np.array([[0.0, np.inf], [1.0, 0.0]]), [[0], [1]], "finite codes"),
        (np.zeros((3, 2)), [[0], [1]], "as many rows"),
        (np.zeros((1, 2)), [[0]], "N >= 2 rows"),
        (np.zeros(4), [[0]] * 4, r"shape \(N, D\)"),
        (np.zeros((4, 0)), [[0]] * 4, r"shape \(N, D\)"),
        (np.array([["a"], ["b"]]), [[0], [1]], "real numbers"),
        (np.zeros((2, 2)), [0, 1], r"shape \(N, K\)"),
        (np.zeros((2, 2)), np.zeros((2, 0), int), "K >= 1"),
        (np.zeros((2, 2)), [[0.5], [1.0]], "integers"),
        (np.zeros((2, 2)), [[1], [1]], "at least two values"),
    ],
)
def test_bad_arrays(function, codes, factors, message):
    with pytest.raises(ValueError, match=message):
        function(codes, factors)


@functions
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"protocol": "kim2019"}, "protocol to be one of .* got 'kim2019'"),
        ({"discrete": [True]}, "discrete as 3 booleans"),
        ({"factor_names": ["a"]}, "3 different factor names"),
        ({"factor_names": ["a", "a", "b"]}, "3 different factor names"),
        ({"leave_out": ["size"]}, "leave_out to name factors"),
        ({"leave_out": [0, 1, 2]}, "not left out"),
    ],
)
def test_bad_options(function, options, message):
    base = identity()
    with pytest.raises(ValueError, match=message):
        function(base.codes, base.factors, **options)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"kl": [1.0]}, r"kl of shape \(3,\)"),
        ({"kl": [1.0, np.nan, 1.0]}, "finite kl"),
        ({"batch": 1}, "at least 2 rows"),
        ({"votes": 0}, "at least 1 vote"),
    ],
)
def test_bad_options_of_factor_vae_score(options, message):
    with pytest.raises(ValueError, match=message):
        factor_vae_score(identity().codes, identity().factors, **options)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"protocol": "chen2018"}, "expected scales .* locatello2019"),
        ({"protocol": "chen2018", "scales": np.ones((2, 3))}, "scales of the shape"),
        ({"protocol": "chen2018", "scales": np.zeros((480, 3))}, "positive scales"),
        ({"protocol": "chen2018", "scales": np.ones((480, 3)), "samples": 0}, "1 sample"),
        ({"samples": 1}, "at least 2 rows"),
        ({"bins": 1}, "at least 2 bins"),
    ],
)
def test_bad_options_of_mig(options, message):
    with pytest.raises(ValueError, match=message):
        mig(identity().codes, identity().factors, **options)


def test_values_that_never_repeat_cannot_be_fixed():
    with pytest.raises(ValueError, match="at least two rows"):
        factor_vae_score(np.eye(4), np.arange(4)[:, None])
    assert float(mig(np.arange(4.0)[:, None], np.arange(4)[:, None])) == 1.0


# The pieces, against plain loops over their formulas.


def test_entropy_and_mutual_information():
    rng = np.random.default_rng(0)
    a = rng.integers(4, size=300)
    b = (a + rng.integers(2, size=300)) % 5
    n, joint, pa, pb = len(a), Counter(zip(a, b, strict=True)), Counter(a), Counter(b)
    expected = sum(c / n * math.log(c * n / (pa[i] * pb[j])) for (i, j), c in joint.items())
    assert mutual_information(a, b) == pytest.approx(expected, rel=1e-12)
    assert mutual_information(a, b) == pytest.approx(mutual_information(b, a), rel=1e-12)
    assert entropy(a) == pytest.approx(-sum(c / n * math.log(c / n) for c in pa.values()))
    assert mutual_information(a, a) == pytest.approx(entropy(a), rel=1e-12)
    assert mutual_information(a, np.zeros_like(a)) == 0.0


def test_discretise_is_numpy_histogram():
    code = np.random.default_rng(1).standard_normal(500)
    counts, edges = np.histogram(code, 20)
    bins = discretise(code, 20)
    np.testing.assert_array_equal(np.bincount(bins, minlength=20), counts)
    for number, which in zip(code, bins, strict=True):
        assert edges[which] <= number <= edges[which + 1]
    assert set(discretise(np.full(5, 2.5), 20)) == {10}


def test_mig_locatello_by_loops():
    base = blurred()
    gaps = []
    for k in range(3):
        shared = []
        for j in range(3):
            low, high = base.codes[:, j].min(), base.codes[:, j].max()
            bins = [min(int((z - low) / (high - low) * 20), 19) for z in base.codes[:, j]]
            pairs = Counter(zip(bins, base.factors[:, k].tolist(), strict=True))
            n, values = len(bins), Counter(base.factors[:, k].tolist())
            total = Counter(bins)
            shared.append(
                sum(c / n * math.log(c * n / (total[b] * values[v])) for (b, v), c in pairs.items())
            )
        first, second = sorted(shared)[:-3:-1]
        gaps.append((first - second) / math.log(SIZES[k]))
    score = mig(base.codes, base.factors, protocol="locatello2019")
    assert float(score) == pytest.approx(sum(gaps) / 3, abs=1e-9)
    assert list(score.parts.values()) == pytest.approx(gaps, abs=1e-9)
    np.testing.assert_allclose(mutual_information_matrix(base.codes, base.factors), score.matrix)


def test_top_gap():
    matrix = np.array([[0.1, 0.5, 0.0], [0.7, 0.5, 0.0], [0.3, 0.2, 0.4]])
    np.testing.assert_allclose(top_gap(matrix), [0.4, 0.0, 0.4])
    np.testing.assert_allclose(top_gap(matrix[:1]), [0.1, 0.5, 0.0])


def test_matrix_is_codes_by_factors():
    # disentangling-vae reads the transpose, and its MIG is near 0 for every model (YD#64).
    factors = lattice((3, 7), repeats=5)
    score = mutual_information_matrix(factors[:, [1, 0, 1]] * 1.0, factors)
    np.testing.assert_allclose(score, [[0, 1], [1, 0], [0, 1]], atol=1e-12)


def test_single_valued_factor_has_a_column_of_zeros():
    factors = np.column_stack([lattice((5,), repeats=3), np.ones(15, int)])
    np.testing.assert_allclose(mutual_information_matrix(factors * 1.0, factors), [[1, 0], [0, 0]])


@pytest.mark.parametrize("discrete", [False, True])
def test_spread_by_loops(discrete):
    values = np.random.default_rng(0).integers(4, size=(5, 12)).astype(float)
    for row, got in zip(values, spread(values, discrete), strict=True):
        size = len(row)
        total = sum(float(a != b) if discrete else (a - b) ** 2 for a in row for b in row)
        assert got == pytest.approx(total / (2 * size * (size - 1)), rel=1e-12)


def test_equal_values_have_no_spread_at_all():
    assert spread(np.full((1, 100), 0.1), False)[0] == 0.0
    assert spread(np.full((1, 100), 3.0), True)[0] == 0.0


def test_majority_vote_by_loops():
    rng = np.random.default_rng(0)
    train, test = rng.integers(20, size=(2, 6, 4))
    right = [0, 0, 0, 0]
    for j in range(6):
        best = max(range(4), key=lambda k: train[j, k])
        right[best] += test[j, best]
    np.testing.assert_array_equal(_right(test, train), right)


def test_rows_of_a_vote_share_the_factor():
    factors = np.random.default_rng(0).integers(5, size=(60, 3))
    factors[0, 0] = 9  # occurs once, so it is never fixed
    dense = read(np.ones((60, 1)), factors).factors
    groups = {k: group_rows(dense[:, k]) for k in (0, 2)}
    chosen, rows = fixed_factor_rows(groups, 2000, 7, np.random.default_rng(1))
    assert set(chosen) == {0, 2}
    assert (chosen == 0).mean() == pytest.approx(0.5, abs=0.05)
    for k, vote in zip(chosen, rows, strict=True):
        assert len(set(factors[vote, k])) == 1
    assert 9 not in factors[rows[chosen == 0], 0]
    # Values come as often as they occur, and rows of one value equally often.
    drawn = np.bincount(rows[chosen == 2].ravel(), minlength=60) / rows[chosen == 2].size
    np.testing.assert_allclose(drawn, 1 / 60, atol=0.006)


def test_combinations_missing():
    factors = lattice((3, 4, 5))
    assert _combinations_missing(read(np.ones((60, 1)), factors), [0, 1, 2]) == 0
    assert _combinations_missing(read(np.ones((53, 1)), factors[7:]), [0, 1, 2]) == 7


def factor_vae_by_drawing_factors(codes, sizes, batch, votes, rng):
    """The original definition: fix a factor, draw the others uniformly, encode, vote."""
    scale = codes.reshape(-1, codes.shape[-1]).std(0)
    tally = np.zeros((codes.shape[-1], len(sizes)), int)
    for _ in range(votes):
        k = rng.integers(len(sizes))
        drawn = [rng.integers(size, size=batch) for size in sizes]
        drawn[k][:] = drawn[k][0]
        normalised = codes[tuple(drawn)] / scale
        tally[normalised.var(0).argmin(), k] += 1
    return sum(max(row) for row in tally) / votes


@pytest.mark.parametrize("base", [rotated, blurred])
@pytest.mark.parametrize("protocol", ["kim2018", "locatello2019"])
def test_factor_vae_score_on_a_full_lattice_is_the_original_definition(base, protocol):
    codes = base().codes[: math.prod(SIZES)]
    expected = factor_vae_by_drawing_factors(
        codes.reshape(*SIZES, -1), SIZES, 20, 3000, np.random.default_rng(0)
    )
    score = factor_vae_score(codes, lattice(), protocol=protocol, batch=20, votes=3000)
    assert 0.4 < expected < 0.99
    assert float(score) == pytest.approx(expected, abs=0.04)
    assert score.details["combinations missing"] == 0


def test_factor_vae_score_counts_all_votes():
    score = factor_vae_score(blurred().codes, blurred().factors)
    assert score.matrix.sum() == 800
    assert float(score) == score.matrix.max(1).sum() / 800 == score.details["training accuracy"]
    locatello = factor_vae_score(blurred().codes, blurred().factors, protocol="locatello2019")
    assert locatello.matrix.sum() == 10_000
    assert float(locatello) != locatello.details["training accuracy"]


@pytest.mark.parametrize("protocol", ["kim2018", "locatello2019"])
def test_factor_vae_score_needs_all_factors(protocol):
    # The failure of the score of [Higgins2017]: K - 1 codes give a perfect classifier of K factors.
    base = identity()
    score = factor_vae_score(base.codes[:, :2], base.factors, protocol=protocol)
    assert float(score) == pytest.approx(2 / 3, abs=0.05)


def test_pruning():
    base = with_columns(identity(), identity().codes[:, [0]] * 0.01, np.ones(480))
    # The tiny copy of code 0 wins no vote if it is pruned, and ties with code 0 if it is not.
    by_std = factor_vae_score(base.codes, base.factors)
    assert by_std.details["active"] == 3
    assert by_std.details["pruned"] == [3]
    by_kl = factor_vae_score(base.codes, base.factors, kl=[0.001, 2.0, 2.0, 0.5])
    assert by_kl.details["pruned"] == [0]
    assert by_kl.details["pruned by"] == "kl < 0.01"
    assert by_kl.matrix[0].sum() == 0
    assert by_kl.matrix[3].sum() > 0
    unread = factor_vae_score(base.codes, base.factors, kl=np.zeros(4), protocol="locatello2019")
    assert unread.details["active"] == 3
    none = factor_vae_score(base.codes, base.factors, kl=np.zeros(4))
    assert float(none) == 0.0
    assert none.details["active"] == 0
    assert "0 by definition" in none.details["note"]


def test_constant_code_is_pruned_whatever_its_kl():
    base = with_columns(identity(), np.full(480, 0.1), np.ones(480))
    score = factor_vae_score(base.codes, base.factors, kl=[5.0] * 4)
    assert score.details["pruned"] == [3]
    assert float(score) == 1.0


@pytest.mark.parametrize("function", [factor_vae_score, mig])
def test_discrete_codes_are_categories(function):
    base = identity()
    label = np.array([40.0, 7.0, -3.0, 12.0, 5.0])[base.factors[:, 1]]
    shuffled = np.array([0.01, 0.02, 0.0, 0.03, 0.04])[base.factors[:, 1]]
    for column in (label, shuffled):
        codes = np.column_stack([base.codes[:, 0], column, base.codes[:, 2]])
        score = function(codes, base.factors, discrete=[False, True, False])
        assert float(score) == pytest.approx(1.0, abs=1e-9)


def test_discrete_codes_under_chen():
    base = identity()
    score = mig(
        base.codes,
        base.factors,
        protocol="chen2018",
        scales=np.full((480, 3), 50.0),
        discrete=[True, True, False],
    )
    assert list(score.parts.values())[:2] == pytest.approx([1.0, 1.0])
    assert score.parts["factor 2"] < 0.01


def test_leave_out():
    base = blurred()
    names = base.factor_names
    everything = mig(base.codes, base.factors, factor_names=names)
    rest = mig(base.codes, base.factors, factor_names=names, leave_out=["shape"])
    assert float(rest) == pytest.approx((everything.parts["scale"] + everything.parts["x"]) / 2)
    assert rest.details["factors left out"] == ["shape"]
    votes = factor_vae_score(base.codes, base.factors, leave_out=[0])
    assert votes.matrix[:, 0].sum() == 0
    assert votes.details["chance"] == 0.5


def test_votes_in_chunks_are_votes(monkeypatch):
    base = blurred()
    at_once = factor_vae_score(base.codes, base.factors)
    monkeypatch.setattr("unweave.metrics.interventional._CHUNK", 1000)
    assert float(factor_vae_score(base.codes, base.factors)) == pytest.approx(
        float(at_once), abs=0.05
    )


# Mixtures, against scipy.


def a_mixture(rows=30):
    rng = np.random.default_rng(5)
    factors = np.column_stack([np.arange(rows) % 2, np.arange(rows) % 3])
    means = factors[:, 0] * 1.5 + 0.5 * rng.standard_normal(rows)
    return means, rng.uniform(0.1, 0.8, rows), factors


def test_mixture_density(monkeypatch):
    mean, scale, _ = a_mixture()
    z = np.linspace(-3, 4, 101)
    expected = norm.pdf(z[:, None], mean, scale).mean(1)
    np.testing.assert_allclose(mixture_density(z, mean, scale), expected, rtol=1e-12)
    monkeypatch.setattr("unweave.metrics.information._CHUNK", 70)
    np.testing.assert_allclose(mixture_density(z, mean, scale), expected, rtol=1e-12)


def quadrature_entropy(mean, scale):
    def integrand(z):
        q = norm.pdf(z, mean, scale).mean()
        return -q * math.log(q) if q > 0 else 0.0

    return quad(integrand, -8, 10, limit=400)[0]


def test_mixture_information_is_the_integral():
    mean, scale, factors = a_mixture()
    expected = []
    for k, size in enumerate((2, 3)):
        groups = [factors[:, k] == value for value in range(size)]
        given = sum(g.mean() * quadrature_entropy(mean[g], scale[g]) for g in groups)
        expected.append(quadrature_entropy(mean, scale) - given)
    rows = np.tile(np.arange(30), 2000)
    z = mean[rows] + scale[rows] * np.random.default_rng(0).standard_normal(len(rows))
    got = _mixture_information(z, rows, mean, scale, factors)
    np.testing.assert_allclose(got, expected, atol=0.005)
    score = mig(mean[:, None], factors, protocol="chen2018", scales=scale[:, None], samples=60_000)
    np.testing.assert_allclose(score.matrix[0], expected / np.log([2, 3]), atol=0.01)


def test_narrow_posteriors_tell_all_that_the_table_can():
    # Every draw names its row, so I(z; v) = H(v); float32 would lose such scales to rounding.
    codes = np.linspace(100, 101, 60)[:, None]
    score = mig(codes, lattice((3, 4, 5)), protocol="chen2018", scales=np.full((60, 1), 1e-9))
    np.testing.assert_allclose(score.matrix, 1.0, atol=1e-3)


def test_wide_posteriors_tell_nothing():
    codes = identity().codes
    score = mig(codes, identity().factors, protocol="chen2018", scales=np.full((480, 3), 100.0))
    assert score.matrix.max() < 0.01


# Tables and the registry.


def test_table_round_trip(tmp_path):
    base = replace(
        identity(),
        codes=identity().codes.astype(np.float32),
        kl=np.arange(3.0),
        discrete=np.array([False, True, False]),
        factor_sizes=(4, 5, 9),
    )
    base.save(tmp_path / "table.npz")
    again = Table.load(tmp_path / "table.npz")
    assert [p.name for p in tmp_path.iterdir()] == ["table.npz"]
    assert again.codes.dtype == np.float32
    for name in ("codes", "factors", "scales", "kl", "discrete"):
        np.testing.assert_array_equal(getattr(again, name), getattr(base, name))
    assert again.factor_names == base.factor_names
    assert again.factor_sizes == (4, 5, 9)
    assert repr(again) == repr(base)
    bare = Table(np.eye(3), np.zeros((3, 0)))
    bare.save(tmp_path / "bare.npz")
    assert Table.load(tmp_path / "bare.npz").scales is None
    assert Table.load(tmp_path / "bare.npz").factor_names == ()


def test_failed_save_leaves_the_old_table(tmp_path, monkeypatch):
    path = tmp_path / "table.npz"
    identity().save(path)
    before = path.read_bytes()

    def fail(file, **arrays):
        file.write(b"half")
        raise OSError("disk full")

    monkeypatch.setattr(np, "savez", fail)
    with pytest.raises(OSError, match="disk full"):
        rotated().save(path)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def test_table_that_is_none(tmp_path):
    np.savez(tmp_path / "other.npz", images=np.zeros(3))
    with pytest.raises(ValueError, match="expected codes and factors"):
        Table.load(tmp_path / "other.npz")
    np.savez(tmp_path / "objects.npz", codes=np.array([object()]))
    with pytest.raises(ValueError, match="allow_pickle"):
        Table.load(tmp_path / "objects.npz")


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"codes": np.full((4, 2), np.nan)}, "finite codes"),
        ({"factors": [[0, 1]] * 3}, "as many rows"),
        ({"factors": [[0, -1]] * 4}, "numbered from 0"),
        ({"scales": np.zeros((4, 2))}, "positive scales"),
        ({"scales": np.ones((4, 3))}, "scales of the shape"),
        ({"kl": np.ones(3)}, r"kl of shape \(2,\)"),
        ({"discrete": [0, 1]}, "2 booleans"),
        ({"factor_names": ("a", "a")}, "2 different factor names"),
        ({"factor_sizes": (2,)}, "2 factor sizes"),
        ({"factor_sizes": (1, 1)}, "below its size 1, got 1"),
    ],
)
def test_bad_tables(columns, message):
    good = {"codes": np.ones((4, 2)), "factors": [[0, 1]] * 4}
    with pytest.raises(ValueError, match=message):
        Table(**(good | columns))


def test_evaluate_runs_what_the_table_does_for(caplog):
    full = identity()
    assert list(evaluate(full)) == list(METRICS)
    assert left_out(full) == {}
    bare = Table(full.codes, full.factors)
    with caplog.at_level(logging.INFO):
        scores = evaluate(bare)
    assert "mig/chen2018" not in scores
    assert "mig/chen2018 is left out: the table has no posterior scales" in caplog.text
    assert left_out(bare) == {"mig/chen2018": "the table has no posterior scales"}
    assert list(evaluate(bare, "mig")) == ["mig/locatello2019"]
    direct = mig(full.codes, full.factors, protocol="locatello2019")
    assert float(scores["mig/locatello2019"]) == float(direct)


def test_evaluate_passes_the_columns_of_the_table():
    collapsed = replace(identity(), kl=np.zeros(3))
    score = evaluate(collapsed, ["factor_vae_score/kim2018"])["factor_vae_score/kim2018"]
    assert float(score) == 0.0
    assert set(score.parts) == {"shape", "scale", "x"}


@pytest.mark.parametrize(
    ("factors", "reason"),
    [
        (np.zeros((4, 0), int), "the table has no factors"),
        (np.ones((4, 2), int), "no factor of the table takes two values"),
    ],
)
def test_tables_without_factors(factors, reason):
    unlabelled = Table(np.eye(4), factors)
    assert evaluate(unlabelled) == {}
    assert set(left_out(unlabelled).values()) == {reason}


def test_table_whose_values_never_repeat():
    unique = Table(np.eye(4), np.arange(4)[:, None])
    assert list(evaluate(unique)) == ["mig/locatello2019"]
    assert "two rows share" in left_out(unique)["factor_vae_score/kim2018"]


def test_metrics_asked_for_must_be_possible():
    bare = Table(identity().codes, identity().factors)
    with pytest.raises(ValueError, match=r"does for mig/chen2018, but .* no posterior scales"):
        evaluate(bare, ["mig/chen2018"])
    with pytest.raises(ValueError, match=r"metrics among factor_vae_score/kim2018.* got 'MIG'"):
        evaluate(bare, ["MIG"])


def test_gaussian_mixtures_are_only_made_of_normal_posteriors():
    codes, factors = np.random.default_rng(0).normal(size=(20, 3)), np.arange(20)[:, None] % 4
    whole = dict(codes=codes, factors=factors, scales=np.ones((20, 3)))
    assert left_out(Table(**whole)) == {}
    for column in ("discrete", "normal"):
        mask = np.array([False, True, column == "discrete"])
        kept = mask if column == "normal" else ~mask
        table = Table(**whole, **{column: mask})
        others = ", ".join(f"code {j}" for j in np.flatnonzero(~kept))
        assert left_out(table) == {"mig/chen2018": f"q(z|x) is not normal in {others}"}
    both = Table(
        **whole, discrete=np.array([True, False, False]), normal=np.array([False, True, True])
    )
    assert left_out(both) == {"mig/chen2018": "q(z|x) is not normal in code 0"}
    with pytest.raises(ValueError, match="expected normal as 3 booleans"):
        Table(**whole, normal=np.ones(3))
