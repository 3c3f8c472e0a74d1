"""Flat buffers for a player's parameters and for the moments of its optimiser."""

import torch
from torch import Tensor

from unweave.core.optimisers import Adam
from unweave.kernels import BLOCK
from unweave.training.memory import shared_zeros

Tensors = dict[str, Tensor]


class FlatParameters:
    """One flat buffer for a player's stacked parameters (L, ...), and one for each moment.

    The parameters are views of the buffer; convolution kernels have their input channels innermost.
    With `half`, a bfloat16 copy of the buffer is kept up to date.
    """

    def __init__(self, values: Tensors, optimiser: Adam, half: bool) -> None:
        self.optimiser = optimiser
        self._shapes = {name: value.shape for name, value in values.items()}
        self.starts: list[int] = []
        end = 0
        for value in values.values():
            self.starts.append(end)
            end += -(-value.numel() // BLOCK) * BLOCK
        device = next(iter(values.values())).device
        self.flat = shared_zeros((end,), device=device)
        self.moments = {name: shared_zeros((end,), device=device) for name in optimiser.moments}
        self.half = torch.zeros_like(self.flat, dtype=torch.bfloat16) if half else None
        for name, view in self.views(self.flat).items():
            view.copy_(values[name])

    def views(self, flat: Tensor) -> Tensors:
        """Return the tensors by name, as views of a buffer laid out like the parameters'."""
        pairs = zip(self._shapes.items(), self.starts, strict=True)
        return {name: _view(flat, start, shape) for (name, shape), start in pairs}

    def refresh(self) -> None:
        """Bring the bfloat16 copy up to date."""
        if self.half is not None:
            self.half.copy_(self.flat)

    def adam_step(self, gradients: list[Tensor], clock: Tensor, updates: int, before: int) -> None:
        """Take step clock * updates + before + 1 of the optimiser with our kernel.

        Gradients are laid out as the parameters, in any type. The bfloat16 copy is updated too.
        """
        from unweave.kernels.adam import adam  # needs Triton

        rule = self.optimiser
        adam(
            self.flat, self.half, self.moments, gradients, self.starts, clock, updates, before,
            rule.lr, rule.betas, rule.eps,
        )  # fmt: skip


def _view(flat: Tensor, start: int, shape: torch.Size) -> Tensor:
    piece = flat[start : start + shape.numel()]
    if len(shape) != 5:
        return piece.view(shape)
    lanes, first, second, *kernel = shape
    return piece.view(lanes, first, *kernel, second).permute(0, 1, 4, 2, 3)


def like_parameter(gradient: Tensor, parameter: Tensor) -> Tensor:
    """Return the gradient in the memory layout of its parameter."""
    if gradient.stride() == parameter.stride():
        return gradient
    return torch.empty_like(parameter, dtype=gradient.dtype).copy_(gradient)


def stack_lanes(values: list[Tensor]) -> Tensor:
    """Stack one tensor of every lane to (L, ...), in the layout of `FlatParameters`."""
    together = torch.stack(values)
    return _view(torch.empty_like(together).flatten(), 0, together.shape).copy_(together)
