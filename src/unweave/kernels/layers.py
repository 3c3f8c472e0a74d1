"""The convolutions of `convolution.py` as functions that torch can differentiate, map and trace.

Images are (B, channels, height, width) and weights (A, C, 4, 4) as torch has them, or with a
dimension of lanes in front of all; in memory channels are innermost. A dimension that is mapped
over is one of lanes.

Where a convolution with a ReLU is followed by another one, the second does on the way back what is
left of the first: the gradient of the ReLU and the sum for its bias cost next to nothing while the
gradient is still in registers. So a function takes the bias `below`, that of the convolution whose
ReLU gave its image, and gives its gradient; and it is told if it is `settled`, that is, if this is
done for it.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function
from torch.library import custom_op

from unweave.kernels import convolution, mapping, sums

# Operators of torch, in the layout of `convolution.py`, so that a step can be traced.


@custom_op("unweave::down", mutates_args=())
def _down(t: Tensor, w: Tensor, bias: Tensor | None, activate: bool) -> Tensor:
    return convolution.down(t, w, bias, activate)[0]


@custom_op("unweave::down_masked", mutates_args=())
def _down_masked(t: Tensor, w: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
    s, total = convolution.down(t, w, mask=mask)
    assert total is not None
    return s, total


@custom_op("unweave::up", mutates_args=())
def _up(s: Tensor, w: Tensor, bias: Tensor | None, activate: bool) -> Tensor:
    return convolution.up(s, w, bias, activate)[0]


@custom_op("unweave::up_masked", mutates_args=())
def _up_masked(s: Tensor, w: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
    t, total = convolution.up(s, w, mask=mask)
    assert total is not None
    return t, total


@custom_op("unweave::meet", mutates_args=())
def _meet(s: Tensor, t: Tensor) -> Tensor:
    return convolution.meet(s, t)


@custom_op("unweave::settle", mutates_args=())
def _settle(g: Tensor, out: Tensor) -> tuple[Tensor, Tensor]:
    return sums.settle(g, out)


def _per_channel(image: Tensor) -> Tensor:
    return image.new_empty((len(image), image.shape[-1]), dtype=torch.float32)


@_down.register_fake
def _(t: Tensor, w: Tensor, bias: Tensor | None, activate: bool) -> Tensor:
    lanes, batch, height, width, _ = t.shape
    return t.new_empty((lanes, batch, height // 2, width // 2, w.shape[1]))


@_up.register_fake
def _(s: Tensor, w: Tensor, bias: Tensor | None, activate: bool) -> Tensor:
    lanes, batch, height, width, _ = s.shape
    return s.new_empty((lanes, batch, 2 * height, 2 * width, w.shape[-1]))


@_down_masked.register_fake
@_up_masked.register_fake
def _(x: Tensor, w: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
    return x.new_empty(mask.shape), _per_channel(mask)


@_meet.register_fake
def _(s: Tensor, t: Tensor) -> Tensor:
    return s.new_empty((len(s), s.shape[-1], 4, 4, t.shape[-1]), dtype=torch.float32)


@_settle.register_fake
def _(g: Tensor, out: Tensor) -> tuple[Tensor, Tensor]:
    return g.new_empty(g.shape), _per_channel(g)


def _inner(x: Tensor) -> Tensor:
    """Lanes first and channels last: from ([L,] B, C, H, W) or ([L,] A, C, 4, 4)."""
    return x.movedim(-3, -1).reshape(-1, *x.shape[-4:-3], *x.shape[-2:], x.shape[-3]).contiguous()


def _outer(x: Tensor, like: Tensor) -> Tensor:
    """Back again, with lanes if there were some."""
    y = x.movedim(-1, -3)
    return y if like.dim() == 5 else y.squeeze(0)


def _rows(x: Tensor | None) -> Tensor | None:
    """Numbers of channels with lanes, ([L,] C) to (L, C)."""
    return None if x is None else x.reshape(-1, x.shape[-1]).contiguous()


def _mapped(function: type[Function], info: Any, in_dims: tuple[Any, ...], *args: Any) -> Any:
    """Map over a dimension by taking it as lanes, or as more of them."""
    stacked = mapping.moved(info, in_dims, args)
    if stacked[0].dim() == 5:
        return function.apply(*stacked), 0  # type: ignore[no-untyped-call]
    return mapping.folded(function, info, stacked)


def _over_pixels(g: Tensor) -> Tensor:
    return g.sum((-4, -2, -1), dtype=torch.float32)


def _rectified(g: Tensor, out: Tensor) -> tuple[Tensor, Tensor]:
    """The gradient before a ReLU with result `out`, and that of the bias before it."""
    if torch.is_grad_enabled():  # to be differentiated again
        before = torch.ops.aten.threshold_backward(g, out, 0)
        return before, _over_pixels(before)
    settled, total = _settle(_inner(g), _inner(out))
    return _outer(settled, g), total if g.dim() == 5 else total.squeeze(0)


class _Convolution(Function):
    """What `Down` and `Up` have in common: image, weights, bias, bias below, activate, settled."""

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        x, w, _, below, ctx.activate, ctx.settled = inputs
        ctx.below = below is not None
        ctx.save_for_backward(x, w, *[output] * (ctx.activate and not ctx.settled))

    @staticmethod
    def before(ctx: Any, g: Tensor) -> tuple[Tensor, Tensor | None]:
        """The gradient before the ReLU, if there was one, and that of the bias."""
        if not ctx.activate:
            return g, _over_pixels(g) if ctx.needs_input_grad[2] else None
        if ctx.settled:
            return g, None
        before, total = _rectified(g, ctx.saved_tensors[2])
        return before, total if ctx.needs_input_grad[2] else None

    @staticmethod
    def through(
        ctx: Any, back: type[Function], masked: Any, g: Tensor
    ) -> tuple[Tensor | None, Tensor | None]:
        """The gradient of the image, and that of the bias below it, by the transposed function."""
        x, w = ctx.saved_tensors[:2]
        if not ctx.needs_input_grad[0]:
            return None, None
        if ctx.below and not torch.is_grad_enabled():
            inner, total = masked(_inner(g), _inner(w), _inner(x))
            by_x, by_below = _outer(inner, g), total if g.dim() == 5 else total.squeeze(0)
        else:
            by_x = back.apply(g, w, None, None, False, False)  # type: ignore[no-untyped-call]
            by_x, by_below = _rectified(by_x, x) if ctx.below else (by_x, None)
        return by_x, by_below if ctx.needs_input_grad[3] else None


class Down(_Convolution):
    """A convolution with its bias, and ReLU if `activate`: T, W, bias to S."""

    @staticmethod
    def forward(
        t: Tensor,
        w: Tensor,
        bias: Tensor | None,
        below: Tensor | None,
        activate: bool,
        settled: bool,
    ) -> Tensor:
        return _outer(_down(_inner(t), _inner(w), _rows(bias), activate), t)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        t, g = ctx.saved_tensors[0], gradients[0]
        g, by_bias = _Convolution.before(ctx, g)
        by_t, by_below = _Convolution.through(ctx, Up, _up_masked, g)
        by_w = Meet.apply(g, t) if ctx.needs_input_grad[1] else None  # type: ignore[no-untyped-call]
        return by_t, by_w, by_bias, by_below, None, None

    @staticmethod
    def vmap(info: Any, in_dims: tuple[Any, ...], *args: Any) -> Any:
        return _mapped(Down, info, in_dims, *args)


class Up(_Convolution):
    """A transposed convolution with its bias, and ReLU if `activate`: S, W, bias to T."""

    @staticmethod
    def forward(
        s: Tensor,
        w: Tensor,
        bias: Tensor | None,
        below: Tensor | None,
        activate: bool,
        settled: bool,
    ) -> Tensor:
        return _outer(_up(_inner(s), _inner(w), _rows(bias), activate), s)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        s, g = ctx.saved_tensors[0], gradients[0]
        g, by_bias = _Convolution.before(ctx, g)
        by_s, by_below = _Convolution.through(ctx, Down, _down_masked, g)
        by_w = Meet.apply(s, g) if ctx.needs_input_grad[1] else None  # type: ignore[no-untyped-call]
        return by_s, by_w, by_bias, by_below, None, None

    @staticmethod
    def vmap(info: Any, in_dims: tuple[Any, ...], *args: Any) -> Any:
        return _mapped(Up, info, in_dims, *args)


class Meet(Function):
    """The gradient of the weights of both: S, T to W, in float32."""

    @staticmethod
    def forward(s: Tensor, t: Tensor) -> Tensor:
        return _outer(_meet(_inner(s), _inner(t)), s)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        s, t = ctx.saved_tensors
        of_s, of_t = ctx.needs_input_grad
        plain = gradients[0], None, None, False, False
        return (
            Down.apply(t, *plain) if of_s else None,  # type: ignore[no-untyped-call]
            Up.apply(s, *plain) if of_t else None,  # type: ignore[no-untyped-call]
        )

    @staticmethod
    def vmap(info: Any, in_dims: tuple[Any, ...], *args: Any) -> Any:
        return _mapped(Meet, info, in_dims, *args)


def convolve(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    transposed: bool,
    activate: bool,
    below: Tensor | None = None,
    settled: bool = False,
) -> Tensor:
    """A convolution of (B, C, H, W) by a factor of two, down or up, as torch's modules have it.

    `below` is the bias of the convolution whose ReLU gave x, if that one is `settled`. Under
    autocast the image is in its type, and so is what comes of it; sums are in float32.
    """
    if torch.is_autocast_enabled(x.device.type):
        x = x.to(torch.get_autocast_dtype(x.device.type))
    function = Up if transposed else Down
    y: Tensor = function.apply(x, weight, bias, below, activate, settled)  # type: ignore[no-untyped-call]
    return y
