"""Charts of studies of metrics: how much they agree, and how sensitive they are to settings.

Each is an SVG for a page with the report's style sheet; `save` writes one to a file.
"""

import math
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
from markupsafe import Markup

from unweave.core.files import make_folder, write_atomically
from unweave.metrics import Agreement, Sensitivity
from unweave.metrics.studies import Correlation
from unweave.report.charts import Plot, padded, padded_range, ticks
from unweave.report.text import metric_title, number, words

_CELL = 40.0  # width of a cell in pixels
_LETTER = 6.0  # approximate width of a letter in pixels
_LINE = 16.0  # pixels between lines of text


def agreement_chart(found: Agreement, correlation: Correlation = "spearman") -> Markup:
    """Draw the correlations of metrics as a matrix: blue above 0, orange below, pale near it.

    Columns are labelled with the numbers of the rows.
    """
    names = [metric_title(name) for name in found.names]
    left = _LETTER * (max(map(len, names)) + 4)
    top = 2 * _LINE + 8
    size = _CELL * len(names)
    marks = [_text(left, 12, f"{correlation.capitalize()}, {found.runs} runs", "start")]
    for i, name in enumerate(names):
        middle = _CELL * (i + 0.5)
        marks.append(_text(left - 8, top + middle + 3.6, f"{name}  {i + 1}", "end"))
        marks.append(_text(left + middle, top - 6, str(i + 1), "middle"))
    for (i, j), value in np.ndenumerate(found.matrix(correlation)):
        marks.append(_cell(left + j * _CELL, top + i * _CELL, float(value)))
    label = f"{correlation} correlations of metrics over {found.runs} runs"
    return _drawing(left + size + 4, top + size + 4, label, marks)


def sensitivity_chart(found: Sensitivity) -> Markup:
    """Plot the mean of a metric over its first setting, one line for each value of the second.

    Bands are one standard deviation over the seeds, as in [Kim2018] figs. 16 and 17. The values of
    a setting are evenly spaced on the axis.
    """
    if len(found.settings) > 2:
        raise ValueError(
            f"expected one or two settings to draw, got {', '.join(found.settings)}: fix the "
            "others with functools.partial"
        )
    (along, values), *rest = found.settings.items()
    lines = rest[0][1] if rest else ("",)
    shape = len(values), len(lines)
    mean, stddev = found.mean.reshape(shape), found.stddev.reshape(shape)
    span = padded_range([*(mean - stddev).ravel().tolist(), *(mean + stddev).ravel().tolist()])
    plot = Plot(padded(0, len(values) - 1, 0.05), span, width=320, height=180)
    xs = [float(x) for x in range(len(values))]
    styles = [series_style(n, len(lines)) for n in range(len(lines))]
    marks = []
    for style, m, s in zip(styles, mean.T, stddev.T, strict=True):
        marks.append(plot.area(xs, (m - s).tolist(), (m + s).tolist(), f"{style} band"))
        marks += [plot.line(xs, m.tolist(), style), plot.dots(xs, m.tolist(), style)]
    label = f"{metric_title(found.name)} over {along}" + (f" and {rest[0][0]}" if rest else "")
    names = {float(x): _value(value) for x, value in enumerate(values)}
    chart = plot.draw(marks, label, names, ticks(span))
    width = plot.left + plot.width + plot.right
    height = plot.top + plot.height + plot.bottom
    legend = _legend(rest[0][0], lines, styles, plot.left, width) if rest else []
    top = _LINE * (1 + (legend[-1][0] + 1 if legend else 0)) + 4
    return _drawing(
        width,
        top + height + _LINE,
        label,
        [
            _text(plot.left, 11, f"{metric_title(found.name)}, {len(found.seeds)} seeds", "start"),
            *(mark for _, mark in legend),
            Markup('<svg x="0" y="{:g}" width="{:g}" height="{:g}">{}</svg>').format(
                top, width, height, chart
            ),
            _text(plot.left + plot.width / 2, top + height + 10, words(along), "middle"),
        ],
    )


def save(drawing: Markup, path: str | Path) -> Path:
    """Write a chart as a self-contained SVG file."""
    place = Path(path)
    if place.suffix.lower() != ".svg":
        raise ValueError(f"expected a path that ends in .svg, got {place}: charts are SVG")
    style = files("unweave.report").joinpath("page.css").read_text(encoding="utf-8")
    head = '<svg xmlns="http://www.w3.org/2000/svg"'
    alone = str(drawing).replace("<svg", head, 1)
    opening, rest = alone.split(">", 1)
    paper = '<rect width="100%" height="100%" class="paper"/>'
    make_folder(place.parent)
    write_atomically(place, f"{opening}><style><![CDATA[{style}]]></style>{paper}{rest}\n".encode())
    return place


def _drawing(width: float, height: float, label: str, marks: list[Markup]) -> Markup:
    return Markup(
        '<svg class="chart" viewBox="0 0 {:g} {:g}" role="img" aria-label="{}">{}</svg>'
    ).format(width, height, label, Markup("").join(marks))


def _cell(x: float, y: float, value: float) -> Markup:
    style = "a" if value >= 0 else "b"
    size = abs(value) if math.isfinite(value) else 0.0
    strong = " strong" if size > 0.45 else ""
    return Markup(
        '<rect class="cell {}" x="{:g}" y="{:g}" width="{:g}" height="{:g}" rx="4" '
        'fill-opacity="{:.2f}"/>'
        '<text class="tick{}" x="{:g}" y="{:g}" text-anchor="middle">{}</text>'
    ).format(
        style,
        *(x + 1, y + 1, _CELL - 2, _CELL - 2),
        0.05 + 0.95 * size,
        strong,
        *(x + _CELL / 2, y + _CELL / 2 + 3.6),
        number(value),
    )


def _text(x: float, y: float, text: str, anchor: str) -> Markup:
    return Markup('<text class="tick" x="{:.1f}" y="{:.1f}" text-anchor="{}">{}</text>').format(
        x, y, anchor, text
    )


def _legend(
    name: str, values: tuple[Any, ...], styles: list[str], left: float, width: float
) -> list[tuple[int, Markup]]:
    """Return a dot and a value for each line, each with its row; rows wrap at the width."""
    marks, row = [(0, _text(left, 11 + _LINE, f"{words(name)}:", "start"))], 0
    x = start = left + _LETTER * (len(words(name)) + 2)
    dot = Markup('<circle class="dot {}" cx="{:.1f}" cy="{:.1f}" r="3.5"/>')
    for value, style in zip(values, styles, strict=True):
        text = _value(value)
        room = 14 + _LETTER * (len(text) + 1)
        if x + room > width and x > start:
            x, row = start, row + 1
        y = 11 + _LINE * (row + 1)
        marks.append((row, dot.format(style, x + 4, y - 3.6) + _text(x + 11, y, text, "start")))
        x += room
    return marks


def series_style(line: int, count: int) -> str:
    """Return the style of a line: one of two colours, or a colour ramp for more than two lines."""
    return "ab"[line] if count <= 2 else f"ramp r{round(10 * line / (count - 1))}"


def _value(value: Any) -> str:
    return f"{value:,}" if isinstance(value, int) else str(value)
