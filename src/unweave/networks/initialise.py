"""Initial weights, a function of the seed that is the same on every device and in every lane."""

import math
from typing import Literal, Protocol, cast, runtime_checkable

import torch
from torch import Tensor, nn

from unweave.core.noise import Noise
from unweave.networks.layers import BatchNorm

_NORMAL_STDDEV = 0.02
_CUT = 2.0  # of the truncated normal distribution, in standard deviations
_TRANSPOSED = (nn.ConvTranspose1d, nn.ConvTranspose2d, nn.ConvTranspose3d)


@runtime_checkable
class SelfInitialising(Protocol):
    """A module that draws its initial parameters itself."""

    def initial(self, noise: Noise, path: str) -> dict[str, Tensor]:
        """Draw the initial parameters, by name prefixed with the path."""


Init = Literal["fan-in", "glorot", "lecun"]
LAYERS = (nn.Linear, nn.Conv1d, nn.Conv2d, nn.Conv3d, *_TRANSPOSED)


class NormalStack(nn.Sequential):
    """A sequence of layers whose weights start normal, with standard deviation 0.02.

    Weights of layers have mean 0, those of batch normalisations mean 1, and biases start at 0.
    [Radford2016] sec. 4; for normalisations, which it does not mention, as in its code.
    """


def initialise(module: nn.Module, noise: Noise, init: Init = "fan-in") -> dict[str, Tensor]:
    """Draw the initial parameters of a module, by name.

    For linear and convolutional layers there are three rules:

    - "fan-in" draws weights and biases uniformly within 1 / sqrt(fan in), like `torch.nn` (which
      takes the second axis as the fan of a transposed convolution);
    - "glorot" draws weights uniformly within sqrt(6 / (fan in + fan out)), like TensorFlow,
      [Glorot2010] eq. 16. Biases start at 0;
    - "lecun" draws weights from a normal distribution with standard deviation 1 / sqrt(fan in), as
      in [LeCun1998b] sec. 4.6, cut off at two standard deviations, like Sonnet. What is left has
      0.88 of this standard deviation. Biases start at 0.

    A `NormalStack` and `SelfInitialising` modules follow their own rules. All other parameters
    start as they were built, so build the module with torch's random numbers from the seed, as
    `Run.build` does.
    """
    values = {name: p.detach().to(noise.device) for name, p in module.named_parameters()}
    stacks = [part for part in module.modules() if isinstance(part, NormalStack)]
    normal = {layer for stack in stacks for layer in stack.modules()}
    for path, layer in module.named_modules():
        if layer in normal and isinstance(layer, (*LAYERS, BatchNorm)):
            values |= _normal(layer, path, noise)
        elif isinstance(layer, LAYERS):
            values |= _layer(layer, path, noise, init)
        elif isinstance(layer, SelfInitialising):
            values |= layer.initial(noise, path)
    return values


def _layer(layer: nn.Module, path: str, noise: Noise, init: Init) -> dict[str, Tensor]:
    weight = cast(Tensor, layer.weight)
    fan_in, fan_out = weight[0].numel(), weight[:, 0].numel()
    if init == "lecun" and isinstance(layer, _TRANSPOSED):
        fan_in = fan_out  # the first axis of its weight is its inputs
    scale = math.sqrt(6 / (fan_in + fan_out)) if init == "glorot" else 1 / math.sqrt(fan_in)
    values = {}
    for name, p in layer.named_parameters(prefix=path, recurse=False):
        uniform = noise.uniform(p.shape, name, p.dtype)
        value = scale * (_truncated_normal(uniform) if init == "lecun" else 2 * uniform - 1)
        values[name] = value.zero_() if init != "fan-in" and p.dim() == 1 else value
    return values


def _truncated_normal(uniform: Tensor) -> Tensor:
    """Map uniform numbers to standard normal ones within `_CUT`.

    In float64, whose rounding to float32 is the same on every device.
    """
    low = math.erfc(_CUT / math.sqrt(2)) / 2
    quantiles: Tensor = torch.special.ndtri(low + (1 - 2 * low) * uniform.double())
    return quantiles.to(uniform.dtype)


def _normal(layer: nn.Module, path: str, noise: Noise) -> dict[str, Tensor]:
    centre = 1.0 if isinstance(layer, BatchNorm) else 0.0
    values = {}
    for name, p in layer.named_parameters(prefix=path, recurse=False):
        value = centre + _NORMAL_STDDEV * noise.normal(p.shape, name, p.dtype)
        values[name] = value.zero_() if name.endswith("bias") else value
    return values
