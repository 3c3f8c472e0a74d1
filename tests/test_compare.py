"""Comparing runs: groups, intervals, the best group, and latents matched across seeds."""

import csv
import io
import itertools
import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

import unweave as uw
from datasets import SMALL
from unweave.core.intervals import mean_interval, welch_interval
from unweave.evaluation.compare import compare_runs
from unweave.evaluation.comparison import ComparedRun
from unweave.evaluation.shared_latents import shared_latents
from unweave.metrics import Score, Table
from unweave.report import render_comparison
from unweave.report.compare import _curves_of, _on_common_steps
from unweave.training.grouping import differing, flatten
from unweave.training.run import Run
from unweave.training.store import RunFolder, ScoreFacts

FIELDS = dict(network=uw.MLP((8,)), latent=uw.Gaussian(3), batch_size=16, steps=6, progress=False)
FACTS = ScoreFacts("all", 100, "mean")


def compared(beta, seed, mig, distortion=1.0, data=SMALL, table=None, **scores):
    objective, latent = uw.BetaVAE(beta=beta), uw.Gaussian(3)
    run = Run(data=data, objective=objective, latent=latent, seed=seed, steps=20)
    log = [{"step": 10, "distortion": 9.0, "rate": 9.0}]
    log.append({"step": 20, "distortion": distortion, "rate": 2.0})
    found = {"mig/chen2018": Score("mig", "chen2018", mig)} if mig is not None else {}
    return ComparedRun(
        run.digest, run, data.kind, log, scores=found, facts=FACTS if found else None, table=table
    )


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
    (row,) = re.findall(r"^mig/chen2018 +(.*)", text, re.MULTILINE)
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
    assert four.values("distortion") == [2.0, 3.0, 4.0]  # at the end of the log
    by_quantity = {each.quantity: each for each in section.contrasts}
    assert set(by_quantity) == {"distortion", "mig/chen2018"}  # a rate is neither good nor bad
    mig = by_quantity["mig/chen2018"]
    assert (mig.best, mig.second, mig.distinguishable) == (four, one, True)
    assert mig.difference == pytest.approx(welch_interval(high, low))
    distortion = by_quantity["distortion"]  # the lower the better
    assert (distortion.best, distortion.second, distortion.distinguishable) == (one, four, False)
    assert distortion.difference.value == pytest.approx(-0.5)


def test_text_csv_and_json_tell_the_same_and_text_fits_80_columns():
    runs = [
        compared(beta, seed, 0.1 * beta + 0.01 * seed, table=codes(seed))
        for beta, seed in itertools.product((0.5, 1.0, 2.0, 4.0, 8.0), range(3))
    ]
    runs.append(compared(16.0, 0, None))
    comparison = compare_runs(runs)
    text = str(comparison)
    assert max(map(len, text.splitlines())) <= 80
    assert "mig/chen2018: E, +0.400 from D [+0.377, +0.423]" in text
    assert "distortion: F and E are equal" in text
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
    assert "one seed gives no interval" in str(comparison)
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


def test_runs_that_are_not_finished_are_left_out():
    stopped = compared(1.0, 5, 0.9)
    stopped = replace(stopped, log=stopped.log[:1])
    comparison = compare_runs([compared(1.0, 0, 0.1), compared(1.0, 1, 0.2), stopped])
    assert [run.run.seed for run in comparison.sections[0].groups[0].runs] == [0, 1]
    assert f"left out, not trained to the end: {stopped.name}" in comparison.notes


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


def codes(seed, rows=400):
    """Three independent codes, permuted and with signs by seed, with a little noise."""
    rng = np.random.default_rng(seed)
    z = np.random.default_rng(99).standard_normal((rows, 3))
    order, signs = rng.permutation(3), rng.choice([-1.0, 1.0], 3)
    noisy = z[:, order] * signs + 0.05 * rng.standard_normal((rows, 3))
    return Table(noisy, np.zeros((rows, 0)), kl=np.ones(3))


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


