"""How far a code strays while one factor is held fixed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, Unpack, get_args

import numpy as np
from numpy.typing import ArrayLike

from unweave.metrics.factor_vae_score import combinations_missing
from unweave.metrics.information import discretise
from unweave.metrics.inputs import Floats, Ints, Seed, check_choice, read, subset
from unweave.metrics.options import Frame, framed
from unweave.metrics.predictors import columns_of
from unweave.metrics.score import Score

IRSProtocol = Literal["suter2019", "locatello2019"]


@framed
def irs(
    codes: ArrayLike,
    factors: ArrayLike,
    *,
    protocol: IRSProtocol = "locatello2019",
    rng: Seed = 0,
    samples: int = 10_000,
    bins: int = 20,
    discrete: ArrayLike | None = None,
    factor_names: Sequence[str] | None = None,
    leave_out: Sequence[int | str] = (),
    **frame: Unpack[Frame],
) -> Score:
    """Interventional robustness: how little a code moves while its factor is held fixed.

    With d_j(v_k) the largest |z_j - E[z_j|v_k]| among rows that share the value v_k, and M_j the
    largest |z_j - E z_j| of all rows, code j depends on factor k alone as far as
    R_jk = 1 - E_v[d_j(v)] / M_j is near 1. IRS = sum_j M_j max_k R_jk / sum_j M_j.  [Suter2019]

    Protocols: `suter2019` takes the mean of z_j over the rows of each combination of factors first,
    what intervening on all of them gives, the maximum over these, and values v_k as often as they
    occur.  [Suter2019] `locatello2019` takes the 99th percentile instead of the largest deviation
    within a value, on 10,000 rows as they are, and all values equally often; their numbers from 0
    on are cut into 20 bins of equal width over their range, so that a factor of 40 values has 20 of
    two values each, within which its own code moves.  [Locatello2019]

    Ubisoft's library takes the largest deviation, as the paper does.

    A value that one row has alone counts as not moving at all, so that tables of few rows score
    high. Noise does not score 0 either: it is the maximum of all rows that the others are compared
    to. Codes weigh as much as they stray, so the score depends on their scales. A constant code has
    no weight; where all are constant the score is 0. A categorical code is read one-hot: as a set
    of codes, with Euclidean distances in place of absolute differences.

    Args:
        codes: (N, D) posterior means.
        factors: (N, K) integers.
        protocol: whose rules.
        rng: seed or generator, for the choice of rows; `suter2019` reads all.
        samples: rows to estimate from, for `locatello2019`.
        bins: bins to a factor, for `locatello2019`.
        discrete: (D,) mask of codes that are categories.
        factor_names: names for the details of the score.
        leave_out: factors not to score, by name or number.

    Returns:
        Parts: max_k R_jk of each code that varies. Matrix: R (D, K), 0 for constant codes.

    >>> factors = np.argwhere(np.ones((4, 5, 3)))[:, :2]
    >>> irs(factors @ [[1, 0], [0, 2]], factors)
    Score(irs/locatello2019 = 1.0000; code 0 1.000, code 1 1.000)
    """
    check_choice("protocol", protocol, get_args(IRSProtocol))
    inputs = read(
        codes,
        factors,
        discrete=discrete,
        factor_names=factor_names,
        leave_out=leave_out,
        continuous=frame.get("continuous"),
    )
    exact = protocol == "suter2019"
    points = inputs.rows if exact else samples
    rows = subset(inputs.rows, points, np.random.default_rng(rng))
    # From the first row on, so that equal codes are 0 without rounding.
    columns, code = columns_of(inputs, rows)
    z, v, weight = columns - columns[0], inputs.factors[rows], np.ones(len(rows))
    if exact:
        z, v, weight = _combinations(z, v)
    else:
        v = np.stack([discretise(column * 1.0, bins) for column in v.T], 1)
    matrix = np.zeros((inputs.dims, len(inputs.names)))
    most = _strays(z, code, np.zeros(len(weight), dtype=np.int64), weight, 1.0)[0][0]
    active = np.flatnonzero(most > 0)
    for k in inputs.scored:
        strays, share = _strays(z, code, v[:, k], weight, 1.0 if exact else 0.99)
        mean = share @ strays if exact else strays.mean(0)
        matrix[active, k] = np.clip(1 - mean[active] / most[active], 0.0, 1.0)
    best = matrix.max(1)
    return Score(
        name="irs",
        protocol=protocol,
        value=min(1.0, float(best @ most / most.sum())) if len(active) else 0.0,
        parts={f"code {j}": float(best[j]) for j in active},
        matrix=matrix,
        details={
            "rows": inputs.rows,
            "samples": len(rows),
            "combinations missing": combinations_missing(inputs, inputs.scored.tolist()),
            "best factors": [inputs.names[k] for k in matrix[active].argmax(1)],
            "factors left out": list(inputs.left_out),
        },
    )


def _combinations(z: Floats, v: Ints) -> tuple[Floats, Ints, Floats]:
    """The mean code (C, D) of each combination of factors (C, K), and how many rows have it."""
    cells, at, counts = np.unique(v, axis=0, return_inverse=True, return_counts=True)
    at = at.ravel()
    means = [np.bincount(at, column) / counts for column in z.T]
    return np.stack(means, 1), cells, counts.astype(np.float64)


def _strays(
    z: Floats, code: Ints, v: Ints, weight: Floats, quantile: float
) -> tuple[Floats, Floats]:
    """A quantile of |z_j - E[z_j|v]| within each value v, (V, D), and the share of each, (V,).

    The columns of z (N, A) are those of the codes (A,), one or several side by side.
    """
    order = np.argsort(v, kind="stable")
    start = np.flatnonzero(np.diff(v[order], prepend=-1))
    size = np.diff(start, append=len(order))
    total = np.add.reduceat(weight[order], start)
    away, heavy = z[order], weight[order, None]
    means = np.add.reduceat(away * heavy, start) / total[:, None]
    away -= np.repeat(means, size, axis=0)
    first = np.flatnonzero(np.diff(code, prepend=-1))
    if len(first) < len(code):
        away = np.sqrt(np.add.reduceat(away**2, first, axis=1))
    np.abs(away, out=away)
    share = total / total.sum()
    if quantile == 1:
        return np.maximum.reduceat(away, start), share
    strays = np.empty((len(start), away.shape[1]))
    for number, (at, count) in enumerate(zip(start.tolist(), size.tolist(), strict=True)):
        # The two numbers about the quantile, and how far it is from the first to the second.
        low = int(quantile * (count - 1))
        high = min(low + 1, count - 1)
        sides = np.partition(away[at : at + count], (low, high), axis=0)[[low, high]]
        between = quantile * (count - 1) - low
        strays[number] = (1 - between) * sides[0] + between * sides[1]
    return strays, share
