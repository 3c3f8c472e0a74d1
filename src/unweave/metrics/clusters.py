"""Measures of clusters: of a discrete code against labels, and of the components of a prior."""

from __future__ import annotations

import math
from typing import Literal, get_args

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor

from unweave.latents import GaussianMixture
from unweave.latents.densities import Mixture
from unweave.metrics.information import entropy, mutual_information
from unweave.metrics.inputs import Floats, Ints, as_codes, check_choice
from unweave.metrics.score import Score

NMIProtocol = Literal["arithmetic", "strehl2002"]

_CHUNK = 2**20  # log-densities at once


def clustering_accuracy(clusters: ArrayLike, labels: ArrayLike) -> Score:
    """Share of the rows that the best one-to-one naming of clusters by labels gets right.

    ACC = max_m 1/N sum_n [label_n = m(cluster_n)], m one-to-one, found by the Hungarian method:
    the unsupervised clustering accuracy of [Xie2016] sec. 4.2. With more clusters than labels the
    clusters without a name are wrong, and conversely. Naming each cluster by its most frequent
    label instead ("purity") can only give more, up to 1 with a cluster for each row.

    Args:
        clusters: (N,) integers, such as the likeliest classes of a discrete code.
        labels: (N,) integers.

    Returns:
        In (0, 1]. Parts: for each label that occurs, the share of its rows that are right. Matrix:
        how often each cluster has each label.

    >>> clustering_accuracy([2, 2, 0, 0], [1, 1, 7, 1])
    Score(clustering_accuracy/xie2016 = 0.7500; label 1 0.667, label 7 1.000)
    """
    table, names, values = _contingency(clusters, labels)
    from scipy.optimize import linear_sum_assignment

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


def nmi(clusters: ArrayLike, labels: ArrayLike, *, protocol: NMIProtocol = "arithmetic") -> Score:
    """Normalised mutual information of clusters and labels.

    Protocols: `arithmetic` is I(c; v) / ((H(c) + H(v)) / 2), the default of scikit-learn's
    normalized_mutual_info_score since its version 0.22. `strehl2002` is I(c; v) / sqrt(H(c) H(v)),
    [Strehl2002] eq. 3, which is never less. Neither is corrected for chance: many small clusters
    score high.

    One cluster that holds everything shares nothing and scores 0.

    Args:
        clusters: (N,) integers, such as the likeliest classes of a discrete code.
        labels: (N,) integers that take two values at least.
        protocol: which mean of the entropies.

    Returns:
        In [0, 1]. Parts: the mutual information and both entropies, in nats. Matrix: how often
        each cluster has each label.

    >>> nmi([2, 2, 0, 0], [5, 5, 1, 1]), nmi([0, 1, 0, 1], [5, 5, 1, 1]).value
    (Score(nmi/arithmetic = 1.0000; information 0.693, clusters 0.693, labels 0.693), 0.0)
    """
    check_choice("protocol", protocol, get_args(NMIProtocol))
    table, names, values = _contingency(clusters, labels)
    if len(values) < 2:
        raise ValueError(
            "expected labels that take at least two values, got one: there is nothing to know"
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
    """How the codes spread over the components of a mixture prior: H of the occupancy, in nats.

    A code belongs to the component argmax_c pi_c N(z; m_c, s_c^2). With n_c the share of the codes
    that belong to c, the value is H(n) = - sum_c n_c log n_c: log C where all components are used
    alike, as the clusters of [Mathieu2019] sec. 6.2 are meant to be, and 0 where one has all.

    Args:
        codes: (N, D) posterior means.
        centres: (C, D).
        scales: one, (C,) or (C, D) standard deviations.
        weights: (C,) shares of the prior; equal if not given.
        least: share of the codes that a component must hold more of to count as used.

    Returns:
        In [0, log C]. Parts: the share of each component. Details: how many are used, the
        effective number exp(H), and the codes' mean probability of the component they belong to.

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
    """`cluster_occupancy` of codes z (N, D) under a prior as a distribution."""
    step = max(1, _CHUNK // len(prior.log_weights))
    chosen: list[Tensor] = []
    sure: list[Tensor] = []
    for part in z.split(step):
        # In double precision: components of a narrow mixture are e^-1000 of one another.
        joint = (prior.log_weights + prior.components.log_prob(part.unsqueeze(-2))).double()
        best, where = torch.softmax(joint, -1).max(-1)
        chosen.append(where)
        sure.append(best)
    members = torch.cat(chosen).cpu().numpy()
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
            "mean probability": float(torch.cat(sure).mean()),
        },
    )


def _contingency(clusters: ArrayLike, labels: ArrayLike) -> tuple[Ints, Ints, Ints]:
    """How often each cluster has each label, and the numbers of both that occur."""
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
    """Integers (N,); whole numbers in floats, as a table has its discrete codes, will do."""
    numbers = np.asarray(given)
    real = numbers.dtype.kind == "f" and bool(np.isfinite(numbers).all())
    whole = real and bool((numbers == np.round(numbers)).all())
    if numbers.ndim != 1 or not (whole or numbers.dtype.kind in "iub"):
        raise ValueError(
            f"expected {what} as integers of shape (N,), got {numbers.dtype} of shape "
            f"{numbers.shape}: give the number of the cluster of each row"
        )
    return numbers.astype(np.int64)
