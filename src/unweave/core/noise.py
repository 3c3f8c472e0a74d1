"""Random numbers as a pure function of (seed, step, stream), the same on every device.

A counter-based generator has no state: the numbers of step 1000 can be drawn without those of step
999. So a resumed run draws the same numbers as an uninterrupted one, a lane the same as a run on
its own, and a GPU the same integers as a CPU.  [Salmon2011]

>>> noise = Noise(seed=3, step=7)
>>> noise.normal((2,), "posterior").tolist() == noise.normal((2,), "posterior").tolist()
True

A stream is named by the path of the noise and the name given to the draw, as in
"turn0/posterior/gaussian" (a turn is an update). Renaming one changes the numbers of every stored
run that uses it. The paths are (seed and step are 0 unless named):

path         seed     step     used for
-----------  -------  -------  -------------------------------------------------------------------
initial      run      0        initial parameters; the stream is the parameter's name
turn<u>      run      step     the loss of the u-th update of a step: "posterior" (also of a tree,
                               "posterior/<block>"), "prior", "codes", "noise", "permute",
                               "between", "directions"
turn<u>      run      epoch    the order of observations of the u-th update: "epoch", or of a
                               streamed dataset "window" and "last"
labels       0        0        which observations have a label; the stream is the factor's name
chunks       0        epoch    the order in which chunks of a streamed dataset are read
parts        0        0        the division of a dataset into train, validation and test splits
subset       given    0        rows of a `Subset`
incomplete   given    0        combinations of an `Incomplete` selection
correlated   given    0        rows of a `Correlated` selection
pairs        given    row      partners of a paired dataset
scenery      given    row      backgrounds of the variants of 2D Shapes
noise        given    0        tables of noise images; noise of a generator (`draw_noise`)
generators   given    0        datasets of `data/synthetic/paper_generators.py`
spectrum     0        0        rows and start of the principal variances
rows         given    0        observations that a model is evaluated on
measure      given    0        observations that are measured during training
validation   0        row      samples of the held-out loss
sample       given    0        samples of the prior (`FittedModel.sample`)
likelihood   given    row      particles of `FittedModel.log_likelihood`
table        0        0        samples at which rates without a closed form are estimated
summary      given    0        samples of the aggregate posterior
describe     given    0        samples of `describe`
bias         given    0        samples of `theory.bias`
preview      0        0        observations shown in a preview of a dataset
report       0        0        observations shown in a report
explorer     given    0        the order of observations in the explorer, and samples of the prior
quantiles    0        0        samples of priors without a cdf
traversal    0        0        samples that give the range of a traversal without a finite variance
export       0        0        inputs with which an exported network is checked

Studies of papers have paths of their own. Distributions draw from streams named after them, such as
"gaussian", "gumbel" or "laplace".
"""

import math
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, NamedTuple, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from unweave import kernels

_MASK = 0xFFFFFFFF
_MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)  # [Salmon2011] Philox4x32
_WEYL = (0x9E3779B9, 0xBB67AE85)
_ROUNDS = 10
Words = NDArray[Any]
_LOW, _HALF = np.uint64(_MASK), np.uint64(32)
_BOTH_MULTIPLIERS = np.array(_MULTIPLIERS, np.uint64)[:, None]
_KEYS = np.arange(_ROUNDS, dtype=np.uint64)[:, None, None] * np.array(_WEYL, np.uint64)[:, None]

_Draw = Callable[[Tensor, Tensor, int, int], Tensor]


