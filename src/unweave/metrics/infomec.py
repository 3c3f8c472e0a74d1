"""InfoMEC: modularity, explicitness and compactness by information."""

from functools import partial
from typing import Literal, NamedTuple

import numpy as np
from scipy.special import digamma

from unweave.metrics.arrays import Bools, Floats, Ints, subset
from unweave.metrics.information import discretise, entropy, mutual_information
from unweave.metrics.inputs import Inputs
from unweave.metrics.options import metric
from unweave.metrics.predictors import logistic, map_with_one_blas_thread, standardise, with_ones
from unweave.metrics.score import Score

_BINS = 20  # per continuous factor
_SAMPLES, _NEIGHBOURS = 10_000, 10


class InformationEstimates(NamedTuple):
    """Estimates that do not depend on which codes are pruned, shared by both protocols."""

    information: Floats  # (D, K) n_jk
    explicitness: float  # InfoE
    samples: int  # rows that both are estimated from


@metric
def info_mec(
    inputs: Inputs,
    *,
    protocol: Literal["hsu2023", "hsu2024"] = "hsu2023",
    samples: int = _SAMPLES,
    neighbours: int = _NEIGHBOURS,
    threshold: float | None = None,
    estimates: InformationEstimates | None = None,
) -> Score:
    """Compute InfoM, InfoE and InfoC: modularity, explicitness and compactness.

    With n_jk = I(z_j; v_k) / H(v_k) and the J active codes,
    InfoM = (1/J sum_j max_k n_jk / sum_k n_jk - 1/K) / (1 - 1/K),
    InfoC = (1/K sum_k max_j n_jk / sum_j n_jk - 1/J) / (1 - 1/J),
    InfoE = 1/K sum_k (1 - H_logistic(v_k | z) / log n_k), with the cross-entropy of a logistic
    regression of v_k on all codes, on the rows it was fitted to. The value is InfoM.  [Hsu2023]

    Protocols: in `hsu2023` codes are active if their range exceeds an eighth of the largest range;
    a released version has a twentieth, which is `threshold=1/20`. In `hsu2024`, the authors' later
    code, they are active if their interquartile range exceeds a tenth of the largest.  [Hsu2024]
    Both estimate I by the 10 nearest neighbours among the rows of a class ([Ross2014], as in
    scikit-learn's `mutual_info_classif`), and fit the regression without penalty, with balanced
    classes, on standardised codes, by 100 steps of L-BFGS. A discrete code is active unless it is
    constant; its I is computed from counts, and it is read one-hot. Ties between equal codes are
    broken at random, which adds a little spurious mutual information.

    The papers leave some cases undefined. We count a code without information about any factor, and
    a factor that no code has information about, as 0. With a single active code, InfoC is 1; with
    none, all three are 0. A continuous factor is cut into 20 bins of equal width for I and H, and
    its InfoE is the share of its variance that a linear regression explains.

    Args:
        inputs: posterior means (N, D), and factors (N, K) that are integers or real numbers, at
            least two that vary.
        protocol: which codes are active.
        samples: rows to estimate from.
        neighbours: number of nearest neighbours.
        threshold: share of the largest range that an active code exceeds; default: that of the
            protocol.
        estimates: result of `info_mec_estimates` for the same arguments, to save computing it.

    Returns:
        Parts: modularity (InfoM), explicitness (InfoE), compactness (InfoC). Matrix: n_jk, (D, K).

    >>> factors = np.argwhere(np.ones((4, 5, 10)))[:, :2]
    >>> info_mec(factors @ [[1, 0], [0, 2]], factors).parts["compactness"] > 0.9
    True
    """
    if neighbours < 1:
        raise ValueError(f"expected at least 1 neighbour, got {neighbours}")
    if threshold is not None and not 0 <= threshold < 1:
        raise ValueError(f"expected threshold as a share from 0 to below 1, got {threshold}")
    inputs.require_two_factors()
    inputs.require_learnable_classes()
    if estimates is None:
        estimates = info_mec_estimates(inputs, samples, neighbours)
    active = _active(inputs, protocol, threshold)
    information = estimates.information[np.ix_(active, inputs.scored)]
    value = concentration(information)
    components = {
        "explicitness": estimates.explicitness if active.any() else 0.0,
        "compactness": concentration(information.T),
    }
    return inputs.score(
        value,
        parts={"modularity": value},
        components=components,
        matrix=estimates.information,
        rows_read=estimates.samples,
        details={
            "samples": estimates.samples,
            "active": int(active.sum()),
            "pruned": np.flatnonzero(~active).tolist(),
            "factors cut into bins": inputs.continuous_names,
        },
    )


def info_mec_estimates(
    inputs: Inputs, samples: int = _SAMPLES, neighbours: int = _NEIGHBOURS
) -> InformationEstimates:
    """Estimate what both protocols of `info_mec` have in common."""
    rows = subset(inputs.rows, samples, inputs.rng)
    noise = inputs.rng.standard_normal(len(rows))
    explicitness = partial(_explicitness, inputs, rows)
    values = list(map_with_one_blas_thread(explicitness, inputs.scored.tolist()))
    information = _information(inputs, rows, neighbours, noise)
    return InformationEstimates(information, float(np.mean(values)), len(rows))


