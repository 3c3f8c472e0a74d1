"""Train, validation and test: parts of a data set, always the same."""

from __future__ import annotations

from itertools import accumulate
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from unweave.noise import Noise

Part = Literal["all", "train", "validation", "test"]
SHARES = {"train": 80, "validation": 10, "test": 10}  # of a hundred


def members_of(part: Part, size: int) -> NDArray[Any] | None:
    """Numbers of the observations of a part, in their order; None: all of them.

    Of N observations, permuted once and for all, the first 80 % are for training, the next 10 %
    for validation, and the rest for testing.

    >>> [len(members_of(part, 20)) for part in ("train", "validation", "test")]
    [16, 2, 2]
    """
    if part == "all":
        return None
    order = Noise(0, 0, "parts", "cpu").permutation(size, "order").numpy()
    ends = [0, *(size * share // 100 for share in accumulate(SHARES.values()))]
    at = list(SHARES).index(part)
    if ends[at] == ends[at + 1]:
        raise ValueError(
            f"{size} observations are too few for a {part} part, {SHARES[part]} % of them: use all"
        )
    return np.sort(order[ends[at] : ends[at + 1]])
