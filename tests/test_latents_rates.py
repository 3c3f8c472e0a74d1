"""Rates of latent blocks against torch, adaptive quadrature and samples."""

import itertools
import math
from functools import partial

import numpy as np
import pytest
import torch
from scipy import integrate, stats
from torch.distributions import MultivariateNormal, Normal, kl_divergence

import unweave as uw
from datasets import SHAPE, prior
from posteriors import f64, posterior
from unweave.core.noise import Noise
from unweave.latents import DiagonalGaussian


def adaptive(f, low, high, cuts):
    """scipy's adaptive quadrature between the cuts that lie inside."""
    inside = sorted({round(cut, 9) for cut in cuts if low + 1e-6 < cut < high - 1e-6})
    panels = itertools.pairwise([low, *inside, high])
    return sum(integrate.quad(f, a, b, epsabs=1e-12, epsrel=1e-9)[0] for a, b in panels)


MEANS, SCALES = (0.0, 0.1, 1.0, 2.5, 5.0), (0.01, 0.1, 0.5, 1.0, 2.0)


def log_normal(z, mean=0.0, scale=1.0):
    return -0.5 * ((z - mean) / scale) ** 2 - math.log(scale) - 0.5 * math.log(2 * math.pi)


def log_student(z, df):
    constant = math.lgamma((df + 1) / 2) - math.lgamma(df / 2) - 0.5 * math.log(df * math.pi)
    return constant - (df + 1) / 2 * math.log1p(z * z / df)


def log_sparse(z, weight):
    spike = weight * math.exp(log_normal(z, scale=0.05))
    return math.log(spike + (1 - weight) * math.exp(log_normal(z))) if abs(z) < 30 else (
        math.log(1 - weight) + log_normal(z))  # fmt: skip


@pytest.mark.parametrize(
    ("block", "log_density"),
    [
        *((uw.StudentT(1, df=df), partial(log_student, df=df)) for df in (0.5, 1, 2, 5, 30, 100)),
        *((uw.Sparse(1, spike_weight=w, spike_scale=0.05), partial(log_sparse, weight=w))
          for w in (0.01, 0.5, 0.8, 0.99)),
        (uw.Laplace(1, scale=0.7), lambda z: -abs(z) / 0.7 - math.log(1.4)),
        (uw.Gaussian(1, variances=(0.3,)), partial(log_normal, scale=math.sqrt(0.3))),
    ],
)  # fmt: skip
def test_kl_agrees_with_adaptive_quadrature(block, log_density):
    """To 1e-8, and to 1e-4 in float32; the gradient agrees with a difference quotient."""
    for mean, scale in itertools.product(MEANS, SCALES):

        def integrand(z, mean=mean, scale=scale):
            log_q = log_normal(z, mean, scale)
            return math.exp(log_q) * (log_q - log_density(z))

        low, high = mean - 12 * scale, mean + 12 * scale
        cuts = (0, 0.1, -0.1, 0.2, -0.2, 0.4, -0.4, mean, mean + 3 * scale, mean - 3 * scale)
        expected = adaptive(integrand, low, high, cuts)
        got = block.kl(torch.tensor([mean], dtype=f64), torch.tensor([scale], dtype=f64)).item()
        assert got == pytest.approx(expected, rel=1e-8, abs=1e-10)
        assert block.kl([mean], [scale]).item() == got  # lists are of 64 bits, too
        single = block.kl(torch.tensor([mean]), torch.tensor([scale])).item()
        assert single == pytest.approx(expected, rel=1e-4)
    inputs = [
        torch.tensor([[v] for v in vs], dtype=f64, requires_grad=True)
        for vs in ((0.0, 0.3, 2.0), (0.05, 0.4, 1.5))
    ]
    assert torch.autograd.gradcheck(block.kl, inputs, atol=1e-5)


