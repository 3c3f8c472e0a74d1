"""The rate taken apart: how much is information, how much dependence, how much mismatch."""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor

from unweave.aggregate.estimators import Estimator, estimate, exact
from unweave.latents import Distribution


class Decomposition(NamedTuple):
    """Three parts of log q(z|x) - log p(z) on samples z, each (B,).  [Chen2018] eq. 2.

    Their means estimate I(x; z), TC(z) and sum_v KL(q(z_v) || p(z_v)); on every sample they sum to
    log q(z|x) - log p(z), whatever the estimator of q(z).
    """

    mutual_information: Tensor
    total_correlation: Tensor
    dimension_kl: Tensor


def decompose(
    q: Distribution, p: Distribution, z: Tensor, dataset_size: int, estimator: Estimator
) -> Decomposition:
    """Decompose the rate with q(z) estimated from the batch; z_i is a sample of q's i-th row.

    z, q: batch (B, D).  q(z) and q(z_v) are estimated from log q(z_i|x_j) over the batch.
    """
    log_joint = estimate(q.log_prob(z[:, None]), dataset_size, estimator)
    log_each = estimate(q.log_marginals(z[:, None]), dataset_size, estimator).sum(-1)
    return _parts(q.log_prob(z), log_joint, log_each, p.log_prob(z))


def decompose_exactly(
    q: Distribution, p: Distribution, z: Tensor, log_own: Tensor
) -> Decomposition:
    """Decompose the rate with q holding every one of the N observations.

    z: (S, D) samples of q(z); log_own: (S,) = log q(z|x) of each at the observation it came from.
    """
    log_joint = exact(q.log_prob(z[:, None]))
    log_each = exact(q.log_marginals(z[:, None])).sum(-1)
    return _parts(log_own, log_joint, log_each, p.log_prob(z))


def _parts(log_own: Tensor, log_joint: Tensor, log_each: Tensor, log_p: Tensor) -> Decomposition:
    return Decomposition(log_own - log_joint, log_joint - log_each, log_each - log_p)
