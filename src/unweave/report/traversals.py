"""The images of a report: traversals, reconstructions and prior samples."""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from unweave.report.analysis import STEPS, Analysis, Array, Start, Variable
from unweave.report.pictures import ColourMap, Sheet, are_pixels, colour_map, sheet
from unweave.report.text import number

_COLUMNS = 12  # images side by side
_SEARCHED = 512  # rows that are searched for the worst reconstructions


class VariableTraversal(NamedTuple):
    """Decoded images as one variable changes."""

    variable: Variable
    values: list[str]  # of the variable, below the images
    strip: Sheet
    width: float  # of the strip, as a share of the widest one
    mark: float | None  # position of the start's own value, as a share of the width


class Traversal(NamedTuple):
    """Originals, reconstructions, and traversals that start from the framed original."""

    where: str  # where the start lies
    originals: Sheet
    reconstructions: Sheet
    framed: int  # column of the start
    variables: list[VariableTraversal]


class Reconstructions(NamedTuple):
    """Originals above their reconstructions."""

    title: str
    picture: Sheet


def reconstruction_sheets(analysis: Analysis, colours: ColourMap) -> list[Reconstructions]:
    """Return random observations with their reconstructions, and the worst of many."""
    rows = analysis.some_rows(_SEARCHED, "searched")
    x, y = analysis.observations(rows), analysis.reconstructions(rows)
    error = np.square(x - y, dtype=np.float64).reshape(len(rows), -1).sum(1)
    worst = np.argsort(-error, kind="stable")[:_COLUMNS]
    first = sheet([x[:_COLUMNS], y[:_COLUMNS]], colours)
    if len(rows) <= _COLUMNS:
        return [Reconstructions("all", first)]
    title = f"largest squared error among {len(rows)}"
    return [
        Reconstructions("random", first),
        Reconstructions(title, sheet([x[worst], y[worst]], colours)),
    ]


def traversal(analysis: Analysis, start: Start, colours: ColourMap) -> Traversal:
    """Traverse every shown variable from one observation, as in [Kim2018] fig. 6."""
    row = start.row
    others = [other for other in analysis.some_rows(STEPS, "originals") if other != row]
    framed = min(STEPS // 2, len(others))
    rows = [*others[:framed], row, *others[framed : STEPS - 1]]
    return Traversal(
        start.where,
        sheet([analysis.observations(rows)], colours),
        sheet([analysis.reconstructions(rows)], colours),
        framed,
        [_variable_traversal(analysis, row, variable, colours) for variable in analysis.shown],
    )


def _variable_traversal(
    analysis: Analysis, row: int, variable: Variable, colours: ColourMap
) -> VariableTraversal:
    values = analysis.traversal_values[variable.number]
    strip = sheet([analysis.traverse(row, variable)], colours)
    widest = STEPS * (strip.cell + strip.gap) - strip.gap
    column = _start_column(analysis, row, variable)
    mark = strip.centre(column) if -0.5 <= column <= len(values) - 0.5 else None
    labels = _value_labels(variable, values)
    return VariableTraversal(variable, labels, strip, min(1.0, strip.width / widest), mark)


def _start_column(analysis: Analysis, row: int, variable: Variable) -> float:
    """Return the column of a traversal, possibly a fraction, with the variable's value in a row."""
    if variable.discrete:
        return float(analysis.table.codes[row, variable.number])
    low, high = analysis.traversal_values[variable.number][[0, -1], 0]
    return float((analysis.means[row, variable.columns][0] - low) / (high - low) * (STEPS - 1))


def _value_labels(variable: Variable, values: Array) -> list[str]:
    """Return the values as text: class numbers, or numbers with one digit of their spacing."""
    if variable.discrete:
        return [str(c) for c in range(len(values))]
    step = float(values[1, 0] - values[0, 0])
    digits = max(0, -math.floor(math.log10(step)))
    return [number(float(value), digits) for value in values[:, 0]]


def prior_samples(analysis: Analysis) -> Array:
    """Return expected observations at samples of the prior, enough for three rows."""
    return analysis.displayed(analysis.model.sample(3 * _COLUMNS))


def sample_sheet(samples: Array, colours: ColourMap) -> Sheet:
    """Draw prior samples in rows."""
    return sheet([samples[n : n + _COLUMNS] for n in range(0, len(samples), _COLUMNS)], colours)


def image_colours(analysis: Analysis, channels: Sequence[int] = ()) -> ColourMap:
    """Choose how values, as the networks see them, are shown."""
    rows, schema = analysis.some_rows(64, "span"), analysis.model.schema
    return colour_map(analysis.observations(rows), are_pixels(schema), channels)
