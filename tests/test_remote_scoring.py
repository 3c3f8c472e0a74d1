"""Scores that other processes compute: those of this one, and none is lost to a bad run."""

import json
import os

import pytest

import unweave as uw
from datasets import CPU, SMALL, small_run
from executor_laws import files
from fake_engine import Fake
from unweave.data import HeldOut, Selected
from unweave.evaluation.scoring import ScoringTask
from unweave.executors.worker import Ended, request, work
from unweave.training import train
from unweave.training.status import read_status, worker_log
from unweave.training.store import Store


def test_other_processes_give_the_scores_of_this_one(tmp_path, unweave, monkeypatch):
    store = Store(tmp_path)
    runs = [small_run(steps=5, seed=seed) for seed in range(3)]
    train(runs, SMALL.load(CPU), store)
    models = uw.load([store.folder(run).path for run in runs], device="cpu")
    expected = uw.evaluate(models, 100, metrics=["mig", "udr"])
    on = Fake([Ended("died")], lanes=3)  # bits of codes depend on which models are encoded together
    found = uw.evaluate(models, 100, metrics=["mig", "udr"], on=on)
    assert [each.to_json() for each in found] == [each.to_json() for each in expected]
    assert len(on.pools[0].submitted) == 2  # one part, which was lost once
    command = "evaluate", *(run.digest for run in runs), "--store", tmp_path, "--rows", 100
    command += "--metrics", "mig,udr", "--json"
    _, printed, _ = unweave(*command)
    stored = files(tmp_path)
    for path in tmp_path.glob("*/scores.json"):
        path.unlink()
    monkeypatch.setattr("unweave.executors.executor_from", lambda text, lanes: Fake(lanes=3))
    assert unweave(*command)[1] == printed
    assert files(tmp_path) == stored


def test_other_processes_score_the_split_that_a_model_is_on(tmp_path):
    """They used to score the one that it was trained on, under the name of the other."""
    data = Selected(SMALL, (HeldOut(({"shape": (0,)},)),))
    run = small_run(steps=5, data=data)
    train([run], data.load(CPU), Store(tmp_path))
    path = Store(tmp_path).folder(run).path
    models = [uw.load(path, device="cpu"), uw.load(path, split="held-out", device="cpu")]
    for order in (models, models[::-1]):
        expected = uw.evaluate(order, 100, metrics=["mig"])
        found = uw.evaluate(order, 100, metrics=["mig"], on=Fake())
        assert [each.to_json() for each in found] == [each.to_json() for each in expected]
    assert models[0].split != models[1].split


def test_metrics_that_have_no_name_are_refused(tmp_path):
    train([small_run(steps=5)], SMALL.load(CPU), Store(tmp_path))
    model = uw.load(Store(tmp_path).folder(small_run(steps=5)).path)
    with pytest.raises(ValueError, match="expected metrics by name"):
        uw.evaluate([model], 100, metrics=[lambda z, v: 0.0], on=Fake())
    model = uw.fit(SMALL, steps=5, network=uw.MLP((8,)), progress=False)
    with pytest.raises(ValueError, match="models in memory cannot be scored"):
        uw.evaluate([model], 100, metrics=["mig"], on=Fake())


@pytest.fixture
def three(tmp_path):
    """The folders of three trained runs."""
    runs, store = [small_run(steps=5, seed=seed) for seed in range(3)], Store(tmp_path)
    train(runs, SMALL.load(CPU), store)
    return [store.folder(run) for run in runs]


def scored(unweave, monkeypatch, folders, on, *options):
    """Return the exit code, the runs that have scores, and what was printed to stderr."""
    monkeypatch.setattr("unweave.executors.executor_from", lambda text, lanes: on)
    names = [folder.digest for folder in folders]
    store = folders[0].path.parent
    given = ["--store", store, "--rows", 100, "--json", *options]
    code, out, err = unweave("evaluate", *names, *given)
    return code, [name for name in names if name in out], err


@pytest.mark.parametrize("how", ["failed", "died"])
def test_one_bad_run_does_not_cost_the_scores_of_others(three, unweave, monkeypatch, how):
    """All scores used to be lost."""
    bad = three[1].digest

    def fails(text):
        return Ended(how, "no more memory") if bad in text else Ended.read(work(text))

    on = Fake([fails] * 20, lanes=3)
    given = three, on, "--metrics", "mig,udr"
    code, names, err = scored(unweave, monkeypatch, *given)
    good = [three[0].digest, three[2].digest]
    assert (code, names) == (1, good)
    assert "1 of 3 runs could not be fully scored" in err
    assert f"{bad}: no more memory" in err
    asked = [len(json.loads(text)["scoring"]["folders"]) for text in on.pools[0].submitted]
    tries = 1 if how == "failed" else 3
    assert sorted(asked) == [1] * (2 + tries) + [3] * tries
    assert [(folder.path / "scores.json").exists() for folder in three] == [True, False, True]


def test_a_run_whose_folder_is_in_use_has_scores_that_are_not_stored(three, unweave, monkeypatch):
    monkeypatch.setattr("unweave.training.leases._WAIT", 0.0)
    with three[1].lock():
        given = three, Fake(lanes=3), "--metrics", "mig"
        code, names, err = scored(unweave, monkeypatch, *given)
    assert (code, names) == (0, [folder.digest for folder in three])
    assert "scores are not stored: another process is writing in" in err
    assert [(folder.path / "scores.json").exists() for folder in three] == [True, False, True]


def test_workers_that_cannot_see_the_runs_are_one_line(three, unweave, monkeypatch):
    monkeypatch.setattr("unweave.executors.worker._QUICK", 0.0)
    monkeypatch.setattr("unweave.core.files.Disk.names", lambda *_: [])
    code, names, err = scored(unweave, monkeypatch, three, Fake(), "--metrics", "mig")
    assert (code, names) == (2, [])
    assert "the workers cannot see the store: there is no" in err


def test_codes_that_do_not_appear_are_a_problem_of_their_run(three, unweave, monkeypatch):
    monkeypatch.setattr("unweave.core.files.appears", lambda path, _=0: path.name == "run.json")
    given = three, Fake(lanes=3), "--metrics", "mig"
    code, names, err = scored(unweave, monkeypatch, *given)
    assert (code, names) == (1, [])
    assert "its codes do not appear in" in err


def test_workers_that_score_keep_a_log_and_a_record(three, monkeypatch):
    """Nothing showed what they did, or why they died."""
    seen, root = [], three[0].path.parent

    def run(task):
        print("computes")
        seen.extend(worker.pid for worker in read_status(root).workers)
        raise RuntimeError("CUDA error")

    monkeypatch.setattr(ScoringTask, "run", run)
    ended = Ended.read(work(request(ScoringTask((str(three[0].path),)))))
    assert (ended.how, ended.text, seen) == ("died", "CUDA error", [os.getpid()])
    log = worker_log(root, three[0].digest)
    assert log.splitlines()[0].endswith(f"scoring: {three[0].digest}")
    assert "computes" in log
    assert "RuntimeError: CUDA error" in log
    assert not read_status(root).workers
