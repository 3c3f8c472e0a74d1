"""Random forests on codes: all trees grown together, level by level, and read at several depths.

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

from unweave.metrics.inputs import Bools, Floats, Ints

_AT_ONCE = 2**18  # codes of the rows of trees that are grown at once: what stays in the cache
_LUCK = 97  # draws to each tree and code, which nodes take in turn


class Forest(NamedTuple):
    """What trees tell, at each of T depths."""

    told: Floats  # (T, M, C) mean numbers (C = 1) or mean shares of classes
    importances: Floats  # (T, D) mean decrease of impurity, of sum 1; 0 where no tree splits


class _Drawn(NamedTuple):
    """The rows that trees have drawn, E in all."""

    codes: Floats  # (D, E)
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
    told = np.zeros((len(depths), len(test), max(1, classes)))
    importances = np.zeros((len(depths), train.shape[1]))
    codes, others = np.ascontiguousarray(train.T), np.ascontiguousarray(test.T)
    order = np.argsort(codes, axis=1, kind="stable")
    numbers = np.asarray(target, dtype=np.float64)
    # Each has draws of its own, so that it does not matter how many are grown at once.
    streams = rng.spawn(trees)
    step = max(1, _AT_ONCE // train.size) if train.size else trees
    for at in range(0, trees, step):
        few = streams[at : at + step]
        drawn, level = _first(codes, order, numbers, classes, few)
        luck = np.stack([stream.random((_LUCK, len(codes))) for stream in few])
        _grow(drawn, level, luck, others, depths, told, importances)
    told /= trees
    total = importances.sum(1, keepdims=True)
    np.divide(importances, total, out=importances, where=total > 0)
    return Forest(told, importances)


def _first(
    codes: Floats,
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
        mine[:] = place[:, each][kept[:, each]]
    by_class = np.empty((0, len(row)), dtype=np.int64)
    if classes:
        number = (tree * classes + target[row])[orders]
        by_class = np.take_along_axis(orders, np.argsort(number, axis=1, kind="stable"), 1)
    trees = np.arange(len(streams))
    drawn = _Drawn(codes[:, row], target[row], counts[kept].astype(np.float64), classes)
    return drawn, _Level(orders, by_class, kept.sum(1), trees, trees)


def _grow(
    drawn: _Drawn,
    level: _Level,
    luck: Floats,
    test: Floats,
    depths: Sequence[int],
    told: Floats,
    importances: Floats,
) -> None:
    """Grow trees from their roots, and add what they tell and the importances of their codes."""
    gains = np.zeros((len(level.tree), len(test)))
    at = np.repeat(level.number[:, None], test.shape[1], axis=1)  # nodes of the rows of the test
    values = _values(drawn, level)
    level = _open(drawn, level)
    said, done = _said(values, at), 0
    for t, depth in enumerate(depths):
        before = done
        while done < depth and len(level.size):
            splits = _best_splits(drawn, level, luck, done)
            found = splits.code >= 0
            np.add.at(gains, (level.tree[found], splits.code[found]), splits.gain[found])
            child = len(values) + 2 * (np.cumsum(found) - 1)
            _descend(at, level, splits, child, test, len(values))
            level = _children(drawn, level, splits, child)
            values = np.concatenate([values, _values(drawn, level)])
            level = _open(drawn, level)
            done += 1
        said = _said(values, at) if done > before else said
        told[t] += said
        total = gains.sum(1, keepdims=True)
        importances[t] += np.divide(gains, total, out=np.zeros_like(gains), where=total > 0).sum(0)


def _said(values: Floats, at: Ints) -> Floats:
    """What nodes (trees, M) tell of each row, summed over trees, (M, C)."""
    said: Floats = values[at[0]]
    for nodes in at[1:]:
        said += values[nodes]
    return said


def _nodes(level: _Level) -> tuple[Ints, Ints]:
    """Where the rows of each node begin, (V,), and the node at each place, (E,)."""
    return np.cumsum(level.size) - level.size, np.repeat(np.arange(len(level.size)), level.size)


def _values(drawn: _Drawn, level: _Level) -> Floats:
    """What each node tells, (V, C): its mean number, or the share of each class."""
    if not len(level.size):
        return np.zeros((0, max(1, drawn.classes)))
    start, node = _nodes(level)
    rows = _any_order(level)
    weight = drawn.weight[rows]
    total = np.add.reduceat(weight, start)[:, None]
    if drawn.classes:
        return _counts(drawn, node, rows) / total
    return np.add.reduceat(weight * drawn.target[rows], start)[:, None] / total


def _any_order(level: _Level) -> Ints:
    """The rows (E,) by node; without codes there is no order, and all trees are roots."""
    return level.orders[0] if len(level.orders) else np.arange(level.orders.shape[1])


def _counts(drawn: _Drawn, node: Ints, rows: Ints) -> Floats:
    """The rows of each node by class, (V, C)."""
    key = node * drawn.classes + drawn.target[rows].astype(np.int64)
    length = (int(node[-1]) + 1) * drawn.classes
    counts: Floats = np.bincount(key, drawn.weight[rows], minlength=length).astype(np.float64)
    return counts.reshape(-1, drawn.classes)


def _open(drawn: _Drawn, level: _Level) -> _Level:
    """The nodes that are not of one number or class."""
    if not len(level.size):
        return level
    target, (start, _) = drawn.target[_any_order(level)], _nodes(level)
    varied = np.maximum.reduceat(target, start) > np.minimum.reduceat(target, start)
    return _kept(level, varied & (len(level.orders) > 0))


def _kept(level: _Level, wanted: Bools) -> _Level:
    if wanted.all():
        return level
    rows = np.repeat(wanted, level.size)
    return _Level(
        level.orders[:, rows],
        level.by_class[:, rows],
        level.size[wanted],
        level.number[wanted],
        level.tree[wanted],
    )


def _best_splits(drawn: _Drawn, level: _Level, luck: Floats, depth: int) -> _Splits:
    """For each node the code, and the values between which it is split.

    With w the rows on a side and q = (sum of their numbers)^2, or the sum over classes of the
    squared counts, that is where q/w of both sides together is largest.
    """
    start, node = _nodes(level)
    offset = drawn.codes.shape[1] * np.arange(len(level.orders))[:, None]
    x = drawn.codes.ravel().take(level.orders + offset)
    both, whole = _parted_squares(drawn, level, start, node)
    both[:, :-1][x[:, 1:] <= x[:, :-1]] = -1.0
    both[:, start + level.size - 1] = -1.0  # all rows on one side
    most = np.maximum.reduceat(both, start, axis=1)  # (D, V)
    best = most.max(0)
    code = np.where(most == best, _lots(level, luck, depth), -1.0).argmax(0)
    places = np.arange(len(node))
    top = np.flatnonzero(both[code[node], places] == best[node])
    place = top[np.flatnonzero(np.diff(node[top], prepend=-1))]
    possible = best >= 0
    return _Splits(
        np.where(possible, code, -1),
        x[code, place],
        x[code, (place + 1).clip(max=len(node) - 1)],
        np.where(possible, best - whole, 0.0),
    )


def _lots(level: _Level, luck: Floats, depth: int) -> Floats:
    """Random numbers for each code and node, (D, V), that depend on the node's own tree only."""
    first = np.searchsorted(level.tree, level.tree)
    turn = (np.arange(len(level.tree)) - first + 31 * depth) % _LUCK
    lots: Floats = luck[level.tree, turn].T
    return lots


