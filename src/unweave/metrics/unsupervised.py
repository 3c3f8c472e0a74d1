"""Unsupervised metrics of codes: sparsity, active codes, and dependence between codes."""

import math
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from unweave.metrics.arrays import Floats, Ints, Seed, as_codes, as_kl, as_mask, subset
from unweave.metrics.information import discretise, mutual_information
from unweave.metrics.score import Score
from unweave.metrics.validation import check_arguments


@check_arguments
def hoyer(
    codes: ArrayLike,
    *,
    protocol: Literal["mathieu2019", "mathieu2019-normalised"] = "mathieu2019",
    discrete: ArrayLike | None = None,
) -> Score:
    """Compute the sparsity of the codes: 0 if all are equally large, 1 if only one is not 0.

    Hoyer(z) = (sqrt D - |z|_1 / |z|_2) / (sqrt D - 1), averaged over the rows.
    [Mathieu2019] sec. 6.3 and app. B

    Protocols: `mathieu2019` applies the formula to the unchanged codes, so a code that has
    collapsed to 0 makes every row sparser. `mathieu2019-normalised` first divides each code by its
    standard deviation; the released code does so, and the paper's figure shows this number,
    although the text does not mention it. A constant code cannot be normalised and is left out; D
    counts the others.

    The released code takes the Hoyer value of the mean of |z|_1 / |z|_2. The formula is linear in
    this ratio, so this equals the mean of the Hoyer values. Rows of zeros have no ratio and are
    left out, and so are discrete codes. The value depends on D, so compare only codes of equal
    dimension.

    Args:
        codes: (N, D) posterior means, of which at least two must count.
        protocol: whether to normalise the codes.
        discrete: (D,) mask of the codes that are categories.

    Returns:
        The mean over rows, in [0, 1].

    >>> hoyer([[1.0, 0.0], [0.0, -2.0]]), hoyer([[1.0, -1.0], [2.0, 2.0]])
    (Score(hoyer/mathieu2019 = 1.0000), Score(hoyer/mathieu2019 = 0.0000))
    """
    z, columns = continuous_codes(codes, discrete)
    if protocol == "mathieu2019-normalised":
        varied = varied_columns(z)
        z, columns = z[:, varied] / z[:, varied].std(0), columns[varied]
    if z.shape[1] < 2:
        raise ValueError(
            f"expected at least two codes that count, got {z.shape[1]}: one number alone is "
            "neither sparse nor dense"
        )
    z = z[z.any(1)]
    if not len(z):
        raise ValueError("expected a row that is not all zeros, got none: check the encoder")
    largest = np.abs(z).max(1, keepdims=True)
    unit = z / largest  # does not change the ratio, and avoids underflow of squares
    ratio = np.abs(unit).sum(1) / np.sqrt(np.square(unit).sum(1))
    root = math.sqrt(z.shape[1])
    value = (root - float(ratio.mean())) / (root - 1)
    return Score(
        "hoyer",
        protocol,
        min(1.0, max(0.0, value)),
        details={"rows": len(z), "codes": columns.tolist()},
    )


@check_arguments
def active_units(
    codes: ArrayLike,
    *,
    protocol: Literal["burda2016", "kl"] = "burda2016",
    kl: ArrayLike | None = None,
    threshold: float = 0.01,
    discrete: ArrayLike | None = None,
) -> Score:
    """Count the codes that carry information about the observation.

    Protocols: `burda2016` counts the codes with Var_x(E[z_j|x]) > 0.01.  [Burda2016] sec. 5.2
    It depends on the scale of the codes; for categories, which have no mean, the variance is
    Gini's, half the chance that two rows differ.
    `kl` counts the codes with E_x KL(q(z_j|x) || p(z_j)) > 0.01 nats, the informative latent
    variables of [Duan2020].

    Args:
        codes: (N, D) posterior means.
        protocol: by the variance of the means or by the KL.
        kl: (D,) mean KL(q(z_j|x) || p(z_j)), which the protocol `kl` needs and the other ignores.
        threshold: variance or KL above which a code is active.
        discrete: (D,) mask of the codes that are categories.

    Returns:
        The number of active codes. Parts: the variance or KL of each code.

    >>> active_units([[0.0, 1.0], [0.01, -1.0]])
    Score(active_units/burda2016 = 1.0000; code 0 0.000, code 1 1.000)
    """
    z = as_codes(codes).astype(np.float64)
    if protocol == "kl":
        if kl is None:
            raise ValueError(
                "expected kl for the protocol kl, got none: give the mean KL(q(z_j|x) || p(z_j)) "
                "of each code, or use the protocol burda2016, which reads the means only"
            )
        amounts = as_kl(kl, z.shape[1])
    else:
        mask = as_mask("discrete", discrete, z.shape[1])
        amounts = np.array(
            [_variance(column, flag) for column, flag in zip(z.T, mask, strict=True)]
        )
    active = amounts > threshold
    return Score(
        "active_units",
        protocol,
        float(active.sum()),
        parts={f"code {j}": float(amount) for j, amount in enumerate(amounts)},
        details={"active": np.flatnonzero(active).tolist(), "threshold": threshold, "rows": len(z)},
    )


