"""The `@metric` decorator: arguments that all metrics share, intervals, nulls and ceilings."""

import inspect
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, fields, replace
from functools import partial, wraps
from numbers import Real
from typing import Any, Protocol, TypedDict

import numpy as np
from numpy.typing import ArrayLike

from unweave.core.context import within
from unweave.core.parallel import thread_map
from unweave.metrics.arrays import Floats, Ints, Seed, as_row_mask
from unweave.metrics.inputs import (
    FewRowsWarning,
    Inputs,
    Periods,
    factor_indices,
    few_rows,
    merge,
    read,
)
from unweave.metrics.score import CEILING, NULL_STD, SEED_STD, Score
from unweave.metrics.validation import (
    argument_checks,
    check_integer,
    check_seed,
    per_row_arguments,
    run_checks,
)

_OF_CODES = ("scales", "kl", "estimates")  # options that belong to the codes
_NARROW = 0.01  # scale of q(z|x) where the codes are the factors, of standard deviation 1
# How often a metric is computed again, at most, for an interval, a null or a standard deviation.
_MOST_TIMES = 100_000
_ARGUMENTS = """\
        seed: an integer, or a NumPy generator.
        discrete: (D,) mask of the codes that are categories.
        factor_names: names of the factors; default "factor 0", "factor 1", ...
        leave_out: factors not to score, by name or index.
        periods: periods of cyclic factors, such as {"orientation": 39}; see `merge`.
        continuous: continuous factors, by name or index; all others are classes. Default:
            real-valued factors whose values do not repeat.
        interval: level of a confidence interval, such as 0.95; see `metric`.
        resamples: random subsets of the rows that the interval is computed from.
        null: whether to score shuffled factors as well, as the score of uninformative codes.
        shuffles: shuffles that the null is the mean of.
        reseeds: other seeds to score the same rows with, for the detail "seed std".
        ceiling: whether to score the factors themselves as codes, for the detail "ceiling"."""


class MetricOptions(TypedDict, total=False):
    """Options of every metric that `evaluate` takes too; `metric` documents them."""

    periods: Periods | None
    continuous: Sequence[int | str] | None
    interval: float | None
    resamples: int
    null: bool
    shuffles: int
    reseeds: int
    ceiling: bool


@dataclass(frozen=True)
class _Shared:
    """The keyword arguments that `metric` adds to a function, checked."""

    seed: Seed = 0
    discrete: ArrayLike | None = None
    factor_names: Sequence[str] | None = None
    leave_out: Sequence[int | str] = ()
    periods: Periods | None = None
    continuous: Sequence[int | str] | None = None
    interval: float | None = None
    resamples: int = 200
    null: bool = False
    shuffles: int = 10
    reseeds: int = 0
    ceiling: bool = False

    def __post_init__(self) -> None:
        check_seed("seed", self.seed)
        for name in ("resamples", "shuffles", "reseeds"):
            check_integer(name, getattr(self, name))
        if self.interval is not None and not 0 < self.interval < 1:
            raise ValueError(
                f"expected interval as a level between 0 and 1, got {self.interval}: give 0.95, "
                "for example"
            )
        if self.resamples < 2 or self.shuffles < 2:
            raise ValueError(
                f"expected at least 2 resamples and 2 shuffles, got {self.resamples} and "
                f"{self.shuffles}"
            )
        if max(self.resamples, self.shuffles, self.reseeds) > _MOST_TIMES:
            raise ValueError(
                f"expected at most {_MOST_TIMES:,} resamples, shuffles and reseeds, got "
                f"{max(self.resamples, self.shuffles, self.reseeds):,}"
            )
        if self.reseeds < 0 or self.reseeds == 1:
            raise ValueError(f"expected at least 2 reseeds, or 0 for none, got {self.reseeds}")


def check_options(options: MetricOptions) -> None:
    """Raise a ValueError for an option that no metric takes, before any work is done."""
    _Shared(**options)


SHARED_ARGUMENTS = tuple(field.name for field in fields(_Shared))


class MetricFunction(Protocol):
    """A metric as it is called: with codes, factors and keyword arguments."""

    __name__: str

    def __call__(self, codes: ArrayLike, factors: ArrayLike, **options: Any) -> Score:
        """Return the score of codes (N, D) by factors (N, K)."""
        ...


