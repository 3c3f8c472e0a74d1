"""The processes that train one run together, each on its own device: `torchrun -m unweave train`.

Every process has the whole state of the run and computes the loss of the whole batch, but applies
networks to its own rows only (`core/row_division.py`). The first process alone reads and writes the
store, prints and measures, and says when to stop.
"""

import atexit
import contextlib
from collections.abc import Iterable, Sequence
from datetime import timedelta
from typing import TypeVar

import torch
import torch.distributed as dist
from torch import Tensor, nn

from unweave.core import torchrun
from unweave.core.row_division import divided_rows, gather_rows, other_processes, own_rows
from unweave.networks import UserModule
from unweave.training.run import Run

T = TypeVar("T")

# The others wait this long for the first process, which writes checkpoints and measures.
_PATIENCE = timedelta(minutes=30)


class Processes:
    """The processes that train together, or this process alone if no device is given."""

    def __init__(self, device: torch.device | None = None) -> None:
        self._device = device
        self.several = device is not None  # also if torchrun started only one
        self.size = dist.get_world_size() if self.several else 1
        self.is_first = not self.several or dist.get_rank() == 0

    def check(self, runs: Sequence[Run]) -> None:
        """Raise a ValueError for runs whose batches cannot be divided among the processes."""
        for run in runs:
            if run.batch_size % self.size:
                raise ValueError(
                    f"batch_size={run.batch_size} cannot be divided among {self.size} processes; "
                    f"use batch_size={-(-run.batch_size // self.size) * self.size}"
                )

    def check_networks(self, nets: nn.Module) -> None:
        """Raise a ValueError for networks that would see too few rows."""
        own = [module for module in nets.modules() if isinstance(module, UserModule)]
        if self.size > 1 and any(module.mixes_rows for module in own):
            raise ValueError(
                "a module of yours computes statistics over a batch, of which each process sees a "
                "part; use unweave.networks.layers.BatchNorm, which knows all of it, or train "
                "without torchrun"
            )

    def divided_rows(self) -> contextlib.AbstractContextManager[None]:
        """Inside this block, all processes compute losses together, each with its own rows."""
        return divided_rows() if self.several else contextlib.nullcontext()

    def own_rows(self, rows: Tensor) -> Tensor:
        """Return this process's part of the rows (L, B) of a batch, (L, B / W)."""
        return own_rows(rows.T).T if self.several else rows

    def gather_rows(self, x: Tensor) -> Tensor:
        """Return the whole batch (L, B, ...) of which each process has a part, (L, B / W, ...)."""
        return gather_rows(x.transpose(0, 1)).transpose(0, 1) if self.several else x

    def mean(self, gradients: list[Tensor]) -> list[Tensor]:
        """Return the mean over processes of each tensor, in float32 and its memory layout."""
        if not self.several:
            return gradients
        flat = torch.cat([gradient.float().flatten() for gradient in gradients])
        with other_processes():
            dist.all_reduce(flat)
        parts = (flat / self.size).split([gradient.numel() for gradient in gradients])
        return [
            torch.empty_like(gradient, dtype=flat.dtype).copy_(part.view(gradient.shape))
            for part, gradient in zip(parts, gradients, strict=True)
        ]

    def any(self, *flags: bool) -> list[bool]:
        """Return for each flag whether it is set in any process."""
        if not self.several:
            return list(flags)
        numbers = torch.tensor(flags, dtype=torch.int32, device=self._device)
        with other_processes():
            dist.all_reduce(numbers, dist.ReduceOp.MAX)
        return numbers.bool().tolist()

    def from_first(self, value: T) -> T:
        """Return the first process's value."""
        if not self.several:
            return value
        values = [value]
        with other_processes():
            dist.broadcast_object_list(values, device=self._device)
        return values[0]

    def copy_from_first(self, tensors: Iterable[Tensor]) -> None:
        """Overwrite tensors with those of the first process."""
        for tensor in tensors if self.several else ():
            dense = tensor.contiguous()
            with other_processes():
                dist.broadcast(dense, 0)
            tensor.copy_(dense)


ALONE = Processes()


def join(device: torch.device) -> tuple[Processes, torch.device]:
    """Join the processes that torchrun started; return them, and the device of this one.

    On CUDA each process of a machine has a device of its own. Without torchrun, this process is
    alone with the device that is given.
    """
    if not torchrun.launched():
        return ALONE, device
    device = _own_device(device)
    on_gpu = device.type == "cuda"
    with other_processes():
        dist.init_process_group(
            "nccl" if on_gpu else "gloo", timeout=_PATIENCE, device_id=device if on_gpu else None
        )
    atexit.register(dist.destroy_process_group)
    return Processes(device), device


def _own_device(device: torch.device) -> torch.device:
    """Return the device of this process; of a machine's GPUs, each process has one."""
    if device.type != "cuda":
        return device
    if device.index is not None:
        raise ValueError(
            f"expected --device cuda under torchrun, which gives every process its own GPU, got "
            f"{device}; choose GPUs with CUDA_VISIBLE_DEVICES"
        )
    here = torch.cuda.device_count()
    if torchrun.local_size() > here:
        raise ValueError(
            f"torchrun started {torchrun.local_size()} processes on a machine with {here} GPUs; "
            f"use --nproc-per-node {here}, or --device cpu"
        )
    return torch.device("cuda", torchrun.local_rank())
