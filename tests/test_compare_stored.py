"""Comparing trained models: the command, its page, and which stored scores are used."""

import json
import re
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest

import unweave as uw
from datasets import SMALL
from unweave.training.store import RunFolder, ScoreFacts

FIELDS = dict(network=uw.MLP((8,)), latent=uw.Gaussian(3), batch_size=16, steps=6, progress=False)
FACTS = ScoreFacts("all", 100, "mean")


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
            assert run.values["terms/rate"] == pytest.approx(np.mean(end))
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
    page = tmp_path / "compare.html"
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
    assert f"{models[0].folder} is compared only by what is stored" in err
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
    assert "they were computed from other labels" in " ".join(content["notes"])
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
    note = f"scores of {folders[0].name} are not used: they were computed from codes prior-cdf"
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
    assert "1 of the runs is a copy of others and left out" in found.notes


def test_a_run_whose_description_of_the_data_is_damaged_is_left_out(unweave, tmp_path):
    folders = labelled_store(tmp_path, seeds=range(3))
    (folders[0] / "data.json").write_text("{}")
    content, err = means(unweave, *folders, code=1)
    assert [len(g["runs"]) for g in content["sections"][0]["groups"]] == [2]
    assert f"{folders[0]} is left out" in err