def metric(function: Callable[..., Score | float]) -> MetricFunction:
    """Turn a function of `Inputs` into a metric of codes, factors and shared arguments.

    The function takes `inputs: Inputs` and its own keyword options and returns `inputs.score(...)`
    or a number. The metric takes codes (N, D), factors (N, K), these options and the arguments
    below. It checks all of them, and lists them in its signature and documentation. Integers, and
    choices such as `protocol: Literal[...]`, are checked by their annotations. Annotate an array
    with one entry per row as `PerRow`, so that intervals resample it with the rows. The metric is
    named after the function.

    >>> @metric
    ... def closest(inputs, *, power: int = 1):
    ...     '''Mean over factors of the largest absolute correlation with a code.'''
    ...     r = np.corrcoef(inputs.codes.T, inputs.values.T)[: inputs.dims, inputs.dims :]
    ...     return (np.abs(r) ** power).max(0)[inputs.scored].mean()
    >>> factors = np.argwhere(np.ones((4, 5, 3)))[:, :2]
    >>> closest(factors @ [[1, 0], [0, 2]], factors, power=2, null=True)  # doctest: +ELLIPSIS
    Score(closest = 1.0000, null 0...)

    `interval`: the metric is computed on random subsets of the rows. The interval covers the given
    share of these values, shifted so that their mean is the value of all rows. If the value is
    estimated from n of N rows (`Score.rows_read`; all by default), values of b different rows have
    variance s^2 / b (1 - b/N) to first order, and values of n rows s^2 / n: these agree for
    b = n N / (n + N), half of the rows if all are read, and about n of many more.  [Politis1994]
    sec. 2
    A bootstrap sample contains rows twice, which nearest neighbours mistake for information and
    held-out rows for prediction. Both kinds of resampling have the bias of fewer different rows,
    which the shift removes. Each subset has its own generator, so the interval covers the choice of
    rows and the randomness of the metric. If all values lie in [0, 1], so does the interval.

    `null`: the mean score when the rows of the factors are shuffled against those of the codes,
    with its standard deviation as the detail "null std": the score of codes that have learned
    nothing.

    `reseeds`: the metric is computed on the same rows with this many other generators; the standard
    deviation is the detail "seed std".

    `ceiling`: the detail "ceiling" is the score of the standardised factors as codes. If factors
    are dependent, even perfect codes share information, so the best possible score is below 1.

    Subsets, shuffles and reseeds have their own generators, derived from `seed`: the value does not
    depend on whether they are computed, nor they on the number of threads. Which factors are
    `continuous` is decided once, from all rows. A metric issues `FewRowsWarning`; see `few_rows`.
    """
    own, signature = inspect.signature(function), _public_signature(function)
    checks, protocol = argument_checks(function), own.parameters.get("protocol")
    by_row = per_row_arguments(function)

    @wraps(function)
    def compute(*args: Any, **kwargs: Any) -> Score:
        try:
            given = dict(signature.bind(*args, **kwargs).arguments)
        except TypeError as error:
            raise TypeError(f"{function.__name__}() {error}") from None
        shared = _Shared(**{name: given.pop(name) for name in SHARED_ARGUMENTS if name in given})
        run_checks(checks, given, signature)
        codes, factors = given.pop("codes"), given.pop("factors")
        if shared.periods is not None:
            factors = merge(factors, shared.periods, shared.factor_names)
        if given.get("test_rows") is not None:
            given["test_rows"] = as_row_mask("test_rows", given["test_rows"], len(codes))
        name = given.get("protocol", protocol.default if protocol else "")
        call = _Call(function, name, codes, factors, given, shared, by_row)
        inputs = call.read(shared.seed)
        score = call.score(inputs)
        _warn_of_few_rows(inputs, shared.leave_out)
        # Subsets of the rows must not change which factors are continuous.
        decided = np.flatnonzero(inputs.continuous).tolist()
        return _with_extras(score, replace(call, shared=replace(shared, continuous=decided)))

    compute.__signature__ = signature  # type: ignore[attr-defined]
    compute.__doc__ = _public_docstring(inspect.getdoc(function) or "")
    return compute


