"""The explorer in Chromium on this machine, with Kim & Mnih's 64x64 network.

    python benchmarks/explorer.py

Prints, beside its target: the time from a slider's move to the image on the screen (median of 50),
the time from opening the page to its first image, how many frames a second show 100,000 points at
a new place while they are panned and zoomed, and the size of the page with 2,000 thumbnails.

Chromium uses no graphics card. A mouse sends 125 events a second, dragging and turning its wheel,
without waiting for the page. A frame counts if the pixels of the plot differ from those of the
frame before.
"""

from __future__ import annotations

import asyncio
import math
import os
import shutil
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import numpy as np
from playwright.async_api import CDPSession, FloatRect, Page, async_playwright

import unweave as uw

ROWS = 100_000
THUMBNAILS = 2_000
MOVES = 50
SECONDS = 3.0
EVENTS = 125  # of the mouse, a second

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
# Count frames in which the middle of the plot has other pixels than in the frame before.
COUNT_FRAMES = """() => {
    const canvas = document.querySelector("canvas.scatter-points");
    const context = canvas.getContext("2d");
    const [x, y] = [canvas.width / 2 - 32, canvas.height / 2 - 32];
    const seen = () => new Uint32Array(context.getImageData(x, y, 64, 64).data.buffer);
    let before = seen();
    window.newFrames = 0;
    const frame = () => {
        const now = seen();
        if (now.some((pixel, n) => pixel !== before[n])) window.newFrames++;
        before = now;
        requestAnimationFrame(frame);
    };
    requestAnimationFrame(frame);
}"""


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
            (f"{ROWS:,} points at a new place", _in_page(large, _frames), "frames/s", 30),
            (f"page with {THUMBNAILS:,} thumbnails", small.stat().st_size / 1e6, "MB", 8),
        ]
    for name, value, unit, target in measured:
        bound = "at least" if unit == "frames/s" else "at most"
        print(f"{name:<32} {value:8.1f} {unit:<9} target: {bound} {target}")


def _in_page(path: Path, measure: Callable[[Page, Path], Awaitable[float]]) -> float:
    return asyncio.run(_in_chromium(path, measure))


async def _in_chromium(path: Path, measure: Callable[[Page, Path], Awaitable[float]]) -> float:
    executable = os.environ.get("CHROMIUM") or shutil.which("chromium")
    if executable is None:
        raise SystemExit("the benchmark needs Chromium: apt-get install chromium")
    arguments = ["--no-sandbox", "--disable-gpu"]
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=executable, args=arguments)
        page = await browser.new_page(viewport={"width": 1400, "height": 900})
        value = await measure(page, path)
        await browser.close()
    return value


async def _open(page: Page, path: Path, fragment: str = "") -> None:
    await page.goto(path.as_uri() + fragment)
    await page.wait_for_selector(".decoded canvas", timeout=60_000)


async def _slider(page: Page, path: Path) -> float:
    await _open(page, path, "#unused=true")
    return float(np.median(await page.evaluate(SLIDER_TO_IMAGE, MOVES)))


async def _first_image(page: Page, path: Path) -> float:
    """Return milliseconds from the start of the navigation, the median of three visits."""
    times = []
    for _ in range(3):
        await _open(page, path)
        times.append(await page.evaluate("() => performance.now()"))
        await page.goto("about:blank")
    return float(np.median(times))


async def _frames(page: Page, path: Path) -> float:
    """Return how many frames a second show the points at a new place while the scatter moves."""
    await _open(page, path, '#tab="data"')
    scatter = page.locator("[data-testid=scatter]")
    await scatter.scroll_into_view_if_needed()
    await page.wait_for_timeout(1000)
    box = await scatter.bounding_box()
    assert box is not None
    mouse = _Mouse(await page.context.new_cdp_session(page), box)
    await mouse.send(0.0, type="mousePressed", clickCount=1)
    await page.evaluate(COUNT_FRAMES)
    passed = await mouse.move(SECONDS)
    return float(await page.evaluate("() => window.newFrames")) / passed


class _Mouse:
    """A mouse with its button held that drags in a figure and turns its wheel up and down."""

    def __init__(self, session: CDPSession, box: FloatRect) -> None:
        self.session = session
        self.middle = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2

    async def send(self, passed: float, **event: object) -> None:
        """Send an event from where the mouse is after some seconds."""
        place = {
            "x": self.middle[0] + 80 * math.sin(9 * passed),
            "y": self.middle[1] + 50 * (1 - math.cos(7 * passed)),
        }
        held = {"button": "left", "buttons": 1}
        await self.session.send("Input.dispatchMouseEvent", {**place, **held, **event})

    async def move(self, seconds: float) -> float:
        """Send events, and return how long it took until all of them were handled."""
        start = time.perf_counter()
        sent: list[asyncio.Task[None]] = []
        while (passed := time.perf_counter() - start) < seconds:
            turn = 10 if passed % 1 < 0.5 else -10
            wheel = {"type": "mouseWheel", "deltaX": 0, "deltaY": turn}
            event = wheel if len(sent) % 2 else {"type": "mouseMoved"}
            sent.append(asyncio.create_task(self.send(passed, **event)))
            await asyncio.sleep(max(0.0, start + len(sent) / EVENTS - time.perf_counter()))
        await asyncio.gather(*sent)
        return time.perf_counter() - start


if __name__ == "__main__":
    main()
