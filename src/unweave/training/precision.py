"""How exactly products are taken on a GPU. Weights, sums, losses and updates are in float32."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Literal, cast, get_args

import torch

from unweave.core.spec import nearest

Precision = Literal["fp32", "tf32", "bf16"]


def checked(name: str) -> Precision:
    """A precision by its name.

    >>> checked("tf32")
    'tf32'
    """
    for known in get_args(Precision):
        if name == known:
            return cast(Precision, name)
    raise ValueError(f"precision {name!r} is not known: {nearest(name, get_args(Precision))}")


def half_precision(
    device: torch.device, precision: Precision
) -> contextlib.AbstractContextManager[object]:
    """Inside, layers take and give bfloat16 if that is the precision, and the device is a GPU."""
    if precision != "bf16" or device.type != "cuda":
        return contextlib.nullcontext()
    # Weights change from step to step: what a recorded step casts must be cast in every replay.
    return torch.autocast("cuda", torch.bfloat16, cache_enabled=False)


@contextlib.contextmanager
def products(precision: Precision) -> Iterator[None]:
    """Inside, float32 products are on tensor cores (TF32) unless the precision is fp32.

    Convolutions that are torch's are by kernels that give the same bits every time.
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
