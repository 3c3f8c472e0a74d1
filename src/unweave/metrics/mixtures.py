"""The density of a mixture of Gaussians in one dimension."""

import math

import numpy as np

from unweave.metrics.arrays import Floats

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
