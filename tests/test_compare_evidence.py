"""Tests of the claims of a comparison: which scores are evidence, and which groups are better."""

import dataclasses
import itertools
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from compared_runs import codes, compared
from unweave.core.intervals import mean_interval, welch_interval
from unweave.evaluation.compare import compare_runs
from unweave.metrics import Score, Table
from unweave.report import render_comparison


def test_scores_that_are_no_evidence_are_named_before_anything_else():
    reason = {"no evidence": "only one factor can be scored"}
    score = Score("mig", "chen2018", 1.0, details=reason)
    runs = [
        dataclasses.replace(compared(4.0, seed, 1.0), scores={"mig/chen2018": score})
        for seed in range(2)
    ]
    note, *_ = compare_runs(runs).notes
    assert note.endswith("no evidence: only one factor can be scored (mig/chen2018 in 2 of 2 runs)")


def test_scores_that_prove_nothing_are_apart_and_not_compared():
    """With one factor they stood among the others, and groups were called best by them."""
    why = {"no evidence": "only one factor can be scored"}
    runs = []
    for beta, seed in itertools.product((1.0, 4.0), range(3)):
        run = compared(beta, seed, 0.1 * beta + 0.01 * seed)
        value, components = beta / 4 + 0.01 * seed, {"completeness": 0.5}
        dci = Score("dci", "eastwood2018", value, details=why, components=components)
        runs.append(replace(run, scores=run.scores | {dci.key: dci}))
    comparison = compare_runs(runs)
    (section,) = comparison.sections
    unproven = {
        "only one factor can be scored": ["dci/eastwood2018", "dci/eastwood2018 completeness"]
    }
    assert section.no_evidence == comparison.to_json()["sections"][0]["no_evidence"] == unproven
    assert section.proven == ["terms/distortion", "terms/rate", "mig/chen2018"]
    text = str(comparison)
    table, _, rest = text.partition("No evidence: only one factor can be scored:\n")
    assert "mig/chen2018" in table
    assert "dci/eastwood2018" not in table
    assert "dci/eastwood2018:" not in rest
    assert "mig/chen2018: B is better than A" in rest
    page = render_comparison(comparison)
    grey = page.partition('<tbody class="unproven">')[2].partition("</tbody>")[0]
    assert "only one factor can be scored" in grey
    assert grey.count("<th>dci/eastwood2018") == page.count("<th>dci/eastwood2018") == 2
    assert page.partition("</header>")[0].count("Scores by which B is best are no evidence") == 1
    assert "dci/eastwood2018 (no evidence)" in comparison._repr_html_()


def test_no_group_is_called_best_before_there_is_evidence():
    """The list of the best groups began with a name, and then said that it is not better."""
    runs = [compared(1.0, seed, 0.1 + 0.1 * seed) for seed in range(3)]
    runs += [compared(4.0, seed, 0.11 + 0.1 * seed) for seed in range(3)]
    comparison = compare_runs(runs)
    assert "mig/chen2018: no evidence that B is better than A (+0.010 [" in str(comparison)
    assert "Best" not in str(comparison)
    assert 'class="better"' not in render_comparison(comparison)
    better = [replace(run, scores=compared(4.0, 0, 0.9).scores) for run in runs[3:]]
    page = render_comparison(compare_runs([*runs[:3], *better]))
    assert '<td class="better">0.900 (equal)</td>' in page


def test_a_run_is_not_compared_with_a_shorter_one_that_it_continues():
    """The second best group was the best one with fewer steps, as if their seeds differed."""

    def trained(beta, seed, mig, steps):
        run = compared(beta, seed, mig)
        return replace(run, run=replace(run.run, steps=steps))

    noise = [0.0, 0.3, 0.1]  # that runs of one seed have in common
    runs = [trained(1.0, seed, 0.5 + noise[seed] + 0.01 * seed, 10) for seed in range(3)]
    runs += [trained(1.0, seed, 0.6 + noise[seed], 20) for seed in range(3)]
    longer = compare_runs(runs)
    (contrast,) = [c for c in longer.sections[0].contrasts if c.quantity == "mig/chen2018"]
    assert (contrast.best.name, contrast.second.name) == ("B", "A")
    gains = [0.1, 0.09, 0.08]
    assert contrast.difference == pytest.approx(mean_interval(gains))
    assert contrast.distinguishable
    (pair,) = [p for p in longer.sections[0].pairwise() if p.quantity == "mig/chen2018"]
    assert pair.p == pytest.approx(stats.ttest_1samp(gains, 0).pvalue)
    assert "(A and B) share the first steps of each seed" in " ".join(longer.notes)
    others = [trained(4.0, seed, 0.1 + 0.01 * seed, 20) for seed in range(3)]
    every = compare_runs([*runs, *others])
    (contrast,) = [c for c in every.sections[0].contrasts if c.quantity == "mig/chen2018"]
    assert (contrast.best.name, contrast.second.name) == ("B", "C")
    a, b = contrast.best.values("mig/chen2018"), contrast.second.values("mig/chen2018")
    assert contrast.difference == welch_interval(a, b)
    some = compare_runs(runs[:5])  # not all seeds are in both
    (contrast,) = [c for c in some.sections[0].contrasts if c.quantity == "mig/chen2018"]
    a, b = contrast.best.values("mig/chen2018"), contrast.second.values("mig/chen2018")
    assert contrast.difference == welch_interval(a, b)
    for each in (some, longer):
        said = "if they have the same seeds, their differences are taken seed by seed"
        assert said in " ".join(each.notes)
    apart = compare_runs([trained(1.0, seed, 0.5, 10 if seed < 2 else 20) for seed in range(4)])
    assert "share the first steps" not in " ".join(apart.notes)  # no seed is in both


def test_scores_of_runs_without_information_are_no_evidence():
    """The page called such a group better in its verdict; the reports on its runs did not."""
    off = Table(codes(0).codes, np.zeros((400, 0)), kl=np.full(3, 0.01))
    runs = [compared(1.0, seed, 0.1 + 0.01 * seed, seed, table=codes(seed)) for seed in range(3)]
    runs += [compared(4.0, seed, 0.9 + 0.01 * seed, seed, table=off) for seed in range(3)]
    comparison = compare_runs(runs)
    note, *_ = comparison.notes
    reason = "no evidence: no variable carries information about the data"
    assert reason in note
    assert note.endswith("(all scores in 3 of 6 runs)")
    header = render_comparison(comparison).partition("</header>")[0]
    assert "mig/chen2018: B" not in header
    assert "Scores by which B is best are no evidence: no variable carries" in header
    assert "No group is distinguishably better" not in header
    informed = compare_runs([replace(run, table=codes(run.run.seed)) for run in runs])
    assert reason not in " ".join(informed.notes)
    assert "mig/chen2018: B" in render_comparison(informed).partition("</header>")[0]
    unscored = compare_runs([replace(run, scores={}) for run in runs])
    assert reason not in " ".join(unscored.notes)