# ---- models and commands


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


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    root = tmp_path_factory.mktemp("store") / "runs"
    for beta in (1.0, 4.0):
        uw.fit(SMALL, objective=uw.BetaVAE(beta=beta), seed=range(2), store=root, **FIELDS)
    return root


@pytest.mark.filterwarnings("ignore::unweave.metrics.FewRowsWarning")
def test_models_are_compared_by_what_evaluate_and_udr_compute(store):
    models = uw.load(sorted(store.iterdir()))
    comparison = uw.compare(models, metrics="mig/locatello2019,log_likelihood", rows=100)
    (section,) = comparison.sections
    assert [group.title for group in section.groups] == ["objective.beta=1", "objective.beta=4"]
    scores = uw.evaluate(models, rows=100, metrics="mig/locatello2019,log_likelihood")
    by_digest = {m.run.digest: s for m, s in zip(models, scores, strict=True)}
    for group in section.groups:
        for run in group.runs:
            own = by_digest[run.run.digest]
            assert {k: run.values[k] for k in own} == {k: s.value for k, s in own.items()}
            end = [row["rate"] for row in run.log[3:]]  # the later half of six rows
            assert run.values["rate"] == pytest.approx(np.mean(end))
        own = [m.table(100) for m in models if m.run.digest in {r.run.digest for r in group.runs}]
        udr = uw.metrics.udr([t.codes for t in own], kl=[t.kl for t in own])
        assert sorted(s.value for s in group.udr) == sorted(s.value for s in udr)
    with pytest.raises(TypeError, match="expected a list of models"):
        uw.compare(models[0])


class Page(HTMLParser):
    """Checks that tags close and collects what a page would load."""

    def __init__(self):
        super().__init__()
        self.open, self.loads = [], []

    def handle_starttag(self, tag, attributes):
        loads = ("src", "href", "xlink:href", "data", "action")
        self.loads += [v for name, v in attributes if name in loads and v[0] != "#"]
        if tag not in ("meta", "link", "img", "br"):
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        pass

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


@pytest.mark.filterwarnings("ignore::unweave.metrics.FewRowsWarning")
def test_compare_command(unweave, store, tmp_path):
    page = tmp_path / "out" / "compare.html"
    (store / "notes.txt").write_text("not a run")
    asked = ["--metrics", "mig/locatello2019", "--rows", 100]
    code, out, err = unweave("compare", *store.iterdir(), *asked, "--html", page)
    (store / "notes.txt").unlink()
    assert code == 0, err
    assert f"skipped {store}/notes.txt: it is not a run" in err
    assert "objective.beta" in out
    assert "UDR" in out
    parser = Page()
    parser.feed(page.read_text())
    assert (parser.open, parser.loads) == ([], ["data:,"])
    assert "prefers-color-scheme: dark" in page.read_text()
    code, again, _ = unweave("compare", *store.iterdir(), "--json")  # scores are stored by now
    assert code == 0
    section = json.loads(again)["sections"][0]
    assert "mig/locatello2019" in section["groups"][0]["means"]
    code, out, _ = unweave("compare", *store.iterdir(), "--csv")
    assert out.startswith("data,group,objective.beta,quantity,seeds,mean,low,high\n")
    assert unweave("compare", next(store.iterdir()))[0] == 2


def test_a_run_without_its_data_is_compared_by_what_is_stored(unweave, tmp_path):
    images = np.random.default_rng(0).random((40, 8, 8)).astype(np.float32)
    np.save(tmp_path / "x.npy", images)
    fields = FIELDS | {"store": tmp_path / "runs", "seed": range(2)}
    models = uw.fit(uw.Arrays(str(tmp_path / "x.npy")), **fields)
    (tmp_path / "x.npy").unlink()
    for path in models[1].folder.glob("*.safetensors"):
        path.unlink()
    code, out, err = unweave("compare", *(model.folder for model in models))
    assert (code, out) == (2, "")
    assert f"{models[0].folder} is compared by what is stored alone" in err
    assert f"{models[1].folder} is left out" in err


