"""Train/test splits as the docstrings of metrics describe them, without the library."""

import numpy as np


def halves(codes, factors, rng, train=10_000, test=5_000):
    """Return codes and factors of the training rows, and of the test rows."""
    rows = len(codes)
    if rows < train + test:
        train = round(rows * train / (train + test))
    order = np.random.default_rng(rng).permutation(rows)
    first, second = order[:train], order[train : train + test]
    return codes[first], factors[first], codes[second], factors[second]


def scaled(train, test):
    """Standardise both by the training rows."""
    mean, deviation = train.mean(0), train.std(0)
    return (train - mean) / deviation, (test - mean) / deviation


UNEVEN = np.array([0, 1, 2, 40, 41, 100])  # values that differ from their ranks


def categories(rng, rows=600):
    """Return factors, codes whose first column is a category, and codes with categories renamed."""
    factors = np.stack([rng.integers(6, size=rows), rng.integers(5, size=rows)], 1)
    odd = rng.random(rows) < 0.1
    first = np.where(odd, rng.integers(6, size=rows), factors[:, 0])
    codes = np.column_stack([first, factors[:, 1] + 0.3 * rng.standard_normal(rows)])
    renamed = codes.copy()
    renamed[:, 0] = np.array([3, 0, 5, 1, 4, 2])[first]
    return factors, codes, renamed
