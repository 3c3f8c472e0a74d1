"""Triton kernels for what lanes do most; where they cannot run, torch does the same."""

from __future__ import annotations

import functools
import importlib.util

import torch
from torch import Tensor

__all__ = ["available", "take"]

_OLDEST = (8, 0)  # compute capability: tensor cores that take bfloat16 and TF32


@functools.cache
def available() -> bool:
    """Whether the kernels can run: an NVIDIA GPU of 2020 or newer, and Triton."""
    if not torch.cuda.is_available() or torch.version.hip:
        return False
    return (
        torch.cuda.get_device_capability() >= _OLDEST
        and importlib.util.find_spec("triton") is not None
    )


def take(x: Tensor) -> bool:
    """Whether the kernels take a tensor of numbers: on the GPU, in float32 or bfloat16."""
    return x.device.type == "cuda" and x.dtype in (torch.float32, torch.bfloat16) and available()
