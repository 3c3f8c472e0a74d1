"""Triton kernels for the most frequent operations; without a suitable GPU, torch is used."""

import contextlib
import functools
import importlib.util

import torch
from torch import Tensor

__all__ = ["BLOCK", "available", "on", "supports", "unavailable_reason"]

BLOCK = 1024  # every tensor in flat memory starts at a multiple of this many numbers

_OLDEST = (8, 0)  # compute capability: tensor cores that take bfloat16 and TF32


@functools.cache
def unavailable_reason() -> str | None:
    """Return why the kernels cannot run on this machine's GPU; None if they can, or without GPU."""
    if not torch.cuda.is_available():
        return None
    if torch.version.hip:
        return "they are made for NVIDIA's GPUs"
    capability = torch.cuda.get_device_capability()
    if capability < _OLDEST:
        has, needs = (".".join(map(str, each)) for each in (capability, _OLDEST))
        return f"this GPU has compute capability {has}, and they need {needs}"
    if importlib.util.find_spec("triton") is None:
        return "Triton is not installed"
    try:
        _run_smallest()
    except Exception as error:  # if Triton cannot build this one, it cannot build the others
        why = str(error).partition("\n")[0] or type(error).__name__
        return f"Triton cannot build them here: {why}"
    return None


def _run_smallest() -> None:
    from unweave.kernels.sums import sum_parts

    sum_parts(torch.ones(2, 1, device="cuda"))


def available() -> bool:
    """Return whether the kernels can run: an NVIDIA GPU of 2020 or newer, and a working Triton."""
    return torch.cuda.is_available() and unavailable_reason() is None


def on(device: torch.device) -> contextlib.AbstractContextManager[object]:
    """Inside this block, kernels and CUDA graphs run on this GPU, even if it is not the first."""
    return torch.cuda.device(device) if device.type == "cuda" else contextlib.nullcontext()


def supports(x: Tensor) -> bool:
    """Return whether the kernels take this tensor: on the GPU, in float32 or bfloat16."""
    return x.device.type == "cuda" and x.dtype in (torch.float32, torch.bfloat16) and available()
