"""The table that metrics read: an encoded dataset with its true factors."""

from __future__ import annotations

import json
import os
import warnings
import zipfile
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from difflib import get_close_matches
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unweave.core.files import write_atomically
from unweave.core.hints import nearest
from unweave.core.html import html_table
from unweave.core.outputs import npz_bytes
from unweave.metrics.arrays import (
    Bools,
    Floats,
    as_codes,
    as_factors,
    as_kl,
    as_mask,
    as_names,
    as_scales,
    as_texts,
    real_factors,
)
from unweave.metrics.inputs import (
    Periods,
    continuous_factors,
    describe_real_factors,
    few_rows,
    merge,
)

_HEAD = 5  # rows that a notebook shows
_CHECKSUM = "checksum"  # the array that `save` adds
_NEAR = 0.75  # similarity from which the name of an array counts as misspelt, from 0 to 1


@dataclass(frozen=True, eq=False, repr=False)
class Table:
    """N encoded observations with their true factors.

    If the factors are not known, they have shape (N, 0).

    Attributes:
        codes: (N, D) means of q(z|x); a discrete code holds the index of a category.
        factors: (N, K) integers, factor k in 0 .. factor_sizes[k] - 1, or real numbers; NaN is a
            missing label. Metrics of the factors read only the rows without any; see `labelled`.
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
    factor 0 has 2 real numbers, each 2 times on average, taken as classes; `continuous` with its \
name decides otherwise
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
        return (
            merge(self.factors, self.periods, self.factor_names) if self.periods else self.factors
        )

    @cached_property
    def continuous_mask(self) -> Bools:
        """Mask (K,) of the continuous factors."""
        return continuous_factors(self.merged_factors, self.continuous, self.factor_names)

    @cached_property
    def labelled(self) -> Table:
        """The rows without missing labels, in the factors of which at least half are known."""
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
            continuous=None
            if self.continuous is None
            else [name for name in self.continuous if name in names],
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
            texts.append(f"{rows:,} of {len(self):,} observations lack a label and are not scored")
        if lost:
            texts.append(f"{', '.join(lost)}: too few labels are known, left out")
        return "; ".join(texts)

    @property
    def notes(self) -> list[str]:
        """How real-valued factors are treated, unless `continuous` says it."""
        return describe_real_factors(self.merged_factors, self.continuous, self.factor_names)

    @cached_property
    def value_counts(self) -> tuple[int, ...]:
        """How many different values each factor takes, missing ones aside."""
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
        path = Path(path)
        present = {f.name: getattr(self, f.name) for f in fields(self)}
        arrays: dict[str, Any] = {
            name: np.asarray(v) for name, v in present.items() if v is not None
        }
        arrays["factor_names"] = np.array(self.factor_names, dtype=np.str_)
        arrays["factor_sizes"] = np.array(self.factor_sizes, dtype=np.int64)
        if self.continuous is not None:
            arrays["continuous"] = np.array(self.continuous, dtype=np.str_)
        arrays["row_names"] = np.array(self.row_names, dtype=np.str_)
        arrays["periods"] = np.array(json.dumps(self.periods))
        arrays[_CHECKSUM] = np.array(_checksum(arrays))
        write_atomically(path, npz_bytes(arrays))

    @classmethod
    def load(
        cls,
        path: str | os.PathLike[str],
        factors: str | os.PathLike[str] | None = None,
        *,
        codes_key: str = "",
        factors_key: str = "",
    ) -> Table:
        """Read the table that `save` wrote, or codes and factors from other files.

        An .npz file has arrays with the names of the attributes. Codes and factors may also be in
        .npy, CSV, Parquet or HDF5 files, together or each in a file of its own. Text becomes
        classes. If both files name their rows, these are joined by name, otherwise by order. What
        is decided is issued as warnings. Pickled objects are never loaded.

        Args:
            path: a file of codes, or of a whole table.
            factors: a file of factors, if it is another one.
            codes_key: the array or the columns of codes, if the name is not `codes`.
            factors_key: the array or the columns of factors, if the name is not `factors`.
        """
        from unweave.metrics.table_files import (
            FACTORS,
            label_columns,
            labels_as_factors,
            read_files,
        )

        if factors is not None or not _is_npz(path):
            return cls(**read_files(path, factors, codes_key, factors_key))
        arrays = _arrays(path, codes_key, factors_key, [*(f.name for f in fields(cls)), _CHECKSUM])
        expected = _checksum(arrays)
        if str(arrays.pop(_CHECKSUM, expected)) != expected and not (codes_key or factors_key):
            raise ValueError(
                f"{path} is damaged, its checksum does not match: measure again, `unweave "
                "evaluate`, or leave the array `checksum` out of a table that you have changed"
            )
        arrays.setdefault(FACTORS, np.zeros((*arrays["codes"].shape[:1], 0), np.int64))
        names = as_texts(arrays.pop("factor_names", None))
        sizes = _as_integers("factor_sizes", arrays.pop("factor_sizes", None))
        continuous = arrays.pop("continuous", None)
        row_names = as_texts(arrays.pop("row_names", None))
        text = str(arrays.pop("periods", "{}"))
        try:
            periods = json.loads(text)
        except (ValueError, RecursionError):
            raise ValueError(
                f"expected periods as JSON text, got {text[:80]!r}: save "
                """numpy.array('{"orientation": 39}'), for example"""
            ) from None
        columns: dict[str, Any] = arrays | {"factor_names": names, "continuous": continuous}
        given = arrays[FACTORS]
        if given.dtype.kind in "US" or given.ndim == 1:
            single = (factors_key or "label",) if given.ndim == 1 else ()
            columns |= labels_as_factors(label_columns(given, names or single), len(given))
        if columns["continuous"] is not None:
            columns["continuous"] = np.atleast_1d(columns["continuous"]).tolist()
        return cls(**columns, factor_sizes=sizes, periods=periods, row_names=row_names)

    def _set(self, name: str, value: object) -> None:
        # The dataclass is frozen, but validation stores converted arrays.
        object.__setattr__(self, name, value)


def _checksum(arrays: Mapping[str, NDArray[Any]]) -> str:
    """Return a checksum of the names, types, shapes and values of arrays."""
    value = 0
    for name in sorted(arrays.keys() - {_CHECKSUM}):
        array = np.ascontiguousarray(arrays[name])
        value = zlib.crc32(f"{name} {array.dtype.str} {arrays[name].shape}".encode(), value)
        value = zlib.crc32(array.tobytes(), value)
    return f"{value:08x}"


def _as_integers(what: str, given: NDArray[Any] | None) -> tuple[int, ...]:
    """Return an array of integers of a file; () if there is none."""
    if given is None:
        return ()
    if given.dtype.kind not in "iu" or given.ndim != 1:
        raise ValueError(
            f"expected {what} as a list of integers, got {given.dtype} of shape {given.shape}"
        )
    return tuple(given.tolist())


def _known(names: Sequence[str], fields: list[str], path: str | os.PathLike[str]) -> list[str]:
    """Return the arrays of a table; warn of others, or raise if their names look misspelt."""
    open_names = [name for name in fields if name not in names]
    others = [name for name in names if name not in fields]
    near = {name: get_close_matches(name, open_names, 1, _NEAR) for name in others}
    if misspelt := {name: match[0] for name, match in near.items() if match}:
        hints = "; ".join(f"{name!r}: did you mean {match!r}?" for name, match in misspelt.items())
        raise ValueError(
            f"expected arrays of a table in {path}, which are {', '.join(fields)}, got {hints} "
            "Rename it, or leave it out of the file"
        )
    if "codes" not in names:
        raise ValueError(
            f"expected codes, mostly with factors, in {path}, got {', '.join(names) or 'none'}: "
            "name them with --codes-key and --factors-key (codes_key and factors_key in Python), "
            f"or rename them; arrays that are read are {', '.join(fields)}"
        )
    if others:
        warnings.warn(
            f"{path} also holds {', '.join(others)}, which a table does not read; "
            f"arrays that are read are {', '.join(fields)}",
            stacklevel=4,
        )
    return [name for name in names if name in fields]


def _is_npz(path: str | os.PathLike[str]) -> bool:
    """Return whether a file is an .npz file, or is called so and should be one."""
    return Path(path).suffix.lower() == ".npz" or zipfile.is_zipfile(path)


def _arrays(
    path: str | os.PathLike[str], codes_key: str, factors_key: str, fields: list[str]
) -> dict[str, NDArray[Any]]:
    """Read the arrays of a table from an .npz file; keys name the codes and factors."""
    from unweave.data.files.array_file import read_array
    from unweave.data.files.npy import NpzFile
    from unweave.metrics.table_files import CODES, FACTORS

    if not zipfile.is_zipfile(path):
        raise ValueError(
            f"expected an .npz file, got {path}, which is damaged or something else: write it by "
            "numpy.savez(path, codes=codes, factors=factors)"
        )
    file = NpzFile(Path(path))
    keys = {name: key for name, key in ((CODES, codes_key), (FACTORS, factors_key)) if key}
    for key in keys.values():
        if key not in file.names:
            raise ValueError(f"{path} has no array {key!r}: {nearest(key, file.names)}")
    # With keys, other arrays are not meant for a table.
    names = [name for name in file.names if name in fields] if keys else file.names
    return {
        name: read_array(file, keys.get(name, name))
        for name in _known(list(dict.fromkeys([*keys, *names])), fields, path)
    }


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
    seen = (
        tuple(np.where(classes, factors.max(0) + 1, 0).astype(int).tolist()) if len(names) else ()
    )
    sizes = tuple(int(size) for size in given) or seen
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
