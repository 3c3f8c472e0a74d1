"""The factor lattice: every combination of named, finite factors, numbered from 0.

>>> lattice = Lattice((Factor("shape", 3, "categorical"), Factor("x", 32)))
>>> lattice.size
96
>>> lattice.factors(torch.tensor([33]))
tensor([[1, 1]])
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, get_args

import torch
from torch import Tensor

from unweave.core.hints import nearest
from unweave.core.noise import Noise

Kind = Literal["ordinal", "cyclic", "categorical"]
# What the classes of each factor are called, text or numbers; None where only their place is known.
Labels = tuple[tuple[str | float, ...] | None, ...]
Periods = Mapping[str, int | Mapping[str, list[int]]]


@dataclass(frozen=True)
class Factor:
    """One factor of variation, with the classes 0..size-1.

    `values` are the quantities the classes stand for (a scale, an angle), `labels` their names.
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

    `periods` says which factors repeat: classes that differ by a multiple of the period are the
    same observation. A period can depend on the class of another factor: {"orientation": {"shape":
    [10, 20, 40]}}.
    """

    members: tuple[Factor, ...]
    periods: Periods = field(default_factory=dict, hash=False)

    def __post_init__(self) -> None:
        if not self.members:
            raise ValueError(
                "expected a lattice of at least one factor, got none: name its factors"
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
        """Names of the classes of each factor, where they have names."""
        return tuple(factor.labels for factor in self.members)

    @property
    def size(self) -> int:
        """Number of combinations."""
        return math.prod(self.sizes)

    def index(self, factors: Tensor) -> Tensor:
        """Number of each combination: (..., K) -> (...)."""
        if factors.ndim < 1 or factors.shape[-1] != len(self.members):
            raise ValueError(
                f"expected factors of shape (..., {len(self.members)}) for "
                f"({', '.join(self.names)}), got {tuple(factors.shape)}: one column for each factor"
            )
        columns = [
            checked(column, size, f"classes of factor {name!r}")
            for column, size, name in zip(factors.unbind(-1), self.sizes, self.names, strict=True)
        ]
        index = columns[0]
        for column, size in zip(columns[1:], self.sizes[1:], strict=True):
            index = index * size + column
        return index

    def factors(self, index: Tensor) -> Tensor:
        """Combination with each number: (...) -> (..., K)."""
        rest = checked(index, self.size, "indices of the lattice")
        columns: list[Tensor] = []
        for size in reversed(self.sizes):
            columns.append(rest % size)
            rest = rest // size
        return torch.stack(columns[::-1], -1)

    def draw(self, noise: Noise, n: int, fixed: Mapping[str, int] | None = None) -> Tensor:
        """`n` combinations (n, K), uniform and independent, but for the factors in `fixed`.

        noise: `unweave.core.noise.Noise(seed)`; the same noise gives the same combinations. Every
        factor has a stream of its own, so fixing one leaves the draws of the others as they are:
        two such draws differ in that factor alone.
        """
        fixed = fixed or {}
        for name, value in fixed.items():
            self._check_fixed(name, value)
        drawn = [noise.integers(size, (n,), f"factor {name}") for name, size in self._pairs()]
        columns = [
            torch.full_like(column, fixed[name]) if name in fixed else column
            for name, column in zip(self.names, drawn, strict=True)
        ]
        return torch.stack(columns, -1)

    def _pairs(self) -> list[tuple[str, int]]:
        return list(zip(self.names, self.sizes, strict=True))

    def _check_fixed(self, name: str, value: int) -> None:
        if name not in self.names:
            raise ValueError(f"{name!r} is not a factor here: {nearest(name, self.names)}")
        size = self.sizes[self.names.index(name)]
        if not 0 <= value < size:
            raise ValueError(
                f"expected a class of factor {name!r} between 0 and {size - 1}, got {value}"
            )


def counts_of(name: str, size: int, periods: Periods) -> tuple[str | None, list[int]]:
    """How many classes of a factor are different observations, and what factor that depends on.

    Where it depends on one, there is a count for each class of that.
    """
    period = periods.get(name, size)
    if isinstance(period, int):
        return None, [min(size, period)]
    ((other, each),) = period.items()
    return other, [min(size, steps) for steps in each]


def different(
    k: int, names: Sequence[str], sizes: Sequence[int], periods: Periods, factors: Tensor
) -> Tensor:
    """How many classes of factor k are different observations (...), beside others (..., K).

    Two classes of it are the same observation if they are equal modulo that.

    >>> different(1, ("shape", "turn"), (2, 9), {"turn": {"shape": [2, 8]}}, torch.eye(2).long())
    tensor([8, 2])
    """
    other, counts = counts_of(names[k], sizes[k], periods)
    if other is None:
        return torch.full_like(factors[..., k], counts[0])
    classes = factors[..., names.index(other)]
    # A sum and no table, which would have to be copied to the device.
    return torch.stack([(classes == c) * count for c, count in enumerate(counts)]).sum(0)


def checked(values: Tensor, size: int, what: str) -> Tensor:
    """`values` as int64, after a check that they are integers in [0, size).

    The range is read on the CPU only: reading a value back from a device stalls it, and a
    captured CUDA graph forbids it.
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
