"""`check_network` catches each kind of mistake of a network."""

import numpy as np
import pytest
import torch
from torch import nn

import unweave as uw
from unweave.latents import Gaussian
from unweave.networks import BaseNetwork
from unweave.testing import (
    check_network,
)


@uw.spec
class Idle(BaseNetwork):
    """It has a layer that nothing reads, and may decode to another shape."""

    channels: int = 1

    def encoder(self, shape, outputs):
        encoder = nn.Sequential(nn.Flatten(), nn.Linear(int(np.prod(shape)), len(outputs)))
        if self.channels == 1:
            encoder.register_parameter("unused", nn.Parameter(torch.ones(3)))
        return encoder

    def decoder(self, size, shape):
        shape = (self.channels, *shape[1:])
        return nn.Sequential(nn.Linear(size, int(np.prod(shape))), nn.Unflatten(1, shape))


@uw.spec
class Dropping(BaseNetwork):
    """Dropout in the encoder or in the decoder."""

    encodes: bool = True

    def encoder(self, shape, outputs):
        rate = 0.5 if self.encodes else 0.0
        return nn.Sequential(nn.Dropout(rate), nn.Linear(shape[0], len(outputs)))

    def decoder(self, size, shape):
        return nn.Sequential(nn.Linear(size, shape[0]), nn.Dropout(0.5))


@pytest.mark.parametrize("encodes", [True, False])
def test_random_layers_are_caught(encodes):
    part = "encoder" if encodes else "decoder"
    with pytest.raises(AssertionError, match=f"{part}: gives different results for the same"):
        check_network(Dropping(encodes), shape=(12,))


@pytest.mark.parametrize(
    ("network", "law"),
    [(Idle(), "get no gradient: unused"), (Idle(channels=2), r"decoder: expected shape \(5, 1,")],
)
def test_mistakes_of_a_network_are_caught(network, law):
    with pytest.raises(AssertionError, match=law):
        check_network(network, shape=(1, 6, 6))


class BatchSoftmax(nn.Module):
    """It divides by a sum over the batch."""

    def forward(self, x):
        return x.softmax(0)


class Standardised(nn.Module):
    """It subtracts the mean of the batch."""

    def forward(self, x):
        return x - x.mean(0)


@uw.spec
class Mixing(BaseNetwork):
    """Its encoder or its decoder mixes the rows of a batch."""

    encodes: bool
    normalised: bool = False

    def encoder(self, shape, outputs):
        last = self._layer() if self.encodes else nn.Identity()
        return nn.Sequential(nn.Linear(*shape, len(outputs)), last)

    def decoder(self, size, shape):
        first = nn.Identity() if self.encodes else self._layer()
        return nn.Sequential(first, nn.Linear(size, *shape))

    def _layer(self):
        return Standardised() if self.normalised else BatchSoftmax()


@pytest.mark.parametrize("normalised", [True, False], ids=["mean", "softmax"])
@pytest.mark.parametrize("encodes", [True, False], ids=["encoder", "decoder"])
def test_a_network_that_mixes_rows_is_caught(encodes, normalised):
    part = "encoder" if encodes else "decoder"
    with pytest.raises(AssertionError, match=f"{part}: a row of its output depends on the other"):
        check_network(Mixing(encodes, normalised), shape=(6,))


def test_batch_normalisation_with_running_statistics_passes():
    def check(bias):
        encoder = nn.Sequential(nn.Linear(7, 6, bias), nn.BatchNorm1d(6))
        check_network(uw.Modules(encoder, nn.Linear(3, 7)), (7,), latent=Gaussian(3))

    check(bias=False)
    with pytest.raises(
        AssertionError, match=r"bias differs by .* in lanes and alone; .* bias=False"
    ):
        check(bias=True)


@uw.spec
class Shared(BaseNetwork):
    """Its encoder has a scale that is the same for all seeds, or never the same."""

    varies: bool

    def encoder(self, shape, outputs):
        scale = np.random.default_rng(None if self.varies else 0).random(len(outputs))
        return nn.Sequential(nn.Flatten(), nn.Linear(int(np.prod(shape)), len(outputs)),
                             Drawn(torch.as_tensor(scale, dtype=torch.float32)))  # fmt: skip

    def decoder(self, size, shape):
        return uw.MLP((4,)).decoder(size, shape)


class Drawn(nn.Module):
    """A scale of its own, and offsets that are drawn and stay."""

    def __init__(self, scale):
        super().__init__()
        self.scale = nn.Parameter(scale)
        self.register_buffer("offset", torch.randn(len(scale)))

    def forward(self, x):
        return x * self.scale + self.offset


@pytest.mark.parametrize(
    ("varies", "law"),
    [(False, "scale starts with the same values for every seed"),
     (True, "scale starts with other values each time")],
)  # fmt: skip
def test_initial_weights_that_do_not_follow_the_seed_are_caught(varies, law):
    with pytest.raises(AssertionError, match=law):
        check_network(Shared(varies), shape=(6,))


def test_a_network_part_without_parameters_passes():
    check_network(uw.Modules(nn.Identity(), nn.Linear(3, 6)), (6,), latent=Gaussian(3))
