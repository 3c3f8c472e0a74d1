"""Scores: the values of metrics, with what is needed to interpret them."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, Self

import numpy as np
from markupsafe import Markup
from numpy.typing import NDArray

from unweave.core.groups import grouped
from unweave.core.html import html_table
from unweave.core.text import csv_text, visible

Detail = bool | int | float | str | list[int] | list[float] | list[str]
NULL_STD = "null std"  # detail: standard deviation of the scores of shuffled factors
# Optional details, which tables show as columns, except for the last, which are notes.
SEED_STD, CEILING, NO_EVIDENCE = "seed std", "ceiling", "no evidence"
_EXTRA = (SEED_STD, CEILING)  # those that are numbers
_COLUMNS = ("metric", "value", "interval", "null", *_EXTRA)
_MOST_NAMED = 3  # scores of several runs that are named of those that one reason applies to
CSV_COLUMNS = ("metric", "protocol", "part", "value", "low", "high", "null", SEED_STD, CEILING)


@dataclass(frozen=True, eq=False, repr=False)
class Score:
    """The value of a metric under one protocol, its named parts and the matrix behind them.

    `parts` are the numbers behind the value by name, such as one for each factor or each code.
    Those that are quantities of their own, such as completeness, are also `components`, which
    tables show below the value. `matrix` is (D, K), codes by factors, such as mutual information,
    votes or importances. `details` holds what a reader needs to judge the value, such as the codes
    pruned or the factors left out. `interval`, and `null`, the value on shuffled factors, are set
    if they were requested. `rows_read` is the number of rows that the value was estimated from, if
    not all; intervals need it. A metric with a single definition may have no protocol. The detail
    "no evidence" is the reason why the value proves nothing, if there is one; an interval that is a
    single point is marked like that, too.

    >>> score = Score("mig", "chen2018", 0.25, {"shape": 0.1, "scale": 0.4})
    >>> score, float(score)
    (Score(mig/chen2018 = 0.2500; shape 0.100, scale 0.400), 0.25)
    >>> Score("mig", "chen2018", 0.25, interval=(0.2, 0.3), null=0.01)
    Score(mig/chen2018 = 0.2500 in [0.2000, 0.3000], null 0.0100)
    >>> Score("mig", "chen2018", 1.0, interval=(1.0, 1.0))
    Score(mig/chen2018 = 1.0000 in [1.0000, 1.0000]; no evidence: the value is the same in every ...
    """

    name: str
    protocol: str
    value: float
    parts: dict[str, float] = field(default_factory=dict)
    matrix: NDArray[Any] | None = None
    details: dict[str, Detail] = field(default_factory=dict)
    interval: tuple[float, float] | None = None
    null: float | None = None
    rows_read: int | None = None
    components: dict[str, float] = field(default_factory=dict)

    @property
    def key(self) -> str:
        """Name and protocol, such as `mig/chen2018`; the name alone if there is no protocol."""
        return f"{self.name}/{self.protocol}" if self.protocol else self.name

    @property
    def extras(self) -> dict[str, float]:
        """The optional numbers, as far as they are set: low, high, null, seed std, ceiling."""
        extras = dict(zip(("low", "high"), self.interval or (), strict=False))
        if self.null is not None:
            extras["null"] = self.null
        details = {name: self.details[name] for name in _EXTRA if name in self.details}
        return extras | {name: float(number) for name, number in details.items()}  # type: ignore[arg-type]

    @property
    def no_evidence(self) -> list[str]:
        """The reasons why the value, or its interval, proves nothing."""
        reasons = [str(self.details[NO_EVIDENCE])] if NO_EVIDENCE in self.details else []
        if self.interval is not None and not self.interval[0] < self.interval[1]:
            reasons.append("the value is the same in every resample, so its interval is a point")
        return reasons

    def __float__(self) -> float:
        return float(self.value)

    def __repr__(self) -> str:
        parts = ", ".join(f"{name} {value:.3f}" for name, value in self.parts.items())
        head = f"{self.key} = {self.value:.4f}"
        if self.interval is not None:
            head += " in [{:.4f}, {:.4f}]".format(*self.interval)
        rest = {name: n for name, n in self.extras.items() if name not in ("low", "high")}
        head += "".join(f", {name} {number:.4f}" for name, number in rest.items())
        head += "".join(f"; no evidence: {reason}" for reason in self.no_evidence)
        return f"Score({head}; {parts})" if parts else f"Score({head})"

    def _repr_html_(self) -> str:
        parts = [[name, f"{value:.3f}"] for name, value in self.parts.items()]
        own = Scores({self.key: self})._repr_html_()
        return own + str(html_table(["part", "value"], parts) if parts else "")

    def to_json(self) -> dict[str, Any]:
        """Return the score as plain dicts, lists, strings and numbers."""
        plain = {each.name: getattr(self, each.name) for each in fields(self)}
        del plain["rows_read"]
        matrix = None if self.matrix is None else self.matrix.tolist()
        # Copies, not the score's own dictionaries.
        plain |= {name: dict(plain[name]) for name in ("parts", "components", "details")}
        return plain | {"matrix": matrix, "interval": self.interval and list(self.interval)}

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> Self:
        """Read a score that `to_json` wrote."""
        matrix, interval = content["matrix"], content.get("interval")
        array = None if matrix is None else np.array(matrix)
        return cls(**{**content, "matrix": array, "interval": interval and tuple(interval)})


class Scores(dict[str, Score]):
    """Scores by metric and protocol, such as `mig/chen2018`; they print as a table.

    >>> score = Score("mig", "chen2018", 0.25, {"shape": 0.1, "scale": 0.4}, null=0.01)
    >>> scores = Scores({score.key: score})
    >>> scores
    metric        value   null
    mig/chen2018  0.2500  0.0100
    >>> print(scores.to_csv(), end="")
    metric,protocol,part,value,low,high,null,seed std,ceiling
    mig,chen2018,,0.25,,,0.01,,
    mig,chen2018,shape,0.1,,,,,
    mig,chen2018,scale,0.4,,,,,
    """

    def __repr__(self) -> str:
        return "\n".join([*self.notes(), aligned([self.columns(), *self.rows()])])

    def _repr_html_(self) -> str:
        notes = (Markup("<p>{}</p>").format(visible(note)) for note in self.notes())
        return str(Markup("").join(notes) + html_table(self.columns(), self.rows()))

    def columns(self) -> list[str]:
        """Return the header of the table, with the optional columns that a score has."""
        cells = [_cells(score) for score in self.values()]
        return [name for name in _COLUMNS if name in _COLUMNS[:2] or any(name in c for c in cells)]

    def rows(self) -> list[list[str]]:
        """Return the rows of the table: each score, and below it the components it has."""
        columns, rows = self.columns(), []
        for score in self.values():
            cells = _cells(score)
            rows.append([cells.get(column, "") for column in columns])
            rows += [
                [f"  {part}", f"{value:.4f}", *[""] * (len(columns) - 2)]
                for part, value in score.components.items()
            ]
        return rows

    def notes(self) -> list[str]:
        """Return the notes above the table: which scores are no evidence, and why.

        >>> reason = {"no evidence": "24 rows are too few"}
        >>> print(Scores({key: Score(key, "", 1.0, details=reason) for key in ("mig", "sap")}))
        no evidence: 24 rows are too few (all scores)
        metric  value
        mig     1.0000
        sap     1.0000
        """
        reasons = grouped((why, key) for key, score in self.items() for why in score.no_evidence)
        return [
            f"no evidence: {reason} ({_listed(keys, len(self))})"
            for reason, keys in reasons.items()
        ]

    def to_json(self) -> dict[str, Any]:
        """Return `Score.to_json` of each score."""
        return {key: score.to_json() for key, score in self.items()}

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> Self:
        """Read scores that `to_json` wrote."""
        return cls({key: Score.from_json(each) for key, each in content.items()})

    def to_csv(self) -> str:
        """Return CSV text with a header and a line for each value and each of its parts."""
        return csv_text(CSV_COLUMNS, self.csv_rows())

    def csv_rows(self) -> list[list[object]]:
        """Return the rows of `to_csv`."""
        rows: list[list[object]] = []
        for s in self.values():
            rest = [s.extras.get(name, "") for name in CSV_COLUMNS[4:]]
            rows.append([s.name, s.protocol, "", s.value, *rest])
            rows += [
                [s.name, s.protocol, part, value, *[""] * len(rest)]
                for part, value in s.parts.items()
            ]
        return rows


def notes_on_runs(scores: Mapping[str, Scores]) -> list[str]:
    """Return which scores of several runs are no evidence, one line per reason.

    >>> few = Score("mig", "", 1.0, details={"no evidence": "24 rows are too few"})
    >>> notes_on_runs({"a": Scores({"mig": few}), "b": Scores()})
    ['no evidence: 24 rows are too few (mig in 1 of 2 runs)']
    >>> dci = Scores({"mig": few, "dci": few})
    >>> notes_on_runs({"a": Scores({"mig": few}), "b": dci, "c": Scores({"sap": few})})
    ['no evidence: 24 rows are too few (mig in 2, dci, sap in 1 of 3 runs)']
    """
    pairs = ((run, key, score) for run, own in scores.items() for key, score in own.items())
    reasons = grouped((why, (run, key)) for run, key, score in pairs for why in score.no_evidence)
    count = len({key for own in scores.values() for key in own})
    lines = []
    for reason, marked in reasons.items():
        runs_by_key = Counter(key for _, key in marked)
        by_runs = grouped((runs, key) for key, runs in runs_by_key.items())
        where = ", ".join(f"{_listed(keys, count)} in {runs}" for runs, keys in by_runs.items())
        lines.append(f"no evidence: {reason} ({where} of {len(scores)} runs)")
    return lines


def _listed(keys: Sequence[str], among: int) -> str:
    """Name scores, or count them if they are many or all."""
    if len(keys) == among > 1:
        return "all scores"
    return ", ".join(keys) if len(keys) <= _MOST_NAMED else f"{len(keys)} of {among} scores"


def _cells(score: Score) -> dict[str, str]:
    """Return the cells of a score by column, for the columns that it has."""
    numbers = {name: f"{number:.4f}" for name, number in score.extras.items()}
    if score.interval is not None:
        numbers["interval"] = "{:.4f} to {:.4f}".format(*score.interval)
    return {"metric": score.key, "value": f"{score.value:.4f}"} | numbers


def aligned(lines: Sequence[Sequence[str]]) -> str:
    """Align lines of equally many cells as a plain text table.

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
