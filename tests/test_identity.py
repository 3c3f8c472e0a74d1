"""What is read back is what was written: renamed, edited, copied and moved files; locks."""

import errno
import json
import multiprocessing
import os
import shutil
import struct
import subprocess
import sys
from functools import partial
from pathlib import Path

import numpy as np
import pytest

import unweave as uw
from datasets import CPU, SMALL, small_run
from stored_files import rewrite, stored_scores
from unweave.core.files import UNFINISHED
from unweave.core.outputs import check_output
from unweave.data.cache import cached_file, cached_json
from unweave.evaluation.loading import load_each
from unweave.metrics import Table
from unweave.metrics.table_npz import table_bytes
from unweave.training import train
from unweave.training.leases import FolderInUse
from unweave.training.run_files import RunFiles, run_paths
from unweave.training.store import RunFolder, ScoreFacts, Store

FIELDS = dict(network=uw.MLP((8,)), latent=uw.Gaussian(2), batch_size=16, steps=6, progress=False)
DATASET = SMALL.load(CPU)


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """The folders of three runs, which no test changes."""
    store = tmp_path_factory.mktemp("runs")
    return [model.folder for model in uw.fit(SMALL, seed=range(3), store=store, **FIELDS)]


@pytest.fixture
def folder(trained, tmp_path):
    return RunFolder(shutil.copytree(trained[0], tmp_path / "runs" / trained[0].name))


def test_a_checkpoint_renamed_to_another_step_is_not_resumed(tmp_path):
    """It used to continue at the step of its name."""
    run, store = small_run(steps=6), Store(tmp_path)
    train([run], DATASET, store)
    folder = store.folder(run)
    folder.weights.unlink()
    folder.states[6].rename(folder.path / "state-3.safetensors")
    with pytest.raises(ValueError, match=r"state-3.safetensors .*written as state-6.safetensors"):
        train([run], DATASET, store)


@pytest.mark.parametrize("name", ["weights.safetensors", "state-6.safetensors"])
def test_the_checksum_of_tensors_covers_types_and_shapes(folder, name):
    """ "F32" changed to "I32" used to train to nonsense without an error."""
    path = folder.path / name
    content = path.read_bytes()
    size = struct.unpack("<Q", content[:8])[0]
    for old, new in ((b'"F32"', b'"I32"'), (b'"shape":[8]', b'"shape":[2,4]')):
        assert old in content[: 8 + size]
        header = content[8 : 8 + size].replace(old, new)
        path.write_bytes(struct.pack("<Q", len(header)) + header + content[8 + size :])
        read = folder.read_weights if name.startswith("w") else lambda: folder.read_state(6)
        with pytest.raises(ValueError, match=f"{name} .*checksum of its tensors"):
            read()


def test_a_changed_setting_is_noticed_even_with_a_new_checksum(folder):
    """relu changed to tanh used to give other scores without an error."""
    path = folder.path / "run.json"
    intact = path.read_text()
    path.write_text(intact.replace('"relu"', '"tanh"'))
    with pytest.raises(ValueError, match=r"run\.json cannot be read \(its checksum does not match"):
        uw.load(folder.path)
    path.write_text(intact)
    network = json.loads(intact)["network"]
    rewrite(path, {"network": network | {"activation": "tanh"}})
    with pytest.raises(ValueError, match=f"stored as {folder.path.name}"):
        uw.load(folder.path)


def test_a_folder_may_be_moved_copied_and_renamed(folder, tmp_path):
    expected = uw.load(folder.path).encode(DATASET)
    shutil.copytree(folder.path, tmp_path / "elsewhere" / folder.path.name)
    folder.path.rename(tmp_path / "runs" / "my favourite")
    for place in ("elsewhere", "runs"):
        (path,) = run_paths(tmp_path / place)
        model = uw.load(path)
        assert np.array_equal(model.encode(DATASET), expected)
        RunFolder(path).write_scores(ScoreFacts("all", 9, "mean"), stored_scores({"a/b": 1.0}))
        assert RunFolder(path).metrics == ("a/b",)


