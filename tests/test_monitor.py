"""Measuring during training: right values, the same in lanes, and no effect on training."""

import dataclasses
import time

import numpy as np
import pytest
import torch

import unweave as uw
from datasets import SMALL
from stopping import Late
from test_evaluate import STRUCTURES
from unweave import metrics
from unweave.evaluation.monitor import Measure, monitor_of
from unweave.metrics import evaluate as evaluate_table
from unweave.training import Silent, TrainingInterrupted, log_rows, train
from unweave.training.run import Run
from unweave.training.store import Store

DATASET = SMALL.load(torch.device("cpu"))
AGGREGATES = ("mutual_information", "total_correlation", "dimension_kl")
MEASURE = Measure(every=4, metrics=("terms", *AGGREGATES, "mig"), rows=128, samples=200)


def runs_of(seeds=(0, 1), steps=10, **fields):
    given = dict(network=uw.MLP((16,)), latent=uw.Gaussian(3), batch_size=16) | fields
    return [Run(data=SMALL, seed=seed, steps=steps, **given).resolve(DATASET) for seed in seeds]


def trained(runs, measure=MEASURE, **options):
    return train(runs, DATASET, monitor=monitor_of(measure, runs, DATASET), **options)


def test_evaluate_takes_the_names_that_measure_takes(unweave, tmp_path):
    """The exact total correlation has one name; a similar one of other metrics is no answer."""
    fields = dict(network=uw.MLP((16,)), latent=uw.Gaussian(3), batch_size=16, steps=10)
    measure = Measure(every=10, metrics=AGGREGATES)
    model = uw.fit(SMALL, measure=measure, store=tmp_path, progress=False, **fields)
    (scores,) = uw.evaluate([model], metrics=",".join(AGGREGATES))
    measured = model.measures[-1]["metrics"]
    assert {key: score.value for key, score in scores.items()} == pytest.approx(
        {f"{name}/exact": measured[name] for name in AGGREGATES}, rel=1e-5
    )
    code, out, err = unweave("evaluate", model.folder, "--metrics", "total_correlation/exact")
    assert code == 0, err
    assert f"{measured['total_correlation']:.4f}" in out
    table = model.table()
    own = metrics.total_correlation(table.codes, table.scales, samples=1_000)
    assert own.key == "total_correlation/exact"
    assert own.value == pytest.approx(measured["total_correlation"], abs=0.05)
    _, _, err = unweave("evaluate", model.folder, "--metrics", "exact_total_correlation")
    assert "did you mean 'total_correlation'?" in err


@pytest.mark.parametrize("structure", STRUCTURES.values(), ids=STRUCTURES)
def test_measuring_does_not_change_the_bits_of_training(structure):
    runs = runs_of(steps=6, **structure)
    for plain, measured in zip(
        train(runs, DATASET), trained(runs, Measure(every=2, metrics=("terms", "mig"), rows=32)),
        strict=True,
    ):  # fmt: skip
        assert plain.log == measured.log
        assert [row["step"] for row in measured.measures] == [2, 4, 6]
        for name, value in plain.weights.items():
            assert torch.equal(value, measured.weights[name]), name


@pytest.mark.parametrize("structure", STRUCTURES.values(), ids=STRUCTURES)
def test_a_lane_is_measured_like_a_single_run(structure):
    runs = runs_of(steps=4, **structure)
    together = trained(runs, Measure(every=4, metrics=("terms", *AGGREGATES), rows=32, samples=50))
    for run, lane in zip(runs, together, strict=True):
        (alone,) = trained([run], Measure(4, ("terms", *AGGREGATES), rows=32, samples=50))
        for one, other in zip(lane.measures, alone.measures, strict=True):
            for kind in ("terms", "metrics"):
                assert one[kind] == pytest.approx(other[kind], rel=2e-3, abs=2e-3)


