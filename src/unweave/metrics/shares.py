"""How much of each factor each code explains, and how much it would explain by chance."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse import csr_array
from scipy.special import xlogy

from unweave.metrics.arrays import Bools, Floats, Ints
from unweave.metrics.information import (
    ROUNDING,
    bin_rows,
    divide_by_entropy,
    mutual_information,
)
from unweave.metrics.inputs import Inputs, read
from unweave.metrics.validation import check_arguments

SHUFFLES = 99  # a factor that is independent of the codes exceeds all of them once in 100 times
_FEW = 16  # classes; with more, counting the pairs of one code and one factor at a time is faster


class FactorShares(NamedTuple):
    """The share of each factor that each code explains, and the largest one due to chance."""

    values: Floats  # (D, K): 0 is the mean after shuffles, 1 a factor that is determined
    chance: Floats  # (K,): the largest value of any code after any shuffle of the factor

    @property
    def above_chance(self) -> Bools:
        """Where a code explains more of a factor than any code does after any shuffle, (D, K).

        The rows of an independent factor are exchangeable, so the probability that any code is
        above chance for it is at most 1 / (S + 1) = 0.01 for the S = 99 shuffles.
        """
        return self.values > self.chance + ROUNDING


@check_arguments
def factor_shares(
    codes: ArrayLike,
    factors: ArrayLike,
    *,
    discrete: ArrayLike | None = None,
    continuous: Sequence[int | str] | None = None,
    seed: int = 0,
) -> FactorShares:
    """Compute the share of each factor that each code explains, corrected for chance.

    For a discrete factor it is I(z_j; v_k) / H(v_k) of codes in 20 bins. For a continuous factor it
    is the correlation ratio of ranks, the larger of Var(E[v|z]) / Var(v) and Var(E[z|v]) / Var(z),
    with N^(1/3) bins: it finds monotone and other dependence among far fewer rows than information
    in 20 x 20 bins. A share s becomes (s - m) / (1 - m), with the mean m of the shares for all
    other orders of the factor; shares of shuffled factors become the same, so they are comparable.

    >>> z = np.arange(60.0)[:, None]
    >>> bool(factor_shares(z, (z - 30) ** 2, continuous=[0]).above_chance[0, 0])
    True
    """
    inputs = read(codes, factors, discrete=discrete, continuous=continuous)
    rng = np.random.default_rng(seed)
    unshuffled = np.arange(inputs.rows)
    orders = np.stack([unshuffled, *(rng.permutation(inputs.rows) for _ in range(SHUFFLES))], 1)
    raw = np.zeros((SHUFFLES + 1, inputs.codes.shape[1], len(inputs.continuous)))
    if not inputs.continuous.all():
        raw = _entropy_shares(inputs, orders)
    if inputs.continuous.any():
        raw[:, :, inputs.continuous] = _variance_shares(inputs, orders)
    expected = (raw.sum(0) - raw) / SHUFFLES  # the mean over all other orders
    room = 1 - expected
    corrected = np.divide(raw - expected, room, out=np.zeros_like(raw), where=room > ROUNDING)
    corrected = np.maximum(corrected, 0.0)
    return FactorShares(corrected[0], corrected[1:].max((0, 1)))


def _entropy_shares(inputs: Inputs, orders: Ints) -> Floats:
    """I(z_j; v_k) / H(v_k) in 20 bins for every order of the rows, (S, D, K)."""
    binned = bin_rows(inputs, inputs.rows, 20)
    shared = np.zeros((orders.shape[1], *binned.shared.shape))
    few = ~inputs.continuous & (binned.factors.max(0) < _FEW)
    if few.any():
        shared[:, :, few] = _information_of_counts(binned.codes, binned.factors[:, few], orders)
    for k in np.flatnonzero(~inputs.continuous & ~few):
        for s, order in enumerate(orders.T):
            v = binned.factors[order, k]
            shared[s, :, k] = [mutual_information(z, v) for z in binned.codes.T]
    return np.stack([divide_by_entropy(each, binned.entropies) for each in shared])


def _information_of_counts(codes: Ints, factors: Ints, orders: Ints) -> Floats:
    """I(z_j; v_k) of labels (N, D) and (N, K) for every order of the rows, (S, D, K), in nats.

    With n(z) of N rows in class z, it is log N + sum n(z, v) log n(z, v) / N, less the same sums
    of n(z) and of n(v). One product of indicators counts the pairs of all codes and factors.
    """
    n = len(codes)
    (z, z_starts), (v, v_starts) = _indicators(codes), _indicators(factors)
    terms = xlogy(np.arange(n + 1), np.arange(n + 1)) / n
    own = [
        np.add.reduceat(terms[each.sum(0).astype(np.int64)], starts)
        for each, starts in ((z, z_starts), (v, v_starts))
    ]
    transposed, dense = z.T.tocsr(), v.toarray()
    found = []
    for order in orders.T:
        pairs = terms[(transposed @ dense[order]).astype(np.int64)]
        joint = np.add.reduceat(np.add.reduceat(pairs, z_starts), v_starts, 1)
        found.append(terms[n] + joint - own[0][:, None] - own[1])
    shared = np.stack(found)
    return np.where(shared > ROUNDING, shared, 0.0)


def _indicators(labels: Ints) -> tuple[csr_array, Ints]:
    """Return the indicators of all classes of labels (N, D), and the first column of each label.

    They are float32, in which counts below 2^24 are exact.
    """
    sizes = labels.max(0) + 1
    starts = np.cumsum(sizes) - sizes
    columns = (labels + starts).ravel()
    rows = np.arange(len(labels)).repeat(labels.shape[1])
    ones = np.ones(len(rows), np.float32)
    return csr_array((ones, (rows, columns)), shape=(len(labels), int(sizes.sum()))), starts


def _variance_shares(inputs: Inputs, orders: Ints) -> Floats:
    """Return the correlation ratios of ranks for every order of the rows, (S, D, continuous K)."""
    factors = [_ranks(v) for v in inputs.values[:, inputs.continuous].T]
    shuffled = [v[orders] for v in factors]
    inverse = orders.argsort(0)  # z and v[order] pair the same rows as z[inverse] and v
    found = []
    for z, discrete in zip(inputs.codes.T, inputs.discrete, strict=True):
        if discrete:
            classes = np.unique(z, return_inverse=True)[1]
            found.append([_correlation_ratio(classes, v) for v in shuffled])
            continue
        ranks = _ranks(z)
        groups, moved = _equal_bins(ranks), ranks[inverse]
        found.append(
            [
                np.maximum(
                    _correlation_ratio(groups, v_shuffled),
                    _correlation_ratio(_equal_bins(v), moved),
                )
                for v, v_shuffled in zip(factors, shuffled, strict=True)
            ]
        )
    return np.array(found).transpose(2, 0, 1)


def _ranks(values: Floats) -> Floats:
    """Return ranks around 0, equal for ties, (N,)."""
    from scipy.stats import rankdata

    ranks: Floats = rankdata(values) - (len(values) + 1) / 2
    return ranks


def _equal_bins(ranks: Floats) -> Ints:
    """Return the bin of each rank: N^(1/3) bins with as many rows each, but ties together."""
    n = len(ranks)
    bins = max(2, round(n ** (1 / 3)))
    binned: Ints = np.floor((ranks + n / 2) * bins / n).astype(np.int64).clip(0, bins - 1)
    return binned


def _correlation_ratio(groups: Ints, ranks: Floats) -> Floats:
    """Return Var(E[ranks|group]) / Var(ranks) for each column of ranks (N, S), (S,)."""
    counts, n = np.bincount(groups), len(groups)
    weights = csr_array((1 / np.sqrt(counts[groups]), (groups, np.arange(n))))
    between, total = np.square(weights @ ranks).sum(0), np.square(ranks).sum(0)
    ratio: Floats = np.divide(between, total, out=np.zeros_like(between), where=total > 0)
    return ratio
