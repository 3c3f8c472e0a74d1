"""Damaged files of run folders: the same answer as before, or an error that names the file."""

import json
import os
import random
import shutil
import warnings
import zlib
from collections import Counter

import pytest

import unweave as uw
from datasets import CPU, SMALL
from mutants import mutants, sealed_mutants
from unweave.cli.options import ScoringOptions
from unweave.cli.run_list import read_run
from unweave.cli.scoring import score_runs
from unweave.evaluation.compare import compared_folder
from unweave.explorer.run_data import run_data
from unweave.metrics import Table
from unweave.training import train
from unweave.training.run_files import RunFiles
from unweave.training.store import RunFolder, Store

FIELDS = dict(network=uw.MLP((4,)), latent=uw.Gaussian(2), batch_size=16, steps=4, progress=False)
MEASURE = uw.Measure(every=2, metrics=("terms",), rows=20)


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    """A finished, a stopped and a failed run with files of all kinds, and another of each."""
    root = tmp_path_factory.mktemp("mutants") / "runs"
    for seed in (0, 1):
        for name in ("finished", "stopped", "failed"):
            objective = uw.BetaVAE(beta={"finished": 1.0, "stopped": 2.0, "failed": 3.0}[name])
            model = uw.fit(SMALL, objective=objective, seed=seed, measure=MEASURE,
                           store=root / "trained", **FIELDS)  # fmt: skip
            folder = RunFolder(model.folder)
            if name == "finished":
                model.save(root / "model.uw")
                (root / "model.uw").rename(folder.path / "model.uw")
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    score_runs([uw.load(folder.path)], 100, ScoringOptions(metrics="mig,mcc"))
            else:
                folder.weights.unlink()
            if name == "failed":
                folder.write_failure({"step": 4, "term": "rate"})
            folder.path.rename(root / f"{name}{seed}")
    return root


def checksum(weights):
    return {name: zlib.crc32(weights[name].numpy().tobytes()) for name in sorted(weights)}


def listed(folder):
    run = read_run(RunFiles(folder))
    if run.problem:
        raise ValueError(run.problem)
    return run


def loaded(folder):
    model = uw.load(folder, device="cpu")
    return model.run, model.log, model.measures, checksum(model.trained.weights)


def compared(folder):
    run = compared_folder(RunFolder(folder))
    scores = {key: score.to_json() for key, score in run.scores.items()}
    return run.run, run.data, run.log, run.measures, scores, run.facts


def resumed(folder):
    """Train a copy of the run to its end; the copy is in a store, under its digest."""
    run = RunFolder(folder).read_run()
    place = Store(folder.parent / "resumed")
    shutil.rmtree(place.root, ignore_errors=True)
    shutil.copytree(folder, place.folder(run).path)
    (outcome,) = train([run], DATASET, place)
    return outcome.log, outcome.measures, outcome.failure, checksum(outcome.weights or {})


def model_file(folder):
    model = uw.load(folder / "model.uw", device="cpu")
    return model.run, model.log, model.measures, checksum(model.trained.weights)


def table(folder):
    found = Table.load(folder / "table.npz")
    return vars(found)


DATASET = SMALL.load(CPU)
READERS = [listed, loaded, compared, run_data, resumed]
OWN_READERS = {"table.npz": [table], "model.uw": [model_file]}


def answer(reader, folder):
    """Return the result of a reader as text, or the error that it raises."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return repr(reader(folder)), ""
    except (ValueError, FileNotFoundError) as error:
        return "", str(error)


def files_of(folder):
    return sorted(path for path in folder.iterdir() if path.is_file())


def check(store, kind, count, readers=READERS, seed=0):
    """Damage every file of a folder in every way; return how many mutants, and how many errors."""
    folder, other, rng = store / f"{kind}0", store / f"{kind}1", random.Random(seed)
    counts = Counter()
    for path in files_of(folder):
        own = OWN_READERS.get(path.name, readers)
        expected, intact = {r: answer(r, folder)[0] for r in own}, path.read_bytes()
        for name, content in mutants(path, other / path.name, rng, count):
            if name == "of another run" and path.name == "model.uw":
                continue  # read by name, on its own
            if content == intact:
                continue
            path.write_bytes(content)
            for reader in own:
                found, error = answer(reader, folder)
                where = f"{name} of {path.name}, {reader.__name__}"
                assert (found or error) != "", where
                if error:
                    assert path.name in error, f"{where}: {error}"
                    assert "\n" not in error, where
                else:
                    assert found == expected[reader], where
                counts[path.name, "error" if error else "same"] += 1
            counts[path.name, "mutants"] += 1
        path.write_bytes(intact)
        named = path.name, folder.name, RunFolder(folder).digest
        for name, content in list(sealed_mutants(path, rng, count)):
            path.write_bytes(content)
            for reader in own:
                _, error = answer(reader, folder)  # which raises no other error
                assert not error or any(each in error for each in named), (name, error)
            counts[path.name, "mutants of a wrong form with a right checksum"] += 1
        path.write_bytes(intact)
    return counts


@pytest.mark.parametrize("kind", ["finished", "stopped", "failed"])
def test_a_damaged_file_changes_no_answer_or_is_named(store, kind):
    counts = check(store, kind, 1, READERS if kind == "stopped" else READERS[:-1])
    assert {name for name, _ in counts} == {path.name for path in files_of(store / f"{kind}0")}


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["finished", "stopped", "failed"])
def test_thousands_of_damaged_files(store, kind):
    """UNWEAVE_MUTANTS of each way to damage each file of a run; prints how they ended."""
    counts = check(store, kind, int(os.environ.get("UNWEAVE_MUTANTS", 200)), seed=1)
    totals = Counter()
    for (_, what), number in counts.items():
        totals[what] += number
    print(json.dumps({kind: totals}))
