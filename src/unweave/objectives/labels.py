"""Semi-supervision: labels that give a latent block its meaning on some observations."""

from collections.abc import Mapping, Sequence
from typing import Annotated, ClassVar

import torch
from pydantic import Field
from torch import Tensor

from unweave.core.hints import nearest
from unweave.core.noise import Noise
from unweave.core.schedules import Weight
from unweave.core.spec import spec
from unweave.data import MISSING, Dataset
from unweave.latents import Distribution, Latent, distribution_at
from unweave.objectives.base import MODEL, Batch, Carry, Nets, Term, Terms, Update


@spec
class Label:
    """-weight log q(z_block = factor | x), averaged over the observations whose factor is known.

    The supervised term of [Esmaeili2019] sec. 6, after [Siddharth2017] eq. 4, for any objective.
    In a batch it is the sum over labelled observations divided by their expected number. The same
    observations are labelled in every run. `share` is the share of those observations whose label
    is known; others contribute nothing. The classes of a continuous factor are ranks.
    """

    factor: str
    """Name of the factor that supervises."""
    block: str = ""
    """Path of the block that is supervised; by default the whole latent space."""
    share: Annotated[float, Field(gt=0, le=1)] = 0.1
    """Share of the observations whose factor is used."""
    weight: Weight = 1.0
    """Weight of the supervised term."""
    also_cites: ClassVar[tuple[str, ...]] = ("Siddharth2017",)

    @property
    def name(self) -> str:
        """The name of the term and its weight: label, factor, and the path of the block."""
        return "_".join(["label", self.factor, *self.block.split(".")]).rstrip("_")

    def check(self, latent: Latent, factors: Mapping[str, int]) -> None:
        """Raise a ValueError if block or factor do not exist or do not fit each other."""
        if not factors:
            raise ValueError(
                "a label needs data with factors: an .npz file with them, or "
                "unweave.data.from_array(images, factors=...) for arrays"
            )
        if self.factor not in factors:
            raise ValueError(
                f"{self.factor!r} is not a factor of the data: {nearest(self.factor, factors)}"
            )
        blocks = latent.leaf_blocks
        if self.block not in blocks:
            raise ValueError(
                f"{self.block!r} is not a block of the latent tree: {nearest(self.block, blocks)}"
            )
        blocks[self.block].target(torch.zeros(1), factors[self.factor])


class LabelTargets:
    """The targets that the labels of a run set for observations of its dataset."""

    def __init__(self, labels: Sequence[Label], latent: Latent, dataset: Dataset) -> None:
        self.labels, self.dataset, self.blocks = labels, dataset, latent.leaf_blocks
        noise = Noise(0, 0, "labels", dataset.device)
        self.known = [
            (noise.uniform((dataset.size,), label.factor) < label.share) * self._present(label)
            for label in labels
        ]

    def _present(self, label: Label) -> Tensor:
        """Return 1 / P(the data have the label) for observations that have it, 0 for others, (N,).

        Without missing labels, this is all True.
        """
        dataset = self.dataset
        if dataset.lattice is not None:
            return torch.ones(dataset.size, dtype=torch.bool, device=dataset.device)
        factors = dataset.factors(torch.arange(dataset.size, device=dataset.device))
        present = factors[:, dataset.factor_names.index(label.factor)] != MISSING
        return present if present.all() else present / present.float().mean()

    def targets(self, index: Tensor) -> dict[str, Tensor]:
        """Return target code and weight of every label for observations (...).

        Codes have shape (..., block size), weights (...): 0 for an unknown label.
        """
        if not self.labels:
            return {}
        factors, targets = self.dataset.factors(index), {}
        for number, label in enumerate(self.labels):
            column = self.dataset.factor_names.index(label.factor)
            classes = self.dataset.factor_sizes[column]
            known = factors[..., column].clamp(min=0)  # a missing label has weight 0
            target = self.blocks[label.block].target(known, classes)
            targets[f"target{number}"] = target.to(torch.float32)
            targets[f"known{number}"] = self.known[number][index]
        return targets


def with_labels(update: Update, labels: Sequence[Label], weights: Mapping[str, Tensor]) -> Update:
    """Add the terms of the labels, with weights by name, to the model's update."""
    if not labels or update.player != MODEL:
        return update

    def loss(nets: Nets, batch: Batch, noise: Noise, carry: Carry) -> tuple[Terms, Carry]:
        terms, carried = update.loss(nets, batch, noise, carry)
        # An autoencoder has encoded the batch already.
        raw = carried["raw"] if "raw" in carried else nets.model.raw(batch.x)
        values = label_nats(nets.model.latent.posterior(raw), batch, labels)
        return terms | {name: Term(weights[name], nats) for name, nats in values.items()}, carried

    return Update(update.player, loss)


def label_nats(q: Distribution, batch: Batch, labels: Sequence[Label]) -> dict[str, Tensor]:
    """Compute -log q(z_block = factor|x) / share for known labels and 0 for others, (B,) each."""
    values = {}
    for number, label in enumerate(labels):
        target, known = batch.targets[f"target{number}"], batch.targets[f"known{number}"]
        nats = -distribution_at(q, label.block).log_prob(target.to(batch.x.dtype))
        values[label.name] = nats * known / label.share
    return values
