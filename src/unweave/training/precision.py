"""GPU matmul precision. Weights, sums, losses and optimiser updates are always in float32."""

import contextlib
from collections.abc import Iterator
from typing import Literal, cast, get_args

import torch

from unweave.core.hints import check_choice

Precision = Literal["fp32", "tf32", "bf16"]


def check_precision(name: str) -> Precision:
    """Return a precision by its name, or raise a ValueError that lists the valid names.

    >>> check_precision("tf32")
    'tf32'
    """
    check_choice("precision", name, get_args(Precision))
    return cast(Precision, name)


def half_precision(
    device: torch.device, precision: Precision
) -> contextlib.AbstractContextManager[object]:
    """Inside this block, layers compute in bfloat16 on a GPU if that is the precision."""
    if precision != "bf16" or device.type != "cuda":
        return contextlib.nullcontext()
    # Weights change from step to step, so every replay of a recorded step has to cast them again.
    return torch.autocast("cuda", torch.bfloat16, cache_enabled=False)


@contextlib.contextmanager
def matmul_precision(precision: Precision) -> Iterator[None]:
    """Inside this block, float32 products use tensor cores (TF32), unless the precision is fp32.

    torch's own convolutions use deterministic algorithms.
    """
    fast = precision != "fp32"
    before = torch.backends.cuda.matmul.allow_tf32
    torch.backends.cuda.matmul.allow_tf32 = fast
    try:
        with torch.backends.cudnn.flags(
            enabled=True, benchmark=False, deterministic=True, allow_tf32=fast
        ):
            yield
    finally:
        torch.backends.cuda.matmul.allow_tf32 = before