def test_kl_of_a_mixture_on_a_grid_agrees_with_samples():
    block = uw.GaussianMixture()
    mean, scale = torch.tensor([[0.3, -0.2], [1.0, 0.0]]), torch.tensor([[0.5, 0.2], [0.17, 0.17]])
    q = DiagonalGaussian(mean.double(), scale.double().log())
    z = q.rsample(Noise(0), (400_000,))
    sampled = (q.log_prob(z) - block.log_prob(z)).mean(0)
    torch.testing.assert_close(
        block.kl(mean.double(), scale.double()), sampled, rtol=0.01, atol=0.01
    )
    wide = uw.GaussianMixture(centres=torch.eye(3), scales=[0.5, 0.4, 0.3], weights=(1, 2, 3))
    q = DiagonalGaussian(torch.zeros(3, dtype=f64), torch.zeros(3, dtype=f64))
    z = q.rsample(Noise(1), (200_000,))
    sampled = (q.log_prob(z) - wide.log_prob(z)).mean().item()
    assert wide.kl(torch.zeros(3), torch.ones(3)).item() == pytest.approx(sampled, rel=0.05)


def test_a_mixture_counts_its_prior_once():
    """A release of the field counts log p(z) once a column: E[log q] - D E[log p]."""
    block = uw.GaussianMixture()
    p = prior(block)
    z = torch.randn(6, 2, dtype=f64)
    components = [MultivariateNormal(torch.tensor(c, dtype=f64), 0.03 * torch.eye(2).double())
                  for c in block.centres]  # fmt: skip
    expected = torch.logsumexp(torch.stack([c.log_prob(z) for c in components]), 0) - math.log(4)
    torch.testing.assert_close(p.log_prob(z), expected)
    q = posterior(block, batch=6)
    torch.testing.assert_close(block.rate(q, p, z), q.log_prob(z) - expected)


def test_gaussians_agree_with_torch():
    latent = uw.Gaussian(4)
    raw = torch.randn(6, 8, dtype=f64)
    q = latent.posterior(raw)
    reference = Normal(raw[:, :4], (0.5 * raw[:, 4:]).exp())
    z = q.rsample(Noise(0))
    torch.testing.assert_close(q.log_marginals(z), reference.log_prob(z))
    torch.testing.assert_close(
        latent.rates(q, prior(latent), z), kl_divergence(reference, Normal(0.0, 1.0))
    )


def test_full_gaussians_agree_with_torch():
    latent = uw.Gaussian(3, learn="covariance", encoding="full")
    q = posterior(latent, batch=4)
    module = latent.prior(SHAPE).double()
    with torch.no_grad():
        module.below.copy_(torch.tensor([0.5, -0.3, 0.8]))
        module.log_diagonal.copy_(torch.tensor([0.1, -0.4, 0.3]))
    p = module(None)
    covariance = p.factor @ p.factor.T
    assert covariance.trace().item() == pytest.approx(3)  # the overall scale is kept
    theirs = MultivariateNormal(q.loc, scale_tril=q.factor)
    other = MultivariateNormal(p.loc, scale_tril=p.factor)
    z = q.rsample(Noise(0))
    torch.testing.assert_close(q.log_prob(z), theirs.log_prob(z))
    torch.testing.assert_close(q.entropy(), theirs.entropy())
    torch.testing.assert_close(latent.rate(q, p, z), kl_divergence(theirs, other))
    torch.testing.assert_close(q.stddev, theirs.stddev)
    table = torch.stack([MultivariateNormal(m, scale_tril=f).log_prob(z)
                         for m, f in zip(q.loc, q.factor, strict=True)], 1)  # fmt: skip
    torch.testing.assert_close(q.log_prob(z[:, None]), table)


def test_a_full_encoding_against_independent_columns_needs_only_its_marginals():
    latent = uw.StudentT(2, df=4, encoding="full")
    q, p = posterior(latent, batch=1), prior(latent)

    def integrand(z):
        return q.log_prob(z).exp() * (q.log_prob(z) - p.log_prob(z))

    s, m = q.stddev[0].numpy(), q.mean[0].numpy()
    x, y = (
        torch.linspace(c - 9 * w, c + 9 * w, 1001, dtype=f64) for c, w in zip(m, s, strict=True)
    )
    step = (x[1] - x[0]) * (y[1] - y[0])
    expected = (integrand(torch.cartesian_prod(x, y)).sum() * step).item()
    assert latent.rate(q, p, q.mean).item() == pytest.approx(expected, rel=1e-5)


