"""A small sweep, trained by an executor, and what has to hold wherever it is trained."""

import torch

import unweave as uw
from datasets import CPU, SMALL, small_run
from unweave.evaluation.fit import train_runs
from unweave.evaluation.tasks import Task
from unweave.training.own_data import Datasets
from unweave.training.store import Store

BREAKS = uw.BetaVAE(beta=1e30)  # its first step is not finite


def sweep(steps=10):
    """Five runs of one structure, of which one breaks, and one of another."""
    runs = [small_run(steps=steps, seed=seed) for seed in range(4)]
    runs.insert(1, small_run(steps=steps, seed=9, objective=BREAKS))
    return [*runs, small_run(steps=steps, latent=uw.Gaussian(2))]


def train_on(on, root, runs=None, **options):
    datasets = Datasets(CPU)
    options = {"checkpoint_seconds": 1000, "device": "cpu", "threads": 1} | options
    return train_runs(runs or sweep(), datasets, Store(root), on=on, **options)


def files(root):
    """The files of all runs by name, with their bytes."""
    found = [path for path in sorted(root.glob("*/*")) if path.parent.name[0] != "."]
    return {str(path.relative_to(root)): path.read_bytes() for path in found}


def times(root):
    return {str(path): path.stat().st_mtime_ns for path in sorted(root.glob("*/*"))
            if path.parent.name[0] != "." and not path.name.startswith("lease")}  # fmt: skip


def train_plainly(root, lanes=2):
    """Return the files and outcomes of the plain command, in parts of `lanes` runs."""
    outcomes = train_on(uw.Local(lanes=lanes), root)
    return files(root), outcomes


def check_outcomes(outcomes, expected):
    assert [each.run for each in outcomes] == [each.run for each in expected]
    for one, two in zip(outcomes, expected, strict=True):
        assert (one.failure, one.log) == (two.failure, two.log)
        assert (one.weights is None) == (two.weights is None)
        assert all(torch.equal(one.weights[n], two.weights[n]) for n in two.weights or ())


def check_laws(on, root, plain):
    """Check that an executor leaves the files of the plain command, and trains nothing twice."""
    expected, outcomes = plain
    check_outcomes(train_on(on, root), outcomes)
    assert files(root) == expected
    before = times(root)
    check_outcomes(train_on(on, root), outcomes)
    assert times(root) == before


def task_of(run, root):
    """Return the task of one run, whose store is a folder."""
    return Task(runs=(run.resolve(SMALL.load(CPU)),), store=str(root), device="cpu")
