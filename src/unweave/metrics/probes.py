"""How well simple predictors read the factors off all codes together."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Literal, Unpack, get_args

import numpy as np
from numpy.typing import ArrayLike

from unweave.metrics.inputs import Bools, Floats, Ints, Seed, check_choice, read
from unweave.metrics.options import Frame, framed
from unweave.metrics.predictors import (
    TEST,
    TRAIN,
    Split,
    logistic,
    newton,
    split,
    standardised,
    with_blas,
)
from unweave.metrics.score import Score
from unweave.metrics.trees.boosting import boost

ExplicitnessProtocol = Literal["locatello2019", "ridgeway2018"]
DownstreamProtocol = Literal["locatello2019"]
LABELS = (10, 100, 1_000, 10_000)  # [Locatello2019]
_PENALTIES = np.logspace(4, -4, 10)  # 1/C, the largest first
_FOLDS = 5


@framed
def explicitness(
    codes: ArrayLike,
    factors: ArrayLike,
    *,
    protocol: ExplicitnessProtocol = "locatello2019",
    rng: Seed = 0,
    train: int = TRAIN,
    test: int = TEST,
    discrete: ArrayLike | None = None,
    factor_names: Sequence[str] | None = None,
    leave_out: Sequence[int | str] = (),
    **frame: Unpack[Frame],
) -> Score:
    """How well logistic regression ranks the values of the factors: mean area under the ROC curve.

    For each factor k, logistic regression predicts its value from all codes; for each value v, A_kv
    is the chance that a row of value v is given a higher probability of v than a row of another
    value is, ties counting half. Explicitness = 1/K sum_k 1/n_k sum_v A_kv.  [Ridgeway2018]

    Protocols: both standardise codes, fit at C = 1 to 10,000 rows and rank 5,000 others, or two
    thirds and the rest of a smaller table. `ridgeway2018` fits a regression for each value against
    the others, its offset penalised as LIBLINEAR has it.  [Ridgeway2018] A line does not tell a
    value in the middle of a range from those on both sides, so that a perfect table of ordered
    codes does not score 1. `locatello2019` fits one softmax regression to all values, which does,
    and ranks by its probabilities.  [Locatello2019] That is the default of scikit-learn from 0.22
    on; before, the same code fitted as `ridgeway2018` does, so that published numbers depend on the
    version.

    Chance is 0.5, which constant codes score; other libraries rescale to 2 (A - 0.5). Values that
    the test rows have none or nothing but of, or the training rows lack, are left out of the mean;
    a factor of which no value is left counts as chance. A categorical code is read one-hot.

    Args:
        codes: (N, D) posterior means.
        factors: (N, K) integers.
        protocol: whose numbers.
        rng: seed or generator, for the choice of rows.
        train: rows to fit to.
        test: rows to rank.
        discrete: (D,) mask of codes that are categories.
        factor_names: names for the parts of the score.
        leave_out: factors not to score, by name or number.

    Returns:
        Parts: the mean area of each factor.

    >>> factors = np.argwhere(np.ones((2, 2, 30)))[:, :2]
    >>> explicitness(factors @ [[1, 1], [1, -1]], factors)
    Score(explicitness/locatello2019 = 1.0000; factor 0 1.000, factor 1 1.000)
    """
    check_choice("protocol", protocol, get_args(ExplicitnessProtocol))
    inputs = read(
        codes,
        factors,
        discrete=discrete,
        factor_names=factor_names,
        leave_out=leave_out,
        continuous=frame.get("continuous"),
    )
    rows = split(inputs, train, test, np.random.default_rng(rng))
    scored = inputs.scored.tolist()
    ranked = _softmax_scores if protocol == "locatello2019" else _separate_scores
    areas = dict(zip(scored, with_blas(partial(_areas, rows, ranked), scored), strict=True))
    return Score(
        name="explicitness",
        protocol=protocol,
        value=float(np.mean([area for _, area in areas.values()])),
        parts={inputs.names[k]: area for k, (_, area) in areas.items()},
        details=rows.details(
            inputs,
            training_value=float(np.mean([area for area, _ in areas.values()])),
            chance=0.5,
        ),
    )


@framed
def downstream(
    codes: ArrayLike,
    factors: ArrayLike,
    *,
    protocol: DownstreamProtocol = "locatello2019",
    rng: Seed = 0,
    labels: Sequence[int] = LABELS,
    test: int = TEST,
    discrete: ArrayLike | None = None,
    factor_names: Sequence[str] | None = None,
    leave_out: Sequence[int | str] = (),
    **frame: Unpack[Frame],
) -> Score:
    """Accuracy of simple predictors of the factors, from few labels and from many.

    For each number of labelled rows, the mean over factors of the accuracy on 5,000 other rows of
    logistic regression and of gradient-boosted trees. The value is the mean of all.

    Protocols: `locatello2019` has 10, 100, 1,000 and 10,000 labels, and the boosted trees of `dci`.
    Its logistic regression chooses C among ten from 1e-4 to 1e4 by the accuracy of five folds, of
    neighbouring rows, without standardising the codes (LogisticRegressionCV of scikit-learn with
    Cs=10 and KFold(5)).  [Locatello2019] Below 5 labels each is a fold. The score depends on the
    scale of the codes, a little.

    A smaller table keeps a third of its rows for the test; numbers of labels above the other two
    thirds are left out, but for the first, which then takes what there is. Smaller sets of labels
    are the beginnings of larger ones. A categorical code is read one-hot.

    Args:
        codes: (N, D) posterior means.
        factors: (N, K) integers.
        protocol: whose numbers.
        rng: seed or generator.
        labels: numbers of labelled rows.
        test: rows to test on.
        discrete: (D,) mask of codes that are categories.
        factor_names: names for the details of the score.
        leave_out: factors not to score, by name or number.

    Returns:
        Parts: `logistic 10`, `boosting 10`, `logistic 100`, ...: mean accuracies.

    >>> factors = np.argwhere(np.ones((2, 2, 30)))[:, :2]
    >>> downstream(factors @ [[1, 1], [1, -1]], factors, labels=[50])
    Score(downstream/locatello2019 = 1.0000; logistic 50 1.000, boosting 50 1.000)
    """
    check_choice("protocol", protocol, get_args(DownstreamProtocol))
    if not len(labels) or min(labels) < 1:
        raise ValueError(f"expected numbers of labels of at least 1, got {list(labels)}")
    inputs = read(
        codes,
        factors,
        discrete=discrete,
        factor_names=factor_names,
        leave_out=leave_out,
        continuous=frame.get("continuous"),
    )
    generator = np.random.default_rng(rng)
    train = min(max(labels), inputs.rows - min(test, max(1, inputs.rows // 3)))
    rows = split(inputs, train, min(test, inputs.rows - train), generator)
    wanted = sorted(set(labels))
    sizes = [n for n in wanted if n <= len(rows.train)] or [len(rows.train)]
    tasks = [
        (name, n, k, stream)
        for name, n in [(name, n) for n in sizes[::-1] for name in _PROBES]
        for k, stream in zip(
            inputs.scored.tolist(), generator.spawn(len(inputs.scored)), strict=True
        )
    ]
    accuracies = with_blas(partial(_probe, rows), tasks)
    found: dict[str, list[float]] = {f"{name} {n}": [] for n in sizes for name in _PROBES}
    for (name, n, _, _), accuracy in zip(tasks, accuracies, strict=True):
        found[f"{name} {n}"].append(accuracy)
    parts = {name: float(np.mean(values)) for name, values in found.items()}
    return Score(
        name="downstream",
        protocol=protocol,
        value=float(np.mean(list(parts.values()))),
        parts=parts,
        details=rows.details(inputs, labels_left_out=[n for n in wanted if n not in sizes]),
    )


def area_under_curve(score: Floats, positive: Bools) -> float:
    """P(score of a positive > score of a negative) + P(equal)/2, of scores (N,) by their ranks.

    >>> area_under_curve(np.array([0.1, 0.4, 0.4, 0.9]), np.array([False, False, True, True]))
    0.875
    """
    ordered, own = np.sort(score), score[positive]
    n = len(own)
    # Of those below and half of those equal, n^2 / 2 are positives.
    below = (np.searchsorted(ordered, own, side) for side in ("left", "right"))
    return float((sum(map(np.sum, below)) - n**2) / 2 / (n * (len(score) - n)))


_Ranked = Callable[[Floats, Ints, Floats], Floats]


def _areas(rows: Split, ranked: _Ranked, k: int) -> tuple[float, float]:
    """The mean areas of factor k on the rows of training and of test."""
    v, truth = rows.train_factors[:, k], rows.test_factors[:, k]
    classes, labels = np.unique(v, return_inverse=True)
    if not len(rows.active) or len(classes) == 1:
        return 0.5, 0.5
    train, test = standardised(rows.train, rows.test)
    # Rounded, so that rows of equal codes are tied: a product can part them by its last bit.
    scores = np.round(ranked(train, labels, np.concatenate([train, test])), 9)
    return (
        _mean_area(scores[: len(v)], v, classes),
        _mean_area(scores[len(v) :], truth, classes),
    )


def _softmax_scores(train: Floats, labels: Ints, z: Floats) -> Floats:
    """The logarithms (M, C) of the probabilities of each class."""
    wide = np.ascontiguousarray(_wide(train).T)
    w = logistic(wide, labels, int(labels.max()) + 1, penalty=1 / len(train), steps=1000)
    from scipy.special import log_softmax

    told: Floats = log_softmax(_wide(z) @ w.T, axis=1)
    return told


def _separate_scores(train: Floats, labels: Ints, z: Floats) -> Floats:
    """The logits (M, C) of each class against the others."""
    return _wide(z) @ one_against_rest(_wide(train), labels, int(labels.max()) + 1).T


def one_against_rest(x: Floats, labels: Ints, classes: int) -> Floats:
    """The w (C, P) with the least w^2 / 2 + sum_n log(1 + exp(-y_n w x_n)) for each class.

    y = 1 in the class and -1 outside, of rows (N, P), by Newton's method.
    """
    inside = labels == np.arange(classes)[:, None]

    def loss(w: Floats) -> tuple[Floats, Floats, Floats]:
        logit = w @ x.T
        value = (w**2).sum(1) / 2 + np.logaddexp(0.0, np.where(inside, -logit, logit)).sum(1)
        p = 1 / (1 + np.exp(-np.clip(logit, -500, 500)))
        slope = w + (p - inside) @ x
        curve = p * (1 - p)
        bend = np.stack([(x.T * row) @ x for row in curve]) + np.eye(x.shape[1])
        return value, slope, bend

    return newton(loss, np.zeros((classes, x.shape[1])))


def _wide(z: Floats) -> Floats:
    """Codes (N, D) and ones."""
    return np.column_stack([z, np.ones(len(z))])


def _mean_area(p: Floats, v: Ints, classes: Ints) -> float:
    """Mean area of the classes that some rows are of and some are not; 0.5 if there is none."""
    masks = [(column, v == value) for column, value in zip(p.T, classes, strict=True)]
    areas = [area_under_curve(column, of) for column, of in masks if 0 < of.sum() < len(v)]
    return float(np.mean(areas)) if areas else 0.5


def _probe(rows: Split, task: tuple[str, int, int, np.random.Generator]) -> float:
    name, n, k, rng = task
    v, truth = rows.train_factors[:n, k], rows.test_factors[:, k]
    return float((_PROBES[name](rows.train[:n], v, rows.test, rng) == truth).mean())


def _logistic(train: Floats, v: Ints, test: Floats, rng: np.random.Generator) -> Ints:
    values, labels, counts = np.unique(v, return_inverse=True, return_counts=True)
    if len(values) == 1 or not train.shape[1]:
        return np.full(len(test), values[counts.argmax()])
    told = _wide(test) @ chosen_by_folds(_wide(train), labels, len(values)).T
    predicted: Ints = values[told.argmax(1)]
    return predicted


def chosen_by_folds(x: Floats, labels: Ints, classes: int) -> Floats:
    """The w (C, P) of softmax regression of rows (N, P) at the penalty that five folds choose.

    Of penalties that are right equally often the largest. Each starts from the last, and that of
    all rows from the mean of the folds, as LogisticRegressionCV of scikit-learn.
    """
    folds = np.array_split(np.arange(len(x)), min(_FOLDS, len(x)))
    found = np.zeros((len(folds), len(_PENALTIES), classes, x.shape[1]))
    right = np.zeros((len(folds), len(_PENALTIES)))
    for f, out in enumerate(folds):
        wide, seen = np.ascontiguousarray(np.delete(x, out, 0).T), np.delete(labels, out)
        w = np.zeros((classes, x.shape[1]))
        for c, penalty in enumerate(_PENALTIES):
            w = logistic(wide, seen, classes, penalty=penalty / len(seen), start=w)
            found[f, c] = w
            right[f, c] = ((x[out] @ w.T).argmax(1) == labels[out]).mean()
    best = int(right.mean(0).argmax())
    wide, penalty = np.ascontiguousarray(x.T), _PENALTIES[best] / len(x)
    return logistic(wide, labels, classes, penalty=penalty, start=found[:, best].mean(0))


def _boosting(train: Floats, v: Ints, test: Floats, rng: np.random.Generator) -> Ints:
    return boost(train, v, test, rng).predicted[len(train) :]


_Probe = Callable[[Floats, Ints, Floats, np.random.Generator], Ints]
_PROBES: Mapping[str, _Probe] = {"logistic": _logistic, "boosting": _boosting}
