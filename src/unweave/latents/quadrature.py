"""Deterministic, differentiable integrals over the line, by Gauss and Legendre on panels."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch import Tensor

REACH = 8.0  # standard deviations on either side of the mean; 1e-15 of the mass lies beyond
NODES = 48  # a panel; over the whole reach their spacing is half a standard deviation


@functools.cache
def legendre(nodes: int) -> tuple[Tensor, Tensor]:
    """Nodes and weights of the Gauss-Legendre rule on (-1, 1), (nodes,) each, in float64."""
    x, w = np.polynomial.legendre.leggauss(nodes)
    return torch.from_numpy(x), torch.from_numpy(w)


def expectation(
    f: Callable[[Tensor], Tensor], mean: Tensor, scale: Tensor, edges: Sequence[float]
) -> Tensor:
    """E[f(z)] for z ~ N(mean, scale^2), of the shape of mean and scale.

    int_a^b N(z; mean, scale^2) f(z) dz in panels cut at `edges`, which start with a and end with b
    (infinity is allowed): put them where f bends sharply, as f must be smooth inside a panel.
    """
    mean, scale = torch.broadcast_tensors(mean, scale)
    # In u = (z - mean) / scale, where no digit is lost however narrow the distribution is.
    cuts = [
        ((e - mean) / scale).clamp(-REACH, REACH)
        if math.isfinite(e)
        else torch.full_like(mean, math.copysign(REACH, e))
        for e in edges
    ]
    x, w = (t.to(mean) for t in legendre(NODES))
    total = torch.zeros_like(mean)
    for left, right in itertools.pairwise(cuts):
        half = (0.5 * (right - left)).unsqueeze(-1)
        u = 0.5 * (right + left).unsqueeze(-1) + half * x
        density = torch.exp(-0.5 * u.square()) / math.sqrt(2 * math.pi)
        z = mean.unsqueeze(-1) + scale.unsqueeze(-1) * u
        total = total + (half * w * density * f(z)).sum(-1)
    return total


def integral(f: Callable[[Tensor], Tensor], edges: Sequence[Sequence[float]]) -> Tensor:
    """The integral of f over a box, in panels cut at the edges of each of its dimensions.

    f takes points (M, D) in float64 and gives (M,).
    """
    rules = [_composite(axis) for axis in edges]
    points = torch.cartesian_prod(*[z for z, _ in rules]).reshape(-1, len(rules))
    weights = torch.cartesian_prod(*[w for _, w in rules]).reshape(-1, len(rules)).prod(-1)
    return (weights * f(points)).sum()


def _composite(edges: Sequence[float]) -> tuple[Tensor, Tensor]:
    """Nodes and weights on all panels between sorted, finite edges."""
    x, w = legendre(NODES // 2)
    cuts = torch.tensor(sorted(set(edges)), dtype=torch.float64)
    half, middle = 0.5 * cuts.diff(), 0.5 * (cuts[1:] + cuts[:-1])
    return (middle[:, None] + half[:, None] * x).flatten(), (half[:, None] * w).flatten()
