"""Stores in object storage, against an S3 server on this machine."""

import contextlib
import json
import os
import sys

import boto3
import pytest
import requests
from moto.server import ThreadedMotoServer

import unweave as uw
from crash_replay import tree
from datasets import CPU, SMALL, small_run
from unweave.core import files
from unweave.core.files import Disk, write_atomically
from unweave.core.processes import Process
from unweave.explorer.explore import store_library
from unweave.training import train
from unweave.training.leases import FolderInUse, Leases, own_leases
from unweave.training.remote_stores import RemoteStore, store_root
from unweave.training.store import Store

URL = "s3://bucket/study"
SMALL_RUN = [
    "data=shapes2d", "data.side=16", "data.positions=4", "data.orientations=1", "network=mlp",
    "network.hidden=[4]", "latent.size=2", "batch_size=8", "steps=3", "--device", "cpu",
]  # fmt: skip


@pytest.fixture(scope="module")
def address():
    server = ThreadedMotoServer("127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    yield f"http://{host}:{port}"
    server.stop()


@pytest.fixture
def bucket(address, monkeypatch, tmp_path):
    """An empty bucket, as a function that returns the content of all objects by name."""
    facts = {"ACCESS_KEY_ID": "a", "SECRET_ACCESS_KEY": "b", "DEFAULT_REGION": "us-east-1"}
    for name, value in {**facts, "ENDPOINT_URL": address}.items():
        monkeypatch.setenv(f"AWS_{name}", value)
    monkeypatch.setenv("UNWEAVE_DATA", str(tmp_path / "cache"))
    monkeypatch.setattr(files, "disk", Disk())
    service = boto3.resource("s3", endpoint_url=address)
    found = service.create_bucket(Bucket="bucket")
    yield lambda: {each.key: each.get()["Body"].read() for each in found.objects.all()}
    found.objects.all().delete()
    found.delete()


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


def test_commands_work_on_a_store_elsewhere(bucket, unweave):
    at = ("--store", URL)
    code, out, err = unweave("train", *SMALL_RUN, "seed=0..1", *at)
    assert (code, f"--store {URL}" in out) == (0, True), err
    names = sorted({name.split("/")[1] for name in bucket()})
    assert len(names) == 2
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
