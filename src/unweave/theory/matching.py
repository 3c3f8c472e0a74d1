"""Match latents to sources: the order and the signs with the smallest true inference error.

If x = A s + eta with noise 1, p(s|x) = N(G^-1 A^T x, G^-1) with G = A^T A + I, [Sikka2019]
eq. 19. For q(z|x) = N(m, diag v) and a signed permutation P of its latents, the mean over x of
KL(q(P z|x) || p(s|x)) is

1/2 tr(G P S P^T) - tr(P C) + 1/2 (E[x^T A G^-1 A^T x] - E[sum log v] - log det G - k)

with S = E[z z^T] = E[m m^T] + E[diag v] and C = E[m x^T A]. Finding the best P is a quadratic
assignment problem. If S is diagonal, as at the optimum of the linear model, the cost is a sum over
pairs (source, latent), the sign of each pair is free, and the best assignment is found exactly.
"""

import functools
import itertools
import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Values = NDArray[np.float64]

_ALL = 400  # try all signed permutations up to this many: those of four latents, not of five
_STARTS = 3  # random starts of the search among more, besides the best assignment
_ROUNDING = 1e-9  # relative: smaller correlations and gains count as 0
_SIGNS = np.array(list(itertools.product((1.0, -1.0), repeat=2)))  # signs of two latents


class Alignment(NamedTuple):
    """A match of latents to sources: source i is signs[i] times latent order[i]."""

    order: tuple[int, ...]
    signs: tuple[int, ...]


class Matching(NamedTuple):
    """A match of latents to sources, and its cost 1/2 tr(G P S P^T) - tr(P C)."""

    alignment: Alignment
    cost: float


class _Problem(NamedTuple):
    precision: Values  # G, (sources, sources)
    second: Values  # S, (latents, latents)
    cross: Values  # C, (latents, sources)

    def costs(self, orders: NDArray[np.int64], signs: Values) -> Values:
        """Return the costs of matches (M, k)."""
        moments = self.second[orders[:, :, None], orders[:, None]]
        moments = moments * signs[:, :, None] * signs[:, None]
        paired = self.cross[orders, np.arange(len(self.precision))] * signs
        costs: Values = 0.5 * np.einsum("ij,mij->m", self.precision, moments) - paired.sum(1)
        return costs


def match_latents(precision: Values, second: Values, cross: Values) -> Matching:
    """Find the match with the least 1/2 tr(G P S P^T) - tr(P C).  [Sikka2019] eq. 25, 27.

    precision: G over sources; second: S over latents; cross: C, latents by sources; (k, k) each.
    The result is exact if S is diagonal or k is at most 4. Otherwise a local search starts from the
    best assignment for diagonal S and from a few random ones, and exchanges two latents or their
    signs until nothing improves; its result is the optimum or close to it.

    >>> match_latents(np.eye(2), np.eye(2), np.array([[0.1, -0.75], [0.5, 0.0]]))
    Matching(alignment=Alignment(order=(1, 0), signs=(1, -1)), cost=-0.25)
    """
    problem, latents = _Problem(precision, second, cross), len(precision)
    scales = np.sqrt(np.outer(np.diag(second), np.diag(second)))
    uncorrelated = np.abs(second) <= _ROUNDING * scales
    first = _assign(problem)
    if uncorrelated[~np.eye(latents, dtype=bool)].all():
        candidates = [first]
    elif 2**latents * math.factorial(latents) <= _ALL:
        candidates = _signed_permutations(latents)
    else:
        rng = np.random.default_rng(0)
        starts = [(rng.permutation(latents), np.ones(latents)) for _ in range(_STARTS)]
        candidates = [_search(problem, *start) for start in (first, *starts)]
    orders, signs = (np.array(each) for each in zip(*candidates, strict=True))
    costs = problem.costs(orders, signs)
    best = int(costs.argmin())
    order, sign = orders[best].tolist(), signs[best].astype(int).tolist()
    return Matching(Alignment(tuple(order), tuple(sign)), float(costs[best]))


@functools.cache
def _signed_permutations(count: int) -> list[tuple[NDArray[np.int64], Values]]:
    orders = (np.array(order) for order in itertools.permutations(range(count)))
    signs = [np.array(sign) for sign in itertools.product((1.0, -1.0), repeat=count)]
    return list(itertools.product(orders, signs))


def _assign(problem: _Problem) -> tuple[NDArray[np.int64], Values]:
    """Return the best order and signs if latents were uncorrelated."""
    from scipy.optimize import linear_sum_assignment  # slow to load

    precision, second, cross = problem
    cost = 0.5 * np.outer(np.diag(precision), np.diag(second)) - np.abs(cross.T)
    _, order = linear_sum_assignment(cost)
    return order, np.where(cross[order, np.arange(len(order))] < 0, -1.0, 1.0)


def _search(
    problem: _Problem, order: NDArray[np.int64], signs: Values
) -> tuple[NDArray[np.int64], Values]:
    """Improve a match until no exchange of two latents or their signs lowers its cost."""
    while True:
        changes = _changes(problem, order, signs)
        swap, sign, i, j = np.unravel_index(changes.argmin(), changes.shape)
        here = problem.costs(order[None], signs[None])[0]
        if changes[swap, sign, i, j] >= -_ROUNDING * abs(here):
            return order, signs
        places, order, signs = [i, j], order.copy(), signs.copy()
        if swap:
            order[places], signs[places] = order[places[::-1]], signs[places[::-1]]
        signs[places] *= _SIGNS[sign]


def _changes(problem: _Problem, order: NDArray[np.int64], signs: Values) -> Values:
    """Return the changes of the cost if the latents of sources i < j get new signs, (2, 4, k, k).

    First with the latents in their places, then exchanged. With T = P S P^T and X_ij the moment of
    source i and the latent now matched to source j, all follow from G T and the diagonals.
    """
    g = problem.precision
    t = problem.second[np.ix_(order, order)] * np.outer(signs, signs)
    cross = (problem.cross[order] * signs[:, None]).T  # X
    product, both = g @ t, g * t
    a, b = _SIGNS.T[:, :, None, None]
    # Sums over all sources but i and j: of G_il T_il, and of G_il T_jl.
    own = (both.sum(1) - np.diag(both))[:, None] - both
    other = product - np.diag(g)[:, None] * t - g * np.diag(t)
    stays, comes, pair = own - np.diag(cross)[:, None], other - cross, (a * b - 1) * both
    levels = [np.subtract.outer(np.diag(each), np.diag(each)) for each in (g, t)]
    stay = (a - 1) * stays + (b - 1) * stays.T + pair
    swap = a * comes + b * comes.T - stays - stays.T - 0.5 * levels[0] * levels[1] + pair
    upper = np.triu(np.ones(t.shape, dtype=bool), 1)
    return np.where(upper, np.stack([stay, swap]), np.inf)
