"""Stores in object storage, against an S3 server on this machine."""

import contextlib
import io
import json
import math
import os
import sys
import warnings

import boto3
import pytest
import requests

import unweave as uw
from crash_replay import tree
from datasets import CPU, SMALL, small_run
from executor_laws import check_outcomes, sweep, train_on
from fake_engine import Fake, FakePool
from unweave.core import files
from unweave.core.console import PlainConsole
from unweave.core.files import Disk, write_atomically
from unweave.core.processes import Process, this_boot, this_process
from unweave.evaluation.tasks import Job, Task
from unweave.executors.worker import Ended
from unweave.explorer.explore import store_library
from unweave.training import remote_stores, train
from unweave.training.leases import FolderInUse, LeaseLost, Leases, own_leases
from unweave.training.outcome import recall
from unweave.training.own_data import Datasets
from unweave.training.progress import ConsoleProgress
from unweave.training.remote_stores import RemoteStore, store_root
from unweave.training.store import Store

URL = "s3://bucket/study"
SMALL_RUN = [
    "data=shapes2d", "data.side=16", "data.positions=4", "data.orientations=1", "network=mlp",
    "network.hidden=[4]", "latent.size=2", "batch_size=8", "steps=3", "--device", "cpu",
]  # fmt: skip


def elsewhere(url=URL):
    """Open a store as another machine does, which has a cache of its own."""
    os.environ["UNWEAVE_DATA"] += "-elsewhere"
    files.disk = Disk()
    return Store(store_root(url))


def test_a_run_is_trained_and_found_again_elsewhere(bucket, tmp_path):
    run, local = small_run(steps=4), Store(tmp_path / "runs")
    train([run], SMALL.load(CPU), local)
    train([run], SMALL.load(CPU), Store(store_root(URL)))
    expected = tree(local.folder(run).path)
    found = bucket()
    assert found == {f"study/{run.digest}/{name}": each for name, each in expected.items()}
    folder = elsewhere().folder(run)
    assert folder.status == "finished"
    assert folder.weights.stat().st_size == 0  # not downloaded
    assert folder.read_log() == local.folder(run).read_log()
    assert folder.read_weights().keys() == local.folder(run).read_weights().keys()
    assert folder.weights.read_bytes() == expected["weights.safetensors"]


def test_a_stopped_run_is_resumed_elsewhere_with_the_same_bits(bucket, tmp_path):
    run, local = small_run(steps=6), Store(tmp_path / "runs")
    train([run], SMALL.load(CPU), local)

    class Stop(uw.training.Silent):
        def advance(self, step, rows):
            if step == 3:
                raise KeyboardInterrupt

    with contextlib.suppress(KeyboardInterrupt):
        train([run], SMALL.load(CPU), Store(store_root(URL)), Stop())
    store = elsewhere()
    assert store.folder(run).status == "stopped"
    train([run], SMALL.load(CPU), store)
    expected = tree(local.folder(run).path)
    assert bucket() == {f"study/{run.digest}/{name}": each for name, each in expected.items()}


def test_a_folder_is_pulled_when_its_lease_is_taken(bucket):
    """Another machine may have trained the run since the store was opened."""
    run, here = small_run(steps=3), Store(store_root(URL))
    disk = files.disk
    train([run], SMALL.load(CPU), elsewhere())
    files.disk = disk
    assert not here.folder(run).weights.exists()
    before = bucket()
    (outcome,) = train([run], SMALL.load(CPU), here)
    assert (outcome.weights is not None, bucket()) == (True, before)


