"""Checks of a metric."""

import contextlib
import inspect
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from unweave.core.noise import seeded
from unweave.metrics import Score
from unweave.testing.laws import require

_ROWS = 1_000
_FEW_ROWS = 400  # where only a change counts
_FACTORS = 3
_DEAD = 0.5  # the value of a dead code


@seeded()
def check_metric(metric: Callable[..., float | Score], *, codes: int = 4) -> None:
    """Check a metric of (codes, factors).

    The metric returns a finite number, the same for the same seed, also if some codes are dead (the
    same for all observations); it depends on every code and every factor, but not on the order of
    observations, even if many are equal, nor on that of latent variables; codes that copy the
    factors score above codes that are independent of them; and rows that do not match, and NaN,
    raise a ValueError.

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
    factors = random.integers(0, 4, (_ROWS, _FACTORS))
    copied = random.normal(size=(_ROWS, codes))
    copied[:, :_FACTORS] = factors[:, :codes] + 0.01 * copied[:, :_FACTORS]
    value = _value(metric, copied, factors)
    require(math.isfinite(value), f"expected a finite score, got {value}")
    again = _value(metric, copied, factors)
    require(value == again, f"expected the same score of the same table, got {value} and {again}")
    rows, columns = random.permutation(_ROWS), random.permutation(codes)
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
        raise AssertionError(
            f"expected a ValueError for {name}, got the score {came}: decorate the metric with "
            "@unweave.metrics.metric, which checks codes and factors"
        )
    _check_dead_codes(metric, copied, factors)
    _check_sorted_rows(metric, copied, factors)
    _check_all_rows_count(metric, copied, factors)
    _check_reads_everything(metric, copied[:_FEW_ROWS], factors[:_FEW_ROWS])


def _check_dead_codes(metric: Callable[..., float | Score], codes: Any, factors: Any) -> None:
    """Latent variables that a model does not use are common; all of them are, if it collapses."""
    dead, collapsed = codes.copy(), np.full_like(codes, _DEAD)
    dead[:, -1] = _DEAD
    if codes.shape[1] > 1:
        try:
            value = _value(metric, dead, factors)
        except Exception as error:
            raise AssertionError(
                f"a constant code: expected a score, got {type(error).__name__}: {error}"
            ) from error
        require(math.isfinite(value), f"a constant code: expected a finite score, got {value}")
    with contextlib.suppress(ValueError):
        value = _value(metric, collapsed, factors)
        require(
            math.isfinite(value),
            f"all codes constant: expected a finite score or a ValueError, got {value}",
        )


def _check_sorted_rows(metric: Callable[..., float | Score], codes: Any, factors: Any) -> None:
    """Sorted rows score like others, also if many are equal and a code is dead."""
    order = np.lexsort(factors.T[::-1])
    tied = codes.round()
    if codes.shape[1] > 1:
        tied[:, 0] = np.random.default_rng(1).integers(0, 2, len(tied))
        tied[:, -1] = _DEAD
    for table in (codes, tied):
        value, other = _value(metric, table, factors), _value(metric, table[order], factors[order])
        require(
            abs(value - other) < 0.1,
            "the score must not change if observations are sorted by their factors: got "
            f"{value} and, sorted, {other}; break ties and split rows at random",
        )


def _check_all_rows_count(metric: Callable[..., float | Score], codes: Any, factors: Any) -> None:
    """Half of the rows copy the factors: it does not matter which half comes first."""
    random = np.random.default_rng(3)
    half = len(codes) // 2
    mixed = np.concatenate([codes[:half], random.permuted(codes[half:], axis=0)])
    order = random.permutation(len(mixed))
    value, other = _value(metric, mixed[order], factors[order]), _value(metric, mixed, factors)
    require(
        abs(value - other) < 0.1,
        "the score must not depend on the order of observations: half of the rows copy the factors,"
        f" and it is {value} if they are shuffled, {other} if these rows come first; split and "
        "sample rows at random",
    )


def _check_reads_everything(metric: Callable[..., float | Score], codes: Any, factors: Any) -> None:
    """Shuffling a code, or a factor, changes the score, if not alone, then among shuffled ones."""
    random = np.random.default_rng(2)
    good = {"code": codes, "factor": factors}
    bad = {name: random.permuted(table, axis=0) for name, table in good.items()}
    for name in reversed(good):
        for column in range(min(_FACTORS, codes.shape[1])):
            for others, own in ((good, bad), (bad, good)):
                mixed = others[name].copy()
                mixed[:, column] = own[name][:, column]
                before = _value(metric, *(good | {name: others[name]}).values())
                after = _value(metric, *(good | {name: mixed}).values())
                if before != after:
                    break
            else:
                raise AssertionError(
                    f"the score does not change with {name} {column}: it must depend on all codes "
                    "and on all factors"
                )


def _value(metric: Callable[..., float | Score], codes: Any, factors: Any) -> float:
    score = metric(codes, factors)
    return float(score.value if isinstance(score, Score) else score)
