"""Whatever happens to a store, every run ends with the bits of the same command undisturbed.

Longer: pytest -m slow tests/test_store_machine.py
"""

import contextlib
import errno
import shutil
import tempfile
from functools import cache
from pathlib import Path

import pytest
from hypothesis import settings, strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
    run_state_machine_as_test,
)

import unweave as uw
from crash_replay import DyingDisk, FailingDisk, Killed, Recorder, tree, using
from datasets import CPU, SMALL, small_run
from stopping import Stops
from unweave.cli.options import ScoringOptions
from unweave.cli.scoring import score_runs
from unweave.core.files import UNFINISHED
from unweave.data import HeldOut, Selected
from unweave.evaluation.loading import load_each
from unweave.training import TrainingInterrupted, train
from unweave.training.store import Store

DATA = Selected(SMALL, (HeldOut({"shape": (1,)}),))
STEPS = 4


def sweep(betas, steps):
    fields = dict(data=DATA, network=uw.MLP((4,)), latent=uw.Gaussian(2), batch_size=8)
    return [
        small_run(objective=uw.BetaVAE(beta=beta), seed=seed, steps=steps, **fields)
        for seed, beta in enumerate(betas)
    ]


# Two runs, the same with more steps, and three of which one breaks.
SWEEPS = {
    "plain": sweep([1.0, 4.0], STEPS),
    "longer": sweep([1.0, 4.0], STEPS + 2),
    "broken": sweep([2.0, 1e30, 3.0], STEPS),
}
SPLITS = ("rest", "held-out")
METRICS = ("mig/chen2018", "sap/kumar2018")

names, splits, metrics = map(st.sampled_from, (list(SWEEPS), SPLITS, METRICS))
operations = st.integers(0, 60)


@cache
def dataset():
    return DATA.load(CPU)


def results(folder):
    """The files of a run; which older checkpoint a failed one keeps depends on the clock."""
    failed = folder.failure is not None
    return {
        name: content
        for name, content in tree(folder.path).items()
        if not name.startswith(("table", "scores")) and not (failed and name.startswith("state-"))
    }


@cache
def undisturbed(name):
    """Return the files of each run of a sweep, and its scores by split and metric."""
    with tempfile.TemporaryDirectory() as root, using(Recorder()):
        store = Store(Path(root))
        train(SWEEPS[name], dataset(), store)
        for split in SPLITS:
            evaluate(store, name, split, ",".join(METRICS))
        folders = [store.folder(run) for run in SWEEPS[name]]
        return [(results(folder), scores(folder)) for folder in folders]


def evaluate(store, name, split, metric):
    paths = [store.folder(run).path for run in SWEEPS[name]]
    models, _ = load_each([path for path in paths if path.exists()], split=split, device="cpu")
    score_runs(models, 16, ScoringOptions(metrics=metric))


def scores(folder):
    return {split: stored["scores"] for split, stored in folder.scores.items()}


class StoreMachine(RuleBasedStateMachine):
    """Commands on a store that are interrupted, killed and refused, and a folder that moves."""

    @initialize()
    def open(self):
        self.files = contextlib.ExitStack()
        self.home = Path(self.files.enter_context(tempfile.TemporaryDirectory()))
        self.files.enter_context(using(Recorder()))
        self.root, self.moves, self.begun = self.home / "0", 0, set()

    @property
    def store(self):
        return Store(self.root)

    def train(self, name, progress=None, often=True):
        self.begun.add(name)
        seconds = 0.0 if often else 1000.0
        return train(SWEEPS[name], dataset(), self.store, progress, checkpoint_seconds=seconds)

    @rule(name=names, steps=st.integers(1, STEPS), often=st.booleans())
    def train_some_steps(self, name, steps, often):
        with contextlib.suppress(TrainingInterrupted):
            self.train(name, Stops(steps), often)

    @rule(name=names, operation=operations, often=st.booleans())
    def kill_training(self, name, operation, often):
        with contextlib.suppress(Killed), using(DyingDisk(operation)):
            self.train(name, often=often)

    @rule(name=names, operation=operations, number=st.sampled_from([errno.ENOSPC, errno.EIO]))
    def fail_to_write(self, name, operation, number):
        with contextlib.suppress(OSError), using(FailingDisk(operation, number)):
            self.train(name)

    @rule(name=names, split=splits, metric=metrics)
    def evaluate(self, name, split, metric):
        evaluate(self.store, name, split, metric)

    @rule(name=names, split=splits, metric=metrics, operation=st.integers(0, 16))
    def kill_evaluation(self, name, split, metric, operation):
        with contextlib.suppress(Killed), using(DyingDisk(operation)):
            evaluate(self.store, name, split, metric)

    @rule(keep=st.booleans())
    def copy_or_move(self, keep):
        self.moves += 1
        target = self.home / str(self.moves)
        if self.root.exists():
            (shutil.copytree if keep else shutil.move)(self.root, target)
        self.root = target

    @rule(name=names)
    def finish(self, name):
        self.train(name)
        for run, (files, _) in zip(SWEEPS[name], undisturbed(name), strict=True):
            assert results(self.store.folder(run)) == files

    @invariant()
    def everything_can_be_read(self):
        for folder in self.store.folders():
            assert folder.status != "running"
            folder.read_run()
            folder.read_log()
            assert all(folder.read_state(step) for step in folder.states)

    def teardown(self):
        """Finish and evaluate what was begun: every file is as in an undisturbed store."""
        if not hasattr(self, "files"):
            return
        with self.files:
            for name in sorted(self.begun):
                self.finish(name)
                for split in SPLITS:
                    evaluate(self.store, name, split, METRICS[0])
                for run, (_, expected) in zip(SWEEPS[name], undisturbed(name), strict=True):
                    self.compare_scores(self.store.folder(run), expected)

    def compare_scores(self, folder, expected):
        found = scores(folder)
        assert found.keys() == expected.keys()
        for split, stored in found.items():
            assert METRICS[0] in stored
            assert stored.items() <= expected[split].items()
        assert not [name for name in tree(folder.path) if UNFINISHED in name]


@pytest.mark.filterwarnings("ignore::unweave.metrics.FewRowsWarning")
@pytest.mark.parametrize(
    ("examples", "rules"), [(5, 6), pytest.param(100, 10, marks=pytest.mark.slow)]
)
def test_every_run_ends_as_if_undisturbed(examples, rules):
    run_state_machine_as_test(
        StoreMachine,
        settings=settings(
            max_examples=examples, stateful_step_count=rules, deadline=None, derandomize=True,
            database=None,
        ),
    )  # fmt: skip
