"""Convolutions by factors of two with stacked weights, as implicit matrix products.

All have kernel 4, stride 2 and padding 1. They relate a small image S (L, B, h, w, A) to a big one
T (L, B, 2h, 2w, C) through weights W (L, A, 4, 4, C): channels are innermost, and each of the L
lanes has weights of its own. All of them come from one form that is linear in each argument,

    sum over b, y, x, i, j, a, c of  S[b, y, x, a] W[a, i, j, c] T[b, 2y + i - 1, 2x + j - 1, c],

whose three derivatives are all that a network needs: `down` (by S) is a convolution, `up` (by T) a
transposed convolution, and `weight_grad` (by W) the gradient of the weights of both. The
derivatives of each are the other two. Patches are never written to memory.
"""

import functools
from typing import NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor

from unweave.kernels.sums import ENOUGH, relu_backward, sum_parts

_MOST_PARTS = 256  # of a sum over pixels


# In the kernels M, N and K are the rows, columns and depth of a tile of a matrix product. If there
# are enough channels, a tile is one tap deep; addresses are then computed once per row instead of
# once per number. Triton loads 16 bytes at a time if it can prove that addresses are multiples of
# that; before version 3.9 it cannot for remainders (%), so they are avoided.


@triton.jit
def _patch(
    t, b, y, x, valid, start, H: tl.constexpr, W: tl.constexpr, C: tl.constexpr, K: tl.constexpr
):
    # Load numbers start .. start + K of the 16 C numbers of T that pixels (b, y, x) of S see. Those
    # of one tap, or of the four taps of a row, are contiguous: one address per row is enough.
    corner = (b * 2 * H + 2 * y - 1) * 2 * W + 2 * x - 1
    if C % K == 0:
        tap = start // C
        row, column = 2 * y + tap // 4 - 1, 2 * x + tap % 4 - 1
        inside = (row >= 0) & (row < 2 * H) & (column >= 0) & (column < 2 * W) & valid
        place = (corner + tap // 4 * 2 * W + tap % 4) * C + start - tap * C
        at = place[:, None] + tl.arange(0, K)[None, :]
        return tl.load(t + at, mask=inside[:, None], other=0.0)
    if (4 * C) % K == 0 and K % C == 0:
        i = start // (4 * C)
        first = start - i * 4 * C
        row = 2 * y + i - 1
        column = 2 * x[:, None] - 1 + first // C + (tl.arange(0, K) // C)[None, :]
        inside = ((row >= 0) & (row < 2 * H) & valid)[:, None] & (column >= 0) & (column < 2 * W)
        place = (corner + i * 2 * W) * C + first
        at = place[:, None] + tl.arange(0, K)[None, :]
        return tl.load(t + at, mask=inside, other=0.0)
    k = start + tl.arange(0, K)
    tap = k // C
    row = 2 * y[:, None] + (tap // 4)[None, :] - 1
    column = 2 * x[:, None] + (tap % 4)[None, :] - 1
    inside = (row >= 0) & (row < 2 * H) & (column >= 0) & (column < 2 * W)
    inside &= valid[:, None] & (k < 16 * C)[None, :]
    offset = (tap // 4 * 2 * W + tap % 4) * C + k % C
    return tl.load(t + corner[:, None] * C + offset[None, :], mask=inside, other=0.0)


@triton.jit
def _finish(
    total, bias, channel, out, at, within, mask, sums, part, lane, lanes, CHANNELS: tl.constexpr,
    BIASED: tl.constexpr, ACTIVATE: tl.constexpr, MASKED: tl.constexpr,
):  # fmt: skip
    # Finish a tile of results and write it. Forward: add the bias, apply the ReLU. Backward: apply
    # the gradient of the ReLU with result `mask`, and sum over pixels for the bias before it.
    known = channel < CHANNELS
    if BIASED:
        total += tl.load(bias + lane * CHANNELS + channel, mask=known, other=0.0).to(tl.float32)[
            None, :
        ]
    if ACTIVATE:
        total = tl.maximum(total, 0.0, propagate_nan=tl.PropagateNan.ALL)
    if MASKED:
        total = tl.where(tl.load(mask + at, mask=within, other=0.0) <= 0, 0.0, total)
        column = tl.sum(tl.where(within, total, 0.0), 0)
        tl.store(sums + (part * lanes + lane) * CHANNELS + channel, column, mask=known)
    tl.store(out + at, total.to(out.dtype.element_ty), mask=within)


@triton.jit
def _down_kernel(
    t, w, bias, s, mask, sums, pixels, H: tl.constexpr, W: tl.constexpr, A: tl.constexpr,
    C: tl.constexpr, BIASED: tl.constexpr, ACTIVATE: tl.constexpr, MASKED: tl.constexpr,
    M: tl.constexpr, N: tl.constexpr, K: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    lane = tl.program_id(2).to(tl.int64)
    m = tl.program_id(0) * M + tl.arange(0, M)
    a = tl.program_id(1) * N + tl.arange(0, N)
    b, y, x = m // (H * W), m // W % H, m % W
    t += lane * pixels * 4 * C
    w += lane * A * 16 * C
    total = tl.zeros((M, N), tl.float32)
    for start in range(0, 16 * C, K):
        left = _patch(t, b, y, x, m < pixels, start, H, W, C, K)
        k = start + tl.arange(0, K)
        known = (a < A)[None, :]
        if (16 * C) % K != 0:
            known &= (k < 16 * C)[:, None]
        right = tl.load(w + a[None, :] * 16 * C + k[:, None], mask=known, other=0.0)
        total = tl.dot(left, right.to(left.dtype), total, input_precision=PRECISION)
    at = lane * pixels * A + m[:, None] * A + a[None, :]
    within = (m < pixels)[:, None] & (a < A)[None, :]
    _finish(
        total, bias, a, s, at, within, mask, sums, tl.program_id(0), lane, tl.num_programs(2), A,
        BIASED, ACTIVATE, MASKED,
    )  # fmt: skip


@triton.jit
def _up_kernel(
    s, w, bias, t, mask, sums, pixels, H: tl.constexpr, W: tl.constexpr, A: tl.constexpr,
    C: tl.constexpr, BIASED: tl.constexpr, ACTIVATE: tl.constexpr, MASKED: tl.constexpr,
    M: tl.constexpr, N: tl.constexpr, K: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    lane = tl.program_id(2).to(tl.int64)
    parity = tl.program_id(1) % 4  # pixels (2y + r, 2x + q) of the big image see four taps
    r, q = parity // 2, parity % 2
    m = tl.program_id(0) * M + tl.arange(0, M)
    c = tl.program_id(1) // 4 * N + tl.arange(0, N)
    b, y, x = m // (H * W), m // W % H, m % W
    s += lane * pixels * A
    w += lane * A * 16 * C
    total = tl.zeros((M, N), tl.float32)
    for start in range(0, 4 * A, K):
        k = start + tl.arange(0, K)
        known = (c < C)[None, :]
        if A % K == 0:
            i, j = start // (2 * A), 1 - start // A % 2
            a = start - start // A * A + tl.arange(0, K)
            row, column = y + r - i, x + q - j
            inside = (row >= 0) & (row < H) & (column >= 0) & (column < W) & (m < pixels)
            place = (m + (r - i) * W + q - j) * A
            left = tl.load(s + place[:, None] + a[None, :], mask=inside[:, None], other=0.0)
            tap = (1 - r + 2 * i) * 4 + 1 - q + 2 * j
        elif K == 2 * A:  # both neighbours in a row, which are contiguous
            i, j, a = start // (2 * A), 1 - tl.arange(0, K) // A, tl.arange(0, K) % A
            row, column = y + r - i, x[:, None] + (q - j)[None, :]
            inside = ((row >= 0) & (row < H) & (m < pixels))[:, None]
            inside = inside & (column >= 0) & (column < W)
            place = (m + (r - i) * W + q - 1) * A
            at = place[:, None] + tl.arange(0, K)[None, :]
            left = tl.load(s + at, mask=inside, other=0.0)
            tap = (1 - r + 2 * i) * 4 + 1 - q + 2 * j
        else:
            i, j, a = k // (2 * A), 1 - k // A % 2, k % A
            row, column = y[:, None] + (r - i)[None, :], x[:, None] + (q - j)[None, :]
            inside = (row >= 0) & (row < H) & (column >= 0) & (column < W)
            inside &= (m < pixels)[:, None] & (k < 4 * A)[None, :]
            offset = ((r - i) * W + q - j) * A + a
            left = tl.load(s + m[:, None] * A + offset[None, :], mask=inside, other=0.0)
            tap = (1 - r + 2 * i) * 4 + 1 - q + 2 * j
            known &= (k < 4 * A)[:, None]
        at = (a * 16 + tap)[:, None] * C + c[None, :]
        right = tl.load(w + at, mask=known, other=0.0)
        total = tl.dot(left, right.to(left.dtype), total, input_precision=PRECISION)
    place = ((b * 2 * H + 2 * y + r) * 2 * W + 2 * x + q)[:, None] * C + c[None, :]
    within = (m < pixels)[:, None] & (c < C)[None, :]
    part = tl.program_id(0) * 4 + parity
    _finish(
        total, bias, c, t, lane * pixels * 4 * C + place, within, mask, sums, part, lane,
        tl.num_programs(2), C, BIASED, ACTIVATE, MASKED,
    )  # fmt: skip


@triton.jit
def _planes_kernel(
    s, w, planes, pixels, A: tl.constexpr, C: tl.constexpr, M: tl.constexpr, N: tl.constexpr,
    K: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    # Compute what every small pixel adds to the 16 C numbers that it reaches.
    lane = tl.program_id(1).to(tl.int64)
    m = tl.program_id(0) * M + tl.arange(0, M)
    n, a = tl.arange(0, N), tl.arange(0, K)
    known = (m < pixels)[:, None] & (a < A)[None, :]
    at = lane * pixels * A + m[:, None] * A + a[None, :]
    left = tl.load(s + at, mask=known, other=0.0)
    at = lane * A * 16 * C + a[:, None] * 16 * C + n[None, :]
    right = tl.load(w + at, mask=(a < A)[:, None] & (n < 16 * C)[None, :], other=0.0)
    total = tl.dot(left, right.to(left.dtype), input_precision=PRECISION)
    at = lane * pixels * 16 * C + m[:, None] * 16 * C + n[None, :]
    tl.store(planes + at, total, mask=(m < pixels)[:, None] & (n < 16 * C)[None, :])


@triton.jit
def _gather_kernel(
    planes, bias, t, pixels, H: tl.constexpr, W: tl.constexpr, C: tl.constexpr,
    BIASED: tl.constexpr, ACTIVATE: tl.constexpr, SIZE: tl.constexpr,
):  # fmt: skip
    # Add the four contributions to each number of the big image.
    lane = tl.program_id(1).to(tl.int64)
    at = tl.program_id(0) * SIZE + tl.arange(0, SIZE)
    within = at < pixels * 4 * C
    c, column, row, b = (
        at % C,
        at // C % (2 * W),
        at // (C * 2 * W) % (2 * H),
        at // (C * 4 * W * H),
    )
    total = tl.zeros((SIZE,), tl.float32)
    if BIASED:
        total += tl.load(bias + lane * C + c, mask=within, other=0.0).to(tl.float32)
    planes += lane * pixels * 16 * C
    for i in tl.static_range(2):
        for j in tl.static_range(2):
            # Row 2y + r is reached by row y + r - i of the small image through row 1 - r + 2i of W.
            y, x = row // 2 + row % 2 - i, column // 2 + column % 2 - j
            tap = (1 - row % 2 + 2 * i) * 4 + 1 - column % 2 + 2 * j
            inside = within & (y >= 0) & (y < H) & (x >= 0) & (x < W)
            place = (((b * H + y) * W + x) * 16 + tap) * C + c
            total += tl.load(planes + place, mask=inside, other=0.0)
    if ACTIVATE:
        total = tl.maximum(total, 0.0, propagate_nan=tl.PropagateNan.ALL)
    tl.store(t + lane * pixels * 4 * C + at, total.to(t.dtype.element_ty), mask=within)


@triton.jit
def _weight_grad_kernel(
    s, t, w, pixels, share, H: tl.constexpr, W: tl.constexpr, A: tl.constexpr, C: tl.constexpr,
    PARTS: tl.constexpr, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr,
    PRECISION: tl.constexpr,
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
        b, y, x = m // (H * W), m // W % H, m % W
        left = tl.load(
            s + m[None, :] * A + a[:, None], mask=valid[None, :] & (a < A)[:, None], other=0.0
        )
        right = _patch(t, b, y, x, valid, tl.program_id(1) * N, H, W, C, N)
        total = tl.dot(left, right, total, input_precision=PRECISION)
    lanes = tl.num_programs(2) // PARTS
    at = ((part * lanes + lane) * A + a[:, None]) * 16 * C + n[None, :]
    tl.store(w + at, total, mask=(a < A)[:, None] & (n < 16 * C)[None, :])


class TileSizes(NamedTuple):
    """Rows, columns and depth of a tile, its warps, and its pipeline stages."""

    m: int
    n: int
    k: int
    warps: int = 4
    stages: int = 3


def down(
    t: Tensor,
    w: Tensor,
    bias: Tensor | None = None,
    activate: bool = False,
    mask: Tensor | None = None,
    tile: TileSizes | None = None,
) -> tuple[Tensor, Tensor | None]:
    """S[b, y, x, a] = sum W[a, i, j, c] T[b, 2y + i - 1, 2x + j - 1, c] (+ bias, ReLU).

    t: (L, B, 2h, 2w, C), w: (L, A, 4, 4, C), bias: (L, A); returns (L, B, h, w, A). With a `mask`
    of the shape of S, S is 0 where the mask is not positive, and its sums over pixels are returned
    too, (L, A) in float32.
    """
    lanes, batch, height, width, channels = t.shape
    out = w.shape[1]
    h, v = height // 2, width // 2
    s = t.new_empty((lanes, batch, h, v, out))
    pixels = batch * h * v
    size = tile or _fit_to_memory(_down_tile(pixels, out, channels, lanes, _wide(t)), t)
    rows = triton.cdiv(pixels, size.m)
    sums = _allocate_sums(s, rows, mask)
    _down_kernel[rows, triton.cdiv(out, size.n), lanes](
        _check_size(t), w.contiguous(), bias, _check_size(s), _contiguous(mask), sums, pixels, h, v,
        out, channels, bias is not None, activate, mask is not None, size.m, size.n, size.k,
        precision(t), num_warps=size.warps, num_stages=size.stages,
    )  # fmt: skip
    return s, None if sums is None else sum_parts(sums)


def up(
    s: Tensor,
    w: Tensor,
    bias: Tensor | None = None,
    activate: bool = False,
    mask: Tensor | None = None,
    tile: TileSizes | None = None,
) -> tuple[Tensor, Tensor | None]:
    """T[b, 2y + i - 1, 2x + j - 1, c] = sum W[a, i, j, c] S[b, y, x, a] (+ bias, ReLU).

    s: (L, B, h, w, A), w: (L, A, 4, 4, C), bias: (L, C); returns (L, B, 2h, 2w, C). With a `mask`
    of the shape of T, T is 0 where the mask is not positive, and its sums over pixels are returned
    too, (L, C) in float32.
    """
    lanes, batch, h, v, channels = s.shape
    out = w.shape[-1]
    if out <= 4 and channels <= 128:
        t = _up_to_few(_check_size(s), w.contiguous(), bias, activate)
        return (t, None) if mask is None else relu_backward(t, mask)
    t = s.new_empty((lanes, batch, 2 * h, 2 * v, out))
    pixels = batch * h * v
    size = tile or _fit_to_memory(_up_tile(pixels, out, channels, lanes, _wide(s)), s)
    rows = triton.cdiv(pixels, size.m)
    sums = _allocate_sums(t, 4 * rows, mask)
    _up_kernel[rows, 4 * triton.cdiv(out, size.n), lanes](
        _check_size(s), w.contiguous(), bias, _check_size(t), _contiguous(mask), sums, pixels, h, v,
        channels, out, bias is not None, activate, mask is not None, size.m, size.n, size.k,
        precision(s), num_warps=size.warps, num_stages=size.stages,
    )  # fmt: skip
    return t, None if sums is None else sum_parts(sums)


def _up_to_few(s: Tensor, w: Tensor, bias: Tensor | None, activate: bool) -> Tensor:
    """Compute `up` to few channels, for which the matrix products above have too few columns.

    One matrix product computes what every pixel adds to each number it reaches, and a second kernel
    adds these contributions. It reads S once instead of four times.
    """
    lanes, batch, h, v, channels = s.shape
    out = w.shape[-1]
    t = s.new_empty((lanes, batch, 2 * h, 2 * v, out))
    pixels = batch * h * v
    planes = s.new_empty((lanes, pixels, 16 * out), dtype=torch.float32)
    _planes_kernel[triton.cdiv(pixels, 128), lanes](
        s, w, planes, pixels, channels, out, 128, _power_of_two(16 * out),
        _power_of_two(channels), precision(s), num_warps=4,
    )  # fmt: skip
    _gather_kernel[triton.cdiv(4 * pixels * out, 512), lanes](
        planes, bias, t, pixels, h, v, out, bias is not None, activate, 512, num_warps=4
    )
    return t


def weight_grad(s: Tensor, t: Tensor, tile: TileSizes | None = None) -> Tensor:
    """W[a, i, j, c] = sum S[b, y, x, a] T[b, 2y + i - 1, 2x + j - 1, c], in float32.

    s: (L, B, h, w, A), t: (L, B, 2h, 2w, C); returns (L, A, 4, 4, C). The sum over pixels is split
    into parts that are added in a fixed order, so results are reproducible to the bit.
    """
    lanes, batch, h, v, a = s.shape
    c = t.shape[-1]
    pixels = batch * h * v
    size = tile or _fit_to_memory(_weight_grad_tile(a, c, _wide(s)), s)
    grid = triton.cdiv(a, size.m), triton.cdiv(16 * c, size.n)
    parts = max(
        1, min(_MOST_PARTS, 4 * ENOUGH // (grid[0] * grid[1] * lanes), pixels // (4 * size.k))
    )
    share = triton.cdiv(triton.cdiv(pixels, parts), size.k) * size.k
    w = s.new_empty((parts, lanes, a, 4, 4, c), dtype=torch.float32)
    _weight_grad_kernel[*grid, lanes * parts](
        _check_size(s), _check_size(t), w, pixels, share, h, v, a, c, parts, size.m, size.n,
        size.k, precision(s), num_warps=size.warps, num_stages=size.stages,
    )  # fmt: skip
    return sum_parts(w)


def _allocate_sums(image: Tensor, count: int, mask: Tensor | None) -> Tensor | None:
    """Allocate the sums over pixels of each part of a masked image."""
    if mask is None:
        return None
    return image.new_empty((count, len(image), image.shape[-1]), dtype=torch.float32)


def _check_size(image: Tensor) -> Tensor:
    """Return the image, contiguous; check that 32 bits can address each lane of it."""
    if image[0].numel() >= 2**31:
        raise ValueError(
            f"expected fewer than 2^31 numbers in a batch of images, got {tuple(image.shape[1:])}: "
            "use a smaller batch"
        )
    return image.contiguous()


def _contiguous(x: Tensor | None) -> Tensor | None:
    return None if x is None else x.contiguous()


def precision(x: Tensor) -> str:
    """Return how tensor cores, which round to TF32, multiply float32 numbers.

    One TF32 product if torch may use TF32 too; otherwise three products of leading and trailing
    digits, which together are as exact as float32.
    """
    if x.dtype != torch.float32:
        return "ieee"
    return "tf32" if torch.backends.cudnn.allow_tf32 else "tf32x3"


# The fastest tiles on an H200 for the layers of Kim & Mnih's network: large ones if there are many,
# smaller but deeper ones if there are few, which wait for memory less often. Four-byte numbers
# ("wide") have tiles of their own.


def _down_tile(rows: int, out: int, channels: int, lanes: int, wide: bool) -> TileSizes:
    n, all_taps = min(64, _power_of_two(out)), _power_of_two(16 * channels)
    row = 4 * channels if channels >= 16 and channels & (channels - 1) == 0 else all_taps
    if wide:
        many = few = TileSizes(min(128, 4096 // n), n, min(32, row))
    else:
        many = TileSizes(128, n, min(64, row), 8 if n == 32 and row > 16 else 4)
        few = TileSizes(64, n, min(128, row))
    return _choose(many, few, rows, out, lanes)


def _up_tile(rows: int, out: int, channels: int, lanes: int, wide: bool) -> TileSizes:
    n, both = min(64, _power_of_two(out)), _power_of_two(2 * channels)
    if wide:
        deep = min(64 if channels <= 32 else 32, both)
        many = few = TileSizes(min(128, 4096 // n), n, deep, 8 if n == 32 else 4)
    else:
        many = TileSizes(128, n, min(64, both), stages=2)
        few = TileSizes(128, min(32, n), min(128, both))
    return _choose(many, few, rows, 4 * out, lanes)


def _weight_grad_tile(a: int, c: int, wide: bool) -> TileSizes:
    n = _power_of_two(16 * c)
    if c == 1:
        return TileSizes(min(64, _power_of_two(a)), 16, 64, 2)
    if a <= 32 or wide:
        return TileSizes(min(32, _power_of_two(a)), min(128, n), 32)
    return TileSizes(64, min(64, n), 64)


def _choose(many: TileSizes, few: TileSizes, rows: int, columns: int, lanes: int) -> TileSizes:
    """Choose the tile for a result of this many rows and columns in every lane."""

    def count(tile: TileSizes) -> int:
        return triton.cdiv(rows, tile.m) * triton.cdiv(columns, tile.n) * lanes

    if count(many) >= 2 * ENOUGH:
        return many
    while count(few) < ENOUGH // 2 and few.m * few.n > 256:
        taller = few.m >= few.n
        few = few._replace(m=few.m // 2) if taller else few._replace(n=few.n // 2)
    return few


def _wide(x: Tensor) -> bool:
    return x.element_size() > 2


def _fit_to_memory(tile: TileSizes, x: Tensor) -> TileSizes:
    """Return the tile, with fewer stages or less depth if shared memory does not hold it."""
    while (tile.m + tile.n) * tile.k * tile.stages * x.element_size() > _shared_memory(x.device):
        if tile.stages > 2:
            tile = tile._replace(stages=tile.stages - 1)
        elif tile.k > 16:
            tile = tile._replace(k=tile.k // 2)
        else:
            break
    return tile


@functools.cache
def _shared_memory(device: torch.device) -> int:
    """Return the bytes of shared memory for tiles, leaving some for results."""
    if device.type != "cuda":
        return 2**17
    properties = torch.cuda.get_device_properties(device)
    shared: int = getattr(properties, "shared_memory_per_block_optin", 2**16)
    return shared - 2**14


def _power_of_two(n: int) -> int:
    """Return the smallest power of two that is at least n and 16."""
    return max(16, triton.next_power_of_2(n))
