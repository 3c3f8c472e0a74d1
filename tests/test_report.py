"""The report: one page that needs nothing else, for every kind of data and latent space."""

import base64
import dataclasses
import io
import os
import re
import shlex
from functools import cache
from html.parser import HTMLParser

import numpy as np
import pytest
import torch
from PIL import Image

import unweave as uw
from datasets import LATENTS
from unweave.catalogue.preview import preview_sheet
from unweave.data import Schema
from unweave.data.dataset import ArrayDataset
from unweave.report import (
    analysis,
    charts,
    figures,
    pictures,
    render,
    summary,
    traversals,
    write_report,
)
from unweave.report.text import number, typeset
from unweave.training import configuration
from unweave.training.overrides import runs_from, train_arguments

pytestmark = pytest.mark.filterwarnings(
    "ignore::unweave.metrics.FewRowsWarning"
)  # of small datasets
SECTIONS = ["top", "traversals", "reconstructions", "variables", "posterior", "factors", "scores",
            "samples", "curves", "configuration", "references"]  # fmt: skip
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
        "steps": 100,
        "batch_size": 16,
        "latent": uw.Gaussian(3),
    }
    return uw.fit(data, device="cpu", progress=False, **(usual | fields))


@cache
def analysed(model):
    """The analysis of a model, computed once for all tests."""
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
    return rendered(model)


def test_every_section_is_there(page):
    assert [name for name in page.attributes("id") if name in SECTIONS] == SECTIONS
    assert {f"#{name}" for name in SECTIONS} == set(page.attributes("href")) - {"data:,"}


def test_the_page_loads_nothing(page):
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
    pages = [render(each, rows=50) for each in (uw.load(fitted.folder, device="cpu"), fitted)]
    assert pages[0] == pages[1]


def test_identifiers_are_unique(page):
    names = page.attributes("id")
    assert len(set(names)) == len(names)


def test_the_same_model_gives_the_same_bytes(model, page, tmp_path):
    path = tmp_path / "report.html"
    assert write_report(model, path, rows=200, scores=analysed(model).scores) == path
    assert path.read_bytes() == page.source.encode()
    assert path.stat().st_size < 3_000_000


