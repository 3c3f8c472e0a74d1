"""Layers that compute what torch's do, faster where torch is slow."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

KERNEL, STRIDE, PADDING = 4, 2, 1


class _ToOneChannel(torch.autograd.Function):
    """The transposed convolution (kernel 4, stride 2, padding 1) to one channel.

    Forward: one matrix product gives every pixel's 16 contributions as planes; the four planes
    that meet in an output pixel are shifted and added. Backward: torch's own.
    """

    generate_vmap_rule = True

    @staticmethod
    def forward(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        batch, channels, height, width = x.shape
        # Row 2g + r and column 2k + s of the kernel: planes ordered by (r, s), then (g, k).
        kernel = weight.reshape(channels, 2, 2, 2, 2).permute(2, 4, 1, 3, 0).reshape(16, channels)
        planes = (kernel @ x.flatten(2)).reshape(batch, 4, 4, height, width)
        shifts = ((0, 1, 0, 1), (1, 0, 0, 1), (0, 1, 1, 0), (1, 0, 1, 0))
        parts = [F.pad(planes[:, :, i], shift) for i, shift in enumerate(shifts)]
        summed = (parts[0] + parts[1]) + (parts[2] + parts[3])
        return F.pixel_shuffle(summed, 2)[:, :, 1:-1, 1:-1] + bias[:, None, None]

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, ...], output: Tensor) -> None:
        ctx.save_for_backward(*inputs[:2])

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, ...]:
        x, weight = ctx.saved_tensors
        grads: tuple[Tensor, ...] = torch.ops.aten.convolution_backward(
            gradients[0], x, weight, [1], [STRIDE] * 2, [PADDING] * 2, [1, 1], True, [0, 0], 1,
            list(ctx.needs_input_grad),
        )  # fmt: skip
        return grads


class UpConv2d(nn.ConvTranspose2d):
    """A transposed convolution with kernel 4, stride 2 and padding 1; `odd` adds a last row.

    torch takes about 7 ms on two CPU cores for the last layer of [Kim2018] table 1, whose one
    output channel leaves its vector units empty; as a matrix product it is 2.5 ms.
    """

    def __init__(self, narrow: int, wide: int, odd: tuple[int, int] = (0, 0)) -> None:
        super().__init__(narrow, wide, KERNEL, STRIDE, PADDING, output_padding=odd)

    def forward(self, x: Tensor, output_size: list[int] | None = None) -> Tensor:
        """From (B, C, H, W) to (B, wide, 2 H + odd, 2 W + odd)."""
        if self.out_channels == 1 and self.output_padding == (0, 0) and x.device.type == "cpu":
            image: Tensor = _ToOneChannel.apply(x, self.weight, self.bias)  # type: ignore[no-untyped-call]
            return image
        return super().forward(x, output_size)
