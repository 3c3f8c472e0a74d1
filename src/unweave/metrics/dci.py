"""Metrics that predict the factors from the codes."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Literal, NamedTuple, Unpack, get_args

import numpy as np
from numpy.typing import ArrayLike

from unweave.core.parallel import thread_map
from unweave.metrics.inputs import Floats, Seed, check_choice, read
from unweave.metrics.options import Frame, framed
from unweave.metrics.predictors import TEST, TRAIN, Split, lasso, split, standardised
from unweave.metrics.score import Score
from unweave.metrics.trees.boosting import boost
from unweave.metrics.trees.forests import grow

DCIProtocol = Literal["locatello2019", "esmaeili2019", "eastwood2018"]


class _Fit(NamedTuple):
    """A predictor of one factor."""

    importances: Floats  # (A,)
    train: float  # how well it predicts, in [0, 1]
    test: float


@framed
def dci(
    codes: ArrayLike,
    factors: ArrayLike,
    *,
    protocol: DCIProtocol = "locatello2019",
    rng: Seed = 0,
    train: int = TRAIN,
    test: int = TEST,
    discrete: ArrayLike | None = None,
    factor_names: Sequence[str] | None = None,
    leave_out: Sequence[int | str] = (),
    **frame: Unpack[Frame],
) -> Score:
    """Disentanglement, completeness and informativeness of predictors of the factors.

    R_jk is the importance of code j to a predictor of factor k from all codes. With P_j = R_j /
    sum_k R_jk, Q_k = R_k / sum_j R_jk and entropies H_n in base n, for D codes and K factors,
    disentanglement = sum_j rho_j (1 - H_K(P_j)), rho_j = sum_k R_jk / sum R,
    completeness = sum_k sigma_k (1 - H_D(Q_k)), sigma_k = sum_j R_jk / sum R,
    informativeness = mean over k of how well factor k is predicted.  [Eastwood2018]
    D counts dead codes too, so that they raise completeness, and nothing else.

    Protocols: `locatello2019` boosts 100 rounds of trees of depth 3, one for each value of the
    factor, at a rate of 0.1 ([Friedman2001]; the GradientBoostingClassifier of scikit-learn with
    its defaults); importance is mean decrease of impurity, of sum 1 for each factor, and
    informativeness is accuracy.  [Locatello2019] The trees are our own and agree with
    scikit-learn's in all scores to about 0.002, twenty times as fast.
    `esmaeili2019` takes a random forest as regressor ([Esmaeili2019] sec. 6.2, which says no more):
    here 10 trees without limits, scikit-learn's defaults when the paper appeared, of importances as
    above. `eastwood2018` takes the lasso of standardised codes and factors, at a penalty of 0.02,
    and the sizes of its coefficients; there completeness is the mean over factors of 1 - H_D(Q_k),
    0 for one of which no code tells anything.  [Eastwood2018] Both regress the values of the
    factor, which may be real numbers and should be ordered; informativeness is 1 - RMSE / standard
    deviation, or 0 if the mean of the factor is a better guess.

    All predictors are fitted to 10,000 rows and tested on 5,000 others, or to two thirds of a
    smaller table and tested on the rest. Other libraries take other trees (xgboost, lightgbm) or
    turn R^2 into informativeness: their numbers differ. A categorical code is read one-hot, and has
    the importance of all its categories. Where no code has any importance, disentanglement and
    completeness are 0. With one factor or code, which has nothing to be mixed with, they are 1.
    Constant codes count among the D of completeness, and raise it.

    Of codes that tell nothing, `eastwood2018` gives no 0 but what the chance correlations leave
    that are above its penalty, and the fewer these are, the purer they look: for 10 codes and 5
    factors of 6 values, 0.20 +- 0.04 for 30 rows, 0.28 +- 0.04 for 300, 0.39 +- 0.06 for 1,000 and
    0.87 +- 0.14 for 10,000; with 3 codes and 3 factors 10,000 rows give anything from 0 to 1. Read
    it beside informativeness, which is 0 then, and ask for the null and its spread.

    Args:
        codes: (N, D) posterior means.
        factors: (N, K) integers, or real numbers for `esmaeili2019` and `eastwood2018`.
        protocol: whose predictor.
        rng: seed or generator.
        train: rows to fit predictors to.
        test: rows to test them on.
        discrete: (D,) mask of codes that are categories.
        factor_names: names for the details of the score.
        leave_out: factors not to score, by name or number.

    Returns:
        Value: disentanglement. Parts: the three. Matrix: importances R (D, K).

    >>> factors = np.argwhere(np.ones((4, 5, 6)))
    >>> dci(factors @ np.diag([1, 2, 3]), factors, protocol="eastwood2018")  # doctest: +ELLIPSIS
    Score(dci/eastwood2018 = 1.0000; disentanglement 1.000, completeness 1.000, informativeness ...)
    """
    check_choice("protocol", protocol, get_args(DCIProtocol))
    inputs = read(
        codes,
        factors,
        discrete=discrete,
        factor_names=factor_names,
        leave_out=leave_out,
        continuous=frame.get("continuous"),
        classes_only=protocol == "locatello2019",
    )
    generator = np.random.default_rng(rng)
    rows = split(inputs, train, test, generator)
    scored = inputs.scored.tolist()
    if protocol == "eastwood2018":
        fits = _lassos(rows, scored)
    else:
        tasks = zip(scored, generator.spawn(len(scored)), strict=True)
        # The largest first, so that no thread is left with it at the end.
        ordered = sorted(tasks, key=lambda task: -int(inputs.sizes[task[0]]))
        fit = partial(_boosted if protocol == "locatello2019" else _forest, rows)
        fits = dict(thread_map(fit, ordered))
    matrix = rows.by_code({k: each.importances for k, each in fits.items()})
    scored = matrix[:, inputs.scored]
    parts = {
        "disentanglement": purity(scored),
        "completeness": (
            float(purities(scored.T).mean()) if protocol == "eastwood2018" else purity(scored.T)
        ),
        "informativeness": float(np.mean([fits[k].test for k in inputs.scored])),
    }
    return Score(
        name="dci",
        protocol=protocol,
        value=parts["disentanglement"],
        parts=parts,
        matrix=matrix,
        details=rows.details(
            inputs,
            training_informativeness=float(np.mean([fits[k].train for k in inputs.scored])),
            informativeness_by_factor=[fits[k].test for k in inputs.scored.tolist()],
        ),
    )


def purity(importances: Floats) -> float:
    """sum_i w_i (1 - H(P_i)) of rows (I, J), with w_i their share of all and H in base J.

    0 where there are no importances.

    >>> purity(np.array([[3.0, 0.0], [0.5, 0.5]]))
    0.75
    """
    total = importances.sum(1)
    return float(total @ purities(importances) / total.sum()) if total.sum() > 0 else 0.0


def purities(importances: Floats) -> Floats:
    """1 - H(P_i) of each of rows (I, J), with P_i its shares and H in base J.

    0 of a row without importances, and 1 of one with a single entry.

    >>> purities(np.array([[3.0, 0.0], [0.5, 0.5], [0.0, 0.0]]))
    array([1., 0., 0.])
    """
    total = importances.sum(1)
    p = importances / np.where(total > 0, total, 1.0)[:, None]
    logarithm = np.log(p, out=np.zeros_like(p), where=p > 0)
    entropy = -(p * logarithm).sum(1) / np.log(max(2, importances.shape[1]))
    # Rounding can leave equal importances a hair below 0.
    pure: Floats = np.where(total > 0, np.maximum(1 - entropy, 0.0), 0.0)
    return pure


def _boosted(rows: Split, task: tuple[int, np.random.Generator]) -> tuple[int, _Fit]:
    k, rng = task
    v = rows.train_factors[:, k]
    result = boost(rows.train, v, rows.test, rng)
    right = result.predicted == np.concatenate([v, rows.test_factors[:, k]])
    train, test = float(right[: len(v)].mean()), float(right[len(v) :].mean())
    return k, _Fit(result.importances, train, test)


def _forest(rows: Split, task: tuple[int, np.random.Generator]) -> tuple[int, _Fit]:
    """Ten trees on draws with replacement; importances of each have sum 1."""
    k, rng = task
    least = rows.train_values[:, k].min()  # counted from it whole numbers stay whole
    v, other = rows.train_values[:, k] - least, rows.test_values[:, k] - least
    z = np.concatenate([rows.train, rows.test])
    told, importances = grow(rows.train, v, 0, z, rng, trees=10, depths=[len(v)])
    number = told[0, :, 0]
    train, test = _informed(number[: len(v)], v), _informed(number[len(v) :], other)
    return k, _Fit(importances[0], train, test)


def _lassos(rows: Split, scored: list[int]) -> dict[int, _Fit]:
    """Regressors of standardised factors from standardised codes."""
    z, other = standardised(rows.train, rows.test)
    v, truth = standardised(rows.train_values, rows.test_values)
    w = lasso(z.T @ z / len(z), z.T @ v / len(z), 0.02)
    told, guessed = z @ w, other @ w
    return {
        k: _Fit(
            np.abs(w[:, k]),
            _informed(told[:, k], v[:, k]),
            _informed(guessed[:, k], truth[:, k]),
        )
        for k in scored
    }


def _informed(predicted: Floats, true: Floats) -> float:
    """1 - RMSE / standard deviation, at least 0; of a constant, whether it is predicted exactly."""
    error, deviation = np.sqrt(np.mean((predicted - true) ** 2)), true.std()
    return float(max(0.0, 1 - error / deviation)) if deviation > 0 else float(error == 0)
