"""Learned features as classes of observations, for selections to use besides the factors.

>>> in_classes([[0.1], [0.4], [9.0], [0.2]], 2).tolist()
[[0], [1], [1], [0]]
"""

from __future__ import annotations

import dataclasses
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
from unweave.core.hints import naming
from unweave.core.outputs import npz_bytes, refuse_run_folder
from unweave.data.dataset import Dataset, Schema
from unweave.data.files.array_file import TableFile, open_array_file
from unweave.data.files.build import as_numpy
from unweave.data.files.factors import FactorTable, read_factors
from unweave.data.files.rows import Array

KEY = "features"


def in_classes(values: ArrayLike | Tensor, classes: int) -> Array:
    """Bin each column of values (N, K) into equally frequent classes, by its quantiles.

    class = #{k in 1 .. classes - 1: value >= Q(k / classes)}, Q the quantiles of the column
    """
    table = as_numpy(values)
    if table.ndim != 2 or not len(table) or table.dtype.kind not in "biuf":
        raise ValueError(f"expected values (N, K) to bin into classes, got shape {table.shape}")
    if classes < 2 or not np.isfinite(table).all():
        raise ValueError(f"expected finite values and at least 2 classes, got {classes} classes")
    inner = np.quantile(table, np.arange(1, classes) / classes, axis=0)
    binned: Array = (table[:, :, None] >= inner.T).sum(2)
    return binned


def write_features(
    path: str | Path, features: ArrayLike | Tensor, names: Sequence[str] | None = None
) -> None:
    """Write classes (N, K), one row per observation of a dataset, for `Selected(features=path)`."""
    refuse_run_folder(Path(path))
    table = as_numpy(features)
    if table.ndim != 2 or table.dtype.kind not in "iu":
        raise ValueError(
            f"expected features (N, K) as integers, got {table.shape} of {table.dtype}: bin them "
            "into classes with in_classes"
        )
    columns = [f"feature{k}" for k in range(table.shape[1])] if names is None else list(names)
    if len(columns) != table.shape[1] or len(set(columns)) != len(columns):
        raise ValueError(f"expected {table.shape[1]} distinct names of features, got {columns}")
    arrays = {KEY: table, "factor_names": np.array(columns)}
    write_atomically(Path(path), npz_bytes(arrays))


def with_features(dataset: Dataset, path: Path) -> DatasetWithFeatures:
    """Add the features of a file to the factors that selections can use."""
    file = open_array_file(path)
    with naming(path):
        if isinstance(file, TableFile):
            columns = [file.labels(name) for name in file.names]
            table = FactorTable.from_columns(columns, file.count)
        else:
            key = "" if file.names == [""] else KEY
            table = read_factors(file, key, default="feature")
    if len(table.codes) != dataset.size:
        raise ValueError(
            f"expected {dataset.size:,} rows of features in {path}, one per observation of the "
            f"dataset, got {len(table.codes):,}: write them again for the same split of the same "
            "data"
        )
    if both := sorted({*table.names} & {*dataset.factor_names}):
        raise ValueError(
            f"expected names of features in {path} that differ from those of factors, got "
            f"{both[0]!r}"
        )
    schema = dataclasses.replace(
        dataset.schema,
        factor_names=(*dataset.factor_names, *table.names),
        factor_sizes=(*dataset.factor_sizes, *table.sizes),
        factor_labels=(*dataset.factor_labels, *table.labels),
        continuous=(*dataset.schema.continuous, *table.continuous),
    )
    return DatasetWithFeatures(schema, dataset.device, dataset, table.codes)


@final
@dataclass(frozen=True, eq=False)
class DatasetWithFeatures(Dataset):
    """A dataset with learned features beside its factors, as selections see it."""

    schema: Schema
    device: torch.device
    source: Dataset
    codes: Tensor = field(repr=False)  # (N, K) int64 on the CPU

    def images(self, index: Tensor) -> Tensor:
        return self.source.images(index)

    def factors(self, index: Tensor) -> Tensor:
        """Return the classes of the factors and features (..., K), on the CPU."""
        return torch.cat([self.source.factors(index).cpu(), self.codes[index.cpu()]], -1)

    @property
    def checksum(self) -> str:
        """Text that changes when the features do."""
        return f"{zlib.crc32(self.codes.numpy().data):08x}"
