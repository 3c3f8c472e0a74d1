"""Networks: the papers' tables, and any image size."""

import pytest
import torch
from torch import nn

import unweave as uw
from printed_layers import CONVOLUTIONS, NORMALISED, table
from unweave import data
from unweave.core.spec import members
from unweave.networks import Network
from unweave.networks.layers import (
    BatchNorm,
    DownConv2d,
    UpConv2d,
    pixel_to_whole_image,
    reads_whole_image,
    whole_image_to_pixel,
    writes_whole_image,
)
from unweave.training.run import default_network

LEAKY = "batch lrelu(0.2)"
TABLES = {  # network, channels of 64x64 images, variables: encoder, decoder
    "kim2018 table 1": (
        uw.Kim2018(), 1, 10,
        [*CONVOLUTIONS, "fc 128", "fc 20"],
        ["fc 128 relu", "fc 1024 relu",
         "upconv 64/2 relu", "upconv 32/2 relu", "upconv 32/2 relu", "upconv 1/2"],
    ),
    "kim2018 table 2": (
        uw.Kim2018(hidden=256), 3, 6,
        [*CONVOLUTIONS, "fc 256", "fc 12"],
        ["fc 256 relu", "fc 1024 relu",
         "upconv 64/2 relu", "upconv 32/2 relu", "upconv 32/2 relu", "upconv 3/2"],
    ),
    "kim2018 table 3": (
        default_network(data.Faces3D(), (1, 64, 64)), 1, 10,
        [*CONVOLUTIONS, "fc 256", "fc 20"],
        ["fc 256 relu", "fc 1024 relu",
         "upconv 64/2 relu", "upconv 32/2 relu", "upconv 32/2 relu", "upconv 1/2"],
    ),
    "mathieu2019 table 1a": (
        uw.Mathieu2019(), 1, 10,
        [*CONVOLUTIONS, "fc 128", "fc 20"],
        ["fc 128 relu", "fc 1024 relu",
         "upconv 64/2 relu", "upconv 64/2 relu", "upconv 32/2 relu", "upconv 1/2"],
    ),
    "mathieu2018 table 1a": (
        uw.Mathieu2019(third=32), 1, 10,
        [*CONVOLUTIONS[:2], "conv 32/2 relu", "conv 64/2 relu", "fc 128", "fc 20"],
        ["fc 128 relu", "fc 1024 relu",
         "upconv 64/2 relu", "upconv 64/2 relu", "upconv 32/2 relu", "upconv 1/2"],
    ),
    "mathieu2019 table 1c": (
        uw.DCGAN(), 3, 50,
        [f"conv 32/2 {LEAKY}", f"conv 64/2 {LEAKY}", f"conv 128/2 {LEAKY}", f"conv 256/2 {LEAKY}",
         "conv 100/1"],
        ["upconv 256/1 batch relu", "upconv 128/2 batch relu", "upconv 64/2 batch relu",
         "upconv 32/2 batch relu", "upconv 3/2"],
    ),
    "radford2016, first layer": (
        uw.DCGAN(first_norm=False), 3, 50,
        ["conv 32/2 lrelu(0.2)", f"conv 64/2 {LEAKY}", f"conv 128/2 {LEAKY}",
         f"conv 256/2 {LEAKY}", "conv 100/1"],
        ["upconv 256/1 batch relu", "upconv 128/2 batch relu", "upconv 64/2 batch relu",
         "upconv 32/2 batch relu", "upconv 3/2"],
    ),
    "esmaeili2019 table 3": (
        uw.Esmaeili2019(table=3), 1, 10,
        ["fc 400 relu", "fc 400 relu", "fc 20"],
        ["fc 200 relu", "fc 400 relu", "fc 4096"],
    ),
    "esmaeili2019 table 4": (
        uw.Esmaeili2019(table=4), 1, 10,
        ["fc 1200 relu", "fc 1200 relu", "fc 800 relu", "fc 20"],
        ["fc 400 tanh", "fc 1200 tanh", "fc 1200 tanh", "fc 4096"],
    ),
    "esmaeili2019 table 5": (
        uw.Esmaeili2019(), 3, 20,
        [*NORMALISED, "fc 512 relu", "fc 40"],
        ["fc 256 relu", "fc 1024 tanh", "upconv 64/2 batch relu", "upconv 32/2 batch relu",
         "upconv 32/2 batch relu", "upconv 3/2"],
    ),
    "mathieu2019 table 1b": (
        uw.MLP(), 1, 2, ["fc 100 relu", "fc 4"], ["fc 100 relu", "fc 4096"],
    ),
    "sikka2019 appendix C": (
        uw.MLP((256, 200, 200), "tanh"), 1, 2,
        ["fc 256 tanh", "fc 200 tanh", "fc 200 tanh", "fc 4"],
        ["fc 200 tanh", "fc 200 tanh", "fc 256 tanh", "fc 4096"],
    ),
    "conv": (
        uw.Conv(), 1, 10,
        [*CONVOLUTIONS, "fc 256 relu", "fc 20"],
        ["fc 256 relu", "fc 1024 relu",
         "upconv 64/2 relu", "upconv 32/2 relu", "upconv 32/2 relu", "upconv 1/2"],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", TABLES)
def test_networks_agree_with_the_papers_tables(name):
    network, channels, size, down, up = TABLES[name]
    shape = (channels, 64, 64)
    encoder, decoder = network.encoder(shape, (False,) * (2 * size)), network.decoder(size, shape)
    assert table(encoder) == down
    assert table(decoder) == up
    assert encoder(torch.zeros(2, *shape)).shape == (2, 2 * size)
    assert decoder(torch.zeros(2, size)).shape == (2, *shape)


def test_every_network_is_tried_here():
    assert {network.kind for network, *_ in TABLES.values()} == set(members(Network)) - {"modules"}


GANS = {
    4: (
        (1, 28, 28), 74,
        ["conv 64/2 lrelu(0.1)", "conv 128/2 batch lrelu(0.1)", "fc 1024 batch lrelu(0.1)"],
        ["fc 1024 batch relu", "fc 6272 batch relu", "upconv 64/2 batch relu", "upconv 1/2"],
    ),
    5: (
        (1, 64, 64), 12,
        ["conv 32/2 lrelu(0.1)", "conv 32/2 batch lrelu(0.1)", "conv 64/2 batch lrelu(0.1)",
         "conv 64/2 batch lrelu(0.1)", "fc 128 batch lrelu(0.1)"],
        ["fc 128 batch relu", "fc 1024 batch relu", "upconv 64/2 batch lrelu(0.1)",
         "upconv 32/2 batch lrelu(0.1)", "upconv 32/2 batch lrelu(0.1)", "upconv 1/2"],
    ),
    6: (
        (1, 64, 64), 136,
        ["conv 64/2 lrelu(0.1)", "conv 128/2 batch lrelu(0.1)", "conv 256/2 batch lrelu(0.1)",
         "conv 256/1 batch lrelu(0.1)", "conv 256/1 batch lrelu(0.1)", "fc 1024 batch lrelu(0.1)"],
        ["fc 1024 batch relu", "fc 16384 batch relu", "upconv 256/1 batch lrelu(0.1)",
         "upconv 256/1 batch lrelu(0.1)", "upconv 128/2 batch lrelu(0.1)",
         "upconv 64/2 batch lrelu(0.1)", "upconv 1/2"],
    ),
}  # fmt: skip


@pytest.mark.parametrize("norm", ["batch", "layer"])
@pytest.mark.parametrize("number", GANS)
def test_the_papers_tables_of_adversaries(number, norm):
    shape, size, down, up = GANS[number]
    gan = uw.Kim2018GAN(table=number, norm=norm)
    if norm == "layer":
        down = [row.replace(" batch", " layer" if row.startswith("fc") else "") for row in down]
    trunk, generator = gan.trunk(shape), gan.generator(size, shape)
    assert table(trunk) == down
    assert table(generator) == up
    assert table(gan.critic_head()) == ["fc 1"]
    assert table(gan.recogniser(14)) == ["fc 128 batch lrelu(0.1)", "fc 14"]
    images = generator(torch.randn(2, size))
    assert images.shape == (2, *shape)
    assert gan.critic_head()(trunk(images)).shape == (2, 1)
    assert gan.recogniser(14)(trunk(images)).shape == (2, 14)


@pytest.mark.parametrize("norm", ["batch", "layer"])
@pytest.mark.parametrize("number", GANS)
def test_the_gradient_of_a_gradient_penalty_agrees_with_a_small_step(number, norm):
    """By double differentiation, for a step that crosses no kink."""
    torch.manual_seed(0)
    gan = uw.Kim2018GAN(table=number, norm=norm)
    critic = nn.Sequential(gan.trunk((1, 16, 16)), gan.critic_head()).double()
    x = torch.rand(3, 1, 16, 16, dtype=torch.float64, requires_grad=True)

    def penalty():
        (slope,) = torch.autograd.grad(critic(x).sum(), x, create_graph=True)
        return (slope.flatten(1).norm(dim=1) - 1).square().mean()

    parameters = list(critic.parameters())
    gradients = torch.autograd.grad(penalty(), parameters, allow_unused=True)
    moves = [1e-9 * torch.randn_like(p) for p in parameters]
    expected = sum((g * m).sum() for g, m in zip(gradients, moves, strict=True) if g is not None)
    before = penalty().detach()
    with torch.no_grad():
        for p, move in zip(parameters, moves, strict=True):
            p += move
    assert (penalty().detach() - before).item() == pytest.approx(expected.item(), rel=1e-2)


@pytest.mark.parametrize("norm", ["batch", "layer"])
def test_gradient_penalties_in_lanes_equal_those_alone(norm):
    """The inner derivative by `torch.func.grad`, which works under `vmap`."""
    torch.manual_seed(0)
    gan = uw.Kim2018GAN(table=5, norm=norm)
    critic = nn.Sequential(gan.trunk((1, 16, 16)), gan.critic_head()).double()
    weights = {n: torch.stack([p, 0.9 * p]).detach() for n, p in critic.named_parameters()}
    weights = {n: w.requires_grad_() for n, w in weights.items()}
    running = {n: torch.stack([b, b]) for n, b in critic.named_buffers()}
    x = torch.rand(2, 6, 1, 16, 16, dtype=torch.float64)

    def penalty(weights, running, x):
        def value(x):
            return torch.func.functional_call(critic, {**weights, **running}, (x,)).sum()

        return (torch.func.grad(value)(x).flatten(1).norm(dim=1) - 1).square().mean()

    def lane(tensors, index):
        return {n: t[index].clone() for n, t in tensors.items()}

    alone = [penalty(lane(weights, i), lane(running, i), x[i]) for i in (0, 1)]
    together = torch.vmap(penalty)(weights, running, x)
    torch.testing.assert_close(together, torch.stack(alone))
    leaves = list(weights.values())
    expected = torch.autograd.grad(sum(alone), leaves, allow_unused=True)
    found = torch.autograd.grad(together.sum(), leaves, allow_unused=True)
    for one, two in zip(found, expected, strict=True):
        if one is not None:
            torch.testing.assert_close(one, two, rtol=1e-6, atol=1e-8)


def test_a_gan_refuses_images_of_other_sizes():
    with pytest.raises(ValueError, match="multiples of 16, got observations of shape"):
        uw.Kim2018GAN(table=5).trunk((1, 28, 28))
    with pytest.raises(ValueError, match="use table=4"):
        uw.Kim2018GAN(table=6).generator(3, (7,))


@pytest.mark.parametrize("side", [16, 32, 128])
def test_dcgan_takes_other_squares(side):
    network = uw.DCGAN(base=2)
    assert network.encoder((3, side, side), (False,) * 6)(torch.zeros(2, 3, side, side)).shape == (
        2,
        6,
    )
    assert network.decoder(3, (1, side, side))(torch.zeros(2, 3)).shape == (2, 1, side, side)


@pytest.mark.parametrize(
    "shape", [(1, 16, 16), (3, 17, 31), (1, 28, 28), (5, 64, 64), (3, 100, 75), (1, 256, 256)]
)
def test_conv_takes_any_image(shape):
    network = uw.Conv(base=4, hidden=8)
    assert network.encoder(shape, (False,) * 6)(torch.zeros(2, *shape)).shape == (2, 6)
    assert network.decoder(3, shape)(torch.zeros(2, 3)).shape == (2, *shape)


@pytest.mark.parametrize("biased", [False, True])
def test_layers_of_whole_images_agree_with_torch(biased):
    """With their gradients, in float64."""
    noise = torch.Generator().manual_seed(0)

    def draw(*shape):
        return torch.randn(shape, generator=noise, dtype=torch.float64, requires_grad=True)

    down = draw(3, 5, 4, 6), draw(7, 5, 4, 6), draw(7) if biased else None
    up = draw(3, 5, 1, 1), draw(5, 7, 4, 6), draw(7) if biased else None
    for ours, theirs, inputs in (
        (whole_image_to_pixel, nn.functional.conv2d, down),
        (pixel_to_whole_image, nn.functional.conv_transpose2d, up),
    ):
        torch.testing.assert_close(ours(*inputs), theirs(*inputs))
        given = [each for each in inputs if each is not None]
        gradients = [torch.autograd.grad(f(*inputs).sin().sum(), given) for f in (ours, theirs)]
        torch.testing.assert_close(*gradients)


@pytest.mark.parametrize(
    "options",
    [{}, {"stride": 3}, {"groups": 2}, {"dilation": 2}, {"kernel_size": 3}, {"padding": 1},
     {"padding": 1, "padding_mode": "circular"}, {"padding": "same"}], ids=str,
)  # fmt: skip
def test_a_convolution_is_a_matrix_product_only_if_it_gives_the_same(options):
    x = torch.randn(3, 4, 4, 4)
    layer = nn.Conv2d(**{"in_channels": 4, "out_channels": 6, "kernel_size": 4} | options)
    product = reads_whole_image(layer, x)
    assert product == (options in ({}, {"stride": 3}))
    if product:
        torch.testing.assert_close(whole_image_to_pixel(x, layer.weight, layer.bias), layer(x))


@pytest.mark.parametrize(
    "options", [{}, {"stride": 3}, {"groups": 2}, {"dilation": 2}, {"padding": 1},
                {"stride": 2, "output_padding": 1}], ids=str,
)  # fmt: skip
def test_a_transposed_convolution_is_a_matrix_product_only_if_it_gives_the_same(options):
    x = torch.randn(3, 4, 1, 1)
    layer = nn.ConvTranspose2d(4, 6, 4, **options)
    product = writes_whole_image(layer, x)
    assert product == (options in ({}, {"stride": 3}))
    assert not writes_whole_image(layer, torch.zeros(3, 4, 2, 2))
    if product:
        torch.testing.assert_close(pixel_to_whole_image(x, layer.weight, layer.bias), layer(x))


@pytest.mark.parametrize("shape", [(7,), (1, 8, 8), (3, 5, 9)])
def test_mlp_takes_anything(shape):
    network = uw.MLP(hidden=(9, 5), activation="tanh")
    assert network.encoder(shape, (False,) * 6)(torch.zeros(2, *shape)).shape == (2, 6)
    assert network.decoder(3, shape)(torch.zeros(2, 3)).shape == (2, *shape)
    assert table(network.decoder(3, shape))[:2] == ["fc 5 tanh", "fc 9 tanh"]


@pytest.mark.parametrize(
    ("network", "shape", "fix"),
    [(uw.Kim2018(), (1, 32, 32), "conv"), (uw.Mathieu2019(), (7,), "mlp"),
     (uw.Conv(), (1, 8, 8), "mlp"), (uw.Conv(), (1, 300, 300), "mlp"),
     (uw.DCGAN(), (1, 64, 32), "conv"), (uw.DCGAN(), (7,), "mlp"),
     (uw.Esmaeili2019(), (3, 32, 32), "conv")],
)  # fmt: skip
def test_a_network_that_does_not_fit_names_one_that_does(network, shape, fix):
    with pytest.raises(ValueError, match=f"use network={fix}"):
        network.encoder(shape, (False,) * 4)


def down(narrow, wide, activate):
    return DownConv2d(narrow, wide, activate=activate), nn.Conv2d(narrow, wide, 4, 2, 1)


def bare_down(narrow, wide, activate):
    theirs = nn.Conv2d(narrow, wide, 4, 2, 1, bias=False)
    return DownConv2d(narrow, wide, bias=False, activate=activate), theirs


def bare_up(narrow, wide, activate):
    theirs = nn.ConvTranspose2d(narrow, wide, 4, 2, 1, bias=False)
    return UpConv2d(narrow, wide, bias=False, activate=activate), theirs


def up(narrow, wide, activate, odd=(0, 0)):
    theirs = nn.ConvTranspose2d(narrow, wide, 4, 2, 1, output_padding=odd)
    return UpConv2d(narrow, wide, odd, activate=activate), theirs


def odd_up(narrow, wide, activate):
    return up(narrow, wide, activate, (1, 0))


@pytest.mark.parametrize("pair", [down, bare_down, up, bare_up, odd_up])
@pytest.mark.parametrize(("narrow", "wide"), [(1, 3), (5, 1), (5, 3)])
@pytest.mark.parametrize("activate", [False, True])
@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last])
def test_our_convolutions_agree_with_torch(pair, narrow, wide, activate, layout):
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


