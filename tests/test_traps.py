"""Common defects in the code of the field: we do not have them, and the tests would notice.

Where each is tested:

  weights of the stratified estimator fill a column         test_aggregate (weights, peers)
  DIP-VAE centred over latents, variances in every entry    test_divergences (penalty, variances)
  a mixture's density counted once a column                 test_latents_rates (its prior once)
  beta and TC weights counted twice                         here: double counting
  means over pixels, beta that is not the paper's           here: reductions
  sums of exponentials without a shift                      here: narrow encodings
  cross-entropy on grey values is no likelihood             here: grey; test_likelihoods
  log-variances without bounds                              test_latents_laws (extreme outputs)
  a rate at another sample than the decoded one             here: same sample, table
  the critic's loss reaches the encoder                     here: leak; test_critics (gradient)
  wrong N or B in the estimators                            here: sizes; test_aggregate
  means of means over batches of unequal size               here: table
  metrics: dead codes, missing classes, leakage             test_metrics_laws
  one batch for both of the critic's sides, or its halves   here: second batch; test_lanes
  permutation within a sample                               here: permutation; test_critics
  the model's optimiser moves the critic                    here: owner; test_lanes (player)
  labels and sign of the density ratio                      here: sign; test_critics (log ratio)
  a critic of five hidden layers                            test_critics (the paper's critic)
  densities of relaxed samples against masses               here: masses; test_latents_blocks
  the columns of a one-hot vector as variables              here: one variable
  joint, groups and variables mixed up                      here: three levels
  eq. 13 up to a constant                                   here: constant
"""

import math
from types import SimpleNamespace

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch.distributions import (
    MultivariateNormal,
    Normal,
    RelaxedOneHotCategorical,
    kl_divergence,
)

import unweave as uw
from datasets import (
    CPU,
    CRITIC,
    DATASET,
    LIKELIHOODS,
    OBJECTIVES,
    SMALL,
    batch_rows,
    nets_and_batch,
    prior,
    run_updates,
    small_run,
)
from unweave.aggregate import decompose_exactly, exact, stratified, weighted
from unweave.core.noise import Noise
from unweave.latents import DiagonalGaussian, variable_of_column
from unweave.objectives import Batch, decomposed, total
from unweave.objectives.decomposed import permute_variables
from unweave.objectives.divergences import critic_terms
from unweave.training import Lanes

f64 = torch.float64
FACTOR = uw.FactorVAE(gamma=5.0, critic=CRITIC)


def setting(**fields):
    nets, batch = nets_and_batch(small_run(**fields))
    return nets, batch, nets.model(batch.x, Noise(3, 1))


def loss(objective, nets, batch):
    return total(run_updates(objective, nets, batch, Noise(3, 1))["model"])


# Double counting


@pytest.mark.parametrize("beta", [1.0, 6.0])
def test_beta_weights_the_total_correlation_only(beta):
    """-ELBO + (beta - 1) TC; one implementation also weights the rate, and so the information."""
    objective = uw.BetaTCVAE(beta=beta)
    latent = uw.Gaussian(3, sampled_rate=True)
    nets, batch, passed = setting(objective=objective, latent=latent)
    terms = run_updates(objective, nets, batch, Noise(3, 1))["model"]
    dependence = (beta - 1) * terms["total_correlation"].value
    right = (passed.distortion + passed.rate + dependence).mean()
    wrong = (passed.distortion + beta * passed.rate + dependence).mean()
    torch.testing.assert_close(total(terms), right)
    same = uw.BetaTCVAE(alpha=beta, beta=2 * beta - 1, gamma=beta)
    torch.testing.assert_close(loss(same, nets, batch), wrong)
    assert (beta == 1) == torch.isclose(right, wrong).item()


def test_negative_weights_of_the_total_correlation_are_rejected():
    """The default of one implementation, 0.003, makes this weight 2 beta - 1 = -0.994."""
    with pytest.raises(ValueError, match="beta"):
        uw.BetaTCVAE(beta=2 * 0.003 - 1)


# Reductions


