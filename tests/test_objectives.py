"""Objectives: laws over all members of the union, and the papers' algorithms in detail."""

import dataclasses
import math

import pytest
import torch
import torch.nn.functional as F

import unweave as uw
from datasets import (
    ADVERSARIAL,
    CPU,
    CRITIC,
    CROSS,
    DEPENDENT,
    LATENTS,
    MIXED,
    OBJECTIVES,
    SMALL,
    D,
    nets_and_batch,
    run_updates,
    small_run,
)
from unweave.aggregate import exact
from unweave.core.noise import Noise
from unweave.core.spec import lane_fields, members
from unweave.latents import DiagonalGaussian, distributions, prior_samples
from unweave.objectives import Objective, Term, VAEObjective, total
from unweave.objectives.decomposed import sampled_likelihood
from unweave.training.overrides import runs_from

NEUTRAL = {
    "vae": {},
    "beta-vae": {"beta": 1.0},
    "factor-vae": {"gamma": 0.0, "critic": CRITIC},
    "beta-tcvae": {"alpha": 1.0, "beta": 1.0, "gamma": 1.0},
    "hfvae": {"alpha": 1.0, "beta": 1.0, "gamma": 1.0},
    "lagrangian-vae": {"particles": 3},
    "capacity-vae": {"gamma": 1.0, "capacity": 0.0},
    "entropy-vae": {"beta": 1.0},
    "alpha-beta-vae": {"alpha": 0.0, "beta": 1.0},
    "anchor-vae": {"weight": 0.0},
    "dip-vae": {"off_diagonal": 0.0, "diagonal": 0.0},
    "info-vae": {"alpha": 0.0, "lam": 1.0},
    "iwae": {"particles": 1},
}
# The loss has no rate; with weight 0 they are plain autoencoders.
RATELESS = {
    "information-dropout": {"beta": 0.0},
    "wae": {"weight": 0.0},
    "aae": {"gamma": 0.0, "divergence": uw.divergences.DensityRatio(critic=CRITIC)},
}
SAMPLED = {"iwae"}  # estimates the rate on the sample


def test_every_objective_is_tried_here():
    tried = set(NEUTRAL) | set(RATELESS)
    assert {objective.kind for objective in OBJECTIVES} == tried
    assert tried | {objective.kind for objective in ADVERSARIAL} == set(members(Objective))


GAUSSIAN_TREES = (
    uw.Gaussian(1), uw.Gaussian(3), uw.Product(a=uw.Gaussian(2)),
    uw.Product(a=uw.Gaussian(1), b=uw.Gaussian(1)), uw.Product(a=uw.Gaussian(2), b=uw.Gaussian(1)),
)  # fmt: skip


@pytest.mark.parametrize(("objective", "latent"), [
    pytest.param(objective, latent, id=f"{objective.kind}-{number}")
    for objective in OBJECTIVES
    for number, latent in enumerate(GAUSSIAN_TREES)
    if objective.incompatibility(latent) is None
])  # fmt: skip
def test_a_run_says_which_weights_have_no_effect(objective, latent):
    """A weight that does not change the model's loss is noted, and no other is."""
    run = small_run(objective=objective, latent=latent)
    nets, batch = nets_and_batch(run)

    def loss(**weights):
        each = dataclasses.replace(objective, **weights)
        return total(each.model_loss(nets, batch, Noise(0, 0), {})[0]).item()

    idle = {
        name for name in lane_fields(type(objective)) if loss(**{name: 3.0}) == loss(**{name: 7.5})
    }
    assert set(objective.weights_without_effect(latent)) == idle
    assert len(run.idle_weights) == len(idle)


