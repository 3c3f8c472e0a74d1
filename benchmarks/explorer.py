"""The explorer in Chromium on this machine, with Kim & Mnih's 64x64 network.

    python benchmarks/explorer.py

Prints, beside its target: the time from a slider's move to the image on the screen (median of 50),
the time from opening the page to its first image, how often 100,000 points are drawn in a second
while they are panned and zoomed, and the size of the page with 2,000 thumbnails.
"""

from __future__ import annotations

import math
import os
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from playwright.sync_api import Page, sync_playwright

import unweave as uw

ROWS = 100_000
THUMBNAILS = 2_000
MOVES = 50
SECONDS = 3.0

# The input event of a slider, then frames until the canvas has other pixels.
SLIDER_TO_IMAGE = """async moves => {
    const slider = document.querySelector(".sliders input[type=range]");
    const canvas = document.querySelector(".decoded canvas");
    const context = canvas.getContext("2d");
    const seen = () => context.getImageData(0, 0, canvas.width, canvas.height).data.join();
    const frame = () => new Promise(requestAnimationFrame);
    const times = [];
    for (let n = 0; n < moves; n++) {
        const before = seen();
        slider.value = String(n % 2 ? -2 + n / moves : 2 - n / moves);
        const start = performance.now();
        slider.dispatchEvent(new Event("input", { bubbles: true }));
        do await frame(); while (seen() === before && performance.now() - start < 5000);
        times.push(performance.now() - start);
        await new Promise(resolve => setTimeout(resolve, 30));
    }
    return times;
}"""
DRAWS = "() => window.unweave.draws.value"  # how often the points were drawn


def main() -> None:
    """Make the page, open it and print the measurements."""
    data = uw.Shapes2D()
    kim = uw.fit(data, steps=200, network=uw.Kim2018(), latent=uw.Gaussian(10))
    plain = uw.fit(data, steps=20, network=uw.MLP((32,)), latent=uw.Gaussian(4))  # encodes faster
    with tempfile.TemporaryDirectory() as folder:
        small = uw.share(kim, Path(folder) / "page.html", thumbnails=THUMBNAILS)
        large = uw.share(plain, Path(folder) / "points.html", rows=ROWS, thumbnails=1)
        measured = [
            ("slider to image", _in_page(small, _slider), "ms", 50),
            ("first image", _in_page(small, _first_image), "ms", 2000),
            ("100,000 points", _in_page(large, _frames), "frames/s", 30),
            (f"page with {THUMBNAILS:,} thumbnails", small.stat().st_size / 1e6, "MB", 8),
        ]
    for name, value, unit, target in measured:
        bound = "at least" if unit == "frames/s" else "at most"
        print(f"{name:<30} {value:8.1f} {unit:<9} target: {bound} {target}")


def _in_page(path: Path, measure: Callable[[Page, Path], float]) -> float:
    executable = os.environ.get("CHROMIUM") or shutil.which("chromium")
    if executable is None:
        raise SystemExit("the benchmark needs Chromium: apt-get install chromium")
    arguments = ["--no-sandbox", "--use-angle=swiftshader", "--enable-unsafe-swiftshader"]
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=executable, args=arguments)
        page = browser.new_page(viewport={"width": 1400, "height": 900})
        value = measure(page, path)
        browser.close()
    return value


def _open(page: Page, path: Path, fragment: str = "") -> None:
    page.goto(path.as_uri() + fragment)
    page.wait_for_selector(".decoded canvas", timeout=60_000)


def _slider(page: Page, path: Path) -> float:
    _open(page, path, "#unused=true")
    return statistics.median(page.evaluate(SLIDER_TO_IMAGE, MOVES))


def _first_image(page: Page, path: Path) -> float:
    """Return milliseconds from the start of the navigation, the median of three visits."""
    times = []
    for _ in range(3):
        _open(page, path)
        times.append(page.evaluate("() => performance.now()"))
        page.goto("about:blank")
    return float(np.median(times))


def _frames(page: Page, path: Path) -> float:
    """Return how often points are drawn in a second while a mouse drags and zooms the scatter."""
    _open(page, path, '#tab="data"')
    page.wait_for_selector("[data-testid=scatter]")
    page.wait_for_timeout(1000)
    box = page.locator("[data-testid=scatter]").bounding_box()
    assert box is not None
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    page.mouse.move(x, y)
    page.mouse.down()
    before = page.evaluate(DRAWS)
    start = time.perf_counter()
    while (passed := time.perf_counter() - start) < SECONDS:
        page.mouse.move(x + 80 * math.sin(9 * passed), y + 50 * math.cos(7 * passed))
        page.mouse.wheel(0, 20 if passed % 1 < 0.5 else -20)
    page.mouse.up()
    return float(page.evaluate(DRAWS) - before) / passed


if __name__ == "__main__":
    main()