@pytest.mark.parametrize("likelihood", LIKELIHOODS, ids=str)
def test_distortion_is_a_sum_over_pixels(likelihood):
    """Twice the image has twice the distortion; a mean would not change."""
    noise = Noise(0)
    channels = likelihood.raw_shape((2, 4, 4))
    raw, x = noise.normal((5, *channels), "raw", f64), noise.uniform((5, 2, 4, 4), "x", f64)
    head = likelihood.head().double()
    one = likelihood(head(raw)).log_prob(x)
    wide = likelihood(head(torch.cat([raw, raw], 3))).log_prob(torch.cat([x, x], 3))
    torch.testing.assert_close(wide, 2 * one)
    batch = likelihood(head(torch.cat([raw, raw]))).log_prob(torch.cat([x, x]))
    torch.testing.assert_close(batch.mean(), one.mean())


def test_beta_has_the_papers_scale():
    """Sums over pixels and latents, the mean over the batch, against torch's distributions."""
    nets, batch, passed = setting()
    mean = passed.px.mean
    pixels = -(batch.x * mean.log() + (1 - batch.x) * (1 - mean).log()).sum((1, 2, 3))
    rate = kl_divergence(Normal(passed.q.mean, passed.q.stddev), Normal(0.0, 1.0)).sum(1)
    ours = loss(uw.BetaVAE(beta=4.0), nets, batch)
    torch.testing.assert_close(ours, (pixels + 4 * rate).mean())
    # Others take the mean over P pixels and a small weight w: their beta is w P.
    count = batch.x[0].numel()
    assert count == 256
    peers = (pixels / count).mean() + 4 * rate.mean()
    torch.testing.assert_close(count * peers, loss(uw.BetaVAE(beta=4.0 * count), nets, batch))
    assert count * peers - ours > 30


def test_rate_is_a_sum_over_latents():
    raw = Noise(0).normal((5, 6), "raw", f64)
    once, twice = uw.Gaussian(3), uw.Product(a=uw.Gaussian(3), b=uw.Gaussian(3))
    q, q_twice = once.posterior(raw), twice.posterior(torch.cat([raw, raw], 1))
    rate = once.rate(q, prior(once), q.mean)
    torch.testing.assert_close(twice.rate(q_twice, prior(twice), q_twice.mean), 2 * rate)


def test_narrow_encodings_do_not_underflow():
    """Without a shift, sums of exponentials are log 0."""
    log_q = Noise(0).normal((6, 6), "table", f64) - 2000
    shifts = (weighted(log_q, 50), stratified(log_q, 50), exact(log_q))
    near = (weighted(log_q + 2000, 50), stratified(log_q + 2000, 50), exact(log_q + 2000))
    for far, expected in zip(shifts, near, strict=True):
        torch.testing.assert_close(far + 2000, expected)
    assert log_q.exp().sum(1).log().isinf().all()


# Likelihoods and samples


@pytest.mark.parametrize("logit", [-3.0, 0.0, 1.5])
def test_cross_entropy_of_grey_values_is_not_a_density(logit):
    """It integrates to 1 / C(p) < 1, which the continuous Bernoulli corrects."""
    x = (torch.arange(20_000, dtype=f64)[:, None] + 0.5) / 20_000
    raw = torch.full_like(x, logit)
    crossed = uw.likelihoods.Bernoulli()(raw).log_prob(x)
    density = uw.likelihoods.ContinuousBernoulli()(raw).log_prob(x)
    mass = crossed.exp().mean()
    p = 1 / (1 + math.exp(-logit))
    constant = 2 * math.atanh(1 - 2 * p) / (1 - 2 * p) if logit else 2.0
    assert mass.item() == pytest.approx(1 / constant, rel=1e-6)
    assert mass < 0.6
    torch.testing.assert_close(density - crossed, torch.full_like(crossed, math.log(constant)))
    assert density.exp().mean().item() == pytest.approx(1, rel=1e-6)


@pytest.mark.parametrize(
    "latent",
    [uw.Gaussian(3, sampled_rate=True), uw.StudentT(3, sampled_rate=True), uw.GaussianMixture()],
)
def test_a_sampled_rate_uses_the_decoded_sample(latent):
    """Densities at different points would add noise that does not cancel."""
    nets, _, passed = setting(latent=latent)
    torch.testing.assert_close(nets.model.decode(passed.z).mean, passed.px.mean)
    p = latent.density(torch.zeros(latent.size, dtype=f64))
    torch.testing.assert_close(passed.rate, passed.q.log_prob(passed.z) - p.log_prob(passed.z))


