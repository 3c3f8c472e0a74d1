"""Latents matched to sources, against all signed permutations as matrices."""

import itertools

import numpy as np
import pytest

from unweave.theory import match_latents, matching


def problem(latents, seed, diagonal=False):
    """G, S and C of sources that are mixed and of codes that are (or are not) correlated."""
    rng = np.random.default_rng(seed)
    a, b = rng.normal(size=(2, latents + 2, latents))
    second = np.diag(rng.uniform(0.2, 2, latents)) if diagonal else b.T @ b
    return a.T @ a + np.eye(latents), second, 3 * rng.normal(size=(latents, latents))


def permuted(order, signs):
    """P, whose row i is signs[i] at latent order[i]."""
    return np.diag(signs) @ np.eye(len(order))[list(order)]


def cost(p, precision, second, cross):
    return 0.5 * np.trace(precision @ p @ second @ p.T) - np.trace(p @ cross)


def every(latents):
    for order in itertools.permutations(range(latents)):
        for signs in itertools.product((1, -1), repeat=latents):
            yield permuted(order, signs)


@pytest.mark.parametrize("diagonal", [False, True])
@pytest.mark.parametrize("latents", [1, 2, 4])
def test_the_match_is_the_best_of_all_signed_permutations(latents, diagonal):
    given = problem(latents, latents, diagonal)
    found = match_latents(*given)
    assert found.cost == pytest.approx(min(cost(p, *given) for p in every(latents)))
    assert found.cost == pytest.approx(cost(permuted(*found.alignment), *given))


def test_uncorrelated_codes_are_matched_exactly_in_any_number():
    """One that is hidden, by an order and signs that are known, is found."""
    rng = np.random.default_rng(0)
    order, signs = rng.permutation(40), rng.choice([-1, 1], 40)
    p = permuted(order, signs)
    found = match_latents(np.eye(40), np.eye(40), p.T + 0.3 * rng.uniform(-1, 1, (40, 40)))
    assert found.alignment == (tuple(order), tuple(signs))


@pytest.mark.parametrize("seed", range(5))
def test_the_search_among_many_finds_the_best(seed, monkeypatch):
    given = problem(4, seed)
    best = match_latents(*given)  # of all
    monkeypatch.setattr(matching, "_ALL", 0)
    assert match_latents(*given).cost == pytest.approx(best.cost)


def test_no_exchange_improves_the_result_of_the_search():
    """Of seven latents; the start that assignment gives is bettered."""
    given = problem(7, 1)
    found = match_latents(*given)
    order, signs = np.array(found.alignment.order), np.array(found.alignment.signs)
    for i, j in itertools.combinations(range(7), 2):
        for places, turn in itertools.product(
            ([i, j], [j, i]), itertools.product((1, -1), repeat=2)
        ):
            other, turned = order.copy(), signs.copy()
            other[[i, j]], turned[[i, j]] = order[places], signs[places] * turn
            assert cost(permuted(other, turned), *given) >= found.cost - 1e-9
    assigned = match_latents(given[0], np.diag(np.diag(given[1])), given[2])
    assert found.cost < cost(permuted(*assigned.alignment), *given) - 0.1
