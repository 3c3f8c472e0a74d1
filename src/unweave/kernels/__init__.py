"""Triton kernels for what lanes do most; where they cannot run, torch does the same."""

from __future__ import annotations

import contextlib
import functools
import importlib.util

import torch
from torch import Tensor

__all__ = ["BLOCK", "available", "first_line", "on", "reason", "take"]

BLOCK = 1024  # numbers of flat memory of which every tensor has whole blocks of its own

_OLDEST = (8, 0)  # compute capability: tensor cores that take bfloat16 and TF32


@functools.cache
def reason() -> str | None:
    """Why the kernels cannot run on the GPU of this machine, if it has one and they cannot."""
    if not torch.cuda.is_available():
        return None
    if torch.version.hip:
        return "they are made for NVIDIA's GPUs"
    capability = torch.cuda.get_device_capability()
    if capability < _OLDEST:
        found, least = (".".join(map(str, each)) for each in (capability, _OLDEST))
        return f"this GPU has compute capability {found}, and they need {least}"
    if importlib.util.find_spec("triton") is None:
        return "Triton is not installed"
    try:
        _try()
    except Exception as error:  # whatever keeps Triton from building one keeps it from all
        return f"Triton cannot build them here: {first_line(error)}"
    return None


def first_line(error: Exception) -> str:
    """What an error says first, or its kind where it says nothing."""
    return (str(error).splitlines() or [type(error).__name__])[0]


def _try() -> None:
    """Build and run the smallest of the kernels."""
    from unweave.kernels.sums import added

    added(torch.ones(2, 1, device="cuda"))


def available() -> bool:
    """Whether the kernels can run: an NVIDIA GPU of 2020 or newer, and Triton with a compiler."""
    return torch.cuda.is_available() and reason() is None


def on(device: torch.device) -> contextlib.AbstractContextManager[object]:
    """Inside, kernels and graphs are those of this GPU, which need not be the first one."""
    return torch.cuda.device(device) if device.type == "cuda" else contextlib.nullcontext()


def take(x: Tensor) -> bool:
    """Whether the kernels take a tensor of numbers: on the GPU, in float32 or bfloat16."""
    return x.device.type == "cuda" and x.dtype in (torch.float32, torch.bfloat16) and available()
