"""The identities of the papers, in float64, against closed forms, quadrature and enumeration."""

import copy
import math
from types import SimpleNamespace

import pytest
import torch
from scipy import integrate
from torch import nn
from torch.distributions import MultivariateNormal, Normal, OneHotCategorical

import unweave as uw
from unweave.aggregate import (
    decompose,
    decompose_exactly,
    exact,
    inclusive_kl,
    stratified,
    weighted,
)
from unweave.latents import DiagonalGaussian, FullGaussian, OneHot
from unweave.latents.distributions import HALF_LOG_2PI
from unweave.models import Pass
from unweave.noise import Noise
from unweave.objectives import Batch, total
from worlds import CRITIC, D, play_turns

f64 = torch.float64
SHAPE, COUNT = (4,), 12
SIZE = 100  # of the data set that the batch is said to come from
X = Noise(9).normal((COUNT, *SHAPE), "x", f64)
NOISE = Noise(3, 1)


def nets_of(latent, objective=None):
    """Random networks of a small model; the same for latents of the same sizes."""
    torch.manual_seed(0)
    parts = (uw.MLP((8,), "tanh"), uw.likelihoods.Gaussian(scale=0.5), SHAPE)
    nets = (objective or uw.VAE()).build(latent, *parts).double()
    correlate(nets.model.prior)
    return nets


def correlate(prior):
    """Give learned covariances some dependence."""
    for name, parameter in prior.named_parameters():
        if name.endswith("below"):
            parameter.data = torch.linspace(0.9, -0.6, len(parameter), dtype=f64)
    return prior


def loss(objective, nets, size=SIZE, noise=NOISE):
    return total(play_turns(objective, nets, Batch(X, size), noise)["model"])


def loss_of(objective, passed, size=SIZE):
    """The loss of a forward pass that is given."""
    nets = SimpleNamespace(model=lambda x, noise: passed)
    return total(objective.turns[0].loss(nets, Batch(passed.x, size), NOISE, {})[0])


# Theorem 1 of Mathieu et al.: L_beta(x) = L(x; pi_beta, q) + (beta - 1) H_q + log F_beta

SPREAD = dict(variances=(2.0, 0.3))
CLOSED = [uw.Gaussian(2), uw.Gaussian(2, **SPREAD), uw.StudentT(2, df=3), uw.Laplace(2, scale=0.7)]
PRIORS = [*CLOSED, uw.Sparse(2), uw.GaussianMixture()]
SAMPLED = [
    uw.Gaussian(2, sampled=True),
    uw.Gaussian(2, **SPREAD, sampled=True),
    uw.StudentT(2, df=3, sampled=True),
    uw.Laplace(2, scale=0.7, sampled=True),
    uw.Sparse(2, sampled=True),
    uw.GaussianMixture(),
]
betas = pytest.mark.parametrize("beta", [0.6, 1.0, 4.0])


@betas
@pytest.mark.parametrize("block", CLOSED, ids=str)
def test_the_beta_vae_is_the_vae_of_the_annealed_prior_and_the_entropy(block, beta):
    """The same networks and noise, rates without sampling on both sides."""
    nets = nets_of(block)
    annealed = loss(uw.VAE(), nets_of(block.annealed(beta)))
    entropy = nets.model.encode(X).entropy().mean()
    expected = annealed - (beta - 1) * entropy - block.log_normaliser(beta)
    torch.testing.assert_close(loss(uw.BetaVAE(beta=beta), nets), expected, rtol=1e-9, atol=1e-9)


@betas
@pytest.mark.parametrize("block", SAMPLED, ids=str)
def test_theorem_1_holds_on_every_sample(block, beta):
    nets = nets_of(block)
    passed = nets.model(X, NOISE)
    log_q = passed.q.log_prob(passed.z)
    annealed = passed.distortion + log_q - block.annealed(beta).log_prob(passed.z)
    expected = annealed.mean() + (beta - 1) * log_q.mean() - block.log_normaliser(beta)
    torch.testing.assert_close(loss(uw.BetaVAE(beta=beta), nets), expected, rtol=1e-12, atol=1e-12)


@betas
@pytest.mark.parametrize("block", PRIORS, ids=str)
def test_theorem_1_holds_by_quadrature(block, beta):
    """beta KL(q || p) = KL(q || f_beta) - (beta - 1) H_q - log F_beta, on a fine grid."""
    mean = torch.tensor([0.2, -0.5], dtype=f64)
    q = DiagonalGaussian(mean, torch.tensor([0.3, 0.8], dtype=f64).log())
    step = q.spread / 100  # the trapezoid rule converges exponentially, but for Laplace's kink
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
    rate = block.kl(mean[None], q.spread[None]).sum()
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


