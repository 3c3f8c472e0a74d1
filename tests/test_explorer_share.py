"""`uw.share`, `uw.explore` and the commands `share`, `explore` and `report`."""

import gzip
import html
import json
import math
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import urllib.request
from html.parser import HTMLParser

import numpy as np
import pytest

import unweave as uw
from bundles import ReadBundle
from datasets import SMALL
from explorer_app import Page, install_app
from stored_files import stored_scores
from unweave.explorer import explore as explore_module, share as share_module
from unweave.explorer.explore import InlinePage
from unweave.explorer.model_data import model_bundle
from unweave.training.store import RunFolder, ScoreFacts

FIELDS = dict(network=uw.MLP((4,)), batch_size=8, latent=uw.Gaussian(2), device="cpu",
              progress=False, steps=4)  # fmt: skip


@pytest.fixture(autouse=True)
def app(monkeypatch, tmp_path):
    install_app(monkeypatch, tmp_path / "app")


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    return uw.fit(SMALL, seed=[0, 1], store=tmp_path_factory.mktemp("store") / "runs", **FIELDS)


@pytest.fixture
def quick(monkeypatch):
    """Bundles that say of what they are, without an export."""
    calls = []

    def fake(model, **options):
        calls.append(options)
        return gzip.compress(json.dumps([model.run.digest, options["name"]]).encode(), mtime=0)

    monkeypatch.setattr(share_module, "model_bundle", fake)
    return calls


def header(bundle):
    content = gzip.decompress(bundle)
    return json.loads(content[4 : 4 + int.from_bytes(content[:4], "little")])


@pytest.mark.parametrize("odd", [math.nan, math.inf, -math.inf, 1e308, -1e308])
def test_odd_numbers_of_a_run_leave_the_rest_of_the_page(quick, models, tmp_path, odd):
    folder = RunFolder(shutil.copytree(models[0].folder, tmp_path / models[0].folder.name))
    log = folder.read_log()
    folder.write_log([log[0], log[1] | {"rate": odd, "loss": odd}, *log[2:]])
    folder.write_measures([{"step": 4, "validation": {"rate": odd, "distortion": 2.0}}])
    scores = stored_scores({"mig/chen2018": odd, "sap/kumar2018": 0.5})
    folder.write_scores(ScoreFacts("all", 100, "mean", step=99), scores)
    text = uw.share(uw.load(folder.path, device="cpu"), tmp_path / "page.html").read_bytes()
    (run,) = Page(text).manifest["runs"]
    curves = run["log"]["terms"]
    for name in ("rate", "loss"):
        assert curves[name][1] is None
        assert curves[name][2:] == pytest.approx([row[name] for row in log[2:]], rel=1e-5)
    assert None not in curves["distortion"]
    measured = {"validation/rate": [None], "validation/distortion": [2.0]}
    assert (run["measures"]["terms"], run["scores"]) == (measured, {"sap/kumar2018": 0.5})


@pytest.mark.parametrize(("part", "size"), [("encoder.3", 1e18), ("decoder.2", 1e30)])
def test_huge_codes_and_errors_are_numbers_or_missing(monkeypatch, part, size):
    for name in ("export_encoder", "export_decoder"):
        monkeypatch.setattr(f"unweave.explorer.model_data.{name}", lambda model: b"")
    model = uw.fit(SMALL, likelihood=uw.likelihoods.Gaussian(0.5), **FIELDS)
    model.trained.weights[f"model.{part}.weight"][0, 0] *= size
    model.trained.weights[f"model.{part}.bias"][0, 0] = size
    read = ReadBundle(model_bundle(model, rows=40, thumbnails=5))
    rows = read.header["rows"]
    assert all(np.isfinite(read.array(rows[name])).all() for name in ("mean", "pca", "sample"))
    assert np.isfinite(read.array(rows["error"])).all() == (part == "encoder.3")
    assert None not in read.header["rate"].values()


def test_codes_that_are_not_finite_are_one_line(models, tmp_path):
    model = uw.load(models[0].folder, device="cpu")
    model.trained.weights["model.encoder.3.bias"][0, 0] = math.inf
    with pytest.raises(ValueError, match="expected finite codes, got NaN or infinity in columns"):
        uw.share(model, tmp_path / "page.html", rows=40, thumbnails=5)


