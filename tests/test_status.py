"""`unweave status`: what the store says about runs and workers, for people, programs and pages."""

import json
import os
import time

import pytest

from datasets import CPU, SMALL, small_run
from stopping import Stops
from stored_files import write_worker
from unweave.core.processes import this_process
from unweave.training import TrainingInterrupted, train
from unweave.training.heartbeats import FOLDER, log_header, log_path, record_path
from unweave.training.leases import EXPIRY, Leases
from unweave.training.status import read_status
from unweave.training.store import Store

ELSEWHERE = "other.host-12345678-17-99"  # a process of another machine


@pytest.fixture
def store(tmp_path):
    """A run in every state that needs no other process: 20 steps each."""
    runs = [small_run(steps=20, seed=seed) for seed in range(4)]
    store, data = Store(tmp_path), SMALL.load(CPU)
    train(runs[:1], data, store)
    with pytest.raises(TrainingInterrupted):
        train(runs[1:2], data, store, Stops(10))
    store.folder(runs[2]).create(runs[2])
    store.folder(runs[3]).create(runs[3])
    store.folder(runs[3]).write_failure({"step": 3, "term": "total_correlation"})
    return store


ODD_RECORDS = [
    {"steps_per_second": float("inf")}, {"steps_per_second": float("nan")},
    {"steps_per_second": -1.0}, {"step": 10**400}, {"step": -1}, {"steps": True},
    {"time": float("nan")}, {"runs": "abc"}, {"runs": [1]}, {"host": None}, {"pid": 1.5},
]  # fmt: skip


def test_records_of_another_form_are_no_workers(store, unweave, tmp_path):
    names = [f"other.host-12345678-{number}-99" for number in range(20, 99)]
    for name, facts in zip(names, ODD_RECORDS, strict=False):
        write_worker(store.root, name, **facts)
    for name, content in zip(reversed(names), ("null", "[]", "[" * 10**5, "\xff"), strict=False):
        record_path(store.root, name).write_text(content)
    os.mkfifo(record_path(store.root, names[40]))
    os.mkfifo(log_path(store.root, names[41]))
    assert read_status(store.root).workers == ()
    for options in ([], ["--json"], ["--html", tmp_path / "a.html"]):
        assert unweave("status", "--store", store.root, *options)[0] == 0
    code, _, err = unweave("status", folders(store)[0].digest, "--store", store.root)
    assert (code, "was not trained by a worker" in err) == (2, True)


def folders(store):
    runs = [small_run(steps=20, seed=seed) for seed in range(4)]
    return [store.folder(run) for run in runs]


def test_states_steps_and_reasons_are_those_of_the_folders(store):
    status = read_status(store.root)
    assert status.counts == {"finished": 1, "failed": 1, "stopped": 1, "not started": 1}
    found = {each.run: (each.status, each.step, each.steps) for each in status.runs}
    names = [folder.path.name for folder in folders(store)]
    assert [found[name] for name in names] == [
        ("finished", 20, 20), ("stopped", 10, 20), ("not started", 0, 20), ("failed", 0, 20)
    ]  # fmt: skip
    assert [each.reason for each in status.runs if each.reason] == [
        "total correlation was not finite at step 3"
    ]
    assert (status.steps_left, status.speed, status.seconds_left) == (30, 0.0, None)


def test_speed_and_time_left_follow_from_the_workers(store):
    """Two networks at 2 steps/s: 4 steps/s, 720 networks/h of 20 steps, 26 steps are 6.5 s."""
    two = [folder.path.name for folder in folders(store)[1:3]]
    write_worker(store.root, ELSEWHERE, runs=two, step=12, steps=20, steps_per_second=2.0)
    status = read_status(store.root)
    (worker,) = status.workers
    assert (worker.host, worker.pid, worker.device, worker.runs) == ("a<b", 17, "cuda:0", (*two,))
    assert 0 <= worker.heartbeat < 5
    assert status.steps_left == 8 + 8  # both are at step 12
    assert (status.speed, status.networks_per_hour, status.seconds_left) == (4.0, 720.0, 4.0)


def test_runs_that_wait_in_a_queue_are_counted(store, unweave):
    """The status used to say only that nothing was being trained."""
    write_worker(store.root, ELSEWHERE, submitted=64)
    _, out, _ = unweave("status", "--store", store.root)
    assert "nothing is being trained, but 64 runs submitted to workers or a queue; 30 steps" in out
    assert "64 submitted" in out
    assert "idle" not in out


def test_workers_that_are_gone_or_unreadable_are_left_out(store):
    me = this_process()
    write_worker(store.root, str(me), runs=[])
    write_worker(store.root, str(me._replace(started=me.started + 1)), runs=[])  # has ended
    write_worker(store.root, ELSEWHERE, time=time.time() - 3600)
    for number, content in enumerate(
        ["", "[]", "{}", '{"time": "x"}', '{"time": null, "pid": {}}']
    ):
        (store.root / FOLDER / f"h-m-{number}-0.json").write_text(content)
    (store.root / FOLDER / "readme.json").write_text('{"time": 1, "host": 1, "pid": 1}')
    assert [worker.name for worker in read_status(store.root).workers] == [str(me)]