@dataclass(frozen=True)
class _Call:
    """A metric and its arguments, to be repeated with some of them changed."""

    function: Callable[..., Score | float]
    protocol: str
    codes: ArrayLike
    factors: ArrayLike
    options: Mapping[str, Any]  # the metric's own
    shared: _Shared
    by_row: frozenset[str]  # options with an entry for each row

    @property
    def rows(self) -> int:
        return len(np.asarray(self.codes))

    def check_arrays(self) -> None:
        """Raise if an array may have an entry for each row, but is not annotated so."""
        rows, dims = np.shape(self.codes)[:2]
        for name, value in self.options.items():
            arrays = isinstance(value, np.ndarray) and name not in self.by_row
            if arrays and rows != dims and value.shape[:1] == (rows,):
                raise ValueError(
                    f"expected `{name}: PerRow` in {self.function.__name__}, since {name} has an "
                    "entry for each row, which an interval resamples: annotate it with "
                    "unweave.metrics.PerRow"
                )

    def read(self, seed: Seed) -> Inputs:
        shared = ("discrete", "factor_names", "leave_out", "continuous")
        known: dict[str, Any] = {name: getattr(self.shared, name) for name in shared}
        named = {"metric": self.function.__name__, "protocol": self.protocol}
        return read(self.codes, self.factors, seed=seed, **known, **named)

    def score(self, inputs: Inputs) -> Score:
        score = self.function(inputs, **self.options)
        if isinstance(score, Score):
            return score
        if not isinstance(score, Real):
            raise ValueError(
                f"expected a number or inputs.score(...) from the metric "
                f"{self.function.__name__}, got a {type(score).__name__}"
            )
        return inputs.score(float(score))

    def subset_value(self, size: int, rng: np.random.Generator) -> float:
        rows = rng.permutation(self.rows)[:size]
        options = {
            name: _take(value, rows) if name in self.by_row and value is not None else value
            for name, value in self.options.items()
        }
        chosen = replace(
            self, codes=_take(self.codes, rows), factors=_take(self.factors, rows), options=options
        )
        return chosen.reseeded_value(rng)

    def reseeded_value(self, rng: np.random.Generator) -> float:
        """Compute the value with another generator, without estimates that were given."""
        options = {name: value for name, value in self.options.items() if name != "estimates"}
        return float(replace(self, options=options).score(self.read(rng)))

    def shuffled_value(self, rng: np.random.Generator) -> float:
        shuffled = _take(self.factors, rng.permutation(self.rows))
        return replace(self, factors=shuffled).reseeded_value(rng)

    def ceiling(self) -> float:
        """Compute the value of the standardised factors as codes."""
        v = np.asarray(self.factors, dtype=np.float64)
        varied = v[:, (v != v[0]).any(0)]
        codes = (varied - varied.mean(0)) / varied.std(0)
        options = {name: value for name, value in self.options.items() if name not in _OF_CODES}
        if self.options.get("scales") is not None:
            options["scales"] = np.full(codes.shape, _NARROW)
        shared = replace(self.shared, discrete=None)
        call = replace(self, codes=codes, options=options, shared=shared)
        return float(call.score(call.read(self.shared.seed)))


def _take(values: ArrayLike, rows: Ints) -> ArrayLike:
    return np.asarray(values)[rows]


_warned: ContextVar[bool] = ContextVar("warned", default=False)


def suppress_few_rows_warning() -> AbstractContextManager[None]:
    """Suppress `FewRowsWarning` inside this block; it was already issued."""
    return within(_warned, True)


def _warn_of_few_rows(inputs: Inputs, leave_out: Sequence[int | str]) -> None:
    if _warned.get():
        return
    unwanted = factor_indices(leave_out, inputs.names)
    kept = [k for k in range(len(inputs.names)) if k not in unwanted]
    names, sizes = [inputs.names[k] for k in kept], inputs.sizes[kept].tolist()
    reason = few_rows(inputs.rows, inputs.dims, sizes, inputs.continuous[kept], names)
    if reason:
        warnings.warn(reason, FewRowsWarning, stacklevel=3)  # at the caller of the metric


def _with_extras(score: Score, call: _Call) -> Score:
    """Add what was asked for: ceiling, interval, null, standard deviation over seeds."""
    shared = call.shared
    if shared.ceiling:
        score = replace(score, details=score.details | {CEILING: call.ceiling()})
    if shared.interval is None and not shared.null and not shared.reseeds:
        return score
    subsets, shuffles, seeds = np.random.default_rng(shared.seed).spawn(3)
    if shared.interval is not None:
        score = _with_interval(score, call, shared.interval, subsets.spawn(shared.resamples))
    if shared.null:
        score = _with_null(score, call, shuffles.spawn(shared.shuffles))
    if shared.reseeds:
        values = np.array(list(thread_map(call.reseeded_value, seeds.spawn(shared.reseeds))))
        extra = {SEED_STD: float(values.std(ddof=1)), "reseeds": len(values)}
        score = replace(score, details=score.details | extra)
    return score


