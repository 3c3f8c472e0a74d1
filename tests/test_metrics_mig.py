"""MIG: information against plain loops over its formulas, mixtures against scipy."""

import math
from collections import Counter
from importlib import import_module

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import norm

from lattice_tables import SIZES, TABLES, identity, lattice
from unweave.metrics import mig, mutual_information_matrix
from unweave.metrics.information import (
    discretise,
    entropy,
    mutual_information,
    top_gap,
)
from unweave.metrics.mig import _mixture_information, mixture_density


def test_entropy_and_mutual_information():
    rng = np.random.default_rng(0)
    a = rng.integers(4, size=300)
    b = (a + rng.integers(2, size=300)) % 5
    n, joint, pa, pb = len(a), Counter(zip(a, b, strict=True)), Counter(a), Counter(b)
    expected = sum(c / n * math.log(c * n / (pa[i] * pb[j])) for (i, j), c in joint.items())
    assert mutual_information(a, b) == pytest.approx(expected, rel=1e-12)
    assert mutual_information(a, b) == pytest.approx(mutual_information(b, a), rel=1e-12)
    assert entropy(a) == pytest.approx(-sum(c / n * math.log(c / n) for c in pa.values()))
    assert mutual_information(a, a) == pytest.approx(entropy(a), rel=1e-12)
    assert mutual_information(a, np.zeros_like(a)) == 0.0


def test_discretise_is_numpy_histogram():
    code = np.random.default_rng(1).standard_normal(500)
    counts, edges = np.histogram(code, 20)
    bins = discretise(code, 20)
    np.testing.assert_array_equal(np.bincount(bins, minlength=20), counts)
    for number, which in zip(code, bins, strict=True):
        assert edges[which] <= number <= edges[which + 1]
    assert set(discretise(np.full(5, 2.5), 20)) == {10}


@pytest.mark.parametrize("base", TABLES, ids=lambda made: made.__name__)
def test_mig_locatello_by_loops(base):
    base = base()
    gaps = []
    for k in range(3):
        shared = []
        for j in range(base.codes.shape[1]):
            low, high = base.codes[:, j].min(), base.codes[:, j].max()
            bins = [min(int((z - low) / (high - low) * 20), 19) for z in base.codes[:, j]]
            pairs = Counter(zip(bins, base.factors[:, k].tolist(), strict=True))
            n, values = len(bins), Counter(base.factors[:, k].tolist())
            total = Counter(bins)
            shared.append(
                sum(c / n * math.log(c * n / (total[b] * values[v])) for (b, v), c in pairs.items())
            )
        first, second = sorted(shared)[:-3:-1]
        gaps.append((first - second) / math.log(SIZES[k]))
    score = mig(base.codes, base.factors, protocol="locatello2019")
    assert float(score) == pytest.approx(sum(gaps) / 3, abs=1e-9)
    assert list(score.parts.values()) == pytest.approx(gaps, abs=1e-9)
    np.testing.assert_allclose(mutual_information_matrix(base.codes, base.factors), score.matrix)


def test_top_gap():
    matrix = np.array([[0.1, 0.5, 0.0], [0.7, 0.5, 0.0], [0.3, 0.2, 0.4]])
    np.testing.assert_allclose(top_gap(matrix), [0.4, 0.0, 0.4])
    np.testing.assert_allclose(top_gap(matrix[:1]), [0.1, 0.5, 0.0])


def test_matrix_is_codes_by_factors():
    # disentangling-vae reads the transpose, and its MIG is near 0 for every model (YD#64).
    factors = lattice((3, 7), repeats=5)
    score = mutual_information_matrix(factors[:, [1, 0, 1]] * 1.0, factors)
    np.testing.assert_allclose(score, [[0, 1], [1, 0], [0, 1]], atol=1e-12)


def test_single_valued_factor_has_a_column_of_zeros():
    factors = np.column_stack([lattice((5,), repeats=3), np.ones(15, int)])
    np.testing.assert_allclose(mutual_information_matrix(factors * 1.0, factors), [[1, 0], [0, 0]])


