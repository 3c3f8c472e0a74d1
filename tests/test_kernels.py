"""Triton kernels against torch: interpreted on a CPU, compiled on a GPU."""

import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
import torch.nn.functional as F

import unweave as uw
from datasets import SMALL, small_run
from unweave import kernels
from unweave.aggregate import mmd
from unweave.core import noise
from unweave.data.synthetic import shapes2d
from unweave.kernels.adam import adam
from unweave.kernels.bernoulli import bernoulli_log_prob
from unweave.kernels.convolution import TileSizes, down, up, weight_grad
from unweave.kernels.layers import convolve
from unweave.kernels.random import random_normal, random_words
from unweave.kernels.sprites import draw
from unweave.kernels.sums import relu_backward, sum_parts
from unweave.networks.layers import Affine, ConvolutionStack, DownConv2d, LinearLayer, UpConv2d
from unweave.training import compile as compiled, notes

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
# Lanes, batch, height and width of the small image, channels of the small and the big one: powers
# of two and not, few and many channels, one channel, and sides of 1.
SHAPES = [
    (2, 2, 2, 4, 32, 16),
    (1, 2, 4, 4, 16, 1),
    (1, 1, 2, 2, 64, 32),
    (2, 2, 4, 2, 24, 3),
    (1, 2, 2, 4, 5, 20),
    (2, 1, 1, 3, 1, 2),
]


@pytest.fixture(autouse=True)
def exact_products():
    """Products of float32 in full, as the reference has them."""
    with torch.backends.cudnn.flags(allow_tf32=False, deterministic=True):
        yield


def numbers(lanes, batch, h, w, a, c):
    def draw(*shape):
        return torch.randn(*shape, device=DEVICE)

    return (
        draw(lanes, batch, h, w, a),
        draw(lanes, batch, 2 * h, 2 * w, c),
        draw(lanes, a, 4, 4, c),
        draw(lanes, a),
        draw(lanes, c),
    )


def lanewise(function, *stacked):
    """A function of images with channels first, lane by lane, on stacked ones with them last."""
    return torch.stack([function(*lane).permute(0, 2, 3, 1) for lane in zip(*stacked, strict=True)])


def first(x):
    return x.movedim(-1, 2)


