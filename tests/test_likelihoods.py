"""Likelihoods: densities that integrate to 1, agree with torch's, and stay finite."""

import math

import numpy as np
import pytest
import scipy.stats
import torch

from datasets import LIKELIHOODS, small_run
from unweave.core.noise import Noise
from unweave.core.spec import members
from unweave.likelihoods import (
    BaseLikelihood,
    Bernoulli,
    ContinuousBernoulli,
    Gaussian,
    GaussianObservation,
    Laplace,
    Likelihood,
    NegativeBinomial,
    Poisson,
    SharedScale,
    _log_mean,
    _poisson_quantile,
)
from unweave.models import VAEModel
from unweave.networks import MLP

EXTREMES = [-50.0, -5.0, -1e-3, 0.0, 1e-6, 0.4999, 0.5001, 3.0, 50.0]
each = pytest.mark.parametrize("likelihood", LIKELIHOODS, ids=str)


def observed(likelihood, raw):
    """p(x|z) for outputs (B, *shape) of a decoder; those for scales are the same numbers."""
    channels = likelihood.raw_shape((1,))[0]
    return likelihood(likelihood.head()(torch.cat([raw] * channels, 1)))


def test_every_likelihood_is_tried_here():
    assert {likelihood.kind for likelihood in LIKELIHOODS} == set(members(Likelihood))


@each
@pytest.mark.parametrize("raw", [-30.0, -2.0, -0.1, 0.0, 1e-4, 0.7, 4.0])
def test_densities_integrate_to_one(likelihood, raw):
    """By the midpoint rule in float64, or by a sum where observations are integers."""
    if isinstance(likelihood, Bernoulli) or likelihood.counts:
        x, width = torch.arange(50_000 if likelihood.counts else 2, dtype=torch.float64), 1.0
    else:
        low, high = (0.0, 1.0) if likelihood.bounded else (raw - 40, raw + 40)
        width = (high - low) / 400_000
        x = low + width * (torch.arange(400_000, dtype=torch.float64) + 0.5)
    p = observed(likelihood, torch.full((len(x), 1), raw, dtype=torch.float64))
    density = p.log_prob(x[:, None]).exp()
    assert (density.sum() * width).item() == pytest.approx(1, abs=1e-7)
    assert ((density * x).sum() * width).item() == pytest.approx(p.mean[0].item(), abs=1e-6)


def test_likelihoods_agree_with_torch():
    torch.manual_seed(0)
    raw, x = torch.randn(5, 2, 4, 4, dtype=torch.float64), torch.rand(5, 2, 4, 4).double()
    binary, scale = (x > 0.5).double(), 0.1 + torch.rand_like(x)

    def agree(p, theirs, x):
        torch.testing.assert_close(p.log_prob(x), theirs.log_prob(x).sum((1, 2, 3)))
        torch.testing.assert_close(p.mean, theirs.mean)

    agree(Bernoulli()(raw), torch.distributions.Bernoulli(logits=raw), binary)
    theirs = torch.distributions.ContinuousBernoulli(logits=4 * raw)
    agree(ContinuousBernoulli()(4 * raw), theirs, x)
    agree(Gaussian(scale=0.3)(raw), torch.distributions.Normal(raw, 0.3), x)
    agree(Laplace(scale=0.3)(raw), torch.distributions.Laplace(raw, 0.3), x)
    free = torch.log(torch.expm1((scale / 0.3 - 1e-3) / 0.999)) - math.log(math.e - 1)
    learned = Gaussian(scale=0.3, learn="each")(torch.cat([raw, free], 1))
    agree(learned, torch.distributions.Normal(raw, scale), x)


