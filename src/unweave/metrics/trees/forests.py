"""Random forests on codes: trees grown together, level by level, and read at several depths.

They are the trees of scikit-learn's forests that try all codes at each split  [Breiman2001]; the
first levels of a tree are the tree of that depth. The rows of every node are kept in the order of
every code, so that a level takes a few sums along these orders, whatever the number of nodes and
trees. Where the numbers to be told are whole, all sums are exact: codes that split a node equally
well are seen to do so.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from unweave.core.parallel import thread_map
from unweave.metrics.inputs import Bools, Floats, Ints

_AT_ONCE = 1_150_000  # codes of the rows of trees that are grown at once, so that threads pay
_LUCK = 97  # draws to each tree and code, which nodes take in turn


class Forest(NamedTuple):
    """What trees tell, at each of T depths."""

    told: Floats  # (T, M, C) mean numbers (C = 1) or mean shares of classes
    importances: Floats  # (T, D) mean decrease of impurity, of sum 1; 0 where no tree splits


class _Drawn(NamedTuple):
    """The rows that trees have drawn, E in all."""

    codes: Floats  # (D, E)
    tied: Bools  # (D,) the codes that two rows may have alike
    target: Floats  # (E,)
    weight: Floats  # (E,) how often each was drawn
    classes: int  # 0: the target is a number


class _Level(NamedTuple):
    """Nodes of all trees that can be split, at one depth, each with its rows side by side."""

    orders: Ints  # (D, E) the drawn rows, by node and code
    by_class: Ints  # (D, E) by node, class and code; (0, E) for numbers
    size: Ints  # (V,) how many rows a node has
    number: Ints  # (V,) of the node among all
    tree: Ints  # (V,)
    turn: Ints  # (V,) which of its tree's draws are the node's


class _Splits(NamedTuple):
    """The best split of each node."""

    code: Ints  # (V,) -1: none
    below: Floats  # (V,) the last value on the left
    above: Floats  # (V,) and the first on the right
    gain: Floats  # (V,) decrease of impurity times weight


def grow(
    train: Floats,
    target: Floats | Ints,
    classes: int,
    test: Floats,
    rng: np.random.Generator,
    *,
    trees: int,
    depths: Sequence[int],
) -> Forest:
    """Trees that tell a number, or one of several classes, from codes.

    Each is grown on N draws of the N rows with replacement until rows are alike or a node is at the
    last of the depths, by least squares or by Gini's impurity. Codes that split a node equally well
    are chosen among at random, with equal chances.

    Args:
        train: (N, D) codes.
        target: (N,) numbers, or classes 0, 1, ...
        classes: how many classes there are; 0 for numbers.
        test: (M, D) codes of the rows to tell.
        rng: of the draws.
        trees: how many.
        depths: growing; trees are read as if each were the largest depth.
    """
    codes, others = np.ascontiguousarray(train.T), np.ascontiguousarray(test.T)
    order = np.argsort(codes, axis=1, kind="stable")
    ordered = np.take_along_axis(codes, order, 1)
    tied = (ordered[:, 1:] == ordered[:, :-1]).any(1)
    numbers = np.asarray(target, dtype=np.float64)

    def few(streams: Sequence[np.random.Generator]) -> Forest:
        drawn, level = _first(codes, tied, order, numbers, classes, streams)
        luck = np.stack([stream.random((_LUCK, len(codes))) for stream in streams])
        return _grown(drawn, level, luck, others, depths)

    # Each has draws of its own, so that it does not matter how many are grown at once.
    streams = rng.spawn(trees)
    step = max(1, _AT_ONCE // train.size) if train.size else trees
    told = np.zeros((len(depths), len(test), max(1, classes)))
    importances = np.zeros((len(depths), len(codes)))
    for part in thread_map(few, [streams[at : at + step] for at in range(0, trees, step)]):
        told += part.told
        importances += part.importances
    told /= trees
    total = importances.sum(1, keepdims=True)
    np.divide(importances, total, out=importances, where=total > 0)
    return Forest(told, importances)


def _first(
    codes: Floats,
    tied: Bools,
    order: Ints,
    target: Floats,
    classes: int,
    streams: Sequence[np.random.Generator],
) -> tuple[_Drawn, _Level]:
    """The rows that trees draw, and their roots."""
    rows = len(target)
    counts = np.stack([np.bincount(s.integers(rows, size=rows), minlength=rows) for s in streams])
    kept = counts > 0
    place = np.cumsum(kept).reshape(kept.shape) - 1  # of a row of a tree among the drawn
    tree, row = np.nonzero(kept)
    orders = np.empty((len(codes), len(row)), dtype=np.int64)
    for mine, each in zip(orders, order, strict=True):
        parts = [each.compress(inside.take(each)) for inside in kept]
        np.concatenate([p.take(part) for p, part in zip(place, parts, strict=True)], out=mine)
    by_class = np.empty((len(codes) if classes else 0, len(row)), dtype=np.int64)
    number = (tree * classes + target[row]).astype(np.min_scalar_type(len(streams) * classes))
    for mine, each in zip(by_class, orders, strict=False):
        mine[:] = each[np.argsort(number[each], kind="stable")]
    trees = np.arange(len(streams))
    weight = counts[kept].astype(np.float64)
    drawn = _Drawn(codes.take(row, axis=1), tied, target[row], weight, classes)
    return drawn, _Level(orders, by_class, kept.sum(1), trees, trees, 0 * trees)


def _grown(
    drawn: _Drawn, level: _Level, luck: Floats, test: Floats, depths: Sequence[int]
) -> Forest:
    """Trees grown from their roots: the sums of what they tell and of the importances of codes."""
    told = np.empty((len(depths), test.shape[1], max(1, drawn.classes)))
    importances = np.zeros((len(depths), len(test)))
    gains = np.zeros((len(level.tree), len(test)))
    at = np.repeat(level.number[:, None], test.shape[1], axis=1)  # nodes of the rows of the test
    every = np.arange(len(drawn.weight))
    values = _values(drawn, every, level.size)
    level = _kept(level, _varied(drawn, every, level.size) & (len(test) > 0))
    done = 0
    for t, depth in enumerate(depths):
        was = at.copy() if t else np.full_like(at, -1)
        while done < depth and len(level.size):
            splits = _best_splits(drawn, level, luck)
            found = splits.code >= 0
            np.add.at(gains, (level.tree[found], splits.code[found]), splits.gain[found])
            _descend(at, level, splits, test, len(values))
            level, more = _children(drawn, level, splits, len(values))
            values = np.concatenate([values, more])
            done += 1
        moved = (at != was).any(0)
        if t:
            told[t] = told[t - 1]
        told[t, moved] = sum(values[nodes[moved]] for nodes in at)
        total = gains.sum(1, keepdims=True)
        importances[t] = np.divide(gains, total, out=np.zeros_like(gains), where=total > 0).sum(0)
    return Forest(told, importances)


def _values(drawn: _Drawn, rows: Ints, size: Ints) -> Floats:
    """What nodes of rows side by side tell, (V, C): the mean number, or the share of each class."""
    if not len(size):
        return np.zeros((0, max(1, drawn.classes)))
    start = np.cumsum(size) - size
    weight = drawn.weight[rows]
    total = np.add.reduceat(weight, start)[:, None]
    if not drawn.classes:
        return np.add.reduceat(weight * drawn.target[rows], start)[:, None] / total
    key = np.repeat(np.arange(len(size)) * drawn.classes, size)
    key += drawn.target[rows].astype(np.int64)
    counts = np.bincount(key, weight, minlength=len(size) * drawn.classes)
    return counts.reshape(-1, drawn.classes) / total


def _varied(drawn: _Drawn, rows: Ints, size: Ints) -> Bools:
    """Which nodes (V,) of rows side by side are not of one number or class."""
    if not len(size):
        return np.zeros(0, dtype=np.bool_)
    target, start = drawn.target[rows], np.cumsum(size) - size
    varied: Bools = np.maximum.reduceat(target, start) > np.minimum.reduceat(target, start)
    return varied


def _kept(level: _Level, wanted: Bools) -> _Level:
    """Some of the nodes of a level."""
    if wanted.all():
        return level
    rows = np.repeat(wanted, level.size)
    return _Level(
        level.orders[:, rows],
        level.by_class[:, rows],
        level.size[wanted],
        level.number[wanted],
        level.tree[wanted],
        level.turn[wanted],
    )


def _best_splits(drawn: _Drawn, level: _Level, luck: Floats) -> _Splits:
    """For each node the code, and the values between which it is split.

    With w the rows on a side and q = (sum of their numbers)^2, or the sum over classes of the
    squared counts, that is where q/w of both sides together is largest.
    """
    sums = _Counts(drawn, level) if drawn.classes else _Numbers(drawn, level)
    end = np.cumsum(level.size)
    start = end - level.size
    both = np.empty(level.orders.shape)
    most = np.empty((len(both), len(start)))
    for d, (parted, order) in enumerate(zip(both, level.orders, strict=True)):
        sums.parted_squares(d, order, parted)
        if drawn.tied[d]:
            x = drawn.codes[d].take(order)
            parted[:-1][x[1:] == x[:-1]] = -1.0
        parted[end - 1] = -1.0  # all rows on one side
        np.maximum.reduceat(parted, start, out=most[d])
    best = most.max(0)
    code = np.where(most == best, luck[level.tree, level.turn].T, -1.0).argmax(0)
    places = np.arange(end[-1])
    chosen = both.ravel().take(np.repeat(code * len(places), level.size) + places)
    top = np.flatnonzero(chosen == np.repeat(best, level.size))
    place = top[np.searchsorted(top, start)]
    possible = best >= 0
    after = (place + 1).clip(max=len(places) - 1)
    return _Splits(
        np.where(possible, code, -1),
        drawn.codes[code, level.orders[code, place]],
        drawn.codes[code, level.orders[code, after]],
        np.where(possible, best - sums.whole, 0.0),
    )


class _Numbers:
    """Sums of numbers along the orders of a level."""

    def __init__(self, drawn: _Drawn, level: _Level) -> None:
        start, rows = np.cumsum(level.size) - level.size, level.orders[0]
        self.weights = _Weights(drawn, level)
        self.start, self.weighted = start, drawn.weight * drawn.target
        self.sum = np.add.reduceat(self.weighted.take(rows), start)
        self.total = np.repeat(self.sum, level.size)
        self.whole: Floats = self.sum**2 / self.weights.sum

    def parted_squares(self, d: int, order: Ints, out: Floats) -> None:
        """q/w on the left and right together, of the split after each row of an order (E,).

        Where all rows of a node are on the left it is of no meaning.
        """
        s = self.weighted.take(order)
        s[self.start[1:]] -= self.sum[:-1]
        s = _cumulated(s)
        np.subtract(self.total, s, out=out)
        s *= s
        out *= out
        self.weights.divide(order, s, out)


class _Counts:
    """Sums of squared counts of classes along the orders of a level.

    The rows of a class in a node are side by side in `by_class`; these are runs. A row of weight w
    with n of its class before it adds w (2 n + w) to the sum of n^2 over classes, and takes
    2 w N less of that from the sum of (N - n)^2, with N the weight of its run.
    """

    def __init__(self, drawn: _Drawn, level: _Level) -> None:
        rows, start = level.by_class[0], np.cumsum(level.size) - level.size
        self.weights = _Weights(drawn, level)
        self.weight, self.by_class, self.start = drawn.weight, level.by_class, start
        label = drawn.target.take(rows)
        new = np.ones(len(rows), dtype=np.bool_)
        np.not_equal(label[1:], label[:-1], out=new[1:])
        new[start] = True
        run = np.flatnonzero(new)
        length = np.diff(run, append=len(rows))
        n = np.add.reduceat(drawn.weight.take(rows), run)
        self.before = np.repeat(np.cumsum(n) - n, length)
        self.crossed = np.empty(len(drawn.weight))  # - 2 w N of each row
        self.crossed[rows] = np.repeat(-2 * n, length)
        self.crossed *= drawn.weight
        self.squares = np.add.reduceat(n**2, np.searchsorted(run, start))
        self.whole: Floats = self.squares / self.weights.sum
        self.steps = np.empty(len(drawn.weight))

    def parted_squares(self, d: int, order: Ints, out: Floats) -> None:
        """q/w on the left and right together, of the split after each row of an order (E,).

        Where all rows of a node are on the left it is of no meaning.
        """
        own = self.weight.take(self.by_class[d])
        n = _cumulated(own)
        n -= self.before
        n *= 2
        n -= own
        n *= own
        self.steps[self.by_class[d]] = n
        q = self.steps.take(order)
        other = self.crossed.take(order)
        other += q
        # At its last row a node has all of its squares on the left, and none on the right.
        q[self.start[1:]] -= self.squares[:-1]
        other[self.start] += self.squares
        self.weights.divide(order, _cumulated(q), out, _cumulated(other))


class _Weights:
    """Sums of weights along the orders of a level."""

    def __init__(self, drawn: _Drawn, level: _Level) -> None:
        self.end, self.weight = np.cumsum(level.size), drawn.weight
        self.start = self.end - level.size
        self.sum = np.add.reduceat(drawn.weight.take(level.orders[0]), self.start)
        self.whole = np.repeat(self.sum, level.size)

    def divide(self, order: Ints, left: Floats, out: Floats, right: Floats | None = None) -> None:
        """`left` and `right`, which is `out` if not given, by their weights, and summed."""
        w = self.weight.take(order)
        w[self.start[1:]] -= self.sum[:-1]
        w = _cumulated(w)
        left /= w
        np.subtract(self.whole, w, out=w)
        w[self.end - 1] = 1.0
        np.divide(out if right is None else right, w, out=out)
        out += left


def _cumulated(numbers: Floats) -> Floats:
    """Running sums (E,), which torch takes several times as fast as numpy."""
    sums: Floats = torch.from_numpy(numbers).cumsum(0).numpy()
    return sums


def _descend(at: Ints, level: _Level, splits: _Splits, test: Floats, nodes: int) -> None:
    """Move rows (trees, M) at nodes that are split to the children."""
    found = splits.code >= 0
    place = np.full(nodes, -1)
    place[level.number[found]] = np.arange(found.sum())
    code, below, above = splits.code[found], splits.below[found], splits.above[found]
    middle = below + (above - below) / 2
    middle = np.where(middle < above, middle, below)
    flat = at.ravel()
    local = place.take(flat)
    moving = np.flatnonzero(local >= 0)
    local = local[moving]
    x = test.ravel().take(code.take(local) * at.shape[1] + moving % at.shape[1])
    flat[moving] = nodes + local + len(code) * (x > middle.take(local))


def _children(drawn: _Drawn, level: _Level, splits: _Splits, nodes: int) -> tuple[_Level, Floats]:
    """The nodes below those that are split, those on the left first, and what they tell.

    Only those that can be split are in the level, their rows in the orders that they had.
    """
    found = splits.code >= 0
    count, kept = int(found.sum()), np.repeat(found, level.size)
    rows, node = level.orders[0].compress(kept), np.repeat(np.arange(count), level.size[found])
    x = drawn.codes.ravel().take(splits.code[found].take(node) * len(drawn.weight) + rows)
    right = x > splits.below[found].take(node)
    size = np.bincount(node + count * right, minlength=2 * count)
    rows = np.concatenate([rows.compress(~right), rows.compress(right)])
    varied = _varied(drawn, rows, size)
    side = np.repeat(np.where(np.arange(2 * count) < count, 1, 2) * varied, size)
    sides = np.zeros(len(drawn.weight), dtype=np.uint8)
    sides[rows] = side
    turn = level.turn[found]
    below = _Level(
        _parted(level.orders, sides, side),
        _parted(level.by_class, sides, side),
        size[varied],
        nodes + np.flatnonzero(varied),
        np.tile(level.tree[found], 2)[varied],
        (np.concatenate([2 * turn + 1, 2 * turn + 2]) % _LUCK)[varied],
    )
    return below, _values(drawn, rows, size)


def _parted(orders: Ints, sides: NDArray[np.uint8], side: Ints) -> Ints:
    """Orders (D, E) of the rows of side 1, and then of those of side 2."""
    left, right = int((side == 1).sum()), int((side == 2).sum())
    parted = np.empty((len(orders), left + right), dtype=np.int64)
    for mine, order in zip(parted, orders, strict=True):
        where = sides.take(order)
        mine[:left] = order.compress(where == 1)
        mine[left:] = order.compress(where == 2)
    return parted
