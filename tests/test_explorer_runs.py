"""Settings, scores and curves of runs in the manifest, and quantiles of priors in bundles."""

import dataclasses
import json
import math
from typing import get_args

import numpy as np
import pytest
import scipy.special
import scipy.stats
import torch

import unweave as uw
from datasets import SMALL, prior
from stored_files import rewrite, stored_scores
from unweave.core.noise import Noise
from unweave.core.text import visible
from unweave.evaluation.evaluate import AggregateName
from unweave.explorer.contents import Curves, Manifest, RunData, manifest_json
from unweave.explorer.quantiles import SCORES, _quantiles, prior_quantiles
from unweave.explorer.run_data import curves, named, names, run_data, terms
from unweave.metrics.registry import METRICS, UNSUPERVISED
from unweave.training.grouping import settings_of
from unweave.training.run import Run
from unweave.training.store import RunFolder, ScoreFacts

PROBABILITIES = scipy.stats.norm.cdf(np.arange(-30, 31) / 10)


def quantiles(latent):
    return prior_quantiles(latent, prior(latent))


@pytest.mark.parametrize(
    ("latent", "expected"),
    [
        (uw.Gaussian(2, variances=(4.0, 0.25)), [scipy.stats.norm(0, 2), scipy.stats.norm(0, 0.5)]),
        (uw.StudentT(1, df=3, scale=2.0), [scipy.stats.t(3, scale=2)]),
        (uw.StudentT(1, df=0.5), [scipy.stats.t(0.5)]),
        (uw.Laplace(1, scale=0.7), [scipy.stats.laplace(scale=0.7)]),
        (uw.Uniform(1, low=-3.0, high=5.0), [scipy.stats.uniform(-3, 8)]),
    ],
    ids=["gaussian", "student-t", "heavy tails", "laplace", "uniform"],
)
def test_quantiles_are_those_of_scipy(latent, expected):
    found = quantiles(latent)
    for column, distribution in zip(found, expected, strict=True):
        np.testing.assert_allclose(column, distribution.ppf(PROBABILITIES), rtol=1e-5, atol=1e-7)


def test_quantiles_of_mixtures_have_the_probabilities_they_stand_for():
    """Their inverse has no formula, but their cdf has."""
    mixture = uw.GaussianMixture(((-2.0, 0.0), (3.0, 1.0)), ((0.1, 2.0), (0.5, 1.0)), (0.3, 0.7))
    first, second = quantiles(mixture)
    cdf = scipy.stats.norm.cdf
    shares = 0.3 * cdf(first, -2, 0.1) + 0.7 * cdf(first, 3, 0.5)
    np.testing.assert_allclose(shares, PROBABILITIES, atol=1e-8)
    shares = 0.3 * cdf(second, 0, 2) + 0.7 * cdf(second, 1, 1)
    np.testing.assert_allclose(shares, PROBABILITIES, atol=1e-8)
    (sparse,) = quantiles(uw.Sparse(1, spike_weight=0.8, spike_scale=0.05))
    shares = 0.8 * cdf(sparse, 0, 0.05) + 0.2 * cdf(sparse)
    np.testing.assert_allclose(shares, PROBABILITIES, atol=1e-8)


def test_quantiles_of_a_tree_are_those_of_its_blocks():
    tree = uw.Product(
        what=uw.Categorical(3),
        at=uw.Product(x=uw.Laplace(1), y=uw.Gaussian(1)),
        flag=uw.Bernoulli(1),
    )
    found = quantiles(tree)
    assert found.shape == (6, 61)
    assert np.isnan(found[[0, 1, 2, 5]]).all()
    np.testing.assert_allclose(found[3], scipy.stats.laplace.ppf(PROBABILITIES), atol=1e-7)
    np.testing.assert_allclose(found[4], SCORES, atol=1e-7)


def test_quantiles_of_learned_priors_rise():
    for latent in (uw.VampPrior(3, components=4), uw.Gaussian(3, learn="covariance")):
        assert (np.diff(quantiles(latent)) > 0).all()


@dataclasses.dataclass(frozen=True)
class Logistic:
    """A prior of a user's own, without a cdf."""

    mean: torch.Tensor

    def rsample(self, noise: Noise, shape=()):
        return torch.logit(noise.uniform((*shape, *self.mean.shape), "logistic"))


def test_quantiles_of_a_prior_without_a_cdf_are_those_of_samples():
    (found,) = _quantiles(Logistic(torch.zeros(1)))
    expected = scipy.special.logit(PROBABILITIES)
    density = PROBABILITIES * (1 - PROBABILITIES)
    error = np.sqrt(PROBABILITIES * (1 - PROBABILITIES) / 2**17) / density  # of a quantile
    assert (np.abs(found - expected) < 4.5 * error).all()


