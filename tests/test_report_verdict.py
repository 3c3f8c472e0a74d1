"""The verdict of a report: it says when a model has learned nothing, and which scores mean it."""

import dataclasses
import shutil

import numpy as np
import pytest
import torch

import unweave as uw
from datasets import CPU, SMALL, small_run
from few_draws import few_draws
from report_pages import Page
from stopping import Stops
from unweave.data import Schema, from_array
from unweave.data.random_split import split_rows
from unweave.data.scaling import Scaling
from unweave.evaluation.unfinished import Unfinished
from unweave.explorer.model_data import _factors
from unweave.metrics.evidence import LEAST_MARGIN, unjudged
from unweave.metrics.score import NULL_STD
from unweave.report import analysis, render
from unweave.report.analysis import explained
from unweave.report.charts import Panel
from unweave.report.text import number
from unweave.report.vectors import Vectors
from unweave.report.verdict import explainable, headline, verdict
from unweave.training import TrainingInterrupted, train
from unweave.training.store import RunFolder, Store

pytestmark = [
    pytest.mark.filterwarnings("ignore::unweave.metrics.FewRowsWarning"),
    pytest.mark.usefixtures("quick_scores"),
]
WAVES = np.sin(np.linspace(0, 6, 30) + np.random.default_rng(0).uniform(0, 6, (120, 1)))


def fitted(data, beta, **fields):
    usual = {
        "network": uw.MLP(hidden=(64,)),
        "optimiser": uw.Adam(lr=5e-3),
        "steps": 150,
        "batch_size": 32,
        "latent": uw.Gaussian(3),
    }
    return uw.fit(
        data, device="cpu", progress=False, objective=uw.BetaVAE(beta=beta), **(usual | fields)
    )


@pytest.fixture(scope="module")
def waves(tmp_path_factory):
    """A model of curves, trained on the training split of a file."""
    path = tmp_path_factory.mktemp("waves") / "waves.npy"
    np.save(path, WAVES)
    data = uw.Arrays(path, split="train", scale="none")
    return fitted(data, 0.1, likelihood=uw.likelihoods.Gaussian(0.3))


@pytest.fixture(scope="module")
def sprites():
    data = uw.Shapes2D(side=16, shapes=("square", "heart"), scales=2, orientations=1, positions=6)
    with few_draws():
        return analysis.analyse(fitted(data, 1.0), 144)


def test_a_run_that_was_stopped_is_said_to_be(unweave, tmp_path):
    """Its report claimed all of its steps, and advised to train longer instead of resuming."""
    store, run = Store(tmp_path), small_run(steps=20)
    with pytest.raises(TrainingInterrupted):
        train([run], SMALL.load(CPU), store, Stops(10))
    model = uw.load(store.folder(run).path)
    assert model.progress == "stopped at step 10 of 20"
    page = uw.write_report(model, tmp_path / "report.html", rows=100).read_text()
    facts = page.partition('class="facts"')[2].partition("</p>")[0]
    assert "stopped at step 10 of 20, with" in facts
    assert "20 steps" not in facts
    analysed = analysis.analyse(model, 100)
    found = verdict(analysed)
    assert found.headline == headline(analysed)[1]
    assert found.sentences[0] == (
        "This page shows a run that stopped at step 10 of 20; the same <code>unweave train</code> "
        "command resumes it."
    )
    code, out, _ = unweave("evaluate", model.folder, "--metrics", "mig", "--rows", 100)
    assert (code, f"run {run.digest}: stopped at step 10 of 20" in " ".join(out.split())) == (
        0,
        True,
    )
    shutil.copytree(model.folder, tmp_path / "copy")
    code, _, err = unweave("compare", model.folder, tmp_path / "copy", "--rows", 100)
    assert (code, "got 0; 2 have not finished training" in " ".join(err.split())) == (2, True)
    with RunFolder(model.folder).lock():
        assert model.progress == "was still training at step 10 of 20"
    train([run], SMALL.load(CPU), store)
    assert uw.load(model.folder).progress == ""
    assert "stopped" not in unweave("evaluate", model.folder, "--metrics", "mig", "--rows", 100)[1]


