"""Comparing runs: groups, intervals, the best group, and latents matched across seeds."""

import csv
import io
import itertools
import json
import re
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

import unweave as uw
from compared_runs import codes, compared
from datasets import SMALL
from unweave.core.intervals import holm, mean_interval, welch_interval, welch_p
from unweave.evaluation.compare import compare_runs
from unweave.evaluation.comparison_text import agreement_text, comparison_text
from unweave.evaluation.shared_latents import shared_latents
from unweave.metrics import Table
from unweave.report import render_comparison
from unweave.report.compare import _curves_of, _on_common_steps
from unweave.training.flat_settings import differing, flatten
from unweave.training.run import Run

FIELDS = dict(network=uw.MLP((8,)), latent=uw.Gaussian(3), batch_size=16, steps=6, progress=False)


# ---- intervals


def test_intervals_equal_those_of_scipy():
    a, b = [0.2, 0.5, 0.3, 0.7], [0.1, 0.15, 0.4]
    expected = stats.t(3, np.mean(a), stats.sem(a)).interval(0.9)
    assert mean_interval(a, 0.9) == pytest.approx((np.mean(a), *expected))
    welch = stats.ttest_ind(a, b, equal_var=False).confidence_interval(0.95)
    assert welch_interval(a, b) == pytest.approx((np.mean(a) - np.mean(b), *welch))
    assert welch_interval([1.0], b)[1:] == (None, None)
    assert welch_interval([1.0, 1.0], [0.5, 0.5]) == (0.5, 0.5, 0.5)


def test_intervals_of_three_seeds_cover_the_mean_as_often_as_they_say():
    """A percentile bootstrap of three values is their range, which covers in 1 - 2/8 of cases."""
    values = np.random.default_rng(0).standard_normal((2000, 3))
    ends = np.array([mean_interval(row)[1:] for row in values])
    assert np.mean((ends[:, 0] < 0) & (ends[:, 1] > 0)) == pytest.approx(0.95, abs=0.015)
    assert np.mean((values.min(1) < 0) & (values.max(1) > 0)) == pytest.approx(0.75, abs=0.03)


def test_equal_values_of_all_seeds_are_not_shown_as_exact():
    runs = [compared(1.0, seed, 0.25) for seed in range(3)]
    runs += [compared(4.0, seed, 0.25 + 0.1 * seed) for seed in range(3)]
    text = str(compare_runs([*runs, compared(8.0, 0, 0.5)]))
    (row,) = re.findall(r"^ mig/chen2018 +(.*)", text, re.MULTILINE)
    assert re.split("  +", row) == ["0.250 (equal)", "0.350 ± 0.248", "0.500"]
    assert "(equal): equal in all seeds" in text
    assert "± 0.000" not in text


# ---- settings


def test_settings_that_tell_runs_apart():
    runs = [
        Run(objective=uw.BetaVAE(beta=1)),
        Run(objective=uw.BetaVAE(beta=4), seed=3),
        Run(objective=uw.FactorVAE()),
    ]
    every = [flatten(json.loads(json.dumps(uw.core.spec.to_json(run)))) for run in runs]
    assert differing(every) == ["objective", "objective.beta"]
    assert differing(every[:2]) == ["objective.beta"]
    assert differing([each | {"seed": n} for n, each in enumerate(every[:1] * 3)]) == []
    named = [{"latent.style.size": 2}, {"latent.place.size": 2}]  # told apart by names alone
    assert differing(named) == ["latent.style.size", "latent.place.size"]


# ---- groups and the best of them


