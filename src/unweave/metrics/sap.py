"""SAP, separated attribute predictability."""

from typing import Literal, NamedTuple, Self

import numpy as np

from unweave.metrics.arrays import Floats, Ints
from unweave.metrics.information import gap_score
from unweave.metrics.inputs import Inputs
from unweave.metrics.mcc import absolute_correlations
from unweave.metrics.options import metric
from unweave.metrics.predictors import TEST, TRAIN, Split, newton, split
from unweave.metrics.score import Detail, Score
from unweave.metrics.validation import PerRow

_C = 0.01  # weight of errors  [Locatello2019]


@metric
def sap(
    inputs: Inputs,
    *,
    protocol: Literal["locatello2019", "kumar2018"] = "locatello2019",
    train: int = TRAIN,
    test: int = TEST,
    test_rows: PerRow | None = None,
) -> Score:
    """Compute how much better the best code alone predicts a factor than the next best.

    SAP = 1/K sum_k (S_ak - S_bk), where S_jk is how well code j alone predicts factor k, and a and
    b are the two codes that predict it best.  [Kumar2018]

    Protocols: `locatello2019` takes the accuracy of a linear support vector machine for each value
    of the factor against the others, fitted to 10,000 rows at C = 0.01 with balanced weights
    (LinearSVC of scikit-learn, run to convergence), on 5,000 other rows; a smaller table is split
    into two thirds and one third.  [Locatello2019] Such a classifier separates the ends of a range
    from the rest, but not the values in its middle, so a perfect table does not score 1. The score
    depends on the scale of the codes. `kumar2018` takes S_jk = Cov(z_j, v_k)^2 / (Var z_j Var v_k),
    the R^2 of a linear regression, on all rows; it is meant for factors whose values are ordered
    numbers, integer or real.  [Kumar2018]

    Other libraries take the accuracy of decision trees by cross-validation, or R^2 on the training
    rows with pruned codes, so their numbers differ. A constant code has the accuracy of a
    classifier without slope: it predicts the most frequent value, or the first of two values,
    because balanced weights make them equal. Its R^2 is 0. A categorical code is read one-hot, all
    of its categories together. With a single code the gap is the whole of S_1k.

    Args:
        inputs: posterior means (N, D), and factors (N, K) that are integers, or real numbers for
            `kumar2018`.
        protocol: whose predictor.
        train: rows to fit classifiers to.
        test: rows to test them on.
        test_rows: mask (N,) or indices of the rows to test on, if not chosen at random; all others
            are trained on. `kumar2018` takes none.

    Returns:
        Parts: the gap of each factor. Matrix: S (D, K).

    >>> factors = np.argwhere(np.ones((4, 5, 3)))[:, :2]
    >>> sap(factors @ [[1, 0], [0, 2]], factors, protocol="kumar2018", factor_names=("x", "y"))
    Score(sap/kumar2018 = 1.0000; x 1.000, y 1.000)
    """
    if protocol == "kumar2018":
        if test_rows is not None:
            raise ValueError(
                "expected no test_rows for the protocol kumar2018, which reads all rows: leave "
                "them out, or use the protocol locatello2019"
            )
        matrix, read = _squared_correlations(inputs), inputs.rows
        sizes: dict[str, Detail] = {"training rows": read, "test rows": read}
    else:
        inputs.require_classes()
        inputs.require_learnable_classes()
        rows = split(inputs, train, test, test_rows)
        matrix, read, sizes = _accuracies(inputs, rows), rows.rows, rows.details
    return gap_score(inputs, matrix, read, sizes)


def _squared_correlations(inputs: Inputs) -> Floats:
    """Compute S (D, K); 0 for constant codes and for factors that are not scored."""
    matrix = np.zeros((inputs.dims, len(inputs.names)))
    v = inputs.values[:, inputs.scored]
    matrix[:, inputs.scored] = absolute_correlations(inputs.codes, v) ** 2
    for j in np.flatnonzero(inputs.discrete):
        matrix[j, inputs.scored] = _explained_variance(inputs.codes[:, j].astype(np.int64), v)
    return matrix


def _explained_variance(categories: Ints, v: Floats) -> Floats:
    """Compute the R^2 (K,) of a linear regression of v (N, K) on one-hot categories (N,)."""
    centred = v - v.mean(0)
    counts = np.bincount(categories)
    sums = np.stack([np.bincount(categories, column) for column in centred.T], 1)
    share: Floats = (sums**2 / counts[:, None]).sum(0) / (centred**2).sum(0)
    return np.minimum(share, 1.0)


def _accuracies(inputs: Inputs, rows: Split) -> Floats:
    """Compute S (D, K), a classifier for each code and factor; 0 for factors not scored."""
    matrix = np.zeros((inputs.dims, len(inputs.names)))
    for j in range(inputs.dims):
        columns = np.flatnonzero(rows.active == j)
        z, other = rows.train[:, columns], rows.test[:, columns]
        order = np.argsort(z[:, 0], kind="stable") if len(columns) else np.arange(len(z))
        for k in inputs.scored:
            classes, v = np.unique(rows.train_factors[:, k], return_inverse=True)
            if not len(columns):
                predicted = np.full(len(other), 0 if len(classes) == 2 else np.bincount(v).argmax())
            elif inputs.discrete[j]:
                w, b = categorical_svm(z, v, len(classes))
                predicted = np.argmax(other @ w.T + b, axis=1)
            else:
                slope, b = linear_svm(z[order, 0], v[order], len(classes))
                predicted = np.argmax(np.multiply.outer(other[:, 0], slope) + b, axis=1)
            matrix[j, k] = (classes[predicted] == rows.test_factors[:, k]).mean()
    return matrix