def test_measurements_equal_those_of_the_fitted_model():
    (model,) = uw.fit(
        SMALL, seed=[3], network=uw.MLP((16,)), latent=uw.Gaussian(3), batch_size=16, steps=10,
        progress=False,
    )  # fmt: skip
    (outcome,) = trained(runs_of([3]))
    row = outcome.measures[-1]
    assert row["step"] == 10
    summary = model.summary(samples=200)
    for name in AGGREGATES:
        assert row["metrics"][name] == pytest.approx(getattr(summary, name), rel=1e-4, abs=1e-5)
    scores = evaluate_table(model.table(rows=128), metrics="mig")
    assert {key: score.value for key, score in scores.items()} == pytest.approx(
        {key: value for key, value in row["metrics"].items() if "/" in key}
    )


def test_information_and_correlations_equal_those_of_the_summary():
    latent = uw.Product(style=uw.Gaussian(2), category=uw.Categorical(3))
    (run,) = runs_of([0], latent=latent, objective=uw.HFVAE())
    measure = Measure(10, ("information", "correlations"), rows=64, samples=100)
    (outcome,) = trained([run], measure)
    summary = uw.FittedModel(outcome, DATASET).summary(samples=100)
    expected = dict(zip(latent.names, summary.information, strict=True))
    assert set(expected) == {"style.0", "style.1", "category"}
    assert outcome.measures[-1]["metrics"] == pytest.approx(
        {f"information/{name}": value for name, value in expected.items()}
        | {f"correlations/{name}": value for name, value in summary.correlations.items()},
        rel=1e-3, abs=1e-5,
    )  # fmt: skip
    assert set(summary.correlations) == {"", "style"}


def test_terms_are_unweighted_means_over_the_rows():
    whole = Measure(every=5, rows=DATASET.size)
    runs = runs_of([0], steps=5, batch_size=DATASET.size, objective=uw.BetaVAE(beta=7.0))
    (outcome,) = trained(runs, whole)
    model = uw.FittedModel(outcome, DATASET)
    assert outcome.measures[0]["terms"]["rate"] == pytest.approx(
        float(model.table(rows=DATASET.size).kl.sum()), rel=1e-4
    )


def test_measurements_may_lie_between_log_rows(monkeypatch):
    monkeypatch.setattr(log_rows, "log_interval", lambda steps: 4)
    runs = runs_of([0], steps=18)
    (outcome,) = trained(runs, [Measure(every=7), Measure(5, ("dimension_kl",), 16, 10)])
    assert [row["step"] for row in outcome.measures] == [5, 7, 10, 14, 15, 18]
    assert [row["step"] for row in outcome.log] == [4, 8, 12, 16, 18]
    assert outcome.log == train(runs, DATASET)[0].log


def test_a_deadline_stops_training_and_the_next_call_resumes(tmp_path):
    runs = runs_of(steps=14)
    whole = trained(runs)
    store = Store(tmp_path)
    (first, _) = trained(runs, store=store, deadline=time.monotonic() - 1)
    assert first.weights is None
    assert first.failure is None

    clock = [0.0]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("unweave.core.pace.time.monotonic", lambda: clock[0])
        stopped = trained(runs, store=store, progress=Late(clock, 9), deadline=1.0)
    assert [outcome.weights for outcome in stopped] == [None, None]
    assert [max(store.folder(run).states) for run in runs] == [9, 9]
    for outcome, expected in zip(trained(runs, store=store), whole, strict=True):
        assert outcome.measures == expected.measures
        assert outcome.log == expected.log
        for name, value in expected.weights.items():
            assert torch.equal(value, outcome.weights[name])
        folder = store.folder(outcome.run)
        assert folder.read_measures() == expected.measures


class Stop(Silent):
    """Stop at the first row of the log."""

    def advance(self, *_):
        raise KeyboardInterrupt


def test_a_checkpoint_of_an_earlier_version_is_resumed_with_its_measurements(tmp_path, monkeypatch):
    monkeypatch.setattr(log_rows, "log_interval", lambda steps: 4)
    (run,), store = runs_of([0], steps=12), Store(tmp_path)
    folder = store.folder(run)
    with pytest.raises(TrainingInterrupted):
        trained([run], Measure(every=2), store=store, progress=Stop())
    ((step, _),) = folder.states.items()
    facts = {k: v for k, v in folder.read_state_facts(step).items() if k != "measured"}
    folder.write_state(step, folder.read_state(step), facts)
    (outcome,) = trained([run], Measure(every=2), store=store)
    assert [row["step"] for row in outcome.measures] == [2, 4, 6, 8, 10, 12]