def test_a_shared_page_has_the_models_and_the_same_bytes_every_time(models, tmp_path):
    place = tmp_path / "new" / "page.html"
    assert uw.share(models[0], place, rows=40, thumbnails=5) == place
    page = Page(place.read_bytes())
    digest = models[0].run.digest
    assert page.manifest["open"] == [digest]
    assert not page.manifest["served"]
    assert page.manifest["title"] == "beta-vae on Shapes2D · unweave"
    data = header(page.bundle(digest))
    assert (data["id"], data["name"]) == (digest, page.manifest["runs"][0]["name"])
    assert (data["rows"]["count"], data["rows"]["shown"]["count"]) == (40, 5)
    uw.share(uw.load(models[0].folder, device="cpu"), tmp_path / "b.html", rows=40, thumbnails=5)
    assert (tmp_path / "b.html").read_bytes() == place.read_bytes()


def test_several_models_have_distinct_names(models, quick, tmp_path):
    page = Page(uw.share(models, tmp_path / "page.html", title="<b>").read_bytes())
    assert page.manifest["title"] == "<b>"
    for model, run in zip(models, page.manifest["runs"], strict=True):
        name = f"beta-vae, seed {model.run.seed}"
        assert (run["id"], run["name"], run["explorable"]) == (model.run.digest, name, True)
        assert json.loads(gzip.decompress(page.bundle(run["id"]))) == [run["id"], name]
    assert page.manifest["open"] == [model.run.digest for model in models]
    assert {(each["rows"], each["thumbnails"], each["embedding"]) for each in quick} == {
        (10_000, 2_000, None)
    }


def test_a_model_without_a_folder_is_shared(quick, tmp_path):
    model = uw.fit(np.random.default_rng(0).normal(size=(30, 3)), **FIELDS)
    page = Page(uw.share(model, tmp_path / "page.html").read_bytes())
    assert [run["id"] for run in page.manifest["runs"]] == [model.run.digest]


def test_a_page_contains_no_path_of_the_data_or_of_the_store(tmp_path):
    place = tmp_path / "secret place" / "measured.npz"
    place.parent.mkdir()
    values = np.random.default_rng(0).normal(size=(30, 3)).astype(np.float32)
    np.savez(place, x=values)
    model = uw.fit(place, store=tmp_path / "secret store", **FIELDS)
    page = Page(uw.share(model, tmp_path / "page.html", rows=20, thumbnails=5).read_bytes())
    bundle = gzip.decompress(page.bundle(model.run.digest))
    for content in (json.dumps(page.manifest).encode(), bundle, page.all("title")[0].text.encode()):
        for part in (str(tmp_path), "secret place", "secret store"):
            assert part.encode() not in content
    assert page.manifest["title"] == "beta-vae on measured.npz · unweave"


def test_a_run_whose_folder_has_another_name_is_shared(models, quick, tmp_path):
    copy = shutil.copytree(models[0].folder, tmp_path / "my run")
    page = Page(uw.share(uw.load(copy, device="cpu"), tmp_path / "page.html").read_bytes())
    digest = models[0].run.digest
    assert [run["id"] for run in page.manifest["runs"]] == page.manifest["open"] == [digest]
    assert json.loads(gzip.decompress(page.bundle(digest)))[0] == digest


def test_models_that_cannot_be_shared_are_refused_and_nothing_is_written(models, quick, tmp_path):
    place = tmp_path / "page.html"
    with pytest.raises(ValueError, match="at least one model"):
        uw.share([], place)
    with pytest.raises(ValueError, match=f"got {models[0].run.digest} twice"):
        uw.share([models[0], models[0]], place)
    with pytest.raises(TypeError, match="got str"):
        uw.share("runs/3f2a", place)
    with pytest.raises(ValueError, match=r"umap or pacmap, got 'tsne'"):
        uw.share(models, place, embedding="tsne")
    with pytest.raises(ValueError, match="thumbnails of at least 1, got 0"):
        uw.share(models, place, thumbnails=0)
    with pytest.raises(ValueError, match="rows of at least 2, got 1"):
        uw.share(models, place, rows=1)
    with pytest.raises(ValueError, match="got the folder"):
        uw.share(models, tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["app"]


def test_a_page_that_cannot_be_written_leaves_the_old_one(models, quick, tmp_path, no_space):
    place = tmp_path / "page.html"
    place.write_text("old")
    with pytest.raises(OSError, match="no space"):
        uw.share(models, place)
    assert place.read_text() == "old"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["app", "page.html"]


def test_a_missing_package_is_named(models, tmp_path, monkeypatch):
    monkeypatch.setattr("unweave.explorer.onnx_export.find_spec", lambda name: None)
    with pytest.raises(ValueError, match=r"needs onnx: pip install 'unweave\[explorer\]'"):
        uw.share(models, tmp_path / "page.html")


# ---- a notebook


class Frame(HTMLParser):
    def __init__(self, text):
        super().__init__()
        self.tags = []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))


