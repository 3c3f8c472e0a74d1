"""Latents matched to sources: the order and the signs with the smallest true inference error.

Where x = A s + eta with noise 1, p(s|x) = N(G^-1 A^T x, G^-1) with G = A^T A + I, [Sikka2019]
eq. 19. For q(z|x) = N(m, diag v) and a signed permutation P of its latents, the mean over x of
KL(q(P z|x) || p(s|x)) is

1/2 tr(G P S P^T) - tr(P C) + 1/2 (E[x^T A G^-1 A^T x] - E[sum log v] - log det G - k)

with S = E[z z^T] = E[m m^T] + E[diag v] and C = E[m x^T A]. Which P is best is a quadratic
assignment. Where S is diagonal, as at the optimum of the linear model, it is a sum over pairs
(source, latent), the sign of each pair is free, and the best assignment is found exactly.
"""

from __future__ import annotations

import functools
import itertools
import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Values = NDArray[np.float64]

_ALL = 400  # signed permutations that are all tried: those of four latents, and not of five
_STARTS = 3  # of the search among more, beside the best assignment
_ROUNDING = 1e-9  # relative: correlations that are none, gains that are none
_TURNS = np.array(list(itertools.product((1.0, -1.0), repeat=2)))  # signs of two latents


class Alignment(NamedTuple):
    """Latents matched to sources: source i is signs[i] times latent order[i]."""

    order: tuple[int, ...]
    signs: tuple[int, ...]


class Matching(NamedTuple):
    """A match of latents to sources, and 1/2 tr(G P S P^T) - tr(P C) of it."""

    alignment: Alignment
    cost: float


class _Problem(NamedTuple):
    precision: Values  # G, (sources, sources)
    second: Values  # S, (latents, latents)
    cross: Values  # C, (latents, sources)

    def costs(self, orders: NDArray[np.int64], signs: Values) -> Values:
        """What matches (M, k) cost."""
        turned = self.second[orders[:, :, None], orders[:, None]]
        turned = turned * signs[:, :, None] * signs[:, None]
        met = self.cross[orders, np.arange(len(self.precision))] * signs
        costs: Values = 0.5 * np.einsum("ij,mij->m", self.precision, turned) - met.sum(1)
        return costs


def matched(precision: Values, second: Values, cross: Values) -> Matching:
    """The match with the least 1/2 tr(G P S P^T) - tr(P C), (k, k) each.  [Sikka2019] eq. 25, 27.

    precision: G over sources; second: S over latents; cross: C, latents by sources. The best of all
    where S is diagonal, or k is 4 or less. Else the best assignment with S taken as diagonal and a
    few others are bettered by exchanges of two latents and their signs until none helps, which is
    the best or close above it.

    >>> matched(np.eye(2), np.eye(2), np.array([[0.1, -0.75], [0.5, 0.0]]))
    Matching(alignment=Alignment(order=(1, 0), signs=(1, -1)), cost=-0.25)
    """
    problem, latents = _Problem(precision, second, cross), len(precision)
    scales = np.sqrt(np.outer(np.diag(second), np.diag(second)))
    apart = np.abs(second) <= _ROUNDING * scales
    first = _assigned(problem)
    if apart[~np.eye(latents, dtype=bool)].all():
        found = [first]
    elif 2**latents * math.factorial(latents) <= _ALL:
        found = _every(latents)
    else:
        rng = np.random.default_rng(0)
        drawn = [(rng.permutation(latents), np.ones(latents)) for _ in range(_STARTS)]
        found = [_descent(problem, *start) for start in (first, *drawn)]
    orders, signs = (np.array(each) for each in zip(*found, strict=True))
    costs = problem.costs(orders, signs)
    best = int(costs.argmin())
    order, sign = orders[best].tolist(), signs[best].astype(int).tolist()
    return Matching(Alignment(tuple(order), tuple(sign)), float(costs[best]))


@functools.cache
def _every(count: int) -> list[tuple[NDArray[np.int64], Values]]:
    """All orders with all signs."""
    orders = (np.array(order) for order in itertools.permutations(range(count)))
    signs = [np.array(sign) for sign in itertools.product((1.0, -1.0), repeat=count)]
    return list(itertools.product(orders, signs))


def _assigned(problem: _Problem) -> tuple[NDArray[np.int64], Values]:
    """The best order and signs if latents were uncorrelated."""
    from scipy.optimize import linear_sum_assignment  # slow to load

    precision, second, cross = problem
    cost = 0.5 * np.outer(np.diag(precision), np.diag(second)) - np.abs(cross.T)
    _, order = linear_sum_assignment(cost)
    return order, np.where(cross[order, np.arange(len(order))] < 0, -1.0, 1.0)


def _descent(
    problem: _Problem, order: NDArray[np.int64], signs: Values
) -> tuple[NDArray[np.int64], Values]:
    """A match that no exchange of two latents and their signs betters."""
    while True:
        changes = _changes(problem, order, signs)
        swap, turn, i, j = np.unravel_index(changes.argmin(), changes.shape)
        here = problem.costs(order[None], signs[None])[0]
        if changes[swap, turn, i, j] >= -_ROUNDING * abs(here):
            return order, signs
        places, order, signs = [i, j], order.copy(), signs.copy()
        if swap:
            order[places], signs[places] = order[places[::-1]], signs[places[::-1]]
        signs[places] *= _TURNS[turn]


def _changes(problem: _Problem, order: NDArray[np.int64], signs: Values) -> Values:
    """What the cost changes by if the latents of two sources i < j get signs, (2, 4, k, k).

    First where they stay with their sources, then where they are exchanged. With T = P S P^T and
    X_ij what latent j, as it stands, has of source i, all follow from G T and from the diagonals.
    """
    g = problem.precision
    t = problem.second[np.ix_(order, order)] * np.outer(signs, signs)
    met = (problem.cross[order] * signs[:, None]).T  # X
    product, both = g @ t, g * t
    a, b = _TURNS.T[:, :, None, None]
    # Sums over all sources but i and j: of G_il T_il, and of G_il T_jl.
    kept = (both.sum(1) - np.diag(both))[:, None] - both
    given = product - np.diag(g)[:, None] * t - g * np.diag(t)
    stays, comes, pair = kept - np.diag(met)[:, None], given - met, (a * b - 1) * both
    levels = [np.subtract.outer(np.diag(each), np.diag(each)) for each in (g, t)]
    stay = (a - 1) * stays + (b - 1) * stays.T + pair
    swap = a * comes + b * comes.T - stays - stays.T - 0.5 * levels[0] * levels[1] + pair
    upper = np.triu(np.ones(t.shape, dtype=bool), 1)
    return np.where(upper, np.stack([stay, swap]), np.inf)
