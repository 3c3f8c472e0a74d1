"""Numbers with an interval: every function here builds one, and says what its bounds are.

A page says of each figure which of them its brackets are.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from unweave.papers.drawing import Values
from unweave.papers.form import Measured


def ranged(values: Sequence[float] | Values) -> Measured:
    """The mean of a few values, from the least to the largest of them.

    >>> ranged([1.0, 2.0, 6.0])
    Measured(value=3.0, low=1.0, high=6.0)
    """
    return Measured(float(np.mean(values)), float(np.min(values)), float(np.max(values)))


def redrawn(values: Values) -> Measured:
    """The mean over seeds, with the interval that 95% of the means of redrawn seeds lie in.

    Of ten skewed values it holds the mean of all seeds in fewer cases than 95%.

    >>> redrawn(np.ones(5))
    Measured(value=1.0, low=1.0, high=1.0)
    """
    drawn = np.random.default_rng(0).choice(values, (2000, len(values)))
    low, high = np.quantile(drawn.mean(1), (0.025, 0.975))
    return Measured(float(values.mean()), float(low), float(high))


def give_or_take(value: float, error: float) -> Measured:
    """A mean over draws, with two standard errors to either side.

    >>> give_or_take(1.0, 0.25)
    Measured(value=1.0, low=0.5, high=1.5)
    """
    return Measured(float(value), float(value - 2 * error), float(value + 2 * error))
