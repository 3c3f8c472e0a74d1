"""Explicitness: how well logistic regression ranks the values of each factor."""

from collections.abc import Callable
from functools import partial
from typing import Literal

import numpy as np

from unweave.metrics.arrays import Bools, Floats, Ints
from unweave.metrics.inputs import Inputs
from unweave.metrics.options import metric
from unweave.metrics.predictors import (
    TEST,
    TRAIN,
    Split,
    logistic,
    map_with_one_blas_thread,
    newton,
    split,
    standardise,
    with_ones,
)
from unweave.metrics.score import Score
from unweave.metrics.validation import PerRow

_BLOCK = 64  # classes that are fitted at once; all of them would take memory for each row and class


@metric
def explicitness(
    inputs: Inputs,
    *,
    protocol: Literal["locatello2019", "ridgeway2018"] = "locatello2019",
    train: int = TRAIN,
    test: int = TEST,
    test_rows: PerRow | None = None,
) -> Score:
    """Compute the mean area under the ROC curve of logistic regressions of the factors.

    For each factor k, logistic regression predicts its value from all codes. For each value v, A_kv
    is the chance that a row with value v gets a higher probability of v than a row with another
    value, counting ties as half. Explicitness = 1/K sum_k 1/n_k sum_v A_kv.  [Ridgeway2018]

    Protocols: both standardise codes, fit at C = 1 to 10,000 rows and rank 5,000 others; a smaller
    table is split into two thirds and one third. `ridgeway2018` fits a regression for each value
    against the others, with a penalised offset as in LIBLINEAR.  [Ridgeway2018] A line cannot
    separate a value in the middle of a range from those on both sides, so a perfect table of
    ordered codes does not score 1. `locatello2019` fits one softmax regression to all values, which
    can separate them, and ranks by its probabilities.  [Locatello2019] That is scikit-learn's
    default since version 0.22. In earlier versions the same code fitted as `ridgeway2018` does, but
    divided the probabilities of a row by their sum, so published numbers depend on the version: a
    perfect table of three factors with ten values each scores 0.77 as `ridgeway2018`, 0.93 with the
    earlier versions and 1.00 now.

    Chance, and the score of constant codes, is 0.5; other libraries rescale to 2 (A - 0.5). The
    mean leaves out values without training rows, and values that no test row or every test row has.
    If a factor has no other values, it counts as chance. A categorical code is read one-hot.

    Args:
        inputs: posterior means (N, D) and integer factors (N, K).
        protocol: whose regression.
        train: rows to fit to.
        test: rows to rank.
        test_rows: mask (N,) or indices of the rows to rank, if not chosen at random; all others are
            trained on.

    Returns:
        Parts: the mean area of each factor.

    >>> factors = np.argwhere(np.ones((2, 2, 30)))[:, :2]
    >>> explicitness(factors @ [[1, 1], [1, -1]], factors)
    Score(explicitness/locatello2019 = 1.0000; factor 0 1.000, factor 1 1.000)
    """
    inputs.require_classes()
    inputs.require_learnable_classes()
    rows = split(inputs, train, test, test_rows)
    predict = _softmax_scores if protocol == "locatello2019" else _separate_scores
    areas = list(
        map_with_one_blas_thread(partial(_mean_areas, rows, predict), inputs.scored.tolist())
    )
    return inputs.score(
        float(np.mean([area for _, area in areas])),
        parts={inputs.names[k]: area for k, (_, area) in zip(inputs.scored, areas, strict=True)},
        rows_read=rows.rows,
        details={
            **rows.details,
            "training value": float(np.mean([area for area, _ in areas])),
            "chance": 0.5,
        },
    )


def area_under_curve(score: Floats, positive: Bools) -> float:
    """Compute P(score of a positive > score of a negative) + P(equal)/2 from scores (N,).

    >>> area_under_curve(np.array([0.1, 0.4, 0.4, 0.9]), np.array([False, False, True, True]))
    0.875
    """
    ordered, own = np.sort(score), score[positive]
    n = len(own)
    # Among the scores below, and half of those equal, n^2 / 2 are positives themselves.
    below = (np.searchsorted(ordered, own, side) for side in ("left", "right"))
    return float((sum(map(np.sum, below)) - n**2) / 2 / (n * (len(score) - n)))


_Predict = Callable[[Floats, Ints, Floats], Floats]  # of training codes, labels and other codes


def _mean_areas(rows: Split, predict: _Predict, k: int) -> tuple[float, float]:
    v, truth = rows.train_factors[:, k], rows.test_factors[:, k]
    classes, labels = np.unique(v, return_inverse=True)
    if not len(rows.active) or len(classes) == 1:
        return 0.5, 0.5
    train, test = standardise(rows.train, rows.test)
    # Rounded, so that rows with equal codes are tied: matrix products can differ in the last bit.
    scores = np.round(predict(train, labels, np.concatenate([train, test])), 9)
    return (_mean_area(scores[: len(v)], v, classes), _mean_area(scores[len(v) :], truth, classes))


def _softmax_scores(train: Floats, labels: Ints, z: Floats) -> Floats:
    """Return the logarithms (M, C) of the probabilities of each class."""
    wide = np.ascontiguousarray(with_ones(train).T)
    w = logistic(wide, labels, int(labels.max()) + 1, penalty=1 / len(train), steps=1000)
    from scipy.special import log_softmax

    scores: Floats = log_softmax(with_ones(z) @ w.T, axis=1)
    return scores


def _separate_scores(train: Floats, labels: Ints, z: Floats) -> Floats:
    """Return the logits (M, C) of each class against the others."""
    x, classes = with_ones(train), np.arange(int(labels.max()) + 1)
    blocks = np.split(classes, classes[_BLOCK::_BLOCK])
    w: Floats = np.concatenate([logistic_one_vs_rest(x, labels, block) for block in blocks])
    return with_ones(z) @ w.T


def logistic_one_vs_rest(x: Floats, labels: Ints, classes: Ints) -> Floats:
    """Minimise w^2 / 2 + sum_n log(1 + exp(-y_n w x_n)) over w for each of the classes, (C, P).

    y = 1 in the class and -1 outside. x (N, P) are rows; the method is Newton's.
    """
    inside = labels == classes[:, None]

    def loss(w: Floats) -> tuple[Floats, Floats, Floats]:
        logit = w @ x.T
        value = (w**2).sum(1) / 2 + np.logaddexp(0.0, np.where(inside, -logit, logit)).sum(1)
        p = 1 / (1 + np.exp(-np.clip(logit, -500, 500)))
        slope = w + (p - inside) @ x
        curve = p * (1 - p)
        bend = np.stack([(x.T * row) @ x for row in curve]) + np.eye(x.shape[1])
        return value, slope, bend

    return newton(loss, np.zeros((len(classes), x.shape[1])))


def _mean_area(p: Floats, v: Ints, classes: Ints) -> float:
    """Average the area over classes that some rows have and some do not; 0.5 if there is none."""
    inside = [(column, v == value) for column, value in zip(p.T, classes, strict=True)]
    areas = [area_under_curve(column, mask) for column, mask in inside if 0 < mask.sum() < len(v)]
    return float(np.mean(areas)) if areas else 0.5
