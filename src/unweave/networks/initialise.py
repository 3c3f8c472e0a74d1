"""Initial weights as a function of the seed, the same on every device and in every lane."""

from __future__ import annotations

import math

from torch import Tensor, nn

from unweave.noise import Noise


def initialise(module: nn.Module, noise: Noise) -> dict[str, Tensor]:
    """Initial parameters by name; layers are uniform within 1 / sqrt(fan in), others as built.

    The bound is that of `torch.nn` for linear and convolutional layers; the fan of a transposed
    convolution is, as there, that of its second axis.
    """
    values = {name: p.detach().to(noise.device) for name, p in module.named_parameters()}
    for path, layer in module.named_modules():
        if isinstance(layer, (nn.Linear, nn.Conv2d, nn.ConvTranspose2d)):
            bound = 1 / math.sqrt(layer.weight[0].numel())
            for name, p in layer.named_parameters(prefix=path, recurse=False):
                values[name] = bound * (2 * noise.uniform(p.shape, name, p.dtype) - 1)
    return values
