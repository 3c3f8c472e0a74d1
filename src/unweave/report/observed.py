"""The pictures of a report: reconstructions, traversals and samples of the prior."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from unweave.report.content import Array, Content, Start, Variable
from unweave.report.pictures import Sheet, Span, display_span, sheet

REACH = 2.0  # traversals go from -2 to 2, as in [Kim2018] fig. 6
STEPS = 11
_COLUMNS = 12  # pictures side by side
_SEARCHED = 512  # rows among which the worst reconstructions are looked for


class Walk(NamedTuple):
    """Decoded steps along one variable, and where the start has its own value (0 to 1)."""

    variable: Variable
    strip: Sheet
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


def values() -> Array:
    """The values that a variable takes in a traversal."""
    return np.linspace(-REACH, REACH, STEPS, dtype=np.float32)


def decoded_walks(content: Content, row: int) -> Array:
    """Decoded walks from the code of a row along every variable shown, (V, STEPS, *shape)."""
    if not content.shown:
        return np.zeros((0, STEPS, *content.model.world.shape))
    codes = np.tile(content.table.codes[row], (len(content.shown), STEPS, 1))
    for v, variable in enumerate(content.shown):
        codes[v, :, variable.column] = values()
    decoded = content.model.decode(codes.reshape(-1, codes.shape[-1]))
    return decoded.reshape(len(content.shown), STEPS, *decoded.shape[1:])


def traversal(content: Content, start: Start, span: Span) -> Traversal:
    """Walks along every variable shown from one observation, as in [Kim2018] fig. 6."""
    row = start.row
    others = [other for other in content.some_rows(STEPS, "originals") if other != row]
    middle = min(STEPS // 2, len(others))
    rows = [*others[:middle], row, *others[middle : STEPS - 1]]
    code = content.table.codes[row]
    walks = [
        _walk(variable, sheet([steps], span), float(code[variable.column]))
        for variable, steps in zip(content.shown, decoded_walks(content, row), strict=True)
    ]
    originals = sheet([content.observations(rows)], span)
    return Traversal(
        start.where, originals, sheet([content.reconstructions(rows)], span), middle, walks
    )


def _walk(variable: Variable, strip: Sheet, value: float) -> Walk:
    column = (value + REACH) / (2 * REACH) * (STEPS - 1)
    inside = -0.5 <= column <= STEPS - 0.5
    return Walk(variable, strip, strip.centre(column) if inside else None)


def samples(content: Content) -> Array:
    """Expected observations at draws of the prior, three rows of them."""
    return content.model.sample(3 * _COLUMNS)


def sample_sheet(drawn: Array, span: Span) -> Sheet:
    """Draws of the prior as a picture."""
    return sheet([drawn[n : n + _COLUMNS] for n in range(0, len(drawn), _COLUMNS)], span)


def span_of(content: Content) -> Span:
    """The values shown as black and white."""
    rows = content.some_rows(64, "span")
    return display_span(content.observations(rows), content.model.world.bounded)
