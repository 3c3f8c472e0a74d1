"""Identities of Esmaeili et al.: figures 2 and 4, and the objectives of table 1."""

import math
from types import SimpleNamespace

import pytest
import torch
from torch.distributions import MultivariateNormal, Normal, OneHotCategorical

import unweave as uw
from datasets import D
from small_models import COUNT, NOISE, SHAPE, SIZE, X, correlate, f64, loss, nets_of
from unweave.aggregate import decompose, decompose_exactly
from unweave.core.noise import Noise
from unweave.latents import FullGaussian, OneHot
from unweave.theory import elbo_parts

# Figures 2 and 4


def test_figure_2_sums_to_the_elbo_by_enumeration():
    """(1) + (2) + (3) + (4) = ELBO + log N, for three observations of two bits and four classes."""
    latent = uw.Categorical(4)
    x = torch.tensor([[0.0, 0.0], [0.0, 1.0], [1.0, 1.0]], dtype=f64)
    q = latent.posterior(Noise(0).normal((3, 4), "q", f64))
    p = latent.density(torch.zeros(4, dtype=f64))
    logits = Noise(1).normal((4, 2), "decoder", f64)
    log_x = torch.stack(  # (classes, observations)
        [uw.likelihoods.Bernoulli()(row.expand(3, 2)).log_prob(x) for row in logits]
    )
    log_px = torch.logsumexp(log_x + p.log_probs[:, None], 0)
    hard_samples = torch.eye(4, dtype=f64)
    terms = []
    for n in range(3):
        parts = decompose_exactly(latent, q, p, hard_samples, q.log_probs[n])
        fourth = q.log_probs[n] - p.log_probs - parts.mutual_information
        first, third = log_x[:, n] - log_px[n], log_px[n] + math.log(3)
        weights = q.mean[n] / 3
        terms.append([(weights * t).sum() for t in (
            first, -parts.mutual_information, third.expand(4), -fourth)])  # fmt: skip
    sums = torch.tensor(terms, dtype=f64).sum(0)
    elbo = (q.mean * log_x.T).sum(-1) - latent.rate(q, p, q.mean)
    assert sums.sum().item() == pytest.approx(elbo.mean().item() + math.log(3))
    marginal = q.mean.mean(0)  # and the parts are what they are called
    kl = (marginal * (marginal.log() - p.log_probs)).sum().item()
    information = (q.mean * (q.log_probs - marginal.log())).sum(-1).mean().item()
    assert sums[1:].tolist() == pytest.approx(
        [-information, (log_px.mean() + math.log(3)).item(), -kl]
    )


TREES = [
    uw.Product(
        style=uw.Gaussian(3, learn="covariance", encoding="full"),
        shape=uw.Categorical(3, hard=True),
    ),
    uw.Product(
        style=uw.Gaussian(2, learn="covariance", encoding="full"),
        what=uw.Product(
            shape=uw.Categorical(3, hard=True),
            place=uw.Gaussian(2, learn="covariance", encoding="full"),
        ),
    ),
]


def by_path(latent, d, z):
    """Log-density of every node by its path, with torch's distributions."""
    if isinstance(latent, uw.Product):
        found, whole = {}, 0.0
        columns = z.split([block.size for block in latent.blocks.values()], -1)
        for (name, block), part in zip(latent.blocks.items(), columns, strict=True):
            below = by_path(block, d.parts[name], part)
            whole = whole + below[""]
            found |= {f"{name}.{path}".rstrip("."): value for path, value in below.items()}
        return {"": whole, **found}
    if isinstance(d, OneHot):
        return {"": OneHotCategorical(probs=d.mean, validate_args=False).log_prob(z)}
    covariance = d.factor @ d.factor.mT
    found = {"": MultivariateNormal(d.loc, covariance).log_prob(z)}
    for j in range(latent.size):
        scale = covariance[..., j, j].sqrt()
        found[str(j)] = Normal(d.loc[..., j], scale).log_prob(z[..., j])
    return found


def equation_13(log_q, size=SIZE):
    """log of the estimate of q(z_i) in eq. 13, a row at a time."""
    q, batch = log_q.exp(), len(log_q)
    rows = []
    for i in range(batch):
        others = sum(q[i, j] for j in range(batch) if j != i)
        rows.append(q[i, i] / size + (size - 1) / (size * (batch - 1)) * others)
    return torch.stack(rows).log()


