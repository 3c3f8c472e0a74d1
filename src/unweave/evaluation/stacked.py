"""Trained networks of one structure, stacked, so that one pass over the data serves all of them."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TypeVar

import torch
from torch import Tensor
from torch.func import functional_call, vmap

from unweave import kernels
from unweave.data import Dataset
from unweave.objectives import Nets
from unweave.training.flat_parameters import Tensors, stack_lanes
from unweave.training.precision import matmul_precision
from unweave.training.step import can_vectorise

# The most observations that go through the networks of a lane at once, and the most numbers in them
# over all lanes: on a CPU as many as fit into its caches, on a GPU enough to keep it busy.
_MOST = {"cpu": 2**8, "cuda": 2**12}
_AT_ONCE = {"cpu": 2**25, "cuda": 2**26}

T = TypeVar("T")


@dataclass(frozen=True, eq=False, repr=False)
class StackedModels:
    """L trained networks of one structure, on the device of their weights.

    Batch normalisation uses its running statistics, so the result for an observation does not
    depend on the rest of the batch. Products are in float32, whatever they were in training.
    """

    nets: Nets  # the structure; its own weights are not used
    weights: Tensors  # parameters and buffers, (L, ...)

    def __len__(self) -> int:
        return len(next(iter(self.weights.values())))

    @property
    def device(self) -> torch.device:
        """The device of the weights."""
        return next(iter(self.weights.values())).device

    @property
    def vectorised(self) -> bool:
        """Whether one call computes all lanes."""
        return len(self) > 1 and can_vectorise(self.nets, self.device)

    def chunk(self, shape: Sequence[int]) -> int:
        """Return how many observations of a shape go through the networks at once."""
        device = self.device.type
        numbers = math.prod(shape) * (len(self) if self.vectorised else 1)
        at_once = _AT_ONCE.get(device, _AT_ONCE["cuda"])
        return max(1, min(_MOST.get(device, _MOST["cuda"]), at_once // numbers))

    def to(self, device: torch.device) -> StackedModels:
        """Copy the networks to a device; return them as they are if they are on it."""
        if device == self.device:
            return self
        weights = {name: value.to(device) for name, value in self.weights.items()}
        return StackedModels(copy.deepcopy(self.nets).to(device), weights)

    @cached_property
    def _buffers(self) -> set[str]:
        return self.weights.keys() - dict(self.nets.named_parameters()).keys()

    def _weights(self) -> Tensors:
        """Return the weights with copies of buffers, to which a user's module may write."""
        return self.weights | {name: self.weights[name].clone() for name in self._buffers}

    @torch.no_grad()
    def alone(self, lane: int, function: Callable[..., T], *arguments: object) -> T:
        """Call `function(nets, *arguments)` with the networks of one lane."""
        weights = {name: value[lane] for name, value in self._weights().items()}
        with kernels.on(self.device), matmul_precision("fp32"):
            result: T = functional_call(self.nets, weights, (function, *arguments))
        return result

    @torch.no_grad()
    def together(self, function: Callable[[Nets, Tensor], Tensor], x: Tensor) -> Tensor:
        """Call `function(nets, x)` with the networks of every lane on the same x, (L, ...)."""
        if self.vectorised:
            mapped = vmap(lambda w: functional_call(self.nets, w, (function, x)))
            with kernels.on(self.device), matmul_precision("fp32"):
                lanes: Tensor = mapped(self._weights())
            return lanes
        return torch.stack([self.alone(lane, function, x) for lane in range(len(self))])

    def raw(
        self, dataset: Dataset, index: Tensor, progress: Callable[[int], object] | None = None
    ) -> Tensor:
        """Return the encoders' outputs for observations of the data, (L, N, outputs).

        Observations are read once for all lanes, and results stay on the device. `progress` is
        called with the number of codes in each chunk.
        """
        outputs = self.nets.model.latent.outputs
        raw = torch.empty(len(self), len(index), outputs, device=self.device)
        size = self.chunk(dataset.shape)
        for start in range(0, len(index), size):
            part = slice(start, start + size)
            codes = self.together(lambda nets, x: nets.model.raw(x), dataset.images(index[part]))
            raw[:, part] = codes
            if progress:
                progress(codes.shape[1] * len(self))
        return raw


def stack_one(nets: Nets, weights: Tensors, device: torch.device) -> StackedModels:
    """Stack the networks of a single run."""
    on_device = {name: stack_lanes([value.to(device)]) for name, value in weights.items()}
    return StackedModels(nets.to(device).eval(), on_device)


def join(several: Sequence[StackedModels]) -> StackedModels:
    """Join networks of one structure and device."""
    first = several[0]
    if len(several) == 1:
        return first
    lanes = {n: [lane for each in several for lane in each.weights[n]] for n in first.weights}
    return StackedModels(first.nets, {name: stack_lanes(values) for name, values in lanes.items()})
