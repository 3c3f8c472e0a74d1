"""Philox4x32-10, with the same bits as `unweave.core.noise`, and normal numbers from it."""

import torch
import triton
import triton.language as tl
from torch import Tensor


@triton.jit
def _philox(index, key, count, stream, SIZE: tl.constexpr):
    k0, k1 = (key & 0xFFFFFFFF).to(tl.uint32), ((key >> 32) & 0xFFFFFFFF).to(tl.uint32)
    zero = tl.zeros((SIZE,), tl.uint32)
    c0 = index.to(tl.uint32)
    c1 = zero + (count & 0xFFFFFFFF).to(tl.uint32)
    c2 = zero + ((count >> 32) & 0xFFFFFFFF).to(tl.uint32)
    c3 = zero + stream.to(tl.uint32)
    for _ in tl.static_range(10):
        a, b = c0, c2
        c0 = tl.umulhi(b, zero + 0xCD9E8D57) ^ c1 ^ k0
        c2 = tl.umulhi(a, zero + 0xD2511F53) ^ c3 ^ k1
        c1 = b * (zero + 0xCD9E8D57)
        c3 = a * (zero + 0xD2511F53)
        k0 = (k0 + 0x9E3779B9).to(tl.uint32)
        k1 = (k1 + 0xBB67AE85).to(tl.uint32)
    return c0, c1, c2, c3


@triton.jit(do_not_specialize=["stream"])
def _words_kernel(seed, step, words, stream, blocks, SIZE: tl.constexpr):
    row = tl.program_id(1).to(tl.int64)
    index = tl.program_id(0) * SIZE + tl.arange(0, SIZE)
    key, count = tl.load(seed + row), tl.load(step + row)
    c0, c1, c2, c3 = _philox(index, key, count, stream, SIZE)
    place = words + row * 4 * blocks + index
    valid = index < blocks
    tl.store(place, c0.to(tl.int64), mask=valid)
    tl.store(place + blocks, c1.to(tl.int64), mask=valid)
    tl.store(place + 2 * blocks, c2.to(tl.int64), mask=valid)
    tl.store(place + 3 * blocks, c3.to(tl.int64), mask=valid)


def random_words(seed: Tensor, step: Tensor, stream: int, blocks: int) -> Tensor:
    """Return words (*S, 4, blocks) for seeds and steps of a common shape S."""
    words = torch.empty((*seed.shape, 4, blocks), dtype=torch.int64, device=seed.device)
    size = 256
    grid = (triton.cdiv(blocks, size), max(1, seed.numel()))
    _words_kernel[grid](seed.contiguous(), step.contiguous(), words, stream, blocks, size)
    return words


@triton.jit
def _word(flat, blocks, key, count, stream, SIZE: tl.constexpr):
    """Compute the word at a position among the words of all blocks, stored row by row."""
    c0, c1, c2, c3 = _philox(flat % blocks, key, count, stream, SIZE)
    row = flat // blocks
    return tl.where(row == 0, c0, tl.where(row == 1, c1, tl.where(row == 2, c2, c3)))


@triton.jit(do_not_specialize=["stream"])
def _normal_kernel(seed, step, out, stream, blocks, half, size, SIZE: tl.constexpr):
    row = tl.program_id(1).to(tl.int64)
    index = tl.program_id(0) * SIZE + tl.arange(0, SIZE)
    key, count = tl.load(seed + row), tl.load(step + row)
    pair = tl.where(index < half, index, index - half)
    u = _word(pair, blocks, key, count, stream, SIZE).to(tl.float32) + 0.5
    v = _word(half + pair, blocks, key, count, stream, SIZE).to(tl.float32)
    radius = tl.sqrt(-2.0 * tl.log(u * 2.3283064365386963e-10))
    angle = v * 1.4629180792671596e-09  # 2 pi / 2^32
    value = radius * tl.where(index < half, tl.cos(angle), tl.sin(angle))
    tl.store(out + row * size + index, value, mask=index < size)


def random_normal(seed: Tensor, step: Tensor, stream: int, size: int) -> Tensor:
    """Return standard normal numbers (*S, size) in float32, for seeds and steps of shape S."""
    out = torch.empty((*seed.shape, size), device=seed.device)
    half = -(-size // 2)
    grid = (triton.cdiv(size, 256), max(1, seed.numel()))
    _normal_kernel[grid](
        seed.contiguous(), step.contiguous(), out, stream, -(-half // 2), half, size, 256
    )
    return out
