"""Time our convolutions on a GPU against torch's: python benchmarks/convolutions.py [--tiles].

For the layers of Kim & Mnih's network in bfloat16, prints the time of each kernel, its rate, and
how many times as long torch's convolution of the same images takes, as a grouped convolution with a
group for each lane. `--tiles` also tries other tile sizes, and prints the fastest; it builds them
in several processes first.
"""

from __future__ import annotations

import argparse
import itertools
import multiprocessing
import os
import statistics
from collections.abc import Callable, Iterator
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from unweave.kernels import convolution
from unweave.kernels.convolution import TileSizes
from unweave.training.precision import matmul_precision

BATCH, REPEATS, ROUNDS = 64, 5, 7
LAYERS = ((32, 32, 1), (16, 32, 32), (8, 64, 32), (4, 64, 64))  # side, channels of S and of T
KINDS = ("down", "up", "weight_grad")


class Images(NamedTuple):
    """Images and weights of a layer, as `convolution.py` has them."""

    s: Tensor
    t: Tensor
    w: Tensor


def images(layer: tuple[int, int, int], lanes: int) -> Images:
    """Draw images and weights for a layer."""
    side, a, c = layer

    def draw(*shape: int) -> Tensor:
        return torch.randn(*shape, device="cuda").bfloat16()

    s, t = draw(lanes, BATCH, side, side, a), draw(lanes, BATCH, 2 * side, 2 * side, c)
    return Images(s, t, draw(lanes, a, 4, 4, c))


def ours(kind: str, x: Images, tile: TileSizes | None = None) -> Tensor:
    """Compute a convolution with our kernels."""
    if kind == "down":
        return convolution.down(x.t, x.w, tile=tile)[0]
    if kind == "up":
        return convolution.up(x.s, x.w, tile=tile)[0]
    return convolution.weight_grad(x.s, x.t, tile=tile)


def torchs(kind: str, x: Images) -> Callable[[], Tensor]:
    """Return torch's convolution, one group for each lane, on images laid out as it wants them."""
    lanes = len(x.s)

    def grouped(image: Tensor) -> Tensor:
        flat = image.permute(1, 0, 4, 2, 3).flatten(1, 2)
        return flat.contiguous(memory_format=torch.channels_last)

    s, t, w = grouped(x.s), grouped(x.t), x.w.movedim(-1, 2).flatten(0, 1).contiguous()
    shape = [lanes * x.w.shape[1], x.w.shape[-1], 4, 4]
    if kind == "down":
        return lambda: F.conv2d(t, w, None, 2, 1, groups=lanes)
    if kind == "up":
        return lambda: F.conv_transpose2d(s, w, None, 2, 1, groups=lanes)
    return lambda: torch.nn.grad.conv2d_weight(t, shape, s, 2, 1, groups=lanes)


def error(kind: str, x: Images, found: Tensor) -> float:
    """Return the relative error of the first lane, against torch in float32."""
    s, t, w = (part[0].float().movedim(-1, 1) for part in x)
    if kind == "down":
        expected = F.conv2d(t, w, None, 2, 1)
    elif kind == "up":
        expected = F.conv_transpose2d(s, w, None, 2, 1)
    else:
        expected = torch.nn.grad.conv2d_weight(t, w.shape, s, 2, 1)
    first = found[0].float().movedim(-1, 1)
    return ((first - expected).norm() / expected.norm()).item()


def microseconds(function: Callable[[], Tensor]) -> float:
    """Return the time of a call, the median over replays of a CUDA graph of several."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        function()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(REPEATS):
            function()
    times = []
    for _ in range(ROUNDS):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        graph.replay()
        end.record()
        end.synchronize()
        times.append(begin.elapsed_time(end) / REPEATS)
    return 1e3 * statistics.median(times)


def tiles(kind: str, layer: tuple[int, int, int]) -> Iterator[TileSizes]:
    """Yield tile sizes to try."""
    _, a, c = layer
    for warps, stages in itertools.product((4, 8), (1, 2, 3)):
        if kind == "weight_grad":
            for m, n, k in itertools.product((32, 64), (64, 128), (32, 64, 128)):
                if m <= a and n <= 16 * c and m * n <= 8192:
                    yield TileSizes(m, n, k, warps, stages)
        else:
            n, deepest = (a, 4 * c) if kind == "down" else (c, 2 * a)
            for m, k in itertools.product((64, 128, 256), (64, 128)):
                if k <= deepest:
                    yield TileSizes(m, n, k, warps, stages)


def build(work: tuple[str, tuple[int, int, int], TileSizes]) -> None:
    """Build a kernel, so that another process finds it in Triton's cache."""
    kind, layer, tile = work
    try_tile(kind, images(layer, 1), tile)


def try_tile(kind: str, x: Images, tile: TileSizes) -> float:
    """Return the time with a tile, infinite if shared memory does not hold it."""
    try:
        found = error(kind, x, ours(kind, x, tile))
    except Exception as reason:  # of Triton, which has its own kind of error
        if "out of resource" not in str(reason):
            raise
        return float("inf")
    if not found < 1e-2:
        raise ArithmeticError(f"{kind} with {tile} has an error of {found:.3g}")
    return microseconds(lambda: ours(kind, x, tile))


def main() -> None:
    """Print a line for each kernel and layer."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--lanes", type=int, default=20)
    parser.add_argument("--tiles", action="store_true", help="try other tile sizes")
    options = parser.parse_args()
    if not torch.cuda.is_available():
        parser.error("expected a machine with a GPU")
    cases = [(kind, layer) for kind in KINDS for layer in LAYERS]
    if options.tiles:
        work = [(*case, tile) for case in cases if case[1][2] > 1 for tile in tiles(*case)]
        with multiprocessing.get_context("spawn").Pool(os.cpu_count()) as pool:
            pool.map(build, work, chunksize=1)
    with matmul_precision("bf16"):
        for kind, layer in cases:
            x, (side, a, c) = images(layer, options.lanes), layer
            if (found := error(kind, x, ours(kind, x))) > 1e-2:
                raise ArithmeticError(f"{kind} of {layer} has an error of {found:.3g}")
            time = microseconds(lambda kind=kind, x=x: ours(kind, x))
            operations = 32 * options.lanes * BATCH * side**2 * a * c
            print(
                f"{kind:11} {2 * side:2}x{2 * side:<2} to {side:2}x{side:<2}, {c:2} to {a:2} "
                f"channels: {time:6.1f} us, {operations / time / 1e6:4.0f} TFLOP/s, torch takes "
                f"{microseconds(torchs(kind, x)) / time:.1f} times as long"
            )
            if options.tiles and c > 1:
                tried = {tile: try_tile(kind, x, tile) for tile in tiles(kind, layer)}
                for tile in sorted(tried, key=tried.__getitem__)[:4]:
                    print(f"    {tried[tile]:6.1f} us with {tile}")


if __name__ == "__main__":
    main()
