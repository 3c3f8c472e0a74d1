"""Charts as inline SVG: axes with ticks, lines, areas, bars and dots.

Marks have class names instead of colours, so the style sheet of the page adapts charts to light,
dark and print. `Markup.format` escapes text.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from markupsafe import Markup

from unweave.report.text import short

Span = tuple[float, float]

_MOST = 1e307  # ends of a span: its width is still finite
_FAR = 1e5  # pixels beyond the plot area that are still drawn
_GAP = 6.0  # pixels between a tick's text and the plot area
_TICKS = 5  # of an axis, at most
_DIGIT = 6.6  # pixels of a character of a tick's text, at most


class Panel(NamedTuple):
    """A chart with its title and a remark, such as the last value."""

    title: Markup | str
    remark: Markup | str
    drawing: Markup


@dataclass(frozen=True)
class Plot:
    """A plot area with margins and linear axes; sizes are in pixels."""

    x: Span
    y: Span
    width: float = 240
    height: float = 110
    left: float = 38
    right: float = 10
    top: float = 6
    bottom: float = 20

    def x_pixel(self, value: float) -> float:
        """Return the distance from the left of the plot area."""
        return _near((value - self.x[0]) / (self.x[1] - self.x[0]) * self.width)

    def y_pixel(self, value: float) -> float:
        """Return the distance from the top of the plot area."""
        return _near((self.y[1] - value) / (self.y[1] - self.y[0]) * self.height)

    def line(self, xs: Iterable[float], ys: Iterable[float], style: str) -> Markup:
        """Draw a line through points, with a gap at values that are not finite."""
        return Markup('<path class="line {}" d="{}"/>').format(style, self._path(xs, ys))

    def area(
        self, xs: Sequence[float], low: Sequence[float], high: Sequence[float], style: str
    ) -> Markup:
        """Fill the area between two lines, as far as they are finite."""
        ends = [row for row in zip(xs, low, high, strict=True) if all(map(math.isfinite, row))]
        there = [(x, top) for x, _, top in ends] + [(x, bottom) for x, bottom, _ in ends[::-1]]
        return self._outline(there, style)

    def dots(
        self,
        xs: Sequence[float],
        ys: Sequence[float],
        style: str,
        radii: Sequence[float] | None = None,
    ) -> Markup:
        """Draw a dot at each finite point; without radii all are small."""
        dot = Markup('<circle class="dot {}" cx="{:.1f}" cy="{:.1f}" r="{:.1f}"/>')
        sizes = [2.6] * len(xs) if radii is None else radii
        marks = (
            dot.format(style, self.x_pixel(x), self.y_pixel(y), size)
            for x, y, size in zip(xs, ys, sizes, strict=True)
            if math.isfinite(y)
        )
        return Markup("").join(marks)

    def bars(self, edges: Sequence[float], heights: Sequence[float], style: str) -> Markup:
        """Draw a histogram as one outline."""
        xs = [edge for edge in edges for _ in range(2)]
        ys = [0.0, *(height for height in heights for _ in range(2)), 0.0]
        return self._outline(list(zip(xs, ys, strict=True)), style)

    def _outline(self, points: Sequence[tuple[float, float]], style: str) -> Markup:
        path = self._path(*zip(*points, strict=True)) if points else "M0 0"
        return Markup('<path class="area {}" d="{}Z"/>').format(style, path)

    def level(self, y: float) -> Markup:
        """Draw a faint horizontal line."""
        at = self.y_pixel(y)
        return Markup('<path class="grid" d="M0 {:.1f}H{:g}"/>').format(at, self.width)

    def _path(self, xs: Iterable[float], ys: Iterable[float]) -> str:
        parts, pen = [], "M"
        for x, y in zip(xs, ys, strict=True):
            if math.isfinite(y):
                parts.append(f"{pen}{self.x_pixel(x):.1f} {self.y_pixel(y):.1f}")
            pen = "L" if math.isfinite(y) else "M"
        return "".join(parts) or "M0 0"

    def draw(
        self,
        marks: Iterable[Markup],
        label: str,
        x_ticks: dict[float, str],
        y_ticks: dict[float, str],
    ) -> Markup:
        """Return the chart with grid lines, ticks and marks; `label` is for screen readers."""
        grid = Markup("").join(self.level(y) for y in y_ticks)
        longest = max(map(len, y_ticks.values()), default=0)
        frame = replace(self, left=max(self.left, _GAP + _DIGIT * longest))
        return Markup(
            '<svg class="chart" viewBox="0 0 {:g} {:g}" role="img" aria-label="{}">'
            '<svg x="{:g}" y="{:g}" width="{:g}" height="{:g}">{}{}</svg>{}{}</svg>'
        ).format(
            frame.left + self.width + self.right,
            self.top + self.height + self.bottom,
            label,
            *(frame.left, self.top, self.width, self.height),
            grid,
            Markup("").join(marks),
            frame._x_ticks(x_ticks),
            frame._y_ticks(y_ticks),
        )

    def _x_ticks(self, ticks: dict[float, str]) -> Markup:
        mark = Markup('<text class="tick" x="{:.1f}" y="{:.1f}" text-anchor="{}">{}</text>')
        marks = []
        for value, text in ticks.items():
            at = self.x_pixel(value)
            # Centred text at the right end would extend beyond the drawing.
            anchor = "end" if at > self.width - 12 and self.right < 12 else "middle"
            x = self.left + at + (self.right - 1 if anchor == "end" else 0)
            marks.append(mark.format(x, self.top + self.height + 15, anchor, text))
        return Markup("").join(marks)

    def _y_ticks(self, ticks: dict[float, str]) -> Markup:
        mark = Markup('<text class="tick" x="{:.1f}" y="{:.1f}" text-anchor="end">{}</text>')
        return Markup("").join(
            mark.format(self.left - _GAP, self.top + self.y_pixel(value) + 3.6, text)
            for value, text in ticks.items()
        )


def ticks(span: Span) -> dict[float, str]:
    """Return round values inside a span, as many as possible up to five, with their text.

    >>> ticks((0, 23_000))
    {0.0: '0', 5000.0: '5k', 10000.0: '10k', 15000.0: '15k', 20000.0: '20k'}
    """
    power = 10.0 ** math.floor(math.log10((span[1] - span[0]) / _TICKS))
    for step in (n * power for n in (1, 2, 5, 10, 20)):
        first, last = math.ceil(span[0] / step - 1e-9), math.floor(span[1] / step + 1e-9)
        if last - first < _TICKS:
            break
    values = [n * step for n in range(first, last + 1)]
    texts = ([short(value, digits) for value in values] for digits in range(4, 16))
    distinct = next((each for each in texts if len(set(each)) == len(each)), None)
    return dict(zip(values, distinct or map(repr, values), strict=True))


def padded(low: float, high: float, share: float = 0.08) -> Span:
    """Return a span with a margin on both sides, never an empty one."""
    room = (high - low) * share or max(abs(high), 1.0) * 0.5
    return low - room, high + room


def padded_range(values: Iterable[float], share: float = 0.08) -> Span:
    """Return a span that holds all finite values, with a margin.

    >>> padded_range([1.0, math.nan, 3.0], 0.5), padded_range([math.inf])
    ((0.0, 4.0), (-0.5, 0.5))
    """
    known = drawable(values)
    return padded(min(known, default=0.0), max(known, default=0.0), share)


def drawable(values: Iterable[float]) -> list[float]:
    """Return the finite values; huge ones are cut, so that the width of a span is finite too."""
    return [min(max(value, -_MOST), _MOST) for value in values if math.isfinite(value)]


def not_finite(values: Sequence[float]) -> str:
    """Say how many values are not finite; "" if all are.

    >>> not_finite([1.0, math.nan]), not_finite([math.inf, math.nan]), not_finite([1.0])
    ('1 value is not finite', '2 values are not finite', '')
    """
    count = len(values) - len(drawable(values))
    return f"{count:,} value{' is' if count == 1 else 's are'} not finite" if count else ""


def _near(pixel: float) -> float:
    """Return a place in or near the plot area."""
    return min(max(pixel, -_FAR), _FAR)
