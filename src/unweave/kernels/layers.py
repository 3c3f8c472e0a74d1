"""The convolutions of `convolution.py` as functions that torch can differentiate and map.

Images are (B, channels, height, width) and weights (A, C, 4, 4) as torch has them, or with a
dimension of lanes in front of all; in memory channels are innermost. A dimension that is mapped
over is one of lanes.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function

from unweave.kernels import convolution, mapping


def _inner(x: Tensor) -> Tensor:
    """Lanes first and channels last: from ([L,] B, C, H, W) or ([L,] A, C, 4, 4)."""
    return x.movedim(-3, -1).reshape(-1, *x.shape[-4:-3], *x.shape[-2:], x.shape[-3]).contiguous()


def _outer(x: Tensor, like: Tensor) -> Tensor:
    """Back again, with lanes if there were some."""
    y = x.movedim(-1, -3)
    return y if like.dim() == 5 else y.squeeze(0)


def _rows(x: Tensor | None) -> Tensor | None:
    """Numbers of channels with lanes, ([L,] C) to (L, C)."""
    return None if x is None else x.reshape(-1, x.shape[-1])


def _mapped(function: type[Function], info: Any, in_dims: tuple[Any, ...], *args: Any) -> Any:
    """Map over a dimension by taking it as lanes, or as more of them."""
    stacked = mapping.moved(info, in_dims, args)
    if stacked[0].dim() == 5:
        return function.apply(*stacked), 0  # type: ignore[no-untyped-call]
    return mapping.folded(function, info, stacked)


def _settled(g: Tensor, out: Tensor, activate: bool, of_bias: bool) -> tuple[Tensor, Tensor | None]:
    """The gradient before a ReLU whose result is known, if there was one, and that of the bias."""
    if torch.is_grad_enabled():  # to be differentiated again
        before = torch.ops.aten.threshold_backward(g, out, 0) if activate else g
        return before, before.sum((-4, -2, -1), dtype=torch.float32) if of_bias else None
    settled, sums = convolution.settle(_inner(g), _inner(out) if activate else None)
    return _outer(settled, g), sums if g.dim() == 5 else sums.squeeze(0)


class Down(Function):
    """A convolution with its bias, and ReLU if `activate`: T, W, bias to S."""

    @staticmethod
    def forward(t: Tensor, w: Tensor, bias: Tensor | None, activate: bool) -> Tensor:
        return _outer(convolution.down(_inner(t), _inner(w), _rows(bias), activate), t)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        t, w, _, ctx.activate = inputs
        ctx.save_for_backward(t, w, output)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        t, w, out = ctx.saved_tensors
        of_t, of_w, of_bias = ctx.needs_input_grad[:3]
        g, by_bias = _settled(gradients[0], out, ctx.activate, of_bias)
        return (
            Up.apply(g, w, None, False) if of_t else None,  # type: ignore[no-untyped-call]
            Meet.apply(g, t) if of_w else None,  # type: ignore[no-untyped-call]
            by_bias if of_bias else None,
            None,
        )

    @staticmethod
    def vmap(info: Any, in_dims: tuple[Any, ...], *args: Any) -> Any:
        return _mapped(Down, info, in_dims, *args)


class Up(Function):
    """A transposed convolution with its bias, and ReLU if `activate`: S, W, bias to T."""

    @staticmethod
    def forward(s: Tensor, w: Tensor, bias: Tensor | None, activate: bool) -> Tensor:
        return _outer(convolution.up(_inner(s), _inner(w), _rows(bias), activate), s)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        s, w, _, ctx.activate = inputs
        ctx.save_for_backward(s, w, output)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        s, w, out = ctx.saved_tensors
        of_s, of_w, of_bias = ctx.needs_input_grad[:3]
        g, by_bias = _settled(gradients[0], out, ctx.activate, of_bias)
        return (
            Down.apply(g, w, None, False) if of_s else None,  # type: ignore[no-untyped-call]
            Meet.apply(s, g) if of_w else None,  # type: ignore[no-untyped-call]
            by_bias if of_bias else None,
            None,
        )

    @staticmethod
    def vmap(info: Any, in_dims: tuple[Any, ...], *args: Any) -> Any:
        return _mapped(Up, info, in_dims, *args)


class Meet(Function):
    """The gradient of the weights of both: S, T to W, in float32."""

    @staticmethod
    def forward(s: Tensor, t: Tensor) -> Tensor:
        return _outer(convolution.meet(_inner(s), _inner(t)), s)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        s, t = ctx.saved_tensors
        of_s, of_t = ctx.needs_input_grad
        g = gradients[0]
        return (
            Down.apply(t, g, None, False) if of_s else None,  # type: ignore[no-untyped-call]
            Up.apply(s, g, None, False) if of_t else None,  # type: ignore[no-untyped-call]
        )

    @staticmethod
    def vmap(info: Any, in_dims: tuple[Any, ...], *args: Any) -> Any:
        return _mapped(Meet, info, in_dims, *args)


def convolve(
    x: Tensor, weight: Tensor, bias: Tensor | None, transposed: bool, activate: bool
) -> Tensor:
    """A convolution of (B, C, H, W) by a factor of two, down or up, as torch's modules have it.

    Under autocast the image is in its type, and so is what comes of it; sums are in float32.
    """
    if torch.is_autocast_enabled(x.device.type):
        x = x.to(torch.get_autocast_dtype(x.device.type))
    function = Up if transposed else Down
    y: Tensor = function.apply(x, weight, bias, activate)  # type: ignore[no-untyped-call]
    return y
