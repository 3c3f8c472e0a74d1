"""The command line as a user types it: results, and one-line errors with exit code 2."""

import json
import os
import re
import shlex
import subprocess
import sys

import numpy as np
import pytest
from PIL import Image

import unweave as uw
from datasets import LATENTS, SMALL
from unweave.data import HeldOut, Selected, Subset
from unweave.metrics import METRICS, Scores, left_out
from unweave.report import render
from unweave.training.records import read_sealed
from unweave.training.store import RunFolder, ScoreFacts, Store

TINY = ["data=shapes2d", "data.side=16", "data.positions=4", "data.orientations=1", "network=mlp",
        "latent.size=3", "batch_size=8", "steps=20"]  # fmt: skip


@pytest.mark.usefixtures("quick_scores")
def test_train_evaluate_report_runs_cite(unweave, tmp_path):
    store = tmp_path / "runs"
    code, out, _ = unweave("train", *TINY, "seed=0,1", "--store", store)
    assert code == 0
    folders = Store(store).folders()
    assert len(folders) == 2
    assert all(str(folder.path) in out.replace("\n", "") for folder in folders)
    code, _, err = unweave("train", *TINY, "seed=0,1", "--store", store)
    assert (code, "all 2 runs are already finished; nothing is trained" in err) == (0, True)
    name = folders[0].path.name
    asked = ["--metrics", "mig,factor_vae_score", "--rows", 200]
    code, out, _ = unweave("evaluate", name, "--store", store, "--json", *asked)
    assert code == 0
    scores = json.loads(out)[name]
    assert 0 <= scores["factor_vae_score/kim2018"]["value"] <= 1
    assert (folders[0].path / "table.npz").exists()
    assert json.loads((folders[0].path / "scores.json").read_text())["codes"] == "mean"
    options = ["--metrics", "mig/locatello2019", "--codes", "prior-cdf", "--rows", 200]
    code, _, _ = unweave("evaluate", name, "--store", store, *options)
    assert code == 0
    assert json.loads((folders[0].path / "scores.json").read_text())["codes"] == "prior-cdf"
    code, _, err = unweave("evaluate", name, "--store", store, "--codes", "cdf")
    assert code != 0
    assert "prior-cdf" in err
    code, out, _ = unweave("report", name, "--store", store, "--rows", 200, "--no-explorer")
    assert code == 0
    assert (folders[0].path / "report.html").stat().st_size > 10_000
    code, out, _ = unweave("runs", "--store", store)
    assert code == 0
    assert out.startswith("all: finished; ")
    code, out, _ = unweave("cite", name, "--store", store)
    assert code == 0
    assert "@inproceedings{Higgins2017" in out
    assert "@misc{Matthey2017" in out
    assert "{Chen2018" in out  # of a metric it was measured with
    assert "{Reddi2018" not in out  # of a setting it does not have


@pytest.mark.parametrize("latent", LATENTS)
@pytest.mark.usefixtures("quick_scores")
def test_evaluate_and_report_of_every_latent_space(unweave, latent, tmp_path):
    model = uw.fit(SMALL, latent=latent, network=uw.MLP((16,)), batch_size=16, steps=5,
                   store=tmp_path, progress=False)  # fmt: skip
    code, out, err = unweave("evaluate", model.folder, "--json", "--rows", 100, "--metrics", "mig")
    assert code == 0, err
    scores = Scores.from_json(json.loads(out)[model.folder.name])
    assert ("mig/chen2018" in scores) == all(latent.normal)
    page = render(model, rows=100, scores=scores)
    assert ("q(z|x) is not normal" in page) != all(latent.normal)
    assert all(f"<sub>{name}</sub>" in page for name in latent.names)


