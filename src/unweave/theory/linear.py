"""The linear beta-VAE that can be solved: data, optimum and all its terms in closed form.

Sources s ~ N(0, I_k) are mixed and noise is added, x = A s + eta, [Sikka2019] eq. 17; encoder and
decoder are linear, eq. 20. What the paper finds by solving eq. 23 numerically has a closed form,
that of probabilistic PCA [Tipping1999] with noise variance beta: with L = E[log p(x|z)] - beta KL,
max over q of L is beta E[log N(x; 0, D D^T + beta I)] up to a constant, which is largest at
D = U diag(lambda - beta)_+^(1/2), (lambda, U) the leading eigenpairs of Sigma_x. Any rotation of D
would do as well, but a diagonal q reaches the maximum over q only where D^T D is diagonal.

All is in float64 and in nats with all constants, and no N x N matrix is ever made.

Corrected here: eq. 38 of the paper drops a factor of 1/2, eq. 23 and 46 print one exponent with a
wrong index, and eq. 58 and 59 write p(x|z) and D D^T + I_N where p(z|x) and D^T D + I_k are meant;
eq. 24 is right.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray

from unweave.noise import Noise

Matrix = NDArray[np.float64]

_LOG_2PI = math.log(2 * math.pi)


class Alignment(NamedTuple):
    """Latents matched to sources: source i is signs[i] times latent order[i]."""

    order: tuple[int, ...]
    signs: tuple[int, ...]


class Residuals(NamedTuple):
    """The largest magnitude in each of the four lines of [Sikka2019] eq. 23, 0 at an optimum."""

    encoder: float  # of W^mu
    decoder: float  # of D
    slopes: float  # of W^sigma, which is 0
    log_variances: float  # of b^sigma


@dataclass(frozen=True, eq=False)
class Solution:
    """An optimum of the linear beta-VAE, and what it is worth on average over the data.

    q(z|x) = N(W x, diag(v)), p(x|z) = N(D z, noise^2 I), p(z) = N(0, I). Biases are 0, and the
    variances v do not depend on x (W^sigma = 0).
    """

    mixing: Matrix = field(repr=False)  # A, (N, k)
    beta: float
    noise: float  # standard deviation of eta, and of p(x|z)
    decoder: Matrix = field(repr=False)  # D, (N, k)
    encoder: Matrix = field(repr=False)  # W, (k, N)
    log_variances: Matrix = field(repr=False)  # log v, (k,)
    thresholds: Matrix = field(repr=False)  # the beta at which each latent dies, (k,)

    @property
    def active(self) -> NDArray[np.bool_]:
        """Which latents carry anything: those whose threshold is above beta, (k,)."""
        return self.thresholds > self.beta

    @cached_property
    def reconstruction(self) -> float:
        """E[log p(x|z)]: what the decoder's Gaussian makes of eq. 38, with its constants."""
        d, w, a = self._d, self._w, self._a
        size = len(d)
        # tr[(DW - I) Sigma (DW - I)^T] with Sigma = A A^T + I, without an N x N matrix.
        signal = np.square(d @ (w @ a) - a).sum()
        rest = size - 2 * np.trace(w @ d) + np.sum((d.T @ d) * (w @ w.T))
        spread = np.square(d).sum(0) @ self._v
        constant = size * (_LOG_2PI + 2 * math.log(self.noise))
        return float(-0.5 * (constant + signal + rest + spread))

    @cached_property
    def rate(self) -> float:
        """E[KL(q(z|x) || p(z))], the conditional independence loss, eq. 39."""
        second = np.trace(self._codes)
        return float(0.5 * (second + np.sum(self._v - 1 - self.log_variances)))

    @property
    def elbo(self) -> float:
        """E[log p(x|z)] - KL, eq. 5."""
        return self.reconstruction - self.rate

    @property
    def objective(self) -> float:
        """E[log p(x|z)] - beta KL, eq. 6."""
        return self.reconstruction - self.beta * self.rate

    @cached_property
    def log_likelihood(self) -> float:
        """E[log p(x)] under the model, p(x) = N(0, D D^T + noise^2 I), eq. 57."""
        d, a = self._d, self._a
        size, precision = len(d), _precision(d)
        # Of C = D D^T + I: log det C = log det(D^T D + I), C^-1 = I - D (D^T D + I)^-1 D^T.
        dx = np.concatenate([d.T @ a, d.T], 1)  # D^T times a root of Sigma, (k, k + N)
        fitted = np.sum(dx * np.linalg.solve(precision, dx))
        total = np.square(a).sum() + size - fitted
        constant = size * (_LOG_2PI + 2 * math.log(self.noise))
        return float(-0.5 * (constant + np.linalg.slogdet(precision)[1] + total))

    @cached_property
    def mie(self) -> float:
        """Model inference error E[KL(q(z|x) || p(z|x))], eq. 2 by eq. 25 and 26."""
        return self._inference_error(self._d)

    @cached_property
    def tie(self) -> float:
        """True inference error E[KL(q(z|x) || p(s|x))], eq. 3 by eq. 25 and 27, as printed.

        It takes latent i for source i, though no model can know the order and the signs of sources;
        `tie_aligned` asks for the best of them. Latents stand here by falling threshold, each with
        the sign that makes the largest entry of its column of D positive.
        """
        return self._inference_error(self._a)

    @cached_property
    def alignment(self) -> Alignment:
        """The order and signs of latents with the smallest true inference error.

        With z' = P z for a signed permutation P, and G = A^T A + I (noise 1), eq. 25 depends on P
        through 1/2 tr(G P V P^T) + 1/2 tr(G P C P^T) - tr(P W Sigma A), where V = diag(v) and
        C = W Sigma W^T. At the optimum C is diagonal too, so all three are sums over pairs (source,
        latent) and the best P is an assignment, with the sign of each pair free.
        """
        from scipy.optimize import linear_sum_assignment  # slow to load

        codes = np.diag(self._codes)
        cross = (self._w @ self._a) @ (self._a.T @ self._a) + self._w @ self._a  # (latent, source)
        cost = 0.5 * np.outer(np.diag(_precision(self._a)), self._v + codes) - np.abs(cross.T)
        _, order = linear_sum_assignment(cost)
        signs = np.where(cross[order, np.arange(len(order))] < 0, -1, 1)
        return Alignment(tuple(order.tolist()), tuple(signs.tolist()))

    @cached_property
    def tie_aligned(self) -> float:
        """True inference error, the smallest over all orders and signs of the latents."""
        order = list(self.alignment.order)
        signs = np.array(self.alignment.signs)
        return self._inference_error(self._a, signs[:, None] * self._w[order], order)

    @cached_property
    def residuals(self) -> Residuals:
        """How far eq. 23 is from holding, in units in which the noise is 1."""
        d, w, a, v = self._d, self._w, self._a, self._v
        gap = (d.T @ d) @ w - d.T + self.beta * w  # (k, N)
        errors = d @ (w @ a) - a
        first = (gap @ a) @ a.T + gap
        second = errors @ (w @ a).T + d @ (w @ w.T) - w.T + d * v
        last = (np.square(d).sum(0) + self.beta) * v - self.beta
        return Residuals(_largest(first), _largest(second), 0.0, _largest(last))

    def _inference_error(
        self, loadings: Matrix, encoder: Matrix | None = None, order: Sequence[int] | None = None
    ) -> float:
        """Eq. 25 against the posterior of x = loadings z + eta."""
        w = self._w if encoder is None else encoder
        v = self._v if order is None else self._v[order]
        precision = _precision(loadings)  # E^-1
        shift = np.linalg.solve(precision, loadings.T) - w  # F - W, (k, N)
        root = np.concatenate([shift @ self._a, shift], 1)  # times a root of Sigma
        distance = np.sum(root * (precision @ root))
        spread = np.diag(precision) @ v - np.log(v).sum() - np.linalg.slogdet(precision)[1]
        return float(0.5 * (spread + distance - len(v)))

    @property
    def _codes(self) -> Matrix:
        """E[W x x^T W^T], (k, k)."""
        seen = self._w @ self._a
        codes: Matrix = seen @ seen.T + self._w @ self._w.T
        return codes

    # Everything is computed for x / noise, in which the noise is 1.

    @cached_property
    def _a(self) -> Matrix:
        return self.mixing / self.noise

    @cached_property
    def _d(self) -> Matrix:
        return self.decoder / self.noise

    @cached_property
    def _w(self) -> Matrix:
        return self.encoder * self.noise

    @property
    def _v(self) -> Matrix:
        return np.exp(self.log_variances)