def test_a_spike_of_no_or_full_weight_is_a_normal():
    mean, scale = torch.tensor([[0.3]], dtype=f64), torch.tensor([[0.5]], dtype=f64)
    for weight, width in ((0.0, 1.0), (1.0, 0.05)):
        block = uw.Sparse(1, spike_weight=weight, spike_scale=0.05)
        reference = kl_divergence(Normal(mean, scale), Normal(0.0, width))
        torch.testing.assert_close(block.kl(mean, scale), reference)
        assert block.entropy() == pytest.approx(Normal(0.0, width).entropy().item())
        assert block.log_normaliser(2.0) == pytest.approx(
            uw.Gaussian(1, variances=(width**2,)).log_normaliser(2.0), rel=1e-6
        )


@pytest.mark.parametrize("block", [uw.StudentT(1, df=5), uw.Sparse(1)])
@pytest.mark.parametrize("scale", [1e-3, 1e-5, 3e-7])
def test_rates_of_narrow_posteriors_keep_their_digits_in_float32(block, scale):
    """Nodes placed at rounded values of z would lose the weights of the rule."""
    mean = torch.tensor([0.04, 3.0])[:, None]
    wide = block.kl(mean.double(), torch.full_like(mean, scale).double())
    torch.testing.assert_close(
        block.kl(mean, torch.full_like(mean, scale)).double(), wide, rtol=1e-5, atol=1e-4
    )


@pytest.mark.parametrize(("low", "high"), [(0.1, 0.7), (-3.3, 1.7), (0.0, 1e-3), (5.0, 5.1)])
def test_a_uniform_block_stays_inside_and_its_sampled_rate_is_the_rate(low, high):
    """In float32, with an encoder that puts out whatever it likes."""
    block = uw.Uniform(1, low=low, high=high)
    raw = torch.tensor([[0.0, 0.0], [3.0, -2.0], [40.0, -30.0], [-40.0, 20.0], [1e4, -1e4]])
    q, p = block.posterior(raw), prior(block, torch.float32)
    z = q.rsample(Noise(0), (20_000,))
    sampled = q.log_prob(z) - p.log_prob(z)
    assert sampled.isfinite().all()
    torch.testing.assert_close(sampled.mean(0), block.rate(q, p, z[0]), rtol=0.02, atol=0.05)


@pytest.mark.parametrize("df", [0.5, 5, 100])
@pytest.mark.parametrize("scale", [10.0, 100.0])
def test_student_rates_of_wide_posteriors_keep_their_digits(df, scale):
    """Seen from far away the logarithm of the density is sharp at 0."""
    t = stats.t(df)

    def integrand(z):
        return stats.norm.pdf(z, 3.0, scale) * (stats.norm.logpdf(z, 3.0, scale) - t.logpdf(z))

    edges = [3 - 12 * scale, -300, -30, -3, 0, 3, 30, 300, 3 + 12 * scale]
    edges = sorted({min(max(e, edges[0]), edges[-1]) for e in edges})
    expected = sum(
        integrate.quad(integrand, *ends, limit=200)[0] for ends in itertools.pairwise(edges)
    )
    found = uw.StudentT(1, df=df).kl(torch.tensor([3.0], dtype=f64), scale)
    assert found.item() == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize(
    "block",
    [uw.Gaussian(2), uw.StudentT(2), uw.Sparse(2), uw.Laplace(2)],
)
def test_a_posterior_without_width_has_infinite_kl(block):
    mean = torch.tensor([0.0, 1.5])
    assert torch.equal(block.kl(mean, 0.0), torch.full((2,), torch.inf))


MIXTURE = uw.GaussianMixture([[-1.0], [0.0], [2.0]], [0.1, 0.2, 0.05], [1.0, 2.0, 1.0])


