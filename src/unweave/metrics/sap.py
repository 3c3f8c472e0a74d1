"""How much better one code alone predicts a factor than the next."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple, Unpack, get_args

import numpy as np
from numpy.typing import ArrayLike

from unweave.metrics.information import top_gap
from unweave.metrics.inputs import Floats, Inputs, Ints, Seed, check_choice, read
from unweave.metrics.mcc import absolute_correlations
from unweave.metrics.options import Frame, framed
from unweave.metrics.predictors import TEST, TRAIN, Split, newton, split
from unweave.metrics.score import Score

SAPProtocol = Literal["locatello2019", "kumar2018"]


@framed
def sap(
    codes: ArrayLike,
    factors: ArrayLike,
    *,
    protocol: SAPProtocol = "locatello2019",
    rng: Seed = 0,
    train: int = TRAIN,
    test: int = TEST,
    discrete: ArrayLike | None = None,
    factor_names: Sequence[str] | None = None,
    leave_out: Sequence[int | str] = (),
    **frame: Unpack[Frame],
) -> Score:
    """Separated attribute predictability: how much better the best code predicts than the next.

    SAP = 1/K sum_k (S_ak - S_bk), where S_jk says how well code j alone predicts factor k, and a
    and b are the two codes that predict it best.  [Kumar2018]

    Protocols: `locatello2019` takes the accuracy of a linear support vector machine for each value
    of the factor against the others, fitted to 10,000 rows at C = 0.01 with balanced weights
    (LinearSVC of scikit-learn, solved to the end), on 5,000 other rows; or two thirds and the rest
    of a smaller table.  [Locatello2019] Such a classifier tells the ends of a range from the rest,
    but not the values in its middle: a perfect table does not score 1, and the score depends on the
    scale of the codes. `kumar2018` takes S_jk = Cov(z_j, v_k)^2 / (Var z_j Var v_k), the R^2 of a
    linear regression, on all rows, which is meant for factors whose values are ordered numbers,
    whole or real.  [Kumar2018]

    Other libraries take the accuracy of decision trees by cross-validation, or R^2 on the rows of
    fitting with pruned codes: their numbers differ. A constant code has the accuracy of a machine
    without slope, which tells the most frequent value, or of two values, which balanced weights
    make alike, the first; its R^2 is 0. A categorical code is read one-hot, all its categories
    together. With a single code the gap is all of S_1k.

    Args:
        codes: (N, D) posterior means.
        factors: (N, K) integers, or real numbers for `kumar2018`.
        protocol: whose predictor.
        rng: seed or generator, for the choice of rows; `kumar2018` reads all.
        train: rows to fit classifiers to.
        test: rows to test them on.
        discrete: (D,) mask of codes that are categories.
        factor_names: names for the parts of the score.
        leave_out: factors not to score, by name or number.

    Returns:
        Parts: the gap of each factor. Matrix: S (D, K).

    >>> factors = np.argwhere(np.ones((4, 5, 3)))[:, :2]
    >>> sap(factors @ [[1, 0], [0, 2]], factors, protocol="kumar2018", factor_names=("x", "y"))
    Score(sap/kumar2018 = 1.0000; x 1.000, y 1.000)
    """
    check_choice("protocol", protocol, get_args(SAPProtocol))
    inputs = read(
        codes,
        factors,
        discrete=discrete,
        factor_names=factor_names,
        leave_out=leave_out,
        continuous=frame.get("continuous"),
        classes_only=protocol != "kumar2018",
    )
    if protocol == "kumar2018":
        matrix, fitted, tested = _squared_correlations(inputs), inputs.rows, inputs.rows
    else:
        rows = split(inputs, train, test, np.random.default_rng(rng))
        matrix, fitted, tested = _accuracies(inputs, rows), len(rows.train), len(rows.test)
    gap = top_gap(matrix)
    return Score(
        name="sap",
        protocol=protocol,
        value=float(gap[inputs.scored].mean()),
        parts={inputs.names[k]: float(gap[k]) for k in inputs.scored},
        matrix=matrix,
        details={
            "rows": inputs.rows,
            "training rows": fitted,
            "test rows": tested,
            "best codes": matrix.argmax(0)[inputs.scored].tolist(),
            "factors left out": list(inputs.left_out),
        },
    )


def _squared_correlations(inputs: Inputs) -> Floats:
    """S (D, K): 0 for a constant code and for factors that are not scored."""
    matrix = np.zeros((inputs.dims, len(inputs.names)))
    v = inputs.values[:, inputs.scored]
    matrix[:, inputs.scored] = absolute_correlations(inputs.codes, v) ** 2
    for j in np.flatnonzero(inputs.discrete):
        matrix[j, inputs.scored] = _between(inputs.codes[:, j].astype(np.int64), v)
    return matrix


def _between(categories: Ints, v: Floats) -> Floats:
    """The share (K,) of the variance of numbers (N, K) that lies between categories (N,).

    That is the R^2 of a linear regression on the categories, one-hot.
    """
    centred = v - v.mean(0)
    counts = np.bincount(categories)
    sums = np.stack([np.bincount(categories, column) for column in centred.T], 1)
    share: Floats = (sums**2 / counts[:, None]).sum(0) / (centred**2).sum(0)
    return np.minimum(share, 1.0)


def _accuracies(inputs: Inputs, rows: Split) -> Floats:
    """S (D, K) of one classifier for each code and factor; 0 for factors that are not scored."""
    matrix = np.zeros((inputs.dims, len(inputs.names)))
    for j in range(inputs.dims):
        mine = np.flatnonzero(rows.active == j)
        z, other = rows.train[:, mine], rows.test[:, mine]
        order = np.argsort(z[:, 0], kind="stable") if len(mine) else np.arange(len(z))
        for k in inputs.scored:
            classes, v = np.unique(rows.train_factors[:, k], return_inverse=True)
            if not len(mine):
                told = np.full(len(other), 0 if len(classes) == 2 else np.bincount(v).argmax())
            elif inputs.discrete[j]:
                w, b = category_machines(z, v, len(classes))
                told = np.argmax(other @ w.T + b, axis=1)
            else:
                slope, b = machines(z[order, 0], v[order], len(classes))
                told = np.argmax(np.multiply.outer(other[:, 0], slope) + b, axis=1)
            matrix[j, k] = (classes[told] == rows.test_factors[:, k]).mean()
    return matrix


def machines(x: Floats, labels: Ints, classes: int, c: float = 0.01) -> tuple[Floats, Floats]:
    """Slopes and offsets (C,) of a linear support vector machine for each class against the rest.

    Each minimises (w^2 + b^2) / 2 + sum_i c_i max(0, 1 - y_i (w x_i + b))^2, with y = 1 in the
    class and -1 outside, and c_i = c inside times N / (C N_class); outside too where there are two
    classes: as LinearSVC of scikit-learn with balanced weights. Rows that count lie on one side of
    a threshold in x, so that with sums along x a step of Newton's method takes no pass over rows.

    Args:
        x: (N,) in order.
        labels: (N,) 0 to C - 1, each of which occurs.
        classes: C.
        c: the weight of errors.
    """
    if classes == 1:
        return np.zeros(1), np.zeros(1)
    scale = float(np.abs(x).max())
    sums = _Halves.of(x / scale, labels, classes)
    inside, outside = _costs(labels, classes, c)
    # No slope is worth its price at scales below the least here.
    ridge = np.array([min(1 / scale, 1e150) ** 2, 1.0])
    w = newton(lambda w: sums.loss(w, inside, outside, ridge), np.zeros((classes, 2)))
    return w[:, 0] / scale, w[:, 1]


def category_machines(
    z: Floats, labels: Ints, classes: int, c: float = 0.01
) -> tuple[Floats, Floats]:
    """As `machines`, of categories, one-hot (N, M): slopes (C, M) and offsets (C,).

    Rows of a category and class are alike, so that their counts are all that matters.
    """
    if classes == 1:
        return np.zeros((1, z.shape[1])), np.zeros(1)
    inside, outside = (cost[:, None] for cost in _costs(labels, classes, c))
    own = (labels == np.arange(classes)[:, None]) @ z  # (C, M)
    rest = z.sum(0) - own

    def loss(w: Floats) -> tuple[Floats, Floats, Floats]:
        told = w[:, :-1] + w[:, -1:]
        short, over = np.maximum(1 - told, 0.0), np.maximum(1 + told, 0.0)
        value = (w**2).sum(1) / 2 + (inside * own * short**2 + outside * rest * over**2).sum(1)
        pull = 2 * (outside * rest * over - inside * own * short)
        curve = 2 * (outside * rest * (over > 0) + inside * own * (short > 0))
        bend = np.zeros((classes, w.shape[1], w.shape[1])) + np.eye(w.shape[1])
        at = np.arange(w.shape[1] - 1)
        bend[:, at, at] += curve
        bend[:, at, -1] = bend[:, -1, at] = curve
        bend[:, -1, -1] += curve.sum(1)
        return value, w + np.column_stack([pull, pull.sum(1)]), bend

    w = newton(loss, np.zeros((classes, z.shape[1] + 1)))
    return w[:, :-1], w[:, -1]


def _costs(labels: Ints, classes: int, c: float) -> tuple[Floats, Floats]:
    """The weights (C,) of errors inside and outside of each class."""
    inside = c * len(labels) / (classes * np.bincount(labels))
    return inside, inside[::-1] if classes == 2 else np.full(classes, c)


class _Halves(NamedTuple):
    """Sums of 1, x and x^2 over rows in order, all of them and those of each class."""

    x: Floats  # (N,)
    every: Floats  # (N + 1, 3) over the first rows
    of_class: Floats  # (N + 1, 3) over the first rows, those of class 0 first, then class 1, ...
    key: Ints  # (N,) class * (N + 1) + place, in this order
    start: Ints  # (C + 1,) where each class begins in it

    @classmethod
    def of(cls, x: Floats, labels: Ints, classes: int) -> _Halves:
        powers = np.stack([np.ones_like(x), x, x * x], 1)
        order = np.argsort(labels, kind="stable")
        return cls(
            x,
            np.concatenate([np.zeros((1, 3)), np.cumsum(powers, 0)]),
            np.concatenate([np.zeros((1, 3)), np.cumsum(powers[order], 0)]),
            labels[order] * (len(x) + 1) + order,
            np.concatenate([[0], np.cumsum(np.bincount(labels, minlength=classes))]),
        )

    def loss(
        self, w: Floats, inside: Floats, outside: Floats, ridge: Floats
    ) -> tuple[Floats, Floats, Floats]:
        """The loss of each machine w (C, 2), (C,), its gradient (C, 2) and Hessian (C, 2, 2)."""
        mine = self._beyond(w, 1.0)[1]
        every, own = self._beyond(-w, 1.0)
        value = (ridge * w * w).sum(1) / 2
        slope, bend = ridge * w, np.zeros((len(w), 2, 2)) + np.diag(ridge)
        for y, cost, (n, s, q) in ((1.0, inside, mine.T), (-1.0, outside, (every - own).T)):
            gap = 1 - y * w[:, 1]
            value += cost * (n * gap**2 - 2 * y * gap * w[:, 0] * s + w[:, 0] ** 2 * q)
            slope[:, 0] += 2 * cost * (w[:, 0] * q + w[:, 1] * s - y * s)
            slope[:, 1] += 2 * cost * (w[:, 0] * s + w[:, 1] * n - y * n)
            bend += 2 * cost[:, None, None] * np.stack([[q, s], [s, n]]).transpose(2, 0, 1)
        return value, slope, bend

    def _beyond(self, w: Floats, edge: float) -> tuple[Floats, Floats]:
        """Sums over the rows with w x + b < edge, of all (C, 3) and of each class (C, 3)."""
        slope, room = w[:, 0], edge - w[:, 1]
        flat = slope == 0
        at = np.divide(room, slope, out=np.where(room > 0, np.inf, -np.inf), where=~flat)
        rising = slope >= 0  # where w is 0, all rows or none are below an infinite threshold
        low = np.searchsorted(self.x, at, "left")
        high = np.searchsorted(self.x, at, "right")
        place = np.where(rising, low, high)
        classes = np.arange(len(w))
        within = np.searchsorted(self.key, classes * (len(self.x) + 1) + place)
        below, own = self.every[place], self.of_class[within] - self.of_class[self.start[:-1]]
        whole = self.of_class[self.start[1:]] - self.of_class[self.start[:-1]]
        upward = rising[:, None]
        return (
            np.where(upward, below, self.every[-1] - below),
            np.where(upward, own, whole - own),
        )
