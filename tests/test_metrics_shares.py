"""The share of each factor that each code explains, and what chance explains."""

import numpy as np
import pytest
from scipy.stats import rankdata

from unweave.metrics import mutual_information_matrix, shares
from unweave.metrics.inputs import read
from unweave.metrics.shares import factor_shares


def normal(rng, rows, codes=6):
    return rng.standard_normal((rows, codes))


def times_above_chance(rows, tables):
    """Count 20 continuous and 20 discrete independent factors that are above chance."""
    rng, above = np.random.default_rng(0), np.zeros(40)
    for seed in range(tables):
        factors = rng.random((rows, 40))
        factors[:, 20:] = np.floor(3 * factors[:, 20:])
        found = factor_shares(normal(rng, rows), factors, continuous=list(range(20)), seed=seed)
        above += found.above_chance.any(0)
    return above[:20].sum(), above[20:].sum()


def test_an_independent_factor_is_above_chance_in_one_of_a_hundred_tables():
    # 240 trials each at 1%: more than 8 have a probability of 0.1%.
    assert max(times_above_chance(192, tables=12)) <= 8


def test_with_four_shuffles_an_independent_factor_is_above_chance_in_one_of_five_tables(
    monkeypatch,
):
    monkeypatch.setattr(shares, "SHUFFLES", 4)
    # 500 trials each at 20%, with a standard deviation of 1.8%.
    assert np.divide(times_above_chance(60, tables=25), 500) == pytest.approx(0.2, abs=0.05)


def test_information_of_all_codes_and_factors_at_once_is_that_of_each_pair():
    rng, rows = np.random.default_rng(7), 500
    codes = np.stack([rng.standard_normal(rows), rng.integers(0, 30, rows)], 1)
    sign = (codes[:, 0] + 0.3 * rng.standard_normal(rows) > 0).astype(int)
    factors = np.stack([sign, rng.integers(0, 40, rows), codes[:, 1] // 4, 0 * sign], 1)
    inputs = read(codes, factors, discrete=[False, True])
    orders = np.stack([np.arange(rows), rng.permutation(rows)], 1)
    for order, found in zip(orders.T, shares._entropy_shares(inputs, orders), strict=True):
        expected = mutual_information_matrix(codes, factors[order], discrete=[False, True])
        np.testing.assert_allclose(found, expected, atol=1e-12)


def test_a_correlation_of_065_among_192_rows_is_always_above_chance():
    rng = np.random.default_rng(1)
    for seed in range(20):
        codes = normal(rng, 192, 10)
        factor = 0.65 * codes[:, 3] + np.sqrt(1 - 0.65**2) * rng.standard_normal(192)
        found = factor_shares(codes, factor[:, None], continuous=[0], seed=seed)
        assert found.above_chance[3, 0]
        assert found.values.argmax() == 3


@pytest.mark.parametrize("folded", ["code", "factor"])
def test_dependence_that_is_not_monotone_is_above_chance_in_both_directions(folded):
    rng = np.random.default_rng(2)
    for seed in range(10):
        codes, factor = normal(rng, 192, 10), rng.standard_normal(192)
        noise = 0.3 * rng.standard_normal(192)
        if folded == "code":
            codes[:, 0] = np.abs(factor) + noise
        else:
            factor = np.abs(codes[:, 0]) + noise
        found = factor_shares(codes, factor[:, None], continuous=[0], seed=seed)
        assert found.above_chance[0, 0]


def test_a_continuous_factor_can_beat_a_discrete_one_of_which_less_is_explained():
    rng, rows = np.random.default_rng(3), 192
    codes = normal(rng, rows)
    y = -0.8 * codes[:, 0] + 0.6 * rng.standard_normal(rows)
    stain = codes[:, 0] + 1.3 * rng.standard_normal(rows) > 0
    found = factor_shares(codes, np.stack([y, stain], 1), continuous=[0])
    assert found.above_chance[0].all()
    assert found.values[0, 0] > 1.5 * found.values[0, 1]


def test_shares_are_squared_rank_correlations_and_information_without_that_of_chance():
    rng, rows = np.random.default_rng(4), 20_000
    codes = normal(rng, rows, 2)
    linear = codes[:, 0] + rng.standard_normal(rows)
    sign = codes[:, 1] > 0
    factors = np.stack([linear, sign], 1)
    found = factor_shares(codes, factors, continuous=[0]).values
    squared = np.corrcoef(rankdata(codes[:, 0]), rankdata(linear))[0, 1] ** 2
    assert found[0, 0] == pytest.approx(squared, abs=0.01)
    information = mutual_information_matrix(codes, factors, continuous=[0])
    assert found[1, 1] == pytest.approx(information[1, 1], abs=0.001)


def test_a_copy_is_explained_and_many_values_in_few_rows_are_not_evidence():
    z = np.arange(30.0)[:, None]
    factors = np.stack([z[:, 0] // 15, np.arange(30), 7 - z[:, 0]], 1)
    found = factor_shares(z, factors, continuous=[2])
    assert found.values[0] == pytest.approx([1.0, 0.0, 0.9], abs=0.1)
    assert found.above_chance[0].tolist() == [True, False, True]


def test_classes_of_a_code_have_no_order():
    rng = np.random.default_rng(5)
    classes = rng.integers(0, 3, 300)
    factor = np.array([0.0, 1.0, 0.1])[classes] + 0.1 * rng.standard_normal(300)
    found = factor_shares(classes[:, None], factor[:, None], discrete=[True], continuous=[0])
    renamed = np.array([1, 0, 2])[classes][:, None]
    same = factor_shares(renamed, factor[:, None], discrete=[True], continuous=[0])
    assert found.above_chance.all()
    np.testing.assert_allclose(found.values, same.values)
