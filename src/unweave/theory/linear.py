"""The linear beta-VAE: data, optimum and all its terms in closed form.

Sources s ~ N(0, I_k) are mixed and noise is added, x = A s + eta, [Sikka2019] eq. 17; encoder and
decoder are linear, eq. 20. The paper solves eq. 23 numerically; the optimum has a closed form, that
of probabilistic PCA [Tipping1999] with noise variance beta: with L = E[log p(x|z)] - beta KL,
max over q of L is beta E[log N(x; 0, D D^T + beta I)] up to a constant, which is largest at
D = U diag(lambda - beta)_+^(1/2), (lambda, U) the leading eigenpairs of Sigma_x. Any rotation of D
would do as well, but a diagonal q reaches the maximum over q only where D^T D is diagonal.

Everything is in float64 and in nats with all constants; no N x N matrix is formed.

Corrected here: eq. 38 of the paper drops a factor of 1/2; eq. 23 and 46 print one exponent with a
wrong index, eq. 47 one with C for Sigma_x; the objective of eq. 21 is that of eq. 6, not of eq. 5;
where Bayes' rule is used p(z|x) is meant by the p(x|z) on the left of eq. 58 and 59 and in eq. 61,
and D^T D + I_k by D D^T + I_N in eq. 59, whose mean lacks an x. Eq. 24 is right.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from numbers import Integral, Real
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray

from unweave.core.noise import Noise
from unweave.data.synthetic.paper_generators import whiten
from unweave.theory.matching import Alignment, match_latents

Matrix = NDArray[np.float64]

_LOG_2PI = math.log(2 * math.pi)
_LARGEST = 1e10  # times the noise: beyond it the effect of beta is lost in rounding
_TIED = 1e-9  # relative: entries of a column this close count as equally large


class Residuals(NamedTuple):
    """The largest residual in the lines of [Sikka2019] eq. 23, relative to their largest term.

    At an optimum these are rounding errors. The third line, for W^sigma, is left out, because it
    holds if W^sigma = 0.
    """

    encoder: float  # of W^mu
    decoder: float  # of D
    log_variances: float  # of b^sigma


@dataclass(frozen=True, eq=False, repr=False)
class Solution:
    """A linear beta-VAE, and its terms on average over the data.

    q(z|x) = N(W x, diag(v)), p(x|z) = N(D z, noise^2 I), p(z) = N(0, I). Biases are 0, and the
    variances v do not depend on x (W^sigma = 0). `solve` returns the optimum, `solve_encoder` that
    for a given decoder; the terms are valid for any D, W and v.
    """

    mixing: Matrix  # A, (N, k)
    beta: float
    noise: float  # standard deviation of eta, and of p(x|z)
    decoder: Matrix  # D, (N, k)
    encoder: Matrix  # W, (k, N)
    log_variances: Matrix  # log v, (k,)
    thresholds: Matrix  # the beta at which each latent dies, (k,)

    def __repr__(self) -> str:
        size, latents = self.mixing.shape
        names = ("elbo", "reconstruction", "rate", "log_likelihood", "mie", "tie_aligned")
        terms = ", ".join(f"{name} {getattr(self, name):.6g}" for name in names)
        return (
            f"Solution of x in {size}, z in {latents} dimensions, beta {self.beta:g}, noise "
            f"{self.noise:g}: {self.active.sum()} latents active, {terms}"
        )

    @property
    def active(self) -> NDArray[np.bool_]:
        """Which latents are in use: those whose threshold is above beta, (k,)."""
        return self.thresholds > self.beta

    @property
    def gap(self) -> float:
        """The least relative distance of an active latent's eigenvalue from the next one below it.

        If it is 0, eigenvalues are equal and every rotation of their vectors is an optimum: D, W
        and both true inference errors are those of one of many. Near 0 they are determined to about
        1e-16 / gap. Infinite if no latent is active, or for a given decoder.
        """
        size, latents = self.mixing.shape
        values = np.append(self.thresholds, 1.0 if size > latents else 0.0)
        at = np.flatnonzero(self.active & np.isfinite(self.thresholds))
        return float(np.min((values[at] - values[at + 1]) / values[at], initial=math.inf))

    @cached_property
    def reconstruction(self) -> float:
        """E[log p(x|z)], eq. 38 with the constants of the decoder's Gaussian."""
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
        # With D = P diag(d) Q^T: tr(C^-1 Sigma) for C = D D^T + I and Sigma = A A^T + I, as a sum
        # over directions, so that no large numbers are subtracted.
        p, scales, _ = np.linalg.svd(self._d, full_matrices=False)
        size, spread = len(self._d), np.square(scales) + 1
        seen = p.T @ self._a
        unseen = np.square(self._a - p @ seen).sum() + size - len(scales)
        total = unseen + np.sum((np.square(seen).sum(1) + 1) / spread)
        constant = size * (_LOG_2PI + 2 * math.log(self.noise))
        return float(-0.5 * (constant + np.log(spread).sum() + total))

    @cached_property
    def mie(self) -> float:
        """Model inference error E[KL(q(z|x) || p(z|x))], eq. 2 by eq. 25 and 26."""
        return self._inference_error(self._d)

    @cached_property
    def tie(self) -> float:
        """True inference error E[KL(q(z|x) || p(s|x))], eq. 3 by eq. 25 and 27, as printed.

        It assumes that latent i represents source i. No model can know the order and the signs of
        the sources, so it needs a convention; `tie_aligned` takes the best match. `solve` sorts
        latents by decreasing threshold, each with the sign that makes the largest entry of its
        column of D positive (the first of those that are equally large, to 1e-9). See `gap`.
        """
        return self._inference_error(self._a)

    @cached_property
    def alignment(self) -> Alignment:
        """The order and signs of latents with the smallest true inference error (`match_latents`).

        Exact at the optimum, where E[z z^T] is diagonal.
        """
        seen = self._w @ self._a
        cross = seen @ (self._a.T @ self._a) + seen  # E[W x x^T A], (latent, source)
        return match_latents(_precision(self._a), self._codes + np.diag(self._v), cross).alignment

    @cached_property
    def tie_aligned(self) -> float:
        """True inference error, the smallest over orders and signs of the latents. See `gap`."""
        order = list(self.alignment.order)
        signs = np.array(self.alignment.signs)
        return self._inference_error(self._a, signs[:, None] * self._w[order], order)

    @cached_property
    def residuals(self) -> Residuals:
        """The relative residuals of eq. 23."""
        d, w, a, v = self._d, self._w, self._a, self._v
        seen = w @ a

        def spread(rows: Matrix) -> Matrix:
            """Multiply by Sigma, (k, N)."""
            return (rows @ a) @ a.T + rows

        covariance = spread(w).T  # Sigma W^T, (N, k)
        products = d @ (seen @ seen.T + w @ w.T), covariance, d * v
        gain, own = (d.T @ d) @ w, (np.square(d).sum(0) + self.beta) * v
        return Residuals(
            _relative(
                spread(gain - d.T + self.beta * w),
                spread(d.T),
                self.beta * covariance,
                spread(gain),
            ),
            _relative(products[0] - products[1] + products[2], *products),
            _relative(own - self.beta, own, np.array(self.beta)),
        )

    def _inference_error(
        self, loadings: Matrix, encoder: Matrix | None = None, order: Sequence[int] | None = None
    ) -> float:
        """Evaluate eq. 25 against the posterior of x = loadings z + eta."""
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
        return seen @ seen.T + self._w @ self._w.T

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
    """Return the optimum of the linear beta-VAE with as many latents as sources.

    mixing: A, (N, k), any rank. noise: the standard deviation of eta and of the decoder's Gaussian,
    `likelihoods.Gaussian(scale=noise)`. With eigenvalues lambda_i of Sigma_x = A A^T + noise^2 I,
    largest first, and their vectors u_i, in units of the noise:

    D_i = (lambda_i - beta)_+^(1/2) u_i, W = (D^T D + beta I)^-1 D^T, v_i = beta / (|D_i|^2 + beta)

    [Sikka2019] eq. 22, 23. Latent i dies at beta = lambda_i. If eigenvalues are equal, every
    rotation of their vectors is an optimum, and one of them is returned: see `Solution.gap`.

    >>> found = solve([[2.0, 0.0], [0.0, 1.0], [0.0, 0.0]], beta=2.0)
    >>> found.thresholds.round(12).tolist(), found.active.tolist()
    ([5.0, 2.0], [True, False])
    """
    a = _matrix("mixing", mixing)
    _check_positive(beta=beta, noise=noise)
    _check_scale(a, noise)
    size, latents = a.shape
    u, singular, _ = np.linalg.svd(a / noise, full_matrices=False)
    largest = np.abs(u) >= (1 - _TIED) * np.abs(u).max(0)
    u = u * np.where(np.take_along_axis(u, largest.argmax(0)[None], 0) < 0, -1.0, 1.0)
    values = np.zeros(latents)  # latents beyond N are never active
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