def test_groups_have_means_over_seeds_and_the_best_is_named():
    low, high = [0.10, 0.12, 0.11], [0.30, 0.36, 0.33]
    runs = [compared(4.0, seed, mig, distortion=2.0 + seed) for seed, mig in enumerate(high)]
    runs += [compared(1.0, seed, mig, distortion=1.5 + seed) for seed, mig in enumerate(low)]
    (section,) = compare_runs(runs).sections
    one, four = section.groups
    assert section.settings == ("objective.beta",)
    assert (one.name, one.settings, four.settings) == (
        "A",
        {"objective.beta": 1.0},
        {"objective.beta": 4.0},
    )
    assert [run.run.seed for run in one.runs] == [0, 1, 2]
    assert one.estimate("mig/chen2018", 0.95) == pytest.approx(mean_interval(low))
    assert four.values("terms/distortion") == [2.0, 3.0, 4.0]  # at the end of the log
    by_quantity = {each.quantity: each for each in section.contrasts}
    # A rate is neither good nor bad.
    assert set(by_quantity) == {"terms/distortion", "mig/chen2018"}
    mig = by_quantity["mig/chen2018"]
    assert (mig.best, mig.second, mig.distinguishable) == (four, one, True)
    assert mig.difference == pytest.approx(welch_interval(high, low))
    distortion = by_quantity["terms/distortion"]  # the lower the better
    assert (distortion.best, distortion.second, distortion.distinguishable) == (one, four, False)
    assert distortion.difference.value == pytest.approx(-0.5)


def test_all_pairs_of_groups_are_compared_with_corrected_p_values():
    values = {1.0: [0.10, 0.12, 0.11], 2.0: [0.12, 0.16, 0.13], 4.0: [0.30, 0.36, 0.33]}
    runs = [
        compared(beta, seed, mig) for beta, own in values.items() for seed, mig in enumerate(own)
    ]
    comparison = compare_runs([*runs, compared(8.0, 0, 0.5)])
    (pairs,) = comparison.pairwise().values()
    own = {(p.group.name, p.other.name): p for p in pairs if p.quantity == "mig/chen2018"}
    assert list(own) == list(itertools.combinations("ABCD", 2))
    assert own["A", "D"].p is None  # one seed
    names, groups = (
        [("A", "B"), ("A", "C"), ("B", "C")],
        dict(zip("ABC", values.values(), strict=True)),
    )
    expected = [stats.ttest_ind(groups[a], groups[b], equal_var=False) for a, b in names]
    for name, test in zip(names, expected, strict=True):
        assert own[name].p == pytest.approx(test.pvalue)
        ends = test.confidence_interval(0.95)
        assert own[name].difference[1:] == pytest.approx((ends.low, ends.high))
    ranked = sorted(names, key=lambda name: own[name].p)
    corrected = np.maximum.accumulate([(3 - n) * own[name].p for n, name in enumerate(ranked)])
    assert [own[name].p_holm for name in ranked] == pytest.approx(np.minimum(corrected, 1.0))
    lines = list(csv.DictReader(io.StringIO(comparison.pairwise_csv())))
    assert len(lines) == len(pairs)
    assert float(lines[-2]["difference"]) == pytest.approx(pairs[-2].difference.value)
    assert "pairwise" not in comparison.to_json()["sections"][0]  # n groups have n^2 / 2 pairs
    (section,) = comparison.to_json(pairwise=True)["sections"]
    assert [each["p_holm"] for each in section["pairwise"]] == [each.p_holm for each in pairs]
    text = comparison_text(comparison, pairwise=True)
    assert f"A - C   {own['A', 'C'].difference.value:+.3f}" in text
    assert f"{own['A', 'C'].p_holm:.3g}" in text
    assert max(map(len, text.splitlines())) <= 80


def test_seeds_that_differ_by_rounding_are_equal_and_no_evidence():
    values = {1.0: [0.3, 0.1 + 0.2], 4.0: [0.31, 0.31]}
    runs = [
        compared(beta, seed, mig) for beta, own in values.items() for seed, mig in enumerate(own)
    ]
    comparison = compare_runs(runs)
    (pair,) = [p for p in comparison.sections[0].pairwise() if p.quantity == "mig/chen2018"]
    assert (pair.p, pair.p_holm) == (None, None)
    assert "0.300 (equal)" in str(comparison)


