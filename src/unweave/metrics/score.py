"""The answer of a metric: a number that says where it comes from."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

Detail = bool | int | float | str | list[int] | list[float] | list[str]
RNG_SPREAD, CEILING = "rng spread", "ceiling"  # details that are asked for
_EXTRA = (RNG_SPREAD, CEILING)
_COLUMNS = ("metric", "value", "interval", "null", *_EXTRA)
CSV_COLUMNS = ("metric", "protocol", "part", "value", "low", "high", "null", RNG_SPREAD, CEILING)


@dataclass(frozen=True, eq=False, repr=False)
class Score:
    """A metric under one protocol: its value, its named parts and the matrix behind them.

    `parts` are the components of the value by name, of each factor or of each code. `matrix` is
    (D, K), codes by factors: mutual information, votes, importances. `details` says what a reader
    needs to judge the number, such as the codes pruned or the factors left out. `interval` and
    `null`, the value on shuffled factors, are there where they were asked for.

    >>> score = Score("mig", "chen2018", 0.25, {"shape": 0.1, "scale": 0.4})
    >>> score, float(score)
    (Score(mig/chen2018 = 0.2500; shape 0.100, scale 0.400), 0.25)
    >>> Score("mig", "chen2018", 0.25, interval=(0.2, 0.3), null=0.01)
    Score(mig/chen2018 = 0.2500 in [0.2000, 0.3000], null 0.0100)
    """

    name: str
    protocol: str
    value: float
    parts: dict[str, float] = field(default_factory=dict)
    matrix: NDArray[Any] | None = None
    details: dict[str, Detail] = field(default_factory=dict)
    interval: tuple[float, float] | None = None
    null: float | None = None

    @property
    def key(self) -> str:
        """Name and protocol: the same name means two numbers under two protocols."""
        return f"{self.name}/{self.protocol}"

    @property
    def asked(self) -> dict[str, float]:
        """What was asked for beside the value: low, high, null, rng spread, ceiling."""
        found = dict(zip(("low", "high"), self.interval or (), strict=False))
        if self.null is not None:
            found["null"] = self.null
        details = {name: self.details[name] for name in _EXTRA if name in self.details}
        return found | {name: float(number) for name, number in details.items()}  # type: ignore[arg-type]

    def __float__(self) -> float:
        return self.value

    def __repr__(self) -> str:
        parts = ", ".join(f"{name} {value:.3f}" for name, value in self.parts.items())
        head = f"{self.key} = {self.value:.4f}"
        if self.interval is not None:
            head += " in [{:.4f}, {:.4f}]".format(*self.interval)
        rest = {name: n for name, n in self.asked.items() if name not in ("low", "high")}
        head += "".join(f", {name} {number:.4f}" for name, number in rest.items())
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
            "interval": None if self.interval is None else list(self.interval),
            "null": self.null,
        }

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> Score:
        """The score that `to_json` wrote."""
        matrix, interval = content["matrix"], content.get("interval")
        arrays = {
            "matrix": None if matrix is None else np.array(matrix),
            "interval": None if interval is None else tuple(interval),
        }
        return cls(**{**content, **arrays})


class Scores(dict[str, Score]):
    """Scores by metric and protocol, such as `mig/chen2018`; printed, a table.

    >>> score = Score("mig", "chen2018", 0.25, {"shape": 0.1, "scale": 0.4}, null=0.01)
    >>> scores = Scores({score.key: score})
    >>> scores
    metric        value   null
    mig/chen2018  0.2500  0.0100
    >>> print(scores.to_csv(), end="")
    metric,protocol,part,value,low,high,null,rng spread,ceiling
    mig,chen2018,,0.25,,,0.01,,
    mig,chen2018,shape,0.1,,,,,
    mig,chen2018,scale,0.4,,,,,
    """

    def __repr__(self) -> str:
        return aligned([self.columns(), *(self.row(score) for score in self.values())])

    def columns(self) -> list[str]:
        """The head of the table: with what was asked for beside the values."""
        cells = [_cells(score) for score in self.values()]
        return [name for name in _COLUMNS if name in _COLUMNS[:2] or any(name in c for c in cells)]

    def row(self, score: Score) -> list[str]:
        """The row of a score in the table."""
        cells = _cells(score)
        return [cells.get(column, "") for column in self.columns()]

    def to_json(self) -> dict[str, Any]:
        """`Score.to_json` of each."""
        return {key: score.to_json() for key, score in self.items()}

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> Scores:
        """The scores that `to_json` wrote."""
        return cls({key: Score.from_json(each) for key, each in content.items()})

    def to_csv(self) -> str:
        """A line for each value and for each of its parts, under a head."""
        return csv_text(CSV_COLUMNS, self.csv_rows())

    def csv_rows(self) -> list[list[object]]:
        """The lines of `to_csv`."""
        rows: list[list[object]] = []
        for s in self.values():
            rest = [s.asked.get(name, "") for name in CSV_COLUMNS[4:]]
            rows.append([s.name, s.protocol, "", s.value, *rest])
            rows += [
                [s.name, s.protocol, part, value, *[""] * len(rest)]
                for part, value in s.parts.items()
            ]
        return rows


def _cells(score: Score) -> dict[str, str]:
    """The texts of a score by column, those that it has."""
    numbers = {name: f"{number:.4f}" for name, number in score.asked.items()}
    if score.interval is not None:
        numbers["interval"] = f"{numbers['low']} to {numbers['high']}"
    return {"metric": score.key, "value": f"{score.value:.4f}"} | numbers


def aligned(lines: Sequence[Sequence[str]]) -> str:
    """Lines of cells, all of as many, as a table of plain text.

    >>> print(aligned([["metric", "value"], ["mig/chen2018", "0.25"]]))
    metric        value
    mig/chen2018  0.25
    """
    widths = [max(len(cell) for cell in column) for column in zip(*lines, strict=True)]
    padded = (
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True))
        for line in lines
    )
    return "\n".join(line.rstrip() for line in padded)


def csv_text(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Comma-separated values."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerows([head, *rows])
    return text.getvalue()
