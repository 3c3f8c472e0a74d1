"""`unweave evaluate` over many runs: it continues past failures, and metrics of models."""

import csv
import io
import json
import re
import shutil
from dataclasses import replace

import numpy as np
import pytest

import unweave as uw
from datasets import SMALL
from unweave.evaluation.evaluate import LIKELIHOOD_PARTICLES, LIKELIHOOD_ROWS
from unweave.training.store import RunFolder

FIELDS = dict(network=uw.MLP((8,)), latent=uw.Gaussian(3), batch_size=16, steps=5, progress=False)
MIG = ["--metrics", "mig/locatello2019", "--rows", 100]
pytestmark = pytest.mark.filterwarnings("ignore::unweave.metrics.FewRowsWarning")


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    root = tmp_path_factory.mktemp("evaluated") / "runs"
    models = uw.fit(SMALL, seed=range(3), store=root, **FIELDS)
    return root, models


@pytest.fixture
def store(trained, tmp_path):
    """A copy of the store, which a test may damage."""
    shutil.copytree(trained[0], tmp_path / "runs")
    return tmp_path / "runs"


def test_runs_that_cannot_be_scored_do_not_stop_the_others(unweave, store, tmp_path):
    images = np.random.default_rng(0).random((40, 8, 8)).astype(np.float32)
    memory = uw.fit(images, store=store, **FIELDS).folder
    np.save(tmp_path / "x.npy", images)
    gone = uw.fit(uw.Arrays(str(tmp_path / "x.npy")), store=store, **FIELDS).folder
    (tmp_path / "x.npy").unlink()
    good, unfinished, damaged = sorted(
        folder for folder in store.glob("[!.]*") if folder not in (memory, gone)
    )
    for path in unfinished.glob("*.safetensors"):
        path.unlink()
    (damaged / "weights.safetensors").write_bytes(b"half of the weights")
    (store / "notes.txt").write_text("my notes")
    (store / "figures").mkdir()
    code, out, err = unweave("evaluate", *sorted(store.glob("[!.]*")), *MIG, "--json")
    assert code == 1
    assert list(json.loads(out)) == [good.name]
    assert "mig/locatello2019" in RunFolder(good).metrics
    lines = err.splitlines()
    assert "4 of 5 runs could not be fully scored:" in lines
    reasons = lines[lines.index("4 of 5 runs could not be fully scored:") + 1 :]
    for folder in (memory, gone, unfinished, damaged):
        assert sum(folder.name in line for line in reasons) == 1
    for name in ("notes.txt", "figures"):
        assert f"skipped {store}/{name}: it is not a run" in lines
    code, out, err = unweave("evaluate", unfinished, *MIG)  # a single run: one line, code 2
    assert (code, out, err.count("\n")) == (2, "", 1)
    code, _, err = unweave("evaluate", store / "figures", *MIG)
    assert (code, "without run.json" in err) == (2, True)
    code, _, err = unweave("evaluate", good, "nosuchrun", *MIG, "--store", store)
    assert (code, "'nosuchrun' is not a run" in err) == (2, True)


def test_a_metric_that_does_not_apply_to_one_run_does_not_stop_the_others(unweave, store):
    other = uw.fit(SMALL, store=store, **(FIELDS | {"latent": uw.Categorical(3)})).folder
    asked = ["--metrics", "mig/chen2018", "--rows", 100]
    code, out, err = unweave("evaluate", *store.glob("[!.]*"), *asked, "--json")
    assert code == 1
    assert set(json.loads(out)) == {f.name for f in store.glob("[!.]*")} - {other.name}
    assert f"{other.name}: expected a table that can be scored by mig/chen2018" in err


def test_scores_on_different_data_are_not_averaged(unweave, store, trained):
    others = uw.fit(replace(SMALL, positions=4), seed=range(3), store=store, **FIELDS)
    folders = sorted(store.glob("[!.]*"))
    code, out, err = unweave("evaluate", *folders, *MIG)
    assert code == 0, err
    assert "shapes2d side=16" in out
    tables, notes = (
        [line for line in out.splitlines() if (": measured on " in line) == noted]
        for noted in (False, True)
    )
    for positions in ("positions=4", "positions=8"):  # each dataset has a note and a title
        assert "\n".join(tables).count(positions) == 1
        assert "\n".join(notes).count(positions) == 1
    code, one, _ = unweave("evaluate", *(m.folder for m in others), *MIG)
    assert (code, one.startswith("measured on 64 observations of all data\n")) == (0, True)
    code, two, _ = unweave("evaluate", *(m.folder for m in (others[0], *trained[1])), *MIG)
    titles = re.findall(r"^shapes2d .*(positions=\d)(|: run .*)$", two, re.MULTILINE)
    run = f": run {others[0].folder.name}"
    assert (code, titles) == (0, [("positions=4", run), ("positions=8", "")])
    for folder in folders:  # at most four runs of a dataset have a column each
        assert folder.name in out
    values = [json.loads((m.folder / "scores.json").read_text()) for m in others]
    for content in values:
        assert f"{content['scores']['mig/locatello2019']['value']:.3f}" in out


