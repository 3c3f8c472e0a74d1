"""The page as a whole: it makes no request, shows names as text, and saves what it shows."""

import csv
import xml.etree.ElementTree as ET

import numpy as np

import unweave as uw
from browser.chromium import explorer

HOSTILE = '<img src=x onerror="alert(1)">\'"&</script><script>alert(2)</script>\u202e\u2066\x01'


def visit_everything(shown):
    """Open every tab, the tour and the list of keys."""
    page = shown.page
    for _ in shown.each_tab():
        page.wait_for_timeout(150)
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


def test_every_panel_saves_a_valid_svg_and_a_png(shown):
    page = shown.page
    for _ in shown.each_tab():
        for panel in page.locator(".panel").all():
            with page.expect_download() as saved:
                panel.get_by_role("button", name="SVG").click()
            root = ET.parse(saved.value.path()).getroot()
            assert root.tag == "{http://www.w3.org/2000/svg}svg"
            with page.expect_download() as saved:
                panel.get_by_role("button", name="PNG").click()
            content = saved.value.path().read_bytes()
            assert content.startswith(b"\x89PNG")
            assert len(content) > 500


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


def test_the_tour_goes_through_the_page_and_comes_back(shown):
    page = shown.page
    before = shown.view["tab"]
    page.get_by_role("button", name="Tour", exact=True).click()
    for step in range(6):
        card = page.locator(".tour")
        assert f"{step + 1} of 6" in card.inner_text()
        page.locator(".tour-target").wait_for()
        page.wait_for_timeout(100)  # the card follows what it points at
        box = card.bounding_box()
        assert box["x"] >= 0
        assert box["y"] >= 0
        assert box["x"] + box["width"] <= 1400
        assert box["y"] + box["height"] <= 900
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
