"""The table that metrics read: an encoded dataset with its true factors."""

import os
from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from unweave.core.files import write_atomically
from unweave.core.html import html_table
from unweave.core.outputs import refuse_run_folder
from unweave.metrics.arrays import (
    Bools,
    Floats,
    as_codes,
    as_factors,
    as_kl,
    as_mask,
    as_names,
    as_scales,
    real_factors,
)
from unweave.metrics.inputs import (
    Periods,
    continuous_factors,
    describe_real_factors,
    few_rows,
    merge,
)
from unweave.metrics.table_npz import is_npz, read_npz, table_bytes

_HEAD = 5  # rows that a notebook shows


@dataclass(frozen=True, eq=False, repr=False)
class Table:
    """N encoded observations with their true factors.

    If the factors are not known, they have shape (N, 0).

    Attributes:
        codes: (N, D) means of q(z|x); a discrete code holds the index of a category.
        factors: (N, K) integers, factor k in 0 .. factor_sizes[k] - 1, or real numbers; NaN is a
            missing label. Metrics read only the rows without missing labels; see `labelled`.
        scales: (N, D) standard deviations of q(z|x); any positive number for a discrete code.
        kl: (D,) mean over the data of KL(q(z_j|x) || p(z_j)), in nats.
        discrete: (D,) mask of the codes that are categories.
        normal: (D,) mask of the codes with q(z_j|x) = N(code, scale^2); default: all that are not
            categories.
        factor_names: K different names.
        factor_sizes: number of values that each factor can take, which may be more than occur; 0
            for a factor of real numbers.
        periods: periods of cyclic factors; see `merge`.
        continuous: continuous factors, by name or index; all others are classes. Default:
            real-valued factors whose values do not repeat, which `notes` lists.
        row_names: N names of the rows, such as files; () if they have none.

    >>> Table([[0.1, 2.0], [0.3, 1.0]], [[0, 1], [1, 1]], factor_names=("shape", "scale"))
    Table(2 rows, 2 codes, 2 factors: shape 2, scale 2)
    >>> table = Table([[0.1], [0.3], [0.5], [0.9]], [[0.5], [0.5], [1.5], [1.5]])
    >>> table
    Table(4 rows, 1 codes, 1 factors: factor 0 of real numbers as 2 classes)
    >>> print(*table.notes)
    factor 0 has 2 real numbers, each 2 times on average, taken as classes; name it in \
`continuous` to read them as numbers
    """

    codes: NDArray[np.floating[Any]]
    factors: NDArray[Any]
    scales: NDArray[np.floating[Any]] | None = None
    kl: Floats | None = None
    discrete: Bools | None = None
    normal: Bools | None = None
    factor_names: tuple[str, ...] = ()
    factor_sizes: tuple[int, ...] = ()
    periods: Periods = field(default_factory=dict)
    continuous: Sequence[int | str] | None = None
    row_names: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        codes = as_codes(self.codes)
        factors = as_factors(self.factors, rows=len(codes), least=0, missing=True)
        self._set("codes", codes)
        self._set("factors", factors)
        self._set("factor_names", as_names(self.factor_names, factors.shape[1]))
        classes = ~real_factors(factors)
        if self.continuous is not None:
            classes &= ~continuous_factors(factors, self.continuous, self.factor_names)
        self._set("factor_sizes", _sizes(self.factor_sizes, factors, classes, self.factor_names))
        if len(self.row_names) not in (0, len(codes)):
            raise ValueError(
                f"expected names of all {len(codes)} rows or of none, got {len(self.row_names)}"
            )
        if self.scales is not None:
            self._set("scales", as_scales(self.scales, codes.shape))
        if self.kl is not None:
            self._set("kl", as_kl(self.kl, codes.shape[1]))
        for name in ("discrete", "normal"):
            if getattr(self, name) is not None:
                self._set(name, as_mask(name, getattr(self, name), codes.shape[1]))
        if self.periods:
            merge(factors, self.periods, self.factor_names)  # raises if they are wrong
        if self.continuous is not None:
            names = zip(self.factor_names, self.continuous_mask, strict=True)
            self._set("continuous", tuple(name for name, number in names if number))

    @cached_property
    def merged_factors(self) -> NDArray[Any]:
        """The factors (N, K), cyclic ones merged; see `merge`."""
        v = self.factors
        return merge(v, self.periods, self.factor_names) if self.periods else v

    @cached_property
    def continuous_mask(self) -> Bools:
        """Mask (K,) of the continuous factors."""
        return continuous_factors(self.merged_factors, self.continuous, self.factor_names)

    @cached_property
    def labelled(self) -> Self:
        """The factors with at least half of their labels, and the rows that have all of these."""
        missing = np.isnan(self.factors)
        if not missing.any():
            return self
        kept = 2 * missing.sum(0) <= len(self)
        rows = ~missing[:, kept].any(1)
        if rows.sum() < 2:  # no factors can be scored
            rows, kept = np.ones_like(rows), np.zeros_like(kept)
        names = tuple(name for name, keep in zip(self.factor_names, kept, strict=True) if keep)
        return replace(
            self,
            codes=self.codes[rows],
            factors=self.factors[rows][:, kept],
            scales=None if self.scales is None else self.scales[rows],
            factor_names=names,
            factor_sizes=tuple(np.array(self.factor_sizes)[kept].tolist()),
            periods={name: each for name, each in self.periods.items() if name in names},
            continuous=self.continuous and [name for name in self.continuous if name in names],
            row_names=tuple(np.array(self.row_names)[rows].tolist()) if self.row_names else (),
        )

    @property
    def missing_labels(self) -> str | None:
        """What is not scored because labels are missing, or None."""
        table = self.labelled
        if table is self:
            return None
        lost = [name for name in self.factor_names if name not in table.factor_names]
        texts = []
        if rows := len(self) - len(table):
            text = f"{rows:,} of {len(self):,} observations have missing labels"
            texts.append(f"{text} and are not scored")
        if lost:
            texts.append(f"{', '.join(lost)}: too few labels are known, left out")
        return "; ".join(texts)

    @property
    def notes(self) -> list[str]:
        """How real-valued factors are treated, unless `continuous` is given."""
        return describe_real_factors(self.merged_factors, self.continuous, self.factor_names)

    @cached_property
    def value_counts(self) -> tuple[int, ...]:
        """How many different values each factor takes, not counting missing ones."""
        columns = self.merged_factors.T
        return tuple(len(np.unique(column[~np.isnan(column)])) for column in columns)

    @property
    def too_few_rows(self) -> str | None:
        """Why the table has too few rows for reliable scores, or None."""
        if self.labelled is not self:
            return self.labelled.too_few_rows
        dims, sizes = self.codes.shape[1], self.value_counts
        return few_rows(len(self), dims, sizes, self.continuous_mask, self.factor_names)

    def __len__(self) -> int:
        return len(self.codes)

    def __repr__(self) -> str:
        sizes = ", ".join(f"{name} {self._size(k)}" for k, name in enumerate(self.factor_names))
        optional = ("scales", "kl", "discrete", "normal")
        extras = [name for name in optional if getattr(self, name) is not None]
        return (
            f"Table({len(self)} rows, {self.codes.shape[1]} codes, {self.factors.shape[1]} factors"
            + (f": {sizes}" if sizes else "")
            + (f"; with {', '.join(extras)}" if extras else "")
            + ")"
        )

    def _repr_html_(self) -> str:
        codes = [f"code {number}" for number in range(self.codes.shape[1])]
        rows = [
            [*(f"{code:.3f}" for code in one), *map(str, two.tolist())]
            for one, two in zip(self.codes[:_HEAD], self.factors[:_HEAD], strict=True)
        ]
        return str(html_table([*codes, *self.factor_names], rows, repr(self)))

    def _size(self, k: int) -> str:
        """Describe the number and kind of the values of a factor."""
        size = self.factor_sizes[k]
        if self.continuous_mask[k]:
            return f"{size} as numbers" if size else "of real numbers"
        return str(size) if size else f"of real numbers as {self.value_counts[k]} classes"

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the table as .npz, atomically, with a checksum and without pickle."""
        refuse_run_folder(Path(path))
        write_atomically(Path(path), table_bytes(self))

    @classmethod
    def load(
        cls,
        path: str | os.PathLike[str],
        factors: str | os.PathLike[str] | None = None,
        *,
        codes_key: str = "",
        factors_key: str = "",
    ) -> Self:
        """Read the table that `save` wrote, or codes and factors from other files.

        An .npz file has arrays with the names of the attributes. Codes and factors may also be in
        .npy, CSV, Parquet or HDF5 files, together or each in a file of its own. Text becomes
        classes. If both files name their rows, these are joined by name, otherwise by order.
        Warnings report these decisions. Pickled objects are never loaded.

        Args:
            path: a file of codes, or of a whole table.
            factors: a file of factors, if it is another one.
            codes_key: the array or the columns of codes, if the name is not `codes`.
            factors_key: the array or the columns of factors, if the name is not `factors`.
        """
        from unweave.metrics.table_files import read_files

        if factors is not None or not is_npz(path):
            return cls(**read_files(path, factors, codes_key, factors_key))
        return cls(**read_npz(path, codes_key, factors_key, [each.name for each in fields(cls)]))

    def _set(self, name: str, value: object) -> None:
        # The dataclass is frozen, but validation stores converted arrays.
        object.__setattr__(self, name, value)


def _sizes(
    given: tuple[int, ...], factors: NDArray[Any], classes: Bools, names: tuple[str, ...]
) -> tuple[int, ...]:
    """Check the sizes of factors that are classes; by default, the largest value + 1."""
    factors = np.nan_to_num(factors)  # missing labels
    if factors.size and factors[:, classes].min(initial=0) < 0:
        raise ValueError(
            f"expected classes numbered from 0, got {factors[:, classes].min():g}: number the "
            "values, for instance by numpy.unique(column, return_inverse=True)[1]"
        )
    seen = np.where(classes, factors.max(0, initial=-1) + 1, 0).astype(int).tolist()
    sizes = tuple(int(size) for size in given) or tuple(seen)
    if len(sizes) != len(seen):
        raise ValueError(
            f"expected {len(seen)} factor sizes, one for each factor, got {len(sizes)}"
        )
    for name, size, least in zip(names, sizes, seen, strict=True):
        if size < least:
            raise ValueError(
                f"expected values of {name} below its size {size}, got {least - 1}: "
                "give the number of values that the factor can take"
            )
    return sizes