@pytest.mark.parametrize("scale", [1e-100, 1e100, 1e149])
def test_intervals_of_tiny_and_huge_values_are_those_of_others_times_a_factor(scale):
    a, b = np.array([0.10, 0.12, 0.11]), np.array([0.30, 0.36, 0.33, 0.31])
    assert np.divide(welch_interval(scale * a, scale * b), scale) == pytest.approx(
        welch_interval(a, b)
    )
    if scale > 1:
        assert welch_p(scale * a, scale * b) == pytest.approx(welch_p(a, b))


def test_corrected_p_values_reject_a_true_hypothesis_as_rarely_as_they_say():
    draws = np.random.default_rng(0).uniform(size=(2000, 5))
    assert np.mean([min(holm(row)) < 0.1 for row in draws]) == pytest.approx(0.1, abs=0.02)


def test_groups_of_different_length_and_intervals_beyond_the_range_are_noted():
    runs = [
        compared(beta, seed, mig) for beta in (1.0, 4.0) for seed, mig in enumerate([0.9, 0.99])
    ]
    comparison = compare_runs(runs)
    assert sum("may leave this range" in note for note in comparison.notes) == 1
    measured = [
        replace(run, scores={}, measures=[{"step": 20, "metrics": {key: s.value}}])
        for run in runs
        for key, s in run.scores.items()
    ]
    assert sum("may leave this range" in note for note in compare_runs(measured).notes) == 1
    assert not [note for note in comparison.notes if "steps" in note]
    longer = [replace(run, run=replace(run.run, steps=10)) for run in runs[:2]]
    (note,) = [each for each in compare_runs([*longer, *runs[2:]]).notes if "steps" in each]
    assert "different numbers of steps (10, 20)" in note


def test_text_csv_and_json_tell_the_same_and_text_fits_80_columns():
    runs = [
        compared(beta, seed, 0.1 * beta + 0.01 * seed, table=codes(seed))
        for beta, seed in itertools.product((0.5, 1.0, 2.0, 4.0, 8.0), range(3))
    ]
    runs.append(compared(16.0, 0, None))
    comparison = compare_runs(runs)
    text = str(comparison)
    assert max(map(len, text.splitlines())) <= 80
    assert "mig/chen2018: E is better than D (+0.400 [+0.377, +0.423])" in text
    assert "terms/distortion: A and B are equal" in text
    assert "1 of 16 runs have no stored scores" in " ".join(text.split())
    rows = list(csv.DictReader(io.StringIO(comparison.to_csv())))
    mean = {row["objective.beta"]: row for row in rows if row["quantity"] == "mig/chen2018"}
    assert float(mean["4.0"]["mean"]) == pytest.approx(0.41)
    assert float(mean["4.0"]["low"]) == pytest.approx(mean_interval([0.4, 0.41, 0.42]).low)
    assert (mean["4.0"]["seeds"], list(mean)) == ("3", ["0.5", "1.0", "2.0", "4.0", "8.0"])
    content = json.loads(json.dumps(comparison.to_json()))
    group = content["sections"][0]["groups"][3]
    assert group["means"]["mig/chen2018"]["value"] == pytest.approx(0.41)
    assert [run["seed"] for run in group["runs"]] == [0, 1, 2]
    assert content["sections"][0]["best"][1]["best"] == "E"
    html = comparison._repr_html_()
    assert "<table" in html
    assert "0.410 ± 0.025" in html


def test_one_seed_gives_no_verdict():
    comparison = compare_runs([compared(1.0, 0, 0.1), compared(4.0, 0, 0.9)])
    (mig,) = [c for c in comparison.sections[0].contrasts if c.quantity == "mig/chen2018"]
    assert mig.distinguishable is None
    text = " ".join(str(comparison).split())
    assert "mig/chen2018: no evidence that B is better than A (+0.800, and one seed gives" in text
    assert "every group has a single seed" in " ".join(str(comparison).split())


