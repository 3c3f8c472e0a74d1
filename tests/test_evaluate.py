"""Evaluating many runs together gives the same tables and scores as evaluating each alone."""

import dataclasses
import json
import shutil
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy import stats

import unweave as uw
from datasets import CRITIC, MIXED, SMALL
from unweave.cli import score_output
from unweave.data.dataset import ArrayDataset
from unweave.data.synthetic.shapes2d import SpriteDataset
from unweave.evaluation import evaluate as evaluation, stacked
from unweave.evaluation.model import FittedModel
from unweave.metrics import UNSUPERVISED, Score, Scores, evaluate as evaluate_table

OTHER = dataclasses.replace(SMALL, positions=4)
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
    """Models of two structures on one dataset, and on another dataset, interleaved."""
    seeds = (0, 1)
    plain, wide, other = fitted(seeds=seeds), fitted(latent=uw.Gaussian(4)), fitted(OTHER)
    return [model for three in zip(plain, wide, other, strict=False) for model in three]


def assert_same(one, two, exactly=True):
    """Compare two tables, exactly or to float tolerance."""
    for field in dataclasses.fields(uw.metrics.Table):
        a, b = getattr(one, field.name), getattr(two, field.name)
        if exactly or np.asarray(a).dtype.kind != "f":
            np.testing.assert_array_equal(a, b)
        else:
            np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)


def test_codes_can_be_mapped_through_the_priors_cdf():
    """As [Mathieu2019] do for Student-t priors; compared with scipy."""
    model = uw.fit(SMALL, **(FIELDS | {"latent": uw.StudentT(3, df=4), "steps": 40}))
    plain, mapped = model.table(), model.table(codes="prior-cdf")
    expected = stats.norm.ppf(stats.t(4).cdf(plain.codes.astype(float)))
    np.testing.assert_allclose(mapped.codes, expected, rtol=1e-4, atol=1e-5)
    np.testing.assert_array_equal(mapped.kl, plain.kl)
    assert mapped.scales is None
    name = "factor_vae_score/mathieu2019"
    (scores,) = uw.evaluate([model], metrics=name, codes="prior-cdf")
    expected_score = uw.metrics.factor_vae_score(
        mapped.codes, plain.factors, protocol="mathieu2019", periods=plain.periods
    )
    assert float(scores[name]) == float(expected_score)
    normal = uw.fit(SMALL, **FIELDS)
    codes = normal.table(codes="prior-cdf").codes
    np.testing.assert_allclose(codes, normal.table().codes, rtol=1e-5, atol=1e-6)
    with pytest.raises(ValueError, match="prior-cdf"):
        model.table(codes="cdf")


@each
@pytest.mark.parametrize("vectorised", [None, True, False])
def test_models_encoded_together_equal_models_encoded_alone(structure, vectorised, monkeypatch):
    """Bit for bit if lanes run one after the other, to float tolerance if they are vectorised."""
    if vectorised is not None:
        monkeypatch.setattr(stacked, "can_vectorise", lambda nets, device: vectorised)
    models = fitted(**structure)
    exactly = not stacked.join([model.trained for model in models]).vectorised
    seen = []
    for number, model, rows, q in evaluation.encode(models, rows=150):
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
def test_encoding_on_cuda_equals_the_cpu(structure):
    """In lanes with our kernels, alone, and on the CPU."""
    models = fitted(**structure, device="cuda")
    for _, model, rows, q in evaluation.encode(models, rows=1000):
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
def test_chunks_and_groups_do_not_change_tables(structure, monkeypatch):
    models = fitted(**structure)
    whole = uw.tables(models, rows=100)
    monkeypatch.setitem(stacked._MOST, "cpu", 7)
    for table, expected in zip(uw.tables(models, rows=100), whole, strict=True):
        assert_same(table, expected, exactly=False)
    monkeypatch.setitem(evaluation._AT_ONCE, "cpu", 1)
    joined = []
    monkeypatch.setattr(
        evaluation, "join", lambda lanes: joined.append(lanes) or stacked.join(lanes)
    )
    for table, expected in zip(uw.tables(models, rows=100), whole, strict=True):
        assert_same(table, expected, exactly=False)
    assert [len(lanes) for lanes in joined] == [1, 1, 1]


def test_chunks_bound_the_memory():
    alone = fitted(seeds=[0])[0].trained
    lanes = stacked.join([alone] * 50)
    for networks, count in ((alone, 1), (lanes, 50)):
        for shape in ((3,), (1, 64, 64), (3, 256, 256), (1, 8192, 8192)):
            chunk = networks.chunk(shape)
            assert chunk == 1 or chunk * count * np.prod(shape) <= stacked._AT_ONCE["cpu"]
            assert 1 <= chunk <= stacked._MOST["cpu"]
    assert alone.chunk((1, 64, 64)) == stacked._MOST["cpu"]


