"""The mean correlation coefficient: codes matched one to one with factors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, Unpack, get_args

import numpy as np
from numpy.typing import ArrayLike

from unweave.metrics.inputs import Floats, Seed, check_choice, read
from unweave.metrics.options import Frame, framed
from unweave.metrics.predictors import standardised
from unweave.metrics.score import Score

MCCProtocol = Literal["hyvarinen2016"]
Correlation = Literal["pearson", "spearman"]


@framed
def mcc(
    codes: ArrayLike,
    factors: ArrayLike,
    *,
    protocol: MCCProtocol = "hyvarinen2016",
    rng: Seed = 0,
    correlation: Correlation = "pearson",
    discrete: ArrayLike | None = None,
    factor_names: Sequence[str] | None = None,
    leave_out: Sequence[int | str] = (),
    **frame: Unpack[Frame],
) -> Score:
    """Mean correlation of factors with codes, under the best matching of one code to each factor.

    MCC = max_s 1/K sum_k |corr(z_s(k), v_k)| over one-to-one maps s from factors to codes, by the
    Hungarian algorithm.  [Hyvarinen2016]

    Protocols: `hyvarinen2016`, from all rows. `correlation="spearman"` takes the correlation of
    ranks, which any monotone map of a code leaves as it is; papers on nonlinear independent
    components use either, and call both MCC.

    Factors are taken as numbers, so it is meant for factors with an order; the classes of one
    without can be left out. A constant code or a discrete one correlates with nothing, and a factor
    without a code (D < K) counts as 0: other implementations refuse, or average over the matched.

    Args:
        codes: (N, D) posterior means.
        factors: (N, K) integers or real numbers.
        protocol: whose definition.
        rng: not used; the score is not random.
        correlation: of the numbers, or of their ranks.
        discrete: (D,) mask of codes that are categories, whose numbers mean nothing.
        factor_names: names for the parts of the score.
        leave_out: factors not to score, by name or number.

    Returns:
        Parts: the correlation of each factor with its code. Matrix: |corr(z_j, v_k)|, (D, K).

    >>> factors = np.argwhere(np.ones((4, 5, 3)))[:, :2]
    >>> mcc(factors @ [[1, 0], [0, -2]], factors, factor_names=("x", "y"))
    Score(mcc/hyvarinen2016 = 1.0000; x 1.000, y 1.000)
    """
    check_choice("protocol", protocol, get_args(MCCProtocol))
    check_choice("correlation", correlation, get_args(Correlation))
    inputs = read(
        codes,
        factors,
        discrete=discrete,
        factor_names=factor_names,
        leave_out=leave_out,
        continuous=frame.get("continuous"),
        classes_only=False,
    )
    z, v = inputs.codes, inputs.values
    from scipy.optimize import linear_sum_assignment

    if correlation == "spearman":
        from scipy.stats import rankdata

        z, v = rankdata(z, axis=0), rankdata(v, axis=0)
    matrix = np.where(inputs.discrete[:, None], 0.0, absolute_correlations(z, v))
    matched, which = linear_sum_assignment(matrix[:, inputs.scored], maximize=True)
    found = dict(zip(inputs.scored[which].tolist(), matched.tolist(), strict=True))
    parts = {
        inputs.names[k]: float(matrix[found[k], k]) if k in found else 0.0
        for k in inputs.scored.tolist()
    }
    return Score(
        name="mcc",
        protocol=protocol,
        value=float(np.mean(list(parts.values()))),
        parts=parts,
        matrix=matrix,
        details={
            "rows": inputs.rows,
            "correlation": correlation,
            "codes matched": [found.get(k, -1) for k in inputs.scored.tolist()],
            "factors left out": list(inputs.left_out),
        },
    )


def absolute_correlations(a: Floats, b: Floats) -> Floats:
    """|corr(a_i, b_j)| of the columns of (N, A) and (N, B): (A, B); 0 where one is constant."""
    product: Floats = np.abs(standardised(a)[0].T @ standardised(b)[0]) / len(a)
    return np.minimum(product, 1.0)