def test_scores_of_runs_without_information_are_no_evidence(unweave, tmp_path):
    """Their reports said so; the table did not."""
    options = FIELDS | {"steps": 150, "optimiser": uw.Adam(lr=1e-2)}
    beta = uw.BetaVAE(beta=1000.0)
    with pytest.warns(UserWarning, match="are off"):
        off = uw.fit(SMALL, objective=beta, store=tmp_path, **options).folder
    used = uw.fit(SMALL, objective=uw.BetaVAE(beta=0.01), store=tmp_path, **options).folder
    reason = "no evidence: no variable carries information about the data"
    code, out, _ = unweave("evaluate", off, used, *MIG)
    shown = " ".join(out.split())
    assert (code, reason in shown, "(all scores in 1 of 2 runs)" in shown) == (0, True, True)
    assert reason not in " ".join(unweave("evaluate", used, *MIG)[1].split())
    unsupervised = unweave("evaluate", off, "--metrics", "active_units", "--rows", 100)[1]
    assert reason not in " ".join(unsupervised.split())


def test_scores_of_different_settings_are_not_averaged(unweave, store, trained):
    others = uw.fit(SMALL, seed=range(3), store=store, **(FIELDS | {"steps": 30}))
    code, out, err = unweave("evaluate", *sorted(store.glob("[!.]*")), *MIG)
    assert code == 0, err
    first, second = sorted(out.split("\nsteps=")[1:])
    for text, steps, models in ((first, 30, others), (second, 5, trained[1])):
        assert text.startswith(f"{steps}:\n")
        for model in models:
            score = json.loads((store / model.folder.name / "scores.json").read_text())["scores"]
            assert f"{score['mig/locatello2019']['value']:.3f}" in text
    assert "unweave compare" in out
    _, out, _ = unweave("evaluate", *(store / m.folder.name for m in others), *MIG)
    assert "unweave compare" not in out  # one group
    few = [store / others[0].folder.name, store / trained[1][0].folder.name]
    _, out, _ = unweave("evaluate", *few, *MIG)
    assert f"{few[0].name}: steps=30" in out
    assert f"{few[1].name}: steps=5" in out


def test_log_likelihood_by_name(unweave, store, trained):
    models = trained[1]
    (scores,) = uw.evaluate(models[:1], rows=50, metrics=["log_likelihood", "active_units"])
    score = scores["log_likelihood/burda2016"]
    index = models[0].rows(LIKELIHOOD_ROWS)
    bounds = models[0].log_likelihood(models[0].observations(index), LIKELIHOOD_PARTICLES)
    assert score.value == pytest.approx(bounds.mean())
    error = bounds.std(ddof=1) / np.sqrt(len(bounds))
    assert score.details["standard error"] == pytest.approx(error)
    assert "active_units/burda2016" in scores
    asked = ["--metrics", "log_likelihood", "--rows", 50]
    code, out, err = unweave("evaluate", store / models[0].folder.name, *asked)
    assert code == 0, err
    assert f"{score.value:.4f}" in out
    assert f"{LIKELIHOOD_ROWS} observations, {LIKELIHOOD_PARTICLES} particles each" in out
    assert RunFolder(store / models[0].folder.name).metrics == ("log_likelihood/burda2016",)
    gan = uw.fit(SMALL, **(FIELDS | {"objective": uw.InfoGAN(noise_size=2), "network": None}))
    with pytest.raises(ValueError, match="has no log p"):
        uw.evaluate([models[0], gan], rows=50, metrics="log_likelihood")


def test_udr_is_of_runs_that_differ_only_in_their_seed(unweave, store, trained):
    models = trained[1]
    other = uw.fit(SMALL, store=store, **(FIELDS | {"steps": 6}))
    scores = uw.evaluate(models, rows=100, metrics="udr")
    tables = [model.table(100) for model in models]
    expected = uw.metrics.udr([t.codes for t in tables], kl=[t.kl for t in tables])
    key = "udr/duan2020-lasso"
    assert [s[key].value for s in scores] == pytest.approx([s.value for s in expected])
    with pytest.raises(ValueError, match="no other run has these settings"):
        uw.evaluate([*models, other], rows=100, metrics="udr")
    code, out, err = unweave("evaluate", *store.glob("[!.]*"), "--metrics", "udr", "--rows", 100)
    assert code == 1
    assert f"{other.folder.name}: udr compares runs that differ only in their seed" in err
    mean = np.mean([s.value for s in expected])
    assert f"{key} of steps=5: {mean:.3f} (" in out
    assert "over 3 seeds)" in out
    folders = [store / model.folder.name for model in models]
    code, out, _ = unweave("evaluate", *folders, "--metrics", "udr", "--rows", 100, "--csv")
    rows = [row for row in csv.DictReader(io.StringIO(out)) if not row["part"]]
    assert sorted(float(row["value"]) for row in rows) == pytest.approx(
        sorted(s.value for s in expected)
    )
