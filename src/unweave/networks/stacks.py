"""Builders shared by the architectures: strided convolutions, transposed ones, and MLPs."""

import itertools
import math
from collections.abc import Callable, Sequence
from functools import partial

import torch
from torch import Tensor, nn

from unweave.networks.base import Outputs, Shape
from unweave.networks.layers import BatchNorm, ConvolutionStack, DownConv2d, LinearLayer, UpConv2d


def halvings(side: int, stages: int) -> list[int]:
    """Return the side of an image before, between and after `stages` strided convolutions.

    >>> halvings(64, 4)
    [64, 32, 16, 8, 4]
    """
    sides = [side]
    for _ in range(stages):
        sides.append(sides[-1] // 2)
    return sides


def block(
    layer: Callable[..., nn.Module], norm: nn.Module | None, activation: nn.Module
) -> list[nn.Module]:
    """Return a layer, its normalisation if any, and its activation, in this order.

    A layer before batch normalisation, which subtracts the mean, has no bias.
    """
    if norm is None:
        return [layer(), activation]
    return [layer(bias=not isinstance(norm, BatchNorm)), norm, activation]


def rectifier(slope: float) -> nn.Module:
    """Return a leaky ReLU, or for slope 0 a ReLU in place.

    Kernel outputs must not be modified in place, but convolutions fuse their own ReLU.
    """
    return nn.LeakyReLU(slope) if slope else nn.ReLU(inplace=True)


def _rectified(
    convolution: Callable[..., nn.Module], wide: int, slope: float, norm: bool
) -> list[nn.Module]:
    """Return a convolution with normalisation and ReLU, fused if the ReLU follows directly."""
    if not norm and not slope:
        return [convolution(activate=True)]
    return block(convolution, BatchNorm(wide) if norm else None, rectifier(slope))


def convolutions(
    shape: Shape, widths: Sequence[int], *, slope: float = 0.0, norms: Sequence[bool] = ()
) -> tuple[list[nn.Module], Shape]:
    """Return 4x4 convolutions of stride 2, each with a ReLU, and their output shape.

    `slope` makes the ReLUs leaky; `norms` says which convolutions are batch-normalised, by default
    none.
    """
    channels, height, width = shape
    layers: list[nn.Module] = []
    for wide, norm in zip(widths, norms or [False] * len(widths), strict=True):
        layers += _rectified(partial(DownConv2d, channels, wide), wide, slope, norm)
        channels, height, width = wide, height // 2, width // 2
    return layers, (channels, height, width)


def upconvolutions(
    shape: Shape, start: int, widths: Sequence[int], *, slope: float = 0.0, norm: bool = False
) -> list[nn.Module]:
    """Return 4x4 transposed convolutions of stride 2 that end in `shape`, with ReLUs between.

    Sides that were odd on the way down regain the lost row by output padding. `slope` makes the
    ReLUs leaky, `norm` adds batch normalisation before them.
    """
    heights = halvings(shape[1], len(widths) + 1)[::-1]
    breadths = halvings(shape[2], len(widths) + 1)[::-1]
    odds = [
        (heights[stage + 1] - 2 * heights[stage], breadths[stage + 1] - 2 * breadths[stage])
        for stage in range(len(widths) + 1)
    ]
    layers: list[nn.Module] = []
    channels = start
    for wide, odd in zip(widths, odds[:-1], strict=True):
        layers += _rectified(partial(UpConv2d, channels, wide, odd), wide, slope, norm)
        channels = wide
    return [*layers, UpConv2d(channels, shape[0], odds[-1])]


def convolutional_encoder(
    shape: Shape, widths: Sequence[int], hidden: int, outputs: int, *, activate_hidden: bool
) -> ConvolutionStack:
    """Build convolutions, one fully connected hidden layer, and the outputs (B, outputs)."""
    layers, end = convolutions(shape, widths)
    layers += [nn.Flatten(), LinearLayer(math.prod(end), hidden)]
    if activate_hidden:
        layers.append(nn.ReLU(inplace=True))
    return ConvolutionStack(*layers, LinearLayer(hidden, outputs))


class EarlyLogits(nn.Module):
    """A trunk with two heads: some layers, and a linear layer for the logits.

    The results are put into the order of `outputs`.
    """

    def __init__(
        self, trunk: ConvolutionStack, head: ConvolutionStack, logits: LinearLayer, outputs: Outputs
    ) -> None:
        super().__init__()
        self.trunk, self.head, self.logits = trunk, head, logits
        others = [place for place, logit in enumerate(outputs) if not logit]
        separated = others + [place for place, logit in enumerate(outputs) if logit]
        order = torch.tensor(sorted(range(len(separated)), key=separated.__getitem__))
        self.register_buffer("order", order, persistent=False)
        self.order: Tensor

    def forward(self, x: Tensor) -> Tensor:
        """Map observations (B, *shape) to (B, outputs)."""
        features = self.trunk(x)
        return torch.cat([self.head(features), self.logits(features)], -1)[..., self.order]


def early_logits(
    trunk: Sequence[nn.Module], width: int, hidden: int, outputs: Outputs
) -> nn.Module:
    """Build an encoder whose logits are linear in the trunk's features (B, width).

    Its other outputs are linear in a hidden layer with a ReLU on top of the same features.
    """
    if all(outputs):
        return ConvolutionStack(*trunk, LinearLayer(width, len(outputs)))
    head = [LinearLayer(width, hidden), nn.ReLU(), LinearLayer(hidden, len(outputs) - sum(outputs))]
    if not any(outputs):
        return ConvolutionStack(*trunk, *head)
    return EarlyLogits(
        ConvolutionStack(*trunk), ConvolutionStack(*head), LinearLayer(width, sum(outputs)), outputs
    )


def convolutional_decoder(
    size: int,
    hidden: int,
    start: int,
    widths: Sequence[int],
    shape: Shape,
    *,
    tanh: bool = False,
    norm: bool = False,
) -> ConvolutionStack:
    """Build two fully connected layers, then transposed convolutions from `start` channels.

    `tanh` replaces the ReLU of the second fully connected layer by a tanh.
    """
    stages = len(widths) + 1
    seed = (start, halvings(shape[1], stages)[-1], halvings(shape[2], stages)[-1])
    return ConvolutionStack(
        LinearLayer(size, hidden),
        nn.ReLU(inplace=True),
        LinearLayer(hidden, math.prod(seed)),
        nn.Tanh() if tanh else nn.ReLU(inplace=True),
        nn.Unflatten(1, seed),
        *upconvolutions(shape, start, widths, norm=norm),
    )


def mlp(sizes: Sequence[int], activation: nn.Module) -> list[nn.Module]:
    """Return fully connected layers through `sizes` with the activation between them."""
    layers: list[nn.Module] = []
    for narrow, wide in itertools.pairwise(sizes):
        layers += [LinearLayer(narrow, wide), activation]
    return layers[:-1]
