"""How models, scores, tables and runs appear in a notebook."""

import re
from html.parser import HTMLParser

import numpy as np
import pytest

import unweave as uw
from datasets import SMALL
from unweave.core.html import sparkline
from unweave.metrics import Score, Scores, Table

NASTY = "<script>alert(1)</script>"
FIELDS = dict(network=uw.MLP((8,)), batch_size=16, steps=6, device="cpu", progress=False)


class Parsed(HTMLParser):
    """The tags and the text of a piece of HTML, all of it closed."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.open, self.text = [], [], ""
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        if tag not in ("img", "br"):
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.tags.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text += data + " "


def test_a_model_shows_what_it_is_its_curves_and_traversals():
    model = uw.fit(SMALL, latent=uw.Gaussian(3), **FIELDS)
    page = Parsed(model._repr_html_())
    assert model.run.digest in page.text
    assert "BetaVAE(beta=4.0)" in page.text
    assert "6 steps of 16, seed 0" in page.text
    assert page.tags.count("path") == 3  # loss, distortion and rate
    assert page.tags.count("img") == 3
    assert len(model._repr_html_()) < 60_000


def test_a_model_without_its_data_is_shown_by_its_schema_and_traversals_from_the_prior(tmp_path):
    np.save(tmp_path / "x.npy", np.random.default_rng(0).random((30, 8, 8)).astype(np.float32))
    model = uw.fit(uw.Arrays(str(tmp_path / "x.npy")), latent=uw.Gaussian(3), **FIELDS)
    model.save(tmp_path / "model.uw")
    (tmp_path / "x.npy").unlink()
    page = Parsed(uw.load(tmp_path / "model.uw")._repr_html_())
    assert f"x.npy, {model.schema.size} of 1 x 8 x 8" in page.text
    assert "Traversals from the prior's mean" in page.text
    assert page.tags.count("img") == 3
    assert "Traversals from one observation" in Parsed(model._repr_html_()).text


@pytest.mark.parametrize("shape", [(30, 5), (30, 1), (30, 6, 6, 3)])
def test_models_of_other_data_are_shown_too(shape):
    x = np.random.default_rng(0).random(shape).astype(np.float32)
    likelihood = uw.likelihoods.Gaussian(0.5)
    model = uw.fit(x, latent=uw.Gaussian(2), likelihood=likelihood, **FIELDS)
    page = Parsed(model._repr_html_())
    assert ("img" in page.tags) == (len(shape) == 4)


def test_scores_are_tables():
    score = Score("mig", "chen2018", 0.25, {NASTY: 0.1}, interval=(0.2, 0.3), null=0.01)
    for shown in (score, Scores({score.key: score})):
        page = Parsed(shown._repr_html_())
        assert "mig/chen2018" in page.text
        assert "0.2500" in page.text
        assert "script" not in page.tags
    assert Parsed(score._repr_html_()).tags.count("table") == 2
    assert NASTY in Parsed(score._repr_html_()).text


def test_a_table_shows_its_first_rows_under_their_names():
    table = Table(np.eye(8), np.arange(16).reshape(8, 2) % 4, factor_names=("shape", NASTY))
    page = Parsed(table._repr_html_())
    assert page.tags.count("tr") == 1 + 5
    assert all(text in page.text for text in ("code 0", "shape", NASTY, "1.000"))
    assert "script" not in page.tags
    assert "8 rows" in page.text


def test_a_run_marks_what_differs_from_the_defaults():
    page = uw.Run(seed=3, data=uw.Arrays(f"/tmp/{NASTY}.npz"))._repr_html_()
    assert "<b>3</b>" in page
    assert "<b>64</b>" not in page
    assert "script" not in Parsed(page).tags
    assert NASTY in Parsed(page).text


def test_a_sparkline_reaches_both_ends_of_its_span():
    ys = [float(y) for y in re.findall(r",([\d.]+)", str(sparkline([0.0, 1.0, 0.5], 100, 20)))]
    assert ys == [18.0, 2.0, 10.0]
    assert "nan" not in sparkline([1.0, 1.0])


@pytest.mark.parametrize("odd", [np.nan, np.inf, -np.inf, 1e308, -1e308])
def test_a_sparkline_has_gaps_where_values_are_not_finite(odd):
    """One such value used to make all coordinates NaN."""
    for values in ([odd], [1.0, odd, 2.0, 3.0, -odd], [odd, 1e308, -1e308]):
        drawn = str(sparkline(values, 100, 20))
        (path,) = re.findall(r' d="([^"]*)"', drawn)
        places = [tuple(map(float, p.split(","))) for p in re.split("[ML]", path)[1:]]
        assert all(0 <= x <= 100 and 2 <= y <= 18 for x, y in places) or path == "M0,0"
        assert len(places) == max(1, np.isfinite(values).sum())


def test_odd_numbers_and_names_in_a_log_are_shown_as_they_are():
    model = uw.fit(SMALL, latent=uw.Gaussian(3), **FIELDS)
    name = "rate\x1b[31m\u202e" + NASTY
    model.log[:] = [row | {name: np.nan} for row in model.log]
    model.log[-1].update(loss=np.inf, distortion=1e308)
    page = Parsed(text := model._repr_html_())
    assert "\\x1b[31m\\u202e<script>" in page.text
    assert not {"\x1b", "\u202e"} & set(text)
    assert page.text.count("not finite") == 2
    assert not re.search(r'd="[^"]*(nan|inf)', text)


@pytest.mark.parametrize("shape", [(30, 5), (30, 6, 6, 3)])
def test_traversals_that_overflow_are_shown(shape, monkeypatch):
    x = np.random.default_rng(0).random(shape).astype(np.float32)
    fields = FIELDS | {"latent": uw.Gaussian(2), "likelihood": uw.likelihoods.Gaussian(0.5)}
    model, traverse = uw.fit(x, **fields), uw.FittedModel.traverse

    def overflowing(*given, **named):
        decoded = [each.copy() for each in traverse(*given, **named)]
        decoded[0].flat[:3] = np.nan, np.inf, -np.inf
        return decoded

    monkeypatch.setattr(uw.FittedModel, "traverse", overflowing)
    page = Parsed(model._repr_html_())
    assert page.tags.count("img" if len(shape) == 4 else "path") >= 2