def trained(store, **fields):
    usual = dict(network=uw.MLP((4,)), steps=20, batch_size=16, latent=uw.Gaussian(2))
    return uw.fit(SMALL, store=store, device="cpu", progress=False, **(usual | fields))


def test_a_run_is_read_from_its_folder_without_its_weights(tmp_path, monkeypatch):
    model = trained(tmp_path, seed=3)
    facts = ScoreFacts("all", 10, "mean", step=20)
    own = stored_scores({"mig/chen2018": 0.25, "sap/kumar2018": math.nan, "irs/suter2019": 0.5})
    own["mig/chen2018"]["details"] = {"no evidence": "only one factor can be scored"}
    RunFolder(model.folder).write_scores(facts, own)
    RunFolder(model.folder).write_scores(
        facts._replace(split="test"), stored_scores({"mig/chen2018": 0.75})
    )
    monkeypatch.setattr("unweave.training.tensor_files.tensors_from_bytes", None)
    found = run_data(model.folder)
    assert (found.id, found.state, found.step, found.steps) == (
        model.run.digest,
        "finished",
        20,
        20,
    )
    assert found.settings["seed"] == 3
    assert found.settings == settings_of(model.run, places=False)
    assert found.scores == {"mig/chen2018": 0.25, "irs/suter2019": 0.5}
    assert found.no_evidence == {"mig/chen2018": "only one factor can be scored"}
    assert found.log.step == [row["step"] for row in model.log]
    rates = [row["rate"] for row in model.log]
    assert found.log.terms["rate"] == pytest.approx(rates, rel=1e-5)  # six digits
    assert found.explorable
    assert run_data(model) == found


def test_states_are_those_of_the_store(tmp_path):
    model = trained(tmp_path)
    folder = RunFolder(model.folder)
    folder.weights.unlink()
    assert (run_data(folder.path).state, run_data(folder.path).explorable) == ("stopped", True)
    with folder.lock():
        assert run_data(folder.path).state == "running"
    for path in folder.states.values():
        path.unlink()
    found = run_data(folder.path)
    assert (found.state, found.explorable) == ("stopped", False)
    assert found.reason == "stopped before its first checkpoint"
    (folder.path / "data.json").unlink()
    found = run_data(folder.path)
    assert (found.state, found.explorable) == ("not started", False)
    assert found.reason == "has not started to train"
    with folder.lock():
        assert run_data(folder.path).reason == "is training and has no checkpoint yet"
    folder.write_failure({"step": 3, "term": "rate", "checkpoint": None})
    assert run_data(folder.path).state == "failed"


def test_a_run_with_an_unknown_part_has_settings_but_no_model(tmp_path):
    model = trained(tmp_path)
    network = {"kind": "elsewhere:Net", "source": "0" * 16}
    rewrite(model.folder / "run.json", {"network": network})
    found = run_data(model.folder)
    assert found.settings["network"] == "elsewhere:Net"
    assert not found.explorable
    assert "elsewhere" in found.reason
    assert str(tmp_path) not in found.reason


def test_settings_have_no_path_of_the_data(tmp_path):
    place = tmp_path / "ada's own data.npz"
    np.savez(place, x=np.random.default_rng(0).normal(size=(30, 3)).astype(np.float32))
    fields = dict(network=uw.MLP((4,)), steps=2, batch_size=8, latent=uw.Gaussian(1))
    model = uw.fit(place, store=tmp_path / "runs", device="cpu", progress=False, **fields)
    assert str(tmp_path) in (model.folder / "run.json").read_text()
    in_memory = dataclasses.replace(run_data(model), id="")
    assert str(tmp_path) not in repr(in_memory)
    rewrite(model.folder / "run.json", {"network": {"kind": "elsewhere:Net"}})
    found = run_data(model.folder)
    assert not found.explorable
    assert str(tmp_path) not in repr(found)


def test_a_run_is_known_by_its_digest_whatever_its_folder_is_called(tmp_path):
    model = trained(tmp_path)
    renamed = model.folder.rename(tmp_path / "my run")
    assert run_data(renamed).id == model.run.digest
    assert run_data(uw.load(renamed, device="cpu")).id == model.run.digest


def test_a_model_without_a_folder_is_a_run_too():
    model = trained(None)
    found = run_data(model)
    assert (found.id, found.state, found.explorable) == (model.run.digest, "finished", True)
    assert found.log.step == [row["step"] for row in model.log]


