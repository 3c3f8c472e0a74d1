"""Memory: whether a run fits, what processes share, and what is reused from step to step."""

from __future__ import annotations

import contextlib
import ctypes
import math
import mmap
import sys
from collections.abc import Iterator

import torch
from torch import Tensor, nn

from unweave.core.memory import main_memory

_CPU = torch.device("cpu")
_TRIM, _MAP = -1, -3  # glibc's M_TRIM_THRESHOLD and M_MMAP_THRESHOLD
_REUSED = 2**30  # bytes
_COPIES = 4  # of each parameter: its gradient and two moments beside it
_DEFAULT = {_MAP: 2**25, _TRIM: 2**26}  # the largest values that glibc chooses by itself


@contextlib.contextmanager
def reuse_memory(device: torch.device) -> Iterator[None]:
    """Inside, memory that a step on the CPU frees stays with the process for the next step.

    By default glibc returns large blocks to the system, which clears every page again: a beta-VAE
    step on one core took 93 ms that way and 80 ms with reuse. Systems without glibc are unchanged.
    """
    library = ctypes.CDLL(None) if sys.platform == "linux" and device.type == "cpu" else None
    if library is None or not hasattr(library, "mallopt"):
        yield
        return
    for parameter, default in _DEFAULT.items():
        # Setting one stops glibc from raising the other; versions before 2.35 reject large values.
        if not library.mallopt(parameter, _REUSED):
            library.mallopt(parameter, default)
    try:
        yield
    finally:
        for parameter, default in _DEFAULT.items():
            library.mallopt(parameter, default)
        library.malloc_trim(0)


def check_memory(nets: nn.Module, batch: int, device: torch.device) -> None:
    """Refuse networks that cannot fit, before they are built.

    Args:
        nets: the networks of a run, on any device, such as "meta".
        batch: numbers that a batch has besides.
        device: where they would be trained.
    """
    needed, there = least_memory(nets, batch), device_memory(device)
    if needed > there:
        parameters = sum(parameter.numel() for parameter in nets.parameters())
        raise ValueError(
            f"a run with {parameters:,} parameters and this batch needs at least "
            f"{needed / 2**30:,.0f} GiB, and {device} has {there / 2**30:,.0f}: make the latent "
            "space, the networks or the batch smaller"
        )


def least_memory(nets: nn.Module, batch: int) -> int:
    """Return the bytes that training networks surely takes, with `batch` numbers besides."""
    return 4 * (_COPIES * sum(parameter.numel() for parameter in nets.parameters()) + batch)


def device_memory(device: torch.device) -> int:
    """Return the bytes of memory that a device has in all."""
    if device.type == "cuda":
        return int(torch.cuda.get_device_properties(device).total_memory)
    return main_memory()


def shared(tensor: Tensor) -> Tensor:
    """Copy a CPU tensor to memory that forked processes share; return a GPU tensor as it is."""
    if tensor.device.type != "cpu":
        return tensor
    return shared_zeros(tensor.shape, tensor.dtype, tensor.device).copy_(tensor)


def shared_zeros(
    shape: tuple[int, ...], dtype: torch.dtype = torch.float32, device: torch.device = _CPU
) -> Tensor:
    """Allocate zeros, on the CPU in memory that forked processes share.

    The memory is anonymous: containers often limit /dev/shm to a few megabytes.
    """
    if sys.platform != "linux" or device.type != "cpu" or not (count := math.prod(shape)):
        return torch.zeros(shape, dtype=dtype, device=device)
    memory = mmap.mmap(-1, count * dtype.itemsize)  # starts as zeros
    return torch.frombuffer(memory, dtype=dtype).view(shape)
