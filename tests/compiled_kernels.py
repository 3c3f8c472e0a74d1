"""Compile convolutions for a GPU, without one, and print how they load images: a JSON list.

A process of its own, because in the tests' process kernels are interpreted.
"""

import json
import re

import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from unweave.kernels import convolution

LAYERS = ((16, 32, 32), (4, 64, 64))  # side and channels of the small image, channels of the big
BATCH, LANES = 64, 64
TYPES = {name: "*bf16" for name in ("s", "t", "w", "mask")} | {
    "bias": "*fp32", "sums": "*fp32", "pixels": "i32", "share": "i32",
}  # fmt: skip


def assembly(kernel, tile, constants):
    """Return the PTX of a kernel with bfloat16 images."""
    constants = {"M": tile.m, "N": tile.n, "K": tile.k, "PRECISION": "ieee", **constants}
    names = kernel.arg_names
    signature = {name: TYPES.get(name, "constexpr") for name in names}
    aligned = {
        (place,): [["tt.divisibility", 16]]
        for place, name in enumerate(names)
        if signature[name].startswith("*")
    }
    values = {(names.index(name),): value for name, value in constants.items()}
    source = ASTSource(kernel, signature, values, aligned)
    options = {"num_warps": tile.warps, "num_stages": tile.stages}
    return triton.compile(source, GPUTarget("cuda", 90, 32), options).asm["ptx"]


def kernels():
    """Yield kernels with their tiles and constants, for layers of Kim & Mnih's network.

    Each way in which they compute addresses of many channels is among them: tiles of several taps
    and of one.
    """
    for side, a, c in LAYERS:
        rows, sizes = BATCH * side**2, {"H": side, "W": side, "A": a, "C": c}
        forward = sizes | {"BIASED": True, "ACTIVATE": True, "MASKED": False}
        down = convolution._down_tile(rows, a, c, LANES, False)
        yield convolution._down_kernel, down, forward
        up = convolution._up_tile(rows, c, a, LANES, False)
        yield convolution._up_kernel, up, forward
    gradient = convolution._weight_grad_tile(a, c, False)
    yield convolution._weight_grad_kernel, gradient, sizes | {"PARTS": 3}


if __name__ == "__main__":
    rows = []
    for kernel, tile, constants in kernels():
        code = assembly(kernel, tile, constants)
        narrow, wide = (len(re.findall(p, code)) for p in (r"ld\.global\S*\.b16", r"cp\.async\.cg"))
        rows.append([kernel.__name__, constants["H"], narrow, wide])
    print(json.dumps(rows))
