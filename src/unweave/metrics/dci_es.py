"""DCI-ES: the metrics of DCI by probes of growing capacity, and how much capacity they need."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple, Unpack, get_args

import numpy as np
from numpy.typing import ArrayLike

from unweave.metrics.dci import purity
from unweave.metrics.inputs import (
    Bools,
    Floats,
    Inputs,
    Ints,
    Seed,
    check_choice,
    factor_index,
    read,
)
from unweave.metrics.options import Frame, framed
from unweave.metrics.predictors import TEST, TRAIN, Split, split
from unweave.metrics.score import Score
from unweave.metrics.trees.forests import grow

DCIESProtocol = Literal["eastwood2023"]
DEPTHS = (1, 2, 3, 4, 8, 10, 12, 14, 16, 18, 20, 32)  # of the code of [Eastwood2023]
TREES = 100


class _Curve(NamedTuple):
    """The probes of one factor, in the order of their depths."""

    losses: Floats  # (T,) on the rows of test
    importances: Floats  # (T, A), of sum 1, or 0 where no tree splits
    baseline: float  # the loss of the best constant


@framed
def dci_es(
    codes: ArrayLike,
    factors: ArrayLike,
    *,
    protocol: DCIESProtocol = "eastwood2023",
    rng: Seed = 0,
    train: int = TRAIN,
    test: int = TEST,
    depths: Sequence[int] = DEPTHS,
    ordered: Sequence[int | str] = (),
    discrete: ArrayLike | None = None,
    factor_names: Sequence[str] | None = None,
    leave_out: Sequence[int | str] = (),
    **frame: Unpack[Frame],
) -> Score:
    """DCI with explicitness and size: how large a predictor has to be, and how large the code is.

    Probes of capacities c_1 < ... < c_T predict factor k with losses whose running minimum is l_t,
    and b is the loss of the best constant. Explicitness is one less the area of the loss above its
    lowest value, over half of the rectangle in which it lies:
    E_k = 1 - 2 sum_t (c_t+1 - c_t) ((l_t + l_t+1) / 2 - l_T) / ((c_T - c_1) b),  E = 1/K sum_k E_k,
    and size S = K / D.  [Eastwood2023] E is 1 where the smallest probe is as good as any, 0 where
    the loss falls evenly to nothing, -1 where only the largest probe tells anything. It says how
    early probes are as good as they get, not how good: codes that tell nothing have E = 1, so it is
    read beside informativeness. S is above 1 where codes are fewer than factors.
    Disentanglement, completeness and informativeness are those of `dci`, of the probes of the
    capacity that is most informative.

    Protocols: `eastwood2023` probes by random forests of 100 trees, whose capacity is their depth:
    1, 2, 3, 4, 8, 10, 12, 14, 16, 18, 20 and 32.  [Eastwood2023] A tree of some depth is the top of
    a deeper one, so one forest is grown for each factor and read at all depths. The paper has
    other probes as well, networks and random features, whose E differs.

    A factor numbered by integers is classified, of loss 1 - accuracy; real numbers, and factors
    that are said to be `ordered`, are regressed, of loss 1 - R^2. The paper regresses all factors
    of dSprites but the shape. All codes are tried at each split; the released code leaves that to
    scikit-learn, whose classifiers try sqrt(D) of them, so that codes that tell nothing gain
    importance and perfect ones score 0.6. It sets b to 1 - 1/n_k for n_k classes, which is the same
    where they are equally frequent; here a loss above b counts as b, so that E is never below -1.
    Probes are fitted to 10,000 rows and tested on 5,000 others, or to two thirds of a smaller table
    and tested on the rest. A categorical code is read one-hot, and has the importance of all its
    categories. Constant codes count among the D of completeness and size.

    Args:
        codes: (N, D) posterior means.
        factors: (N, K) integers or real numbers.
        protocol: whose probes.
        rng: seed or generator.
        train: rows to fit probes to.
        test: rows to test them on.
        depths: two or more, growing.
        ordered: factors to regress although they are integers, by name or number.
        discrete: (D,) mask of codes that are categories.
        factor_names: names for the details of the score.
        leave_out: factors not to score, by name or number.

    Returns:
        Value: disentanglement. Parts: the five. Matrix: importances (D, K) at the best capacity.

    >>> factors = np.argwhere(np.ones((4, 5, 6)))
    >>> score = dci_es(factors @ np.diag([1, 2, 3]), factors, depths=(1, 4, 8))
    >>> list(score.parts), score.parts["size"]
    (['disentanglement', 'completeness', 'informativeness', 'explicitness', 'size'], 1.0)
    """
    check_choice("protocol", protocol, get_args(DCIESProtocol))
    if len(depths) < 2 or min(depths) < 1 or (np.diff(depths) <= 0).any():
        raise ValueError(f"expected two or more depths from 1 on, growing, got {list(depths)}")
    inputs = read(
        codes,
        factors,
        discrete=discrete,
        factor_names=factor_names,
        leave_out=leave_out,
        continuous=frame.get("continuous"),
        classes_only=False,
    )
    numbers = inputs.continuous.copy()
    numbers[[factor_index(which, inputs.names, "ordered") for which in ordered]] = True
    generator = np.random.default_rng(rng)
    rows = split(inputs, train, test, generator)
    curves = _curves(inputs, rows, numbers, depths, generator)
    told = np.array([1 - curve.losses for curve in curves.values()])  # (K, T)
    best = int(told.mean(0).argmax())
    matrix = rows.by_code({k: curve.importances[best] for k, curve in curves.items()})
    scored = matrix[:, inputs.scored]
    explicit = [explicitness_of(depths, c.losses, c.baseline) for c in curves.values()]
    parts = {
        "disentanglement": purity(scored),
        "completeness": purity(scored.T),
        "informativeness": float(told[:, best].mean()),
        "explicitness": float(np.mean(explicit)),
        "size": len(inputs.scored) / inputs.dims,
    }
    return Score(
        name="dci_es",
        protocol=protocol,
        value=parts["disentanglement"],
        parts=parts,
        matrix=matrix,
        details=rows.details(
            inputs,
            best_depth=int(depths[best]),
            informativeness_by_depth=told.mean(0).tolist(),
            informativeness_by_factor=told[:, best].tolist(),
            explicitness_by_factor=explicit,
        ),
    )


def explicitness_of(capacities: Sequence[float], losses: ArrayLike, baseline: float) -> float:
    """E of one factor, from losses (T,) at growing capacities and the loss of the best constant.

    1 where no constant has a loss, as every probe is then as good as any.  [Eastwood2023]

    >>> explicitness_of([1, 2, 3], [0.5, 0.25, 0.0], 0.5)
    0.0
    >>> explicitness_of([1, 2, 3], [0.0, 0.3, 0.0], 0.5)
    1.0
    """
    c = np.asarray(capacities, dtype=np.float64)
    least = np.minimum.accumulate(np.minimum(losses, baseline))
    area = float(np.diff(c) @ ((least[:-1] + least[1:]) / 2 - least[-1]))
    return 1 - 2 * area / (float(c[-1] - c[0]) * baseline) if baseline > 0 else 1.0


def _curves(
    inputs: Inputs, rows: Split, numbers: Bools, depths: Sequence[int], rng: np.random.Generator
) -> dict[int, _Curve]:
    """The probes of each scored factor."""
    scored = inputs.scored.tolist()
    return {
        k: _curve(_target(rows, k, bool(numbers[k])), rows, depths, stream)
        for k, stream in zip(scored, rng.spawn(len(scored)), strict=True)
    }


class _Target(NamedTuple):
    """What the probes of a factor are to tell."""

    train: Floats | Ints  # (N,) numbers, or classes numbered by those of the rows of training
    test: Floats | Ints  # (M,) a class that these lack is -1
    classes: int  # 0: numbers


def _target(rows: Split, k: int, number: bool) -> _Target:
    if number:
        return _Target(rows.train_values[:, k], rows.test_values[:, k], 0)
    values, train = np.unique(rows.train_factors[:, k], return_inverse=True)
    truth = rows.test_factors[:, k]
    at = np.searchsorted(values, truth).clip(max=len(values) - 1)
    return _Target(train, np.where(values[at] == truth, at, -1), len(values))


def _curve(target: _Target, rows: Split, depths: Sequence[int], rng: np.random.Generator) -> _Curve:
    told, importances = grow(
        rows.train, target.train, target.classes, rows.test, rng, trees=TREES, depths=depths
    )
    if target.classes:
        counts = np.bincount(target.test[target.test >= 0].astype(np.int64), minlength=1)
        baseline = 1 - float(counts.max()) / len(target.test)
        losses = (told.argmax(2) != target.test).mean(1)
    else:
        baseline = float(np.ptp(target.test) > 0)
        error = ((told[:, :, 0] - target.test) ** 2).mean(1)
        losses = error / target.test.var() if baseline else np.zeros(len(told))
    return _Curve(np.minimum(losses, baseline), importances, baseline)
