"""The image under a slider is what the model decodes; by mouse, by keyboard, and in a link."""

import numpy as np
import pytest

from browser.chromium import eventually, explorer


def sliders(shown):
    return shown.page.locator(".sliders input[type=range]")


def test_the_image_follows_every_slider(shown, models):
    shown.change(z=None, row=None)
    for place in range(3):
        before = shown.code
        sliders(shown).nth(place).fill("1.5")
        code = shown.code
        assert (code != before).sum() == 1
        assert np.isclose(code[code != before], 1.5, atol=0.02)  # a standard normal prior
        shown.shows(models[0].decode(code[None])[0])


def test_a_slider_that_is_dragged_is_undone_at_once(shown):
    shown.change(z=[0.0, 0.0, 0.0])
    box = sliders(shown).first.bounding_box()
    middle = box["y"] + box["height"] / 2
    shown.page.mouse.move(box["x"] + box["width"] / 2, middle)
    shown.page.mouse.down()
    for share in (0.6, 0.7, 0.8):
        shown.page.mouse.move(box["x"] + share * box["width"], middle)
    shown.page.mouse.up()
    assert np.abs(shown.code).max() > 0.5
    shown.page.keyboard.press("Control+z")
    assert not shown.code.any()
    shown.page.keyboard.press("Control+Shift+z")
    assert np.abs(shown.code).max() > 0.5


def test_the_keyboard_alone_moves_a_slider(browser, page_path, models):
    with explorer(browser) as fresh:
        fresh.open(page_path)
        script = "() => document.activeElement.matches('.sliders input[type=range]')"
        for _ in range(60):
            fresh.page.keyboard.press("Tab")
            if fresh.page.evaluate(script):
                break
        else:
            pytest.fail("the Tab key does not reach the sliders")
        before = fresh.pixels()
        for _ in range(30):
            fresh.page.keyboard.press("ArrowRight")
        fresh.shows(models[0].decode(fresh.code[None])[0])
        assert (fresh.pixels() != before).any()


def test_a_link_is_followed_although_an_earlier_change_is_still_to_be_written(shown):
    """The page is busy, so that it writes its address between a new link and the link's event."""
    script = """() => {
        window.unweave.change({ tab: "data" });
        setTimeout(() => { location.hash = "#tab=%22grid%22"; }, 100);
        const end = performance.now() + 300;
        while (performance.now() < end); // an address is written 150 ms after a change
    }"""
    shown.page.evaluate(script)
    shown.page.wait_for_function("() => window.unweave.view.value.tab === 'grid'", timeout=5000)
    shown.page.wait_for_function("() => location.hash.includes('grid')", timeout=5000)


def test_a_link_opens_the_same_view(browser, page_path, models):
    with explorer(browser, permissions=["clipboard-read", "clipboard-write"]) as first:
        first.open(page_path)
        first.change(z=[0.5, -1.25, 2.0], tab="factors")
        first.page.get_by_role("button", name="Copy link").click()
        first.page.get_by_text("Link copied").wait_for()
        link = first.page.evaluate("() => navigator.clipboard.readText()")
        view = first.view
    with explorer(browser) as second:
        second.page.goto(link)
        second.ready()
        assert second.view == view
        second.shows(models[0].decode(np.array([[0.5, -1.25, 2.0]]))[0])


def test_the_address_bar_follows_the_view(shown):
    shown.change(z=[0.25, 0.5, 1.0])

    def check():
        assert "0.25" in shown.page.evaluate("() => decodeURIComponent(location.hash)")

    eventually(check)