def test_observations_are_read_once_for_all_lanes(monkeypatch):
    models = fitted()
    read, images = [], SpriteDataset.images
    monkeypatch.setattr(
        SpriteDataset,
        "images",
        lambda dataset, index: read.append(len(index)) or images(dataset, index),
    )
    reported = []
    list(evaluation.encode(models, rows=150, progress=reported.append))
    assert sum(read) == 150
    assert sum(reported) == 3 * 150


@pytest.mark.filterwarnings("ignore::unweave.metrics.FewRowsWarning")
def test_tables_and_scores_of_a_list_equal_those_of_its_members(models):
    tables, named = uw.tables(models, rows=100), ["mig", "sap", "modularity"]
    found = uw.evaluate(models, rows=100, metrics=named)
    for model, table, scores in zip(models, tables, found, strict=True):
        assert_same(table, model.table(100), exactly=False)
        expected = evaluate_table(table, metrics=named)
        assert scores.keys() == expected.keys()
        for key, score in scores.items():
            assert score.to_json() == expected[key].to_json()
    assert len(tables[2]) == OTHER.load(torch.device("cpu")).size < 100
    with pytest.raises(ValueError, match="metric 'fig' is not known"):
        evaluate_table(tables[0], metrics="fig")
    assert uw.tables([]) == uw.evaluate([]) == uw.summaries([]) == []
    (alone,), one = (
        uw.evaluate(given, rows=100, metrics="mig") for given in (models[:1], models[0])
    )
    assert {key: score.to_json() for key, score in one.items()} == {
        key: score.to_json() for key, score in alone.items()
    }


def test_own_functions_are_metrics(models):
    def mean_code(codes, factors):
        return codes.mean()

    found = uw.evaluate(models, rows=200, metrics=[mean_code])
    for scores, table in zip(found, uw.tables(models, rows=200), strict=True):
        assert scores["mean_code"].value == pytest.approx(table.codes.mean())


def test_a_model_whose_metrics_fail_does_not_stop_the_others(models, monkeypatch):
    """The error takes the place of its scores: for parts of the rate as for the likelihood."""
    summarise, tables = FittedModel.summarise, dict(enumerate(uw.tables(models, rows=50)))

    def fail_for_the_first(self, *arguments):
        if self is models[0]:
            raise ValueError("no summary")
        return summarise(self, *arguments)

    def fail(*_, **__):
        raise ValueError("no udr")

    monkeypatch.setattr(FittedModel, "summarise", fail_for_the_first)
    monkeypatch.setattr("unweave.evaluation.evaluate.udr", fail)
    keys = ["mutual_information/exact", "total_correlation/exact", "udr/duan2020-lasso"]
    found = {number: [] for number in tables}
    for number, result in evaluation.score_models(models, keys, tables):
        found[number].append(result if isinstance(result, Score) else str(result))
    assert found[0][0] == "no summary"
    for number in list(found)[1:]:
        assert [score.key for score in found[number][:2]] == keys[:2]
    assert all(isinstance(own[-1], str) for own in found.values())


def test_summaries_of_a_list_equal_those_of_its_members(models):
    for model, found in zip(models, uw.summaries(models, samples=300), strict=True):
        expected = model.summary(300)
        for one, two in zip(found, expected, strict=True):
            assert one == pytest.approx(two, rel=1e-3, abs=1e-4)


def test_a_summary_adds_up_to_the_rate():
    """Over all the data, up to the error of sampling."""
    model = fitted(seeds=[0], steps=300, optimiser=uw.Adam(lr=3e-3), objective=uw.VAE())[0]
    found, rate = model.summary(20_000), model.table().kl.sum()
    parts = found.mutual_information + found.total_correlation + found.dimension_kl
    assert rate > 1
    assert parts == pytest.approx(rate, rel=0.02)
    assert found.mutual_information <= np.log(model.dataset.size)
    assert model.summary(500, rows=50).mutual_information <= np.log(50)


