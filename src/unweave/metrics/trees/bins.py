"""Codes in bins, for trees: sums over bins, and the rows within each bin."""

from dataclasses import dataclass

import numpy as np
from scipy.sparse import csr_array

from unweave.metrics.arrays import Bools, Floats, Ints

BINS = 100  # of about equally many rows, if a code has more than twice as many values


@dataclass(frozen=True)
class Bins:
    """N rows of D codes, each code in at most B bins, in the order of its values.

    All rows with the same value are in the same bin. If a code has few values, each has its own
    bin; otherwise bins have about equally many rows, except for more frequent values.
    """

    order: Ints  # (D, N) the rows sorted by each code
    values: Floats  # (D, N) the codes in that order
    bin: Ints  # (D, N) the bin of each row
    end: Ints  # (D, B) number of rows in the bin or below
    slots: Ints  # (D, B, W) the rows of a bin in order, padded by arbitrary rows
    breaks: Bools  # (D, B, W) whether a threshold can follow the slot within the bin
    divisible: Bools  # (D, B) bins with different values
    onehot: csr_array  # (D * B, N) row d * B + b has a 1 at the rows with code d in bin b

    def cumulate(self, numbers: Floats) -> Floats:
        """Sum (T, N) over the rows with code d in bin b or below, (T, D, B)."""
        sums = np.ascontiguousarray((self.onehot @ np.ascontiguousarray(numbers.T)).T)
        cumulated: Floats = np.cumsum(sums.reshape(-1, *self.end.shape), axis=2)
        return cumulated

    def total(self, groups: int, group: Ints, rows: Ints, numbers: Floats) -> Floats:
        """Sum numbers (P,) by group and by the bins of their rows, (groups, D, B)."""
        dims, width = self.end.shape
        at = (group * dims + np.arange(dims)[:, None]) * width + self.bin[:, rows]
        sums = np.bincount(at.ravel(), np.tile(numbers, dims), minlength=groups * dims * width)
        # Without any numbers, bincount returns integers.
        return sums.astype(np.float64).reshape(groups, dims, width)

    def rows_below(self, code: Ints, bins: Ints) -> Ints:
        """Count the rows in lower bins of a code than the given ones."""
        below: Ints = np.where(bins > 0, self.end[code, bins - 1], 0)
        return below


def bin_codes(codes: Floats) -> Bins:
    """Put codes (N, D) into bins."""
    order = np.argsort(codes.T, axis=1, kind="stable")
    values = np.take_along_axis(codes.T, order, axis=1)
    starts = [_starts(column) for column in values]
    dims, rows, width = len(order), len(codes), max(map(len, starts))
    end = np.full((dims, width), rows)
    place = np.empty((dims, rows), dtype=np.int64)
    for d, start in enumerate(starts):
        end[d, : len(start) - 1] = start[1:]
        place[d, order[d]] = np.repeat(np.arange(len(start)), np.diff(start, append=rows))
    slots, breaks = _slots(order, values, end)
    divisible: Bools = np.any(breaks, axis=2)
    at = ((place + width * np.arange(dims)[:, None]).ravel(), np.tile(np.arange(rows), dims))
    onehot = csr_array((np.ones(rows * dims), at), shape=(dims * width, rows))
    return Bins(order, values, place, end, slots, breaks, divisible, onehot)


def _starts(values: Floats) -> Ints:
    """Return where bins begin in sorted values (N,), always at a change of value."""
    change = np.flatnonzero(np.diff(values, prepend=-np.inf))
    if len(change) <= 2 * BINS:
        return change
    size = len(values) / BINS
    even = change[np.searchsorted(change, np.arange(BINS) * size).clip(max=len(change) - 1)]
    runs = np.diff(change, append=len(values))
    long = runs >= size
    alone = np.concatenate([change[long], (change + runs)[long]])
    return np.unique(np.concatenate([even, alone[alone < len(values)]]))


def _slots(order: Ints, values: Floats, end: Ints) -> tuple[Ints, Bools]:
    """Return the rows of each bin, and after which of them another value follows in the bin.

    Bins of a single value need no slots, which keeps the slots of the others narrow.
    """
    start = np.concatenate([np.zeros((len(end), 1), dtype=np.int64), end[:, :-1]], 1)
    at = np.take_along_axis(values, start.clip(max=values.shape[1] - 1), 1)
    several = (end > start) & (np.take_along_axis(values, (end - 1).clip(0), 1) > at)
    size = np.where(several, end - start, 0)
    place = start[:, :, None] + np.arange(max(1, size.max()))
    within = place + 1 < (start + size)[:, :, None]
    place = place.clip(max=values.shape[1] - 1).reshape(len(end), -1)
    after = (place + 1).clip(max=values.shape[1] - 1)
    differs = np.take_along_axis(values, after, 1) > np.take_along_axis(values, place, 1)
    slots = np.take_along_axis(order, place, 1).reshape(within.shape)
    return slots, within & differs.reshape(within.shape)