def test_explained_is_r2_on_observations_that_were_held_out(waves):
    found = explained(waves)
    assert (found.rows, found.split, found.held_out) == (12, "validation", True)
    held_out = uw.Arrays(waves.run.data.path, split="validation", scale="none").load(
        torch.device("cpu")
    )
    x = held_out.images(torch.arange(12)).numpy().astype(np.float64)
    train = waves.observations(np.arange(waves.dataset.size)).astype(np.float64)
    expected = 1 - ((x - waves.reconstruct(x)) ** 2).sum() / ((x - train.mean(0)) ** 2).sum()
    assert found.r2 == pytest.approx(expected, abs=1e-5)
    assert found.r2 > 0.3


@pytest.mark.parametrize("split", ["validation", "test"])
def test_other_splits_of_a_model_are_held_out_and_its_mean_is_that_of_the_training(
    tmp_path, waves, split
):
    waves.save(tmp_path / "waves.uw")
    other = uw.load(tmp_path / "waves.uw", split=split)
    found = explained(other)
    assert (found.rows, found.split, found.held_out) == (12, split, True)
    x = other.observations(np.arange(12)).astype(np.float64)
    train = waves.observations(np.arange(waves.dataset.size)).astype(np.float64)
    expected = 1 - ((x - waves.reconstruct(x)) ** 2).sum() / ((x - train.mean(0)) ** 2).sum()
    assert found.r2 == pytest.approx(expected, abs=1e-5)
    judged = verdict(analysis.analyse(other, 12))
    said = f"12 observations of the {split} split, which the model was not trained on"
    assert said in " ".join(judged.sentences)
    assert "held-out observations" in judged.headline


def test_all_of_the_data_are_not_held_out_from_a_model_of_the_training_split(tmp_path, waves):
    waves.save(tmp_path / "waves.uw")
    every = uw.load(tmp_path / "waves.uw", split="all")
    assert not explained(every).held_out
    judged = verdict(analysis.analyse(every, 100))
    assert "120 observations of all data, some or all of which" in " ".join(judged.sentences)


def test_held_out_combinations_are_held_out(tmp_path):
    source = uw.Shapes2D(side=16, shapes=("square",), scales=2, orientations=1, positions=4)
    data = uw.data.Selected(source, (uw.data.HeldOut({"x": (0,)}),))
    model = fitted(data, 1.0, steps=5, batch_size=16)
    model.save(tmp_path / "model.uw")
    assert explained(model)[1:4] == (24, "rest", False)
    assert explained(uw.load(tmp_path / "model.uw", split="held-out"))[1:4] == (8, "held-out", True)


def test_a_model_that_uses_its_codes_explains_held_out_data(waves):
    found = verdict(analysis.analyse(waves, 100))
    assert found.level != "bad"
    assert "of the variance of held-out observations" in found.headline
    assert "12 observations of the validation split" in " ".join(found.sentences)


def test_advice_to_train_longer_leaves_the_headline(waves, monkeypatch):
    """It used to stand there a second time, in place of what the model has learned."""
    early = Unfinished(20.9, 600)
    monkeypatch.setattr("unweave.report.verdict.unfinished", lambda measures: early)
    analysed = analysis.analyse(waves, 100)
    found = verdict(analysed)
    assert found.headline == headline(analysed)[1]
    assert found.sentences[0].startswith("The held-out loss was still falling at the end, by 20.9")


def test_the_verdict_on_counts_says_that_noise_cannot_be_explained(waves, tmp_path):
    path = tmp_path / "counts.npy"
    np.save(path, np.random.default_rng(0).poisson(np.exp(2 * WAVES)))
    counts = fitted(uw.Arrays(path, split="train", scale="counts"), 0.1)
    said = "Counts have noise that no model explains"
    assert said in " ".join(verdict(analysis.analyse(counts, 90)).sentences)
    assert said not in " ".join(verdict(analysis.analyse(waves, 90)).sentences)


def test_a_model_without_information_has_learned_nothing():
    with pytest.warns(UserWarning, match=r"all latent variables of run \w+ are off"):
        model = fitted(uw.data.Blobs(side=8), 1000.0)
    found = verdict(analysis.analyse(model, 200))
    assert found.level == "bad"
    assert "learned nothing" in found.headline
    assert "objective.beta" in found.sentences[-1]
    assert "All 3 variables carry less than" in " ".join(found.sentences)


