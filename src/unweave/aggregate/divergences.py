"""Divergences and dependence of q(z), from log-densities or from samples."""

from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import normalize

from unweave.aggregate.estimators import exact
from unweave.core.noise import Noise
from unweave.core.tensors import Numbers, floating


def checked_points(x: Numbers, y: Numbers) -> tuple[Tensor, Tensor]:
    """Return two sets of points (B, D) and (M, D) in one dtype, or raise a ValueError."""
    x, y = floating(x), floating(y)
    matrices = x.dim() == y.dim() == 2
    if not matrices or x.shape[1] != y.shape[1] or not (x.numel() and y.numel()):
        raise ValueError(
            f"expected points (B, D) and (M, D) with a common D and at least one of each, got "
            f"{tuple(x.shape)} and {tuple(y.shape)}; flatten samples to one row per point"
        )
    common = torch.promote_types(x.dtype, y.dtype)
    return x.to(common), y.to(common)


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

    No objective uses this estimate, for a reason that it shows: a sample from elsewhere in the
    dataset lies in the tails of every q(z|x_i) of the batch, while each of its marginals is still
    covered, more so for narrow posteriors and many variables. The estimate is then far below zero,
    which a total correlation cannot be. On samples of the batch's own mixture its mean is not
    negative.
    """
    log_q = floating(log_q)
    if log_q.dim() != 3 or not log_q.numel():
        raise ValueError(
            f"expected log_q[h, i, v] = log q(z_hv|x_i) of shape (H, B, V), got "
            f"{tuple(log_q.shape)}"
        )
    return total_correlation(exact(log_q.sum(-1)), exact(log_q)).mean()


def inclusive_kl(log_p: Numbers, log_q: Numbers) -> Tensor:
    """KL(p || q) ~ 1/S sum_s [log p(z_s) - log 1/N sum_n q(z_s|x_n)].  [Mathieu2019] app. B.

    log_p: (S,) = log p(z_s) with z_s ~ p; log_q: (S, N) = log q(z_s|x_n). The paper prints sums
    instead of both means: its value is S (KL - log N), with S times the gradient.
    """
    log_p, log_q = floating(log_p), floating(log_q)
    if log_p.dim() != 1 or log_q.dim() != 2 or len(log_p) != len(log_q) or not log_q.numel():
        raise ValueError(
            f"expected log_p (S,) and log_q[s, n] = log q(z_s|x_n) of shape (S, N), got "
            f"{tuple(log_p.shape)} and {tuple(log_q.shape)}; both belong to the same samples of p"
        )
    return (log_p - exact(log_q)).mean()


class CovariancePenalty(NamedTuple):
    """Squared distances of a covariance from the identity, unweighted, () each."""

    off_diagonal: Tensor  # sum_{i != j} Cov_ij^2
    diagonal: Tensor  # sum_i (Cov_ii - 1)^2


def covariance(z: Numbers) -> Tensor:
    """Compute 1/B sum_b (z_b - mean) (z_b - mean)^T over the batch: (B, D) to (D, D)."""
    z, _ = checked_points(z, z)
    centred = z - z.mean(0)
    return centred.mT @ centred / len(z)


def covariance_penalty(mean: Tensor, variance: Tensor | None = None) -> CovariancePenalty:
    """Compute the penalties of DIP-VAE from the means and variances (B, D) of q(z|x).

    From the means alone, Cov = Cov[mean]: DIP-VAE-I, [Kim2018] eq. 10, [Kumar2018] eq. 6. With
    variances, Cov = Cov[mean] + diag(E[variance]), the covariance of q(z): DIP-VAE-II, eqs. 11, 7.
    """
    cov = covariance(mean)
    if variance is not None:
        if variance.shape != mean.shape:
            raise ValueError(
                f"expected a variance for every mean, {tuple(mean.shape)}, got "
                f"{tuple(variance.shape)}; expand it"
            )
        cov = cov + torch.diag(variance.mean(0))
    diagonal = cov.diagonal()
    off_diagonal = cov - torch.diag(diagonal)
    return CovariancePenalty(off_diagonal.square().sum(), (diagonal - 1).square().sum())


def moment_matching(x: Numbers, y: Numbers) -> Tensor:
    """Compute |E x - E y|^2 + |Cov x - Cov y|_F^2 of samples x (B, D) and y (M, D)."""
    x, y = checked_points(x, y)
    means = (x.mean(0) - y.mean(0)).square().sum()
    return means + (covariance(x) - covariance(y)).square().sum()


def directions(noise: Noise, count: int, size: int, dtype: torch.dtype = torch.float32) -> Tensor:
    """Draw uniformly distributed unit vectors (count, size)."""
    return normalize(noise.normal((count, size), "directions", dtype), dim=-1)


def sliced_wasserstein(x: Numbers, y: Numbers, directions: Numbers) -> Tensor:
    """Compute 1/K sum_k W_2^2(x . u_k, y . u_k) over unit vectors u (K, D).  [Kolouri2018] alg. 1.

    x, y: (B, D), equally many points. On a line the optimal transport matches sorted values, so
    W_2^2 = 1/B sum_b (sort(x . u)_b - sort(y . u)_b)^2.
    """
    x, y = checked_points(x, y)
    directions = floating(directions).to(x)
    if x.shape != y.shape:
        raise ValueError(f"expected equally many points of both, got {len(x)} and {len(y)}")
    if directions.dim() != 2 or directions.shape[1] != x.shape[1] or not len(directions):
        raise ValueError(
            f"expected directions (K, {x.shape[1]}) for points {tuple(x.shape)}, got "
            f"{tuple(directions.shape)}; see unweave.aggregate.directions"
        )
    along_x, along_y = (torch.sort(points @ directions.mT, 0).values for points in (x, y))
    return (along_x - along_y).square().mean()
