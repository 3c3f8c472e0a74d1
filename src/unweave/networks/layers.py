"""Batch normalisation, and layers that are faster than torch's.

Both strided convolutions have kernel 4, stride 2, padding 1 and optionally a fused ReLU. On the CPU
convolution, bias and ReLU are one function with its own backward pass: the ReLU works in place, the
gradient of the bias is one sum, and layers with one input or output channel, which underuse torch's
vector units, are matrix products. On a GPU they are our kernels, which compute the convolutions of
all lanes at once, or torch's where those cannot run.
"""

import contextlib
import itertools
from collections.abc import Iterator, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from unweave import kernels
from unweave.core.row_division import all_rows, mean_of_processes, on_own_rows

KERNEL, STRIDE, PADDING = 4, 2, 1


class _Convolve(torch.autograd.Function):
    """A convolution or transposed convolution with bias, and a ReLU if `activate`."""

    generate_vmap_rule = True

    @staticmethod
    def forward(
        x: Tensor,
        weight: Tensor,
        bias: Tensor | None,
        transposed: bool,
        odd: list[int],
        activate: bool,
    ) -> Tensor:
        if transposed and weight.shape[1] == 1 and odd == [0, 0]:
            y = _to_one_channel(x, weight, bias)
        else:
            y = torch.ops.aten.convolution(
                x, weight, bias, [STRIDE] * 2, [PADDING] * 2, [1, 1], transposed, odd, 1
            )
        return y.relu_() if activate else y

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        x, weight, _, ctx.transposed, ctx.odd, ctx.activate = inputs
        ctx.save_for_backward(x, weight, *[output] * ctx.activate)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        x, weight, *activated = ctx.saved_tensors
        g = gradients[0]
        if ctx.activate:
            g = torch.ops.aten.threshold_backward(g, activated[0], 0)
        of_x, of_weight, of_bias = ctx.needs_input_grad[:3]
        by_bias = g.sum((0, 2, 3)) if of_bias else None
        if not ctx.transposed and weight.shape[1] == 1 and not of_x:
            return None, _from_one_channel(x, g), by_bias, None, None, None
        by_x, by_weight, _ = torch.ops.aten.convolution_backward(
            g, x, weight, None, [STRIDE] * 2, [PADDING] * 2, [1, 1], ctx.transposed, ctx.odd, 1,
            [of_x, of_weight, False],
        )  # fmt: skip
        return by_x, by_weight, by_bias, None, None, None


