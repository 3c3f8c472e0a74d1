"""Sums over pixels, computed in parts that are always added in the same order."""

import torch
import triton
import triton.language as tl
from torch import Tensor

ENOUGH = 256  # programs that keep a GPU busy; work that makes fewer is cut into smaller parts


@triton.jit
def _relu_backward_kernel(
    g, out, before, sums, rows, share, C: tl.constexpr, M: tl.constexpr,
    N: tl.constexpr,
):  # fmt: skip
    part, lane = tl.program_id(0), tl.program_id(1).to(tl.int64)
    c = tl.arange(0, N)
    g += lane * rows * C
    out += lane * rows * C
    before += lane * rows * C
    total = tl.zeros((M, N), tl.float32)
    for start in range(part * share, (part + 1) * share, M):
        m = start + tl.arange(0, M)
        at = m[:, None] * C + c[None, :]
        within = (m < rows)[:, None] & (c < C)[None, :]
        value = tl.load(g + at, mask=within, other=0.0)
        value = tl.where(tl.load(out + at, mask=within, other=0.0) <= 0, 0.0, value)
        tl.store(before + at, value, mask=within)
        total += value.to(tl.float32)
    lanes = tl.num_programs(1)
    tl.store(sums + (part * lanes + lane) * C + c, tl.sum(total, 0), mask=c < C)


@triton.jit
def _add_kernel(parts, total, size, count, M: tl.constexpr, N: tl.constexpr):
    at = (tl.program_id(0) * N + tl.arange(0, N)).to(tl.int64)
    result = tl.zeros((N,), tl.float32)
    for start in range(0, count, M):
        part = start + tl.arange(0, M)
        within = (part < count)[:, None] & (at < size)[None, :]
        values = tl.load(parts + part[:, None] * size + at[None, :], mask=within, other=0.0)
        result += tl.sum(values, 0)
    tl.store(total + at, result, mask=at < size)


def sum_parts(parts: Tensor) -> Tensor:
    """Sum over the first axis, always in the same order."""
    count, size = len(parts), parts[0].numel()
    if count == 1:
        return parts[0]
    total = parts.new_empty(parts.shape[1:])
    m = min(256, triton.next_power_of_2(count))
    n = max(16, 1024 // m)
    _add_kernel[(triton.cdiv(size, n),)](parts, total, size, count, m, n)
    return total


def relu_backward(g: Tensor, out: Tensor) -> tuple[Tensor, Tensor]:
    """Return the gradient before a ReLU with result `out`, and its sums per channel.

    Both arguments are (L, ..., C); the sums are (L, C), in float32.
    """
    g, out = g.contiguous(), out.contiguous()
    lanes, channels = g.shape[0], g.shape[-1]
    rows = g[0].numel() // channels
    before = torch.empty_like(g)
    n = triton.next_power_of_2(channels)
    m = max(16, 2048 // n)
    parts = max(1, min(64, 4 * ENOUGH // lanes, rows // m))
    share = triton.cdiv(triton.cdiv(rows, parts), m) * m
    sums = g.new_empty((parts, lanes, channels), dtype=torch.float32)
    _relu_backward_kernel[parts, lanes](g, out, before, sums, rows, share, channels, m, n)
    return before, sum_parts(sums)
