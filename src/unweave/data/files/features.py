"""Classes of observations that are no factors of theirs: features that a model has learned.

>>> in_classes([[0.1], [0.4], [9.0], [0.2]], 2).tolist()
[[0], [1], [1], [0]]
"""

from __future__ import annotations

import io
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import final

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor

from unweave.core.files import write_atomically
from unweave.data.dataset import Dataset
from unweave.data.files.arrayfiles import arrays_of
from unweave.data.files.arrays import Array, as_numpy, read_factors, recode
from unweave.data.lattice import Labels, Periods

KEY = "features"


def in_classes(values: ArrayLike | Tensor, classes: int) -> Array:
    """Values (N, K) cut column by column into classes of as many rows each, by quantiles.

    class = #{k in 1 .. classes - 1: value >= Q(k / classes)}, Q the quantiles of the column
    """
    table = as_numpy(values)
    if table.ndim != 2 or not len(table) or table.dtype.kind not in "biuf":
        raise ValueError(f"expected values (N, K) to cut into classes, got shape {table.shape}")
    if classes < 2 or not np.isfinite(table).all():
        raise ValueError(f"expected finite values and at least 2 classes, got {classes} classes")
    inner = np.quantile(table, np.arange(1, classes) / classes, axis=0)
    found: Array = (table[:, :, None] >= inner.T).sum(2)
    return found


def write_features(
    path: str | Path, features: ArrayLike | Tensor, names: Sequence[str] | None = None
) -> None:
    """Write classes (N, K), one row per observation of a dataset, for `Selected(features=path)`."""
    table = as_numpy(features)
    if table.ndim != 2 or table.dtype.kind not in "iu":
        raise ValueError(
            f"expected features (N, K) as whole numbers, got {table.shape} of {table.dtype}: cut "
            "them into classes with in_classes"
        )
    told = [f"feature{k}" for k in range(table.shape[1])] if names is None else list(names)
    if len(told) != table.shape[1] or len(set(told)) != len(told):
        raise ValueError(f"expected {table.shape[1]} distinct names of features, got {told}")
    content = io.BytesIO()
    np.savez(content, features=table, factor_names=np.array(told))
    write_atomically(Path(path), content.getvalue())


def with_features(dataset: Dataset, path: Path) -> Described:
    """A dataset that counts the features of a file among its factors."""
    file = arrays_of(path)
    key = ",".join(file.names) if file.tabular else "" if file.names == [""] else KEY
    values, names = read_factors(file, key)
    if values.ndim == 1:
        values = values[:, None]
    if len(values) != dataset.size:
        raise ValueError(
            f"expected {dataset.size:,} rows of features in {path}, one per observation of the "
            f"dataset, got {len(values):,}: write them anew for the same part of the same data"
        )
    told = [f"feature{k}" for k in range(values.shape[1])] if names is None else names
    if both := sorted({*told} & {*dataset.factor_names}):
        raise ValueError(f"expected features with names of their own in {path}, got {both[0]!r}")
    if values.dtype.kind in "iu" and values.min() >= 0:  # classes as they were numbered
        codes = torch.from_numpy(np.ascontiguousarray(values, np.int64))
        sizes = tuple((codes.amax(0) + 1).tolist())
        return Described(dataset, codes, tuple(told), sizes, (None,) * len(told))
    codes, sizes, labels = recode(values, dataset.size)
    return Described(dataset, codes, tuple(told), sizes, labels)


@final
@dataclass(frozen=True, eq=False)
class Described:
    """A dataset with more factors: what ways look at."""

    source: Dataset
    codes: Tensor = field(repr=False)  # (N, K) int64 on the CPU
    names: tuple[str, ...]
    sizes: tuple[int, ...]
    labels: Labels

    @property
    def factor_names(self) -> tuple[str, ...]:
        """Those of the dataset, and the features."""
        return (*self.source.factor_names, *self.names)

    @property
    def factor_sizes(self) -> tuple[int, ...]:
        """Those of the dataset, and of the features."""
        return (*self.source.factor_sizes, *self.sizes)

    @property
    def factor_labels(self) -> Labels:
        """Those of the dataset, and of the features."""
        return (*self.source.factor_labels, *self.labels)

    @property
    def periods(self) -> Periods:
        """Those of the dataset."""
        return self.source.periods

    def factors(self, index: Tensor) -> Tensor:
        """Classes of the factors and features (..., K), on the CPU."""
        return torch.cat([self.source.factors(index).cpu(), self.codes[index.cpu()]], -1)

    @property
    def checksum(self) -> str:
        """Changes when the features do."""
        return f"{zlib.crc32(self.codes.numpy().data):08x}"