def test_a_worker_downloads_the_text_of_runs_when_it_reads_it(bucket):
    """A worker trains a few of the thousands of runs in a store."""
    run = small_run(steps=3)
    train([run], SMALL.load(CPU), Store(store_root(URL)))
    os.environ["UNWEAVE_DATA"] += "-elsewhere"
    files.disk = Disk()
    folder = Store(store_root(URL, refresh=False)).folder(run)
    sizes = {path.name: path.stat().st_size for path in folder.path.iterdir()}
    assert [name for name, size in sizes.items() if size] == ["run.json"]
    assert [row["step"] for row in folder.read_log()] == [1, 2, 3]
    assert folder.read_data().fingerprint == SMALL.load(CPU).fingerprint


def test_a_file_that_is_deleted_and_comes_back_unchanged_is_seen(bucket):
    """A run fails, is tried again elsewhere, and fails in the same way."""
    run, here = small_run(steps=3), Store(store_root(URL))
    folder, failure = here.folder(run), {"step": 1, "term": "rate"}
    folder.create(run)
    folder.write_failure(failure)
    mine, there = files.disk, elsewhere().folder(run)
    theirs = files.disk
    for forgetful, disk in ((there, theirs), (folder, mine)):
        files.disk = disk
        forgetful.forget_failure()
        files.disk = mine
        mine.pull(folder.path)
        assert not folder.failed
        files.disk = theirs
        there.write_failure(failure)
        files.disk = mine
        mine.pull(folder.path)
        assert folder.failure == failure


@pytest.mark.parametrize("error", [OSError("reset"), FileNotFoundError()], ids=["error", "gone"])
def test_a_download_that_fails_once_loses_nothing(monkeypatch, tmp_path, error):
    """The file used to count as downloaded, so the next checkpoint replaced it by a short log."""
    monkeypatch.setenv("UNWEAVE_DATA", str(tmp_path))
    monkeypatch.setattr(files, "disk", Disk())
    url, run = f"memory://{tmp_path.name}", small_run(steps=3)
    here = Store(store_root(url))
    mine = files.disk
    train([run], SMALL.load(CPU), elsewhere(url))
    files.disk, folder = mine, here.folder(run)
    system, failed = mine.stores[here.root]._system, []
    cat_file = system.cat_file

    def fail_once(path, **options):
        if path.endswith("log.jsonl") and not failed:
            failed.append(path)
            raise error
        return cat_file(path, **options)

    monkeypatch.setattr(system, "cat_file", fail_once)
    gone = isinstance(error, FileNotFoundError)
    with contextlib.nullcontext() if gone else pytest.raises(OSError, match="reset"):
        mine.pull(folder.path)
    assert failed
    mine.pull(folder.path)
    assert [row["step"] for row in folder.read_log()] == [1, 2, 3]


def test_steps_of_another_machine_are_not_counted(bucket):
    """Its networks would seem to be trained in the time that it takes to read them."""
    task = Task(runs=(small_run(steps=3),), store=URL, device="cpu", threads=1)
    job = Job.prepare(task, Datasets(CPU))
    assert job.task.read_steps() == [0]
    mine = files.disk
    train(job.task.runs, SMALL.load(CPU), elsewhere())
    files.disk = mine
    trained = job.train()
    assert (trained.steps, trained.outcomes[0].weights is not None) == (0, True)


def test_large_objects_are_not_read_as_leases_and_empty_ones_can_be(bucket):
    root = store_root(URL)
    for count in (0, 1, files.SMALL):
        files.disk.put(root / "lease-1.json", bytes(count))
        assert files.disk.read(root / "lease-1.json") == bytes(count)
    files.disk.put(root / "lease-1.json", bytes(files.SMALL + 1))
    with pytest.raises(files.OddFile, match=f"1,048,576 bytes.*{URL}/lease-1.json"):
        files.disk.read(root / "lease-1.json")
    assert len(files.disk.read(root / "lease-1.json", math.inf)) == files.SMALL + 1
    assert files.disk.read(root / "lease-2.json") is None


