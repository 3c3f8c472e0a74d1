"""The FactorVAE score: its pieces against plain loops, its votes, and which codes are pruned."""

import importlib
import math

import numpy as np
import pytest

from lattice_tables import (
    SIZES,
    TABLES,
    blurred,
    duplicated,
    identity,
    lattice,
    with_columns,
)
from unweave.metrics import factor_vae_score
from unweave.metrics.factor_vae_score import (
    _correct_votes,
    draw_fixed_factor_rows,
    variance,
)
from unweave.metrics.fixed_factors import combinations_missing, group_rows
from unweave.metrics.inputs import read


@pytest.mark.parametrize("discrete", [False, True])
def test_variance_by_loops(discrete):
    values = np.random.default_rng(0).integers(4, size=(5, 12)).astype(float)
    for row, got in zip(values, variance(values, discrete), strict=True):
        size = len(row)
        total = sum(float(a != b) if discrete else (a - b) ** 2 for a in row for b in row)
        assert got == pytest.approx(total / (2 * size * (size - 1)), rel=1e-12)


def test_equal_values_have_a_variance_of_exactly_0():
    assert variance(np.full((1, 100), 0.1), False)[0] == 0.0
    assert variance(np.full((1, 100), 3.0), True)[0] == 0.0


def test_majority_vote_by_loops():
    rng = np.random.default_rng(0)
    train, test = rng.integers(20, size=(2, 6, 4))
    right = [0, 0, 0, 0]
    for j in range(6):
        best = max(range(4), key=lambda k: train[j, k])
        right[best] += test[j, best]
    np.testing.assert_array_equal(_correct_votes(test, train), right)


def test_rows_of_a_vote_share_the_factor():
    factors = np.random.default_rng(0).integers(5, size=(60, 3))
    factors[0, 0] = 9  # occurs once, so it is never fixed
    dense = read(np.ones((60, 1)), factors).factors
    groups = {k: group_rows(dense[:, k]) for k in (0, 2)}
    chosen, rows = draw_fixed_factor_rows(groups, 2000, 7, np.random.default_rng(1))
    assert set(chosen) == {0, 2}
    assert (chosen == 0).mean() == pytest.approx(0.5, abs=0.05)
    for k, vote in zip(chosen, rows, strict=True):
        assert len(set(factors[vote, k])) == 1
    assert 9 not in factors[rows[chosen == 0], 0]
    # Values come as often as they occur, and rows of one value equally often.
    drawn = np.bincount(rows[chosen == 2].ravel(), minlength=60) / rows[chosen == 2].size
    np.testing.assert_allclose(drawn, 1 / 60, atol=0.006)


def test_combinations_missing():
    factors = lattice((3, 4, 5))
    assert combinations_missing(read(np.ones((60, 1)), factors), [0, 1, 2]) == 0
    assert combinations_missing(read(np.ones((53, 1)), factors[7:]), [0, 1, 2]) == 7


def factor_vae_by_drawing_factors(codes, sizes, batch, votes, rng):
    """The original definition: fix a factor, draw the others uniformly, encode, vote."""
    scale = codes.reshape(-1, codes.shape[-1]).std(0)
    tally = np.zeros((codes.shape[-1], len(sizes)), int)
    for _ in range(votes):
        k = rng.integers(len(sizes))
        drawn = [rng.integers(size, size=batch) for size in sizes]
        drawn[k][:] = drawn[k][0]
        normalised = codes[tuple(drawn)] / scale
        tally[normalised.var(0).argmin(), k] += 1
    return sum(max(row) for row in tally) / votes


@pytest.mark.parametrize("base", TABLES, ids=lambda made: made.__name__)
@pytest.mark.parametrize("protocol", ["kim2018", "locatello2019"])
def test_factor_vae_score_on_a_full_lattice_is_the_original_definition(base, protocol):
    codes = base().codes[: math.prod(SIZES)]
    expected = factor_vae_by_drawing_factors(
        codes.reshape(*SIZES, -1), SIZES, 20, 3000, np.random.default_rng(0)
    )
    score = factor_vae_score(codes, lattice(), protocol=protocol, batch=20, votes=3000)
    assert (0.4 < expected < 0.99) == (base not in (identity, duplicated))
    assert float(score) == pytest.approx(expected, abs=0.04)
    assert score.details["combinations missing"] == 0


def test_factor_vae_score_counts_all_votes():
    score = factor_vae_score(blurred().codes, blurred().factors)
    assert score.matrix.sum() == 800
    assert float(score) == score.matrix.max(1).sum() / 800 == score.details["training accuracy"]
    locatello = factor_vae_score(blurred().codes, blurred().factors, protocol="locatello2019")
    assert locatello.matrix.sum() == 10_000
    assert float(locatello) != locatello.details["training accuracy"]


@pytest.mark.parametrize("protocol", ["kim2018", "locatello2019"])
def test_factor_vae_score_needs_all_factors(protocol):
    # The failure of the score of [Higgins2017]: K - 1 codes give a perfect classifier of K factors.
    base = identity()
    score = factor_vae_score(base.codes[:, :2], base.factors, protocol=protocol)
    assert float(score) == pytest.approx(2 / 3, abs=0.05)


def test_pruning():
    base = with_columns(identity(), identity().codes[:, [0]] * 0.01, np.ones(480))
    # The tiny copy of code 0 wins no vote if it is pruned, and ties with code 0 if it is not.
    by_std = factor_vae_score(base.codes, base.factors)
    assert by_std.details["active"] == 3
    assert by_std.details["pruned"] == [3]
    by_kl = factor_vae_score(base.codes, base.factors, kl=[0.001, 2.0, 2.0, 0.5])
    assert by_kl.details["pruned"] == [0]
    assert by_kl.details["pruned by"] == "kl < 0.01"
    assert by_kl.matrix[0].sum() == 0
    assert by_kl.matrix[3].sum() > 0
    unread = factor_vae_score(base.codes, base.factors, kl=np.zeros(4), protocol="locatello2019")
    assert unread.details["active"] == 3
    none = factor_vae_score(base.codes, base.factors, kl=np.zeros(4))
    assert float(none) == 0.0
    assert none.details["active"] == 0
    assert "0 by definition" in none.details["note"]


def test_constant_code_is_pruned_whatever_its_kl():
    base = with_columns(identity(), np.full(480, 0.1), np.ones(480))
    score = factor_vae_score(base.codes, base.factors, kl=[5.0] * 4)
    assert score.details["pruned"] == [3]
    assert float(score) == 1.0


def test_votes_do_not_depend_on_chunks(monkeypatch):
    base = blurred()
    at_once = factor_vae_score(base.codes, base.factors)
    monkeypatch.setattr(importlib.import_module("unweave.metrics.factor_vae_score"), "_CHUNK", 1000)
    assert float(factor_vae_score(base.codes, base.factors)) == pytest.approx(
        float(at_once), abs=0.05
    )


def test_mathieu2019_prunes_constant_codes_only():
    base = with_columns(identity(), identity().codes[:, [0]] * 0.01, np.ones(480))
    score = factor_vae_score(base.codes, base.factors, protocol="mathieu2019", votes=600)
    assert score.details["pruned"] == []
    assert score.details["pruned by"] == "constant"
    assert score.matrix.sum() == 600
    assert float(score) == score.details["training accuracy"] == 1.0
    dead = with_columns(identity(), np.full(480, 0.1), np.ones(480))
    dead = factor_vae_score(dead.codes, dead.factors, protocol="mathieu2019", votes=600)
    assert dead.details["pruned"] == [3]
