"""Codes in bins, for trees: sums over bins at once, and what is inside a bin where that matters."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.sparse import csr_array

from unweave.metrics.inputs import Bools, Floats, Ints

BINS = 100  # of about as many rows each, where a code has more than twice as many values


@dataclass(frozen=True)
class Bins:
    """N rows of D codes, each code in B bins or fewer, in the order of its values.

    A bin holds all rows of its values. Where a code has few values, each has its own bin; otherwise
    bins hold about as many rows each, but for values that are more frequent than that.
    """

    order: Ints  # (D, N) the rows, by the values of each code
    values: Floats  # (D, N) in that order
    bin: Ints  # (D, N) of each row
    end: Ints  # (D, B) how many rows are in the bin or below
    slots: Ints  # (D, B, W) the rows of a bin in order, then anything
    breaks: Bools  # (D, B, W) whether a threshold can follow the slot, within the bin
    divisible: Bools  # (D, B) the bins that hold different values
    onehot: csr_array  # (D * B, N): row d * B + b has a 1 at the rows with code d in bin b

    def cumulated(self, numbers: Floats) -> Floats:
        """Sums of (T, N) over the rows with code d in bin b or below, (T, D, B)."""
        sums = np.ascontiguousarray((self.onehot @ np.ascontiguousarray(numbers.T)).T)
        cumulated: Floats = np.cumsum(sums.reshape(-1, *self.end.shape), axis=2)
        return cumulated

    def total(self, groups: int, group: Ints, rows: Ints, numbers: Floats) -> Floats:
        """Sums of numbers (P,) by their group and by the bins of their rows, (groups, D, B)."""
        dims, width = self.end.shape
        at = (group * dims + np.arange(dims)[:, None]) * width + self.bin[:, rows]
        sums = np.bincount(at.ravel(), np.tile(numbers, dims), minlength=groups * dims * width)
        return sums.astype(np.float64).reshape(groups, dims, width)  # of no numbers, integers

    def before(self, code: Ints, number: Ints) -> Ints:
        """How many rows are in lower bins of a code than the numbered ones."""
        before: Ints = np.where(number > 0, self.end[code, number - 1], 0)
        return before


def bins_of(codes: Floats) -> Bins:
    """The bins of codes (N, D)."""
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
    """Where bins begin in sorted values (N,): always at another value."""
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
    """The rows of each bin side by side, and after which of them another value follows in it.

    Bins of a single value need no slots, so that they do not make those of the others wide.
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
