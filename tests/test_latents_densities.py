"""Latent blocks on plain tensors: densities, samples, entropies and powers of a prior."""

import itertools
import math

import numpy as np
import pytest
import torch
from scipy import integrate, stats
from torch.distributions import Laplace, MultivariateNormal, Normal, StudentT

import unweave as uw
from datasets import LATENTS, prior
from posteriors import draws, f64
from unweave.core.noise import Noise
from unweave.latents import FixedPriorBlock, FullGaussian, with_hard_samples

FIXED = [block for block in LATENTS if isinstance(block, FixedPriorBlock)]


@pytest.mark.parametrize("block", FIXED)
class TestPriorsOnPlainTensors:
    """Blocks on plain tensors, without a model."""

    def test_the_density_integrates_to_one(self, block):
        p = prior(block)
        if all(block.discrete):
            hard_samples = (
                torch.eye(block.size)
                if isinstance(block, uw.Categorical)
                else (torch.tensor(list(itertools.product([0.0, 1.0], repeat=block.size))))
            )
            assert p.log_prob(hard_samples.double()).exp().sum().item() == pytest.approx(1)
            return
        for column in range(block.size):

            def density(value, column=column):
                z = torch.zeros(1, block.size, dtype=f64)
                z[0, column] = value
                return p.log_marginals(z)[0, column].exp().item()

            ends = (block.low, block.high) if isinstance(block, uw.Uniform) else (-60, 60)
            points = None if isinstance(block, uw.Uniform) else [-1, -0.1, 0, 0.1, 1]
            mass = integrate.quad(density, *ends, points=points, limit=400)[0]
            assert mass == pytest.approx(1, abs=3e-3 if isinstance(block, uw.StudentT) else 1e-6)

    def test_the_entropy_is_the_mean_of_minus_log_prob(self, block):
        if isinstance(block, uw.GaussianMixture) and block.size > 2:
            with pytest.raises(ValueError, match="one or two columns"):
                block.entropy()
            return
        p = block.density(torch.zeros(block.size, dtype=f64))
        z = draws(block, p, 50_000)
        sampled = -p.log_prob(z)
        error = 6 * sampled.std().item() / math.sqrt(len(z))
        assert block.entropy() == pytest.approx(sampled.mean().item(), abs=error + 1e-9)

    @pytest.mark.parametrize("beta", [0.5, 1.0, 2.5])
    def test_the_normaliser_is_an_expectation_of_the_prior(self, block, beta):
        """F_beta = E_p[p(z)^(beta - 1)], and the annealed prior is p^beta / F_beta."""
        if isinstance(block, uw.GaussianMixture) and block.size > 2:
            with pytest.raises(ValueError, match="one or two columns"):
                block.log_normaliser(beta)
            return
        p = block.density(torch.zeros(block.size, dtype=f64))
        z = draws(block, p, 40_000)
        log_f = block.log_normaliser(beta)
        annealed = block.annealed(beta).log_prob(z[:50])
        torch.testing.assert_close(annealed, beta * p.log_prob(z[:50]) - log_f)
        if beta < 1 and isinstance(block, uw.StudentT):
            return  # the expectation has no variance
        sampled = torch.exp((beta - 1) * p.log_prob(z))
        error = 6 * sampled.std().item() / math.sqrt(len(z))
        assert math.exp(log_f) == pytest.approx(sampled.mean().item(), abs=error + 1e-9)

    def test_a_power_must_be_positive(self, block):
        for beta in (0.0, -1.0, math.inf):
            with pytest.raises(ValueError, match="beta"):
                block.log_normaliser(beta)
            with pytest.raises(ValueError, match="beta"):
                block.annealed(beta)

    def test_points_of_another_width_are_refused(self, block):
        with pytest.raises(ValueError, match="expected points"):
            block.log_prob(torch.zeros(2, block.size + 1))


@pytest.mark.parametrize(
    ("block", "reference"),
    [
        (uw.StudentT(2, df=3, scale=1.5), StudentT(3.0, 0.0, 1.5)),
        (uw.StudentT(2, df=0.7), StudentT(0.7)),
        (uw.Laplace(2, scale=0.7), Laplace(0.0, 0.7)),
        (uw.Gaussian(2), Normal(0.0, 1.0)),
        (uw.Gaussian(2, variances=(4.0, 4.0)), Normal(0.0, 2.0)),
    ],
)
def test_densities_agree_with_torch(block, reference):
    z = torch.linspace(-30, 30, 200, dtype=f64).reshape(100, 2)
    torch.testing.assert_close(block.log_prob(z), reference.log_prob(z).sum(-1))


