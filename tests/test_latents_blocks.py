"""Single latent blocks: variances, intervals, probabilities, traversals and refusals."""

import math

import numpy as np
import pytest
import torch
from scipy import stats

import unweave as uw
from datasets import SHAPE, prior
from posteriors import f64, posterior
from unweave.core.noise import Noise
from unweave.latents import OneHot, Squashed


def test_learned_variances_keep_their_sum():
    block = uw.Gaussian(3, variances=(2.0, 0.7, 0.3), learn="variances")
    module = block.prior(SHAPE)
    torch.testing.assert_close(module(None).stddev.square(), torch.tensor([2.0, 0.7, 0.3]))
    with torch.no_grad():
        module.log_variances += torch.tensor([5.0, 5.5, 3.0])
    assert module(None).stddev.square().sum().item() == pytest.approx(3.0)


def test_principal_variances_are_scaled_to_a_mean_of_one():
    """A softmax of the singular values, taken literally, is one-hot; this is not."""
    block = uw.Gaussian(3, variances="pca").resolve(lambda count: [9.0, 4.0, 2.0, 1.0][:count])
    assert block.variances == pytest.approx((1.8, 0.8, 0.4))
    tree = uw.Product(a=uw.Gaussian(2, variances="pca"), b=uw.Categorical(3))
    assert tree.resolve(lambda count: [3.0, 1.0]).blocks["a"].variances == (1.5, 0.5)
    with pytest.raises(ValueError, match="too few for 3 principal"):
        uw.Gaussian(3, variances="pca").resolve(lambda count: [9.0, 4.0, 0.0])
    with pytest.raises(ValueError, match="not known yet"):
        uw.Gaussian(3, variances="pca").entropy()


def test_the_posterior_of_a_uniform_block_is_on_its_interval():
    block = uw.Uniform(2, low=-2.0, high=3.0)
    q = posterior(block, batch=3)
    assert isinstance(q, Squashed)
    share = np.linspace(0.001, 0.999, 50)
    u = stats.norm.ppf(share)
    m, s = q.base.loc[:, :1].numpy(), q.base.stddev[:, :1].numpy()
    expected = stats.norm.logpdf(u, m, s) - stats.norm.logpdf(u) - np.log(5)
    z = torch.from_numpy(-2 + 5 * share)[:, None, None].expand(50, 3, 2)
    np.testing.assert_allclose(q.log_marginals(z)[..., 0].T.numpy(), expected, rtol=1e-9)
    drawn = q.rsample(Noise(0), (100_000,))
    assert (drawn >= -2).all()
    assert (drawn <= 3).all()
    torch.testing.assert_close(drawn.mean(0), q.mean, rtol=0.02, atol=0.02)
    flat = block.posterior(torch.tensor([[0.0, 0.0, 50.0, 50.0]], dtype=f64))
    assert block.rate(flat, prior(block), flat.mean).item() == pytest.approx(0, abs=1e-12)
    assert block.kl(torch.zeros(2), torch.ones(2)).isinf().all()


@pytest.mark.parametrize("temperature", [0.05, 0.66, 5.0])
@pytest.mark.parametrize("hard", [False, True])
def test_relaxed_samples_keep_the_probabilities(temperature, hard):
    """The largest entry of a Concrete sample is distributed as the category, at any temperature."""
    logits = torch.tensor([1.0, 0.0, -1.0], dtype=f64)
    block = uw.Categorical(3, temperature=temperature, hard=hard)
    z = block.posterior(logits).rsample(Noise(0), (40_000,))
    torch.testing.assert_close(z.sum(-1), torch.ones(40_000, dtype=f64))
    assert ((z == 0) | (z == 1)).all() if hard else ((z > 0) & (z < 1)).any()
    shares = torch.bincount(z.argmax(-1), minlength=3) / 40_000
    assert (shares - logits.softmax(-1)).abs().max() < 0.01
    bits = uw.Bernoulli(3, temperature=temperature, hard=hard)
    ones = (bits.posterior(logits).rsample(Noise(1), (40_000,)) > 0.5).double().mean(0)
    assert (ones - logits.sigmoid()).abs().max() < 0.01


