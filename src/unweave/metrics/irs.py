"""IRS, the interventional robustness score."""

from typing import Literal

import numpy as np

from unweave.metrics.arrays import Floats, Ints, subset
from unweave.metrics.fixed_factors import combinations_missing
from unweave.metrics.information import discretise
from unweave.metrics.inputs import Inputs
from unweave.metrics.options import metric
from unweave.metrics.predictors import one_hot_columns
from unweave.metrics.score import Score


@metric
def irs(
    inputs: Inputs,
    *,
    protocol: Literal["suter2019", "locatello2019"] = "locatello2019",
    samples: int = 10_000,
    bins: int = 20,
) -> Score:
    """Compute interventional robustness: how little a code moves while its factor is held fixed.

    With d_j(v_k) the largest |z_j - E[z_j|v_k]| among rows that share the value v_k, and M_j the
    largest |z_j - E z_j| of all rows, R_jk = 1 - E_v[d_j(v)] / M_j is near 1 if code j depends on
    factor k alone. IRS = sum_j M_j max_k R_jk / sum_j M_j.  [Suter2019]

    Protocols: `suter2019` first averages z_j over the rows of each combination of factors, as if
    intervening on all of them, takes the maximum over these means, and weights values v_k by their
    frequency.  [Suter2019] `locatello2019` takes the 99th percentile instead of the largest
    deviation within a value, on 10,000 rows without averaging, and weights all values equally. It
    cuts the labels of the values into 20 bins of equal width, so a factor of 40 values has 20 bins
    of two values each, within which even a perfect code moves.  [Locatello2019]

    Ubisoft's library takes the largest deviation, like the paper.

    A value that occurs in only one row counts as not moving at all, so tables with few rows score
    high. Noise does not score 0 either, because deviations are compared with the maximum over all
    rows. Codes are weighted by their deviation, so the score depends on their scales. A constant
    code has no weight; if all are constant, the score is 0. A categorical code is read one-hot,
    with Euclidean distances in place of absolute differences.

    Args:
        inputs: posterior means (N, D) and integer factors (N, K).
        protocol: whose rules.
        samples: rows to estimate from, for `locatello2019`; `suter2019` reads all.
        bins: bins per factor, for `locatello2019`.

    Returns:
        Parts: max_k R_jk of each code that varies. Matrix: R (D, K), 0 for constant codes.

    >>> factors = np.argwhere(np.ones((4, 5, 3)))[:, :2]
    >>> irs(factors @ [[1, 0], [0, 2]], factors)
    Score(irs/locatello2019 = 1.0000; code 0 1.000, code 1 1.000)
    """
    inputs.require_classes()
    exact = protocol == "suter2019"
    rows = subset(inputs.rows, inputs.rows if exact else samples, inputs.rng)
    # Relative to the first row, so that equal codes are exactly 0.
    columns, code = one_hot_columns(inputs, rows)
    z, v, weight = columns - columns[0], inputs.factors[rows], np.ones(len(rows))
    if exact:
        z, v, weight = _combinations(z, v)
    else:
        v = np.stack([discretise(column * 1.0, bins) for column in v.T], 1)
    matrix = np.zeros((inputs.dims, len(inputs.names)))
    most = _deviations(z, code, np.zeros(len(weight), dtype=np.int64), weight, 1.0)[0][0]
    active = np.flatnonzero(most > 0)
    for k in inputs.scored:
        deviations, share = _deviations(z, code, v[:, k], weight, 1.0 if exact else 0.99)
        mean = share @ deviations if exact else deviations.mean(0)
        matrix[active, k] = np.clip(1 - mean[active] / most[active], 0.0, 1.0)
    best = matrix.max(1)
    return inputs.score(
        min(1.0, float(best @ most / most.sum())) if len(active) else 0.0,
        parts={f"code {j}": float(best[j]) for j in active},
        matrix=matrix,
        rows_read=len(rows),
        details={
            "samples": len(rows),
            "combinations missing": combinations_missing(inputs, inputs.scored.tolist()),
            "best factors": [inputs.names[k] for k in matrix[active].argmax(1)],
        },
    )


def _combinations(z: Floats, v: Ints) -> tuple[Floats, Ints, Floats]:
    """Return the mean code (C, D) of each combination of factors (C, K), and its number of rows."""
    cells, at, counts = np.unique(v, axis=0, return_inverse=True, return_counts=True)
    at = at.ravel()
    means = [np.bincount(at, column) / counts for column in z.T]
    return np.stack(means, 1), cells, counts.astype(np.float64)


def _deviations(
    z: Floats, code: Ints, v: Ints, weight: Floats, quantile: float
) -> tuple[Floats, Floats]:
    """Compute a quantile of |z_j - E[z_j|v]| within each value v, (V, D), and its share, (V,).

    `code` (A,) is the code that each column of z (N, A) belongs to.
    """
    order = np.argsort(v, kind="stable")
    start = np.flatnonzero(np.diff(v[order], prepend=-1))
    size = np.diff(start, append=len(order))
    total = np.add.reduceat(weight[order], start)
    away = z[order]
    means = np.add.reduceat(away * weight[order, None], start) / total[:, None]
    away -= np.repeat(means, size, axis=0)
    first = np.flatnonzero(np.diff(code, prepend=-1))
    if len(first) < len(code):
        away = np.sqrt(np.add.reduceat(away**2, first, axis=1))
    np.abs(away, out=away)
    share = total / total.sum()
    if quantile == 1:
        return np.maximum.reduceat(away, start), share
    deviations = np.empty((len(start), away.shape[1]))
    for number, (at, count) in enumerate(zip(start.tolist(), size.tolist(), strict=True)):
        # Interpolate linearly between the two numbers around the quantile.
        low = int(quantile * (count - 1))
        high = min(low + 1, count - 1)
        sides = np.partition(away[at : at + count], (low, high), axis=0)[[low, high]]
        between = quantile * (count - 1) - low
        deviations[number] = (1 - between) * sides[0] + between * sides[1]
    return deviations, share
