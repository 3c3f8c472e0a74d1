"""DCI-ES: DCI with probes of growing capacity, explicitness and size."""

from collections.abc import Sequence
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from unweave.metrics.arrays import Floats, Ints
from unweave.metrics.dci import purity
from unweave.metrics.inputs import TREE_CLASSES, Inputs, factor_indices
from unweave.metrics.options import metric
from unweave.metrics.predictors import TEST, TRAIN, Split, split
from unweave.metrics.score import Score
from unweave.metrics.trees.forests import grow_forest
from unweave.metrics.validation import PerRow

DEPTHS = (1, 2, 3, 4, 8, 10, 12, 14, 16, 18, 20, 32)  # of the code of [Eastwood2023]
TREES = 100


class _Curve(NamedTuple):
    """The probes of one factor, by depth."""

    losses: Floats  # (T,) on the test rows
    importances: Floats  # (T, A) with sum 1, or 0 if no tree splits
    baseline: float  # loss of the best constant prediction


@metric
def dci_es(
    inputs: Inputs,
    *,
    protocol: Literal["eastwood2023"] = "eastwood2023",
    train: int = TRAIN,
    test: int = TEST,
    test_rows: PerRow | None = None,
    depths: Sequence[int] = DEPTHS,
    ordered: Sequence[int | str] = (),
) -> Score:
    """Compute DCI with explicitness and size: how large a predictor and a code have to be.

    Probes of capacities c_1 < ... < c_T predict factor k with losses whose running minimum is l_t,
    and b is the loss of the best constant. Explicitness is one minus the area of the loss above its
    minimum, relative to half of its bounding rectangle:
    E_k = 1 - 2 sum_t (c_t+1 - c_t) ((l_t + l_t+1) / 2 - l_T) / ((c_T - c_1) b),  E = 1/K sum_k E_k,
    and size S = K / D.  [Eastwood2023] E is 1 if the smallest probe is as good as any, 0 if the
    loss falls linearly to 0, and -1 if only the largest probe predicts anything. It measures how
    soon larger probes stop improving, not how good they are: uninformative codes have E = 1, so
    read it together with informativeness. S is above 1 if there are fewer codes than factors.
    Disentanglement, completeness and informativeness are those of `dci`, for the probes of the
    most informative capacity.

    Protocols: `eastwood2023` probes by random forests of 100 trees, whose capacity is their depth:
    1, 2, 3, 4, 8, 10, 12, 14, 16, 18, 20 and 32.  [Eastwood2023] A shallow tree is the top of a
    deeper one, so one forest is grown for each factor and read at all depths. The paper also has
    other probes, networks and random features, with another E.

    A factor of integers is classified, with loss 1 - accuracy; real numbers, and the factors in
    `ordered`, are regressed, with loss 1 - R^2. The paper regresses all factors of dSprites but the
    shape. We try all codes at each split. The released code uses scikit-learn's default, sqrt(D) of
    them, so uninformative codes gain importance and perfect codes score 0.6. It also sets b to
    1 - 1/n_k for n_k classes, which is the same if they are equally frequent. Here a loss above b
    counts as b, so E is never below -1.
    Probes are fitted to 10,000 rows and tested on 5,000 others; a smaller table is split into two
    thirds and one third. A categorical code is read one-hot, and has the importance of all its
    categories. Constant codes count in the D of completeness and size.

    Args:
        inputs: posterior means (N, D), and factors (N, K) that are integers or real numbers.
        protocol: whose probes.
        train: rows to fit probes to.
        test: rows to test them on.
        test_rows: mask (N,) or indices of the rows to test on, if not chosen at random; all others
            are trained on.
        depths: two or more, increasing.
        ordered: integer factors to regress, by name or index.

    Returns:
        Value: disentanglement. Parts: the five. Matrix: importances (D, K) at the best capacity.

    >>> factors = np.argwhere(np.ones((4, 5, 6)))
    >>> score = dci_es(factors @ np.diag([1, 2, 3]), factors, depths=(1, 4, 8))
    >>> list(score.parts), score.parts["size"]
    (['disentanglement', 'completeness', 'informativeness', 'explicitness', 'size'], 1.0)
    """
    if len(depths) < 2 or min(depths) < 1 or (np.diff(depths) <= 0).any():
        raise ValueError(f"expected two or more increasing depths from 1, got {list(depths)}")
    regressed = factor_indices(ordered, inputs.names, "ordered")
    regressed |= set(np.flatnonzero(inputs.continuous).tolist())
    inputs.require_learnable_classes(TREE_CLASSES, regressed)
    rows = split(inputs, train, test, test_rows)
    scored = inputs.scored.tolist()
    curves = {
        k: _probe(_target(rows, k, k in regressed), rows, depths, rng)
        for k, rng in zip(scored, inputs.rng.spawn(len(scored)), strict=True)
    }
    informativeness = np.array([1 - curve.losses for curve in curves.values()])  # (K, T)
    best = int(informativeness.mean(0).argmax())
    matrix = rows.by_code({k: curve.importances[best] for k, curve in curves.items()})
    importances = matrix[:, scored]
    explicit = [loss_curve_explicitness(depths, c.losses, c.baseline) for c in curves.values()]
    value = purity(importances)
    components = {
        "completeness": purity(importances.T),
        "informativeness": float(informativeness[:, best].mean()),
        "explicitness": float(np.mean(explicit)),
        "size": len(scored) / inputs.dims,
    }
    return inputs.score(
        value,
        parts={"disentanglement": value},
        components=components,
        matrix=matrix,
        rows_read=rows.rows,
        details={
            **rows.details,
            "best depth": int(depths[best]),
            "informativeness by depth": informativeness.mean(0).tolist(),
            "informativeness by factor": informativeness[:, best].tolist(),
            "explicitness by factor": explicit,
        },
    )


