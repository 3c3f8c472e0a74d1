"""What every metric can be asked beside its number: an interval, a null, symmetries of factors.

A metric is a function of codes, factors and an `rng` that ends in `**frame: Unpack[Frame]` and is
decorated by `framed`; of the keywords of `Frame` it sees `continuous` alone, which `read` takes.
"""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from functools import partial, wraps
from typing import Any, ParamSpec, TypedDict

import numpy as np

from unweave.core.parallel import thread_map
from unweave.metrics.inputs import (
    FewRowsWarning,
    Floats,
    Periods,
    as_names,
    continuous_factors,
    factor_index,
    few_rows,
    merge,
)
from unweave.metrics.score import CEILING, RNG_SPREAD, Score
from unweave.metrics.validation import as_whole, counted

P = ParamSpec("P")

_ROWS = ("codes", "factors", "scales")  # arguments with a row for each observation
_OF_CODES = ("codes", "scales", "kl", "discrete", "estimates")
_NARROW = 0.01  # the scale of q(z|x) of a factor itself, beside its standard deviation of 1
_ARGUMENTS = """\
        periods: factors whose values repeat, such as {"orientation": 39}; see `merge`.
        continuous: the factors that are numbers, by name or number, all others being classes; if
            not given, those of real numbers that do not repeat.
        interval: a level such as 0.95, for an interval about the value; see `framed`.
        resamples: random parts of the rows that the interval is made of.
        null: whether to give the value on shuffled factors too.
        shuffles: how many shuffles the null is the mean of.
        reseeds: how many other seeds to take on the same rows, for the detail "rng spread".
        ceiling: whether to give the value of the factors themselves as codes, the detail
            "ceiling"."""


class Frame(TypedDict, total=False):
    """The keywords that all metrics share; their defaults are those of `_Asked`."""

    periods: Periods | None
    continuous: Sequence[int | str] | None
    interval: float | None
    resamples: int
    null: bool
    shuffles: int
    reseeds: int
    ceiling: bool


@dataclass(frozen=True)
class _Asked:
    """The keywords of `Frame`, checked."""

    periods: Periods | None = None
    continuous: Sequence[int | str] | None = None
    interval: float | None = None
    resamples: int = 200
    null: bool = False
    shuffles: int = 10
    reseeds: int = 0
    ceiling: bool = False

    def __post_init__(self) -> None:
        for name in ("resamples", "shuffles", "reseeds"):
            as_whole(name, getattr(self, name))
        if self.interval is not None and not 0 < self.interval < 1:
            raise ValueError(
                f"expected interval as a level between 0 and 1, got {self.interval}: give 0.95, say"
            )
        if self.resamples < 2 or self.shuffles < 2:
            raise ValueError(
                f"expected at least 2 resamples and 2 shuffles, got {self.resamples} and "
                f"{self.shuffles}"
            )
        if self.reseeds < 0 or self.reseeds == 1:
            raise ValueError(f"expected at least 2 reseeds, or 0 for none, got {self.reseeds}")


