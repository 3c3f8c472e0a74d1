"""One Chromium for all tests of the explorer, and the pages that they open."""

import pytest
import torch
from playwright.sync_api import sync_playwright

import unweave as uw
from browser.chromium import ARGUMENTS, executable, explorer
from browser.networks_of_papers import NETWORKS, random_model
from datasets import SMALL
from unweave.explorer import contents


@pytest.fixture(scope="session")
def browser():
    path = executable()
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=ARGUMENTS)
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def models():
    """Two trained models of one dataset."""
    torch.set_num_threads(1)
    fields = {"network": uw.MLP((64,)), "latent": uw.Gaussian(3), "objective": uw.VAE()}
    fields |= {"batch_size": 32, "steps": 400, "optimiser": uw.Adam(lr=3e-3)}
    return uw.fit(SMALL, seed=[0, 1], progress=False, **fields)


@pytest.fixture(scope="session")
def page_path(models, tmp_path_factory):
    """The page of both models."""
    return uw.share(models, tmp_path_factory.mktemp("pages") / "two.html", rows=128, thumbnails=64)


@pytest.fixture(scope="module")
def shown(browser, page_path):
    """The page of both models, open in a tab that the tests of a module share."""
    with explorer(browser) as opened:
        yield opened.open(page_path)


@pytest.fixture(scope="session")
def network_models():
    torch.set_num_threads(1)
    return {name: random_model(*parts) for name, parts in NETWORKS.items()}


@pytest.fixture(scope="session")
def networks_page(network_models, tmp_path_factory):
    """A page of all networks."""
    path = tmp_path_factory.mktemp("pages") / "networks.html"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(contents, "_LEVEL", 1)
        return uw.share(list(network_models.values()), path, rows=2, thumbnails=1)


@pytest.fixture(scope="session")
def networks_shown(browser, networks_page):
    """The page of all networks, each of which can be opened."""
    with explorer(browser) as opened:
        yield opened.open(networks_page)
