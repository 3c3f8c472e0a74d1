"""Measuring many runs: in lanes as alone, whatever the chunks, and nothing lost on the way."""

import dataclasses
import io
import json
import os
import shutil
import signal
import threading
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch
from rich.console import Console
from scipy import stats
from threadpoolctl import threadpool_info

import unweave as uw
from datasets import CRITIC, LATENTS, SMALL
from unweave.cli import scores as scoring
from unweave.core import parallel
from unweave.core.parallel import Killed, in_processes, in_threads
from unweave.data.dataset import Stored
from unweave.data.drawn.shapes2d import Sprites
from unweave.evaluation import evaluate as measure
from unweave.evaluation import stacked as trained
from unweave.metrics import UNSUPERVISED, Score, Scores
from unweave.metrics import evaluate as evaluate_table
from unweave.training import progress

OTHER = dataclasses.replace(SMALL, positions=4)
MIXED = LATENTS[-1]  # full covariances, classes, bits and Student's t
FIELDS = dict(network=uw.MLP((16,)), latent=uw.Gaussian(3), batch_size=16, steps=4, progress=False)
STRUCTURES = {
    "mlp": {},
    "convolutions": {"network": uw.Conv(base=4, hidden=16)},
    "batch norm": {"network": uw.DCGAN(base=4)},
    "mixed": {"latent": MIXED},
    "mixed convolutions": {"network": uw.Conv(base=4, hidden=16), "latent": MIXED},
    "prior of encodings": {"latent": uw.VampPrior(3, components=4)},
    "critic": {"objective": uw.FactorVAE(critic=CRITIC)},
    "gan": {"objective": uw.InfoGAN(noise_size=2), "network": None},
}
each = pytest.mark.parametrize("structure", STRUCTURES.values(), ids=STRUCTURES)


def fitted(data=SMALL, seeds=(0, 1, 2), **fields):
    return uw.fit(data, seed=seeds, **(FIELDS | fields))


@pytest.fixture(scope="module")
def models():
    """Two structures over one dataset and a third over another, one after the other."""
    plain, wide, other = fitted(), fitted(latent=uw.Gaussian(4)), fitted(OTHER)
    return [model for three in zip(plain, wide, other, strict=True) for model in three]


def assert_same(one, two, exactly=True):
    """Two tables, with equal numbers or nearly so."""
    for field in dataclasses.fields(uw.metrics.Table):
        a, b = getattr(one, field.name), getattr(two, field.name)
        if exactly or np.asarray(a).dtype.kind != "f":
            np.testing.assert_array_equal(a, b)
        else:
            np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)


def test_codes_are_scored_as_quantiles_of_the_prior():
    """As [Mathieu2019] do for Student-t priors; by hand from the means, with scipy."""
    model = uw.fit(SMALL, **(FIELDS | {"latent": uw.StudentT(3, df=4), "steps": 40}))
    plain, mapped = model.table(), model.table(codes="prior-cdf")
    expected = stats.norm.ppf(stats.t(4).cdf(plain.codes.astype(float)))
    np.testing.assert_allclose(mapped.codes, expected, rtol=1e-4, atol=1e-5)
    np.testing.assert_array_equal(mapped.kl, plain.kl)
    assert mapped.scales is None
    name = "factor_vae_score/mathieu2019"
    (scores,) = uw.evaluate([model], metrics=name, codes="prior-cdf")
    by_hand = uw.metrics.factor_vae_score(
        mapped.codes, plain.factors, protocol="mathieu2019", periods=plain.periods
    )
    assert float(scores[name]) == float(by_hand)
    normal = uw.fit(SMALL, **FIELDS)
    codes = normal.table(codes="prior-cdf").codes
    np.testing.assert_allclose(codes, normal.table().codes, rtol=1e-5, atol=1e-6)
    with pytest.raises(ValueError, match="prior-cdf"):
        model.table(codes="cdf")


@each
@pytest.mark.parametrize("vectorised", [None, True, False])
def test_a_model_in_lanes_says_what_it_says_alone(structure, vectorised, monkeypatch):
    """One after the other to the last bit, and mapped to float tolerance."""
    if vectorised is not None:
        monkeypatch.setattr(trained, "vectorises", lambda nets, device: vectorised)
    models = fitted(**structure)
    exactly = not trained.join([model.trained for model in models]).vectorised
    seen = []
    for number, model, rows, q in measure.encode(models, rows=150):
        seen.append(number)
        alone = model.posteriors(rows)
        assert len(alone.mean) == 150
        for name in ("mean", "stddev"):
            a, b = getattr(q, name), getattr(alone, name)
            assert torch.equal(a, b) if exactly else torch.allclose(a, b, rtol=1e-4, atol=1e-5)
        assert_same(model.tabulate(rows, q), model.table(150), exactly)
    assert seen == [0, 1, 2]
    assert not torch.allclose(q.mean, models[0].posteriors(rows).mean, atol=1e-3)