def _parted_squares(drawn: _Drawn, level: _Level, start: Ints, node: Ints) -> tuple[Floats, Floats]:
    """q/w on the left and right together, of the split after each row, (D, E), and of nodes (V,).

    Where all rows of a node are on the left the first is of no meaning.
    """
    w = drawn.weight.take(level.orders)
    weight = np.add.reduceat(w[0], start)
    left = _from_start(np.cumsum(w, axis=1), weight, node)
    right = np.maximum(weight[node] - left, 1.0)
    if drawn.classes:
        q, other, all_of = _squared_counts(drawn, level, node, w)
        whole = all_of / weight
    else:
        w *= drawn.target.take(level.orders)
        total = np.add.reduceat(w[0], start)
        s = _from_start(np.cumsum(w, axis=1), total, node)
        q, other, whole = s**2, (total[node] - s) ** 2, total**2 / weight
    q /= left
    other /= right
    q += other
    return q, whole


def _from_start(cumulated: Floats, total: Floats, node: Ints) -> Floats:
    """Sums along orders (D, E), counted from the start of each node, whose totals are given."""
    cumulated -= (np.cumsum(total) - total)[node]
    return cumulated


def _squared_counts(
    drawn: _Drawn, level: _Level, node: Ints, w: Floats
) -> tuple[Floats, Floats, Floats]:
    """Sums over classes of squared counts left and right of each split, (D, E), and in nodes."""
    counts = _counts(drawn, node, level.orders[0])
    ordered = level.by_class[0]
    key = node * drawn.classes + drawn.target[ordered].astype(np.int64)
    same = np.empty(len(drawn.weight))  # N, the count of a row's class in its node
    same[ordered] = counts.ravel()[key]
    own = drawn.weight.take(level.by_class)
    n = _from_start(np.cumsum(own, axis=1), counts.ravel(), key)
    n -= own
    within = np.empty_like(drawn.codes)  # n, how many of a row's class are before it
    np.put_along_axis(within, level.by_class, n, 1)
    squares = (counts**2).sum(1)
    # A row of weight w adds w (2 n + w) to the sum of n^2, and w N to that of N n.
    steps = np.take_along_axis(within, level.orders, 1)
    steps *= 2
    steps += w
    steps *= w
    q = _from_start(np.cumsum(steps, axis=1), squares, node)
    steps = same.take(level.orders)
    steps *= w
    cross = _from_start(np.cumsum(steps, axis=1), squares, node)
    cross *= -2
    cross += q
    cross += squares[node]
    return q, cross, squares


