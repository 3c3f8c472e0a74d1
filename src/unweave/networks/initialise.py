"""Initial weights, a function of the seed that is the same on every device and in every lane."""

import math
from typing import Literal, Protocol, cast, runtime_checkable

from torch import Tensor, nn

from unweave.core.noise import Noise
from unweave.networks.layers import BatchNorm

_NORMAL_STDDEV = 0.02


@runtime_checkable
class SelfInitialising(Protocol):
    """A module that draws its initial parameters itself."""

    def initial(self, noise: Noise, path: str) -> dict[str, Tensor]:
        """Draw the initial parameters, by name prefixed with the path."""


Init = Literal["fan-in", "glorot"]
LAYERS = (
    nn.Linear,
    nn.Conv1d,
    nn.Conv2d,
    nn.Conv3d,
    nn.ConvTranspose1d,
    nn.ConvTranspose2d,
    nn.ConvTranspose3d,
)


class NormalStack(nn.Sequential):
    """A sequence of layers whose weights start normal, with standard deviation 0.02.

    Weights of layers have mean 0, those of batch normalisations mean 1, and biases start at 0.
    [Radford2016] sec. 4; for normalisations, which it does not mention, as in its code.
    """


def initialise(module: nn.Module, noise: Noise, init: Init = "fan-in") -> dict[str, Tensor]:
    """Draw the initial parameters of a module, by name.

    Linear and convolutional layers start uniform. "fan-in" bounds weights and biases by
    1 / sqrt(fan in), like `torch.nn` (which takes the second axis as the fan of a transposed
    convolution); "glorot" bounds weights by sqrt(6 / (fan in + fan out)) and starts biases at 0,
    like TensorFlow, [Glorot2010] eq. 16. A `NormalStack` and `SelfInitialising` modules follow
    their own rules. All other parameters start as they were built, so build the module with torch's
    random numbers from the seed, as `Run.build` does.
    """
    values = {name: p.detach().to(noise.device) for name, p in module.named_parameters()}
    stacks = [part for part in module.modules() if isinstance(part, NormalStack)]
    normal = {layer for stack in stacks for layer in stack.modules()}
    for path, layer in module.named_modules():
        if layer in normal and isinstance(layer, (*LAYERS, BatchNorm)):
            values |= _normal(layer, path, noise)
        elif isinstance(layer, LAYERS):
            values |= _uniform(layer, path, noise, init)
        elif isinstance(layer, SelfInitialising):
            values |= layer.initial(noise, path)
    return values


def _uniform(layer: nn.Module, path: str, noise: Noise, init: Init) -> dict[str, Tensor]:
    weight = cast(Tensor, layer.weight)
    bound = 1 / math.sqrt(weight[0].numel())
    if init == "glorot":
        bound = math.sqrt(6 / (weight[0].numel() + weight[:, 0].numel()))
    values = {}
    for name, p in layer.named_parameters(prefix=path, recurse=False):
        value = bound * (2 * noise.uniform(p.shape, name, p.dtype) - 1)
        values[name] = value.zero_() if init == "glorot" and p.dim() == 1 else value
    return values


def _normal(layer: nn.Module, path: str, noise: Noise) -> dict[str, Tensor]:
    centre = 1.0 if isinstance(layer, BatchNorm) else 0.0
    values = {}
    for name, p in layer.named_parameters(prefix=path, recurse=False):
        value = centre + _NORMAL_STDDEV * noise.normal(p.shape, name, p.dtype)
        values[name] = value.zero_() if name.endswith("bias") else value
    return values
