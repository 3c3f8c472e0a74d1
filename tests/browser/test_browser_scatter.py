"""The scatter without a graphics card: where points are while it moves, and when it rests."""

import numpy as np
import pytest

from browser.chromium import eventually

WIDTH, HEIGHT = 200, 150
WHOLE = {"x": [0, 10], "y": [0, 10]}
MOVES = {
    "panned": {"x": [1, 11], "y": [-0.5, 9.5]},
    "enlarged": {"x": [1, 9], "y": [1.5, 9.5]},
    "reduced": {"x": [-1, 11], "y": [-1, 11]},
    "elsewhere": {"x": [5.5, 6], "y": [5.5, 6]},
}
# Points in one place, too many to be drawn in every frame. The page keeps the canvas.
DRAW = """([boxes, size, whole]) => {
    const canvas = document.createElement("canvas");
    const renderer = window.unweave.createRenderer(canvas, false);
    renderer.place({ x: Float32Array.of(5.75), y: Float32Array.of(5.8), whole });
    const rgba = Uint8Array.of(0, 0, 0, 255);
    renderer.style({ rgba, sizes: Uint8Array.of(96), order: new Uint32Array(10001) });
    for (const box of boxes) renderer.draw(box, size, 1);
    window.drawn = canvas;
}"""
PIXELS = """() => {
    const { width, height } = window.drawn;
    return [...window.drawn.getContext("2d").getImageData(0, 0, width, height).data];
}"""


@pytest.fixture
def drawn(shown):
    def draw(*boxes):
        size = {"width": WIDTH, "height": HEIGHT}
        shown.page.evaluate(DRAW, [list(boxes), size, WHOLE])

    return draw


def _opacity(shown):
    return np.reshape(shown.page.evaluate(PIXELS), (HEIGHT, WIDTH, 4))[..., 3]


def _centre(opacity):
    rows, columns = np.indices(opacity.shape) + 0.5
    return np.array([(columns * opacity).sum(), (rows * opacity).sum()]) / opacity.sum()


@pytest.mark.parametrize("name", MOVES)
def test_points_are_in_place_while_the_plot_moves_and_exact_when_it_rests(shown, drawn, name):
    box = MOVES[name]
    across, up = ((at - box[axis][0]) / np.ptp(box[axis]) for axis, at in (("x", 5.75), ("y", 5.8)))
    drawn(box)
    exact = _opacity(shown)
    drawn(WHOLE, box)
    assert np.abs(_centre(_opacity(shown)) - [across * WIDTH, (1 - up) * HEIGHT]).max() < 0.7
    eventually(lambda: np.testing.assert_array_equal(_opacity(shown), exact))
