"""What every metric reads: codes, factors and what is known of them, checked once.

The array functions raise `ValueError` that says what was expected, what came and what to do.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]
Seed = int | np.random.Generator


class Inputs(NamedTuple):
    """Codes and factors as a metric computes with them.

    Discrete codes and all factors are relabelled 0, 1, ... in the order of their values. Factors
    that cannot be scored keep their column, so that column k is always factor k.
    """

    codes: Floats  # (N, D)
    factors: Ints  # (N, K)
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


def read(
    codes: ArrayLike,
    factors: ArrayLike,
    *,
    discrete: ArrayLike | None = None,
    factor_names: Sequence[str] | None = None,
    leave_out: Sequence[int | str] = (),
) -> Inputs:
    """Check the arguments that metrics share.

    A factor with a single value has no entropy and cannot be held fixed against others, so it is
    left out of every score, as are the factors that `leave_out` names or numbers.
    """
    z = as_codes(codes).astype(np.float64)
    v = as_factors(factors, rows=len(z))
    mask = as_mask("discrete", discrete, z.shape[1])
    names = as_names(factor_names, v.shape[1])
    for j in np.flatnonzero(mask):
        z[:, j] = np.unique(z[:, j], return_inverse=True)[1]
    v = np.stack([np.unique(column, return_inverse=True)[1] for column in v.T], 1)
    sizes = v.max(0) + 1
    unwanted = {_factor_index(which, names) for which in leave_out}
    scored = [k for k in range(len(names)) if sizes[k] > 1 and k not in unwanted]
    if not scored:
        raise ValueError(
            "expected a factor that takes at least two values and is not left out, got none "
            f"among {', '.join(names)}: give rows that differ in a factor"
        )
    left_out = tuple(name for k, name in enumerate(names) if k not in scored)
    return Inputs(z, v, sizes, mask, names, np.array(scored), left_out)


def as_codes(codes: ArrayLike) -> NDArray[np.floating[Any]]:
    """Codes (N, D) as float32 or float64, finite, with at least two rows and one column."""
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


def as_factors(factors: ArrayLike, *, rows: int, least: int = 1) -> Ints:
    """Factors (N, K) as integers, one row for each row of the codes."""
    v = np.asarray(factors)
    if v.ndim != 2 or v.shape[1] < least:
        raise ValueError(
            f"expected factors of shape (N, K) with K >= {least}, got {v.shape}: "
            "give one column for each factor"
        )
    if v.dtype.kind not in "iub" and v.size:
        raise ValueError(
            f"expected factors that are integers, got {v.dtype}: number the values, for instance "
            "by numpy.unique(column, return_inverse=True)[1]"
        )
    if len(v) != rows:
        raise ValueError(
            f"expected as many rows of factors as of codes, got {len(v)} and {rows}: "
            "row n of both must describe the same observation"
        )
    return v.astype(np.int64)


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


def _finite(what: str, values: NDArray[np.floating[Any]]) -> None:
    bad = ~np.isfinite(values)
    if bad.any():
        columns = np.flatnonzero(bad.reshape(-1, values.shape[-1]).any(0)).tolist()
        raise ValueError(
            f"expected finite {what}, got NaN or infinity in columns {columns}: check the encoder"
        )


def _factor_index(which: int | str, names: tuple[str, ...]) -> int:
    if which in names:
        return names.index(str(which))
    if isinstance(which, int) and 0 <= which < len(names):
        return which
    raise ValueError(
        f"expected leave_out to name factors among {', '.join(names)} or to number them from 0, "
        f"got {which!r}"
    )