def solve_encoder(
    mixing: ArrayLike, decoder: ArrayLike, beta: float, noise: float = 1.0
) -> Solution:
    """Return the optimum over encoders for a given decoder.  [Sikka2019] sec. IV-A.

    mixing: A, (N, k); decoder: D, (N, k), any matrix. In units of the noise

    W = (D^T D + beta I)^-1 D^T, v_i = beta / ([D^T D]_ii + beta)

    which are eq. 23 without its second line, that of D. The likelihood does not depend on beta, and
    the ELBO is largest at beta = 1 by proposition 3, so by eq. 16 the model inference error is
    smallest there. It is then (sum_i log G_ii - log det G) / 2 with G = D^T D + I, which a diagonal
    q cannot avoid, and 0 only if the columns of D are orthogonal. The true inference error need not
    be smallest there, but if D = A the two are equal.

    A latent dies only if its column of D is 0: thresholds are infinite, or 0.

    >>> a = [[2.0, 1.0], [0.0, 1.0]]
    >>> errors = [solve_encoder(a, a, beta).mie for beta in (0.5, 1.0, 2.0)]
    >>> [round(error, 4) for error in errors], round(0.5 * math.log(15 / 11), 4)
    ([0.3618, 0.1551, 0.3803], 0.1551)
    """
    a, d = _matrix("mixing", mixing), _matrix("decoder", decoder)
    if a.shape != d.shape:
        raise ValueError(
            f"expected a decoder of the shape of the mixing matrix, {a.shape}, got {d.shape}"
        )
    _check_positive(beta=beta, noise=noise)
    _check_scale(a, noise)
    _check_scale(d, noise)
    scaled: Matrix = d / noise
    gram = scaled.T @ scaled
    encoder = np.linalg.solve(gram + beta * np.eye(len(gram)), scaled.T / noise)
    return Solution(
        a,
        float(beta),
        float(noise),
        d,
        encoder.astype(np.float64),
        math.log(beta) - np.log(np.diag(gram) + beta),
        np.where(np.diag(gram) > 0, math.inf, 0.0),
    )


