"""What commands over many finished runs keep in memory: neither weights nor logs."""

import json
import shutil
import tracemalloc
import weakref

import numpy as np
import pytest

import unweave as uw
from datasets import SMALL, small_run
from executor_laws import train_on
from fake_engine import Fake
from unweave.cli.scoring import score_runs
from unweave.evaluation.loading import load_each
from unweave.evaluation.model import FittedModel
from unweave.evaluation.scoring import ScoringTask, unscored
from unweave.training.store import RunFolder, Store

RUNS = [small_run(steps=2, seed=seed) for seed in range(12)]
ROWS, TERMS = 500, 12  # of each log


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    """Finished runs with long logs."""
    root = tmp_path_factory.mktemp("many") / "runs"
    for outcome in train_on(uw.Local(), root, RUNS):
        values = np.random.default_rng(0).normal(size=(ROWS, TERMS)).tolist()
        terms = [{f"term {n}": value for n, value in enumerate(row)} for row in values]
        rows = [{"step": step, **row} for step, row in enumerate(terms, 1)]
        Store(root).folder(outcome.run).write_log(rows)
    return root


@pytest.fixture
def weights_read(monkeypatch):
    """The folders whose weights were read."""
    folders, read = [], RunFolder.read_weights

    def read_and_note(self):
        folders.append(self.path)
        return read(self)

    monkeypatch.setattr(RunFolder, "read_weights", read_and_note)
    return folders


def peak(call, *args, **options):
    """Return the most memory in bytes that a call needs at a time."""
    tracemalloc.start()
    try:
        call(*args, **options)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def check_law(few, many, store):
    """Check that each of the other runs costs less than a tenth of its log."""
    folder = Store(store).folders()[0]
    assert (many - few) / (len(RUNS) - 2) < 0.1 * peak(folder.read_log)


@pytest.mark.parametrize(
    "on",
    [uw.Local(), uw.Local(lanes=2), uw.Local(processes=2), Fake()],
    ids=["plain", "lanes", "processes", "fake"],
)
def test_training_keeps_nothing_of_finished_runs(on, store, weights_read):
    train_on(on, store, RUNS[:2])  # imports what it needs
    few, many = (peak(train_on, on, store, RUNS[:count]) for count in (2, len(RUNS)))
    check_law(few, many, store)
    assert not weights_read


class Refuses:
    """Scores no run."""

    def score(self, task):
        yield {folder: unscored("refused") for folder in task.folders}


def test_evaluating_elsewhere_keeps_nothing_of_the_runs(store, weights_read):
    def evaluate(count):
        models, reasons = load_each(paths[:count], device="cpu", keep=False, check=False)
        scored = score_runs(models, 100, on=Refuses(), task=ScoringTask(folders=()))
        assert not reasons
        assert set(scored.failures.values()) == {"refused"}

    paths = [folder.path for folder in Store(store).folders()]
    evaluate(2)
    few, many = peak(evaluate, 2), peak(evaluate, len(RUNS))
    check_law(few, many, store)
    assert not weights_read


@pytest.fixture
def most_kept(monkeypatch):
    """The most models whose weights have been in memory at a time."""
    kept, most, create = weakref.WeakSet(), [0], FittedModel.__init__

    def create_and_count(self, *args):
        create(self, *args)
        kept.add(self)
        most[0] = max(most[0], len(kept))

    monkeypatch.setattr(FittedModel, "__init__", create_and_count)
    return most


@pytest.mark.usefixtures("quick_scores")
@pytest.mark.parametrize("metrics", ["mig", "mig,log_likelihood,total_correlation"])
def test_evaluating_here_keeps_a_few_runs_at_a_time(
    store, tmp_path, unweave, most_kept, monkeypatch, metrics
):
    """Models and logs of all runs were in memory until the last was scored."""

    def evaluate(name, count):
        root = tmp_path / name
        for folder in sorted(Store(store).folders(), key=lambda folder: folder.path)[:count]:
            shutil.copytree(folder.path, root / folder.path.name)
        given = ("--metrics", metrics, "--rows", 100, "--device", "cpu", "--json")
        code, out, _ = unweave("evaluate", *sorted(root.glob("*")), *given)
        assert code == 0
        texts.append(out)

    texts = []
    evaluate("whole", len(RUNS))
    whole, most_kept[0] = most_kept[0], 0
    monkeypatch.setattr("unweave.evaluation.evaluate._TOGETHER", 2)
    evaluate("parts", len(RUNS))
    assert texts[0] == texts[1]
    assert len(json.loads(texts[0])) == len(RUNS)
    assert (whole, most_kept[0]) == (len(RUNS) + 1, 4)  # with the first and the last of a group
    if metrics == "mig":  # others take long while memory is traced
        few, many = peak(evaluate, "few", 2), peak(evaluate, "many", len(RUNS))
        check_law(few, many, store)


def test_a_model_that_was_not_read_is_read_once_when_it_is_used(store, weights_read):
    path = Store(store).folders()[0].path
    (model,), _ = load_each([path], device="cpu", keep=False, check=False)
    assert model.step == ROWS
    assert not weights_read
    x = np.zeros((3, *model.schema.shape), np.float32)
    codes = model.encode(x)
    assert len(model.log) == ROWS
    assert weights_read == [path]
    np.testing.assert_array_equal(codes, uw.load(path, device="cpu").encode(x))


def test_runs_that_end_are_kept_in_the_store_alone(tmp_path, weights_read):
    outcomes = train_on(uw.Local(), tmp_path, RUNS[:2])
    assert all(outcome.has_weights for outcome in outcomes)
    assert not weights_read
    assert not any(name in vars(outcome) for outcome in outcomes for name in ("weights", "log"))


def test_fit_reads_each_model_once(tmp_path, weights_read):
    given = dict(network=uw.MLP((8,)), steps=2, store=tmp_path, device="cpu", progress=False)
    models = uw.fit(SMALL, seed=range(3), on=Fake(), **given)
    assert sorted(weights_read) == sorted(model.folder for model in models)
