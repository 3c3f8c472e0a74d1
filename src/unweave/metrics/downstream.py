"""Downstream accuracy: how well simple predictors learn the factors from few and many labels."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Literal

import numpy as np

from unweave.metrics.arrays import Floats, Ints
from unweave.metrics.inputs import DOWNSTREAM_CLASSES, Inputs
from unweave.metrics.options import metric
from unweave.metrics.predictors import (
    TEST,
    Split,
    logistic,
    map_with_one_blas_thread,
    split,
    with_ones,
)
from unweave.metrics.score import Score
from unweave.metrics.trees.boosting import boost

LABELS = (10, 100, 1_000, 10_000)  # [Locatello2019]
_PENALTIES = np.logspace(4, -4, 10)  # 1/C, the largest first
_FOLDS = 5


@metric
def downstream(
    inputs: Inputs,
    *,
    protocol: Literal["locatello2019"] = "locatello2019",
    labels: Sequence[int] = LABELS,
    test: int = TEST,
) -> Score:
    """Compute the accuracy of simple predictors of the factors, from few labels and from many.

    For each number of labelled rows, logistic regression and gradient-boosted trees predict every
    factor on 5,000 other rows. The parts are their mean accuracies over the factors, and the value
    is the mean of all.

    Protocols: `locatello2019` has 10, 100, 1,000 and 10,000 labels, and the boosted trees of `dci`.
    Its logistic regression chooses C among ten values from 1e-4 to 1e4 by the accuracy on five
    folds of consecutive rows, without standardising the codes (LogisticRegressionCV of scikit-learn
    with Cs=10 and KFold(5)).  [Locatello2019] With fewer than 5 labels, each row is a fold. The
    score depends slightly on the scale of the codes.

    A smaller table keeps a third of its rows for testing, and leaves out numbers of labels above
    the other two thirds; if that leaves none, all of these rows are labelled. Smaller sets of
    labels are subsets of larger ones. A categorical code is read one-hot.

    Args:
        inputs: posterior means (N, D) and integer factors (N, K).
        protocol: whose numbers.
        labels: numbers of labelled rows.
        test: rows to test on.

    Returns:
        Parts: `logistic 10`, `boosting 10`, `logistic 100`, ...: mean accuracies.

    >>> factors = np.argwhere(np.ones((2, 2, 30)))[:, :2]
    >>> downstream(factors @ [[1, 1], [1, -1]], factors, labels=[50])
    Score(downstream/locatello2019 = 1.0000; logistic 50 1.000, boosting 50 1.000)
    """
    inputs.require_classes()
    inputs.require_learnable_classes(DOWNSTREAM_CLASSES)
    if not len(labels) or min(labels) < 1:
        raise ValueError(f"expected numbers of labels of at least 1, got {list(labels)}")
    train = min(max(labels), inputs.rows - min(test, max(1, inputs.rows // 3)))
    rows = split(inputs, train, min(test, inputs.rows - train))
    distinct = sorted(set(labels))
    sizes = [n for n in distinct if n <= len(rows.train)] or [len(rows.train)]
    tasks = [
        (name, n, k, rng)
        for n in sizes[::-1]
        for name in _PREDICTORS
        for k, rng in zip(inputs.scored.tolist(), inputs.rng.spawn(len(inputs.scored)), strict=True)
    ]
    accuracies = map_with_one_blas_thread(partial(_accuracy, rows), tasks)
    by_part: dict[str, list[float]] = {f"{name} {n}": [] for n in sizes for name in _PREDICTORS}
    for (name, n, _, _), accuracy in zip(tasks, accuracies, strict=True):
        by_part[f"{name} {n}"].append(accuracy)
    parts = {name: float(np.mean(values)) for name, values in by_part.items()}
    return inputs.score(
        float(np.mean(list(parts.values()))),
        components=parts,
        rows_read=rows.rows,
        details={**rows.details, "labels left out": [n for n in distinct if n not in sizes]},
    )


def _accuracy(rows: Split, task: tuple[str, int, int, np.random.Generator]) -> float:
    name, n, k, rng = task
    v, truth = rows.train_factors[:n, k], rows.test_factors[:, k]
    return float((_PREDICTORS[name](rows.train[:n], v, rows.test, rng) == truth).mean())


def _predict_logistic(train: Floats, v: Ints, test: Floats, rng: np.random.Generator) -> Ints:
    values, labels, counts = np.unique(v, return_inverse=True, return_counts=True)
    if len(values) == 1 or not train.shape[1]:
        return np.full(len(test), values[counts.argmax()])
    logits = with_ones(test) @ cross_validated_logistic(with_ones(train), labels, len(values)).T
    predicted: Ints = values[logits.argmax(1)]
    return predicted


def cross_validated_logistic(x: Floats, labels: Ints, classes: int) -> Floats:
    """Fit softmax regression (C, P) to rows (N, P) with the penalty of best accuracy on five folds.

    Ties go to the largest penalty. Each fit starts from the previous one, and that of all rows from
    the mean over the folds, as in LogisticRegressionCV of scikit-learn.
    """
    folds = np.array_split(np.arange(len(x)), min(_FOLDS, len(x)))
    fits = np.zeros((len(folds), len(_PENALTIES), classes, x.shape[1]))
    accuracies = np.zeros((len(folds), len(_PENALTIES)))
    for f, out in enumerate(folds):
        wide, seen = np.ascontiguousarray(np.delete(x, out, 0).T), np.delete(labels, out)
        w = np.zeros((classes, x.shape[1]))
        for c, penalty in enumerate(_PENALTIES):
            w = logistic(wide, seen, classes, penalty=penalty / len(seen), start=w)
            fits[f, c] = w
            accuracies[f, c] = ((x[out] @ w.T).argmax(1) == labels[out]).mean()
    best = int(accuracies.mean(0).argmax())
    wide, penalty = np.ascontiguousarray(x.T), _PENALTIES[best] / len(x)
    return logistic(wide, labels, classes, penalty=penalty, start=fits[:, best].mean(0))


_Predictor = Callable[[Floats, Ints, Floats, np.random.Generator], Ints]
_PREDICTORS: Mapping[str, _Predictor] = {
    "logistic": _predict_logistic,
    "boosting": lambda z, v, test, rng: boost(z, v, test, rng).predicted[len(z) :],
}
