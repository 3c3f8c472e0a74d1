"""The true inference error of any encoder, with latents matched to sources.  [Sikka2019].

The mean over x of KL(q(P z|x) || p(s|x)) for the best signed permutation P of the latents, and
without one, as in eq. 25 and 27; `unweave.theory.matching` has the formula.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from unweave.studies.drawing import Values
from unweave.theory import match_latents


class Truth(NamedTuple):
    """The sources of observations: A (N, k), and A s + eta of each observation, (n, N)."""

    loadings: Values
    seen: Values


class Errors(NamedTuple):
    """True inference errors: the smallest over orders and signs of latents, and unmatched."""

    aligned: float
    printed: float


def inference_errors(mean: Values, variance: Values, truth: Truth) -> Errors:
    """Return the true inference errors of q(z|x) with mean and variance (n, k), in nats.

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
        float(match_latents(precision, second, cross).cost + rest),
        float(as_is + rest),
    )
