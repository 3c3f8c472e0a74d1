"""Metrics of clusters: a discrete code against labels, and the components of a mixture prior."""

import math
from typing import Literal

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor

from unweave.latents import GaussianMixture
from unweave.latents.densities import Mixture
from unweave.metrics.arrays import Floats, Ints, as_codes
from unweave.metrics.information import entropy, mutual_information
from unweave.metrics.score import Score
from unweave.metrics.validation import check_arguments

_CHUNK = 2**20  # log-densities at once


def clustering_accuracy(clusters: ArrayLike, labels: ArrayLike) -> Score:
    """Compute the accuracy of the best one-to-one assignment of clusters to labels.

    ACC = max_m 1/N sum_n [label_n = m(cluster_n)], m one-to-one, found by the Hungarian algorithm:
    the unsupervised clustering accuracy of [Xie2016] sec. 4.2. With more clusters than labels the
    unassigned clusters count as wrong, and conversely. Assigning each cluster to its most frequent
    label instead ("purity") can only increase it, up to 1 with a cluster for each row.

    Args:
        clusters: (N,) integers, such as the most likely classes of a discrete code.
        labels: (N,) integers.

    Returns:
        In (0, 1]. Parts: the accuracy on the rows of each label that occurs. Matrix: how often each
        cluster has each label.

    >>> clustering_accuracy([2, 2, 0, 0], [1, 1, 7, 1])
    Score(clustering_accuracy/xie2016 = 0.7500; label 1 0.667, label 7 1.000)
    """
    from scipy.optimize import linear_sum_assignment

    table, names, values = _contingency(clusters, labels)
    rows, columns = linear_sum_assignment(table, maximize=True)
    right = np.zeros(len(values), dtype=np.int64)
    right[columns] = table[rows, columns]
    return Score(
        "clustering_accuracy",
        "xie2016",
        float(right.sum() / table.sum()),
        parts={
            f"label {v}": float(n / total)
            for v, n, total in zip(values, right, table.sum(0), strict=True)
        },
        matrix=table,
        details={
            "rows": int(table.sum()),
            "clusters": names.tolist(),
            "names": [
                f"{names[i]} is {values[j]}" for i, j in zip(rows.tolist(), columns, strict=True)
            ],
        },
    )


@check_arguments
def nmi(
    clusters: ArrayLike,
    labels: ArrayLike,
    *,
    protocol: Literal["arithmetic", "strehl2002"] = "arithmetic",
) -> Score:
    """Compute the normalised mutual information of clusters and labels.

    Protocols: `arithmetic` is I(c; v) / ((H(c) + H(v)) / 2), the default of scikit-learn's
    normalized_mutual_info_score since version 0.22. `strehl2002` is I(c; v) / sqrt(H(c) H(v)),
    [Strehl2002] eq. 3, which is never less. Neither is corrected for chance: many small clusters
    score high. A single cluster scores 0.

    Args:
        clusters: (N,) integers, such as the most likely classes of a discrete code.
        labels: (N,) integers that take at least two values.
        protocol: which mean of the entropies.

    Returns:
        In [0, 1]. Parts: the mutual information and both entropies, in nats. Matrix: how often
        each cluster has each label.

    >>> nmi([2, 2, 0, 0], [5, 5, 1, 1]), nmi([0, 1, 0, 1], [5, 5, 1, 1]).value
    (Score(nmi/arithmetic = 1.0000; information 0.693, clusters 0.693, labels 0.693), 0.0)
    """
    table, names, values = _contingency(clusters, labels)
    if len(values) < 2:
        raise ValueError(
            "expected labels that take at least two values, got one: there is nothing to predict"
        )
    c, v = (np.repeat(index, table.ravel()) for index in np.indices(table.shape).reshape(2, -1))
    shared, of_c, of_v = mutual_information(c, v), entropy(c), entropy(v)
    mean = math.sqrt(of_c * of_v) if protocol == "strehl2002" else (of_c + of_v) / 2
    return Score(
        "nmi",
        protocol,
        min(1.0, shared / mean) if mean > 0 else 0.0,
        parts={"information": shared, "clusters": of_c, "labels": of_v},
        matrix=table,
        details={"rows": len(c), "clusters": names.tolist()},
    )


