"""Estimators of q(z) against brute force and against the whole data set."""

import math
from importlib import import_module

import pytest
import torch

import unweave as uw
from datasets import LATENTS, nets_and_batch, prior, small_run
from unweave.aggregate import (
    decompose,
    decompose_exactly,
    estimate,
    exact,
    log_aggregate,
    stratified,
    summarise,
    weighted,
)
from unweave.core.noise import Noise
from unweave.latents import DiagonalGaussian, rows


def encodings(count, size=2, scale=0.5, seed=0):
    noise = Noise(seed)
    loc = noise.normal((count, size), "loc", torch.float64)
    return DiagonalGaussian(loc, torch.full_like(loc, math.log(scale)))


@pytest.mark.parametrize("trailing", [(), (3,)])
def test_estimators_agree_with_loops(trailing):
    torch.manual_seed(0)
    batch, size = 5, 40
    log_q = torch.randn(batch, batch, *trailing, dtype=torch.float64)
    for estimator in (weighted, stratified):
        got = estimator(log_q, size)
        for i in range(batch):
            density = torch.zeros(trailing, dtype=torch.float64)
            for j in range(batch):
                if estimator is weighted:
                    weight = 1 / (size * batch)
                elif i == j:
                    weight = 1 / size
                else:
                    weight = (size - 1) / (size * (batch - 1))
                density += weight * log_q[i, j].exp()
            torch.testing.assert_close(got[i], density.log())


def test_exact_is_the_mean_density():
    log_q = torch.randn(4, 9, 2, dtype=torch.float64)
    torch.testing.assert_close(exact(log_q), log_q.exp().mean(1).log())


@pytest.mark.parametrize("batch", [2, 7, 30])
def test_the_stratified_weights_of_every_row_sum_to_one(batch):
    """The peers' matrix fills a column instead of the diagonal, and one row sums to more."""
    constant = torch.zeros(batch, batch, dtype=torch.float64)
    assert stratified(constant, 1000).abs().max() < 1e-12


def test_a_whole_data_set_as_the_batch_is_exact():
    q = encodings(12)
    z = q.rsample(Noise(1))
    log_q = q.log_prob(z[:, None])
    torch.testing.assert_close(stratified(log_q, 12), exact(log_q))


def test_the_stratified_density_is_unbiased():
    """Mean of the estimated density over many batches within 1 % of the exact q(z)."""
    q = encodings(50)
    own = 3
    z = q.rsample(Noise(2))[own]
    truth = exact(q.log_prob(z[None, None])).exp().item()
    others = torch.tensor([n for n in range(50) if n != own])
    batches = others[Noise(0).permutation(49, "batches", rows=40_000)[:, :7]]
    members = torch.cat([torch.full((40_000, 1), own), batches], 1)
    log_q = q.log_prob(z)[members]  # (batches, 8): the row of the estimator that belongs to z
    square = log_q[:, None].expand(-1, 8, -1)
    estimates = torch.func.vmap(lambda table: stratified(table, 50)[0].exp())(square)
    assert estimates.mean().item() == pytest.approx(truth, rel=0.01)
    assert estimates.std() / math.sqrt(40_000) / truth < 0.003  # so the 1 % means something


def test_the_common_bug_in_stratified_weights_would_be_noticed():
    """Same set-up with the weights of the common bug: the density is far off."""
    batch, size = 8, 50
    weights = torch.full((batch, batch), 1 / (batch - 1), dtype=torch.float64)
    weights.view(-1)[::batch] = 1 / size
    weights.view(-1)[1::batch] = (size - batch + 1) / (size * (batch - 1))
    q = encodings(size)
    z = q.rsample(Noise(2))
    ratios = []
    for step in range(500):
        index = Noise(1, step).permutation(size, "batch")[:batch]
        log_q = rows(q, index).log_prob(z[index][:, None])
        truth = exact(q.log_prob(z[index][:, None])).exp()
        ratios.append(((weights * log_q.exp()).sum(1) / truth).mean())
    assert torch.stack(ratios).mean() > 1.3


@pytest.mark.parametrize("estimator", ["weighted", "stratified"])
@pytest.mark.parametrize("latent", LATENTS)
def test_the_parts_sum_to_the_rate_on_every_sample(latent, estimator):
    raw = Noise(0).normal((9, latent.outputs), "raw", torch.float64)
    q, p = latent.posterior(raw), prior(latent)
    z = q.rsample(Noise(1))
    parts = decompose(latent, q, p, z, 100, estimator)
    z = latent.hard_samples(z)
    rate = q.log_prob(z) - p.log_prob(z)
    whole = parts.mutual_information + parts.total_correlation + parts.dimension_kl
    torch.testing.assert_close(whole, rate)
    by_node = [*parts.leaf_kls.values(), *(parts.excess(name) for name in parts.correlations)]
    torch.testing.assert_close(parts.mutual_information + sum(by_node), rate)


