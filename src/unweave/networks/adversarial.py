"""The networks of an InfoGAN."""

import math
from functools import partial
from typing import Literal, NamedTuple

from pydantic import NonNegativeFloat
from torch import nn

from unweave.core.spec import spec
from unweave.networks.base import Shape
from unweave.networks.layers import BatchNorm, Conv2d, ConvTranspose2d, LinearLayer
from unweave.networks.stacks import block, convolutions, rectifier, upconvolutions

_RECOGNISER_WIDTH = 128  # units of the recogniser's own layer


class _Table(NamedTuple):
    """The layer widths of one of the paper's tables."""

    down: tuple[int, ...]  # the trunk's convolutions of stride 2
    level: tuple[int, ...]  # the trunk's convolutions of stride 1, after them
    features: int  # the trunk's fully connected layer; the generator's first is as wide
    start: int  # output channels of the generator's second layer
    level_up: tuple[int, ...]  # the generator's transposed convolutions of stride 1
    up: tuple[int, ...]  # its transposed convolutions of stride 2, except the last
    leaky_up: bool  # whether the transposed convolutions have leaky ReLUs


_TABLES = {
    4: _Table((64, 128), (), 1024, 128, (), (64,), leaky_up=False),
    5: _Table((32, 32, 64, 64), (), 128, 64, (), (64, 32, 32), leaky_up=True),
    6: _Table((64, 128, 256), (256, 256), 1024, 256, (256, 256), (128, 64), leaky_up=True),
}


@spec
class Kim2018GAN:
    """Critic, recogniser and generator of an InfoGAN.  [Kim2018] tables 4, 5 and 6.

    Table 4 is for 28x28 images, 5 and 6 for 64x64. Any image works whose sides can be halved as
    often as in the table (2, 4 and 3 times). Critic and recogniser share the trunk.

    `norm="batch"` is InfoGAN, `norm="layer"` InfoWGAN-GP: the trunk's convolutions are not
    normalised and its fully connected layer has layer normalisation [Ba2016]; the recogniser's own
    layer and the generator do not change.  [Kim2018] app. H

    Not specified in the paper: normalisation comes before the activation [Ioffe2015]; convolutions
    of stride 1 keep the size by a padding of 1 before and 2 after; the slope of the leaky ReLUs is
    that of [Chen2016] app. C; weights are initialised as elsewhere in unweave.
    """

    table: Literal[4, 5, 6] = 5
    """Table of the paper that describes the network."""
    norm: Literal["batch", "layer"] = "batch"
    """Normalisation of the trunk: batch for InfoGAN, layer for InfoWGAN-GP."""
    slope: NonNegativeFloat = 0.1
    """Slope of the leaky ReLU for negative values."""

    def trunk(self, shape: Shape) -> nn.Module:
        """Build the trunk, from images (B, *shape) to features (B, F)."""
        self._check(shape)
        table, batch = self._table, self.norm == "batch"
        norms = [False, *[batch] * (len(table.down) - 1)]
        layers, (channels, *sides) = convolutions(shape, table.down, slope=self.slope, norms=norms)
        for wide in table.level:
            norm = BatchNorm(wide) if batch else None
            convolution = partial(Conv2d, channels, wide, 4)
            layers += [nn.ZeroPad2d((1, 2, 1, 2)), *block(convolution, norm, self._leaky)]
            channels = wide
        linear = partial(LinearLayer, channels * math.prod(sides), table.features)
        last = BatchNorm(table.features) if batch else nn.LayerNorm(table.features)
        return nn.Sequential(*layers, nn.Flatten(), *block(linear, last, self._leaky))

    def critic_head(self) -> nn.Module:
        """Build the critic's last layer, from features (B, F) to a logit or score (B, 1)."""
        return LinearLayer(self._table.features, 1)

    def recogniser(self, outputs: int) -> nn.Module:
        """Build the recogniser, from features (B, F) to the parameters of q(c|x), (B, outputs)."""
        linear = partial(LinearLayer, self._table.features, _RECOGNISER_WIDTH)
        own = block(linear, BatchNorm(_RECOGNISER_WIDTH), self._leaky)
        return nn.Sequential(*own, LinearLayer(_RECOGNISER_WIDTH, outputs))

    def generator(self, size: int, shape: Shape) -> nn.Module:
        """Build the generator, from codes and noise (B, size) to (B, *shape), before a sigmoid."""
        self._check(shape)
        table, slope = self._table, self.slope if self._table.leaky_up else 0.0
        seed = (table.start, *(side >> len(table.up) + 1 for side in shape[1:]))
        layers: list[nn.Module] = []
        for narrow, wide in ((size, table.features), (table.features, math.prod(seed))):
            linear = partial(LinearLayer, narrow, wide)
            layers += block(linear, BatchNorm(wide), nn.ReLU(inplace=True))
        layers.append(nn.Unflatten(1, seed))
        channels = table.start
        for wide in table.level_up:
            convolution = partial(ConvTranspose2d, channels, wide, 4, padding=1)
            convolved, *rest = block(convolution, BatchNorm(wide), rectifier(slope))
            layers += [convolved, nn.ZeroPad2d((0, -1, 0, -1)), *rest]
            channels = wide
        return nn.Sequential(
            *layers, *upconvolutions(shape, channels, table.up, slope=slope, norm=True)
        )

    @property
    def _table(self) -> _Table:
        return _TABLES[self.table]

    @property
    def _leaky(self) -> nn.Module:
        return rectifier(self.slope)

    def _check(self, shape: Shape) -> None:
        factor = 2 ** len(self._table.down)
        if len(shape) != 3 or any(side % factor for side in shape[1:]):
            raise ValueError(
                f"table {self.table} takes images whose sides are multiples of {factor}, got "
                f"observations of shape {shape}; resize them, or use table=4 for multiples of 4"
            )
