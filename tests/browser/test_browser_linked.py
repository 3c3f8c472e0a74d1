"""What is chosen in one panel shows in the others."""

import io
import re

import numpy as np
from PIL import Image

import unweave as uw
from browser.chromium import eventually, explorer


def means(shown, run):
    """Return the codes of the rows of an open model."""
    script = "run => Array.from(window.unweave.models.value.get(run).means)"
    return np.array(shown.page.evaluate(script, run)).reshape(-1, 3)


def test_a_cell_of_the_matrix_sets_the_axes_and_the_colour(shown):
    page = shown.page
    page.get_by_role("tab", name="Factors").click()
    cell = page.locator("button.cell").nth(2)  # the first variable and the third factor
    variable = re.match(r"z\d", cell.get_attribute("aria-label"))[0]
    cell.click()
    view = shown.view
    assert f"z:{variable[1]}" in (view["x"], view["y"])
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
    assert f"{len(expected):,}" in shown.page.get_by_test_id("selected-count").inner_text()


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


def test_an_upload_keeps_the_colours_of_transparent_pixels(browser, tmp_path):
    x = np.random.default_rng(0).integers(0, 256, (40, 4, 8, 8)).astype(np.uint8)
    x[:, 3, :4] = 0
    fields = {"latent": uw.Gaussian(2), "network": uw.MLP((8,)), "batch_size": 16}
    model = uw.fit(x, steps=2, progress=False, **fields)
    path = uw.share(model, tmp_path / "rgba.html", rows=20, thumbnails=5)
    file = io.BytesIO()
    Image.fromarray(x[5].transpose(1, 2, 0), "RGBA").save(file, "PNG")
    upload = {"name": "mine.png", "mimeType": "image/png", "buffer": file.getvalue()}
    with explorer(browser) as shown:
        shown.open(path).page.set_input_files("input[type=file]", upload)
        script = "() => Array.from(window.unweave.uploads.value[0]?.numbers ?? [])"

        def check():
            numbers = np.array(shown.page.evaluate(script))
            assert numbers.size == x[5].size
            assert np.abs(255 * numbers - x[5].ravel()).max() < 1e-9

        eventually(check)