def gaussian_total_correlation(codes: ArrayLike, *, discrete: ArrayLike | None = None) -> Score:
    """Compute the total correlation of the codes in nats as if they were jointly Gaussian.

    TC = 1/2 (sum_j log C_jj - log det C), C the covariance of the posterior means: the KL from
    N(0, C) to the product of its marginals.  [Locatello2019]

    It measures only linear dependence, and only of the means, not of samples of q(z|x); for the
    exact total correlation see `total_correlation`. It does not depend on the scale of the
    codes. It is infinite if a code is a linear function of others, as with fewer rows than codes.
    Constant codes and categories are left out. disentanglement_lib takes 10,000 rows; its value is
    undefined for a constant code, and depends on rounding for a singular C.

    Args:
        codes: (N, D) posterior means.
        discrete: (D,) mask of the codes that are categories.

    Returns:
        Nats, at least 0. Matrix: the correlations, (D, D), 1 on the diagonal.

    >>> gaussian_total_correlation([[1.0, 1.0], [1.0, -1.0], [-1.0, 1.0], [-1.0, -1.0]])
    Score(gaussian_total_correlation/locatello2019 = 0.0000)
    """
    z, columns = continuous_codes(codes, discrete)
    matrix = np.eye(as_codes(codes).shape[1])
    varied = varied_columns(z)
    value = 0.0
    if len(varied):
        correlations = _correlations(z[:, varied])
        matrix[np.ix_(columns[varied], columns[varied])] = correlations
        # log det C - sum log C_jj is the log determinant of the correlations.
        least = np.finfo(np.float64).eps * 10 * len(varied)
        values = np.linalg.eigvalsh(correlations)
        value = math.inf if values[0] <= least else max(0.0, -0.5 * float(np.log(values).sum()))
    return Score(
        "gaussian_total_correlation",
        "locatello2019",
        value,
        matrix=matrix,
        details={"rows": len(z), "codes": columns[varied].tolist()},
    )


@check_arguments
def gaussian_wasserstein_correlation(
    codes: ArrayLike,
    *,
    protocol: Literal["locatello2019", "locatello2019-normalised"] = "locatello2019",
    discrete: ArrayLike | None = None,
) -> Score:
    """Compute the distance of the codes from independence, as if they were jointly Gaussian.

    W_2^2(N(0, C), N(0, diag C)) = 2 tr C - 2 tr (S C S)^(1/2) with S^2 = diag C, C the covariance
    of the posterior means (divided by N - 1).  [Locatello2019]

    Protocols: `locatello2019` is the distance, which grows with the square of the scale of the
    codes. `locatello2019-normalised` divides it by tr C, and lies in [0, 2).

    Unlike the total correlation it is finite if codes are linear functions of one another. A
    constant code adds nothing; if all are constant it is 0. Categories are left out.

    Args:
        codes: (N, D) posterior means.
        protocol: the distance, or its ratio to the total variance.
        discrete: (D,) mask of the codes that are categories.

    Returns:
        At least 0. Matrix: the covariance of the codes that count.

    >>> gaussian_wasserstein_correlation([[1.0, 1.0], [-1.0, -1.0]])
    Score(gaussian_wasserstein_correlation/locatello2019 = 2.3431)
    """
    z, columns = continuous_codes(codes, discrete)
    centred = z - z[:1]  # so that equal numbers have a variance of exactly 0
    covariance = _products(centred - centred.mean(0)) / (len(z) - 1)
    variances = np.diag(covariance)
    scales, total = np.sqrt(variances), float(variances.sum())
    # S C S is symmetric with the eigenvalues of diag(C) C; rounding can make one negative.
    values = np.linalg.eigvalsh(scales[:, None] * covariance * scales).clip(min=0.0)
    distance = max(0.0, 2 * total - 2 * float(np.sqrt(values).sum()))
    if protocol == "locatello2019-normalised":
        distance = distance / total if total > 0 else 0.0
    return Score(
        "gaussian_wasserstein_correlation",
        protocol,
        distance,
        matrix=covariance,
        details={"rows": len(z), "codes": columns.tolist()},
    )


