"""Initial weights: their distributions, as functions of the seed and the name."""

import math

import numpy as np
import pytest
import torch
from scipy import stats
from torch import nn

import unweave as uw
from unweave.core.noise import Noise
from unweave.networks import initialise
from unweave.networks.layers import BatchNorm


def test_initial_weights_are_distributed_as_in_torch():
    module = nn.Sequential(nn.Conv2d(3, 40, 4), nn.ConvTranspose2d(40, 30, 4), nn.Linear(50, 60))
    ours = initialise(module, Noise(0))
    assert ours.keys() == dict(module.named_parameters()).keys()
    for name, theirs in module.named_parameters():
        bound = theirs.abs().max().item()
        assert ours[name].abs().max() <= bound * 1.1
        if theirs.dim() > 1:
            assert ours[name].std().item() == pytest.approx(theirs.std().item(), rel=0.1)
            assert ours[name].std().item() == pytest.approx(bound / math.sqrt(3), rel=0.1)


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("axes", [1, 3])
def test_convolutions_over_other_axes_start_like_those_over_two(axes, transposed):
    kind = f"Conv{'Transpose' if transposed else ''}"
    of_size = {1: (64,), 2: (8, 8), 3: (4, 4, 4)}
    layers = [getattr(nn, f"{kind}{n}d")(3, 5, of_size[n]) for n in (axes, 2)]
    ours, expected = (initialise(layer, Noise(2)) for layer in layers)
    for name, value in ours.items():
        assert torch.equal(value.flatten(), expected[name].flatten())


def test_glorot_weights_are_distributed_as_in_torch_and_biases_are_zero():
    """[Glorot2010] eq. 16, against `torch.nn.init.xavier_uniform_`."""
    module = nn.Sequential(nn.Conv2d(3, 40, 4), nn.ConvTranspose2d(40, 30, 4), nn.Linear(50, 60))
    ours = initialise(module, Noise(0), "glorot")
    for name, theirs in module.named_parameters():
        if theirs.dim() == 1:
            assert not ours[name].any()
            continue
        nn.init.xavier_uniform_(theirs)
        assert ours[name].abs().max().item() == pytest.approx(theirs.abs().max().item(), rel=0.05)
        assert ours[name].std().item() == pytest.approx(theirs.std().item(), rel=0.05)


@pytest.mark.parametrize("kind", [nn.Linear, nn.Conv2d, nn.ConvTranspose2d, nn.Conv1d])
def test_lecun_weights_are_those_of_a_truncated_normal(kind):
    """The fan of a transposed convolution is its inputs, as in Sonnet."""
    layer = kind(80, 120) if kind is nn.Linear else kind(80, 120, 4)
    fan_in = 80 * {nn.Linear: 1, nn.Conv1d: 4}.get(kind, 16)
    ours = initialise(layer, Noise(0), "lecun")
    assert not ours["bias"].any()
    weights = ours["weight"].flatten().double().numpy() * fan_in**0.5
    assert np.abs(weights).max() <= 2
    assert stats.kstest(weights, stats.truncnorm(-2, 2).cdf).pvalue > 0.01


def test_initial_weights_depend_only_on_the_seed_and_the_name():
    small, large = nn.Sequential(nn.Linear(3, 4)), nn.Sequential(nn.Linear(3, 4), nn.Linear(4, 5))
    assert torch.equal(
        initialise(small, Noise(1))["0.weight"], initialise(large, Noise(1))["0.weight"]
    )
    assert not torch.equal(
        initialise(small, Noise(1))["0.weight"], initialise(small, Noise(2))["0.weight"]
    )


def test_dcgan_starts_from_narrow_normals():
    module = nn.Sequential(uw.DCGAN().encoder((3, 64, 64), (False,) * 100), nn.Linear(100, 5))
    values = initialise(module, Noise(3))
    kernels = torch.cat([v.flatten() for v in values.values() if v.dim() == 4])
    assert kernels.mean().abs() < 1e-4
    assert kernels.std().item() == pytest.approx(0.02, rel=0.01)
    norms = [(path, m) for path, m in module.named_modules() if isinstance(m, BatchNorm)]
    scales = torch.cat([values[f"{path}.weight"] for path, _ in norms])
    assert scales.mean().item() == pytest.approx(1.0, abs=0.005)
    assert scales.std().item() == pytest.approx(0.02, rel=0.1)
    assert not any(values[f"{path}.bias"].any() for path, _ in norms)
    assert values["1.weight"].abs().max() > 0.09  # outside of it, as everywhere


def test_normalisations_start_neutral():
    gan = uw.Kim2018GAN(norm="layer")
    values = initialise(nn.Sequential(gan.trunk((1, 64, 64)), gan.recogniser(3)), Noise(0))
    assert all((values[name] == 1).all() for name in ("0.10.weight", "1.1.weight"))
    assert not any(values[name].any() for name in ("0.10.bias", "1.1.bias"))
