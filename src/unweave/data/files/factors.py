"""Factors out of files and arrays: columns of labels as classes 0..n-1 or as numbers."""

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Self

import numpy as np
import torch
from torch import Tensor

from unweave.data.files.array_file import ArrayFile, check_key, read_array
from unweave.data.files.labels import LabelColumn
from unweave.data.files.rows import MOST, Array
from unweave.data.lattice import Factor, Labels, Lattice

NAMES_KEY = "factor_names"


@dataclass(frozen=True, eq=False)
class FactorTable:
    """Classes of the factors of N observations, what the factors are, and names of the rows."""

    codes: Tensor = field(repr=False)  # (N, K) int64; K = 0 if the factors are unknown
    names: tuple[str, ...] = ()
    sizes: tuple[int, ...] = ()
    labels: Labels = ()
    lattice: Lattice | None = None  # all combinations of the factors
    continuous: tuple[str, ...] = ()  # factors that are numbers; their classes are ranks
    row_names: tuple[str, ...] = field(default=(), repr=False)
    notes: tuple[str, ...] = ()

    @classmethod
    def from_lattice(cls, lattice: Lattice) -> Self:
        """Return the table of observations that enumerate a lattice."""
        codes = lattice.factors(torch.arange(lattice.size))
        return cls(codes, lattice.names, lattice.sizes, lattice.labels, lattice)

    @classmethod
    def from_values(
        cls, values: Array, names: Sequence[str] | None = None, count: int | None = None
    ) -> Self:
        """Number the values (N, K) or (N,) of each factor 0..n-1 in their order.

        `count` is the number of observations, if it is known; NaN is a missing label.
        """
        if values.ndim == 1:
            values = values[:, None]
        if values.ndim != 2 or len(values) != (count or len(values)) or values.shape[1] == 0:
            raise ValueError(
                f"expected factors of shape ({count or 'N'}, K), one row for each observation, got "
                f"{values.shape}: check that both come from the same dataset"
            )
        if names is None:
            names = [f"factor{k}" for k in range(values.shape[1])]
        names = check_names(names, values.shape[1])
        pairs = zip(names, values.T, strict=True)
        return cls.from_columns([LabelColumn.from_array(*pair) for pair in pairs], len(values))

    @classmethod
    def from_columns(cls, columns: Sequence[LabelColumn], count: int) -> Self:
        """Return the table of columns of labels of `count` observations.

        Columns without any label are left out, and so is text that names the rows.
        """
        namers = [column for column in columns if column.is_identifier]
        kept = [column for column in columns if len(column.values) and column not in namers]
        notes = [f"{each.name}: no labels, left out" for each in columns if not len(each.values)]
        notes += [each.named_rows_note() for each in namers]
        notes += [each.describe() for each in kept if each.continuous or each.missing]
        codes = np.array([each.codes for each in kept], np.int64).reshape(len(kept), count).T
        names, labels = tuple(each.name for each in kept), tuple(each.labels for each in kept)
        sizes = tuple(map(len, labels))
        complete = kept and not any(each.continuous or each.missing for each in kept)
        lattice = None
        if complete and math.prod(sizes) < 2**62:
            lattice = Lattice(tuple(map(Factor.from_labels, names, labels)))
        return cls(
            codes=torch.from_numpy(np.ascontiguousarray(codes)),
            names=names,
            sizes=sizes,
            labels=labels,
            lattice=lattice,
            continuous=tuple(each.name for each in kept if each.continuous),
            row_names=next((each.row_names for each in namers), ()),
            notes=tuple(notes),
        )

    def take(self, rows: Array) -> Self:
        """Return the factors of some observations; classes keep their numbers."""
        names = tuple(self.row_names[row] for row in rows.tolist()) if self.row_names else ()
        return dataclasses.replace(self, codes=self.codes[torch.from_numpy(rows)], row_names=names)

    @property
    def enumerated(self) -> Lattice | None:
        """The lattice, if the observations are exactly its combinations, in order."""
        lattice, count = self.lattice, len(self.codes)
        if lattice is None or lattice.size != count:
            return None
        return lattice if bool((lattice.index(self.codes) == torch.arange(count)).all()) else None


def check_names(names: Sequence[str], count: int) -> Sequence[str]:
    """Return the names of factors, after rejecting any but that many distinct ones."""
    if len(names) != count or len(set(names)) != len(names):
        raise ValueError(
            f"expected {count} distinct factor names, got {list(names)}: name each column once"
        )
    return names


def read_factors(
    file: ArrayFile, key: str, count: int | None = None, default: str = "factor"
) -> FactorTable:
    """Read factors from an array of a file; by default their names are factor0, ...

    `count` is the number of observations, if it is known.
    """
    rows = file.rows(check_key(file, key))
    if math.prod(rows.shape) * rows.dtype.itemsize > MOST:
        raise ValueError(f"{key!r} of {file.path} is too large for factors: {rows.shape}")
    values = read_array(file, key)
    if NAMES_KEY in file.names:
        names = [str(name) for name in np.atleast_1d(read_array(file, NAMES_KEY))]
    elif key and values.ndim == 1:
        names = [key.rpartition("/")[2]]
    else:
        names = [f"{default}{k}" for k in range(math.prod(values.shape[1:]))]
    return FactorTable.from_values(values, names, count)
