"""Rows of a table that share the value of a factor.

Metrics that hold a factor fixed choose among the rows with one value of it. On a full lattice that
draws the other factors uniformly, as the papers do; on other tables it draws them as they occur
together with this value.
"""

import math
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from unweave.metrics.arrays import Ints
from unweave.metrics.inputs import Inputs
from unweave.metrics.score import Detail


class Groups(NamedTuple):
    """The rows of a table grouped by the value of one factor."""

    order: Ints  # (N,) rows sorted by value
    start: Ints  # (N,) where the group of each row begins in `order`
    size: Ints  # (N,) how many rows share the value of each row
    repeated: Ints  # rows whose value occurs in another row as well


def group_rows(factor: Ints) -> Groups:
    """Group the rows by the values (N,) of one factor, numbered 0, 1, ..."""
    sizes = np.bincount(factor)
    start = np.cumsum(sizes) - sizes
    size = sizes[factor]
    return Groups(np.argsort(factor, kind="stable"), start[factor], size, np.flatnonzero(size > 1))


def group_by_factor(inputs: Inputs) -> dict[int, Groups]:
    """Group the rows by each scored factor that has a value in at least two rows."""
    groups = {int(k): group_rows(inputs.factors[:, k]) for k in inputs.scored}
    groups = {k: group for k, group in groups.items() if len(group.repeated)}
    if not groups:
        raise ValueError(
            "expected a factor with a value that occurs in at least two rows, got none: to fix a "
            "factor, encode several observations that share its value"
        )
    return groups


def group_details(inputs: Inputs, groups: Mapping[int, Groups]) -> dict[str, Detail]:
    """Return the details of a score that holds these factors fixed."""
    return {
        "combinations missing": combinations_missing(inputs, list(groups)),
        "factors left out": [name for k, name in enumerate(inputs.names) if k not in groups],
        "chance": 1 / len(groups),
    }


def combinations_missing(inputs: Inputs, factors: list[int]) -> int:
    """Count the combinations of values that no row has; 0 for a full lattice."""
    cell = np.zeros(inputs.rows, dtype=np.int64)
    for k in factors:
        # Renumbering after each factor keeps the numbers below N x size, so they cannot overflow.
        cell = np.unique(cell * inputs.sizes[k] + inputs.factors[:, k], return_inverse=True)[1]
    return math.prod(int(inputs.sizes[k]) for k in factors) - int(cell.max()) - 1


def random_below(bound: int | Ints, shape: tuple[int, ...], rng: np.random.Generator) -> Ints:
    """Draw integers from 0 to below `bound`, uniform up to a bias of at most bound / 2^32.

    The high half of 32 random bits times the bound: three times as fast as `rng.integers`.
    """
    integers = rng.integers(2**32, size=shape, dtype=np.uint32).astype(np.int64)
    integers *= bound
    integers >>= 32
    return integers
