"""Principal variances of data, and the latent spaces that take them."""

import numpy as np
import pytest
import torch

import unweave as uw
from unweave.data import from_array, principal_variances


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
