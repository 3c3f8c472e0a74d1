"""Latent blocks: laws over all trees, and closed forms against independent references."""

import itertools
import math

import numpy as np
import pytest
import torch
from scipy import integrate, stats
from torch.distributions import Laplace, MultivariateNormal, Normal, StudentT, kl_divergence

import unweave as uw
from unweave.latents import DiagonalGaussian, FullGaussian, Latent, OneHot, Squashed, owner
from unweave.latents.block import Continuous, Fixed
from unweave.latents.quadrature import integral
from unweave.noise import Noise
from unweave.objectives.support import leaves
from unweave.spec import from_json, members, to_json
from worlds import LATENTS, SHAPE, prior

BLOCKS = [latent for latent in LATENTS if not isinstance(latent, uw.Product)]
FIXED = [block for block in BLOCKS if isinstance(block, Fixed)]
f64 = torch.float64


def posterior(latent, batch=5, seed=0, dtype=f64):
    return latent.posterior(Noise(seed).normal((batch, latent.outputs), "raw", dtype))


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
        assert owner(latent).shape == (latent.size,)
        q, p = posterior(latent), prior(latent)
        z = q.rsample(Noise(1))
        assert z.shape == q.mean.shape == q.spread.shape == (5, latent.size)
        assert q.log_prob(z).shape == p.log_prob(z).shape == q.entropy().shape == (5,)
        assert q.log_marginals(z).shape == (5, count)
        assert latent.rate(q, p, z).shape == (5,)
        assert latent.rates(q, p, z).shape == latent.codes(q).shape == (5, count)
        assert p.rsample(Noise(1), (7,)).shape == (7, latent.size)
        assert latent.log_nodes(q, z).shape == (5, len(latent.nodes))

    def test_nodes_hold_the_densities_of_the_tree(self, latent):
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

    def test_columns_of_variables_are_side_by_side(self, latent):
        places = [list(range(latent.size))[columns] for columns in latent.columns]
        assert [len(place) for place in places] == list(latent.variables)
        assert list(itertools.chain(*places)) == list(range(latent.size))

    def test_walks_cover_the_reach_within_the_support(self, latent):
        p = prior(latent)
        walks, (low, high) = latent.walks(p, 7), latent.reach(p)
        assert [walk.shape[1] for walk in walks] == list(latent.variables)
        for number, (walk, columns) in enumerate(zip(walks, latent.columns, strict=True)):
            z = p.mean.repeat(len(walk), 1)
            z[:, columns] = walk
            assert p.log_marginals(z)[:, number].isfinite().all()
            if latent.discrete[number]:
                continue
            assert len(walk) == 7
            assert (walk.diff(dim=0) > 0).all()
            torch.testing.assert_close(walk[[0, -1], 0], torch.cat([low[columns], high[columns]]))

    def test_normal_posteriors_are_normal(self, latent):
        q = posterior(latent)
        z = q.rsample(Noise(1))
        for number, columns in enumerate(latent.columns):
            if latent.normal[number]:
                expected = Normal(q.mean[:, columns], q.spread[:, columns]).log_prob(z[:, columns])
                torch.testing.assert_close(q.log_marginals(z)[:, [number]], expected)

    def test_samples_have_the_moments_they_say(self, latent):
        for d in (prior(latent), posterior(latent, batch=2)):
            z = d.rsample(Noise(2), (40_000,))
            assert z.isfinite().all()
            if any(latent.discrete) and not _hard(latent):
                continue  # relaxed samples are near, not at, the corners
            spread = d.spread.expand(z.shape[1:]).clamp(max=30)
            error = (z.mean(0) - d.mean).abs() / spread
            assert error[spread < 30].max() < 0.04

    def test_the_rate_is_the_mean_of_the_sampled_rate(self, latent):
        q, p = posterior(latent, batch=2), prior(latent)
        z = _draws(latent, q)
        sampled = q.log_prob(z) - p.log_prob(z)
        rate = latent.rate(q, p, z)
        rate = rate.mean(0) if rate.dim() == 2 else rate  # estimated on the samples
        error = 6 * sampled.std(0) / math.sqrt(len(z))
        assert ((rate - sampled.mean(0)).abs() < error + 1e-6).all()

    def test_the_entropy_is_that_of_the_density(self, latent):
        q = posterior(latent, batch=2)
        z = _draws(latent, q)
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
        if isinstance(latent, Continuous | uw.Uniform):
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
    return all(getattr(block, "hard", True) for block in leaves(latent).values())


def _draws(latent, q, count=60_000):
    """Samples of q; of discrete variables those of the masses, not of their relaxation."""
    z = q.rsample(Noise(4), (count,))
    columns = z.split(list(latent.variables), -1)
    kept = []
    for part, discrete in zip(columns, latent.discrete, strict=True):
        if not discrete:
            kept.append(part)
        elif part.shape[-1] == 1:
            kept.append(part.round())
        else:
            one = torch.nn.functional.one_hot(part.argmax(-1), part.shape[-1])
            kept.append(one.to(part.dtype))
    return torch.cat(kept, -1)