def test_the_exact_decomposition_sums_to_the_rate_and_is_not_negative():
    latent = uw.Gaussian(3)
    raw = Noise(3).normal((200, 6), "raw", torch.float64)
    q, p = latent.posterior(raw), prior(latent)
    z = q.rsample(Noise(4))
    parts = decompose_exactly(latent, q, p, z, q.log_prob(z))
    three = (parts.mutual_information, parts.total_correlation, parts.dimension_kl)
    torch.testing.assert_close(sum(three), q.log_prob(z) - p.log_prob(z))
    assert all(part.mean() > -0.05 for part in three)


def test_summary_agrees_with_the_linear_gaussian_dataset():
    """Encodings N(x, s^2 I) of x ~ N(0, S): q(z) is N(0, S + s^2 I), and all is closed form."""
    torch.manual_seed(0)
    covariance = torch.tensor([[1.0, 0.8], [0.8, 1.0]], dtype=torch.float64)
    x = torch.randn(8_000, 2, dtype=torch.float64) @ torch.linalg.cholesky(covariance).T
    s = 0.5
    q = DiagonalGaussian(x, torch.full_like(x, math.log(s)))
    zero = torch.zeros(2, dtype=torch.float64)
    found = summarise(uw.Gaussian(2), q, DiagonalGaussian(zero, zero), Noise(0), samples=3000)
    total = covariance + s**2 * torch.eye(2, dtype=torch.float64)
    information = 0.5 * torch.logdet(total) - 2 * math.log(s)
    correlation = 0.5 * (total.diagonal().log().sum() - torch.logdet(total))
    variance = 1 + s**2
    kl = 2 * 0.5 * (variance - 1 - math.log(variance))
    assert found.mutual_information == pytest.approx(information.item(), abs=0.05)
    assert found.total_correlation == pytest.approx(correlation.item(), abs=0.03)
    assert found.dimension_kl == pytest.approx(kl, abs=0.03)
    each = 0.5 * math.log(variance / s**2)
    assert found.information == pytest.approx([each, each], abs=0.04)


@pytest.mark.parametrize("latent", LATENTS)
def test_the_aggregate_in_blocks_is_that_of_the_whole_table(latent, monkeypatch):
    monkeypatch.setitem(
        import_module("unweave.aggregate.decompose")._AT_ONCE, "cpu", 7 * 5 * len(latent.nodes)
    )
    monkeypatch.setitem(import_module("unweave.aggregate.decompose")._SAMPLES, "cpu", 5)
    raw = Noise(0).normal((23, latent.outputs), "raw", torch.float64)
    q = latent.posterior(raw)
    z = rows(q, torch.arange(12)).rsample(Noise(1))
    shares = []
    got = log_aggregate(latent, q, z, shares.append)
    torch.testing.assert_close(got, exact(latent.log_nodes(q, z[:, None])))
    assert shares == [5 / 12, 10 / 12, 1]


def test_the_summary_of_discrete_codes_agrees_with_sums_over_classes():
    """Two independent categories: I(x; z) and TC by sums over the classes, at any temperature."""
    latent = uw.Product(a=uw.Categorical(3, temperature=2.0), b=uw.Categorical(2, temperature=2.0))
    q = latent.posterior(2 * Noise(0).normal((40, 5), "raw", torch.float64))
    a, b = (part.mean for part in q.parts.values())
    joint = torch.einsum("ni,nj->nij", a, b)
    aggregate = joint.mean(0)
    information = (joint * (joint / aggregate).log()).sum((1, 2)).mean().item()
    independent = a.mean(0)[:, None] * b.mean(0)
    correlation = (aggregate * (aggregate / independent).log()).sum().item()
    found = summarise(latent, q, prior(latent), Noise(1), samples=20_000)
    assert found.mutual_information == pytest.approx(information, abs=0.02)
    assert found.total_correlation == pytest.approx(correlation, abs=0.01)
    assert found.correlations == {"": pytest.approx(correlation, abs=0.01)}


def test_bad_input_is_refused():
    with pytest.raises(ValueError, match=r"\(B, B, ...\)"):
        weighted(torch.zeros(3, 4), 10)
    with pytest.raises(ValueError, match="at least as large"):
        stratified(torch.zeros(4, 4), 3)
    with pytest.raises(ValueError, match="at least two"):
        stratified(torch.zeros(1, 1), 3)
    assert stratified(torch.zeros(1, 1), 1).item() == 0