@pytest.mark.parametrize("mean", [-3.0, 0.0, 0.7])
@pytest.mark.parametrize("scale", [0.01, 0.3, 1.0, 2.0])
def test_the_rate_of_a_mixture_is_the_integral(mean, scale):
    """Also where it passes from one component to the next, where log p bends sharply."""

    def integrand(z):
        log_q = stats.norm.logpdf(z, mean, scale)
        return np.exp(log_q) * (log_q - MIXTURE.log_prob(torch.tensor([z], dtype=f64)).item())

    bends = [-1, -0.6, -0.5, -0.4, 0, 0.5, 1.5, 1.6, 1.7, 1.8, 1.9, 2, mean]
    edges = sorted({min(max(e, mean - 9 * scale), mean + 9 * scale) for e in [*bends, -99, 99]})
    expected = sum(
        integrate.quad(integrand, *ends, limit=300)[0] for ends in itertools.pairwise(edges)
    )
    found = MIXTURE.kl(torch.tensor([mean], dtype=f64), torch.tensor([scale], dtype=f64))
    assert found.item() == pytest.approx(expected, rel=1e-5)


def test_the_rate_of_a_mixture_in_the_plane_is_the_mean_of_samples():
    """And that of the columns of a product of mixtures is their sum, in lanes too."""
    block = uw.GaussianMixture()
    mean, scale = torch.tensor([[0.3, 0.4], [0.0, 0.0]], dtype=f64), 0.6
    z = mean + scale * torch.randn(400_000, 2, 2, dtype=f64)
    log_q = Normal(mean, scale).log_prob(z).sum(-1)
    sampled = log_q - block.log_prob(z)
    error = 5 * sampled.std(0) / math.sqrt(len(z))
    assert ((block.kl(mean, scale) - sampled.mean(0)).abs() < error).all()

    def pairs(values):
        return [[x, y] for x in values for y in values]

    weights = [x * y for x, y in pairs((1.0, 2.0, 1.0))]
    apart = uw.GaussianMixture(pairs((-1.0, 0.0, 2.0)), pairs((0.1, 0.2, 0.05)), weights)
    ends = torch.tensor([[0.4], [-0.8]], dtype=f64)
    alone = MIXTURE.kl(ends, 0.5)
    together = apart.kl(ends.T, 0.5)
    torch.testing.assert_close(together, alone.sum(0, keepdim=True), rtol=1e-5, atol=0)
    torch.testing.assert_close(
        torch.func.vmap(lambda m: block.kl(m, scale))(mean), block.kl(mean, scale)
    )


def test_the_rate_of_a_mixture_of_many_columns():
    """One component has a closed form; a point is infinitely far away."""
    alone = uw.GaussianMixture([[0.5] * 5], 0.7)
    mean = torch.randn(4, 5, dtype=f64)
    expected = kl_divergence(Normal(mean, 0.4), Normal(0.5, 0.7)).sum(-1)
    torch.testing.assert_close(alone.kl(mean, 0.4), expected, rtol=2e-3, atol=0)
    assert torch.equal(alone.kl(torch.ones(2, 5), 0.0), torch.full((2,), torch.inf))
    same = uw.GaussianMixture([[0.0] * 3, [1.0] * 3], 0.5).kl(torch.ones(6, 3), 0.5)
    assert torch.equal(same, same[:1].expand(6))


def test_a_small_rate_keeps_its_digits_in_float32():
    block, mean = uw.StudentT(1, df=100), torch.tensor([0.0])
    assert block.kl(mean, 1.0).item() == pytest.approx(
        block.kl(mean.double(), 1.0).item(), rel=1e-6
    )


def test_student_rates_far_narrower_than_the_posterior():
    t = stats.t(1, scale=1e-3)

    def integrand(z):
        return stats.norm.pdf(z, 0, 2) * (stats.norm.logpdf(z, 0, 2) - t.logpdf(z))

    edges = [0, *np.logspace(-5, 1.3, 30)]
    halves = [integrate.quad(integrand, *ends, limit=200)[0] for ends in itertools.pairwise(edges)]
    found = uw.StudentT(1, df=1, scale=1e-3).kl(torch.zeros(1, dtype=f64), 2.0)
    assert found.item() == pytest.approx(2 * sum(halves), rel=1e-4)


def test_a_uniform_posterior_knows_its_standard_deviation():
    q = uw.Uniform(3, low=-2.0, high=3.0).posterior(
        torch.tensor([[0.0, 4.0, 20.0, 9.0, 3.0, 5.0]], dtype=f64)
    )
    drawn = q.rsample(Noise(0), (400_000,))
    torch.testing.assert_close(drawn.std(0), q.stddev, rtol=5e-3, atol=1e-4)
