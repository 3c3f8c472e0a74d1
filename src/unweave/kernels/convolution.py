"""Convolutions by factors of two over stacked weights, as implicit matrix products.

All have kernel 4, stride 2 and padding 1, and relate a small image S (L, B, h, w, A) to a big one
T (L, B, 2h, 2w, C) by weights W (L, A, 4, 4, C), channels innermost, L lanes with weights of their
own. Between them there is one form, linear in each of the three,

    sum over b, y, x, i, j, a, c of  S[b, y, x, a] W[a, i, j, c] T[b, 2y + i - 1, 2x + j - 1, c],

and its three derivatives are all that a network needs: `down` (that by S) is a convolution, `up`
(that by T) is a transposed convolution, and `meet` (that by W) is the gradient of the weights of
both. The derivatives of each are the other two. Patches are never written to memory.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor

_ENOUGH = 256  # programs that fill a GPU: what gives fewer is cut into smaller ones
_PARTS = 256  # of a sum over pixels, at the most


# In the kernels M counts rows, N columns and K the depth of a tile of a matrix product. A tile is
# one tap deep where there are channels enough: then places are worked out once a row, not once a
# number.


@triton.jit
def _down_kernel(
    t, w, bias, s, pixels, h, width, A: tl.constexpr, C: tl.constexpr, BIASED: tl.constexpr,
    ACTIVATE: tl.constexpr, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr,
    PRECISION: tl.constexpr,
):  # fmt: skip
    lane = tl.program_id(2).to(tl.int64)
    m = tl.program_id(0) * M + tl.arange(0, M)
    a = tl.program_id(1) * N + tl.arange(0, N)
    b, y, x = m // (h * width), m // width % h, m % width
    t += lane * pixels * 4 * C
    w += lane * A * 16 * C
    total = tl.zeros((M, N), tl.float32)
    corner = (b * 2 * h + 2 * y - 1) * 2 * width + 2 * x - 1
    for start in range(0, 16 * C, K):
        k = start + tl.arange(0, K)
        if C % K == 0:
            tap = start // C
            row, column = 2 * y + tap // 4 - 1, 2 * x + tap % 4 - 1
            inside = (row >= 0) & (row < 2 * h) & (column >= 0) & (column < 2 * width)
            inside &= m < pixels
            place = (corner + tap // 4 * 2 * width + tap % 4) * C + start % C
            at = place[:, None] + tl.arange(0, K)[None, :]
            left = tl.load(t + at, mask=inside[:, None], other=0.0)
            known = (a < A)[None, :]
        else:
            tap = k // C
            row = 2 * y[:, None] + (tap // 4)[None, :] - 1
            column = 2 * x[:, None] + (tap % 4)[None, :] - 1
            inside = (row >= 0) & (row < 2 * h) & (column >= 0) & (column < 2 * width)
            inside &= (m < pixels)[:, None] & (k < 16 * C)[None, :]
            offset = (tap // 4 * 2 * width + tap % 4) * C + k % C
            left = tl.load(t + corner[:, None] * C + offset[None, :], mask=inside, other=0.0)
            known = (a < A)[None, :] & (k < 16 * C)[:, None]
        right = tl.load(w + a[None, :] * 16 * C + k[:, None], mask=known, other=0.0)
        total = tl.dot(left, right.to(left.dtype), total, input_precision=PRECISION)
    if BIASED:
        total += tl.load(bias + lane * A + a, mask=a < A, other=0.0).to(tl.float32)[None, :]
    if ACTIVATE:
        total = tl.maximum(total, 0.0)
    place = lane * pixels * A + m[:, None] * A + a[None, :]
    within = (m < pixels)[:, None] & (a < A)[None, :]
    tl.store(s + place, total.to(s.dtype.element_ty), mask=within)


@triton.jit
def _up_kernel(
    s, w, bias, t, pixels, h, width, A: tl.constexpr, C: tl.constexpr, BIASED: tl.constexpr,
    ACTIVATE: tl.constexpr, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr,
    PRECISION: tl.constexpr,
):  # fmt: skip
    lane = tl.program_id(2).to(tl.int64)
    parity = tl.program_id(1) % 4  # pixels (2y + r, 2x + q) of the big image see four taps
    r, q = parity // 2, parity % 2
    m = tl.program_id(0) * M + tl.arange(0, M)
    c = tl.program_id(1) // 4 * N + tl.arange(0, N)
    b, y, x = m // (h * width), m // width % h, m % width
    s += lane * pixels * A
    w += lane * A * 16 * C
    total = tl.zeros((M, N), tl.float32)
    for start in range(0, 4 * A, K):
        k = start + tl.arange(0, K)
        if A % K == 0:
            i, j, a = start // (2 * A), start // A % 2, start % A + tl.arange(0, K)
            row, column = y + r - i, x + q - j
            inside = (row >= 0) & (row < h) & (column >= 0) & (column < width) & (m < pixels)
            place = (m + (r - i) * width + q - j) * A
            left = tl.load(s + place[:, None] + a[None, :], mask=inside[:, None], other=0.0)
            tap = (1 - r + 2 * i) * 4 + 1 - q + 2 * j
            known = (c < C)[None, :]
        else:
            i, j, a = k // (2 * A), k // A % 2, k % A
            row, column = y[:, None] + (r - i)[None, :], x[:, None] + (q - j)[None, :]
            inside = (row >= 0) & (row < h) & (column >= 0) & (column < width)
            inside &= (m < pixels)[:, None] & (k < 4 * A)[None, :]
            offset = ((r - i) * width + q - j) * A + a
            left = tl.load(s + m[:, None] * A + offset[None, :], mask=inside, other=0.0)
            tap = (1 - r + 2 * i) * 4 + 1 - q + 2 * j
            known = (c < C)[None, :] & (k < 4 * A)[:, None]
        at = (a * 16 + tap)[:, None] * C + c[None, :]
        right = tl.load(w + at, mask=known, other=0.0)
        total = tl.dot(left, right.to(left.dtype), total, input_precision=PRECISION)
    if BIASED:
        total += tl.load(bias + lane * C + c, mask=c < C, other=0.0).to(tl.float32)[None, :]
    if ACTIVATE:
        total = tl.maximum(total, 0.0)
    place = ((b * 2 * h + 2 * y + r) * 2 * width + 2 * x + q)[:, None] * C + c[None, :]
    within = (m < pixels)[:, None] & (c < C)[None, :]
    tl.store(t + lane * pixels * 4 * C + place, total.to(t.dtype.element_ty), mask=within)


@triton.jit
def _one_kernel(
    s, w, bias, t, pixels, h, width, A: tl.constexpr, BIASED: tl.constexpr,
    ACTIVATE: tl.constexpr, M: tl.constexpr, K: tl.constexpr,
):  # fmt: skip
    # `up` to one channel, for which a matrix product has no columns: a sum over channels for each
    # of the four pixels of the big image around a small one.
    lane = tl.program_id(1).to(tl.int64)
    m = tl.program_id(0) * M + tl.arange(0, M)
    a = tl.arange(0, K)
    b, y, x = m // (h * width), m // width % h, m % width
    s += lane * pixels * A
    w += lane * A * 16
    zero = tl.zeros((M, K), tl.float32)
    t00, t01, t10, t11 = zero, zero, zero, zero
    for down in tl.static_range(-1, 2):
        for right in tl.static_range(-1, 2):
            row, column = y + down, x + right
            inside = (row >= 0) & (row < h) & (column >= 0) & (column < width) & (m < pixels)
            place = (m + down * width + right) * A
            known = inside[:, None] & (a < A)[None, :]
            left = tl.load(s + place[:, None] + a[None, :], mask=known, other=0.0).to(tl.float32)
            # A pixel (2y + r, 2x + q) sees the neighbours with r - down and q - right 0 or 1.
            if down <= 0:
                if right <= 0:
                    t00 += left * _tap(w, a, A, 1 - 2 * down, 1 - 2 * right)
                if right >= 0:
                    t01 += left * _tap(w, a, A, 1 - 2 * down, 2 - 2 * right)
            if down >= 0:
                if right <= 0:
                    t10 += left * _tap(w, a, A, 2 - 2 * down, 1 - 2 * right)
                if right >= 0:
                    t11 += left * _tap(w, a, A, 2 - 2 * down, 2 - 2 * right)
    shift = tl.load(bias + lane).to(tl.float32) if BIASED else 0.0
    t += lane * pixels * 4
    at = (b * 2 * h + 2 * y) * 2 * width + 2 * x
    _put(t + at, t00, shift, m < pixels, ACTIVATE)
    _put(t + at + 1, t01, shift, m < pixels, ACTIVATE)
    _put(t + at + 2 * width, t10, shift, m < pixels, ACTIVATE)
    _put(t + at + 2 * width + 1, t11, shift, m < pixels, ACTIVATE)


@triton.jit
def _tap(w, a, A: tl.constexpr, i, j):
    return tl.load(w + a * 16 + i * 4 + j, mask=a < A, other=0.0).to(tl.float32)[None, :]


@triton.jit
def _put(place, parts, shift, within, ACTIVATE: tl.constexpr):
    total = tl.sum(parts, 1) + shift
    if ACTIVATE:
        total = tl.maximum(total, 0.0)
    tl.store(place, total.to(place.dtype.element_ty), mask=within)


@triton.jit
def _fan_kernel(
    s, w, bias, t, pixels, h, width, A: tl.constexpr, C: tl.constexpr, BIASED: tl.constexpr,
    ACTIVATE: tl.constexpr, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr,
    PRECISION: tl.constexpr,
):  # fmt: skip
    # `up` to few channels: the four pixels of the big image around a small one are columns, which
    # see its nine neighbours, so that no tile is nearly empty.
    lane = tl.program_id(2).to(tl.int64)
    m = tl.program_id(0) * M + tl.arange(0, M)
    n = tl.arange(0, N)
    r, q, c = n // (2 * C), n // C % 2, n % C
    b, y, x = m // (h * width), m // width % h, m % width
    s += lane * pixels * A
    w += lane * A * 16 * C
    total = tl.zeros((M, N), tl.float32)
    for start in range(0, 9 * A, K):
        k = start + tl.arange(0, K)
        if A % K == 0:
            down, right, a = start // (3 * A) - 1, start // A % 3 - 1, start % A + tl.arange(0, K)
            row, column = y + down, x + right
            inside = (row >= 0) & (row < h) & (column >= 0) & (column < width) & (m < pixels)
            place = (m + down * width + right) * A
            left = tl.load(s + place[:, None] + a[None, :], mask=inside[:, None], other=0.0)
            i, j = r - down, q - right
            tap = (1 - r + 2 * i) * 4 + 1 - q + 2 * j
            at = a[:, None] * 16 * C + (tap * C + c)[None, :]
            known = ((i >= 0) & (i < 2) & (j >= 0) & (j < 2) & (n < 4 * C))[None, :]
        else:
            down, right, a = k // (3 * A) - 1, k // A % 3 - 1, k % A
            row, column = y[:, None] + down[None, :], x[:, None] + right[None, :]
            inside = (row >= 0) & (row < h) & (column >= 0) & (column < width)
            inside &= (m < pixels)[:, None] & (k < 9 * A)[None, :]
            offset = (down * width + right) * A + a
            left = tl.load(s + m[:, None] * A + offset[None, :], mask=inside, other=0.0)
            i, j = r[None, :] - down[:, None], q[None, :] - right[:, None]
            tap = (1 - r[None, :] + 2 * i) * 4 + 1 - q[None, :] + 2 * j
            at = a[:, None] * 16 * C + tap * C + c[None, :]
            known = (i >= 0) & (i < 2) & (j >= 0) & (j < 2) & (n < 4 * C)[None, :]
            known &= (k < 9 * A)[:, None]
        weights = tl.load(w + at, mask=known, other=0.0)
        total = tl.dot(left, weights.to(left.dtype), total, input_precision=PRECISION)
    if BIASED:
        total += tl.load(bias + lane * C + c, mask=n < 4 * C, other=0.0).to(tl.float32)[None, :]
    if ACTIVATE:
        total = tl.maximum(total, 0.0)
    row = ((b * 2 * h + 2 * y)[:, None] + r[None, :]) * 2 * width
    place = (row + (2 * x)[:, None] + q[None, :]) * C + c[None, :]
    within = (m < pixels)[:, None] & (n < 4 * C)[None, :]
    tl.store(t + lane * pixels * 4 * C + place, total.to(t.dtype.element_ty), mask=within)


@triton.jit
def _meet_kernel(
    s, t, w, pixels, h, width, share, A: tl.constexpr, C: tl.constexpr, PARTS: tl.constexpr,
    M: tl.constexpr, N: tl.constexpr, K: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    lane = (tl.program_id(2) // PARTS).to(tl.int64)
    part = tl.program_id(2) % PARTS
    a = tl.program_id(0) * M + tl.arange(0, M)
    n = tl.program_id(1) * N + tl.arange(0, N)  # of the 16 C numbers of a filter
    s += lane * pixels * A
    t += lane * pixels * 4 * C
    total = tl.zeros((M, N), tl.float32)
    for start in range(part * share, (part + 1) * share, K):
        m = start + tl.arange(0, K)
        valid = m < pixels
        b, y, x = m // (h * width), m // width % h, m % width
        left = tl.load(
            s + m[None, :] * A + a[:, None], mask=valid[None, :] & (a < A)[:, None], other=0.0
        )
        corner = (b * 2 * h + 2 * y - 1) * 2 * width + 2 * x - 1
        if C % N == 0:
            first = tl.program_id(1) * N
            tap = first // C
            row, column = 2 * y + tap // 4 - 1, 2 * x + tap % 4 - 1
            inside = (row >= 0) & (row < 2 * h) & (column >= 0) & (column < 2 * width) & valid
            place = (corner + tap // 4 * 2 * width + tap % 4) * C + first % C
            at = place[:, None] + tl.arange(0, N)[None, :]
            right = tl.load(t + at, mask=inside[:, None], other=0.0)
        else:
            tap = n // C
            row = 2 * y[:, None] + (tap // 4)[None, :] - 1
            column = 2 * x[:, None] + (tap % 4)[None, :] - 1
            inside = (row >= 0) & (row < 2 * h) & (column >= 0) & (column < 2 * width)
            inside &= valid[:, None] & (n < 16 * C)[None, :]
            offset = (tap // 4 * 2 * width + tap % 4) * C + n % C
            right = tl.load(t + corner[:, None] * C + offset[None, :], mask=inside, other=0.0)
        total = tl.dot(left, right, total, input_precision=PRECISION)
    lanes = tl.num_programs(2) // PARTS
    at = ((part * lanes + lane) * A + a[:, None]) * 16 * C + n[None, :]
    tl.store(w + at, total, mask=(a < A)[:, None] & (n < 16 * C)[None, :])


@triton.jit
def _settle_kernel(
    g, out, settled, sums, rows, share, C: tl.constexpr, ACTIVATED: tl.constexpr,
    M: tl.constexpr, N: tl.constexpr,
):  # fmt: skip
    part, lane = tl.program_id(0), tl.program_id(1).to(tl.int64)
    c = tl.arange(0, N)
    g += lane * rows * C
    out += lane * rows * C
    settled += lane * rows * C
    total = tl.zeros((M, N), tl.float32)
    for start in range(part * share, (part + 1) * share, M):
        m = start + tl.arange(0, M)
        at = m[:, None] * C + c[None, :]
        within = (m < rows)[:, None] & (c < C)[None, :]
        value = tl.load(g + at, mask=within, other=0.0)
        if ACTIVATED:
            value = tl.where(tl.load(out + at, mask=within, other=0.0) > 0, value, 0.0)
            tl.store(settled + at, value, mask=within)
        total += value.to(tl.float32)
    lanes = tl.num_programs(1)
    tl.store(sums + (part * lanes + lane) * C + c, tl.sum(total, 0), mask=c < C)


@triton.jit
def _add_kernel(parts, total, size, COUNT: tl.constexpr, M: tl.constexpr, N: tl.constexpr):
    at = tl.program_id(0) * N + tl.arange(0, N)
    part = tl.arange(0, M)
    within = (part < COUNT)[:, None] & (at < size)[None, :]
    values = tl.load(parts + part[:, None] * size + at[None, :], mask=within, other=0.0)
    tl.store(total + at, tl.sum(values, 0), mask=at < size)


def added(parts: Tensor) -> Tensor:
    """The sum over the first axis, always in the same order."""
    count, size = len(parts), parts[0].numel()
    if count == 1:
        return parts[0]
    total = parts.new_empty(parts.shape[1:])
    m = triton.next_power_of_2(count)
    n = max(16, 1024 // m)
    _add_kernel[(triton.cdiv(size, n),)](parts, total, size, count, m, n)
    return total


def settle(g: Tensor, out: Tensor | None) -> tuple[Tensor, Tensor]:
    """The gradient before a ReLU with result `out`, (L, ..., C), and its sum over all but L and C.

    Without `out` there was no ReLU. The sum is in float32, (L, C).
    """
    g = g.contiguous()
    lanes, channels = g.shape[0], g.shape[-1]
    rows = g[0].numel() // channels
    settled = g if out is None else torch.empty_like(g)
    n = triton.next_power_of_2(channels)
    m = max(16, 2048 // n)
    parts = max(1, min(64, 4 * _ENOUGH // lanes, rows // m))
    share = triton.cdiv(triton.cdiv(rows, parts), m) * m
    sums = g.new_empty((parts, lanes, channels), dtype=torch.float32)
    _settle_kernel[(parts, lanes)](
        g, g if out is None else out.contiguous(), settled, sums, rows, share, channels,
        out is not None, m, n,
    )  # fmt: skip
    return settled, added(sums)


class Tile(NamedTuple):
    """Rows, columns and depth of a tile, warps for it, and loads that run ahead."""

    m: int
    n: int
    k: int
    warps: int = 4
    stages: int = 3


def down(
    t: Tensor, w: Tensor, bias: Tensor | None, activate: bool, tile: Tile | None = None
) -> Tensor:
    """S[b, y, x, a] = sum W[a, i, j, c] T[b, 2y + i - 1, 2x + j - 1, c] (+ bias, ReLU).

    t: (L, B, 2h, 2w, C), w: (L, A, 4, 4, C), bias: (L, A); gives (L, B, h, w, A).
    """
    lanes, batch, height, width, channels = t.shape
    out = w.shape[1]
    h, v = height // 2, width // 2
    s = t.new_empty((lanes, batch, h, v, out))
    pixels = batch * h * v
    many = lanes * pixels >= 2**18
    deep = (16 if many else 32) if channels <= 32 else 64
    deep = min(deep, _power(channels)) if channels >= 16 else _power(16 * channels)
    size = tile or _fit(Tile(128, min(64, _power(out)), deep), pixels, out, lanes)
    grid = (triton.cdiv(pixels, size.m), triton.cdiv(out, size.n), lanes)
    _down_kernel[grid](
        t.contiguous(), w.contiguous(), bias, s, pixels, h, v, out, channels, bias is not None,
        activate, size.m, size.n, size.k, precision(t), num_warps=size.warps,
        num_stages=size.stages,
    )  # fmt: skip
    return s


def up(
    s: Tensor, w: Tensor, bias: Tensor | None, activate: bool, tile: Tile | None = None
) -> Tensor:
    """T[b, 2y + i - 1, 2x + j - 1, c] = sum W[a, i, j, c] S[b, y, x, a] (+ bias, ReLU).

    s: (L, B, h, w, A), w: (L, A, 4, 4, C), bias: (L, C); gives (L, B, 2h, 2w, C).
    """
    lanes, batch, h, v, channels = s.shape
    out = w.shape[-1]
    t = s.new_empty((lanes, batch, 2 * h, 2 * v, out))
    pixels = batch * h * v
    if out == 1 and channels <= 128:
        m = 64 if lanes * pixels >= 2**16 else 32
        _one_kernel[(triton.cdiv(pixels, m), lanes)](
            s.contiguous(), w.contiguous(), bias, t, pixels, h, v, channels, bias is not None,
            activate, m, triton.next_power_of_2(channels),
        )  # fmt: skip
        return t
    few = 4 * out <= 16
    deep = min(32, _power(channels)) if channels >= 16 else _power(4 * channels)
    columns = 16 if few else min(64, _power(out))
    start = Tile(256, columns, deep, stages=2)
    if min(out, channels) >= 64:
        start = Tile(128, 64, 64, stages=2)
    size = tile or _fit(start, pixels, out if few else 4 * out, lanes)
    grid = (triton.cdiv(pixels, size.m), 1 if few else 4 * triton.cdiv(out, size.n), lanes)
    kernel = _fan_kernel if few else _up_kernel
    kernel[grid](
        s.contiguous(), w.contiguous(), bias, t, pixels, h, v, channels, out, bias is not None,
        activate, size.m, size.n, size.k, precision(s), num_warps=size.warps,
        num_stages=size.stages,
    )  # fmt: skip
    return t


def meet(s: Tensor, t: Tensor, tile: Tile | None = None) -> Tensor:
    """W[a, i, j, c] = sum S[b, y, x, a] T[b, 2y + i - 1, 2x + j - 1, c], in float32.

    s: (L, B, h, w, A), t: (L, B, 2h, 2w, C); gives (L, A, 4, 4, C). The sum over pixels is split
    into parts that are added in a fixed order, so the same numbers give the same bits.
    """
    lanes, batch, h, v, a = s.shape
    c = t.shape[-1]
    pixels = batch * h * v
    size = tile or _square(min(64, _power(a)), min(64, _power(c if c >= 16 else 16 * c)))
    tiles = triton.cdiv(a, size.m) * triton.cdiv(16 * c, size.n) * lanes
    parts = max(1, min(_PARTS, 4 * _ENOUGH // tiles, pixels // (4 * size.k)))
    share = triton.cdiv(triton.cdiv(pixels, parts), size.k) * size.k
    w = s.new_empty((parts, lanes, a, 4, 4, c), dtype=torch.float32)
    grid = (triton.cdiv(a, size.m), triton.cdiv(16 * c, size.n), lanes * parts)
    _meet_kernel[grid](
        s.contiguous(), t.contiguous(), w, pixels, h, v, share, a, c, parts, size.m, size.n,
        size.k, precision(s), num_warps=size.warps, num_stages=size.stages,
    )  # fmt: skip
    return added(w)


def precision(x: Tensor) -> str:
    """How products of float32 are to be taken: on tensor cores where torch may do so as well."""
    allowed = torch.backends.cudnn.allow_tf32
    return "tf32" if allowed and x.dtype == torch.float32 else "ieee"


# Tiles as they were fastest on an H200 for the layers of Kim & Mnih's network, 64 lanes.


def _fit(tile: Tile, rows: int, columns: int, lanes: int) -> Tile:
    """The tile, or a smaller one where there would be too few of them to fill a GPU."""
    while tile.m * tile.n > 256:
        count = triton.cdiv(rows, tile.m) * triton.cdiv(columns, tile.n) * lanes
        if count >= _ENOUGH:
            break
        if tile.m >= tile.n and tile.m > 16:
            tile = tile._replace(m=tile.m // 2)
        else:
            tile = tile._replace(n=tile.n // 2)
    few = lanes * rows < 2**18 and tile.k * (tile.m + tile.n) <= 2**12
    return tile._replace(
        warps=4 if tile.m * tile.n >= 2048 else 2, stages=5 if few else tile.stages
    )


def _square(m: int, n: int) -> Tile:
    """The tile of a sum over pixels, of a given size."""
    return Tile(m, n, 32 if m * n <= 1024 else 64, 2 if m * n <= 2048 else 4)


def _power(n: int) -> int:
    """The power of two that holds n, 16 at the least."""
    return max(16, triton.next_power_of_2(n))