@pytest.mark.gpu
@pytest.mark.parametrize(
    "structure",
    [*STRUCTURES.values(), {"data": uw.Shapes2D(), "network": uw.Kim2018(128), "seeds": range(5)}],
    ids=[*STRUCTURES, "Kim and Mnih"],
)
def test_on_cuda_too(structure):
    """In lanes by our kernels, alone, and on the CPU."""
    models = fitted(**structure, device="cuda")
    for _, model, rows, q in measure.encode(models, rows=1000):
        assert q.mean.device.type == rows.device.type == "cuda"
        alone = model.posteriors(rows)
        torch.testing.assert_close(q.mean, alone.mean, rtol=1e-3, atol=1e-4)
        torch.testing.assert_close(q.stddev, alone.stddev, rtol=1e-3, atol=1e-4)
        weights = {name: value[0].cpu() for name, value in model.trained.weights.items()}
        outcome = uw.training.Outcome(model.run, weights, model.log, None)
        here = uw.FittedModel(outcome, model.run.data.load(torch.device("cpu")))
        on_cpu = here.posteriors(rows.cpu())
        torch.testing.assert_close(q.mean.cpu(), on_cpu.mean, rtol=1e-2, atol=1e-3)


@each
def test_chunks_and_groups_change_nothing(structure, monkeypatch):
    models = fitted(**structure)
    whole = uw.tables(models, rows=100)
    monkeypatch.setitem(trained._MOST, "cpu", 7)
    for table, expected in zip(uw.tables(models, rows=100), whole, strict=True):
        assert_same(table, expected, exactly=False)
    monkeypatch.setattr(measure, "_HELD", 1)
    joined = []
    monkeypatch.setattr(measure, "join", lambda lanes: joined.append(lanes) or trained.join(lanes))
    for table, expected in zip(uw.tables(models, rows=100), whole, strict=True):
        assert_same(table, expected, exactly=False)
    assert [len(lanes) for lanes in joined] == [1, 1, 1]


def test_memory_is_bounded_whatever_the_lanes_and_the_observations():
    alone = fitted(seeds=[0])[0].trained
    lanes = trained.join([alone] * 50)
    for networks, count in ((alone, 1), (lanes, 50)):
        for shape in ((3,), (1, 64, 64), (3, 256, 256), (1, 8192, 8192)):
            chunk = networks.chunk(shape)
            assert chunk == 1 or chunk * count * np.prod(shape) <= trained._AT_ONCE["cpu"]
            assert 1 <= chunk <= trained._MOST["cpu"]
    assert alone.chunk((1, 64, 64)) == trained._MOST["cpu"]


def test_observations_are_read_once_for_all_lanes(monkeypatch):
    models = fitted()
    read, images = [], Sprites.images
    monkeypatch.setattr(
        Sprites, "images", lambda dataset, index: read.append(len(index)) or images(dataset, index)
    )
    told = []
    list(measure.encode(models, rows=150, progress=told.append))
    assert sum(read) == 150
    assert sum(told) == 3 * 150


@pytest.mark.filterwarnings("ignore::unweave.metrics.FewRowsWarning")
def test_tables_and_scores_of_a_list_are_those_of_its_members(models):
    tables = uw.tables(models, rows=100)
    for model, table, scores in zip(models, tables, uw.evaluate(models, rows=100), strict=True):
        assert_same(table, model.table(100), exactly=False)
        expected = evaluate_table(table)
        assert scores.keys() == expected.keys()
        for key, score in scores.items():
            assert score.to_json() == expected[key].to_json()
    assert len(tables[2]) == OTHER.load(torch.device("cpu")).size < 100
    with pytest.raises(ValueError, match="metric 'fig' is not known"):
        evaluate_table(tables[0], metrics="fig")
    assert uw.tables([]) == uw.evaluate([]) == uw.summaries([]) == []


def test_summaries_of_a_list_are_those_of_its_members(models):
    for model, found in zip(models, uw.summaries(models, samples=300), strict=True):
        expected = model.summary(300)
        for one, two in zip(found, expected, strict=True):
            assert one == pytest.approx(two, rel=1e-3, abs=1e-4)


def test_a_summary_adds_up_to_the_rate():
    """Over all the data, whose rate is known: what is left is the noise of sampled points."""
    model = fitted(seeds=[0], steps=300, optimiser=uw.Adam(lr=3e-3), objective=uw.VAE())[0]
    found, rate = model.summary(20_000), model.table().kl.sum()
    parts = found.mutual_information + found.total_correlation + found.dimension_kl
    assert rate > 1
    assert parts == pytest.approx(rate, rel=0.02)
    assert found.mutual_information <= np.log(model.dataset.size)
    assert model.summary(500, rows=50).mutual_information <= np.log(50)