def cluster_occupancy(
    codes: ArrayLike,
    centres: ArrayLike,
    scales: ArrayLike = 1.0,
    weights: ArrayLike | None = None,
    *,
    least: float = 0.0,
) -> Score:
    """Compute the entropy of the occupancy of the components of a mixture prior, in nats.

    A code belongs to the component argmax_c pi_c N(z; m_c, s_c^2). With n_c the share of the codes
    that belong to c, the value is H(n) = - sum_c n_c log n_c: log C if all components are used
    equally, as the clusters of [Mathieu2019] sec. 6.2 should be, and 0 if one has all codes.

    Args:
        codes: (N, D) posterior means.
        centres: (C, D).
        scales: a standard deviation, or (C,) or (C, D) of them.
        weights: (C,) weights of the prior; default: equal.
        least: share of the codes above which a component counts as used.

    Returns:
        In [0, log C]. Parts: the share of each component. Details: how many are used, the
        effective number exp(H), and the mean probability of the component a code belongs to.

    >>> cluster_occupancy([[0.1], [0.9], [-1.2], [1.1]], [[-1.0], [1.0], [9.0]], 0.5)
    Score(cluster_occupancy/mathieu2019 = 0.5623; component 0 0.250, component 1 0.750, \
component 2 0.000)
    """
    z = torch.from_numpy(as_codes(codes).astype(np.float64))
    block = GaussianMixture(
        centres=np.asarray(centres, dtype=np.float64),  # type: ignore[arg-type]  # made a tuple
        scales=np.asarray(scales, dtype=np.float64),  # type: ignore[arg-type]
        weights=None if weights is None else np.asarray(weights, dtype=np.float64),  # type: ignore[arg-type]
    )
    if block.size != z.shape[1]:
        raise ValueError(
            f"expected centres of {z.shape[1]} numbers, as the codes have, got {block.size}"
        )
    return mixture_occupancy(block.density(z.new_zeros(block.size)), z, least)


def mixture_occupancy(prior: Mixture, z: Tensor, least: float = 0.0) -> Score:
    """Compute `cluster_occupancy` of codes z (N, D) under a mixture distribution."""
    step = max(1, _CHUNK // len(prior.log_weights))
    components: list[Tensor] = []
    probabilities: list[Tensor] = []
    for chunk in z.split(step):
        # In double precision: densities of a narrow mixture differ by factors of e^1000.
        joint = (prior.log_weights + prior.components.log_prob(chunk.unsqueeze(-2))).double()
        probability, component = torch.softmax(joint, -1).max(-1)
        components.append(component)
        probabilities.append(probability)
    members = torch.cat(components).cpu().numpy()
    shares: Floats = np.bincount(members, minlength=len(prior.log_weights)) / len(members)
    value = entropy(members)
    return Score(
        "cluster_occupancy",
        "mathieu2019",
        value,
        parts={f"component {c}": float(share) for c, share in enumerate(shares)},
        details={
            "rows": len(members),
            "components": len(shares),
            "used": int((shares > least).sum()),
            "effective number": math.exp(value),
            "mean probability": float(torch.cat(probabilities).mean()),
        },
    )


def _contingency(clusters: ArrayLike, labels: ArrayLike) -> tuple[Ints, Ints, Ints]:
    """Count how often each cluster has each label; return the counts and the values of both."""
    c, v = _labels("clusters", clusters), _labels("labels", labels)
    if len(c) != len(v) or not len(c):
        raise ValueError(
            f"expected as many clusters as labels and at least one, got {len(c)} and {len(v)}: "
            "entry n of both must describe the same observation"
        )
    names, of_cluster = np.unique(c, return_inverse=True)
    values, of_label = np.unique(v, return_inverse=True)
    shape = len(names), len(values)
    flat = np.bincount(of_cluster * shape[1] + of_label, minlength=shape[0] * shape[1])
    return flat.reshape(shape), names, values


def _labels(what: str, given: ArrayLike) -> Ints:
    """Return integers (N,); whole numbers stored as floats, as in discrete codes, are accepted."""
    numbers = np.asarray(given)
    real = numbers.dtype.kind == "f" and bool(np.isfinite(numbers).all())
    whole = real and bool((numbers == np.round(numbers)).all())
    if numbers.ndim != 1 or not (whole or numbers.dtype.kind in "iub"):
        raise ValueError(
            f"expected {what} as integers of shape (N,), got {numbers.dtype} of shape "
            f"{numbers.shape}: give the index of the cluster of each row"
        )
    return numbers.astype(np.int64)