def _descend(
    at: Ints, level: _Level, splits: _Splits, child: Ints, test: Floats, nodes: int
) -> None:
    """Move rows (trees, M) at nodes that are split to the children."""
    place = np.full(nodes, -1)
    place[level.number[splits.code >= 0]] = np.flatnonzero(splits.code >= 0)
    middle = splits.below + (splits.above - splits.below) / 2
    middle = np.where(middle < splits.above, middle, splits.below)
    flat = at.ravel()
    moving = np.flatnonzero(place[flat] >= 0)
    local = place[flat[moving]]
    x = test[splits.code[local], moving % at.shape[1]]
    flat[moving] = child[local] + (x > middle[local])


def _children(drawn: _Drawn, level: _Level, splits: _Splits, child: Ints) -> _Level:
    """The nodes below those that are split, their rows in the orders that they had."""
    found = splits.code >= 0
    level = _kept(level, found)
    _, node = _nodes(level)
    rows = level.orders[0]
    right = np.zeros(len(drawn.weight), dtype=np.bool_)
    right[rows] = drawn.codes[splits.code[found][node], rows] > splits.below[found][node]
    size = np.bincount(2 * node + right[rows], minlength=2 * int(found.sum()))
    slots = np.repeat(np.arange(len(size)) % 2 == 1, size)  # of the rows that go right
    first = child[found]
    return _Level(
        _parted(level.orders, right, slots),
        _parted(level.by_class, right, slots),
        size,
        np.stack([first, first + 1], 1).ravel(),
        np.repeat(level.tree, 2),
    )


def _parted(orders: Ints, right: Bools, slots: Bools) -> Ints:
    """Orders (D, E) with the rows of each node that go left before those that go right."""
    side = right.take(orders)
    parted = np.empty_like(orders)
    parted[:, slots] = orders[side].reshape(len(orders), int(slots.sum()))
    parted[:, ~slots] = orders[~side].reshape(len(orders), int((~slots).sum()))
    return parted
