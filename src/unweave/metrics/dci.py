"""DCI: disentanglement, completeness and informativeness of predictors of the factors."""

from functools import partial
from typing import Literal, NamedTuple

import numpy as np

from unweave.core.parallel import thread_map
from unweave.metrics.arrays import Floats
from unweave.metrics.inputs import TREE_CLASSES, Inputs
from unweave.metrics.options import metric
from unweave.metrics.predictors import TEST, TRAIN, Split, lasso, split, standardise
from unweave.metrics.score import Score
from unweave.metrics.trees.boosting import boost
from unweave.metrics.trees.forests import grow_forest
from unweave.metrics.validation import PerRow


class _Fit(NamedTuple):
    """A predictor of one factor."""

    importances: Floats  # (A,)
    train: float  # how well it predicts the training rows, in [0, 1]
    test: float  # and the test rows


@metric
def dci(
    inputs: Inputs,
    *,
    protocol: Literal["locatello2019", "esmaeili2019", "eastwood2018"] = "locatello2019",
    train: int = TRAIN,
    test: int = TEST,
    test_rows: PerRow | None = None,
) -> Score:
    """Compute disentanglement, completeness and informativeness.

    R_jk is the importance of code j to a predictor of factor k from all codes. With P_j = R_j /
    sum_k R_jk, Q_k = R_k / sum_j R_jk and entropies H_n in base n, for D codes and K factors,
    disentanglement = sum_j rho_j (1 - H_K(P_j)), rho_j = sum_k R_jk / sum R,
    completeness = sum_k sigma_k (1 - H_D(Q_k)), sigma_k = sum_j R_jk / sum R,
    informativeness = mean over k of how well factor k is predicted.  [Eastwood2018]
    D counts dead codes too, so they raise completeness, but nothing else.

    Protocols: `locatello2019` boosts 100 rounds of trees of depth 3, one for each value of the
    factor, at a rate of 0.1 ([Friedman2001]; the GradientBoostingClassifier of scikit-learn with
    its defaults); importance is the mean decrease of impurity, with sum 1 for each factor, and
    informativeness is accuracy.  [Locatello2019] The trees are our own and make the same splits,
    except that ties are broken at random, as scikit-learn's are; all scores agree to about 0.002.
    `esmaeili2019` uses a random forest as regressor ([Esmaeili2019] sec. 6.2 gives no details). We
    use 10 trees of unlimited depth, scikit-learn's default when the paper appeared, with the same
    importances. `eastwood2018` uses the lasso on standardised codes and factors with a penalty of
    0.02, and the absolute values of its coefficients; its completeness is the mean over factors of
    1 - H_D(Q_k), 0 for a factor that no code predicts.  [Eastwood2018] Both regress the values of
    the factor, which may be real numbers and should be ordered; informativeness is 1 - RMSE /
    standard deviation, or 0 if the mean of the factor is a better prediction.

    All predictors are fitted to 10,000 rows and tested on 5,000 others; a smaller table is split
    into two thirds and one third. Other libraries use other trees (xgboost, lightgbm) or R^2 for
    informativeness, so their numbers differ. A categorical code is read one-hot, and has the
    importance of all its categories. If no code has any importance, disentanglement and
    completeness are 0. A single factor or code cannot be mixed with others, so they are then 1.

    For uninformative codes, `eastwood2018` does not return 0 but the purity of the few chance
    correlations above its penalty, and the fewer there are, the purer they look. For 10 codes and 5
    factors of 6 values it is 0.20 +- 0.04 with 30 rows, 0.28 +- 0.04 with 300, 0.39 +- 0.06 with
    1,000 and 0.87 +- 0.14 with 10,000; for 3 codes and 3 factors, 10,000 rows give anything from 0
    to 1. Read it together with informativeness, which is then 0, and with the null and its standard
    deviation.

    Args:
        inputs: posterior means (N, D), and factors (N, K) that are integers, or real numbers for
            `esmaeili2019` and `eastwood2018`.
        protocol: whose predictor.
        train: rows to fit predictors to.
        test: rows to test them on.
        test_rows: mask (N,) or indices of the rows to test on, if not chosen at random; all others
            are trained on.

    Returns:
        Value: disentanglement. Parts: the three. Matrix: importances R (D, K).

    >>> factors = np.argwhere(np.ones((4, 5, 6)))
    >>> dci(factors @ np.diag([1, 2, 3]), factors, protocol="eastwood2018")  # doctest: +ELLIPSIS
    Score(dci/eastwood2018 = 1.0000; disentanglement 1.000, completeness 1.000, informativeness ...)
    """
    if protocol == "locatello2019":
        inputs.require_classes()
        inputs.require_learnable_classes(TREE_CLASSES)
    rows = split(inputs, train, test, test_rows)
    scored = inputs.scored.tolist()
    if protocol == "eastwood2018":
        fits = _fit_lassos(rows, scored)
    else:
        tasks = zip(scored, inputs.rng.spawn(len(scored)), strict=True)
        # The largest first, so that no thread is left with it at the end.
        ordered = sorted(tasks, key=lambda task: -int(inputs.sizes[task[0]]))
        fit = partial(_fit_boosting if protocol == "locatello2019" else _fit_forest, rows)
        fits = dict(thread_map(fit, ordered))
    matrix = rows.by_code({k: each.importances for k, each in fits.items()})
    importances = matrix[:, scored]
    mean_over_factors = protocol == "eastwood2018"
    value = purity(importances)
    components = {
        "completeness": (
            float(purities(importances.T).mean()) if mean_over_factors else purity(importances.T)
        ),
        "informativeness": float(np.mean([fits[k].test for k in scored])),
    }
    return inputs.score(
        value,
        parts={"disentanglement": value},
        components=components,
        matrix=matrix,
        rows_read=rows.rows,
        details={
            **rows.details,
            "training informativeness": float(np.mean([fits[k].train for k in scored])),
            "informativeness by factor": [fits[k].test for k in scored],
        },
    )


