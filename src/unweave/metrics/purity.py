"""Purity of importances: whether they are concentrated on one entry of a row."""

import numpy as np

from unweave.metrics.arrays import Floats


def purity(importances: Floats) -> float:
    """Compute sum_i w_i (1 - H(P_i)) of rows (I, J), with w_i their share of all, H in base J.

    0 if there are no importances.

    >>> purity(np.array([[3.0, 0.0], [0.5, 0.5]]))
    0.75
    """
    total = importances.sum(1)
    return float(total @ purities(importances) / total.sum()) if total.sum() > 0 else 0.0


def purities(importances: Floats) -> Floats:
    """Compute 1 - H(P_i) of each row of (I, J), with P_i its shares and H in base J.

    0 for a row without importances, and 1 for a row with a single entry.

    >>> purities(np.array([[3.0, 0.0], [0.5, 0.5], [0.0, 0.0]]))
    array([1., 0., 0.])
    """
    total = importances.sum(1)
    p = importances / np.where(total > 0, total, 1.0)[:, None]
    logarithm = np.log(p, out=np.zeros_like(p), where=p > 0)
    entropy = -(p * logarithm).sum(1) / np.log(max(2, importances.shape[1]))
    # Rounding can make equal importances slightly negative.
    pure: Floats = np.where(total > 0, np.maximum(1 - entropy, 0.0), 0.0)
    return pure
