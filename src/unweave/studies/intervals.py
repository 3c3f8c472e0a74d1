"""Intervals around measured numbers.

One method for each kind of number, used by all figures:

- a mean over networks that differ in their seed, or a difference of means: Student's t interval, or
  Welch's (`core/intervals.py`), as `unweave compare` has them;
- a median over networks: the interval between two of the sorted values, which needs no assumption;
- another statistic over networks, such as a correlation: the percentile bootstrap, expanded for few
  networks [Hesterberg2015];
- a mean over many independent draws: two standard errors to either side (`two_sigma_interval`);
- a few values that are all shown: their range (`range_interval`).
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from unweave.core.intervals import Estimate, mean_interval, welch_interval
from unweave.studies.drawing import Values
from unweave.studies.workspace import Measured

RESAMPLES = 2_000
_NAN = float("nan")


def range_interval(values: Sequence[float] | Values) -> Measured:
    """Return the mean of a few values, with their smallest and largest.

    >>> range_interval([1.0, 2.0, 6.0])
    Measured(value=3.0, low=1.0, high=6.0)
    """
    return Measured(float(np.mean(values)), float(np.min(values)), float(np.max(values)))


def two_sigma_interval(value: float, error: float) -> Measured:
    """Return a mean over draws, with two standard errors to either side.

    >>> two_sigma_interval(1.0, 0.25)
    Measured(value=1.0, low=0.5, high=1.5)
    """
    return Measured(float(value), float(value - 2 * error), float(value + 2 * error))


def mean_over_networks(values: Values) -> Measured:
    """Return the mean with Student's 95% interval, which is NaN for a single value.

    >>> mean_over_networks(np.ones(5))
    Measured(value=1.0, low=1.0, high=1.0)
    """
    return _measured(mean_interval(values.tolist()))


def difference_of_means(ours: Values, theirs: Values, level: float = 0.95) -> Measured:
    """Return the difference of two means over networks, with Welch's interval.

    >>> difference_of_means(np.ones(5), np.zeros(5))
    Measured(value=1.0, low=1.0, high=1.0)
    """
    return _measured(welch_interval(ours.tolist(), theirs.tolist(), level))


def median_over_networks(values: Values) -> Measured:
    """Return the median with the narrowest interval of two sorted values that covers it in 95%.

    The k-th smallest and largest of n values have the median between them with a probability of
    1 - 2 P(B < k), where B is the number of heads of n coins. With fewer than six values no two are
    enough, and the interval is their range.

    >>> median_over_networks(np.arange(10.0))
    Measured(value=4.5, low=1.0, high=8.0)
    """
    from scipy.stats import binom

    ordered, count = np.sort(values), len(values)
    place = max(0, int(binom.ppf(0.025, count, 0.5)) - 1)  # from 0
    return Measured(float(np.median(values)), float(ordered[place]), float(ordered[-1 - place]))


def resampled_interval(
    value: float, resampled: Any, count: int, level: float = 0.95, freedom: int | None = None
) -> Measured:
    """Return a value with its expanded percentile interval, ignoring NaN.

    A percentile interval of a mean of n values is too narrow by the factor sqrt((n - 1) / n) z / t,
    with the quantiles z of the normal and t of Student's distribution. Here the percentiles are
    further out by as much. [Hesterberg2015]

    Args:
        value: the statistic of all networks.
        resampled: the statistic of bootstrap samples.
        count: networks in the smallest group that is resampled.
        level: the share of repetitions in which the interval should cover the true value.
        freedom: degrees of freedom of the statistic's variance. The default, count - 1, is right
            for a single group, and a safe choice for several.
    """
    from scipy.stats import norm, t

    if np.isnan(value) or count < 2:
        return Measured(float(value), _NAN, _NAN)
    quantile = t.ppf((1 - level) / 2, freedom or count - 1)
    share = norm.cdf(np.sqrt(count / (count - 1)) * quantile)
    low, high = np.nanquantile(resampled, (share, 1 - share))
    return Measured(float(value), float(low), float(high))


def correlation_interval(
    a: Values, b: Values, correlation: Callable[..., Any], groups: Values | None = None
) -> Measured:
    """Return a correlation, computed by a function of scipy, with its 95% bootstrap interval.

    With groups, such as the settings of an experiment, pairs are resampled within each group: each
    variance is too small by the size of its group, and all of them have many degrees of freedom.
    """
    rng = np.random.default_rng(0)
    parts = [np.arange(len(a))] if groups is None else [
        np.flatnonzero(groups == group) for group in np.unique(groups)
    ]  # fmt: skip
    resampled = []
    for _ in range(1_000):
        rows = np.concatenate([rng.choice(part, len(part)) for part in parts])
        resampled.append(float(correlation(a[rows], b[rows])[0]))
    return resampled_interval(float(correlation(a, b)[0]), resampled, min(map(len, parts)),
                              freedom=len(a) - len(parts))  # fmt: skip


def _measured(estimate: Estimate) -> Measured:
    value, *bounds = estimate
    return Measured(value, *(_NAN if bound is None else bound for bound in bounds))