def test_the_sampled_rate_is_zero_if_posterior_and_prior_agree():
    latent = uw.Gaussian(3, sampled_rate=True)
    q, p = latent.posterior(torch.zeros(1000, 6, dtype=f64)), prior(latent)
    z, other = q.rsample(Noise(0)), q.rsample(Noise(1))
    assert latent.rate(q, p, z).abs().max() < 1e-12
    assert (q.log_prob(other) - p.log_prob(z)).std() > 1


def trained(latent):
    fields = dict(network=uw.MLP((16,)), batch_size=16, progress=False)
    return uw.fit(SMALL, steps=20, latent=latent, **fields)


def test_a_table_estimates_rates_without_a_formula_on_samples():
    """They equal quadrature within their error; the log-ratio at the posterior's mean does not."""
    model = trained(uw.GaussianMixture())
    table = model.table(256)
    p = model.run.latent.density(torch.zeros(2, dtype=f64))
    mean, scale = torch.from_numpy(table.codes).double(), torch.from_numpy(table.scales).double()
    u = torch.linspace(-8, 8, 801, dtype=f64)[:, None, None]
    z = mean + scale * u
    ratio = DiagonalGaussian(mean, scale.log()).log_marginals(z) - p.log_marginals(z)
    weights = torch.exp(-0.5 * u.square()) / math.sqrt(2 * math.pi) * 0.02
    truth = (weights * ratio).sum(0)
    variance = (weights * (ratio - truth).square()).sum(0)
    error = (variance.mean(0) / 256).sqrt().numpy()
    truth = truth.mean(0).numpy()
    assert (np.abs(table.kl - truth) < 4 * error).all()
    at_mean = ratio[400].mean(0).numpy()
    assert (np.abs(at_mean - truth) > 5 * error).all()


def test_a_table_averages_over_observations_not_batches(monkeypatch):
    """Of 50 = 7 * 7 + 1 observations, a mean over batches overweights the last one sevenfold."""
    model = trained(uw.Gaussian(3))
    monkeypatch.setitem(uw.evaluation.stacked._MOST, "cpu", 7)
    table = model.table(50)
    m, s = table.codes, table.scales
    each = 0.5 * (m**2 + s**2 - 1 - 2 * np.log(s))
    np.testing.assert_allclose(table.kl, each.mean(0), rtol=1e-4)
    peers = np.mean([each[i : i + 7].mean(0) for i in range(0, 50, 7)], 0)
    assert (np.abs(peers / each.mean(0) - 1) > 1e-3).all()


# The critic


def test_a_critic_loss_that_reaches_the_encoder_weakens_the_penalty():
    """Others add the critic's loss without detaching z: gamma becomes gamma - (1 - D) / 2."""
    nets, _, passed = setting(objective=FACTOR)
    z = passed.z.detach().requires_grad_()
    logits = nets.critic(z)
    ratio = logits[:, 0] - logits[:, 1]
    (slope,) = torch.autograd.grad(ratio.sum(), z, retain_graph=True)
    leaked = 5.0 * ratio - 0.5 * F.log_softmax(logits, -1)[:, 0]
    (found,) = torch.autograd.grad(leaked.sum(), z)
    effective = 5.0 - 0.5 * (1 - torch.softmax(logits, -1)[:, :1])
    torch.testing.assert_close(found, effective * slope)
    assert (effective < 4.9).all()


def test_the_encoder_gets_gamma_times_the_critics_slope():
    """Over both updates of a step, its gradient is that of -ELBO + gamma log D / (1 - D)."""
    nets, batch, passed = setting(objective=FACTOR)
    games = run_updates(FACTOR, nets, batch, Noise(3, 1))
    logits = nets.critic(passed.z)
    ratio = logits[:, 0] - logits[:, 1]
    expected = (passed.distortion + passed.rate + 5.0 * ratio).mean()
    encoder = list(nets.model.encoder.parameters())
    both = total(games["model"]) + total(games["critic"])
    for one, other in zip(
        torch.autograd.grad(both, encoder), torch.autograd.grad(expected, encoder), strict=True
    ):
        torch.testing.assert_close(one, other)