def loss_curve_explicitness(
    capacities: Sequence[float], losses: ArrayLike, baseline: float
) -> float:
    """Compute E of one factor from losses (T,) at growing capacities.  [Eastwood2023].

    `baseline` is the loss of the best constant. If it is 0, every probe is as good as any: E is 1.

    >>> loss_curve_explicitness([1, 2, 3], [0.5, 0.25, 0.0], 0.5)
    0.0
    >>> loss_curve_explicitness([1, 2, 3], [0.0, 0.3, 0.0], 0.5)
    1.0
    """
    c = np.asarray(capacities, dtype=np.float64)
    least = np.minimum.accumulate(np.minimum(losses, baseline))
    area = float(np.diff(c) @ ((least[:-1] + least[1:]) / 2 - least[-1]))
    return 1 - 2 * area / (float(c[-1] - c[0]) * baseline) if baseline > 0 else 1.0


class _Target(NamedTuple):
    """The values of a factor that probes predict."""

    train: Floats | Ints  # (N,) numbers, or classes numbered as in the training rows
    test: Floats | Ints  # (M,) a class without training rows is -1
    classes: int  # 0 for numbers


def _target(rows: Split, k: int, regressed: bool) -> _Target:
    if regressed:
        return _Target(rows.train_values[:, k], rows.test_values[:, k], 0)
    values, train = np.unique(rows.train_factors[:, k], return_inverse=True)
    truth = rows.test_factors[:, k]
    at = np.searchsorted(values, truth).clip(max=len(values) - 1)
    return _Target(train, np.where(values[at] == truth, at, -1), len(values))


def _probe(target: _Target, rows: Split, depths: Sequence[int], rng: np.random.Generator) -> _Curve:
    predictions, importances = grow_forest(
        rows.train, target.train, target.classes, rows.test, rng, trees=TREES, depths=depths
    )
    if target.classes:
        counts = np.bincount(target.test[target.test >= 0].astype(np.int64), minlength=1)
        baseline = 1 - float(counts.max()) / len(target.test)
        losses = (predictions.argmax(2) != target.test).mean(1)
    else:
        baseline = float(np.ptp(target.test) > 0)
        error = ((predictions[:, :, 0] - target.test) ** 2).mean(1)
        losses = error / target.test.var() if baseline else np.zeros(len(predictions))
    return _Curve(np.minimum(losses, baseline), importances, baseline)
