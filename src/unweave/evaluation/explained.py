"""How much of the data a model explains: R^2 of its reconstructions, on held-out observations."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

from unweave.data import Dataset
from unweave.data.splits import available_splits, with_split
from unweave.evaluation.model import FittedModel, chosen_rows
from unweave.objectives import Nets

_MEAN_ROWS = 10_000  # observations that the mean of the training data is estimated from


class Explained(NamedTuple):
    """The share of the variance of observations that their reconstructions explain."""

    r2: float
    rows: int
    split: str
    held_out: bool  # whether the model was trained without these observations


def explained(model: FittedModel, rows: int = 2_000) -> Explained:
    """Measure how much reconstructions explain of the validation split, or else of the data.

    R^2 = 1 - sum (x - E[x|z])^2 / sum (x - m)^2, z the mean of q(z|x), and m the mean of the data
    that the model is on. It is 0 for a model that ignores its codes, and below 0 for one that does
    worse. Values are compared as the networks see them, after scaling.
    """
    dataset, held_out = _held_out(model)
    index = chosen_rows(dataset, rows)
    own = chosen_rows(model.dataset, _MEAN_ROWS)
    chunk = model.trained.chunk(dataset.shape)
    count = len(own)
    mean = sum(model.dataset.images(part).double().sum(0) for part in own.split(chunk)) / count
    error = total = 0.0
    for part in index.split(chunk):
        x = dataset.images(part)
        y = model.trained.alone(0, _reconstruct, x)
        error += float((x - y).double().square().sum())
        total += float((x - mean).square().sum())
    split = "validation" if held_out else model.split
    return Explained(1 - error / total if total else math.nan, len(index), split, held_out)


def _reconstruct(nets: Nets, x: Tensor) -> Tensor:
    z = nets.model.encode(x).mean
    noise = torch.zeros(len(z), nets.model.noise, device=z.device)
    return nets.model.decode(torch.cat([z, noise], 1)).mean


def _held_out(model: FittedModel) -> tuple[Dataset, bool]:
    """Return the validation split if the model was trained on the training split."""
    data = model.data
    if model.split != "train" or "validation" not in available_splits(data):
        return model.dataset, False
    return with_split(data, "validation").load(model.dataset.device), True