def test_a_notebook_shows_the_page_in_a_frame_of_its_own(models, quick, monkeypatch, tmp_path):
    monkeypatch.setattr(explore_module.err, "is_jupyter", True, raising=False)
    shown = uw.explore(models)
    content = uw.share(models, tmp_path / "page.html").read_bytes()
    ((tag, attributes),) = Frame(shown._repr_html_()).tags
    assert tag == "iframe"
    assert attributes["srcdoc"] == content.decode()
    assert attributes["sandbox"] == "allow-scripts allow-downloads"
    assert "allow-same-origin" not in attributes["sandbox"]
    with pytest.raises(ValueError, match="expected the models to show"):
        uw.explore()
    for given in ({"watch": True}, {"port": 8800}, {"store": "other"}):
        with pytest.raises(ValueError, match=f"expected no {next(iter(given))}: a notebook"):
            uw.explore(models, **given)


def test_a_frame_cannot_be_left():
    nasty = b"\"></iframe><script>alert(1)</script>&amp;'"
    text = InlinePage(nasty)._repr_html_()
    ((_, attributes),) = Frame(text).tags
    assert attributes["srcdoc"] == nasty.decode()
    assert html.escape(nasty.decode(), quote=True).count("<") == 0


# ---- commands


def test_share_prints_the_path_and_the_size(unweave, models, quick, tmp_path):
    store, place = models[0].folder.parent, tmp_path / "page.html"
    names = [model.folder.name[:6] for model in models]
    code, out, err = unweave("share", *names, "--out", place, "--store", store, "--rows", 30,
                             "--thumbnails", 3, "--title", "Two seeds")  # fmt: skip
    assert code == 0, err
    assert re.fullmatch(r"\S+page\.html, [\d.]+ (bytes|kB|MB): open it in a browser; it needs no "
                        r"network\n", out)  # fmt: skip
    page = Page(place.read_bytes())
    assert page.manifest["title"] == "Two seeds"
    assert {(each["rows"], each["thumbnails"]) for each in quick} == {(30, 3)}
    assert unweave("share", models[0].folder, "--out", place)[0] == 0
    assert len(Page(place.read_bytes()).manifest["runs"]) == 1


