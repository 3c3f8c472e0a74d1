"""The maximum mean discrepancy against loops, closed forms and quadrature."""

import math
from functools import partial

import numpy as np
import pytest
import torch
from scipy import stats
from torch.autograd.graph import saved_tensors_hooks
from torch.func import grad, vmap

import unweave as uw
from points import normal
from unweave.aggregate import kernel_constants, mmd

KERNELS = ["imq", "imq-dimensionwise", "imq-unsquared", "rbf"]
SEVEN = (0.1, 0.2, 0.5, 1, 2, 5, 10)


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
