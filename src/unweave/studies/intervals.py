"""Numbers with an interval: every function here builds one, and says what its bounds are.

A page says of each figure which of them its brackets are.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from scipy import stats

from unweave.studies.drawing import Values
from unweave.studies.workspace import Measured


def range_interval(values: Sequence[float] | Values) -> Measured:
    """The mean of a few values, from the least to the largest of them.

    >>> range_interval([1.0, 2.0, 6.0])
    Measured(value=3.0, low=1.0, high=6.0)
    """
    return Measured(float(np.mean(values)), float(np.min(values)), float(np.max(values)))


def redrawn(values: Values, of: Callable[..., Values] = np.mean) -> Measured:
    """The mean over seeds, or another statistic, with its 95% bootstrap interval.

    For ten skewed values the interval covers the true mean in fewer than 95% of cases.

    >>> redrawn(np.ones(5))
    Measured(value=1.0, low=1.0, high=1.0)
    >>> redrawn(np.array([1.0, 1.0, 1.0, 1.0, 9.0]), np.median).value
    1.0
    """
    drawn = np.random.default_rng(0).choice(values, (2000, len(values)))
    low, high = np.quantile(of(drawn, axis=1), (0.025, 0.975))
    return Measured(float(of(values)), float(low), float(high))


def two_sigma_interval(value: float, error: float) -> Measured:
    """A mean over draws, with two standard errors to either side.

    >>> two_sigma_interval(1.0, 0.25)
    Measured(value=1.0, low=0.5, high=1.5)
    """
    return Measured(float(value), float(value - 2 * error), float(value + 2 * error))


def student_mean(values: Sequence[float] | Values, level: float = 0.95) -> Measured:
    """The mean of a normal sample of unknown variance, with its t interval.

    The bounds of a single value are NaN.

    >>> str(student_mean([1.0, 2.0, 3.0]))
    '2 [-0.4841, 4.484]'
    """
    mean, squared = _mean_and_squared_error(values)
    return _student(mean, squared, len(values) - 1, level)


def student_difference(
    one: Sequence[float] | Values, two: Sequence[float] | Values, level: float = 0.95
) -> Measured:
    """The mean of one normal sample less that of another, with Welch's t interval.

    The bounds are NaN if a sample is a single value.

    >>> str(student_difference([2.0, 4.0], [1.0, 1.0]))
    '2 [-10.71, 14.71]'
    """
    (a, va), (b, vb) = _mean_and_squared_error(one), _mean_and_squared_error(two)
    if not va + vb > 0:
        return _student(a - b, va + vb, 1, level)
    freedom = (va + vb) ** 2 / (va**2 / (len(one) - 1) + vb**2 / (len(two) - 1))
    return _student(a - b, va + vb, freedom, level)


def _mean_and_squared_error(values: Sequence[float] | Values) -> tuple[float, float]:
    array = np.asarray(values, dtype=np.float64)
    variance = array.var(ddof=1) if len(array) > 1 else np.nan
    return float(array.mean()), float(variance) / len(array)


def _student(value: float, squared: float, freedom: float, level: float) -> Measured:
    half = float(stats.t.ppf((1 + level) / 2, freedom)) * squared**0.5
    return Measured(value, value - half, value + half)


def difference(ours: Values, theirs: Values) -> Measured:
    """The difference of two means over seeds, with its 95% bootstrap interval.

    >>> difference(np.ones(5), np.zeros(5))
    Measured(value=1.0, low=1.0, high=1.0)
    """
    rng = np.random.default_rng(0)
    one, two = (rng.choice(values, (2000, len(values))).mean(1) for values in (ours, theirs))
    low, high = np.quantile(one - two, (0.025, 0.975))
    return Measured(float(np.mean(ours) - np.mean(theirs)), float(low), float(high))


def correlation(
    a: Values, b: Values, of: Callable[..., Any], groups: Values | None = None
) -> Measured:
    """A correlation of pairs, as scipy gives it, with its 95% bootstrap interval.

    With groups, such as the settings of an experiment, pairs are drawn within each group.
    """
    rng = np.random.default_rng(0)
    parts = [np.arange(len(a))] if groups is None else [
        np.flatnonzero(groups == group) for group in np.unique(groups)
    ]  # fmt: skip
    drawn = [np.concatenate([rng.choice(part, len(part)) for part in parts]) for _ in range(1000)]
    found = [float(of(a[rows], b[rows])[0]) for rows in drawn]
    low, high = np.nanquantile(found, (0.025, 0.975))
    return Measured(float(of(a, b)[0]), float(low), float(high))