def test_a_file_that_cannot_be_written_leaves_the_old_one(lattice, tmp_path, monkeypatch):
    path = tmp_path / "report.html"
    path.write_text("old")

    def fail(*_):
        raise OSError("no space")

    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(OSError, match="no space"):
        write_report(lattice, path, rows=50, scores={})
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_traversals_are_sorted_by_kl(lattice):
    shown = [float(kl) for kl in rendered(lattice).attributes("data-kl")]
    expected = sorted((v.kl for v in analysed(lattice).active), reverse=True)
    first = shown[: len(expected)]  # the second example repeats them
    assert first == pytest.approx(expected, abs=1e-5)
    assert shown == first * (len(shown) // len(first))


def test_variables_of_a_tree_have_their_path_as_name(tree):
    text = rendered(tree).source
    assert all(f"<sub>{name}</sub>" in text for name in ("style.0", "style.1", "place.x"))


def test_unused_variables_are_listed_and_not_drawn(lattice, monkeypatch):
    monkeypatch.setattr(analysis, "LEAST_INFORMATION", 1e9)
    page = rendered(lattice)
    assert page.attributes("data-kl") == []
    assert "nothing to traverse" in page.words
    assert re.search(r"unused z\d, z\d, z\d: less than", page.words)


def test_unused_variables_of_vectors_are_not_traversed(vectors, monkeypatch):
    monkeypatch.setattr(analysis, "LEAST_INFORMATION", 1e9)
    assert "nothing to traverse" in rendered(vectors).words


def test_only_the_first_variables_of_a_wide_latent_space_are_drawn(lattice, monkeypatch):
    monkeypatch.setattr(analysis, "MOST_SHOWN", 1)
    page = rendered(lattice)
    assert len(set(page.attributes("data-kl"))) == 1
    assert "more active variables" in page.words


def test_scores_and_constant_factors_are_listed(lattice):
    words = rendered(lattice).words
    for key in analysed(lattice).scores:
        assert key.split("/")[1] in words
    assert "colour, orientation take a single value and are left out" in words


@pytest.mark.parametrize("name", ["tree", "vectors"])
def test_pages_of_data_without_factors_say_so(name, request):
    words = rendered(request.getfixturevalue(name)).words
    assert "The factors of these data are not known" in words
    assert "Most scores compare codes with true factors, which are not known" in words


def test_scores_without_factors_have_their_own_table(model):
    page, found = rendered(model), analysed(model)
    assert set(found.unsupervised) >= {"hoyer/mathieu2019", "active_units/kl"}
    assert not set(found.unsupervised) & set(found.scores)
    assert "Scores that need no factors" in page.words
    value = number(found.unsupervised["hoyer/mathieu2019"].value, 3)
    row = f'<tr><th>Hoyer</th><td><code>mathieu2019</code></td><td class="value">{value}</td></tr>'
    assert row in page.source


def test_unsupervised_scores_are_no_evidence_against_the_model(tree):
    assert "evidence" not in rendered(tree).words


def test_no_space_is_missing(page):
    """Neighbouring elements are apart also where no style is, as when text is copied."""
    words = re.sub(r"unweave train.*|@\w+\{.*", "", page.words)
    assert not re.findall(r"\d(?:nats|weight|of|classes)\b", words)
    assert not re.findall(r"[a-z][.;,:][A-Z]", words)


def test_the_first_screen_has_the_verdict_and_then_pictures(page):
    header = page.source.partition("</header>")[0]
    assert "verdict" in header
    assert 'class="tiles"' not in header
    assert 'class="equation"' not in header


def test_class_names_are_shown(tmp_path):
    """Labels of a table reach the charts, also as names of axes."""
    rng = np.random.default_rng(0)
    kinds = rng.integers(0, 3, 90)
    waves = np.sin(np.linspace(0, 6, 12) + kinds[:, None])
    names = [f"{400 + 5 * n}" for n in range(12)]
    lines = [",".join(["species", *names])]
    for kind, wave in zip(kinds, waves, strict=True):
        lines.append(",".join([("oak", "birch", "pine")[kind], *(f"{v:.3f}" for v in wave)]))
    (tmp_path / "s.csv").write_text("\n".join(lines))
    data = uw.Arrays(tmp_path / "s.csv", factors_key="species")
    page = rendered(quick(data, likelihood=uw.likelihoods.Gaussian(0.2)))
    assert all(f">{name}<" in page.source for name in ("oak", "birch", "pine"))
    assert "The axis shows the numbers that name the values" in page.words
    assert re.search(r">4[245]0<", page.source)


def test_constant_factors_are_reported_as_such(tmp_path):
    np.savez(tmp_path / "d.npz", images=discs(20), factors=np.zeros((20, 1), int))
    fitted = quick(uw.Arrays(str(tmp_path / "d.npz"), factors_key="factors"), steps=5)
    words = rendered(fitted).words
    assert "No factor takes two values" in words
    assert "left out mig/chen2018: no factor of the table takes two values" in words


def test_hostile_names_are_escaped(tmp_path):
    path = tmp_path / "<b>&data.npz"
    x, y = np.divmod(np.arange(64), 8)
    images = np.zeros((64, 8, 8), np.uint8)
    images[np.arange(64), x, y] = 255
    np.savez(path, images=images, factors=np.stack([x, y], 1), factor_names=[NASTY, "y"])
    data = uw.Arrays(str(path), factors_key="factors")
    latent = uw.Product(style=uw.Gaussian(2))
    page = rendered(quick(data, latent=latent, steps=30))
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
def test_the_command_reproduces_the_run(run):
    dataset = run.data.load(torch.device("cpu"))
    run = run.resolve(dataset)
    arguments = shlex.split(" ".join(train_arguments(run, dataset)))
    assert [again.resolve(dataset) for again in runs_from(arguments)] == [run]


def test_the_command_for_a_file_with_an_odd_name(tmp_path):
    path = tmp_path / "a,b $HOME '1..2'.npz"
    np.savez(path, images=np.zeros((9, 8, 8), np.uint8), factors=np.arange(9))
    data = uw.Arrays(str(path), factors_key="factors")
    dataset = data.load(torch.device("cpu"))
    run = uw.Run(data=data, batch_size=3).resolve(dataset)
    arguments = shlex.split(" ".join(train_arguments(run, dataset)))
    assert [again.resolve(dataset) for again in runs_from(arguments)] == [run]


def test_the_page_shows_the_command_and_marks_changed_fields(lattice):
    page = rendered(lattice)
    for line in train_arguments(lattice.run, lattice.dataset):
        assert " ".join(line.split()) in page.words
    changed = {
        f.name
        for part in configuration.parts(lattice.run, lattice.dataset)
        for f in part.fields
        if f.changed
    }
    assert {"side", "size", "gamma", "gamma.stop", "critic.width", "steps"} <= changed
    assert "seed" not in changed


def decoded(sheet: pictures.Sheet) -> np.ndarray:
    data = base64.b64decode(sheet.uri.partition(",")[2])
    return np.asarray(Image.open(io.BytesIO(data)))


@pytest.mark.parametrize(("channels", "bands"), [(1, 2), (3, 4), (4, 4)])
def test_a_sheet_shows_its_images(channels, bands):
    rng = np.random.default_rng(0)
    images = rng.random((3, channels, 40, 50)).astype(np.float32)
    sheet = pictures.sheet([images, 1 - images])
    canvas = decoded(sheet)
    assert canvas.shape == (sheet.height, sheet.width, bands)
    left = round(sheet.centre(2) * sheet.width - sheet.cell / 2)
    shown = canvas[:40, left : left + 50, :channels]
    assert np.abs(shown - 255 * images[2].transpose(1, 2, 0)).max() <= 0.5 + 1e-4


@pytest.mark.parametrize(
    ("shape", "cell", "coarse"),
    [((1, 8, 8), 32, True), ((1, 64, 64), 64, False), ((3, 256, 128), 32, False)],
)
def test_images_are_scaled_to_a_useful_size(shape, cell, coarse):
    sheet = pictures.sheet([np.ones((2, *shape), np.float32)])
    assert (sheet.cell, sheet.coarse) == (cell, coarse)
    assert decoded(sheet)[:, : sheet.cell].min() == 255


def test_images_of_other_values_are_shown_over_their_range():
    images = np.linspace(2, 5, 101, dtype=np.float32).reshape(1, 1, 1, 101)
    shown = pictures.colour_map(images, pixels=False)
    assert (shown.low[0], shown.high[0]) == pytest.approx((2, 5), abs=0.05)
    assert [entry.name for entry in shown.legend] == ["black", "white"]
    assert pictures.colour_map(images, pixels=True).legend == []
    empty = pictures.colour_map(0 * images, pixels=False)
    assert empty.high[0] > empty.low[0]


def test_signed_values_are_blue_and_orange_about_zero():
    images = np.array([-3.0, 0.0, 1.5], np.float32).reshape(1, 1, 1, 3).repeat(40, 2)
    colours = pictures.colour_map(images, pixels=False)
    assert colours.low == (-colours.high[0],)
    red, _, blue, _ = colours.apply(torch.from_numpy(images))[0, :, 0]
    assert blue[0] > red[0]
    assert red[1] == blue[1]
    assert red[2] > blue[2]
    assert pictures.colour_map(np.maximum(images, -0.01), pixels=False).diverging is False


@pytest.mark.parametrize("count", [2, 4, 5, 13])
def test_each_channel_has_a_colour_of_its_own(count):
    """An image that is bright in one channel only shows the colour of that channel."""
    images = np.zeros((count, count, 40, 40), np.float32)
    images[range(count), range(count), 10:30, 10:30] = np.arange(1, count + 1)[:, None, None] * 100
    colours = pictures.colour_map(images, pixels=False)
    canvas = decoded(pictures.sheet([images], colours))
    assert canvas.shape[-1] == 4
    cell = 40 + 1
    seen = [tuple(canvas[20, cell * n + 20, :3]) for n in range(count)]
    assert len(set(seen)) == count
    assert all(max(colour) > 100 for colour in seen)
    assert (canvas[2, 2, :3] == 0).all()
    css = [tuple(map(int, entry.colour.split())) for entry in colours.legend]
    assert np.abs(np.subtract(css, np.asarray(seen, int))).max() <= 1
    assert colours.legend[1].text == f"channel 1: 0 to {200:.3g}"


def test_channels_can_be_selected():
    images = np.random.default_rng(0).random((6, 5, 40, 40)).astype(np.float32)
    chosen = pictures.colour_map(images, pixels=False, channels=(4, 0, 2))
    canvas = decoded(pictures.sheet([images], chosen)) / 255
    low, high = np.array(chosen.low), np.array(chosen.high)
    expected = ((images[0, [4, 0, 2]].transpose(1, 2, 0) - low) / (high - low)).clip(0, 1)
    assert np.abs(canvas[:40, :40, :3] - expected).max() < 0.005
    assert [entry.text.split(":")[0] for entry in chosen.legend] == [
        "channel 4", "channel 0", "channel 2"]  # fmt: skip
    with pytest.raises(ValueError, match="channels from 0 to 4, got 7"):
        pictures.colour_map(images, pixels=False, channels=(7,))


@uw.spec
class Stains:
    """Images with any number of channels, in units of their own."""

    channels: int = 5
    kind: str = "stains"

    def load(self, device):
        x = 300 * np.random.default_rng(0).normal(size=(48, self.channels, 12, 12))
        empty = torch.zeros((48, 0), dtype=torch.int64)
        schema = Schema(48, (self.channels, 12, 12))
        return ArrayDataset(schema, torch.from_numpy(x.astype(np.float32)), empty)


@pytest.mark.parametrize("channels", [2, 5])
def test_reports_and_previews_of_other_channels_have_a_legend(channels):
    data = Stains(channels)
    page = rendered(quick(data, steps=5, likelihood=uw.likelihoods.Gaussian(300.0)))
    assert f"channel {channels - 1}:" in page.words
    (note, _) = preview_sheet(data.load(torch.device("cpu"))).notes
    assert note.startswith("false colours: green is channel 0: ")


@pytest.mark.parametrize("scale", ["percentile", "standardise"])
def test_the_legend_of_scaled_images_is_in_the_units_of_the_user(scale):
    rng, levels = np.random.default_rng(0), np.array([500.0, 4000.0])
    images = rng.normal(levels[:, None, None], levels[:, None, None] / 10, (64, 2, 8, 8))
    data, _ = uw.data.from_array(images.astype(np.float32), scale=scale, axes="nchw")
    found = analysed(quick(data, steps=5))
    for channels in ((), (1, 0)):
        colours = traversals.image_colours(found, channels)
        shown = [entry.text for entry in pictures.colour_legend(colours, found.model.schema)]
        for channel, text in zip(channels or (0, 1), shown, strict=True):
            low, high = map(float, text.removeprefix(f"channel {channel}: ").split(" to "))
            ends = np.quantile(images[:, channel], (0.005, 0.995))
            assert (low, high) == pytest.approx(ends, rel=0.1)
    (note, *_) = preview_sheet(data.load(torch.device("cpu"))).notes
    assert "channel 1: 3" in note or "channel 1: 2" in note  # thousands, not 0 to 1


def test_a_traversal_changes_one_variable(lattice):
    found = analysed(lattice)
    start = found.starts()[0].row
    code = np.repeat(found.means[[start]], analysis.STEPS, 0)
    code[:, found.shown[0].number] = np.linspace(-2, 2, analysis.STEPS)
    images = found.traverse(start, found.shown[0])
    np.testing.assert_allclose(images, lattice.decode(code), atol=1e-6)
    shown = traversals.traversal(found, found.starts()[0], pictures.PIXELS).variables[0]
    assert (shown.values[0], shown.values[5], shown.values[-1]) == ("−2.0", "0.0", "2.0")
    assert shown.width == 1


def test_a_traversal_of_a_discrete_variable_shows_each_class(mixed, monkeypatch):
    monkeypatch.setattr(analysis, "LEAST_INFORMATION", -1.0)  # draw every variable
    found = analysed(mixed)
    start = found.starts()[0]
    shown = traversals.traversal(found, start, pictures.PIXELS).variables
    by_name = {each.variable.name: each for each in shown}
    shape, flag = by_name["what.shape"], by_name["what.flags.0"]
    assert (shape.values, flag.values) == (["0", "1", "2"], ["0", "1"])
    assert (shape.strip.columns, flag.strip.columns) == (3, 2)
    assert 3 / 11 - 0.01 < shape.width < 3 / 11 + 0.01
    likeliest = int(found.table.codes[start.row, shape.variable.number])
    assert shape.mark == pytest.approx(shape.strip.centre(likeliest))
    code = np.repeat(found.means[[start.row]], 3, 0)
    code[:, 2:5] = np.eye(3)
    np.testing.assert_allclose(
        found.traverse(start.row, shape.variable), mixed.decode(code), atol=1e-6
    )


def test_the_kl_of_a_discrete_variable_is_information_plus_mismatch(mixed):
    """KL(q(c|x) || p(c)) = I(x; c) + KL(q(c) || p(c)), to the last digit."""
    found = analysed(mixed)
    for variable in found.variables:
        if variable.discrete:
            q, p = found.masses(variable)
            assert q.sum() == pytest.approx(1, abs=1e-6)
            assert p.sum() == pytest.approx(1, abs=1e-6)
            mismatch = (q * np.log(np.maximum(q, 1e-30) / p)).sum()
            assert variable.kl - variable.information == pytest.approx(mismatch, abs=1e-5)


def test_reconstructions_decode_the_posterior_means(mixed):
    found = analysed(mixed)
    x = found.observations([0, 5])
    np.testing.assert_allclose(found.reconstructions([0, 5]), mixed.reconstruct(x), atol=1e-5)


def test_total_correlation_is_listed_by_group(mixed, lattice):
    found = analysed(mixed)
    groups = dict(summary.correlations(found))
    assert list(groups) == ["between groups", "within style", "within what", "within what.flags"]
    assert sum(groups.values()) == pytest.approx(found.summary.total_correlation, abs=1e-6)
    assert all(name in rendered(mixed).words for name in groups)
    assert summary.correlations(analysed(lattice)) == []


def test_dependent_priors_are_detected():
    mixture = quick(discs(40), latent=uw.GaussianMixture(), steps=5)
    assert summary.dependent_prior(analysed(mixture))
    independent = quick(discs(40), latent=uw.Uniform(2), steps=5)
    assert not summary.dependent_prior(analysed(independent))


def test_marginals_show_samples_and_prior(mixed):
    found = analysed(mixed)
    panels = figures.marginals(found)
    assert len(panels) == len(found.shown)
    for variable, panel in zip(found.shown, panels, strict=True):
        assert panel.drawing.count('class="line ink"') == (
            len(found.masses(variable)[0]) if variable.discrete else 1
        )


def test_the_response_of_a_discrete_variable_has_a_dot_per_class(mixed, monkeypatch):
    monkeypatch.setattr(analysis, "LEAST_INFORMATION", -1.0)  # draw every variable
    found = analysed(mixed)
    number = mixed.run.latent.names.index("what.shape")
    matrix = np.where(np.arange(len(found.matrix)) == number, 0.9, 0.1)[:, None]
    changed = dataclasses.replace(found, matrix=np.repeat(matrix, len(found.factors), 1))
    for panel, best in zip(figures.responses(changed), changed.best_variables, strict=True):
        values = len(np.unique(found.table.factors[:, best.column]))
        assert panel.drawing.count("<circle") == 3 * values
        assert "what.shape" in panel.remark


def test_the_start_is_in_the_middle_of_the_lattice(lattice):
    found = analysed(lattice)
    factors = dict(
        zip(found.table.factor_names, found.table.factors[found.starts()[0].row], strict=True)
    )
    assert {factors["x"], factors["y"]} <= {2, 3}


def test_variables_and_factors_agree_with_the_table(lattice):
    found = analysed(lattice)
    assert found.rate == pytest.approx(found.table.kl.sum())
    assert [each.factor.name for each in found.best_variables] == ["shape", "scale", "x", "y"]
    for k, each in enumerate(found.best_variables):
        shares = [share for _, share in each.best]
        assert shares == sorted(found.matrix[:, k].tolist(), reverse=True)[:2]
    assert all(variable.mismatch >= 0 for variable in found.variables)


def test_factors_at_chance_have_no_tag_no_best_variable_and_no_frame(lattice):
    found = analysed(lattice)
    assert [v.factor for v in found.active] != [None] * len(found.active)
    chance = dataclasses.replace(found, matrix=found.shuffled[0])
    assert [v.factor for v in chance.variables] == [None] * len(chance.variables)
    assert not any(each.informative for each in chance.best_variables)
    assert all("no variable above chance" in panel.remark for panel in figures.responses(chance))
    words = rendered(lattice).words
    assert "as for shuffled factors" in words
    tagged = [v for v in found.active if v.factor]
    assert all(v.share > v.chance > 0 for v in tagged)
    assert "standard deviations above that counts as chance" in words


def test_one_reason_of_all_scores_is_said_once_and_counts_are_explained(lattice):
    found = analysed(lattice)
    one = {
        key: dataclasses.replace(score, details={"factors left out": ["shape", "scale", "x"]})
        for key, score in found.scores.items()
    }
    page = Page(render(lattice, rows=200, scores=one))
    section = page.words.partition("None of these scores is evidence: ")[2]
    assert section.startswith("only one factor can be scored")
    assert section.count("only one factor") == 1
    assert f"The summary counts {len(found.active)} active variables" in section
    assert "None of these scores is evidence" not in rendered(lattice).words


def test_terms_and_scheduled_weights_have_a_panel_each(lattice):
    titles = [panel.title for panel in figures.log_curves(analysed(lattice))]
    assert titles == [
        "loss",
        "distortion",
        "rate",
        "total correlation",
        "critic",
        "critic accuracy",
        "γ",
    ]


@pytest.mark.parametrize("span", [(0, 1), (-3.4, 5.4), (1e-6, 2e-6), (0, 3e5), (-1e3, 7)])
def test_ticks_are_few_round_and_inside(span):
    values = list(charts.ticks(span))
    assert 2 <= len(values) <= 5
    assert span[0] - 1e-9 <= min(values) <= max(values) <= span[1] + 1e-9
    assert len(set(charts.ticks(span).values())) == len(values)


def test_the_span_of_a_constant_curve_is_not_empty():
    low, high = charts.padded(3.0, 3.0)
    assert low < 3 < high


def test_numbers_and_formulas_are_typeset():
    assert [number(x) for x in (0.0, -0.004, -1.5, 1234.5)] == ["0.00", "0.00", "−1.50", "1,234"]
    assert typeset("<b2> & x") == "&lt;b2&gt; &amp; <var>x</var>"


def test_measurements_during_training_have_a_panel_each(lattice):
    lattice.measures = [
        {"step": 5, "terms": {"rate": 1.0}, "metrics": {"mig/chen2018": 0.2}},
        {"step": 10, "terms": {"rate": 2.0}, "metrics": {"mig/chen2018": None}},
        {"step": 15, "terms": {"rate": 3.0}, "metrics": {"total_correlation": 0.5}},
    ]
    try:
        panels = figures.measured_curves(analysed(lattice))
        with_measures = rendered(lattice).words
    finally:
        lattice.measures = []
    assert [panel.title for panel in panels] == ["rate", "mig/chen2018", "total correlation"]
    assert ["nats" in panel.remark for panel in panels] == [True, False, True]
    assert "Measured during training" in with_measures
    assert "Measured during training" not in rendered(lattice).words
