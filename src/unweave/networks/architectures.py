"""The papers' architectures and general ones, as specs that build encoders and decoders."""

from __future__ import annotations

import math
from typing import Annotated, Literal

from pydantic import Field, NonNegativeFloat, PositiveInt
from torch import nn

from unweave.networks.stacks import Shape, convolutional_decoder, convolutional_encoder, mlp
from unweave.optimisers import Adam
from unweave.spec import spec, tag

_ACTIVATIONS: dict[str, type[nn.Module]] = {"relu": nn.ReLU, "tanh": nn.Tanh}


def _require_image(shape: Shape, name: str, sides: tuple[int, int]) -> None:
    low, high = sides
    if len(shape) == 3 and all(low <= side <= high for side in shape[1:]):
        return
    wanted = f"{low}x{high}" if low == high else f"with sides from {low} to {high}"
    kind = "images" if len(shape) == 3 else "vectors"
    came = "x".join(map(str, shape[1:] if len(shape) == 3 else shape))
    fix = "conv" if len(shape) == 3 and low == high else "mlp"
    raise ValueError(
        f"network {name} takes images {wanted}, got {kind} of {came}; use network={fix}"
    )


@spec
class Kim2018:
    """Encoder and decoder for 64x64 images.  [Kim2018] table 1; tables 2 and 3 with hidden=256.

    The fully connected layer of the encoder has no activation, as printed.
    """

    hidden: PositiveInt = 128
    kind: Literal["kim2018"] = tag("kim2018")

    def encoder(self, shape: Shape, outputs: int) -> nn.Module:
        """From images (B, C, 64, 64) to (B, outputs)."""
        _require_image(shape, "kim2018", (64, 64))
        return convolutional_encoder(
            shape, (32, 32, 64, 64), self.hidden, outputs, activate_hidden=False
        )

    def decoder(self, size: int, shape: Shape) -> nn.Module:
        """From codes (B, size) to (B, C, 64, 64)."""
        return convolutional_decoder(size, self.hidden, 64, (64, 32, 32), shape)


@spec
class Mathieu2019:
    """Encoder and decoder for 64x64 images.  [Mathieu2019] table 1a.

    As [Kim2018] table 1, with 64 instead of 32 channels in the second transposed convolution.
    """

    hidden: PositiveInt = 128
    kind: Literal["mathieu2019"] = tag("mathieu2019")

    def encoder(self, shape: Shape, outputs: int) -> nn.Module:
        """From images (B, C, 64, 64) to (B, outputs)."""
        _require_image(shape, "mathieu2019", (64, 64))
        return convolutional_encoder(
            shape, (32, 32, 64, 64), self.hidden, outputs, activate_hidden=False
        )

    def decoder(self, size: int, shape: Shape) -> nn.Module:
        """From codes (B, size) to (B, C, 64, 64)."""
        return convolutional_decoder(size, self.hidden, 64, (64, 64, 32), shape)


@spec
class Conv:
    """Convolutions for images of any side from 16 to 256 and any number of channels.

    Halves the image until its shorter side is 4 to 7 (`base` channels in the first two stages,
    twice that in the others), then one hidden layer; the decoder mirrors it. Ours, in the manner
    of [Kim2018] table 1.
    """

    base: PositiveInt = 32
    hidden: PositiveInt = 256
    kind: Literal["conv"] = tag("conv")

    def encoder(self, shape: Shape, outputs: int) -> nn.Module:
        """From images (B, C, H, W) to (B, outputs)."""
        _require_image(shape, "conv", (16, 256))
        return convolutional_encoder(
            shape, self._widths(shape), self.hidden, outputs, activate_hidden=True
        )

    def decoder(self, size: int, shape: Shape) -> nn.Module:
        """From codes (B, size) to (B, C, H, W)."""
        start, *widths = self._widths(shape)[::-1]
        return convolutional_decoder(size, self.hidden, start, widths, shape)

    def _widths(self, shape: Shape) -> list[int]:
        stages = int(math.log2(min(shape[1:]) / 4))
        return [self.base if stage < 2 else 2 * self.base for stage in range(stages)]


@spec
class MLP:
    """Fully connected layers, for vectors and for small images.

    Defaults as in [Mathieu2019] table 1b: one hidden layer of 100 units with ReLU.
    """

    hidden: tuple[PositiveInt, ...] = (100,)
    activation: Literal["relu", "tanh"] = "relu"
    kind: Literal["mlp"] = tag("mlp")

    def encoder(self, shape: Shape, outputs: int) -> nn.Module:
        """From observations (B, *shape) to (B, outputs)."""
        sizes = (math.prod(shape), *self.hidden, outputs)
        return nn.Sequential(nn.Flatten(), *mlp(sizes, _ACTIVATIONS[self.activation]()))

    def decoder(self, size: int, shape: Shape) -> nn.Module:
        """From codes (B, size) to (B, *shape)."""
        sizes = (size, *self.hidden[::-1], math.prod(shape))
        layers = mlp(sizes, _ACTIVATIONS[self.activation]())
        return nn.Sequential(*layers, nn.Unflatten(1, shape))


Network = Annotated[Kim2018 | Mathieu2019 | Conv | MLP, Field(discriminator="kind")]


@spec
class Critic:
    """An MLP with two logits that tells two distributions of codes apart, and its optimiser.

    Six hidden layers of 1000 units with leaky ReLU, Adam(1e-4, (0.5, 0.9)).  [Kim2018] app. A.
    The slope 0.2 is that of the reference implementations; the paper does not give it.
    """

    width: PositiveInt = 1000
    depth: PositiveInt = 6
    slope: NonNegativeFloat = 0.2
    optimiser: Adam = Adam(lr=1e-4, betas=(0.5, 0.9))

    def network(self, size: int) -> nn.Module:
        """From codes (B, size) to logits (B, 2)."""
        sizes = (size, *(self.width,) * self.depth, 2)
        return nn.Sequential(*mlp(sizes, nn.LeakyReLU(self.slope)))