def test_long_curves_are_thinned_evenly_and_keep_their_ends():
    rows = [{"step": 10 * n, "rate": float(n)} for n in range(1, 2001)]
    thinned = curves(rows)
    assert len(thinned.step) == 300
    assert (thinned.step[0], thinned.step[-1]) == (10, 20_000)
    assert thinned.terms["rate"] == [step / 10 for step in thinned.step]
    assert np.ptp(np.diff(thinned.step)) <= 10
    short = curves([{"step": 1, "a": math.inf}, {"step": 2, "a": 1, "b": 2.0}])
    assert short == Curves([1, 2], {"a": [None, 1.0], "b": [None, 2.0]})
    assert curves([]) == Curves([], {})


def some_runs(*runs):
    return [
        RunData(
            f"{n}".ljust(12, "0"),
            "",
            "finished",
            1,
            1,
            settings_of(run),
            {},
            *[curves([])] * 2,
            True,
        )
        for n, run in enumerate(runs)
    ]


def test_names_tell_runs_apart_by_what_differs():
    seeds = some_runs(*(Run(seed=seed) for seed in range(2)))
    assert names(seeds) == ["beta-vae, seed 0", "beta-vae, seed 1"]
    assert names(seeds[:1]) == ["beta-vae"]
    betas = some_runs(*(Run(objective=uw.BetaVAE(beta)) for beta in (1.0, 4.0)))
    assert names(betas) == ["beta-vae, beta 1", "beta-vae, beta 4"]
    kinds = some_runs(Run(objective=uw.VAE()), Run(objective=uw.FactorVAE(), seed=1))
    assert names(kinds) == ["vae, seed 0", "factor-vae, seed 1"]
    sizes = some_runs(Run(latent=uw.Gaussian(3), steps=10), Run(latent=uw.Gaussian(4), steps=20))
    assert names(sizes) == ["beta-vae, size 3", "beta-vae, size 4"]
    same = some_runs(Run(), Run())
    assert names(same) == ["beta-vae, 0000", "beta-vae, 1000"]
    assert [run.name for run in named(betas)] == names(betas)


def test_a_manifest_is_json_with_null_for_what_is_not_a_number():
    nasty = '</script>"\u202e'
    (run,) = some_runs(Run())
    run = dataclasses.replace(run, name=nasty, scores={"mig": math.nan}, settings={"a": math.inf})
    text = manifest_json(Manifest(nasty, "1", False, True, [run], [run.id], {}))
    content = json.loads(text, parse_constant=lambda word: pytest.fail(word))
    assert content["title"] == content["runs"][0]["name"] == visible(nasty)
    assert content["runs"][0]["scores"] == {"mig": None}
    assert content["runs"][0]["settings"] == {"a": None}
    assert content["open"] == [run.id]


def test_every_metric_and_term_has_a_name_to_read_and_metrics_a_direction():
    every = METRICS | UNSUPERVISED
    logged = Curves([1], {"distortion": [1.0], "validation/r2": [0.5], "loss": [2.0]})
    scores, none = dict.fromkeys(every, 0.5), Curves([], {})
    run = RunData("a", "a", "finished", 1, 1, {}, scores, logged, none, True)
    found = terms([run])
    assert found.keys() == {*every, *logged.terms}
    for key, metric in every.items():
        assert "_" not in found[key].name
        assert found[key].better == ("higher" if key in METRICS else "")
        assert metric.protocol in found[key].name
    assert (found["distortion"].unit, found["distortion"].better) == ("nats", "lower")
    assert (found["validation/r2"].name, found["validation/r2"].better) == ("held-out R²", "higher")


def test_curves_have_different_names_and_parts_of_the_rate_are_in_nats():
    parts = dict.fromkeys(get_args(AggregateName), 1.0)
    values = {"loss": 3.0, "distortion": 2.0, "rate": 1.0, **parts}
    rows = [{"step": 1, "terms": values, "metrics": parts, "validation": values}]
    log, measured = curves([{"step": 1, **values}]), curves(rows)
    found = terms([RunData("a", "a", "finished", 1, 1, {}, {}, log, measured, True)])
    expected = 3 * len(values) + len(parts)
    assert len({each.name for each in found.values()}) == len(found) == expected
    assert {each.unit for each in found.values()} == {"nats"}
    names = {kind: found[f"{kind}total_correlation"].name for kind in ("", "terms/", "metrics/")}
    assert names == {
        "": "total correlation",
        "terms/": "measured total correlation, by the objective",
        "metrics/": "exact total correlation",
    }
