"""MIG-sup, the mutual information gap of each code."""

from typing import Literal

import numpy as np

from unweave.metrics.information import bin_rows, top_gap
from unweave.metrics.inputs import Inputs
from unweave.metrics.options import metric
from unweave.metrics.score import Score


@metric
def mig_sup(
    inputs: Inputs,
    *,
    protocol: Literal["li2020"] = "li2020",
    samples: int = 10_000,
    bins: int = 20,
    std_threshold: float = 0.05,
) -> Score:
    """Compute the gap of each code between its information about one factor and about the next.

    MIG-sup = 1/J sum_j (I(z_j; v_a) / H(v_a) - I(z_j; v_b) / H(v_b)), where a and b are the two
    factors that code j shares the most information with, over the J active codes.  [Li2020]
    MIG is blind to a code that holds two factors; this is blind to a factor held by two codes.

    Protocols: `li2020`. The paper uses the mutual information of [Chen2018]. We count rows in 20
    bins of equal width over the range of a code, from 10,000 rows, like [Locatello2019] for MIG.
    The paper does not say which codes are active; we take those whose standard deviation is at
    least 0.05, and discrete codes that are not constant. The code of the review [Carbonneau2022]
    divides by H(z_j), not by H(v_k).

    If no code is active, the score is 0. With a single factor the gap is the whole information.

    Args:
        inputs: posterior means (N, D) and factors (N, K); continuous factors are cut into bins.
        protocol: whose definition.
        samples: rows to estimate from.
        bins: bins per code and per continuous factor. Discrete codes are not binned.
        std_threshold: standard deviation below which a code is inactive.

    Returns:
        Parts: the gap of each active code. Matrix: I(z_j; v_k) / H(v_k), (D, K).

    >>> factors = np.argwhere(np.ones((4, 5, 3)))[:, :2]
    >>> mig_sup(factors @ [[1, 0, 1], [0, 2, 0]], factors)
    Score(mig_sup/li2020 = 1.0000; code 0 1.000, code 1 1.000, code 2 1.000)
    """
    binned, active = bin_rows(inputs, samples, bins), inputs.active(std_threshold)
    matrix = binned.normalised
    gap = top_gap(matrix[:, inputs.scored].T)
    return inputs.score(
        gap[active].mean() if active.any() else 0.0,
        parts={f"code {j}": float(gap[j]) for j in np.flatnonzero(active)},
        matrix=matrix,
        rows_read=len(binned.codes),
        details=binned.details(inputs) | {"pruned": np.flatnonzero(~active).tolist()},
    )
