"""The page while a run is trained: it shows newer weights, and what the user looks at stays."""

import numpy as np
import pytest

import unweave as uw
from browser.chromium import explorer
from checkpoints import checkpoint, unfinish
from datasets import SMALL
from explorer_app import serving
from unweave.evaluation.loading import loader
from unweave.explorer.library import Library
from unweave.explorer.model_data import model_bundle
from unweave.explorer.sources import StoredRun
from unweave.training.store import RunFolder

LOOK = "() => document.dispatchEvent(new Event('visibilitychange'))"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The folder of a run at step 1 of 4."""
    fields = {"network": uw.MLP((4,)), "latent": uw.Gaussian(3), "batch_size": 8, "steps": 4}
    store = tmp_path_factory.mktemp("watched")
    model = uw.fit(SMALL, store=store, device="cpu", progress=False, **fields)
    found = RunFolder(model.folder)
    unfinish(found, 1)
    checkpoint(found, 1, 0.1)
    return found


@pytest.fixture(scope="module")
def watched(browser, folder):
    """The page of the run, which is watched."""
    source = StoredRun(folder, loader(device="cpu"))
    library = Library(lambda: [source], _build, "title", watch=True)
    with serving(library) as server, explorer(browser) as opened, folder.lock():
        opened.page.goto(server.url)
        opened.ready()
        yield opened


def _build(model, name):
    return model_bundle(model, rows=32, thumbnails=8, name=name)


def _decoded(folder, code):
    """The image of a code by the newest weights."""
    return loader(device="cpu")(folder.path).decode(code[None])[0]


def test_newer_weights_are_shown_and_what_the_user_looks_at_stays(watched, folder):
    page, ends = watched.page, watched.page.locator(".end figcaption > span:first-child")
    page.click("#tab-between")
    page.locator(".sliders input[type=range]").first.fill("1")
    chosen, code = ends.all_inner_texts(), watched.code
    watched.shows(_decoded(folder, code))
    checkpoint(folder, 3, 0.2)
    page.evaluate(LOOK)
    watched.shows(_decoded(folder, code))
    np.testing.assert_array_equal(watched.code, code)
    assert watched.view["tab"] == "between"
    assert (len(chosen), ends.all_inner_texts()) == (2, chosen)
    assert "step 3 of 4" in page.locator(".picker").inner_text()
    assert watched.errors == []