class Rescaled(nn.Module):
    """An encoder whose Gaussians are larger by a factor: mean * r, S * r^2."""

    def __init__(self, encoder, latent, factor):
        super().__init__()
        self.encoder, self.size, self.factor = encoder, latent.size, factor

    def forward(self, x):
        raw, size = self.encoder(x), self.size
        mean, log_variance = raw[:, :size], raw[:, size : 2 * size] + 2 * math.log(self.factor)
        return torch.cat([self.factor * mean, log_variance, self.factor * raw[:, 2 * size :]], 1)


class Shrunk(nn.Module):
    """A decoder of codes that are divided by a factor first."""

    def __init__(self, decoder, factor):
        super().__init__()
        self.decoder, self.factor = decoder, factor

    def forward(self, z):
        return self.decoder(z / self.factor)


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
    rescaled = copy.copy(nets)
    rescaled._modules = dict(nets._modules, model=copy.copy(nets.model))
    rescaled.model._modules = dict(
        nets.model._modules,
        encoder=Rescaled(nets.model.encoder, latent, math.sqrt(beta)),
        decoder=Shrunk(nets.model.decoder, math.sqrt(beta)),
    )
    p = nets.model.p()
    covariance = p.factor @ p.factor.T if isinstance(p, FullGaussian) else p.spread.square().diag()
    log_det = torch.logdet(2 * math.pi * covariance)
    log_f = 0.5 * (1 - beta) * log_det - 1.5 * math.log(beta)
    if not latent.learned:
        assert log_f.item() == pytest.approx(latent.log_normaliser(beta))
    c = 1.5 * (beta - 1) * (1 + math.log(2 * math.pi / beta)) + log_f
    ours, theirs = loss(uw.BetaVAE(beta=beta), nets), loss(uw.EntropyVAE(beta=beta), rescaled)
    torch.testing.assert_close(ours, theirs - c, rtol=1e-11, atol=1e-11)
    networks_ = [*nets.model.encoder.parameters(), *nets.model.decoder.parameters()]
    for one, other in zip(
        torch.autograd.grad(ours, networks_), torch.autograd.grad(theirs, networks_), strict=True
    ):
        torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("encoding", ["diagonal", "full"])
def test_the_entropy_vae_is_equation_5(encoding):
    nets = nets_of(uw.Gaussian(3, encoding=encoding))
    q = nets.model.encode(X)
    factor = q.factor if encoding == "full" else torch.diag_embed(q.spread)
    log_det = torch.logdet(factor @ factor.mT).mean()
    expected = loss(uw.VAE(), nets) - 0.5 * (2.5 - 1) * log_det
    torch.testing.assert_close(loss(uw.EntropyVAE(beta=2.5), nets), expected)


# Theorem 2


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
    model = nets_of(latent).model
    passed = model(X, NOISE)
    factor = getattr(passed.q, "factor", torch.diag_embed(passed.q.spread))
    covariance = ROTATION @ factor @ factor.mT @ ROTATION.T
    q = FullGaussian(passed.q.mean @ ROTATION.T, torch.linalg.cholesky(covariance))
    z = passed.z @ ROTATION.T
    px = model.decode(z @ ROTATION)
    return passed, Pass(X, q.marginals if project else q, z, Turned(passed.p), px, latent)


def rotated_losses(objective, latent, **options):
    return [loss_of(objective, p).item() for p in two_passes(latent, **options)]


def test_a_rotation_of_the_codes_leaves_the_beta_vae_as_it_is():
    latent = uw.Gaussian(3, encoding="full", variances=(0.7, 0.7, 0.7), sampled=True)
    passed, turned = two_passes(latent)
    torch.testing.assert_close(turned.q.log_prob(turned.z), passed.q.log_prob(passed.z))
    assert (turned.z - passed.z).abs().max() > 0.5
    one, other = rotated_losses(uw.BetaVAE(beta=4.0), latent)
    assert one == pytest.approx(other, rel=1e-12)
    anisotropic = uw.Gaussian(3, encoding="full", variances=(2.0, 0.7, 0.3), sampled=True)
    one, other = rotated_losses(uw.BetaVAE(beta=4.0), anisotropic)
    assert abs(one - other) > 0.1


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
def test_nor_does_the_match_to_an_isotropic_prior_see_a_rotation(divergence, invariant):
    """With prior draws that turn along; of the kernels only the one by dimension sees the axes."""
    objective = uw.AlphaBetaVAE(alpha=3.0, beta=2.0, divergence=divergence)
    one, other = rotated_losses(objective, uw.Gaussian(3, encoding="full", sampled=True))
    assert (one == pytest.approx(other, rel=1e-11)) == invariant


def test_a_student_prior_sees_a_rotation():
    """In the rate and in the inclusive KL, whose prior is no longer the same when turned."""
    for objective in (uw.BetaVAE(beta=4.0), uw.AlphaBetaVAE(alpha=3.0, beta=0.0)):
        latent = uw.StudentT(3, df=3, encoding="full", sampled=True)
        one, other = rotated_losses(objective, latent)
        assert abs(one - other) > 0.01