@each
def test_samples_have_the_moments_of_the_density(likelihood):
    raw = torch.linspace(-6, 6, 13, dtype=torch.float64).expand(20_000, 13)
    p = observed(likelihood, raw)
    draws = p.sample(Noise(0))
    stddev = draws.std(0)
    assert ((draws.mean(0) - p.mean[0]).abs() / stddev.clamp_min(1e-3)).max() < 4 / math.sqrt(2e4)
    if isinstance(likelihood, Laplace):
        torch.testing.assert_close(stddev, torch.full_like(stddev, 0.3 * 2**0.5), rtol=0.05, atol=0)
    if isinstance(likelihood, ContinuousBernoulli):
        theirs = torch.distributions.ContinuousBernoulli(logits=raw[0]).stddev
        torch.testing.assert_close(stddev, theirs, rtol=0.05, atol=0)
    if isinstance(likelihood, Gaussian):
        scale = (torch.ones_like(draws) * p.scale)[0]
        torch.testing.assert_close(stddev, scale, rtol=0.05, atol=0)
    if isinstance(likelihood, (Poisson, NegativeBinomial)):
        dispersion = getattr(p, "dispersion", 0.0) * torch.ones_like(draws)
        variance = (p.mean + dispersion * p.mean**2)[0]
        frequent = p.mean[0] > 0.5
        torch.testing.assert_close(stddev[frequent] ** 2, variance[frequent], rtol=0.2, atol=0)
        assert torch.equal(draws, draws.round())
        assert draws.min() >= 0
    if likelihood.bounded:
        assert draws.min() >= 0
        assert draws.max() <= 1


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_counts_have_the_probabilities_of_scipy(dtype):
    """Closed forms, for counts and means up to a million, where the terms cancel."""
    x = torch.tensor([0, 1, 2, 7, 50, 1000, 5000, 100_000, 1_000_000], dtype=dtype)
    near = x.clamp_min(0.5).log()[:, None] + torch.linspace(-0.1, 0.1, 9, dtype=dtype)
    far = torch.linspace(-6, 14, 30, dtype=dtype).expand(len(x), -1)
    log_mean = torch.cat([near, far], 1)
    counts, raw = x[:, None].expand_as(log_mean).reshape(-1, 1), log_mean.reshape(-1, 1)
    observed, mean = counts.double().numpy(), _log_mean(raw).double().exp().numpy()

    def agree(likelihood, expected):
        found = likelihood(raw).log_prob(counts)
        assert found.dtype == dtype
        np.testing.assert_allclose(found, expected[:, 0], rtol=1e-6, atol=1e-6)

    agree(Poisson(), scipy.stats.poisson.logpmf(observed, mean))
    for dispersion in (1e-6, 1e-3, 0.3, 2.0, 100.0):
        r = 1 / dispersion
        expected = scipy.stats.nbinom.logpmf(observed, r, r / (r + mean))
        agree(NegativeBinomial(dispersion, learn="nothing"), expected)


@pytest.mark.parametrize("likelihood", [Poisson(), NegativeBinomial(1e-3, learn="nothing")])
def test_gradients_of_large_counts_are_exact_in_single_precision(likelihood):
    """The derivative by log m is x - m, divided by 1 + dispersion m."""
    raw = torch.tensor([[5.0], [13.0], [13.8], [14.0]], requires_grad=True)
    x = torch.tensor([[150.0], [1e5], [1e6], [1e6]])
    (found,) = torch.autograd.grad(likelihood(raw).log_prob(x).sum(), raw)
    exact = raw.detach().double()
    mean = _log_mean(exact).exp()
    dispersion = getattr(likelihood, "dispersion", 0.0)
    slope = 1 / (1 + (exact - 20).exp())  # of the bound of the logarithm of the mean
    expected = slope * (x - mean) / (1 + dispersion * mean)
    np.testing.assert_allclose(found, expected, rtol=2e-4)


def test_samples_of_counts_have_the_frequencies_of_scipy():
    draws = NegativeBinomial(0.7, learn="nothing")(torch.full((20_000, 1), 1.5)).sample(Noise(1))
    r = 1 / 0.7
    expected = scipy.stats.nbinom.pmf(np.arange(15), r, r / (r + math.exp(1.5)))
    found = np.bincount(draws.flatten().int().numpy(), minlength=15)[:15] / 20_000
    np.testing.assert_allclose(found, expected, atol=0.01)
    draws = Poisson()(torch.full((20_000, 1), math.log(3.0))).sample(Noise(2))
    found = np.bincount(draws.flatten().int().numpy(), minlength=10)[:10] / 20_000
    np.testing.assert_allclose(found, scipy.stats.poisson.pmf(np.arange(10), 3.0), atol=0.01)


def test_the_encoder_reads_logarithms_of_counts_and_other_values_unchanged():
    x = torch.tensor([[0.0, 1.0, 5000.0, -3.0]])
    for likelihood in LIKELIHOODS:
        expected = torch.log1p(x.clamp_min(0)) if likelihood.counts else x
        assert torch.equal(likelihood.encoder_input(x), expected)
    model = VAEModel(small_run().latent, MLP((5,)), Poisson(), (4,))
    assert torch.equal(model.raw(x), model.encoder(torch.log1p(x.clamp_min(0))))