def test_one_code_scores_one_factor_and_constant_codes_none():
    base = identity()
    score = mig(base.codes[:, :1], base.factors)
    assert list(score.parts.values()) == pytest.approx([1, 0, 0], abs=1e-9)
    assert float(mig(np.full((480, 3), 0.1), base.factors)) == 0.0


# Mixtures, against scipy.


def a_mixture(rows=30):
    rng = np.random.default_rng(5)
    factors = np.column_stack([np.arange(rows) % 2, np.arange(rows) % 3])
    means = factors[:, 0] * 1.5 + 0.5 * rng.standard_normal(rows)
    return means, rng.uniform(0.1, 0.8, rows), factors


def test_mixture_density(monkeypatch):
    mean, scale, _ = a_mixture()
    z = np.linspace(-3, 4, 101)
    expected = norm.pdf(z[:, None], mean, scale).mean(1)
    np.testing.assert_allclose(mixture_density(z, mean, scale), expected, rtol=1e-12)
    monkeypatch.setattr(import_module("unweave.metrics.mig"), "_CHUNK", 70)
    np.testing.assert_allclose(mixture_density(z, mean, scale), expected, rtol=1e-12)


@pytest.mark.parametrize("scale", ["equal", "unequal", "few narrow", "narrow"])
def test_mixture_density_of_many_points(scale):
    """Where it pays, most of the sum is taken on a grid."""
    rng = np.random.default_rng(0)
    mean = rng.standard_normal(1500)
    scales = {
        "equal": np.full(1500, 0.1),
        "unequal": np.exp(rng.normal(-2, 0.7, 1500)),
        "few narrow": np.where(rng.random(1500) < 0.1, 1e-4, 0.3),
        "narrow": np.full(1500, 1e-5),
    }[scale]
    of = rng.integers(1500, size=2000)
    z = mean[of] + scales[of] * rng.standard_normal(2000)
    z[:3] = [-9.0, 9.0, mean[0] + 7 * scales[0]]  # far out, where only few are to be felt
    expected = norm.pdf(z[:, None], mean, scales).mean(1)
    np.testing.assert_allclose(mixture_density(z, mean, scales), expected, rtol=1e-6)


def quadrature_entropy(mean, scale):
    def integrand(z):
        q = norm.pdf(z, mean, scale).mean()
        return -q * math.log(q) if q > 0 else 0.0

    return quad(integrand, -8, 10, limit=400)[0]


def test_mixture_information_is_the_integral():
    mean, scale, factors = a_mixture()
    expected = []
    for k, size in enumerate((2, 3)):
        groups = [factors[:, k] == value for value in range(size)]
        given = sum(g.mean() * quadrature_entropy(mean[g], scale[g]) for g in groups)
        expected.append(quadrature_entropy(mean, scale) - given)
    rows = np.tile(np.arange(30), 2000)
    z = mean[rows] + scale[rows] * np.random.default_rng(0).standard_normal(len(rows))
    got = _mixture_information(z, rows, mean, scale, factors)
    np.testing.assert_allclose(got, expected, atol=0.005)
    score = mig(mean[:, None], factors, protocol="chen2018", scales=scale[:, None], samples=60_000)
    np.testing.assert_allclose(score.matrix[0], expected / np.log([2, 3]), atol=0.01)


def test_narrow_posteriors_have_all_the_information_of_the_table():
    # Every draw names its row, so I(z; v) = H(v); float32 would lose such scales to rounding.
    codes = np.linspace(100, 101, 60)[:, None]
    score = mig(codes, lattice((3, 4, 5)), protocol="chen2018", scales=np.full((60, 1), 1e-9))
    np.testing.assert_allclose(score.matrix, 1.0, atol=1e-3)


def test_wide_posteriors_have_no_information():
    codes = identity().codes
    score = mig(codes, identity().factors, protocol="chen2018", scales=np.full((480, 3), 100.0))
    assert score.matrix.max() < 0.01


def test_discrete_codes_under_chen():
    base = identity()
    score = mig(
        base.codes,
        base.factors,
        protocol="chen2018",
        scales=np.full((480, 3), 50.0),
        discrete=[True, True, False],
    )
    assert list(score.parts.values())[:2] == pytest.approx([1.0, 1.0])
    assert score.parts["factor 2"] < 0.01
