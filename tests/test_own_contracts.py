"""Users' own parts: properties decide, never the name of a field or a shipped class."""

import dataclasses
import math

import numpy as np
import pytest
import torch

import unweave as uw
from datasets import DIVERGENCES, OBJECTIVES, SMALL, small_run
from unweave.core import spec
from unweave.core.schedules import Schedule
from unweave.data import AbsolutePath, Selected, array_dataset
from unweave.latents import Block, SampledRateBlock
from unweave.latents.densities import CentredColumns
from unweave.objectives import AlphaBetaVAE
from unweave.objectives.divergences import AnyDivergence, Moments
from unweave.testing import check_latent
from unweave.training import train
from unweave.training.grouping import data_identity, settings_of, without_places
from unweave.training.run import Run
from unweave.training.run_text import summary_of

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


class NormalDensity(CentredColumns):
    """Independent columns of N(0, 1)."""

    @property
    def stddev(self):
        return self.zero + 1

    def rsample(self, noise, shape=()):
        return noise.normal((*shape, *self.zero.shape), "normal", self.zero.dtype)

    def log_marginals(self, z):
        return -0.5 * (z.square() + math.log(2 * math.pi))


@uw.spec
class Bare(Block):
    """A block with a known density, from no base class that says so."""

    size: int = 2
    outputs = 4

    def density(self, zero):
        return NormalDensity(zero)

    def posterior(self, raw):
        return uw.Gaussian(self.size).posterior(raw)

    def prior(self, shape):
        return uw.Gaussian(self.size).prior(shape)

    def rates(self, q, p, z):
        return q.log_marginals(z) - p.log_marginals(z)


def test_a_tree_asks_a_block_for_what_it_has_and_not_for_its_class():
    z = torch.randn(5, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    own, shipped = (uw.Product(a=each, b=uw.Laplace(1)) for each in (Bare(2), uw.Gaussian(2)))
    torch.testing.assert_close(own.log_prob(z), shipped.log_prob(z))
    assert own.density(z[0]).log_prob(z).equal(own.log_prob(z))
    with pytest.raises(ValueError, match=r"Bare, the block a, has no entropy\(\)"):
        own.entropy()
    learned = (uw.VampPrior(2), uw.Gaussian(2, learn="covariance"), uw.Categorical(2, learn=True))
    for block in learned:
        with pytest.raises(ValueError, match="the prior of a is learned, so it is not known befo"):
            uw.Product(a=block).density(torch.zeros(2))
    with pytest.raises(ValueError, match="the prior of VampPrior is learned, so it is not known"):
        uw.VampPrior(2).density(torch.zeros(2))


@uw.spec
class Stored:
    """An array in a file."""

    path: AbsolutePath
    scaled: bool = False

    def load(self, device):
        return array_dataset(np.load(self.path)).to(device)


def test_own_data_are_the_same_wherever_their_file_is(tmp_path):
    here, there = Stored(tmp_path / "a.npy"), Stored(tmp_path / "b.npy")
    assert data_identity(here, "print") == data_identity(there, "print")
    assert data_identity(here) != data_identity(there)
    assert data_identity(here, "print") != data_identity(Stored(here.path, scaled=True), "print")
    chosen = [Selected(each, (uw.data.Subset(5),)) for each in (here, there)]
    assert data_identity(chosen[0], "print") == data_identity(chosen[1], "print")
    one, other = (settings_of(Run(data=each), places=False) for each in chosen)
    assert one == other
    content = spec.to_json(here) | {"kind": "not_imported:Stored"}
    assert without_places(content) == content
