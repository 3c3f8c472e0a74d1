"""What metrics that train a predictor share: rows to train and test on, and codes to read."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import nullcontext
from typing import NamedTuple, TypeVar

import numpy as np
from threadpoolctl import threadpool_limits

from unweave.core.parallel import own_cores, thread_map
from unweave.metrics.inputs import Floats, Inputs, Ints
from unweave.metrics.score import Detail

T = TypeVar("T")
R = TypeVar("R")

TRAIN = 10_000  # [Locatello2019]
TEST = 5_000


class Split(NamedTuple):
    """A table cut into rows to train on and others to test on, with the codes that vary."""

    train: Floats  # (N, A) columns: a code, or a category of a discrete one, which is 0 or 1
    test: Floats  # (M, A)
    train_factors: Ints  # (N, K)
    test_factors: Ints  # (M, K)
    train_values: Floats  # (N, K) the factors as they came
    test_values: Floats  # (M, K)
    active: Ints  # (A,) the code of each column
    dims: int  # D, the codes there are

    def by_code(self, importances: Mapping[int, Floats]) -> Floats:
        """Importances (A,) of columns for some factors, summed over those of each code, (D, K)."""
        summed = np.zeros((self.dims, self.train_factors.shape[1]))
        for k, each in importances.items():
            np.add.at(summed[:, k], self.active, each)
        return summed

    def details(self, inputs: Inputs, **more: Detail) -> dict[str, Detail]:
        """What a score says of the rows and factors it is of, with more of its own."""
        return {
            "rows": inputs.rows,
            "training rows": len(self.train),
            "test rows": len(self.test),
            **{name.replace("_", " "): value for name, value in more.items()},
            "factors left out": list(inputs.left_out),
        }


def split(inputs: Inputs, train: int, test: int, rng: np.random.Generator) -> Split:
    """Different rows to train and to test on; where there are too few, both get their share.

    The numbers of categories mean nothing: a discrete code has a column for each of them. Columns
    that are constant on the rows to train on are left out, and the others put in an order that does
    not depend on theirs in the table, so that no random choice among codes does.
    """
    if train < 1 or test < 1:
        raise ValueError(f"expected at least 1 row to train and to test on, got {train} and {test}")
    rows = inputs.rows
    if rows < train + test:
        train = min(max(round(rows * train / (train + test)), 1), rows - 1)
        test = rows - train
    chosen = rng.permutation(rows)[: train + test]
    first, second = chosen[:train], chosen[train:]
    columns, code = columns_of(inputs, chosen)
    varied = np.flatnonzero((columns[:train] != columns[0]).any(0)).tolist()
    # By the order of its values, which has nothing to do with the scale of a code.
    active = np.array(sorted(varied, key=lambda a: _ranking(columns[:train, a])), dtype=np.int64)
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


def columns_of(inputs: Inputs, rows: Ints) -> tuple[Floats, Ints]:
    """Codes of some rows, discrete ones as a column for each category, (N, A); whose, (A,)."""
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


def standardised(train: Floats | Ints, *others: Floats | Ints) -> tuple[Floats, ...]:
    """All with the mean taken away and divided by the deviation, as they are in `train`.

    What is constant there is 0.
    """
    mean = train.mean(0)
    centred = train - mean
    deviation = np.sqrt(np.einsum("n...,n...->...", centred, centred) / len(train))
    # Rounding leaves a constant column a hair of spread: from its size on, that is none.
    varied = deviation > 1e-12 * np.abs(train).max(0)
    scale = np.where(varied, deviation, np.inf)
    centred /= scale
    return (centred, *((each - mean) / scale for each in others))


def lasso(gram: Floats, product: Floats, penalty: float, sweeps: int = 10_000) -> Floats:
    """For each v_k the w (D,) with the least E[(v_k - z w)^2] / 2 + penalty sum_j |w_j|: (D, K).

    From E[z z^T] (D, D) and E[z v] (D, K) of centred numbers, coordinate by coordinate, until no
    w_j moves by 1e-9. The w_j of a constant is 0.

    >>> lasso(np.eye(2), np.array([[0.5], [0.01]]), 0.02).T
    array([[0.48, 0.  ]])
    """
    w = np.zeros(product.shape)
    for _ in range(sweeps):
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
    """The w (C, P) of softmax regression, by L-BFGS as scikit-learn's: it stops where that does.

    With p_c = exp(w_c x) / sum exp(w_c x) it makes -E[log p_label] + penalty/2 sum w^2 small, the
    last column of w without penalty. Two classes have one w of their difference, as if penalised
    twice.

    Args:
        wide: (P, N) codes, and ones in the last row.
        labels: (N,) 0 to C - 1.
        classes: C.
        weight: (N,) of the mean, of sum 1; equal if not given.
        penalty: of the squares, one or (P,).
        start: (C, P); zeros if not given.
        steps: at most.
    """
    from scipy.optimize import minimize

    rows = wide.shape[1]
    share = np.full(rows, 1 / rows) if weight is None else weight
    ridge = np.full((classes, len(wide)), penalty) * (2 if classes == 2 else 1)
    ridge[:, -1] = 0.0
    # Few rows at a time: what is between the products stays in the cache, and BLAS takes so small
    # a product in one thread, so that no sum depends on how many it has.
    step = max(1, 2**18 // (classes * max(len(wide), 8)))
    parts = [slice(at, at + step) for at in range(0, rows, step)]
    pieces = [(wide[:, part], labels[part], share[part]) for part in parts]
    index, room = np.arange(min(step, rows)), np.empty((classes, min(step, rows)))

    def loss(flat: Floats) -> tuple[float, Floats]:
        w = flat.reshape(classes, -1)
        slope = ridge * w
        value = float((slope * w).sum()) / 2
        for x, label, weigh in pieces:
            at = index[: len(label)]
            p = np.matmul(w, x, out=room[:, : len(label)])
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
    found = minimize(loss, first.ravel(), jac=True, method="L-BFGS-B", options=options).x
    fitted: Floats = found.reshape(classes, -1)
    return fitted


def with_blas(function: Callable[[T], R], items: Iterable[T]) -> Iterator[R]:
    """`thread_map` for regressions: BLAS has one thread in each, where it would have all cores.

    >>> list(with_blas(lambda item: item**2, range(5)))
    [0, 1, 4, 9, 16]
    """
    limit = threadpool_limits(1, user_api="blas") if own_cores() > 1 else nullcontext()
    with limit:
        yield from thread_map(function, items)


def newton(loss: Callable[[Floats], tuple[Floats, Floats, Floats]], w: Floats) -> Floats:
    """Where each of C losses is least, by Newton's method from w (C, P).

    `loss` gives values (C,), gradients (C, P) and Hessians (C, P, P).
    """
    value, slope, bend = loss(w)
    for _ in range(100):
        step = -np.linalg.solve(bend, slope[:, :, None])[:, :, 0]
        downhill = (step * slope).sum(1)
        if (-downhill <= 1e-18 * value).all():
            break
        # Half of the step until it goes down by a share of what it promises.
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


def _ranking(code: Floats) -> bytes:
    return np.argsort(code[:1000], kind="stable").tobytes()  # in which no two codes are alike