@pytest.mark.parametrize(
    ("block", "cdf"),
    [
        (uw.StudentT(1, df=0.8), stats.t(0.8).cdf),
        (uw.StudentT(1, df=5), stats.t(5).cdf),
        (uw.Laplace(1, scale=0.5), stats.laplace(scale=0.5).cdf),
        (uw.Uniform(1, low=-2.0, high=3.0), stats.uniform(-2, 5).cdf),
        (uw.Sparse(1), lambda z: 0.8 * stats.norm.cdf(z / 0.05) + 0.2 * stats.norm.cdf(z)),
    ],
)
def test_samples_follow_the_density(block, cdf):
    z = block.density(torch.zeros(1, dtype=f64)).rsample(Noise(3), (20_000,))
    assert stats.kstest(z[:, 0].numpy(), cdf).pvalue > 1e-3


def test_the_tails_of_an_annealed_student_must_have_an_integral():
    with pytest.raises(ValueError, match="tails"):
        uw.StudentT(2, df=3).annealed(0.2)


@pytest.mark.parametrize("beta", [0.05, 0.7, 8.0, 300.0])
@pytest.mark.parametrize(
    "block",
    [
        uw.Sparse(1, spike_weight=0.8, spike_scale=0.05),
        uw.Sparse(1, spike_weight=0.3, spike_scale=0.9),
        uw.GaussianMixture([[-1.0], [0.0], [2.0]], [0.1, 0.2, 0.05], [1.0, 2.0, 1.0]),
        uw.GaussianMixture([[0.0], [0.3]], 0.25),  # whose peak is between the centres
    ],
)
def test_the_normaliser_is_the_integral_however_sharp_the_power(block, beta):
    half = 60 if beta < 0.5 else 20
    grid = torch.linspace(-half, half, 400_001, dtype=f64)
    log_p = block.log_prob(grid[:, None])
    shares = torch.exp(beta * (log_p - log_p.max()))
    expected = math.log(shares.sum().item() * half / 200_000) + beta * log_p.max().item()
    assert block.log_normaliser(beta) == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("block", [b for b in FIXED if not isinstance(b, uw.GaussianMixture)])
def test_large_powers_do_not_overflow(block):
    """log F_beta / beta goes to the largest log-density."""
    p = block.density(torch.zeros(block.size, dtype=f64))
    hard_samples = block.hard_samples(draws(block, p, 2_000))
    top = p.log_prob(torch.cat([hard_samples, torch.zeros(1, block.size)])).max().item()
    if all(block.discrete):
        top = p.log_prob(hard_samples).max().item()
    assert block.log_normaliser(1e5) / 1e5 == pytest.approx(top, abs=1e-3)
    assert math.isfinite(block.annealed(1e5).log_prob(hard_samples[:1]).item())


def test_a_tree_on_plain_tensors_is_the_sum_of_its_blocks():
    blocks = {"style": uw.Gaussian(2), "what": uw.Product(shape=uw.Categorical(3)), "mix":
              uw.GaussianMixture()}  # fmt: skip
    tree = uw.Product(**blocks)
    z = torch.cat([torch.randn(4, 2), torch.eye(3)[[0, 1, 2, 0]], torch.randn(4, 2)], -1)
    parts = list(zip(blocks.values(), z.split([2, 3, 2], -1), strict=True))
    torch.testing.assert_close(tree.log_prob(z), sum(b.log_prob(part) for b, part in parts))
    assert tree.entropy() == pytest.approx(sum(b.entropy() for b in blocks.values()))
    assert tree.log_normaliser(2.0) == pytest.approx(
        sum(b.log_normaliser(2.0) for b in blocks.values())
    )
    annealed = 2 * tree.log_prob(z) - tree.log_normaliser(2.0)
    torch.testing.assert_close(tree.annealed(2.0).log_prob(z), annealed)
    normal = uw.Product(style=uw.Gaussian(2), mix=uw.GaussianMixture())
    mean, scale = torch.randn(4, 4), torch.rand(4, 4)
    columns = uw.Product(a=uw.Gaussian(1), b=uw.StudentT(2)).kl(mean[:, :3], 1.0)
    assert torch.equal(columns[:, :1], uw.Gaussian(1).kl(mean[:, :1], 1.0))
    assert columns.shape == (4, 3)
    apart = blocks["style"].kl(mean[:, :2], scale[:, :2]).sum(-1)
    apart = apart + blocks["mix"].kl(mean[:, 2:], scale[:, 2:])
    torch.testing.assert_close(normal.kl(mean, scale), apart)
    with pytest.raises(ValueError, match="compare probabilities"):
        tree.kl(torch.zeros(7), 1.0)
    with pytest.raises(ValueError, match="is learned"):
        uw.Product(a=uw.VampPrior(2)).entropy()