def _fit_boosting(rows: Split, task: tuple[int, np.random.Generator]) -> tuple[int, _Fit]:
    k, rng = task
    v = rows.train_factors[:, k]
    result = boost(rows.train, v, rows.test, rng)
    right = result.predicted == np.concatenate([v, rows.test_factors[:, k]])
    train, test = float(right[: len(v)].mean()), float(right[len(v) :].mean())
    return k, _Fit(result.importances, train, test)


def _fit_forest(rows: Split, task: tuple[int, np.random.Generator]) -> tuple[int, _Fit]:
    k, rng = task
    least = rows.train_values[:, k].min()  # subtracted, which keeps integers exact
    v, other = rows.train_values[:, k] - least, rows.test_values[:, k] - least
    z = np.concatenate([rows.train, rows.test])
    predictions, importances = grow_forest(rows.train, v, 0, z, rng, trees=10, depths=[len(v)])
    predicted = predictions[0, :, 0]
    train = _informativeness(predicted[: len(v)], v)
    test = _informativeness(predicted[len(v) :], other)
    return k, _Fit(importances[0], train, test)


def _fit_lassos(rows: Split, scored: list[int]) -> dict[int, _Fit]:
    z, other = standardise(rows.train, rows.test)
    v, truth = standardise(rows.train_values, rows.test_values)
    w = lasso(z.T @ z / len(z), z.T @ v / len(z), 0.02)
    fitted, predicted = z @ w, other @ w
    return {
        k: _Fit(
            np.abs(w[:, k]),
            _informativeness(fitted[:, k], v[:, k]),
            _informativeness(predicted[:, k], truth[:, k]),
        )
        for k in scored
    }


def _informativeness(predicted: Floats, true: Floats) -> float:
    """Compute 1 - RMSE / deviation, at least 0; for a constant, 1 if it is predicted exactly."""
    error, deviation = np.sqrt(np.mean((predicted - true) ** 2)), true.std()
    return float(max(0.0, 1 - error / deviation)) if deviation > 0 else float(error == 0)


def purity(importances: Floats) -> float:
    """Compute sum_i w_i (1 - H(P_i)) of rows (I, J), with w_i their share of all, H in base J.

    0 if there are no importances.

    >>> purity(np.array([[3.0, 0.0], [0.5, 0.5]]))
    0.75
    """
    total = importances.sum(1)
    return float(total @ purities(importances) / total.sum()) if total.sum() > 0 else 0.0


def purities(importances: Floats) -> Floats:
    """Compute 1 - H(P_i) of each row of (I, J), with P_i its shares and H in base J.

    0 for a row without importances, and 1 for a row with a single entry.

    >>> purities(np.array([[3.0, 0.0], [0.5, 0.5], [0.0, 0.0]]))
    array([1., 0., 0.])
    """
    total = importances.sum(1)
    p = importances / np.where(total > 0, total, 1.0)[:, None]
    logarithm = np.log(p, out=np.zeros_like(p), where=p > 0)
    entropy = -(p * logarithm).sum(1) / np.log(max(2, importances.shape[1]))
    # Rounding can make equal importances slightly negative.
    return np.where(total > 0, np.maximum(1 - entropy, 0.0), 0.0)