def test_mirrors_of_processes_that_were_killed_are_deleted(bucket, tmp_path):
    """Those of before a reboot used to stay."""
    me, other = this_process(), this_process()._replace(host="elsewhere")
    dead = me._replace(started=me.started - 1)
    space = me._replace(machine="0")  # another process namespace, of this boot
    names = {f"{this_boot()}-{each}": each is dead for each in (me, other, dead, space)}
    names |= {f"0-{me}": True, f"0-{other}": False, "notes": False}
    for name in names:
        (tmp_path / "cache/stores" / name).mkdir(parents=True)
    store_root(URL)
    left = {path.name for path in (tmp_path / "cache/stores").iterdir()}
    assert left == {name for name, deleted in names.items() if not deleted}


def test_leases_are_objects(bucket):
    folder = store_root(URL) / "run"
    folder.mkdir()
    other = Leases(Process("there", "0", 1, 0), {own_leases().process: False}.get)
    with own_leases().hold(folder):
        (name,) = [name for name in bucket() if "lease" in name]
        assert name == "study/run/lease-1.json"
        assert own_leases().is_held(folder)
        with pytest.raises(FolderInUse), other.hold(folder, wait=False):
            pass
        files.disk.unlink(folder / "lease-1.json")
        with pytest.raises(FolderInUse, match="has taken over"):
            write_atomically(folder / "file", b"late")
    assert bucket() == {}


def test_objects_change_in_the_order_of_files(bucket, monkeypatch):
    """An object is there before the next file is written, and is put whole."""
    seen = []
    for name in ("upload", "delete"):
        real = getattr(RemoteStore, name)

        def noted(store, path, real=real, name=name):
            seen.append((name, path.name))
            real(store, path)

        monkeypatch.setattr(RemoteStore, name, noted)
    train([small_run(steps=2)], SMALL.load(CPU), Store(store_root(URL)), checkpoint_seconds=0)
    lasting = [each for each in seen if each[1].split(".")[-1] != "json" and "check" not in each[1]]
    assert lasting == [
        ("upload", "log.jsonl"), ("upload", "state-1.safetensors"),
        ("upload", "log.jsonl"), ("upload", "state-2.safetensors"),
        ("delete", "state-1.safetensors"), ("upload", "weights.safetensors"),
    ]  # fmt: skip


def test_text_of_no_run_is_not_downloaded_and_large_text_is_refused(bucket, monkeypatch):
    """A file of 400 MB in no run took 1.45 GB of memory."""
    put = boto3.resource("s3").Bucket("bucket").put_object
    run = small_run(steps=3)
    train([run], SMALL.load(CPU), Store(store_root(URL)))
    put(Key=f"study/{run.digest}/more.json", Body=b"0")
    put(Key=f"study/{run.digest}/measures.jsonl", Body=bytes(9_999))
    monkeypatch.setattr(remote_stores, "LARGEST", 9_998)
    monkeypatch.setattr(remote_stores, "SMALL", 100)  # all others are larger
    folder = elsewhere().folder(run)
    sizes = {path.name: path.stat().st_size for path in folder.path.iterdir()}
    assert sizes["more.json"] == sizes["measures.jsonl"] == 0
    assert [row["step"] for row in folder.read_log()] == [1, 2, 3]
    with pytest.raises(ValueError, match=r"measures.jsonl .*at most 9,998 bytes, got 9,999"):
        folder.read_measures()


