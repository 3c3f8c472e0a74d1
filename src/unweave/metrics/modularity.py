"""Modularity: whether each code depends on one factor only."""

from typing import Literal

import numpy as np

from unweave.metrics.arrays import Floats
from unweave.metrics.information import bin_rows
from unweave.metrics.inputs import Inputs
from unweave.metrics.options import metric
from unweave.metrics.score import Score


@metric
def modularity(
    inputs: Inputs,
    *,
    protocol: Literal["locatello2019", "ridgeway2018"] = "locatello2019",
    samples: int = 10_000,
    bins: int = 20,
    std_threshold: float = 0.05,
) -> Score:
    """Compute how little information each code has about factors other than its main one.

    1/D sum_j (1 - sum_{k != a} I(z_j; v_k)^2 / (I(z_j; v_a)^2 (K - 1))), where a is the factor that
    code j shares the most information with.  [Ridgeway2018]

    Protocols: `locatello2019` computes the mutual information from 20 bins of equal width over the
    range of a code, from 10,000 rows. It averages over all codes and gives 0 to a code without
    information, so dead codes lower the score.  [Locatello2019]  `ridgeway2018` leaves out such
    codes, for which the paper's formula is 0/0: discrete codes that are constant, and others whose
    standard deviation is below 0.05, our choice. If all are left out, the score is 0.

    Modularity is high for codes with almost no information about any factor, because of chance
    counts, so compare it with its null. Ubisoft's library uses 10 bins and divides by 0 for dead
    codes.

    Args:
        inputs: posterior means (N, D) and factors (N, K), at least two that vary; continuous
            factors are cut into bins.
        protocol: which codes count.
        samples: rows to estimate from.
        bins: bins per code and per continuous factor. Discrete codes are not binned.
        std_threshold: standard deviation below which `ridgeway2018` leaves a code out.

    Returns:
        Parts: the modularity of each code that counts. Matrix: I(z_j; v_k) in nats, (D, K).

    >>> factors = np.argwhere(np.ones((4, 5, 3)))[:, :2]
    >>> modularity(factors @ [[1, 0], [0, 2]], factors)
    Score(modularity/locatello2019 = 1.0000; code 0 1.000, code 1 1.000)
    """
    inputs.require_two_factors()
    binned = bin_rows(inputs, samples, bins)
    values = _modularities(binned.shared[:, inputs.scored])
    counted = np.ones(inputs.dims, np.bool_)
    if protocol == "ridgeway2018":
        counted = inputs.active(std_threshold)
    return inputs.score(
        values[counted].mean() if counted.any() else 0.0,
        parts={f"code {j}": float(values[j]) for j in np.flatnonzero(counted)},
        matrix=binned.shared,
        rows_read=len(binned.codes),
        details={
            "samples": len(binned.codes),
            "pruned": np.flatnonzero(~counted).tolist(),
            "factors cut into bins": inputs.continuous_names,
        },
    )


def _modularities(shared: Floats) -> Floats:
    """Compute the modularity of each code (D,) from its information (D, K); 0 without any."""
    squared = shared**2
    most = squared.max(1)
    rest = (squared.sum(1) - most) / (shared.shape[1] - 1)
    return np.where(
        most > 0, 1 - np.divide(rest, most, where=most > 0, out=np.ones_like(most)), 0.0
    )
