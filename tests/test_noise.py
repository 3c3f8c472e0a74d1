"""Noise: published vectors, distribution, and independence of seeds, steps and streams."""

import ast
import math
import re
from pathlib import Path

import pytest
import torch
from scipy import stats

from unweave.core import noise
from unweave.core.noise import Noise, philox

# Known answers of the authors' Random123 distribution for philox4x32-10.
VECTORS = [
    ("00000000 00000000 00000000 00000000", "00000000 00000000",
     "6627e8d5 e169c58d bc57ac4c 9b00dbd8"),
    ("ffffffff ffffffff ffffffff ffffffff", "ffffffff ffffffff",
     "408f276d 41c83b0e a20bc7c6 6d5451fd"),
    ("243f6a88 85a308d3 13198a2e 03707344", "a4093822 299f31d0",
     "d16cfe09 94fdcceb 5001e420 24126ea1"),
]  # fmt: skip


def words(text):
    return [torch.tensor(int(word, 16)) for word in text.split()]


@pytest.mark.parametrize(("counter", "key", "expected"), VECTORS)
def test_philox_gives_the_published_words(counter, key, expected):
    assert [int(w) for w in philox(words(counter), words(key))] == [int(w) for w in words(expected)]


@pytest.mark.parametrize("shape", [(), (1,), (3,), (2, 5)])
def test_words_on_a_cpu_are_those_of_philox(shape):
    """Block by block, for large and negative seeds."""
    seed, step = (torch.randint(-(2**62), 2**62, shape) for _ in range(2))
    low, high = seed & (2**32 - 1), (seed >> 32) & (2**32 - 1)
    steps = [step & (2**32 - 1), (step >> 32) & (2**32 - 1)]
    for blocks in (1, 2, 7):
        found = noise.philox_words(seed, step, 2**32 - 1, blocks)
        assert (found.shape, found.dtype) == ((*shape, 4, blocks), torch.int64)
        for block in range(blocks):
            counter = [torch.full(shape, block), *steps, torch.full(shape, 2**32 - 1)]
            expected = philox(counter, [low, high])
            assert torch.equal(found[..., block], torch.stack(expected, -1))


def test_words_are_a_pure_function_of_seed_step_and_stream():
    draw = Noise(3, 5).words(100, "a")
    assert torch.equal(draw, Noise(3, 5).words(100, "a"))
    others = [Noise(4, 5).words(100, "a"), Noise(3, 6).words(100, "a"), Noise(3, 5).words(100, "b"),
              Noise(3, 5).fold("x").words(100, "a"), Noise(3 + 2**32, 5).words(100, "a"),
              Noise(3, 5 + 2**32).words(100, "a")]  # fmt: skip
    assert all((draw == other).sum() == 0 for other in others)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_uniform_has_the_right_distribution(dtype):
    u = Noise(1).uniform((200_000,), "u", dtype).double()
    assert u.min() > 0
    assert u.max() < 1
    assert stats.kstest(u.numpy(), "uniform").pvalue > 1e-3


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_normal_has_the_right_distribution(dtype):
    z = Noise(2).normal((200_000,), "z", dtype).double()
    assert stats.kstest(z.numpy(), "norm").pvalue > 1e-3
    moments = [z.mean(), z.var() - 1, (z**3).mean(), (z**4).mean() - 3]
    errors = [1, math.sqrt(2), math.sqrt(15), math.sqrt(96)]
    for moment, error in zip(moments, errors, strict=True):
        assert abs(moment) < 4 * error / math.sqrt(len(z))
    halves = z.reshape(2, -1)  # both come from the same radii
    assert abs(torch.corrcoef(halves)[0, 1]) < 4 / math.sqrt(halves.shape[1])
    assert abs(torch.corrcoef(halves.square())[0, 1]) < 4 / math.sqrt(halves.shape[1])


