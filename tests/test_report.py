"""The report: one page that needs nothing else, for every kind of data and latent space."""

import base64
import dataclasses
import io
import os
import re
import shlex
from html.parser import HTMLParser

import numpy as np
import pytest
import torch
from PIL import Image

import unweave as uw
from datasets import LATENTS
from unweave.report import (
    charts,
    content,
    facts,
    figures,
    observed,
    pictures,
    render,
    write_report,
)
from unweave.report.text import number, typeset
from unweave.training import recipe
from unweave.training.overrides import runs_from

pytestmark = pytest.mark.filterwarnings(
    "ignore::unweave.metrics.FewRowsWarning"
)  # of small datasets
SECTIONS = [
    "top",
    "traversals",
    "reconstructions",
    "variables",
    "posterior",
    "factors",
    "scores",
    "samples",
    "curves",
    "configuration",
    "references",
]
VOID = {"meta", "link", "img", "br", "path", "circle"}
NASTY = '</pre></style><script>alert("x")</script><img src=x onerror=alert(1)>&'


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
        "steps": 150,
        "batch_size": 16,
        "latent": uw.Gaussian(3),
    }
    return uw.fit(data, device="cpu", progress=False, **(usual | fields))


def discs(count: int, side: int = 12) -> np.ndarray:
    rng = np.random.default_rng(0)
    centre, colour = rng.uniform(3, side - 3, (count, 2, 1, 1)), rng.uniform(0.3, 1, (count, 3))
    rows, columns = np.mgrid[:side, :side]
    inside = (rows - centre[:, 0]) ** 2 + (columns - centre[:, 1]) ** 2 < 6
    return (inside[..., None] * colour[:, None, None] * 255).astype(np.uint8)


WAVES = np.sin(np.linspace(0, 6, 30) + np.random.default_rng(0).uniform(0, 6, (80, 1)))


@pytest.fixture(scope="module")
def lattice():
    data = uw.Shapes2D(side=16, shapes=("square", "heart"), scales=2, orientations=1, positions=6)
    return quick(
        data, objective=uw.FactorVAE(uw.Linear(0.0, 2.0, steps=50), critic=uw.Critic(16, 2))
    )


@pytest.fixture(scope="module")
def tree():
    latent = uw.Product(style=uw.Gaussian(2), place=uw.Product(x=uw.Gaussian(1)))
    return quick(discs(60), latent=latent)


@pytest.fixture(scope="module")
def vectors():
    return quick(WAVES, likelihood=uw.likelihoods.Gaussian(0.2))


@pytest.fixture(scope="module")
def mixed():
    """Where the shape is all there is to know, beside a size."""
    data = uw.Shapes2D(side=16, shapes=("square", "heart"), scales=2, orientations=1, positions=2)
    latent = uw.Product(
        style=uw.Gaussian(2), what=uw.Product(shape=uw.Categorical(3), flags=uw.Bernoulli(2))
    )
    return quick(data, latent=latent, objective=uw.BetaVAE(beta=0.2), batch_size=8)


@pytest.fixture(scope="module", params=["lattice", "tree", "vectors", "mixed"])
def model(request):
    return request.getfixturevalue(request.param)


@pytest.fixture(scope="module")
def page(model):
    return Page(render(model))


def test_every_section_is_there(page):
    assert [name for name in page.attributes("id") if name in SECTIONS] == SECTIONS
    assert {f"#{name}" for name in SECTIONS} == set(page.attributes("href")) - {"data:,"}


def test_the_page_asks_for_nothing(page):
    assert all(link.startswith(("data:", "#")) for link in page.attributes("href"))
    assert all(source.startswith("data:image/png;base64,") for source in page.attributes("src"))
    text = re.sub(r'<pre id="bibtex">.*?</pre>', "", page.source, flags=re.DOTALL)
    assert not re.search(r"url\(|@import|https?://|fetch\(|XMLHttp", text)
    policy = (
        "default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src 'unsafe-inline'"
    )
    assert policy in page.attributes("content")


