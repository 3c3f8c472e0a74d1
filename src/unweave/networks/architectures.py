"""Encoders and decoders: the papers' architectures and general ones."""

import math
from collections.abc import Sequence
from functools import partial
from typing import Annotated, ClassVar, Literal

from pydantic import Field, NonNegativeFloat
from torch import nn

from unweave.core.optimisers import Adam
from unweave.core.spec import Size, spec, tag
from unweave.networks.base import BaseNetwork, Outputs, Shape
from unweave.networks.initialise import NormalStack
from unweave.networks.layers import BatchNorm, Conv2d, ConvTranspose2d
from unweave.networks.stacks import (
    block,
    convolutional_decoder,
    convolutional_encoder,
    convolutions,
    early_logits,
    mlp,
    upconvolutions,
)

_ACTIVATIONS: dict[str, type[nn.Module]] = {"relu": nn.ReLU, "tanh": nn.Tanh}


def _require_image(shape: Shape, name: str, sides: tuple[int, int]) -> None:
    low, high = sides
    if len(shape) == 3 and all(low <= side <= high for side in shape[1:]):
        return
    wanted = f"{low}x{high}" if low == high else f"with sides from {low} to {high}"
    kind = "images" if len(shape) == 3 else "vectors"
    got = "x".join(map(str, shape[1:] if len(shape) == 3 else shape))
    alternative = "conv" if len(shape) == 3 and low == high else "mlp"
    raise ValueError(
        f"network {name} takes images {wanted}, got {kind} of {got}; use network={alternative}"
    )


@spec
class Kim2018(BaseNetwork):
    """Encoder and decoder for 64x64 images.  [Kim2018] table 1; tables 2 and 3 with hidden=256.

    The fully connected layer of the encoder has no activation, as printed.
    """

    hidden: Size = 128
    """Units of the hidden layer."""
    kind: Literal["kim2018"] = tag("kim2018")

    def encoder(self, shape: Shape, outputs: Outputs) -> nn.Module:
        _require_image(shape, "kim2018", (64, 64))
        return convolutional_encoder(
            shape, (32, 32, 64, 64), self.hidden, len(outputs), activate_hidden=False
        )

    def decoder(self, size: int, shape: Shape) -> nn.Module:
        return convolutional_decoder(size, self.hidden, 64, (64, 32, 32), shape)


@spec
class Mathieu2019(BaseNetwork):
    """Encoder and decoder for 64x64 images.  [Mathieu2019] table 1a.

    Like [Kim2018] table 1, with 64 instead of 32 channels in the second transposed convolution.
    Table 1b is `MLP`, table 1c `DCGAN`. The third convolution has `third` channels: 64 there, 32
    in [Mathieu2018] table 1a.
    """

    hidden: Size = 128
    """Units of the hidden layer."""
    third: Literal[32, 64] = 64
    """Channels of the third convolution."""
    kind: Literal["mathieu2019"] = tag("mathieu2019")

    @property
    def also_cites(self) -> tuple[str, ...]:
        """The source of the narrower third convolution, if it is used."""
        return ("Mathieu2018",) if self.third == 32 else ()

    def encoder(self, shape: Shape, outputs: Outputs) -> nn.Module:
        _require_image(shape, "mathieu2019", (64, 64))
        widths = (32, 32, self.third, 64)
        return convolutional_encoder(
            shape, widths, self.hidden, len(outputs), activate_hidden=False
        )

    def decoder(self, size: int, shape: Shape) -> nn.Module:
        return convolutional_decoder(size, self.hidden, 64, (64, 64, 32), shape)


@spec
class DCGAN(BaseNetwork):
    """Convolutions with batch normalisation for 64x64 images.  [Mathieu2019] table 1c.

    The networks of [Radford2016]: normalisation before leaky ReLU (encoder) and ReLU (decoder), no
    fully connected layer, weights that start from N(0, 0.02^2). Widths double from `base` at every
    halving of the image down to 4x4; images of side 16, 32 and 128 have fewer or more halvings. The
    table also normalises the first convolution; `first_norm=False` omits that, like [Radford2016].
    """

    base: Size = 32
    """Channels of the first convolutions."""
    first_norm: bool = True
    """Whether the first convolution is normalised."""
    kind: Literal["dcgan"] = tag("dcgan")
    also_cites: ClassVar[tuple[str, ...]] = ("Radford2016",)

    def encoder(self, shape: Shape, outputs: Outputs) -> nn.Module:
        widths = self._widths(shape)
        norms = [self.first_norm, *[True] * (len(widths) - 1)]
        layers, _ = convolutions(shape, widths, slope=0.2, norms=norms)
        return NormalStack(*layers, Conv2d(widths[-1], len(outputs), 4), nn.Flatten())

    def decoder(self, size: int, shape: Shape) -> nn.Module:
        start, *widths = self._widths(shape)[::-1]
        first = block(
            partial(ConvTranspose2d, size, start, 4), BatchNorm(start), nn.ReLU(inplace=True)
        )
        layers = upconvolutions(shape, start, widths, norm=True)
        return NormalStack(nn.Unflatten(1, (size, 1, 1)), *first, *layers)

    def _widths(self, shape: Shape) -> list[int]:
        if len(shape) != 3 or shape[1] != shape[2] or shape[1] not in (16, 32, 64, 128):
            raise ValueError(
                "network dcgan takes square images of side 16, 32, 64 or 128, got observations of "
                f"shape {shape}; use network={'conv' if len(shape) == 3 else 'mlp'}"
            )
        return [self.base << stage for stage in range(int(math.log2(shape[1] / 4)))]