def test_a_hierarchical_objective_without_a_hierarchy_is_noted(unweave, tmp_path, capsys):
    fields = {"network": uw.MLP((8,)), "steps": 1, "progress": False}
    with pytest.warns(UserWarning, match=r"objective\.gamma has no effect: the latent tree has no"):
        uw.fit(SMALL, objective=uw.HFVAE(), latent=uw.Gaussian(3), **fields)
    uw.fit(SMALL, objective=uw.HFVAE(), latent=uw.Product(a=uw.Gaussian(2), b=uw.Gaussian(1)),
           **fields)  # fmt: skip
    code, _, err = unweave("train", "data=blobs", "network=mlp", "objective=hfvae", "steps=1",
                           "--store", tmp_path)  # fmt: skip
    assert (code, err.count("note: objective.gamma has no effect")) == (0, 1)
    _, out, _ = unweave("methods", "hfvae")
    example = out.split("unweave train ")[-1].split()
    assert not runs_from(example)[0].idle_weights


NEUTRAL_OBJECTIVES = {kind: members(Objective)[kind](**NEUTRAL[kind]) for kind in NEUTRAL}
# Every objective with a few latent spaces, and two that read all of a block with every one.
SOME_LATENTS = (LATENTS[0], LATENTS[5], DEPENDENT, MIXED)
NEUTRAL_PAIRS = [
    (kind, latent)
    for kind, objective in NEUTRAL_OBJECTIVES.items()
    for latent in LATENTS
    if latent in SOME_LATENTS or kind in ("beta-tcvae", "iwae")
    if objective.incompatibility(latent) is None
]


@pytest.mark.parametrize(("kind", "latent"), NEUTRAL_PAIRS)
def test_every_objective_with_neutral_weights_is_the_elbo(kind, latent):
    objective = NEUTRAL_OBJECTIVES[kind]
    nets, batch = nets_and_batch(small_run(objective=objective, latent=latent))
    noise = Noise(3, 1)
    loss = total(run_updates(objective, nets, batch, noise)["model"])
    forward = nets.model(batch.x, noise)
    z = forward.hard_samples
    sampled = forward.q.log_prob(z) - forward.p.log_prob(z)
    rate = sampled if kind in SAMPLED else forward.rate
    if kind in SAMPLED:  # its decoder sees hard samples too
        forward = forward._replace(px=nets.model.decode(z))
    expected = forward.distortion.mean() + rate.mean()
    if kind == "capacity-vae":
        expected = forward.distortion.mean() + rate.mean().abs()
    torch.testing.assert_close(loss, expected)


@pytest.mark.parametrize("kind", ["beta-tcvae", "hfvae"])
@pytest.mark.parametrize("temperature", [0.05, 0.66, 5.0])
def test_with_neutral_weights_the_gradient_is_that_of_the_elbo(kind, temperature):
    """Even for discrete variables, where sampled parts of the rate have a biased gradient."""
    latent = uw.Product(
        what=uw.Categorical(3, temperature=temperature), z=uw.StudentT(2),
        flags=uw.Bernoulli(2, temperature=temperature),
    )  # fmt: skip
    gradients = []
    for objective in (members(Objective)[kind](**NEUTRAL[kind]), uw.VAE()):
        nets, batch = nets_and_batch(small_run(objective=objective, latent=latent))
        loss = total(run_updates(objective, nets, batch, Noise(3, 1))["model"])
        gradients.append(torch.autograd.grad(loss, list(nets.model.parameters())))
    for one, two in zip(*gradients, strict=True):
        torch.testing.assert_close(one, two)


@pytest.mark.parametrize("kind", RATELESS)
def test_objectives_without_rate_are_plain_autoencoders_at_weight_zero(kind):
    objective = members(Objective)[kind](**RATELESS[kind])
    nets, batch = nets_and_batch(small_run(objective=objective))
    loss = total(run_updates(objective, nets, batch, Noise(3, 1))["model"])
    torch.testing.assert_close(loss, nets.model(batch.x, Noise(3, 1)).distortion.mean())


