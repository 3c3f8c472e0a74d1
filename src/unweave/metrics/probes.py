"""How well simple predictors read the factors off all codes together."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Literal, Unpack, get_args

import numpy as np
from numpy.typing import ArrayLike

from unweave.metrics.boosting import boost
from unweave.metrics.frame import Frame, framed
from unweave.metrics.inputs import Bools, Floats, Ints, Seed, check_choice, read
from unweave.metrics.predictors import TEST, TRAIN, Split, split, standardised
from unweave.metrics.score import Score
from unweave.parallel import in_threads

ExplicitnessProtocol = Literal["locatello2019"]
DownstreamProtocol = Literal["locatello2019"]
LABELS = (10, 100, 1_000, 10_000)  # [Locatello2019]


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

    For each factor k, softmax regression predicts its value from all codes; for each value v, A_kv
    is the chance that a row of value v is given a higher probability of v than a row of another
    value is, ties counting half. Explicitness = 1/K sum_k 1/n_k sum_v A_kv.  [Ridgeway2018]

    Protocols: `locatello2019` standardises codes, fits at C = 1 to 10,000 rows and ranks 5,000
    others, or two thirds and the rest of a smaller table.  [Locatello2019]

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
    inputs = read(codes, factors, discrete=discrete, factor_names=factor_names, leave_out=leave_out)
    rows = split(inputs, train, test, np.random.default_rng(rng))
    areas = dict(
        zip(
            inputs.scored.tolist(),
            in_threads(partial(_areas, rows), inputs.scored.tolist()),
            strict=True,
        )
    )
    return Score(
        name="explicitness",
        protocol=protocol,
        value=float(np.mean([area for _, area in areas.values()])),
        parts={inputs.names[k]: area for k, (_, area) in areas.items()},
        details={
            "rows": inputs.rows,
            "training rows": len(rows.train),
            "test rows": len(rows.test),
            "training value": float(np.mean([area for area, _ in areas.values()])),
            "chance": 0.5,
            "factors left out": list(inputs.left_out),
        },
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
    [Locatello2019] Its logistic regression chooses C by cross-validation, which 10 labels of 40
    values do not allow; here it is 1, on standardised codes.

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
    inputs = read(codes, factors, discrete=discrete, factor_names=factor_names, leave_out=leave_out)
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
    accuracies = in_threads(partial(_probe, rows), tasks)
    found: dict[str, list[float]] = {f"{name} {n}": [] for n in sizes for name in _PROBES}
    for (name, n, _, _), accuracy in zip(tasks, accuracies, strict=True):
        found[f"{name} {n}"].append(accuracy)
    parts = {name: float(np.mean(values)) for name, values in found.items()}
    return Score(
        name="downstream",
        protocol=protocol,
        value=float(np.mean(list(parts.values()))),
        parts=parts,
        details={
            "rows": inputs.rows,
            "test rows": len(rows.test),
            "labels left out": [n for n in wanted if n not in sizes],
            "factors left out": list(inputs.left_out),
        },
    )


def area_under_curve(score: Floats, positive: Bools) -> float:
    """P(score of a positive > score of a negative) + P(equal)/2, of scores (N,) by their ranks.

    >>> area_under_curve(np.array([0.1, 0.4, 0.4, 0.9]), np.array([False, False, True, True]))
    0.875
    """
    from scipy.stats import rankdata

    n = int(positive.sum())
    ranks = rankdata(score)[positive].sum() - n * (n + 1) / 2
    return float(ranks / (n * (len(score) - n)))


def _areas(rows: Split, k: int) -> tuple[float, float]:
    """The mean areas of factor k on the rows of training and of test."""
    v, truth = rows.train_factors[:, k], rows.test_factors[:, k]
    if not len(rows.active) or (v == v[0]).all():
        return 0.5, 0.5
    from sklearn.linear_model import LogisticRegression

    train, test = standardised(rows.train, rows.test)
    model = LogisticRegression(max_iter=1000).fit(train, v)
    return (
        _mean_area(model.predict_proba(train), v, model.classes_),
        _mean_area(model.predict_proba(test), truth, model.classes_),
    )


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
    values, counts = np.unique(v, return_counts=True)
    if len(values) == 1 or not train.shape[1]:
        return np.full(len(test), values[counts.argmax()])
    from sklearn.linear_model import LogisticRegression

    z, other = standardised(train, test)
    predicted: Ints = LogisticRegression(max_iter=1000).fit(z, v).predict(other)
    return predicted


def _boosting(train: Floats, v: Ints, test: Floats, rng: np.random.Generator) -> Ints:
    return boost(train, v, test, rng).predicted[len(train) :]


_Probe = Callable[[Floats, Ints, Floats, np.random.Generator], Ints]
_PROBES: Mapping[str, _Probe] = {"logistic": _logistic, "boosting": _boosting}
