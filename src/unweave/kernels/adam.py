"""Adam for all parameters of a player in all lanes, in a few launches.  [Kingma2015] alg. 1."""

import math

import triton
import triton.language as tl
from torch import Tensor

from unweave.kernels import BLOCK

_WIDTH = 8  # gradient tensors per launch


@triton.jit
def _read(g, first, last, block, at, so_far):
    # Load the gradient for positions of the flat buffer, if they belong to this tensor.
    if (block >= first) & (block < last):
        return tl.load(g + at - first, mask=at < last, other=0.0).to(tl.float32)
    return so_far


@triton.jit
def _adam_kernel(
    p, half, m, v, largest, clock, g0, g1, g2, g3, g4, g5, g6, g7, a0, a1, a2, a3, a4, a5, a6, a7,
    z0, z1, z2, z3, z4, z5, z6, z7, updates, before, lr, eps, LOG1: tl.constexpr,
    LOG2: tl.constexpr, HALF: tl.constexpr, LARGEST: tl.constexpr, SIZE: tl.constexpr,
):  # fmt: skip
    block = a0 + tl.program_id(0).to(tl.int64) * SIZE
    at = block + tl.arange(0, SIZE)
    g = tl.zeros((SIZE,), tl.float32)
    g = _read(g0, a0, z0, block, at, g)
    g = _read(g1, a1, z1, block, at, g)
    g = _read(g2, a2, z2, block, at, g)
    g = _read(g3, a3, z3, block, at, g)
    g = _read(g4, a4, z4, block, at, g)
    g = _read(g5, a5, z5, block, at, g)
    g = _read(g6, a6, z6, block, at, g)
    g = _read(g7, a7, z7, block, at, g)
    # Powers in float64, because 1 - beta^n loses digits for small n.
    count = (tl.load(clock) * updates + before + 1).to(tl.float64)
    beta1, beta2 = tl.exp(LOG1 + 0.0 * count), tl.exp(LOG2 + 0.0 * count)
    left1, left2 = 1.0 - tl.exp(count * LOG1), 1.0 - tl.exp(count * LOG2)
    first, second = tl.load(m + at), tl.load(v + at)
    first = beta1.to(tl.float32) * first + (1.0 - beta1).to(tl.float32) * g
    second = beta2.to(tl.float32) * second + (1.0 - beta2).to(tl.float32) * g * g
    tl.store(m + at, first)
    tl.store(v + at, second)
    if LARGEST:
        second = tl.maximum(tl.load(largest + at), second, propagate_nan=tl.PropagateNan.ALL)
        tl.store(largest + at, second)
    scale = tl.sqrt(second) / tl.sqrt(left2).to(tl.float32) + eps
    moved = tl.load(p + at) - (lr / left1).to(tl.float32) * first / scale
    tl.store(p + at, moved)
    if HALF:
        tl.store(half + at, moved.to(half.dtype.element_ty))


def adam(
    parameters: Tensor,
    half: Tensor | None,
    moments: dict[str, Tensor],
    gradients: list[Tensor],
    starts: list[int],
    clock: Tensor,
    updates: int,
    before: int,
    lr: float,
    betas: tuple[float, float],
    eps: float,
) -> None:
    """Take one step in place, with parameters and moments in flat buffers.

    The tensors start at `starts`, multiples of 1024, and are padded to the next multiple. Gradients
    are laid out like their parameters. This is step clock * updates + before + 1 of the optimiser.
    `half` receives the new parameters in its own type.
    """
    ends = [start + g.numel() for start, g in zip(starts, gradients, strict=True)]
    largest = moments.get("largest")
    for at in range(0, len(gradients), _WIDTH):
        part = slice(at, at + _WIDTH)
        fill = _WIDTH - len(gradients[part])
        blocks = triton.cdiv(ends[part][-1] - starts[at], BLOCK)
        _adam_kernel[(blocks,)](
            parameters, half, moments["first"], moments["second"], largest, clock,
            *gradients[part], *[gradients[at]] * fill, *starts[part], *[0] * fill, *ends[part],
            *[0] * fill, updates, before, lr, eps, _log(betas[0]), _log(betas[1]), half is not None,
            largest is not None, BLOCK,
        )  # fmt: skip


def _log(beta: float) -> float:
    """Return log beta; for 0, a number whose powers in float64 are also 0."""
    return math.log(beta) if beta else -1e4
