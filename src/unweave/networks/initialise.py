"""Initial weights as a function of the seed, the same on every device and in every lane."""

from __future__ import annotations

import math
from typing import Literal, Protocol, runtime_checkable

from torch import Tensor, nn

from unweave.core.noise import Noise
from unweave.networks.layers import BatchNorm

_SPREAD = 0.02


@runtime_checkable
class Drawn(Protocol):
    """A module that draws its initial parameters itself."""

    def initial(self, noise: Noise, path: str) -> dict[str, Tensor]:
        """Initial parameters by name, under a path."""


Init = Literal["fan-in", "glorot"]
_LAYERS = (nn.Linear, nn.Conv2d, nn.ConvTranspose2d)


class NormalStack(nn.Sequential):
    """Layers in a row whose weights start normal, with standard deviation 0.02.

    Those of layers start around 0, those of batch normalisations around 1, and biases at 0.
    [Radford2016] sec. 4; it does not mention normalisations, and this is how its code has them.
    """


def initialise(module: nn.Module, noise: Noise, init: Init = "fan-in") -> dict[str, Tensor]:
    """Draw the initial parameters of a module, by name.

    Linear and convolutional layers start uniform. "fan-in" bounds weights and biases by
    1 / sqrt(fan in), as `torch.nn` does (there the fan of a transposed convolution is that of its
    second axis); "glorot" bounds weights by sqrt(6 / (fan in + fan out)) and starts biases at 0, as
    TensorFlow does [Glorot2010] eq. 16. A `NormalStack` and modules that are `Drawn` follow their
    own rule, and everything else starts as it was built.
    """
    values = {name: p.detach().to(noise.device) for name, p in module.named_parameters()}
    stacks = [part for part in module.modules() if isinstance(part, NormalStack)]
    normal = {layer for stack in stacks for layer in stack.modules()}
    for path, layer in module.named_modules():
        if layer in normal and isinstance(layer, (*_LAYERS, BatchNorm)):
            values |= _normal(layer, path, noise)
        elif isinstance(layer, _LAYERS):
            values |= _uniform(layer, path, noise, init)
        elif isinstance(layer, Drawn):
            values |= layer.initial(noise, path)
    return values


def _uniform(
    layer: nn.Linear | nn.Conv2d | nn.ConvTranspose2d, path: str, noise: Noise, init: Init
) -> dict[str, Tensor]:
    bound = 1 / math.sqrt(layer.weight[0].numel())
    if init == "glorot":
        bound = math.sqrt(6 / (layer.weight[0].numel() + layer.weight[:, 0].numel()))
    values = {}
    for name, p in layer.named_parameters(prefix=path, recurse=False):
        drawn = bound * (2 * noise.uniform(p.shape, name, p.dtype) - 1)
        values[name] = drawn.zero_() if init == "glorot" and p.dim() == 1 else drawn
    return values


def _normal(layer: nn.Module, path: str, noise: Noise) -> dict[str, Tensor]:
    centre = 1.0 if isinstance(layer, BatchNorm) else 0.0
    values = {}
    for name, p in layer.named_parameters(prefix=path, recurse=False):
        drawn = centre + _SPREAD * noise.normal(p.shape, name, p.dtype)
        values[name] = drawn.zero_() if name.endswith("bias") else drawn
    return values
