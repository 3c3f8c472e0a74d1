"""Mutual information between binned codes and factors, in nats."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from unweave.metrics.arrays import Floats, Ints, subset
from unweave.metrics.inputs import Inputs, read
from unweave.metrics.score import Detail, Score
from unweave.metrics.validation import check_arguments

ROUNDING = 1e-12  # nats that rounding can add between independent variables


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
        return divide_by_entropy(self.shared, self.entropies)

    def details(self, inputs: Inputs) -> dict[str, Detail]:
        """Return details that metrics of binned codes have in common."""
        return {
            "samples": len(self.codes),
            "best codes": self.shared.argmax(0)[inputs.scored].tolist(),
            "factors cut into bins": inputs.continuous_names,
        }


def bin_rows(inputs: Inputs, samples: int, bins: int) -> Binned:
    """Cut codes and continuous factors of `samples` random rows into bins of equal width."""
    rows = subset(inputs.rows, samples, inputs.rng)
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


@check_arguments
def mutual_information_matrix(
    codes: ArrayLike,
    factors: ArrayLike,
    bins: int = 20,
    *,
    discrete: ArrayLike | None = None,
    continuous: Sequence[int | str] | None = None,
) -> Floats:
    """Compute I(z_j; v_k) / H(v_k) of binned codes, (D, K), from all rows.

    The binning is that of [Locatello2019]. Factors that are `continuous`, given by index, are
    binned too; by default those of real numbers that do not repeat. A factor with a single value
    has no information to share: its column is 0.

    >>> mutual_information_matrix([[0.0], [0.1], [0.9], [1.0]], [[0, 0], [0, 1], [1, 0], [1, 1]], 2)
    array([[1., 0.]])
    """
    inputs = read(codes, factors, discrete=discrete, continuous=continuous)
    return bin_rows(inputs, inputs.rows, bins).normalised


def entropy(labels: Ints) -> float:
    """Compute H(v) = - sum_v p(v) log p(v) of labels (N,) numbered from 0, in nats."""
    p = np.bincount(labels) / len(labels)
    p = p[p > 0]
    return float(-(p * np.log(p)).sum())


def mutual_information(a: Ints, b: Ints) -> float:
    """Compute I(a; b) = sum p(a, b) log p(a, b) / (p(a) p(b)) in nats.

    a and b are labels (N,) numbered from 0.
    """
    width, height = int(b.max()) + 1, int(a.max()) + 1
    # Count only pairs that occur: two variables of N values have N^2 possible ones.
    pair = a * width + b
    if width * height > 4 * len(a):
        seen, counts = np.unique(pair, return_counts=True)
    else:
        counts = np.bincount(pair)
        seen = np.flatnonzero(counts)
        counts = counts[seen]
    p = counts / len(a)
    independent = (np.bincount(a) / len(a))[seen // width] * (np.bincount(b) / len(a))[seen % width]
    shared = float((p * np.log(p / independent)).sum())
    return shared if shared > ROUNDING else 0.0


def discretise(code: Floats, bins: int) -> Ints:
    """Return the bin, 0 to bins - 1, of each number (N,): equal widths over their range."""
    if bins < 2:
        raise ValueError(f"expected at least 2 bins, got {bins}")
    edges = np.histogram_bin_edges(code, bins)
    # Without the last edge, so that the largest number falls into the last bin.
    return np.digitize(code, edges[:-1]) - 1


def top_gap(matrix: Floats) -> Floats:
    """Return the largest minus the second largest entry of each column of (D, K), (K,).

    If there is a single row, the second largest is 0.
    """
    padded = np.vstack([np.zeros((1, matrix.shape[1])), matrix])
    second, first = np.partition(padded, (-2, -1), axis=0)[-2:]
    gap: Floats = first - second
    return gap


def gap_score(inputs: Inputs, matrix: Floats, rows_read: int, details: dict[str, Detail]) -> Score:
    """Return the mean gap between the two best codes of each factor, from a matrix (D, K)."""
    gap = top_gap(matrix)
    return inputs.score(
        gap[inputs.scored].mean(),
        parts=inputs.by_factor(gap),
        matrix=matrix,
        rows_read=rows_read,
        details={**details, "best codes": matrix.argmax(0)[inputs.scored].tolist()},
    )


def divide_by_entropy(shared: Floats, entropies: Floats) -> Floats:
    """Divide column k of (D, K) by H(v_k); 0 if the factor has no entropy."""
    return np.divide(shared, entropies, out=np.zeros_like(shared), where=entropies > 0)
