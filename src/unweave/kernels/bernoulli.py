"""The Bernoulli log-likelihood of images, and its gradient, in one kernel each."""

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.autograd import Function
from torch.library import custom_op

from unweave.kernels import vmap_rules


@triton.jit
def _log_prob_kernel(logits, x, log_prob, size, SIZE: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    total = tl.zeros((SIZE,), tl.float32)
    for start in range(0, size, SIZE):
        at = start + tl.arange(0, SIZE)
        inside = at < size
        logit = tl.load(logits + row * size + at, mask=inside, other=0.0).to(tl.float32)
        pixel = tl.load(x + row * size + at, mask=inside, other=0.0).to(tl.float32)
        soft = tl.maximum(logit, 0.0) + tl.log(1.0 + tl.exp(-tl.abs(logit)))
        total += tl.where(inside, logit * pixel - soft, 0.0)
    tl.store(log_prob + row, tl.sum(total, 0))


@triton.jit
def _gradient_kernel(logits, x, g, gradient, size, SIZE: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    at = tl.program_id(1) * SIZE + tl.arange(0, SIZE)
    inside = at < size
    logit = tl.load(logits + row * size + at, mask=inside, other=0.0).to(tl.float32)
    pixel = tl.load(x + row * size + at, mask=inside, other=0.0).to(tl.float32)
    value = tl.load(g + row).to(tl.float32) * (pixel - tl.sigmoid(logit))
    tl.store(gradient + row * size + at, value.to(gradient.dtype.element_ty), mask=inside)


@custom_op("unweave::bernoulli_log_prob", mutates_args=())
def _log_prob(logits: Tensor, x: Tensor) -> Tensor:
    """Compute log p(x) (B,) of images (B, *shape)."""
    log_prob = logits.new_empty(len(logits), dtype=torch.float32)
    _log_prob_kernel[(len(logits),)](
        logits.contiguous(), x.contiguous(), log_prob, logits[0].numel(), 1024
    )  # fmt: skip
    return log_prob


@custom_op("unweave::bernoulli_gradient", mutates_args=())
def _gradient(logits: Tensor, x: Tensor, g: Tensor) -> Tensor:
    """Compute g (B,) times the derivative of log p(x) by the logits, in their shape."""
    logits, size = logits.contiguous(), logits[0].numel()
    gradient = torch.empty_like(logits)
    grid = (len(logits), triton.cdiv(size, 1024))
    _gradient_kernel[grid](logits, x.contiguous(), g.contiguous(), gradient, size, 1024)
    return gradient


@_log_prob.register_fake
def _(logits: Tensor, x: Tensor) -> Tensor:
    return logits.new_empty(len(logits), dtype=torch.float32)


@_gradient.register_fake
def _(logits: Tensor, x: Tensor, g: Tensor) -> Tensor:
    return logits.new_empty(logits.shape)


class BernoulliLogProb(Function):
    """sum x log p + (1 - x) log(1 - p) over all but the first axis, p the sigmoid of logits."""

    @staticmethod
    def forward(logits: Tensor, x: Tensor) -> Tensor:
        return _log_prob(logits, x)

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
        return _gradient(logits, x, g), None

    @staticmethod
    def vmap(info: Any, in_dims: tuple[Any, ...], *args: Any) -> Any:
        return vmap_rules.apply_flattened(
            BernoulliLogProb, info, vmap_rules.lanes_first(info, in_dims, args)
        )


def bernoulli_log_prob(logits: Tensor, x: Tensor) -> Tensor:
    """Return log p(x) (B,) of images (B, *shape) with Bernoulli pixels of the given logits."""
    return BernoulliLogProb.apply(logits, x)  # type: ignore[no-untyped-call]
