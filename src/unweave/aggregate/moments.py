"""First and second moments of q(z): covariance penalties and moment matching."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from unweave.aggregate.checks import checked_points
from unweave.core.tensors import Numbers


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