def test_runs_on_different_data_are_never_pooled_and_copies_count_once():
    other = replace(SMALL, positions=4)
    runs = [compared(1.0, seed, 0.2, data=SMALL) for seed in range(2)]
    runs += [replace(compared(1.0, s, 0.8, data=other), data="other") for s in range(2)]
    comparison = compare_runs([*runs, runs[0]])
    assert [len(s.groups[0].runs) for s in comparison.sections] == [2, 2]
    assert [s.groups[0].estimate("mig/chen2018", 0.95).value for s in comparison.sections] == [
        0.2,
        0.8,
    ]
    assert not comparison.sections[0].contrasts
    text = " ".join(str(comparison).split())
    assert "2 different datasets" in text
    assert "1 of the runs is a copy of others" in text
    with pytest.raises(ValueError, match="at least two different finished runs"):
        compare_runs([runs[0], runs[0]])
    changed = replace(runs[1], data="shapes2d, changed since")  # one spec, other content
    assert len(compare_runs([runs[0], changed]).sections) == 2


def test_held_out_losses_are_compared():
    runs = []
    for beta, seed in itertools.product((1.0, 4.0), range(2)):
        rows = [{"step": s, "validation": {"distortion": 9 / s + beta, "rate": 1.0, "r2": None if s
                < 20 else 0.9 - 0.1 * beta + 0.01 * seed}} for s in (10, 20)]  # fmt: skip
        runs.append(replace(compared(beta, seed, 0.1), measures=rows))
    comparison = compare_runs(runs)
    (section,) = comparison.sections
    by_quantity = {each.quantity: each for each in section.contrasts}
    assert section.groups[0].values("validation/r2") == pytest.approx([0.8, 0.81])
    assert by_quantity["validation/r2"].best.settings == {"objective.beta": 1.0}
    assert by_quantity["validation/distortion"].difference.value == pytest.approx(-3.0)
    assert "validation" in render_comparison(comparison)


def test_terms_and_metrics_of_one_name_are_different_curves():
    both = {"terms": {"total_correlation": 1.0}, "metrics": {"total_correlation": 2.0}}
    assert _curves_of([{"step": 5, "total_correlation": 3.0}], [{"step": 5, **both}]) == {
        "total_correlation": ([5], [3.0]),
        "terms/total_correlation": ([5], [1.0]),
        "metrics/total_correlation": ([5], [2.0]),
    }


def test_the_page_of_one_group_begins_with_what_the_seeds_agree_on():
    rng = np.random.default_rng(0)
    z = rng.standard_normal((200, 4))
    own = rng.standard_normal((3, 200))
    runs = [
        compared(
            1.0,
            seed,
            None,
            table=Table(
                np.stack([z[:, 0], z[:, 1] if seed < 2 else z[:, 2], own[seed]], 1),
                np.zeros((200, 0)),
                kl=np.full(3, 2.0),
            ),
        )
        for seed in range(3)
    ]
    comparison = compare_runs(runs)
    (group,) = comparison.sections[0].groups
    said = "the 3 seeds agree on 1 of 6 latents (1 more in several seeds, 4 in one seed only)"
    assert agreement_text(group) == said
    assert said in " ".join(str(comparison).split())
    page = render_comparison(comparison)
    assert page.index("The 3 seeds agree on 1 of 6") < page.index("Latents across seeds")
    assert page.index("Latents across seeds</h2>") < page.index("Quantities</h2>")
    assert page.index("Training</h2>") < page.index("no scores are stored")
    for left_out in ("Seed by seed", "Groups</h2>", "distortion by group"):
        assert left_out not in page
        several = [*runs, compared(2.0, 0, None, table=runs[0].table)]
        assert left_out in render_comparison(compare_runs(several))


def beginning(runs):
    """The level and the headline of the verdict on each dataset of a page."""
    page = render_comparison(compare_runs(runs))
    return re.findall(r'class="verdict (\w+)">\s*<p class="headline">(.*?)\.</p>', page)