@pytest.mark.parametrize("block", FIXED)
class TestPlainUse:
    """Blocks on plain tensors, without a model."""

    def test_the_density_integrates_to_one(self, block):
        p = prior(block)
        if all(block.discrete):
            corners = (
                torch.eye(block.size)
                if isinstance(block, uw.Categorical)
                else (torch.tensor(list(itertools.product([0.0, 1.0], repeat=block.size))))
            )
            assert p.log_prob(corners.double()).exp().sum().item() == pytest.approx(1)
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
        z = _draws(block, p, 200_000)
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
        z = _draws(block, p, 100_000)
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


def adaptive(f, low, high, cuts):
    """scipy's adaptive quadrature between the cuts that lie inside."""
    inside = sorted({round(cut, 9) for cut in cuts if low + 1e-6 < cut < high - 1e-6})
    panels = itertools.pairwise([low, *inside, high])
    return sum(integrate.quad(f, a, b, epsabs=1e-12, epsrel=1e-9)[0] for a, b in panels)


MEANS, SCALES = (0.0, 0.1, 1.0, 2.5, 5.0), (0.01, 0.1, 0.5, 1.0, 2.0)


@pytest.mark.parametrize(
    ("block", "log_density"),
    [
        *((uw.StudentT(1, df=df), stats.t(df).logpdf) for df in (0.5, 1, 2, 5, 30, 100)),
        *(
            (
                uw.Sparse(1, weight=w, scale=0.05),
                lambda z, w=w: np.logaddexp(
                    np.log(w) + stats.norm.logpdf(z, scale=0.05),
                    np.log(1 - w) + stats.norm.logpdf(z),
                ),
            )
            for w in (0.01, 0.5, 0.8, 0.99)
        ),
        (uw.Laplace(1, scale=0.7), stats.laplace(scale=0.7).logpdf),
        (uw.Gaussian(1, variances=(0.3,)), stats.norm(scale=math.sqrt(0.3)).logpdf),
    ],
)
def test_kl_agrees_with_adaptive_quadrature(block, log_density):
    """To 1e-8 where 1e-4 is asked, and with the gradient of a difference quotient."""
    for mean, scale in itertools.product(MEANS, SCALES):

        def integrand(z, mean=mean, scale=scale):
            log_q = stats.norm.logpdf(z, mean, scale)
            return math.exp(log_q) * (log_q - log_density(z))

        low, high = mean - 12 * scale, mean + 12 * scale
        cuts = (0, 0.1, -0.1, 0.2, -0.2, 0.4, -0.4, mean, mean + 3 * scale, mean - 3 * scale)
        expected = adaptive(integrand, low, high, cuts)
        got = block.kl(torch.tensor([mean], dtype=f64), torch.tensor([scale], dtype=f64)).item()
        assert got == pytest.approx(expected, rel=1e-8, abs=1e-10)
        single = block.kl(torch.tensor([mean]), torch.tensor([scale])).item()
        assert single == pytest.approx(expected, rel=1e-4, abs=2e-6)
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
    torch.testing.assert_close(q.spread, theirs.stddev)
    table = torch.stack([MultivariateNormal(m, scale_tril=f).log_prob(z)
                         for m, f in zip(q.loc, q.factor, strict=True)], 1)  # fmt: skip
    torch.testing.assert_close(q.log_prob(z[:, None]), table)


def test_a_full_encoding_against_independent_columns_needs_only_its_marginals():
    latent = uw.StudentT(2, df=4, encoding="full")
    q, p = posterior(latent, batch=1), prior(latent)

    def integrand(z):
        return q.log_prob(z).exp() * (q.log_prob(z) - p.log_prob(z))

    s, m = q.spread[0].tolist(), q.mean[0].tolist()
    edges = [[c + k * w for k in (-9, -4, -2, 0, 2, 4, 9)] for c, w in zip(m, s, strict=True)]
    expected = integral(integrand, edges).item()
    assert latent.rate(q, p, q.mean).item() == pytest.approx(expected, rel=1e-5)


def test_learned_variances_keep_their_sum():
    block = uw.Gaussian(3, variances=(2.0, 0.7, 0.3), learn="variances")
    module = block.prior(SHAPE)
    torch.testing.assert_close(module(None).spread.square(), torch.tensor([2.0, 0.7, 0.3]))
    with torch.no_grad():
        module.log_variances += torch.tensor([5.0, 5.5, 3.0])
    assert module(None).spread.square().sum().item() == pytest.approx(3.0)


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
    m, s = q.base.loc[:, :1].numpy(), q.base.spread[:, :1].numpy()
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


def test_discrete_blocks_use_masses_everywhere():
    """A Concrete density can exceed 1 and does not fit a sum over classes; a mass does."""
    block = uw.Categorical(4)
    q, p = posterior(block), prior(block)
    assert isinstance(q, OneHot)
    corners = torch.eye(4, dtype=f64)
    torch.testing.assert_close(q.log_prob(corners[:, None]).exp().sum(0), torch.ones(5, dtype=f64))
    expected = (q.mean * (q.mean.log() - p.mean.log())).sum(-1)
    torch.testing.assert_close(block.rate(q, p, q.mean), expected)
    assert (q.log_prob(q.rsample(Noise(0))) <= 0).all()
    assert block.variables == (4,)
    assert q.log_marginals(corners[:1]).shape == (5, 1)
    bits = uw.Bernoulli(2)
    assert (posterior(bits).log_marginals(posterior(bits).rsample(Noise(0))) <= 0).all()