def solve(mixing: ArrayLike, beta: float, noise: float = 1.0) -> Solution:
    """The optimum of the linear beta-VAE with as many latents as there are sources.

    mixing: A, (N, k), any rank. noise: the standard deviation of eta and of the decoder's Gaussian,
    `likelihoods.Gaussian(scale=noise)`. With eigenvalues lambda_i of Sigma_x = A A^T + noise^2 I,
    largest first, and their vectors u_i, in units of the noise:

    D_i = (lambda_i - beta)_+^(1/2) u_i, W = (D^T D + beta I)^-1 D^T, v_i = beta / (|D_i|^2 + beta)

    [Sikka2019] eq. 22, 23. Latent i dies at beta = lambda_i. Where eigenvalues are equal every
    rotation of their vectors is an optimum, and one of them is given.

    >>> found = solve([[2.0, 0.0], [0.0, 1.0], [0.0, 0.0]], beta=2.0)
    >>> found.thresholds.round(12).tolist(), found.active.tolist()
    ([5.0, 2.0], [True, False])
    """
    a = np.asarray(mixing, np.float64)
    if a.ndim != 2 or not a.size or not np.isfinite(a).all():
        raise ValueError(
            f"expected a mixing matrix of finite numbers, (N, k), got shape {a.shape}; give a row "
            "for each value of an observation and a column for each source"
        )
    for name, value in (("beta", beta), ("noise", noise)):
        if not 0 < value < math.inf:
            raise ValueError(f"expected {name} above 0 and finite, got {value}")
    size, latents = a.shape
    u, singular, _ = np.linalg.svd(a / noise, full_matrices=False)
    u = u * np.where(np.take_along_axis(u, np.abs(u).argmax(0)[None], 0) < 0, -1.0, 1.0)
    values = np.zeros(latents)  # of latents beyond N there is nothing to say: they never live
    values[: len(singular)] = np.square(singular) + 1
    vectors = np.zeros((size, latents))
    vectors[:, : len(singular)] = u
    power = np.maximum(values - beta, 0.0)
    scale = np.sqrt(power)
    return Solution(
        a,
        float(beta),
        float(noise),
        noise * vectors * scale,
        (vectors * (scale / (power + beta))).T / noise,
        math.log(beta) - np.log(power + beta),
        values,
    )


