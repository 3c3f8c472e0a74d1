"""Reports of small models that several test files read, each trained and analysed once."""

from functools import cache
from html.parser import HTMLParser

import numpy as np
import torch

import unweave as uw
from few_draws import few_draws
from unweave.report import analysis, render

VOID = {"meta", "link", "img", "br", "path", "circle"}


class Page(HTMLParser):
    """The elements of a page, and whether each is closed."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.source, self.elements, self.open, self.text = text, [], [], []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attributes):
        self.elements.append((tag, dict(attributes)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.elements.append((tag, dict(attributes)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open and self.open[-1] not in ("style", "script"):
            self.text.append(data)

    def attributes(self, name: str) -> list[str]:
        return [found[name] for _, found in self.elements if name in found]

    @property
    def words(self) -> str:
        return " ".join("".join(self.text).split())


def quick(data, **fields):
    """A model that has learned something in a second."""
    torch.manual_seed(0)
    usual = {
        "network": uw.MLP(hidden=(64,)),
        "objective": uw.BetaVAE(beta=1.0),
        "optimiser": uw.Adam(lr=5e-3),
        "steps": 100,
        "batch_size": 16,
        "latent": uw.Gaussian(3),
    }
    return uw.fit(data, device="cpu", progress=False, **(usual | fields))


@cache
def analysed(model):
    """The analysis of a model, computed once for all tests."""
    with few_draws():
        return analysis.analyse(model, 200)


def rendered(model):
    """The page about a model with the scores of `analysed`, which take longest to compute."""
    return Page(render(model, rows=200, scores=analysed(model).scores))


def discs(count: int, side: int = 12) -> np.ndarray:
    rng = np.random.default_rng(0)
    centre, colour = rng.uniform(3, side - 3, (count, 2, 1, 1)), rng.uniform(0.3, 1, (count, 3))
    rows, columns = np.mgrid[:side, :side]
    inside = (rows - centre[:, 0]) ** 2 + (columns - centre[:, 1]) ** 2 < 6
    return (inside[..., None] * colour[:, None, None] * 255).astype(np.uint8)


WAVES = np.sin(np.linspace(0, 6, 30) + np.random.default_rng(0).uniform(0, 6, (80, 1)))


@cache
def lattice_model():
    """Return a FactorVAE on a lattice of shapes."""
    data = uw.Shapes2D(side=16, shapes=("square", "heart"), scales=2, orientations=1, positions=6)
    return quick(
        data, objective=uw.FactorVAE(uw.Linear(0.0, 2.0, steps=50), critic=uw.Critic(16, 2))
    )


@cache
def tree_model():
    """Return a model with a tree of latents, on colour images without factors."""
    latent = uw.Product(style=uw.Gaussian(2), place=uw.Product(x=uw.Gaussian(1)))
    return quick(discs(60), latent=latent)


@cache
def vector_model():
    """Return a model of curves."""
    return quick(WAVES, likelihood=uw.likelihoods.Gaussian(0.2))


@cache
def mixed_model():
    """Return a model with discrete latents, where the shape is all there is to know but a size."""
    data = uw.Shapes2D(side=16, shapes=("square", "heart"), scales=2, orientations=1, positions=2)
    latent = uw.Product(
        style=uw.Gaussian(2), what=uw.Product(shape=uw.Categorical(3), flags=uw.Bernoulli(2))
    )
    return quick(data, latent=latent, objective=uw.BetaVAE(beta=0.2), batch_size=8)
