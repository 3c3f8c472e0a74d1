"""The runs that the explorer's server shows: quickly listed, and followed while they train."""

import json
import os
import shutil
import threading
import time
from pathlib import Path

import pytest

import unweave as uw
from checkpoints import checkpoint, unfinish
from datasets import SMALL
from explorer_app import Page, ask, install_app, serving
from stored_files import stored_scores
from unweave.evaluation.loading import loader
from unweave.explorer.explore import store_library
from unweave.explorer.http_messages import NotFound
from unweave.explorer.library import Library
from unweave.explorer.sources import LoadedRun, StoredRun
from unweave.training import recall
from unweave.training.run import Run
from unweave.training.store import RunFolder, ScoreFacts, Store

FIELDS = dict(network=uw.MLP((4,)), batch_size=8, latent=uw.Gaussian(2), device="cpu",
              progress=False)  # fmt: skip


@pytest.fixture(autouse=True)
def app(monkeypatch, tmp_path):
    install_app(monkeypatch, tmp_path / "app")


def build(model, name):
    """A bundle that says of which weights it is."""
    return json.dumps([model.run.digest, name, first_weight(model.trained.weights)]).encode()


def first_weight(weights):
    return weights[min(weights)].flatten()[0].item()


def library(find, **options):
    return Library(find, build, "title", **options)


def stored(folder):
    return StoredRun(RunFolder(folder), loader(device="cpu"))


def watched(*folders):
    """The same sources at every look, as a server has them."""
    sources = [stored(folder) for folder in folders]
    return library(lambda: sources, watch=True)


@pytest.fixture
def folders(tmp_path):
    models = uw.fit(SMALL, seed=[0, 1], steps=4, store=tmp_path / "runs", **FIELDS)
    return [model.folder for model in models]


def test_a_watched_run_shows_its_newest_checkpoint_and_log(folders):
    folder = RunFolder(folders[0])
    unfinish(folder, 1)
    checkpoint(folder, 2, 0.5)
    shown = library(lambda: [stored(folder.path)], watch=True)
    with serving(shown) as server, folder.lock():
        (run,) = json.loads(ask(server, "/manifest")[2])["runs"]
        assert (run["state"], run["step"], run["explorable"]) == ("running", 2, True)
        target = f"/model/{run['id']}"
        assert json.loads(ask(server, target)[2])[-1] == 0.5
        checkpoint(folder, 3, 0.25)
        (run,) = json.loads(ask(server, "/manifest")[2])["runs"]
        assert (run["step"], run["log"]["step"][-1]) == (3, 3)
        assert run["log"]["terms"]["loss"][-1] == 0.25
        assert json.loads(ask(server, target)[2])[-1] == 0.25
    (run,) = json.loads(shown.manifest()[1])["runs"]
    assert run["state"] == "stopped"  # the lock was released, and no file has changed


def test_a_damaged_checkpoint_is_an_error_and_not_shown(folders):
    folder = RunFolder(folders[0])
    unfinish(folder, 2)
    (path,) = folder.states.values()
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    shown = library(lambda: [stored(folder.path)])
    with serving(shown) as server:
        (run,) = json.loads(ask(server, "/manifest")[2])["runs"]
        status, _, body = ask(server, f"/model/{run['id']}")
    assert status == 500
    assert "the checksum of its tensors does not match" in json.loads(body)["error"]
    assert "/" not in json.loads(body)["error"]


def test_a_checkpoint_that_is_replaced_while_it_is_read_is_read_again(folders):
    folder = RunFolder(folders[0])
    unfinish(folder, 2)
    load, calls = loader(device="cpu"), []

    def replaced_meanwhile(path):
        calls.append(path)
        if len(calls) == 1:
            checkpoint(folder, 3, 0.75)
            raise FileNotFoundError(path)
        return load(path)

    shown = library(lambda: [StoredRun(folder, replaced_meanwhile)])
    (run,) = shown.read().manifest.runs
    assert json.loads(shown.bundle(run.id))[-1] == 0.75
    assert len(calls) == 2


