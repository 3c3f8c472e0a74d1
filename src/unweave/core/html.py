"""Small pieces of HTML for notebooks; colours follow the notebook's, light or dark."""

import dataclasses
import math
from collections.abc import Iterable, Sequence
from typing import Any

from markupsafe import Markup

from unweave.core.text import visible

_TABLE = Markup(
    '<table style="border-collapse:collapse;font-variant-numeric:tabular-nums">'
    '<caption style="text-align:left;caption-side:top;padding:2px 0;color:inherit">{}</caption>'
    "{}<tbody>{}</tbody></table>"
)
_LONG = 200  # characters from which a value is shortened
_CELL = "padding:2px 12px 2px 0;text-align:left;background:none"


def html_table(columns: Sequence[str], rows: Iterable[Sequence[str]], caption: str = "") -> Markup:
    """Return a table; all texts are escaped, and control characters are visible.

    >>> "&lt;b&gt;" in html_table(["name"], [["<b>"]])
    True
    """
    head = Markup("<thead><tr>{}</tr></thead>").format(_cells("th", columns)) if columns else ""
    body = Markup("").join(Markup("<tr>{}</tr>").format(_cells("td", row)) for row in rows)
    return Markup(visible(_TABLE.format(caption, head, body)))


def _cells(tag: str, texts: Sequence[str]) -> Markup:
    cell = Markup(f'<{tag} style="{_CELL}">{{}}</{tag}>')
    return Markup("").join(cell.format(text) for text in texts)


def spec_html(value: Any, caption: str) -> Markup:
    """Return a table of the fields of a spec; those that are not the default are bold."""
    rows = []
    for field in dataclasses.fields(value):
        content = getattr(value, field.name)
        form = Markup("<b>{}</b>") if content != field.default else Markup("{}")
        text = repr(content)
        rows.append([field.name, form.format(text if len(text) < _LONG else f"{text[:_LONG]}...")])
    return html_table([], rows, caption)


def sparkline(
    values: Sequence[float],
    width: int = 150,
    height: int = 34,
    span: tuple[float, float] | None = None,
) -> Markup:
    """Draw a curve without axes, in the colour of the text, over its own or a given span.

    It has gaps where values are not finite.
    """
    known = [value for value in values if math.isfinite(value)] or [0.0]
    low, high = span or (min(known), max(known))
    extent = (high / 2 - low / 2) or 1.0  # half of it: all of it may be too large
    step = width / max(1, len(values) - 1)
    path, pen = "", "M"
    for number, value in enumerate(values):
        if math.isfinite(value):
            y = 2 + (high / 2 - value / 2) / extent * (height - 4)
            path += f"{pen}{number * step:.1f},{y:.1f}"
        pen = "L" if math.isfinite(value) else "M"
    return Markup(
        '<svg width="{0}" height="{1}" viewBox="0 0 {0} {1}" role="img"><path d="{2}" '
        'fill="none" stroke="currentColor" stroke-width="1.4"/></svg>'
    ).format(width, height, path or "M0,0")