@pytest.mark.parametrize("objective", [o for o in OBJECTIVES if o.critics])
def test_no_critics_loss_reaches_the_model(objective):
    """Neither the encoder nor a learned prior whose draws the critic sees."""
    latent = uw.Gaussian(3, learn="covariance")
    latent = uw.Gaussian(3) if objective.incompatibility(latent) else latent
    nets, batch, _ = setting(objective=objective, latent=latent)
    terms = run_updates(objective, nets, batch, Noise(3, 1))["critic"]
    model = list(nets.model.parameters())
    gradients = torch.autograd.grad(total(terms), model, allow_unused=True)
    assert all(gradient is None for gradient in gradients)


def test_the_models_optimiser_does_not_own_the_critic():
    """If it did, the critic would lower the penalty without any change of the codes."""
    nets, batch, passed = setting(objective=FACTOR)
    z = passed.z.detach()
    before = nets.critic(z).detach()
    critic = [p for n, p in nets.named_parameters() if nets.player_of(n) == "critic"]
    slopes = torch.autograd.grad(loss(FACTOR, nets, batch), critic)
    with torch.no_grad():
        for parameter, slope in zip(critic, slopes, strict=True):
            parameter -= 0.05 * slope
    after = nets.critic(z)
    assert (after[:, 0] - after[:, 1]).mean() < (before[:, 0] - before[:, 1]).mean() - 0.01
    lanes = Lanes([small_run(objective=FACTOR)], DATASET, CPU)
    assert not any("critic" in name for name in lanes.state.names["model"])


def test_the_critic_sees_two_batches_of_full_size():
    """Others permute the first batch again, or cut it into halves."""
    lanes = Lanes([small_run(objective=FACTOR)], DATASET, CPU)
    seen = []
    hook = lanes.nets.critics["critic"].register_forward_pre_hook(
        lambda module, args: seen.append(args[0].detach().clone())
    )
    lanes.advance()
    hook.remove()
    first, second = (batch_rows(lanes, 0, turn)[0] for turn in (0, 1))
    assert len(set(first.tolist()) & set(second.tolist())) < 8 < len(first) == len(second) == 16
    of_the_model, both = seen
    joint, permuted = both.reshape(2, 16, 3)
    assert torch.equal(joint, of_the_model.reshape(16, 3))
    assert not torch.isin(permuted, joint).any()


def test_variables_are_permuted_across_the_batch():
    """Equal columns become independent; permuted within rows they would not."""
    a = Noise(0).normal((4000, 1), "a", f64)
    z = torch.cat([a, a, -a], 1)
    order = Noise(1).permutation(3, "row", rows=4000)
    within = z.gather(1, order)
    across = permute_variables(z, uw.Gaussian(3), Noise(1))
    pairs = torch.corrcoef(across.T)[[0, 0, 1], [1, 2, 2]]
    assert pairs.abs().max() < 0.06
    squares = torch.corrcoef(within.square().T)[[0, 0, 1], [1, 2, 2]]
    assert squares.min() > 0.999  # every row still holds one magnitude


def test_distributions_with_unequal_numbers_of_codes_are_not_mixed():
    nets = SimpleNamespace(critic=lambda z: z)
    with pytest.raises(RuntimeError, match="size"):
        critic_terms(nets, torch.zeros(6, 2), torch.ones(4, 2))


@pytest.mark.parametrize("swapped", [False, True])
def test_the_first_label_is_that_of_the_joint(swapped):
    """With log-densities as logits, TC > 0 and the loss is small; swapped, the reverse."""
    rho = 0.8
    c = torch.tensor([[1.0, rho], [rho, 1.0]], dtype=f64)
    joint = MultivariateNormal(torch.zeros(2, dtype=f64), c)

    def critic(z):
        logits = torch.stack([joint.log_prob(z), Normal(0.0, 1.0).log_prob(z).sum(-1)], -1)
        return logits.flip(-1) if swapped else logits

    z = Noise(0).normal((20_000, 2), "z", f64) @ torch.linalg.cholesky(c).T
    zero = 0 * z[:, 0]
    passed = SimpleNamespace(hard_samples=z, raw=z, rate=zero, distortion=zero)
    nets = SimpleNamespace(model=lambda x, noise: passed, critic=critic)
    terms, _ = FACTOR.model_loss(nets, Batch(z, len(z)), Noise(0), {})
    expected = -0.5 * math.log(1 - rho**2)
    estimate = terms["total_correlation"].value.mean().item()
    assert estimate == pytest.approx(-expected if swapped else expected, abs=0.02)
    apart = critic_terms(nets, z, permute_variables(z, uw.Gaussian(2), Noise(0)))
    assert (apart["critic"].value.mean() > math.log(2)) == swapped
    assert (apart["critic_accuracy"].value.mean() < 0.45) == swapped


