"""Properties of blocks decide what objectives accept, also for blocks that users define."""

import math
from dataclasses import dataclass
from typing import Literal

import pytest
import torch
from torch.distributions import Cauchy, Normal

import unweave as uw
from datasets import LATENTS, OBJECTIVES, D, nets_and_batch, run_updates, small_run
from posteriors import f64, posterior
from unweave.core.noise import Noise
from unweave.core.spec import spec, tag
from unweave.latents import Product, SampledRateBlock
from unweave.latents.distributions import IndependentColumns
from unweave.objectives import total


@dataclass(frozen=True)
class CauchyDensity(IndependentColumns):
    zero: torch.Tensor

    @property
    def mean(self):
        return self.zero

    @property
    def stddev(self):
        return self.zero + math.inf

    def rsample(self, noise, shape=()):
        u = noise.uniform((*shape, *self.zero.shape), "cauchy", self.zero.dtype)
        return torch.tan(math.pi * (u - 0.5))

    def log_marginals(self, z):
        return -math.log(math.pi) - torch.log1p(z.square())


@spec
class HeavyTailed(SampledRateBlock):
    """p(z) = prod_j 1 / (pi (1 + z_j^2)), which only states its density."""

    size: int = 2
    kind: Literal["heavy-tailed"] = tag("heavy-tailed")

    def density(self, zero):
        return CauchyDensity(zero)


CAUCHY = uw.StudentT(2, df=1)


@pytest.mark.parametrize("objective", OBJECTIVES, ids=lambda o: o.kind)
def test_a_heavy_tailed_block_is_refused_wherever_the_cauchy_prior_is(objective):
    reason, shipped = objective.incompatibility(HeavyTailed()), objective.incompatibility(CAUCHY)
    assert (reason is None) == (shipped is None)
    if shipped:
        assert reason == shipped.replace("StudentT", "HeavyTailed")


def test_some_objectives_refuse_a_prior_without_variance():
    refusing = [D.InclusiveKL(), D.Moments(), D.SlicedWasserstein()]
    assert all("HeavyTailed" in each.incompatibility(HeavyTailed()) for each in refusing)
    assert "HeavyTailed" in uw.DIPVAE().incompatibility(HeavyTailed())


def test_a_block_needs_only_its_density():
    block = HeavyTailed()
    q, p = posterior(block, batch=3), block.density(torch.zeros(2, dtype=f64))
    z = q.rsample(Noise(0))
    expected = Normal(q.mean, q.stddev).log_prob(z) - Cauchy(0.0, 1.0).log_prob(z)
    torch.testing.assert_close(block.rates(q, p, z), expected)
    torch.testing.assert_close(block.rate(q, p, z), expected.sum(-1))
    torch.testing.assert_close(block.log_prob(z), Cauchy(0.0, 1.0).log_prob(z).sum(-1))
    mean, scale = torch.tensor([[0.3, -1.0]], dtype=f64), torch.tensor([0.5, 0.2], dtype=f64)
    torch.testing.assert_close(
        block.kl(mean, scale), CAUCHY.kl(mean, scale).sum(-1), rtol=1e-3, atol=1e-3
    )
    annealed = block.annealed(2.0)
    with pytest.raises(ValueError, match="HeavyTailed does not define log_normaliser"):
        annealed.log_prob(z)
    with pytest.raises(ValueError, match="HeavyTailed does not define entropy"):
        block.entropy()
    with pytest.raises(ValueError, match=r"CauchyDensity needs a method cdf"):
        block.prior_codes(q, p)


def test_a_users_block_trains_in_a_vae():
    """The loss and its gradient are those of the shipped block with the same prior."""
    losses = []
    for latent in (HeavyTailed(), uw.StudentT(2, df=1, sampled_rate=True)):
        run = small_run(latent=uw.Gaussian(2))
        nets, batch = nets_and_batch(run)
        objective = uw.BetaVAE(beta=2.0)
        torch.manual_seed(0)
        nets = objective.build(latent, run.network, run.likelihood, batch.x.shape[1:]).double()
        loss = total(run_updates(objective, nets, batch, Noise(0))["model"])
        losses.append([loss, *torch.autograd.grad(loss, list(nets.parameters()))])
    for one, two in zip(*losses, strict=True):
        torch.testing.assert_close(one, two)


@pytest.mark.parametrize("latent", LATENTS, ids=lambda latent: latent.kind)
def test_properties_of_blocks_are_true(latent):
    leaves = latent.leaf_blocks.values()
    assert latent.continuous == (not any(latent.discrete))
    assert latent.gaussian_posterior == all(latent.normal)
    assert latent.fixed_prior == (not list(latent.prior((4,)).parameters()))
    for name in ("gaussian_posterior", "factorised_posterior", "fixed_prior", "finite_variance"):
        assert getattr(latent, name) == all(getattr(block, name) for block in leaves)
    q = posterior(latent, batch=3)
    z = latent.hard_samples(q.rsample(Noise(0)))
    joint, marginals = q.log_prob(z), q.log_marginals(z).sum(-1)
    assert latent.factorised_posterior == torch.allclose(joint, marginals)
    if latent.fixed_prior:
        p = latent.density(torch.zeros(latent.size, dtype=f64))
        assert latent.finite_variance == p.stddev.isfinite().all()
        assert latent.factorised == torch.allclose(p.log_prob(z), p.log_marginals(z).sum(-1))


def test_a_learned_covariance_and_a_dependence_are_not_factorised():
    assert not uw.Gaussian(3, learn="covariance").factorised
    assert uw.Gaussian(3, learn="variances").factorised
    assert not Product(a=uw.Categorical(3), b=uw.Categorical(2, given="a")).factorised
    assert Product(a=uw.Categorical(3), b=uw.Categorical(2)).factorised
    assert uw.Gaussian(3, variances="pca").finite_variance
