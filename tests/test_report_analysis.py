"""The numbers, traversals and curves that a report shows."""

import copy
import dataclasses
import itertools
import math
import re
import warnings

import numpy as np
import pytest

import unweave as uw
from report_pages import Page, analysed, discs, lattice_model, mixed_model, quick, rendered
from unweave.evaluation.compare import _active
from unweave.metrics import FewRowsWarning, metric
from unweave.report import (
    analysis,
    charts,
    figures,
    pictures,
    render,
    summary,
    traversals,
)
from unweave.report.text import number, typeset
from unweave.report.verdict import verdict

pytestmark = [
    pytest.mark.filterwarnings("ignore::unweave.metrics.FewRowsWarning"),  # of small datasets
    pytest.mark.usefixtures("quick_scores"),
]


@pytest.fixture
def lattice():
    return lattice_model()


@pytest.fixture
def mixed():
    return mixed_model()


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


def test_an_outlier_does_not_flatten_the_marginals(mixed):
    found = analysed(mixed)
    samples = np.concatenate([found.samples] * 20)
    samples[0] = 1_000
    spans = figures._spans(dataclasses.replace(found, samples=samples))
    assert spans
    assert max(high for _, high in spans.values()) < 20


def with_shares(found, values, chance):
    """The same analysis, as if variables had these shares of the factors."""
    shares = found.shares._replace(values=np.array(values), chance=np.array(chance))
    return dataclasses.replace(found, shares=shares)


def test_the_response_of_a_discrete_variable_has_a_dot_per_class(mixed, monkeypatch):
    monkeypatch.setattr(analysis, "LEAST_INFORMATION", -1.0)  # draw every variable
    found = analysed(mixed)
    number = mixed.run.latent.names.index("what.shape")
    values = np.where(np.arange(len(found.shares.values)) == number, 0.9, 0.1)[:, None]
    count = len(found.factors)
    changed = with_shares(found, np.repeat(values, count, 1), np.zeros(count))
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
        assert shares == sorted(found.shares.values[:, k].tolist(), reverse=True)[:2]
    assert all(variable.mismatch >= 0 for variable in found.variables)


def test_a_variable_names_the_factor_it_explains_most_even_if_another_is_further_above_chance(
    lattice,
):
    found = analysed(lattice)
    rows = np.tile([0.36, 0.24, 0.0, 0.0], (len(found.variables), 1))
    above = with_shares(found, rows, [0.3, 0.02, 0.02, 0.02])
    assert {(v.factor, v.share, v.above_chance) for v in above.variables} == {("shape", 0.36, True)}
    below = with_shares(found, rows, [0.4, 0.02, 0.02, 0.02])
    assert {(v.factor, v.above_chance) for v in below.variables} == {("shape", False)}


def test_factors_at_chance_are_grey_and_say_whether_the_rows_can_tell(lattice):
    found = analysed(lattice)
    rows = np.full((len(found.variables), 4), 0.1)
    chance = with_shares(found, rows, [0.1, 0.15, 0.3, 0.05])
    said = [each.at_chance for each in chance.best_variables]
    assert said == ["no variable above chance"] * 2 + ["cannot tell with 144 rows", ""]
    for panel, text in zip(figures.responses(chance), said, strict=True):
        assert text in panel.remark


def test_the_rule_of_chance_is_said_once_and_decides_what_is_blue(lattice):
    page = rendered(lattice)
    assert page.words.count("A share is above chance if") == 1
    assert "grey if" not in page.words
    of_scores = "standard deviations above shuffled factors"
    assert "standard deviations above" not in page.words.replace(of_scores, "")
    found = analysed(lattice)
    blue, starts = sum(v.above_chance for v in found.shown), len(found.starts())
    assert page.source.count('class="factor"') == starts * blue
    assert page.source.count('class="factor weak"') == starts * (len(found.shown) - blue)


def test_a_reason_shared_by_all_scores_is_stated_once_and_counts_are_explained(lattice):
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
        {
            "step": 15,
            "terms": {"rate": 3.0, "total_correlation": 0.4},
            "metrics": {"total_correlation": 0.5, "information/0": 0.5},
        },
    ]
    try:
        panels = figures.measured_curves(analysed(lattice))
        with_measures = rendered(lattice).words
    finally:
        lattice.measures = []
    assert [(panel.title, "nats" in panel.remark) for panel in panels] == [
        ("measured rate", True),
        ("measured MIG · chen2018", False),
        ("measured total correlation, by the objective", True),
        ("exact total correlation", True),
        ("exact information · 0", True),
    ]
    assert "Measured during training" in with_measures
    assert "Measured during training" not in rendered(lattice).words


BAD = (math.nan, math.inf, -math.inf, 1e308, -1e308)


def spoilt(row, place):
    """A row of numbers of which some, or all, are not finite or huge."""
    wrong = itertools.cycle(BAD[place % 5 :] + BAD[: place % 5])
    return {name: value if name == "step" else next(wrong) for name, value in row.items()}


