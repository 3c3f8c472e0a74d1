"""Gradient-boosted trees on codes; the trees of all classes of a factor are grown together.

They are the trees of scikit-learn's `GradientBoostingClassifier` with its defaults.  [Friedman2001]
A hundred rounds of forty trees take seconds: the sums of residuals over the rows in each bin of
each code, for all trees of a round, are one sparse matrix product, and thresholds within a bin are
tried only if they could be better than the best between bins. So the splits are those of all
thresholds.

Residuals are integer multiples of a small unit, and a row's residual and its count are packed into
one number. All sums are therefore exact: trees do not depend on the order of summation, and ties
between codes that split a node equally well are detected.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
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
        return np.cumsum(sums.reshape(-1, *self.end.shape), axis=2)

    def total(self, groups: int, group: Ints, rows: Ints, numbers: Floats) -> Floats:
        """Sum numbers (P,) by group and by the bins of their rows, (groups, D, B)."""
        dims, width = self.end.shape
        at = (group * dims + np.arange(dims)[:, None]) * width + self.bin[:, rows]
        sums = np.bincount(at.ravel(), np.tile(numbers, dims), minlength=groups * dims * width)
        # Without any numbers, bincount returns integers.
        return sums.astype(np.float64).reshape(groups, dims, width)

    def rows_below(self, code: Ints, bins: Ints) -> Ints:
        """Count the rows in lower bins of a code than the given ones."""
        return np.where(bins > 0, self.end[code, bins - 1], 0)


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


DEPTH = 3
ROWS = 200_000  # with more, too few bits of a double remain for a residual
_TREES = 20  # grown at once, at most: their sums stay in the cache

Nodes = NDArray[np.uint8]


class Boosted(NamedTuple):
    """Importances and predictions of boosted trees."""

    importances: Floats  # (D,) mean decrease of impurity, with sum 1; 0 if no tree splits
    predicted: Ints  # (N + M,) predicted labels of the training rows, then of the test rows


class _Residuals(NamedTuple):
    """The residuals that T trees are fitted to, packed so that sums are exact."""

    packed: Floats  # (T, N) residuals in units, plus `row` for each row
    owner: Ints  # (P,) trees and
    rows: Ints  # (P,) rows of the positive residuals, those of the tree's class
    unit: float
    row: float

    def unpack(self, sums: Floats) -> tuple[Floats, Floats]:
        """Unpack sums: return the counts of rows, and the sums of residuals in units."""
        n = np.rint(sums * (1 / self.row))
        return n, sums - n * self.row

    def sum_positive(self, bins: Bins, inside: Bools) -> Floats:
        """Sum the positive residuals over the rows `inside` (T, N) in each bin, (T, D, B)."""
        kept = inside[self.owner, self.rows]
        owner, rows = self.owner[kept], self.rows[kept]
        return bins.total(len(inside), owner, rows, self.packed[owner, rows] - self.row)


class _Node(NamedTuple):
    """One node of each of T trees, in bins."""

    inside: Bools  # (T, N) its rows
    sums: Floats  # (T, D, B) packed sums over the rows in each bin and below
    n: Floats  # (T, D, B) number of these rows
    s: Floats  # (T, D, B) sum of their residuals in units
    rows: Floats  # (T, 1, 1) number of all rows of the node
    total: Floats  # (T, 1, 1) sum of their residuals


class _Splits(NamedTuple):
    """The best split of one node of each of T trees."""

    code: Ints  # (T,)
    position: Ints  # (T,) number of rows, in the order of the code, that go left
    gain: Floats  # (T,) sum of squares explained by the split
    left: Floats  # (T,) sums of the residuals on either side, in units
    right: Floats


def boost(
    train: Floats,
    labels: Ints,
    test: Floats,
    rng: np.random.Generator,
    *,
    rounds: int = 100,
    rate: float = 0.1,
) -> Boosted:
    """Fit boosted trees of depth 3 that predict the label of a row from its codes.

    F_c starts as the log frequency of class c. Each round adds `rate` times a tree for each class,
    fitted to r = [y = c] - softmax(F)_c by least squares, with leaves (C-1)/C sum r / sum p (1-p);
    two classes share one tree, of F = log p/(1-p) and leaves sum r / sum p (1-p).  [Friedman2001]
    Ties between codes that split a node equally well are broken at random.

    Args:
        train: (N, D) codes.
        labels: (N,) integers.
        test: (M, D) codes of further rows to predict.
        rng: breaks ties.
        rounds: trees per class.
        rate: learning rate.

    Returns:
        Importances (D,) and the predicted labels (N + M,) of all rows.
    """
    if len(train) > ROWS:
        raise ValueError(f"expected at most {ROWS} rows to train on, got {len(train)}: give fewer")
    classes, y = np.unique(labels, return_inverse=True)
    dims, rows = train.shape[1], len(train)
    if len(classes) == 1 or dims == 0:
        most = classes[np.bincount(y).argmax()]
        return Boosted(np.zeros(dims), np.full(rows + len(test), most))
    bins = bin_codes(train)
    codes = np.ascontiguousarray(np.concatenate([train, test]).T)
    target = (y == np.arange(len(classes))[:, None])[1 if len(classes) == 2 else 0 :]
    prior = np.log(target.mean(1))
    if len(classes) == 2:
        prior -= np.log1p(-target.mean(1))
    f = np.repeat(prior[:, None], codes.shape[1], axis=1)  # (C, N + M)
    blocks = np.array_split(np.arange(len(f)), -(-len(f) // _TREES))
    shrink = rate * (1.0 if len(f) == 1 else 1 - 1 / len(f))
    decrease = np.zeros(dims)
    for _ in range(rounds):
        p = _probabilities(f[:, :rows])
        for block in blocks:
            gains, steps = grow(bins, codes, target[block], p[block], rng)
            decrease += gains
            f[block] += shrink * steps
    total = decrease.sum()
    importances = decrease / total if total > 0 else decrease
    return Boosted(importances, classes[f.argmax(0) if len(f) > 1 else (f[0] > 0).astype(np.int64)])


def _probabilities(f: Floats) -> Floats:
    """Compute softmax(F) over the classes (C, N), or the logistic function of a single F."""
    if len(f) == 1:
        return 1 / (1 + np.exp(-f))
    p: Floats = np.exp(f - f.max(0))
    p /= p.sum(0)
    return p


def grow(
    bins: Bins, codes: Floats, target: Bools, p: Floats, rng: np.random.Generator
) -> tuple[Floats, Floats]:
    """Grow a tree for each class (T, N); return gains of codes (D,) and leaf values (T, N + M).

    A leaf has the value sum r / sum p (1 - p), or 0 if the denominator vanishes.
    """
    residuals = _residuals(target, p)
    at = np.zeros((len(target), codes.shape[1]), dtype=np.uint8)
    train = at[:, : target.shape[1]]
    gains = np.zeros(len(codes))
    sums = [bins.cumulate(residuals.packed)]
    for depth in range(DEPTH):
        if depth:
            sums = _children(bins, sums, residuals, train)
        nodes = [_node(residuals, train == number, each) for number, each in enumerate(sums)]
        splits = [_best_splits(bins, node, residuals, rng) for node in nodes]
        for split in splits:
            np.add.at(gains, split.code, split.gain)
        _descend(at, bins, codes, splits)
    sides = [side for split in splits for side in (split.left, split.right)]
    return gains, _leaves(np.stack(sides, 1) / residuals.unit, at, p * (1 - p))


def _residuals(target: Bools, p: Floats) -> _Residuals:
    bits = target.shape[1].bit_length()
    # N rows of residuals and counts fit into 53 bits, and so do the products in `_gain`.
    unit, row = 2.0 ** (52 - 2 * bits), 2.0 ** (53 - bits)
    owner, rows = np.nonzero(target)
    return _Residuals(np.rint((target - p) * unit) + row, owner, rows, unit, row)


def _children(
    bins: Bins, parents: list[Floats], residuals: _Residuals, node: Nodes
) -> list[Floats]:
    """Return the cumulated sums of the children of each node, left and right."""
    children = []
    for number, parent in enumerate(parents):
        left = bins.cumulate(residuals.packed * (node == 2 * number))
        children += [left, parent - left]
    return children


def _node(residuals: _Residuals, inside: Bools, sums: Floats) -> _Node:
    n, s = residuals.unpack(sums)
    return _Node(inside, sums, n, s, n[:, :1, -1:], s[:, :1, -1:])


def _best_splits(
    bins: Bins, node: _Node, residuals: _Residuals, rng: np.random.Generator
) -> _Splits:
    """Find the best split: between bins, unless one within a bin is better."""
    gain = _gain(node.n, node.s, node.rows, node.total)
    between = gain.max(2)  # (T, D)
    t, d, b = _promising(bins, node, residuals, between.max(1)[:, None, None])
    n, s = _within(bins, node, residuals, (t, d, b))
    finer = _gain(n, s, node.rows[t, 0], node.total[t, 0])  # (Q, W)
    finer[~bins.breaks[d, b]] = -1
    finest, best = finer.max(1), between.copy()
    np.maximum.at(best, (t, d), finest)
    most = best.max(1)
    code = np.where(best == most[:, None], rng.random(best.shape), -1.0).argmax(1)
    trees = np.arange(len(most))
    number = gain[trees, code].argmax(1)
    position, left = bins.end[code, number], node.s[trees, code, number]
    better = np.flatnonzero((finest == most[t]) & (code[t] == d) & (between[t, d] < most[t]))
    slot = finer[better].argmax(1)
    position[t[better]] = bins.rows_below(d[better], b[better]) + slot + 1
    left[t[better]] = s[better, slot]
    # A node whose rows are all equal is not split: all of it goes left.
    total = node.total[:, 0, 0]
    position[most < 0], left[most < 0] = node.inside.shape[1], total[most < 0]
    explained = np.maximum(most, 0) / np.maximum(node.rows[:, 0, 0], 1) / residuals.unit**2
    return _Splits(code, position, explained, left, total - left)


def _gain(n: Floats, s: Floats, rows: Floats, total: Floats) -> Floats:
    """Compute the sum of squares that a split explains, times `rows`; -1 if one side is empty.

    (s rows - total n)^2 / (n (rows - n)), with n of `rows` rows and s of the sum `total` on the
    left.
    """
    room = rows - n
    room *= n
    gain = s * rows
    gain -= total * n
    gain *= gain
    gain /= np.maximum(room, 1)  # 0 / 1 if one side is empty
    room -= 1
    gain += np.minimum(room, 0, out=room)
    return gain


def _promising(
    bins: Bins, node: _Node, residuals: _Residuals, best: Floats
) -> tuple[Ints, Ints, Ints]:
    """Find the bins (t, d, b) within which a split may be better than the best between bins.

    The gain is a convex function of n and s, so within a bin it is at most that at a corner of the
    range of n, the rows before the bin plus one up to all but one of its rows, and of s, the sum
    before the bin plus all negative residuals of the bin, or plus all positive ones.
    """
    if not bins.divisible.any():
        none = np.zeros(0, dtype=np.int64)
        return none, none, none
    high = residuals.sum_positive(bins, node.inside)
    low = node.s - high
    high[:, :, 1:] += node.s[:, :, :-1]
    first, last = np.ones_like(node.n), node.n - 1
    first[:, :, 1:] += node.n[:, :, :-1]
    several = (last >= first) & bins.divisible
    low *= node.rows
    high *= node.rows
    bound = np.maximum(*(_largest_gain(n, low, high, node.rows, node.total) for n in (first, last)))
    t, d, b = np.nonzero((bound > best * (1 + 1e-9)) & several)
    return t, d, b


def _largest_gain(n: Floats, low: Floats, high: Floats, rows: Floats, total: Floats) -> Floats:
    """Compute the larger of the gains of s = low and s = high, given times `rows`."""
    room = rows - n
    room *= n
    middle = total * n
    gain = np.maximum(high - middle, middle - low)
    gain *= gain
    gain /= np.maximum(room, 1, out=room)
    return gain


def _within(
    bins: Bins, node: _Node, residuals: _Residuals, which: tuple[Ints, Ints, Ints]
) -> tuple[Floats, Floats]:
    """Count rows and sum residuals up to each slot of the bins (t, d, b), (Q, W)."""
    t, d, b = which
    flat = bins.slots[d, b] + (t * node.inside.shape[1])[:, None]
    sums = residuals.packed.ravel().take(flat)
    sums *= node.inside.ravel().take(flat)
    np.cumsum(sums, axis=1, out=sums)
    sums += np.where(b > 0, node.sums[t, d, b - 1], 0.0)[:, None]
    return residuals.unpack(sums)


def _descend(node: Nodes, bins: Bins, codes: Floats, splits: list[_Splits]) -> None:
    """Replace the node (T, rows) of each row by its child: 2 node on the left, + 1 on the right."""
    for tree, at in enumerate(node):
        right = np.zeros(at.shape, dtype=np.bool_)
        for number, split in enumerate(splits):
            code, inside = split.code[tree], at == number
            right |= inside & (codes[code] > _threshold(bins, code, inside, split.position[tree]))
        at *= 2
        at += right


def _threshold(bins: Bins, code: np.integer, inside: Bools, position: np.integer) -> float:
    """Return the midpoint of the node's last value on the left and its first on the right."""
    order, values = bins.order[code], bins.values[code]
    if position == len(order):
        return np.inf
    above = values[position + _first(inside, order[position:])]
    below = values[position - 1 - _first(inside, order[:position][::-1])]
    middle = below + (above - below) / 2
    return float(middle if middle < above else below)


def _first(inside: Bools, rows: Ints) -> int:
    """Return the position of the first of the rows that is inside."""
    width = 64
    while not (mask := inside[rows[:width]]).any():
        width *= 8
    return int(mask.argmax())


def _leaves(numerator: Floats, node: Nodes, weight: Floats) -> Floats:
    """Return the value (T, rows) of the leaf of each row, from sums of residuals (T, leaves)."""
    rows = weight.shape[1]
    values = np.empty(node.shape)
    for tree, leaf in enumerate(node):
        below = np.bincount(leaf[:rows], weight[tree], minlength=numerator.shape[1])
        value = np.divide(numerator[tree], below, out=np.zeros(len(below)), where=below > 1e-150)
        values[tree] = value[leaf]
    return values
