"""Statistics of arrays of any size: range, checksum, moments and order statistics."""

import zlib
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from unweave.data.files.rows import Array, Rows, blocks

Floats = NDArray[np.float64]
View = Callable[[Array], Array]  # of rows (n, ...), as values (n, groups, values) in `moments`

_SMOOTH = 0.55  # autocorrelation above which rows may be curves
_NEARER = 0.2  # by which neighbouring columns of curves are more correlated than distant ones
_HISTOGRAM = 2**24  # counters in memory at once


class Scan(NamedTuple):
    """The range and checksum of all values of an array."""

    low: float
    high: float
    broken: int | None  # first observation with NaN or infinity
    checksum: int
    whole: bool  # whether all values are whole numbers


def scan(rows: Rows, arrange: View) -> Scan:
    """Compute the range and checksum of all values, and find the first that is not finite.

    The checksum is that of the arranged values in the byte order of this machine, so that it does
    not depend on the container, the order in memory or the place of the channels.
    """
    low, high, broken, checksum, whole = np.inf, -np.inf, None, 0, True
    for start, block in blocks(rows):
        if block.dtype.kind not in "biuf" or not block.size:
            continue
        native = np.ascontiguousarray(arrange(block), block.dtype.newbyteorder("="))
        checksum = zlib.crc32(native.data, checksum)
        with np.errstate(over="ignore"):
            block = block.astype(np.float32, copy=False) if block.dtype.kind == "f" else block
        least, most = block.min(), block.max()
        low, high = min(low, float(least)), max(high, float(most))
        if broken is None and not np.isfinite([least, most]).all():
            wrong = ~np.isfinite(block.reshape(len(block), -1)).all(1)
            broken = start + int(wrong.argmax())
        whole = whole and (block.dtype.kind != "f" or bool((block == np.rint(block)).all()))
    return Scan(low, high, broken, checksum, whole)


class NotFinite(NamedTuple):
    """Where an array has NaN or infinity as float32."""

    cells: int
    rows: int
    columns: list[int]  # indices of the groups of values that are affected
    first: tuple[int, ...]  # observation, group, and place in it


def find_not_finite(rows: Rows, view: View) -> NotFinite:
    """Count the values that are not finite, and find the first; there has to be one."""
    cells, affected, columns = 0, 0, np.zeros(1, np.bool_)
    first: tuple[int, ...] = ()
    for start, block in blocks(rows):
        with np.errstate(over="ignore"):
            wrong = ~np.isfinite(view(block).astype(np.float32))
        cells += int(wrong.sum())
        affected += int(wrong.any((1, 2)).sum())
        columns = columns | wrong.any((0, 2))
        if not first and wrong.any():
            place = np.unravel_index(int(wrong.argmax()), wrong.shape)
            first = (start + int(place[0]), *map(int, place[1:]))
    return NotFinite(cells, affected, np.flatnonzero(columns).tolist(), first)


def moments(rows: Rows, view: View) -> tuple[list[float], list[float]]:
    """Return the mean and standard deviation of each group of values.

    A constant group has exactly the standard deviation 0.
    """
    count, mean, squares, low, high = 0, *(np.zeros(1) for _ in range(4))
    for values in _viewed(rows, view):
        values = values.astype(np.float64, order="C")  # sums depend on the order in memory
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


class Neighbours(NamedTuple):
    """How alike the columns of vectors are if they are neighbours, and if they are not."""

    smoothness: float  # lag-1 autocorrelation of centred rows, in which large columns count most
    correlation: float  # mean of neighbouring columns
    distant: float  # mean size of the correlation of columns half of all columns apart

    @property
    def are_curves(self) -> bool:
        """Whether rows look like samples of smooth curves."""
        return self.smoothness > _SMOOTH and self.correlation > self.distant + _NEARER


def neighbours(values: Array) -> Neighbours:
    """Correlate the neighbouring columns of vectors (N, D), without constant columns.

    >>> grid, shift = np.linspace(0, 9, 40), np.linspace(0, 6, 30)[:, None]
    >>> neighbours(np.sin(grid + shift)).are_curves
    True
    """
    centred = values.astype(np.float64) - values.mean(0, dtype=np.float64)
    centred = centred[:, values.max(0) > values.min(0)]
    columns = centred.shape[1]
    if columns < 2:
        return Neighbours(0.0, 0.0, 0.0)
    variance = np.square(centred).mean(0)
    near = (centred[:, 1:] * centred[:, :-1]).mean(0)
    far = (centred * np.roll(centred, columns // 2, 1)).mean(0)
    stddev = np.sqrt(variance)
    return Neighbours(
        float(2 * near.sum() / (variance[1:] + variance[:-1]).sum()),
        float((near / (stddev[1:] * stddev[:-1])).mean()),
        float(np.abs(far / (stddev * np.roll(stddev, columns // 2))).mean()),
    )


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
    # The least integer of the type has the key 0.
    least = int(np.iinfo(rows.dtype).min) if rows.dtype.kind == "i" else 0
    width = bits = 16 if short else 32  # of a key; width of them are not known yet
    step = max(1, min(16, (_HISTOGRAM // (groups * len(ranks))).bit_length() - 1))
    prefix = np.zeros((len(ranks), groups), np.uint32)
    left = np.repeat(np.array(ranks)[:, None], groups, axis=1)
    while width:
        digits = min(step, width)
        width -= digits
        counts = np.zeros((len(ranks), groups << digits), np.int64)
        group = np.arange(groups)[:, None] << digits
        known = [n for n in range(len(ranks)) if n == 0 or (prefix[n] != prefix[n - 1]).any()]
        for values in _viewed(rows, view):
            integers = values.astype(np.int32) - least if short else None
            keys = _float_keys(values) if integers is None else integers.astype(np.uint32)
            tail = keys >> np.uint32(width)
            places = (tail & np.uint32((1 << digits) - 1)) + group
            for rank in known:
                chosen = places.reshape(-1)
                if width + digits < bits:  # not the first digits, which are counted of all values
                    chosen = places[tail >> np.uint32(digits) == prefix[rank][:, None]]
                counts[rank] += np.bincount(chosen, minlength=groups << digits)
        for rank in range(1, len(ranks)):
            if rank not in known:
                counts[rank] = counts[rank - 1]
        below = counts.reshape(len(ranks), groups, -1).cumsum(-1)
        digit = (below <= left[..., None]).sum(-1)
        before = np.take_along_axis(below, np.maximum(digit - 1, 0)[..., None], -1)[..., 0]
        left = left - np.where(digit > 0, before, 0)
        prefix = prefix << np.uint32(digits) | digit.astype(np.uint32)
    return prefix.astype(np.float64) + least if short else _float_values(prefix)


def _viewed(rows: Rows, view: View) -> Iterator[Array]:
    for _, block in blocks(rows):
        yield view(block)


def _float_keys(values: Array) -> NDArray[np.uint32]:
    """Return the bits of numbers as float32, changed so that they are ordered as the numbers."""
    bits = (values.astype(np.float32) + 0).view(np.int32)  # -0 + 0 is 0
    return (bits ^ (bits >> 31 | np.int32(-(2**31)))).view(np.uint32)


def _float_values(keys: NDArray[np.uint32]) -> Floats:
    bits = keys.view(np.int32)
    bits = bits ^ (~(bits >> 31) | np.int32(-(2**31)))
    return bits.view(np.float32).astype(np.float64)