def reads(folder, url):
    """Everything that reads a run folder or writes in it."""
    run = small_run(steps=3)
    return [
        folder.read_run, folder.read_data, folder.read_log, folder.read_measures,
        folder.read_weights, lambda: folder.read_log_to_checkpoint(3), lambda: folder.scores,
        lambda: folder.failure, lambda: [folder.read_state(step) for step in folder.states],
        lambda: Store(folder.path.parent).find("x"),
        lambda: uw.load(folder.path), lambda: recall(folder, run).log,
        lambda: train([run], SMALL.load(CPU), Store(store_root(url))),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("url", "content"),
    [(URL, None), ("memory://{}", b""), ("memory://{}", b"null")],
    ids=["missing", "empty", "null"],
)
def test_no_error_names_the_mirror_of_a_store(bucket, tmp_path, url, content):
    """Errors about missing files are those of S3; damaged ones have the same bytes everywhere."""
    url, run = url.format(tmp_path.name), small_run(steps=3)
    mirror = store_root(url)
    train([run], SMALL.load(CPU), Store(mirror))
    base = url.removeprefix("s3://").removeprefix("memory:/")
    system, told = files.disk.stores[mirror]._system, []
    whole = {key: system.cat_file(key) for key in system.find(base)}
    names = {name.rpartition("/")[2] for name in whole}
    for name in sorted(names | {"measures.jsonl", "scores.json", "failed.json"}):
        system.rm(base, recursive=True)
        for key, value in (whole | {f"{base}/{run.digest}/{name}": content}).items():
            if value is not None:
                system.pipe_file(key, value)
        for number in range(len(reads(Store(mirror).folder(run), url))):
            folder = Store(store_root(url)).folder(run)
            with warnings.catch_warnings(record=True) as warned:
                warnings.simplefilter("always")
                try:
                    reads(folder, url)[number]()
                except (ValueError, OSError) as error:
                    told.append(str(error))
                told += [str(each.message) for each in warned]
    assert [text for text in told if str(mirror) in text] == []
    assert sum(url in text for text in told) > 20 * (content is not None)


def test_leases_name_the_store_and_not_its_mirror(bucket, monkeypatch):
    folder = Store(store_root(URL)).folder(small_run(steps=3)).path
    other = Leases(Process("elsewhere", "1", 1, 1))
    ours = Leases(this_process(), has_ended=lambda _: False)
    with other.hold(folder) as lease:
        for wait in (0, 0.01):
            with pytest.raises(FolderInUse, match=f"writing in {URL}/"), ours.hold(folder, wait):
                pass
        monkeypatch.setattr("unweave.training.leases._WAIT", 0)
        with (
            pytest.warns(match=f"writes in {URL}/"),
            pytest.raises(FolderInUse),
            ours.hold(folder, 1.0),
        ):
            pass
        with pytest.raises(LeaseLost, match=f"taken over {URL}/"):
            lease._replace(content=b"").check()


@pytest.mark.usefixtures("quick_scores")
def test_commands_work_on_a_store_elsewhere(bucket, unweave, monkeypatch):
    monkeypatch.setattr("unweave.cli.train._MOST_NAMED", 1)
    at = ("--store", URL)
    for command in ("runs", "status"):
        assert unweave(command, *at)[1].startswith(f"{URL} contains no runs yet")
    code, out, err = unweave("train", *SMALL_RUN, "seed=0..1", *at)
    assert (code, out.count(f"--store {URL}"), "cache" in out) == (0, 2, False), err
    names = sorted({name.split("/")[1] for name in bucket()})
    assert len(names) == 2
    assert all(name in out[out.index("unweave compare") :] for name in names)
    code, out, _ = unweave("runs", *at)
    assert (code, all(name in out for name in names)) == (0, True)
    few = ("--device", "cpu", "--rows", "64")
    assert unweave("evaluate", *names, *at, *few, "--metrics", "mig")[0] == 0
    assert unweave("report", names[0], *at, *few, "--no-explorer")[0] == 0
    assert unweave("compare", *names, *at, *few, "--metrics", "mig")[0] == 0
    assert len(store_library(URL).read().manifest.runs) == 2
    found = bucket()
    assert {f"study/{name}/scores.json" for name in names} <= found.keys()
    assert f"study/{names[0]}/report.html" in found
    assert not [name for name in found if "lease" in name or ".workers" in name]


