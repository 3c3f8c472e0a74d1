"""Metrics of mutual information between codes and factors, in nats."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Unpack, get_args

import numpy as np
from numpy.typing import ArrayLike

from unweave.metrics.inputs import Floats, Inputs, Ints, Seed, as_scales, check_choice, read, subset
from unweave.metrics.options import Frame, framed
from unweave.metrics.score import Score
from unweave.metrics.validation import counted

MIGProtocol = Literal["locatello2019", "chen2018"]

_ROUNDING = 1e-12  # nats that an independent pair can seem to share
_STEPS, _NODES = 5, 10  # of a grid to a scale, and points of it that a polynomial goes through
_WEIGHTS = np.array([(-1) ** j * math.comb(_NODES - 1, j) for j in range(_NODES)])  # barycentric
_INTERPOLATED = 60  # densities that take as long as a point between those of a grid
_CHUNK = 2**17  # densities evaluated at once: one megabyte, which stays in the cache


@framed
def mig(
    codes: ArrayLike,
    factors: ArrayLike,
    *,
    protocol: MIGProtocol = "locatello2019",
    scales: ArrayLike | None = None,
    rng: Seed = 0,
    samples: int = 10_000,
    bins: int = 20,
    discrete: ArrayLike | None = None,
    factor_names: Sequence[str] | None = None,
    leave_out: Sequence[int | str] = (),
    **frame: Unpack[Frame],
) -> Score:
    """Mutual information gap: how much more the best code knows of a factor than the next one.

    MIG = 1/K sum_k 1/H(v_k) (I(z_a; v_k) - I(z_b; v_k)), where a and b are the two codes that know
    most of factor k.  [Chen2018] sec. 4

    Protocols: `locatello2019` cuts each posterior mean into 20 bins of equal width over its range
    and takes the mutual information of the counts, from 10,000 rows.  [Locatello2019]
    `chen2018` takes I = H(z_j) - H(z_j|v_k) of samples z_j ~ q(z_j|x_n) under the mixtures q(z_j)
    of all rows and q(z_j|v_k) of the rows with that value, and clamps it at 0, in constant memory.
    Where posteriors are narrow, it evaluates samples x N x D x (1 + sum_k 1/n_k) Gaussian
    densities, the sum over all factors but the one of fewest values; where they are not, far fewer.

    The official code of [Chen2018] leaves the shape of dSprites out (`leave_out=["shape"]`) and
    divides by log n_k, which is H(v_k) where all values are equally frequent. It reads all data:
    from few rows with narrow posteriors, both protocols overestimate the information.

    Namesakes differ: disentangling-vae ports the code of [Chen2018] but reads a matrix along the
    wrong axis, so that its MIG is about 0.001 for any model; Ubisoft's library takes 10 bins and
    divides by the entropy of the code; others cut factors into 20 bins as well, which loses
    positions and orientations of dSprites, or take 40 bins to a code.

    A factor with a single value is left out. With a single code the gap is all of its information.
    `locatello2019` cuts a continuous factor into bins as it does codes; `chen2018` needs classes.

    Args:
        codes: (N, D) posterior means.
        factors: (N, K) integers, or real numbers for `locatello2019`.
        protocol: whose estimate of the mutual information.
        scales: (N, D) posterior standard deviations; `chen2018` needs them, the other ignores them.
        rng: seed or generator.
        samples: rows (`locatello2019`) or draws from q(z) (`chen2018`) to estimate from.
        bins: bins to a code and to a continuous factor, for `locatello2019`.
        discrete: (D,) mask of codes that are categories; these are not binned, and have no scale.
        factor_names: names for the parts of the score.
        leave_out: factors not to score, by name or number.

    Returns:
        Parts: the gap of each factor. Matrix: I(z_j; v_k) / H(v_k), (D, K).

    >>> factors = np.argwhere(np.ones((4, 5, 3)))[:, :2]
    >>> mig(factors @ [[1, 0], [0, 2]], factors, factor_names=("x", "y"))
    Score(mig/locatello2019 = 1.0000; x 1.000, y 1.000)
    """
    check_choice("protocol", protocol, get_args(MIGProtocol))
    inputs = read(
        codes,
        factors,
        discrete=discrete,
        factor_names=factor_names,
        leave_out=leave_out,
        continuous=frame.get("continuous"),
        classes_only=protocol == "chen2018",
    )
    generator = np.random.default_rng(rng)
    if protocol == "chen2018":
        matrix = _mixture_matrix(inputs, scales, samples, generator)
    else:
        binned = bin_table(inputs, subset(inputs.rows, samples, generator), bins)
        matrix = binned.normalised
    gap = top_gap(matrix)
    return Score(
        name="mig",
        protocol=protocol,
        value=float(gap[inputs.scored].mean()),
        parts={inputs.names[k]: float(gap[k]) for k in inputs.scored},
        matrix=matrix,
        details={
            "rows": inputs.rows,
            **(
                {"points": samples}
                if protocol == "chen2018"
                else {"samples": min(samples, inputs.rows)}
            ),
            "best codes": matrix.argmax(0)[inputs.scored].tolist(),
            "factors cut into bins": inputs.continuous_names,
            "factors left out": list(inputs.left_out),
        },
    )


@dataclass(frozen=True)
class Binned:
    """Codes and factors as labels, and the information of their counts, in nats."""

    codes: Ints  # (n, D)
    factors: Ints  # (n, K)
    shared: Floats  # (D, K) I(z_j; v_k)
    entropies: Floats  # (K,) H(v_k)

    @property
    def normalised(self) -> Floats:
        """I(z_j; v_k) / H(v_k), (D, K)."""
        return _per_entropy(self.shared, self.entropies)


def read_binned(
    codes: ArrayLike,
    factors: ArrayLike,
    *,
    rng: Seed,
    samples: int,
    bins: int,
    discrete: ArrayLike | None,
    factor_names: Sequence[str] | None,
    leave_out: Sequence[int | str],
    continuous: Sequence[int | str] | None,
) -> tuple[Inputs, Binned]:
    """The arguments of a metric of binned codes, checked, and `samples` rows of them binned."""
    inputs = read(
        codes,
        factors,
        discrete=discrete,
        factor_names=factor_names,
        leave_out=leave_out,
        continuous=continuous,
        classes_only=False,
    )
    rows = subset(inputs.rows, samples, np.random.default_rng(rng))
    return inputs, bin_table(inputs, rows, bins)


def bin_table(inputs: Inputs, rows: Ints, bins: int) -> Binned:
    """The given rows, with codes and continuous factors cut into bins of equal width."""
    codes = [
        column.astype(np.int64) if discrete else discretise(column, bins)
        for column, discrete in zip(inputs.codes[rows].T, inputs.discrete, strict=True)
    ]
    factors = [
        discretise(inputs.values[rows, k], bins) if continuous else inputs.factors[rows, k]
        for k, continuous in enumerate(inputs.continuous)
    ]
    return Binned(
        np.stack(codes, 1),
        np.stack(factors, 1),
        np.array([[mutual_information(z, v) for v in factors] for z in codes]),
        np.array([entropy(v) for v in factors]),
    )


@counted
def mutual_information_matrix(
    codes: ArrayLike, factors: ArrayLike, bins: int = 20, *, discrete: ArrayLike | None = None
) -> Floats:
    """I(z_j; v_k) / H(v_k) of binned codes, (D, K), from all rows.

    The binning is that of [Locatello2019]. A factor with a single value has no information to
    share: its column is 0.

    >>> mutual_information_matrix([[0.0], [0.1], [0.9], [1.0]], [[0, 0], [0, 1], [1, 0], [1, 1]], 2)
    array([[1., 0.]])
    """
    inputs = read(codes, factors, discrete=discrete, classes_only=False)
    return bin_table(inputs, np.arange(inputs.rows), bins).normalised


def entropy(labels: Ints) -> float:
    """H(v) = - sum_v p(v) log p(v) of labels (N,) numbered from 0, in nats."""
    p = np.bincount(labels) / len(labels)
    p = p[p > 0]
    return float(-(p * np.log(p)).sum())


def mutual_information(a: Ints, b: Ints) -> float:
    """I(a; b) = sum p(a, b) log p(a, b) / (p(a) p(b)) of labels (N,) numbered from 0, in nats."""
    width = int(b.max()) + 1
    counts = np.bincount(a * width + b, minlength=(int(a.max()) + 1) * width)
    p = counts.reshape(-1, width) / len(a)
    independent = p.sum(1, keepdims=True) * p.sum(0, keepdims=True)
    seen = p > 0
    shared = float((p[seen] * np.log(p[seen] / independent[seen])).sum())
    return shared if shared > _ROUNDING else 0.0


def discretise(code: Floats, bins: int) -> Ints:
    """The bin of each number (N,), 0 .. bins - 1: equal widths over the range of the numbers."""
    if bins < 2:
        raise ValueError(f"expected at least 2 bins, got {bins}")
    edges = np.histogram_bin_edges(code, bins)
    # The last edge is not a bin's beginning: the largest number belongs to the last bin.
    return np.digitize(code, edges[:-1]) - 1


def top_gap(matrix: Floats) -> Floats:
    """Largest minus second largest of each column of (D, K); the second of one is 0."""
    padded = np.vstack([np.zeros((1, matrix.shape[1])), matrix])
    second, first = np.partition(padded, (-2, -1), axis=0)[-2:]
    gap: Floats = first - second
    return gap


def mixture_density(z: Floats, mean: Floats, scale: Floats) -> Floats:
    """q(z) = 1/M sum_m N(z; mean_m, scale_m^2) at each z (S,) of the mixture of M Gaussians.

    A sum of Gaussians no narrower than s is smooth over steps of s/5: those that are wide enough
    for it to pay are summed on a grid of this step, and polynomials of degree 9 between its points
    are right to a millionth. The others are summed at each z.
    """
    order = np.argsort(scale)
    mean, scale = mean[order], scale[order]
    points = _STEPS * np.ptp(z) / scale + _NODES
    before = np.arange(len(scale) + 1)
    cost = before * len(z) + (len(scale) - before) * np.append(points, 0.0)
    cost[:-1] += _INTERPOLATED * len(z)
    narrow = int(cost.argmin())
    density = _summed(z, mean[:narrow], scale[:narrow]) * narrow
    if narrow < len(scale):
        wide = mean[narrow:], scale[narrow:]
        density += _interpolated(z, *wide, float(scale[narrow]) / _STEPS) * (len(scale) - narrow)
    return density / len(scale)


def _interpolated(z: Floats, mean: Floats, scale: Floats, step: float) -> Floats:
    """The density of a mixture at each z (S,), from a grid."""
    low = z.min() - (_NODES / 2) * step
    count = int(np.ptp(z) / step) + _NODES + 2
    grid = _summed(low + step * np.arange(count), mean, scale)
    place = (z - low) / step
    first = place.astype(np.int64) - _NODES // 2 + 1
    near = grid[first[:, None] + np.arange(_NODES)]
    away = (place - first)[:, None] - np.arange(_NODES)
    away[away == 0] = 1e-14
    weight = _WEIGHTS / away
    density: Floats = np.einsum("sn,sn->s", weight, near) / weight.sum(1)
    # Far out in a tail, what is next to nothing beside its neighbours is summed.
    faint = np.flatnonzero(density < 1e-5 * near.max(1))
    density[faint] = _summed(z[faint], mean, scale)
    return density


def _summed(z: Floats, mean: Floats, scale: Floats) -> Floats:
    """The density of a mixture at each z (S,), term by term; 0 of a mixture of none."""
    rate = -1 / (2 * scale**2)
    weight = 1 / (np.sqrt(2 * np.pi) * scale * max(1, len(mean)))
    density = np.zeros(len(z))
    step = max(1, _CHUNK // max(1, len(mean)))
    buffer = np.empty((min(step, len(z)), len(mean)))
    for at in range(0, len(z) if len(mean) else 0, step):
        part = z[at : at + step, None]
        exponent = np.subtract(part, mean, out=buffer[: len(part)])
        exponent *= exponent
        exponent *= rate
        # Not by BLAS, whose own threads stand in each other's way where tables are measured in
        # several.
        np.einsum("sm,m->s", np.exp(exponent, out=exponent), weight, out=density[at : at + step])
    return density


def _mixture_matrix(
    inputs: Inputs, scales: ArrayLike | None, samples: int, rng: np.random.Generator
) -> Floats:
    """I(z_j; v_k) / H(v_k), (D, K), under the mixture posteriors of [Chen2018]."""
    if scales is None:
        raise ValueError(
            "expected scales for the protocol chen2018, got none: give the standard deviations "
            "of q(z|x), or use the protocol locatello2019, which reads the means only"
        )
    scale = as_scales(scales, inputs.codes.shape).astype(np.float64)
    rows = _even_rows(inputs.rows, samples, rng)
    # One noise for all codes: each I(z_j; v_k) is of one code, and gaps between codes vary less.
    noise = rng.standard_normal(samples)
    shared = np.empty((inputs.dims, len(inputs.names)))
    for j, mean in enumerate(inputs.codes.T):
        if inputs.discrete[j]:  # all mass of q(z_j|x) on one category: no mixture to integrate
            category = mean.astype(np.int64)
            shared[j] = [mutual_information(category, v) for v in inputs.factors.T]
        else:
            z = mean[rows] + scale[rows, j] * noise
            shared[j] = _mixture_information(z, rows, mean, scale[:, j], inputs.factors)
    # I <= H(v_k) holds exactly; rows drawn unevenly can step over it, as noise can below 0.
    entropies = np.array([entropy(v) for v in inputs.factors.T])
    return np.clip(_per_entropy(shared, entropies), 0.0, 1.0)


def _mixture_information(z: Floats, rows: Ints, mean: Floats, scale: Floats, v: Ints) -> Floats:
    """I(z; v_k) = E[log q(z|v_k) - log q(z)] for each factor, (K,), from draws z (S,) of `rows`.

    The logarithms are finite: each draw lies within a few scales of its own row, which is in both
    mixtures. The groups of one factor together give q(z) = sum_v p(v) q(z|v); those of the others
    are evaluated again, at their own draws, which costs less than picking them out. A factor of a
    single value tells nothing.
    """
    shared = np.zeros(v.shape[1])
    first, *others = sorted(np.flatnonzero(v.any(0)), key=lambda k: int(v[:, k].max()))
    groups = [v[:, first] == value for value in range(int(v[:, first].max()) + 1)]
    parts = [group.mean() * mixture_density(z, mean[group], scale[group]) for group in groups]
    log_q = np.log(np.sum(parts, axis=0))
    for group, part in zip(groups, parts, strict=True):
        draws = group[rows]
        log_given = np.log(part[draws] / group.mean())
        shared[first] += (log_given - log_q[draws]).sum() / len(z)
    for k in others:
        for value in range(int(v[:, k].max()) + 1):
            group = v[:, k] == value
            draws = group[rows]
            log_given = np.log(mixture_density(z[draws], mean[group], scale[group]))
            shared[k] += (log_given - log_q[draws]).sum() / len(z)
    return shared


def _even_rows(rows: int, samples: int, rng: np.random.Generator) -> Ints:
    """`samples` rows, each as often as any other up to one: less noise than independent draws."""
    if samples < 1:
        raise ValueError(f"expected at least 1 sample, got {samples}")
    whole = np.tile(np.arange(rows), samples // rows)
    return np.concatenate([whole, rng.permutation(rows)[: samples % rows]])


def _per_entropy(shared: Floats, entropies: Floats) -> Floats:
    """Divide column k of (D, K) by H(v_k); 0 where the factor has no entropy."""
    out = np.zeros_like(shared)
    return np.divide(shared, entropies, out=out, where=entropies > 0)
