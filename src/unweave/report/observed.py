"""The pictures of a report: reconstructions, traversals and samples of the prior."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from unweave.report.content import STEPS, Array, Content, Start, Variable
from unweave.report.pictures import Sheet, Span, display_span, sheet
from unweave.report.text import number

_COLUMNS = 12  # pictures side by side
_SEARCHED = 512  # rows among which the worst reconstructions are looked for


class Walk(NamedTuple):
    """Decoded steps along one variable, and where the start has its own value (0 to 1)."""

    variable: Variable
    values: list[str]
    strip: Sheet
    width: float  # as a part of that of a whole row
    place: float | None


class Traversal(NamedTuple):
    """Originals, their reconstructions, and walks from the one in the middle column."""

    where: str  # the example in the middle column lies
    originals: Sheet
    reconstructions: Sheet
    middle: int
    walks: list[Walk]


class Pair(NamedTuple):
    """Originals over reconstructions."""

    title: str
    picture: Sheet


def reconstruction_pairs(content: Content, span: Span) -> list[Pair]:
    """Some observations over their reconstructions, and the worst of many."""
    rows = content.some_rows(_SEARCHED, "searched")
    x, y = content.observations(rows), content.reconstructions(rows)
    error = np.square(x - y, dtype=np.float64).reshape(len(rows), -1).sum(1)
    worst = np.argsort(-error, kind="stable")[:_COLUMNS]
    some = sheet([x[:_COLUMNS], y[:_COLUMNS]], span)
    if len(rows) <= _COLUMNS:
        return [Pair("all", some)]
    title = f"largest squared error among {len(rows)}"
    return [Pair("at random", some), Pair(title, sheet([x[worst], y[worst]], span))]


def traversal(content: Content, start: Start, span: Span) -> Traversal:
    """Walks along every variable shown from one observation, as in [Kim2018] fig. 6."""
    row = start.row
    others = [other for other in content.some_rows(STEPS, "originals") if other != row]
    middle = min(STEPS // 2, len(others))
    rows = [*others[:middle], row, *others[middle : STEPS - 1]]
    originals = sheet([content.observations(rows)], span)
    walks = [_walk(content, row, variable, span) for variable in content.shown]
    return Traversal(
        start.where, originals, sheet([content.reconstructions(rows)], span), middle, walks
    )


def _walk(content: Content, row: int, variable: Variable, span: Span) -> Walk:
    values = content.walks[variable.number]
    strip = sheet([content.walk(row, variable)], span)
    whole = STEPS * (strip.cell + strip.gap) - strip.gap
    column = _column(content, row, variable)
    inside = -0.5 <= column <= len(values) - 0.5
    place = strip.centre(column) if inside else None
    return Walk(variable, _labels(variable, values), strip, min(1.0, strip.width / whole), place)


def _column(content: Content, row: int, variable: Variable) -> float:
    """Where in its walk a variable has the value of a row, in columns: classes by their number."""
    if variable.discrete:
        return float(content.table.codes[row, variable.number])
    low, high = content.walks[variable.number][[0, -1], 0]
    return float((content.means[row, variable.columns][0] - low) / (high - low) * (STEPS - 1))


def _labels(variable: Variable, values: Array) -> list[str]:
    """The values of a walk as text: the numbers of classes, or as many digits as tell them apart.

    The least step of a walk is one value of eleven, so one digit of it is enough.
    """
    if variable.discrete:
        return [str(c) for c in range(len(values))]
    step = float(values[1, 0] - values[0, 0])
    digits = max(0, -math.floor(math.log10(step)))
    return [number(float(value), digits) for value in values[:, 0]]


def samples(content: Content) -> Array:
    """Expected observations at draws of the prior, three rows of them."""
    return content.model.sample(3 * _COLUMNS)


def sample_sheet(drawn: Array, span: Span) -> Sheet:
    """Draws of the prior as a picture."""
    return sheet([drawn[n : n + _COLUMNS] for n in range(0, len(drawn), _COLUMNS)], span)


def span_of(content: Content) -> Span:
    """The values shown as black and white."""
    rows = content.some_rows(64, "span")
    return display_span(content.observations(rows), content.model.dataset.bounded)