@each
def test_gradients_agree_with_finite_differences(likelihood):
    torch.manual_seed(0)
    raw = torch.tensor([EXTREMES[1:-1]], dtype=torch.float64).T.requires_grad_()
    x = torch.rand(len(raw), 1, dtype=torch.float64)
    assert torch.autograd.gradcheck(lambda r: observed(likelihood, r).log_prob(x), raw)
    assert torch.autograd.gradcheck(lambda r: observed(likelihood, r).mean, raw)


@each
@pytest.mark.parametrize("value", [0.0, 1.0])
def test_extremes_stay_finite_in_single_precision(likelihood, value):
    """Also for images that are all black or all white."""
    raw = torch.tensor(EXTREMES)[:, None].expand(-1, 16).clone().requires_grad_()
    p = observed(likelihood, raw)
    nats = p.log_prob(torch.full_like(raw, value))
    gradients = torch.autograd.grad(nats.sum(), raw)[0]
    for found in (nats, gradients, p.mean, p.sample(Noise(0))):
        assert found.isfinite().all()


def test_the_continuous_bernoulli_is_smooth_through_a_half_in_single_precision():
    raw = torch.linspace(-1, 1, 2001)[:, None].requires_grad_()
    exact = raw.detach().double().requires_grad_()
    for x in (0.0, 0.3, 1.0):
        nats, truth = (observed(ContinuousBernoulli(), r).log_prob(r * 0 + x) for r in (raw, exact))
        torch.testing.assert_close(nats.double(), truth, rtol=0, atol=3e-7)
        slope, true_slope = (
            torch.autograd.grad(n.sum(), r)[0] for n, r in ((nats, raw), (truth, exact))
        )
        torch.testing.assert_close(slope.double(), true_slope, rtol=0, atol=2e-6)


def test_a_learned_scale_starts_at_the_given_one_and_has_a_minimum():
    raw = torch.zeros(3, 2, 4, 4)
    for learn in ("shared", "each"):
        p = observed(Gaussian(scale=0.2, learn=learn), raw)
        torch.testing.assert_close(p.scale, torch.full_like(raw, 0.2))
    floor = Gaussian(scale=0.2, learn="each")(torch.full((1, 2), -1e4))
    assert floor.scale.item() == pytest.approx(0.0002)


def test_the_decoder_puts_out_scales_if_they_are_learned():
    latent = small_run().latent

    def model(learn, shape):
        return VAEModel(latent, MLP((5,)), Gaussian(learn=learn), shape)

    for shape in [(4,), (3, 6, 6)]:
        twice = (2 * shape[0], *shape[1:])
        z = torch.zeros(2, latent.size)
        assert model("each", shape).decoder(z).shape == (2, *twice)
        assert model("each", shape).decode(z).mean.shape == (2, *shape)
        shared = model("shared", shape)
        assert isinstance(shared.head, SharedScale)
        shared.decode(z).log_prob(torch.ones(2, *shape)).sum().backward()
        assert shared.head.scale.grad.item() != 0
        assert not list(model("nothing", shape).head.parameters())


class OwnLikelihood(BaseLikelihood):
    """As a user writes one: a Gaussian of scale 2."""

    def __call__(self, raw):
        return GaussianObservation(raw, 2.0)


def test_a_likelihood_needs_one_method():
    own, shipped = OwnLikelihood(), Gaussian(scale=2.0)
    assert own.bounded is False
    assert own.raw_shape((3, 4)) == (3, 4)
    x, z = torch.rand(2, 4), torch.zeros(2, 3)
    models = []
    for likelihood in (own, shipped):
        torch.manual_seed(0)
        models.append(VAEModel(small_run().latent, MLP((5,)), likelihood, (4,)))
    one, two = (model.decode(z).log_prob(x) for model in models)
    assert torch.equal(one, two)


@pytest.mark.parametrize("mean", [0.0, 3.0, 1e15, 3e16, 1e30])
def test_counts_of_any_mean_are_drawn(mean):
    """Above 2**53 there is no next count, and the search for it used to go on for ever."""
    drawn = _poisson_quantile(torch.full((9,), mean), torch.linspace(0.1, 0.9, 9))
    assert drawn.double().mean() == pytest.approx(mean, rel=1e-3, abs=1)
