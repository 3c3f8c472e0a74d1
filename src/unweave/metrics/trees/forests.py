"""Random forests on codes: trees grown together, level by level, and read at several depths.

They are the trees of scikit-learn's forests that try all codes at each split  [Breiman2001]. The
first levels of a tree are the tree of that depth, so one forest can be read at several depths. The
rows of every node are kept sorted by every code, so that a level takes a few cumulated sums,
whatever the number of nodes and trees. If the targets are integers, all sums are exact, and ties
between codes that split a node equally well are detected.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from unweave.core.parallel import thread_map
from unweave.metrics.arrays import Bools, Floats, Ints

_ENTRIES = 1_150_000  # rows times codes of the trees that are grown at once, to use threads well
_SHARES = 12_000_000  # rows times classes of these trees: nodes have the shares of all classes
_TIE_BREAKERS = 97  # random numbers per tree and code, which nodes use in turn


class Forest(NamedTuple):
    """Predictions and importances of a forest at each of T depths."""

    predictions: Floats  # (T, M, C) mean numbers (C = 1) or mean shares of classes
    importances: Floats  # (T, D) mean decrease of impurity, with sum 1; 0 if no tree splits


class _Bootstrap(NamedTuple):
    """The bootstrap samples of several trees: E rows in all, each once with its weight."""

    codes: Floats  # (D, E)
    tied: Bools  # (D,) codes with equal values in several rows
    target: Floats  # (E,)
    weight: Floats  # (E,) how often each row was drawn
    classes: int  # 0 if the target is a number


class _Level(NamedTuple):
    """The nodes of all trees at one depth that can be split, with contiguous rows."""

    orders: Ints  # (D, E) rows of the samples sorted by node and code
    by_class: Ints  # (D, E) sorted by node, class and code; (0, E) for numbers
    size: Ints  # (V,) number of rows of a node
    number: Ints  # (V,) index of the node among all nodes
    tree: Ints  # (V,) index of its tree
    breaker: Ints  # (V,) which of the tree's tie breakers the node uses


class _NodeSplits(NamedTuple):
    """The best split of each node."""

    code: Ints  # (V,) -1 if there is none
    below: Floats  # (V,) last value on the left
    above: Floats  # (V,) first value on the right
    gain: Floats  # (V,) decrease of impurity times weight


def grow_forest(
    train: Floats,
    target: Floats | Ints,
    classes: int,
    test: Floats,
    rng: np.random.Generator,
    *,
    trees: int,
    depths: Sequence[int],
) -> Forest:
    """Grow trees that predict a number, or one of several classes, from codes.

    Each is grown on N draws of the N rows with replacement, by least squares or by Gini's impurity,
    until targets are equal or a node is at the last of the depths. Ties between codes that split a
    node equally well are broken at random.

    Args:
        train: (N, D) codes.
        target: (N,) numbers, or classes 0, 1, ...
        classes: number of classes; 0 for numbers.
        test: (M, D) codes of the rows to predict.
        rng: draws the bootstrap samples and breaks ties.
        trees: number of trees.
        depths: increasing depths at which to read the trees.
    """
    codes, others = np.ascontiguousarray(train.T), np.ascontiguousarray(test.T)
    order = np.argsort(codes, axis=1, kind="stable")
    ordered = np.take_along_axis(codes, order, 1)
    tied = (ordered[:, 1:] == ordered[:, :-1]).any(1)
    numbers = np.asarray(target, dtype=np.float64)

    def grow_some(streams: Sequence[np.random.Generator]) -> Forest:
        sample, level = _bootstrap(codes, tied, order, numbers, classes, streams)
        tie_breakers = np.stack([stream.random((_TIE_BREAKERS, len(codes))) for stream in streams])
        return _grow_levels(sample, level, tie_breakers, others, depths)

    # Each tree has its own generator, so the result does not depend on how many grow at once.
    streams = rng.spawn(trees)
    step = max(1, _ENTRIES // train.size) if train.size else trees
    step = max(1, min(step, _SHARES // (len(train) * max(1, classes))))
    predictions = np.zeros((len(depths), len(test), max(1, classes)))
    importances = np.zeros((len(depths), len(codes)))
    for part in thread_map(grow_some, [streams[at : at + step] for at in range(0, trees, step)]):
        predictions += part.predictions
        importances += part.importances
    predictions /= trees
    total = importances.sum(1, keepdims=True)
    np.divide(importances, total, out=importances, where=total > 0)
    return Forest(predictions, importances)


def _bootstrap(
    codes: Floats,
    tied: Bools,
    order: Ints,
    target: Floats,
    classes: int,
    streams: Sequence[np.random.Generator],
) -> tuple[_Bootstrap, _Level]:
    """Draw the rows of trees, and return them with the roots of the trees."""
    rows = len(target)
    counts = np.stack([np.bincount(s.integers(rows, size=rows), minlength=rows) for s in streams])
    kept = counts > 0
    place = np.cumsum(kept).reshape(kept.shape) - 1  # index of a row of a tree in the sample
    tree, row = np.nonzero(kept)
    orders = np.empty((len(codes), len(row)), dtype=np.int64)
    for out, each in zip(orders, order, strict=True):
        parts = [each.compress(inside.take(each)) for inside in kept]
        np.concatenate([p.take(part) for p, part in zip(place, parts, strict=True)], out=out)
    by_class = np.empty((len(codes) if classes else 0, len(row)), dtype=np.int64)
    number = (tree * classes + target[row]).astype(np.min_scalar_type(len(streams) * classes))
    for out, each in zip(by_class, orders, strict=False):
        out[:] = each[np.argsort(number[each], kind="stable")]
    trees = np.arange(len(streams))
    weight = counts[kept].astype(np.float64)
    sample = _Bootstrap(codes.take(row, axis=1), tied, target[row], weight, classes)
    return sample, _Level(orders, by_class, kept.sum(1), trees, trees, 0 * trees)


def _grow_levels(
    sample: _Bootstrap, level: _Level, tie_breakers: Floats, test: Floats, depths: Sequence[int]
) -> Forest:
    """Grow trees from their roots; return sums over trees of predictions and importances."""
    predictions = np.empty((len(depths), test.shape[1], max(1, sample.classes)))
    importances = np.zeros((len(depths), len(test)))
    gains = np.zeros((len(level.tree), len(test)))
    at = np.repeat(level.number[:, None], test.shape[1], axis=1)  # the node of each test row
    every = np.arange(len(sample.weight))
    values = _values(sample, every, level.size)
    level = _keep(level, _varied(sample, every, level.size) & (len(test) > 0))
    done = 0
    for t, depth in enumerate(depths):
        was = at.copy() if t else np.full_like(at, -1)
        while done < depth and len(level.size):
            splits = _best_splits(sample, level, tie_breakers)
            split = splits.code >= 0
            np.add.at(gains, (level.tree[split], splits.code[split]), splits.gain[split])
            _descend(at, level, splits, test, len(values))
            level, more = _children(sample, level, splits, len(values))
            values = np.concatenate([values, more])
            done += 1
        moved = (at != was).any(0)
        if t:
            predictions[t] = predictions[t - 1]
        predictions[t, moved] = sum(values[nodes[moved]] for nodes in at)
        total = gains.sum(1, keepdims=True)
        importances[t] = np.divide(gains, total, out=np.zeros_like(gains), where=total > 0).sum(0)
    return Forest(predictions, importances)


def _values(sample: _Bootstrap, rows: Ints, size: Ints) -> Floats:
    """Return the predictions (V, C) of nodes of contiguous rows: mean number, or class shares."""
    if not len(size):
        return np.zeros((0, max(1, sample.classes)))
    start = np.cumsum(size) - size
    weight = sample.weight[rows]
    total = np.add.reduceat(weight, start)[:, None]
    if not sample.classes:
        return np.add.reduceat(weight * sample.target[rows], start)[:, None] / total
    key = np.repeat(np.arange(len(size)) * sample.classes, size)
    key += sample.target[rows].astype(np.int64)
    counts = np.bincount(key, weight, minlength=len(size) * sample.classes)
    return counts.reshape(-1, sample.classes) / total


def _varied(sample: _Bootstrap, rows: Ints, size: Ints) -> Bools:
    """Return a mask (V,) of the nodes of contiguous rows whose target varies."""
    if not len(size):
        return np.zeros(0, dtype=np.bool_)
    target, start = sample.target[rows], np.cumsum(size) - size
    return np.maximum.reduceat(target, start) > np.minimum.reduceat(target, start)


def _keep(level: _Level, wanted: Bools) -> _Level:
    if wanted.all():
        return level
    rows = np.repeat(wanted, level.size)
    return _Level(
        level.orders[:, rows],
        level.by_class[:, rows],
        level.size[wanted],
        level.number[wanted],
        level.tree[wanted],
        level.breaker[wanted],
    )


def _best_splits(sample: _Bootstrap, level: _Level, tie_breakers: Floats) -> _NodeSplits:
    """Find the code of each node, and the values between which it is split.

    With w the number of rows on a side and q = (sum of their numbers)^2, or the sum over classes of
    the squared counts, the best split maximises the sum of q/w over both sides.
    """
    sums = _Counts(sample, level) if sample.classes else _Numbers(sample, level)
    end = np.cumsum(level.size)
    start = end - level.size
    both = np.empty(level.orders.shape)
    most = np.empty((len(both), len(start)))
    for d, (values, order) in enumerate(zip(both, level.orders, strict=True)):
        sums.split_squares(d, order, values)
        if sample.tied[d]:
            x = sample.codes[d].take(order)
            values[:-1][x[1:] == x[:-1]] = -1.0
        values[end - 1] = -1.0  # all rows on one side
        np.maximum.reduceat(values, start, out=most[d])
    best = most.max(0)
    code = np.where(most == best, tie_breakers[level.tree, level.breaker].T, -1.0).argmax(0)
    places = np.arange(end[-1])
    chosen = both.ravel().take(np.repeat(code * len(places), level.size) + places)
    top = np.flatnonzero(chosen == np.repeat(best, level.size))
    place = top[np.searchsorted(top, start)]
    possible = best >= 0
    after = (place + 1).clip(max=len(places) - 1)
    return _NodeSplits(
        np.where(possible, code, -1),
        sample.codes[code, level.orders[code, place]],
        sample.codes[code, level.orders[code, after]],
        np.where(possible, best - sums.whole, 0.0),
    )


class _Numbers:
    """Cumulated sums of numeric targets along the orders of a level."""

    def __init__(self, sample: _Bootstrap, level: _Level) -> None:
        start, rows = np.cumsum(level.size) - level.size, level.orders[0]
        self.weights = _Weights(sample, level)
        self.start, self.weighted = start, sample.weight * sample.target
        self.sum = np.add.reduceat(self.weighted.take(rows), start)
        self.total = np.repeat(self.sum, level.size)
        self.whole: Floats = self.sum**2 / self.weights.sum

    def split_squares(self, d: int, order: Ints, out: Floats) -> None:
        """Compute the sum of q/w over both sides for a split after each row of an order (E,).

        The result is meaningless after the last row of a node.
        """
        s = self.weighted.take(order)
        s[self.start[1:]] -= self.sum[:-1]
        s = _cumulate(s)
        np.subtract(self.total, s, out=out)
        s *= s
        out *= out
        self.weights.divide(order, s, out)


class _Counts:
    """Cumulated sums of squared class counts along the orders of a level.

    The rows of a class in a node form a run in `by_class`. A row of weight w with n of its class
    before it adds w (2 n + w) to the sum of n^2 over classes on the left, and w (2 n + w) - 2 w N
    to the sum of (N - n)^2 on the right, with N the weight of its run.
    """

    def __init__(self, sample: _Bootstrap, level: _Level) -> None:
        rows, start = level.by_class[0], np.cumsum(level.size) - level.size
        self.weights = _Weights(sample, level)
        self.weight, self.by_class, self.start = sample.weight, level.by_class, start
        label = sample.target.take(rows)
        new = np.ones(len(rows), dtype=np.bool_)
        np.not_equal(label[1:], label[:-1], out=new[1:])
        new[start] = True
        run = np.flatnonzero(new)
        length = np.diff(run, append=len(rows))
        n = np.add.reduceat(sample.weight.take(rows), run)
        self.before = np.repeat(np.cumsum(n) - n, length)
        self.crossed = np.zeros(len(sample.weight))  # - 2 w N of each row
        self.crossed[rows] = np.repeat(-2 * n, length)
        self.crossed *= sample.weight
        self.squares = np.add.reduceat(n**2, np.searchsorted(run, start))
        self.whole: Floats = self.squares / self.weights.sum
        self.steps = np.empty(len(sample.weight))

    def split_squares(self, d: int, order: Ints, out: Floats) -> None:
        """Compute the sum of q/w over both sides for a split after each row of an order (E,).

        The result is meaningless after the last row of a node.
        """
        own = self.weight.take(self.by_class[d])
        n = _cumulate(own)
        n -= self.before
        n *= 2
        n -= own
        n *= own
        self.steps[self.by_class[d]] = n
        q = self.steps.take(order)
        other = self.crossed.take(order)
        other += q
        # Start every node at 0 on the left and at all of its squares on the right.
        q[self.start[1:]] -= self.squares[:-1]
        other[self.start] += self.squares
        self.weights.divide(order, _cumulate(q), out, _cumulate(other))


class _Weights:
    """Cumulated sums of weights along the orders of a level."""

    def __init__(self, sample: _Bootstrap, level: _Level) -> None:
        self.end, self.weight = np.cumsum(level.size), sample.weight
        self.start = self.end - level.size
        self.sum = np.add.reduceat(sample.weight.take(level.orders[0]), self.start)
        self.whole = np.repeat(self.sum, level.size)

    def divide(self, order: Ints, left: Floats, out: Floats, right: Floats | None = None) -> None:
        """Divide `left` and `right` (default: `out`) by their weights, and add them into `out`."""
        w = self.weight.take(order)
        w[self.start[1:]] -= self.sum[:-1]
        w = _cumulate(w)
        left /= w
        np.subtract(self.whole, w, out=w)
        w[self.end - 1] = 1.0
        np.divide(out if right is None else right, w, out=out)
        out += left


def _cumulate(numbers: Floats) -> Floats:
    """Return running sums (E,), by torch, which is several times as fast as numpy."""
    return torch.from_numpy(numbers).cumsum(0).numpy()


def _descend(at: Ints, level: _Level, splits: _NodeSplits, test: Floats, nodes: int) -> None:
    """Move test rows (trees, M) from nodes that are split to their children."""
    split = splits.code >= 0
    place = np.full(nodes, -1)
    place[level.number[split]] = np.arange(split.sum())
    code, below, above = splits.code[split], splits.below[split], splits.above[split]
    middle = below + (above - below) / 2
    middle = np.where(middle < above, middle, below)
    flat = at.ravel()
    local = place.take(flat)
    moving = np.flatnonzero(local >= 0)
    local = local[moving]
    x = test.ravel().take(code.take(local) * at.shape[1] + moving % at.shape[1])
    flat[moving] = nodes + local + len(code) * (x > middle.take(local))


def _children(
    sample: _Bootstrap, level: _Level, splits: _NodeSplits, nodes: int
) -> tuple[_Level, Floats]:
    """Return the children of nodes that are split, left ones first, and their predictions.

    The level contains only children that can be split, with rows in the same orders.
    """
    split = splits.code >= 0
    count, kept = int(split.sum()), np.repeat(split, level.size)
    rows, node = level.orders[0].compress(kept), np.repeat(np.arange(count), level.size[split])
    x = sample.codes.ravel().take(splits.code[split].take(node) * len(sample.weight) + rows)
    right = x > splits.below[split].take(node)
    size = np.bincount(node + count * right, minlength=2 * count)
    rows = np.concatenate([rows.compress(~right), rows.compress(right)])
    varied = _varied(sample, rows, size)
    side = np.repeat(np.where(np.arange(2 * count) < count, 1, 2) * varied, size)
    sides = np.zeros(len(sample.weight), dtype=np.uint8)
    sides[rows] = side
    breaker = level.breaker[split]
    below = _Level(
        _partition(level.orders, sides, side),
        _partition(level.by_class, sides, side),
        size[varied],
        nodes + np.flatnonzero(varied),
        np.tile(level.tree[split], 2)[varied],
        (np.concatenate([2 * breaker + 1, 2 * breaker + 2]) % _TIE_BREAKERS)[varied],
    )
    return below, _values(sample, rows, size)


def _partition(orders: Ints, sides: NDArray[np.uint8], side: Ints) -> Ints:
    """Return orders (D, E) with the rows of side 1 first, then those of side 2."""
    left, right = int((side == 1).sum()), int((side == 2).sum())
    result = np.empty((len(orders), left + right), dtype=np.int64)
    for row, order in zip(result, orders, strict=True):
        where = sides.take(order)
        row[:left] = order.compress(where == 1)
        row[left:] = order.compress(where == 2)
    return result
