"""JEMMIG, the joint entropy minus the mutual information gap."""

from typing import Literal

import numpy as np

from unweave.metrics.arrays import Bools
from unweave.metrics.information import ROUNDING, Binned, bin_rows, entropy, top_gap
from unweave.metrics.inputs import Inputs
from unweave.metrics.options import metric
from unweave.metrics.score import Score

JEMMIGProtocol = Literal["do2020"]


@metric
def jemmig(
    inputs: Inputs,
    *,
    protocol: JEMMIGProtocol = "do2020",
    samples: int = 10_000,
    bins: int = 20,
    std_threshold: float = 0.05,
) -> Score:
    """Compute the normalised joint entropy minus mutual information gap.

    JEMMIG_k = H(z_a, v_k) - I(z_a; v_k) + I(z_b; v_k), where a and b are the two codes that share
    the most information with factor k; the score is 1/K sum_k (1 - JEMMIG_k / (H(v_k) + log B)) for
    B bins. H(z_a, v_k) = I(z_a; v_k) if the code holds the factor and nothing else.  [Do2020]
    If two codes share the same information, a is the one with the smaller joint entropy.

    Protocols: `do2020`, normalised so that higher is better. The paper bins samples z ~ q(z|x) over
    a fixed range; we bin posterior means, 20 bins of equal width over the range of each, from
    10,000 rows. The formula gives a constant code log B / (H(v_k) + log B), more than many learned
    codes get. We therefore leave out codes whose standard deviation is below 0.05 and discrete
    codes that are constant, as in `mig_sup`; if none is left, the score is 0. A code with few
    distinct values still scores higher, whatever it encodes, so read the matrix as well.

    For a discrete code, B is the number of its categories. Continuous codes never reach 1, because
    their variation within a class is entropy that the factor does not explain. Ubisoft's library
    uses the plain formula and leaves out no code.

    Args:
        inputs: posterior means (N, D) and factors (N, K); continuous factors are cut into bins.
        protocol: whose definition.
        samples: rows to estimate from.
        bins: B, per code and per continuous factor. Discrete codes are not binned.
        std_threshold: standard deviation below which a code is left out.

    Returns:
        Parts: the term of each factor. Matrix: I(z_j; v_k) / H(v_k), (D, K).

    >>> factors = np.argwhere(np.ones((4, 5, 3)))[:, :2]
    >>> jemmig(factors @ [[1, 0], [0, 2]], factors, factor_names=("x", "y"))
    Score(jemmig/do2020 = 1.0000; x 1.000, y 1.000)
    """
    binned, active = bin_rows(inputs, samples, bins), inputs.active(std_threshold)
    parts = {inputs.names[k]: _term(k, inputs, binned, active, bins) for k in inputs.scored}
    return inputs.score(
        float(np.mean(list(parts.values()))),
        parts=parts,
        matrix=binned.normalised,
        rows_read=len(binned.codes),
        details=binned.details(inputs) | {"pruned": np.flatnonzero(~active).tolist()},
    )


def _term(k: int, inputs: Inputs, binned: Binned, active: Bools, bins: int) -> float:
    """Compute 1 - JEMMIG_k / (H(v_k) + log B)."""
    if not active.any():
        return 0.0
    shared = np.where(active, binned.shared[:, k], -1.0)
    gap, h = top_gap(shared[active, None])[0], binned.entropies[k]
    terms = []
    for code in np.flatnonzero(shared >= shared.max() - ROUNDING):
        size = int(binned.codes[:, code].max()) + 1 if inputs.discrete[code] else bins
        joint = entropy(binned.codes[:, code]) + h - shared[code]
        terms.append(float(1 - (joint - gap) / (h + np.log(size))))
    return max(terms)
