"""Latent blocks: laws over all trees."""

import itertools
import math

import pytest
import torch
from torch.distributions import Normal

import unweave as uw
from datasets import LATENTS, SHAPE, prior
from posteriors import draws, posterior
from unweave.core.noise import Noise
from unweave.core.spec import from_json, members, to_json
from unweave.latents import Joint, Latent, variable_of_column, with_hard_samples
from unweave.latents.block import GaussianPosteriorBlock


class PointMass:
    """A distribution at a point, for the codes of a posterior of zero width."""

    def __init__(self, mean):
        self.mean = mean

    @classmethod
    def at(cls, latent, z):
        if not isinstance(latent, uw.Product):
            return cls(z)
        sizes = [block.size for block in latent.blocks.values()]
        parts = zip(latent.blocks.items(), z.split(sizes, -1), strict=True)
        return Joint({name: cls.at(block, part) for (name, block), part in parts}, tuple(sizes))


def test_every_block_is_tried_here():
    kinds = {to_json(latent)["kind"] for latent in LATENTS}
    assert kinds == set(members(Latent))


@pytest.mark.parametrize("latent", LATENTS)
class TestLaws:
    def test_survives_json(self, latent):
        assert from_json(type(latent), to_json(latent)) == latent

    def test_sizes_agree(self, latent):
        assert sum(latent.variables) == latent.size
        count = len(latent.variables)
        assert len(latent.names) == len(set(latent.names)) == len(latent.discrete) == count
        assert variable_of_column(latent).shape == (latent.size,)
        q, p = posterior(latent), prior(latent)
        z = q.rsample(Noise(1))
        assert z.shape == q.mean.shape == q.stddev.shape == (5, latent.size)
        assert q.log_prob(z).shape == p.log_prob(z).shape == q.entropy().shape == (5,)
        assert q.log_marginals(z).shape == (5, count)
        assert latent.rate(q, p, z).shape == (5,)
        assert latent.rates(q, p, z).shape == latent.codes(q).shape == (5, count)
        assert p.rsample(Noise(1), (7,)).shape == (7, latent.size)
        assert latent.log_nodes(q, z).shape == (5, len(latent.nodes))

    def test_log_nodes_are_the_densities_of_the_tree(self, latent):
        q = posterior(latent)
        z = q.rsample(Noise(1))
        values = latent.log_nodes(q, z)
        torch.testing.assert_close(values[:, 0], q.log_prob(z))
        leaf = [node.leaf for node in latent.nodes]
        torch.testing.assert_close(values[:, leaf], q.log_marginals(z))
        assert tuple(node.name for node in latent.nodes if node.leaf) == (
            latent.names if latent.nodes[0].leaf is False else ("",)
        )
        for index, node in enumerate(latent.nodes):
            assert node.parent is None or node.parent < index

    def test_samples_of_the_prior_have_standard_normal_codes(self, latent):
        """By the moments and quantiles of Phi^-1(F(z)); classes and bits stay as they are."""
        p = prior(latent)
        z = with_hard_samples(p).rsample(Noise(3), (40_000,))
        codes = latent.prior_codes(PointMass.at(latent, z), p)
        own = latent.codes(PointMass.at(latent, z))
        grid = torch.tensor([-2.0, -1.0, 0.0, 1.0, 2.0], dtype=torch.float64)
        for v, discrete in enumerate(latent.discrete):
            if discrete:
                assert torch.equal(codes[:, v], own[:, v])
                continue
            below = (codes[:, v, None] < grid).double().mean(0)
            torch.testing.assert_close(below, torch.special.ndtr(grid), rtol=0, atol=0.012)
            assert (codes[:, v][own[:, v].argsort()].diff() >= 0).all()  # in the same order

    def test_the_columns_of_variables_are_consecutive(self, latent):
        places = [list(range(latent.size))[columns] for columns in latent.columns]
        assert [len(place) for place in places] == list(latent.variables)
        assert list(itertools.chain(*places)) == list(range(latent.size))

    def test_traversals_cover_their_range_within_the_support(self, latent):
        p = prior(latent)
        traversals, (low, high) = latent.traversal_values(p, 7), latent.traversal_range(p)
        assert [values.shape[1] for values in traversals] == list(latent.variables)
        for number, (values, columns) in enumerate(zip(traversals, latent.columns, strict=True)):
            z = p.mean.repeat(len(values), 1)
            z[:, columns] = values
            assert p.log_marginals(z)[:, number].isfinite().all()
            if latent.discrete[number]:
                continue
            assert len(values) == 7
            assert (values.diff(dim=0) > 0).all()
            torch.testing.assert_close(values[[0, -1], 0], torch.cat([low[columns], high[columns]]))

    def test_normal_posteriors_are_normal(self, latent):
        q = posterior(latent)
        z = q.rsample(Noise(1))
        for number, columns in enumerate(latent.columns):
            if latent.normal[number]:
                expected = Normal(q.mean[:, columns], q.stddev[:, columns]).log_prob(z[:, columns])
                torch.testing.assert_close(q.log_marginals(z)[:, [number]], expected)

    def test_samples_have_the_stated_mean(self, latent):
        for d in (prior(latent), posterior(latent, batch=2)):
            z = d.rsample(Noise(2), (40_000,))
            assert z.isfinite().all()
            if any(latent.discrete) and not _hard(latent):
                continue  # relaxed samples have another mean
            stddev = d.stddev.expand(z.shape[1:]).clamp(max=30)
            error = (z.mean(0) - d.mean).abs() / stddev
            assert error[stddev < 30].max() < 0.04

    def test_the_rate_is_the_mean_of_the_sampled_rate(self, latent):
        q, p = posterior(latent, batch=2), prior(latent)
        z = draws(latent, q)
        sampled = q.log_prob(z) - p.log_prob(z)
        rate = latent.rate(q, p, z)
        rate = rate.mean(0) if rate.dim() == 2 else rate  # estimated on the samples
        error = 6 * sampled.std(0) / math.sqrt(len(z))
        assert ((rate - sampled.mean(0)).abs() < error + 1e-6).all()

    def test_the_entropy_is_the_mean_of_minus_log_prob(self, latent):
        q = posterior(latent, batch=2)
        z = draws(latent, q)
        sampled = -q.log_prob(z)
        error = 6 * sampled.std(0) / math.sqrt(len(z))
        assert ((q.entropy() - sampled.mean(0)).abs() < error + 1e-6).all()

    def test_works_under_vmap(self, latent):
        raw = Noise(5).normal((4, 6, latent.outputs), "raw")
        module = latent.prior(SHAPE)
        weight = torch.randn(latent.outputs, *SHAPE)

        def everything(raw, seed):
            q, p = latent.posterior(raw), module(lambda x: x @ weight.T)
            z = q.rsample(Noise(seed))
            drawn = p.rsample(Noise(seed), (3,))
            return (
                z, q.log_prob(z[:, None]), q.log_marginals(z), latent.rate(q, p, z),
                latent.rates(q, p, z), q.entropy(), drawn, p.log_prob(z), latent.codes(q),
            )  # fmt: skip

        mapped = torch.func.vmap(everything)(raw, torch.arange(4))
        for lane in range(4):
            for one, all_ in zip(everything(raw[lane], lane), mapped, strict=True):
                torch.testing.assert_close(one, all_[lane], rtol=1e-4, atol=1e-4)

    def test_gradients_reach_the_encoder(self, latent):
        raw = torch.randn(5, latent.outputs, requires_grad=True)
        q = latent.posterior(raw)
        z = q.rsample(Noise(6))
        (z * torch.randn_like(z)).sum().backward()
        assert raw.grad is not None
        assert (raw.grad != 0).all()

    @pytest.mark.parametrize("extreme", [-1e4, -50.0, 50.0, 1e4])
    def test_extreme_outputs_of_an_encoder_stay_finite(self, latent, extreme):
        """Log-variances and logits far beyond +-20, in float32, with finite gradients."""
        raw = torch.zeros(2, latent.outputs)
        raw[0] = torch.randn(latent.outputs)
        raw[1, -1] = extreme
        if isinstance(latent, GaussianPosteriorBlock | uw.Uniform):
            raw[1, : latent.size] = 0
            raw[1, latent.size : 2 * latent.size] = extreme
            raw[1, 2 * latent.size :] = 0
        raw.requires_grad_()
        q, p = latent.posterior(raw), prior(latent, torch.float32)
        z = q.rsample(Noise(0))
        values = [z, latent.rate(q, p, z), q.entropy()]
        assert all(value.isfinite().all() for value in values)
        (gradient,) = torch.autograd.grad(sum(value.sum() for value in values), raw)
        assert gradient.isfinite().all()


def _hard(latent):
    return all(getattr(block, "hard", True) for block in latent.leaf_blocks.values())
