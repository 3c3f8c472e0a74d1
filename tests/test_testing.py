"""`unweave.testing`: shipped parts pass its checks, and each kind of mistake is caught."""

import dataclasses
import itertools
from typing import ClassVar

import numpy as np
import pytest
import torch
from torch import nn

import unweave as uw
from datasets import CRITIC, LATENTS, LIKELIHOODS
from unweave.core.noise import Noise
from unweave.core.schedules import Weight
from unweave.core.spec import members
from unweave.data import Blobs, Data, Paired, Published, Selected, Subset
from unweave.latents import DiagonalGaussian, Gaussian
from unweave.latents.densities import LaplaceDensity
from unweave.likelihoods import BaseLikelihood
from unweave.metrics import METRICS
from unweave.objectives import Term, VAEObjective, elbo_terms
from unweave.testing import (
    check_dataset,
    check_latent,
    check_likelihood,
    check_metric,
    check_network,
    check_objective,
)


@pytest.mark.parametrize(
    ("objective", "neutral"),
    [
        (uw.BetaVAE(beta=3.0), uw.BetaVAE(beta=1.0)),
        (uw.FactorVAE(gamma=5.0, critic=CRITIC), uw.FactorVAE(gamma=0.0, critic=CRITIC)),
        (uw.BetaTCVAE(beta=4.0), uw.BetaTCVAE(beta=1.0)),
        (uw.BetaVAE(beta=uw.Linear(0.0, 2.0, steps=5)), None),
        (uw.DIPVAE(off_diagonal=2.0, diagonal=3.0), None),
        (uw.IWAE(particles=3), None),
        (uw.InfoGAN(noise_size=2), None),
    ],
)
def test_shipped_objectives_pass(objective, neutral):
    check_objective(objective, neutral=neutral)


@pytest.mark.parametrize("block", LATENTS, ids=lambda block: block.kind)
def test_shipped_blocks_pass(block):
    check_latent(block)


@pytest.mark.parametrize("shape", [(7,), (3, 6, 5)])
def test_shipped_networks_pass(shape):
    check_network(uw.MLP((8,)), shape)


def test_modules_pass_with_the_latent_space_they_were_made_for():
    check_network(uw.Modules(nn.Linear(7, 4), nn.Linear(2, 7)), (7,), latent=Gaussian(2))


@pytest.mark.parametrize("likelihood", LIKELIHOODS[:7], ids=str)
def test_shipped_likelihoods_pass(likelihood):
    check_likelihood(likelihood)


LONG = {"beta_vae_score/kim2018", "factor_vae_score/mathieu2019"}  # to check, not to compute


@pytest.mark.parametrize(
    "metric",
    [
        pytest.param(m, id=key, marks=[pytest.mark.slow] if m.slow or key in LONG else [])
        for key, m in METRICS.items()
    ],
)
def test_shipped_metrics_pass(metric):
    def compute(codes, factors):
        return metric(uw.metrics.Table(codes, factors, scales=np.full(np.shape(codes), 0.1)))

    check_metric(compute)


SMALL = uw.Shapes2D(side=16, scales=1, orientations=3, positions=3)
NEED_FILES = {"arrays", "folder", "memory", "moving-digit"}  # tested in test_data_*
SETTINGS = {  # of members that are large by default, or need some
    "shapes2d": SMALL,
    "shapes2d-colour": members(Data)["shapes2d-colour"](sprites=SMALL),
    "shapes2d-noisy": members(Data)["shapes2d-noisy"](sprites=SMALL),
    "shapes2d-textured": members(Data)["shapes2d-textured"](sprites=SMALL),
    "shapes3d": uw.Shapes3D(side=16, scales=1, orientations=2),
    "selected": Selected(SMALL, (Subset(20),)),
    "paired": Paired(SMALL, changed=1),
}


@pytest.mark.parametrize(
    "kind", sorted(members(Data).keys() - members(Published).keys() - NEED_FILES)
)
def test_shipped_datasets_pass(kind):
    """A new member is tested on the day it is added; published ones are in test_data_sets."""
    check_dataset(SETTINGS[kind] if kind in SETTINGS else members(Data)[kind]())


@uw.spec
class Detached(VAEObjective):
    """Its rate gives no gradient although it is in the loss."""

    def loss(self, forward, batch, noise):
        terms = elbo_terms(forward)
        return terms | {"rate": Term(1.0, terms["rate"].value.detach())}


@uw.spec
class Doubled(VAEObjective):
    """At weight 1, which should be neutral, it counts the rate twice."""

    weight: Weight = 1.0

    def loss(self, forward, batch, noise):
        return elbo_terms(forward, rate=2 * self.weight)


@uw.spec
class Misreported(VAEObjective):
    """It reports a sum over the batch, no rate, or a tenth of it."""

    mistake: str

    def loss(self, forward, batch, noise):
        terms = elbo_terms(forward)
        if self.mistake == "no rate":
            return {"loss": Term(1.0, forward.distortion + forward.rate)}
        if self.mistake == "a tenth":
            return terms | {"rate": Term(10.0, forward.rate / 10)}
        return terms | {"more": Term(0.1, forward.z.square().sum())}