def test_any_file_system_of_fsspec_does(unweave, monkeypatch, tmp_path):
    monkeypatch.setenv("UNWEAVE_DATA", str(tmp_path))
    monkeypatch.setattr(files, "disk", Disk())
    assert unweave("train", *SMALL_RUN, "--store", "memory://study")[0] == 0
    (row,) = json.loads(unweave("runs", "--store", "memory://study", "--json")[1])
    assert row["status"] == "finished"


@pytest.mark.parametrize(
    ("url", "changes", "text"),
    [
        ("s3://nowhere/study", {}, "cannot open the store s3://nowhere/study"),
        (URL, {"AWS_ENDPOINT_URL": "http://127.0.0.1:9"}, "the address of the service"),
        (URL, {"AWS_ACCESS_KEY_ID": "", "AWS_SECRET_ACCESS_KEY": ""}, "credentials"),
        ("nothing://bucket/study", {}, "nothing"),
    ],
)
def test_a_store_that_cannot_be_opened_is_one_line(
    bucket, unweave, monkeypatch, url, changes, text
):
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
    for name, value in changes.items():
        monkeypatch.setenv(name, value)
    code, out, err = unweave("train", *SMALL_RUN, "--store", url)
    assert (code, out, len(err.strip().splitlines())) == (2, "", 1), err
    assert text in err
    assert "Traceback" not in err


def test_wrong_credentials_are_one_line(bucket, address, unweave):
    ask = f"{address}/moto-api/reset-auth"
    requests.post(ask, data=b"0", timeout=60)  # from now on, check who asks
    try:
        code, _, err = unweave("runs", "--store", URL)
    finally:
        requests.post(ask, data=b"inf", timeout=60)
    assert (code, len(err.strip().splitlines())) == (2, 1), err
    assert "credentials" in err


def test_an_object_that_cannot_be_put_is_one_line(bucket, unweave, monkeypatch):
    def fail(*_, **__):
        raise RuntimeError("the connection was reset")

    root = store_root(URL)
    monkeypatch.setattr(files.disk.stores[root]._system, "put_file", fail)
    code, _, err = unweave("train", *SMALL_RUN, "--store", URL)
    last = err.strip().splitlines()[-1]
    assert (code, "run the command again" in last) == (2, True), err
    assert f"{URL}/" in last
    assert "run.json: the connection was reset" in last


def test_a_missing_package_is_one_line(unweave, monkeypatch, tmp_path):
    monkeypatch.setenv("UNWEAVE_DATA", str(tmp_path))
    monkeypatch.setitem(sys.modules, "s3fs", None)
    monkeypatch.delitem(sys.modules["fsspec.registry"]._registry, "s3", raising=False)
    code, _, err = unweave("runs", "--store", "s3://other/study")
    assert (code, "pip install unweave[s3]" in err) == (2, True), err


def test_a_store_without_conditional_puts_is_refused(bucket, unweave, monkeypatch):
    put = RemoteStore.put
    monkeypatch.setattr(RemoteStore, "create", lambda *given: put(*given) or True)
    code, _, err = unweave("train", *SMALL_RUN, "--store", URL)
    assert (code, "conditional put" in err) == (2, True), err


# ---- workers


class Elsewhere(FakePool):
    """Workers on another machine, which has a mirror of its own."""

    mirrors = None

    def wait(self, seconds):
        here, os.environ["UNWEAVE_DATA"] = files.disk, os.environ["UNWEAVE_DATA"] + "-there"
        files.disk = self.mirrors = self.mirrors or Disk()
        try:
            return super().wait(seconds)
        finally:
            self.mirrors, files.disk = files.disk, here
            os.environ["UNWEAVE_DATA"] = os.environ["UNWEAVE_DATA"].removesuffix("-there")