BAD = {
    "no file": (["share", "RUN"], "Missing option"),
    "no run": (["share", "--out", "page.html"], "Missing argument"),
    "unknown run": (["share", "nothing", "--out", "page.html"], "'nothing' is not a run"),
    "a folder": (["share", "RUN", "--out", "."], "expected a file to write"),
    "few rows": (["share", "RUN", "--out", "page.html", "--rows", "1"], "'--rows'"),
    "an embedding": (["share", "RUN", "--out", "p.html", "--embedding", "tsne"], "umap or pacmap"),
    "an empty store": (["explore", "--store", "none"], "contains no runs to explore"),
    "a run": (["explore", "nothing"], "'nothing' is not a run"),
    "a port": (["explore", "RUN", "--port", "70000"], "'--port'"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_gives_one_line_and_writes_nothing(
    unweave, case, models, tmp_path, monkeypatch, quick
):
    monkeypatch.chdir(tmp_path)
    arguments, message = BAD[case]
    run = str(models[0].folder)
    code, out, err = unweave(*[run if each == "RUN" else each for each in arguments])
    assert code == 2
    assert out == ""
    assert message in err
    assert err.count("\n") == 1
    assert [path.name for path in tmp_path.iterdir()] == ["app"]


def test_the_help_has_examples(unweave):
    for command in ("share", "explore"):
        code, out, _ = unweave(command, "--help")
        assert code == 0
        assert f"unweave {command} 3f2a" in out


@pytest.mark.usefixtures("quick_scores")
def test_report_writes_the_explorer_beside_it_and_links_to_it(unweave, models, quick):
    folder = models[0].folder
    code, out, err = unweave("report", folder, "--rows", 50)
    assert code == 0, err
    assert out.split() == [str(folder / "report.html"), str(folder / "explorer.html")]
    link = '<a class="button" href="explorer.html">Open in the explorer</a>'
    assert link in (folder / "report.html").read_text()
    assert Page((folder / "explorer.html").read_bytes()).manifest["open"] == [folder.name]
    code, out, _ = unweave("report", folder, "--rows", 50, "--no-explorer")
    assert code == 0
    assert out.split() == [str(folder / "report.html")]
    assert link not in (folder / "report.html").read_text()


@pytest.mark.usefixtures("quick_scores")
def test_report_without_the_extra_says_how_to_get_the_explorer(unweave, models, monkeypatch):
    monkeypatch.setattr("unweave.explorer.onnx_export.find_spec", lambda name: None)
    code, out, err = unweave("report", models[1].folder, "--rows", 50)
    assert code == 0
    assert out.split() == [str(models[1].folder / "report.html")]
    assert "no explorer.html for run " in err
    assert "pip install 'unweave[explorer]'" in err


SERVE = """
import pathlib, sys, pytest
sys.path.insert(0, {tests!r})
from explorer_app import install_app
from unweave.cli.main import main
with pytest.MonkeyPatch.context() as patch:
    install_app(patch, pathlib.Path({app!r}))
    sys.argv = ["unweave", "explore", "--store", {store!r}, "--no-browser", "--watch"]
    main()
"""


def test_explore_serves_until_it_is_interrupted(models, tmp_path):
    here = os.path.dirname(__file__)
    code = SERVE.format(tests=here, app=str(tmp_path / "new"), store=str(models[0].folder.parent))
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True,
                               env={**os.environ, "PYTHONUNBUFFERED": "1"})  # fmt: skip
    stop = threading.Timer(600, process.kill)
    stop.start()
    try:
        url = re.search(r"http://127\.0\.0\.1:\d+/", process.stdout.readline())[0]
        with urllib.request.urlopen(url, timeout=60) as answer:
            page = Page(answer.read())
        assert page.manifest["watch"]
        assert {run["id"] for run in page.manifest["runs"]} == {m.folder.name for m in models}
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 0
        assert process.stdout.read() == "stopped\n"
    finally:
        stop.cancel()
        process.kill()
        process.stdout.close()
        process.wait()


def test_watched_models_stay_on_their_data_split_and_device(tmp_path, monkeypatch):
    place, moved = tmp_path / "a.npy", tmp_path / "moved.npy"
    np.save(place, np.random.default_rng(0).random((60, 6)).astype(np.float32))
    data = uw.Arrays(str(place), split="train")
    folder = uw.fit(data, store=tmp_path / "runs", **FIELDS).folder
    place.rename(moved)
    model = uw.load(folder, data=moved, split="test", device="cpu")
    built, answers = [], []
    monkeypatch.setattr(explore_module, "model_bundle", lambda m, name: built.append(m) or b"")
    monkeypatch.setattr(explore_module, "serve", lambda content, *_: answers.append(content))
    uw.explore(model, watch=True)
    answers[0].read()
    answers[0].bundle(model.run.digest)
    assert built[0] is not model
    assert (built[0].split, built[0].device) == ("test", model.device)
    assert built[0].dataset is model.dataset


def test_the_browser_is_opened_at_the_address(models, monkeypatch, quick):
    opened, done = [], threading.Event()

    def open_page(url):
        opened.append(url)
        done.set()

    def wait(server):
        assert done.wait(60)
        assert opened == [server.url]
        raise KeyboardInterrupt

    monkeypatch.setattr("webbrowser.open", open_page)
    monkeypatch.setattr("unweave.explorer.server.ExplorerServer.serve_forever", wait)
    assert uw.explore(models[0]) is None
    assert len(opened) == 1
