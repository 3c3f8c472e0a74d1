"""Users' own parts: properties decide, never the name of a field or a shipped class."""

import dataclasses
import math

import numpy as np
import pytest
import torch

import unweave as uw
from datasets import DIVERGENCES, OBJECTIVES, SMALL, small_run
from unweave.core.schedules import Schedule
from unweave.latents import SampledRateBlock
from unweave.latents.densities import CentredColumns
from unweave.objectives import AlphaBetaVAE
from unweave.objectives.divergences import AnyDivergence, Moments
from unweave.testing import check_latent
from unweave.training import train
from unweave.training.configuration import summary_of
from unweave.training.run import Run

X = np.random.default_rng(0).integers(0, 2, (40, 8, 8)) == 1


@uw.spec
class Late(Schedule):
    """Zero, and one after `steps`."""

    steps: int = 100

    def __call__(self, step):
        return float(step >= self.steps)

    def __str__(self):
        return f"to 1 after {self.steps} steps"

    @property
    def last_change(self):
        return self.steps


def test_an_own_schedule_that_outlasts_the_run_is_noted():
    objective = uw.BetaVAE(beta=Late())
    assert Run(objective=objective, steps=100).notes == ()
    (note,) = Run(objective=objective, steps=99).notes
    assert note == "note: beta goes to 1 after 100 steps, but the run has only 99"


@uw.spec
class Named(uw.BetaVAE):
    """It has a field that a shipped objective has, of another type."""

    divergence: str = "none"
    particles: str = "many"


@uw.spec
class Given(uw.Gaussian):
    """It has a field that a categorical block has, with another meaning."""

    given: float = 0.5


def test_a_field_that_is_named_like_one_of_another_part_means_nothing():
    latent = uw.Product(a=uw.Categorical(3), b=Given(2))
    run, dataset = small_run(objective=Named(), latent=latent), SMALL.load(torch.device("cpu"))
    assert summary_of(run)["objective"] == "test_own_contracts:Named, beta 4"
    assert latent.factorised
    (outcome,) = train([dataclasses.replace(run, steps=2).resolve(dataset)], dataset)
    assert outcome.failure is None


def test_the_divergence_of_an_own_objective_is_named_whatever_the_field():
    assert summary_of(small_run(objective=Matched()))["objective"].startswith(
        "test_own_contracts:Matched with moments"
    )


@uw.spec
class Matched(uw.BetaVAE):
    """It has a divergence in a field of its own name."""

    match: AnyDivergence = Moments()


@dataclasses.dataclass(frozen=True)
class LomaxDensity(CentredColumns):
    """p(z) = (1 + |z|)^-2 / 2, which has no variance."""

    @property
    def stddev(self):
        return self.zero + math.inf

    def rsample(self, noise, shape=()):
        u = 2 * noise.uniform((*shape, *self.zero.shape), "lomax", self.zero.dtype) - 1
        return u / (1 - u.abs()).clamp(min=1e-6)

    def log_marginals(self, z):
        return -2 * torch.log1p(z.abs()) - math.log(2)


@uw.spec
class Lomax(SampledRateBlock):
    """A prior with heavier tails than any shipped one but the Cauchy."""

    size: int = 2

    def density(self, zero):
        return LomaxDensity(zero)


def test_a_heavy_tailed_block_is_refused_wherever_a_cauchy_prior_is():
    objectives = [*OBJECTIVES, *(AlphaBetaVAE(divergence=each) for each in DIVERGENCES)]
    refused = 0
    for objective in objectives:
        for wrap in (lambda block: block, lambda block: uw.Product(a=uw.Gaussian(1), b=block)):
            ours, theirs = map(objective.incompatibility, (wrap(Lomax(3)), wrap(uw.StudentT(3, 1))))
            assert (ours is None) == (theirs is None), f"{objective}: {ours}, {theirs}"
            refused += ours is not None
    assert refused >= 6


@pytest.mark.usefixtures("quick_scores")
def test_models_with_a_heavy_tailed_block_are_traversed_and_reported(tmp_path):
    check_latent(Lomax(2))
    model = uw.fit(X, latent=Lomax(2), network=uw.MLP((8,)), steps=20, progress=False, device="cpu")
    low, high = Lomax(2).traversal_range(LomaxDensity(torch.zeros(2, dtype=torch.float64)))
    share = 0.9545  # of the samples, so 1 / (1 + high) = 1 - share
    torch.testing.assert_close(high, torch.full_like(high, share / (1 - share)), rtol=0.25, atol=0)
    torch.testing.assert_close(-low, high, rtol=0.4, atol=0)
    assert all(np.isfinite(each).all() for each in model.traverse(X[:1]))
    assert "latent" in uw.write_report(model, tmp_path / "report.html").read_text()
