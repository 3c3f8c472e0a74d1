"""Semi-supervision: a block of the latent space told what it is to mean on some observations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated

import torch
from pydantic import Field
from torch import Tensor

from unweave.core.noise import Noise
from unweave.core.schedules import Weight
from unweave.core.spec import nearest, spec
from unweave.data import World
from unweave.latents import Distribution, Latent
from unweave.objectives.base import MODEL, Batch, Memo, Nets, Term, Terms, Turn
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

    def __init__(self, labels: Sequence[Label], latent: Latent, world: World) -> None:
        self.labels, self.world, self.blocks = labels, world, leaves(latent)
        noise = Noise(0, 0, "labels", world.device)
        self.known = [noise.uniform((world.size,), label.factor) < label.share for label in labels]

    def targets(self, index: Tensor) -> dict[str, Tensor]:
        """Code and presence of every label for observations (...): (..., width) and (...)."""
        if not self.labels:
            return {}
        factors, found = self.world.factors(index), {}
        for number, label in enumerate(self.labels):
            column = self.world.factor_names.index(label.factor)
            classes = self.world.factor_sizes[column]
            target = self.blocks[label.block].target(factors[..., column], classes)
            found[f"target{number}"] = target.to(torch.float32)
            found[f"known{number}"] = self.known[number][index]
        return found


def with_labels(turn: Turn, labels: Sequence[Label], weights: Mapping[str, Tensor]) -> Turn:
    """The turn with the labels' terms added, if it is the model's; their weights are by name."""
    if not labels or turn.player != MODEL:
        return turn

    def loss(nets: Nets, batch: Batch, noise: Noise, memo: Memo) -> tuple[Terms, Memo]:
        terms, left = turn.loss(nets, batch, noise, memo)
        # An autoencoder has encoded the batch already.
        raw = left["raw"] if "raw" in left else nets.model.raw(batch.x)
        told = label_nats(nets.model.latent.posterior(raw), batch, labels)
        return terms | {name: Term(weights[name], nats) for name, nats in told.items()}, left

    return Turn(turn.player, loss)


def label_nats(q: Distribution, batch: Batch, labels: Sequence[Label]) -> dict[str, Tensor]:
    """-log q(z_block = factor|x) / share where it is known, else 0, by the label's name, (B,)."""
    found = {}
    for number, label in enumerate(labels):
        target, known = batch.targets[f"target{number}"], batch.targets[f"known{number}"]
        nats = -part(q, label.block).log_prob(target.to(batch.x.dtype))
        found[label.name] = nats * known / label.share
    return found