def enumerated(latent, q, p, hard_samples):
    """MI, TC, leaf KLs and the rate by sums over all hard_samples (M, D) and observations."""
    each = q.log_prob(hard_samples[:, None])  # (M, N)
    log_q = exact(each)
    joint = log_q.exp()
    marginals = exact(q.log_marginals(hard_samples[:, None]))  # (M, V)
    information = (each.exp() * (each - log_q[:, None])).sum(0).mean()
    correlation = (joint * (log_q - marginals.sum(-1))).sum()
    leaves = (joint[:, None] * (marginals - p.log_marginals(hard_samples))).sum(0)
    return information, correlation, leaves


def test_the_parts_of_discrete_variables_agree_with_sums_over_all_codes():
    """Relaxed samples instead of hard ones would make divergences negative."""
    latent = uw.Product(what=uw.Categorical(3), flags=uw.Bernoulli(2, probability=0.3))
    noise = Noise(0)
    q = latent.posterior(3 * noise.normal((7, latent.outputs), "raw", torch.float64))
    p = prior(latent)
    rows_ = torch.eye(3, dtype=torch.float64)
    bits = torch.tensor([[a, b] for a in (0, 1) for b in (0, 1)], dtype=torch.float64)
    hard_samples = torch.cat([rows_.repeat_interleave(4, 0), bits.repeat(3, 1)], -1)
    information, correlation, leaves = enumerated(latent, q, p, hard_samples)
    index = noise.integers(7, (15_000,), "rows")
    source = rows(q, index)
    relaxed = source.rsample(noise)
    z = latent.hard_samples(relaxed)
    assert not torch.equal(z, relaxed)
    parts = decompose_exactly(latent, q, p, z, source.log_prob(z))
    assert parts.mutual_information.mean().item() == pytest.approx(information.item(), abs=0.03)
    assert parts.total_correlation.mean().item() == pytest.approx(correlation.item(), abs=0.03)
    found = torch.stack(list(parts.leaf_kls.values())).mean(1)
    torch.testing.assert_close(found, leaves, rtol=0, atol=0.03)
    rate = latent.rate(q, p, q.mean).mean()
    torch.testing.assert_close(information + correlation + leaves.sum(), rate)
    batch = rows(source, slice(64))
    for one, two in zip(
        decompose(latent, batch, p, relaxed[:64], 7_000)[1:],
        decompose(latent, batch, p, z[:64], 7_000)[1:],
        strict=True,
    ):
        assert all(torch.equal(one[name], two[name]) for name in one)
    wrong = decompose_exactly(latent, q, p, relaxed, source.log_prob(relaxed))
    assert (wrong.total_correlation.mean() - correlation).abs() > 0.05


@pytest.mark.parametrize(
    "objective",
    [uw.BetaTCVAE(), uw.HFVAE(),
     uw.AlphaBetaVAE(divergence=uw.divergences.ExclusiveKL())],
)  # fmt: skip
def test_objectives_use_hard_samples_of_discrete_variables(objective):
    latent = uw.Product(what=uw.Categorical(3), flags=uw.Bernoulli(2, probability=0.3))
    nets, batch = nets_and_batch(small_run(objective=objective, latent=latent))
    relaxed = nets.model(batch.x, Noise(0))
    hard = relaxed._replace(z=latent.hard_samples(relaxed.z))
    assert not torch.equal(hard.z, relaxed.z)
    if isinstance(objective, uw.AlphaBetaVAE):
        one, two = (objective.divergence.value(nets, r, batch, Noise(0)) for r in (relaxed, hard))
        assert torch.equal(one, two)
        return
    one, two = (objective.loss(forward, batch, Noise(0)) for forward in (relaxed, hard))
    for name in one.keys() - {"distortion"}:
        assert torch.equal(one[name].value, two[name].value)


def test_log_densities_may_be_arrays_and_bad_ones_are_refused():
    assert torch.equal(stratified(torch.zeros(3, 3, dtype=torch.int64), 50), torch.zeros(3))
    table = [[0.0, -1.0], [-2.0, 0.5]]
    expected = weighted(torch.tensor(table, dtype=torch.float64), 9)
    torch.testing.assert_close(weighted(table, 9), expected)
    for estimator, shape in ((exact, (3,)), (exact, (3, 0))):
        with pytest.raises(ValueError, match="expected log_q"):
            estimator(torch.zeros(shape))
    for estimator, shape in ((weighted, (0, 0)), (stratified, (2, 3))):
        with pytest.raises(ValueError, match="expected log_q"):
            estimator(torch.zeros(shape), 9)
    with pytest.raises(ValueError, match="did you mean 'weighted'"):
        estimate(torch.zeros(2, 2), 9, "weigted")


def test_an_exact_decomposition_reports_its_progress():
    latent, q = uw.Gaussian(2), encodings(50)
    z, shares = q.rsample(Noise(1)), []
    decompose_exactly(latent, q, prior(latent), z, q.log_prob(z), shares.append)
    assert shares == sorted(shares)
    assert shares[-1] == 1
