"""Semi-supervision: a block of the latent space told what it is to mean on some observations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated

import torch
from pydantic import Field
from torch import Tensor

from unweave.core.hints import nearest
from unweave.core.noise import Noise
from unweave.core.schedules import Weight
from unweave.core.spec import spec
from unweave.data import Dataset
from unweave.latents import Distribution, Latent
from unweave.objectives.base import MODEL, Batch, Carry, Nets, Term, Terms, Update
from unweave.objectives.compatibility import leaves, part


@spec
class Label:
    """-weight log q(z_block = factor | x), the mean over observations whose factor is known.

    The supervised term of [Esmaeili2019] sec. 6, after [Siddharth2017] eq. 4, for any objective: in
    a batch the sum over those that have the label, by the number that is expected to. Which ones
    have it is the same for every run.
    """

    factor: str
    block: str = ""
    share: Annotated[float, Field(gt=0, le=1)] = 0.1
    weight: Weight = 1.0

    @property
    def name(self) -> str:
        """The name of its term and weight: label, factor, and the path of the block."""
        return "_".join(["label", self.factor, *self.block.split(".")]).rstrip("_")

    def check(self, latent: Latent, factors: Mapping[str, int]) -> None:
        """Raise a ValueError where the block or factor is not there, or they do not fit."""
        if not factors:
            raise ValueError(
                "a label needs data with factors: an .npz file with them, or "
                "unweave.data.from_array(images, factors=...)[0] for arrays"
            )
        if self.factor not in factors:
            raise ValueError(
                f"{self.factor!r} is not a factor of the data: {nearest(self.factor, factors)}"
            )
        blocks = leaves(latent)
        if self.block not in blocks:
            raise ValueError(
                f"{self.block!r} is not a block of the latent tree: {nearest(self.block, blocks)}"
            )
        blocks[self.block].target(torch.zeros(1), factors[self.factor])


class Teacher:
    """What the labels of a run say about observations of its data."""

    def __init__(self, labels: Sequence[Label], latent: Latent, dataset: Dataset) -> None:
        self.labels, self.dataset, self.blocks = labels, dataset, leaves(latent)
        noise = Noise(0, 0, "labels", dataset.device)
        self.known = [
            noise.uniform((dataset.size,), label.factor) < label.share for label in labels
        ]

    def targets(self, index: Tensor) -> dict[str, Tensor]:
        """Code and presence of every label for observations (...): (..., width) and (...)."""
        if not self.labels:
            return {}
        factors, found = self.dataset.factors(index), {}
        for number, label in enumerate(self.labels):
            column = self.dataset.factor_names.index(label.factor)
            classes = self.dataset.factor_sizes[column]
            target = self.blocks[label.block].target(factors[..., column], classes)
            found[f"target{number}"] = target.to(torch.float32)
            found[f"known{number}"] = self.known[number][index]
        return found


def with_labels(turn: Update, labels: Sequence[Label], weights: Mapping[str, Tensor]) -> Update:
    """The turn with the labels' terms added, if it is the model's; their weights are by name."""
    if not labels or turn.player != MODEL:
        return turn

    def loss(nets: Nets, batch: Batch, noise: Noise, carry: Carry) -> tuple[Terms, Carry]:
        terms, left = turn.loss(nets, batch, noise, carry)
        # An autoencoder has encoded the batch already.
        raw = left["raw"] if "raw" in left else nets.model.raw(batch.x)
        told = label_nats(nets.model.latent.posterior(raw), batch, labels)
        return terms | {name: Term(weights[name], nats) for name, nats in told.items()}, left

    return Update(turn.player, loss)


def label_nats(q: Distribution, batch: Batch, labels: Sequence[Label]) -> dict[str, Tensor]:
    """-log q(z_block = factor|x) / share where it is known, else 0, by the label's name, (B,)."""
    found = {}
    for number, label in enumerate(labels):
        target, known = batch.targets[f"target{number}"], batch.targets[f"known{number}"]
        nats = -part(q, label.block).log_prob(target.to(batch.x.dtype))
        found[label.name] = nats * known / label.share
    return found