def test_a_stored_run_gives_the_same_page(tmp_path):
    data = uw.Shapes2D(side=16, shapes=("square",), scales=2, orientations=1, positions=5)
    fitted = quick(data, steps=20, store=tmp_path)
    assert render(uw.load(fitted.folder, device="cpu")) == render(fitted)


def test_identifiers_are_unique(page):
    names = page.attributes("id")
    assert len(set(names)) == len(names)


def test_the_same_model_gives_the_same_bytes(model, page, tmp_path):
    path = tmp_path / "report.html"
    assert write_report(model, path) == path
    assert path.read_bytes() == page.source.encode()
    assert path.stat().st_size < 3_000_000


def test_a_file_that_cannot_be_written_leaves_the_old_one(lattice, tmp_path, monkeypatch):
    path = tmp_path / "report.html"
    path.write_text("old")

    def fail(*_):
        raise OSError("no space")

    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(OSError, match="no space"):
        write_report(lattice, path)
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_traversals_are_sorted_by_kl(lattice):
    shown = [float(kl) for kl in Page(render(lattice)).attributes("data-kl")]
    expected = sorted((kl for kl in lattice.table().kl if kl >= content.DEAD), reverse=True)
    first = shown[: len(expected)]  # the second example repeats them
    assert first == pytest.approx(expected, abs=1e-5)
    assert shown == first * (len(shown) // len(first))


def test_names_of_a_tree(tree):
    text = render(tree)
    assert all(f"<sub>{name}</sub>" in text for name in ("style.0", "style.1", "place.x"))


def test_unused_variables_are_one_line(lattice, monkeypatch):
    monkeypatch.setattr(content, "DEAD", 1e9)
    page = Page(render(lattice))
    assert page.attributes("data-kl") == []
    assert "nothing to traverse" in page.words
    assert re.search(r"unused z\d, z\d, z\d: KL below", page.words)


def test_unused_variables_of_vectors(vectors, monkeypatch):
    monkeypatch.setattr(content, "DEAD", 1e9)
    assert "nothing to traverse" in Page(render(vectors)).words


def test_a_wide_latent_space_is_cut(lattice, monkeypatch):
    monkeypatch.setattr(content, "MOST", 1)
    page = Page(render(lattice))
    assert len(set(page.attributes("data-kl"))) == 1
    assert "more active variables" in page.words


def test_scores_and_what_was_left_out(lattice):
    words = Page(render(lattice)).words
    for key in content.gather(lattice, 200).scores:
        assert key.split("/")[1] in words
    assert "colour, orientation take a single value and are left out" in words


@pytest.mark.parametrize("name", ["tree", "vectors"])
def test_data_without_factors(name, request):
    words = Page(render(request.getfixturevalue(name))).words
    assert "The factors behind these data are not known" in words
    assert "Scores compare codes with true factors, which are not known" in words


def test_factors_that_do_not_vary(tmp_path):
    np.savez(tmp_path / "d.npz", images=discs(20), factors=np.zeros((20, 1), int))
    fitted = quick(uw.Arrays(str(tmp_path / "d.npz"), factors_key="factors"), steps=5)
    words = Page(render(fitted)).words
    assert "No factor takes two values" in words
    assert "left out mig/chen2018: no factor of the table takes two values" in words


def test_hostile_text_is_only_text(tmp_path):
    path = tmp_path / "<b>&data.npz"
    x, y = np.divmod(np.arange(64), 8)
    images = np.zeros((64, 8, 8), np.uint8)
    images[np.arange(64), x, y] = 255
    np.savez(path, images=images, factors=np.stack([x, y], 1), factor_names=[NASTY, "y"])
    data = uw.Arrays(str(path), factors_key="factors")
    latent = uw.Product(style=uw.Gaussian(2))
    text = render(quick(data, latent=latent, steps=30))
    page = Page(text)
    assert [tag for tag, _ in page.elements].count("script") == 1
    assert not page.attributes("onerror")
    assert not {"b>", "i>s"} & {tag for tag, _ in page.elements}
    assert NASTY in "".join(page.text)
    assert "<b>&data.npz" in "".join(page.text)


@pytest.mark.parametrize(
    "run",
    [
        uw.Run(),
        uw.Run(objective=uw.VAE(), seed=7, batch_size=1),
        uw.Run(objective=uw.FactorVAE(uw.Linear(0.0, 9.0, steps=5), critic=uw.Critic(width=64))),
        uw.Run(objective=uw.BetaVAE(uw.Cyclic(period=7)), optimiser=uw.Adam(betas=(0.5, 0.9))),
        uw.Run(data=uw.Shapes2D(side=32, shapes=("heart",)), network=uw.MLP((3, 4), "tanh")),
        uw.Run(latent=uw.Product(a=uw.Gaussian(3), b=uw.Product(c=uw.Gaussian(10)))),
        uw.Run(likelihood=uw.likelihoods.Gaussian(0.1), steps=12),
        *(uw.Run(latent=latent) for latent in LATENTS),
    ],
)
def test_the_command_makes_the_run_again(run):
    dataset = run.data.load(torch.device("cpu"))
    run = run.resolve(dataset)
    arguments = shlex.split(" ".join(recipe.command(run, dataset)))
    assert [again.resolve(dataset) for again in runs_from(arguments)] == [run]


def test_the_command_for_a_file_with_an_odd_name(tmp_path):
    path = tmp_path / "a,b $HOME '1..2'.npz"
    np.savez(path, images=np.zeros((9, 8, 8), np.uint8), factors=np.arange(9))
    data = uw.Arrays(str(path), factors_key="factors")
    dataset = data.load(torch.device("cpu"))
    run = uw.Run(data=data, batch_size=3).resolve(dataset)
    arguments = shlex.split(" ".join(recipe.command(run, dataset)))
    assert [again.resolve(dataset) for again in runs_from(arguments)] == [run]


def test_the_page_shows_the_command_and_marks_what_was_changed(lattice):
    page = Page(render(lattice))
    for line in recipe.command(lattice.run, lattice.dataset):
        assert " ".join(line.split()) in page.words
    changed = {
        f.name
        for part in recipe.parts(lattice.run, lattice.dataset)
        for f in part.fields
        if f.changed
    }
    assert {"side", "size", "gamma", "gamma.stop", "critic.width", "steps"} <= changed
    assert "seed" not in changed


def decoded(sheet: pictures.Sheet) -> np.ndarray:
    data = base64.b64decode(sheet.uri.partition(",")[2])
    return np.asarray(Image.open(io.BytesIO(data)))


@pytest.mark.parametrize(("channels", "bands"), [(1, 2), (3, 4), (4, 4)])
def test_a_sheet_shows_its_pictures(channels, bands):
    rng = np.random.default_rng(0)
    images = rng.random((3, channels, 40, 50)).astype(np.float32)
    sheet = pictures.sheet([images, 1 - images], (0.0, 1.0))
    canvas = decoded(sheet)
    assert canvas.shape == (sheet.height, sheet.width, bands)
    left = round(sheet.centre(2) * sheet.width - sheet.cell / 2)
    shown = canvas[:40, left : left + 50, :channels]
    assert np.abs(shown - 255 * images[2].transpose(1, 2, 0)).max() <= 0.5 + 1e-4


@pytest.mark.parametrize(
    ("shape", "cell", "coarse"),
    [((1, 8, 8), 32, True), ((1, 64, 64), 64, False), ((3, 256, 128), 32, False)],
)
def test_pictures_of_any_size(shape, cell, coarse):
    sheet = pictures.sheet([np.ones((2, *shape), np.float32)], (0.0, 1.0))
    assert (sheet.cell, sheet.coarse) == (cell, coarse)
    assert decoded(sheet)[:, : sheet.cell].min() == 255


def test_unbounded_pictures_are_stretched():
    images = np.linspace(-3, 5, 101, dtype=np.float32).reshape(1, 1, 1, 101)
    low, high = pictures.display_span(images, bounded=False)
    assert -3 <= low < high <= 5
    assert pictures.display_span(images, bounded=True) == (0.0, 1.0)
    low, high = pictures.display_span(0 * images, bounded=False)
    assert high > low


def test_walks_change_one_variable(lattice):
    found = content.gather(lattice, 200)
    start = found.starts()[0].row
    code = np.repeat(found.means[[start]], content.STEPS, 0)
    code[:, found.shown[0].number] = np.linspace(-2, 2, content.STEPS)
    walk = found.walk(start, found.shown[0])
    np.testing.assert_allclose(walk, lattice.decode(code), atol=1e-6)
    shown = observed.traversal(found, found.starts()[0], (0.0, 1.0)).walks[0]
    assert (shown.values[0], shown.values[5], shown.values[-1]) == ("−2.0", "0.0", "2.0")
    assert shown.width == 1


def test_discrete_variables_walk_through_their_classes(mixed):
    found = content.gather(mixed, 200)
    start = found.starts()[0]
    shown = observed.traversal(found, start, (0.0, 1.0)).walks
    walks = {walk.variable.name: walk for walk in shown}
    shape, flag = walks["what.shape"], walks["what.flags.0"]
    assert (shape.values, flag.values) == (["0", "1", "2"], ["0", "1"])
    assert (shape.strip.columns, flag.strip.columns) == (3, 2)
    assert 3 / 11 - 0.01 < shape.width < 3 / 11 + 0.01
    likeliest = int(found.table.codes[start.row, shape.variable.number])
    assert shape.place == pytest.approx(shape.strip.centre(likeliest))
    code = np.repeat(found.means[[start.row]], 3, 0)
    code[:, 2:5] = np.eye(3)
    np.testing.assert_allclose(found.walk(start.row, shape.variable), mixed.decode(code), atol=1e-6)


def test_what_is_known_of_discrete_variables(mixed):
    """KL(q(c|x) || p(c)) = I(x; c) + KL(q(c) || p(c)), to the last digit."""
    found = content.gather(mixed, 200)
    for variable in found.variables:
        if variable.discrete:
            q, p = found.masses(variable)
            assert q.sum() == pytest.approx(1, abs=1e-6)
            assert p.sum() == pytest.approx(1, abs=1e-6)
            mismatch = (q * np.log(np.maximum(q, 1e-30) / p)).sum()
            assert variable.kl - variable.information == pytest.approx(mismatch, abs=1e-5)


def test_reconstructions_are_of_the_means_of_all_columns(mixed):
    found = content.gather(mixed, 200)
    x = found.observations([0, 5])
    np.testing.assert_allclose(found.reconstructions([0, 5]), mixed.reconstruct(x), atol=1e-5)


def test_dependence_is_told_by_group(mixed, lattice):
    found = content.gather(mixed, 200)
    told = dict(facts.correlations(found))
    assert list(told) == ["between groups", "within style", "within what", "within what.flags"]
    assert sum(told.values()) == pytest.approx(found.summary.total_correlation, abs=1e-6)
    assert all(name in Page(render(mixed)).words for name in told)
    assert facts.correlations(content.gather(lattice, 200)) == []


def test_priors_that_are_dependent_are_told():
    mixture = quick(discs(40), latent=uw.GaussianMixture(), steps=5)
    assert facts.dependent_prior(content.gather(mixture, 40))
    independent = quick(discs(40), latent=uw.Uniform(2), steps=5)
    assert not facts.dependent_prior(content.gather(independent, 40))


def test_marginals_hold_samples_and_prior(mixed):
    found = content.gather(mixed, 200)
    panels = figures.marginals(found)
    assert len(panels) == len(found.shown)
    for variable, panel in zip(found.shown, panels, strict=True):
        assert panel.drawing.count('class="line ink"') == (
            len(found.masses(variable)[0]) if variable.discrete else 1
        )


def test_a_factor_that_a_discrete_variable_tells_has_dots_for_classes(mixed):
    found = content.gather(mixed, 200)
    number = mixed.run.latent.names.index("what.shape")
    matrix = np.where(np.arange(len(found.matrix)) == number, 0.9, 0.1)[:, None]
    changed = dataclasses.replace(found, matrix=np.repeat(matrix, len(found.factors), 1))
    for panel, told in zip(figures.responses(changed), changed.told, strict=True):
        values = len(np.unique(found.table.factors[:, told.column]))
        assert panel.drawing.count("<circle") == 3 * values
        assert "what.shape" in panel.remark


def test_the_start_is_in_the_middle_of_the_lattice(lattice):
    found = content.gather(lattice, 200)
    factors = dict(
        zip(found.table.factor_names, found.table.factors[found.starts()[0].row], strict=True)
    )
    assert {factors["x"], factors["y"]} <= {2, 3}


def test_variables_and_factors_agree_with_the_table(lattice):
    found = content.gather(lattice, 200)
    assert found.rate == pytest.approx(found.table.kl.sum())
    assert [told.factor.name for told in found.told] == ["shape", "scale", "x", "y"]
    for k, told in enumerate(found.told):
        shares = [share for _, share in told.best]
        assert shares == sorted(found.matrix[:, k].tolist(), reverse=True)[:2]
    assert all(variable.mismatch >= 0 for variable in found.variables)


def test_a_panel_for_every_term_and_every_scheduled_weight(lattice):
    titles = [panel.title for panel in figures.curves(content.gather(lattice, 200))]
    assert titles == ["distortion", "rate", "total correlation", "critic", "critic accuracy", "γ"]


@pytest.mark.parametrize("span", [(0, 1), (-3.4, 5.4), (1e-6, 2e-6), (0, 3e5), (-1e3, 7)])
def test_ticks_are_few_round_and_inside(span):
    values = list(charts.ticks(span))
    assert 2 <= len(values) <= 5
    assert span[0] - 1e-9 <= min(values) <= max(values) <= span[1] + 1e-9
    assert len(set(charts.ticks(span).values())) == len(values)


def test_a_constant_curve_has_a_frame():
    low, high = charts.padded(3.0, 3.0)
    assert low < 3 < high


def test_numbers_and_formulas():
    assert [number(x) for x in (0.0, -0.004, -1.5, 1234.5)] == ["0.00", "0.00", "−1.50", "1,234"]
    assert typeset("<b2> & x") == "&lt;b2&gt; &amp; <var>x</var>"


def test_a_panel_for_everything_measured_during_training(lattice, tmp_path):
    lattice.measures = [
        {"step": 5, "terms": {"rate": 1.0}, "metrics": {"mig/chen2018": 0.2}},
        {"step": 10, "terms": {"rate": 2.0}, "metrics": {"mig/chen2018": None}},
        {"step": 15, "terms": {"rate": 3.0}, "metrics": {"total_correlation": 0.5}},
    ]
    try:
        panels = figures.measured(content.gather(lattice, 200))
        page = uw.write_report(lattice, tmp_path / "report.html", rows=200).read_text()
    finally:
        lattice.measures = []
    assert [panel.title for panel in panels] == ["rate", "mig/chen2018", "total correlation"]
    assert ["nats" in panel.remark for panel in panels] == [True, False, True]
    assert "Measured during training" in page
    assert (
        "Measured during training"
        not in uw.write_report(lattice, tmp_path / "plain.html", rows=200).read_text()
    )