# Estimators


def test_estimators_get_the_true_sizes(monkeypatch):
    """N is the size of the dataset, B that of the batch."""
    seen = []
    original = decomposed.decompose

    def spy(latent, q, p, z, dataset_size, estimator):
        seen.append((dataset_size, z.shape[-2]))
        return original(latent, q, p, z, dataset_size, estimator)

    monkeypatch.setattr(decomposed, "decompose", spy)
    dataset = DATASET
    for size in (16, 24):
        Lanes([small_run(objective=uw.BetaTCVAE(), batch_size=size)], dataset, CPU).advance()
    assert seen == [(256, 16), (256, 24)]


def test_weights_of_another_batch_size_are_off_by_a_constant():
    """With flat densities q(z) is 1 for any B; weights for B = 64 on 16 rows give a quarter."""
    table = torch.zeros(16, 16, dtype=f64)
    assert stratified(table, 1000).abs().max() < 1e-12
    configured = 1 / 1000 + 15 * 999 / (1000 * 63)
    assert math.log(configured) < -1.4


@pytest.mark.parametrize(("batch", "offset"), [(128, 0.0078), (512, 0.0020)])
def test_the_released_form_of_equation_13_is_off_by_a_constant(batch, offset):
    """It divides the own term by (N - 1) / (B - 1) and averages over B: weights do not sum to 1."""
    size = 737_280
    log_q = Noise(0).normal((batch, batch), "table", f64)
    scaled = log_q - torch.eye(batch, dtype=f64) * math.log((size - 1) / (batch - 1))
    released = torch.logsumexp(scaled, 1) - math.log(batch)
    exactly = (batch * (size - 1)) / (size * (batch - 1))
    torch.testing.assert_close(
        stratified(log_q, size), released + math.log(exactly), rtol=0, atol=1e-12
    )
    assert math.log(exactly) == pytest.approx(offset, abs=6e-5)


# Discrete variables and groups

LOGITS = torch.tensor([[4.0, 0, 0], [0, 3.0, 0], [0, 0, 5.0], [1.0, 1.0, 0]], dtype=f64)


def enumerated(latent, q, p, hard_samples):
    """Sum every part over all hard samples and observations, weighted by q(z|x) / N."""
    found = {}
    for n in range(len(q.mean)):
        own = q.log_prob(hard_samples[:, None])[:, n]
        parts = decompose_exactly(latent, q, p, hard_samples, own)
        for name in ("mutual_information", "total_correlation", "dimension_kl"):
            value = (own.exp() * getattr(parts, name)).sum() / len(q.mean)
            found[name] = found.get(name, 0.0) + value.item()
    return found


def test_the_information_of_a_class_is_between_zero_and_log_k():
    """With probability masses; with a Concrete density in the numerator it is neither."""
    latent = uw.Categorical(3, hard=True)
    q, p = latent.posterior(LOGITS), prior(latent)
    marginal = q.mean.mean(0)
    truth = (q.mean * (q.log_probs - marginal.log())).sum(-1).mean().item()
    assert 0 < truth < math.log(3)
    parts = enumerated(latent, q, p, torch.eye(3, dtype=f64))
    assert parts["mutual_information"] == pytest.approx(truth)
    assert parts["total_correlation"] == pytest.approx(0, abs=1e-12)
    # Hard samples of many passes agree.
    z = q.rsample(Noise(0), (5000,)).flatten(0, 1)
    own = q.log_prob(z.view(5000, 4, 3)).flatten()
    sampled = decompose_exactly(latent, q, p, z, own).mutual_information
    assert sampled.mean().item() == pytest.approx(truth, abs=0.02)
    # Others divide the density of a relaxed sample by the mass of the nearest hard sample.
    soft = uw.Categorical(3).posterior(LOGITS).rsample(Noise(0), (5000,)).clamp(1e-9, 1 - 1e-9)
    concrete = RelaxedOneHotCategorical(
        torch.tensor(0.66, dtype=f64), logits=LOGITS, validate_args=False
    )
    mixed = concrete.log_prob(soft) - marginal.log()[soft.argmax(-1)]
    assert mixed.mean() > 3 * math.log(3)
    assert (concrete.log_prob(soft) > 0).any()  # log-probability of a class above zero


