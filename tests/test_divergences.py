"""Divergences between q(z) and p(z) against loops, closed forms and quadrature."""

import math
from functools import partial
from itertools import product

import numpy as np
import pytest
import torch
from scipy import optimize
from torch.distributions import MultivariateNormal, Normal
from torch.func import grad, vmap

from points import normal
from unweave.aggregate import (
    batch_total_correlation,
    covariance,
    covariance_penalty,
    directions,
    exact,
    inclusive_kl,
    mmd,
    moment_matching,
    sliced_wasserstein,
    total_correlation,
)
from unweave.core.noise import Noise
from unweave.latents import DiagonalGaussian

KERNELS = ["imq", "imq-dimensionwise", "imq-unsquared", "rbf"]
DIRECTIONS = directions(Noise(0), 4, 3, torch.float64)

# Functions of two sets of three-dimensional points, for the laws that all of them keep.
DIVERGENCES = {
    **{
        f"{kernel}-{unbiased}": partial(mmd, kernel=kernel, unbiased=unbiased)
        for kernel, unbiased in product(KERNELS, [True, False])
    },
    "moments": moment_matching,
    "sliced": lambda x, y: sliced_wasserstein(x, y, DIRECTIONS.to(x.dtype)),
    "dip": lambda x, y: sum(covariance_penalty(x, y.square())),
    "inclusive": lambda x, y: inclusive_kl(x[:, 0], y),
    "batch-tc": lambda x, y: batch_total_correlation(x[:, None] - y),
}
# Those that do not depend on how the first points are paired with the second.
SYMMETRIC = [name for name in DIVERGENCES if name not in ("inclusive", "batch-tc")]
every = pytest.mark.parametrize("name", DIVERGENCES)


def gaussian(loc, scale):
    return DiagonalGaussian(loc, torch.as_tensor(scale, dtype=loc.dtype).log().expand_as(loc))


# Laws of all


@every
def test_gradients_are_right(name):
    x = normal(5, 3).requires_grad_()
    y = normal(5, 3, seed=1).requires_grad_()
    assert torch.autograd.gradcheck(DIVERGENCES[name], (x, y))


@every
def test_mapped_lanes_equal_a_loop(name):
    x, y = normal(3, 6, 3), normal(3, 6, 3, seed=1)
    for function in (DIVERGENCES[name], grad(DIVERGENCES[name])):
        alone = torch.stack([function(a, b) for a, b in zip(x, y, strict=True)])
        torch.testing.assert_close(vmap(function)(x, y), alone)


