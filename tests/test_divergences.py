"""Divergences between q(z) and p(z) against loops, closed forms and quadrature."""

import math
from functools import partial
from itertools import product

import numpy as np
import pytest
import torch
from scipy import optimize, stats
from torch.autograd.graph import saved_tensors_hooks
from torch.distributions import MultivariateNormal, Normal
from torch.func import grad, vmap

import unweave as uw
from unweave.aggregate import (
    batch_total_correlation,
    covariance,
    covariance_penalty,
    directions,
    exact,
    inclusive_kl,
    kernel_constants,
    mmd,
    moment_matching,
    sliced_wasserstein,
    total_correlation,
)
from unweave.core.noise import Noise
from unweave.latents import DiagonalGaussian

KERNELS = ["imq", "imq-dimensionwise", "imq-unsquared", "rbf"]
SEVEN = (0.1, 0.2, 0.5, 1, 2, 5, 10)
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


def normal(*shape, seed=0, dtype=torch.float64):
    return Noise(seed).normal(shape, "points", dtype)


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


# Maximum mean discrepancy


def loops(x, y, kernel, scales, unbiased):
    """Squared MMD by the definition, a pair, a scale and a dimension at a time."""
    size = len(x[0])

    def k(a, b):
        gaps = [(p - q) ** 2 for p, q in zip(a, b, strict=True)]
        if kernel == "rbf" and scales is None:
            return math.exp(-sum(gaps) / size**2)
        value = 0.0
        for s in scales or (SEVEN[:6] if kernel == "imq-dimensionwise" else SEVEN):
            c = 2 * size * s
            if kernel == "imq":
                value += c / (c + sum(gaps))
            elif kernel == "imq-unsquared":
                value += c / (c + math.sqrt(sum(gaps)))
            elif kernel == "rbf":
                value += math.exp(-sum(gaps) / c)
            else:
                value += sum(2 * s / (2 * s + gap) for gap in gaps)
        return value

    def within(points):
        pairs = [(i, j) for i in range(len(points)) for j in range(len(points))]
        kept = [(i, j) for i, j in pairs if i != j or not unbiased]
        return sum(k(points[i], points[j]) for i, j in kept) / len(kept)

    cross = sum(k(a, b) for a in x for b in y) / (len(x) * len(y))
    return within(x) + within(y) - 2 * cross


@pytest.mark.parametrize("scales", [None, (0.3, 4.0)])
@pytest.mark.parametrize("unbiased", [True, False])
@pytest.mark.parametrize("kernel", KERNELS)
def test_mmd_agrees_with_loops(kernel, unbiased, scales):
    x, y = normal(5, 3), 0.5 * normal(4, 3, seed=1) + 0.2
    expected = loops(x.tolist(), y.tolist(), kernel, scales, unbiased)
    assert mmd(x, y, kernel, scales, unbiased).item() == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("kernel", KERNELS)
def test_the_u_statistic_is_unbiased_and_the_v_statistic_is_not(kernel):
    """Two samples of one distribution: mean 0 within its error, or plainly above."""
    x, y = normal(5_000, 6, 2), normal(5_000, 6, 2, seed=1)
    unbiased = vmap(lambda a, b: mmd(a, b, kernel))(x, y)
    error = unbiased.std() / math.sqrt(len(x))
    assert unbiased.mean().abs() < 4 * error
    assert vmap(lambda a, b: mmd(a, b, kernel, unbiased=False))(x, y).mean() > 25 * error


def test_rbf_agrees_with_the_closed_form_of_gaussians():
    """x - y ~ N(m, v I) has E exp(-|x - y|^2 / 2g) = (g / (g + v))^(D/2) exp(-|m|^2 / 2(g + v))."""
    size, shift, scale = 3, 0.8, 0.5

    def expected(variance, squared):
        return sum(
            (size * s / (size * s + variance)) ** (size / 2)
            * math.exp(-squared / (2 * (size * s + variance)))
            for s in SEVEN
        )

    truth = expected(2, 0) + expected(2 * scale**2, 0)
    truth -= 2 * expected(1 + scale**2, size * shift**2)
    x, y = normal(500, 40, size), scale * normal(500, 40, size, seed=1) + shift
    values = vmap(lambda a, b: mmd(a, b, "rbf", SEVEN))(x, y)
    error = values.std().item() / math.sqrt(500)
    assert error < 0.01 * truth
    assert values.mean().item() == pytest.approx(truth, abs=4 * error)


def test_the_two_released_kernels_differ_by_a_factor_of_thirty_in_fifty_dimensions():
    """q = N(0, .3^2) against N(0, 1), by quadrature: 33.98 dimension-wise, 1.03 joint."""
    size, scale = 50, 0.3

    r = 0.005 * (np.arange(4_000) + 0.5)  # less than 1e-30 of the mass lies beyond 20
    shares = {width: stats.chi(width).pdf(r) for width in (1, size)}

    def expected(width, s, variance):
        """E C / (C + variance r^2) with r^2 chi-squared of `width` degrees of freedom."""
        c = 2 * width * s
        return np.average(c / (c + variance * r**2), weights=shares[width])

    def discrepancy(width, scales):
        variances = ((1, 2), (1, 2 * scale**2), (-2, 1 + scale**2))
        return sum(sign * expected(width, s, v) for s in scales for sign, v in variances)

    dimensionwise, joint = size * discrepancy(1, SEVEN[:6]), discrepancy(size, SEVEN)
    assert dimensionwise == pytest.approx(33.98, abs=0.02)
    assert joint == pytest.approx(1.031, abs=0.001)
    x, y = scale * normal(500, size), normal(500, size, seed=1)
    assert mmd(x, y, "imq-dimensionwise").item() == pytest.approx(dimensionwise, rel=0.03)
    assert mmd(x, y, "imq").item() == pytest.approx(joint, rel=0.03)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("kernel", KERNELS)
