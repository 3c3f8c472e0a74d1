"""Labels of points in figures cover nothing, where that is possible."""

import itertools

import numpy as np
import pytest

from unweave.studies.drawing import BLUE, figure_style, panels
from unweave.studies.labels import PointLabel, place_labels


def labelled(points, obstacles):
    """Return the axis of a figure with labelled markers, other points and error bars."""
    with figure_style():
        _, (axis,) = panels(1, 1, width=5, height=3.5)
        axis.plot(*obstacles.T, "o", markersize=3)
        axis.errorbar(*points.T, fmt="s", xerr=0.02, yerr=0.15)
        axis.plot([], [], label="an entry of the legend")
        axis.legend(loc="lower left")
        place_labels(axis, [PointLabel(*point, f"γ = {n}", BLUE) for n, point in enumerate(points)])
        axis.figure.draw_without_rendering()
    return axis


@pytest.mark.parametrize("seed", range(3))
def test_labels_overlap_neither_each_other_nor_the_legend_nor_leave_the_axis(seed):
    rng = np.random.default_rng(seed)
    points = rng.normal((0.5, 0.6), 0.08, (6, 2))  # close to each other
    axis = labelled(points, rng.uniform(0, 1, (40, 2)))
    texts = [text for text in axis.texts if text.get_text()]
    boxes = [*(text.get_window_extent() for text in texts), axis.get_legend().get_window_extent()]
    assert len(texts) == len(points)
    for one, two in itertools.combinations(boxes, 2):
        assert not one.overlaps(two)
    for box in boxes:
        assert axis.get_window_extent().contains(*box.min)
        assert axis.get_window_extent().contains(*box.max)


def test_a_label_is_next_to_its_point_and_off_the_bars():
    point = np.array([[0.5, 0.5]])
    axis = labelled(point, np.array([[0.0, 0.0], [1.0, 1.0]]))
    (text,) = axis.texts
    box, pixels = text.get_window_extent(), axis.figure.dpi / 72
    at = axis.transData.transform(point[0])
    gap = np.maximum(box.min - at, at - box.max).clip(0)
    assert np.hypot(*gap) < 15 * pixels
    assert not box.contains(*at)
    up, down = (axis.transData.transform((0.5, 0.5 + step)) for step in (0.15, -0.15))
    for share in np.linspace(0, 1, 20):
        assert not box.contains(*(up + share * (down - up)))


def test_a_wide_label_far_above_its_point_is_joined_to_it():
    """The distance to its edge counts, not that to its middle less half of its width."""
    with figure_style():
        _, (axis,) = panels(1, 1, width=5, height=3.5)
        axis.plot([0, 1], [0, 1], "None")
        for height in (0.5, 0.52, 0.54, 0.56, 0.44, 0.46, 0.48):
            axis.plot([0, 1], [height] * 2)
        place_labels(axis, [PointLabel(0.5, 0.5, "a long name of a point", BLUE)])
    assert axis.texts[-1].arrow_patch is not None


def test_a_label_far_from_its_point_is_joined_to_it_by_a_line():
    """Where everything near is covered."""
    around = np.stack(np.meshgrid(*[np.linspace(0.42, 0.58, 33)] * 2), -1).reshape(-1, 2)
    axis = labelled(np.array([[0.5, 0.5]]), np.vstack([around, [[0.0, 0.0], [1.0, 1.0]]]))
    assert [text.get_text() for text in axis.texts] == ["γ = 0", ""]
    assert axis.texts[1].arrow_patch is not None
