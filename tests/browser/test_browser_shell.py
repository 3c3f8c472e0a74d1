"""The page as a whole: it makes no request, shows names as text, and saves what it shows."""

import csv
import xml.etree.ElementTree as ET
from functools import partial

import numpy as np
from PIL import Image

import unweave as uw
from browser.chromium import eventually, explorer
from unweave.explorer.explore import InlinePage

HOSTILE = '<img src=x onerror="alert(1)">\'"&</script><script>alert(2)</script>\u202e\u2066\x01'


def visit_everything(shown):
    """Open every tab, the tour and the list of keys."""
    page = shown.page
    assert len(list(shown.each_tab())) == 6
    page.get_by_role("button", name="Tour", exact=True).click()
    while page.get_by_role("button", name="Next", exact=True).count():
        page.get_by_role("button", name="Next", exact=True).click()
    page.keyboard.press("Escape")
    page.keyboard.press("?")
    page.get_by_role("dialog", name="Keyboard").wait_for()
    page.keyboard.press("Escape")


def test_a_file_makes_no_request_and_logs_nothing(browser, page_path):
    with explorer(browser, offline=True) as cut_off:
        cut_off.open(page_path)
        visit_everything(cut_off)
        sent = [url for url in cut_off.requests if not url.startswith(("data:", "blob:"))]
        assert sent == [page_path.as_uri()]
        assert cut_off.errors == []


def test_a_notebook_shows_the_page_and_has_no_link_to_it(browser, page_path):
    with explorer(browser) as notebook:
        notebook.page.set_content(InlinePage(page_path.read_bytes())._repr_html_())
        frame = notebook.page.frame_locator("iframe")
        frame.locator(".decoded canvas").wait_for()
        slider = frame.locator(".sliders input[type=range]").first
        slider.press("ArrowRight")
        frame.locator("button:enabled", has_text="Undo").wait_for()
        notebook.page.wait_for_timeout(500)  # the view is written to the address after a pause
        assert notebook.errors == []
        assert frame.get_by_role("button", name="Copy link").count() == 0


def test_hostile_names_are_text(browser, tmp_path):
    rng = np.random.default_rng(0)
    folder = tmp_path / "data"
    folder.mkdir()
    table = folder / "table.csv"
    columns = [HOSTILE.replace("\x01", "") + str(n) for n in range(3)] + ["label"]
    rows = [[*map(str, rng.normal(size=3)), HOSTILE] for _ in range(60)]
    with table.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([columns, *rows])
    model = uw.fit(table, steps=5, latent=uw.Gaussian(2), network=uw.MLP((8,)), progress=False)
    path = uw.share(model, tmp_path / "hostile.html", title=HOSTILE, rows=50, thumbnails=20)
    with explorer(browser) as shown:
        shown.open(path)
        visit_everything(shown)
        assert shown.dialogs == shown.errors == []
        assert shown.page.locator("img[src=x]").count() == 0
        assert shown.page.locator("#app script").count() == 0
        assert shown.page.get_by_role("heading", level=1).text_content().startswith("<img src=x")


def saved(page, panel, kind):
    """Save a panel, and return the path of the file."""
    with page.expect_download() as download:
        panel.get_by_role("button", name=kind, exact=True).click()
    return download.value.path()


def test_every_panel_saves_svg_csv_and_a_png_of_the_same_picture(shown):
    page = shown.page
    for _ in shown.each_tab():
        for number, panel in enumerate(page.locator(".panel").all()):
            root = ET.parse(saved(page, panel, "SVG")).getroot()
            assert root.tag == "{http://www.w3.org/2000/svg}svg"
            if panel.get_by_role("button", name="CSV", exact=True).count():
                table = list(csv.reader(saved(page, panel, "CSV").read_text().splitlines()))
                assert len(table) > 1
                assert {len(row) for row in table} == {len(table[0])}
            if number == 0:  # a picture takes Chromium a second
                with Image.open(saved(page, panel, "PNG")) as picture:
                    assert abs(picture.width - 2 * float(root.get("width"))) <= 2
                    assert len(picture.convert("L").getcolors()) > 10


def test_the_theme_follows_the_system_and_is_remembered(browser, page_path):
    with explorer(browser, color_scheme="dark") as shown:
        shown.open(page_path)
        theme = "() => document.documentElement.dataset.theme"
        is_light = "() => document.documentElement.dataset.theme === 'light'"
        assert shown.page.evaluate(theme) == "dark"
        shown.page.emulate_media(color_scheme="light")
        shown.page.wait_for_function(is_light)
        shown.page.get_by_label("Theme").select_option("dark")
        assert shown.page.evaluate(theme) == "dark"
        shown.page.reload()
        shown.ready()
        assert shown.page.evaluate(theme) == "dark"


def check_inside(card):
    box = card.bounding_box()
    assert box["x"] >= 0
    assert box["y"] >= 0
    assert box["x"] + box["width"] <= 1400
    assert box["y"] + box["height"] <= 900


def test_the_tour_goes_through_the_page_and_comes_back(shown):
    page = shown.page
    before = shown.view["tab"]
    page.get_by_role("button", name="Tour", exact=True).click()
    for step in range(6):
        card = page.locator(".tour")
        assert f"{step + 1} of 6" in card.inner_text()
        page.locator(".tour-target").wait_for()
        eventually(partial(check_inside, card))  # the card follows what it points at
        page.keyboard.press("Enter")
    assert page.locator(".tour").count() == 0
    assert shown.view["tab"] == before
    assert page.evaluate("() => document.activeElement.textContent") == "Tour"


def test_keys_open_tabs_and_arrows_go_on(shown):
    page = shown.page
    names = list(shown.each_tab())
    for n in range(len(names)):
        page.keyboard.press(str(n + 1))
        assert page.get_by_role("tab", selected=True).inner_text() == names[n]
    page.get_by_role("tab", selected=True).focus()
    page.keyboard.press("ArrowRight")
    assert page.get_by_role("tab", selected=True).inner_text() == names[0]
    assert page.evaluate("() => document.activeElement.textContent") == names[0]