@pytest.mark.filterwarnings("ignore::unweave.metrics.FewRowsWarning")
def test_the_example_of_the_page_runs(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    page = Path(__file__).parent.parent / "docs/compare.md"
    exec(re.search(r"```python\n(.*?)```", page.read_text(), re.DOTALL)[1], {})
    assert "objective.beta" in capsys.readouterr().out
    assert (tmp_path / "compare.html").exists()


# ---- which stored scores are used


def labelled_store(root, place="x.npz", flip=False, seeds=(0, 1), **fields):
    """Train seeds on a file of images with two factors, which may be corrected later."""
    write_images(root / place, flip)
    data = uw.Arrays(str(root / place), factors_key="factors", scale="none")
    usual = FIELDS | {"store": root / "runs", "split": "all", "steps": 3, "seed": list(seeds)}
    return [model.folder for model in uw.fit(data, **(usual | fields))]


def write_images(path, flip=False):
    factors = np.stack(np.meshgrid(range(6), range(8), indexing="ij"), -1).reshape(-1, 2)
    images = np.random.default_rng(0).random((48, 16, 16)).astype(np.float32)
    names = np.array(["row", "column"])
    path.parent.mkdir(exist_ok=True)
    np.savez(path, images=images, factors=factors[::-1] if flip else factors, factor_names=names)


ASKED = ["--rows", 40]
MIG = "mig/locatello2019"
few_rows = pytest.mark.filterwarnings("ignore::unweave.metrics.FewRowsWarning")


def means(unweave, *arguments, code=0):
    found, out, err = unweave("compare", *arguments, "--json")
    assert found == code, err
    return json.loads(out), err


@few_rows
@pytest.mark.filterwarnings("ignore:labels have changed")
def test_scores_of_corrected_labels_are_never_mixed_with_old_ones(unweave, tmp_path):
    folders = labelled_store(tmp_path)
    assert unweave("evaluate", *folders, "--metrics", MIG, *ASKED)[0] == 0
    old = [RunFolder(f).scores["all"]["scores"][MIG]["value"] for f in folders]
    write_images(tmp_path / "x.npz", flip=True)
    content, _ = means(unweave, *folders)
    assert MIG not in content["sections"][0]["groups"][0]["means"]
    assert "they are of other labels" in " ".join(content["notes"])
    content, _ = means(unweave, *folders, "--metrics", MIG, *ASKED)
    new = [run["values"][MIG] for run in content["sections"][0]["groups"][0]["runs"]]
    expected = [s[MIG].value for s in uw.evaluate(uw.load(folders), 40, metrics=MIG)]
    assert sorted(new) == pytest.approx(sorted(expected))
    assert new != old
    assert unweave("evaluate", folders[0], "--metrics", "sap", *ASKED)[0] == 0
    stored = RunFolder(folders[0]).scores["all"]["scores"]
    assert stored[MIG]["value"] in expected  # not in `old`: both metrics are of the new labels


@few_rows
def test_scores_of_other_codes_are_not_pooled(unweave, tmp_path):
    folders = labelled_store(tmp_path)
    asked = ["--metrics", MIG, *ASKED]
    assert unweave("evaluate", folders[0], *asked, "--codes", "prior-cdf")[0] == 0
    assert unweave("evaluate", folders[1], *asked)[0] == 0
    content, _ = means(unweave, *folders)
    (group,) = content["sections"][0]["groups"]
    assert [MIG in run["values"] for run in group["runs"]] == [False, True]
    note = f"the stored scores of {folders[0].name} are not used: they are of codes prior-cdf"
    assert note in " ".join(content["notes"])
    (group,) = uw.compare(uw.load(folders), metrics=MIG, rows=40).sections[0].groups
    expected = [s[MIG].value for s in uw.evaluate(uw.load(folders), 40, metrics=MIG)]
    assert group.values(MIG) == pytest.approx(expected)


@few_rows
def test_udr_over_partly_scored_seeds_and_a_group_of_one(unweave, tmp_path):
    folders = labelled_store(tmp_path, seeds=range(3)) + labelled_store(
        tmp_path, seeds=[0], steps=4
    )
    assert unweave("evaluate", folders[0], "--metrics", MIG, *ASKED)[0] == 0
    models = uw.load(folders)
    found = uw.compare(models, metrics=[MIG, "udr"], rows=40)
    three, one = found.sections[0].groups
    assert (len(three.udr), len(three.values(MIG)), len(one.udr), len(one.values(MIG))) == (
        3,
        3,
        0,
        1,
    )
    content, err = means(unweave, *folders, "--metrics", f"{MIG},udr", *ASKED)
    assert [len(g["runs"]) for g in content["sections"][0]["groups"]] == [3, 1]
    assert "udr" not in err
    only = uw.compare(models, metrics="udr", rows=40)
    assert len(only.sections[0].groups[0].udr) == 3
    assert MIG not in only.sections[0].quantities
    assert not any("no scores are stored" in note for note in only.notes)


@few_rows
def test_a_metric_that_fails_for_a_run_leaves_the_rest_of_it_in_the_comparison(unweave, tmp_path):
    gan = labelled_store(tmp_path, seeds=[0], objective=uw.InfoGAN(noise_size=2), network=None)
    folders = gan + labelled_store(tmp_path, seeds=[0])
    other = labelled_store(tmp_path, seeds=[0], latent=uw.Categorical(3))
    asked = ["--metrics", f"mig/chen2018,{MIG},log_likelihood", *ASKED]
    content, err = means(unweave, *folders, *other, *asked, code=1)
    runs = [run for group in content["sections"][0]["groups"] for run in group["runs"]]
    by_name = {run["run"]: run["values"] for run in runs}
    likelihood = "log_likelihood/burda2016"
    assert set(by_name) == {folder.name for folder in folders + other}
    assert {MIG, likelihood} <= set(by_name[folders[1].name])
    assert MIG in by_name[gan[0].name]
    assert likelihood not in by_name[gan[0].name]
    assert {MIG, likelihood} <= set(by_name[other[0].name])  # mig/chen2018 does not apply
    assert "has no log p(x)" in err
    assert "mig/chen2018" in err


@few_rows
def test_the_same_files_at_two_places_are_one_dataset(tmp_path):
    folders = labelled_store(tmp_path, "a/x.npz", seeds=[0])
    folders += labelled_store(tmp_path, "b/x.npz", seeds=[1])
    models = uw.load(folders)
    found = uw.compare(models, metrics="udr,mig/locatello2019", rows=40)
    (section,) = found.sections
    assert [len(group.runs) for group in section.groups] == [2]
    assert (section.settings, len(section.groups[0].udr)) == ((), 2)
    assert any("2 places hold the same data" in note for note in found.notes)
    scores = uw.evaluate(models, 40, metrics="udr")
    assert all("udr/duan2020-lasso" in each for each in scores)
    folders += labelled_store(tmp_path, "c/x.npz", seeds=[0])  # a copy of the first run
    again = uw.evaluate(uw.load(folders), 40, metrics="udr")  # in which the copy counts once
    found = [float(each["udr/duan2020-lasso"]) for each in again]
    expected = [float(each["udr/duan2020-lasso"]) for each in scores]
    assert found == pytest.approx([*expected, expected[0]])
    folders += labelled_store(tmp_path, "d/x.npz", flip=True, seeds=[2])  # other labels
    found = uw.compare(uw.load(folders), rows=40)
    assert [len(s.groups[0].runs) for s in found.sections] == [2, 1]
    assert "1 of the runs is a copy of others, left out" in found.notes


def test_a_run_whose_description_of_the_data_is_damaged_is_left_out(unweave, tmp_path):
    folders = labelled_store(tmp_path, seeds=range(3))
    (folders[0] / "data.json").write_text("{}")
    content, err = means(unweave, *folders, code=1)
    assert [len(g["runs"]) for g in content["sections"][0]["groups"]] == [2]
    assert f"{folders[0]} is left out" in err
