"""Datasets made of some observations of another dataset.

`Selected` applies selections one after another; each maps a list of row indices to another list.

>>> from unweave.data import Blocks, HeldOut
>>> data = Selected(Blocks((3, 4)), select=(HeldOut({"factor0": (2,), "factor1": (0, 1)}),))
>>> data.load(torch.device("cpu")).size
10
"""

import dataclasses
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property, reduce
from pathlib import Path
from typing import Literal, final

import torch
from torch import Tensor

from unweave.core.hints import count_noun
from unweave.core.spec import spec, tag
from unweave.data.dataset import AbsolutePath, Dataset, Schema
from unweave.data.features import with_features
from unweave.data.files.build import select_streamed
from unweave.data.files.streaming import StreamedDataset
from unweave.data.selection import AnySelection
from unweave.data.sources import SourceData
from unweave.data.synthetic.shapes2d import Shapes2D


@spec
class Selected:
    """Some observations of a dataset, chosen by selections that are applied one after the other.

    `features` is a file of further classes that selections may use as if they were factors:
    features that a model has learned, binned into classes by `write_features`. Its array
    `features` (N, K) has one row for each observation of the dataset, and `factor_names` names the
    columns.
    """

    source: SourceData = Shapes2D()
    """The dataset to choose from."""
    select: tuple[AnySelection, ...] = ()
    """Selections, applied one after the other."""
    features: AbsolutePath | None = None
    """File of learned classes that selections may refer to."""
    kind: Literal["selected"] = tag("selected")

    def load(self, device: torch.device) -> Dataset:
        """Load the source and apply the selections."""
        source = self.source.load(device)
        described = None if self.features is None else with_features(source, Path(self.features))
        view, whole = described or source, torch.arange(source.size)
        rows = reduce(lambda rows, each: each.take(view, rows), self.select, whole)
        if not len(rows):
            raise ValueError(
                "expected selections that leave at least one observation, got none of "
                f"{source.size}: hold out fewer combinations; combine several that are to be held "
                "out together in one held-out"
            )
        if not self.select:
            return source
        description = "; ".join(each.describe(view) for each in self.select)
        checksum = described.checksum if described else ""
        if isinstance(source, StreamedDataset):
            fingerprint = _fingerprint(source, checksum, rows)
            numbers = rows.sort().values.numpy()
            return select_streamed(source, numbers, description, fingerprint).to(device)
        note = f"{count_noun(len(rows), 'observation')} of {source.size:,}: {description}"
        schema = dataclasses.replace(
            source.schema, size=len(rows), lattice=None, notes=(*source.notes, note)
        )
        return SelectedDataset(schema, source, rows.to(device), source.device, checksum)


@final
@dataclass(frozen=True, eq=False)
class SelectedDataset(Dataset):
    """Observations of another dataset by their row indices in it."""

    schema: Schema
    source: Dataset
    rows: Tensor = field(repr=False)  # (N,) int64 on the device
    device: torch.device
    features: str = ""  # checksum of the learned features that the selections used

    @property
    def fingerprint(self) -> str:
        """That of the source, followed by checksums of what the selection depends on."""
        return _fingerprint(self.source, self.features, self.rows)

    @property
    def labels_fingerprint(self) -> str:
        return self.source.labels_fingerprint

    @property
    def distinct(self) -> int:
        return min(self.size, self.source.distinct)

    @cached_property
    def row_names(self) -> Sequence[str]:
        """The names of the selected observations."""
        names = self.source.row_names
        return [names[row] for row in self.rows.tolist()] if names else ()

    def images(self, index: Tensor) -> Tensor:
        return self.source.images(self.rows[self.check(index)])

    def factors(self, index: Tensor) -> Tensor:
        return self.source.factors(self.rows[self.check(index)])


def _fingerprint(source: Dataset, features: str, rows: Tensor) -> str:
    """Return the fingerprint of rows of a source that may depend on learned features."""
    if not source.labels_fingerprint:  # the spec determines which rows are selected
        return source.fingerprint + features
    return source.fingerprint + features + f"{zlib.crc32(rows.cpu().numpy().data):08x}"
