"""Overlap of encodings and the match of q(z) and p(z): quadrature, closed forms and loops."""

import math

import numpy as np
import pytest
import torch
from scipy.stats import norm

import unweave as uw
from unweave import aggregate
from unweave.metrics import (
    mutual_information,
    overlapping_neighbours,
    prior_match,
    relative_scale,
    total_correlation,
)
from unweave.metrics.posterior import overlap as module

RNG = np.random.default_rng(3)
CODES = RNG.standard_normal((40, 2)) * [1.0, 0.4]
SCALES = np.exp(0.4 * RNG.standard_normal((40, 2))) * 0.3
GRID = np.linspace(-9, 9, 6001)


def densities(codes, scales):
    """q(z|x_n) of one code over the grid, (N, G)."""
    return norm.pdf(GRID, codes[:, None], scales[:, None])


def integral(values):
    return values.sum(-1) * (GRID[1] - GRID[0])


def information_on_a_grid(codes, scales):
    q = densities(codes, scales)
    log = np.log(np.maximum(q, 1e-300)) - np.log(np.maximum(q.mean(0), 1e-300))
    return integral(q * log).mean()


@pytest.mark.parametrize("j", [0, 1])
def test_information_of_one_code_matches_a_grid_and_its_bounds(j):
    codes, scales = CODES[:, [j]], SCALES[:, [j]]
    expected = information_on_a_grid(CODES[:, j], SCALES[:, j])
    score = mutual_information(codes, scales, samples=40_000)
    assert score.value == pytest.approx(expected, abs=0.02)
    assert score.details["lower"] < expected < score.details["upper"] < math.log(40)
    assert score.parts["code 0"] == pytest.approx(score.value, abs=1e-9)
    both = mutual_information(CODES, SCALES, samples=40_000)
    assert both.parts[f"code {j}"] == pytest.approx(expected, abs=0.02)
    assert score.value < both.value < math.log(40)


def test_bounds_by_pairs_match_quadrature():
    codes, scales = CODES[:, 0], SCALES[:, 0]
    q = densities(codes, scales)
    bhattacharyya = integral(np.sqrt(q[:, None] * q))
    log = np.log(np.maximum(q, 1e-300))
    kl = integral(q[:, None] * (log[:, None] - log))
    found = mutual_information(codes[:, None], scales[:, None], samples=10).details
    assert set(found) == {"rows", "log N", "lower", "upper"}
    pairs = module.pairs_of(codes[:, None], scales[:, None], 100, 0)
    assert pairs.lower == pytest.approx(-np.log(bhattacharyya.mean(1)).mean(), abs=1e-6)
    assert pairs.upper == pytest.approx(-np.log(np.exp(-kl).mean(1)).mean(), abs=1e-6)
    expected = (bhattacharyya.sum(1) - 1).mean()
    score = overlapping_neighbours(codes[:, None], scales[:, None])
    assert score.value == pytest.approx(expected, abs=1e-6)


def coefficient(m, s, n, t):
    """BC of two Gaussians with diagonal covariances, by the general formula of matrices."""
    middle = np.diag(s**2 + t**2) / 2
    distance = (m - n) @ np.linalg.inv(middle) @ (m - n) / 8
    roots = np.linalg.det(np.diag(s**2)) * np.linalg.det(np.diag(t**2))
    return math.exp(-distance - 0.5 * math.log(np.linalg.det(middle) / math.sqrt(roots)))


def test_neighbours_of_several_codes_by_loops(monkeypatch):
    expected = [
        sum(coefficient(CODES[n], SCALES[n], CODES[m], SCALES[m]) for m in range(40) if m != n)
        for n in range(40)
    ]
    score = overlapping_neighbours(CODES, SCALES)
    assert score.value == pytest.approx(np.mean(expected))
    assert list(score.parts.values()) == pytest.approx(
        [min(expected), np.median(expected), max(expected)]
    )
    for chunk in (7, 40, 41, 100):
        monkeypatch.setattr(module, "_CHUNK", chunk)
        assert overlapping_neighbours(CODES, SCALES).value == pytest.approx(score.value)
    few = overlapping_neighbours(CODES, SCALES, samples=15, seed=1)
    assert few.value == pytest.approx(score.value, rel=0.5)
    assert few.value == overlapping_neighbours(CODES, SCALES, samples=15, seed=1).value