@pytest.mark.parametrize("stored", ["older", "missing"])
def test_measurements_that_lack_rows_of_the_checkpoint_are_named(tmp_path, monkeypatch, stored):
    monkeypatch.setattr(log_rows, "log_interval", lambda steps: 4)
    (run,), store, versions = runs_of([0], steps=12), Store(tmp_path), []
    path = store.folder(run).path / "measures.jsonl"
    for _ in range(2):
        with pytest.raises(TrainingInterrupted):
            trained([run], Measure(every=2), store=store, progress=Stop())
        versions.append(path.read_bytes())
    if stored == "older":
        path.write_bytes(versions[0])
        match = r"measures.jsonl .*it has 2 rows, and the checkpoint 4.* delete it to continue"
        with pytest.raises(ValueError, match=match):
            trained([run], Measure(every=2), store=store)
    path.unlink()
    with pytest.warns(match=r"measures.jsonl is missing: training continues from step 8"):
        (outcome,) = trained([run], Measure(every=2), store=store)
    assert [row["step"] for row in outcome.measures] == [10, 12]


def test_invalid_measurements_are_rejected_before_training():
    with pytest.raises(ValueError, match="did you mean 'total_correlation'"):
        Measure(metrics=("total_corelation",))
    with pytest.raises(TypeError, match="expected measure=Measure"):
        uw.fit(SMALL, steps=1, measure="mig", progress=False)
    data, dataset = uw.data.from_array(np.zeros((32, 8, 8), np.uint8))
    run = Run(data=data, network=uw.MLP((4,)), batch_size=8, steps=2).resolve(dataset)
    with pytest.raises(ValueError, match="mig"):
        monitor_of(Measure(metrics=("mig",)), [run], dataset)


def test_a_failed_lane_keeps_earlier_measurements():
    runs = runs_of([0], steps=40, optimiser=uw.Adam(lr=1e30))
    (outcome,) = trained(runs, Measure(every=1, rows=16))
    assert outcome.failure
    assert [row["step"] for row in outcome.measures] == list(range(1, outcome.failure["step"] + 1))


@pytest.mark.parametrize("metric", ["mig", "total_correlation", "information"])
def test_a_lane_that_fails_does_not_stop_measuring_the_others(metric):
    """They have the measurements of a group in which no lane fails."""
    good, other = runs_of(steps=20)
    bad = dataclasses.replace(other, objective=uw.BetaVAE(beta=1e30))
    measure = Measure(every=7, metrics=("terms", metric), rows=128, samples=50)
    healthy, broken = trained([good, bad], measure)
    assert broken.failure
    assert [row["step"] for row in healthy.measures] == [7, 14, 20]
    expected, _ = trained(
        [dataclasses.replace(run, objective=uw.BetaVAE()) for run in (good, other)], measure
    )
    assert healthy.measures == expected.measures


@pytest.mark.parametrize("steps", [1, 3])
def test_a_term_of_several_updates_is_the_last_ones(steps):
    objective = uw.InfoGAN(noise_size=2, critic_steps=steps)
    runs = runs_of([0], steps=2, objective=objective, network=None)
    (outcome,) = trained(runs, Measure(every=2, rows=64))
    terms = outcome.measures[0]["terms"]
    assert 0 <= terms["critic_accuracy"] <= 1
    assert terms.keys() == outcome.log[0].keys() - {"step"}
    for name, value in terms.items():
        assert value == pytest.approx(outcome.log[-1][name], rel=0.5, abs=0.5), name


def test_unfinished_runs_resume_beside_new_ones(tmp_path):
    first, second = runs_of(steps=12)
    store, clock = Store(tmp_path), [0.0]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("unweave.core.pace.time.monotonic", lambda: clock[0])
        trained([first], store=store, progress=Late(clock, 8), deadline=1.0)
    started = []

    class Watched(Silent):
        def begin(self, runs, step):
            started.append(([run.seed for run in runs], step))

    trained([first, second], store=store, progress=Watched())
    assert started == [([0], 8), ([1], 0)]
