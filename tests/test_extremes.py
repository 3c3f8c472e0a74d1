"""Extreme settings: training stays finite, or is rejected with a reason."""

import numpy as np
import pytest
import torch

import unweave as uw
from datasets import CPU, DATASET, DIVERGENCES, OBJECTIVES, small_run
from unweave.data import from_array
from unweave.training import Lanes


def finite_after(run, dataset=DATASET, steps=12):
    """Return whether all terms, weights and moments stay finite over some steps."""
    lanes = Lanes([run.resolve(dataset)], dataset, CPU)
    for _ in range(steps):
        values, shares = lanes.advance()
        assert all(v.isfinite().all() for v in (*values.values(), *shares.values()))
    return all(lanes.state.finite())


@pytest.mark.parametrize("divergence", DIVERGENCES, ids=lambda d: d.kind)
def test_a_large_weight_of_the_divergence_without_a_rate_stays_finite(divergence):
    objective = uw.AlphaBetaVAE(alpha=50.0, beta=0.0, divergence=divergence)
    assert finite_after(small_run(objective=objective, optimiser=uw.Adam(lr=1e-2)))


@pytest.mark.parametrize(
    "latent",
    [
        uw.Sparse(3, spike_weight=0.0),
        uw.Sparse(3, spike_weight=1.0),
        uw.Sparse(3, spike_weight=1e-12, spike_scale=1e-3),
        uw.StudentT(3, df=0.3),
        uw.StudentT(3, df=1e4),
        uw.Laplace(3, scale=1e-3),
        uw.Categorical(5, temperature=0.05),
        uw.Categorical(5, temperature=5.0),
        uw.Categorical(5, temperature=0.05, hard=True),
        uw.Bernoulli(4, temperature=0.05, probability=1e-4),
        uw.Bernoulli(4, temperature=5.0),
        uw.GaussianMixture(scales=1e-3),
        uw.GaussianMixture(weights=(0.0, 1.0, 1.0, 0.0)),
        uw.Gaussian(3, variances=(1e3, 1.0, 1e-3)),
        uw.Uniform(3, low=0.0, high=1e-3),
    ],
    ids=str,
)
@pytest.mark.parametrize(
    "objective",
    [
        uw.BetaVAE(beta=4.0), uw.HFVAE(), uw.AlphaBetaVAE(alpha=5.0, beta=0.0),
        uw.AlphaBetaVAE(alpha=5.0, divergence=uw.divergences.ExclusiveKL()),
        uw.WAE(divergence=uw.divergences.MMD(kernel="imq-unsquared")),
    ],
    ids=lambda o: o.kind,
)  # fmt: skip
def test_extreme_priors_stay_finite_or_are_rejected(latent, objective):
    run = small_run(latent=uw.Product(edge=latent, plain=uw.Gaussian(1)), objective=objective)
    if run.objective.incompatibility(run.latent) is None:
        assert finite_after(run)
        return
    with pytest.raises(ValueError, match="infinite variance"):
        run.resolve(DATASET)


@pytest.mark.parametrize("value", [0, 255])
@pytest.mark.parametrize("objective", OBJECTIVES, ids=lambda o: o.kind)
def test_constant_images_stay_finite(value, objective):
    images = np.full((32, 16, 16), value, np.uint8)
    spec, dataset = from_array(images, device=CPU)
    run = small_run(objective=objective, data=spec, optimiser=uw.Adam(lr=1e-2))
    assert finite_after(run, dataset, steps=10)


def test_principal_variances_of_constant_images_are_rejected():
    _, dataset = from_array(np.zeros((32, 16, 16), np.uint8), device=CPU)
    with pytest.raises(ValueError, match="vary in 0 directions"):
        small_run(latent=uw.Gaussian(2, variances="pca")).resolve(dataset)


@pytest.mark.parametrize("estimator", ["weighted", "stratified"])
def test_narrow_encodings_far_apart_have_finite_densities_and_gradients(estimator):
    """Also if densities underflow everywhere except at their own point."""
    q = uw.latents.DiagonalGaussian(
        torch.arange(8.0)[:, None] * 100, torch.full((8, 1), -15.0, requires_grad=True)
    )
    z = q.rsample(uw.Noise(0))
    log_q = uw.aggregate.estimate(q.log_prob(z[:, None]), 1000, estimator)
    assert log_q.isfinite().all()
    (gradient,) = torch.autograd.grad(log_q.sum(), q.log_scale)
    assert gradient.isfinite().all()


def test_the_exact_aggregate_posterior_needs_the_full_batch():
    divergence = uw.divergences.ExclusiveKL(estimator="exact")
    dataset = DATASET
    run = small_run(objective=uw.AlphaBetaVAE(divergence=divergence), batch_size=dataset.size)
    assert finite_after(run, steps=3)
    with pytest.raises(ValueError, match=f"batch_size={dataset.size}"):
        small_run(objective=uw.AlphaBetaVAE(divergence=divergence)).resolve(dataset)