@pytest.mark.usefixtures("quick_scores")
def test_every_metric_that_applies_is_computed_by_default(unweave, tmp_path):
    latent = uw.Product(style=uw.Gaussian(2), shape=uw.Categorical(3))
    folder = uw.fit(SMALL, latent=latent, network=uw.MLP((16,)), batch_size=16, steps=5,
                    store=tmp_path, progress=False).folder  # fmt: skip
    code, out, err = unweave("evaluate", folder, "--json", "--rows", 100)
    assert code == 0, err
    assert "q(z|x) is not normal" in err
    table = uw.load(folder).table(100)
    quick = {key for key, metric in METRICS.items() if not metric.slow}
    assert set(json.loads(out)[folder.name]) == quick - set(left_out(table))


def test_train_and_report_on_a_folder_of_images_and_a_file_of_arrays(unweave, tmp_path):
    pictures = tmp_path / "pictures"
    pictures.mkdir()
    rng = np.random.default_rng(0)
    for number in range(10):
        Image.fromarray(rng.integers(0, 255, (20, 24, 3), np.uint8)).save(
            pictures / f"{number}.png"
        )
    np.save(tmp_path / "x.npy", rng.normal(size=(50, 7)))
    for data in (pictures, tmp_path / "x.npy"):
        code, _, err = unweave("train", f"data={data}", "batch_size=8", "steps=3",
                               "--store", tmp_path / "runs")  # fmt: skip
        assert code == 0, err
    for folder in Store(tmp_path / "runs").folders():
        assert unweave("report", folder.path, "--no-explorer")[0] == 0


def test_commands_that_are_suggested_quote_the_store(unweave, tmp_path, monkeypatch):
    monkeypatch.setattr("unweave.cli.train._MOST_NAMED", 1)
    store = tmp_path / "my runs;echo hi"
    code, out, err = unweave("train", *TINY, "seed=0..1", "--store", store, "--device", "cpu")
    assert code == 0, err
    report, compare = (shlex.split(line) for line in out.splitlines() if "--store" in line)
    assert report[report.index("--store") + 1] == str(store)
    assert compare == ["and:", "unweave", "compare", f"{store}/*", "--store", str(store)]


@pytest.mark.usefixtures("quick_scores")
def test_the_run_to_look_at_is_the_best_held_out_and_warnings_name_their_run(unweave, tmp_path):
    rng, store = np.random.default_rng(0), tmp_path / "runs"
    np.savez(tmp_path / "few.npz", images=rng.random((60, 5)), factors=rng.integers(3, size=60))
    few = ("network.hidden=[8]", "batch_size=16", "--store", store, "--device", "cpu")
    code, out, err = unweave("train", f"data={tmp_path / 'few.npz'}", "seed=0..2", "steps=20", *few)
    assert code == 0, err
    assert "training 3 runs of beta-vae for 20 steps, side by side (as lanes)" in err
    folders = {f.path.name: f.read_measures()[-1]["validation"] for f in Store(store).folders()}
    best = min(folders, key=lambda name: folders[name]["distortion"] + folders[name]["rate"])
    following = out[out.index("next: ") :].splitlines()
    assert following[0].startswith(f"next: unweave report {best} --store {store}")
    assert following[0].endswith("(the lowest held-out loss of 3 runs)")
    shown = {row.split()[0].rpartition("/")[2]: row.split()[-2] for row in out.splitlines()
             if str(store) in row and "next" not in row and "and:" not in row}  # fmt: skip
    assert {name: f"{v['distortion'] + v['rate']:.2f}" for name, v in folders.items()} == shown
    assert following[1].startswith("and:  unweave compare ")
    assert all(name in following[1] for name in folders)
    code, _, err = unweave("report", best, "--store", store, "--no-explorer")
    assert code == 0, err
    assert f"run {best}: encoding and scoring data for the report" in err
    assert "encoding data with 3 runs" in unweave("compare", *folders, "--store", store)[2]
    assert f"run {best}, scores in the report: 48 rows are too few" in err


HELD = {"shape": ("heart",), "x": (0, 1)}