def test_a_checkpoint_that_is_gone_before_it_is_looked_at_is_looked_for_again(folders, monkeypatch):
    folder = RunFolder(folders[0])
    unfinish(folder, 2)
    shown, own = watched(folder.path), folder.states
    (run,) = shown.read().manifest.runs
    gone = {1: folder.path / "state-1.safetensors"}
    listings = iter([gone, own, gone])
    monkeypatch.setattr(RunFolder, "states", property(lambda _: next(listings, own)))
    assert json.loads(shown.bundle(run.id))[0] == run.id


def test_bundles_are_those_of_the_models_and_built_once_for_all_who_ask(folders):
    calls = []

    def slow_build(model, name):
        calls.append(model.run.digest)
        time.sleep(0.05)
        return build(model, name)

    shown = Library(lambda: [stored(folder) for folder in folders], slow_build, "title")
    names = {run.id: run.name for run in shown.read().manifest.runs}
    answers = []
    with serving(shown) as server:
        threads = [threading.Thread(target=lambda run=run: answers.append(
                   ask(server, f"/model/{run}"))) for run in [*names] * 5]  # fmt: skip
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    expected = {build(uw.load(folder, device="cpu"), names[folder.name]) for folder in folders}
    assert {body for _, _, body in answers} == expected
    assert sorted(calls) == sorted(names)


def test_only_what_has_changed_is_read_again(folders, monkeypatch):
    shown, read = library(lambda: [stored(folder) for folder in folders]), []
    own = RunFolder.read_log
    monkeypatch.setattr(
        RunFolder, "read_log", lambda *a, **k: read.append(a[0].path) or own(*a, **k)
    )
    first = shown.read()
    assert sorted(read) == sorted(folders)
    assert shown.read() is first
    assert len(read) == 2
    scores = stored_scores({"mig/chen2018": 0.25})
    RunFolder(folders[1]).write_scores(ScoreFacts("all", 100, "mean", step=99), scores)
    assert [dict(run.scores) for run in shown.read().manifest.runs] == [{}, {"mig/chen2018": 0.25}]
    assert read[2:] == [folders[1]]


def rest(*folders):
    """Let folders look as if nothing had happened for a minute."""
    for folder in folders:
        os.utime(folder, (time.time() - 60,) * 2)


def test_folders_that_have_not_changed_are_not_opened(folders, monkeypatch):
    root = folders[0].parent
    unfinish(RunFolder(folders[0]), 2)
    rest(*folders)
    shown, opened = store_library(root, watch=True), []
    first, list_names = shown.read(), os.listdir
    monkeypatch.setattr(os, "scandir", opened.append)
    monkeypatch.setattr(os, "listdir", lambda path: opened.append(path) or list_names(path))
    monkeypatch.setattr(RunFolder, "locked", property(lambda folder: opened.append(folder)))
    assert shown.read() is first
    assert opened == [root]


def test_a_change_that_leaves_the_time_of_a_folder_is_seen(folders, monkeypatch):
    """Two changes may come in one tick of the file system's clock."""
    monkeypatch.setattr("unweave.explorer.sources._TIME_STEP", 10**15)
    folder = RunFolder(folders[0])
    shown = watched(folder.path)
    shown.read()
    before = os.stat(folder.path).st_mtime_ns
    folder.write_log([{"step": 3, "loss": 0.125}])
    os.utime(folder.path, ns=(before, before))
    assert [run.log.terms["loss"] for run in shown.read().manifest.runs] == [[0.125]]


def test_a_run_that_starts_and_stops_is_seen_though_no_file_changes(folders):
    folder = RunFolder(folders[0])
    unfinish(folder, 2)
    rest(folder.path)
    shown = watched(folder.path)
    states = [shown.read().manifest.runs[0].state]
    with folder.lock():
        states.append(shown.read().manifest.runs[0].state)
        rest(folder.path)
        states.append(shown.read().manifest.runs[0].state)
    states.append(shown.read().manifest.runs[0].state)
    assert states == ["stopped", "running", "running", "stopped"]


