"""Builders shared by the architectures: strided convolutions down, transposed ones up, MLPs."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

from torch import nn

from unweave.networks.layers import DownConv2d, UpConv2d

Shape = tuple[int, ...]


def halvings(side: int, stages: int) -> list[int]:
    """The side of an image before, between and after `stages` strided convolutions.

    >>> halvings(64, 4)
    [64, 32, 16, 8, 4]
    """
    sides = [side]
    for _ in range(stages):
        sides.append(sides[-1] // 2)
    return sides


def convolutions(shape: Shape, widths: Sequence[int]) -> tuple[list[nn.Module], Shape]:
    """4x4 convolutions of stride 2, each with a ReLU, and the shape they end in."""
    channels, height, width = shape
    layers: list[nn.Module] = []
    for wide in widths:
        layers.append(DownConv2d(channels, wide, activate=True))
        channels, height, width = wide, height // 2, width // 2
    return layers, (channels, height, width)


def upconvolutions(shape: Shape, start: int, widths: Sequence[int]) -> list[nn.Module]:
    """4x4 transposed convolutions of stride 2 that end in `shape`, ReLU between them.

    Sides that were odd on the way down get back the row they lost by output padding.
    """
    heights = halvings(shape[1], len(widths) + 1)[::-1]
    breadths = halvings(shape[2], len(widths) + 1)[::-1]
    layers: list[nn.Module] = []
    channels = start
    for stage, wide in enumerate([*widths, shape[0]]):
        odd = (heights[stage + 1] - 2 * heights[stage], breadths[stage + 1] - 2 * breadths[stage])
        layers.append(UpConv2d(channels, wide, odd, activate=stage < len(widths)))
        channels = wide
    return layers


def convolutional_encoder(
    shape: Shape, widths: Sequence[int], hidden: int, outputs: int, *, activate_hidden: bool
) -> nn.Sequential:
    """Convolutions, one fully connected hidden layer, and the posterior's numbers (B, outputs)."""
    layers, end = convolutions(shape, widths)
    layers += [nn.Flatten(), nn.Linear(math.prod(end), hidden)]
    if activate_hidden:
        layers.append(nn.ReLU(inplace=True))
    return nn.Sequential(*layers, nn.Linear(hidden, outputs))


def convolutional_decoder(
    size: int, hidden: int, start: int, widths: Sequence[int], shape: Shape
) -> nn.Sequential:
    """Two fully connected layers, then transposed convolutions from `start` channels to `shape`."""
    stages = len(widths) + 1
    seed = (start, halvings(shape[1], stages)[-1], halvings(shape[2], stages)[-1])
    return nn.Sequential(
        nn.Linear(size, hidden),
        nn.ReLU(inplace=True),
        nn.Linear(hidden, math.prod(seed)),
        nn.ReLU(inplace=True),
        nn.Unflatten(1, seed),
        *upconvolutions(shape, start, widths),
    )


def mlp(sizes: Sequence[int], activation: nn.Module) -> list[nn.Module]:
    """Fully connected layers through `sizes` with the activation between them."""
    layers: list[nn.Module] = []
    for narrow, wide in itertools.pairwise(sizes):
        layers += [nn.Linear(narrow, wide), activation]
    return layers[:-1]
