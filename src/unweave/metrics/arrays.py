"""Check arrays that metrics take, and convert them.

These functions raise a `ValueError` that says what was expected, what came and what to do.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unweave.core.memory import main_memory

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]
Seed = int | np.random.Generator

_HUGE = 1e100  # squares of such numbers, and sums of the squares, are still finite


def as_codes(codes: ArrayLike) -> NDArray[np.floating[Any]]:
    """Return codes (N, D) as float32 or float64: finite, at least two rows and one column."""
    z = _as_array("codes", codes)
    if z.dtype.kind not in "fiub":
        raise ValueError(f"expected codes that are real numbers, got {z.dtype}: convert to float")
    if z.ndim != 2 or z.shape[0] < 2 or z.shape[1] < 1:
        raise ValueError(
            f"expected codes of shape (N, D) with N >= 2 rows and D >= 1 columns, got {z.shape}: "
            "give one row for each observation"
        )
    z = z if z.dtype in (np.float32, np.float64) else z.astype(np.float64)
    _check_finite("codes", z)
    return z


def as_factors(
    factors: ArrayLike, *, rows: int, least: int = 1, missing: bool = False
) -> NDArray[Any]:
    """Return factors (N, K), one row for each row of codes: int64 if all are whole, or float64.

    NaN, a missing label, is refused unless `missing`; with it, the factors are float64.
    """
    v = _as_array("factors", factors)
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
        _check_finite("factors", np.nan_to_num(v) if missing else v, "leave such rows out")
        if real_factors(v).any() or np.isnan(v).any():
            return v.astype(np.float64)
    return v.astype(np.int64)


def real_factors(factors: NDArray[Any]) -> Bools:
    """Return a mask (K,) of the factors with a value that is not a whole number."""
    if factors.dtype.kind != "f":
        return np.zeros(factors.shape[1], dtype=np.bool_)
    mask: Bools = ((factors != np.rint(factors)) & ~np.isnan(factors)).any(0)
    return mask


def _as_array(name: str, given: ArrayLike) -> NDArray[Any]:
    """Return an array without masked entries that fits in memory."""
    if np.ma.is_masked(given):
        raise ValueError(
            f"expected {name} without masked entries, got a masked array: leave such rows out"
        )
    array = np.asarray(given)
    # A strided view may claim more memory than it has.
    if array.nbytes > main_memory():
        raise ValueError(f"expected {name} that fit in memory, got shape {array.shape}")
    return array


def as_scales(scales: ArrayLike, shape: tuple[int, ...]) -> NDArray[np.floating[Any]]:
    """Return posterior standard deviations (N, D), which must be positive."""
    s = np.asarray(scales)
    if s.shape != shape or s.dtype.kind not in "fiu":
        raise ValueError(
            f"expected scales of the shape of the codes, {shape}, got {s.shape} of {s.dtype}: "
            "give the standard deviation of q(z_j|x_n) for each code"
        )
    s = s if s.dtype in (np.float32, np.float64) else s.astype(np.float64)
    _check_finite("scales", s)
    if (s <= 0).any():
        raise ValueError(
            f"expected positive scales, got {s.min()}: give standard deviations, not their "
            "logarithms, and a floor where the encoder has none"
        )
    return s


def as_kl(kl: ArrayLike, dims: int) -> Floats:
    """Return the mean KL(q(z_j|x) || p(z_j)) of each code in nats, (D,)."""
    values = np.asarray(kl)
    if values.shape != (dims,) or values.dtype.kind not in "fiub":
        raise ValueError(
            f"expected kl of shape ({dims},), one mean for each code, got {values.shape} of "
            f"{values.dtype}: "
            "average KL(q(z_j|x) || p(z_j)) over the data"
        )
    values = values.astype(np.float64)
    _check_finite("kl", values)
    return values


def as_mask(what: str, given: ArrayLike | None, dims: int) -> Bools:
    """Return a mask (D,) of codes, such as those that are categories; by default none."""
    if given is None:
        return np.zeros(dims, dtype=np.bool_)
    mask = np.asarray(given)
    if mask.shape != (dims,) or mask.dtype != np.bool_:
        raise ValueError(
            f"expected {what} as {dims} booleans, one for each code, got {mask.dtype} of shape "
            f"{mask.shape}"
        )
    return mask


def as_row_mask(what: str, given: ArrayLike, rows: int) -> Bools:
    """Return a mask (N,) of rows from a mask or from the indices of the rows.

    >>> as_row_mask("test_rows", [0, 3], 4)
    array([ True, False, False,  True])
    """
    chosen = np.asarray(given)
    if chosen.dtype == np.bool_ and chosen.shape == (rows,):
        return chosen
    inside = chosen.dtype.kind in "iu" and chosen.ndim == 1 and len(chosen) > 0
    if not inside or chosen.min() < 0 or chosen.max() >= rows or len(set(chosen)) < len(chosen):
        raise ValueError(
            f"expected {what} as a mask of {rows} booleans or as different indices from 0 to "
            f"{rows - 1}, got {chosen.dtype} of shape {chosen.shape}"
        )
    mask = np.zeros(rows, dtype=np.bool_)
    mask[chosen] = True
    return mask


def as_names(names: Sequence[str] | None, count: int) -> tuple[str, ...]:
    """Return the names of the factors; by default `factor 0`, `factor 1`, ..."""
    if not names:
        return tuple(f"factor {k}" for k in range(count))
    if len(names) != count or len(set(names)) != count:
        raise ValueError(
            f"expected {count} different factor names, one for each column of the factors, got "
            f"{len(names)}: {', '.join(map(str, names))}"
        )
    return tuple(map(str, names))


def as_texts(given: NDArray[Any] | None) -> tuple[str, ...]:
    """Return an array of names as texts; () if there is none."""
    return () if given is None else tuple(map(str, given.reshape(-1).tolist()))


def subset(rows: int, size: int, rng: np.random.Generator) -> Ints:
    """Choose `size` different rows at random; return all rows in order if `rows <= size`."""
    if size < 2:
        raise ValueError(f"expected at least 2 rows to estimate from, got {size}")
    return np.arange(rows) if rows <= size else rng.choice(rows, size, replace=False)


def as_seed(seed: Seed) -> int:
    """Return an integer seed; a generator draws one."""
    return int(seed.integers(2**31)) if isinstance(seed, np.random.Generator) else int(seed)


def _check_finite(
    what: str, values: NDArray[np.floating[Any]], remedy: str = "check the encoder"
) -> None:
    bad = ~np.isfinite(values)
    if bad.any():
        columns = np.flatnonzero(bad.reshape(-1, values.shape[-1]).any(0)).tolist()
        raise ValueError(
            f"expected finite {what}, got NaN or infinity in columns {columns}: {remedy}"
        )


def check_magnitude(z: Floats) -> None:
    """Raise if squares of codes, or of their differences, overflow or vanish."""
    low, high = z.min(0), z.max(0)
    size, extent = np.maximum(np.abs(low), np.abs(high)), high / 2 - low / 2
    bad = (size > _HUGE) | ((extent < 1 / _HUGE) & (high > low))
    if bad.any():
        raise ValueError(
            f"expected codes of at most {_HUGE:g} that are constant or differ by at least "
            f"{1 / _HUGE:g}, got others in columns {np.flatnonzero(bad).tolist()}: rescale them"
        )