def _with_interval(
    score: Score, call: _Call, level: float, rngs: list[np.random.Generator]
) -> Score:
    if call.rows < 4:
        raise ValueError(
            f"expected at least 4 rows for an interval, got {call.rows}: its subsets need two each"
        )
    call.check_arrays()
    size = _subset_size(call.rows, call.rows if score.rows_read is None else score.rows_read)
    with _explain(f"a random subset of {size} rows", "give more rows, or ask for no interval"):
        values = np.array(list(thread_map(partial(call.subset_value, size), rngs)))
    details = score.details | {
        "interval level": level,
        "resamples": len(values),
        "rows of a resample": size,
        "mean of resamples": float(values.mean()),
    }
    return replace(score, interval=interval_around(score.value, values, level), details=details)


def _subset_size(rows: int, read: int) -> int:
    """Return b = n N / (n + N), so that s^2 / b (1 - b/N) = s^2 / n, if n of N rows are read.

    >>> _subset_size(600, 600), _subset_size(1200, 600), _subset_size(10**6, 600)
    (300, 400, 600)
    """
    read = min(read, rows)
    return max(2, round(read * rows / (read + rows)))


def _with_null(score: Score, call: _Call, rngs: list[np.random.Generator]) -> Score:
    with _explain("a shuffle of the factors", "ask for no null"):
        values = np.array(list(thread_map(call.shuffled_value, rngs)))
    details = score.details | {NULL_STD: float(values.std(ddof=1)), "shuffles": len(values)}
    return replace(score, null=float(values.mean()), details=details)


@contextmanager
def _explain(what: str, remedy: str) -> Iterator[None]:
    """Say in an error that it comes from a resample, not from the data as given."""
    try:
        yield
    except ValueError as error:
        raise ValueError(f"{what} cannot be scored ({error}): {remedy}") from error


def interval_around(value: float, values: Floats, level: float) -> tuple[float, float]:
    """Return the central quantiles of values, shifted so that their mean is `value`.

    >>> interval_around(0.5, np.linspace(0.4, 0.8, 201), 0.9)
    (0.32, 0.68)
    """
    tail = (1 - level) / 2
    low, high = np.quantile(values, (tail, 1 - tail)) - values.mean() + value
    if min(value, values.min()) >= 0 and max(value, values.max()) <= 1:
        low, high = max(low, 0.0), min(high, 1.0)
    return round(float(low), 12), round(float(high), 12)


def _public_signature(function: Callable[..., object]) -> inspect.Signature:
    """Replace `inputs` by codes and factors, and append the shared arguments."""
    own = inspect.signature(function)
    first, *options = own.parameters.values() or (None,)
    if first is None or first.name == "codes" or any(p.default is p.empty for p in options):
        raise TypeError(
            f"{function.__name__}{own}: expected a function of `inputs`, and of options with "
            f"defaults, as in def {function.__name__}(inputs, bins=20); codes and factors are "
            "inputs.codes and inputs.factors"
        )
    arrays = [
        first.replace(name=name, annotation="ArrayLike", kind=first.POSITIONAL_OR_KEYWORD)
        for name in ("codes", "factors")
    ]
    shared = inspect.signature(_Shared).parameters.values()
    keywords = [p.replace(kind=p.KEYWORD_ONLY) for p in (*options, *shared)]
    return own.replace(parameters=arrays + keywords, return_annotation="Score")


def _public_docstring(text: str) -> str:
    """Document codes, factors and the shared arguments in the docstring of a metric."""
    indented = "\n".join(f"    {line}" if line else "" for line in text.splitlines()).lstrip()
    if "\n    Args:\n" not in indented:
        indented += "\n\n    Args:\n        inputs: codes (N, D) and factors (N, K)."
    head, arguments = indented.split("\n    Args:\n")
    own, *rest = arguments.split("\n\n    ", 1)
    own = own.replace("        inputs: ", "        codes, factors: ", 1).rstrip()
    tail = f"\n\n    {rest[0]}" if rest else ""
    return f"{head}\n    Args:\n{own}\n{_ARGUMENTS}{tail}\n    "