def test_runs_loaded_together_are_on_one_dataset(tmp_path, monkeypatch):
    kept = [*fitted(store=tmp_path), *fitted(OTHER, store=tmp_path, seeds=[0])]
    loads = []
    load = uw.Shapes2D.load
    monkeypatch.setattr(uw.Shapes2D, "load", lambda d, device: loads.append(d) or load(d, device))
    models = uw.load([model.folder for model in kept])
    assert loads == [SMALL, OTHER]
    assert [model.run for model in models] == [model.run for model in kept]
    assert models[0].dataset is models[2].dataset is not models[3].dataset
    images = np.random.default_rng(0).integers(0, 256, (40, 8, 8), dtype=np.uint8)
    folders = [model.folder for model in fitted(images, seeds=(0, 1), store=tmp_path)]
    again = uw.load(folders, data=images)
    assert again[0].dataset is again[1].dataset
    assert isinstance(again[0].dataset, Stored)


# ---- on the command line


@pytest.fixture
def evaluate(unweave):
    """Runs `unweave evaluate` in this process: (exit code, stdout, stderr)."""
    return partial(unweave, "evaluate")


def written(folder):
    return json.loads((Path(folder) / "scores.json").read_text())["scores"]


def test_many_runs_are_evaluated_as_each_alone(evaluate, tmp_path):
    """Over two datasets and three structures, in the order in which they were named."""
    kept = [
        *fitted(store=tmp_path),
        *fitted(OTHER, store=tmp_path),
        *fitted(store=tmp_path, seeds=[3], network=uw.Conv(base=4, hidden=16), latent=MIXED),
    ]
    folders = [model.folder for model in kept[::2] + kept[1::2]]
    code, out, err = evaluate(*folders, folders[0], "--json", "--rows", 100)
    assert code == 0, err
    found = json.loads(out)
    assert list(found) == [folder.name for folder in folders]
    assert err.count("q(z|x) is not normal") == 1
    tables = {folder: uw.metrics.Table.load(folder / "table.npz") for folder in folders}
    for folder in folders:
        assert written(folder) == found[folder.name]
        (folder / "scores.json").unlink()
        code, out, _ = evaluate(folder, "--json", "--rows", 100)
        assert code == 0
        assert_same(tables[folder], uw.metrics.Table.load(folder / "table.npz"), exactly=False)
        alone = json.loads(out)[folder.name]
        assert alone.keys() == found[folder.name].keys()
        for key, score in alone.items():
            assert score["value"] == pytest.approx(found[folder.name][key]["value"], abs=1e-4)


def test_a_run_in_two_stores_is_two_runs(evaluate, tmp_path):
    folder = fitted(store=tmp_path / "one", seeds=[0])[0].folder
    copy = tmp_path / "two" / folder.name
    shutil.copytree(folder, copy)
    code, out, err = evaluate(folder, copy, "--json", "--rows", 50, "--metrics", "mig")
    assert code == 0, err
    assert list(json.loads(out)) == [str(folder), str(copy)]


def test_what_is_measured_stays_if_it_is_stopped(evaluate, tmp_path, monkeypatch):
    folders = [model.folder for model in fitted(store=tmp_path, seeds=range(4))]
    measured = []

    def stopped_at_the_third(table, **asked):
        measured.append(table)
        if len(measured) == 3:
            raise KeyboardInterrupt
        return evaluate_table(table, **asked)

    monkeypatch.setattr("unweave.metrics.evaluate", stopped_at_the_third)
    code, out, err = evaluate(*folders, "--rows", 100)
    assert code == 130
    assert "what is done is kept" in err
    assert out == ""
    assert all(written(folder) for folder in folders[:2])
    assert not (folders[2] / "scores.json").exists()
    assert not list(tmp_path.rglob(".unfinished*"))


def test_a_run_without_factors_has_measures_beside_the_metrics_of_others(evaluate, tmp_path):
    np.save(tmp_path / "x.npy", np.random.default_rng(0).normal(size=(50, 7)))
    good = fitted(store=tmp_path, seeds=[0])[0].folder
    other = fitted(str(tmp_path / "x.npy"), store=tmp_path, seeds=[0])[0].folder
    code, out, err = evaluate(good, other, "--rows", 100, "--json")
    assert code == 0, err
    found = json.loads(out)
    assert "mig/locatello2019" in found[good.name]
    assert set(found[other.name]) <= set(UNSUPERVISED)
    assert "hoyer/mathieu2019" in found[other.name]
    assert "some metrics are left out: the table has no factors" in err
    assert written(good)
    assert written(other)
    code, _, err = evaluate(good, tmp_path / "nothing")
    assert code == 2
    assert "is not a run" in err


