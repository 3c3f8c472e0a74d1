"""Loaded data: observations by index, and the classes of their factors where these are known.

Every dataset has a `Schema`, which describes it, and returns observations and factors by index.
"""

from __future__ import annotations

import dataclasses
import math
import zlib
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, NamedTuple, Protocol, final, runtime_checkable

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import BeforeValidator
from torch import Tensor

from unweave.core.adapters import adapter
from unweave.core.hints import nearest
from unweave.core.spec import Place
from unweave.data.lattice import Factor, Labels, Lattice, Periods, check_indices
from unweave.data.scaling import UNSCALED, Scaling

CPU = torch.device("cpu")
_MOST = 2**40  # observations, and values of one: more than any memory holds
MISSING = -1  # the class of a label that is not known

# Paths in specs are text, so that a spec read back from JSON equals the one written, and absolute,
# so that they do not depend on the working directory.
AbsolutePath = Annotated[
    str,
    BeforeValidator(
        lambda path: str(Path(path).absolute()) if isinstance(path, (str, Path)) else path
    ),
    Place(),
]


class DataNotFound(ValueError):
    """Data that a spec describes are not there: files to download, or an array to bind."""


class ExtremeValues(NamedTuple):
    """Values so far from all others that these are nearly equal after scaling.

    `note` says where they are and what to do; `share` is that of the columns or channels they
    affect.
    """

    note: str
    share: float

    @property
    def advice(self) -> str:
        """What to do before anything that losses and scores suggest."""
        return (
            f"{self.note}. Do this before anything else: until then, losses and R^2 describe "
            "little but these values"
        )


