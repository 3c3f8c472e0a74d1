"""The answer of a metric: a number that says where it comes from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

Detail = bool | int | float | str | list[int] | list[float] | list[str]


@dataclass(frozen=True, eq=False, repr=False)
class Score:
    """A metric under one protocol: its value, its named parts and the matrix behind them.

    `parts` are the components of the value by name, of each factor or of each code. `matrix` is
    (D, K), codes by factors: mutual information, votes, importances. `details` says what a reader
    needs to judge the number, such as the codes pruned or the factors left out.

    >>> score = Score("mig", "chen2018", 0.25, {"shape": 0.1, "scale": 0.4})
    >>> score, float(score)
    (Score(mig/chen2018 = 0.2500; shape 0.100, scale 0.400), 0.25)
    """

    name: str
    protocol: str
    value: float
    parts: dict[str, float] = field(default_factory=dict)
    matrix: NDArray[Any] | None = None
    details: dict[str, Detail] = field(default_factory=dict)

    def __float__(self) -> float:
        return self.value

    def __repr__(self) -> str:
        parts = ", ".join(f"{name} {value:.3f}" for name, value in self.parts.items())
        head = f"{self.name}/{self.protocol} = {self.value:.4f}"
        return f"Score({head}; {parts})" if parts else f"Score({head})"

    def to_json(self) -> dict[str, Any]:
        """Plain dicts, lists, strings and numbers."""
        return {
            "name": self.name,
            "protocol": self.protocol,
            "value": self.value,
            "parts": dict(self.parts),
            "matrix": None if self.matrix is None else self.matrix.tolist(),
            "details": dict(self.details),
        }

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> Score:
        """The score that `to_json` wrote."""
        matrix = content["matrix"]
        return cls(**{**content, "matrix": None if matrix is None else np.array(matrix)})