def observations(
    mixing: ArrayLike, size: int, noise: float = 1.0, seed: int = 0
) -> tuple[Matrix, Matrix]:
    """Draws x = A s + eta, (size, N), and their sources s, (size, k).  [Sikka2019] eq. 17.

    The joint sample of s and eta is whitened: its mean is 0 and its covariance the identity, not
    about so. All terms of the linear model are means of quadratics in x, so on these observations
    they are what they are on average over the distribution, and a network trained on them has the
    optimum of `solve`.
    """
    a = np.asarray(mixing, np.float64)
    columns = sum(a.shape)
    if size <= columns:
        raise ValueError(
            f"expected more observations than sources and values together, {columns}, for a sample "
            f"with the moments of the model, got {size}"
        )
    draws = Noise(seed).normal((size, columns), "linear", torch.float64).numpy()
    draws = draws - draws.mean(0)
    root = np.linalg.cholesky(draws.T @ draws / size)
    white = np.linalg.solve(root, draws.T).T
    sources = white[:, : a.shape[1]]
    return sources @ a.T + noise * white[:, a.shape[1] :], sources


def _precision(loadings: Matrix) -> Matrix:
    """The precision of p(z|x) where x = loadings z + eta with noise 1, eq. 24, (k, k)."""
    precision: Matrix = loadings.T @ loadings + np.eye(loadings.shape[1])
    return precision


def _largest(values: Matrix) -> float:
    return float(np.abs(values).max())
