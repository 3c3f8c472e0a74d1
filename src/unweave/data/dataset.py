"""What loaded data is: observations by index, with the factors behind them where they are known."""

from __future__ import annotations

import dataclasses
import zlib
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Annotated, Protocol, final

import torch
from pydantic import BeforeValidator
from torch import Tensor

from unweave.data.lattice import Labels, Lattice, Periods, checked

# A path is text in a spec, so that the spec read back from JSON equals the one written, and
# absolute, so that it means the same from everywhere.
Place = Annotated[
    str,
    BeforeValidator(
        lambda path: str(Path(path).absolute()) if isinstance(path, (str, Path)) else path
    ),
]


class Factored(Protocol):
    """Observations with factors, as selections see them: a dataset, or its learned features."""

    @property
    def factor_names(self) -> tuple[str, ...]:
        """Names of the K factors; () where they are unknown."""

    @property
    def factor_sizes(self) -> tuple[int, ...]:
        """Number of classes of each factor; () where they are unknown."""

    @property
    def factor_labels(self) -> Labels:
        """What the classes of each factor are called: the text or the numbers that they came as.

        None where a class has no other name than its number, 0..n-1.
        """

    @property
    def periods(self) -> Periods:
        """Which classes of the factors are the same observation, as `Lattice.periods`."""

    def factors(self, index: Tensor) -> Tensor:
        """Classes of the factors (..., K), int64 on the device, by the numbers (...)."""


class Dataset(Factored, Protocol):
    """Observations 0..size-1 on a device, rendered or stored, and their factors if known."""

    @property
    def size(self) -> int:
        """Number of observations N."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of one observation: (C, H, W) for images, (D,) for vectors."""

    @property
    def value_names(self) -> tuple[str, ...]:
        """Names of the D numbers of an observation that is a vector; () where they have none."""

    @property
    def notes(self) -> tuple[str, ...]:
        """What was decided while loading, for the user to read."""

    @property
    def device(self) -> torch.device:
        """Where the observations are."""

    @property
    def bounded(self) -> bool:
        """Whether all values are known to lie in [0, 1], as a Bernoulli likelihood needs."""

    @property
    def lattice(self) -> Lattice | None:
        """The lattice that the observations enumerate in order, if they do."""

    @property
    def fingerprint(self) -> str:
        """Changes when the observations do; "" where the spec alone says what they are."""

    @property
    def integer_unit(self) -> float:
        """What an integer 1 in an array of such observations stands for, 1/255 for bytes."""

    def images(self, index: Tensor) -> Tensor:
        """Observations (..., *shape), float32 on the device, by their numbers (...)."""


@final
@dataclass(frozen=True, eq=False)
class Stored:
    """A dataset held in memory, as small as it came: bytes stay bytes until a batch asks for them.

    images(i) = unit * data[i]
    """

    data: Tensor = field(repr=False)  # (N, *shape): uint8, bool or float32
    codes: Tensor = field(repr=False)  # (N, K) int64, K = 0 where the factors are unknown
    unit: float
    bounded: bool
    factor_names: tuple[str, ...]
    factor_sizes: tuple[int, ...]
    factor_labels: Labels
    lattice: Lattice | None
    periods: Periods
    notes: tuple[str, ...]
    integer_unit: float
    value_names: tuple[str, ...] = ()

    @property
    def size(self) -> int:
        """Number of observations."""
        return self.data.shape[0]

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of one observation."""
        return tuple(self.data.shape[1:])

    @property
    def device(self) -> torch.device:
        """Where the observations are."""
        return self.data.device

    @cached_property
    def fingerprint(self) -> str:
        """A checksum of all observations and factors."""
        parts = (self.data.reshape(-1), self.codes.reshape(-1))
        sums = [zlib.crc32(part.cpu().numpy().data) for part in parts]
        return f"{sums[0]:08x}{sums[1]:08x}"

    def to(self, device: torch.device) -> Stored:
        """The same dataset on another device."""
        return dataclasses.replace(self, data=self.data.to(device), codes=self.codes.to(device))

    def images(self, index: Tensor) -> Tensor:
        """Observations (..., *shape) by their numbers (...)."""
        index = checked(index, self.size, "indices of the data").to(self.device)
        # A product, not a quotient: division by a constant rounds differently on CPU and CUDA.
        return self.data[index].to(torch.float32) * self.unit

    def factors(self, index: Tensor) -> Tensor:
        """Classes of the factors (..., K) by the numbers (...)."""
        index = checked(index, self.size, "indices of the data").to(self.device)
        return self.codes[index]
