"""DCIMIG, the information gap of codes that each hold one factor."""

from typing import Literal

import numpy as np

from unweave.metrics.information import bin_rows, top_gap
from unweave.metrics.inputs import Inputs
from unweave.metrics.options import metric
from unweave.metrics.score import Score


@metric
def dcimig(
    inputs: Inputs,
    *,
    protocol: Literal["sepliarskaia2019"] = "sepliarskaia2019",
    samples: int = 10_000,
    bins: int = 20,
) -> Score:
    """Compute the share of the factors' information in codes that each hold one factor alone.

    Code j is assigned to the factor a that it shares the most information with, with the gap
    R_j = I(z_j; v_a) - max_{k != a} I(z_j; v_k). With S_k the largest gap among the codes assigned
    to factor k, 0 if there are none, the score is sum_k S_k / sum_k H(v_k).  [Sepliarskaia2019]

    Protocols: `sepliarskaia2019` counts rows in 20 bins of equal width over the range of each
    posterior mean, from 10,000 rows. Like DCI it rewards codes that hold one factor each; like MIG
    it uses gaps of mutual information. A second code for the same factor costs nothing. Ubisoft's
    library has the same formula.

    Args:
        inputs: posterior means (N, D) and factors (N, K); continuous factors are cut into bins.
        protocol: whose definition.
        samples: rows to estimate from.
        bins: bins per code and per continuous factor. Discrete codes are not binned.

    Returns:
        Parts: S_k / H(v_k) of each factor. Matrix: I(z_j; v_k) / H(v_k), (D, K).

    >>> factors = np.argwhere(np.ones((4, 5, 3)))[:, :2]
    >>> dcimig(factors @ [[1, 0], [0, 2]], factors, factor_names=("x", "y"))
    Score(dcimig/sepliarskaia2019 = 1.0000; x 1.000, y 1.000)
    """
    binned = bin_rows(inputs, samples, bins)
    shared, h = binned.shared[:, inputs.scored], binned.entropies[inputs.scored]
    assigned = shared.argmax(1)[:, None] == np.arange(len(h))  # (D, K)
    best = np.where(assigned, top_gap(shared.T)[:, None], 0.0).max(0)
    return inputs.score(
        best.sum() / h.sum() if h.any() else 0.0,
        parts={
            inputs.names[k]: float(s / e) if e else 0.0
            for k, s, e in zip(inputs.scored, best, h, strict=True)
        },
        matrix=binned.normalised,
        rows_read=len(binned.codes),
        details=binned.details(inputs),
    )