@pytest.mark.parametrize("composed", [False, True])
@pytest.mark.parametrize("shape", [(6, 5), (6, 5, 3, 2)])
def test_batch_normalisation_agrees_with_torch(shape, composed, monkeypatch):
    """Values, gradients and running statistics, alone and mapped over lanes; then evaluation."""
    if composed:  # as on CUDA
        monkeypatch.setattr(BatchNorm, "forward", BatchNorm.composed)
    torch.manual_seed(0)
    theirs = [(nn.BatchNorm1d if len(shape) == 2 else nn.BatchNorm2d)(5).double() for _ in "ab"]
    ours = BatchNorm(5).double()
    weights = {"weight": torch.rand(2, 5), "bias": torch.rand(2, 5)}
    weights = {name: value.double().requires_grad_() for name, value in weights.items()}
    for lane, module in enumerate(theirs):
        module.load_state_dict({n: v[lane].detach() for n, v in weights.items()}, strict=False)
    running = {n: torch.stack([b, b]) for n, b in ours.named_buffers()}

    def normalise(weights, running, x):
        return torch.func.functional_call(ours, {**weights, **running}, (x,))

    for _ in range(3):
        x = 2 * torch.randn(2, *shape, dtype=torch.float64) + 1
        expected = torch.stack([module(part) for module, part in zip(theirs, x, strict=True)])
        y = torch.vmap(normalise)(weights, running, x)
        torch.testing.assert_close(y, expected)
        alone = normalise(
            {n: v[1] for n, v in weights.items()},
            {n: v[1].clone() for n, v in running.items()}, x[1],
        )  # fmt: skip
        torch.testing.assert_close(alone, expected[1])
    expected.pow(3).sum().backward()
    y.pow(3).sum().backward()
    for name, value in weights.items():
        wanted = torch.stack([getattr(module, name).grad for module in theirs])
        torch.testing.assert_close(value.grad, wanted)
    for name, value in running.items():
        wanted = torch.stack([getattr(module, name) for module in theirs])
        torch.testing.assert_close(value, wanted)
    ours.eval()
    before = {n: v.clone() for n, v in running.items()}
    y = torch.vmap(normalise)(weights, running, x)
    torch.testing.assert_close(
        y, torch.stack([m.eval()(part) for m, part in zip(theirs, x, strict=True)])
    )
    assert all(torch.equal(before[n], v) for n, v in running.items())