def linear_svm(x: Floats, labels: Ints, classes: int) -> tuple[Floats, Floats]:
    """Fit a linear support vector machine for each class against the rest: slopes, offsets (C,).

    Each minimises (w^2 + b^2) / 2 + sum_i c_i max(0, 1 - y_i (w x_i + b))^2 with y = 1 in the class
    and -1 outside. The weights are balanced as in scikit-learn's LinearSVC: with c = 0.01,
    c_i = c N / (C N_class) in the class and c outside; for two classes both are balanced. The rows
    with a loss lie on one side of a threshold in x, so that cumulated sums along x spare Newton's
    method passes over rows.

    Args:
        x: (N,) sorted.
        labels: (N,) 0 to C - 1, each of which occurs.
        classes: C.
    """
    if classes == 1:
        return np.zeros(1), np.zeros(1)
    scale = float(np.abs(x).max())
    sums = _CumulatedSums.of(x / scale, labels, classes)
    inside, outside = _costs(labels, classes)
    # At smaller scales than 1e-150 the penalty leaves no slope.
    ridge = np.array([min(1 / scale, 1e150) ** 2, 1.0])
    w = newton(lambda w: sums.loss(w, inside, outside, ridge), np.zeros((classes, 2)))
    return w[:, 0] / scale, w[:, 1]


def categorical_svm(z: Floats, labels: Ints, classes: int) -> tuple[Floats, Floats]:
    """Like `linear_svm`, for one-hot categories (N, M): slopes (C, M) and offsets (C,).

    Rows of the same category and class are equal, so the loss depends only on their counts.
    """
    if classes == 1:
        return np.zeros((1, z.shape[1])), np.zeros(1)
    inside, outside = (cost[:, None] for cost in _costs(labels, classes))
    own = (labels == np.arange(classes)[:, None]) @ z  # (C, M)
    rest = z.sum(0) - own

    def loss(w: Floats) -> tuple[Floats, Floats, Floats]:
        output = w[:, :-1] + w[:, -1:]
        short, over = np.maximum(1 - output, 0.0), np.maximum(1 + output, 0.0)
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


def _costs(labels: Ints, classes: int) -> tuple[Floats, Floats]:
    """Return the weights (C,) of errors inside and outside each class."""
    inside = _C * len(labels) / (classes * np.bincount(labels))
    return inside, inside[::-1] if classes == 2 else np.full(classes, _C)


class _CumulatedSums(NamedTuple):
    """Sums of 1, x and x^2 over the first rows in the order of x, of all and of each class."""

    x: Floats  # (N,)
    every: Floats  # (N + 1, 3)
    of_class: Floats  # (N + 1, 3) with the rows of class 0 first, then those of class 1, ...
    key: Ints  # (N,) class * (N + 1) + rank of x, in this order
    start: Ints  # (C + 1,) where each class begins in this order

    @classmethod
    def of(cls, x: Floats, labels: Ints, classes: int) -> Self:
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
        """Compute the loss (C,) of machines w (C, 2), its gradient (C, 2) and Hessian (C, 2, 2)."""
        mine = self._sums_below(w, 1.0)[1]
        every, own = self._sums_below(-w, 1.0)
        value = (ridge * w * w).sum(1) / 2
        slope, bend = ridge * w, np.zeros((len(w), 2, 2)) + np.diag(ridge)
        for y, cost, (n, s, q) in ((1.0, inside, mine.T), (-1.0, outside, (every - own).T)):
            gap = 1 - y * w[:, 1]
            value += cost * (n * gap**2 - 2 * y * gap * w[:, 0] * s + w[:, 0] ** 2 * q)
            slope[:, 0] += 2 * cost * (w[:, 0] * q + w[:, 1] * s - y * s)
            slope[:, 1] += 2 * cost * (w[:, 0] * s + w[:, 1] * n - y * n)
            bend += 2 * cost[:, None, None] * np.stack([[q, s], [s, n]]).transpose(2, 0, 1)
        return value, slope, bend

    def _sums_below(self, w: Floats, edge: float) -> tuple[Floats, Floats]:
        """Sum over the rows with w x + b < edge, of all (C, 3) and of each class (C, 3)."""
        slope, margin = w[:, 0], edge - w[:, 1]
        flat = slope == 0
        at = np.divide(margin, slope, out=np.where(margin > 0, np.inf, -np.inf), where=~flat)
        rising = slope >= 0  # without slope, all rows or none are below the infinite threshold
        low = np.searchsorted(self.x, at, "left")
        high = np.searchsorted(self.x, at, "right")
        place = np.where(rising, low, high)
        classes = np.arange(len(w))
        within = np.searchsorted(self.key, classes * (len(self.x) + 1) + place)
        below, own = self.every[place], self.of_class[within] - self.of_class[self.start[:-1]]
        whole = self.of_class[self.start[1:]] - self.of_class[self.start[:-1]]
        upward = rising[:, None]
        return (np.where(upward, below, self.every[-1] - below), np.where(upward, own, whole - own))
