"""Identities of Kim and Mnih: lemma 1 and the objectives around it, with perfect critics."""

import math

import torch
from torch import nn
from torch.distributions import Normal

import unweave as uw
from datasets import CRITIC, D, run_updates
from small_models import COUNT, NOISE, X, f64, loss, nets_of
from unweave.aggregate import exact
from unweave.objectives import Batch, total
from unweave.theory import elbo_parts


def test_lemma_1_holds_on_every_sample():
    """log q(z|x) / p(z) = log q(z|x) / q(z) + log q(z) / p(z), as the objectives report them."""
    nets = nets_of(uw.Gaussian(3))
    batch = Batch(X, COUNT)  # the whole data set
    dropout = uw.InformationDropout(estimator="exact")
    information = dropout.model_loss(nets, batch, NOISE, {})[0]["mutual_information"].value
    matching = uw.AlphaBetaVAE(divergence=D.ExclusiveKL(estimator="exact"))
    divergence = matching.model_loss(nets, batch, NOISE, {})[0]["divergence"].value
    sides = elbo_parts(nets.model, X, NOISE)
    rate = sides.parts["reconstruction"] - sides.left
    torch.testing.assert_close(information + divergence, rate)
    torch.testing.assert_close(information, -sides.parts["mutual_information"])


def test_lemma_1_holds_by_quadrature():
    """Mean rate = I(x; z) + KL(q(z) || p(z)), on one column, each of the three by itself."""
    latent = uw.Gaussian(1)
    q = latent.posterior(torch.stack([X[:, 0], X[:, 1] - 1], 1))
    p = latent.density(torch.zeros(1, dtype=f64))
    step = 0.002
    z = torch.arange(-15, 15, step, dtype=f64)[:, None]
    each = q.log_prob(z[:, None])  # (points, N)
    log_q = exact(each)
    information = (each.exp() * (each - log_q[:, None])).sum(0).mean() * step
    mismatch = (log_q.exp() * (log_q - p.log_prob(z))).sum() * step
    torch.testing.assert_close(latent.rate(q, p, q.mean).mean(), information + mismatch)
    assert 0 < information < math.log(COUNT)
    assert mismatch > 0


class Oracle(nn.Module):
    """A critic that knows the two densities it is to tell apart."""

    def __init__(self, logits):
        super().__init__()
        self.logits = logits

    def forward(self, z):
        return self.logits(z)


def with_oracle(latent, objective, against):
    nets = nets_of(latent, objective)
    q, p = nets.model.encode(X), nets.model.p()

    def logits(z):
        log_q = exact(q.log_prob(z[:, None]))
        each = exact(q.log_marginals(z[:, None])).sum(-1)
        return torch.stack([log_q, each if against == "marginals" else p.log_prob(z)], -1)

    nets.critics["critic"] = Oracle(logits)
    return nets


SAMPLED_RATE = uw.Gaussian(3, sampled_rate=True)


def test_factor_vae_with_a_perfect_critic_is_equation_2():
    """-ELBO + gamma TC, which is the beta-TCVAE with beta = 1 + gamma."""
    objective = uw.FactorVAE(gamma=5.0, critic=CRITIC)
    nets = with_oracle(SAMPLED_RATE, objective, "marginals")
    passed = nets.model(X, NOISE)
    table = Normal(passed.q.mean, passed.q.stddev).log_prob(passed.z[:, None])
    dependence = table.sum(-1).exp().mean(1).log() - table.exp().mean(1).log().sum(-1)
    expected = (passed.distortion + passed.rate + 5 * dependence).mean()
    value = loss(objective, nets, COUNT)
    torch.testing.assert_close(value, expected)
    same = uw.BetaTCVAE(alpha=1.0, beta=6.0, gamma=1.0, estimator="exact")
    torch.testing.assert_close(value, loss(same, nets, COUNT))


def test_equation_12_is_the_elbo_less_the_weighted_divergence_from_the_prior():
    """By a critic's ratio: E[log p(x|z)] - KL(q(z|x) || p(z)) - gamma E[log D / (1 - D)]."""
    objective = uw.AlphaBetaVAE(alpha=5.0, beta=1.0, divergence=D.DensityRatio(critic=CRITIC))
    nets = with_oracle(uw.Gaussian(3), objective, "prior")
    passed = nets.model(X, NOISE)
    log_q = exact(passed.q.log_prob(passed.z[:, None]))
    ratio = log_q - passed.p.log_prob(passed.z)
    expected = (passed.distortion + passed.rate + 5.0 * ratio).mean()
    torch.testing.assert_close(loss(objective, nets, COUNT), expected)


def test_equation_7_is_the_alpha_beta_vae_with_a_critic():
    """In the losses of both players and their gradients; with a perfect critic, with the KL."""
    named = uw.AAE(gamma=5.0, divergence=D.DensityRatio(critic=CRITIC))
    general = uw.AlphaBetaVAE(alpha=5.0, beta=0.0, divergence=D.DensityRatio(critic=CRITIC))
    nets = nets_of(uw.Gaussian(3), named)
    games = [run_updates(objective, nets, Batch(X, COUNT), NOISE) for objective in (named, general)]
    assert games[0].keys() == games[1].keys() == {"model", "critic"}
    for player in games[0]:
        own = [p for n, p in nets.named_parameters() if nets.player_of(n) == player]
        values = [total(game[player]) for game in games]
        torch.testing.assert_close(*values)
        gradients = [torch.autograd.grad(value, own, retain_graph=True) for value in values]
        for one, other in zip(*gradients, strict=True):
            torch.testing.assert_close(one, other)
    nets = with_oracle(uw.Gaussian(3), named, "prior")
    without = uw.AlphaBetaVAE(
        alpha=5.0, beta=general.beta, divergence=D.ExclusiveKL(estimator="exact")
    )
    torch.testing.assert_close(loss(named, nets, COUNT), loss(without, nets, COUNT))
