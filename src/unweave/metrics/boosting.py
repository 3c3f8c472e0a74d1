"""Gradient-boosted trees on codes, the trees of all classes of a factor grown together.

They are the trees of scikit-learn's `GradientBoostingClassifier` with its defaults.  [Friedman2001]
A hundred times forty of them take seconds, because what all trees of a round need of the data, the
sums of their residuals over the rows in each bin of each code, is one sparse matrix product, and
because thresholds are looked for from coarse to fine: within eight bins together, and then within
a bin, only where one could be better than the best so far.

Residuals are whole multiples of a small unit, and a row's residual and its count are one number.
All sums are therefore exact: they do not depend on their order, so neither do the trees, and codes
that split a node equally well are seen to do so.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from unweave.metrics.bins import Bins, bins_of
from unweave.metrics.inputs import Bools, Floats, Ints
from unweave.parallel import in_threads, own_cores

DEPTH = 3
ROWS = 200_000  # with more, what is left of a double for a residual is coarse
_TREES = 10  # grown at once, at most: their sums stay in the cache
_WORTHWHILE = 2**18  # codes of the rows of all trees of a round, from which on threads pay

Nodes = NDArray[np.uint8]


class Boosted(NamedTuple):
    """What a metric asks of boosted trees."""

    importances: Floats  # (D,) mean decrease of impurity, of sum 1; 0 where no tree splits
    predicted: Ints  # (rows,) the class of each row given, those of training first


class _Residuals(NamedTuple):
    """The residuals that T trees are fitted to, with what their sums are made of."""

    packed: Floats  # (T, N) in units, plus `row` for each row
    positive: tuple[Ints, Ints]  # (P,) trees and rows of positive residuals: those of its class
    unit: float
    row: float

    def unpacked(self, sums: Floats) -> tuple[Floats, Floats]:
        """How many rows sums are of, and the sums of their residuals, in units."""
        n = np.rint(sums * (1 / self.row))
        return n, sums - n * self.row


class _Sums(NamedTuple):
    """Sums over the rows of V nodes in each of B bins of D codes.

    The nodes are those at one depth of T trees: the first of each tree, then the second, ...
    """

    packed: Floats  # (D * B, V)
    positive: Floats  # (D * B, V) of positive residuals, in units


class _Spans(NamedTuple):
    """Bins of nodes, side by side along the first axis, and what there is up to them."""

    n: Floats  # (1 + B, ...) the rows before the first, and up to each
    s: Floats  # (1 + B, ...) their residuals, in units
    rows: Floats  # (...) all rows of the node
    total: Floats  # (...)

    def gain(self) -> Floats:
        """What a split after each bin explains."""
        return _gain(self.n[1:], self.s[1:], self.rows, self.total)

    def bound(self, positive: Floats) -> Floats:
        """No split within a bin explains more, times all rows, given its positive residuals.

        With l rows before the bin and r rows after it, that is s^2/l + (total - s)^2/r -
        total^2/rows, largest at an end of the range of s: before the bin with all its positive
        residuals added, or with all of its negative ones.
        """
        high, low = self.s[:-1] + positive, self.s[1:] - positive
        right = 1 / np.maximum(self.rows - self.n[1:], 1)
        both = 1 / np.maximum(self.n[:-1], 1)
        both += right
        # s^2 l + (total - s)^2 r = s (s (l + r) - 2 total r) + total^2 r, at both ends
        slope = (2 * self.total) * right
        bound = np.maximum(high * (high * both - slope), low * (low * both - slope))
        bound += self.total**2 * right
        bound *= self.rows
        bound -= self.total**2
        return bound


class _Tried(NamedTuple):
    """Splits of some codes (Q,) of some nodes (Q,), W of each."""

    code: Ints  # (Q,)
    node: Ints  # (Q,)
    gain: Floats  # (W, Q)
    s: Floats  # (W, Q) residuals on the left, in units
    end: Ints  # (W, Q) how many of the rows go left


class _Splits(NamedTuple):
    """The best split of each of V nodes."""

    code: Ints  # (V,)
    position: Ints  # (V,) how many of the rows, in the order of the code, go left
    gain: Floats  # (V,) sum of squares that the split explains
    left: Floats  # (V,) sums of the residuals on either side, in units
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
    """Boosted trees of depth 3 that tell the label of a row from its codes.

    F_c starts as the log frequency of class c. Each round adds `rate` times a tree for each class,
    fitted to r = [y = c] - softmax(F)_c by least squares, with leaves (C-1)/C sum r / sum p (1-p);
    two classes share one tree, of F = log p/(1-p) and leaves sum r / sum p (1-p).  [Friedman2001]
    Codes that split a node equally well are chosen among at random, with equal chances.

    Args:
        train: (N, D) codes.
        labels: (N,) integers.
        test: (M, D) codes of further rows whose classes are to be told.
        rng: chooses among codes that split equally well.
        rounds: trees to a class.
        rate: learning rate.

    Returns:
        Importances, and the predicted labels (N + M,) of all rows.
    """
    if len(train) > ROWS:
        raise ValueError(f"expected at most {ROWS} rows to train on, got {len(train)}: give fewer")
    classes, y = np.unique(labels, return_inverse=True)
    dims, rows = train.shape[1], len(train)
    if len(classes) == 1 or dims == 0:
        most = classes[np.bincount(y).argmax()]
        return Boosted(np.zeros(dims), np.full(rows + len(test), most))
    bins = bins_of(train)
    others = np.ascontiguousarray(test.T)
    target = (y == np.arange(len(classes))[:, None])[1 if len(classes) == 2 else 0 :]
    prior = np.log(target.mean(1))
    if len(classes) == 2:
        prior -= np.log1p(-target.mean(1))
    f = np.repeat(prior[:, None], rows + len(test), axis=1)  # (C, N + M)
    shrink = rate * (1.0 if len(f) == 1 else 1 - 1 / len(f))
    decrease = np.zeros((len(f), dims))
    # Trees do not depend on which others are grown with them.
    threads = min(own_cores(), len(f)) if train.size * len(f) > _WORTHWHILE else 1
    blocks = np.array_split(np.arange(len(f)), max(-(-len(f) // _TREES), threads))
    own = {int(block[0]): _places(target[block]) for block in blocks}
    for _ in range(rounds):
        p, luck = _probabilities(f[:, :rows]), rng.random((len(f), 2**DEPTH, dims))

        def step(block: Ints, p: Floats = p, luck: Floats = luck) -> None:
            gains, steps = _trees(
                bins, others, target[block], own[int(block[0])], p[block], luck[block]
            )
            decrease[block] += gains
            f[block] += shrink * steps

        list(in_threads(step, blocks, threads))
    importances, total = decrease.sum(0), decrease.sum()
    importances /= total if total > 0 else 1.0
    return Boosted(importances, classes[f.argmax(0) if len(f) > 1 else (f[0] > 0).astype(np.int64)])


def _probabilities(f: Floats) -> Floats:
    """softmax(F) over the classes (C, N), or the logistic function of a single F."""
    if len(f) == 1:
        single: Floats = 1 / (1 + np.exp(-f))
        return single
    p: Floats = np.exp(f - f.max(0))
    p /= p.sum(0)
    return p


def _trees(
    bins: Bins,
    test: Floats,
    target: Bools,
    positive: tuple[Ints, Ints],
    p: Floats,
    luck: Floats,
) -> tuple[Floats, Floats]:
    """A tree for each class (T, N): the gains of codes (T, D), the leaf of each row (T, N + M).

    A leaf is sum r / sum p (1 - p), or 0 where no p (1 - p) is left. Nodes have luck (T, nodes, D).
    """
    residuals = _residuals(target, positive, p)
    at = np.zeros((len(target), target.shape[1] + test.shape[1]), dtype=np.uint8)
    train, others = at[:, : target.shape[1]], at[:, target.shape[1] :]
    gains, trees = np.zeros((len(target), len(test))), np.arange(len(target))
    inside = train == 0
    sums = _summed(bins, residuals, inside)
    for depth in range(DEPTH):
        numbers = np.arange(2**depth)
        if depth:
            inside = (train == numbers[:, None, None]).reshape(-1, target.shape[1])
            sums = _children(bins, sums, residuals, inside)
        own = luck[:, numbers + len(numbers) - 1].T.reshape(len(test), -1)
        splits = _best_splits(bins, residuals, sums, inside, own)
        np.add.at(gains, (np.tile(trees, len(numbers)), splits.code), splits.gain)
        _descend(bins, train, others, test, inside, splits)
    sides = np.stack([splits.left, splits.right]).reshape(2, -1, len(target))
    leaves = sides.swapaxes(0, 1).reshape(-1, len(target)).T
    return gains, _leaves(leaves / residuals.unit, at, p * (1 - p))


def _places(mask: Bools) -> tuple[Ints, Ints]:
    """The rows and columns of what is true."""
    rows, columns = np.nonzero(mask)
    return rows, columns


def _residuals(target: Bools, positive: tuple[Ints, Ints], p: Floats) -> _Residuals:
    bits = target.shape[1].bit_length()
    # N rows of residual and count fit into 53 bits, and so do the products in `_gain`.
    unit, row = 2.0 ** (52 - 2 * bits), 2.0 ** (53 - bits)
    packed = target - p
    packed *= unit
    np.rint(packed, out=packed)
    packed += row
    return _Residuals(packed, positive, unit, row)


def _summed(bins: Bins, residuals: _Residuals, inside: Bools) -> _Sums:
    """Sums over the rows that are inside, (V, N)."""
    tree, row = residuals.positive
    within = inside.reshape(-1, *residuals.packed.shape)
    number, which = _places(within[:, tree, row])
    tree, row = tree[which], row[which]
    positive = residuals.packed[tree, row] - residuals.row
    node = number * len(residuals.packed) + tree
    packed = (residuals.packed * within).reshape(inside.shape)
    return _Sums(bins.summed(packed), bins.total(len(inside), node, row, positive))


def _children(bins: Bins, parents: _Sums, residuals: _Residuals, inside: Bools) -> _Sums:
    """The sums of the children of nodes: of each those on the left, and what remains."""
    pairs = inside.reshape(-1, 2, *residuals.packed.shape)
    left = _summed(bins, residuals, pairs[:, 0].reshape(-1, inside.shape[1]))
    children = []
    for mine, parent in zip(left, parents, strict=True):
        both = np.stack([mine, parent - mine]).reshape(2, len(mine), len(pairs), -1)
        children.append(both.transpose(1, 2, 0, 3).reshape(len(mine), -1))
    return _Sums(*children)


def _best_splits(
    bins: Bins, residuals: _Residuals, sums: _Sums, inside: Bools, luck: Floats
) -> _Splits:
    """The split that explains most: between several bins, between bins, or within one.

    Equal ones are chosen among by luck (D, V).
    """
    nodes, (dims, width), together = len(inside), bins.end.shape, bins.together
    upto = np.zeros((width // together + 1, dims, nodes))
    apart = sums.packed.reshape(dims, -1, together, nodes)
    np.cumsum(apart.sum(2).swapaxes(0, 1), axis=0, out=upto[1:])
    n, s = residuals.unpacked(upto)
    rows, total = n[-1, 0], s[-1, 0]
    coarse = _Spans(n, s, rows, total)
    gain = coarse.gain()  # (A, D, V)
    best = gain.max(0)
    several = together > 1  # otherwise every value has its bin, and there is nothing within
    finer = _finer(bins, residuals, sums, inside, upto, coarse, best) if several else []
    most, every = best.max(0), np.arange(nodes)
    code = np.where(best == most, luck, -1.0).argmax(0)
    ends = bins.end[code, together - 1 :: together].T
    first = _Tried(code, every, gain[:, code, every], coarse.s[1:, code, every], ends)
    # A node whose rows are all alike stays whole: all of it goes left.
    position, left, found = np.full(nodes, inside.shape[1]), total.copy(), most < 0
    for tried in (first, *finer):
        node = tried.node
        as_good = tried.gain.max(0) == most[node]
        one = np.flatnonzero(as_good & (tried.code == code[node]) & ~found[node])
        place, node = tried.gain[:, one].argmax(0), node[one]
        position[node], left[node] = tried.end[place, one], tried.s[place, one]
        found[node] = True
    explained = np.maximum(most, 0) / np.maximum(rows, 1) / residuals.unit**2
    return _Splits(code, position, explained, left, total - left)


def _finer(
    bins: Bins,
    residuals: _Residuals,
    sums: _Sums,
    inside: Bools,
    upto: Floats,
    coarse: _Spans,
    best: Floats,
) -> list[_Tried]:
    """Splits between bins, and within them, where one may be better than the best (D, V) so far.

    Bins without a positive residual are not looked into: within them s only falls, and next to
    nothing is gained. The best is kept up.
    """
    (dims, width), together, rows, total = bins.end.shape, bins.together, *coarse[2:]
    nodes = len(rows)
    own = sums.positive.reshape(dims, -1, together, nodes).sum(2).swapaxes(0, 1)
    a, d, v = np.nonzero((coarse.bound(own) > _least(best)) & (own > 0))
    number = d * width + a * together + np.arange(together)[:, None]  # (together, Q)
    at = number * nodes + v
    upto = np.concatenate([upto[a, d, v][None], sums.packed.ravel().take(at)])
    np.cumsum(upto, axis=0, out=upto)
    fine = _Spans(*residuals.unpacked(upto), rows[v], total[v])
    between = _Tried(d, v, fine.gain(), fine.s[1:], bins.end.ravel().take(number))
    np.maximum.at(best, (d, v), between.gain.max(0))
    own = sums.positive.ravel().take(at)
    wanted = (fine.bound(own) > _least(best)[v]) & (own > 0)
    g, q = np.nonzero(wanted & bins.divisible.ravel().take(number))
    d, v, number = d[q], v[q], number[g, q]
    n, s = _within(bins, residuals, inside, upto[g, q], v, number)
    gain = _gain(n, s, rows[v], total[v])
    gain[~bins.breaks.take(number, axis=1)] = -1
    np.maximum.at(best, (d, v), gain.max(0))
    ends = bins.before(number) + np.arange(1, len(s) + 1)[:, None]
    return [between, _Tried(d, v, gain, s, ends)]


def _least(best: Floats) -> Floats:
    """What a split is to explain to be looked for, (V,), given the best of codes (D, V)."""
    least: Floats = np.maximum(best.max(0), 0.0) * (1 + 1e-9)
    return least


def _gain(n: Floats, s: Floats, rows: Floats, total: Floats) -> Floats:
    """The sum of squares that a split explains, times all `rows`; -1 where one side is empty.

    (s rows - total n)^2 / (n (rows - n)), with n rows of sum s on the left, of `rows` of `total`.
    """
    room = n * (rows - n)
    difference = s * rows - total * n
    difference *= difference
    gain: Floats = np.full(room.shape, -1.0)
    return np.divide(difference, room, out=gain, where=room > 0)


def _within(
    bins: Bins, residuals: _Residuals, inside: Bools, before: Floats, node: Ints, number: Ints
) -> tuple[Floats, Floats]:
    """Rows and residuals up to each slot of bins (Q,) with packed sums before them, (W, Q)."""
    flat = bins.slots.take(number, axis=1)
    flat += node * inside.shape[1]
    kept = inside.ravel().take(flat)
    flat %= residuals.packed.size
    sums = residuals.packed.ravel().take(flat)
    sums *= kept
    sums[0] += before
    np.cumsum(sums, axis=0, out=sums)
    return residuals.unpacked(sums)


def _descend(
    bins: Bins, train: Nodes, others: Nodes, test: Floats, inside: Bools, splits: _Splits
) -> None:
    """Replace the nodes (T, rows) by the children: 2 node on the left, + 1 on the right."""
    threshold = _thresholds(bins, inside, splits).tolist()
    right, beyond = np.zeros(train.shape, dtype=np.bool_), np.zeros(others.shape, dtype=np.bool_)
    for node, (code, position) in enumerate(
        zip(splits.code.tolist(), splits.position.tolist(), strict=True)
    ):
        number, tree = divmod(node, len(train))
        far = bins.rank[code] >= position
        right[tree] |= np.logical_and(far, inside[node], out=far)
        far = test[code] > threshold[node]
        beyond[tree] |= np.logical_and(far, others[tree] == number, out=far)
    for mine, side in ((train, right), (others, beyond)):
        mine *= 2
        mine += side


def _thresholds(bins: Bins, inside: Bools, splits: _Splits) -> Floats:
    """Halfway between the last value of a node on the left and the first on the right, (V,)."""
    threshold = np.full(len(inside), np.inf)
    parted = np.flatnonzero(splits.position < inside.shape[1])
    code, position = splits.code[parted], splits.position[parted]
    above = bins.values[code, _nearest(bins, inside, parted, code, position, 1)]
    below = bins.values[code, _nearest(bins, inside, parted, code, position - 1, -1)]
    middle = below + (above - below) / 2
    threshold[parted] = np.where(middle < above, middle, below)
    return threshold


def _nearest(bins: Bins, inside: Bools, node: Ints, code: Ints, position: Ints, step: int) -> Ints:
    """Where in the order of its code the first row inside a node is, of which there is one.

    From a position up (1) or down (-1).
    """
    end = inside.shape[1] - 1
    place = position[:, None] + step * np.arange(16)
    hit = inside[node[:, None], bins.order[code[:, None], place.clip(0, end)]]
    hit &= (place >= 0) & (place <= end)
    nearest: Ints = place[np.arange(len(node)), hit.argmax(1)]
    for far in np.flatnonzero(~hit.any(1)):
        every = np.flatnonzero(inside[node[far]][bins.order[code[far]]])
        nearest[far] = every[np.searchsorted(every, position[far] + (step < 0)) - (step < 0)]
    return nearest


def _leaves(numerator: Floats, node: Nodes, weight: Floats) -> Floats:
    """The value (T, rows) of the leaf of each row, with sums of residuals (T, leaves)."""
    rows = weight.shape[1]
    values = np.empty(node.shape)
    for tree, leaf in enumerate(node):
        below = np.bincount(leaf[:rows], weight[tree], minlength=numerator.shape[1])
        value = np.divide(numerator[tree], below, out=np.zeros(len(below)), where=below > 1e-150)
        values[tree] = value[leaf]
    return values