@uw.spec
class Silent(VAEObjective):
    """It refuses every latent space, without a reason."""

    def loss(self, forward, batch, noise):
        return elbo_terms(forward)

    def incompatibility(self, latent):
        return ""


@uw.spec
class Penalised(VAEObjective):
    """It adds a penalty that has no gradient, and is tiny where the means are near 0, or large."""

    shape: str

    def loss(self, forward, batch, noise):
        mean = forward.q.mean
        penalty = {
            "tiny": lambda: 1e-3 * mean.square().sum(-1).square(),
            "covariance": lambda: torch.cov(mean.T).square().sum(),
            "half": lambda: mean.square().sum(-1) * mean.detach().square().sum(-1),
        }[self.shape]()
        if self.shape != "half":
            penalty = penalty.detach()
        return elbo_terms(forward) | {"penalty": Term(1.0, penalty)}


@uw.spec
class Unrepeatable(VAEObjective):
    """It draws with torch's own random numbers."""

    def loss(self, forward, batch, noise):
        noisy = forward.q.mean + 1e-6 * torch.randn(forward.q.mean.shape)
        return elbo_terms(forward) | {"noisy": Term(0.0, noisy.square().sum(-1))}


@pytest.mark.parametrize(
    ("objective", "law"),
    [
        (Penalised("tiny"), "term penalty of player model: its gradient"),
        (Penalised("covariance"), "term penalty of player model: its gradient"),
        (Penalised("half"), "term penalty of player model: its gradient"),
        (Unrepeatable(), "terms of the loss: the same noise gives other values"),
        (Detached(), "finite differences"),
        (Silent(), "must be None or a reason"),
        (Misreported("sum"), "term more: expected a mean over the batch, got a sum"),
        (Misreported("no rate"), "the terms of the model must include distortion"),
        (Misreported("a tenth"), "term rate: expected its mean over the batch"),
    ],
    ids=lambda part: getattr(part, "mistake", getattr(part, "shape", type(part).__name__)),
)
def test_mistakes_of_an_objective_are_caught(objective, law):
    with pytest.raises(AssertionError, match=law):
        check_objective(objective)


def test_a_wrong_neutral_point_is_caught():
    with pytest.raises(AssertionError, match="must be the negative ELBO"):
        check_objective(Doubled(), neutral=Doubled())


class WrongRate(Gaussian):
    """Half of the rate."""

    def rate(self, q, p, z):
        return super().rate(q, p, z) / 2


class WrongNames(Gaussian):
    """All variables have one name."""

    @property
    def names(self):
        return ("z",) * self.size


class WrongPrior(uw.Laplace):
    """Samples of one scale, the density of another, or moments of none."""

    def density(self, zero):
        return WRONG[self.scale](zero, self.scale)


class WrongSamples(LaplaceDensity):
    def rsample(self, noise, shape=()):
        return 2 * super().rsample(noise, shape)


class WrongMass(LaplaceDensity):
    def log_marginals(self, z):
        return super().log_marginals(z) + 0.3


class WrongCdf(LaplaceDensity):
    def cdf(self, z):
        return super().cdf(z / 2)


class WrongMoment(LaplaceDensity):
    @property
    def stddev(self):
        return 3 * super().stddev


WRONG = {1.0: WrongSamples, 2.0: WrongMass, 3.0: WrongCdf, 4.0: WrongMoment}


@pytest.mark.parametrize("scale", WRONG)
def test_a_prior_that_contradicts_itself_is_caught(scale):
    with pytest.raises(AssertionError, match=r"p\(z\) of 0|rate: differs"):
        check_latent(WrongPrior(2, scale=scale))


class WrongPosterior(DiagonalGaussian):
    """Its variables have twice their log-densities."""

    def log_prob(self, z):
        return super().log_marginals(z).sum(-1)

    def log_marginals(self, z):
        return 2 * super().log_marginals(z)


class WrongMarginals(Gaussian):
    def posterior(self, raw):
        q = super().posterior(raw)
        return WrongPosterior(q.loc, q.log_scale)


class WrongRates(Gaussian):
    """The rate is right, but that of each variable is three times too large."""

    def rate(self, q, p, z):
        return super().rates(q, p, z).sum(-1)

    def rates(self, q, p, z):
        return 3 * super().rates(q, p, z)


class NoCodes(Gaussian):
    def codes(self, q):
        return 0 * q.mean


class ReversedCodes(Gaussian):
    def codes(self, q):
        return q.mean.flip(-1)


class TorchNoise(DiagonalGaussian):
    """It draws with torch's own random numbers."""

    def rsample(self, noise, shape=()):
        return self.mean + self.stddev * torch.randn((*shape, *self.mean.shape)).to(self.mean)


class NumpyNoise(DiagonalGaussian):
    """It draws with NumPy's random numbers."""

    def rsample(self, noise, shape=()):
        drawn = np.random.default_rng().standard_normal((*shape, *self.mean.shape))
        return self.mean + self.stddev * torch.from_numpy(drawn)