def test_the_report_on_a_model_without_information_shows_no_evidence():
    """Mean codes that are almost equal may still follow factors, and score well."""
    with pytest.warns(UserWarning, match=r"all latent variables of run \w+ are off"):
        model = fitted(uw.data.Blobs(side=8), 1000.0)
    protocols = {"mig": "chen2018", "factor_vae_score": "kim2018"}
    scores = [uw.metrics.Score(name, its, 0.8, null=0.01) for name, its in protocols.items()]
    page = Page(render(model, rows=200, scores={score.key: score for score in scores}))
    assert "The model has learned nothing" in page.words
    reason = "no variable carries information about the data, and mean codes that follow a factor"
    assert f"No score is evidence of disentanglement: {reason}" in page.words
    assert f"None of these scores is evidence: {reason}" in page.words
    assert page.source.count('<tbody class="unjudged">') == len(scores)
    assert "best" not in page.attributes("class")  # the badges that name a variable for each factor
    factors = page.words.partition("Codes against factors")[2].partition("Scores")[0]
    assert factors.strip() == (
        "No variable carries information about the data, so there is nothing to compare."
    )
    found = analysis.analyse(model, 200, scores={})
    assert {each.at_chance for each in _factors(found)} == {"no variable is active"}


def active(found, r2):
    """Return an analysis whose variables carry information and explain a share of the data."""
    table = found.table
    precise = dataclasses.replace(
        table, scales=np.full_like(table.scales, 1e-6), kl=np.full_like(table.kl, 9.0)
    )
    return dataclasses.replace(found, table=precise, explained=found.explained._replace(r2=r2))


def test_counts_are_judged_by_what_their_noise_leaves_to_explain():
    """Poisson counts x of mean m have R^2 = Var(m) / (E(m) + Var(m)) at best."""
    rng = np.random.default_rng(0)
    means = rng.gamma(2.0, 0.5, (900, 6))  # E(m) = 1, Var(m) = 0.5
    data, _ = from_array(rng.poisson(means), scale="counts")
    found = analysis.analyse(uw.fit(data, progress=False, latent=uw.Gaussian(3), steps=2), 900)
    assert explainable(found) == pytest.approx(1 / 3, abs=0.04)
    judged = verdict(active(found, 0.3))
    assert judged.level == "good"
    assert "explain 30% of the variance" in judged.headline
    assert "that can be explained" in judged.headline
    assert "Poisson noise alone is 6" in " ".join(judged.sentences)
    regular, _ = from_array(rng.integers(4, 6, (100, 6)), scale="counts")  # less than Poisson noise
    found = analysis.analyse(uw.fit(regular, progress=False, latent=uw.Gaussian(3), steps=2), 90)
    assert explainable(found) is None
    assert "explain 30% of" in verdict(active(found, 0.3)).headline


def test_r2_of_standardised_columns_is_also_given_in_the_units_of_the_data():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(200, 4)) * [100, 1, 1, 1]
    model = uw.fit(x, progress=False, latent=uw.Gaussian(3), steps=60)
    found = analysis.analyse(model, 160)
    held_out, train = (x[split_rows(split, 200)] for split in ("validation", "train"))
    error = held_out - model.reconstruct(held_out)
    expected = 1 - (error**2).sum() / ((held_out - train.mean(0)) ** 2).sum()
    assert found.explained.r2_in_units == pytest.approx(expected, abs=1e-5)
    judged = verdict(active(found, 0.4))
    assert "only 40% of the variance of the standardised columns of held-out" in judged.headline
    assert "on 20 observations of the validation split" in " ".join(judged.sentences)
    assert f"R<sup>2</sup> of the same observations is {number(expected)}" in " ".join(
        judged.sentences
    )
    weak = verdict(active(found, 0.01))
    assert weak.level == "bad"
    assert "carry information about the data" in " ".join(weak.sentences)
    assert "but the decoder hardly uses it" in " ".join(weak.sentences)
    assert "warm-up" not in weak.sentences[-1]


def test_a_rate_without_information_does_not_make_a_variable_active(sprites):
    """Posteriors that are all equal, but far from the prior, have a rate and say nothing."""
    assert sprites.active
    table = sprites.table
    silent = dataclasses.replace(
        table, codes=np.ones_like(table.codes), scales=np.full_like(table.scales, 0.5)
    )
    found = dataclasses.replace(sprites, table=silent)
    assert (found.table.kl > 0.1).any()
    assert found.active == []
    assert len(found.unused) == 3


def test_a_score_of_a_single_factor_is_no_evidence(sprites):
    perfect = uw.metrics.Score(
        "factor_vae_score", "kim2018", 1.0, details={"factors left out": ["scale", "x", "y"]}
    )
    assert "only one factor" in unjudged(perfect, sprites.table)
    page = render(sprites.model, rows=144, scores={"factor_vae_score/kim2018": perfect})
    assert '<tbody class="unjudged">' in page
    assert "No score is evidence of disentanglement" in page
    assert '<div class="tile"><p>FactorVAE score' not in page


