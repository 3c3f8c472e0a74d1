"""Accessibility by axe-core; screens to look at go to the folder $UNWEAVE_SCREENS."""

import os
from pathlib import Path

import pytest

from browser.chromium import explorer

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
            shown.page.wait_for_timeout(400)
            save_screen(shown.page, f"{tab}-{width}-{scheme}")
            assert shown.page.evaluate("() => document.documentElement.scrollWidth") <= width
            assert shown.page.evaluate(RUN_AXE) == []


def test_dialogs_are_accessible(browser, page_path):
    with explorer(browser, bypass_csp=True) as shown:
        shown.open(page_path)
        shown.page.evaluate(AXE.read_text())
        for name in ("Tour", "Keyboard"):
            shown.page.get_by_role("button", name=name, exact=True).click()
            save_screen(shown.page, name)
            assert shown.page.evaluate(RUN_AXE) == []
            shown.page.keyboard.press("Escape")


def save_screen(page, name):
    if folder := os.environ.get("UNWEAVE_SCREENS"):
        page.screenshot(path=Path(folder) / f"{name}.png", full_page=True)