def test_the_driver_sees_what_workers_elsewhere_have_written(bucket, monkeypatch, tmp_path):
    monkeypatch.setattr("fake_engine.FakePool", Elsewhere)
    runs, local = [small_run(steps=4, seed=seed) for seed in range(2)], tmp_path / "runs"
    expected = train_on(uw.Local(lanes=1), local, runs)
    on = Fake([Ended("died")], lanes=1)
    check_outcomes(train_on(on, store_root(URL), runs), expected)
    assert len(on.pools[0].submitted) == 3
    assert json.loads(on.pools[0].submitted[0])["task"]["store"] == URL
    (there,) = on.pools[0].mirrors.stores.values()
    assert {path.name for path in there.root.rglob("*.json*")} >= {"run.json", "log.jsonl"}
    models = uw.load([store_root(URL) / run.digest for run in runs], device="cpu")
    found = uw.evaluate(models, 100, metrics=["mig"], on=Fake(lanes=2))
    here = uw.evaluate(models, 100, metrics=["mig"])
    assert [each.to_json() for each in found] == [each.to_json() for each in here]


def test_workers_that_have_a_mirror_score_what_was_trained_since(bucket, monkeypatch):
    """They used to find no weights, and the display no runs that are done."""
    monkeypatch.setattr("fake_engine.FakePool", Elsewhere)
    runs, text = [small_run(steps=4, seed=seed) for seed in range(2)], io.StringIO()
    on, shown = Fake(), ConsoleProgress(PlainConsole(file=text, width=200))
    train_on(on, store_root(URL), runs[:1], progress=shown)
    assert text.getvalue().splitlines()[-1] == "steps 4 of 4, 1 of 1 run done"
    train_on(uw.Local(), store_root(URL), runs[1:])
    monkeypatch.setattr(Elsewhere, "mirrors", on.pools[0].mirrors)
    models = uw.load([store_root(URL) / run.digest for run in runs], device="cpu")
    found = uw.evaluate(models, 100, metrics=["mig"], on=Fake())
    here = uw.evaluate(models, 100, metrics=["mig"])
    assert [each.to_json() for each in found] == [each.to_json() for each in here]


@pytest.mark.slow
def test_workers_train_and_score_in_a_store_elsewhere(bucket, unweave, monkeypatch, tmp_path):
    """Each process opens the store itself, and the driver sees what the others have written."""
    local = tmp_path / "runs"
    train_on(uw.Local(lanes=2), local)
    on = ("--on", "local:processes=2", "--lanes", "2")
    outcomes = train_on(uw.Local(processes=2, lanes=2), store_root(URL))
    assert [bool(each.failure) for each in outcomes] == [run.seed == 9 for run in sweep()]
    found, expected = bucket(), tree(local)
    logs = [name for name in found if name.startswith("study/.workers/")]
    assert {f"study/{name}" for name, each in expected.items() if each is not None} == (
        found.keys() - set(logs)
    )
    assert all(found[f"study/{name}"] == each for name, each in expected.items() if each)
    digests = [run.digest for run in sweep() if run.seed != 9]
    text = b"".join(found[name] for name in logs).decode()
    assert all(digest in text for digest in digests)
    code, out, _ = unweave("status", digests[0], "--store", URL)
    assert (code, digests[0] in out) == (0, True)
    given = ("--store", URL, "--device", "cpu", "--rows", "64", "--metrics", "mig", "--json")
    assert unweave("evaluate", *digests, *given, *on)[0] == 0
    assert {f"study/{digest}/scores.json" for digest in digests} <= bucket().keys()
    assert list((tmp_path / "cache/stores").iterdir()) == [store_root(URL).parent]


def test_status_shows_the_workers_of_a_store_elsewhere(bucket, unweave):
    """It used to look for their records in the mirror, where they never are."""
    seen = []

    class Look(uw.training.Silent):
        def begin(self, runs, step):
            seen.append(json.loads(unweave("status", "--store", URL, "--json")[1]))

    train([small_run(steps=2)], SMALL.load(CPU), Store(store_root(URL)), Look())
    (worker,) = seen[0]["workers"]
    assert worker["pid"] == os.getpid()
    assert seen[0]["counts"] == {"running": 1}
