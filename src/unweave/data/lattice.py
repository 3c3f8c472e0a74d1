"""Factors of variation, and the lattice that numbers every combination of them from 0.

>>> lattice = Lattice((Factor("shape", 3, "categorical"), Factor("x", 32)))
>>> lattice.size
96
>>> lattice.factors(torch.tensor([33]))
tensor([[1, 1]])
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, Self, get_args

import torch
from torch import Tensor

from unweave.core.hints import nearest
from unweave.core.noise import Noise

Kind = Literal["ordinal", "cyclic", "categorical"]
# Names or values of the classes of each factor; None if a class is known by its number only.
Labels = tuple[tuple[str | int | float, ...] | None, ...]
Periods = Mapping[str, int | Mapping[str, list[int]]]


@dataclass(frozen=True)
class Factor:
    """One factor of variation with the classes 0..size-1.

    `values` are the quantities that the classes stand for (a scale, an angle), `labels` their
    names.
    """

    name: str
    size: int
    kind: Kind = "ordinal"
    values: tuple[float, ...] | None = None
    labels: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        if not self.name:
            raise ValueError("expected a factor with a name, got an empty one: name it")
        if self.size < 1:
            raise ValueError(
                f"expected factor {self.name!r} to have at least 1 class, got {self.size}: "
                "leave the factor out or give it a class"
            )
        if self.kind not in get_args(Kind):
            raise ValueError(f"kind of factor {self.name!r}: {nearest(self.kind, get_args(Kind))}")
        self._check_length("values", self.values)
        self._check_length("labels", self.labels)

    @classmethod
    def from_labels(cls, name: str, labels: tuple[str | float, ...]) -> Self:
        """Return a factor whose labels are numbers, its values, or text, the names of its classes.

        >>> Factor.from_labels("colour", ("blue", "red")).kind
        'categorical'
        """
        texts = tuple(each for each in labels if isinstance(each, str))
        numbers = tuple(float(each) for each in labels if not isinstance(each, str))
        kind: Kind = "categorical" if texts else "ordinal"
        return cls(name, len(labels), kind, numbers or None, texts or None)

    def _check_length(self, what: str, given: tuple[object, ...] | None) -> None:
        if given is not None and len(given) != self.size:
            raise ValueError(
                f"expected {self.size} {what} for factor {self.name!r}, got {len(given)}: "
                "give one for each class"
            )


@dataclass(frozen=True)
class Lattice:
    """All combinations of K factors, in mixed-radix order, the last factor fastest.

    index(f) = (...(f_1 n_2 + f_2) n_3 + ...) n_K + f_K,   0 <= f_k < n_k

    `periods` names factors that repeat: classes that differ by a multiple of the period show the
    same observation. A period can depend on the class of another factor:
    {"orientation": {"shape": [10, 20, 40]}}.
    """

    members: tuple[Factor, ...]
    periods: Periods = field(default_factory=dict, hash=False)

    def __post_init__(self) -> None:
        if not self.members:
            raise ValueError(
                "expected a lattice of at least one factor, got none: list its factors"
            )
        repeated = sorted({name for name in self.names if self.names.count(name) > 1})
        if repeated:
            raise ValueError(
                f"expected factors with distinct names, got {', '.join(repeated)} more than once: "
                "rename one"
            )
        for name in self.periods:
            if name not in self.names:
                raise ValueError(f"{name!r} is not a factor here: {nearest(name, self.names)}")
        if self.size >= 2**62:
            raise ValueError(
                f"expected fewer than 2^62 combinations, got {self.size}: use fewer factors"
            )

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the factors."""
        return tuple(factor.name for factor in self.members)

    @property
    def sizes(self) -> tuple[int, ...]:
        """Number of classes of each factor."""
        return tuple(factor.size for factor in self.members)

    @property
    def labels(self) -> Labels:
        """Names of the classes of each factor, None for factors whose classes have no names."""
        return tuple(factor.labels for factor in self.members)

    @property
    def size(self) -> int:
        """Number of combinations."""
        return math.prod(self.sizes)

    def index(self, factors: Tensor) -> Tensor:
        """Map combinations of classes (..., K) to their indices (...)."""
        if factors.ndim < 1 or factors.shape[-1] != len(self.members):
            raise ValueError(
                f"expected factors of shape (..., {len(self.members)}) for "
                f"({', '.join(self.names)}), got {tuple(factors.shape)}: one column for each factor"
            )
        columns = [
            check_indices(column, size, f"classes of factor {name!r}")
            for column, size, name in zip(factors.unbind(-1), self.sizes, self.names, strict=True)
        ]
        index = columns[0]
        for column, size in zip(columns[1:], self.sizes[1:], strict=True):
            index = index * size + column
        return index

    def factors(self, index: Tensor) -> Tensor:
        """Map indices (...) to combinations of classes (..., K)."""
        rest = check_indices(index, self.size, "indices of the lattice")
        columns: list[Tensor] = []
        for size in reversed(self.sizes):
            columns.append(rest % size)
            rest = rest // size
        return torch.stack(columns[::-1], -1)

    def draw(self, noise: Noise, n: int, fixed: Mapping[str, int] | None = None) -> Tensor:
        """Draw `n` combinations (n, K), uniform and independent except for the `fixed` factors.

        The same `unweave.core.noise.Noise(seed)` gives the same combinations. Every factor has its
        own noise stream, so fixing one factor does not change the draws of the others.
        """
        fixed = fixed or {}
        for name, value in fixed.items():
            self._check_fixed(name, value)
        columns = []
        for factor in self.members:
            column = noise.integers(factor.size, (n,), f"factor {factor.name}")
            if factor.name in fixed:
                column = torch.full_like(column, fixed[factor.name])
            columns.append(column)
        return torch.stack(columns, -1)

    def _check_fixed(self, name: str, value: int) -> None:
        if name not in self.names:
            raise ValueError(f"{name!r} is not a factor here: {nearest(name, self.names)}")
        size = self.sizes[self.names.index(name)]
        if not 0 <= value < size:
            raise ValueError(
                f"expected a class of factor {name!r} between 0 and {size - 1}, got {value}"
            )


def check_indices(values: Tensor, size: int, what: str) -> Tensor:
    """Return `values` as int64 after checking that they are integers in [0, size).

    The range is checked on the CPU only: reading a value back from a GPU stalls it, and a captured
    CUDA graph forbids it.
    """
    if values.dtype.is_floating_point or values.dtype.is_complex or values.dtype == torch.bool:
        raise ValueError(f"expected {what} as integers, got {values.dtype}: convert them to int64")
    if values.device.type == "cpu" and values.numel():
        low, high = (int(bound) for bound in values.aminmax())
        if low < 0 or high >= size:
            raise ValueError(
                f"expected {what} between 0 and {size - 1}, got values from {low} to {high}"
            )
    return values.to(torch.int64)