def framed(function: Callable[P, Score]) -> Callable[P, Score]:
    """A metric that takes the keywords of `Frame` as well.

    `interval`: the metric is computed on random parts of the rows, and the interval holds the
    given share of its values there, moved so that their mean is the value of all rows. Of N rows
    the value reads n, all of them or as many as the protocol takes. Parts of b rows without
    repetition spread about their mean by Var = s^2 / b (1 - b/N), to first order, and values of n
    rows by s^2 / n: both are the same for b = n N / (n + N), half of the rows where all are read,
    and about n of many more.  [Politis1994] sec. 2
    A bootstrap sample holds rows twice, which nearest neighbours take for information and held-out
    rows for prediction; and both have the bias of fewer different rows, which moving the mean takes
    out. Each part has a generator of its own, so the interval covers what the rows leave open and
    what is random in the metric. Where all values lie in [0, 1], so does the interval.

    `null`: the mean over shuffles of the rows of the factors against those of the codes, with its
    standard deviation as the detail "null spread": what the metric gives where nothing is learned.

    `reseeds`: the metric is computed on the same rows with so many other generators; their standard
    deviation is the detail "rng spread", what another seed would change.

    `ceiling`: the detail "ceiling" is the value of the standardised factors themselves as codes.
    Where factors depend on each other, so do they as codes, and what tells of one tells of the
    other: the score of a code for each factor is then below that of independent factors.

    Parts, shuffles and reseeds have generators of their own, derived from `rng`: the value is the
    same whether they are asked for or not, and they are the same on any number of threads. Which
    factors are `continuous` is decided once, of all rows.

    A metric issues `FewRowsWarning` and checks its integers; see `few_rows` and `counted`.
    """
    signature = inspect.signature(function)
    checked = counted(function)

    @wraps(function)
    def metric(*args: P.args, **kwargs: P.kwargs) -> Score:
        given = dict(signature.bind(*args, **kwargs).arguments)
        asked = _asked(function.__name__, given.pop("frame", {}))
        if asked.periods is not None:
            given["factors"] = merge(given["factors"], asked.periods, given.get("factor_names"))
        given["continuous"] = asked.continuous
        score = checked(**given)  # type: ignore[call-arg]
        _decide(given)
        if asked.ceiling:
            score = _with_ceiling(score, function, given)
        if asked.interval is None and not asked.null and not asked.reseeds:
            return score
        again = _Again(function, given)
        generator = np.random.default_rng(given.get("rng", 0))
        parts, shuffled, drawn = generator.spawn(3)
        if asked.interval is not None:
            score = _with_interval(score, again, asked.interval, parts.spawn(asked.resamples))
        if asked.null:
            score = _with_null(score, again, shuffled.spawn(asked.shuffles))
        if asked.reseeds:
            score = _with_spread(score, again, drawn.spawn(asked.reseeds))
        return score

    metric.__signature__ = _shown(signature)  # type: ignore[attr-defined]
    metric.__doc__ = _documented(function.__doc__ or "")
    return metric


_told: ContextVar[bool] = ContextVar("told", default=False)


@contextmanager
def told() -> Iterator[None]:
    """Metrics within do not warn of few rows, which has been told."""
    token = _told.set(True)
    try:
        yield
    finally:
        _told.reset(token)


def _decide(given: dict[str, Any]) -> None:
    """Say once and for all which factors are continuous, and warn of few rows."""
    if "factors" not in given:
        return
    factors = np.asarray(given["factors"])
    names = as_names(given.get("factor_names"), factors.shape[1])
    mask = continuous_factors(factors, given["continuous"], names)
    given["continuous"] = np.flatnonzero(mask).tolist()
    if _told.get():
        return
    unwanted = {factor_index(which, names) for which in given.get("leave_out", ())}
    kept = [k for k in range(len(names)) if k not in unwanted]
    why = few_rows(
        np.asarray(given["codes"]), factors[:, kept], mask[kept], tuple(names[k] for k in kept)
    )
    if why:
        warnings.warn(why, FewRowsWarning, stacklevel=3)


@dataclass(frozen=True)
class _Again:
    """The call of a metric, to be repeated on other rows."""

    function: Callable[..., Score]
    given: Mapping[str, Any]

    @property
    def rows(self) -> int:
        """N."""
        return len(np.asarray(self.given["codes"]))

    def part(self, size: int, rng: np.random.Generator) -> float:
        """The value on so many of the rows, at random."""
        rows = rng.permutation(self.rows)[:size]
        present = [name for name in _ROWS if self.given.get(name) is not None]
        return self._value(rng, {name: np.asarray(self.given[name])[rows] for name in present})

    def drawn(self, rng: np.random.Generator) -> float:
        """The value with another generator."""
        return self._value(rng, {})

    def shuffled(self, rng: np.random.Generator) -> float:
        """The value on shuffled factors."""
        factors = np.asarray(self.given["factors"])
        return self._value(rng, {"factors": factors[rng.permutation(len(factors))]})

    def _value(self, rng: np.random.Generator, changed: dict[str, Any]) -> float:
        call = dict(self.given) | changed | {"rng": rng}
        call.pop("estimates", None)  # which are of all rows
        return float(self.function(**call))


def _asked(name: str, keywords: dict[str, Any]) -> _Asked:
    unknown = sorted(set(keywords) - set(Frame.__annotations__))
    if unknown:
        raise TypeError(f"{name}() got an unexpected keyword argument {unknown[0]!r}")
    return _Asked(**keywords)