TREE = uw.Product(
    style=uw.StudentT(1, df=5),
    what=uw.Product(shape=uw.Categorical(3), flag=uw.Bernoulli(1, probability=0.2)),
    mix=uw.GaussianMixture([[-1.0], [1.0]], 0.4),
)


def test_the_density_of_a_tree_integrates_to_one_and_gives_its_samples():
    """Summed over the discrete values and by the trapezoidal rule over the two real columns."""
    p = TREE.density(torch.zeros(TREE.size, dtype=f64))
    x = torch.linspace(-40, 40, 4001, dtype=f64)
    wide, near = torch.cartesian_prod(x[::2], x[1600:2400:5]).unbind(-1)
    mass, mean = 0.0, 0.0
    for one_hot in torch.eye(3, dtype=f64):
        for flag in (0.0, 1.0):
            middle = torch.cat([one_hot, torch.tensor([flag], dtype=f64)]).expand(len(wide), 4)
            z = torch.cat([wide[:, None], middle, near[:, None]], -1)
            share = p.log_prob(z).exp() * 0.04 * 0.1
            torch.testing.assert_close(p.log_prob(z[::5000]), TREE.log_prob(z[::5000]))
            mass, mean = mass + share.sum().item(), mean + share @ z
    assert mass == pytest.approx(1, abs=1e-4)
    torch.testing.assert_close(p.mean, mean, rtol=0, atol=1e-4)
    z = with_hard_samples(p).rsample(Noise(0), (40_000,))
    torch.testing.assert_close(z.mean(0), p.mean, rtol=0, atol=0.03)
    torch.testing.assert_close(z.std(0), p.stddev, rtol=0.05, atol=0.0)
    assert -p.log_prob(z).mean().item() == pytest.approx(TREE.entropy(), abs=0.03)
    assert p.mean.dtype == f64


def test_the_density_of_a_tree_is_that_of_its_prior():
    p, module = TREE.density(torch.zeros(TREE.size)), TREE.prior((4,))(None)
    z = module.rsample(Noise(0), (5,))
    assert torch.equal(p.rsample(Noise(0), (5,)), z)
    assert torch.equal(p.log_prob(z), module.log_prob(z))
    assert torch.equal(TREE.log_nodes(p, z), TREE.log_nodes(module, z))
    with pytest.raises(ValueError, match="expected points"):
        TREE.density(torch.zeros(3))
    with pytest.raises(ValueError, match="is learned"):
        uw.Product(a=uw.VampPrior(2)).density(torch.zeros(2))


@pytest.mark.parametrize("block", [b for b in FIXED if not any(b.discrete)])
def test_means_of_another_width_are_refused(block):
    with pytest.raises(ValueError, match="expected points"):
        block.kl(torch.zeros(2, block.size + 1), 1.0)


def test_the_kl_of_categories_needs_equally_many_classes():
    block = uw.Categorical(3)
    q = block.posterior(torch.tensor([1.0, 0.0, 0.0]))
    assert q.kl(block.density(torch.zeros(3))).item() == pytest.approx(0.1233, abs=1e-4)
    with pytest.raises(ValueError, match="expected points"):
        block.density(torch.zeros(1))


def test_as_many_points_as_columns_are_not_mistaken_for_a_matrix():
    q = FullGaussian(torch.zeros(2, dtype=f64), torch.tensor([[1.0, 0.0], [0.5, 2.0]], dtype=f64))
    z = torch.tensor([[1.0, 2.0], [3.0, -1.0]], dtype=f64)
    expected = MultivariateNormal(q.loc, scale_tril=q.factor).log_prob(z)
    torch.testing.assert_close(q.log_prob(z), expected)


@pytest.mark.parametrize("df", [1e6, 1e12, 1e15])
def test_a_student_of_many_degrees_of_freedom_is_a_normal(df):
    block = uw.StudentT(1, df=df)
    assert block.entropy() == pytest.approx(uw.Gaussian(1).entropy(), rel=2e-6)
    z = torch.linspace(-4, 4, 9, dtype=f64)[:, None]
    torch.testing.assert_close(block.log_prob(z), uw.Gaussian(1).log_prob(z), rtol=1e-4, atol=0)