def write_sparse(path):
    """A file of a terabyte that takes no space."""
    with path.open("wb") as file:
        file.truncate(2**40)


ODD = {  # to read a pipe or a device to its end would take for ever
    "null": lambda path: path.write_text("null"),
    "folder": Path.mkdir,
    "pipe": os.mkfifo,
    "device": lambda path: path.symlink_to("/dev/zero"),
    "sparse": write_sparse,
}


@pytest.mark.parametrize("odd", ODD)
@pytest.mark.parametrize("name", ["run.json", "data.json", "log.jsonl", "weights.safetensors"])
def test_one_odd_file_leaves_the_other_runs_as_they_are(trained, tmp_path, unweave, name, odd):
    folders = [shutil.copytree(each, tmp_path / each.name) for each in trained]
    (folders[1] / name).unlink()
    ODD[odd](folders[1] / name)
    code, out, err = unweave("runs", "--store", tmp_path)
    assert (code, folders[0].name in out, folders[2].name in out) == (0, True, True)
    code, out, err = unweave("status", "--store", tmp_path)
    assert (code, "2 finished" in out or "3 finished" in out) == (0, True)
    models, reasons = load_each(folders, device="cpu")
    assert [model.folder for model in models] == [folders[0], folders[2]]
    assert name in reasons[folders[1]]
    code, out, err = unweave("evaluate", *folders, "--metrics", "mig", "--device", "cpu")
    assert (code, "Traceback" in err, str(folders[1] / name) in err) == (1, False, True)
    assert folders[0].name in out
    code, out, err = unweave("evaluate", folders[1], "--metrics", "mig", "--device", "cpu")
    assert (code, out, str(folders[1] / name) in err) == (2, "", True)


def test_a_folder_that_may_not_be_read_is_listed_as_damaged(folder, unweave, monkeypatch):
    """It used to be left out without a word."""
    run, real = folder.path / "run.json", os.stat

    def stat(path, *args, **options):  # root may read everything
        if os.fspath(path) == str(run):
            raise PermissionError(errno.EACCES, "Permission denied", str(path))
        return real(path, *args, **options)

    monkeypatch.setattr(os, "stat", stat)
    code, out, err = unweave("runs", "--store", run.parents[1])
    assert (code, "damaged" in out, f"{run}: Permission denied" in err) == (0, True, True)


def test_no_torch_is_loaded_to_list_runs(folder):
    script = "import sys; sys.argv[1:] = ['runs', '--store', sys.argv[1]]\n"
    script += "from unweave.cli.main import main\n"
    script += "try: main()\nfinally: assert 'torch' not in sys.modules, 'torch'"
    command = [sys.executable, "-c", script, folder.path.parent]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, folder.path.name in done.stdout) == (0, True), done.stderr


def test_a_table_shows_the_newest_of_many_runs(tmp_path, unweave, monkeypatch):
    monkeypatch.setattr("unweave.cli.runs._MOST", 2)
    for seed in range(4):
        run = small_run(seed=seed)
        Store(tmp_path).folder(run).create(run)
        os.utime(Store(tmp_path).folder(run).path / "run.json", (seed, seed))
    names = [path.name for path in run_paths(tmp_path)]
    _, out, _ = unweave("runs", "--store", tmp_path)
    assert [name in out for name in names] == [False, False, True, True]
    assert "2 of 4 runs; --where chooses" in out
    _, out, _ = unweave("runs", "--store", tmp_path, "--sort", "seed")
    assert [name in out for name in names] == [True, True, False, False]
    assert all(name in unweave("runs", "--store", tmp_path, "--csv")[1] for name in names)