def _with_interval(
    score: Score, again: _Again, level: float, rngs: list[np.random.Generator]
) -> Score:
    if again.rows < 4:
        raise ValueError(
            f"expected at least 4 rows for an interval, got {again.rows}: its parts need two each"
        )
    size = _part_size(again.rows, _rows_read(score))
    with _explained(f"a random part of {size} rows", "give more rows, or ask for no interval"):
        values = np.array(list(thread_map(partial(again.part, size), rngs)))
    details = score.details | {
        "interval level": level,
        "resamples": len(values),
        "rows of a resample": size,
        "mean of resamples": float(values.mean()),
    }
    return replace(score, interval=centred(score.value, values, level), details=details)


def _rows_read(score: Score) -> int:
    """The rows that the value is of: those that were chosen, or all."""
    told = score.details
    for names in (("samples",), ("training rows", "test rows")):
        if set(names) <= set(told):
            return sum(int(str(told[name])) for name in names)
    return int(str(told["rows"]))


def _part_size(rows: int, read: int) -> int:
    """b = n N / (n + N), so that s^2 / b (1 - b/N) = s^2 / n, for N rows of which n are read.

    >>> _part_size(600, 600), _part_size(1200, 600), _part_size(10**6, 600)
    (300, 400, 600)
    """
    read = min(read, rows)
    return max(2, round(read * rows / (read + rows)))


def _with_spread(score: Score, again: _Again, rngs: list[np.random.Generator]) -> Score:
    values = np.array(list(thread_map(again.drawn, rngs)))
    details = score.details | {RNG_SPREAD: float(values.std(ddof=1)), "reseeds": len(values)}
    return replace(score, details=details)


def _with_ceiling(score: Score, function: Callable[..., Score], given: Mapping[str, Any]) -> Score:
    if "factors" not in given:
        raise ValueError(f"expected no ceiling of {score.name}, which reads no factors")
    v = np.asarray(given["factors"], dtype=np.float64)
    varied = v[:, (v != v[0]).any(0)]
    codes = (varied - varied.mean(0)) / varied.std(0)
    call = {name: value for name, value in given.items() if name not in _OF_CODES}
    if given.get("scales") is not None:
        call["scales"] = np.full(codes.shape, _NARROW)
    ceiling = float(function(**call | {"codes": codes}))
    return replace(score, details=score.details | {CEILING: ceiling})


def _with_null(score: Score, again: _Again, rngs: list[np.random.Generator]) -> Score:
    if "factors" not in again.given:
        raise ValueError(f"expected no null of {score.name}, which reads no factors to shuffle")
    with _explained("a shuffle of the factors", "ask for no null"):
        values = np.array(list(thread_map(again.shuffled, rngs)))
    details = score.details | {"null spread": float(values.std(ddof=1)), "shuffles": len(values)}
    return replace(score, null=float(values.mean()), details=details)


@contextmanager
def _explained(what: str, remedy: str) -> Iterator[None]:
    try:
        yield
    except ValueError as error:
        raise ValueError(f"{what} cannot be scored ({error}): {remedy}") from error


def centred(value: float, values: Floats, level: float) -> tuple[float, float]:
    """The middle share `level` of values, moved so that their mean is `value`.

    >>> centred(0.5, np.linspace(0.4, 0.8, 201), 0.9)
    (0.32, 0.68)
    """
    tail = (1 - level) / 2
    low, high = np.quantile(values, (tail, 1 - tail)) - values.mean() + value
    if min(value, values.min()) >= 0 and max(value, values.max()) <= 1:
        low, high = max(low, 0.0), min(high, 1.0)
    return round(float(low), 12), round(float(high), 12)


def _shown(signature: inspect.Signature) -> inspect.Signature:
    """The signature with the keywords of `Frame` in the place of `**frame`."""
    own = [p for p in signature.parameters.values() if p.kind is not p.VAR_KEYWORD]
    shared = inspect.signature(_Asked).parameters.values()
    return signature.replace(
        parameters=own + [p.replace(kind=inspect.Parameter.KEYWORD_ONLY) for p in shared]
    )


def _documented(doc: str) -> str:
    """The docstring with the keywords of `Frame` at the end of its arguments."""
    return doc.replace("\n\n    Returns:", f"\n{_ARGUMENTS}\n\n    Returns:", 1)