@pytest.mark.filterwarnings("ignore::unweave.metrics.FewRowsWarning")
def test_evaluate_scores_the_chosen_split_and_keeps_the_others(unweave, tmp_path):
    """Scores of one split used to overwrite those of another."""
    data = Selected(uw.Shapes2D(side=16, positions=4, orientations=1), (HeldOut(HELD),))
    folder = uw.fit(data, latent=uw.Gaussian(3), network=uw.MLP((16,)), batch_size=16, steps=5,
                    store=tmp_path, progress=False).folder  # fmt: skip
    asked = [folder, "--metrics", "mig,sap", "--rows", 10_000]
    sizes = {"rest": (3 * 4 - 2) * 6 * 4, "held-out": 2 * 6 * 4}
    suffixes = {"rest": "", "held-out": "-held-out"}  # the run was trained on the rest
    stored = {}
    for split, size in sizes.items():
        model = uw.load(folder, split=split)
        (expected,) = uw.evaluate([model], metrics=["mig", "sap"])
        code, out, err = unweave("evaluate", *asked, "--split", split, "--json")
        assert code == 0, err
        more = " (trained on the rest split)" if split == "held-out" else ""
        line = f"measured on {size:,} observations of the {split} split{more}\n"
        assert line in err
        found = json.loads(out)[folder.name]
        assert {key: score["value"] for key, score in found.items()} == {
            key: score.value for key, score in expected.items()
        }
        stored[split] = ScoreFacts(split, size, "mean", step=5)._asdict() | {"scores": found}
        for each, content in stored.items():  # all that was stored is still there
            path = folder / f"scores{suffixes[each]}.json"
            assert read_sealed(path).content == content
        assert RunFolder(folder).scores == stored
        table = uw.metrics.Table.load(folder / f"table{suffixes[split]}.npz")
        hearts = table.factors[:, table.factor_names.index("shape")] == 2
        left = table.factors[:, table.factor_names.index("x")] < 2
        assert (hearts & left).all() == (split == "held-out")
        assert (hearts & left).any() == (split == "held-out")
    code, out, _ = unweave("evaluate", *asked)
    assert out.startswith(f"measured on {sizes['rest']:,} observations of the rest split\n")
    unweave("evaluate", folder, "--split", "held-out", "--metrics", "mcc")
    assert "scored on rest, held-out" in unweave("runs", "--store", tmp_path)[1]
    code, out, _ = unweave("cite", folder)
    assert code == 0
    assert "{Chen2018" in out  # MIG, on the split it was trained on
    assert "{Hyvarinen2016" in out  # MCC, on the held-out split
    (folder / "scores.json").write_text(json.dumps(found))  # without a seal
    check_error(*unweave("cite", folder), "measure again")
    known = "shapes2d has the splits rest, held-out, got 'test'"
    for split, message in (("test", known), ("hold", "got 'hold'")):
        check_error(*unweave("evaluate", *asked, "--split", split), message)


def test_runs_lists_the_data_of_each_run(unweave, tmp_path, monkeypatch):
    monkeypatch.setattr("unweave.core.console.out._width", 400)
    np.savez(
        tmp_path / "my x.npz", images=np.random.default_rng(0).random((50, 7)), y=np.arange(50)
    )
    datas = {
        f"'{tmp_path}/my x.npz' key=images split=train": uw.Arrays(
            tmp_path / "my x.npz", key="images", split="train"
        ),
        "shapes2d side=16 positions=4 --select held-out:shape=heart,x=0+1 --select subset:count=40":
        Selected(uw.Shapes2D(side=16, positions=4), (HeldOut(({"shape": ("heart",), "x": (0, 1)},)),
                                                    Subset(40))),
    }  # fmt: skip
    for text, data in datas.items():
        uw.fit(data, network=uw.MLP((4,)), batch_size=8, steps=2, store=tmp_path, progress=False)
        code, out, _ = unweave("runs", "--store", tmp_path)
        assert code == 0
        assert re.search(rf"(; | ){re.escape(text)}( |$)", out, re.MULTILINE)
        name, *rest = shlex.split(text)
        code, out, err = unweave("data", "info", name, *rest)  # what is listed can be asked about
        assert code == 0, err
        assert out.startswith(text)


