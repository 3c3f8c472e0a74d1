"""InfoMEC: modularity, explicitness and compactness by information."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Literal, NamedTuple, Unpack, get_args

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import digamma

from unweave.metrics.information import discretise, entropy, mutual_information
from unweave.metrics.inputs import Bools, Floats, Inputs, Ints, Seed, check_choice, read, subset
from unweave.metrics.modularity import check_two_factors
from unweave.metrics.options import Frame, framed
from unweave.metrics.predictors import logistic, standardised, with_blas
from unweave.metrics.score import Score

InfoMECProtocol = Literal["hsu2023", "hsu2024"]

_BINS = 20  # to a continuous factor
_SAMPLES, _NEIGHBOURS = 10_000, 10


class Estimates(NamedTuple):
    """What is estimated before codes are pruned."""

    information: Floats  # (D, K) n_jk
    explicitness: float  # InfoE
    samples: int  # rows that both are of


@framed
def info_mec(
    codes: ArrayLike,
    factors: ArrayLike,
    *,
    protocol: InfoMECProtocol = "hsu2023",
    rng: Seed = 0,
    samples: int = _SAMPLES,
    neighbours: int = _NEIGHBOURS,
    threshold: float | None = None,
    discrete: ArrayLike | None = None,
    factor_names: Sequence[str] | None = None,
    leave_out: Sequence[int | str] = (),
    estimates: Estimates | None = None,
    **frame: Unpack[Frame],
) -> Score:
    """InfoM, InfoE and InfoC: one factor to a code, factors that can be read, one code to a factor.

    With n_jk = I(z_j; v_k) / H(v_k) and the J active codes,
    InfoM = (1/J sum_j max_k n_jk / sum_k n_jk - 1/K) / (1 - 1/K),
    InfoC = (1/K sum_k max_j n_jk / sum_j n_jk - 1/J) / (1 - 1/J),
    InfoE = 1/K sum_k (1 - H_logistic(v_k | z) / log n_k), with the cross-entropy of a logistic
    regression of v_k on all codes, on the rows it was fitted to. The value is InfoM.  [Hsu2023]

    Protocols: `hsu2023` has as active the codes whose range is over an eighth of the largest range;
    a released version has a twentieth, which is `threshold=1/20`. `hsu2024`, of the authors' later
    code, has those whose interquartile range is over a tenth of the largest.  [Hsu2024]
    Both estimate I by nearest neighbours among the rows of a class, 10 of them ([Ross2014], as
    scikit-learn's `mutual_info_classif`), and fit the regression without penalty, classes weighted
    alike, on standardised codes, by 100 steps of L-BFGS. A discrete code is active unless it is
    constant; its I is that of counts, and it is read one-hot.

    The papers leave undefined what becomes of a code that tells nothing of any factor and of a
    factor of which no code tells anything (both count 0), of a single active code (InfoC is 1), and
    of none (all are 0). A continuous factor is cut into 20 bins of equal width for I and H, and
    InfoE takes the share of its variance that a linear regression explains.

    Args:
        codes: (N, D) posterior means.
        factors: (N, K) integers or real numbers, two or more that vary.
        protocol: which codes are active.
        rng: seed or generator, for the rows and to part equal numbers.
        samples: rows to estimate from.
        neighbours: that each distance is measured to.
        threshold: share of the largest spread that an active code is above, if not that of the
            protocol.
        discrete: (D,) mask of codes that are categories.
        factor_names: names of the factors.
        leave_out: factors not to score, by name or number.
        estimates: of the same arguments, by the other protocol: taken as they are.

    Returns:
        Parts: modularity (InfoM), explicitness (InfoE), compactness (InfoC). Matrix: n_jk, (D, K).

    >>> factors = np.argwhere(np.ones((4, 5, 10)))[:, :2]
    >>> info_mec(factors @ [[1, 0], [0, 2]], factors).parts["compactness"] > 0.9
    True
    """
    check_choice("protocol", protocol, get_args(InfoMECProtocol))
    if neighbours < 1:
        raise ValueError(f"expected at least 1 neighbour, got {neighbours}")
    if threshold is not None and not 0 <= threshold < 1:
        raise ValueError(f"expected threshold as a share from 0 to below 1, got {threshold}")
    inputs = read(
        codes,
        factors,
        discrete=discrete,
        factor_names=factor_names,
        leave_out=leave_out,
        continuous=frame.get("continuous"),
        classes_only=False,
    )
    check_two_factors(inputs)
    if estimates is None:
        estimates = _estimates(inputs, samples, neighbours, np.random.default_rng(rng))
    matrix = estimates.information
    alive = _active(inputs, protocol, threshold)
    told = matrix[np.ix_(alive, inputs.scored)]
    parts = {
        "modularity": concentration(told),
        "explicitness": estimates.explicitness if alive.any() else 0.0,
        "compactness": concentration(told.T),
    }
    return Score(
        name="info_mec",
        protocol=protocol,
        value=parts["modularity"],
        parts=parts,
        matrix=matrix,
        details={
            "rows": inputs.rows,
            "samples": estimates.samples,
            "active": int(alive.sum()),
            "pruned": np.flatnonzero(~alive).tolist(),
            "factors cut into bins": inputs.continuous_names,
            "factors left out": list(inputs.left_out),
        },
    )


def info_mec_estimates(
    codes: ArrayLike,
    factors: ArrayLike,
    *,
    rng: Seed = 0,
    discrete: ArrayLike | None = None,
    factor_names: Sequence[str] | None = None,
    continuous: Sequence[int | str] | None = None,
) -> Estimates:
    """What all protocols of `info_mec` estimate before they prune, for its `estimates`."""
    inputs = read(
        codes,
        factors,
        discrete=discrete,
        factor_names=factor_names,
        continuous=continuous,
        classes_only=False,
    )
    return _estimates(inputs, _SAMPLES, _NEIGHBOURS, np.random.default_rng(rng))


def _estimates(
    inputs: Inputs, samples: int, neighbours: int, rng: np.random.Generator
) -> Estimates:
    rows = subset(inputs.rows, samples, rng)
    noise = rng.standard_normal(len(rows))
    scored = inputs.scored.tolist()
    read_out = list(with_blas(partial(_explicitness, inputs, rows), scored))
    told = _information(inputs, rows, neighbours, noise)
    return Estimates(told, float(np.mean(read_out)), len(rows))


def concentration(shares: Floats) -> float:
    """(mean_i max_j s_ij / sum_j s_ij - 1/n) / (1 - 1/n) of (m, n); a row of zeros counts 0.

    >>> concentration(np.array([[1.0, 0.0], [1.0, 1.0]]))
    0.5
    """
    if not shares.size:
        return 0.0
    n = shares.shape[1]
    total = shares.sum(1)
    if n == 1:
        return float((total > 0).mean())
    part = np.divide(shares.max(1), total, out=np.full(len(shares), 1 / n), where=total > 0)
    return float(((part - 1 / n) / (1 - 1 / n)).mean())


def neighbour_information(x: Floats, labels: Ints, neighbours: int) -> float:
    """I(x; c) in nats of numbers (N,) without ties and labels (N,), by nearest neighbours.

    psi(N) + <psi(k)> - <psi(N_c)> - <psi(m)>, with r the distance from a number to the k-th nearest
    of its class and m the count of numbers nearer than r, itself among them; never below 0. Numbers
    alone in their class are left out.  [Ross2014] eq. 4
    """
    counts = np.bincount(labels)
    kept = counts[labels] > 1
    x, labels = x[kept], labels[kept]
    if not len(x):
        return 0.0
    order = np.argsort(x, kind="stable")
    ordered, labels = x[order], labels[order]
    radius, k = np.empty(len(x)), np.empty(len(x))
    for label in np.flatnonzero(counts > 1):
        mine = np.flatnonzero(labels == label)
        within = min(neighbours, len(mine) - 1)
        radius[mine], k[mine] = _kth_distances(ordered[mine], within), within
    # The k-th itself is not nearer than r: a little less than r, by the rounding of numbers of
    # this size.
    radius = np.maximum(radius - 4 * np.finfo(float).eps * np.abs(ordered).max(), 0.0)
    nearer = np.searchsorted(ordered, ordered + radius, "right")
    nearer = nearer - np.searchsorted(ordered, ordered - radius, "left")
    psi = digamma(len(x)) + digamma(k).mean()
    return max(0.0, float(psi - digamma(counts[labels]).mean() - digamma(nearer).mean()))


def _kth_distances(ordered: Floats, k: int) -> Floats:
    """Distance from each of ordered numbers (n,) to its k-th nearest other, k < n."""
    n = len(ordered)
    distance = np.full(n, np.inf)
    # The k nearest and the number itself are k + 1 neighbours in the order.
    for before in range(k + 1):
        at = np.arange(before, n - k + before)
        width = np.maximum(
            ordered[at] - ordered[at - before], ordered[at - before + k] - ordered[at]
        )
        distance[at] = np.minimum(distance[at], width)
    return distance


def logistic_entropy(x: Floats, labels: Ints, steps: int = 100) -> float:
    """Mean cross-entropy in nats of a logistic regression on the rows (N, D) it was fitted to.

    Without penalty, classes weighted alike, from zeros by L-BFGS, as scikit-learn's.
    """
    classes = int(labels.max()) + 1
    weight = 1 / (classes * np.bincount(labels)[labels])  # sums to 1
    wide = np.ascontiguousarray(np.column_stack([x, np.ones(len(x))]).T)
    logits = logistic(wide, labels, classes, weight=weight, steps=steps) @ wide
    logits -= logits.max(0)
    cross = np.log(np.exp(logits).sum(0)) - logits[labels, np.arange(len(x))]
    return float(cross.mean())


def _information(inputs: Inputs, rows: Ints, neighbours: int, noise: Floats) -> Floats:
    """n_jk = I(z_j; v_k) / H(v_k), (D, K); 0 of factors that are not scored."""
    # Equal numbers are parted by the same noise in every code, whatever its place.
    z = standardised(inputs.codes[rows])[0] + 1e-10 * noise[:, None]
    matrix = np.zeros((inputs.dims, len(inputs.names)))
    for k in inputs.scored:
        v = discretise(inputs.values[rows, k], _BINS) if inputs.continuous[k] else None
        labels = inputs.factors[rows, k] if v is None else v
        h = entropy(labels)
        for j in range(inputs.dims) if h > 0 else ():
            if inputs.discrete[j]:
                told = mutual_information(inputs.codes[rows, j].astype(np.int64), labels)
            else:
                told = neighbour_information(z[:, j], labels, neighbours)
            matrix[j, k] = told / h
    return matrix


def _explicitness(inputs: Inputs, rows: Ints, k: int) -> float:
    """1 - H_logistic(v_k | z) / log n_k, or the variance explained of a continuous factor."""
    z = inputs.codes[rows]
    columns = [*standardised(z[:, ~inputs.discrete])]
    for j in np.flatnonzero(inputs.discrete):
        columns.append((z[:, j, None] == np.unique(z[:, j])).astype(np.float64))
    x = np.concatenate(columns, axis=1)
    if inputs.continuous[k]:
        v = inputs.values[rows, k]
        wide = np.column_stack([x, np.ones(len(x))])
        rest = v - wide @ np.linalg.lstsq(wide, v, rcond=None)[0]
        return max(0.0, 1 - float(rest.var() / v.var()))
    labels = np.unique(inputs.factors[rows, k], return_inverse=True)[1]
    classes = int(labels.max()) + 1
    if classes < 2:
        return 0.0
    # Without codes, classes weighted alike are equally likely: the entropy is log n_k.
    return max(0.0, 1 - logistic_entropy(x, labels) / float(np.log(classes)))


def _active(inputs: Inputs, protocol: InfoMECProtocol, threshold: float | None) -> Bools:
    """The codes (D,) that are not collapsed."""
    extent = np.ptp(inputs.codes, axis=0)
    spread, share = extent, 1 / 8
    if protocol == "hsu2024":
        low, high = np.quantile(inputs.codes, (0.25, 0.75), axis=0)
        spread, share = high - low, 1 / 10
    least = (share if threshold is None else threshold) * spread[~inputs.discrete].max(initial=0.0)
    alive: Bools = np.where(inputs.discrete, extent > 0, spread > least)
    return alive
