"""Intervals of studies: how often they cover the truth, and how they are written."""

import math

import numpy as np
import pytest
from scipy import stats

from unweave.studies.intervals import (
    RESAMPLES,
    correlation_interval,
    difference_of_means,
    mean_over_networks,
    median_over_networks,
    resampled_interval,
)
from unweave.studies.workspace import Measured

rng = np.random.default_rng(0)


@pytest.mark.parametrize("count", [3, 10])
def test_intervals_of_means_are_those_of_scipy(count):
    one, two = rng.normal(1, 2, count), rng.normal(0, 1, count + 1)
    found = stats.ttest_1samp(one, 0).confidence_interval()
    assert mean_over_networks(one) == pytest.approx((one.mean(), found.low, found.high))
    found = stats.ttest_ind(one, two, equal_var=False).confidence_interval(0.99)
    gap = difference_of_means(one, two, 0.99)
    assert gap == pytest.approx((one.mean() - two.mean(), found.low, found.high))


@pytest.mark.parametrize("count", [6, 7, 10, 20, 41])
def test_the_interval_of_a_median_covers_it_as_often_as_coins_say(count):
    """Its bounds are as far inside as 95% allow, for any distribution."""
    place = int(median_over_networks(np.arange(float(count))).low)
    missed = 2 * stats.binom.cdf(place, count, 0.5)
    assert missed <= 0.05 < 2 * stats.binom.cdf(place + 1, count, 0.5)
    samples = rng.standard_cauchy((2_000, count))
    inside = [found.low <= 0 <= found.high for found in map(median_over_networks, samples)]
    assert np.mean(inside) == pytest.approx(1 - missed, abs=0.015)


def test_few_values_have_their_range_around_the_median():
    assert median_over_networks(np.array([3.0, 1.0, 2.0])) == Measured(2.0, 1.0, 3.0)


@pytest.mark.parametrize(("count", "coverage"), [(5, 0.93), (10, 0.95)])
def test_expanded_percentiles_cover_a_mean_as_often_as_they_should(count, coverage):
    """Plain ones cover the mean of five normal values in about 83% of cases."""
    inside = []
    for values in rng.normal(size=(600, count)):
        means = values[rng.integers(count, size=(RESAMPLES, count))].mean(1)
        found = resampled_interval(float(values.mean()), means, count)
        inside.append(found.low <= 0 <= found.high)
    assert np.mean(inside) == pytest.approx(coverage, abs=0.025)


def test_many_small_groups_have_the_interval_of_their_pooled_variance():
    """Groups of ten together have many degrees of freedom, so t is close to 2."""
    groups = np.repeat(np.arange(6), 10)
    values = rng.normal(groups, 1.0)
    variance = np.mean([values[groups == group].var(ddof=1) for group in range(6)])
    half = stats.t.ppf(0.975, 54) * np.sqrt(variance / 60)
    found = correlation_interval(groups, values, lambda _, some: (some.mean(),), groups)
    assert found.value == pytest.approx(values.mean())
    assert (found.high - found.low) / 2 == pytest.approx(half, rel=0.06)


def test_a_single_value_has_no_interval():
    nothing = np.array([np.nan])
    assert np.isnan(difference_of_means(np.ones(3), nothing)).all()
    assert np.isnan(resampled_interval(math.nan, nothing, 3)).all()
    assert mean_over_networks(np.array([2.0])).value == 2.0
    for single in (mean_over_networks(np.array([2.0])), resampled_interval(2.0, [2.0], 1)):
        assert np.isnan(single[1:]).all()
        assert str(single) == "2"


def test_correlations_are_resampled_within_groups():
    x, groups = np.arange(12.0), np.repeat([0, 1, 2], 4)
    found = correlation_interval(x, x, stats.spearmanr, groups)
    assert found == pytest.approx((1, 1, 1))
    noise = correlation_interval(x, rng.normal(size=12), stats.pearsonr)
    assert noise.low < noise.value < noise.high


@pytest.mark.parametrize(
    ("measured", "text"),
    [
        ((0.73283, 0.65, 0.8163), "0.733 [0.650, 0.816]"),
        ((33.79, 30.1, 37.49), "33.8 [30.1, 37.5]"),
        ((1040.2, 1010.3, 1070.1), "1,040 [1,010, 1,070]"),
        ((2.443e-05, -0.0001261, 0.0002077), "0.00002 [-0.00013, 0.00021]"),
        ((8.0, 7.99, 8.01), "8.000 [7.990, 8.010]"),
        ((-0.0161, -0.47, -0.00037), "-0.02 [-0.47, -0.0004]"),  # not -0.00
        ((0.1, 0.0, 0.2), "0.10 [0.00, 0.20]"),
        ((1.0, 1.0, 1.0), "1 [1, 1]"),
    ],
)
def test_a_number_has_as_many_digits_as_its_interval_supports(measured, text):
    assert str(Measured(*measured)) == text


def test_a_wide_interval_does_not_agree_with_a_stated_value():
    near, wide, far = Measured(0.8, 0.78, 0.83), Measured(0.8, 0.6, 1.0), Measured(0.5, 0.4, 0.6)
    assert near.within(0.82, 0.06)
    assert not wide.within(0.82, 0.06)
    assert not wide.beyond(0.82, 0.06)
    assert far.beyond(0.82, 0.06)
    assert not near.beyond(0.82, 0.06)