def test_discrete_blocks_use_probabilities_everywhere():
    """A Concrete density can exceed 1 and does not sum to 1 over classes; probabilities do."""
    block = uw.Categorical(4)
    q, p = posterior(block), prior(block)
    assert isinstance(q, OneHot)
    hard_samples = torch.eye(4, dtype=f64)
    torch.testing.assert_close(
        q.log_prob(hard_samples[:, None]).exp().sum(0), torch.ones(5, dtype=f64)
    )
    expected = (q.mean * (q.mean.log() - p.mean.log())).sum(-1)
    torch.testing.assert_close(block.rate(q, p, q.mean), expected)
    assert (q.log_prob(q.rsample(Noise(0))) <= 0).all()
    assert block.variables == (4,)
    assert q.log_marginals(hard_samples[:1]).shape == (5, 1)
    bits = uw.Bernoulli(2)
    assert (posterior(bits).log_marginals(posterior(bits).rsample(Noise(0))) <= 0).all()


def test_each_block_of_a_tree_has_its_own_noise_stream():
    tree = uw.Product(a=uw.Gaussian(2), b=uw.Gaussian(2))
    longer = uw.Product(a=uw.Gaussian(2), c=uw.Gaussian(1), b=uw.Gaussian(2))
    z, other = prior(tree).rsample(Noise(0)), prior(longer).rsample(Noise(0))
    assert torch.equal(z, other[[0, 1, 3, 4]])


@pytest.mark.parametrize(
    ("block", "ends"),
    [
        (uw.Gaussian(2, variances=(4.0, 0.25)), [(-4, 4), (-1, 1)]),
        (uw.StudentT(1, df=4, scale=0.5), [(-math.sqrt(2), math.sqrt(2))]),
        (uw.StudentT(1, df=2, scale=0.5), [(-1, 1)]),
        (uw.StudentT(1, df=0.5), [(-2, 2)]),
        (uw.Sparse(1, spike_weight=0.9), [(-2, 2)]),
        (uw.Uniform(2, low=3, high=5), [(3, 5), (3, 5)]),
        (uw.GaussianMixture(centres=((0.0,), (2.0,)), scales=0.75), [(1 - 2.5, 1 + 2.5)]),
        (uw.Bernoulli(2, probability=0.3), [(0, 1), (0, 1)]),
    ],
)
def test_where_traversals_start_and_end(block, ends):
    traversals = block.traversal_values(prior(block), 5)
    for values, expected in zip(traversals, ends, strict=True):
        np.testing.assert_allclose(values[[0, -1], 0], expected, atol=1e-12)


def test_a_traversal_of_a_categorical_shows_all_classes():
    (values,) = uw.Categorical(4).traversal_values(prior(uw.Categorical(4)), 9)
    assert torch.equal(values, torch.eye(4, dtype=f64))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: uw.Product(), "at least one named block"),
        (lambda: uw.Product(**{"a.b": uw.Gaussian(1)}), "cannot name a block"),
        (lambda: uw.Product(**{"items": uw.Gaussian(1)}), "cannot name a block"),
        (lambda: uw.Gaussian(0), "more than 0"),
        (lambda: uw.Gaussian(3, variances=(1.0,)), "one variance for each"),
        (lambda: uw.StudentT(2, df=0), "more than 0"),
        (lambda: uw.Sparse(2, spike_weight=1.5), "at most 1"),
        (lambda: uw.Sparse(2, spike_scale=1.5), "less than 1"),
        (lambda: uw.Uniform(2, low=1.0, high=0.0), "low < high"),
        (lambda: uw.Categorical(1), "at least 2"),
        (lambda: uw.Categorical(3, temperature=0), "more than 0"),
        (lambda: uw.GaussianMixture(centres=((0.0,), (1.0, 2.0))), "rows of equal length"),
        (lambda: uw.GaussianMixture(scales=(1.0,)), "scales for 4 components"),
        (lambda: uw.GaussianMixture(weights=(1.0,)), "weights for 4 components"),
        (lambda: uw.GaussianMixture(weights=(0.0,) * 4), "at least one weight above 0"),
    ],
)
def test_invalid_settings_are_refused(make, message):
    with pytest.raises(ValueError, match=message) as caught:
        make()
    assert "\n" not in str(caught.value)
