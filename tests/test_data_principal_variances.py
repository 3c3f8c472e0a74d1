"""Principal variances of data, and the latent spaces that take them."""

import numpy as np
import pytest
import torch

import unweave as uw
from unweave.data import from_array, noise_deviation, principal_variances


@pytest.mark.parametrize("shape", [(300, 20), (15, 40), (50, 3, 4, 5)])
def test_principal_variances_are_those_of_the_covariance(shape):
    """In decreasing order and centred (a published implementation is neither)."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=shape).astype(np.float32)
    x = x * np.linspace(1, 3, shape[-1], dtype=np.float32) + 5
    _, dataset = from_array(x, scale="none", axes="nchw" if x.ndim == 4 else None)
    flat = dataset.images(torch.arange(len(x))).flatten(1).double().numpy()
    expected = np.linalg.eigvalsh(np.cov(flat.T, bias=True))[::-1][:10]
    assert principal_variances(dataset, 10) == pytest.approx(expected, rel=1e-4)


@pytest.mark.parametrize("spectrum", [np.ones(400), np.linspace(1, 0.5, 400)])
def test_principal_variances_of_a_flat_spectrum(spectrum):
    """Eigenvalues are so close that powers of the covariance alone do not separate them."""
    x = np.random.default_rng(0).normal(size=(1500, 400)) * np.sqrt(spectrum)
    _, dataset = from_array(x.astype(np.float32), scale="none")
    expected = np.linalg.eigvalsh(np.cov(x.T, bias=True))[::-1][:10]
    assert principal_variances(dataset, 10) == pytest.approx(expected, rel=1e-5)


def test_directions_without_variance_are_zero():
    x = np.zeros((30, 6), np.float32)
    x[:, 0], x[:, 3] = np.arange(30), np.arange(30) % 2
    _, dataset = from_array(x, scale="none", axes="nchw" if x.ndim == 4 else None)
    found = principal_variances(dataset, 8)
    assert len(found) == 8
    assert sum(value > 0 for value in found) == 2
    with pytest.raises(ValueError, match=r"use latent\.size=2 or less"):
        uw.Run(latent=uw.Gaussian(3, variances="pca"), batch_size=4).resolve(dataset)
    run = uw.Run(latent=uw.Gaussian(2, variances="pca"), batch_size=4).resolve(dataset)
    assert sum(run.latent.variances) == pytest.approx(2, rel=1e-5)
    assert run.resolve(dataset) == run  # resolved once, it stays


@pytest.mark.parametrize("shape", [(800, 60), (100, 300)])
def test_the_noise_is_what_components_leave_unexplained(shape):
    """x = z W + 0.3 e with five components; half of the directions count as components at most."""
    rng = np.random.default_rng(0)
    n, d = shape
    x = rng.normal(size=(n, 5)) @ rng.normal(size=(5, d)) + 0.3 * rng.normal(size=shape)
    _, dataset = from_array(x, scale="none")
    for components in (5, 10):
        assert noise_deviation(dataset, components) == pytest.approx(0.3, rel=0.05)
    assert noise_deviation(dataset, 2) > 1
    assert 0.2 < noise_deviation(dataset, 10_000) < 0.3
    _, exact = from_array(x[:, :1] @ np.ones((1, d)), scale="none")
    assert noise_deviation(exact, 5) == pytest.approx(0, abs=1e-3)
    assert noise_deviation(exact, 5, 0.3) == pytest.approx(0.3 * x[:, 0].std(), rel=0.02)
    _, constant = from_array(np.full((20, 4), 2.0), scale="none")
    assert noise_deviation(constant, 3) == 0
