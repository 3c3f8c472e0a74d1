"""What is chosen in one panel shows in the others; runs side by side are matched and linked."""

import io
import re

import numpy as np
import pytest
from PIL import Image
from scipy.optimize import linear_sum_assignment
from scipy.stats import spearmanr

from chromium import eventually

pytestmark = pytest.mark.xdist_group("browser")


def means(shown, run):
    """Return the codes of the rows of an open model."""
    script = "run => Array.from(window.unweave.models.value.get(run).means)"
    return np.array(shown.page.evaluate(script, run)).reshape(-1, 3)


def table_rows(shown, run):
    """Return which rows of the data the rows of an open model are."""
    script = "run => window.unweave.models.value.get(run).data.rows.index"
    return np.array(shown.page.evaluate(script, run))


def test_a_cell_of_the_matrix_sets_the_axes_and_the_colour(shown):
    page = shown.page
    page.get_by_role("tab", name="Factors").click()
    cell = page.locator("button.cell").nth(2)  # the first variable and the third factor
    variable = re.match(r"(.+) explains", cell.get_attribute("aria-label"))[1]
    cell.click()
    view = shown.view
    assert f"z:{variable}" in (view["x"], view["y"])  # the names of its variables are their numbers
    assert view["x"] != view["y"]
    assert view["colour"] == "factor:2"
    page.get_by_role("tab", name="Data").click()
    assert variable in page.get_by_test_id("scatter").get_attribute("aria-label")


def is_inside(points, polygon):
    """Return which points lie in a polygon: a ray crosses its sides an odd number of times."""
    inside = np.zeros(len(points), bool)
    x, y = points.T
    for (ax, ay), (bx, by) in zip(polygon, np.roll(polygon, 1, 0), strict=True):
        crosses = (ay > y) != (by > y)
        with np.errstate(divide="ignore", invalid="ignore"):
            inside ^= crosses & (x < ax + (y - ay) * (bx - ax) / (by - ay))
    return inside


def test_a_lasso_selects_the_points_in_it(shown, models):
    shown.change(tab="data", x="z:0", y="z:1", lasso=None)
    box = shown.page.get_by_test_id("scatter").bounding_box()
    corners = [(0.2, 0.2), (0.8, 0.3), (0.7, 0.8), (0.3, 0.7), (0.2, 0.2)]
    places = [(box["x"] + u * box["width"], box["y"] + v * box["height"]) for u, v in corners]
    shown.page.keyboard.down("Shift")
    shown.page.mouse.move(*places[0])
    shown.page.mouse.down()
    for place in places[1:]:
        shown.page.mouse.move(*place, steps=4)
    shown.page.mouse.up()
    shown.page.keyboard.up("Shift")
    polygon = np.array(shown.view["lasso"])
    codes = means(shown, models[0].run.digest)[:, :2]
    expected = np.flatnonzero(is_inside(codes, polygon))
    assert 0 < len(expected) < len(codes)
    selected = shown.page.evaluate("() => window.unweave.selection.value")
    assert selected == expected.tolist()
    assert str(len(expected)) in shown.page.get_by_test_id("selected-count").inner_text()


def test_an_upload_moves_the_sliders_to_its_code(shown, models):
    x = models[0].observations([5])
    file = io.BytesIO()
    Image.fromarray(np.uint8(np.round(255 * np.asarray(x)[0, 0]))).save(file, "PNG")
    upload = {"name": "mine.png", "mimeType": "image/png", "buffer": file.getvalue()}
    shown.page.set_input_files("input[type=file]", upload)

    def check():
        assert np.abs(shown.code - models[0].encode(x)[0]).max() <= 1e-4

    eventually(check)
    shown.shows(models[0].reconstruct(x)[0])
    shown.page.get_by_role("button", name="Remove mine.png").click()


def test_runs_side_by_side_are_matched_and_linked(shown, models):
    first, other = (model.run.digest for model in models)
    shown.change(z=None, row=0, tab="traversals", unlinked=[])
    card = shown.page.locator(f'.other[data-run="{other}"]')
    card.locator("summary").click()
    matches = [
        re.match(r"(\d) ↔ (\d)\s+(\S+)", text) for text in card.locator("li").all_inner_texts()
    ]
    order = [table_rows(shown, run).tolist() for run in (first, other)]
    same = [order[1].index(row) for row in order[0]]
    codes = [means(shown, first), means(shown, other)[same]]
    rho = np.array([[spearmanr(a, b).statistic for b in codes[1].T] for a in codes[0].T])
    pairs = dict(zip(*linear_sum_assignment(-np.abs(rho)), strict=True))
    assert matches
    for match in matches:
        a, b = int(match[1]), int(match[2])
        assert pairs[a] == b
        assert np.isclose(float(match[3].replace("−", "-")), rho[a, b], atol=0.006)

    column = int(matches[0][1])
    moved = codes[0][0].copy()
    moved[column] += 0.5  # scores of a standard normal prior are its values
    shown.change(z=moved.tolist())
    followed = codes[1][0].copy()
    followed[pairs[column]] += 0.5 * np.sign(rho[column, pairs[column]])
    expected = models[1].decode(followed[None])[0]

    def check():
        pixels = shown.pixels(f'.other[data-run="{other}"] canvas')
        assert np.abs(pixels[..., 0] - 255 * expected[0]).max() <= 1

    eventually(check)