def test_the_newest_run_is_the_one_that_was_created_last(tmp_path, unweave):
    """Evaluating a run, or writing its report, changed its folder and made it the newest."""
    models = uw.fit(SMALL, seed=range(3), store=tmp_path, **FIELDS)
    for seed, model in enumerate(models):
        os.utime(model.folder / "run.json", (seed, seed))
    (models[0].folder / "scores.json").write_text("{}")
    os.utime(models[0].folder, (2e9, 2e9))
    assert run_paths(tmp_path) == [model.folder for model in models]


# ---- locks


def hold(path, taken, done):
    with RunFiles(path).lock():
        taken.set()
        done.wait(60)


@pytest.fixture
def held(folder, monkeypatch):
    """The folder of a run, in which another process is writing."""
    monkeypatch.setattr("unweave.training.leases._WAIT", 0.01)
    context = multiprocessing.get_context("fork")
    taken, done = context.Event(), context.Event()
    process = context.Process(target=hold, args=(folder.path, taken, done))
    process.start()
    taken.wait(60)
    yield folder
    done.set()
    process.join()


@pytest.mark.filterwarnings("ignore::unweave.metrics.FewRowsWarning")
def test_whoever_writes_in_a_run_folder_holds_its_lock(held, unweave, monkeypatch):
    """Training used to delete what `evaluate` and `report` were writing."""
    monkeypatch.setattr("unweave.report.page.render", lambda *_, **__: "page")
    monkeypatch.setattr("unweave.explorer.share.shared_page", lambda *_: b"page")
    litter = held.path / f"{UNFINISHED}0-scores.json"
    litter.write_bytes(b"half")
    model = uw.load(held.path, device="cpu")
    with pytest.raises(FolderInUse, match="another process is writing in"):
        train([model.run], DATASET, Store(held.path.parent))
    with pytest.raises(FolderInUse):
        uw.write_report(model, held.path / "report.html")
    with pytest.raises(FolderInUse):
        uw.share(model, held.path / "explorer.html")
    assert unweave("report", held.path, "--no-explorer")[0] == 2
    code, out, err = unweave("evaluate", held.path, "--metrics", "mig", "--device", "cpu")
    assert (code, "mig/chen2018" in out) == (0, True)
    assert f"scores of run {model.run.digest} are not stored: another process" in err
    assert litter.read_bytes() == b"half"
    assert not (held.path / "scores.json").exists()


@pytest.mark.filterwarnings("ignore::unweave.metrics.FewRowsWarning")
def test_evaluate_prints_scores_of_a_store_that_is_read_only(folder, unweave, monkeypatch):
    """It used to compute all scores and then print nothing."""

    def refuse(*_, **__):
        raise OSError(errno.EROFS, "Read-only file system", str(folder.path / "lease-1.json"))

    monkeypatch.setattr("unweave.core.files.Disk.create", refuse)
    code, out, err = unweave("evaluate", folder.path, "--metrics", "mig", "--device", "cpu")
    assert (code, "mig/chen2018" in out) == (0, True)
    note = f"scores are not stored: {folder.path.parent} is not writable (Read-only file system)"
    assert note in err


def test_places_that_cannot_be_written_are_refused_before_anything_is_computed(
    unweave, folder, monkeypatch, tmp_path
):
    monkeypatch.setattr(os, "access", lambda path, mode: False)  # root may write everywhere
    monkeypatch.setattr(uw.FittedModel, "encode", None)
    run = folder.path
    for words in (["report", run], ["share", run, "--out", tmp_path / "a.html"],
                  ["encode", run, "--out", tmp_path / "a.csv"]):  # fmt: skip
        code, _, err = unweave(*words)
        assert (code, "Permission denied" in err) == (2, True)