@every
def test_single_precision_is_kept_and_close(name):
    x, y = normal(40, 3, seed=2), normal(40, 3, seed=3)
    single = DIVERGENCES[name](x.float(), y.float())
    assert single.shape == ()
    assert single.dtype == torch.float32
    torch.testing.assert_close(single.double(), DIVERGENCES[name](x, y), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", SYMMETRIC)
def test_the_order_of_points_does_not_matter(name):
    x, y = normal(7, 3), normal(7, 3, seed=1)
    shuffled = x[Noise(0).permutation(7, "x")], y[Noise(0).permutation(7, "y")]
    torch.testing.assert_close(DIVERGENCES[name](*shuffled), DIVERGENCES[name](x, y))


# Inclusive KL


def test_inclusive_kl_agrees_with_the_closed_form_of_gaussians():
    p = gaussian(torch.zeros(2, dtype=torch.float64), 1.0)
    q = gaussian(torch.tensor([[0.5, -0.3]], dtype=torch.float64), 1.4)
    z = normal(40_000, 2)
    truth = sum(0.5 * (2 * math.log(1.4) + (1 + m**2) / 1.4**2 - 1) for m in (0.5, -0.3))
    got = inclusive_kl(p.log_prob(z), q.log_prob(z[:, None]))
    assert got.item() == pytest.approx(truth, abs=0.01)


def test_inclusive_kl_is_not_negative_in_expectation():
    """Even where the mixture is the prior but for its own sampling."""
    q = gaussian(math.sqrt(0.75) * normal(400, 1, seed=1), 0.5)
    p = gaussian(torch.zeros(1, dtype=torch.float64), 1.0)
    z = normal(20_000, 1)
    log_p, log_q = p.log_prob(z), q.log_prob(z[:, None])
    error = (log_p - exact(log_q)).std() / math.sqrt(len(z))
    value = inclusive_kl(log_p, log_q)
    assert -4 * error < value < 0.02


def test_the_printed_sums_differ_by_constants():
    """sum_s [log p - log sum_n q] = S (KL - log N)."""
    log_p, log_q = normal(8), normal(8, 5, seed=1)
    printed = (log_p - log_q.exp().sum(1).log()).sum()
    torch.testing.assert_close(printed, 8 * (inclusive_kl(log_p, log_q) - math.log(5)))


# Moments


def test_covariance_agrees_with_numpy():
    z = normal(9, 4)
    np.testing.assert_allclose(covariance(z), np.cov(z.T, bias=True), atol=1e-14)


def test_covariance_penalty_agrees_with_loops():
    mean, variance = normal(9, 4), normal(9, 4, seed=1).exp()
    for cov, got in [
        (np.cov(mean.T, bias=True), covariance_penalty(mean)),
        (np.cov(mean.T, bias=True) + np.diag(variance.mean(0)), covariance_penalty(mean, variance)),
    ]:
        off = sum(cov[i, j] ** 2 for i in range(4) for j in range(4) if i != j)
        assert got.off_diagonal.item() == pytest.approx(off)
        assert got.diagonal.item() == pytest.approx(sum((cov[i, i] - 1) ** 2 for i in range(4)))


def off_diagonal(cov):
    return (cov - torch.diag(cov.diagonal())).square().sum()


def test_the_penalty_depends_on_neither_the_mean_nor_the_batch_size():
    """The peers centre over the latents and do not divide by the batch: both change theirs."""
    mean = normal(50, 3)
    shifted, twice = mean + torch.tensor([5.0, 0, -3]), torch.cat([mean, mean])
    for other in (shifted, twice):
        torch.testing.assert_close(covariance_penalty(other), covariance_penalty(mean))

    def peers(mean):
        centred = mean - mean.mean(1, keepdim=True)
        return off_diagonal(centred.T @ centred)

    assert peers(shifted) > 10 * peers(mean)
    assert peers(twice) > 3 * peers(mean)


def test_variances_enter_only_the_diagonal():
    """The peers add their mean, a number, to every entry."""
    mean, variance = normal(50, 3), normal(50, 3, seed=1).exp()
    with_variance = covariance_penalty(mean, variance)
    torch.testing.assert_close(with_variance.off_diagonal, covariance_penalty(mean).off_diagonal)
    peers = covariance(mean) + torch.diag(variance.mean(0)).mean()
    assert off_diagonal(peers) > 1.5 * with_variance.off_diagonal


def test_a_whitened_aggregate_is_not_penalised():
    """Means of variance 3/4 and log-variances log 1/4; the peers' exp(2 log-variance) is 1/16."""
    signs = torch.tensor(list(product([-1.0, 1.0], repeat=3)), dtype=torch.float64)
    mean = math.sqrt(0.75) * signs
    log_variance = torch.full_like(mean, math.log(0.25))
    got = covariance_penalty(mean, log_variance.exp())
    assert max(got) < 1e-24
    assert covariance_penalty(mean, (2 * log_variance).exp()).diagonal > 0.1


def test_dip_vae_ii_penalises_the_covariance_of_samples_of_q():
    """The law of total covariance: Cov[z] = Cov[mean] + E[variance]."""
    mean = normal(100_000, 2) @ torch.tensor([[0.8, 0.3], [0.0, 0.5]], dtype=torch.float64)
    variance = 0.3 * normal(100_000, 2, seed=1).square()
    z = mean + variance.sqrt() * normal(100_000, 2, seed=2)
    got, sampled = covariance_penalty(mean, variance), covariance_penalty(z)
    assert got.off_diagonal.item() == pytest.approx(sampled.off_diagonal.item(), abs=0.01)
    assert got.diagonal.item() == pytest.approx(sampled.diagonal.item(), abs=0.01)


def test_moment_matching_sees_means_and_covariances_and_nothing_else():
    x = normal(30, 2)
    shift = torch.tensor([3.0, 4.0], dtype=torch.float64)
    assert moment_matching(x, x + shift).item() == pytest.approx(25)
    stretched = (2 * covariance(x) - 0.5 * covariance(x)).square().sum()
    centred = x - x.mean(0)
    matched = moment_matching(math.sqrt(2) * centred, math.sqrt(0.5) * centred)
    torch.testing.assert_close(matched, stretched)
    assert moment_matching(centred, torch.cat([-centred, centred])) < 1e-24


# Sliced Wasserstein


def test_directions_are_uniform_unit_vectors():
    u = directions(Noise(0), 20_000, 3, torch.float64)
    torch.testing.assert_close(u.norm(dim=1), torch.ones(20_000, dtype=torch.float64))
    assert u.mean(0).abs().max() < 0.02
    torch.testing.assert_close(3 * u.T @ u / len(u), torch.eye(3).double(), rtol=0, atol=0.03)
    seeds = torch.arange(2)
    lanes = vmap(lambda seed: directions(Noise(seed), 4, 3))(seeds)
    torch.testing.assert_close(lanes[1], directions(Noise(1), 4, 3))


def test_sliced_wasserstein_agrees_with_the_closed_form_of_gaussians():
    """In one dimension W_2^2 = (m - n)^2 + (s - t)^2."""
    x, y = 0.5 * normal(100_000, 1) + 0.7, 1.5 * normal(100_000, 1, seed=1) - 0.2
    one = torch.ones(1, 1, dtype=torch.float64)
    assert sliced_wasserstein(x, y, one).item() == pytest.approx(0.9**2 + 1, abs=0.03)


def test_sliced_wasserstein_of_shifted_points_is_exact():
    """Points moved by a are (a . u)^2 from themselves along u; over all u, |a|^2 / D."""
    x, shift = normal(20, 3), torch.tensor([1.0, -2.0, 0.5], dtype=torch.float64)
    u = directions(Noise(0), 5, 3, torch.float64)
    moved = x[Noise(0).permutation(20, "order")] + shift
    torch.testing.assert_close(sliced_wasserstein(x, moved, u), (u @ shift).square().mean())
    many = directions(Noise(0), 50_000, 3, torch.float64)
    average = sliced_wasserstein(x, moved, many).item()
    assert average == pytest.approx(shift.square().sum().item() / 3, rel=0.02)


def test_sliced_wasserstein_finds_the_optimal_assignment():
    x, y = normal(6, 1), normal(6, 1, seed=1)
    cost = (x - y.T).square().numpy()
    rows, columns = optimize.linear_sum_assignment(cost)
    got = sliced_wasserstein(x, y, torch.ones(1, 1, dtype=torch.float64))
    assert got.item() == pytest.approx(cost[rows, columns].mean())


# Total correlation


def test_total_correlation_of_a_correlated_gaussian():
    """TC = 1/2 [sum_v log S_vv - log det S]."""
    cov = torch.tensor([[1.0, 0.7, 0.2], [0.7, 2.0, 0.1], [0.2, 0.1, 0.5]], dtype=torch.float64)
    z = normal(40_000, 3) @ torch.linalg.cholesky(cov).T
    joint = MultivariateNormal(torch.zeros(3, dtype=torch.float64), cov)
    each = Normal(torch.zeros(3, dtype=torch.float64), cov.diagonal().sqrt())
    values = total_correlation(joint.log_prob(z), each.log_prob(z))
    assert values.shape == (40_000,)
    truth = 0.5 * (cov.diagonal().log().sum() - torch.logdet(cov))
    assert values.mean().item() == pytest.approx(truth.item(), abs=0.01)


def test_the_batch_estimate_agrees_with_loops():
    log_q = normal(4, 3, 2)
    q = log_q.exp().tolist()
    value = 0.0
    for h in range(4):
        value += math.log(sum(math.prod(q[h][i]) for i in range(3)) / 3) / 4
        value -= sum(math.log(sum(q[h][i][v] for i in range(3)) / 3) for v in range(2)) / 4
    assert batch_total_correlation(log_q).item() == pytest.approx(value)


def test_the_batch_estimate_fails_as_the_paper_says():
    """Narrow posteriors in ten dimensions: below zero unless the samples are the batch's own."""
    everyone = gaussian(normal(2000, 10), 0.1)
    z = everyone.rsample(Noise(1))
    part = gaussian(everyone.loc[:200], 0.1)

    def estimate(q, z):
        return batch_total_correlation(q.log_marginals(z[:, None])).item()

    elsewhere = z[-200:]  # of observations that are not in the batch
    assert estimate(everyone, elsewhere) > 0
    assert estimate(part, elsewhere) < -50
    assert estimate(part, z[:200]) > 0  # the fix: samples of the batch's own mixture
    joint, marginals = part.log_prob(elsewhere[:, None]), part.log_marginals(elsewhere[:, None])
    truth = exact(everyone.log_prob(elsewhere[:, None]))
    assert (exact(joint) - truth).mean() < -50  # the joint collapses,
    truths = exact(everyone.log_marginals(elsewhere[:, None])).sum(-1)
    assert (exact(marginals).sum(-1) - truths).mean() > -5  # the marginals do not


def test_the_batch_estimate_worsens_with_narrowness_and_dimension():
    def estimate(scale, size):
        q = gaussian(normal(64, size), scale)
        z = normal(2000, size, seed=1) * math.sqrt(1 + scale**2)  # of all of q(z)
        return batch_total_correlation(q.log_marginals(z[:, None])).item()

    assert abs(estimate(0.5, 1)) < 1e-12  # one variable has no correlation, whatever the estimate
    assert estimate(0.5, 2) > estimate(0.1, 2) > estimate(0.1, 5) > estimate(0.1, 10)


# Errors


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda x: mmd(x, x[:, :2]), r"common D.*\(4, 3\) and \(4, 2\)"),
        (lambda x: mmd(x[None], x), "one row per point"),
        (lambda x: mmd(x, x, "imq-unsqared"), "did you mean 'imq-unsquared'"),
        (lambda x: mmd(x[:1], x), "at least two points.*unbiased=False"),
        (lambda x: mmd(x, x, scales=[1.0, 0.0]), "positive scales"),
        (lambda x: mmd(x, x, scales=[]), "positive scales"),
        (lambda x: mmd(x, x, scales=[math.nan]), "positive scales"),
        (lambda x: mmd(x, x, constants=[-1.0]), "positive constants"),
        (lambda x: mmd(x, x, scales=1.0, constants=2.0), "got both; use one"),
        (lambda x: mmd(x, x, groups=[[]]), "one or more of the 3 columns"),
        (lambda x: mmd(x, x, groups=[slice(3, 5)]), "one or more of the 3 columns"),
        (lambda x: mmd(x, x, groups=[[0, 3]]), "from 0 to 2"),
        (lambda x: mmd(x, x, groups=[]), "one or more groups"),
        (lambda x: moment_matching(x, x[0]), r"got \(4, 3\) and \(3,\)"),
        (lambda x: covariance(x[:0]), "at least one of each"),
        (lambda x: covariance_penalty(x, x[0]), "a variance for every mean"),
        (lambda x: sliced_wasserstein(x, x[:2], x), "equally many points"),
        (lambda x: sliced_wasserstein(x, x, x.T), r"directions \(K, 3\)"),
        (lambda x: inclusive_kl(x[0], x), r"log_p \(S,\)"),
        (lambda x: total_correlation(x[0], x), r"log_joint \(S,\)"),
        (lambda x: batch_total_correlation(x), r"\(H, B, V\)"),
    ],
)
def test_bad_input_is_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call(torch.zeros(4, 3))


def test_arrays_of_any_type_and_our_directions_go_together():
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(40, 2)), rng.normal(size=(40, 2))
    along = directions(Noise(0), 10, 2)
    found = sliced_wasserstein(x, y, along)
    again = sliced_wasserstein(torch.tensor(x), torch.tensor(y), along.double())
    torch.testing.assert_close(found, again)
    assert sliced_wasserstein(x, y, np.eye(2)) > 0
