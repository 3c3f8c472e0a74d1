"""Memory on the CPU: of a state that processes share, and of steps, kept between them."""

from __future__ import annotations

import contextlib
import ctypes
import math
import mmap
import sys
from collections.abc import Iterator

import torch
from torch import Tensor

_CPU = torch.device("cpu")
_TRIM, _MAP = -1, -3  # glibc's M_TRIM_THRESHOLD and M_MMAP_THRESHOLD
_KEPT = 2**30  # bytes
_MOST = {_MAP: 2**25, _TRIM: 2**26}  # the largest that glibc sets by itself, as blocks are freed


@contextlib.contextmanager
def memory_kept(device: torch.device) -> Iterator[None]:
    """Inside, what a step on the CPU frees stays with the process, for the next step to take.

    Otherwise glibc hands large blocks back to the system, which clears every page of them anew: a
    step of a beta-VAE on one core took 93 ms so, and 80 kept. Other systems are left as they are.
    """
    library = ctypes.CDLL(None) if sys.platform == "linux" and device.type == "cpu" else None
    if library is None or not hasattr(library, "mallopt"):
        yield
        return
    for parameter, most in _MOST.items():
        # Setting one stops glibc from raising the other; versions before 2.35 refuse large ones.
        if not library.mallopt(parameter, _KEPT):
            library.mallopt(parameter, most)
    try:
        yield
    finally:
        for parameter, most in _MOST.items():
            library.mallopt(parameter, most)
        library.malloc_trim(0)


def shared(tensor: Tensor) -> Tensor:
    """A copy in memory that processes forked from this one have in common; on a GPU, itself."""
    if tensor.device.type != "cpu":
        return tensor
    return shared_zeros(tensor.shape, tensor.dtype, tensor.device).copy_(tensor)


def shared_zeros(
    shape: tuple[int, ...], dtype: torch.dtype = torch.float32, device: torch.device = _CPU
) -> Tensor:
    """Zeros in memory that processes forked from this one have in common; on a GPU, in its own.

    It has no name in the file system, whose share of memory containers keep small.
    """
    if sys.platform != "linux" or device.type != "cpu" or not (count := math.prod(shape)):
        return torch.zeros(shape, dtype=dtype, device=device)
    memory = mmap.mmap(-1, count * dtype.itemsize)  # which begins as zeros
    return torch.frombuffer(memory, dtype=dtype).view(shape)
