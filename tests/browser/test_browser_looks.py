"""Accessibility by axe-core; screens to look at go to the folder $UNWEAVE_SCREENS."""

import os
from pathlib import Path

import pytest

from browser.chromium import eventually, explorer

AXE = Path(__file__).parents[2] / "web/node_modules/axe-core/axe.min.js"
RUN_AXE = """async () => {
    const { violations } = await axe.run(document, { resultTypes: ["violations"] });
    return violations
        .filter(each => ["serious", "critical"].includes(each.impact))
        .map(each => `${each.id}: ${each.nodes.map(node => node.html.slice(0, 120)).join(" | ")}`);
}"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1400, 390])
def test_every_tab_is_accessible_and_fits(browser, page_path, width, scheme):
    size = {"width": width, "height": 900}
    with explorer(browser, viewport=size, color_scheme=scheme, bypass_csp=True) as shown:
        shown.open(page_path)
        shown.page.evaluate(AXE.read_text())
        for tab in shown.each_tab():
            save_screen(shown.page, f"{tab}-{width}-{scheme}")
            assert shown.page.evaluate("() => document.documentElement.scrollWidth") <= width
            assert shown.page.get_by_role("tabpanel").bounding_box()["y"] < 700  # without scrolling
            assert shown.page.evaluate(RUN_AXE) == []


def test_a_small_screen_has_the_first_sliders_and_all_tabs(browser, page_path):
    """The sliders were folded away and the last tabs cut off."""
    with explorer(browser, viewport={"width": 390, "height": 844}) as shown:
        page = shown.open(page_path).page
        sliders = page.get_by_role("slider")
        eventually(lambda: check_at_least(sliders.count(), 1))
        few = sliders.count()
        for tab in page.get_by_role("tab").all():
            box = tab.bounding_box()
            assert box["x"] >= 0
            assert box["x"] + box["width"] <= 390
        if (more := page.locator(".sliders > .fold summary", has_text="more")).count():
            more.click()
            eventually(lambda: check_at_least(sliders.count(), few + 1))


def check_at_least(number, least):
    assert number >= least


def test_a_factor_that_is_not_above_chance_is_grey_in_every_place(browser, page_path):
    """Traversals showed it in bold blue."""
    with explorer(browser) as shown:
        page = shown.open(page_path).page
        for place in (".control", ".traversal"):
            looks = page.locator(f"{place} .factor").first.evaluate(
                """element => {
                    element.className = "factor weak";
                    const muted = getComputedStyle(document.querySelector(".panel .help")).color;
                    const { color, fontWeight } = getComputedStyle(element);
                    return [color === muted, fontWeight];
                }"""
            )
            assert looks == [True, "400"]


def test_dialogs_are_accessible(browser, page_path):
    with explorer(browser, bypass_csp=True) as shown:
        shown.open(page_path)
        shown.page.evaluate(AXE.read_text())
        for name in ("Tour", "Keyboard"):
            shown.page.get_by_role("button", name=name, exact=True).click()
            save_screen(shown.page, name)
            assert shown.page.evaluate(RUN_AXE) == []
            shown.page.keyboard.press("Escape")


def check_free(page, height):
    target, card = (page.locator(f".tour{kind}").bounding_box() for kind in ("-target", ""))
    top = max(target["y"], 0)
    bottom = min(target["y"] + target["height"], height)
    hidden = min(bottom, card["y"] + card["height"]) - max(top, card["y"])
    # What fills the screen can only be seen in part.
    assert hidden <= (0 if target["height"] < height / 2 else (bottom - top) / 2)


def test_the_tour_leaves_free_what_it_points_at_on_a_small_screen(browser, page_path):
    height = 844
    with explorer(browser, viewport={"width": 390, "height": height}) as shown:
        page = shown.open(page_path).page
        page.get_by_role("button", name="Tour", exact=True).click()
        for _ in range(6):
            eventually(lambda: check_free(page, height))  # the card follows what it points at
            page.keyboard.press("Enter")


def save_screen(page, name):
    if folder := os.environ.get("UNWEAVE_SCREENS"):
        page.screenshot(path=Path(folder) / f"{name}.png", full_page=True)