@pytest.mark.parametrize("whole", [False, True], ids=["batch", "exact"])
@pytest.mark.parametrize("latent", TREES, ids=["two levels", "three levels"])
def test_figure_4_node_by_node(latent, whole):
    """Every part against torch's densities, and their sum, under a correlated prior."""
    q = latent.posterior(Noise(0).normal((COUNT, latent.outputs), "raw", f64))
    p = correlate(latent.prior(SHAPE).double())(None)
    z = q.rsample(NOISE)
    if whole:
        parts = decompose_exactly(latent, q, p, z, q.log_prob(z))
        average = lambda table: table.exp().mean(1).log()  # noqa: E731
    else:
        parts = decompose(latent, q, p, z, SIZE)
        average = equation_13
    table = by_path(latent, q, z[:, None])
    log_q = {path: average(value) for path, value in table.items()}
    log_p = by_path(latent, p, z)
    information = table[""].diagonal() - log_q[""]
    torch.testing.assert_close(parts.mutual_information, information)
    parents = {path: path.rpartition(".")[0] for path in table if path}
    inner = set(parents.values())
    assert parts.correlations.keys() == parts.prior_correlations.keys() == inner
    for node in inner:
        below = [path for path, parent in parents.items() if parent == node]
        dependence = log_q[node] - sum(log_q[path] for path in below)
        torch.testing.assert_close(parts.correlations[node], dependence)
        expected = log_p[node] - sum(log_p[path] for path in below)
        torch.testing.assert_close(parts.prior_correlations[node], expected)
    assert parts.prior_correlations["style"].abs().mean() > 0.1  # the prior is correlated there
    for path in table.keys() - inner:
        torch.testing.assert_close(parts.leaf_kls[path], log_q[path] - log_p[path])
    pieces = [information, *parts.leaf_kls.values(), *(parts.excess(node) for node in inner)]
    torch.testing.assert_close(sum(pieces), q.log_prob(z) - p.log_prob(z))


@pytest.mark.parametrize("latent", TREES, ids=["two levels", "three levels"])
def test_the_parts_of_figure_4_sum_to_the_elbo_of_a_model(latent):
    nets = nets_of(latent)
    sides = elbo_parts(nets.model, X, NOISE)
    torch.testing.assert_close(sides.left, sides.right)
    passed = nets.model(X, NOISE)
    z = passed.hard_samples
    elbo = -passed.distortion - passed.q.log_prob(z) + passed.p.log_prob(z)
    torch.testing.assert_close(sides.left, elbo)
    parts = decompose_exactly(latent, passed.q, passed.p, z, passed.q.log_prob(z))
    assert len(sides.parts) == 2 + len(parts.correlations) + len(parts.leaf_kls)
    torch.testing.assert_close(sides.parts["dependence style"], -parts.excess("style"))


def test_term_a_contains_the_dependence_of_the_prior():
    """E_q[log p(z) / prod p(z_d)], which for p = N(0, C) needs only the second moments of q."""
    latent = uw.Gaussian(3, learn="covariance", encoding="full")
    p = correlate(latent.prior(SHAPE).double())(None)
    q = latent.posterior(Noise(0).normal((COUNT, latent.outputs), "raw", f64))
    z = q.rsample(NOISE)
    parts = decompose(latent, q, p, z, SIZE)
    c, m = p.factor @ p.factor.T, z.T @ z / COUNT
    own = 0.5 * (c.diagonal().log().sum() - torch.logdet(c))
    seen = 0.5 * ((m.diagonal() / c.diagonal()).sum() - torch.trace(torch.linalg.solve(c, m)))
    torch.testing.assert_close(parts.prior_correlations[""].mean(), own + seen)
    torch.testing.assert_close(
        parts.excess(""), parts.correlations[""] - parts.prior_correlations[""]
    )


def test_codes_that_match_a_correlated_prior_have_no_penalty():
    """q(z) = p(z): both total correlations are that of the prior, and term A is zero."""
    latent = uw.Gaussian(3, learn="covariance", encoding="full")
    p = correlate(latent.prior(SHAPE).double())(None)
    q = FullGaussian(p.loc[None], p.factor[None])  # a data set of one
    z = q.rsample(NOISE, (40_000,))[:, 0]
    parts = decompose_exactly(latent, q, p, z, q.log_prob(z))
    c = p.factor @ p.factor.T
    own = 0.5 * (c.diagonal().log().sum() - torch.logdet(c)).item()
    assert own > 0.3
    assert parts.correlations[""].mean().item() == pytest.approx(own, abs=0.02)
    for part in (parts.excess(""), parts.mutual_information, *parts.leaf_kls.values()):
        assert part.abs().max() < 1e-12


# Table 1

GROUPS = uw.Product(a=uw.Gaussian(2, sampled_rate=True), b=uw.Gaussian(1, sampled_rate=True))