def test_a_factor_whose_labels_are_mostly_missing_is_not_counted_as_scored():
    rng = np.random.default_rng(0)
    factors = rng.integers(0, 3, (400, 2)).astype(float)
    codes = factors + 0.01 * rng.standard_normal((400, 2))
    complete = uw.metrics.Table(codes, factors)
    factors = np.where([[False, True]] & (rng.random((400, 1)) < 0.8), np.nan, factors)
    table = uw.metrics.Table(codes, factors)
    score = uw.metrics.Score("mig", "chen2018", 0.956)
    assert unjudged(score, complete) == ""
    assert "only one factor" in unjudged(score, table)
    assert complete.value_counts == table.value_counts == (3, 3)


def test_a_score_at_its_null_is_no_evidence(sprites):
    score = uw.metrics.Score("modularity", "ridgeway2018", 0.92, null=0.9)
    assert "less than 0.05 above shuffled factors" in unjudged(score, sprites.table)
    spread = dataclasses.replace(score, null=0.8, details={NULL_STD: 0.05})
    reason = unjudged(spread, sprites.table)
    assert "less than 3 standard deviations above shuffled factors" in reason
    below = dataclasses.replace(score, null=0.95)
    assert unjudged(below, sprites.table) == "not above shuffled factors"
    above = dataclasses.replace(score, null=0.92 - 2 * LEAST_MARGIN)
    assert unjudged(above, sprites.table) == ""


def test_too_few_rows_are_no_evidence(sprites):
    table = uw.metrics.Table(sprites.table.codes[:12], sprites.table.factors[:12])
    score = uw.metrics.Score("mig", "chen2018", 0.8, null=0.0)
    assert "too few" in unjudged(score, table)


def schema(*names, method="standardise"):
    size = len(names)
    scaling = Scaling(method, (10.0,) * size, (0.5,) * size)
    return Schema(10, (size,), value_names=names, scaling=scaling)


@pytest.mark.parametrize(
    ("names", "axis"),
    [
        (("400", "405", "410.5"), [400.0, 405.0, 410.5]),
        (("405", "400", "410"), None),  # not in order: names, not positions
        (("height", "weight"), None),
    ],
)
def test_names_that_are_rising_numbers_are_the_axis(names, axis):
    assert Vectors.of(schema(*names), np.zeros((2, len(names)))).positions == axis


def test_values_without_names_are_drawn_over_their_index_if_neighbours_are_alike():
    rng = np.random.default_rng(0)
    smooth = np.sin(np.linspace(0, 6, 40) + rng.uniform(0, 6, (100, 1)))
    plain = Schema(100, (40,))
    assert Vectors.of(plain, smooth).positions == [float(n) for n in range(40)]
    assert Vectors.of(plain, rng.poisson(3, (100, 40))).positions is None
    assert Vectors.of(plain, smooth[:, rng.permutation(40)]).positions is None
    assert Vectors.of(Schema(10, (3,)), rng.normal(size=(10, 3))).positions == [0.0, 1.0, 2.0]


def test_columns_are_drawn_as_bars_with_their_names_in_standard_deviations():
    names = [f"column {n}" for n in range(40)]
    values = np.full((2, 40), 10.0)
    values[1, 30:] = 14.0  # two standard deviations
    vectors = Vectors.of(schema(*names), values)
    (panel,) = vectors.panels([values], [("a", "b")], [Panel("t", "", "")])
    assert panel.drawing.count("<circle") == 2 * 16
    assert panel.drawing.count('class="line bar"') == 16
    assert all(f">column {n}<" in panel.drawing for n in range(30, 40))
    assert ">2<" in panel.drawing.replace("2.0<", "2<")
    assert "column 29" not in panel.drawing.replace("column 2<", "")
    assert "in standard deviations from its mean; the 16 that change most" in vectors.caption


def test_every_panel_shows_the_columns_that_change_most_in_it():
    names = [f"g{n}" for n in range(100)]
    first, second = np.zeros((2, 2, 100))
    first[1, :16] = second[1, 50:66] = 1
    vectors = Vectors.of(schema(*names, method="none"), first)
    titles = [Panel("t", "", "")] * 2
    one, two = vectors.panels([first, second], [("a", "b")] * 2, titles)
    assert ">g5<" in one.drawing
    assert ">g5<" not in two.drawing
    assert ">g55<" in two.drawing