def test_data_info_describes_drawn_datasets_and_own_files(unweave, tmp_path):
    rng = np.random.default_rng(0)
    images = rng.integers(0, 255, (6, 8, 10, 3), np.uint8)
    images[0, 0, 0] = 0, 255, 0
    np.savez(tmp_path / "x.npz", images=images, kinds=np.array([["cat", "1"], ["dog", "2"]] * 3),
             factor_names=np.array(["animal", "age"]))  # fmt: skip
    deep = np.linspace(0, 555, 480).reshape(6, 1, 8, 10) * np.array([1, 2])[:, None, None]
    np.save(tmp_path / "deep.npy", deep.astype(np.uint16))
    (tmp_path / "pictures").mkdir()
    for number, image in enumerate(images):
        Image.fromarray(image).save(tmp_path / f"pictures/{number}.png")
    expected = {
        ("shapes2d", "side=16", "positions=4", "--select", "subset:count=40"): [
            "- images: 40 of 16 x 16", "- values: in [0, 1]",
            "- factors: colour 1 (white), shape 3 (square, ellipse, heart), scale 6, "
            "orientation 40, x 4, y 4",
            "- read as:", "  - 40 observations of 11,520: 40 at random",
        ],
        ("pinwheel",): ["- vectors: 400 of 2 numbers", "- values: any numbers",
                        "- factors: cluster 4 (0, 1, 2, 3)"],
        (tmp_path / "x.npz", "key=images", "factors_key=kinds"): [
            "- images: 6 of 8 x 10 x 3", "- values: in [0, 1]",
            "- factors: animal 2 (cat, dog), age 2 (1, 2)",
            "- read as:", "  - 6 images of 8 x 10, colour, channels last",
            "  - uint8 from 0 to 255 divided by 255",
        ],
        (tmp_path / "deep.npy",): [
            "- images: 6 of 8 x 10 x 2", "- values: in [0, 1], scaled by percentiles",
            "- factors: unknown", "- read as:",
            "  - 6 images of 8 x 10, 2 channels, channels first",
            "  - uint16 from 0 to 1110, scaled by percentiles 0.1 and 99.9: 0 and 555 in channel "
            "0, 0 and 1110 in channel 1 become 0 and 1, and values beyond are clipped "
            "(scale=percentile)",
        ],
        (tmp_path / "pictures", "channels=1"): [
            "- images: 6 of 8 x 10", "- values: in [0, 1]", "- factors: unknown",
            "- read as:", "  - 6 images of 8 x 10, grey",
        ],
    }  # fmt: skip
    for arguments, lines in expected.items():
        code, out, err = unweave("data", "info", *arguments)
        assert code == 0, err
        told = out.splitlines()
        assert told[0] == " ".join(map(str, arguments))
        assert [line for line in told if line.lstrip().startswith("- ")][: len(lines)] == lines
    assert "@inproceedings{Mathieu2019" in unweave("data", "info", "pinwheel")[1]


def test_listing_runs_loads_neither_metrics_nor_reports(tmp_path):
    uw.fit(SMALL, network=uw.MLP((4,)), batch_size=8, steps=2, store=tmp_path, progress=False)
    code = (
        "import contextlib, sys\nfrom unweave.cli.main import main\n"
        "with contextlib.suppress(SystemExit): main()\n"
        "print([m for m in ('unweave.metrics', 'unweave.report', 'jinja2') if m in sys.modules])"
    )
    command = [sys.executable, "-c", code, "runs", "--store", str(tmp_path)]
    out = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert "finished" in out
    assert out.endswith("[]\n")


def test_the_help_of_flags_shows_no_type(unweave):
    for command in ((), ("evaluate",), ("score",), ("bench",), ("data", "info")):
        code, out, _ = unweave(*command, "--help")
        assert code == 0
        assert "bool" not in out.lower()
        assert "--help" in out


