"""Deterministic, differentiable integrals by Gauss-Legendre quadrature on panels."""

import functools
import itertools
import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

REACH = 8.0  # standard deviations on either side of the mean; 1e-15 of the mass lies beyond
NODES = 32  # per panel; over the whole range their spacing is half a standard deviation
_NEGLIGIBLE = 60.0  # nats below the largest value at which exp(f) can be ignored


@functools.cache
def legendre(
    nodes: int, dtype: torch.dtype = torch.float64, device: torch.device | None = None
) -> tuple[Tensor, Tensor]:
    """Return nodes and weights of the Gauss-Legendre rule on (-1, 1), (nodes,) each."""
    x, w = np.polynomial.legendre.leggauss(nodes)
    return tuple(torch.from_numpy(t).to(device, dtype) for t in (x, w))  # type: ignore[return-value]


def expectation(
    f: Callable[[Tensor], Tensor], mean: Tensor, scale: Tensor, edges: Sequence[float]
) -> Tensor:
    """Compute E[f(z)] for z ~ N(mean, scale^2), in the shape of mean and scale.

    The integral of N(z; mean, scale^2) f(z) from the first to the last of `edges` (infinity is
    allowed) is split into panels at the edges. f must be smooth inside each panel.
    """
    mean, scale = torch.broadcast_tensors(mean, scale)
    # Integrate over u = (z - mean) / scale, which loses no digits for narrow distributions.
    width = scale.clamp(min=torch.finfo(scale.dtype).tiny)  # scale 0 is allowed
    cuts = [
        ((e - mean) / width).clamp(-REACH, REACH)
        if math.isfinite(e)
        else torch.full_like(mean, math.copysign(REACH, e))
        for e in edges
    ]
    x, w = legendre(NODES, mean.dtype, mean.device)
    total = torch.zeros_like(mean)
    for left, right in itertools.pairwise(cuts):
        half = (0.5 * (right - left)).unsqueeze(-1)
        u = 0.5 * (right + left).unsqueeze(-1) + half * x
        density = torch.exp(-0.5 * u.square()) / math.sqrt(2 * math.pi)
        z = mean.unsqueeze(-1) + scale.unsqueeze(-1) * u
        total = total + (half * w * density * f(z)).sum(-1)
    return total


class Cells(NamedTuple):
    """A quadrature rule adapted to exp(f): points (M, D), log-weights (M,), values of f (M,)."""

    points: Tensor
    log_weights: Tensor
    values: Tensor

    @property
    def log_integral(self) -> float:
        """Log of the integral of exp(f)."""
        return float(torch.logsumexp(self.log_weights + self.values, 0))


class Peaks(NamedTuple):
    """Where a function exp(f) has its peaks, (M, D) each.

    exp(f) is negligible farther than 12 `reaches` from every centre. Closer to a centre it has no
    feature narrower than a normal distribution of scale `narrow`.
    """

    centres: Tensor
    reaches: Tensor
    narrow: Tensor

    def width(self, low: Tensor, high: Tensor) -> Tensor:
        """Return how wide cells (N, D) may be: 3 times the narrowest feature near each, (N,)."""
        gap = torch.maximum(low[:, None] - self.centres, self.centres - high[:, None])
        near = (gap < 12 * self.reaches).all(-1)  # (N, M)
        finest = self.narrow.amin(-1).expand(near.shape)
        return 3 * torch.where(near, finest, math.inf).amin(-1)


def cells(f: Callable[[Tensor], Tensor], peaks: Peaks) -> Cells:
    """Build a quadrature rule for integrals with the factor exp(f), however sharp it is.

    f maps points (M, D) in float64 to (M,). Cells are halved until they are as narrow as the peaks
    require, except where exp(f) is negligible.
    """
    size = peaks.centres.shape[1]
    x, w = legendre(NODES // 2)
    rule = torch.cartesian_prod(*[x] * size).reshape(-1, size)  # in (-1, 1)^D
    log_rule = torch.cartesian_prod(*[w.log()] * size).reshape(-1, size).sum(-1)
    low = (peaks.centres - 12 * peaks.reaches).amin(0, keepdim=True)
    high = (peaks.centres + 12 * peaks.reaches).amax(0, keepdim=True)
    done: list[Cells] = []
    top = -math.inf
    while len(low):
        half, middle = 0.5 * (high - low), 0.5 * (high + low)
        points = middle[:, None] + half[:, None] * rule
        values = f(points.flatten(0, 1)).unflatten(0, points.shape[:2])
        top = max(top, values.max().item())
        allowed = peaks.width(low, high)
        fine = 2 * half.amax(-1) <= allowed
        log_weights = log_rule + half.log().sum(-1, keepdim=True)
        done.append(Cells(*(t[fine].flatten(0, 1) for t in (points, log_weights, values))))
        # A peak may lie between nodes: f is at most this much higher there than at the nodes.
        missed = 0.5 * (half * x.diff().max() / 2 * (3 / allowed[:, None])).square().sum(-1)
        split = (values.amax(-1) + missed > top - _NEGLIGIBLE) & ~fine
        low, high = _halve(low[split], high[split])
    return Cells(*(torch.cat(parts) for parts in zip(*done, strict=True)))


def _halve(low: Tensor, high: Tensor) -> tuple[Tensor, Tensor]:
    """Halve every cell (M, D) across its longest side."""
    longest = F.one_hot((high - low).argmax(-1), low.shape[-1]).bool()
    middle = 0.5 * (low + high)
    upper, lower = torch.where(longest, middle, low), torch.where(longest, middle, high)
    return torch.cat([low, upper]), torch.cat([lower, high])
