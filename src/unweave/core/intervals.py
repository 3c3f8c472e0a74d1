"""Student's t intervals of means over a few independent values, such as scores of several seeds.

With three to five seeds a percentile bootstrap is far too narrow: its 95% interval of a mean covers
the true mean of three normal values in about 75% of cases, Student's in 95%.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np


class Estimate(NamedTuple):
    """A mean or a difference of means with its interval, which is None for a single value."""

    value: float
    low: float | None
    high: float | None


def mean_interval(values: Sequence[float], level: float = 0.95) -> Estimate:
    """Return the mean of independent values, with Student's t interval if there are two or more.

    >>> mean_interval([1.0, 2.0, 3.0]).low, mean_interval([1.0])
    (-0.4841377..., Estimate(value=1.0, low=None, high=None))
    """
    mean, count = float(np.mean(values)), len(values)
    if count < 2:
        return Estimate(mean, None, None)
    return _interval(mean, float(np.var(values, ddof=1)) / count, count - 1, level)


def welch_interval(ours: Sequence[float], theirs: Sequence[float], level: float = 0.95) -> Estimate:
    """Return the difference of two means with Welch's interval, if each has two values or more.

    >>> welch_interval([1.0, 1.0], [0.0, 0.0])
    Estimate(value=1.0, low=1.0, high=1.0)
    """
    difference = float(np.mean(ours) - np.mean(theirs))
    if min(len(ours), len(theirs)) < 2:
        return Estimate(difference, None, None)
    errors = [float(np.var(each, ddof=1)) / len(each) for each in (ours, theirs)]
    weights = [e**2 / (len(v) - 1) for e, v in zip(errors, (ours, theirs), strict=True)]
    freedom = sum(errors) ** 2 / sum(weights) if sum(weights) else 1.0
    return _interval(difference, sum(errors), freedom, level)


def _interval(value: float, variance: float, freedom: float, level: float) -> Estimate:
    from scipy.stats import t

    half = float(t.ppf((1 + level) / 2, freedom)) * math.sqrt(variance)
    return Estimate(value, value - half, value + half)
