"""Intervals around measured numbers.

One method for each kind of number, used by all figures:

- a statistic over networks that differ in their seed (a mean, a median, a difference of means, a
  correlation): the 95% percentile bootstrap over networks. It needs no assumption on the
  distribution, which is skewed or bimodal for most scores, but covers the true value in fewer than
  95% of cases for few networks: with three it is their range.
- a mean over many independent draws: two standard errors to either side (`two_sigma_interval`);
- a few values that are all shown: their range (`range_interval`).
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from unweave.studies.drawing import Values
from unweave.studies.workspace import Measured

RESAMPLES = 2_000


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


def percentile_interval(value: float, resampled: Any, level: float = 0.95) -> Measured:
    """Return a value with the middle `level` of its bootstrap distribution, ignoring NaN."""
    if np.isnan(value):
        return Measured(*[float("nan")] * 3)
    low, high = np.nanquantile(resampled, ((1 - level) / 2, (1 + level) / 2))
    return Measured(float(value), float(low), float(high))


def bootstrap_interval(values: Values, statistic: Callable[..., Values] = np.mean) -> Measured:
    """Return the mean over networks, or another statistic, with its 95% bootstrap interval.

    >>> bootstrap_interval(np.ones(5))
    Measured(value=1.0, low=1.0, high=1.0)
    >>> bootstrap_interval(np.array([1.0, 1.0, 1.0, 1.0, 9.0]), np.median).value
    1.0
    """
    samples = np.random.default_rng(0).choice(values, (RESAMPLES, len(values)))
    return percentile_interval(float(statistic(values)), statistic(samples, axis=1))


def bootstrap_difference(ours: Values, theirs: Values, level: float = 0.95) -> Measured:
    """Return the difference of two means over networks, with its bootstrap interval.

    >>> bootstrap_difference(np.ones(5), np.zeros(5))
    Measured(value=1.0, low=1.0, high=1.0)
    """
    rng = np.random.default_rng(0)
    one, two = (rng.choice(values, (RESAMPLES, len(values))).mean(1) for values in (ours, theirs))
    return percentile_interval(float(np.mean(ours) - np.mean(theirs)), one - two, level)


def correlation_interval(
    a: Values, b: Values, correlation: Callable[..., Any], groups: Values | None = None
) -> Measured:
    """Return a correlation, computed by a function of scipy, with its 95% bootstrap interval.

    With groups, such as the settings of an experiment, pairs are resampled within each group.
    """
    rng = np.random.default_rng(0)
    parts = [np.arange(len(a))] if groups is None else [
        np.flatnonzero(groups == group) for group in np.unique(groups)
    ]  # fmt: skip
    resampled = []
    for _ in range(1_000):
        rows = np.concatenate([rng.choice(part, len(part)) for part in parts])
        resampled.append(float(correlation(a[rows], b[rows])[0]))
    return percentile_interval(float(correlation(a, b)[0]), resampled)
