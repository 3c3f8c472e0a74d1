"""The convolutions of `convolution.py` as functions that torch can differentiate, vmap and trace.

Images are (B, channels, height, width) and weights (A, C, 4, 4) as in torch, or all of them with a
leading dimension of lanes; in memory channels are innermost. `vmap` maps over lanes.

If a convolution with a ReLU is followed by another one, the second computes the gradients of the
first one's ReLU and bias in its own backward pass, where they cost next to nothing because the
gradient is still in registers. The second one therefore takes the first one's bias as `bias_below`,
and the first one is called with `deferred`, so that it leaves these gradients to the second.
"""

from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function
from torch.library import custom_op

from unweave.kernels import convolution, sums, vmap_rules

# Custom operators of torch, in the layout of `convolution.py`, so that a step can be traced.


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


@custom_op("unweave::weight_grad", mutates_args=())
def _weight_grad(s: Tensor, t: Tensor) -> Tensor:
    return convolution.weight_grad(s, t)


@custom_op("unweave::relu_backward", mutates_args=())
def _relu_backward(g: Tensor, out: Tensor) -> tuple[Tensor, Tensor]:
    return sums.relu_backward(g, out)


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


@_weight_grad.register_fake
def _(s: Tensor, t: Tensor) -> Tensor:
    return s.new_empty((len(s), s.shape[-1], 4, 4, t.shape[-1]), dtype=torch.float32)


@_relu_backward.register_fake
def _(g: Tensor, out: Tensor) -> tuple[Tensor, Tensor]:
    return g.new_empty(g.shape), _per_channel(g)


def _inner(x: Tensor) -> Tensor:
    """Move lanes first and channels last, from ([L,] B, C, H, W) or ([L,] A, C, 4, 4)."""
    return x.movedim(-3, -1).reshape(-1, *x.shape[-4:-3], *x.shape[-2:], x.shape[-3]).contiguous()


def _outer(x: Tensor, like: Tensor) -> Tensor:
    """Undo `_inner`, with a dimension of lanes if `like` has one."""
    y = x.movedim(-1, -3)
    return y if like.dim() == 5 else y.squeeze(0)


def _rows(x: Tensor | None) -> Tensor | None:
    """Add a dimension of lanes to a bias, ([L,] C) to (L, C)."""
    return None if x is None else x.reshape(-1, x.shape[-1]).contiguous()


def _mapped(function: type[Function], info: Any, in_dims: tuple[Any, ...], *args: Any) -> Any:
    """Map over a dimension by making it the lanes, or by adding it to them."""
    stacked = vmap_rules.lanes_first(info, in_dims, args)
    if stacked[0].dim() == 5:
        return function.apply(*stacked), 0  # type: ignore[no-untyped-call]
    return vmap_rules.apply_flattened(function, info, stacked)


def _over_pixels(g: Tensor) -> Tensor:
    return g.sum((-4, -2, -1), dtype=torch.float32)


def _through_relu(g: Tensor, out: Tensor) -> tuple[Tensor, Tensor]:
    """Return the gradient before a ReLU with result `out`, and that of the bias before it."""
    if torch.is_grad_enabled():  # to be differentiated again
        before = torch.ops.aten.threshold_backward(g, out, 0)
        return before, _over_pixels(before)
    before, total = _relu_backward(_inner(g), _inner(out))
    return _outer(before, g), total if g.dim() == 5 else total.squeeze(0)


class Convolution(Function):
    """A convolution with a bias, T, W and bias to S, and a ReLU if `activate`.

    If `transposed`, it is the transposed convolution, S, W and bias to T.
    """

    @staticmethod
    def forward(
        x: Tensor,
        w: Tensor,
        bias: Tensor | None,
        bias_below: Tensor | None,
        transposed: bool,
        activate: bool,
        deferred: bool,
    ) -> Tensor:
        convolve = _up if transposed else _down
        return _outer(convolve(_inner(x), _inner(w), _rows(bias), activate), x)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        x, w, _, bias_below, ctx.transposed, ctx.activate, ctx.deferred = inputs
        ctx.has_bias_below = bias_below is not None
        ctx.save_for_backward(x, w, *[output] * (ctx.activate and not ctx.deferred))

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        g, by_bias = _before_relu(ctx, gradients[0])
        by_x, by_below = _by_image(ctx, g)
        both = (ctx.saved_tensors[0], g) if ctx.transposed else (g, ctx.saved_tensors[0])
        by_w = WeightGrad.apply(*both) if ctx.needs_input_grad[1] else None  # type: ignore[no-untyped-call]
        return by_x, by_w, by_bias, by_below, None, None, None

    @staticmethod
    def vmap(info: Any, in_dims: tuple[Any, ...], *args: Any) -> Any:
        return _mapped(Convolution, info, in_dims, *args)


def _before_relu(ctx: Any, g: Tensor) -> tuple[Tensor, Tensor | None]:
    """Return the gradient before the ReLU, if there was one, and that of the bias."""
    if not ctx.activate:
        return g, _over_pixels(g) if ctx.needs_input_grad[2] else None
    if ctx.deferred:
        return g, None
    before, total = _through_relu(g, ctx.saved_tensors[2])
    return before, total if ctx.needs_input_grad[2] else None


def _by_image(ctx: Any, g: Tensor) -> tuple[Tensor | None, Tensor | None]:
    """Return the gradients of the image and of the bias below, by the transposed function."""
    x, w = ctx.saved_tensors[:2]
    if not ctx.needs_input_grad[0]:
        return None, None
    if ctx.has_bias_below and not torch.is_grad_enabled():
        masked = _down_masked if ctx.transposed else _up_masked
        inner, total = masked(_inner(g), _inner(w), _inner(x))
        by_x, by_below = _outer(inner, g), total if g.dim() == 5 else total.squeeze(0)
    else:
        by_x = Convolution.apply(g, w, None, None, not ctx.transposed, False, False)  # type: ignore[no-untyped-call]
        by_x, by_below = _through_relu(by_x, x) if ctx.has_bias_below else (by_x, None)
    return by_x, by_below if ctx.needs_input_grad[3] else None


class WeightGrad(Function):
    """The gradient of the weights of `Convolution`: S, T to W, in float32."""

    @staticmethod
    def forward(s: Tensor, t: Tensor) -> Tensor:
        return _outer(_weight_grad(_inner(s), _inner(t)), s)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        s, t = ctx.saved_tensors
        of_s, of_t = ctx.needs_input_grad
        weights, plain = (gradients[0], None, None), (False, False)
        return (
            Convolution.apply(t, *weights, False, *plain) if of_s else None,  # type: ignore[no-untyped-call]
            Convolution.apply(s, *weights, True, *plain) if of_t else None,  # type: ignore[no-untyped-call]
        )

    @staticmethod
    def vmap(info: Any, in_dims: tuple[Any, ...], *args: Any) -> Any:
        return _mapped(WeightGrad, info, in_dims, *args)


def convolve(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    transposed: bool,
    activate: bool,
    bias_below: Tensor | None = None,
    deferred: bool = False,
) -> Tensor:
    """Convolve (B, C, H, W) by a factor of two, down or up, like torch's modules.

    `bias_below` is the bias of the convolution whose ReLU returned x, if that one is `deferred`.
    Under autocast images are in its type; sums are in float32.
    """
    if torch.is_autocast_enabled(x.device.type):
        x = x.to(torch.get_autocast_dtype(x.device.type))
    return Convolution.apply(x, weight, bias, bias_below, transposed, activate, deferred)  # type: ignore[no-untyped-call]
