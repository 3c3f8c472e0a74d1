"""Charts of observations that are vectors: curves over an axis, or bars for columns without order.

Values have an order if their names are rising numbers, such as wavelengths, or if they have no
names and neighbours are alike.
"""

from collections.abc import Sequence
from typing import NamedTuple, Self

import numpy as np
from markupsafe import Markup
from numpy.typing import NDArray

from unweave.data import Schema
from unweave.data.files.interpretation import rising_numbers
from unweave.report.analysis import Analysis, Array, Variable
from unweave.report.charts import Panel, Plot, Span, padded, ticks
from unweave.report.text import cut, short, symbol

_DOTTED = 24  # values of a curve up to which each is marked by a dot
_MOST_COLUMNS = 16  # columns without order that a panel shows, those that change most
_ROW = 14  # pixels for each column
_NAME = 18  # characters of a column's name
_COMPARED = 200  # vectors from which the order of values is judged
_FEW = 3  # values without names that count as ordered
_ALIKE = 0.3  # mean correlation of neighbouring values from which they count as ordered


class Vectors(NamedTuple):
    """How to draw vectors: over an axis, or column by column."""

    schema: Schema
    positions: list[float] | None  # of the values on an axis; None if they have no order

    @classmethod
    def of(cls, schema: Schema, some: Array) -> Self:
        """Decide how to draw vectors from their names, or from some of them, (n, D)."""
        if schema.value_names:
            return cls(schema, rising_numbers(schema.value_names))
        count = schema.shape[0]
        ordered = count <= _FEW or neighbour_correlation(some) >= _ALIKE
        return cls(schema, [float(number) for number in range(count)] if ordered else None)

    @property
    def caption(self) -> str:
        """Describe what the charts show."""
        if self.positions is None:
            standard = self.schema.scaling.method == "standardise"
            unit = ", in standard deviations from its mean" if standard else ""
            most = min(_MOST_COLUMNS, self.schema.shape[0])
            return (
                f"Each bar is a column of the table{unit}; the {most} that change most are shown."
            )
        return (
            "The horizontal axis shows the numbers in the column names."
            if self.schema.value_names
            else ""
        )

    def panels(
        self, lines: Sequence[Array], styles: Sequence[Sequence[str]], titles: Sequence[Panel]
    ) -> list[Panel]:
        """Draw families of vectors (n, D), in the user's units; all panels share their scale."""
        if self.positions is None:
            return self._bars(lines, styles, titles)
        every = np.concatenate([np.asarray(family) for family in lines])
        span = padded(float(every.min()), float(every.max()))
        return [
            title._replace(drawing=self._curves(family, style, span))
            for family, style, title in zip(lines, styles, titles, strict=True)
        ]

    def _curves(self, family: Array, styles: Sequence[str], span: Span) -> Markup:
        xs = self.positions
        assert xs is not None
        plot = Plot(padded(xs[0], xs[-1], 0.03), span, left=34)
        pairs = list(zip(family.tolist(), styles, strict=True))
        marks = [plot.line(xs, values, style) for values, style in pairs]
        if len(xs) <= _DOTTED:
            marks += [plot.dots(xs, values, style) for values, style in pairs]
        x_ticks = ticks(plot.x)
        if not self.schema.value_names:
            x_ticks = {x: text for x, text in x_ticks.items() if x == int(x)}
        return plot.draw(marks, "values of observations", x_ticks, ticks(span))

    def _bars(
        self, lines: Sequence[Array], styles: Sequence[Sequence[str]], titles: Sequence[Panel]
    ) -> list[Panel]:
        """Draw a bar for each column, over all of its values, with a dot at each value.

        A panel shows the columns that change most in it, in their order.
        """
        scaled = [self.schema.scaling.apply(np.asarray(family)).numpy() for family in lines]
        # The columns that change most, in their order.
        changes = (np.argsort(-np.ptp(family, axis=0), kind="stable") for family in scaled)
        chosen = [np.sort(each[:_MOST_COLUMNS]) for each in changes]
        shown = [family[:, columns] for family, columns in zip(scaled, chosen, strict=True)]
        every = np.concatenate([values.ravel() for values in shown])
        span = padded(float(every.min()), float(every.max()))
        return [
            title._replace(drawing=self._bar_chart(values, columns, style, span))
            for values, columns, style, title in zip(shown, chosen, styles, titles, strict=True)
        ]

    def _bar_chart(
        self, values: Array, columns: NDArray[np.int64], styles: Sequence[str], span: Span
    ) -> Markup:
        count, names = len(columns), self.schema.value_names
        plot = Plot(span, (-0.5, count - 0.5), height=_ROW * count, left=8 + 6.2 * _NAME)
        rows = [float(count - 1 - row) for row in range(count)]  # the first column at the top
        ends = zip(rows, values.min(0).tolist(), values.max(0).tolist(), strict=True)
        marks = [plot.line((low, high), (row, row), "bar") for row, low, high in ends]
        marks += [
            plot.dots(each, rows, style)
            for each, style in zip(values.tolist(), styles, strict=True)
        ]
        labels = [cut(names[c], _NAME) if names else f"value {c}" for c in columns]
        y_ticks = dict(zip(rows, labels, strict=True))
        return plot.draw(marks, "values of observations by column", ticks(span), y_ticks)


def neighbour_correlation(some: Array) -> float:
    """Return the mean correlation of neighbouring values over vectors (n, D).

    >>> x = np.linspace(0, 6, 50) + np.linspace(0, 6, 20)[:, None]
    >>> bool(neighbour_correlation(np.sin(x)) > 0.9)
    True
    """
    values = np.asarray(some, np.float64)
    off = values - values.mean(0)
    scale = off.std(0)
    products = (off[:, 1:] * off[:, :-1]).mean(0)
    both = scale[1:] * scale[:-1]
    return float(np.divide(products, both, out=np.zeros_like(both), where=both > 0).mean())


def vector_reconstructions(
    analysis: Analysis, originals: Array, reconstructions: Array
) -> list[Panel]:
    """Draw vectors (n, D), each with its reconstruction."""
    pairs = [np.stack(pair) for pair in zip(originals, reconstructions, strict=True)]
    titles = [Panel(f"example {n + 1}", "", Markup("")) for n in range(len(pairs))]
    return vectors_of(analysis).panels(pairs, [("ink", "a")] * len(pairs), titles)


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
    return vectors_of(analysis).panels(decoded, styles, titles)


def _title(analysis: Analysis, v: Variable, count: int) -> Panel:
    ends = analysis.traversal_values[v.number][[0, -1], 0]
    over = f"{count} classes" if v.discrete else " to ".join(short(float(end)) for end in ends)
    remark = Markup("<small>{}, KL {:.2f} nats</small>").format(over, v.kl)
    return Panel(symbol(v.name), remark, Markup(""))


def vector_samples(analysis: Analysis, samples: Array) -> Panel:
    """Draw vectors on top of each other."""
    title = Panel("samples of the prior", "", Markup(""))
    (panel,) = vectors_of(analysis).panels([samples], [["thin a"] * len(samples)], [title])
    return panel


def vectors_of(analysis: Analysis) -> Vectors:
    """Decide how to draw the vectors of a model's data."""
    some = analysis.observations(analysis.some_rows(_COMPARED, "order"))
    return Vectors.of(analysis.model.dataset.schema, some)