def test_overlap_from_a_lookup_table_to_no_information():
    apart = np.arange(20.0)[:, None] * 1000
    ones = np.ones((20, 1))
    table, nothing = (mutual_information(z, ones, samples=500) for z in (apart, apart * 0))
    assert table.value == pytest.approx(math.log(20))
    assert table.details["lower"] == pytest.approx(math.log(20))
    assert nothing.value == pytest.approx(0.0, abs=1e-9)
    assert nothing.details["upper"] == pytest.approx(0.0, abs=1e-9)
    assert overlapping_neighbours(apart, ones).value == 0.0
    assert overlapping_neighbours(apart * 0, ones).value == pytest.approx(19)
    assert relative_scale(apart, ones).value < 1e-3
    assert relative_scale(apart * 0, ones).value == 1.0


def test_much_overlap_with_few_differs_from_little_with_many():
    """Pairs that coincide, which I(x; z) alone does not show; [Mathieu2019] sec. 3.1."""
    pairs = np.repeat(np.arange(10.0) * 100, 2)[:, None]
    score = overlapping_neighbours(pairs, np.ones((20, 1)))
    assert score.parts == pytest.approx({"least": 1.0, "median": 1.0, "most": 1.0})
    assert mutual_information(pairs, np.ones((20, 1)), samples=200).value == pytest.approx(
        math.log(10)
    )


def test_relative_scale_is_the_mean_scale_over_that_of_the_mixture():
    score = relative_scale(CODES, SCALES)
    for j in range(2):
        q = densities(CODES[:, j], SCALES[:, j]).mean(0)
        mean = integral(q * GRID)
        spread = math.sqrt(integral(q * (GRID - mean) ** 2))
        assert score.parts[f"code {j}"] == pytest.approx(SCALES[:, j].mean() / spread, abs=1e-6)
    assert relative_scale(CODES * 1e-3, SCALES * 1e-3).value == pytest.approx(score.value)


def test_total_correlation_of_a_mixture_on_a_grid():
    grid = np.linspace(-5, 5, 401)
    cell = (grid[1] - grid[0]) ** 2
    each = [norm.pdf(grid, CODES[:, [j]], SCALES[:, [j]]) for j in range(2)]
    joint = np.einsum("na,nb->ab", *each) / 40
    product = np.outer(each[0].mean(0), each[1].mean(0))
    expected = (joint * np.log(joint / product)).sum() * cell
    score = total_correlation(CODES, SCALES, samples=40_000)
    assert score.value == pytest.approx(expected, abs=0.02)
    assert score.value == total_correlation(CODES, SCALES, samples=40_000).value


def test_total_correlation_of_a_lattice_is_0():
    lattice = np.argwhere(np.ones((6, 7))).astype(float)
    score = total_correlation(lattice, np.full(lattice.shape, 0.3), samples=500)
    assert score.value == pytest.approx(0.0, abs=1e-9)
    alone = total_correlation(CODES[:, :1], SCALES[:, :1], samples=50)
    assert alone.value == 0.0


def test_dead_codes_add_nothing_to_information_and_neighbours():
    wider = np.column_stack([CODES, np.zeros(40)]), np.column_stack([SCALES, np.ones(40)])
    assert overlapping_neighbours(*wider).value == pytest.approx(
        overlapping_neighbours(CODES, SCALES).value
    )
    dead = mutual_information(*wider, samples=100)
    assert dead.parts["code 2"] == pytest.approx(0.0, abs=1e-12)


