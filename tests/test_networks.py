"""Networks: the papers' tables, any image size, and initial weights as a function of the seed."""

import math

import pytest
import torch
from torch import nn

import unweave as uw
from unweave.likelihoods import Bernoulli, Gaussian, Likelihood
from unweave.networks import Network, initialise
from unweave.networks.layers import DownConv2d, UpConv2d
from unweave.noise import Noise
from unweave.spec import members


def layers(module):
    """Kind and width of every layer with weights."""
    names = {nn.Linear: "fc", DownConv2d: "conv", UpConv2d: "upconv"}
    return [
        (names[type(m)], m.out_features if isinstance(m, nn.Linear) else m.out_channels)
        for m in module.modules()
        if type(m) in names
    ]


def activations(module):
    """Whether each layer with weights has a ReLU, its own or the one that follows."""
    steps = [m for m in module if not isinstance(m, (nn.Flatten, nn.Unflatten))]
    return [
        getattr(layer, "activate", False) or isinstance(after, nn.ReLU)
        for layer, after in zip(steps, [*steps[1:], None], strict=True)
        if not isinstance(layer, nn.ReLU)
    ]


CONVOLUTIONS = [("conv", 32), ("conv", 32), ("conv", 64), ("conv", 64)]


@pytest.mark.parametrize(
    ("network", "hidden", "up"),
    [
        (uw.Kim2018(), 128, [64, 32, 32, 1]),
        (uw.Kim2018(hidden=256), 256, [64, 32, 32, 1]),
        (uw.Mathieu2019(), 128, [64, 64, 32, 1]),
    ],
)
def test_the_papers_tables(network, hidden, up):
    encoder = network.encoder((1, 64, 64), 20)
    assert layers(encoder) == [*CONVOLUTIONS, ("fc", hidden), ("fc", 20)]
    assert activations(encoder) == [True, True, True, True, False, False]
    decoder = network.decoder(10, (1, 64, 64))
    assert layers(decoder) == [("fc", hidden), ("fc", 1024), *(("upconv", w) for w in up)]
    assert activations(decoder) == [True, True, True, True, True, False]


@pytest.mark.parametrize("channels", [1, 3, 5])
@pytest.mark.parametrize("sides", [(16, 16), (17, 31), (28, 28), (64, 64), (100, 75), (256, 256)])
def test_conv_takes_any_image(sides, channels):
    shape = (channels, *sides)
    network = uw.Conv(base=4, hidden=8)
    assert network.encoder(shape, 6)(torch.zeros(2, *shape)).shape == (2, 6)
    assert network.decoder(3, shape)(torch.zeros(2, 3)).shape == (2, *shape)


@pytest.mark.parametrize("shape", [(7,), (1, 8, 8), (3, 5, 9)])
def test_mlp_takes_anything(shape):
    network = uw.MLP(hidden=(9, 5), activation="tanh")
    assert network.encoder(shape, 6)(torch.zeros(2, *shape)).shape == (2, 6)
    assert network.decoder(3, shape)(torch.zeros(2, 3)).shape == (2, *shape)
    assert layers(network.decoder(3, shape))[:2] == [("fc", 5), ("fc", 9)]


@pytest.mark.parametrize(
    ("network", "shape", "fix"),
    [(uw.Kim2018(), (1, 32, 32), "conv"), (uw.Mathieu2019(), (7,), "mlp"),
     (uw.Conv(), (1, 8, 8), "mlp"), (uw.Conv(), (1, 300, 300), "mlp")],
)  # fmt: skip
def test_an_unfit_network_says_which_fits(network, shape, fix):
    with pytest.raises(ValueError, match=f"use network={fix}"):
        network.encoder(shape, 4)


def down(narrow, wide, activate):
    return DownConv2d(narrow, wide, activate=activate), nn.Conv2d(narrow, wide, 4, 2, 1)


def up(narrow, wide, activate, odd=(0, 0)):
    theirs = nn.ConvTranspose2d(narrow, wide, 4, 2, 1, output_padding=odd)
    return UpConv2d(narrow, wide, odd, activate=activate), theirs


def odd_up(narrow, wide, activate):
    return up(narrow, wide, activate, (1, 0))