@pytest.mark.parametrize("ahead", [-300, 300])
def test_clocks_of_machines_may_differ(store, monkeypatch, ahead):
    """At the first look clocks count, with a tolerance; then only whether the record changes."""
    folder, clock = folders(store)[1], [0.0]
    leases = Leases(this_process(), clock=lambda: clock[0])
    for module in ("status", "run_files"):
        monkeypatch.setattr(f"unweave.training.{module}.own_leases", lambda: leases)
    (folder.path / "lease-1.json").write_text(f'{{"worker": "{ELSEWHERE}", "lease": "0"}}')

    def seen(**facts):
        write_worker(store.root, ELSEWHERE, runs=[folder.path.name], **facts)
        return [worker.name for worker in read_status(store.root).workers], folder.status

    alive = ([ELSEWHERE], "running")
    assert seen(time=time.time() + ahead) == alive
    clock[0] += EXPIRY / 2
    assert seen(time=time.time() + ahead) == alive
    clock[0] += EXPIRY / 2
    assert seen(time=0.0, beats=4) == alive  # it changes, whatever the time in it
    clock[0] += EXPIRY
    assert seen(time=0.0, beats=4) == ([], "stopped")


def test_a_damaged_folder_is_described(store):
    folder = folders(store)[0]
    (folder.path / "run.json").write_text("{")
    (damaged,) = (each for each in read_status(store.root).runs if each.status == "damaged")
    assert "run.json cannot be read" in damaged.reason


def test_the_command_prints_tables_json_and_a_page(store, unweave, tmp_path_factory):
    name = folders(store)[1].path.name
    write_worker(store.root, ELSEWHERE, runs=[name], step=12, steps=20, steps_per_second=2.0)
    code, out, _ = unweave("status", "--store", store.root)
    assert code == 0
    assert "4 runs: 1 finished, 1 failed, 1 stopped, 1 not started" in out
    assert "2.0 steps/s of all runs together, 360.0 runs/h, 14 seconds left" in out
    assert "a<b 17" in out
    assert "total correlation was not finite" in out
    code, out, _ = unweave("status", "--store", store.root, "--json")
    content = json.loads(out)
    assert (content["counts"]["failed"], content["seconds_left"]) == (1, 14.0)
    page = tmp_path_factory.mktemp("page") / "status.html"
    code, _, err = unweave("status", "--store", store.root, "--html", page)
    assert (code, " ".join(err.split())) == (0, f"wrote {page}")
    text = page.read_text()
    assert "refresh" not in text  # nothing will rewrite this page
    assert "a&lt;b 17" in text
    assert "a<b" not in text
    assert unweave("status", "--store", store.root, "--html", page)[0] == 0  # our own is replaced
    page.write_text("mine")
    code, _, err = unweave("status", "--store", store.root, "--html", page)
    assert (code, page.read_text()) == (2, "mine")
    assert "--overwrite" in err


def test_status_repeats_until_all_runs_are_done(store, unweave, monkeypatch, tmp_path_factory):
    naps = []

    def nap(seconds):
        naps.append(seconds)
        if page.exists():
            assert '<meta http-equiv="refresh" content="3">' in page.read_text()
        for folder in folders(store)[1:3]:
            folder.write_weights({}, 20)

    page = tmp_path_factory.mktemp("page") / "status.html"
    monkeypatch.setattr("unweave.cli.status.time.sleep", nap)
    code, out, _ = unweave("status", "--store", store.root, "--every", 3)
    assert (code, naps) == (0, [3.0])
    assert "3 finished, 1 failed" in out
    for folder in folders(store)[1:3]:
        folder.weights.unlink()
    assert unweave("status", "--store", store.root, "--every", 3, "--html", page)[0] == 0
    assert naps == [3.0, 3.0]
    text = page.read_text()
    assert "3 finished, 1 failed" in text
    assert "refresh" not in text  # the last page stays as it is


def test_the_log_of_a_run_has_what_all_workers_wrote_about_it(store, unweave):
    """It used to be all that one of the workers wrote about any run, even before a retry."""
    one, two, three = (folder.path.name for folder in folders(store)[:3])
    (store.root / FOLDER).mkdir(exist_ok=True)
    first, second, third, fourth = (
        log_header(what, runs).replace(log_header("", [])[:19], f"2026-11-19 10:0{minute}:00")
        for minute, (what, runs) in enumerate(
            [("cuda", [two]), ("cuda", [two, one]), ("cuda", [one]), ("scoring", [f"{one}0"])]
        )
    )
    log_path(store.root, ELSEWHERE).write_text(f"{third}resumes\x1b[31m, says {two}\n{fourth}no\n")
    lost = log_path(store.root, "another-12345678-18-99")
    lost.write_text(f"{first}early\n{second}fails")
    os.utime(lost, (2e9, 2e9))
    code, out, _ = unweave("status", one, "--store", store.root)
    assert (code, out) == (0, f"{second}fails\n{third}resumes\\x1b[31m, says {two}\n")
    code, out, _ = unweave("status", two, "--store", store.root)
    assert (code, out) == (0, f"{first}early\n{second}fails\n")
    code, _, err = unweave("status", three, "--store", store.root)
    assert code == 2
    assert f"run {three} was not trained by a worker" in err


def test_an_empty_store_says_so(tmp_path, unweave):
    code, out, _ = unweave("status", "--store", tmp_path / "none")
    assert code == 0
    assert "contains no runs yet" in out
