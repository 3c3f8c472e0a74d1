"""The Bernoulli log-likelihood of images in one kernel, and its gradient in another."""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.autograd import Function
from torch.library import custom_op

from unweave.kernels import mapping


@triton.jit
def _sum_kernel(logits, x, nats, size, SIZE: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    total = tl.zeros((SIZE,), tl.float32)
    for start in range(0, size, SIZE):
        at = start + tl.arange(0, SIZE)
        inside = at < size
        one = tl.load(logits + row * size + at, mask=inside, other=0.0).to(tl.float32)
        seen = tl.load(x + row * size + at, mask=inside, other=0.0).to(tl.float32)
        soft = tl.maximum(one, 0.0) + tl.log(1.0 + tl.exp(-tl.abs(one)))
        total += tl.where(inside, one * seen - soft, 0.0)
    tl.store(nats + row, tl.sum(total, 0))


@triton.jit
def _slope_kernel(logits, x, g, slopes, size, SIZE: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    at = tl.program_id(1) * SIZE + tl.arange(0, SIZE)
    inside = at < size
    one = tl.load(logits + row * size + at, mask=inside, other=0.0).to(tl.float32)
    seen = tl.load(x + row * size + at, mask=inside, other=0.0).to(tl.float32)
    slope = tl.load(g + row).to(tl.float32) * (seen - tl.sigmoid(one))
    tl.store(slopes + row * size + at, slope.to(slopes.dtype.element_ty), mask=inside)


@custom_op("unweave::bernoulli_nats", mutates_args=())
def _nats(logits: Tensor, x: Tensor) -> Tensor:
    """(B,) for images (B, *shape)."""
    nats = logits.new_empty(len(logits), dtype=torch.float32)
    _sum_kernel[(len(logits),)](
        logits.contiguous(), x.contiguous(), nats, logits[0].numel(), 1024
    )  # fmt: skip
    return nats


@custom_op("unweave::bernoulli_slopes", mutates_args=())
def _slopes(logits: Tensor, x: Tensor, g: Tensor) -> Tensor:
    """g times the derivative of the nats by the logits, in their shape."""
    logits, size = logits.contiguous(), logits[0].numel()
    slopes = torch.empty_like(logits)
    grid = (len(logits), triton.cdiv(size, 1024))
    _slope_kernel[grid](logits, x.contiguous(), g.contiguous(), slopes, size, 1024)
    return slopes


@_nats.register_fake
def _(logits: Tensor, x: Tensor) -> Tensor:
    return logits.new_empty(len(logits), dtype=torch.float32)


@_slopes.register_fake
def _(logits: Tensor, x: Tensor, g: Tensor) -> Tensor:
    return logits.new_empty(logits.shape)


class BernoulliNats(Function):
    """sum x log p + (1 - x) log(1 - p) over all but the first axis, p the sigmoid of logits."""

    @staticmethod
    def forward(logits: Tensor, x: Tensor) -> Tensor:
        return _nats(logits, x)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        logits, x = ctx.saved_tensors
        g = gradients[0]
        if torch.is_grad_enabled() or ctx.needs_input_grad[1]:
            wide = g.reshape(-1, *(1,) * (logits.dim() - 1))
            return wide * (x - logits.sigmoid()), wide * logits
        return _slopes(logits, x, g), None

    @staticmethod
    def vmap(info: Any, in_dims: tuple[Any, ...], *args: Any) -> Any:
        return mapping.folded(BernoulliNats, info, mapping.moved(info, in_dims, args))


def bernoulli_nats(logits: Tensor, x: Tensor) -> Tensor:
    """log p(x) of images (B, *shape) with Bernoulli pixels of the given logits, (B,)."""
    nats: Tensor = BernoulliNats.apply(logits, x)  # type: ignore[no-untyped-call]
    return nats