@spec
class Esmaeili2019(BaseNetwork):
    """Encoders and decoders of [Esmaeili2019] tables 3 (MNIST), 4 (dSprites) and 5 (CelebA).

    Tables 3 and 4 are fully connected; table 5 has convolutions with batch normalisation for 64x64
    images. As printed, the logits of discrete variables leave the encoder one layer before the
    other outputs: they read the input of the last hidden layer, means and log-variances its output.
    That layer, printed as "2 x" its width, has twice the width. We omit the ReLU that table 5
    prints after means and log-variances, because it would make them non-negative.
    """

    table: Literal[3, 4, 5] = 5
    """Table of the paper that describes the network."""
    kind: Literal["esmaeili2019"] = tag("esmaeili2019")

    def encoder(self, shape: Shape, outputs: Outputs) -> nn.Module:
        if self.table == 5:
            _require_image(shape, "esmaeili2019 of table 5", (64, 64))
            layers, end = convolutions(shape, (32, 32, 64, 64), norms=[True] * 4)
            return early_logits([*layers, nn.Flatten()], math.prod(end), 2 * 256, outputs)
        widths, hidden = ((400,), 2 * 200) if self.table == 3 else ((1200, 1200), 2 * 400)
        layers = [nn.Flatten(), *mlp((math.prod(shape), *widths), nn.ReLU()), nn.ReLU()]
        return early_logits(layers, widths[-1], hidden, outputs)

    def decoder(self, size: int, shape: Shape) -> nn.Module:
        if self.table == 5:
            return convolutional_decoder(size, 256, 64, (64, 32, 32), shape, tanh=True, norm=True)
        if self.table == 3:
            return _flat_decoder(size, (200, 400), shape, nn.ReLU())
        return _flat_decoder(size, (400, 1200, 1200), shape, nn.Tanh())


@spec
class Conv(BaseNetwork):
    """Convolutions for images of any side from 16 to 256 and any number of channels.

    Halves the image until its shorter side is 4 to 7 (`base` channels in the first two stages,
    twice that in the others), followed by one hidden layer; the decoder mirrors it. Our own design,
    modelled on [Kim2018] table 1.
    """

    base: Size = 32
    """Channels of the first convolutions."""
    hidden: Size = 256
    """Units of the hidden layer."""
    kind: Literal["conv"] = tag("conv")

    def encoder(self, shape: Shape, outputs: Outputs) -> nn.Module:
        _require_image(shape, "conv", (16, 256))
        return convolutional_encoder(
            shape, self._widths(shape), self.hidden, len(outputs), activate_hidden=True
        )

    def decoder(self, size: int, shape: Shape) -> nn.Module:
        start, *widths = self._widths(shape)[::-1]
        return convolutional_decoder(size, self.hidden, start, widths, shape)

    def _widths(self, shape: Shape) -> list[int]:
        stages = int(math.log2(min(shape[1:]) / 4))
        return [self.base if stage < 2 else 2 * self.base for stage in range(stages)]


@spec
class MLP(BaseNetwork):
    """Fully connected layers, for vectors and small images; the decoder mirrors the encoder."""

    # [Mathieu2019] table 1b; [Sikka2019] app. C has (256, 200, 200) with tanh.
    hidden: Annotated[tuple[Size, ...], Field(max_length=1_000)] = (100,)
    """Units of each hidden layer of the encoder; the decoder mirrors them."""
    activation: Literal["relu", "tanh"] = "relu"
    """Activation function of the hidden layers."""
    kind: Literal["mlp"] = tag("mlp")

    def encoder(self, shape: Shape, outputs: Outputs) -> nn.Module:
        sizes = (math.prod(shape), *self.hidden, len(outputs))
        return nn.Sequential(nn.Flatten(), *mlp(sizes, _ACTIVATIONS[self.activation]()))

    def decoder(self, size: int, shape: Shape) -> nn.Module:
        return _flat_decoder(size, self.hidden[::-1], shape, _ACTIVATIONS[self.activation]())


def _flat_decoder(
    size: int, widths: Sequence[int], shape: Shape, activation: nn.Module
) -> nn.Module:
    layers = mlp((size, *widths, math.prod(shape)), activation)
    return nn.Sequential(*layers, nn.Unflatten(1, shape))


@spec
class Critic:
    """An MLP with two logits that separates two distributions of codes, and its optimiser.

    Six hidden layers of 1000 units with leaky ReLU, Adam(1e-4, (0.5, 0.9)).  [Kim2018] app. A.
    The slope 0.2 is that of the reference implementations; the paper does not state it.
    """

    width: Size = 1000
    """Units of each hidden layer."""
    depth: Annotated[int, Field(gt=0, le=1_000)] = 6
    """Number of hidden layers."""
    slope: NonNegativeFloat = 0.2
    """Slope of the leaky ReLU for negative values."""
    optimiser: Adam = Adam(lr=1e-4, betas=(0.5, 0.9))
    """Optimiser of the critic."""

    def network(self, size: int) -> nn.Module:
        """Build the critic, from codes (B, size) to logits (B, 2), row by row.

        It sees the codes of both distributions in one batch.
        """
        sizes = (size, *(self.width,) * self.depth, 2)
        return nn.Sequential(*mlp(sizes, nn.LeakyReLU(self.slope)))