@pytest.mark.parametrize("far", [10.0, 1000.0])
def test_the_entropy_of_distant_components_of_different_widths(far):
    block = uw.GaussianMixture([[0.0, 0.0], [far, 0.0]], [0.01, 1.0])
    parts = [2 * Normal(0.0, s).entropy().item() for s in (0.01, 1.0)]
    assert block.entropy() == pytest.approx(math.log(2) + sum(parts) / 2, rel=1e-6)


@pytest.mark.parametrize("block", FIXED)
def test_points_may_be_lists_arrays_or_integers(block):
    numbers = [1, 0, 0, 0][: block.size] + [0] * (block.size - 4)
    expected = block.log_prob(torch.tensor(numbers, dtype=torch.float32))
    for z in (numbers, np.array(numbers), torch.tensor(numbers)):
        torch.testing.assert_close(block.log_prob(z), expected)
    precise = block.log_prob([float(n) for n in numbers])
    torch.testing.assert_close(precise, expected.double(), rtol=1e-5, atol=1e-5)
    with pytest.raises(ValueError, match="expected numbers"):
        block.log_prob("abc")
    if any(block.discrete):
        return
    expected = block.kl(torch.tensor(numbers, dtype=torch.float32), 0.5)
    for mean in (numbers, np.array(numbers), torch.tensor(numbers)):
        torch.testing.assert_close(block.kl(mean, 0.5), expected)
    for scale in (-1.0, [-1.0] * block.size):
        with pytest.raises(ValueError, match="scale of 0 or more"):
            block.kl(numbers, scale)
    with pytest.raises(ValueError, match="one scale or"):
        block.kl(numbers, torch.ones(block.size + 1))


@pytest.mark.parametrize(
    "block", [uw.Sparse(1), uw.GaussianMixture([[-1.0], [0.5]], [0.3, 0.1]), uw.StudentT(1)]
)
def test_an_annealed_prior_is_a_prior(block):
    """Its entropy, divergence and powers agree with sums over a fine grid."""
    annealed = block.annealed(1.7)
    z = torch.linspace(-40, 40, 400_001, dtype=f64)[:, None]
    step = 2e-4
    log_f = annealed.log_prob(z)
    assert log_f.exp().sum().item() * step == pytest.approx(1, rel=1e-5)
    entropy = -(log_f.exp() * log_f).sum().item() * step
    assert annealed.entropy() == pytest.approx(entropy, rel=1e-5)
    log_q = Normal(0.2, 0.6).log_prob(z[:, 0])
    divergence = (log_q.exp() * (log_q - log_f)).sum().item() * step
    mean = torch.tensor([0.2], dtype=f64)
    assert annealed.kl(mean, 0.6).item() == pytest.approx(divergence, rel=1e-5)
    again, twice = annealed.annealed(0.8), block.annealed(1.7 * 0.8)
    torch.testing.assert_close(again.log_prob(z[::1000]), twice.log_prob(z[::1000]))
    power = math.log(torch.exp(0.8 * log_f).sum().item() * step)
    assert annealed.log_normaliser(0.8) == pytest.approx(power, rel=1e-4)


@pytest.mark.parametrize(
    ("block", "reference"),
    [
        (uw.Gaussian(1, variances=(2.0,)), stats.norm(0, math.sqrt(2))),
        (uw.StudentT(1, df=3), stats.t(3)),
        (uw.StudentT(1, df=0.5), stats.t(0.5)),
        (uw.Laplace(1, scale=0.7), stats.laplace(0, 0.7)),
        (uw.Uniform(1), stats.uniform(-1, 2)),
    ],
    ids=lambda v: getattr(v, "kind", ""),
)
def test_cdfs_agree_with_scipy(block, reference):
    z = torch.linspace(-6, 6, 41, dtype=torch.float64)[:, None]
    found = block.density(torch.zeros(1, dtype=torch.float64)).cdf(z)
    np.testing.assert_allclose(found[:, 0], reference.cdf(z[:, 0].numpy()), rtol=1e-9, atol=1e-14)


@pytest.mark.parametrize(
    "latent",
    [each for each in LATENTS if each.continuous and not isinstance(each, uw.Product)],
    ids=lambda v: v.kind,
)
def test_the_derivative_of_the_cdf_is_the_density(latent):
    p = prior(latent)
    z = torch.linspace(-0.93, 0.89, 15, dtype=torch.float64)[:, None].repeat(1, latent.size)
    h = 1e-5
    slope = (p.cdf(z + h) - p.cdf(z - h)) / (2 * h)
    torch.testing.assert_close(slope, p.log_marginals(z).exp(), rtol=1e-6, atol=1e-8)
