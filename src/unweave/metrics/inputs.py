"""What every metric reads: codes, factors and what is known of them, checked once.

The array functions raise `ValueError` that says what was expected, what came and what to do.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]
Seed = int | np.random.Generator
Periods = Mapping[str, float | Mapping[str, Sequence[float]]]

_HUGE = 1e100  # whose square and its sums are still numbers
_ROWS_EACH = 10  # for each code and each value: as many to a coefficient [Peduzzi1996]
_BINS = 20  # that a continuous factor is cut into


class FewRowsWarning(UserWarning):
    """A table has too few rows for what it is to tell; see `few_rows`."""


class Inputs(NamedTuple):
    """Codes and factors as a metric computes with them.

    Discrete codes and all factors are relabelled 0, 1, ... in the order of their values. Factors
    that cannot be scored keep their column, so that column k is always factor k.
    """

    codes: Floats  # (N, D)
    factors: Ints  # (N, K)
    values: Floats  # (N, K) the factors as they came
    continuous: Bools  # (K,) factors that are numbers, not classes
    sizes: Ints  # (K,) values that each factor takes
    discrete: Bools  # (D,)
    names: tuple[str, ...]  # (K,)
    scored: Ints  # factors that count
    left_out: tuple[str, ...]  # and the names of those that do not

    @property
    def rows(self) -> int:
        """N, the number of rows."""
        return len(self.codes)

    @property
    def dims(self) -> int:
        """D, the number of codes."""
        return int(self.codes.shape[1])

    @property
    def continuous_names(self) -> list[str]:
        """The factors that count and are continuous, which metrics of counts cut into bins."""
        return [self.names[k] for k in self.scored if self.continuous[k]]


def read(
    codes: ArrayLike,
    factors: ArrayLike,
    *,
    discrete: ArrayLike | None = None,
    factor_names: Sequence[str] | None = None,
    leave_out: Sequence[int | str] = (),
    continuous: Sequence[int | str] | None = None,
    classes_only: bool = True,
) -> Inputs:
    """Check the arguments that metrics share.

    A factor with a single value has no entropy and cannot be held fixed against others, so it is
    left out of every score, as are the factors that `leave_out` names or numbers. Unless a metric
    says that it takes continuous factors, they are refused; see `continuous_factors`.
    """
    z = as_codes(codes).astype(np.float64)
    _measurable(z)
    values = as_factors(factors, rows=len(z))
    mask = as_mask("discrete", discrete, z.shape[1])
    names = as_names(factor_names, values.shape[1])
    for j in np.flatnonzero(mask):
        z[:, j] = np.unique(z[:, j], return_inverse=True)[1]
    v = np.stack([_numbered(column) for column in values.T], 1)
    sizes = v.max(0) + 1
    unwanted = {factor_index(which, names) for which in leave_out}
    scored = [k for k in range(len(names)) if sizes[k] > 1 and k not in unwanted]
    if not scored:
        raise ValueError(
            "expected a factor that takes at least two values and is not left out, got none "
            f"among {', '.join(names)}: give rows that differ in a factor"
        )
    numbers = continuous_factors(values, continuous, names)
    if classes_only and numbers[scored].any():
        refused = ", ".join(names[k] for k in scored if numbers[k])
        raise ValueError(
            f"expected factors that are classes, got real numbers that differ in {refused}: "
            "this definition needs values that repeat; cut them into bins, for instance by "
            "numpy.digitize(column, numpy.quantile(column, [0.2, 0.4, 0.6, 0.8])), or leave these "
            "factors out"
        )
    left_out = tuple(name for k, name in enumerate(names) if k not in scored)
    return Inputs(
        z, v, values.astype(np.float64), numbers, sizes, mask, names, np.array(scored), left_out
    )


def _numbered(column: NDArray[Any]) -> Ints:
    """Numbers (N,) relabelled 0, 1, ... in their order."""
    if column.dtype.kind != "i" or np.ptp(column) > 4 * len(column):
        return np.unique(column, return_inverse=True)[1]
    # By a table of the values there are, without sorting.
    offset = column - column.min()
    numbers: Ints = (np.cumsum(np.bincount(offset) > 0) - 1)[offset]
    return numbers


def real_factors(factors: NDArray[Any]) -> Bools:
    """Mask (K,) of the factors with a value that is not a whole number."""
    if factors.dtype.kind != "f":
        return np.zeros(factors.shape[1], dtype=np.bool_)
    mask: Bools = (factors != np.rint(factors)).any(0)
    return mask


def continuous_factors(
    factors: NDArray[Any],
    named: Sequence[int | str] | None = None,
    names: tuple[str, ...] = (),
) -> Bools:
    """Mask (K,) of the factors that are named, or numbered; if None are, of those that seem to be.

    These have real numbers that do not repeat. Where values come twice or more on average, as 40
    angles in 1000 rows do, they are classes, whatever numbers stand for them.

    >>> factors = np.array([[0.5, 0.1], [0.5, 0.2], [1.5, 0.3], [1.5, 0.4]])
    >>> continuous_factors(factors), continuous_factors(factors, [0])
    (array([False,  True]), array([ True, False]))
    """
    if named is not None:
        mask = np.zeros(factors.shape[1], dtype=np.bool_)
        names = as_names(names, factors.shape[1])
        mask[[factor_index(which, names, "continuous") for which in _several(named)]] = True
        return mask
    mask = real_factors(factors)
    for k in np.flatnonzero(mask):
        mask[k] = 2 * len(np.unique(factors[:, k])) > len(factors)
    return mask


def _several(named: Sequence[int | str]) -> Sequence[int | str]:
    if isinstance(named, str) or not hasattr(named, "__iter__"):
        raise ValueError(f"expected continuous as a list of factors, got {named!r}: give a list")
    return named


def decided(
    factors: NDArray[Any], named: Sequence[int | str] | None, names: tuple[str, ...]
) -> list[str]:
    """What was taken of factors (N, K) of real numbers, in words; nothing where they are named."""
    if named is not None:
        return []
    numbers, lines = continuous_factors(factors), []
    for k in np.flatnonzero(real_factors(factors)):
        if numbers[k]:
            taken = "real numbers that do not repeat, taken as continuous"
            other = "without its name"
        else:
            count = len(np.unique(factors[:, k]))
            taken = f"{count} real numbers, each {len(factors) / count:.3g} times on average, taken"
            taken, other = f"{taken} as classes", "with its name"
        lines.append(f"{names[k]} has {taken}; `continuous` {other} decides otherwise")
    return lines


def few_rows(
    codes: NDArray[Any],
    factors: NDArray[Any],
    continuous: Bools,
    names: tuple[str, ...],
) -> str | None:
    """Why codes (N, D) and factors (N, K) have too few rows to be scored; None if they have not.

    Ten rows are wanted for each code, and for each value of a factor; a continuous one counts as
    the 20 bins that it is cut into. A predictor from D codes has as many coefficients to fit, and
    what is said of a value is said by its rows: with fewer, codes that know nothing score high.
    """
    wanted = {f"{codes.shape[1]} codes": codes.shape[1]}
    for k, name in enumerate(names):
        size = _BINS if continuous[k] else int(_numbered(factors[:, k]).max()) + 1
        wanted[f"{name} in {_BINS} bins" if continuous[k] else f"{size} values of {name}"] = size
    what, most = max(wanted.items(), key=lambda each: each[1])
    if len(codes) >= _ROWS_EACH * most:
        return None
    return (
        f"{len(codes)} rows are too few: for {what} there should be {_ROWS_EACH * most} at least, "
        f"{_ROWS_EACH} for each; with fewer, codes that know nothing can score high; give more "
        "rows, or compare with the null"
    )


def merge(
    factors: ArrayLike, periods: Periods, factor_names: Sequence[str] | None = None
) -> NDArray[Any]:
    """Factors (N, K) with values that stand for the same observation made equal.

    A factor that repeats is taken modulo its period: with `periods={"orientation": 39}` the values
    0 and 39 are one, as of the 40 orientations of dSprites. Where the period depends on another
    factor, it is given for each value 0, 1, ... of that factor: with
    `{"orientation": {"shape": [9, 18, 36]}}` shape 0 looks the same after 9 steps, shape 1 after
    18. A factor without a name is called by its number, "factor 3". What is merged by another
    factor depends on it, and no codes are perfect in all metrics then: ask a metric for
    `ceiling=True`.

    >>> factors = np.array([[0, 3], [0, 13], [1, 13], [1, 40]])
    >>> merge(factors, {"turn": {"shape": [10, 40]}}, ("shape", "turn"))[:, 1]
    array([ 3,  3, 13,  0])
    """
    v = np.array(as_factors(factors, rows=len(np.asarray(factors))))
    names = as_names(factor_names, v.shape[1])
    given = v.copy()
    if not isinstance(periods, Mapping):
        raise ValueError(
            f"expected periods by the name of a factor, got {periods!r}: give "
            f"{{{names[0]!r}: 39}}, say"
        )
    for name, period in periods.items():
        k = factor_index(name, names, "periods")
        if not isinstance(period, Mapping):
            steps = np.full(len(v), period)
        elif len(period) == 1:
            ((other, each),) = period.items()
            steps = _looked_up(given[:, factor_index(other, names, "periods")], other, each)
        else:
            raise ValueError(f"expected one factor that the period of {name} depends on")
        if not (np.isfinite(steps) & (steps > 0)).all():
            raise ValueError(f"expected positive periods of {name}, got {period}")
        if v.dtype.kind == "i" and (steps != np.rint(steps)).any():
            raise ValueError(
                f"expected whole periods of {name}, whose values are integers, got {period}: give "
                "the number of steps after which it repeats"
            )
        v[:, k] = np.mod(given[:, k], steps.astype(v.dtype))
    return v


def _looked_up(values: NDArray[Any], name: str, each: Sequence[float]) -> NDArray[Any]:
    """The entry of `each` for each value (N,) of a factor."""
    if (values != np.rint(values)).any() or values.min() < 0 or values.max() >= len(each):
        raise ValueError(
            f"expected values of {name} from 0 to {len(each) - 1}, one for each period given, got "
            f"{values.min()} to {values.max()}: give a period for each value"
        )
    return np.asarray(each)[values.astype(np.int64)]


def as_codes(codes: ArrayLike) -> NDArray[np.floating[Any]]:
    """Codes (N, D) as float32 or float64, finite, with at least two rows and one column."""
    _unmasked("codes", codes)
    z = np.asarray(codes)
    if z.dtype.kind not in "fiub":
        raise ValueError(f"expected codes that are real numbers, got {z.dtype}: convert to float")
    if z.ndim != 2 or z.shape[0] < 2 or z.shape[1] < 1:
        raise ValueError(
            f"expected codes of shape (N, D) with N >= 2 rows and D >= 1 columns, got {z.shape}: "
            "give one row for each observation"
        )
    z = z if z.dtype in (np.float32, np.float64) else z.astype(np.float64)
    _finite("codes", z)
    return z


def as_factors(factors: ArrayLike, *, rows: int, least: int = 1) -> NDArray[Any]:
    """Factors (N, K), one row for each row of the codes: int64 if all are whole, else float64."""
    _unmasked("factors", factors)
    v = np.asarray(factors)
    if v.ndim != 2 or v.shape[1] < least:
        raise ValueError(
            f"expected factors of shape (N, K) with K >= {least}, got {v.shape}: "
            "give one column for each factor"
        )
    if v.dtype.kind not in "fiub":
        raise ValueError(
            f"expected factors that are integers or real numbers, got {v.dtype}: number the "
            "values, for instance by numpy.unique(column, return_inverse=True)[1]"
        )
    if len(v) != rows:
        raise ValueError(
            f"expected as many rows of factors as of codes, got {len(v)} and {rows}: "
            "row n of both must describe the same observation"
        )
    if v.dtype.kind == "f":
        _finite("factors", v, "leave such rows out")
        if real_factors(v).any():
            return v.astype(np.float64)
    return v.astype(np.int64)


def _unmasked(name: str, given: ArrayLike) -> None:
    if np.ma.is_masked(given):
        raise ValueError(f"expected {name} that are all there, got a masked array: leave rows out")


def as_scales(scales: ArrayLike, shape: tuple[int, ...]) -> NDArray[np.floating[Any]]:
    """Posterior standard deviations (N, D), positive."""
    s = np.asarray(scales)
    if s.shape != shape:
        raise ValueError(
            f"expected scales of the shape of the codes, {shape}, got {s.shape}: "
            "give the standard deviation of q(z_j|x_n) for each code"
        )
    s = s if s.dtype in (np.float32, np.float64) else s.astype(np.float64)
    _finite("scales", s)
    if (s <= 0).any():
        raise ValueError(
            f"expected positive scales, got {s.min()}: give standard deviations, not their "
            "logarithms, and a floor where the encoder has none"
        )
    return s


def as_kl(kl: ArrayLike, dims: int) -> Floats:
    """Mean KL(q(z_j|x) || p(z_j)) in nats, (D,)."""
    values = np.asarray(kl, dtype=np.float64)
    if values.shape != (dims,):
        raise ValueError(
            f"expected kl of shape ({dims},), one mean for each code, got {values.shape}: "
            "average KL(q(z_j|x) || p(z_j)) over the data"
        )
    _finite("kl", values)
    return values


def as_mask(what: str, given: ArrayLike | None, dims: int) -> Bools:
    """Mask (D,) of codes, such as those that are categories; none if it is not given."""
    if given is None:
        return np.zeros(dims, dtype=np.bool_)
    mask = np.asarray(given)
    if mask.shape != (dims,) or mask.dtype != np.bool_:
        raise ValueError(
            f"expected {what} as {dims} booleans, one for each code, got {mask.dtype} of shape "
            f"{mask.shape}"
        )
    return mask


def as_names(names: Sequence[str] | None, count: int) -> tuple[str, ...]:
    """Names of the factors, `factor 0`, `factor 1`, ... if they are not given."""
    if not names:
        return tuple(f"factor {k}" for k in range(count))
    if len(names) != count or len(set(names)) != count:
        raise ValueError(
            f"expected {count} different factor names, one for each column of the factors, got "
            f"{len(names)}: {', '.join(map(str, names))}"
        )
    return tuple(map(str, names))


def subset(rows: int, size: int, rng: np.random.Generator) -> Ints:
    """`size` different rows at random, or all rows in order where there are no more than that."""
    if size < 2:
        raise ValueError(f"expected at least 2 rows to estimate from, got {size}")
    return np.arange(rows) if rows <= size else rng.choice(rows, size, replace=False)


def as_seed(rng: Seed) -> int:
    """The seed for counted noise that a seed or a generator stands for."""
    return int(rng.integers(2**31)) if isinstance(rng, np.random.Generator) else int(rng)


def check_choice(name: str, value: str, valid: Sequence[str]) -> None:
    """Raise unless a named choice, such as a protocol, is one of the valid ones."""
    if value not in valid:
        raise ValueError(f"expected {name} to be one of {', '.join(valid)}, got {value!r}")


def _finite(
    what: str, values: NDArray[np.floating[Any]], remedy: str = "check the encoder"
) -> None:
    bad = ~np.isfinite(values)
    if bad.any():
        columns = np.flatnonzero(bad.reshape(-1, values.shape[-1]).any(0)).tolist()
        raise ValueError(
            f"expected finite {what}, got NaN or infinity in columns {columns}: {remedy}"
        )


def _measurable(z: Floats) -> None:
    """Raise where the squares of codes, or of their differences, are beyond double precision."""
    low, high = z.min(0), z.max(0)
    size, extent = np.maximum(np.abs(low), np.abs(high)), high / 2 - low / 2
    bad = (size > _HUGE) | ((extent < 1 / _HUGE) & (high > low))
    if bad.any():
        raise ValueError(
            f"expected codes of at most {_HUGE:g} that are constant or differ by at least "
            f"{1 / _HUGE:g}, got others in columns {np.flatnonzero(bad).tolist()}: rescale them"
        )


def factor_index(which: int | str, names: tuple[str, ...], argument: str = "leave_out") -> int:
    """The number of a factor that an argument names or numbers."""
    if which in names:
        return names.index(str(which))
    number = int(which) if isinstance(which, str) and which.isdecimal() else which
    if isinstance(number, int | np.integer) and 0 <= number < len(names):
        return int(number)
    raise ValueError(
        f"expected {argument} to name factors among {', '.join(names)} or to number them from 0, "
        f"got {which!r}"
    )
