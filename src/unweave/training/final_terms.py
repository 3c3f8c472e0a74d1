"""The terms of the objective and the measured values at the end of training."""

import math
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

T = TypeVar("T")

_SHARE = 0.05  # of the rows of a log
_LEAST_ROWS = 10
_LEAST_RATE = 0.05  # nats in all latent variables together
_LEAST_STEPS = 100  # a shorter run has not begun to use them


def end_of(log: Sequence[T]) -> Sequence[T]:
    """Return the rows at the end of a log: one covers few batches and is noisy.

    The end is the last 5% of the rows, at least ten of them, but never more than the later half:
    the first rows of a short log are not its end.
    """
    count = max(math.ceil(_SHARE * len(log)), min(_LEAST_ROWS, math.ceil(len(log) / 2)))
    return log[len(log) - count :]


def final_terms(log: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """Return the mean of every term over the end of a log.

    >>> final_terms([{"step": 1, "rate": 9.0}, {"step": 2, "rate": 3.0}])
    {'rate': 3.0}
    """
    return mean_terms(end_of(log))


def mean_terms(rows: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """Return the mean of every term of the last row over rows of a log."""
    names = [name for name in (rows[-1] if rows else {}) if name != "step"]
    return {name: _mean_of(name, rows) for name in names}


def final_values(
    log_end: Sequence[Mapping[str, Any]], measures: Sequence[Mapping[str, Any]]
) -> dict[str, float]:
    """Return the terms and the values measured last, under names that tell them apart.

    Terms are those of the objective, as it estimates them from batches: means over the end of a
    log. The others are named as in `measures.jsonl`: metrics, which include the exact total
    correlation, and the held-out loss.

    >>> log, measured = [{"step": 9, "total_correlation": -0.4}], {"total_correlation": 0.3}
    >>> final_values(log, [{"step": 9, "metrics": measured, "validation": {"rate": 2.0}}])
    {'terms/total_correlation': -0.4, 'metrics/total_correlation': 0.3, 'validation/rate': 2.0}
    """
    values = {f"terms/{name}": value for name, value in mean_terms(log_end).items()}
    measured: dict[str, float | None] = {}
    for row in measures:
        for kind in ("metrics", "validation"):
            measured |= {f"{kind}/{name}": value for name, value in row.get(kind, {}).items()}
    return values | {name: float(value) for name, value in measured.items() if value is not None}


def ends_collapsed(rows: Sequence[Mapping[str, Any]]) -> bool:
    """Whether all latent variables are off in the rows at the end of a log: the rate is about 0.

    >>> ends_collapsed([{"step": 100, "distortion": 12.0, "rate": 0.004}])
    True
    """
    long_enough = bool(rows) and rows[-1]["step"] >= _LEAST_STEPS
    return long_enough and "rate" in rows[-1] and _mean_of("rate", rows) < _LEAST_RATE


def _mean_of(name: str, rows: Sequence[Mapping[str, Any]]) -> float:
    return _mean([float(row[name]) for row in rows if name in row])


def _mean(values: Sequence[float]) -> float:
    try:
        return math.fsum(values) / len(values)
    except (OverflowError, ValueError):  # numbers near the largest, or infinities of both signs
        return sum(value / len(values) for value in values)