def test_help_has_examples(unweave):
    assert unweave("--help")[0] == 0
    for command in (
        "train",
        "evaluate",
        "score",
        "report",
        "runs",
        "cite",
        "methods",
        "fields",
        "metrics",
        "demo",
    ):
        code, out, _ = unweave(command, "--help")
        assert code == 0
        assert f"unweave {command}" in out


def test_without_arguments_the_help_is_shown(unweave):
    code, out, err = unweave()
    assert code == 2
    assert "evaluate" in out
    assert "error" not in err


def make(path, content):
    np.save(path, content, allow_pickle=True)
    return path


BAD = {
    "unknown option": (["train", "--colour"], "No such option: --colour"),
    "unknown command": (["trian"], "Did you mean 'train'? See `unweave --help`"),
    "no argument": (["report"], "Missing argument 'names'; see `unweave report --help`"),
    "a file as store": (["train", *TINY, "--store", __file__], "test_cli.py is a file: choose a"),
    "out of range": (["train", "--threads", "-1"], "for '--threads': Input should be greater"),
    "misspelt objective": (["train", "objective=factorvae"], "did you mean 'factor-vae'"),
    "unknown field": (["train", "objective.bta=2"], "did you mean 'beta'"),
    "a weight": (["train", "beta=4"], "did you mean objective.beta?"),
    "a rate": (["train", "lr=0.001"], "did you mean optimiser.lr?"),
    "two places": (["train", "size=5"], "did you mean data.size (of data=folder) or latent.size?"),
    "after a kind": (["train", "gamma=2", "objective=factor-vae"], "did you mean objective.gamma?"),
    "of another kind": (["train", "penalty=2"], "objective.penalty (of objective=info-wgan-gp)?"),
    "another name": (["train", "learning_rate=1"], "it is called optimiser.lr"),
    "a dash": (["train", "seed=0-3"], "write seed=0..3"),
    "a list": (["train", "seed=[1,2]"], "write seed=1,2"),
    "no such path": (["train", "photos/"], "write data=photos/; there is no such path"),
    "a field of one kind": (
        ["train", "objective=factor-vae,beta-vae", "objective.gamma=10"],
        "objective.gamma is a field of factor-vae, not of beta-vae",
    ),
    "negative beta": (["train", "objective.beta=-1"], "at least 0, got -1"),
    "zero-size latent": (["train", "latent.size=0"], "more than 0, got 0"),
    "unknown run": (["evaluate", "nothing"], "there are none yet"),
    "unknown device": (["train", "--device", "tpu9"], "cannot be used"),
    "missing data": (["train", "data=/no/such/place"], "neither a dataset nor a file"),
    "a missing folder": (["train", "data=nofolder/"], "that exists: check the path."),
    "unfit network": (
        ["train", "data=shapes2d", "data.side=32", "network=kim2018"],
        "network=conv",
    ),
    "large batch": (["train", *TINY[:-2], "batch_size=100000"], "use batch_size="),
    "missing base": (["train", "--from", "/no/such.json"], "at /no/such.json, got nothing there"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_gives_one_line_and_writes_nothing(unweave, case, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    arguments, message = BAD[case]
    code, out, err = unweave(*arguments)
    check_error(code, out, err, message)
    assert not list(tmp_path.iterdir())


MEANT = {
    "a dataset alone": (["train", "shape2d"], "got 'shape2d': did you mean data=shapes2d?"),
    "an objective alone": (["train", "factorvae"], "did you mean objective=factor-vae?"),
    "a field alone": (["train", "step"], "did you mean steps=VALUE?"),
    "a path alone": (["train", "images"], "did you mean data=images?"),
    "nothing near": (["train", "qqqq"], "as data=shapes2d, steps=50 or seed=3"),
    "a dataset": (["data", "preview", "shape2d"], "did you mean 'shapes2d'?"),
    "a path": (["data", "preview", "./imgs"], "did you mean 'images'?"),
    "a path of data": (["train", "data=imgs"], "did you mean 'images'?"),
    "a file": (["train", "data=images/tabel.csv"], "did you mean 'images/table.csv'?"),
    "a folder on the way": (["train", "data=imgs/table.csv"], "did you mean 'images/table.csv'?"),
    "a field": (["train", "data=arrays", "data.path=images/tabl.csv"], "images/table.csv'?"),
    "a base": (["train", "--from", "images/table.cvs"], "did you mean 'images/table.csv'?"),
    "codes": (["score", "image/table.csv"], "did you mean 'images/table.csv'?"),
}


@pytest.mark.parametrize("case", MEANT)
def test_misspelt_names_and_paths_get_a_suggestion(unweave, case, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "images").mkdir()
    (tmp_path / "images" / "table.csv").write_text("a,b\n1,2\n")
    arguments, message = MEANT[case]
    check_error(*unweave(*arguments), message)


def test_misspelt_data_get_a_suggestion_in_python(tmp_path):
    (tmp_path / "images").mkdir()
    with pytest.raises(ValueError, match=r"did you mean '.*/images'"):
        uw.fit(tmp_path / "imgs")
    with pytest.raises(ValueError, match=r"name of a dataset: give Shapes2D\(...\)"):
        uw.fit("shapes2d")
    with pytest.raises(ValueError, match="got nothing there: check the path"):
        uw.fit(tmp_path / "qqqq" / "imgs")


def check_error(code, out, err, message):
    assert code == 2
    assert out == ""
    assert err.startswith("error: ")
    assert err.count("\n") == 1
    assert message in err


def broken_data(tmp_path):
    (tmp_path / "empty").mkdir()
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "a.png").write_bytes(b"no picture")
    yield tmp_path / "empty", "empty"
    yield tmp_path / "broken", "a.png"
    yield make(tmp_path / "nan.npy", np.full((9, 4), np.nan)), "NaN"
    yield make(tmp_path / "rank.npy", np.zeros((2, 2, 2, 2, 2, 2))), "(2, 2, 2, 2, 2, 2)"
    yield make(tmp_path / "objects.npy", np.array([{}, []], dtype=object)), "object"
    yield make(tmp_path / "none.npy", np.zeros((0, 8, 8))), "at least one observation"
    (tmp_path / "text.npz").write_text("no arrays")
    yield tmp_path / "text.npz", "text.npz"


def test_bad_data_give_one_line(unweave, tmp_path):
    for path, message in broken_data(tmp_path):
        code, out, err = unweave("train", f"data={path}", "--store", tmp_path / "runs")
        check_error(code, out, err, message)
    assert not (tmp_path / "runs").exists()


def test_a_bernoulli_likelihood_rejects_values_outside_0_to_1(unweave, tmp_path):
    path = make(tmp_path / "x.npy", np.random.default_rng(0).normal(size=(50, 7)))
    result = unweave("train", f"data={path}", "likelihood=bernoulli", "--store", tmp_path / "runs")
    check_error(*result, "likelihood=gaussian")


def test_failed_lanes_are_reported_with_exit_code_1(unweave, tmp_path):
    code, _, err = unweave("train", *TINY, "objective.beta=1e39,1", "--store", tmp_path)
    assert code == 1
    assert err.count("Try a lower optimiser.lr") == 1
    assert {f.status for f in Store(tmp_path).folders()} == {"failed", "finished"}


def test_characters_that_the_locale_lacks_are_printed_as_escapes(tmp_path):
    (tmp_path / "a.csv").write_text("grün,日本\n0.5,1\n0.25,2\n0.75,4\n0.5,3\n", encoding="utf-8")
    ascii_only = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    command = [sys.executable, "-m", "unweave", "data", "info", str(tmp_path / "a.csv")]
    environment = os.environ | ascii_only | {"UNWEAVE_DATA": str(tmp_path / "data")}
    done = subprocess.run(command, capture_output=True, env=environment, check=False)
    assert (done.returncode, done.stderr) == (0, b"")
    assert b"gr\\xfcn" in done.stdout