def concentration(shares: Floats) -> float:
    """Compute (mean_i max_j s_ij / sum_j s_ij - 1/n) / (1 - 1/n) of (m, n).

    A row of zeros counts as 0.

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
    """Estimate I(x; c) in nats of numbers (N,) without ties and labels (N,) by nearest neighbours.

    psi(N) + <psi(k)> - <psi(N_c)> - <psi(m)>, with r the distance from a number to the k-th nearest
    of its class and m the count of numbers nearer than r, including itself; at least 0. Numbers
    that are alone in their class are left out.  [Ross2014] eq. 4
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
        members = np.flatnonzero(labels == label)
        within = min(neighbours, len(members) - 1)
        radius[members], k[members] = _kth_distances(ordered[members], within), within
    # The k-th itself is not nearer than r: reduce r by the rounding error of such numbers.
    radius = np.maximum(radius - 4 * np.finfo(float).eps * np.abs(ordered).max(), 0.0)
    nearer = np.searchsorted(ordered, ordered + radius, "right")
    nearer = nearer - np.searchsorted(ordered, ordered - radius, "left")
    psi = digamma(len(x)) + digamma(k).mean()
    return max(0.0, float(psi - digamma(counts[labels]).mean() - digamma(nearer).mean()))


def _kth_distances(ordered: Floats, k: int) -> Floats:
    """Compute the distance from each of sorted numbers (n,) to its k-th nearest other, k < n."""
    n = len(ordered)
    distance = np.full(n, np.inf)
    # The k nearest and the number itself are k + 1 consecutive numbers.
    for before in range(k + 1):
        at = np.arange(before, n - k + before)
        width = np.maximum(
            ordered[at] - ordered[at - before], ordered[at - before + k] - ordered[at]
        )
        distance[at] = np.minimum(distance[at], width)
    return distance


def logistic_entropy(x: Floats, labels: Ints, steps: int = 100) -> float:
    """Compute the mean cross-entropy of a logistic regression on its training rows (N, D), in nats.

    Without penalty, with balanced classes, from zeros by L-BFGS, as in scikit-learn.
    """
    classes = int(labels.max()) + 1
    weight = 1 / (classes * np.bincount(labels)[labels])  # sums to 1
    wide = np.ascontiguousarray(with_ones(x).T)
    logits = logistic(wide, labels, classes, weight=weight, steps=steps) @ wide
    logits -= logits.max(0)
    cross = np.log(np.exp(logits).sum(0)) - logits[labels, np.arange(len(x))]
    return float(cross.mean())


def _information(inputs: Inputs, rows: Ints, neighbours: int, noise: Floats) -> Floats:
    """Estimate n_jk = I(z_j; v_k) / H(v_k), (D, K); 0 for factors that are not scored."""
    # The same noise breaks ties in every code, so that the order of codes does not matter.
    z = standardise(inputs.codes[rows])[0] + 1e-10 * noise[:, None]
    matrix = np.zeros((inputs.dims, len(inputs.names)))
    for k in inputs.scored:
        v = discretise(inputs.values[rows, k], _BINS) if inputs.continuous[k] else None
        labels = inputs.factors[rows, k] if v is None else v
        h = entropy(labels)
        for j in range(inputs.dims) if h > 0 else ():
            if inputs.discrete[j]:
                shared = mutual_information(inputs.codes[rows, j].astype(np.int64), labels)
            else:
                shared = neighbour_information(z[:, j], labels, neighbours)
            matrix[j, k] = shared / h
    return matrix


def _explicitness(inputs: Inputs, rows: Ints, k: int) -> float:
    """Compute 1 - H_logistic(v_k | z) / log n_k, or the explained variance if continuous."""
    z = inputs.codes[rows]
    columns = [*standardise(z[:, ~inputs.discrete])]
    for j in np.flatnonzero(inputs.discrete):
        columns.append((z[:, j, None] == np.unique(z[:, j])).astype(np.float64))
    x = np.concatenate(columns, axis=1)
    if inputs.continuous[k]:
        v = inputs.values[rows, k]
        wide = with_ones(x)
        rest = v - wide @ np.linalg.lstsq(wide, v, rcond=None)[0]
        return max(0.0, 1 - float(rest.var() / v.var()))
    labels = np.unique(inputs.factors[rows, k], return_inverse=True)[1]
    classes = int(labels.max()) + 1
    if classes < 2:
        return 0.0
    # Without codes, balanced classes are equally likely: the entropy is log n_k.
    return max(0.0, 1 - logistic_entropy(x, labels) / float(np.log(classes)))


def _active(inputs: Inputs, protocol: str, threshold: float | None) -> Bools:
    extent = np.ptp(inputs.codes, axis=0)
    width, share = extent, 1 / 8
    if protocol == "hsu2024":
        low, high = np.quantile(inputs.codes, (0.25, 0.75), axis=0)
        width, share = high - low, 1 / 10
    least = (share if threshold is None else threshold) * width[~inputs.discrete].max(initial=0.0)
    active: Bools = np.where(inputs.discrete, extent > 0, width > least)
    return active
