"""Split a dataset at random into train, validation and test, always in the same way."""

from itertools import accumulate
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from unweave.core.noise import Noise

DataSplit = Literal["all", "train", "validation", "test"]
PERCENT = {"train": 80, "validation": 10, "test": 10}


def split_rows(
    split: DataSplit, size: int, first: NDArray[np.int64] | None = None
) -> NDArray[Any] | None:
    """Return the sorted indices of the observations of a split; None for all of them.

    A fixed permutation of the N observations puts the first 80 % into the training split, the next
    10 % into the validation split and the rest into the test split. If some are copies of others,
    only the distinct ones are permuted, and copies follow them; an observation whose copies are
    more than a tenth of all goes to the training split.

    >>> [len(split_rows(split, 20)) for split in ("train", "validation", "test")]
    [16, 2, 2]

    Args:
        split: the split to take.
        size: number of observations.
        first: (N,) index of the first observation that equals each one; None if all differ.
    """
    if split == "all":
        return None
    if first is None:
        return np.sort(_order(size)[_places(split, size, "observations")])
    numbers, copies = np.unique(first, return_counts=True)
    order = _order(len(numbers))
    many = copies[order] > size // 10
    order = np.concatenate([order[many], order[~many]])
    places = _places(split, len(numbers), "distinct observations", int(many.sum()))
    chosen = numbers[order[places]]
    return np.flatnonzero(np.isin(first, chosen))


def _order(count: int) -> NDArray[np.int64]:
    return Noise(0, 0, "parts", "cpu").permutation(count, "order").numpy()


def _places(split: DataSplit, count: int, noun: str, trained: int = 0) -> slice:
    """Return the places of a split in an order of `count` observations.

    The first `trained` of them are in the training split.
    """
    percents = accumulate(PERCENT.values())
    ends = [0, *(max(trained, count * percent // 100) for percent in percents)]
    place = list(PERCENT).index(split)
    if ends[place] == ends[place + 1]:
        raise ValueError(
            f"{count} {noun} are too few for a {split} split of {PERCENT[split]} %: use all"
        )
    return slice(ends[place], ends[place + 1])
