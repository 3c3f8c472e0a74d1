"""Drive the explorer in Chromium, and read what it shows."""

import os
import shutil
import time
from contextlib import contextmanager

import numpy as np
import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome")
# Draws WebGL without a graphics card; a container may not allow Chromium's own sandbox.
ARGUMENTS = [
    "--no-sandbox",
    "--use-angle=swiftshader",
    "--enable-unsafe-swiftshader",
    "--ignore-gpu-blocklist",
]
_PATIENCE = 60.0  # seconds, for a busy machine
_REST = """() => new Promise(done => {
    let timer = setTimeout(done, 100);
    const changed = () => { clearTimeout(timer); timer = setTimeout(done, 100); };
    const everything = { subtree: true, childList: true, attributes: true, characterData: true };
    new MutationObserver(changed).observe(document.body, everything);
})"""


def executable():
    """Return the path of a Chromium, or fail with how to install it."""
    found = [os.environ.get("CHROMIUM"), *map(shutil.which, NAMES)]
    return next(filter(None, found), None) or pytest.fail(
        "the explorer's tests need Chromium: apt-get install chromium, or set $CHROMIUM",
        pytrace=False,
    )


def eventually(check, *, patience=_PATIENCE):
    """Call `check` until it no longer fails; the page works on its own time."""
    end = time.monotonic() + patience
    while True:
        try:
            return check()
        except AssertionError:
            if time.monotonic() > end:
                raise
            time.sleep(0.05)


class Explorer:
    """A page of the explorer that is open in a browser."""

    def __init__(self, page):
        self.page = page
        self.requests, self.errors, self.dialogs = [], [], []
        page.on("request", lambda request: self.requests.append(request.url))
        page.on("console", self._said)
        page.on("pageerror", lambda error: self.errors.append(str(error)))
        page.on("dialog", self._asked)

    def _said(self, message):
        read_by_tests = "willReadFrequently" in message.text  # pixels, more than once
        if message.type in ("error", "warning") and not read_by_tests:
            self.errors.append(message.text)

    def _asked(self, dialog):
        self.dialogs.append(dialog.message)
        dialog.dismiss()

    def open(self, path, fragment=""):
        """Open a page from its file, and wait for its first image."""
        self.page.goto(f"{path.as_uri()}{fragment}")
        self.ready()
        return self

    def ready(self):
        """Wait until the current code is decoded."""
        self.page.wait_for_selector(".decoded canvas, .decoded svg")

    def rest(self):
        """Wait until the page has not changed for a moment."""
        self.page.evaluate(_REST)

    def follow(self, fragment):
        """Put a link into the address bar."""
        self.page.evaluate("fragment => { location.hash = fragment }", fragment)

    def open_run(self, run):
        """Open one run alone."""
        self.follow(f'#open=["{run}"]')
        script = "run => window.unweave.model.value?.id === run"
        self.page.wait_for_function(script, arg=run)
        self.ready()

    @property
    def view(self):
        return self.page.evaluate("() => window.unweave.view.value")

    @property
    def code(self):
        return np.array(self.page.evaluate("() => window.unweave.code.value"), np.float32)

    def change(self, **part):
        self.page.evaluate("part => window.unweave.change(part)", part)

    def decode(self, codes):
        """Decode with the network in the page, (n, length)."""
        script = (
            "async codes => Array.from(await window.unweave.model.value.decode(codes),"
            " x => Math.fround(x))"
        )
        flat = np.array(self.page.evaluate(script, np.asarray(codes).tolist()), np.float32)
        return flat.reshape(len(codes), -1)

    def encode(self, x):
        """Encode with the network in the page; x as the network has values."""
        script = "x => window.unweave.model.value.encode(new Float32Array(x))"
        return np.array(self.page.evaluate(script, np.ravel(x).tolist()), np.float32)

    def pixels(self, selector=".decoded canvas"):
        """Return the pixels of a canvas, (height, width, 3), of 255."""
        script = """canvas => {
            const { width, height } = canvas;
            const { data } = canvas.getContext("2d").getImageData(0, 0, width, height);
            return [height, width, Array.from(data)];
        }"""
        height, width, data = self.page.locator(selector).first.evaluate(script)
        return np.array(data).reshape(height, width, 4)[..., :3]

    def shows(self, image):
        """Wait until the current image is (channels, height, width) in [0, 1], to 1/255."""
        rgb = np.broadcast_to(image, (3, *image.shape[1:])).transpose(1, 2, 0)
        expected = 255 * np.clip(rgb, 0, 1)

        def check():
            assert np.abs(self.pixels() - expected).max() <= 1

        eventually(check)

    def each_tab(self):
        """Open one tab after the other; yield their names when they are drawn."""
        tabs = self.page.get_by_role("tab").all()
        assert len(tabs) == 6
        for tab in tabs:
            tab.click()
            self.rest()
            yield tab.inner_text()


@contextmanager
def explorer(browser, **options):
    """Open a context with one page, and close it afterwards."""
    context = browser.new_context(**({"viewport": {"width": 1400, "height": 900}} | options))
    context.set_default_timeout(1000 * _PATIENCE)
    try:
        yield Explorer(context.new_page())
    finally:
        context.close()
