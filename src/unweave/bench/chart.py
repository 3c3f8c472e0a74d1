"""Draw the results of `unweave bench` as bars on a logarithmic axis."""

import math
from collections.abc import Sequence

from markupsafe import Markup

from unweave.bench.throughput import Figure

_LEFT, _WIDTH, _ROW, _TOP, _BOTTOM = 210, 430, 22, 34, 30
_STYLE = """
text { font: 12px system-ui, sans-serif; fill: #333; }
.title { font-weight: 600; }
.grid { stroke: #ddd; }
.plain { fill: #b9b4a8; }
.ours { fill: #2f6f8f; }
@media (prefers-color-scheme: dark) {
  text { fill: #ddd; } .grid { stroke: #444; } .plain { fill: #77736a; } .ours { fill: #6fb3d3; }
}
"""


def lanes_text(count: int) -> str:
    """Format a number of lanes.

    >>> lanes_text(1), lanes_text(64)
    ('1 lane', '64 lanes')
    """
    return f"{count} {'lane' if count == 1 else 'lanes'}"


def speed_chart(figures: Sequence[Figure], title: str) -> Markup:
    """Return an SVG of the time per step of one lane, for plain loops and ours."""
    low = math.floor(math.log10(min(figure.microseconds for figure in figures)))
    high = math.ceil(math.log10(max(figure.microseconds for figure in figures)))
    high = max(high, low + 1)
    height = _TOP + _ROW * len(figures) + _BOTTOM
    grid = Markup("").join(_tick(power, low, high, height) for power in range(low, high + 1))
    bars = Markup("").join(_bar(row, figure, low, high) for row, figure in enumerate(figures))
    return Markup(
        '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {} {}" role="img" aria-label="{}">'
        '<style>{}</style><text class="title" x="8" y="20">{}</text>{}{}</svg>\n'
    ).format(_LEFT + _WIDTH + 110, height, title, Markup(_STYLE), title, grid, bars)


def _across(microseconds: float, low: int, high: int) -> float:
    return _WIDTH * (math.log10(microseconds) - low) / (high - low)


def _tick(power: int, low: int, high: int, height: int) -> Markup:
    x = _LEFT + _across(10.0**power, low, high)
    text = f"{10**power:,} us" if power < 3 else f"{10 ** (power - 3):,} ms"
    return Markup(
        '<path class="grid" d="M{:.1f} {}V{}"/><text x="{:.1f}" y="{}" text-anchor="middle">{}'
        "</text>"
    ).format(x, _TOP - 4, height - _BOTTOM + 4, x, height - 10, text)


def _bar(row: int, figure: Figure, low: int, high: int) -> Markup:
    y, end = _TOP + _ROW * row, _across(figure.microseconds, low, high)
    plain = figure.name.startswith("plain")
    lanes = "" if plain else f", {lanes_text(figure.lanes)}"
    times = f"  ({figure.ratio:.1f} times)" if figure.ratio and not plain else ""
    return Markup(
        '<text x="{}" y="{}" text-anchor="end">{}</text><rect class="{}" x="{}" y="{}" '
        'width="{:.1f}" height="{}"/><text x="{:.1f}" y="{}">{}</text>'
    ).format(
        *(_LEFT - 8, y + 14, f"{figure.name}{lanes}"),
        *("plain" if plain else "ours", _LEFT, y + 2, max(end, 1.0), _ROW - 6),
        *(_LEFT + end + 6, y + 14, f"{figure.microseconds:,.0f} us{times}"),
    )
