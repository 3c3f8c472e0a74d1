"""Weighted sums of C / (C + (z_i - z_j)^2) over all pairs of points, and their gradient.

A program takes a block of points i of one row and goes through all points j, block by block. So no
table of pairs is stored, and sums always have the same order.
"""

from collections.abc import Sequence

import torch
import triton
import triton.language as tl
from torch import Tensor


@triton.jit
def _pairs_kernel(
    points, values, slopes, constants, size, first, xx, yy, xy, ROWS: tl.constexpr,
    OTHERS: tl.constexpr,
):  # fmt: skip
    column = tl.program_id(0).to(tl.int64)
    points += column * size
    i = tl.program_id(1) * ROWS + tl.arange(0, ROWS)
    z = tl.load(points + i, mask=i < size, other=0.0)
    own = tl.where(i < first, xx, yy)[:, None]  # the weight of pairs in the same sample
    value = tl.zeros((ROWS, OTHERS), tl.float32)
    slope = tl.zeros((ROWS, OTHERS), tl.float32)
    for start in range(0, size, OTHERS):
        j = start + tl.arange(0, OTHERS)
        gap = z[:, None] - tl.load(points + j, mask=j < size, other=0.0)[None, :]
        square = gap * gap
        kernel = tl.zeros((ROWS, OTHERS), tl.float32)
        falling = tl.zeros((ROWS, OTHERS), tl.float32)
        for n in tl.static_range(len(constants)):
            inverse = 1.0 / (constants[n] + square)
            share = constants[n] * inverse
            kernel += share
            falling += share * inverse
        weight = tl.where((i < first)[:, None] == (j < first)[None, :], own, xy)
        weight = tl.where((j < size)[None, :], weight, 0.0)
        value += weight * kernel
        slope += weight * (falling * gap)
    at = column * size + i
    tl.store(values + at, tl.sum(value, 1), mask=i < size)
    tl.store(slopes + at, -4.0 * tl.sum(slope, 1), mask=i < size)


def pair_sums(
    points: Tensor, first: int, weights: Sequence[float], constants: Sequence[float]
) -> tuple[Tensor, Tensor]:
    """Compute what `unweave.aggregate.pairs.pair_sums` does, for points (C, N) in float32."""
    points, (count, size) = points.contiguous(), points.shape
    values, slopes = torch.empty_like(points), torch.empty_like(points)
    rows = min(32, triton.next_power_of_2(size))
    others = min(64, triton.next_power_of_2(size))
    grid = (count, triton.cdiv(size, rows))  # only the first may exceed 65,535
    _pairs_kernel[grid](
        points, values, slopes, tuple(constants), size, first, *weights, rows, others
    )
    return values.sum(-1), slopes