def test_a_page_that_asks_again_gets_the_runs_that_have_changed(folders):
    shown = watched(*folders)
    known = json.loads(shown.manifest()[1])
    assert (len(known["runs"]), known["ids"]) == (2, None)
    nothing = json.loads(shown.manifest(known["tag"])[1])
    assert nothing == known | {"runs": [], "ids": [run["id"] for run in known["runs"]]}
    RunFolder(folders[1]).write_log([{"step": 4, "loss": 0.5}])
    tag, content = shown.manifest(known["tag"])
    (changed,) = json.loads(content)["runs"]
    assert (changed["id"], changed["log"]["terms"]) == (folders[1].name, {"loss": [0.5]})
    assert json.loads(shown.manifest(tag)[1])["runs"] == []
    for unknown in ("", "other-1", tag + "x", f"{tag.partition('-')[0]}-²"):
        assert len(json.loads(shown.manifest(unknown)[1])["runs"]) == 2


def test_a_manifest_is_of_one_revision_whoever_else_asks(folders, monkeypatch):
    shown = watched(*folders)
    own, known = shown.read, shown.manifest()[0]

    def read_before_another_request():
        found = own()
        RunFolder(folders[1]).write_log([{"step": 4, "loss": 0.5}])
        own()
        return found

    monkeypatch.setattr(shown, "read", read_before_another_request)
    tag, content = shown.manifest(known)
    assert (tag, json.loads(content)["runs"]) == (known, [])


def test_models_in_memory_are_served_as_they_are(folders):
    model = uw.load(folders[0], device="cpu")
    shown = library(lambda: [LoadedRun(model)])
    page = Page(shown.page())
    assert page.manifest["served"]
    assert page.manifest["open"] == [model.run.digest]
    assert page.policy["connect-src"] == "'self'"
    assert json.loads(shown.bundle(model.run.digest)) == json.loads(
        build(model, page.manifest["runs"][0]["name"])
    )
    with pytest.raises(NotFound):
        shown.bundle("unknown")


def add_runs(root, count):
    """Write the folders of runs as training would, with weights that cannot be read."""
    for seed in range(count):
        folder = Store(root).folder(Run(data=SMALL, seed=seed))
        folder.create(Run(data=SMALL, seed=seed))
        folder.write_log([{"step": step, "loss": 1.0, "rate": 2.0} for step in range(0, 200, 10)])
        folder.weights.write_bytes(b"not read")


def test_a_store_of_many_runs_is_listed_without_weights_and_read_once(tmp_path, monkeypatch):
    add_runs(tmp_path / "runs", 300)
    paths = sorted((tmp_path / "runs").iterdir())
    for seconds, path in enumerate(paths):
        for each in (path / "run.json", path):
            os.utime(each, (seconds, seconds))
    shown = store_library(tmp_path / "runs")
    monkeypatch.setattr(RunFolder, "read_log", lambda folder, **_: pytest.fail(f"{folder} again"))
    manifest = shown.read().manifest
    assert len(manifest.runs) == 300
    assert len({run.name for run in manifest.runs}) == 300
    assert manifest.open == [paths[-1].name]  # the newest


def test_a_store_shows_new_runs_and_leaves_out_what_it_cannot_read(tmp_path, capfd):
    root = tmp_path / "runs"
    add_runs(root, 2)
    shown = store_library(root, watch=True)
    assert len(shown.read().manifest.runs) == 2
    add_runs(root, 3)
    assert len(shown.read().manifest.runs) == 3
    broken = Path(root / "broken")
    broken.mkdir()
    (broken / "run.json").write_text("{")
    for _ in range(2):
        assert len(shown.read().manifest.runs) == 3
    assert capfd.readouterr().err.count("broken is left out") == 1
    (root / shown.read().manifest.runs[0].id / "run.json").unlink()
    assert len(shown.read().manifest.runs) == 2


def test_a_folder_that_cannot_be_read_is_left_out_with_one_note(tmp_path, capfd):
    root = tmp_path / "runs"
    add_runs(root, 1)
    shown = store_library(root, watch=True)
    (root / "looped").symlink_to(root / "looped")
    (root / "odd").mkdir()
    (root / "odd" / "run.json").symlink_to("run.json")
    (root / "notes.txt").write_text("not a run")
    for _ in range(2):
        assert len(shown.read().manifest.runs) == 1
    notes = " ".join(capfd.readouterr().err.split())
    assert [notes.count(f"{name} is left out") for name in ("looped", "odd", "notes.txt")] == [
        1,
        1,
        0,
    ]