def ingredients(nets):
    """The terms of figures 2 and 4, signs as divergences, (B,) each, written out for GROUPS."""
    passed = nets.model(X, NOISE)
    table = Normal(passed.q.mean, passed.q.stddev).log_prob(passed.z[:, None])
    q = equation_13(table.sum(-1))
    q_a, q_b, q_each = equation_13(table[..., :2].sum(-1)), equation_13(table[..., 2]), [
        equation_13(table[..., d]) for d in range(3)
    ]  # fmt: skip
    p_each = Normal(0.0, 1.0).log_prob(passed.z)
    own = table.sum(-1).diagonal()
    return SimpleNamespace(
        reconstruction=passed.distortion,  # -(1) - (3), up to a constant of the data
        information=own - q,  # (2)
        anchor=table[..., :2].sum(-1).diagonal() - q_a,  # (2) of the anchors a
        match=q - p_each.sum(-1),  # (4)
        between=q - q_a - q_b,  # (A)
        groups=q_a + q_b - p_each.sum(-1),  # (B)
        within=q_a - q_each[0] - q_each[1],  # (i)
        each=sum(q_each) - p_each.sum(-1),  # (ii)
        dependence=q - sum(q_each),  # (A) with every variable a group
    )


TABLE_1 = {
    "Kingma": (uw.VAE(), lambda t: t.information + t.match),
    "Higgins": (uw.BetaVAE(beta=3.0), lambda t: 3 * (t.information + t.match)),
    "Kumar": (
        uw.AlphaBetaVAE(alpha=1.5, beta=1.0, divergence=D.ExclusiveKL()),
        lambda t: t.information + 2.5 * t.match,
    ),
    "Zhao": (
        uw.InfoVAE(alpha=1.0, lam=2.5, divergence=D.ExclusiveKL()),
        lambda t: 2.5 * t.match,
    ),
    "Zhao, as a WAE": (uw.WAE(weight=2.5, divergence=D.ExclusiveKL()), lambda t: 2.5 * t.match),
    "Zhao, as alpha-beta": (
        uw.AlphaBetaVAE(alpha=2.5, beta=0.0, divergence=D.ExclusiveKL()),
        lambda t: 2.5 * t.match,
    ),
    "Gao": (
        uw.AnchorVAE(anchor="a", weight=0.4),
        lambda t: t.information + t.match - 0.4 * t.anchor,
    ),
    "Achille": (
        uw.InformationDropout(beta=0.5, gamma=2.0),
        lambda t: 0.5 * t.information + 2 * t.dependence,
    ),
    "Kim, Chen": (
        uw.BetaTCVAE(alpha=1.0, beta=4.0, gamma=1.0),
        lambda t: t.information + 4 * t.dependence + t.each,
    ),
    "HFVAE": (
        uw.HFVAE(alpha=0.5, beta=4.0, gamma=3.0),
        lambda t: 0.5 * t.information + 4 * t.between + 3 * t.within + t.each,
    ),
    "HFVAE, one weight": (
        uw.HFVAE(alpha=1.0, beta=4.0, gamma=1.0),
        lambda t: t.information + 4 * t.between + t.groups,
    ),
}


@pytest.mark.parametrize("row", TABLE_1)
def test_table_1(row):
    objective, expected = TABLE_1[row]
    nets = nets_of(GROUPS)
    terms = ingredients(nets)
    value = (terms.reconstruction + expected(terms)).mean()
    torch.testing.assert_close(loss(objective, nets), value)


@pytest.mark.parametrize("estimator", ["weighted", "stratified"])
def test_hfvae_with_one_flat_group_is_the_beta_tcvae(estimator):
    nets = nets_of(uw.Gaussian(3))
    one = uw.HFVAE(alpha=0.5, beta=4.0, gamma=3.0, estimator=estimator)
    other = uw.BetaTCVAE(alpha=0.5, beta=4.0, gamma=1.0, estimator=estimator)
    torch.testing.assert_close(loss(one, nets), loss(other, nets))


def test_hfvae_and_beta_tcvae_differ_by_the_dependence_of_the_prior():
    """(A) against (A)* of table 1: beta weighs the prior's total correlation as well."""
    latent = uw.Gaussian(3, learn="covariance", encoding="full")
    nets = nets_of(latent)
    passed = nets.model(X, NOISE)
    parts = decompose(latent, passed.q, passed.p, passed.z, SIZE)
    own = parts.prior_correlations[""].mean()
    difference = loss(uw.HFVAE(alpha=0.5, beta=4.0), nets) - loss(
        uw.BetaTCVAE(alpha=0.5, beta=4.0), nets
    )
    torch.testing.assert_close(difference, -(4.0 - 1.0) * own)
    assert own.abs() > 0.05
