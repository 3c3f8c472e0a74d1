"""MIG, the mutual information gap."""

import math
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from unweave.metrics.arrays import Floats, Ints, as_scales
from unweave.metrics.information import (
    bin_rows,
    divide_by_entropy,
    entropy,
    gap_score,
    mutual_information,
)
from unweave.metrics.inputs import Inputs
from unweave.metrics.options import metric
from unweave.metrics.score import Score
from unweave.metrics.validation import PerRow


@metric
def mig(
    inputs: Inputs,
    *,
    protocol: Literal["locatello2019", "chen2018"] = "locatello2019",
    scales: PerRow | None = None,
    samples: int = 10_000,
    bins: int = 20,
) -> Score:
    """Compute the mutual information gap between the two codes most informative about a factor.

    MIG = 1/K sum_k 1/H(v_k) (I(z_a; v_k) - I(z_b; v_k)), where a and b are the two codes that share
    the most information with factor k.  [Chen2018] sec. 4

    Protocols: `locatello2019` cuts each posterior mean into 20 bins of equal width over its range
    and takes the mutual information of the counts, from 10,000 rows.  [Locatello2019]
    `chen2018` estimates I = H(z_j) - H(z_j|v_k) from samples z_j ~ q(z_j|x_n) under the mixtures
    q(z_j) of all rows and q(z_j|v_k) of the rows with that value, and clamps it at 0, in constant
    memory. If posteriors are narrow, it evaluates samples x N x D x (1 + sum_k 1/n_k) Gaussian
    densities, summed over all factors but the one with fewest values; otherwise far fewer.

    The official code of [Chen2018] leaves out the shape of dSprites (`leave_out=["shape"]`) and
    divides by log n_k, which is H(v_k) if all values are equally frequent. It reads all data,
    because both protocols overestimate the information from few rows with narrow posteriors.

    Implementations differ: disentangling-vae ports the code of [Chen2018] but reads a matrix along
    the wrong axis, so its MIG is about 0.001 for any model; Ubisoft's library uses 10 bins and
    divides by the entropy of the code; others also cut factors into 20 bins, which merges positions
    and orientations of dSprites, or use 40 bins per code.

    A factor with a single value is left out. With a single code the gap is its whole information.
    `locatello2019` cuts a continuous factor into bins, like codes; `chen2018` needs classes.

    Args:
        inputs: posterior means (N, D), and factors (N, K) that are integers, or real numbers for
            `locatello2019`.
        protocol: estimator of the mutual information.
        scales: (N, D) posterior standard deviations, which `chen2018` needs and the other ignores.
        samples: rows (`locatello2019`) or samples of q(z) (`chen2018`) to estimate from.
        bins: bins per code and per continuous factor, for `locatello2019`. Discrete codes are not
            binned.

    Returns:
        Parts: the gap of each factor. Matrix: I(z_j; v_k) / H(v_k), (D, K).

    >>> factors = np.argwhere(np.ones((4, 5, 3)))[:, :2]
    >>> mig(factors @ [[1, 0], [0, 2]], factors, factor_names=("x", "y"))
    Score(mig/locatello2019 = 1.0000; x 1.000, y 1.000)
    """
    if protocol == "chen2018":
        inputs.require_classes()
        matrix = _mixture_matrix(inputs, scales, samples)
        return gap_score(
            inputs, matrix, inputs.rows, {"points": samples, "factors cut into bins": []}
        )
    binned = bin_rows(inputs, samples, bins)
    return gap_score(inputs, binned.normalised, len(binned.codes), binned.details(inputs))


def _mixture_matrix(inputs: Inputs, scales: ArrayLike | None, samples: int) -> Floats:
    """Estimate I(z_j; v_k) / H(v_k), (D, K), under the mixture posteriors of [Chen2018]."""
    if scales is None:
        raise ValueError(
            "expected scales for the protocol chen2018, got none: give the standard deviations "
            "of q(z|x), or use the protocol locatello2019, which reads the means only"
        )
    scale = as_scales(scales, inputs.codes.shape).astype(np.float64)
    rows = _even_rows(inputs.rows, samples, inputs.rng)
    # The same noise for all codes, so that gaps between codes vary less.
    noise = inputs.rng.standard_normal(samples)
    shared = np.empty((inputs.dims, len(inputs.names)))
    for j, mean in enumerate(inputs.codes.T):
        if inputs.discrete[j]:  # q(z_j|x) has all its mass on one category
            category = mean.astype(np.int64)
            shared[j] = [mutual_information(category, v) for v in inputs.factors.T]
        else:
            z = mean[rows] + scale[rows, j] * noise
            shared[j] = _mixture_information(z, rows, mean, scale[:, j], inputs.factors)
    # 0 <= I <= H(v_k); the estimate can violate both bounds.
    entropies = np.array([entropy(v) for v in inputs.factors.T])
    return np.clip(divide_by_entropy(shared, entropies), 0.0, 1.0)


