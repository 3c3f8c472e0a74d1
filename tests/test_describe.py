"""What tables and models say without labels: all of it there, and what the functions give."""

import json
import math

import numpy as np
import pytest

import unweave as uw
from datasets import LATENTS, SMALL
from lattice_tables import blurred
from unweave.metrics import UNSUPERVISED, Score, Table

FIELDS = dict(network=uw.MLP((16,)), batch_size=16, steps=4, progress=False)
QUICK = dict(rows=60, samples=50, observations=3, particles=5)
MATCH = {
    "exclusive_kl/exact", "inclusive_kl/exact", "mmd/imq", "mmd/imq-dimensionwise",
    "mmd/imq-unsquared", "mmd/rbf", "moments/samples", "sliced_wasserstein/kolouri2018",
}  # fmt: skip
OVERLAP = {
    "mutual_information/exact", "total_correlation/exact", "overlapping_neighbours/bhattacharyya",
}  # fmt: skip
LIKELIHOOD = "log_likelihood/burda2016"


@pytest.fixture(scope="module")
def models():
    return uw.fit(SMALL, seed=range(2), latent=uw.Gaussian(3), **FIELDS)


def test_a_table_is_described_by_every_metric_that_applies():
    base = blurred()
    table = Table(base.codes, np.zeros((len(base), 0), int), scales=base.scales, kl=[1.0, 2.0, 0.0])
    found = uw.metrics.describe(table)
    assert set(found) == set(UNSUPERVISED)
    for key, score in found.items():
        assert key == f"{score.name}/{score.protocol}"
        assert math.isfinite(score.value)
    assert found["active_units/kl"].value == 2
    assert found["hoyer/mathieu2019"].value == uw.metrics.hoyer(base.codes).value


@pytest.mark.parametrize(
    ("table", "missing"),
    [
        (Table(np.zeros((4, 2)), np.zeros((4, 0), int)), {"hoyer", "relative_scale"}),
        (Table(np.ones((4, 1)), np.zeros((4, 0), int), kl=[1.0]), {"mean_pairwise_information"}),
        (
            Table(np.eye(4), np.zeros((4, 0), int), discrete=np.array([True] * 4)),
            {"hoyer", "relative_scale"},
        ),
    ],
    ids=["dead", "one code", "categories"],
)
def test_a_degenerate_table_is_described_by_what_is_left(table, missing):
    found = uw.metrics.describe(table)
    assert not missing & {key.split("/")[0] for key in found}
    assert all(not math.isnan(score.value) for score in found.values())


def test_a_model_is_described_and_several_as_each(models):
    several = uw.describe(models, **QUICK)
    assert set(several[0]) == set(UNSUPERVISED) | OVERLAP | MATCH | {LIKELIHOOD}
    alone = uw.describe(models[1], **QUICK)
    for key, score in alone.items():
        assert several[1][key].value == pytest.approx(score.value, rel=1e-4, abs=1e-5), key
        assert Score.from_json(json.loads(json.dumps(score.to_json()))).value == score.value
    assert several[0][LIKELIHOOD].value != several[1][LIKELIHOOD].value


def test_a_models_description_is_what_its_parts_say(models):
    model = models[0]
    found = uw.describe(model, **QUICK)
    summary = model.summary(samples=50, rows=60)
    information = found["mutual_information/exact"]
    assert information.value == summary.mutual_information
    assert list(information.parts.values()) == summary.information
    assert found["total_correlation/exact"].value == summary.total_correlation
    assert information.details["lower"] - 0.1 < information.value
    assert information.details["upper"] <= math.log(60)
    rest = summary.total_correlation + summary.dimension_kl
    assert found["exclusive_kl/exact"].value == pytest.approx(rest)
    table = model.table(60)
    expected = uw.metrics.overlapping_neighbours(table.codes, table.scales, samples=50)
    assert found["overlapping_neighbours/bhattacharyya"].value == pytest.approx(expected.value)
    bounds = model.log_likelihood(model.observations(model.rows(3)), 5)
    likelihood = found[LIKELIHOOD]
    assert likelihood.value == pytest.approx(bounds.mean())
    assert likelihood.details["standard error"] == pytest.approx(bounds.std(ddof=1) / math.sqrt(3))
    assert LIKELIHOOD not in uw.describe(model, **(QUICK | {"observations": 0}))
    with pytest.raises(ValueError, match="at least 2 observations"):
        uw.describe(model, **(QUICK | {"observations": 1}))


@pytest.mark.parametrize("latent", LATENTS, ids=lambda latent: type(latent).__name__)
def test_every_latent_space_is_described(latent):
    model = uw.fit(SMALL, latent=latent, **FIELDS)
    found = uw.describe(model, **(QUICK | {"observations": 0}))
    assert {"mutual_information/exact", "total_correlation/exact", "exclusive_kl/exact"} <= set(
        found
    )
    assert not any(math.isnan(score.value) for score in found.values())
    normal = all(latent.normal) and "full" not in str(latent)
    assert ("overlapping_neighbours/bhattacharyya" in found) == normal


def test_components_of_mixtures_are_counted_wherever_they_are():
    mixture = uw.GaussianMixture(centres=((-1.0, 0.0), (1.0, 0.0), (50.0, 50.0)), scales=0.5)
    tree = uw.Product(style=uw.Gaussian(2), place=uw.Product(group=mixture))
    model = uw.fit(SMALL, latent=tree, **FIELDS)
    found = uw.describe(model, **(QUICK | {"observations": 0}))
    score = found["cluster_occupancy/mathieu2019 place.group"]
    means, _ = model.posterior(model.observations(model.rows(60)))
    expected = uw.metrics.cluster_occupancy(means[:, 2:], mixture.centres, 0.5)
    assert score.parts == pytest.approx(expected.parts)
    assert score.parts["component 2"] == 0.0
    plain = uw.fit(SMALL, latent=uw.VampPrior(2, components=3), **FIELDS)
    alone = uw.describe(plain, **(QUICK | {"observations": 0}))
    assert sum(alone["cluster_occupancy/mathieu2019"].parts.values()) == pytest.approx(1.0)


def test_a_model_without_a_density_has_no_likelihood():
    model = uw.fit(
        SMALL,
        latent=uw.Uniform(2),
        objective=uw.InfoGAN(noise_size=2),
        **(FIELDS | {"network": None}),
    )
    found = uw.describe(model, **QUICK)
    assert LIKELIHOOD not in found
    assert "mutual_information/exact" in found