def test_a_rotated_diagonal_encoding_is_diagonal_only_if_it_is_round():
    """Else the nearest diagonal one has a smaller rate, by the dependence that it leaves out."""
    latent = uw.Gaussian(3)
    passed, turned = two_passes(latent, project=True)
    p = latent.density(torch.zeros(3, dtype=f64))
    rate = latent.rate(turned.q, p, turned.z)
    covariance = ROTATION @ torch.diag_embed(passed.q.spread.square()) @ ROTATION.T
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


# Kim and Mnih: lemma 1 and the objectives around it


def test_lemma_1_holds_on_every_sample():
    """log q(z|x) / p(z) = log q(z|x) / q(z) + log q(z) / p(z), as the objectives report them."""
    nets = nets_of(uw.Gaussian(3))
    batch = Batch(X, COUNT)  # the whole data set
    dropout = uw.InformationDropout(estimator="exact")
    information = dropout.play(nets, batch, NOISE, {})[0]["mutual_information"].value
    matching = uw.AlphaBetaVAE(divergence=D.ExclusiveKL(estimator="exact"))
    divergence = matching.play(nets, batch, NOISE, {})[0]["divergence"].value
    rate = nets.model(X, NOISE).sampled_rate
    torch.testing.assert_close(information + divergence, rate)


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


SAMPLED_RATE = uw.Gaussian(3, sampled=True)


def test_factor_vae_with_a_perfect_critic_is_equation_2():
    """-ELBO + gamma TC, which is the beta-TCVAE with beta = 1 + gamma."""
    objective = uw.FactorVAE(gamma=5.0, critic=CRITIC)
    nets = with_oracle(SAMPLED_RATE, objective, "marginals")
    passed = nets.model(X, NOISE)
    table = Normal(passed.q.mean, passed.q.spread).log_prob(passed.z[:, None])
    dependence = table.sum(-1).exp().mean(1).log() - table.exp().mean(1).log().sum(-1)
    expected = (passed.distortion + passed.rate + 5 * dependence).mean()
    value = loss(objective, nets, COUNT)
    torch.testing.assert_close(value, expected)
    same = uw.BetaTCVAE(alpha=1.0, beta=6.0, gamma=1.0, estimator="exact")
    torch.testing.assert_close(value, loss(same, nets, COUNT))


@pytest.mark.parametrize(
    ("named", "general"),
    [
        (
            uw.FactorVAE(gamma=5.0, against="prior", critic=CRITIC),
            uw.AlphaBetaVAE(alpha=5.0, beta=1.0, divergence=D.DensityRatio(critic=CRITIC)),
        ),
        (
            uw.AAE(gamma=5.0, divergence=D.DensityRatio(critic=CRITIC)),
            uw.AlphaBetaVAE(alpha=5.0, beta=0.0, divergence=D.DensityRatio(critic=CRITIC)),
        ),
    ],
    ids=["eq. 12", "eq. 7"],
)
def test_equations_12_and_7_are_the_alpha_beta_vae_with_a_critic(named, general):
    """In the losses of both players and their gradients; with a perfect critic, with the KL."""
    nets = nets_of(uw.Gaussian(3), named)
    games = [play_turns(objective, nets, Batch(X, COUNT), NOISE) for objective in (named, general)]
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


# Esmaeili et al.: figures 2 and 4


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
    corners = torch.eye(4, dtype=f64)
    terms = []
    for n in range(3):
        parts = decompose_exactly(latent, q, p, corners, q.log_probs[n])
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


def test_term_a_holds_the_dependence_of_the_prior():
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


def test_codes_that_follow_a_correlated_prior_pay_nothing():
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


# Table 1 of Esmaeili et al.

GROUPS = uw.Product(a=uw.Gaussian(2, sampled=True), b=uw.Gaussian(1, sampled=True))


def ingredients(nets):
    """The terms of figures 2 and 4, signs as divergences, (B,) each, written out for GROUPS."""
    passed = nets.model(X, NOISE)
    table = Normal(passed.q.mean, passed.q.spread).log_prob(passed.z[:, None])
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
        uw.InfoVAE(alpha=1.0, scale=2.5, divergence=D.ExclusiveKL()),
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


def test_they_differ_by_the_dependence_of_the_prior():
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


# Mathieu et al., appendix C: the bias of estimates of KL(q(z) || p(z)) from batches


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


def test_encodings_far_apart_cost_the_rate_less_log_n():
    """Where no two encodings overlap this is the truth; the weighted one is log B lower still."""
    loc = torch.linspace(-5, 5, 500, dtype=f64)[:, None]
    index = Noise(0).permutation(500, "batch")[:8]
    rate, (ours, lower, truth) = estimates(loc, torch.tensor(1e-4, dtype=f64), index)
    torch.testing.assert_close(ours, rate - math.log(500))
    torch.testing.assert_close(truth, rate - math.log(500))
    torch.testing.assert_close(lower, rate - math.log(500 * 8))


def test_small_batches_of_a_large_data_set_mistake_the_kl_for_the_rate_less_log_n():
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