def _mixture_information(z: Floats, rows: Ints, mean: Floats, scale: Floats, v: Ints) -> Floats:
    """Estimate I(z; v_k) = E[log q(z|v_k) - log q(z)] of each factor, (K,).

    z (S,) are samples of q(z|x) of `rows`. The logarithms are finite: each sample lies within a few
    scales of its own row, which is in both mixtures. The groups of the factor with fewest values
    give q(z) = sum_v p(v) q(z|v); those of other factors are evaluated at their own samples only. A
    factor with a single value shares no information.
    """
    shared = np.zeros(v.shape[1])
    first, *others = sorted(np.flatnonzero(v.any(0)), key=lambda k: int(v[:, k].max()))
    q, given = np.zeros(len(z)), np.empty(len(z))
    for value in range(int(v[:, first].max()) + 1):
        group = v[:, first] == value
        density = mixture_density(z, mean[group], scale[group])
        q += group.mean() * density
        given[group[rows]] = density[group[rows]]
    log_q = np.log(q)
    shared[first] = (np.log(given) - log_q).mean()
    for k in others:
        for value in np.unique(v[rows, k]):
            group = v[:, k] == value
            inside = group[rows]
            log_given = np.log(mixture_density(z[inside], mean[group], scale[group]))
            shared[k] += (log_given - log_q[inside]).sum() / len(z)
    return shared


def _even_rows(rows: int, samples: int, rng: np.random.Generator) -> Ints:
    """Choose `samples` rows, all equally often up to one: less noise than independent draws."""
    if samples < 1:
        raise ValueError(f"expected at least 1 sample, got {samples}")
    whole = np.tile(np.arange(rows), samples // rows)
    return np.concatenate([whole, rng.permutation(rows)[: samples % rows]])


_STEPS, _NODES = 5, 10  # grid steps per scale, and grid points that a polynomial goes through
_WEIGHTS = np.array([(-1) ** j * math.comb(_NODES - 1, j) for j in range(_NODES)])  # barycentric
_INTERPOLATION = 60  # cost of interpolating at one point, in evaluations of a density
_CHUNK = 2**17  # densities evaluated at once: one megabyte, which stays in the cache


def mixture_density(z: Floats, mean: Floats, scale: Floats) -> Floats:
    """Evaluate the mixture q(z) = 1/M sum_m N(z; mean_m, scale_m^2) at each z (S,).

    A sum of Gaussians no narrower than s is smooth over steps of s/5. Components wide enough for
    this to pay off are summed on a grid with this step and interpolated by polynomials of degree 9,
    with a relative error of about 1e-6. The others are summed at each z.
    """
    order = np.argsort(scale)
    mean, scale = mean[order], scale[order]
    points = _STEPS * np.ptp(z) / scale + _NODES
    before = np.arange(len(scale) + 1)
    cost = before * len(z) + (len(scale) - before) * np.append(points, 0.0)
    cost[:-1] += _INTERPOLATION * len(z)
    narrow = int(cost.argmin())
    density = _sum_densities(z, mean[:narrow], scale[:narrow]) * narrow
    if narrow < len(scale):
        wide = mean[narrow:], scale[narrow:]
        density += _interpolate_density(z, *wide, float(scale[narrow]) / _STEPS) * (
            len(scale) - narrow
        )
    return density / len(scale)


def _interpolate_density(z: Floats, mean: Floats, scale: Floats, step: float) -> Floats:
    """Evaluate the density of a mixture at each z (S,) by interpolation on a grid."""
    low = z.min() - (_NODES / 2) * step
    count = int(np.ptp(z) / step) + _NODES + 2
    grid = _sum_densities(low + step * np.arange(count), mean, scale)
    place = (z - low) / step
    first = place.astype(np.int64) - _NODES // 2 + 1
    near = grid[first[:, None] + np.arange(_NODES)]
    away = (place - first)[:, None] - np.arange(_NODES)
    away[away == 0] = 1e-14
    weight = _WEIGHTS / away
    density: Floats = np.einsum("sn,sn->s", weight, near) / weight.sum(1)
    # Far out in the tails, where neighbouring values are much larger, interpolation is inaccurate.
    faint = np.flatnonzero(density < 1e-5 * near.max(1))
    density[faint] = _sum_densities(z[faint], mean, scale)
    return density


def _sum_densities(z: Floats, mean: Floats, scale: Floats) -> Floats:
    """Evaluate the density of a mixture at each z (S,), term by term; 0 without components."""
    rate = -1 / (2 * scale**2)
    weight = 1 / (np.sqrt(2 * np.pi) * scale * max(1, len(mean)))
    density = np.zeros(len(z))
    step = max(1, _CHUNK // max(1, len(mean)))
    buffer = np.empty((min(step, len(z)), len(mean)))
    for at in range(0, len(z) if len(mean) else 0, step):
        chunk = z[at : at + step, None]
        exponent = np.subtract(chunk, mean, out=buffer[: len(chunk)])
        exponent *= exponent
        exponent *= rate
        # Not by BLAS: its threads would compete with those that evaluate several tables at once.
        np.einsum("sm,m->s", np.exp(exponent, out=exponent), weight, out=density[at : at + step])
    return density