@dataclass(frozen=True)
class Schema:
    """Describe the observations of a dataset and the factors behind them.

    Args:
        size: number of observations N.
        shape: shape of one observation, (C, H, W) for images and (D,) for vectors.
        factor_names: names of the K factors; () if the factors are unknown.
        factor_sizes: number of classes of each factor.
        factor_labels: names or values of the classes of each factor; None for a factor whose
            classes are only known by their numbers, 0..n-1.
        continuous: names of the factors that are numbers; class c of such a factor stands for the
            number factor_labels[k][c].
        periods: classes that show the same observation, as in `Lattice`.
        lattice: the lattice whose combinations the observations enumerate in order, if they do.
        bounded: whether all values lie in [0, 1], as a Bernoulli likelihood needs.
        scaling: how values in the user's units were scaled.
        dtype: type of the values before they were scaled, such as uint16; "" if it is not known.
        channels_last: whether the source has the channels of images last.
        value_names: names of the D values of a vector; () if they have none.
        notes: decisions made while loading the data, for the user to read.
        extremes: extreme values that look like mistakes; None if none were found.

    >>> schema = Schema(100, (1, 8, 8), ("shape", "x"), (3, 8))
    >>> schema.column("x"), schema.factor_labels
    (1, (None, None))
    """

    size: int
    shape: tuple[int, ...]
    factor_names: tuple[str, ...] = ()
    factor_sizes: tuple[int, ...] = ()
    factor_labels: Labels = ()
    continuous: tuple[str, ...] = ()
    periods: Periods = field(default_factory=dict)
    lattice: Lattice | None = None
    bounded: bool = False
    scaling: Scaling = UNSCALED
    dtype: str = ""
    channels_last: bool = False
    value_names: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    extremes: ExtremeValues | None = None

    def __post_init__(self) -> None:
        count = len(self.factor_names)
        if not self.factor_labels:
            object.__setattr__(self, "factor_labels", (None,) * count)
        if self.size < 1 or not self.shape or min(self.shape) < 1:
            raise ValueError(
                "expected at least one observation of at least one value, got size "
                f"{self.size} and shape {self.shape}"
            )
        if max(self.size, math.prod(self.shape)) > _MOST:
            raise ValueError(
                f"expected at most {_MOST:,} observations and at most {_MOST:,} values in each, "
                f"got {self.size:,} of {math.prod(self.shape):,}"
            )
        if len(self.factor_sizes) != count or len(self.factor_labels) != count:
            raise ValueError(
                f"expected a size and labels for each of the {count} factors, got "
                f"{len(self.factor_sizes)} sizes and {len(self.factor_labels)} labels"
            )
        numbers = {len(self.scaling.offset), len(self.scaling.unit)}
        if len(numbers) != 1 or not numbers <= {1, self.shape[0]}:
            raise ValueError(
                f"expected 1 or {self.shape[0]} offsets and units to scale values of shape "
                f"{self.shape}, got {len(self.scaling.offset)} and {len(self.scaling.unit)}"
            )
        if self.value_names and self.shape != (len(self.value_names),):
            raise ValueError(
                f"expected names for values of shape {self.shape}, got {len(self.value_names)}"
            )
        if self.lattice is not None and self.lattice.size != self.size:
            raise ValueError(
                f"expected the {self.lattice.size:,} combinations of the lattice, got "
                f"{self.size:,} observations: leave out the lattice if some are missing"
            )

    @classmethod
    def on_lattice(
        cls,
        lattice: Lattice,
        shape: tuple[int, ...],
        bounded: bool = True,
        scaling: Scaling = UNSCALED,
    ) -> Schema:
        """Describe observations of a shape that enumerate a lattice."""
        return cls(
            size=lattice.size,
            shape=shape,
            factor_names=lattice.names,
            factor_sizes=lattice.sizes,
            factor_labels=lattice.labels,
            periods=lattice.periods,
            lattice=lattice,
            bounded=bounded,
            scaling=scaling,
        )

    def to_json(self) -> dict[str, Any]:
        """Return everything but the lattice and the notes, for a file."""
        fields: dict[str, Any] = adapter(Schema).dump_python(
            self, mode="json", exclude={"lattice", "notes"}
        )
        return fields

    @staticmethod
    def from_json(fields: Any) -> Schema:
        """Read what `to_json` returned; raise an error for anything else.

        >>> schema = Schema(100, (1, 8, 8), ("shape",), (2,), (("oval", "star"),))
        >>> Schema.from_json(schema.to_json()) == schema
        True
        """
        schema: Schema = adapter(Schema).validate_python(fields)
        return schema

    def column(self, name: str) -> int:
        """Return the column of a factor, or raise an error that suggests a similar name."""
        if name not in self.factor_names:
            hint = nearest(name, self.factor_names) if self.factor_names else "it has none."
            raise ValueError(f"{name!r} is not a factor of the dataset: {hint}")
        return self.factor_names.index(name)

    def factor(self, column: int) -> Factor:
        """Return a factor with the names or values of its classes, as far as they are known."""
        if self.lattice is not None:
            return self.lattice.members[column]
        labels = self.factor_labels[column]
        if labels is None:
            return Factor(self.factor_names[column], self.factor_sizes[column])
        return Factor.from_labels(self.factor_names[column], labels)

    def class_names(self, column: int) -> Sequence[str]:
        """Return the labels of the classes of a factor, or their numbers if they have none."""
        return list(map(str, self.factor_labels[column] or range(self.factor_sizes[column])))

    def factor_values(self, classes: Tensor) -> NDArray[Any]:
        """Return classes (N, K) as metrics read them, continuous factors as their numbers.

        Missing labels are NaN; without any, and without continuous factors, the result is int64.

        >>> schema = Schema(3, (1,), ("mm",), (2,), ((0.5, 2.5),), continuous=("mm",))
        >>> schema.factor_values(torch.tensor([[1], [MISSING], [0]])).tolist()
        [[2.5], [nan], [0.5]]
        """
        codes: NDArray[Any] = classes.cpu().numpy()
        missing = codes == MISSING
        if not self.continuous and not missing.any():
            return codes
        values = np.where(missing, np.nan, codes)
        for column in map(self.column, self.continuous):
            numbers = np.array([*(self.factor_labels[column] or ()), np.nan], np.float64)
            values[:, column] = numbers[codes[:, column]]  # MISSING is the last one
        return values

    def distinct_counts(self, column: int) -> tuple[int | None, list[int]]:
        """Return how many classes of a factor show different observations.

        If that depends on another factor, also return the column of that factor, and one count
        for each of its classes.
        """
        size = self.factor_sizes[column]
        period = self.periods.get(self.factor_names[column], size)
        if isinstance(period, int):
            return None, [min(size, period)]
        ((other, each),) = period.items()
        return self.column(other), [min(size, steps) for steps in each]

    def distinct(self, column: int, factors: Tensor) -> Tensor:
        """Return how many classes of a factor show different observations, given all factors.

        Two classes show the same observation if they are equal modulo this number.

        >>> turns = Schema(18, (1,), ("shape", "turn"), (2, 9), periods={"turn": {"shape": [2, 8]}})
        >>> turns.distinct(1, torch.tensor([[1, 0], [0, 1]]))
        tensor([8, 2])

        Args:
            column: column of the factor.
            factors: (..., K) classes of all factors.

        Returns:
            Numbers of classes (...).
        """
        other, counts = self.distinct_counts(column)
        if other is None:
            return torch.full_like(factors[..., column], counts[0])
        # A sum instead of a table, which would have to be copied to the device.
        classes = factors[..., other]
        return torch.stack([(classes == c) * count for c, count in enumerate(counts)]).sum(0)