def test_divergences_from_the_prior_in_closed_form():
    mean, scale = np.full((3, 2), [[1.0, -0.5]]), np.full((3, 2), [[0.5, 2.0]])
    found = prior_match(mean, scale, samples=10_000, points=50)
    exclusive = sum(0.5 * (s**2 + m**2 - 1) - math.log(s) for m, s in ((1, 0.5), (-0.5, 2)))
    inclusive = sum((1 + m**2) / (2 * s**2) - 0.5 + math.log(s) for m, s in ((1, 0.5), (-0.5, 2)))
    # The standard errors of the two are 0.025 and 0.04.
    assert found["exclusive_kl/exact"].value == pytest.approx(exclusive, abs=0.08)
    assert found["inclusive_kl/exact"].value == pytest.approx(inclusive, abs=0.13)
    moments = 1.25 + (0.25 - 1) ** 2 + (4 - 1) ** 2
    assert found["moments/samples"].value == pytest.approx(moments, rel=0.05)
    # Along u, W_2^2 = (m . u)^2 + (sqrt(u S u) - 1)^2, over all directions of the plane.
    angle = np.linspace(0, 2 * np.pi, 1000, endpoint=False)
    u = np.stack([np.cos(angle), np.sin(angle)], 1)
    sliced = (u @ [1, -0.5]) ** 2 + (np.sqrt(u**2 @ [0.25, 4]) - 1) ** 2
    assert found["sliced_wasserstein/kolouri2018"].value == pytest.approx(sliced.mean(), rel=0.1)


def test_divergences_are_those_of_aggregate_and_vanish_at_the_prior():
    mean, scale = np.zeros((5, 3)), np.ones((5, 3))
    found = prior_match(mean, scale, samples=1000, points=300, seed=4)
    assert {key.split("/")[0] for key in found} == {
        "exclusive_kl", "inclusive_kl", "mmd", "moments", "sliced_wasserstein",
    }  # fmt: skip
    assert sum(key.startswith("mmd/") for key in found) == 4
    for key, score in found.items():
        floor = abs(score.details.get("of the prior itself", 1e-9))
        assert abs(score.value) <= 10 * floor + 0.02, key
    far = prior_match(mean + 2, scale / 2, samples=1000, points=300, seed=4)
    for key, score in far.items():
        assert score.value > 0.1, key
        assert score.value > 10 * abs(score.details.get("of the prior itself", 0)), key
    again = prior_match(mean + 2, scale / 2, samples=1000, points=300, seed=4)
    assert {k: s.value for k, s in again.items()} == {k: s.value for k, s in far.items()}
    x = torch.randn(500, 3, dtype=torch.float64) / 2 + 2
    y = torch.randn(500, 3, dtype=torch.float64)
    for kernel in ("imq", "imq-dimensionwise", "imq-unsquared", "rbf"):
        near = float(aggregate.mmd(x, y, kernel))
        assert far[f"mmd/{kernel}"].value == pytest.approx(near, rel=0.15)


def test_divergences_that_are_infinite_without_variance_are_left_out():
    found = prior_match(CODES, SCALES, prior=uw.StudentT(2, df=2.0), samples=50, points=50)
    assert {key.split("/")[0] for key in found} == {"exclusive_kl", "mmd"}
    sparse = prior_match(CODES, SCALES, prior=uw.Sparse(2), samples=50, points=50)
    assert len(sparse) == 8
    with pytest.raises(ValueError, match="expected a prior over 2 columns"):
        prior_match(CODES, SCALES, prior=uw.Sparse(3))


@pytest.mark.parametrize(
    "measure",
    [
        mutual_information,
        total_correlation,
        overlapping_neighbours,
        relative_scale,
        prior_match,
    ],
)
def test_bad_encodings_are_refused(measure):
    for codes, scales in (
        (CODES, SCALES[:3]),
        (CODES, -SCALES),
        (CODES * math.nan, SCALES),
        (CODES[:1], SCALES[:1]),
    ):
        with pytest.raises(ValueError, match="expected"):
            measure(codes, scales)