@pytest.mark.parametrize("explorer", [True, False])
def test_one_unwritable_folder_leaves_the_other_reports(unweave, monkeypatch, tmp_path, explorer):
    """`report runs/*` used to stop there, without the reports of the runs after it."""
    folders = [m.folder for m in uw.fit(SMALL, seed=range(3), store=tmp_path, **FIELDS)]
    monkeypatch.setattr("unweave.report.page.render", lambda *_, **__: "page")
    monkeypatch.setattr("unweave.explorer.share.shared_page", lambda *_: b"page")
    (folders[1] / "lease-1.json").mkdir()  # nobody can take it, not even root
    flag = "--explorer" if explorer else "--no-explorer"
    code, out, err = unweave("report", *folders, flag, "--device", "cpu", "--store", tmp_path)
    assert (code, "Traceback" in err) == (2, False)
    assert f"there is no report of {folders[1]}: cannot read or write {folders[1]}" in err
    written = [(folder / "report.html").exists() for folder in folders]
    assert written == [str(folder / "report.html") in out for folder in folders]
    assert written == [True, False, True]


def test_a_file_that_another_machine_replaced_leaves_the_other_reports(
    unweave, monkeypatch, tmp_path
):
    """ESTALE of one file was taken for a file system that is gone."""
    folders = [m.folder for m in uw.fit(SMALL, seed=range(2), store=tmp_path, **FIELDS)]

    def write(model, path, **_):
        if model.folder == folders[0]:
            raise OSError(errno.ESTALE, os.strerror(errno.ESTALE), str(path))
        path.touch()
        return path

    monkeypatch.setattr("unweave.cli.runs.write_report", write, raising=False)
    monkeypatch.setattr("unweave.report.write_report", write)
    code, _, err = unweave("report", *folders, "--device", "cpu", "--store", tmp_path)
    assert code == 2
    assert f"there is no report of {folders[0]}: cannot read or write" in err
    assert [(folder / "report.html").exists() for folder in folders] == [False, True]


@pytest.mark.filterwarnings("ignore::unweave.metrics.FewRowsWarning")
@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EIO])
@pytest.mark.parametrize("metric", ["mig", "log_likelihood"])
def test_evaluate_prints_scores_before_the_error_of_a_disk(
    folder, unweave, monkeypatch, number, metric
):
    def refuse(*_, **__):
        raise OSError(number, os.strerror(number), "x")

    monkeypatch.setattr("unweave.training.store.RunFolder.write_scores", refuse)
    code, out, err = unweave("evaluate", folder.path, "--metrics", metric, "--device", "cpu")
    assert (code, metric in out, err.count("error: ")) == (2, True, 1)
    assert os.strerror(number) in err


# ---- outputs of users


def outputs(model):
    """Functions and commands that write a file to a place that the user chooses."""
    folder = str(model.folder)
    return {
        "model.uw": model.save,
        "table.npz": model.table(rows=20).save,
        "features.npz": lambda path: uw.data.write_features(path, np.zeros((3, 1), int)),
        "page.html": lambda path: uw.share(model, path),
        "my-report.html": lambda path: uw.write_report(model, path),
        "comparison.html": lambda path: uw.report.write_comparison(None, path),
        "compare --html a.html": ["compare", folder, "--html"],
        "share --out explorer.html": ["share", folder, "--out"],
        "encode --out a.csv": ["encode", folder, "--out"],
        "decode --out a.npy": ["decode", folder, "codes.npy", "--out"],
        "data features --out b.npz": ["data", "features", folder, "--out"],
        "data preview --out a.png": ["data", "preview", "codes.npy", "--out"],
        "bench --svg a.svg": ["bench", "--svg"],
    }


