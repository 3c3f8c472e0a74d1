"""Checks of a metric."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from unweave.core.noise import seeded
from unweave.metrics import Score
from unweave.testing.laws import require


@seeded()
def check_metric(metric: Callable[..., float | Score], *, codes: int = 4) -> None:
    """Check a metric of (codes, factors).

    The metric returns a finite number, the same for the same seed; it does not depend on the order
    of observations or of latent variables; codes that copy the factors score above codes that are
    independent of them; and rows that do not match, and NaN, raise a ValueError.

    Args:
        metric: a function decorated with `unweave.metrics.metric`, or any function of two arrays.
        codes: number of latent variables to test it with; the first three copy the factors.
    """
    if codes < 1:
        raise ValueError(f"codes: expected at least 1, got {codes}")
    try:
        inspect.signature(metric).bind(0, 0)
    except TypeError:
        raise AssertionError(
            f"expected a function of codes and factors, got {metric.__name__}"
            f"{inspect.signature(metric)}: decorate it with @unweave.metrics.metric"
        ) from None
    random = np.random.default_rng(0)
    factors = random.integers(0, 4, (1_000, 3))
    copied = random.normal(size=(1_000, codes))
    copied[:, :3] = factors[:, :codes] + 0.01 * copied[:, :3]
    value = _value(metric, copied, factors)
    require(math.isfinite(value), f"expected a finite score, got {value}")
    again = _value(metric, copied, factors)
    require(value == again, f"expected the same score of the same table, got {value} and {again}")
    rows, columns = random.permutation(1_000), random.permutation(copied.shape[1])
    for name, other in (
        ("observations", _value(metric, copied[rows], factors[rows])),
        ("latent variables", _value(metric, copied[:, columns], factors)),
    ):
        require(
            abs(value - other) < 0.05,
            (f"the score must not depend on the order of {name}: got {value} and {other}"),
        )
    noise = _value(metric, random.normal(size=copied.shape), factors)
    require(value > noise, f"codes that copy the factors score {value}, noise scores {noise}")
    for name, bad in (("rows that do not match", copied[:-1]), ("NaN", copied * np.nan)):
        try:
            came = _value(metric, bad, factors)
        except ValueError:
            continue
        raise AssertionError(f"expected a ValueError for {name}, got the score {came}")


def _value(metric: Callable[..., float | Score], codes: Any, factors: Any) -> float:
    score = metric(codes, factors)
    return float(score.value if isinstance(score, Score) else score)