def test_runs_loaded_together_share_a_dataset(tmp_path, monkeypatch):
    kept = [*fitted(store=tmp_path), *fitted(OTHER, store=tmp_path, seeds=[0])]
    loads = []
    load = uw.Shapes2D.load
    monkeypatch.setattr(uw.Shapes2D, "load", lambda d, device: loads.append(d) or load(d, device))
    models = uw.load([model.folder for model in kept])
    assert loads == []
    assert [model.run for model in models] == [model.run for model in kept]
    assert models[0].dataset is models[2].dataset is not models[3].dataset
    assert loads == [SMALL, OTHER]
    images = np.random.default_rng(0).integers(0, 256, (40, 8, 8), dtype=np.uint8)
    folders = [model.folder for model in fitted(images, seeds=(0, 1), store=tmp_path)]
    again = uw.load(folders, data=images)
    assert again[0].dataset is again[1].dataset
    assert isinstance(again[0].dataset, ArrayDataset)


# ---- on the command line


@pytest.fixture
def evaluate(unweave):
    """Runs `unweave evaluate` in this process: (exit code, stdout, stderr)."""
    return partial(unweave, "evaluate")


def written(folder):
    return json.loads((Path(folder) / "scores.json").read_text())["scores"]


def test_many_runs_are_evaluated_like_each_alone(evaluate, tmp_path):
    """On two datasets and with two structures, in the order of the arguments."""
    kept = [
        *fitted(store=tmp_path, seeds=[0, 1]),
        *fitted(OTHER, store=tmp_path, seeds=[0]),
        *fitted(store=tmp_path, seeds=[3], network=uw.Conv(base=4, hidden=16), latent=MIXED),
    ]
    named = ("--metrics", "mig,sap")
    folders = [model.folder for model in kept[::2] + kept[1::2]]
    code, out, err = evaluate(*folders, folders[0], "--json", "--rows", 100, *named)
    assert code == 0, err
    found = json.loads(out)
    assert list(found) == [folder.name for folder in folders]
    tables = {folder: uw.metrics.Table.load(folder / "table.npz") for folder in folders}
    for folder in folders:
        assert written(folder) == found[folder.name]
        (folder / "scores.json").unlink()
        code, out, _ = evaluate(folder, "--json", "--rows", 100, *named)
        assert code == 0
        assert_same(tables[folder], uw.metrics.Table.load(folder / "table.npz"), exactly=False)
        alone = json.loads(out)[folder.name]
        assert alone.keys() == found[folder.name].keys()
        for key, score in alone.items():
            assert score["value"] == pytest.approx(found[folder.name][key]["value"], abs=1e-4)


def test_copies_of_a_run_in_two_stores_are_named_by_folder(evaluate, tmp_path):
    folder = fitted(store=tmp_path / "one", seeds=[0])[0].folder
    copy = tmp_path / "two" / folder.name
    shutil.copytree(folder, copy)
    code, out, err = evaluate(folder, copy, "--json", "--rows", 50, "--metrics", "mig")
    assert code == 0, err
    assert list(json.loads(out)) == [str(folder), str(copy)]


def test_interrupted_evaluation_keeps_finished_scores(evaluate, tmp_path, monkeypatch):
    folders = [model.folder for model in fitted(store=tmp_path, seeds=range(4))]
    measured = []

    def stopped_at_the_third(table, **asked):
        measured.append(table)
        if len(measured) == 3:
            raise KeyboardInterrupt
        return evaluate_table(table, **asked)

    monkeypatch.setattr("unweave.cli.scoring.evaluate", stopped_at_the_third)
    code, out, err = evaluate(*folders, "--rows", 100, "--metrics", "mig")
    assert code == 130
    assert "completed results were stored" in err
    assert out == ""
    assert all(written(folder) for folder in folders[:2])
    assert not (folders[2] / "scores.json").exists()
    assert not list(tmp_path.rglob(".unfinished*"))


def test_runs_without_factors_get_unsupervised_metrics(evaluate, tmp_path):
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


@pytest.mark.parametrize("count", [2, 5])
def test_scores_of_many_runs_have_a_row_per_metric(count):
    """Few runs have a column each; more are summarised."""

    def scores(value):
        return Scores({"mig/a": Score("mig", "a", value), "dci/b": Score("dci", "b", 0.5)})

    found = {f"run{k}": scores(k / 10) for k in range(count)}
    found["run0"].pop("dci/b")
    table = score_output.scores_table(found)
    cells = list(map(list, zip(*table.rows, strict=True)))
    assert cells[0] == ["mig/a", "dci/b"]
    if count == 2:
        assert cells[1:] == [["0.000", ""], ["0.100", "0.500"]]
    else:
        assert [row[0] for row in cells[1:]] == ["5", "0.200", "0.141", "0.000", "0.400"]
        assert [row[1] for row in cells[1:]] == ["4", "0.500", "0.000", "0.500", "0.500"]
