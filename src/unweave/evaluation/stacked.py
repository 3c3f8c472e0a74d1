"""Trained networks of one structure as lanes: one pass over the data for all of them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

import torch
from torch import Tensor
from torch.func import functional_call, vmap

from unweave import kernels
from unweave.data import Dataset
from unweave.objectives import Nets
from unweave.training.flat_parameters import Tensors, stacked
from unweave.training.lanes import vectorises
from unweave.training.precision import products

# Observations of a lane that go through the networks at once, and numbers of them over all lanes:
# on a CPU as many as its caches bear, on a GPU enough to fill it.
_MOST = {"cpu": 2**8, "cuda": 2**12}
_AT_ONCE = {"cpu": 2**25, "cuda": 2**26}

T = TypeVar("T")


@dataclass(frozen=True, eq=False, repr=False)
class StackedModels:
    """L trained networks of one structure, on the device of their weights.

    Batch normalisation is by its running statistics: what comes of an observation does not depend
    on those that come with it. Products are in float32, whatever they were in training.
    """

    nets: Nets  # the structure; the weights they were built with are not used
    weights: Tensors  # parameters and buffers, (L, ...)

    def __len__(self) -> int:
        return len(next(iter(self.weights.values())))

    @property
    def device(self) -> torch.device:
        """Where the networks are."""
        return next(iter(self.weights.values())).device

    @property
    def vectorised(self) -> bool:
        """Whether all lanes are one call, or one call each."""
        return len(self) > 1 and vectorises(self.nets, self.device)

    def chunk(self, shape: Sequence[int]) -> int:
        """How many observations of a shape go through the networks at once: memory is bounded."""
        device = self.device.type
        numbers = math.prod(shape) * (len(self) if self.vectorised else 1)
        at_once = _AT_ONCE.get(device, _AT_ONCE["cuda"])
        return max(1, min(_MOST.get(device, _MOST["cuda"]), at_once // numbers))

    @torch.no_grad()
    def alone(self, lane: int, function: Callable[..., T], *arguments: object) -> T:
        """A function of the networks of one lane."""
        weights = {name: value[lane] for name, value in self.weights.items()}
        with kernels.on(self.device), products("fp32"):
            result: T = functional_call(self.nets, weights, (function, *arguments))
        return result

    @torch.no_grad()
    def together(self, function: Callable[[Nets, Tensor], Tensor], x: Tensor) -> Tensor:
        """A function of networks and numbers x for every lane, (L, ...); all see the same x."""
        if self.vectorised:
            mapped = vmap(lambda w: functional_call(self.nets, w, (function, x)))
            with kernels.on(self.device), products("fp32"):
                lanes: Tensor = mapped(self.weights)
            return lanes
        return torch.stack([self.alone(lane, function, x) for lane in range(len(self))])

    def raw(
        self, dataset: Dataset, index: Tensor, progress: Callable[[int], object] | None = None
    ) -> Tensor:
        """What the encoders put out for observations of the data, (L, N, outputs).

        Observations are read once for all lanes, and results stay on the device; `progress` is told
        how many more codes there are.
        """
        outputs = self.nets.model.latent.outputs
        raw = torch.empty(len(self), len(index), outputs, device=self.device)
        size = self.chunk(dataset.shape)
        for start in range(0, len(index), size):
            part = slice(start, start + size)
            codes = self.together(_encoded, dataset.images(index[part]))
            raw[:, part] = codes
            if progress:
                progress(codes.shape[1] * len(self))
        return raw


def one(nets: Nets, weights: Tensors, device: torch.device) -> StackedModels:
    """The networks of one run."""
    there = {name: stacked([value.to(device)]) for name, value in weights.items()}
    return StackedModels(nets.to(device).eval(), there)


def join(several: Sequence[StackedModels]) -> StackedModels:
    """Networks of one structure and device as the lanes of one."""
    first = several[0]
    if len(several) == 1:
        return first
    lanes = {n: [lane for each in several for lane in each.weights[n]] for n in first.weights}
    return StackedModels(first.nets, {name: stacked(values) for name, values in lanes.items()})


def _encoded(nets: Nets, x: Tensor) -> Tensor:
    return nets.model.raw(x)