def agreeing(count, beta=1.0, seeds=3):
    """Runs of three latents each, which have some in common."""
    common, rng = codes(0).codes[:, :count], np.random.default_rng(1)
    own = rng.standard_normal((seeds, len(common), 3 - count))
    tables = [Table(np.hstack([common, z]), np.zeros((len(z), 0)), kl=np.ones(3)) for z in own]
    return [compared(beta, seed, None, table=table) for seed, table in enumerate(tables)]


def test_the_page_is_coloured_by_how_many_latents_the_seeds_agree_on():
    found = [beginning(agreeing(count)) for count in range(4)]
    assert [[level for level, _ in each] for each in found] == [
        ["bad"],
        ["weak"],
        ["good"],
        ["good"],
    ]
    for ((_, text),), said in zip(found, ("0 of 9", "1 of 7", "2 of 5", "3 of 3"), strict=True):
        assert f"The 3 seeds agree on {said} latents" in text
    off = Table(np.zeros((100, 3)), np.zeros((100, 0)), kl=np.zeros(3))
    assert beginning([compared(1.0, seed, None, table=off) for seed in range(3)]) == [
        ("bad", "No latent carries information about the data")
    ]
    ((level, _),) = beginning([*agreeing(3), *agreeing(0, beta=4.0)])
    assert level == "weak"
    other = [replace(run, data="other") for run in agreeing(0)]
    assert [level for level, _ in beginning([*agreeing(3), *other])] == ["good", "bad"]


def test_the_page_does_not_judge_groups_that_cannot_be_compared():
    one = [compared(beta, 0, mig) for beta, mig in ((1.0, 0.1), (4.0, 0.9))]
    assert beginning(one) == [("weak", "One seed per group: nothing can be told apart")]
    three = [compared(1.0, seed, 0.1 + 0.01 * seed, distortion=seed) for seed in range(3)]
    assert beginning([*three, one[1]]) == [
        ("weak", "Each comparison involves a group of one seed: nothing can be told apart")
    ]
    again = [compared(4.0, seed, 0.11 + 0.02 * seed, distortion=seed) for seed in range(3)]
    assert beginning([*three, *again]) == [
        ("weak", "No group is distinguishably better than the second best by any score")
    ]
    better = [compared(4.0, seed, 0.9 + 0.01 * seed, distortion=seed) for seed in range(3)]
    ((level, text),) = beginning([*three, *better])
    assert (level, text.startswith("mig/chen2018: B is better than A (+0.8")) == ("good", True)
    rates = [replace(run, scores={}, log=[{"step": 20, "rate": 2.0}]) for run in [*three, *again]]
    assert beginning(rates) == [
        ("weak", "The groups have no score in common by which one could be better")
    ]


def test_runs_that_are_not_finished_are_left_out():
    stopped = compared(1.0, 5, 0.9)
    stopped = replace(stopped, log=stopped.log[:1])
    comparison = compare_runs([compared(1.0, 0, 0.1), compared(1.0, 1, 0.2), stopped])
    assert [run.run.seed for run in comparison.sections[0].groups[0].runs] == [0, 1]
    assert f"left out, because their training has not finished: {stopped.name}" in comparison.notes


def test_the_band_of_a_curve_is_over_all_runs_of_a_group_whatever_steps_they_logged():
    rows = {
        0: [{"step": s, "rate": 1.0 * s} for s in (5, 10, 15, 20)],
        1: [{"step": s, "rate": 3.0 * s} for s in (10, 20)],
        2: [{"step": 20, "rate": 5.0}],
    }
    for seeds, expected in (((0, 1), [2 * s for s in (10, 15, 20)]), ((0, 1, 2), [85 / 3])):
        curves = [_curves_of(rows[seed], ())["rate"] for seed in seeds]
        steps, values = _on_common_steps(curves)
        assert len(values) == len(seeds)
        assert steps[-1] == 20
        assert values.mean(0) == pytest.approx(expected)
    runs = [replace(compared(1.0, seed, 0.1), log=own) for seed, own in rows.items()]
    assert "rate over training steps" in render_comparison(compare_runs(runs))
    apart = [([5.0], [1.0]), ([10.0], [2.0])]  # no step is covered by both
    assert _on_common_steps(apart)[1].shape == (2, 0)
    runs = [replace(runs[n], log=[{"step": 20 + n, "rate": 1.0}]) for n in range(2)]
    assert "rate over training steps" in render_comparison(compare_runs(runs))