def _to_one_channel(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """Compute the transposed convolution to one channel.

    One matrix product gives the 16 contributions of every pixel as planes; the four planes that
    overlap in an output pixel are shifted and added.
    """
    batch, channels, height, width = x.shape
    # Row 2g + r and column 2k + s of the kernel: planes ordered by (r, s), then (g, k).
    kernel = weight.reshape(channels, 2, 2, 2, 2).permute(2, 4, 1, 3, 0).reshape(16, channels)
    planes = (kernel @ x.flatten(2)).reshape(batch, 4, 4, height, width)
    shifts = ((0, 1, 0, 1), (1, 0, 0, 1), (0, 1, 1, 0), (1, 0, 1, 0))
    parts = [F.pad(planes[:, :, i], shift) for i, shift in enumerate(shifts)]
    summed = (parts[0] + parts[1]) + (parts[2] + parts[3])
    y = F.pixel_shuffle(summed, 2)[:, :, 1:-1, 1:-1]
    return y if bias is None else y + bias[:, None, None]


def _from_one_channel(x: Tensor, g: Tensor) -> Tensor:
    """Compute the kernel gradient of a convolution from one channel: patches times gradients."""
    height, width = g.shape[2:]
    phases = F.pixel_unshuffle(F.pad(x, [PADDING] * 4)[:, :, : 2 * height + 2, : 2 * width + 2], 2)
    corners = [(i, j) for i in (0, 1) for j in (0, 1)]
    patches = torch.stack([phases[:, :, i : i + height, j : j + width] for i, j in corners], 1)
    products = patches.flatten(1, 2).flatten(2) @ g.permute(0, 2, 3, 1).flatten(1, 2)
    # From corner (i, j) and phase (r, s) to row 2i + r and column 2j + s of the kernel.
    kernel = products.sum(0).reshape(2, 2, 2, 2, -1).permute(4, 0, 2, 1, 3)
    return kernel.reshape(-1, 1, KERNEL, KERNEL)


def _convolve(layer: nn.Conv2d | nn.ConvTranspose2d, x: Tensor, activate: bool) -> Tensor:
    odd = list(layer.output_padding)
    transposed = isinstance(layer, nn.ConvTranspose2d)
    y: Tensor = _Convolve.apply(x, layer.weight, layer.bias, transposed, odd, activate)  # type: ignore[no-untyped-call]
    return y


class Affine(torch.autograd.Function):
    """x W^T + b for x (B, inputs).

    Under `vmap` the gradient of W has the memory layout of W, where torch's is transposed.
    """

    generate_vmap_rule = True

    @staticmethod
    def forward(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        return F.linear(x, weight, bias)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        ctx.save_for_backward(*inputs[:2])

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        x, weight = ctx.saved_tensors
        g, (of_x, of_weight, of_bias) = gradients[0], ctx.needs_input_grad
        return (
            g @ weight if of_x else None,
            g.T @ x if of_weight else None,
            g.sum(0) if of_bias else None,
        )


class LinearLayer(nn.Linear):
    """torch's linear layer; on a GPU the gradients of stacked weights need not be transposed."""

    def forward(self, x: Tensor) -> Tensor:
        """Map (B, inputs) to (B, outputs)."""
        if x.device.type == "cpu" or x.dim() != 2:
            return super().forward(x)
        tensors = [x, self.weight, self.bias]
        if torch.is_autocast_enabled(x.device.type):
            kind = torch.get_autocast_dtype(x.device.type)
            tensors = [None if tensor is None else tensor.to(kind) for tensor in tensors]
        y: Tensor = Affine.apply(*tensors)  # type: ignore[no-untyped-call]
        return y


class BatchNorm(nn.Module):
    """y = weight (x - m) / sqrt(v + eps) + bias for every channel of x, (B, C) or (B, C, H, W).

    In training m and v are the mean and variance over the batch and all pixels, and the running
    statistics move a tenth of the way towards them (to the unbiased variance); in evaluation m and
    v are the running statistics.  [Ioffe2015] alg. 1 and 2
    """

    MOMENTUM, EPSILON = 0.1, 1e-5

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(channels))
        self.bias = nn.Parameter(torch.zeros(channels))
        self.register_buffer("running_mean", torch.zeros(channels))
        self.register_buffer("running_var", torch.ones(channels))
        self.running_mean: Tensor
        self.running_var: Tensor

    def forward(self, x: Tensor) -> Tensor:
        """Normalise x."""
        if x.device.type != "cpu" or on_own_rows():
            return self.composed(x)
        statistics = self.running_mean, self.running_var
        return F.batch_norm(
            x, *statistics, self.weight, self.bias, self.training, self.MOMENTUM, self.EPSILON
        )

    def composed(self, x: Tensor) -> Tensor:
        """Normalise x by elementary operations: torch's has no batching rule on CUDA."""
        pixels = [0, *range(2, x.dim())]
        mean, variance = self.running_mean, self.running_var
        if self.training:
            mean, variance, count = self._statistics(x, pixels)
            unbiased = variance.detach() * (count / (count - 1))
            self.running_mean.mul_(1 - self.MOMENTUM).add_(self.MOMENTUM * mean.detach())
            self.running_var.mul_(1 - self.MOMENTUM).add_(self.MOMENTUM * unbiased)
        scale = self.weight * torch.rsqrt(variance + self.EPSILON)
        shape = (-1, *(1,) * (x.dim() - 2))
        return (x - mean.reshape(shape)) * scale.reshape(shape) + self.bias.reshape(shape)

    @staticmethod
    def _statistics(x: Tensor, pixels: list[int]) -> tuple[Tensor, Tensor, int]:
        """Return mean, variance and count of every channel, over the rows of all processes."""
        own, variance, count = x.mean(pixels), x.var(pixels, correction=0), x.numel() // x.shape[1]
        if not on_own_rows():
            return own, variance, count
        mean = mean_of_processes(own)
        return mean, mean_of_processes(variance + (own - mean).square()), all_rows(count)

    def extra_repr(self) -> str:
        """Return the number of channels."""
        return str(len(self.weight))


@contextlib.contextmanager
def frozen_statistics(networks: nn.Module) -> Iterator[None]:
    """Inside this block, use running statistics of batch normalisation and do not update them."""
    kinds = (BatchNorm, nn.modules.batchnorm._BatchNorm)
    moving = [m for m in networks.modules() if isinstance(m, kinds) and m.training]
    for module in moving:
        module.training = False
    try:
        yield
    finally:
        for module in moving:
            module.training = True


# On a GPU a layer that reads or writes a whole image is one matrix product for each lane. As a
# convolution it would be a group of a grouped convolution, and cuDNN may compute several groups in
# one product whose other numbers are 0, where the NaN of a lane that failed reaches its neighbour.


class Conv2d(nn.Conv2d):
    """torch's convolution, on a GPU with contiguous (channels-first) images and weights.

    With channels last the gradients have a layout that torch does not expect when it compiles.
    """

    def _conv_forward(self, input: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        y: Tensor
        if input.device.type == "cpu":
            y = super()._conv_forward(input, weight, bias)
        elif reads_whole_image(self, input):
            y = whole_image_to_pixel(input, weight, bias)
        else:
            y = super()._conv_forward(input.contiguous(), weight.contiguous(), bias)
        return y


class ConvTranspose2d(nn.ConvTranspose2d):
    """torch's transposed convolution, with the memory layout of `Conv2d`."""

    def forward(self, x: Tensor, output_size: list[int] | None = None) -> Tensor:
        """Convolve (B, C, H, W)."""
        if x.device.type == "cpu" or output_size is not None:
            return super().forward(x, output_size)
        assert not isinstance(self.padding, str)
        if writes_whole_image(self, x):
            return pixel_to_whole_image(x, self.weight, self.bias)
        return F.conv_transpose2d(
            x.contiguous(), self.weight.contiguous(), self.bias, self.stride, self.padding,
            self.output_padding, self.groups, self.dilation,
        )  # fmt: skip


def reads_whole_image(layer: nn.Conv2d, x: Tensor) -> bool:
    """Return whether a convolution of (B, C, H, W) is `whole_image_to_pixel`."""
    return x.dim() == 4 and x.shape[-2:] == layer.weight.shape[-2:] and _is_dense(layer)


def writes_whole_image(layer: nn.ConvTranspose2d, x: Tensor) -> bool:
    """Return whether a transposed convolution of (B, A, 1, 1) is `pixel_to_whole_image`."""
    pixel = x.dim() == 4 and x.shape[-2:] == (1, 1)
    return pixel and layer.output_padding == (0, 0) and _is_dense(layer)


def _is_dense(layer: nn.Conv2d | nn.ConvTranspose2d) -> bool:
    return layer.padding == (0, 0) and layer.dilation == (1, 1) and layer.groups == 1


def whole_image_to_pixel(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """Convolve (B, C, H, W) with a kernel of the size of the image, to (B, A, 1, 1)."""
    return F.linear(x.flatten(1), weight.flatten(1), bias)[:, :, None, None]


def pixel_to_whole_image(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """Convolve (B, A, 1, 1) to an image of the size of the kernel, (B, C, H, W)."""
    y: Tensor = F.linear(x.flatten(1), weight.flatten(1).T).unflatten(1, weight.shape[1:])
    return y if bias is None else y + bias[:, None, None]


class DownConv2d(Conv2d):
    """A convolution that halves both sides, with a ReLU if `activate`."""

    fused = True  # on the CPU; an exported graph has torch's own convolutions instead

    def __init__(
        self, narrow: int, wide: int, *, bias: bool = True, activate: bool = False
    ) -> None:
        super().__init__(narrow, wide, KERNEL, STRIDE, PADDING, bias=bias)
        self.activate = activate

    def forward(self, x: Tensor) -> Tensor:
        """Map (B, C, H, W) to (B, wide, H / 2, W / 2)."""
        if self.fused and x.device.type == "cpu":
            return _convolve(self, x, self.activate)
        if _uses_kernels(self, x, x.shape[-2:]):
            return _kernel_convolve(self, x)
        y = super().forward(x)
        return y.relu_() if self.activate else y


class UpConv2d(ConvTranspose2d):
    """A transposed convolution that doubles both sides, with a ReLU if `activate`.

    `odd` adds a last row or column, for sides that are odd.
    """

    fused = True  # as in `DownConv2d`

    def __init__(
        self,
        narrow: int,
        wide: int,
        odd: tuple[int, int] = (0, 0),
        *,
        bias: bool = True,
        activate: bool = False,
    ) -> None:
        super().__init__(narrow, wide, KERNEL, STRIDE, PADDING, output_padding=odd, bias=bias)
        self.activate = activate

    def forward(self, x: Tensor, output_size: list[int] | None = None) -> Tensor:
        """Map (B, C, H, W) to (B, wide, 2 H + odd, 2 W + odd)."""
        if self.fused and x.device.type == "cpu" and output_size is None:
            return _convolve(self, x, self.activate)
        if output_size is None and _uses_kernels(self, x, x.shape[-2:]):
            return _kernel_convolve(self, x)
        y = super().forward(x, output_size)
        return y.relu_() if self.activate else y


_StridedConv = DownConv2d | UpConv2d


def use_plain_convolutions(networks: nn.Module) -> None:
    """Compute strided convolutions by torch's own, one operation each, as an export needs."""
    for layer in networks.modules():
        if isinstance(layer, _StridedConv):
            layer.fused = False


def _uses_kernels(layer: nn.Module, x: Tensor, sides: Sequence[int]) -> bool:
    """Return whether our kernels can compute a layer for images like x with these sides."""
    if isinstance(layer, UpConv2d):
        return kernels.supports(x) and not any(layer.output_padding)
    even = all(side % 2 == 0 for side in sides)
    return isinstance(layer, DownConv2d) and even and kernels.supports(x)


def _kernel_convolve(
    layer: _StridedConv, x: Tensor, bias_before: Tensor | None = None, relu_deferred: bool = False
) -> Tensor:
    """Convolve with our kernels.

    `relu_deferred` means that the next layer computes the backward pass of this layer's ReLU;
    `bias_before` is the bias of the previous layer, if this layer does so for that one. See
    `unweave.kernels.layers`.
    """
    from unweave.kernels.layers import convolve  # Triton is not everywhere

    transposed = isinstance(layer, UpConv2d)
    return convolve(
        x, layer.weight, layer.bias, transposed, layer.activate, bias_before, relu_deferred
    )


def _can_defer_relu(following: nn.Module | None, layer: _StridedConv, x: Tensor) -> bool:
    """Return whether the next layer can compute the backward pass of a layer's ReLU."""
    if following is None or not layer.activate or layer.bias is None:
        return False
    sides = [2 * n if isinstance(layer, UpConv2d) else n // 2 for n in x.shape[-2:]]
    return _uses_kernels(following, x, sides)


class ConvolutionStack(nn.Sequential):
    """A sequence in which each convolution computes the ReLU gradient of the one before it.

    Where it does, layers are not called as modules, so hooks on them do not run.
    """

    def forward(self, x: Tensor) -> Tensor:
        """Apply all layers."""
        bias_before: Tensor | None = None
        layers = list(self)
        for layer, following in itertools.zip_longest(layers, layers[1:]):
            if not isinstance(layer, _StridedConv) or not _uses_kernels(layer, x, x.shape[-2:]):
                x, bias_before = layer(x), None
                continue
            deferred = _can_defer_relu(following, layer, x)
            x = _kernel_convolve(layer, x, bias_before, deferred)
            bias_before = layer.bias if deferred else None
        return x