@check_arguments
def mean_pairwise_information(
    codes: ArrayLike,
    *,
    seed: Seed = 0,
    samples: int = 10_000,
    bins: int = 20,
    discrete: ArrayLike | None = None,
) -> Score:
    """Compute the mean mutual information between two different codes, in nats.

    1 / (D (D - 1)) sum_{i != j} I(z_i; z_j), of posterior means in 20 bins of equal width over
    their ranges, from 10,000 rows: the "mutual information score" of [Locatello2019].

    It measures any dependence between two codes, but none among three. A constant code shares
    nothing but counts in D, so collapsed codes lower the mean; compare only codes of equal
    dimension. With few rows the estimate is too high, by about (bins - 1)^2 / (2 N).

    Args:
        codes: (N, D) posterior means, D >= 2.
        seed: an integer or a NumPy generator.
        samples: rows to estimate from.
        bins: bins per code.
        discrete: (D,) mask of the codes that are categories; these are not binned.

    Returns:
        Nats. Matrix: I(z_i; z_j), (D, D), and the entropies on the diagonal.

    >>> mean_pairwise_information([[0.0, 3.0], [0.0, 4.0], [1.0, 3.0], [1.0, 4.0]])
    Score(mean_pairwise_information/locatello2019 = 0.0000)
    """
    z = as_codes(codes).astype(np.float64)
    count = z.shape[1]
    if count < 2:
        raise ValueError(f"expected at least two codes to form a pair, got {count}")
    mask = as_mask("discrete", discrete, count)
    rows = subset(len(z), samples, np.random.default_rng(seed))
    labels = [
        np.unique(column, return_inverse=True)[1] if flag else discretise(column, bins)
        for column, flag in zip(z[rows].T, mask, strict=True)
    ]
    matrix = np.empty((count, count))
    for i in range(count):
        for j in range(i + 1):
            matrix[i, j] = matrix[j, i] = mutual_information(labels[i], labels[j])
    return Score(
        "mean_pairwise_information",
        "locatello2019",
        float(matrix[~np.eye(count, dtype=bool)].mean()),
        matrix=matrix,
        details={"rows": len(rows), "constant": [j for j in range(count) if not matrix[j, j]]},
    )


def continuous_codes(codes: ArrayLike, discrete: ArrayLike | None) -> tuple[Floats, Ints]:
    """Return the codes that are not categories, (N, C), in double precision, and their indices."""
    z = as_codes(codes)
    columns = np.flatnonzero(~as_mask("discrete", discrete, z.shape[1]))
    return z[:, columns].astype(np.float64), columns


def varied_columns(z: Floats) -> Ints:
    """Return the indices of the columns that take more than one value."""
    return np.flatnonzero(z.max(0) > z.min(0)) if z.size else np.arange(0)


def _variance(code: Floats, discrete: bool) -> float:
    """Compute the variance of a code (N,), divided by N; Gini's for categories."""
    if not discrete:
        return float((code - code[0]).var())
    shares = np.unique(code, return_counts=True)[1] / len(code)
    return float(1 - np.square(shares).sum()) / 2


def _correlations(z: Floats) -> Floats:
    """Compute the Pearson correlations of columns that vary, (C, C)."""
    centred = z - z.mean(0)
    unit = centred / np.abs(centred).max(0)  # avoids underflow of squares
    unit /= np.sqrt(np.square(unit).sum(0))
    correlations = _products(unit)
    np.fill_diagonal(correlations, 1.0)
    return correlations


def _products(z: Floats) -> Floats:
    """Compute z^T z, (C, C), without BLAS, whose order of summation depends on the machine."""
    products: Floats = np.einsum("ni,nj->ij", z, z)
    return products