@pytest.mark.parametrize(
    ("spec", "shape", "expected"),
    [
        (uw.Shapes2D(), (1, 64, 64), uw.Kim2018(128)),
        (data.DSprites(), (1, 64, 64), uw.Kim2018(128)),
        (data.Selected(uw.Shapes2D()), (1, 64, 64), uw.Kim2018(128)),
        (data.Paired(uw.Shapes2D(), changed=1), (2, 64, 64), uw.Kim2018(128)),
        (uw.Shapes3D(), (3, 64, 64), uw.Kim2018(256)),
        (data.Faces3D(), (1, 64, 64), uw.Kim2018(256)),
        (data.SmallNORB(), (1, 64, 64), uw.Kim2018(256)),
        (data.Arrays("images.npy"), (1, 64, 64), uw.Kim2018(256)),
        (uw.Shapes2D(side=32), (1, 32, 32), uw.Conv()),
        (data.Arrays("vectors.npy"), (7,), uw.MLP((256, 256))),
    ],
    ids=lambda v: getattr(v, "kind", None),
)
def test_the_default_network_is_that_of_the_paper_for_the_dataset(spec, shape, expected):
    """[Kim2018] tables 1 (sprites: 128 units), 2 and 3 (colour and grey: 256)."""
    assert default_network(spec, shape) == expected
