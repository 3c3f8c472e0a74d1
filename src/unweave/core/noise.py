"""Randomness as a pure function of (seed, step, stream), the same integers on every device.

A counter-based generator has no state to save: the numbers of step 1000 can be drawn without those
of step 999. So a resumed run draws what the uninterrupted run would have drawn, a lane draws what
the run alone would have drawn, and a GPU draws what a CPU draws.  [Salmon2011]

>>> noise = Noise(seed=3, step=7)
>>> noise.normal((2,), "posterior").tolist() == noise.normal((2,), "posterior").tolist()
True
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from unweave import kernels

_MASK = 0xFFFFFFFF
_MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)  # [Salmon2011] Philox4x32
_WEYL = (0x9E3779B9, 0xBB67AE85)
_ROUNDS = 10


def philox(counter: Sequence[Tensor], key: Sequence[Tensor]) -> tuple[Tensor, ...]:
    """Philox4x32-10: four 32-bit words from a four-word counter and a two-word key.

    Words are int64 tensors holding values in [0, 2^32); all shapes broadcast. A product of two
    words overflows int64, whose wrapped bit pattern is the unsigned product.  [Salmon2011] sec. 3
    """
    c0, c1, c2, c3 = counter
    k0, k1 = key
    for _ in range(_ROUNDS):
        p0, p1 = c0 * _MULTIPLIERS[0], c2 * _MULTIPLIERS[1]
        c0, c1, c2, c3 = (
            ((p1 >> 32) & _MASK) ^ c1 ^ k0,
            p1 & _MASK,
            ((p0 >> 32) & _MASK) ^ c3 ^ k1,
            p0 & _MASK,
        )
        k0, k1 = (k0 + _WEYL[0]) & _MASK, (k1 + _WEYL[1]) & _MASK
    return c0, c1, c2, c3


def philox_words(seed: Tensor, step: Tensor, stream: int, blocks: int) -> Tensor:
    """The words of blocks 0, 1, ... of a stream, (*S, 4, blocks)."""
    index = torch.arange(blocks, device=seed.device)
    seed, step = seed.unsqueeze(-1), step.unsqueeze(-1)
    counter = (index, step & _MASK, (step >> 32) & _MASK, torch.full_like(index, stream))
    return torch.stack(philox(counter, (seed & _MASK, (seed >> 32) & _MASK)), -2)


@torch.library.custom_op("unweave::random_words", mutates_args=())
def _random_words(seed: Tensor, step: Tensor, stream: int, blocks: int) -> Tensor:
    """Words (*S, 4, blocks) for seeds and steps of a common shape S: one call for all lanes."""
    if seed.device.type == "cuda" and kernels.available():
        from unweave.kernels.random import random_words

        return random_words(seed, step, stream, blocks)
    return philox_words(seed, step, stream, blocks)


@_random_words.register_fake
def _(seed: Tensor, step: Tensor, stream: int, blocks: int) -> Tensor:
    return seed.new_empty((*seed.shape, 4, blocks))


@torch.library.custom_op("unweave::random_normal", mutates_args=())
def _random_normal(seed: Tensor, step: Tensor, stream: int, count: int) -> Tensor:
    """Normal numbers (*S, count) for seeds and steps of a common shape S, in float32."""
    if seed.device.type == "cuda" and kernels.available():
        from unweave.kernels.random import random_normal

        return random_normal(seed, step, stream, count)
    half = -(-count // 2)
    words = _random_words(seed, step, stream, -(-half // 2)).flatten(-2)[..., : 2 * half]
    return box_muller(words, torch.float32)[..., :count].contiguous()


@_random_normal.register_fake
def _(seed: Tensor, step: Tensor, stream: int, count: int) -> Tensor:
    return seed.new_empty((*seed.shape, count), dtype=torch.float32)


def _map(operator: Any) -> None:
    """Map an operator over seeds and steps: what is mapped comes first in their common shape."""

    def rule(
        info: object,
        in_dims: tuple[int | None, ...],
        seed: Tensor,
        step: Tensor,
        stream: int,
        count: int,
    ) -> tuple[Tensor, int]:
        seed = seed if in_dims[0] is None else seed.movedim(in_dims[0], 0)
        step = step if in_dims[1] is None else step.movedim(in_dims[1], 0)
        return operator(*torch.broadcast_tensors(seed, step), stream, count), 0

    operator.register_vmap(rule)


_map(_random_words)
_map(_random_normal)


def box_muller(words: Tensor, dtype: torch.dtype) -> Tensor:
    """sqrt(-2 log u) (cos, sin)(2 pi v) of pairs of words (..., 2 n), the n u first."""
    u, v = words.to(dtype).chunk(2, -1)
    angle = v * (2 * math.pi * 2.0**-32)
    radius = torch.sqrt(-2 * torch.log((u + 0.5) * 2.0**-32))
    return torch.cat([radius * torch.cos(angle), radius * torch.sin(angle)], -1)


class Noise(NamedTuple):
    """A source of random tensors at one (seed, step); each stream of it is independent.

    `seed` and `step` are integers or int64 tensors; their common shape S comes first in what is
    drawn, S + shape (S is () for one run, and under vmap).
    `path` names the place in the program, so that nested parts draw from streams of their own.
    """

    seed: int | Tensor
    step: int | Tensor = 0
    path: str = ""
    device: torch.device | str | None = None

    def fold(self, name: str) -> Noise:
        """The same source one level down: its streams are independent of all others."""
        return self._replace(path=f"{self.path}/{name}")

    def words(self, count: int, stream: str) -> Tensor:
        """`count` independent uniform integers in [0, 2^32), as int64."""
        words: Tensor = _random_words(*self._origin(stream), -(-count // 4))
        return words.flatten(-2)[..., :count]

    def _origin(self, stream: str) -> tuple[Tensor, Tensor, int]:
        """Seeds, steps and the number of a stream."""
        seed = torch.as_tensor(self.seed, dtype=torch.int64, device=self.device)
        step = torch.as_tensor(self.step, dtype=torch.int64, device=self.device)
        seed, step = torch.broadcast_tensors(seed, step)
        return seed, step, zlib.crc32(f"{self.path}/{stream}".encode())

    def uniform(
        self, shape: Sequence[int], stream: str, dtype: torch.dtype = torch.float32
    ) -> Tensor:
        """Uniform on the open interval (0, 1)."""
        words = self.words(math.prod(shape), stream)
        # 23 bits and a half step: never 0 nor 1 after rounding to float32.
        return _shaped(((words >> 9).to(dtype) + 0.5) * 2.0**-23, shape)

    def normal(
        self, shape: Sequence[int], stream: str, dtype: torch.dtype = torch.float32
    ) -> Tensor:
        """Standard normal, by Box and Muller: sqrt(-2 log u) (cos, sin)(2 pi v)."""
        count = math.prod(shape)
        if dtype == torch.float32:
            return _shaped(_random_normal(*self._origin(stream), count), shape)
        both = box_muller(self.words(count + count % 2, stream), dtype)
        return _shaped(both[..., :count], shape)

    def integers(self, high: int, shape: Sequence[int], stream: str) -> Tensor:
        """Uniform integers in [0, high), from 64 random bits each (bias below high / 2^64)."""
        if not 0 < high < 2**31:
            raise ValueError(f"expected an upper bound between 1 and 2^31 - 1, got {high}")
        count = math.prod(shape)
        words = self.words(2 * count, stream)
        major, minor = words[..., :count], words[..., count:]
        return _shaped((major * high + ((minor * high) >> 32)) >> 32, shape)

    def permutation(self, size: int, stream: str, rows: int | None = None) -> Tensor:
        """A uniform permutation of 0..size-1; with `rows`, that many independent ones (rows, size).

        The order of 62-bit random keys; ties (probability below size^2 / 2^62) keep their order.
        """
        shape = (size,) if rows is None else (rows, size)
        count = math.prod(shape)
        words = self.words(2 * count, stream)
        keys = ((words[..., :count] >> 1) << 31) | (words[..., count:] >> 1)
        return torch.argsort(_shaped(keys, shape), dim=-1, stable=True)


def _shaped(flat: Tensor, shape: Sequence[int]) -> Tensor:
    return flat.reshape((*flat.shape[:-1], *shape))
