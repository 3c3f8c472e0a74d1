"""Labels of points in a figure, placed where they cover little."""

import itertools
import math
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from unweave.studies.drawing import Axes, Values

_DISTANCES, _DIRECTIONS = (9.0, 16.0, 25.0, 36.0, 50.0), 16  # in points, from a marker
_NEAR = 12.0  # points; labels that are further away get a line to their marker
_STEP = 4.0  # pixels between two places on a line that labels avoid
_MARGIN = 1.5  # pixels around a label
_OVERLAP, _OUTSIDE = 200.0, 1_000.0  # what these cost, if covering a place costs 1


class PointLabel(NamedTuple):
    """A text beside a point, in data coordinates."""

    x: float
    y: float
    text: str
    colour: str


def place_labels(axis: Axes, labels: Iterable[PointLabel]) -> None:
    """Write labels near their points, so that they cover few points, lines and other labels.

    Call this when everything else is drawn. Labels are placed one after the other.
    """
    figure = axis.figure
    figure.draw_without_rendering()  # type: ignore[union-attr]  # puts the axis into its place
    pixels = figure.dpi / 72
    inside = axis.get_window_extent()
    covered = _drawn(axis)
    boxes = [text.get_window_extent() for text in axis.texts]
    if legend := axis.get_legend():
        boxes.append(legend.get_window_extent())
    for label in labels:
        text = axis.annotate(
            label.text, (label.x, label.y), (0, 0), textcoords="offset points", ha="center",
            va="center", fontsize=8, color=label.colour,
        )  # fmt: skip
        size = text.get_window_extent().padded(_MARGIN)
        best, cost, place = size, math.inf, (0.0, 0.0)
        for distance in _DISTANCES:
            for angle in np.linspace(0, 2 * math.pi, _DIRECTIONS, endpoint=False):
                # The label touches the ellipse around its point from outside.
                dx = math.cos(angle) * (distance + size.width / pixels / 2 - 3)
                dy = math.sin(angle) * (distance + size.height / pixels / 2 - 3)
                box = size.translated(dx * pixels, dy * pixels)
                found = distance / 10
                found += ((covered > box.min) & (covered < box.max)).all(1).sum()
                found += _OVERLAP * sum(box.overlaps(other) for other in boxes)
                found += _OUTSIDE * (not (inside.contains(*box.min) and inside.contains(*box.max)))
                if found < cost:
                    best, cost, place = box, found, (dx, dy)
        text.set_position(place)
        boxes.append(best)
        edge = np.clip((0.0, 0.0), *_around(place, size.width / pixels, size.height / pixels))
        if math.hypot(*edge) > _NEAR:
            axis.annotate(
                "", (label.x, label.y), tuple(edge), textcoords="offset points",
                arrowprops={"arrowstyle": "-", "color": label.colour, "linewidth": 0.6},
            )  # fmt: skip


def _around(centre: tuple[float, float], width: float, height: float) -> tuple[Values, Values]:
    """Return two corners of a box."""
    half = np.array([width, height]) / 2
    return centre - half, centre + half


def _drawn(axis: Axes) -> Values:
    """Return places on all markers and lines of an axis, in pixels, (N, 2)."""
    from matplotlib.collections import LineCollection

    paths: list[Values] = [
        np.asarray(segment)
        for collection in axis.collections
        if isinstance(collection, LineCollection)
        for segment in collection.get_segments()
    ]
    markers: list[Values] = []
    for line in axis.lines:
        (markers if line.get_linestyle() == "None" else paths).append(np.array(line.get_xydata()))
    places = [axis.transData.transform(path) for path in (*markers, *paths)]
    for corners in places[len(markers) :]:
        for first, second in itertools.pairwise(corners):
            count = int(np.hypot(*(second - first)) // _STEP)
            places.append(np.linspace(first, second, count + 2)[1:-1])
    return np.concatenate([np.empty((0, 2)), *places])
