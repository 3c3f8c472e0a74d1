"""How much better one code alone predicts a factor than the next."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, Unpack, get_args

import numpy as np
from numpy.typing import ArrayLike
from sklearn.svm import LinearSVC

from unweave.metrics.frame import Frame, framed
from unweave.metrics.information import top_gap
from unweave.metrics.inputs import Floats, Inputs, Seed, check_choice, read
from unweave.metrics.predictors import TEST, TRAIN, Split, split
from unweave.metrics.score import Score
from unweave.parallel import in_threads, usable_cores

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
    (LinearSVC of scikit-learn), on 5,000 other rows; or two thirds and the rest of a smaller table.
    [Locatello2019] Such a classifier tells the ends of a range from the rest, but not the values in
    its middle: a perfect table does not score 1, and the score depends on the scale of the codes.
    `kumar2018` takes S_jk = Cov(z_j, v_k)^2 / (Var z_j Var v_k), the R^2 of a linear regression, on
    all rows, which is meant for factors whose values are ordered numbers.  [Kumar2018]

    Other libraries take the accuracy of decision trees by cross-validation, or R^2 on the rows of
    fitting with pruned codes: their numbers differ. A constant code predicts nothing, S_jk = 0. A
    categorical code is read as its number. With a single code the gap is all of S_1k.

    Args:
        codes: (N, D) posterior means.
        factors: (N, K) integers.
        protocol: whose predictor.
        rng: seed or generator, for the choice of rows; `kumar2018` reads all.
        train: rows to fit classifiers to.
        test: rows to test them on.
        discrete: (D,) mask of codes that are categories.
        factor_names: names for the parts of the score.
        leave_out: factors not to score, by name or number.

    Returns:
        Parts: the gap of each factor. Matrix: S (D, K).

    >>> factors = np.argwhere(np.ones((4, 5)))
    >>> sap(factors @ [[1, 0], [0, 2]], factors, protocol="kumar2018", factor_names=("x", "y"))
    Score(sap/kumar2018 = 1.0000; x 1.000, y 1.000)
    """
    check_choice("protocol", protocol, get_args(SAPProtocol))
    inputs = read(codes, factors, discrete=discrete, factor_names=factor_names, leave_out=leave_out)
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
    v = inputs.factors[:, inputs.scored]
    v = (v - v.mean(0)) / v.std(0)
    matrix = np.zeros((inputs.dims, len(inputs.names)))
    for j, z in enumerate(inputs.codes.T):
        # From the first value on, so that equal values have a deviation of 0 without rounding.
        centred = z - z[0]
        centred -= centred.mean()
        deviation = centred.std()
        if deviation > 0:
            correlation = centred / deviation @ v / len(v)
            matrix[j, inputs.scored] = np.minimum(correlation**2, 1.0)
    return matrix


def _accuracies(inputs: Inputs, rows: Split) -> Floats:
    """S (D, K) of one classifier for each code and factor; 0 for codes that do not vary."""
    matrix = np.zeros((inputs.dims, len(inputs.names)))
    tasks = [(a, k) for k in inputs.scored.tolist() for a in range(len(rows.active))]

    def fit(task: tuple[int, int]) -> float:
        a, k = task
        v, truth = rows.train_factors[:, k], rows.test_factors[:, k]
        if (v == v[0]).all():
            return float((truth == v[0]).mean())
        machine = LinearSVC(C=0.01, class_weight="balanced", dual=False)
        machine.fit(rows.train[:, [a]], v)
        return float(machine.score(rows.test[:, [a]], truth))

    for (a, k), accuracy in zip(tasks, in_threads(fit, tasks, usable_cores()), strict=True):
        matrix[rows.active[a], k] = accuracy
    return matrix
