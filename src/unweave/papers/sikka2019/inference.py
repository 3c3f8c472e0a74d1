"""The true inference error of encoders of any kind, with latents matched to sources.  [Sikka2019].

Where x = A s + eta with noise 1, p(s|x) = N(G^-1 A^T x, G^-1) with G = A^T A + I, eq. 19. For
q(z|x) = N(m, diag v) and a signed permutation P of its latents, the mean over x of
KL(q(P z|x) || p(s|x)) is

1/2 tr(G P S P^T) - tr(P E[m x^T A]) + 1/2 (E[x^T A G^-1 A^T x] - E[sum log v] - log det G - k)

with S = E[z z^T] = E[m m^T] + E[diag v]. Which P is best is a quadratic assignment: of few latents
all are tried; of more, the best assignment with S taken as diagonal (which it is at the optimum of
the linear model) and a few others are bettered by exchanges until none helps.
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


class Truth(NamedTuple):
    """What is known of where observations come from: A (N, k), and A s + eta of each, (n, N)."""

    loadings: Values
    seen: Values


class Errors(NamedTuple):
    """True inference errors: the smallest over orders and signs of latents, and as they stand."""

    aligned: float
    printed: float


def inference_errors(mean: Values, variance: Values, truth: Truth) -> Errors:
    """True inference errors of q(z|x) with mean and variance (n, k) of the observations, in nats.

    >>> a, x = np.eye(3, 2), np.ones((1, 3))
    >>> inference_errors(np.array([[0.5, -0.5]]), np.full((1, 2), 0.5), Truth(a, x))
    Errors(aligned=0.0, printed=1.0)
    """
    a, x = truth
    size, latents = mean.shape
    precision = a.T @ a + np.eye(latents)
    pulled = x @ a  # A^T x of each, (n, k)
    second = mean.T @ mean / size + np.diag(variance.mean(0))
    cross = mean.T @ pulled / size  # (latent, source)
    known = np.sum(pulled * np.linalg.solve(precision, pulled.T).T) / size
    spread = np.log(variance).sum(1).mean() + np.linalg.slogdet(precision)[1] + latents
    rest = 0.5 * (known - spread)
    as_is = 0.5 * np.sum(precision * second) - np.trace(cross)
    return Errors(
        float(smallest(precision, second, cross) + rest),
        float(as_is + rest),
    )


def smallest(precision: Values, second: Values, cross: Values) -> float:
    """The least 1/2 tr(G P S P^T) - tr(P C) over signed permutations P, or close above it."""
    latents = len(precision)
    if 2**latents * math.factorial(latents) <= _ALL:
        orders = np.array(list(itertools.permutations(range(latents))))
        signs = np.array(list(itertools.product((1.0, -1.0), repeat=latents)))
        pairs = np.repeat(orders, len(signs), 0), np.tile(signs, (len(orders), 1))
        return float(_costs(*pairs, precision, second, cross).min())
    rng = np.random.default_rng(0)
    drawn = [(rng.permutation(latents), np.ones(latents)) for _ in range(_STARTS)]
    starts = [_assigned(precision, second, cross), *drawn]
    return min(_descent(*start, precision, second, cross) for start in starts)


def _descent(
    order: NDArray[np.int64], sign: Values, precision: Values, second: Values, cross: Values
) -> float:
    """What is left when no exchange helps."""
    least = math.inf
    while True:
        orders, signs = _exchanges(order, sign)
        costs = _costs(orders, signs, precision, second, cross)
        best = int(costs.argmin())
        if costs[best] >= least - 1e-9 * abs(least):
            return least
        least, order, sign = float(costs[best]), orders[best], signs[best]


def _costs(
    orders: NDArray[np.int64], signs: Values, precision: Values, second: Values, cross: Values
) -> Values:
    """What candidates (M, k) cost: source i is signs[i] times latent orders[i]."""
    turned = second[orders[:, :, None], orders[:, None]] * signs[:, :, None] * signs[:, None]
    met = cross[orders, np.arange(len(precision))] * signs
    costs: Values = 0.5 * np.einsum("ij,mij->m", precision, turned) - met.sum(1)
    return costs


def _assigned(precision: Values, second: Values, cross: Values) -> tuple[NDArray[np.int64], Values]:
    """The best order and signs if latents were uncorrelated."""
    from scipy.optimize import linear_sum_assignment  # slow to load

    cost = 0.5 * np.outer(np.diag(precision), np.diag(second)) - np.abs(cross.T)
    _, order = linear_sum_assignment(cost)
    return order, np.where(cross[order, np.arange(len(order))] < 0, -1.0, 1.0)


def _exchanges(order: NDArray[np.int64], sign: Values) -> tuple[NDArray[np.int64], Values]:
    """A candidate itself, and what an exchange of two latents with any of their signs makes."""
    swaps, flips = _pairs(len(order))
    return order[swaps], sign[swaps] * flips


@functools.cache
def _pairs(count: int) -> tuple[NDArray[np.int64], Values]:
    """Where the latents of all candidates come from, and how their signs change, (M, count)."""
    swaps, flips = [np.arange(count)], [np.ones(count)]
    for i, j in itertools.combinations(range(count), 2):
        for places, signs in itertools.product(
            ([i, j], [j, i]), itertools.product((1.0, -1.0), repeat=2)
        ):
            swap, flip = np.arange(count), np.ones(count)
            swap[[i, j]], flip[[i, j]] = places, signs
            swaps.append(swap)
            flips.append(flip)
    return np.array(swaps), np.array(flips)