@pytest.mark.parametrize("high", [1, 2, 7, 737_280, 2**31 - 1])
def test_integers_are_uniform(high):
    n = Noise(3).integers(high, (100_000,), "n")
    assert n.min() >= 0
    assert n.max() < high
    if high <= 7:
        counts = torch.bincount(n, minlength=high)
        assert high == 1 or stats.chisquare(counts.numpy()).pvalue > 1e-3
    else:
        assert stats.kstest((n.double() / high).numpy(), "uniform").pvalue > 1e-3


def test_integers_refuse_an_impossible_bound():
    for high in (0, -1, 2**31):
        with pytest.raises(ValueError, match="upper bound"):
            Noise(0).integers(high, (1,), "n")


def test_permutations_are_permutations_and_uniform():
    rows = Noise(4).permutation(4, "p", rows=24_000)
    assert torch.equal(rows.sort(-1).values, torch.arange(4).expand(24_000, 4))
    number = (rows * torch.tensor([64, 16, 4, 1])).sum(-1)
    counts = torch.unique(number, return_counts=True)[1]
    assert len(counts) == 24
    assert stats.chisquare(counts.numpy()).pvalue > 1e-3
    large = Noise(5).permutation(100_003, "p")
    assert torch.equal(large.sort().values, torch.arange(100_003))


@pytest.mark.parametrize("axis", ["seed", "step", "stream", "path"])
def test_neighbouring_draws_are_independent(axis):
    def source(i):
        return {
            "seed": lambda: Noise(i).normal((2_000,), "z"),
            "step": lambda: Noise(0, i).normal((2_000,), "z"),
            "stream": lambda: Noise(0).normal((2_000,), f"z{i}"),
            "path": lambda: Noise(0).fold(str(i)).normal((2_000,), "z"),
        }[axis]()

    z = torch.stack([source(i) for i in range(40)])
    correlation = torch.corrcoef(z)[~torch.eye(40, dtype=torch.bool)]
    assert correlation.abs().max() < 5 / math.sqrt(2_000)
    assert stats.kstest(z.mean(0).numpy() * math.sqrt(40), "norm").pvalue > 1e-3


def test_lanes_draw_what_each_would_draw_alone():
    seeds = torch.tensor([0, 7, 2**40 + 1])
    draws = [
        lambda n: n.normal((3, 5), "a"),
        lambda n: n.uniform((4,), "b"),
        lambda n: n.integers(10, (6,), "c"),
        lambda n: n.permutation(9, "d", rows=2),
    ]
    for draw in draws:
        alone = torch.stack([draw(Noise(int(seed), 11)) for seed in seeds])
        mapped = torch.func.vmap(lambda seed, draw=draw: draw(Noise(seed, 11)))(seeds)
        assert torch.equal(alone, mapped)
        assert torch.equal(alone, draw(Noise(seeds, 11)))


@pytest.mark.gpu
def test_cuda_draws_the_same_integers():
    here, there = Noise(5, 9, device="cpu"), Noise(5, 9, device="cuda")
    assert torch.equal(here.words(10_007, "w"), there.words(10_007, "w").cpu())
    assert torch.equal(here.permutation(10_007, "p"), there.permutation(10_007, "p").cpu())
    assert torch.equal(here.uniform((10_007,), "u"), there.uniform((10_007,), "u").cpu())
    torch.testing.assert_close(here.normal((10_007,), "z"), there.normal((10_007,), "z").cpu())


def test_every_path_of_a_stream_is_documented():
    """Except those of studies, and those that only tests use."""
    documented = set(re.findall(r"^([a-z]+)(?:<u>)?  ", noise.__doc__, re.M))
    source = Path(noise.__file__).parent.parent
    used = set()
    for file in source.rglob("*.py"):
        if "papers" in file.parts:
            continue
        for call in ast.walk(ast.parse(file.read_text())):
            if isinstance(call, ast.Call) and ast.unparse(call.func) == "Noise":
                used |= {ast.literal_eval(a) for a in call.args[2:3] if isinstance(a, ast.Constant)}
    assert used <= documented
    assert documented - used == {"path", "turn"}