@pytest.mark.parametrize(("shape", "activate"), list(zip(SHAPES, 3 * [True, False], strict=True)))
def test_convolutions_equal_torchs(shape, activate):
    s, t, w, by_small, by_big = numbers(*shape)
    ending = F.relu if activate else lambda x: x
    expected = lanewise(
        lambda x, k, b: ending(F.conv2d(x, k, b, 2, 1)), first(t), first(w), by_small
    )
    torch.testing.assert_close(down(t, w, by_small, activate)[0], expected, rtol=1e-4, atol=1e-4)
    expected = lanewise(
        lambda x, k, b: ending(F.conv_transpose2d(x, k, b, 2, 1)), first(s), first(w), by_big
    )
    torch.testing.assert_close(up(s, w, by_big, activate)[0], expected, rtol=1e-4, atol=1e-4)
    without = lanewise(lambda x, k: F.conv2d(x, k, None, 2, 1), first(t), first(w))
    torch.testing.assert_close(down(t, w)[0], without, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("shape", SHAPES)
def test_the_three_convolutions_are_derivatives_of_one_form(shape):
    """<down(T, W), S> = <up(S, W), T> = <weight_grad(S, T), W>."""
    s, t, w, _, _ = numbers(*shape)
    form = (down(t, w)[0] * s).sum()
    torch.testing.assert_close((up(s, w)[0] * t).sum(), form, rtol=1e-3, atol=1e-2)
    torch.testing.assert_close((weight_grad(s, t) * w).sum(), form, rtol=1e-3, atol=1e-2)


@pytest.mark.parametrize(
    ("shape", "tiles"),
    [
        ((1, *SHAPES[0][1:]), [(16, 16, 16), (32, 16, 32, 2, 2), (64, 32, 64), (16, 64, 16)]),
        (SHAPES[3], [(32, 32, 16)]),
        (SHAPES[4], [(16, 16, 64)]),
    ],
)
def test_tile_sizes_do_not_change_results(shape, tiles):
    s, t, w, by_small, by_big = numbers(*shape)

    def convolutions(tile=None):
        yield down(t, w, by_small, True, tile=tile)[0]
        yield up(s, w, by_big, True, tile=tile)[0]
        yield weight_grad(s, t, tile)

    expected = list(convolutions())
    for tile in tiles:
        for one, two in zip(convolutions(TileSizes(*tile)), expected, strict=True):
            torch.testing.assert_close(one, two, rtol=1e-4, atol=1e-4)


def test_compiled_convolutions_load_16_bytes_at_a_time():
    """Not 2: Triton must prove that addresses are aligned, which it cannot always."""
    environment = {name: v for name, v in os.environ.items() if name != "TRITON_INTERPRET"}
    command = [sys.executable, "-W", "ignore", Path(__file__).with_name("compiled_kernels.py")]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    kernels = json.loads(done.stdout)
    assert len(kernels) == 5
    for name, side, narrow, wide in kernels:
        assert (narrow, wide > 0) == (0, True), (name, side)


@pytest.mark.gpu  # the interpreter has no bfloat16
def test_bfloat16_convolutions_sum_in_float32():
    s, t, w, by_small, _ = numbers(*SHAPES[0])
    half, _ = down(t.bfloat16(), w, by_small, True)
    assert half.dtype == torch.bfloat16
    full, _ = down(t.bfloat16().float(), w.bfloat16().float(), by_small, True)
    torch.testing.assert_close(half.float(), full, rtol=1e-2, atol=1e-2)
    weights = weight_grad(s.bfloat16(), t.bfloat16())
    assert weights.dtype == torch.float32
    full = weight_grad(s.bfloat16().float(), t.bfloat16().float())
    torch.testing.assert_close(weights, full, rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("shape", SHAPES)
def test_masked_convolutions_apply_the_gradient_of_a_relu(shape):
    s, t, w, _, _ = numbers(*shape)
    for convolved, x, out in ((down, t, s), (up, s, t)):
        mask = out.relu()
        found, sums = convolved(x, w, mask=mask)
        expected = convolved(x, w)[0] * (mask > 0)
        assert torch.equal(found, expected)
        torch.testing.assert_close(sums, expected.sum((1, 2, 3)), rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize("shape", [(2, 3, 5, 4, 7), (1, 40, 8, 8, 1), (3, 2, 1, 1, 64)])
def test_relu_backward_masks_and_sums(shape):
    g, out = torch.randn(shape, device=DEVICE), torch.randn(shape, device=DEVICE).relu()
    before, sums = relu_backward(g, out)
    expected = g * (out > 0)
    assert torch.equal(before, expected)
    torch.testing.assert_close(sums, expected.sum((1, 2, 3)), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("count", [1, 2, 7, 64, 200, 5000])
def test_sum_parts_equals_torchs_sum(count):
    parts = torch.randn(count, 3, 50, device=DEVICE)
    torch.testing.assert_close(sum_parts(parts), parts.sum(0), rtol=1e-5, atol=1e-4)


def layers(ours):
    """An autoencoder of two convolutions, by our kernels or by torch."""

    def forward(x, w, b, v, c):
        if ours:
            y = convolve(x, w, b, False, True, deferred=True)
            return convolve(y, v, c, True, False, bias_below=b)
        return F.conv_transpose2d(F.conv2d(x, w, b, 2, 1).relu(), v, c, 2, 1)

    return forward


def parameters(lanes=2, channels=3, wide=8):
    def draw(*shape):
        return torch.randn(*shape, device=DEVICE, requires_grad=True)

    image = draw(lanes, 2, channels, 4, 4)
    return image, [
        draw(lanes, wide, channels, 4, 4), draw(lanes, wide), draw(lanes, wide, channels, 4, 4),
        draw(lanes, channels),
    ]  # fmt: skip


def test_layers_vmap_over_lanes_with_torchs_gradients():
    x, weights = parameters()
    found = []
    for ours in (True, False):
        y = torch.func.vmap(layers(ours))(x, *weights)
        gradients = torch.autograd.grad((y**2).sum(), [x, *weights])
        alone = layers(ours)(x[1], *(w[1] for w in weights))
        torch.testing.assert_close(y[1], alone, rtol=1e-4, atol=1e-4)
        found.append([y, *gradients])
    for one, two in zip(*found, strict=True):
        torch.testing.assert_close(one, two, rtol=1e-3, atol=1e-3 * two.abs().max().item())


def test_layers_vmap_over_weights_alone():
    x, weights = parameters()
    shared = x[0].detach()
    with torch.no_grad():
        y = torch.func.vmap(lambda *lane: layers(True)(shared, *lane))(*weights)
    expected = torch.func.vmap(layers(False), (None, 0, 0, 0, 0))(shared, *weights)
    torch.testing.assert_close(y, expected, rtol=1e-4, atol=1e-4)


def test_layers_can_be_differentiated_twice():
    """As a gradient penalty needs."""
    x, weights = parameters()
    found = []
    for ours in (True, False):
        forward = layers(ours)

        def penalty(x, *weights, forward=forward):
            slopes = torch.func.grad(lambda x: (forward(x, *weights) ** 3).sum())(x)
            return (slopes**2).sum()

        value = torch.func.vmap(penalty)(x, *weights)
        found.append([value, *torch.autograd.grad(value.sum(), weights)])
    for one, two in zip(*found, strict=True):
        torch.testing.assert_close(one, two, rtol=1e-3, atol=1e-3 * two.abs().max().item())


@pytest.mark.parametrize("stacked", [(0, 0, 0), (None, 0, 0), (0, None, None)])
def test_linear_layers_have_torchs_gradients_in_the_layout_of_their_weights(stacked):
    """Also those of a gradient penalty. Torch's gradients of stacked weights are transposed."""
    shapes = [(5, 4), (6, 4), (6,)]
    tensors = [
        torch.randn(*[3][: axis == 0], *shape, device=DEVICE, requires_grad=True)
        for shape, axis in zip(shapes, stacked, strict=True)
    ]

    def results(function):
        def penalty(x, weight, bias):
            slopes = torch.func.grad(lambda x: (function(x, weight, bias) ** 3).sum())(x)
            return (slopes**2).sum()

        y, penalties = (torch.func.vmap(f, stacked)(*tensors) for f in (function, penalty))
        plain = torch.autograd.grad((y**2).sum(), tensors, retain_graph=True)
        return [y, penalties, *torch.autograd.grad(penalties.sum(), tensors), *plain]

    ours, torchs = results(Affine.apply), results(F.linear)
    for one, two in zip(ours, torchs, strict=True):
        torch.testing.assert_close(one, two, rtol=1e-4, atol=1e-4)
    assert ours[-2].stride() == tensors[1].stride()
    layer = LinearLayer(4, 6).to(DEVICE)
    torch.testing.assert_close(
        layer(tensors[0]), F.linear(tensors[0], layer.weight, layer.bias), rtol=1e-5, atol=1e-5
    )


def test_bernoulli_log_prob_and_its_gradients_equal_torchs():
    logits = (4 * torch.randn(2, 3, 1, 40, 40, device=DEVICE)).requires_grad_()
    x = torch.rand(2, 3, 1, 40, 40, device=DEVICE)
    found = torch.func.vmap(bernoulli_log_prob)(logits, x)
    expected = -F.binary_cross_entropy_with_logits(logits, x, reduction="none").flatten(2).sum(2)
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-3)
    weights = torch.randn(2, 3, device=DEVICE)
    one, two = (torch.autograd.grad((v * weights).sum(), logits)[0] for v in (found, expected))
    torch.testing.assert_close(one, two, rtol=1e-4, atol=1e-5)
    (slope,) = torch.autograd.grad(
        bernoulli_log_prob(logits[0], x[0]).sum(), logits, create_graph=True
    )
    (second,) = torch.autograd.grad(slope.square().sum(), logits)
    p = logits[0].sigmoid()
    torch.testing.assert_close(second[0], -2 * (x[0] - p) * p * (1 - p), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("unbiased", [False, True])
@pytest.mark.parametrize("sizes", [(5, 4, 3), (2, 70, 1), (50, 33, 2)])
def test_mmd_and_its_gradients_equal_torchs(sizes, unbiased, monkeypatch):
    """Of lanes, in the kernel and in torch's float64."""
    b, m, columns = sizes
    x, y = torch.randn(2, b, columns, device=DEVICE), torch.randn(m, columns, device=DEVICE)

    def discrepancy(x, y):
        return mmd(x, y + 0.5, "imq-dimensionwise", unbiased=unbiased)

    lanes = torch.func.vmap(torch.func.grad_and_value(discrepancy, (0, 1)), (0, None))
    (by_x, by_y), expected = lanes(x.double(), y.double())
    monkeypatch.setattr(kernels, "supports", lambda x: True)
    found = lanes(x, y)
    torch.testing.assert_close(found, ((by_x.float(), by_y.float()), expected.float()))


@pytest.mark.parametrize("amsgrad", [False, True])
@pytest.mark.parametrize("betas", [(0.9, 0.999), (0.0, 0.5)])
def test_adam_kernel_equals_torchs(amsgrad, betas):
    """Over three steps of two updates each, in flat memory, with more tensors than a launch."""
    sizes = [3, 1024, 1500, 1, 2, 4, 5, 6, 7, 8, 2100]
    reference = [torch.randn(size, device=DEVICE, requires_grad=True) for size in sizes]
    starts = [0]
    for size in sizes:
        starts.append(starts[-1] + -(-size // 1024) * 1024)
    flat = torch.zeros(starts.pop(), device=DEVICE)
    views = [flat[start : start + size] for start, size in zip(starts, sizes, strict=True)]
    for view, parameter in zip(views, reference, strict=True):
        view.copy_(parameter.detach())
    kinds = ["first", "second", "largest"][: 3 if amsgrad else 2]
    moments = {name: torch.zeros_like(flat) for name in kinds}
    half = torch.zeros_like(flat, dtype=torch.float16)
    optimiser = torch.optim.Adam(reference, 0.01, betas, 1e-8, amsgrad=amsgrad)
    for step in range(6):
        size_of_step = 1e3 if step == 2 else 1e-3  # a large gradient must not persist
        gradients = [size_of_step * torch.randn(size, device=DEVICE) for size in sizes]
        gradients[1] = gradients[1].half()
        for parameter, gradient in zip(reference, gradients, strict=True):
            parameter.grad = gradient.float()
        optimiser.step()
        clock = torch.tensor([step // 2], device=DEVICE)
        rule = (0.01, betas, 1e-8)
        adam(flat, half, moments, gradients, starts, clock, 2, step % 2, *rule)
    for view, parameter in zip(views, reference, strict=True):
        torch.testing.assert_close(view, parameter.detach(), rtol=1e-5, atol=1e-6)
    assert torch.equal(half, flat.half())
    between = torch.ones_like(flat, dtype=torch.bool)
    for start, size in zip(starts, sizes, strict=True):
        between[start : start + size] = False
    assert (flat[between] == 0).all()


@pytest.mark.parametrize("stream", [5, 0xDEADBEEF])
def test_random_kernels_equal_noise(stream):
    seed = torch.tensor([3, 2**40 + 5], device=DEVICE)
    step = torch.tensor([7, 2**33 + 1], device=DEVICE)
    words = noise.philox_words(seed, step, stream, 301)
    assert torch.equal(random_words(seed, step, stream, 301), words)
    for size in (1, 2, 7, 600):
        half = -(-size // 2)
        flat = noise.philox_words(seed, step, stream, -(-half // 2)).flatten(-2)[..., : 2 * half]
        expected = noise.box_muller(flat, torch.float32)[..., :size]
        torch.testing.assert_close(random_normal(seed, step, stream, size), expected)


@pytest.mark.parametrize(
    "spec",
    [
        uw.Shapes2D(),
        uw.Shapes2D(side=16, scales=2, orientations=1, positions=8, shapes=("heart",)),
        uw.Shapes2D(side=50, positions=1),
    ],
)
def test_sprite_kernel_equals_the_dataset(spec):
    dataset = spec.load(torch.device("cpu"))
    index = torch.randint(0, dataset.size, (30,))
    there = spec.load(torch.device(DEVICE))
    tables = (there.cosine, there.sine, there.lower, there.upper)
    drawn = draw(index.to(DEVICE), shapes2d.frame(there), *tables)
    assert torch.equal(drawn.cpu().view(30, *dataset.shape), dataset.images(index))


class Reason:
    """`kernels.unavailable_reason` on an imagined machine."""

    def __init__(self, monkeypatch):
        self.monkeypatch = monkeypatch
        self.set(torch.cuda, "is_available", lambda: True)
        self.set(torch.cuda, "get_device_capability", lambda: (9, 0))
        self.set(torch.version, "hip", None)
        self.set(kernels, "_run_smallest", lambda: None)

    def set(self, *what):
        self.monkeypatch.setattr(*what)

    def __call__(self):
        return kernels.unavailable_reason.__wrapped__()


def test_unavailable_reason_is_one_line(monkeypatch):
    reason = Reason(monkeypatch)
    assert reason() is None

    def broken():
        raise RuntimeError("Failed to find C compiler.\nPlease specify one")

    for what, expected in (
        ((kernels, "_run_smallest", broken), "Triton cannot build them here: Failed to find C "
         "compiler."),
        ((kernels.importlib.util, "find_spec", lambda name: None), "Triton is not installed"),
        ((torch.cuda, "get_device_capability", lambda: (7, 5)), "this GPU has compute capability "
         "7.5, and they need 8.0"),
        ((torch.version, "hip", "6.0"), "they are made for NVIDIA's GPUs"),
    ):  # fmt: skip
        reason.set(*what)
        assert reason() == expected
    reason.set(torch.cuda, "is_available", lambda: False)
    assert reason() is None


def test_a_note_before_training_says_why_kernels_are_not_used(monkeypatch):
    dataset, run = SMALL.load(torch.device("cpu")), small_run(steps=20_000)
    assert notes([run], dataset) == [*dataset.notes, *run.notes]
    monkeypatch.setattr(kernels, "unavailable_reason", lambda: "Triton is not installed")
    there = SimpleNamespace(notes=dataset.notes, device=torch.device("cuda"))
    assert notes([run, run], there)[-1] == (
        "this GPU trains with torch's own layers, not our faster ones: Triton is not installed"
    )
    monkeypatch.setattr(kernels, "unavailable_reason", lambda: None)
    monkeypatch.setattr(compiled, "available", lambda: False)
    assert notes([run], there)[-1].startswith("steps are not compiled")
    assert notes([small_run(steps=20)], there) == [*dataset.notes, *run.notes]


def test_gradients_of_a_chain_equal_torchs(monkeypatch):
    """Also if sides become odd on the way down."""
    for sides, layers_of in (
        ((16, 8), lambda: [DownConv2d(3, 8, activate=True), DownConv2d(8, 16, activate=True),
                           DownConv2d(16, 8), UpConv2d(8, 16, activate=True), UpConv2d(16, 3)]),
        ((12, 20), lambda: [DownConv2d(3, 8, activate=True), DownConv2d(8, 16, activate=True),
                            DownConv2d(16, 8, activate=True)]),
    ):  # fmt: skip
        chain = ConvolutionStack(*layers_of()).to(DEVICE)
        x = torch.randn(1, 3, *sides, device=DEVICE, requires_grad=True)
        found = []
        for ours in (True, False):
            monkeypatch.setattr(kernels, "supports", lambda x, ours=ours: ours)
            y = chain(x)
            found.append([y, *torch.autograd.grad((y**2).sum(), [x, *chain.parameters()])])
        for one, two in zip(*found, strict=True):
            torch.testing.assert_close(one, two, rtol=1e-3, atol=1e-3 * two.abs().max().item())


def test_gradients_of_some_parameters_equal_torchs(monkeypatch):
    """Without some biases, and differentiating only some parameters."""
    chain = ConvolutionStack(
        DownConv2d(3, 5, bias=False, activate=True),
        DownConv2d(5, 6, activate=True),
        DownConv2d(6, 4, bias=False, activate=True),
    ).to(DEVICE)
    x = torch.randn(2, 3, 8, 8, device=DEVICE, requires_grad=True)
    every = [x, *chain.parameters()]
    for chosen in (every, [x], every[1:2], every[2:4], every[4:]):
        for tensor in every:
            tensor.requires_grad_(any(tensor is one for one in chosen))
        found = []
        for ours in (True, False):
            monkeypatch.setattr(kernels, "supports", lambda x, ours=ours: ours)
            found.append(torch.autograd.grad((chain(x) ** 2).sum(), chosen))
        for one, two in zip(*found, strict=True):
            torch.testing.assert_close(one, two, rtol=1e-3, atol=1e-3 * two.abs().max().item())


def test_layers_vmap_over_images_alone():
    """Weights and biases that all lanes share."""
    x, weights = parameters()
    shared = [w[0].detach().requires_grad_() for w in weights]
    found = []
    for ours in (True, False):
        y = torch.func.vmap(layers(ours), in_dims=(0, None, None, None, None))(x, *shared)
        found.append([y, *torch.autograd.grad((y**2).sum(), [x, *shared])])
    for one, two in zip(*found, strict=True):
        torch.testing.assert_close(one, two, rtol=1e-3, atol=1e-3 * two.abs().max().item())


def test_kernels_propagate_nan():
    """As torch does, through ReLU, mask and sums."""
    s, t, w, by_small, _ = numbers(*SHAPES[0])
    broken = torch.full_like(w, torch.nan)
    assert down(t, broken, by_small, True)[0].isnan().all()
    assert up(s, broken, None, True)[0].isnan().all()
    masked, sums = down(t, w, mask=torch.full_like(s, torch.nan))
    torch.testing.assert_close(masked, down(t, w)[0])
    assert sums.isfinite().all()
    g = torch.ones(1, 2, 2, 2, 3, device=DEVICE)
    before, _ = relu_backward(g, torch.full_like(g, torch.nan))
    assert torch.equal(before, g)


def test_batches_beyond_32_bit_addresses_are_rejected():
    image = torch.empty((1, 1, 1, 1, 1), device=DEVICE).expand(1, 2**15, 2**8, 2**8, 1)
    with pytest.raises(ValueError, match="use a smaller batch"):
        up(image, torch.empty(1, 1, 4, 4, 1, device=DEVICE))