@pytest.mark.parametrize("terminal", [True, False])
def test_counts_are_bars_on_a_terminal_and_lines_elsewhere(terminal, monkeypatch):
    text, now = io.StringIO(), iter(range(0, 100, 3))
    if not terminal:
        monkeypatch.setattr(progress.time, "monotonic", lambda: next(now))
    console = Console(file=text, force_terminal=terminal, width=80)
    with progress.Counts(console, {"runs": 3}) as counts:
        for _ in range(3):  # 3 seconds pass at every look, and lines are 5 apart
            counts.add("runs")
    if terminal:
        assert "3/3" in text.getvalue()
    else:
        assert text.getvalue() == "runs 2 of 3\nruns 3 of 3\n"


def test_counts_that_are_soon_done_say_nothing_in_a_pipe():
    text = io.StringIO()
    with progress.Counts(Console(file=text), {"runs": 1}) as counts:
        counts.add("runs")
    assert text.getvalue() == ""


# ---- threads and processes


def in_a_process(item):
    if item == "fail":
        raise ValueError("one")
    if item == "die":
        os.kill(os.getpid(), signal.SIGKILL)
    pools = [pool["num_threads"] for pool in threadpool_info()]
    return item, os.getpid(), parallel.own_cores(), max(pools, default=1)


@pytest.mark.filterwarnings("ignore::unweave.metrics.FewRowsWarning")
def test_in_processes(monkeypatch):
    """They share the cores, keep the order and score as here, and what fails is raised."""
    models = fitted(seeds=range(2))
    here = uw.evaluate(models, 50)
    monkeypatch.setattr(parallel, "usable_cores", lambda: 4)
    items, pids, cores, threads = zip(*in_processes(in_a_process, range(20), 2), strict=True)
    assert items == tuple(range(20))
    assert os.getpid() not in pids
    assert set(cores) == {2}
    assert max(threads) <= 2
    ((_, alone, _, _),) = in_processes(in_a_process, [0], 1)
    assert alone == os.getpid()
    assert [scores.to_json() for scores in uw.evaluate(models, 50)] == [s.to_json() for s in here]
    with pytest.raises(ValueError, match="one"):
        list(in_processes(in_a_process, [0, "fail", 2], 2))
    with pytest.raises(Killed, match="one of 2 processes was killed"):
        list(in_processes(in_a_process, [0, "die", 2], 2))


def test_results_come_in_order_and_few_items_are_taken_ahead():
    taken, done = [], []

    def items():
        for number in range(50):
            taken.append(number)
            yield number

    for result in in_threads(lambda item: -item, items(), threads=3):
        done.append(result)
        assert len(taken) <= len(done) + 7
    assert done == [-number for number in range(50)]


def test_threads_within_threads_are_no_more_than_cores(monkeypatch):
    monkeypatch.setattr(parallel, "usable_cores", lambda: 4)

    def inner(item):
        return parallel.own_cores(), threading.get_ident()

    def outer(item):
        return threading.get_ident(), list(in_threads(inner, range(6)))

    for here, found in in_threads(outer, range(8)):
        assert {cores for cores, _ in found} == {4 // 4}
        assert {thread for _, thread in found} == {here}
    for here, found in in_threads(outer, range(8), threads=2):
        assert {cores for cores, _ in found} == {1}
        assert here not in {thread for _, thread in found}
    assert parallel.own_cores() == 4


def test_where_a_call_fails_those_begun_end_and_no_other_begins():
    begun, ended, failed = [], [], threading.Event()

    def work(item):
        begun.append(item)
        if item == 1:
            failed.set()
            raise ValueError("one")
        failed.wait()
        ended.append(item)
        return item

    results = in_threads(work, range(100), threads=2)
    with pytest.raises(ValueError, match="one"):
        list(results)
    assert set(ended) == set(begun) - {1}
    assert len(begun) < 10


@pytest.mark.parametrize("count", [2, 5])
def test_scores_of_many_runs_are_a_row_a_metric(count):
    """Few runs have a column each; of more there are mean, spread, least and most."""

    def scores(value):
        return Scores({"mig/a": Score("mig", "a", value), "dci/b": Score("dci", "b", 0.5)})

    found = {f"run{k}": scores(k / 10) for k in range(count)}
    found["run0"].pop("dci/b")
    table = scoring.as_table(found)
    cells = [list(column.cells) for column in table.columns]
    assert cells[0] == ["mig/a", "dci/b"]
    if count == 2:
        assert cells[1:] == [["0.000", ""], ["0.100", "0.500"]]
    else:
        assert [row[0] for row in cells[1:]] == ["5", "0.200", "0.141", "0.000", "0.400"]
        assert [row[1] for row in cells[1:]] == ["4", "0.500", "0.000", "0.500", "0.500"]
