"""Overlap of the encodings q(z|x) = N(codes, diag(scales^2)) of different observations.

The first of the two factors of decomposition in [Mathieu2019] sec. 3.1. With q(x, z) = q(z|x) / N
over N observations, everything is exact up to sampled points, whose number the caller chooses.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import ArrayLike

from unweave.aggregate import Summary, summarise
from unweave.core.noise import Noise
from unweave.latents import DiagonalGaussian, Gaussian
from unweave.metrics.arrays import Floats, Ints, Seed, as_codes, as_mask, as_scales, as_seed, subset
from unweave.metrics.score import Score
from unweave.metrics.validation import check_arguments

_CHUNK = 2**16  # pairs at once: half a megabyte an array, which stays in the cache


@check_arguments
def mutual_information(
    codes: ArrayLike, scales: ArrayLike, *, seed: Seed = 0, samples: int = 10_000
) -> Score:
    """Compute I(x; z) of the encoder over the observations in nats, with bounds.

    I = E[log q(z|x) - log 1/N sum_m q(z|x_m)], at `samples` points z ~ q(z|x_n), n uniform, with
    the sum over all N rows.  [Hoffman2016], [Kim2018] app. C

    The bounds come from pairs of encodings in closed form, [Kolchinsky2017] sec. 3 minus the mean
    entropy of q(z|x):  - 1/N sum_n log 1/N sum_m exp(-D(q_n, q_m)) is a lower bound for the
    Bhattacharyya distance D = - log BC (see `overlapping_neighbours`) and an upper bound for
    D = KL(q_n || q_m); and I <= log N. They meet if encodings are either far apart or equal.

    I is at most log N: with few rows and narrow posteriors it is log N for any encoder. The part of
    a single code is I(x; z_j).

    Args:
        codes: (N, D) posterior means.
        scales: (N, D) posterior standard deviations.
        seed: an integer or a NumPy generator.
        samples: points at which the exact q(z) is evaluated; also the rows n of the bounds.

    Returns:
        Nats. Parts: I(x; z_j) of each code. Details: the bounds, and log N.

    >>> far = mutual_information([[0.0], [100.0]], [[1.0], [1.0]])
    >>> round(far.value, 3), round(far.details["lower"], 3), round(far.details["upper"], 3)
    (0.693, 0.693, 0.693)
    """
    mean, scale = _encodings(codes, scales)
    number = as_seed(seed)
    summary = _summary(mean, scale, samples, number)
    bounds = _pairs(mean, scale, samples, np.random.default_rng(number))
    return information_score(summary, len(mean), bounds)


def information_score(
    summary: Summary, rows: int, pairs: Pairs | None = None, rate: float | None = None
) -> Score:
    """Return the score of I(x; z) from a summary over N rows, with bounds by pairs and the rate."""
    above = [math.log(rows), pairs.upper if pairs else math.inf, math.inf if rate is None else rate]
    return Score(
        "mutual_information",
        "exact",
        summary.mutual_information,
        parts={f"code {j}": value for j, value in enumerate(summary.information)},
        details={
            "rows": rows,
            "log N": math.log(rows),
            "lower": 0.0 if pairs is None else max(0.0, pairs.lower),
            "upper": min(above),
        },
    )


@check_arguments
def total_correlation(
    codes: ArrayLike, scales: ArrayLike, *, seed: Seed = 0, samples: int = 10_000
) -> Score:
    """Compute KL(q(z) || prod_j q(z_j)) of the aggregate posterior of the observations, in nats.

    E[log q(z) - sum_j log q(z_j)] at `samples` points z of q(z) = 1/N sum_n q(z|x_n), with q(z) and
    every q(z_j) summed over all N rows: the "true total correlation" of [Kim2018] fig. 7. It is
    that of the mixture of these N rows, which exceeds that of all data if N is small and posteriors
    are narrow; see `mutual_information`.

    Args:
        codes: (N, D) posterior means.
        scales: (N, D) posterior standard deviations.
        seed: an integer or a NumPy generator.
        samples: points at which the exact q(z) is evaluated.

    Returns:
        Nats; 0 up to sampling noise if codes are independent.

    >>> score = total_correlation([[0.0, 0.0], [100.0, 100.0]], np.ones((2, 2)))
    >>> round(score.value, 3)
    0.693
    """
    mean, scale = _encodings(codes, scales)
    return correlation_score(_summary(mean, scale, samples, as_seed(seed)), len(mean))


def correlation_score(summary: Summary, rows: int) -> Score:
    """Return the total correlation of a summary over N rows; parts by group of latent variables."""
    nodes = {name or "whole": value for name, value in summary.correlations.items()}
    return Score(
        "total_correlation",
        "exact",
        summary.total_correlation,
        parts=nodes if len(nodes) > 1 else {},
        details={"rows": rows},
    )


def relative_scale(
    codes: ArrayLike, scales: ArrayLike, *, discrete: ArrayLike | None = None
) -> Score:
    """Compute the posterior scale relative to q(z): 1 if encodings coincide, 0 if separate.

    For each code  E_x[s_j(x)] / sqrt(Var_x[m_j(x)] + E_x[s_j(x)^2]), the mean standard deviation of
    q(z_j|x) over that of q(z_j); the value is the mean over codes. In [Mathieu2019] sec. 3.1 the
    variance of the encoder at fixed q(z) measures the overlap of Gaussian encodings.

    Args:
        codes: (N, D) posterior means.
        scales: (N, D) posterior standard deviations.
        discrete: (D,) mask of the codes that are categories, which have no scale and are left out.

    Returns:
        In (0, 1]. Parts: the ratio of each code.

    >>> relative_scale([[-3.0, 0.0], [3.0, 0.0]], [[4.0, 1.0], [4.0, 1.0]])
    Score(relative_scale/mathieu2019 = 0.9000; code 0 0.800, code 1 1.000)
    """
    mean, scale = _encodings(codes, scales)
    columns = np.flatnonzero(~as_mask("discrete", discrete, mean.shape[1]))
    if not len(columns):
        raise ValueError("expected a code that is not a category, got none: these have no scale")
    mean, scale = mean[:, columns], scale[:, columns]
    deviation = np.sqrt((mean - mean[:1]).var(0) + np.square(scale).mean(0))
    ratios = np.minimum(scale.mean(0) / deviation, 1.0)
    return Score(
        "relative_scale",
        "mathieu2019",
        float(ratios.mean()),
        parts={f"code {j}": float(r) for j, r in zip(columns, ratios, strict=True)},
        details={"rows": len(mean)},
    )


@check_arguments
def overlapping_neighbours(
    codes: ArrayLike, scales: ArrayLike, *, seed: Seed = 0, samples: int = 10_000
) -> Score:
    """Compute the expected number of other observations whose encodings overlap with one.

    E_n sum_{m != n} BC(q_n, q_m), where the Bhattacharyya coefficient of two Gaussians
    BC = int sqrt(q_n q_m) dz
       = prod_j sqrt(2 s s' / (s^2 + s'^2)) exp(-(m - m')^2 / (4 (s^2 + s'^2)))
    is 1 for equal encodings and 0 for encodings far apart. Unlike I(x; z), it distinguishes much
    overlap with few others from little overlap with many, [Mathieu2019] sec. 3.1. It ranges from 0
    (a lookup table) to N - 1 (encodings that do not depend on x), and grows with N.

    Args:
        codes: (N, D) posterior means.
        scales: (N, D) posterior standard deviations.
        seed: an integer or a NumPy generator, to choose rows n if there are more than `samples`.
        samples: rows n to average over; the sum is over all rows.

    Returns:
        In [0, N - 1]. Parts: the least, median and largest number for an observation.

    >>> overlapping_neighbours([[0.0], [0.0], [50.0]], [[1.0], [1.0], [1.0]])
    Score(overlapping_neighbours/bhattacharyya = 0.6667; least 0.000, median 1.000, most 1.000)
    """
    mean, scale = _encodings(codes, scales)
    return neighbours_score(_pairs(mean, scale, samples, np.random.default_rng(seed)))


class Pairs(NamedTuple):
    """Statistics of pairs of encodings: means over chosen rows n of sums over all rows m."""

    neighbours: Floats  # (S,) sum_{m != n} BC(q_n, q_m)
    lower: float  # bound of I(x; z), by Bhattacharyya distances
    upper: float  # bound of I(x; z), by KL(q_n || q_m)
    rows: int  # N


def neighbours_score(pairs: Pairs) -> Score:
    """Return the score of `overlapping_neighbours` from statistics of pairs."""
    least, median, most = np.quantile(pairs.neighbours, (0, 0.5, 1)).tolist()
    mean = float(pairs.neighbours.mean())
    return Score(
        "overlapping_neighbours",
        "bhattacharyya",
        mean,
        parts={"least": least, "median": median, "most": most},
        details={"rows": pairs.rows, "share of all others": mean / (pairs.rows - 1)},
    )


def pairs_of(codes: ArrayLike, scales: ArrayLike, samples: int, seed: Seed) -> Pairs:
    """Compute all statistics of pairs of encodings in one pass."""
    return _pairs(*_encodings(codes, scales), samples, np.random.default_rng(seed))


def _pairs(mean: Floats, scale: Floats, samples: int, rng: np.random.Generator) -> Pairs:
    count = len(mean)
    chosen = subset(count, samples, rng)
    step = max(1, _CHUNK // count)
    width = min(count, _CHUNK)
    near, far = np.zeros(len(chosen)), np.zeros(len(chosen))
    for at in range(0, len(chosen), step):
        rows = chosen[at : at + step]
        for start in range(0, count, width):
            columns = slice(start, start + width)
            coefficients, decay = _blocks(mean, scale, rows, columns)
            near[at : at + step] += coefficients.sum(1)
            far[at : at + step] += decay.sum(1)
    # A row overlaps with itself completely, so both sums are at least 1.
    lower, upper = (-float(np.log(np.maximum(s, 1.0) / count).mean()) for s in (near, far))
    return Pairs(np.maximum(near - 1, 0.0), lower, upper, count)


def _blocks(mean: Floats, scale: Floats, rows: Ints, columns: slice) -> tuple[Floats, Floats]:
    """Compute BC(q_n, q_m) and exp(-KL(q_n || q_m)) of rows n and columns m, (rows, columns).

    Products of ratios of scales, each at most 1, underflow only if the result does.
    """
    shape = len(rows), len(mean[columns])
    exponent, ratio, divergence = np.zeros(shape), np.ones(shape), np.zeros(shape)
    square, both, term = np.empty(shape), np.empty(shape), np.empty(shape)
    for own_mean, own, other_mean, other in zip(
        mean[rows].T, scale[rows].T, mean[columns].T, scale[columns].T, strict=True
    ):
        np.subtract(own_mean[:, None], other_mean, out=square)
        square *= square
        np.add((own**2)[:, None], other**2, out=both)
        exponent += np.divide(square, both, out=term)
        np.multiply((2 * own)[:, None], other, out=term)
        ratio *= np.divide(term, both, out=term)
        square += (own**2)[:, None]
        divergence += np.multiply(square, 0.5 / other**2, out=term)
    size = np.log(scale[rows]).sum(1)[:, None] + 0.5 * mean.shape[1]
    divergence += np.log(scale[columns]).sum(1) - size
    return np.sqrt(ratio) * np.exp(-0.25 * exponent), np.exp(-np.maximum(divergence, 0.0))


def _summary(mean: Floats, scale: Floats, samples: int, seed: int) -> Summary:
    """Decompose the rate exactly; information and total correlation do not depend on the prior."""
    if samples < 1:
        raise ValueError(f"expected at least 1 sample, got {samples}")
    latent = Gaussian(mean.shape[1])
    q = DiagonalGaussian(torch.from_numpy(mean), torch.from_numpy(np.log(scale)))
    p = latent.density(torch.zeros(mean.shape[1], dtype=torch.float64))
    return summarise(latent, q, p, Noise(seed), samples)


def _encodings(codes: ArrayLike, scales: ArrayLike) -> tuple[Floats, Floats]:
    z = as_codes(codes).astype(np.float64)
    return z, as_scales(scales, z.shape).astype(np.float64)
