"""Tools of metrics that train predictors: train and test rows, and regressions."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import nullcontext
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import ArrayLike
from threadpoolctl import threadpool_limits

from unweave.core.parallel import own_cores, thread_map
from unweave.metrics.arrays import Floats, Ints, as_row_mask
from unweave.metrics.inputs import Inputs
from unweave.metrics.score import Detail

T = TypeVar("T")
R = TypeVar("R")

TRAIN = 10_000  # [Locatello2019]
TEST = 5_000
_SWEEPS = 10_000  # of coordinate descent, at most


class Split(NamedTuple):
    """A table split into rows to train on and rows to test on, with the codes that vary."""

    train: Floats  # (N, A) columns: a code, or a category of a discrete code as 0 or 1
    test: Floats  # (M, A)
    train_factors: Ints  # (N, K)
    test_factors: Ints  # (M, K)
    train_values: Floats  # (N, K) original factor values
    test_values: Floats  # (M, K)
    active: Ints  # (A,) the code that each column belongs to
    dims: int  # D, the number of codes

    @property
    def rows(self) -> int:
        """The number of rows that are read, N + M."""
        return len(self.train) + len(self.test)

    @property
    def details(self) -> dict[str, Detail]:
        """How many rows a score was fitted to and tested on."""
        return {"training rows": len(self.train), "test rows": len(self.test)}

    def by_code(self, importances: Mapping[int, Floats]) -> Floats:
        """Sum importances (A,) for each factor over the columns of each code, (D, K)."""
        summed = np.zeros((self.dims, self.train_factors.shape[1]))
        for k, each in importances.items():
            np.add.at(summed[:, k], self.active, each)
        return summed


def split(inputs: Inputs, train: int, test: int, test_rows: ArrayLike | None = None) -> Split:
    """Split the rows at random into `train` and `test` rows, or as `test_rows` says.

    If there are fewer rows, both get their share. With `test_rows`, a mask or indices, all other
    rows are trained on. The rows are in random order, so that a split drawn here and the same split
    given by `test_rows` give the same score.

    A discrete code has a column for each of its categories. Columns that are constant on the
    training rows are left out, and the others are sorted by their values rather than by their place
    in the table, so that random choices among codes do not depend on the order of the codes.
    """
    if train < 1 or test < 1:
        raise ValueError(f"expected at least 1 row to train and to test on, got {train} and {test}")
    rows = inputs.rows
    order = inputs.rng.permutation(rows)
    if test_rows is not None:
        tested = as_row_mask("test_rows", test_rows, rows)[order]
        train = int((~tested).sum())
        if train in (0, rows):
            raise ValueError(
                f"expected test_rows to leave rows both to train and to test on, got {rows - train}"
                f" of {rows} rows to test on"
            )
        order = np.concatenate([order[~tested], order[tested]])
    else:
        if rows < train + test:
            train = min(max(round(rows * train / (train + test)), 1), rows - 1)
            test = rows - train
        order = order[: train + test]
    first, second = order[:train], order[train:]
    columns, code = one_hot_columns(inputs, order)
    varied = np.flatnonzero((columns[:train] != columns[0]).any(0)).tolist()
    # By the ranks of their values, which do not depend on the scale of a code.
    # The first 1000 are enough to tell codes apart.
    ranks = np.argsort(columns[: min(train, 1000)], axis=0, kind="stable").T
    active = np.array(sorted(varied, key=lambda a: ranks[a].tobytes()), dtype=np.int64)
    return Split(
        columns[:train, active],
        columns[train:, active],
        inputs.factors[first],
        inputs.factors[second],
        inputs.values[first],
        inputs.values[second],
        code[active],
        inputs.dims,
    )


def one_hot_columns(inputs: Inputs, rows: Ints) -> tuple[Floats, Ints]:
    """Return the codes of some rows (N, A), discrete ones one-hot, and the code of each column."""
    codes = inputs.codes[rows]
    if not inputs.discrete.any():
        return codes, np.arange(inputs.dims)
    parts = [
        (z == np.unique(z)).astype(np.float64) if inputs.discrete[j] else z
        for j, z in enumerate(np.split(codes, inputs.dims, axis=1))
    ]
    return np.concatenate(parts, axis=1), np.repeat(
        np.arange(inputs.dims), [part.shape[1] for part in parts]
    )


def with_ones(z: Floats) -> Floats:
    """Append a column of ones to codes (N, D), for the offset of a regression."""
    return np.column_stack([z, np.ones(len(z))])


def standardise(train: Floats | Ints, *others: Floats | Ints) -> tuple[Floats, ...]:
    """Standardise all arrays by the means and standard deviations of `train`.

    A column that is constant in `train` becomes 0.
    """
    mean = train.mean(0)
    centred = train - mean
    deviation = np.sqrt(np.einsum("n...,n...->...", centred, centred) / len(train))
    # Rounding leaves a constant column a tiny deviation, relative to its size.
    varied = deviation > 1e-12 * np.abs(train).max(0)
    scale = np.where(varied, deviation, np.inf)
    centred /= scale
    return (centred, *((each - mean) / scale for each in others))


def lasso(gram: Floats, product: Floats, penalty: float) -> Floats:
    """Minimise E[(v_k - z w)^2] / 2 + penalty sum_j |w_j| over w (D,), for each v_k: (D, K).

    Coordinate descent from E[z z^T] (D, D) and E[z v] (D, K) of centred variables, until no w_j
    changes by 1e-9. The w_j of a constant code is 0.

    >>> lasso(np.eye(2), np.array([[0.5], [0.01]]), 0.02).T
    array([[0.48, 0.  ]])
    """
    w = np.zeros(product.shape)
    for _ in range(_SWEEPS):
        before = w.copy()
        for j, row in enumerate(gram):
            pull = product[j] - row @ w + row[j] * w[j]
            if row[j] > 0:
                w[j] = (pull - pull.clip(-penalty, penalty)) / row[j]
        if np.abs(w - before).max(initial=0.0) < 1e-9:
            break
    return w


def logistic(
    wide: Floats,
    labels: Ints,
    classes: int,
    *,
    weight: Floats | None = None,
    penalty: float | Floats = 0.0,
    start: Floats | None = None,
    steps: int = 100,
) -> Floats:
    """Fit the weights w (C, P) of softmax regression by L-BFGS, stopping where scikit-learn does.

    With p_c = exp(w_c x) / sum exp(w_c x), minimise -E[log p_label] + penalty/2 sum w^2, without a
    penalty on the last column of w. For two classes the penalty is doubled, because scikit-learn
    has one w for their difference.

    Args:
        wide: (P, N) codes, with ones in the last row.
        labels: (N,) 0 to C - 1.
        classes: C.
        weight: (N,) weights of the rows, with sum 1; default: equal.
        penalty: weight of the squares, one or (P,).
        start: (C, P) initial weights; default: zeros.
        steps: maximal number of iterations.
    """
    from scipy.optimize import minimize

    rows = wide.shape[1]
    share = np.full(rows, 1 / rows) if weight is None else weight
    ridge = np.full((classes, len(wide)), penalty) * (2 if classes == 2 else 1)
    ridge[:, -1] = 0.0
    # In chunks of rows: intermediate results stay in the cache, and BLAS computes such small
    # products in one thread, so that sums do not depend on the number of threads.
    step = max(1, 2**18 // (classes * max(len(wide), 8)))
    slices = [slice(at, at + step) for at in range(0, rows, step)]
    chunks = [(wide[:, rows], labels[rows], share[rows]) for rows in slices]
    index, buffer = np.arange(min(step, rows)), np.empty((classes, min(step, rows)))

    def loss(flat: Floats) -> tuple[float, Floats]:
        w = flat.reshape(classes, -1)
        slope = ridge * w
        value = float((slope * w).sum()) / 2
        for x, label, weigh in chunks:
            at = index[: len(label)]
            p = np.matmul(w, x, out=buffer[:, : len(label)])
            p -= p.max(0)
            logit = p[label, at]
            np.exp(p, out=p)
            total = p.sum(0)
            p *= weigh / total
            p[label, at] -= weigh
            value += float(weigh @ (np.log(total) - logit))
            slope += p @ x.T
        return value, slope.ravel()

    options = {"maxiter": steps, "maxls": 50, "gtol": 1e-4, "ftol": 64 * np.finfo(float).eps}
    first = np.zeros((classes, len(wide))) if start is None else start
    flat = minimize(loss, first.ravel(), jac=True, method="L-BFGS-B", options=options).x
    fitted: Floats = flat.reshape(classes, -1)
    return fitted


def map_with_one_blas_thread(function: Callable[[T], R], items: Iterable[T]) -> Iterator[R]:
    """Like `thread_map`, for regressions: each has a single BLAS thread instead of one per core.

    >>> list(map_with_one_blas_thread(lambda item: item**2, range(5)))
    [0, 1, 4, 9, 16]
    """
    limit = threadpool_limits(1, user_api="blas") if own_cores() > 1 else nullcontext()
    with limit:
        yield from thread_map(function, items)


def newton(loss: Callable[[Floats], tuple[Floats, Floats, Floats]], w: Floats) -> Floats:
    """Minimise each of C losses by Newton's method from w (C, P).

    `loss` returns values (C,), gradients (C, P) and Hessians (C, P, P).
    """
    value, slope, bend = loss(w)
    for _ in range(100):
        step = -np.linalg.solve(bend, slope[:, :, None])[:, :, 0]
        downhill = (step * slope).sum(1)
        if (-downhill <= 1e-18 * value).all():
            break
        # Backtracking: halve the step until the loss falls by a share of what the slope predicts.
        share = np.ones(len(w))
        for _ in range(30):
            new = w + share[:, None] * step
            trial = loss(new)
            worse = trial[0] > value + 1e-4 * share * downhill + 1e-15 * value
            if not worse.any():
                break
            share[worse] /= 2
        w, (value, slope, bend) = new, trial
    return w