@pytest.mark.parametrize("pair", [down, up, odd_up])
@pytest.mark.parametrize(("narrow", "wide"), [(1, 3), (5, 1), (5, 3)])
@pytest.mark.parametrize("activate", [False, True])
@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last])
def test_our_convolutions_are_torchs(pair, narrow, wide, activate, layout):
    """Values, first and second derivatives, alone and mapped over lanes."""
    torch.manual_seed(0)
    ours, theirs = pair(narrow, wide, activate)
    ours = ours.double().to(memory_format=layout)
    theirs = theirs.double()
    theirs.load_state_dict(ours.state_dict())
    theirs = nn.Sequential(theirs, nn.ReLU()) if activate else theirs
    x = torch.randn(3, narrow, 5, 6, dtype=torch.float64)

    def values(module, x):
        """Output, gradients of the parameters alone and with x, and gradients of a penalty."""
        parameters = tuple(module.parameters())
        y = module(x)
        alone = torch.autograd.grad(y.square().sum(), parameters)
        x = x.clone().requires_grad_()
        slopes = torch.autograd.grad(module(x).square().sum(), (x, *parameters), create_graph=True)
        return [y, *alone, *slopes, *torch.autograd.grad(slopes[0].square().sum(), parameters[0])]

    for one, two in zip(values(ours, x), values(theirs, x), strict=True):
        torch.testing.assert_close(one, two)

    def gradients(module, weights, x):
        def loss(weights):
            return torch.func.functional_call(module, weights, (x,)).square().sum()

        return torch.func.grad(loss)(weights)

    def lanes(module):
        stacked = {n: torch.stack([p.detach(), -p.detach()]) for n, p in module.named_parameters()}
        both = torch.stack([x, x + 1])
        mapped = torch.func.vmap(lambda w, x: gradients(module, w, x))(stacked, both)
        return list(mapped.values())

    for one, two in zip(lanes(ours), lanes(theirs), strict=True):
        torch.testing.assert_close(one, two)


def test_every_network_is_tried_here():
    assert set(members(Network)) == {"kim2018", "mathieu2019", "conv", "mlp"}


def test_initial_weights_are_those_of_torch_in_distribution():
    module = nn.Sequential(nn.Conv2d(3, 40, 4), nn.ConvTranspose2d(40, 30, 4), nn.Linear(50, 60))
    ours = initialise(module, Noise(0))
    assert ours.keys() == dict(module.named_parameters()).keys()
    for name, theirs in module.named_parameters():
        bound = theirs.abs().max().item()
        assert ours[name].abs().max() <= bound * 1.1
        if theirs.dim() > 1:
            assert ours[name].std().item() == pytest.approx(theirs.std().item(), rel=0.1)
            assert ours[name].std().item() == pytest.approx(bound / math.sqrt(3), rel=0.1)


def test_initial_weights_depend_on_the_seed_and_the_name_only():
    small, large = nn.Sequential(nn.Linear(3, 4)), nn.Sequential(nn.Linear(3, 4), nn.Linear(4, 5))
    assert torch.equal(
        initialise(small, Noise(1))["0.weight"], initialise(large, Noise(1))["0.weight"]
    )
    assert not torch.equal(
        initialise(small, Noise(1))["0.weight"], initialise(small, Noise(2))["0.weight"]
    )


def test_likelihoods_agree_with_torch():
    raw, x = (
        torch.randn(5, 1, 4, 4, dtype=torch.float64),
        torch.rand(5, 1, 4, 4, dtype=torch.float64),
    )
    binary = (x > 0.5).double()
    expected = torch.distributions.Bernoulli(logits=raw).log_prob(binary).sum((1, 2, 3))
    torch.testing.assert_close(Bernoulli()(raw).log_prob(binary), expected)
    expected = torch.distributions.Normal(raw, 0.3).log_prob(x).sum((1, 2, 3))
    torch.testing.assert_close(Gaussian(scale=0.3)(raw).log_prob(x), expected)
    assert set(members(Likelihood)) == {"bernoulli", "gaussian"}


def test_likelihoods_sample_around_their_mean():
    raw = torch.randn(1, 50, dtype=torch.float64).expand(20_000, 50)
    for likelihood in (Bernoulli(), Gaussian(scale=0.5)):
        p = likelihood(raw)
        assert (p.sample(Noise(0)).mean(0) - p.mean[0]).abs().max() < 0.02