def test_the_information_of_bits_is_between_zero_and_log_two_each():
    latent = uw.Bernoulli(2, hard=True)
    q, p = latent.posterior(LOGITS[:, :2] - 1), prior(latent)
    bits = torch.tensor([[0, 0], [0, 1], [1, 0], [1, 1]], dtype=f64)
    masses = torch.stack([torch.where(b == 1, q.mean, 1 - q.mean).prod(-1) for b in bits], 1)
    truth = (masses * (masses.log() - masses.mean(0).log())).sum(1).mean().item()
    parts = enumerated(latent, q, p, bits)
    assert parts["mutual_information"] == pytest.approx(truth)
    assert 0 < truth < 2 * math.log(2)
    rate = latent.rate(q, p, q.mean).mean().item()
    assert sum(parts.values()) == pytest.approx(rate)


def test_a_class_of_k_values_is_one_variable():
    """Class and bit vary independently: TC = 0.

    Taken for K bits the class depends on itself, by K H(1/K) - log K.
    """
    latent = uw.Product(shape=uw.Categorical(3, hard=True), flag=uw.Bernoulli(1, hard=True))
    raw = torch.tensor(
        [[*(30.0 * (k == j) for j in range(3)), 30.0 * s] for k in range(3) for s in (-1, 1)],
        dtype=f64,
    )
    q, p = latent.posterior(raw), prior(latent)
    z = q.mean.round()
    parts = decompose_exactly(latent, q, p, z, q.log_prob(z))
    assert parts.total_correlation.mean().item() == pytest.approx(0, abs=1e-9)
    assert parts.mutual_information.mean().item() == pytest.approx(math.log(6), abs=1e-9)
    assert len(parts.leaf_kls) == 2
    assert variable_of_column(latent).tolist() == [0, 0, 0, 1]
    share = z.mean(0)
    columns = (z * share.log() + (1 - z) * torch.log1p(-share)).sum(-1)
    peers = -math.log(6) - columns.mean().item()
    entropy = -(math.log(1 / 3) / 3 + 2 * math.log(2 / 3) / 3)
    assert peers == pytest.approx(3 * entropy - math.log(3))
    assert peers > 0.5


@pytest.mark.parametrize("between", [True, False])
def test_correlations_between_and_within_groups_are_distinguished(between):
    """Two coins in three columns: one appears twice, in two groups or within one."""
    latent = uw.Product(style=uw.Gaussian(2), place=uw.Gaussian(1))
    coins = torch.tensor([[a, b] for a in (-1, 1) for b in (-1, 1)], dtype=f64)
    loc = coins[:, [0, 1, 0]] if between else coins[:, [0, 0, 1]]
    narrow = torch.full_like(loc, -14.0)
    raw = torch.cat([loc[:, :2], narrow[:, :2], loc[:, 2:], narrow[:, 2:]], 1)
    q, p = latent.posterior(raw), prior(latent)
    z = q.rsample(Noise(0))
    parts = decompose_exactly(latent, q, p, z, q.log_prob(z))
    log_two = pytest.approx(math.log(2))
    nothing = pytest.approx(0, abs=1e-9)
    assert parts.correlations[""].mean().item() == (log_two if between else nothing)
    assert parts.correlations["style"].mean().item() == (nothing if between else log_two)
    assert parts.total_correlation.mean().item() == log_two
    assert parts.mutual_information.mean().item() == pytest.approx(math.log(4))
    # The sum over groups in place of the joint loses the correlation between them.
    columns = z[:, None].split((2, 1), -1)
    parts_of_q = zip(q.parts.values(), columns, strict=True)
    groups = sum(exact(part.log_prob(column)) for part, column in parts_of_q)
    each = exact(q.log_marginals(z[:, None])).sum(-1)
    peers = (groups - each).mean().item()
    assert peers == (nothing if between else log_two)