def test_a_spike_of_no_or_full_weight_is_a_normal():
    mean, scale = torch.tensor([[0.3]], dtype=f64), torch.tensor([[0.5]], dtype=f64)
    for weight, width in ((0.0, 1.0), (1.0, 0.05)):
        block = uw.Sparse(1, weight=weight, scale=0.05)
        reference = kl_divergence(Normal(mean, scale), Normal(0.0, width))
        torch.testing.assert_close(block.kl(mean, scale), reference)
        assert block.entropy() == pytest.approx(Normal(0.0, width).entropy().item())
        assert block.log_normaliser(2.0) == pytest.approx(
            uw.Gaussian(1, variances=(width**2,)).log_normaliser(2.0), rel=1e-6
        )


def test_the_tails_of_an_annealed_student_must_have_an_integral():
    with pytest.raises(ValueError, match="tails"):
        uw.StudentT(2, df=3).annealed(0.2)


def test_the_streams_of_blocks_are_their_own():
    tree = uw.Product(a=uw.Gaussian(2), b=uw.Gaussian(2))
    longer = uw.Product(a=uw.Gaussian(2), c=uw.Gaussian(1), b=uw.Gaussian(2))
    z, other = prior(tree).rsample(Noise(0)), prior(longer).rsample(Noise(0))
    assert torch.equal(z, other[[0, 1, 3, 4]])


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: uw.Product(), "at least one named block"),
        (lambda: uw.Product(**{"a.b": uw.Gaussian(1)}), "cannot name a block"),
        (lambda: uw.Product(**{"items": uw.Gaussian(1)}), "cannot name a block"),
        (lambda: uw.Gaussian(0), "greater than 0"),
        (lambda: uw.Gaussian(3, variances=(1.0,)), "one variance for each"),
        (lambda: uw.StudentT(2, df=0), "greater than 0"),
        (lambda: uw.Sparse(2, weight=1.5), "less than or equal to 1"),
        (lambda: uw.Sparse(2, scale=1.5), "less than 1"),
        (lambda: uw.Uniform(2, low=1.0, high=0.0), "low < high"),
        (lambda: uw.Categorical(1), "greater than or equal to 2"),
        (lambda: uw.Categorical(3, temperature=0), "greater than 0"),
        (lambda: uw.GaussianMixture(centres=((0.0,), (1.0, 2.0))), "rows of equal length"),
        (lambda: uw.GaussianMixture(scales=(1.0,)), "scales for 4 components"),
        (lambda: uw.GaussianMixture(weights=(1.0,)), "weights for 4 components"),
        (lambda: uw.GaussianMixture(weights=(0.0,) * 4), "above 0"),
    ],
)
def test_what_cannot_be_is_refused(make, message):
    with pytest.raises(ValueError, match=message) as caught:
        make()
    assert "\n" not in str(caught.value)


def test_full_gaussian_rows_and_points_are_told_apart():
    """A batch of D points of width D is not taken for a matrix."""
    q = FullGaussian(torch.zeros(2, dtype=f64), torch.tensor([[1.0, 0.0], [0.5, 2.0]], dtype=f64))
    z = torch.tensor([[1.0, 2.0], [3.0, -1.0]], dtype=f64)
    expected = MultivariateNormal(q.loc, scale_tril=q.factor).log_prob(z)
    torch.testing.assert_close(q.log_prob(z), expected)


@pytest.mark.parametrize(
    ("block", "ends"),
    [
        (uw.Gaussian(2, variances=(4.0, 0.25)), [(-4, 4), (-1, 1)]),
        (uw.StudentT(1, df=4, scale=0.5), [(-math.sqrt(2), math.sqrt(2))]),
        (uw.StudentT(1, df=2, scale=0.5), [(-1, 1)]),
        (uw.StudentT(1, df=0.5), [(-2, 2)]),
        (uw.Sparse(1, weight=0.9), [(-2, 2)]),
        (uw.Uniform(2, low=3, high=5), [(3, 5), (3, 5)]),
        (uw.GaussianMixture(centres=((0.0,), (2.0,)), scales=0.75), [(1 - 2.5, 1 + 2.5)]),
        (uw.Bernoulli(2, probability=0.3), [(0, 1), (0, 1)]),
    ],
)
def test_where_walks_begin_and_end(block, ends):
    walks = block.walks(prior(block), 5)
    for walk, expected in zip(walks, ends, strict=True):
        np.testing.assert_allclose(walk[[0, -1], 0], expected, atol=1e-12)


def test_a_categorical_variable_walks_through_its_classes():
    (walk,) = uw.Categorical(4).walks(prior(uw.Categorical(4)), 9)
    assert torch.equal(walk, torch.eye(4, dtype=f64))


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