class SameNoise(DiagonalGaussian):
    """It draws the same numbers each time."""

    def rsample(self, noise, shape=()):
        return super().rsample(Noise(0), shape)


class UnrepeatablePosterior(Gaussian):
    draws: ClassVar = TorchNoise

    def posterior(self, raw):
        q = super().posterior(raw)
        return self.draws(q.loc, q.log_scale)


class NumpyPosterior(UnrepeatablePosterior):
    draws: ClassVar = NumpyNoise


class SamePosterior(UnrepeatablePosterior):
    draws: ClassVar = SameNoise


class UnrepeatableDensity(LaplaceDensity):
    def rsample(self, noise, shape=()):
        uniform = torch.rand((*shape, *self.zero.shape), dtype=self.zero.dtype)
        return self.zero - (2 * uniform - 1).sign() * torch.log1p(-(2 * uniform - 1).abs())


class UnrepeatablePrior(uw.Laplace):
    def density(self, zero):
        return UnrepeatableDensity(zero, 1.0)


@pytest.mark.parametrize(
    ("block", "law"),
    [
        (UnrepeatablePosterior(2), r"q\(z\|x\): the same noise gives other values"),
        (NumpyPosterior(2), r"q\(z\|x\): the same noise gives other values"),
        (SamePosterior(2), r"q\(z\|x\): other noise gives the same values"),
        (UnrepeatablePrior(2), r"p\(z\): the same noise gives other values"),
        (WrongRate(2), "rate: differs"),
        (WrongNames(2), "one distinct name"),
        (
            WrongMarginals(2),
            "sum of `log_marginals` differs from `log_prob`|rates of the variables",
        ),
        (
            WrongMarginals(1),
            "sum of `log_marginals` differs from `log_prob`|rates of the variables",
        ),
        (WrongRates(2), "rates of the variables: differs"),
        (NoCodes(2), "code of 0: the same for all outputs"),
        (ReversedCodes(2), "code of 1: output 0 of the encoder changes it"),
    ],
    ids=lambda part: f"{type(part).__name__}-{part.size}" if isinstance(part, Gaussian) else "",
)
def test_mistakes_of_a_block_are_caught(block, law):
    with pytest.raises(AssertionError, match=law):
        check_latent(block)


def test_checks_leave_the_random_numbers_of_the_caller_alone():
    before = torch.get_rng_state()
    check_network(uw.MLP((4,)), (5,))
    check_objective(uw.VAE())
    assert torch.equal(torch.get_rng_state(), before)


def test_a_dataset_that_changes_is_caught(monkeypatch):
    dataset = Blobs().load(torch.device("cpu"))
    calls = itertools.count()
    images = type(dataset).images
    monkeypatch.setattr(
        type(dataset), "images", lambda self, index: images(self, index) * (0.5 ** next(calls))
    )
    with pytest.raises(AssertionError, match="the same index gives different values"):
        check_dataset(Blobs())


@dataclasses.dataclass(frozen=True)
class Hat:
    """A triangular density around `mean`, or something that is not quite one."""

    mean: torch.Tensor
    mistake: str = ""

    def log_prob(self, x):
        away = (x - self.mean).abs().clamp(max=1 - 1e-9)
        log = torch.log1p(-away) + (1.0 if self.mistake == "constant" else 0.0)
        if self.mistake == "average":
            return log.flatten(1).mean(1)
        return log if self.mistake == "shape" else log.flatten(1).sum(1)

    def sample(self, noise):
        names = ("one", "one") if self.mistake == "noise" else ("one", "two")
        shape = self.mean.shape
        if self.mistake == "shared":
            shape = (len(self.mean), *[1] * (self.mean.dim() - 1))
        one, two = (noise.uniform(shape, name, self.mean.dtype) for name in names)
        shift = 0.2 if self.mistake == "mean" else 0.0
        return self.mean + one + two - 1 + shift


@uw.spec
class Triangular(BaseLikelihood):
    """Independent triangular densities."""

    mistake: str = ""

    def __call__(self, raw):
        return Hat(raw, self.mistake)


@pytest.mark.parametrize(
    ("mistake", "law"),
    [
        ("constant", "the integral of its density is 2.7"),
        ("shape", r"log_prob\(x\): expected shape \(5,\), got \(5, 2, 3, 3\)"),
        ("noise", "samples and density differ"),
        ("mean", "mean of samples: differs"),
        ("average", r"of 8 values: samples are not from the density.* got 0.8"),
        ("shared", "of 8 values: samples are not from the density.* got 1.3"),
    ],
)
def test_mistakes_of_a_likelihood_are_caught(mistake, law):
    with pytest.raises(AssertionError, match=law):
        check_likelihood(Triangular(mistake))


def test_an_observation_without_samples_is_refused(monkeypatch):
    monkeypatch.delattr(Hat, "sample")
    with pytest.raises(AssertionError, match="must have a method sample"):
        check_likelihood(Triangular())
