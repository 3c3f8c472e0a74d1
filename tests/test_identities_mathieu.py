"""Identities of Mathieu et al.: annealed priors, rescaled codes, and the bias of small batches."""

import math

import pytest
import torch
from scipy import integrate

import unweave as uw
from small_models import NOISE, X, f64, loss, loss_of, nets_of
from unweave.aggregate import exact, stratified, weighted
from unweave.core.noise import Noise
from unweave.latents import DiagonalGaussian
from unweave.theory import corollary_1, corollary_2, recode, rescaling, theorem_1

# Theorem 1: L_beta(x) = L(x; pi_beta, q) + (beta - 1) H_q + log F_beta

SPREAD = dict(variances=(2.0, 0.3))
CLOSED = [uw.Gaussian(2), uw.Gaussian(2, **SPREAD), uw.StudentT(2, df=3), uw.Laplace(2, scale=0.7)]
PRIORS = [*CLOSED, uw.Sparse(2), uw.GaussianMixture()]
SAMPLED = [
    uw.Gaussian(2, sampled_rate=True),
    uw.Gaussian(2, **SPREAD, sampled_rate=True),
    uw.StudentT(2, df=3, sampled_rate=True),
    uw.Laplace(2, scale=0.7, sampled_rate=True),
    uw.Sparse(2, sampled_rate=True),
    uw.GaussianMixture(),
]
betas = pytest.mark.parametrize("beta", [0.6, 1.0, 4.0])


@betas
@pytest.mark.parametrize("block", CLOSED, ids=str)
def test_the_beta_vae_is_the_vae_of_the_annealed_prior_and_the_entropy(block, beta):
    """The same networks and noise, rates without sampling on both sides."""
    nets = nets_of(block)
    sides = theorem_1(nets.model, beta, X, NOISE)
    torch.testing.assert_close(sides.left, sides.right, rtol=1e-9, atol=1e-9)
    torch.testing.assert_close(loss(uw.BetaVAE(beta=beta), nets), -sides.left.mean())
    annealed = loss(uw.VAE(), nets_of(block.annealed(beta)))
    torch.testing.assert_close(annealed, -sides.parts["elbo"].mean())