@pytest.mark.parametrize(("objective", "latent"), CROSS)
def test_distortion_and_rate_are_unweighted_and_gradients_reach_all_parameters(objective, latent):
    nets, batch = nets_and_batch(small_run(objective=objective, latent=latent))
    players = run_updates(objective, nets, batch, Noise(3, 1))
    terms, forward = players["model"], nets.model(batch.x, Noise(3, 1))
    assert terms["distortion"].value.shape == terms["rate"].value.shape == forward.rate.shape
    if objective.kind != "iwae":  # it reports the means over its particles
        torch.testing.assert_close(terms["distortion"].value, forward.distortion)
        torch.testing.assert_close(terms["rate"].value, forward.rate)
    for player, terms in players.items():
        own = [p for n, p in nets.named_parameters() if nets.player_of(n) == player]
        gradients = torch.autograd.grad(total(terms), own, retain_graph=True)
        assert all(g.isfinite().all() and g.abs().sum() > 0 for g in gradients)


class ConstantRounding:
    """Round relaxed samples by adding the difference from the first call, as a constant.

    The straight-through gradient is the gradient of this function.
    """

    def __init__(self):
        self.steps, self.calls = [], 0

    def __call__(self, soft, hard):
        if self.calls == len(self.steps):
            self.steps.append((hard - soft).detach())
        self.calls += 1
        return soft + self.steps[self.calls - 1]


@pytest.mark.parametrize(("objective", "latent"), CROSS)
def test_the_gradient_agrees_with_finite_differences(objective, latent, monkeypatch):
    steps = ConstantRounding()
    monkeypatch.setattr(distributions, "_straight_through", steps)
    nets, batch = nets_and_batch(small_run(objective=objective, latent=latent))
    names = [n for n, _ in nets.model.named_parameters() if "encoder" in n or "decoder" in n]
    parameters = dict(nets.model.named_parameters())

    def loss():
        steps.calls = 0
        return total(run_updates(objective, nets, batch, Noise(7))["model"])

    gradients = dict(
        zip(names, torch.autograd.grad(loss(), [parameters[n] for n in names]), strict=False)
    )
    torch.manual_seed(1)
    epsilon = 1e-5
    for network in ("encoder", "decoder"):
        own = [name for name in names if network in name]
        directions = {name: F.normalize(torch.randn_like(gradients[name]), dim=0) for name in own}

        def move(step, directions=directions):
            for name, direction in directions.items():
                parameters[name] += step * direction

        with torch.no_grad():
            move(epsilon)
            above = loss()
            move(-2 * epsilon)
            below = loss()
            move(epsilon)
        slope = sum((gradients[name] * direction).sum() for name, direction in directions.items())
        torch.testing.assert_close((above - below) / (2 * epsilon), slope, rtol=1e-4, atol=1e-6)


def test_beta_tcvae_with_the_whole_dataset_as_batch_is_exact():
    """B = N: the stratified parts are those of the exact aggregate posterior."""
    objective = uw.BetaTCVAE()
    run = small_run(objective=objective)
    dataset = SMALL.load(CPU)
    nets, batch = nets_and_batch(run, size=dataset.size)
    terms = run_updates(objective, nets, batch, Noise(0))["model"]
    forward = nets.model(batch.x, Noise(0))
    log_joint = exact(forward.q.log_prob(forward.z[:, None]))
    log_each = exact(forward.q.log_marginals(forward.z[:, None])).sum(-1)
    torch.testing.assert_close(terms["total_correlation"].value, log_joint - log_each)
    own = forward.q.log_prob(forward.z)
    torch.testing.assert_close(terms["mutual_information"].value, own - log_joint)


def test_a_schedule_has_no_value_without_a_step():
    objective = uw.BetaVAE(beta=uw.Linear(0.0, 4.0, steps=10))
    nets, batch = nets_and_batch(small_run(objective=objective))
    with pytest.raises(TypeError, match="value at a step"):
        total(run_updates(objective, nets, batch, Noise(0))["model"])


@pytest.mark.parametrize(
    "bad", [{"beta": -1.0}, {"beta": math.nan}, {"beta": "high"}, {"beta": []}]
)
def test_impossible_weights_are_refused(bad):
    with pytest.raises(ValueError, match="beta"):
        uw.BetaVAE(**bad)