@pytest.mark.parametrize("every", [False, True])
def test_values_that_are_not_finite_leave_gaps_and_are_counted(lattice, every):
    model = copy.copy(lattice)
    pairs = list(enumerate(lattice.log))
    model.log = [spoilt(row, n) if every or n % 3 == 1 else row for n, row in pairs]
    model.measures = [
        {"step": row["step"], "terms": {"rate": row["rate"]}, "validation": row | {"r2": math.nan}}
        for row in model.log
    ]
    found = dataclasses.replace(analysed(lattice), model=model)
    logged = figures.log_curves(found)
    for panel in [*logged, *figures.measured_curves(found)]:
        assert not re.search(r"nan|inf[^o]", str(panel.drawing))
        assert 'd=""' not in panel.drawing
    counted = sum(len(row) - 1 for row in model.log if not math.isfinite(sum(row.values())))
    remarks = " ".join(str(panel.remark) for panel in logged)
    assert counted
    assert remarks.count("not finite") >= len(lattice.log[0]) - 1
    assert max(map(len, re.findall(r"[\d,.]+", remarks))) < 12
    drawn = sum(panel.drawing.count("L") for panel in logged)
    assert drawn > 100
    assert all(tile.value for tile in summary.tiles(found))


def largest_code(inputs):
    """Compute the largest code."""
    return float(inputs.codes.max())


def test_the_score_of_an_own_metric_is_among_those_that_read_factors(lattice):
    """It was listed as one that needs no factors."""
    metrics = ["mig", metric(largest_code), "total_correlation"]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FewRowsWarning)
        found = analysis.analyse(lattice, 200, uw.evaluate(lattice, 200, metrics=metrics))
    assert list(found.scores) == ["mig/locatello2019", "mig/chen2018", "largest_code"]
    assert "total_correlation/exact" in found.unsupervised
    assert "largest code" in [row.name for row in summary.score_rows(found)]


@pytest.mark.parametrize("value", BAD)
def test_a_score_that_is_not_finite_is_no_evidence(lattice, value):
    found = analysed(lattice)
    scores = {
        key: dataclasses.replace(score, value=value, null=value, parts={"x": value})
        for key, score in found.scores.items()
    }
    rows = summary.score_rows(dataclasses.replace(found, scores=scores))
    assert all(row.unjudged for row in rows)


def test_a_chart_without_a_finite_value_is_empty_and_says_so():
    panel = figures._curve("rate", [{"step": 0, "rate": math.nan}], "nats")
    assert "not finite" in panel.remark
    assert charts.ticks(charts.padded_range([1e308, -1e308]))


def test_the_low_end_of_a_traversal_is_blue_as_in_the_explorer(lattice):
    page = rendered(lattice).source
    first, last = (page.partition(f".ramp.r{n} {{ --c: rgb(var(--")[2][:6] for n in (0, 10))
    assert (first, last) == ("blue))", "orange")


def test_ticks_differ_and_fit_beside_the_plot():
    for span in ((0.99175, 0.99245), (0, 3.4e11), (-2.1e-7, 3e-7), (1e6, 1e6 + 3)):
        texts = list(charts.ticks(span).values())
        assert len(set(texts)) == len(texts) > 1
        drawing = charts.Plot((0, 1), span).draw([], "", {}, charts.ticks(span))
        left = min(
            float(re.search(r'x="([\d.]+)"', tick)[1]) - 6 * len(tick.partition(">")[2])
            for tick in drawing.split("<text ")[1:]
            for tick in [tick.partition("</text>")[0]]
        )
        assert left >= 0


def test_traversals_that_do_not_cover_the_codes_are_in_the_verdict(lattice):
    found = analysed(lattice)
    assert found.uncovered() == []
    narrow = [values / 100 for values in found.traversal_values]
    far = dataclasses.replace(found, traversal_values=narrow)
    assert {v.name for v, _ in far.uncovered()} == {v.name for v in found.active}
    assert any("do not cover the data" in text for text in verdict(far).sentences)
    assert not any("do not cover the data" in text for text in verdict(found).sentences)


def first_rows(table, count):
    return uw.metrics.Table(
        table.codes[:count],
        table.factors[:count],
        scales=table.scales[:count],
        kl=table.kl,
        factor_names=table.factor_names,
    )


def test_the_verdict_begins_with_what_limits_the_evidence(lattice):
    found = analysed(lattice)
    share = found.explained._replace(held_out=False, r2=0.9)
    few = dataclasses.replace(found, table=first_rows(found.table, 30), explained=share)
    said = verdict(few)
    assert said.sentences[0].startswith(
        "The evidence is limited: these are only 30 observations, and none was held out"
    )
    assert said.headline.endswith("of the variance of data that the model was trained on")
    many = verdict(dataclasses.replace(found, explained=share))
    assert many.sentences[0].startswith(
        "The evidence is limited: no observation was held out, so nothing here shows"
    )
    held_out = dataclasses.replace(found, explained=found.explained._replace(held_out=True))
    assert not any("limited" in text for text in verdict(held_out).sentences)


def test_metrics_left_out_for_one_reason_share_a_line(lattice):
    found = analysed(lattice)
    reasons = {"a/x": "the factor conc is continuous", "b/x": "the factor conc is continuous"}
    changed = dataclasses.replace(found, left_out=reasons | {"c/x": "other"})
    assert summary.left_out_metrics(changed) == {
        "the factor conc is continuous": ["a/x", "b/x"],
        "other": ["c/x"],
    }


def test_the_report_and_the_comparison_count_the_same_active_variables(lattice):
    found = analysed(lattice)
    assert sorted(v.number for v in found.active) == np.flatnonzero(_active(found.table)).tolist()
    others = rendered(lattice).words.partition("The summary counts ")[2]
    assert others.startswith(f"{len(found.active)} active variables")