def observations(
    mixing: ArrayLike, size: int, noise: float = 1.0, seed: int = 0
) -> tuple[Matrix, Matrix]:
    """Sample x = A s + eta, (size, N), and their sources s, (size, k).  [Sikka2019] eq. 17.

    The joint sample of s and eta is whitened: its mean is exactly 0 and its covariance exactly the
    identity. All terms of the linear model are means of quadratics in x, so on these observations
    they equal their expectations, and a network trained on them has the optimum of `solve`.
    """
    a = _matrix("mixing", mixing)
    _check_positive(noise=noise)
    if not isinstance(size, Integral):
        raise ValueError(f"expected a whole number of observations, got {size!r}")
    shape = int(size), sum(a.shape)
    white = whiten(Noise(seed).normal(shape, "linear", torch.float64).numpy())
    sources = white[:, : a.shape[1]]
    return sources @ a.T + noise * white[:, a.shape[1] :], sources


def _precision(loadings: Matrix) -> Matrix:
    """Return the precision of p(z|x) for x = loadings z + eta with noise 1, eq. 24, (k, k)."""
    return loadings.T @ loadings + np.eye(loadings.shape[1])


def _relative(rest: Matrix, *terms: Matrix) -> float:
    """Return the largest residual of a sum, relative to the largest of its terms."""
    largest = max(np.abs(term).max() for term in terms)
    return float(np.abs(rest).max() / largest) if largest > 0 else 0.0


def _matrix(name: str, values: ArrayLike) -> Matrix:
    try:
        matrix = np.asarray(values)
        if matrix.dtype.kind not in "biuf":
            raise ValueError
        matrix = matrix.astype(np.float64)
    except ValueError:
        raise ValueError(
            f"expected a {name} matrix of real numbers, (N, k), got {values!r}"
        ) from None
    if matrix.ndim != 2 or not matrix.size or not np.isfinite(matrix).all():
        raise ValueError(
            f"expected a {name} matrix of finite numbers, (N, k), got shape {matrix.shape}"
            f"{'' if np.isfinite(matrix).all() else ' with numbers that are not finite'}; give a "
            "row for each value of an observation and a column for each source"
        )
    return matrix


def _check_positive(**values: float) -> None:
    for name, value in values.items():
        if not isinstance(value, Real) or not 0 < value < math.inf:
            raise ValueError(f"expected {name} as a number above 0 and finite, got {value!r}")


def _check_scale(matrix: Matrix, noise: float) -> None:
    """Check that squares do not overflow and beta is not lost in rounding."""
    most = float(np.abs(matrix).max()) / float(noise)
    if most > _LARGEST:
        raise ValueError(
            f"expected entries of up to {_LARGEST:g} times the noise, got {most:g} times; use a "
            "larger noise"
        )
