"""Builders shared by the architectures: strided convolutions down, transposed ones up, MLPs."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from functools import partial

import torch
from torch import Tensor, nn

from unweave.networks.layers import BatchNorm, Chain, DownConv2d, UpConv2d

Shape = tuple[int, ...]
Outputs = Sequence[bool]  # the encoder's numbers: whether each is a logit of a discrete variable


def halvings(side: int, stages: int) -> list[int]:
    """The side of an image before, between and after `stages` strided convolutions.

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
    """A layer, its normalisation if it has one, and its activation, in this order.

    Batch normalisation takes the mean away, so a layer before it has no bias.
    """
    if norm is None:
        return [layer(), activation]
    return [layer(bias=not isinstance(norm, BatchNorm)), norm, activation]


def rectifier(slope: float) -> nn.Module:
    """A leaky ReLU; with slope 0 the ReLU, in place.

    What our kernels give may not be changed in place, and no ReLU of its own follows a convolution.
    """
    return nn.LeakyReLU(slope) if slope else nn.ReLU(inplace=True)


def _rectified(
    convolution: Callable[..., nn.Module], wide: int, slope: float, norm: bool
) -> list[nn.Module]:
    """One of our convolutions with what follows it; a ReLU that follows directly is its own."""
    if not norm and not slope:
        return [convolution(activate=True)]
    return block(convolution, BatchNorm(wide) if norm else None, rectifier(slope))


def convolutions(
    shape: Shape, widths: Sequence[int], *, slope: float = 0.0, norms: Sequence[bool] = ()
) -> tuple[list[nn.Module], Shape]:
    """4x4 convolutions of stride 2, each with a ReLU, and the shape they end in.

    `slope` makes the ReLUs leaky; `norms` says which convolutions are batch-normalised (none).
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
    """4x4 transposed convolutions of stride 2 that end in `shape`, ReLU between them.

    Sides that were odd on the way down get back the row they lost by output padding. `slope` makes
    the ReLUs leaky, `norm` puts batch normalisation before them.
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
    shape: Shape,
    widths: Sequence[int],
    hidden: int,
    outputs: int,
    *,
    activate_hidden: bool,
    norm: bool = False,
) -> Chain:
    """Convolutions, one fully connected hidden layer, and the posterior's numbers (B, outputs)."""
    layers, end = convolutions(shape, widths, norms=[norm] * len(widths))
    layers += [nn.Flatten(), nn.Linear(math.prod(end), hidden)]
    if activate_hidden:
        layers.append(nn.ReLU(inplace=True))
    return Chain(*layers, nn.Linear(hidden, outputs))


class EarlyLogits(nn.Module):
    """A trunk that two heads read: some layers, and a linear layer for the logits.

    Their numbers are put into the order of `outputs`.
    """

    def __init__(self, trunk: Chain, head: Chain, logits: nn.Linear, outputs: Outputs) -> None:
        super().__init__()
        self.trunk, self.head, self.logits = trunk, head, logits
        others = [place for place, logit in enumerate(outputs) if not logit]
        apart = others + [place for place, logit in enumerate(outputs) if logit]
        order = torch.tensor(sorted(range(len(apart)), key=apart.__getitem__))
        self.register_buffer("order", order, persistent=False)
        self.order: Tensor

    def forward(self, x: Tensor) -> Tensor:
        """From observations (B, *shape) to (B, outputs)."""
        features = self.trunk(x)
        return torch.cat([self.head(features), self.logits(features)], -1)[..., self.order]


def early_logits(
    trunk: Sequence[nn.Module], width: int, hidden: int, outputs: Outputs
) -> nn.Module:
    """An encoder whose logits are linear in the trunk's features (B, width).

    Its other numbers are linear in a hidden layer with a ReLU on top of the same features.
    """
    if all(outputs):
        return Chain(*trunk, nn.Linear(width, len(outputs)))
    head = [nn.Linear(width, hidden), nn.ReLU(), nn.Linear(hidden, len(outputs) - sum(outputs))]
    if not any(outputs):
        return Chain(*trunk, *head)
    return EarlyLogits(Chain(*trunk), Chain(*head), nn.Linear(width, sum(outputs)), outputs)


def convolutional_decoder(
    size: int,
    hidden: int,
    start: int,
    widths: Sequence[int],
    shape: Shape,
    *,
    tanh: bool = False,
    norm: bool = False,
) -> Chain:
    """Two fully connected layers, then transposed convolutions from `start` channels to `shape`.

    `tanh` puts a tanh for the ReLU of the second fully connected layer.
    """
    stages = len(widths) + 1
    seed = (start, halvings(shape[1], stages)[-1], halvings(shape[2], stages)[-1])
    return Chain(
        nn.Linear(size, hidden),
        nn.ReLU(inplace=True),
        nn.Linear(hidden, math.prod(seed)),
        nn.Tanh() if tanh else nn.ReLU(inplace=True),
        nn.Unflatten(1, seed),
        *upconvolutions(shape, start, widths, norm=norm),
    )


def mlp(sizes: Sequence[int], activation: nn.Module) -> list[nn.Module]:
    """Fully connected layers through `sizes` with the activation between them."""
    layers: list[nn.Module] = []
    for narrow, wide in itertools.pairwise(sizes):
        layers += [nn.Linear(narrow, wide), activation]
    return layers[:-1]