def test_no_output_of_a_user_is_written_into_a_run_folder(folder, unweave, monkeypatch):
    """They did not hold its lock, so that training could delete them half-written."""
    model = uw.load(folder.path, device="cpu")
    before = {path.name: path.read_bytes() for path in folder.path.iterdir()}
    monkeypatch.setattr("unweave.report.page.render", lambda *_, **__: pytest.fail("computed"))
    for name, write in outputs(model).items():
        place, refusal = folder.path / name.split()[-1], "outside run folders, got"
        if isinstance(write, list):
            code, _, err = unweave(*write, place, "--overwrite")
            assert (code, refusal in err, err.count("error: ")) == (2, True, 1), name
        else:
            with pytest.raises(ValueError, match=refusal):
                write(place)
    with pytest.raises(ValueError, match=refusal):
        check_output(folder.path, "--out", overwrite=True, folder=True)  # of decoded images
    assert before == {path.name: path.read_bytes() for path in folder.path.iterdir()}


def test_a_table_of_another_run_or_split_is_noticed(tmp_path, monkeypatch):
    """Its checksum was right wherever the file was."""
    folders = [RunFolder(m.folder) for m in uw.fit(SMALL, seed=(0, 1), store=tmp_path, **FIELDS)]
    table = Table(np.zeros((3, 1)), np.zeros((3, 1), int))
    for each in folders:
        each.write_table("all", partial(table_bytes, table))
        each.write_table("test", partial(table_bytes, table))
        assert len(Table.load(each.path / "table.npz")) == 3
    shutil.copy(folders[0].path / "table.npz", tmp_path / "mine.npz")
    assert len(Table.load(tmp_path / "mine.npz")) == 3
    monkeypatch.chdir(folders[0].path)
    os.replace("table-test.npz", "table.npz")
    with pytest.raises(ValueError, match=f"but as {folders[0].path.name}/table-test.npz"):
        Table.load("table.npz")
    shutil.copy(folders[1].path / "table.npz", "table.npz")
    with pytest.raises(ValueError, match=f"not stored for run {folders[0].path.name}"):
        Table.load("table.npz")
    (tmp_path / "plain.npz").write_bytes(table_bytes(table))
    os.replace(tmp_path / "plain.npz", "table.npz")
    with pytest.raises(ValueError, match=r"run\.json beside it belongs: measure again"):
        Table.load("table.npz")


# ---- the cache of data


@pytest.mark.parametrize("damage", ["flipped", "cut", "empty", "unknown"])
def test_a_damaged_file_of_the_cache_is_written_again(tmp_path, damage):
    """A damaged copy of a published dataset used to be trained on."""
    content, written = bytes(range(256)) * 100, []

    def write(file):
        written.append(1)
        file.write(content)

    path = cached_file(tmp_path, ["key"], write)
    assert cached_file(tmp_path, ["key"], write) == path
    shutil.copytree(tmp_path, tmp_path / "copy")
    (tmp_path / "copy" / path.name).touch()
    cached_file(tmp_path / "copy", ["key"], write)  # other times, the same bytes
    assert len(written) == 1
    changed = {"flipped": b"\x01" + content[1:], "cut": content[:-1], "empty": b""}
    if damage in changed:
        path.write_bytes(changed[damage])
    else:
        path.with_name(f"{path.name}.json").write_text("null")
    with pytest.warns(UserWarning, match="was damaged, and is written again"):
        cached_file(tmp_path, ["key"], write)
    assert (path.read_bytes(), len(written)) == (content, 2)
    assert cached_file(tmp_path, ["key"], write) == path


@pytest.mark.parametrize("wrong", ["", "null", "[]", "{}", "[1, 2]", "3", "[" * 10**5, "\xff"])
def test_known_facts_of_the_wrong_form_are_computed_again(tmp_path, monkeypatch, wrong):
    monkeypatch.setenv("UNWEAVE_DATA", str(tmp_path))
    fact = (1.5, float("inf"), "text")
    form = tuple[float, float, str]
    assert cached_json(["key"], form, lambda: fact) == fact
    assert cached_json(["key"], form, lambda: None) == fact
    (path,) = (tmp_path / "known").glob("*.json")
    path.write_text(wrong, encoding="latin1")
    assert cached_json(["key"], form, lambda: fact) == fact
    assert cached_json(["key"], form, lambda: None) == fact
