"""The report: one page that needs nothing else, for every kind of data and latent space."""

import re
import shlex

import numpy as np
import pytest
import torch

import unweave as uw
from datasets import LATENTS
from report_pages import (
    analysed,
    discs,
    lattice_model,
    mixed_model,
    quick,
    rendered,
    tree_model,
    vector_model,
)
from unweave.report import (
    analysis,
    render,
    write_report,
)
from unweave.report.text import number
from unweave.training import run_text
from unweave.training.overrides import runs_from, train_arguments

pytestmark = [
    pytest.mark.filterwarnings("ignore::unweave.metrics.FewRowsWarning"),  # of small datasets
    pytest.mark.usefixtures("quick_scores"),
]
SECTIONS = ["top", "traversals", "reconstructions", "variables", "posterior", "factors", "scores",
            "samples", "curves", "configuration", "references"]  # fmt: skip
NASTY = '</pre></style><script>alert("x")</script><img src=x onerror=alert(1)>&'


MODELS = {
    "lattice": lattice_model,
    "tree": tree_model,
    "vectors": vector_model,
    "mixed": mixed_model,
}


@pytest.fixture
def lattice():
    return lattice_model()


@pytest.fixture
def tree():
    return tree_model()


@pytest.fixture
def vectors():
    return vector_model()


@pytest.fixture(scope="module", params=MODELS)
def model(request):
    return MODELS[request.param]()


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


def test_a_file_that_cannot_be_written_leaves_the_old_one(lattice, tmp_path, no_space):
    path = tmp_path / "report.html"
    path.write_text("old")
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
    assert re.search(r"unused z\d, z\d, z\d: each carries less than", page.words)


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
    assert "The factors of these data are unknown" in words
    assert "Most scores compare codes with true factors, which are unknown" in words


def test_scores_without_factors_have_their_own_table(model):
    page, found = rendered(model), analysed(model)
    assert set(found.unsupervised) >= {"hoyer/mathieu2019", "active_units/kl"}
    assert not set(found.unsupervised) & set(found.scores)
    assert "Scores that need no factors" in page.words
    value = number(found.unsupervised["hoyer/mathieu2019"].value, 3)
    row = f'<tr><th>Hoyer</th><td><code>mathieu2019</code></td><td class="value">{value}</td></tr>'
    assert row in page.source


def test_unsupervised_scores_are_no_evidence_against_the_model(tree):
    words = rendered(tree).words
    assert "no evidence" not in words
    assert "No score is evidence" not in words


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
    assert "The horizontal axis shows the numbers in the column names" in page.words
    assert re.search(r">4[245]0<", page.source)


def test_constant_factors_are_reported_as_such(tmp_path):
    np.savez(tmp_path / "d.npz", images=discs(20), factors=np.zeros((20, 1), int))
    fitted = quick(uw.Arrays(str(tmp_path / "d.npz"), factors_key="factors"), steps=5)
    words = rendered(fitted).words
    assert "No factor takes two values" in words
    assert words.count("left out no factor of the table takes two values: ") == 1


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
        for part in run_text.parts(lattice.run, lattice.dataset)
        for f in part.fields
        if f.changed
    }
    assert {"side", "size", "gamma", "gamma.stop", "critic.width", "steps"} <= changed
    assert "seed" not in changed