def test_an_empty_store_says_what_to_do_unless_it_is_watched(tmp_path):
    with pytest.raises(ValueError, match="train one with `unweave train`"):
        store_library(tmp_path)
    assert store_library(tmp_path, watch=True).read().manifest.runs == []


def test_a_run_that_has_not_started_is_listed_and_cannot_be_opened(tmp_path):
    run = Run(data=SMALL)
    folder = Store(tmp_path / "runs").folder(run)
    folder.create(run)
    shown = store_library(tmp_path / "runs", watch=True)
    with serving(shown) as server:
        manifest = json.loads(ask(server, "/manifest")[2])
        status, _, body = ask(server, f"/model/{run.digest}")
    assert manifest["open"] == []
    assert [(r["state"], r["explorable"]) for r in manifest["runs"]] == [("not started", False)]
    assert status == 500
    assert json.loads(body)["error"].endswith("its training never started")


def test_a_large_store_has_shorter_curves_with_both_ends(tmp_path, monkeypatch):
    monkeypatch.setattr("unweave.explorer.library._ALL_ROWS", 48)
    add_runs(tmp_path / "runs", 2)
    for folder in Store(tmp_path / "runs").folders():
        folder.write_log([{"step": step, "loss": step / 3} for step in range(1, 101)])
    for run in store_library(tmp_path / "runs").read().manifest.runs:
        assert len(run.log.step) == len(run.log.terms["loss"]) == 24
        assert (run.log.step[0], run.log.step[-1], run.step) == (1, 100, 100)
        assert run.log.terms["loss"] == [pytest.approx(s / 3, rel=1e-5) for s in run.log.step]


def test_two_folders_of_one_run_are_one_run(folders, tmp_path, capfd):
    copy = tmp_path / "other" / folders[0].name
    copy.mkdir(parents=True)
    for file in folders[0].iterdir():
        (copy / file.name).write_bytes(file.read_bytes())
    shown = library(lambda: [stored(folders[0]), stored(copy)])
    assert len(shown.read().manifest.runs) == 1
    assert "is left out: another folder" in capfd.readouterr().err


def test_runs_in_folders_of_other_names_can_be_opened_and_are_shown_once(folders, capfd):
    renamed = folders[0].rename(folders[0].parent / "my run")
    shutil.copytree(renamed, renamed.parent / "copy of my run")
    shown = store_library(renamed.parent, load=loader(device="cpu"))
    shown.build = build
    digests = {RunFolder(folder).read_run().digest for folder in (renamed, folders[1])}
    assert {run.id for run in shown.read().manifest.runs} == digests
    assert "is left out: another folder has the same run" in capfd.readouterr().err
    digest = RunFolder(renamed).read_run().digest
    with serving(shown) as server:
        status, _, body = ask(server, f"/model/{digest}")
    assert (status, json.loads(body)[0]) == (200, digest)


def test_a_folder_that_is_renamed_is_read_where_it_is(folders):
    shown = store_library(folders[0].parent, load=loader(device="cpu"))
    shown.build = build
    digest = RunFolder(folders[0]).read_run().digest
    folders[0].rename(folders[0].parent / "my run")
    shown.read()
    assert json.loads(shown.bundle(digest))[0] == digest


def test_the_bundle_that_was_used_least_recently_makes_room(tmp_path, monkeypatch):
    models = uw.fit(SMALL, seed=[0, 1, 2], steps=1, **FIELDS)
    built = []

    def counted(model, name):
        built.append(model.run.seed)
        return bytes(10)

    monkeypatch.setattr("unweave.explorer.library._MOST_BYTES", 20)
    shown = Library(lambda: [LoadedRun(model) for model in models], counted, "title")
    shown.read()
    for seed in (0, 1, 0, 2, 0, 1):
        shown.bundle(models[seed].run.digest)
    assert built == [0, 1, 2, 1]


def test_recall_is_what_is_shown(folders):
    """The store's own reader has the same weights for an unfinished run."""
    folder = RunFolder(folders[0])
    unfinish(folder, 2)
    shown = library(lambda: [stored(folder.path)])
    (run,) = shown.read().manifest.runs
    weights = recall(folder, folder.read_run()).weights
    assert json.loads(shown.bundle(run.id))[-1] == first_weight(weights)