class Dataset(ABC):
    """Observations 0..N-1 on a device, and the classes of their factors where these are known.

    To write your own dataset, set `schema` and `device` and implement `images`. Also implement
    `factors`, unless the factors are unknown or the schema has a lattice.
    """

    schema: Schema
    device: torch.device

    @abstractmethod
    def images(self, index: Tensor) -> Tensor:
        """Return the observations with these indices (...), float32 (..., *shape) on the device."""

    def factors(self, index: Tensor) -> Tensor:
        """Return the classes of the factors at these indices (...), int64 (..., K) on the device.

        The class of a missing label is MISSING.
        """
        if self.lattice is not None:
            return self.lattice.factors(index).to(self.device)
        if self.factor_names:
            raise NotImplementedError(f"{type(self).__name__} has factors: implement factors()")
        return self.check(index).new_zeros(*index.shape, 0)

    def check(self, index: Tensor) -> Tensor:
        """Return indices of observations as int64 on the device; refuse those out of range."""
        return check_indices(index, self.size, "indices of the data").to(self.device)

    @property
    def fingerprint(self) -> str:
        """Text that changes when the observations do; "" if the spec alone determines them."""
        return ""

    @property
    def labels_fingerprint(self) -> str:
        """Text that changes when the factors do; "" if the spec alone determines them."""
        return ""

    @property
    def row_names(self) -> Sequence[str]:
        """Names of the observations, such as file names; () if they have none."""
        return ()

    @property
    def size(self) -> int:
        """Number of observations N."""
        return self.schema.size

    @property
    def distinct(self) -> int:
        """Number of distinct observations, as far as copies are known."""
        return self.size

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of one observation: (C, H, W) for images, (D,) for vectors."""
        return self.schema.shape

    @property
    def factor_names(self) -> tuple[str, ...]:
        """Names of the K factors; () if the factors are unknown."""
        return self.schema.factor_names

    @property
    def factor_sizes(self) -> tuple[int, ...]:
        """Number of classes of each factor."""
        return self.schema.factor_sizes

    @property
    def factor_labels(self) -> Labels:
        """Names or values of the classes of each factor, or None."""
        return self.schema.factor_labels

    @property
    def periods(self) -> Periods:
        """Classes that show the same observation, as in `Lattice`."""
        return self.schema.periods

    @property
    def lattice(self) -> Lattice | None:
        """The lattice that the observations enumerate in order, if they do."""
        return self.schema.lattice

    @property
    def bounded(self) -> bool:
        """Whether all values lie in [0, 1], as a Bernoulli likelihood needs."""
        return self.schema.bounded

    @property
    def notes(self) -> tuple[str, ...]:
        """Decisions made while loading the data, for the user to read."""
        return self.schema.notes


@runtime_checkable
class DataSpec(Protocol):
    """A spec of data: fields that identify the data, and `load`.

    You can use your own class wherever a dataset of the package works, if it is decorated with
    `unweave.spec` and has this method.
    """

    kind: str

    @abstractmethod
    def load(self, device: torch.device) -> Dataset:
        """Load the data onto a device."""


def load_dataset(data: Any, device: torch.device) -> Dataset:
    """Load the data of a spec; raise a ValueError if its `load` returns no dataset."""
    dataset: object = data.load(device)
    if not isinstance(dataset, Dataset):
        raise ValueError(
            f"{type(data).__name__}.load: expected a dataset, got {type(dataset).__name__}: return "
            "one, such as array_dataset(...).to(device)"
        )
    return dataset


class DatasetWithCodes(Dataset):
    """A dataset whose factors are in memory."""

    codes: Tensor  # (N, K) int64; K = 0 if the factors are unknown
    # (N,) index of the first equal observation; None if all differ, or copies are not known
    first: NDArray[np.int64] | None

    @property
    def distinct(self) -> int:
        return self.size if self.first is None else len(np.unique(self.first))

    @cached_property
    def labels_fingerprint(self) -> str:
        """A checksum of the factors of all observations, their names and labels."""
        named = zlib.crc32(repr((self.schema.factor_names, self.schema.factor_labels)).encode())
        return f"{zlib.crc32(np.ascontiguousarray(self.codes.cpu().numpy()).data, named):08x}"

    def factors(self, index: Tensor) -> Tensor:
        return self.codes[self.check(index)]


@final
@dataclass(frozen=True, eq=False)
class ArrayDataset(DatasetWithCodes):
    """A dataset in memory: images(i) = unit * data[i].

    Bytes stay bytes until a batch is requested.
    """

    schema: Schema
    data: Tensor = field(repr=False)  # (N, *shape): uint8, bool or float32
    codes: Tensor = field(repr=False)
    unit: float = 1.0
    device: torch.device = CPU
    row_names: Sequence[str] = field(default=(), repr=False)
    checksum: str = ""  # of the observations before they were scaled; "": of `data`
    first: NDArray[np.int64] | None = field(default=None, repr=False)

    @cached_property
    def fingerprint(self) -> str:
        """A checksum of all observations."""
        return self.checksum or f"{zlib.crc32(self.data.reshape(-1).cpu().numpy().data):08x}"

    def to(self, device: torch.device) -> ArrayDataset:
        """Copy the dataset to another device."""
        data, codes = self.data.to(device), self.codes.to(device)
        return dataclasses.replace(self, data=data, codes=codes, device=data.device)

    def images(self, index: Tensor) -> Tensor:
        # A product, not a quotient: division by a constant rounds differently on CPU and CUDA.
        return self.data[self.check(index)].to(torch.float32) * self.unit
