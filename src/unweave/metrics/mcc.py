"""MCC, the mean correlation coefficient: codes matched one to one with factors."""

from typing import Literal

import numpy as np

from unweave.metrics.arrays import Floats
from unweave.metrics.inputs import Inputs
from unweave.metrics.options import metric
from unweave.metrics.predictors import standardise
from unweave.metrics.score import Score


@metric
def mcc(
    inputs: Inputs,
    *,
    protocol: Literal["hyvarinen2016"] = "hyvarinen2016",
    correlation: Literal["pearson", "spearman"] = "pearson",
) -> Score:
    """Compute the mean correlation of factors with codes under the best one-to-one matching.

    MCC = max_s 1/K sum_k |corr(z_s(k), v_k)| over one-to-one maps s from factors to codes, found by
    the Hungarian algorithm.  [Hyvarinen2016]

    Protocols: `hyvarinen2016`, from all rows. `correlation="spearman"` takes the correlation of
    ranks, which does not change under a monotone map of a code. Papers on nonlinear independent
    component analysis use either, and call both MCC.

    Factors are read as numbers, so the metric is meant for ordered factors; unordered ones can be
    left out. A constant or discrete code has correlation 0, and so has a factor without a code
    (D < K); other implementations raise an error or average over the matched factors. The score is
    deterministic.

    Args:
        inputs: posterior means (N, D), and factors (N, K) that are integers or real numbers.
        protocol: whose definition.
        correlation: of the values, or of their ranks.

    Returns:
        Parts: the correlation of each factor with its code. Matrix: |corr(z_j, v_k)|, (D, K).

    >>> factors = np.argwhere(np.ones((4, 5, 3)))[:, :2]
    >>> mcc(factors @ [[1, 0], [0, -2]], factors, factor_names=("x", "y"))
    Score(mcc/hyvarinen2016 = 1.0000; x 1.000, y 1.000)
    """
    from scipy.optimize import linear_sum_assignment

    z, v = inputs.codes, inputs.values
    if correlation == "spearman":
        from scipy.stats import rankdata

        z, v = rankdata(z, axis=0), rankdata(v, axis=0)
    matrix = np.where(inputs.discrete[:, None], 0.0, absolute_correlations(z, v))
    codes, factors = linear_sum_assignment(matrix[:, inputs.scored], maximize=True)
    match = dict(zip(inputs.scored[factors].tolist(), codes.tolist(), strict=True))
    parts = {
        inputs.names[k]: float(matrix[match[k], k]) if k in match else 0.0
        for k in inputs.scored.tolist()
    }
    return inputs.score(
        float(np.mean(list(parts.values()))),
        parts=parts,
        matrix=matrix,
        details={
            "correlation": correlation,
            "codes matched": [match.get(k, -1) for k in inputs.scored.tolist()],
        },
    )


def absolute_correlations(a: Floats, b: Floats) -> Floats:
    """Return |corr(a_i, b_j)| of the columns of (N, A) and (N, B): (A, B); 0 if one is constant."""
    product: Floats = np.abs(standardise(a)[0].T @ standardise(b)[0]) / len(a)
    return np.minimum(product, 1.0)