# ---- latents


def test_latents_are_matched_through_permutations_and_signs():
    rng = np.random.default_rng(0)
    z = rng.standard_normal((1000, 4))
    orders = [[0, 1, 2], [2, 0, 1], [3, 1, 0]]  # the last model found 3 instead of 2
    signs = [[1, 1, 1], [-1, 1, -1], [1, -1, 1]]
    models = [z[:, o] * s for o, s in zip(orders, signs, strict=True)]
    names = [[f"m{m}.{k}" for k in o] for m, o in enumerate(orders)]
    found = shared_latents(models, names)
    by_source = {each.latent[-1]: each for each in found}
    assert {k: each.found_by for k, each in by_source.items()} == {
        "0": [0, 1, 2],
        "1": [0, 1, 2],
        "2": [0, 1],
        "3": [2],
    }
    assert len(found) == 4  # every latent of every model is in one row
    for source, each in by_source.items():
        for model, match in each.matches.items():
            if match.same:
                assert match.latent == f"m{model}.{source}"
                sign = signs[0][orders[0].index(int(source))]
                other = signs[model][orders[model].index(int(source))]
                assert match.correlation == pytest.approx(sign * other)


def test_udr_of_a_group_is_that_of_the_metric_and_inactive_latents_are_left_out():
    tables = [codes(seed) for seed in range(3)]
    tables[1] = replace(tables[1], kl=np.array([1.0, 0.001, 1.0]))
    runs = [compared(1.0, seed, 0.1, table=tables[seed]) for seed in range(3)]
    (group,) = compare_runs(runs).sections[0].groups
    expected = uw.metrics.udr([t.codes for t in tables], kl=[t.kl for t in tables])
    values = [score.value for score in group.udr]  # in the order of the runs, not of the scores
    assert values == pytest.approx([score.value for score in expected])
    assert values != sorted(values, reverse=True)
    assert [run.run.seed for run in group.encoded] == [run.run.seed for run in group.runs]
    assert sorted(len(each.found_by) for each in group.latents) == [2, 3, 3]
    # The run that agrees most with the others comes first, and matches keep their seeds.
    assert values[group.latents[0].model] == max(values)
    for each in group.latents:
        assert each.model not in each.matches
        own = tables[each.model].codes[:, int(each.latent[-1])]
        for model, match in each.matches.items():
            other = tables[model].codes[:, int(match.latent[-1])]
            assert np.corrcoef(own, other)[0, 1] == pytest.approx(match.correlation)


def test_latents_whose_posteriors_are_all_alike_are_not_listed():
    """A KL above 0.02 nats says nothing if all posteriors are equal but differ from the prior."""
    rng = np.random.default_rng(0)
    scales, kl = np.full((400, 2), 0.5), np.array([0.8, 0.5])
    runs = []
    for seed in range(3):
        z = codes(0).codes[:, :1], 1 + 0.01 * rng.standard_normal((400, 1))
        table = Table(np.hstack(z), np.zeros((400, 0)), scales=scales, kl=kl)
        run = compared(1.0, seed, 0.3, table=table)
        runs.append(replace(run, run=replace(run.run, latent=uw.Gaussian(2))))
    (group,) = compare_runs(runs).sections[0].groups
    assert [(each.latent, len(each.found_by)) for each in group.latents] == [("0", 3)]


def test_a_page_about_models_asks_for_their_comparison(tmp_path):
    with pytest.raises(TypeError, match=r"expected a comparison, got a list: pass uw.compare"):
        uw.write_comparison([], tmp_path / "page.html")
