"""Total correlation from log-densities."""

from __future__ import annotations

from torch import Tensor

from unweave.aggregate.estimators import exact
from unweave.core.tensors import Numbers, floating


def total_correlation(log_joint: Numbers, log_marginals: Numbers) -> Tensor:
    """Compute log q(z_s) - sum_v log q(z_sv), whose mean over z_s ~ q is TC(z).  [Kim2018] sec. 3.

    log_joint: (S,) = log q(z_s); log_marginals: (S, V) = log q(z_sv). Returns (S,).
    """
    log_joint, log_marginals = floating(log_joint), floating(log_marginals)
    if log_joint.dim() != 1 or log_marginals.dim() != 2 or len(log_joint) != len(log_marginals):
        raise ValueError(
            f"expected log_joint (S,) and log_marginals (S, V) of the same samples, got "
            f"{tuple(log_joint.shape)} and {tuple(log_marginals.shape)}"
        )
    return log_joint - log_marginals.sum(-1)


def batch_total_correlation(log_q: Numbers) -> Tensor:
    """Estimate TC with q(z) replaced by the mixture of a batch, at samples of the full q(z).

    1/H sum_h [log 1/B sum_i prod_v q(z_hv|x_i) - sum_v log 1/B sum_i q(z_hv|x_i)], [Kim2018]
    app. D, eq. 6; log_q: (H, B, V) = log q(z_hv|x_i) of posteriors with independent variables.

    No objective uses this estimate; it shows why. A sample from elsewhere in the dataset lies in
    the tails of every q(z|x_i) of the batch, while each of its marginals is still covered, more so
    for narrow posteriors and many variables. The estimate is then far below zero, which no total
    correlation is. On samples of the batch's own mixture its mean is not negative.
    """
    log_q = floating(log_q)
    if log_q.dim() != 3 or not log_q.numel():
        raise ValueError(
            f"expected log_q[h, i, v] = log q(z_hv|x_i) of shape (H, B, V), got "
            f"{tuple(log_q.shape)}"
        )
    return total_correlation(exact(log_q.sum(-1)), exact(log_q)).mean()