def philox(counter: Sequence[Any], key: Sequence[Any]) -> tuple[Any, ...]:
    """Philox4x32-10: four 32-bit words from a four-word counter and a two-word key.

    Words are int64 tensors or arrays holding values in [0, 2^32); all shapes broadcast. A product
    of two words overflows int64, whose wrapped bit pattern is the unsigned product.  [Salmon2011]
    sec. 3
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
    """Return the words of blocks 0, 1, ... of a stream, (*S, 4, blocks)."""
    if seed.device.type == "cpu":
        return torch.from_numpy(_philox_numpy(seed.numpy(), step.numpy(), stream, blocks))
    index = torch.arange(blocks, device=seed.device)
    seed, step = seed.unsqueeze(-1), step.unsqueeze(-1)
    counter = (index, step & _MASK, (step >> 32) & _MASK, torch.full_like(index, stream))
    key = (seed & _MASK, (seed >> 32) & _MASK)
    return torch.stack(philox(counter, key), -2)


def _philox_numpy(seed: Words, step: Words, stream: int, blocks: int) -> Words:
    """Compute `philox_words` with numpy, which is several times as fast as torch for small draws.

    `left` has the words c0 and c2 of the counter as rows and `right` c1 and c3, so that each
    operation of a round computes both. Words are unsigned here, and the arrays are reused.
    """
    shape = (*seed.shape, 2, blocks)
    seed, step = seed.view(np.uint64), step.view(np.uint64)
    left, right, products = (np.empty(shape, np.uint64) for _ in range(3))
    left[..., 0, :], left[..., 1, :] = np.arange(blocks), (step >> _HALF)[..., None]
    right[..., 0, :], right[..., 1, :] = (step & _LOW)[..., None], stream
    key = np.stack([seed & _LOW, seed >> _HALF], -1)[..., None]
    swapped = products[..., ::-1, :]
    for number in range(_ROUNDS):
        np.multiply(left, _BOTH_MULTIPLIERS, out=products)
        np.right_shift(swapped, _HALF, out=left)
        np.bitwise_xor(left, right, out=left)
        np.bitwise_xor(left, (key + _KEYS[number]) & _LOW, out=left)
        np.bitwise_and(swapped, _LOW, out=right)
    return np.stack([left, right], -2).reshape(*seed.shape, 4, blocks).view(np.int64)


def _define(name: str, empty: _Draw) -> Callable[[_Draw], _Draw]:
    """Make a function an operator that vmap calls once, for seeds and steps of a common shape.

    `empty` returns a result of the same shape. `torch.library.custom_op` would load torch's
    compiler at the first draw, which takes seconds.
    """

    def register(draw: _Draw) -> _Draw:
        signature = "(Tensor seed, Tensor step, int stream, int count) -> Tensor"
        torch.library.define(name, signature, tags=torch.Tag.pt2_compliant_tag)
        torch.library.impl(name, "default")(draw)
        torch.library.register_fake(name)(empty)
        operator: _Draw = getattr(torch.ops.unweave, name.partition("::")[2])
        torch.library.register_vmap(name, partial(_map, operator))
        return operator

    return register


def _map(
    operator: _Draw, info: object, in_dims: tuple[int | None, ...], *arguments: Any
) -> tuple[Tensor, int]:
    """Add the dimension of vmap in front of the common shape of seeds and steps."""
    seed, step = (
        each if dim is None else each.movedim(dim, 0)
        for each, dim in zip(arguments[:2], in_dims[:2], strict=True)
    )
    return operator(*torch.broadcast_tensors(seed, step), *arguments[2:]), 0


@_define("unweave::random_words", lambda seed, step, stream, n: seed.new_empty((*seed.shape, 4, n)))
def _random_words(seed: Tensor, step: Tensor, stream: int, blocks: int) -> Tensor:
    """Draw words (*S, 4, blocks) for seeds and steps of a common shape S, for all lanes at once."""
    if seed.device.type == "cuda" and kernels.available():
        from unweave.kernels.random import random_words

        return random_words(seed, step, stream, blocks)
    return philox_words(seed, step, stream, blocks)


@_define(
    "unweave::random_normal",
    lambda seed, step, stream, n: seed.new_empty((*seed.shape, n), dtype=torch.float32),
)
def _random_normal(seed: Tensor, step: Tensor, stream: int, count: int) -> Tensor:
    """Draw normal numbers (*S, count) in float32 for seeds and steps of a common shape S."""
    if seed.device.type == "cuda" and kernels.available():
        from unweave.kernels.random import random_normal

        return random_normal(seed, step, stream, count)
    half = -(-count // 2)
    words = _random_words(seed, step, stream, -(-half // 2)).flatten(-2)[..., : 2 * half]
    return box_muller(words, torch.float32)[..., :count].contiguous()


def box_muller(words: Tensor, dtype: torch.dtype) -> Tensor:
    """Return sqrt(-2 log u) (cos, sin)(2 pi v) of words (..., 2 n): n for u, then n for v."""
    u, v = words.to(dtype).chunk(2, -1)
    angle = v * (2 * math.pi * 2.0**-32)
    radius = torch.sqrt(-2 * torch.log((u + 0.5) * 2.0**-32))
    return torch.cat([radius * torch.cos(angle), radius * torch.sin(angle)], -1)


class Noise(NamedTuple):
    """A source of random tensors at one (seed, step), with independent named streams.

    `seed` and `step` are integers or int64 tensors; a draw has their common shape S in front,
    S + shape (S is () for one run, and under vmap). `path` is the first part of every stream's
    name; the module's docstring lists the paths in use.
    """

    seed: int | Tensor
    step: int | Tensor = 0
    path: str = ""
    device: torch.device | str | None = None

    def fold(self, name: str) -> Self:
        """Return the source with a longer path, whose streams are independent of all others."""
        return self._replace(path=f"{self.path}/{name}")

    def words(self, count: int, stream: str) -> Tensor:
        """Draw `count` independent uniform integers in [0, 2^32), as int64."""
        words: Tensor = _random_words(*self._counter(stream), -(-count // 4))
        return words.flatten(-2)[..., :count]

    def _counter(self, stream: str) -> tuple[Tensor, Tensor, int]:
        """Return seeds, steps and the number of a stream."""
        seed = torch.as_tensor(self.seed, dtype=torch.int64, device=self.device)
        step = torch.as_tensor(self.step, dtype=torch.int64, device=self.device)
        seed, step = torch.broadcast_tensors(seed, step)
        return seed, step, zlib.crc32(f"{self.path}/{stream}".encode())

    def uniform(
        self, shape: Sequence[int], stream: str, dtype: torch.dtype = torch.float32
    ) -> Tensor:
        """Draw from the uniform distribution on the open interval (0, 1)."""
        words = self.words(math.prod(shape), stream)
        # 23 bits and a half step: never 0 nor 1 after rounding to float32.
        return _shaped(((words >> 9).to(dtype) + 0.5) * 2.0**-23, shape)

    def normal(
        self, shape: Sequence[int], stream: str, dtype: torch.dtype = torch.float32
    ) -> Tensor:
        """Draw from the standard normal distribution, with the Box-Muller transform."""
        count = math.prod(shape)
        if dtype == torch.float32:
            return _shaped(_random_normal(*self._counter(stream), count), shape)
        both = box_muller(self.words(count + count % 2, stream), dtype)
        return _shaped(both[..., :count], shape)

    def integers(self, high: int, shape: Sequence[int], stream: str) -> Tensor:
        """Draw uniform integers in [0, high), from 64 random bits each (bias < high / 2^64)."""
        if not 0 < high < 2**31:
            raise ValueError(f"expected an upper bound between 1 and 2^31 - 1, got {high}")
        count = math.prod(shape)
        words = self.words(2 * count, stream)
        major, minor = words[..., :count], words[..., count:]
        return _shaped((major * high + ((minor * high) >> 32)) >> 32, shape)

    def permutation(self, size: int, stream: str, rows: int | None = None) -> Tensor:
        """Draw a uniform permutation of 0..size-1, or with `rows` independent ones (rows, size).

        It sorts 62-bit random keys; ties (probability below size^2 / 2^62) keep their order.
        """
        shape = (size,) if rows is None else (rows, size)
        count = math.prod(shape)
        words = self.words(2 * count, stream)
        keys = ((words[..., :count] >> 1) << 31) | (words[..., count:] >> 1)
        return torch.argsort(_shaped(keys, shape), dim=-1, stable=True)


def _shaped(flat: Tensor, shape: Sequence[int]) -> Tensor:
    return flat.reshape((*flat.shape[:-1], *shape))


@contextmanager
def seeded(seed: int = 0) -> Iterator[None]:
    """Let torch's own random numbers on the CPU start at a seed, and restore the caller's."""
    before = torch.get_rng_state()
    torch.default_generator.manual_seed(seed)
    try:
        yield
    finally:
        torch.set_rng_state(before)
