"""Sliced Wasserstein distance: optimal transport along lines, by sorting."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import normalize

from unweave.aggregate.checks import checked_points
from unweave.core.noise import Noise
from unweave.core.tensors import Numbers, floating


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
