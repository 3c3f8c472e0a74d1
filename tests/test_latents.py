"""Latent blocks: laws over all trees, and closed forms against independent references."""

import numpy as np
import pytest
import torch
from scipy import integrate, stats
from torch.distributions import Normal, kl_divergence

import unweave as uw
from unweave.latents import DiagonalGaussian, Latent, owner
from unweave.noise import Noise
from unweave.spec import from_json, members, to_json
from worlds import LATENTS


def posterior(latent, batch=5, seed=0, dtype=torch.float64):
    raw = Noise(seed).normal((batch, latent.outputs), "raw", dtype)
    return latent.posterior(raw)


def test_every_block_is_tried_here():
    kinds = {to_json(latent)["kind"] for latent in LATENTS}
    assert kinds == set(members(Latent))


@pytest.mark.parametrize("latent", LATENTS)
class TestLaws:
    def test_survives_json(self, latent):
        assert from_json(type(latent), to_json(latent)) == latent

    def test_sizes_agree(self, latent):
        assert sum(latent.variables) == latent.size
        assert len(latent.names) == len(set(latent.names)) == len(latent.variables)
        assert owner(latent).shape == (latent.size,)
        q, p = posterior(latent), latent.prior()()
        z = q.rsample(Noise(1))
        assert z.shape == q.mean.shape == q.spread.shape == (5, latent.size)
        assert q.log_prob(z).shape == p.log_prob(z).shape == (5,)
        assert q.log_marginals(z).shape == (5, len(latent.variables))
        assert latent.rate(q, p, z).shape == (5, len(latent.variables))
        assert p.rsample(Noise(1), (7,)).shape == (7, latent.size)

    def test_samples_match_the_density(self, latent):
        prior = latent.prior().double()()
        z = prior.rsample(Noise(2), (20_000,))
        for sample, mean, spread in zip(z.T, prior.mean, prior.spread, strict=True):
            assert stats.kstest(sample.numpy(), "norm", (mean, spread)).pvalue > 1e-3
        assert torch.corrcoef(z.T)[~torch.eye(latent.size, dtype=torch.bool)].abs().max() < 0.04

    def test_the_density_integrates_to_one(self, latent):
        prior = latent.prior().double()()

        def density(value, column):
            z = torch.zeros(1, latent.size, dtype=torch.float64)
            z[0, column] = value
            return prior.log_marginals(z)[0, column].exp().item()

        for column in range(latent.size):
            assert integrate.quad(density, -np.inf, np.inf, (column,))[0] == pytest.approx(1)

    def test_the_joint_of_independent_variables_is_their_product(self, latent):
        q = posterior(latent)
        z = q.rsample(Noise(3))
        torch.testing.assert_close(q.log_prob(z), q.log_marginals(z).sum(-1))

    def test_the_rate_is_the_mean_of_the_sampled_rate(self, latent):
        q, p = posterior(latent, batch=2), latent.prior().double()()
        z = q.rsample(Noise(4), (200_000,))
        sampled = (q.log_prob(z) - p.log_prob(z)).mean(0)
        torch.testing.assert_close(latent.rate(q, p, z[0]).sum(-1), sampled, atol=0.02, rtol=0.02)

    def test_works_under_vmap(self, latent):
        raw = Noise(5).normal((4, 6, latent.outputs), "raw")
        prior = latent.prior()

        def everything(raw, seed):
            q, p = latent.posterior(raw), prior()
            z = q.rsample(Noise(seed))
            return z, q.log_prob(z[:, None]), q.log_marginals(z), latent.rate(q, p, z)

        mapped = torch.func.vmap(everything)(raw, torch.arange(4))
        for lane in range(4):
            for one, all_ in zip(everything(raw[lane], lane), mapped, strict=True):
                torch.testing.assert_close(one, all_[lane])

    def test_gradients_reach_the_encoder(self, latent):
        raw = torch.randn(5, latent.outputs, requires_grad=True)
        q = latent.posterior(raw)
        q.rsample(Noise(6)).square().sum().backward()
        assert raw.grad is not None
        assert (raw.grad != 0).all()


def test_gaussian_agrees_with_torch():
    latent = uw.Gaussian(4)
    raw = torch.randn(6, 8, dtype=torch.float64)
    q = latent.posterior(raw)
    reference = Normal(raw[:, :4], (0.5 * raw[:, 4:]).exp())
    z = q.rsample(Noise(0))
    torch.testing.assert_close(q.log_marginals(z), reference.log_prob(z))
    zero = torch.zeros((), dtype=torch.float64)
    torch.testing.assert_close(
        latent.rate(q, DiagonalGaussian(zero, zero), z),
        kl_divergence(reference, Normal(zero, zero + 1)),
    )


def test_kl_between_gaussians_agrees_with_quadrature():
    q = DiagonalGaussian(torch.tensor([0.7]), torch.tensor([-0.4]))
    p = DiagonalGaussian(torch.tensor([-0.3]), torch.tensor([0.2]))

    def integrand(z):
        z = torch.tensor([z])
        return ((q.log_prob(z) - p.log_prob(z)) * q.log_prob(z).exp()).item()

    assert q.kl(p).item() == pytest.approx(integrate.quad(integrand, -8, 8)[0], rel=1e-5)


@pytest.mark.parametrize("log_variance", [-1e4, -50.0, 50.0, 1e4])
def test_extreme_log_variances_stay_finite(log_variance):
    latent = uw.Gaussian(1)
    q = latent.posterior(torch.tensor([[0.0, log_variance]]))
    z = q.rsample(Noise(0))
    assert latent.rate(q, latent.prior()(), z).isfinite().all()
    assert q.log_prob(z).isfinite().all()


def test_the_streams_of_blocks_are_their_own():
    tree = uw.Product(a=uw.Gaussian(2), b=uw.Gaussian(2))
    longer = uw.Product(a=uw.Gaussian(2), c=uw.Gaussian(1), b=uw.Gaussian(2))
    z, other = tree.prior()().rsample(Noise(0)), longer.prior()().rsample(Noise(0))
    assert torch.equal(z, other[[0, 1, 3, 4]])


def test_a_product_refuses_what_it_cannot_be():
    with pytest.raises(ValueError, match="at least one named block"):
        uw.Product()
    with pytest.raises(ValueError, match="cannot name a block"):
        uw.Product(**{"a.b": uw.Gaussian(1)})
    with pytest.raises(ValueError, match="cannot name a block"):
        uw.Product(**{"items": uw.Gaussian(1)})
    with pytest.raises(ValueError, match="greater than 0"):
        uw.Gaussian(0)
