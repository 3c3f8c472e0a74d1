"""Charts of observations that are vectors: curves over an axis, or dots for named columns."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from markupsafe import Markup

from unweave.data import Schema
from unweave.report.analysis import Analysis, Array, Variable
from unweave.report.charts import Panel, Plot, Span, padded, ticks
from unweave.report.text import cut, short, symbol

_DOTTED = 24  # values of a curve up to which each is marked by a dot
_MOST_COLUMNS = 24  # columns that are drawn, those that change most
_ROW = 13  # pixels for each column
_NAME = 18  # characters of a column's name


class Vectors(NamedTuple):
    """How to draw vectors: over the axis that their names are numbers of, or column by column."""

    schema: Schema

    @property
    def axis(self) -> list[float] | None:
        """The position of each value on an axis; None if values are columns with names."""
        names = self.schema.value_names
        if not names:
            return [float(number) for number in range(self.schema.shape[0])]
        try:
            numbers = [float(name) for name in names]
        except ValueError:
            return None
        rising = all(a < b for a, b in pairwise(numbers))
        return numbers if rising and all(map(math.isfinite, numbers)) else None

    @property
    def caption(self) -> str:
        """What the horizontal axis of a chart shows."""
        if self.axis is None:
            standard = self.schema.scaling.method == "standardise"
            unit = ", in standard deviations from its mean" if standard else ""
            return f"Each row of dots is a column of the table{unit}."
        return "The axis shows the numbers that name the values." if self.schema.value_names else ""

    def panels(
        self, lines: Sequence[Array], styles: Sequence[Sequence[str]], titles: Sequence[Panel]
    ) -> list[Panel]:
        """Draw families of vectors (n, D), in the user's units; all panels share their axes."""
        if self.axis is None:
            return self._dots(lines, styles, titles)
        every = np.concatenate([np.asarray(family) for family in lines])
        span = padded(float(every.min()), float(every.max()))
        return [
            title._replace(drawing=self._curves(family, style, span))
            for family, style, title in zip(lines, styles, titles, strict=True)
        ]

    def _curves(self, family: Array, styles: Sequence[str], span: Span) -> Markup:
        xs = self.axis
        assert xs is not None
        plot = Plot(padded(xs[0], xs[-1], 0.03), span, left=34)
        pairs = list(zip(family.tolist(), styles, strict=True))
        marks = [plot.line(xs, values, style) for values, style in pairs]
        if len(xs) <= _DOTTED:
            marks += [plot.dots(xs, values, style) for values, style in pairs]
        label = "values of observations"
        x_ticks = ticks(plot.x)
        if not self.schema.value_names:
            x_ticks = {x: text for x, text in x_ticks.items() if x == int(x)}
        return plot.draw(marks, label, x_ticks, ticks(span))

    def _dots(
        self, lines: Sequence[Array], styles: Sequence[Sequence[str]], titles: Sequence[Panel]
    ) -> list[Panel]:
        """Draw a row of dots for each column: those columns that change most in any panel."""
        scaled = [self.schema.scaling.apply(np.asarray(family)).numpy() for family in lines]
        change = np.max([np.ptp(family, axis=0) for family in scaled], axis=0)
        columns = np.sort(np.argsort(-change, kind="stable")[:_MOST_COLUMNS])
        names = [cut(self.schema.value_names[column], _NAME) for column in columns]
        shown = np.concatenate([family[:, columns] for family in scaled])
        span = padded(float(shown.min()), float(shown.max()))
        count = len(columns)
        plot = Plot(span, (-0.5, count - 0.5), height=_ROW * count, left=8 + 6.2 * _NAME)
        rows = [float(count - 1 - row) for row in range(count)]  # the first column at the top
        y_ticks = dict(zip(rows, names, strict=True))
        panels = []
        for family, style, title in zip(scaled, styles, titles, strict=True):
            marks = [
                plot.dots(values, rows, each)
                for values, each in zip(family[:, columns].tolist(), style, strict=True)
            ]
            label = "values of observations by column"
            panels.append(title._replace(drawing=plot.draw(marks, label, ticks(span), y_ticks)))
        return panels


def vector_reconstructions(
    analysis: Analysis, originals: Array, reconstructions: Array
) -> list[Panel]:
    """Draw vectors (n, D), each with its reconstruction."""
    pairs = [np.stack(pair) for pair in zip(originals, reconstructions, strict=True)]
    titles = [Panel(f"example {n + 1}", "", Markup("")) for n in range(len(pairs))]
    return _vectors(analysis).panels(pairs, [("ink", "a")] * len(pairs), titles)


def vector_traversals(analysis: Analysis, row: int) -> list[Panel]:
    """Draw traversals of vectors: one panel per variable, one line or dot per value."""
    decoded = [analysis.traverse(row, v) for v in analysis.shown]
    if not decoded:
        return []
    styles = [
        [f"ramp r{round(10 * n / (len(lines) - 1))}" for n in range(len(lines))]
        for lines in decoded
    ]
    titles = [_title(analysis, v, len(y)) for v, y in zip(analysis.shown, decoded, strict=True)]
    return _vectors(analysis).panels(decoded, styles, titles)


def _title(analysis: Analysis, v: Variable, count: int) -> Panel:
    ends = analysis.traversal_values[v.number][[0, -1], 0]
    over = f"{count} classes" if v.discrete else " to ".join(short(float(end)) for end in ends)
    remark = Markup("<small>{}, KL {:.2f} nats</small>").format(over, v.kl)
    return Panel(symbol(v.name), remark, Markup(""))


def vector_samples(analysis: Analysis, samples: Array) -> Panel:
    """Draw vectors on top of each other."""
    title = Panel("samples of the prior", "", Markup(""))
    (panel,) = _vectors(analysis).panels([samples], [["thin a"] * len(samples)], [title])
    return panel


def vector_caption(analysis: Analysis) -> str:
    """Say what the axis of the charts of vectors is."""
    return _vectors(analysis).caption


def _vectors(analysis: Analysis) -> Vectors:
    return Vectors(analysis.model.dataset.schema)
