"""Split a dataset at random into train, validation and test, always in the same way."""

from itertools import accumulate
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from unweave.core.noise import Noise

DataSplit = Literal["all", "train", "validation", "test"]
PERCENT = {"train": 80, "validation": 10, "test": 10}


def split_rows(split: DataSplit, size: int) -> NDArray[Any] | None:
    """Return the sorted numbers of the observations of a split; None for all of them.

    A fixed permutation of the N observations puts the first 80 % into the training split, the next
    10 % into the validation split and the rest into the test split.

    >>> [len(split_rows(split, 20)) for split in ("train", "validation", "test")]
    [16, 2, 2]
    """
    if split == "all":
        return None
    order = Noise(0, 0, "parts", "cpu").permutation(size, "order").numpy()
    ends = [0, *(size * percent // 100 for percent in accumulate(PERCENT.values()))]
    place = list(PERCENT).index(split)
    if ends[place] == ends[place + 1]:
        raise ValueError(
            f"{size} observations are too few for a {split} split of {PERCENT[split]} %: use all"
        )
    return np.sort(order[ends[place] : ends[place + 1]])
