"""Theorem 2 of Mathieu et al.: which objectives see a rotation of the codes."""

import pytest
import torch

import unweave as uw
from datasets import D
from small_models import NOISE, X, f64, loss_of, nets_of
from unweave.aggregate import exact, inclusive_kl
from unweave.core.noise import Noise
from unweave.latents import DiagonalGaussian, FullGaussian
from unweave.latents.distributions import HALF_LOG_2PI
from unweave.theory import recode, theorem_2


def rotation(size, seed=0):
    q = torch.linalg.qr(Noise(seed).normal((size, size), "rotation", f64)).Q
    return q * torch.cat([torch.det(q).sign()[None], torch.ones(size - 1, dtype=f64)])


ROTATION = rotation(3)


class Turned:
    """A prior whose draws are rotated; its density is as it was."""

    def __init__(self, base):
        self.log_prob, self.base = base.log_prob, base

    def rsample(self, noise, shape=()):
        return self.base.rsample(noise, shape) @ ROTATION.T


def two_passes(latent, project=False):
    """A pass and the same with codes R z, q = N(R m, R S R^T) and the decoder of R^T z."""
    passed, turned = recode(nets_of(latent).model, ROTATION, X, NOISE)
    q = turned.q.marginals if project else turned.q
    return passed, turned._replace(q=q, p=Turned(passed.p))


def rotated_losses(objective, latent, **options):
    return [loss_of(objective, p).item() for p in two_passes(latent, **options)]


def test_a_rotation_of_the_codes_does_not_change_the_beta_vae():
    latent = uw.Gaussian(3, encoding="full", variances=(0.7, 0.7, 0.7), sampled_rate=True)
    passed, turned = two_passes(latent)
    torch.testing.assert_close(turned.q.log_prob(turned.z), passed.q.log_prob(passed.z))
    assert (turned.z - passed.z).abs().max() > 0.5
    one, other = rotated_losses(uw.BetaVAE(beta=4.0), latent)
    assert one == pytest.approx(other, rel=1e-12)
    anisotropic = uw.Gaussian(3, encoding="full", variances=(2.0, 0.7, 0.3), sampled_rate=True)
    one, other = rotated_losses(uw.BetaVAE(beta=4.0), anisotropic)
    assert abs(one - other) > 0.1


@pytest.mark.parametrize("encoding", ["diagonal", "full"])
def test_theorem_2_reports_which_terms_change(encoding):
    """Total correlation and the columns' own, whose sum stays; all of them if p is not round."""
    nets = nets_of(uw.Gaussian(3, encoding=encoding, variances=(0.7, 0.7, 0.7)))
    both = theorem_2(nets.model, 4.0, ROTATION, X, NOISE)
    assert both.moved() == ["total_correlation", "dimension_kl"]
    drawn = theorem_2(nets.model, 4.0, x=X, noise=NOISE)
    assert drawn.moved() == both.moved()
    assert drawn.before == both.before
    assert drawn.after["total_correlation"] != both.after["total_correlation"]
    nets = nets_of(uw.Gaussian(3, encoding=encoding, variances=(2.0, 0.7, 0.3)))
    moved = theorem_2(nets.model, 4.0, ROTATION, X, NOISE).moved()
    assert moved == ["objective", "rate", "kl", "total_correlation", "dimension_kl"]


def test_the_rate_of_a_rotated_code_is_the_same_in_closed_form():
    latent = uw.Gaussian(3, encoding="full")
    passed, turned = two_passes(latent)
    p = latent.density(torch.zeros(3, dtype=f64))
    rate = latent.rate(turned.q, p, turned.z)
    torch.testing.assert_close(rate, passed.rate, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(
    ("divergence", "invariant"),
    [
        (D.InclusiveKL(), True),
        (D.ExclusiveKL(), True),
        (D.MMD(), True),
        (D.Moments(), True),
        (D.MMD(kernel="imq-dimensionwise"), False),
    ],
    ids=str,
)
def test_divergences_from_an_isotropic_prior_are_rotation_invariant(divergence, invariant):
    """With prior draws that turn along; of the kernels only the one by dimension sees the axes."""
    objective = uw.AlphaBetaVAE(alpha=3.0, beta=2.0, divergence=divergence)
    one, other = rotated_losses(objective, uw.Gaussian(3, encoding="full", sampled_rate=True))
    assert (one == pytest.approx(other, rel=1e-11)) == invariant


def test_a_student_prior_is_not_rotation_invariant():
    """In the rate and in the inclusive KL, whose prior is no longer the same when turned."""
    for objective in (uw.BetaVAE(beta=4.0), uw.AlphaBetaVAE(alpha=3.0, beta=0.0)):
        latent = uw.StudentT(3, df=3, encoding="full", sampled_rate=True)
        one, other = rotated_losses(objective, latent)
        assert abs(one - other) > 0.01


def test_a_rotated_diagonal_posterior_is_diagonal_only_if_isotropic():
    """Otherwise the rate of the nearest diagonal one is smaller, by the dependence left out."""
    latent = uw.Gaussian(3)
    passed, turned = two_passes(latent, project=True)
    p = latent.density(torch.zeros(3, dtype=f64))
    rate = latent.rate(turned.q, p, turned.z)
    covariance = ROTATION @ torch.diag_embed(passed.q.stddev.square()) @ ROTATION.T
    diagonal = covariance.diagonal(dim1=-2, dim2=-1)
    lost = 0.5 * (diagonal.log().sum(-1) - torch.logdet(covariance))
    torch.testing.assert_close(rate, passed.rate - lost)
    assert lost.max() > 1e-3
    round_ = DiagonalGaussian(passed.q.loc, passed.q.log_scale[:, :1].expand(-1, 3))
    turned_round = DiagonalGaussian(round_.loc @ ROTATION.T, round_.log_scale)
    torch.testing.assert_close(round_.kl(p).sum(-1), turned_round.kl(p).sum(-1))


def test_the_inclusive_kl_of_an_isotropic_prior_is_that_of_the_rotated_codes():
    """By brute force on a plane, so without draws: int p log p / q is the same."""
    turn = rotation(2, seed=4)
    loc, scale = X[:, :2], torch.tensor([0.9, 0.5], dtype=f64)
    covariance = turn @ torch.diag(scale.square()) @ turn.T
    step = 0.05
    axis = torch.arange(-8, 8, step, dtype=f64)
    z = torch.cartesian_prod(axis, axis)
    log_p = DiagonalGaussian(torch.zeros(2, dtype=f64), torch.zeros(2, dtype=f64)).log_prob(z)
    factors = {"as is": (loc, torch.diag(scale)),
               "turned": (loc @ turn.T, torch.linalg.cholesky(covariance))}  # fmt: skip
    values = [
        (log_p.exp() * (log_p - exact(FullGaussian(m, f).log_prob(z[:, None])))).sum() * step**2
        for m, f in factors.values()
    ]
    torch.testing.assert_close(values[0], values[1], rtol=1e-9, atol=1e-9)
    drawn = Noise(5).normal((20_000, 2), "prior", f64)
    log_q = DiagonalGaussian(loc, scale.log().expand_as(loc)).log_prob(drawn[:, None])
    sampled = inclusive_kl(-0.5 * drawn.square().sum(-1) - 2 * HALF_LOG_2PI, log_q)
    assert sampled.item() == pytest.approx(values[0].item(), abs=0.02)
