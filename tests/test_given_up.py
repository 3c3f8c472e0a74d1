"""Runs that were given up: the error and `unweave status` say why, until they are trained."""

import json

import pytest

from datasets import small_run
from executor_laws import train_on
from fake_engine import Fake
from unweave.evaluation.tasks import FailedTask, TasksFailed
from unweave.executors.worker import Ended, work
from unweave.training.heartbeats import FOLDER
from unweave.training.status import read_status
from unweave.training.store import Store

LOST = Ended("died", "CUDA error", host="node7", place="node7")


def runs_of(count):
    return [small_run(steps=2, seed=seed) for seed in range(count)]


def test_the_status_says_why_runs_were_given_up_until_they_are_trained(tmp_path, unweave):
    """Such runs were "not started", and nothing said why."""
    runs = runs_of(3)
    with pytest.raises(TasksFailed, match="1 of 2 tasks failed"):
        train_on(Fake([Ended("failed", "the data are gone", host="node7")]), tmp_path, runs)
    given_up = [each for each in read_status(tmp_path).runs if each.reason]
    assert {each.run for each in given_up} == {run.digest for run in runs[:2]}
    assert {each.status for each in given_up} == {"not started"}
    assert all(each.reason.endswith("on node7: the data are gone") for each in given_up)
    page = tmp_path / "page.html"
    for options in ([], ["--json"], ["--html", page]):
        code, out, _ = unweave("status", "--store", tmp_path, *options)
        assert code == 0
        assert "the data are gone" in (page.read_text() if "--html" in options else out)
    (record,) = {path.read_text() for path in (tmp_path / FOLDER).glob("*.failed")}
    assert json.loads(record)["host"] == "node7"
    train_on(Fake(), tmp_path, runs)
    assert not any(each.reason for each in read_status(tmp_path).runs)
    assert not list((tmp_path / FOLDER).glob("*.failed"))


@pytest.mark.parametrize("content", ["", "[]", '{"text": 1}', "\xff", '{"text": "a", "host": "b"}'])
def test_damaged_records_are_left_out(tmp_path, content):
    run = small_run()
    Store(tmp_path).folder(run).create(run)
    (tmp_path / FOLDER).mkdir(exist_ok=True)
    (tmp_path / FOLDER / f"{run.digest}.failed").write_text(content, encoding="latin-1")
    assert [each.reason for each in read_status(tmp_path).runs] == [""]


def test_the_error_groups_reasons():
    """It used to name the first run alone."""
    failures = [
        FailedTask(("a1", "a2"), "the data are gone", "node7"),
        *(FailedTask((f"b{n}",), f"job {n}: died", f"node{n % 2}") for n in range(3)),
    ]
    assert str(TasksFailed(failures, 9)) == (
        "4 of 9 tasks failed, and everything else is trained and stored; 3 tasks, with run b0 and "
        "2 more: job 0: died (on node0, node1); run a1 and 1 more: the data are gone (on node7); "
        "`unweave status` names all runs"
    )
    many = [FailedTask((name,), name * 3) for name in "abcdef"]
    assert "; run c: ccc; 3 tasks for other reasons; `unweave" in str(TasksFailed(many, 6))


def test_failed_runs_are_retried_although_a_task_was_given_up(tmp_path):
    """The failure used to stay, and nothing said so."""
    runs, other = runs_of(1), small_run(steps=3)
    folder = Store(tmp_path).folder(runs[0])
    folder.create(runs[0])
    folder.write_failure({"step": 1, "term": "rate"})

    def dies(text):
        return LOST if f'"steps": {other.steps}' in text else Ended.read(work(text))

    with pytest.raises(TasksFailed, match=f"^1 of 1 task failed.*run {other.digest}: .*CUDA"):
        train_on(Fake([dies] * 9), tmp_path, [*runs, other], retry_failed=True)
    assert folder.status == "finished"