def test_confident_classes_that_match_the_prior_have_zero_inclusive_kl():
    """Samples of the prior are hard; confident encodings give relaxed ones no probability."""
    latent = uw.Categorical(5)
    objective = uw.AlphaBetaVAE(alpha=1.0)
    nets, batch = nets_and_batch(small_run(objective=objective, latent=latent), size=40)
    forward = nets.model(batch.x, Noise(0))
    classes = torch.arange(40) % 5
    q = latent.posterior(20.0 * F.one_hot(classes, 5).double())
    matched = forward._replace(q=q, z=F.one_hot(classes, 5).double())
    inclusive = uw.divergences.InclusiveKL().value(nets, matched, batch, Noise(1))
    assert inclusive.item() == pytest.approx(0, abs=1e-6)


def test_dip_vae_measures_codes_in_standard_deviations_of_the_prior():
    """N(0, I) is the papers' case; a prior twice as wide wants a covariance of 4."""
    nets, batch = nets_and_batch(small_run(latent=uw.Gaussian(3)))
    forward = nets.model(batch.x, Noise(0))
    wide = uw.Gaussian(3, variances=(4.0, 4.0, 4.0))
    doubled = DiagonalGaussian(2 * forward.q.loc, forward.q.log_scale + math.log(2))
    zero = torch.zeros(3, dtype=torch.float64)
    other = forward._replace(q=doubled, p=wide.density(zero), latent=wide, z=2 * forward.z)
    for of in ("means", "codes"):
        objective = uw.DIPVAE(covariance_of=of)
        one, two = (objective.loss(p, batch, Noise(0)) for p in (forward, other))
        for name in ("diagonal", "off_diagonal"):
            torch.testing.assert_close(one[name].value, two[name].value)
    for latent in (uw.StudentT(2, df=1), uw.GaussianMixture(), uw.VampPrior(2), uw.Categorical(3),
                   uw.Gaussian(2, learn="variances")):  # fmt: skip
        assert uw.DIPVAE().incompatibility(latent)


@pytest.mark.parametrize("size", [2, 10])
def test_the_kernel_of_info_vae_is_that_of_its_code(size):
    """exp(-mean_d (x_d - y_d)^2 / D), written as in the code released with [Zhao2019]."""
    objective = uw.InfoVAE()
    nets, batch = nets_and_batch(small_run(objective=objective, latent=uw.Gaussian(size)))
    forward = nets.model(batch.x, Noise(0))
    x, y = forward.z, prior_samples(forward.p, len(forward.z), Noise(1))
    xx, yy, xy = (
        torch.exp(-(a[:, None] - b).square().mean(-1) / size) for a, b in ((x, x), (y, y), (x, y))
    )
    pairs = len(x) * (len(x) - 1)
    expected = (xx.sum() + yy.sum() - 2 * len(x)) / pairs - 2 * xy.mean()
    got = objective.divergence.value(nets, forward, batch, Noise(1))
    torch.testing.assert_close(got, expected)
    given = uw.divergences.MMD(kernel="rbf", constants=(float(size**2),))
    torch.testing.assert_close(given.value(nets, forward, batch, Noise(1)), expected)


def test_info_vae_refuses_a_negative_weight_of_its_divergence():
    with pytest.raises(ValueError, match="alpha \\+ lam of 1 or more"):
        uw.InfoVAE(alpha=0.3, lam=0.5)


