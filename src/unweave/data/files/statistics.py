"""Statistics of arrays of any size: range, checksum, moments and order statistics."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from unweave.data.files.rows import Array, Rows, blocks

Floats = NDArray[np.float64]
View = Callable[[Array], Array]  # from rows (n, ...) to values (n, groups, values per group)

_BITS = 32  # of a float32
_HISTOGRAM = 2**24  # counters in memory at once


class Scan(NamedTuple):
    """The range and checksum of all values of an array."""

    low: float
    high: float
    broken: int | None  # first observation with NaN or infinity
    checksum: int
    whole: bool  # whether all values are whole numbers


def scan(rows: Rows) -> Scan:
    """Compute the range and checksum of all values, and find the first that is not finite."""
    low, high, broken, checksum, whole = np.inf, -np.inf, None, 0, True
    for start, block in blocks(rows):
        checksum = zlib.crc32(np.ascontiguousarray(block).data, checksum)
        if block.dtype.kind not in "biuf" or not block.size:
            continue
        with np.errstate(over="ignore"):
            block = block.astype(np.float32, copy=False) if block.dtype.kind == "f" else block
        least, most = block.min(), block.max()
        low, high = min(low, float(least)), max(high, float(most))
        if broken is None and not np.isfinite([least, most]).all():
            wrong = ~np.isfinite(block.reshape(len(block), -1)).all(1)
            broken = start + int(wrong.argmax())
        whole = whole and (block.dtype.kind != "f" or bool((block == np.rint(block)).all()))
    return Scan(low, high, broken, checksum, whole)


def moments(rows: Rows, view: View) -> tuple[list[float], list[float]]:
    """Return the mean and standard deviation of each group of values.

    A constant group has exactly the standard deviation 0.
    """
    count, mean, squares, low, high = 0, *(np.zeros(1) for _ in range(4))
    for values in _viewed(rows, view):
        values = values.astype(np.float64)
        size, here = values.shape[0] * values.shape[2], values.mean((0, 2))
        distance = here - mean
        # Chan, Golub and LeVeque: moments of two parts give those of the whole.
        mean = mean + distance * (size / (count + size))
        squares = squares + ((values - here[:, None]) ** 2).sum((0, 2))
        squares = squares + distance**2 * (count * size / (count + size))
        least, most = values.min((0, 2)), values.max((0, 2))
        low, high = (np.minimum(low, least), np.maximum(high, most)) if count else (least, most)
        count += size
    constant = low == high
    stddev = np.where(constant, 0.0, np.sqrt(squares / count))
    return np.where(constant, low, mean).tolist(), stddev.tolist()


def percentiles(rows: Rows, view: View, share: float) -> tuple[list[float], list[float]]:
    """Return for each group the values below and above which at most a share of it lies.

    If these are equal, as in images that are black almost everywhere, return the least and the
    greatest value of the group instead.
    """
    count = rows.shape[0] * view(rows.read(0, 1)).shape[2]
    tail = int(share * (count - 1))
    least, low, high, most = order_statistics(rows, view, [0, tail, count - 1 - tail, count - 1])
    same = low == high
    return np.where(same, least, low).tolist(), np.where(same, most, high).tolist()


def order_statistics(rows: Rows, view: View, ranks: list[int]) -> Floats:
    """Return the values of given ranks, counted from 0, in each group: (ranks, groups).

    A radix selection: each pass over the rows counts the next digits of the values that begin with
    the digits found so far. The result is exact for integers of up to 16 bits, after one pass, and
    exact to the precision of float32 for other numbers, after two passes unless there are many
    groups.
    """
    groups = view(rows.read(0, 1)).shape[1]
    short = rows.dtype.kind in "biu" and rows.dtype.itemsize <= 2
    width = 16 if short else _BITS
    step = max(1, min(16, (_HISTOGRAM // (groups * len(ranks))).bit_length() - 1))
    prefix = np.zeros((len(ranks), groups), np.int64)
    left = np.repeat(np.array(ranks)[:, None], groups, axis=1)
    while width:
        digits = min(step, width)
        width -= digits
        counts = np.zeros((len(ranks), groups << digits), np.int64)
        for values in _viewed(rows, view):
            keys = _short_keys(values) if short else _float_keys(values)
            head = keys >> (width + digits)
            places = ((keys >> width) & ((1 << digits) - 1)) + (
                np.arange(groups)[:, None] << digits
            )
            for rank, wanted in enumerate(prefix):
                if rank and (wanted == prefix[rank - 1]).all():
                    counts[rank] = counts[rank - 1]
                    continue
                chosen = places[head == wanted[:, None]]
                counts[rank] += np.bincount(chosen, minlength=groups << digits)
        below = counts.reshape(len(ranks), groups, -1).cumsum(-1)
        digit = (below <= left[..., None]).sum(-1)
        before = np.take_along_axis(below, np.maximum(digit - 1, 0)[..., None], -1)[..., 0]
        left = left - np.where(digit > 0, before, 0)
        prefix = prefix << digits | digit
    return _short_values(prefix, rows.dtype) if short else _float_values(prefix)


def _viewed(rows: Rows, view: View) -> Iterator[Array]:
    for _, block in blocks(rows):
        yield view(block)


def _short_keys(values: Array) -> NDArray[np.int64]:
    return values.astype(np.int64) - _least(values.dtype)


def _short_values(keys: NDArray[np.int64], dtype: np.dtype[Any]) -> Floats:
    return (keys + _least(dtype)).astype(np.float64)


def _least(dtype: np.dtype[Any]) -> int:
    """Return the least integer of a type, whose key is 0."""
    return int(np.iinfo(dtype).min) if dtype.kind == "i" else 0


def _float_keys(values: Array) -> NDArray[np.int64]:
    """Return the bits of numbers as float32, changed so that they are ordered as the numbers."""
    bits = (values.astype(np.float32) + 0).view(np.uint32).astype(np.int64)  # -0 + 0 is 0
    negative = bits >> 31 == 1
    return np.where(negative, 0xFFFFFFFF - bits, bits + 0x80000000)


def _float_values(keys: NDArray[np.int64]) -> Floats:
    bits = np.where(keys < 0x80000000, 0xFFFFFFFF - keys, keys - 0x80000000).astype(np.uint32)
    return bits.view(np.float32).astype(np.float64)
