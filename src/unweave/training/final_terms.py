"""The terms of the objective at the end of training."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

_SHARE = 0.05  # of the rows of a log
_LEAST_ROWS = 10


def final_terms(log: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """Return the mean of every term over the end of a log.

    One row covers few batches and is noisy. The end is the last 5% of the rows, at least ten of
    them, but never more than the later half: the first rows of a short log are not its end.

    >>> final_terms([{"step": 1, "rate": 9.0}, {"step": 2, "rate": 3.0}])
    {'rate': 3.0}
    """
    count = max(math.ceil(_SHARE * len(log)), min(_LEAST_ROWS, math.ceil(len(log) / 2)))
    end = log[len(log) - count :]
    names = [name for name in (log[-1] if log else {}) if name != "step"]
    return {name: _mean([float(row[name]) for row in end if name in row]) for name in names}


def _mean(values: Sequence[float]) -> float:
    try:
        return math.fsum(values) / len(values)
    except (OverflowError, ValueError):  # numbers near the largest, or infinities of both signs
        return sum(value / len(values) for value in values)