def test_the_four_terms_of_the_lagrangian_sum_to_the_elbo():
    """With the whole dataset as batch, and p(x) by a sum over single samples."""
    objective = uw.LagrangianVAE(
        identifiability=0.0, information=0.0, likelihood=1.0, marginal_kl=0.0, particles=7
    )
    run = small_run(objective=objective)
    nets, batch = nets_and_batch(run, size=SMALL.load(CPU).size)
    terms = run_updates(objective, nets, batch, Noise(3, 1))["model"]
    forward = nets.model(batch.x, Noise(3, 1))
    p, q = forward.p, forward.q
    draws = p.rsample(Noise(3, 1).fold("prior"), (7,)).unsqueeze(1).expand(-1, len(batch.x), -1)
    seen = [
        (nets.model.decode(z).log_prob(batch.x).exp()) / (7 + (q.log_prob(z) - p.log_prob(z)).exp())
        for z in (*draws, forward.z)
    ]
    expected = torch.stack(seen).sum(0).log()
    torch.testing.assert_close(terms["log_likelihood"].value, expected)
    parts = terms["mutual_information"].value + terms["marginal_kl"].value
    torch.testing.assert_close(parts, q.log_prob(forward.z) - p.log_prob(forward.z))
    rest = (forward.rate - parts).mean()  # of the rate by its formula and on the sample
    torch.testing.assert_close(total(terms), rest - expected.mean())


def test_the_lagrangian_estimates_the_likelihood_of_a_linear_model():
    """p(x) = N(0, D D^T + I) in closed form, where q(z|x) is not the posterior."""
    run = small_run(
        objective=uw.LagrangianVAE(particles=4000), latent=uw.Gaussian(2), network=uw.MLP(()),
        likelihood=uw.likelihoods.Gaussian(scale=1.0),
    )  # fmt: skip
    nets, batch = nets_and_batch(run)
    with torch.no_grad():
        nets.model.decoder[0].weight *= 0.3
        nets.model.decoder[0].bias.zero_()
    forward = nets.model(batch.x, Noise(0))
    got = sampled_likelihood(nets.model, forward, Noise(0), 4000)
    d = nets.model.decoder[0].weight
    x = batch.x.flatten(1)
    covariance = d @ d.T + torch.eye(len(d), dtype=d.dtype)
    exactly = torch.distributions.MultivariateNormal(torch.zeros(len(d), dtype=d.dtype), covariance)
    torch.testing.assert_close(got, exactly.log_prob(x), rtol=0, atol=0.1)


class OwnObjective(VAEObjective):
    """As a user writes one: distortion and the squared norm of the codes."""

    def loss(self, forward, batch, noise):
        return {
            "distortion": Term(1.0, forward.distortion),
            "norm": Term(0.5, forward.z.square().sum(-1)),
        }


class OwnDivergence(D.Divergence):
    """As a user writes one: the squared distance of the means of q(z) and p(z)."""

    def value(self, nets, forward, batch, noise):
        return (forward.hard_samples.mean(0) - forward.p.mean).square().sum()


def test_an_objective_needs_one_method():
    objective = OwnObjective()
    run = small_run()
    nets, batch = nets_and_batch(run)
    forward = nets.model(batch.x, Noise(0))
    loss = total(run_updates(objective, nets, batch, Noise(0))["model"])
    expected = forward.distortion.mean() + 0.5 * forward.z.square().sum(-1).mean()
    torch.testing.assert_close(loss, expected)
    assert [update.player for update in objective.updates] == ["model"]
    assert (objective.critics, objective.optimisers, objective.not_in_nats) == ({}, {}, ())
    assert not objective.needs_full_batch
    assert objective.incompatibility(run.latent) is None


def test_a_divergence_needs_one_method():
    divergence = OwnDivergence()
    nets, batch = nets_and_batch(small_run())
    forward = nets.model(batch.x, Noise(0))
    value = divergence.value(nets, forward, batch, Noise(0))
    torch.testing.assert_close(value, forward.z.mean(0).square().sum())
    assert (divergence.critics, divergence.updates) == ({}, ())
    assert divergence.incompatibility(uw.Gaussian(3)) is None
    assert divergence.estimator is None


def test_only_the_exact_estimator_needs_full_batches():
    assert uw.BetaTCVAE(estimator="exact").needs_full_batch
    assert uw.AlphaBetaVAE(divergence=D.ExclusiveKL(estimator="exact")).needs_full_batch
    assert not uw.AlphaBetaVAE(divergence=D.ExclusiveKL()).needs_full_batch
    assert not uw.HFVAE().needs_full_batch