def test_coincident_points_have_finite_gradients(kernel, dtype):
    x = normal(4, 3, dtype=dtype)
    x = torch.cat([x, x[:1]])
    gradient = grad(lambda x: mmd(x, x.detach(), kernel, unbiased=False))(x)
    assert gradient.isfinite().all()
    one = torch.zeros(1, 3, dtype=dtype)
    assert not grad(lambda x: mmd(x, one, kernel, unbiased=False))(one).any()


@pytest.mark.parametrize("kernel", KERNELS)
def test_a_common_shift_changes_nothing_in_single_precision(kernel):
    """Distances as |x|^2 + |y|^2 - 2 x y lose all digits here."""
    x, y = (normal(30, 2, seed=seed, dtype=torch.float32) for seed in (0, 1))
    x, y = torch.round(x * 128) / 128, torch.round(y * 128) / 128  # so that shifting is exact
    shifted = mmd(x + 4096, y + 4096, kernel)
    torch.testing.assert_close(shifted, mmd(x, y, kernel), rtol=0, atol=1e-5)


@pytest.mark.parametrize("kernel", KERNELS)
def test_the_discrepancy_of_groups_is_the_sum_of_theirs(kernel):
    x, y = normal(6, 5), normal(7, 5, seed=1)
    groups = [slice(0, 2), [4, 2], (3,)]
    parts = mmd(x[:, :2], y[:, :2], kernel) + mmd(x[:, [2, 4]], y[:, [2, 4]], kernel)
    parts = parts + mmd(x[:, 3:4], y[:, 3:4], kernel)
    torch.testing.assert_close(mmd(x, y, kernel, groups=groups), parts)
    torch.testing.assert_close(mmd(x, y, kernel, groups=[slice(None)]), mmd(x, y, kernel))
    lanes = vmap(lambda a: mmd(a, y, kernel, groups=groups))(x[None])
    torch.testing.assert_close(lanes[0], mmd(x, y, kernel, groups=groups))


@pytest.mark.parametrize("kernel", KERNELS)
def test_kernel_constants_are_those_of_the_scales(kernel):
    x, y = normal(6, 3), normal(7, 3, seed=1)
    for scales in (None, (0.3, 4.0)):
        constants = kernel_constants(kernel, 3, scales)
        torch.testing.assert_close(
            mmd(x, y, kernel, constants=constants), mmd(x, y, kernel, scales), rtol=0, atol=0
        )


def test_a_constant_of_the_kernel_is_the_one_in_its_formula():
    x, y = torch.zeros(1, 2), torch.tensor([[3.0, 4.0]])
    for kernel, value in (("imq", 7 / 32), ("imq-unsquared", 7 / 12), ("rbf", math.exp(-25 / 7))):
        got = mmd(x, y, kernel, constants=7.0, unbiased=False)
        assert got.item() == pytest.approx(2 - 2 * value, rel=1e-6)
    divergence = uw.divergences.MMD(kernel="rbf", constants=(7.0,))
    assert divergence.constants == (7.0,)
    with pytest.raises(ValueError, match="got both"):
        uw.divergences.MMD(scales=(1.0,), constants=(7.0,))


@pytest.mark.parametrize("unbiased", [True, False])
@pytest.mark.parametrize("sizes", [(6, 7), (1, 2), (70, 45), (33, 64)])
def test_dimensionwise_is_the_joint_kernel_on_groups_of_one(sizes, unbiased):
    """With its gradients, for points that fit into one block and for more."""
    x, y = normal(max(sizes[0], 1 + unbiased), 3), normal(sizes[1], 3, seed=1)
    found = []
    for kernel, groups in (("imq-dimensionwise", None), ("imq", [[0], [1], [2]])):
        function = partial(mmd, kernel=kernel, scales=SEVEN, unbiased=unbiased, groups=groups)
        by_x, by_y = grad(function, (0, 1))(x, y)
        found.append((function(x, y), by_x, by_y))
    torch.testing.assert_close(*found, rtol=1e-12, atol=1e-12)


def test_dimensionwise_keeps_only_gradients_for_the_backward_pass():
    x, y = normal(40, 3).requires_grad_(), normal(50, 3, seed=1).requires_grad_()
    kept = []
    with saved_tensors_hooks(lambda t: kept.append(t.numel()) or t, lambda t: t):
        mmd(x, y, "imq-dimensionwise")
    assert sum(kept) == x.numel() + y.numel()


def test_dimensionwise_computes_in_float32_for_half_precision():
    x, y = (normal(40, 3, seed=seed).bfloat16() for seed in (0, 1))
    single = mmd(x.float(), y.float(), "imq-dimensionwise")
    assert torch.equal(mmd(x, y, "imq-dimensionwise"), single)
    with torch.autocast("cpu", torch.bfloat16):
        assert torch.equal(mmd(x.float(), y.float(), "imq-dimensionwise"), single)


def test_a_second_derivative_of_dimensionwise_is_an_error():
    x, y = normal(6, 3).requires_grad_(), normal(7, 3, seed=1)
    slope = partial(grad(partial(mmd, kernel="imq-dimensionwise")), y=y)
    with pytest.raises(NotImplementedError, match="use another kernel"):
        grad(lambda x: slope(x).square().sum())(x.detach())
    (gradient,) = torch.autograd.grad(mmd(x, y, "imq-dimensionwise"), x, create_graph=True)
    with pytest.raises(NotImplementedError, match="use another kernel"):
        gradient.square().sum().backward()


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
