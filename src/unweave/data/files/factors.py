"""Factors out of files and arrays: integers, text or repeated numbers as classes 0..n-1."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor

from unweave.data.files.array_file import ArrayFile, check_key
from unweave.data.files.rows import MOST, Array, row_bytes
from unweave.data.files.tables import split_columns
from unweave.data.lattice import Factor, Labels, Lattice

NAMES_KEY = "factor_names"


@dataclass(frozen=True, eq=False)
class FactorTable:
    """Classes of the factors of N observations, and what the factors are."""

    codes: Tensor = field(repr=False)  # (N, K) int64; K = 0 if the factors are unknown
    names: tuple[str, ...] = ()
    sizes: tuple[int, ...] = ()
    labels: Labels = ()
    lattice: Lattice | None = None  # all combinations of the factors

    @classmethod
    def from_lattice(cls, lattice: Lattice) -> FactorTable:
        """Return the table of observations that enumerate a lattice."""
        codes = lattice.factors(torch.arange(lattice.size))
        return cls(codes, lattice.names, lattice.sizes, lattice.labels, lattice)

    @classmethod
    def from_values(
        cls, values: Array, names: Sequence[str] | None = None, count: int | None = None
    ) -> FactorTable:
        """Number the values (N, K) or (N,) of each factor 0..n-1 in their order.

        `count` is the number of observations, if it is known.
        """
        if values.ndim == 1:
            values = values[:, None]
        if values.ndim != 2 or len(values) != (count or len(values)) or values.shape[1] == 0:
            raise ValueError(
                f"expected factors of shape ({count or 'N'}, K), one row for each observation, got "
                f"{values.shape}: check that both come from the same dataset"
            )
        codes, labels = _encode(values)
        sizes = tuple(map(len, labels))
        if names is None:
            names = [f"factor{k}" for k in range(len(sizes))]
        if len(names) != len(sizes) or len(set(names)) != len(sizes):
            raise ValueError(
                f"expected {len(sizes)} distinct factor names, got {list(names)}: name each column "
                "once"
            )
        factors = map(Factor.from_labels, names, labels)
        lattice = Lattice(tuple(factors)) if math.prod(sizes) < 2**62 else None
        return cls(codes, tuple(names), sizes, labels, lattice)

    def take(self, rows: Array) -> FactorTable:
        """Return the factors of some observations; classes keep their numbers."""
        return dataclasses.replace(self, codes=self.codes[torch.from_numpy(rows)])

    @property
    def enumerated(self) -> Lattice | None:
        """The lattice, if the observations are exactly its combinations, in order."""
        lattice, count = self.lattice, len(self.codes)
        if lattice is None or lattice.size != count:
            return None
        return lattice if bool((lattice.index(self.codes) == torch.arange(count)).all()) else None


def read_factors(file: ArrayFile, key: str) -> tuple[Array, list[str] | None]:
    """Read the values of factors from a file, and their names if the file has them."""
    rows = file.rows(check_key(file, key))
    if rows.shape[0] * row_bytes(rows) > MOST:
        raise ValueError(f"{key!r} of {file.path} is too large for factors: {rows.shape}")
    values = rows.read(0, rows.shape[0])
    if file.tabular:
        columns = split_columns(key, file.names)
        return values, columns if len(columns) == values.shape[1] else None
    if NAMES_KEY not in file.names:
        return values, [key.rpartition("/")[2]] if key and values.ndim == 1 else None
    names = file.rows(NAMES_KEY)
    return values, [str(name) for name in names.read(0, names.shape[0])]


def _encode(table: Array) -> tuple[Tensor, tuple[tuple[str | float, ...], ...]]:
    """Return the classes (N, K) of values, 0..n-1 in their order, and the values as labels."""
    count = len(table)
    if table.dtype.kind not in "biufUSO":
        raise ValueError(f"expected factors as integers or text, got {table.dtype}: convert them")
    # Objects are columns of numbers beside columns of text.
    mixed = table.dtype.kind == "O"
    columns = [np.array(column.tolist()) for column in table.T] if mixed else list(table.T)
    pairs = [np.unique(column, return_inverse=True) for column in columns]
    for number, (values, code) in enumerate(pairs):
        if values.dtype.kind == "f" and not np.isfinite(values).all():
            row = int(np.flatnonzero(~np.isfinite(values)[code.reshape(-1)])[0])
            raise ValueError(
                f"expected finite factors, got NaN or infinity in column {number}, first in row "
                f"{row}: remove or replace it"
            )
        real = values.dtype.kind == "f" and (values != np.rint(values)).any()
        if real and 2 * len(values) > count:
            raise ValueError(
                f"expected factors as classes, which repeat, got {len(values):,} real numbers in "
                f"the {count:,} rows of column {number}: leave it out, or bin it with "
                "numpy.digitize"
            )
    codes = np.stack([code.reshape(-1) for _, code in pairs], axis=1)
    labels = tuple(tuple(map(_label, values)) for values, _ in pairs)
    return torch.from_numpy(codes.astype(np.int64)), labels


def _label(value: Any) -> str | float:
    """Return a value of a factor as text, an integer, or the shortest decimal number."""
    if value.dtype.kind in "US":
        return value.decode(errors="replace") if isinstance(value, bytes) else str(value)
    number = float(str(value)) if value.dtype.kind == "f" else int(value)
    return int(number) if abs(number) < 2**53 and number == int(number) else number