@betas
@pytest.mark.parametrize("block", SAMPLED, ids=str)
def test_theorem_1_holds_on_every_sample(block, beta):
    nets = nets_of(block)
    sides = theorem_1(nets.model, beta, X, NOISE)
    torch.testing.assert_close(sides.left, sides.right, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(loss(uw.BetaVAE(beta=beta), nets), -sides.left.mean())


@betas
@pytest.mark.parametrize("block", PRIORS, ids=str)
def test_theorem_1_holds_by_quadrature(block, beta):
    """beta KL(q || p) = KL(q || f_beta) - (beta - 1) H_q - log F_beta, on a fine grid."""
    mean = torch.tensor([0.2, -0.5], dtype=f64)
    q = DiagonalGaussian(mean, torch.tensor([0.3, 0.8], dtype=f64).log())
    step = q.stddev / 100  # the trapezoid rule converges exponentially, but for Laplace's kink
    steps = torch.arange(-1000, 1001, dtype=f64)
    axes = torch.round(mean / step)[:, None] * step[:, None] + steps * step[:, None]
    if isinstance(block, uw.GaussianMixture):  # not a product of columns
        z = torch.cartesian_prod(*axes[:, ::5])
        cell = (25 * step.prod()).item()
        log_q, log_f = q.log_prob(z), block.annealed(beta).log_prob(z)
        kl = (log_q.exp() * (log_q - log_f)).sum() * cell
    else:
        log_q = q.log_marginals(axes.T)
        log_f = annealed_columns(block, beta, axes.T)
        kl = ((log_q.exp() * (log_q - log_f)).sum(0) * step).sum()
    rate = block.kl(mean[None], q.stddev[None]).sum()
    expected = kl - (beta - 1) * q.entropy() - block.log_normaliser(beta)
    torch.testing.assert_close(beta * rate, expected, rtol=1e-5, atol=1e-5)


def annealed_columns(block, beta, z):
    """log p(z_j)^beta / F_beta of every column, with scipy's integral for F_beta."""
    log_p = block.density(torch.zeros(2, dtype=f64)).log_marginals

    def normaliser(column):
        def power(value):
            return math.exp(beta * log_p(torch.full((1, 2), value, dtype=f64))[0, column].item())

        return 2 * (integrate.quad(power, 0, 1, points=[0.05, 0.1, 0.2], limit=200)[0]
                    + integrate.quad(power, 1, math.inf, limit=200)[0])  # fmt: skip

    log_f = [math.log(normaliser(column)) for column in range(2)]
    assert sum(log_f) == pytest.approx(block.log_normaliser(beta), abs=1e-7)
    return beta * log_p(z) - torch.tensor(log_f, dtype=f64)


# Corollary 1


@betas
@pytest.mark.parametrize(
    "latent",
    [
        uw.Gaussian(3),
        uw.Gaussian(3, variances=(2.0, 0.7, 0.3)),
        uw.Gaussian(3, variances=(2.0, 0.7, 0.3), encoding="full"),
        uw.Gaussian(3, learn="covariance", encoding="full"),
    ],
    ids=str,
)
def test_corollary_1_with_its_constant_and_corollary_2(latent, beta):
    """L_beta(theta, phi) = L_H,beta(theta', phi') + c, hence also in all derivatives."""
    nets = nets_of(latent)
    sides = corollary_1(nets.model, beta, X, NOISE)
    torch.testing.assert_close(sides.left, sides.right, rtol=1e-11, atol=1e-11)
    if latent.fixed_prior:
        c = 1.5 * (beta - 1) * (1 + math.log(2 * math.pi / beta)) + latent.log_normaliser(beta)
        assert sides.parts["constant"].tolist() == pytest.approx([c] * len(X))
    passed, larger = recode(nets.model, math.sqrt(beta) * torch.eye(3, dtype=f64), X, NOISE)
    torch.testing.assert_close(larger.z, math.sqrt(beta) * passed.z)
    theirs = loss_of(uw.EntropyVAE(beta=beta), larger)
    torch.testing.assert_close(loss(uw.BetaVAE(beta=beta), nets), -sides.left.mean())
    torch.testing.assert_close(theirs, sides.parts["constant"].mean() - sides.right.mean())
    slopes = corollary_2(nets.model, beta, X, NOISE)
    torch.testing.assert_close(slopes.left, slopes.right, rtol=1e-9, atol=1e-11)
    networks_ = [*nets.model.encoder.parameters(), *nets.model.decoder.parameters()]
    ours = torch.autograd.grad(loss(uw.BetaVAE(beta=beta), nets), networks_)
    torch.testing.assert_close(slopes.left, -torch.cat([part.flatten() for part in ours]))


def test_scaling_codes_changes_the_rate_but_not_the_information():
    nets = nets_of(uw.Gaussian(3))
    moved = rescaling(nets.model, 4.0, X, NOISE).moved()
    assert moved == ["objective", "rate", "entropy", "kl", "dimension_kl"]


@pytest.mark.parametrize("encoding", ["diagonal", "full"])
def test_the_entropy_vae_is_equation_5(encoding):
    nets = nets_of(uw.Gaussian(3, encoding=encoding))
    q = nets.model.encode(X)
    factor = q.factor if encoding == "full" else torch.diag_embed(q.stddev)
    log_det = torch.logdet(factor @ factor.mT).mean()
    expected = loss(uw.VAE(), nets) - 0.5 * (2.5 - 1) * log_det
    torch.testing.assert_close(loss(uw.EntropyVAE(beta=2.5), nets), expected)


# Appendix C: the bias of estimates of KL(q(z) || p(z)) from batches


def estimates(loc, scale, index):
    """log q(z_i) of a batch by eq. 13 and by the weighted estimator, and the truth."""
    q = DiagonalGaussian(loc, scale.log().expand_as(loc))
    z = q.rsample(NOISE)[index]
    part = DiagonalGaussian(loc[index], scale.log().expand_as(loc[index]))
    p = DiagonalGaussian(torch.zeros(1, dtype=f64), torch.zeros(1, dtype=f64))
    table = part.log_prob(z[:, None])
    log_q = stratified(table, len(loc)), weighted(table, len(loc)), exact(q.log_prob(z[:, None]))
    rate = part.log_prob(z) - p.log_prob(z)
    return rate.mean(), [(value - p.log_prob(z)).mean() for value in log_q]


def test_small_batches_estimate_the_kl_as_the_rate_less_log_n():
    """q(z) is the prior and its KL about 0, but members of a batch of 8 hardly ever overlap."""
    loc = Noise(1).normal((20_000, 1), "loc", f64)
    scale = torch.tensor(1e-3, dtype=f64, requires_grad=True)
    batches = Noise(2).permutation(20_000, "batches")[:320].view(40, 8)
    found = [estimates(loc, scale, index) for index in batches]
    rate = torch.stack([rate for rate, _ in found]).mean()
    ours, lower, truth = (torch.stack([v[k] for _, v in found]).mean() for k in range(3))
    assert truth.item() == pytest.approx(0, abs=0.1)
    assert ours.item() == pytest.approx(rate.item() - math.log(20_000), abs=0.25)
    assert lower.item() == pytest.approx(rate.item() - math.log(8 * 20_000), abs=0.25)
    assert ours < -2.5  # which no divergence can be
    # Its gradient is that of the rate: it trains a beta-VAE.
    slopes = [torch.autograd.grad(v, scale, retain_graph=True)[0] for v in (rate, ours, truth)]
    assert slopes[1] / slopes[0] == pytest.approx(1, abs=0.1)
    assert abs(slopes[2] / slopes[0]) < 0.3
