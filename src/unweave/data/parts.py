"""Train, validation and test: splits of a data set, always the same."""

from __future__ import annotations

from itertools import accumulate
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from unweave.core.noise import Noise

DataSplit = Literal["all", "train", "validation", "test"]
SHARES = {"train": 80, "validation": 10, "test": 10}  # of a hundred


def members_of(split: DataSplit, size: int) -> NDArray[Any] | None:
    """Numbers of the observations of a split, in their order; None: all of them.

    Of N observations, permuted once and for all, the first 80 % are for training, the next 10 %
    for validation, and the rest for testing.

    >>> [len(members_of(split, 20)) for split in ("train", "validation", "test")]
    [16, 2, 2]
    """
    if split == "all":
        return None
    order = Noise(0, 0, "parts", "cpu").permutation(size, "order").numpy()
    ends = [0, *(size * share // 100 for share in accumulate(SHARES.values()))]
    at = list(SHARES).index(split)
    if ends[at] == ends[at + 1]:
        raise ValueError(
            f"{size} observations are too few for a {split} split of {SHARES[split]} %: use all"
        )
    return np.sort(order[ends[at] : ends[at + 1]])
