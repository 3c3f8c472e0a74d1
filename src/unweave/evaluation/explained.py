"""How much of the data a model explains: R^2 of its reconstructions, on held-out observations."""

from typing import NamedTuple, get_args

from unweave.data import Data, Dataset
from unweave.data.selection import HeldOutSplit
from unweave.data.splits import available_splits, on_split, split_of, with_split
from unweave.evaluation.model import FittedModel
from unweave.evaluation.validation import Validation


class Explained(NamedTuple):
    """The share of the variance of observations that their reconstructions explain."""

    r2: float
    rows: int
    split: str
    held_out: bool  # whether the model was trained without these observations


def explained(model: FittedModel) -> Explained:
    """Measure R^2 as `Validation` does, on observations that the model has not seen if there are.

    A model on the training split is measured on the validation split, any other on its own data.
    """
    data, split = model.data, split_of(model.run.data)
    if split_of(data) == split and "train" in split.split(" of "):
        data = with_split(data, "validation") if "validation" in available_splits(data) else data
    validation = Validation(_load(model, data), _load(model, on_split(data, split)))
    (loss,) = validation.measure(model.trained)
    held_out = _disjoint(split_of(data), split)
    return Explained(loss.r2, len(validation.index), split_of(data), held_out)


def _load(model: FittedModel, data: Data) -> Dataset:
    return model.dataset if data == model.data else data.load(model.device)


def _disjoint(one: str, two: str) -> bool:
    """Return whether two splits have no observation in common.

    >>> _disjoint("test", "train"), _disjoint("all", "train"), _disjoint("held-out", "rest")
    (True, False, True)
    """
    names = [set(split.split(" of ")) - {"all"} for split in (one, two)]
    selections = [each & set(get_args(HeldOutSplit)) for each in names]
    files = [each - set(get_args(HeldOutSplit)) for each in names]
    return any(a and b and a != b for a, b in (selections, files))
