"""`unweave.testing`: gradients, players, schedules, and rows that depend on each other."""

import math

import numpy as np
import pytest
import torch
from torch import nn

import unweave as uw
from datasets import CRITIC
from unweave.data import Dataset, Factor, Lattice, Schema
from unweave.latents import DiagonalGaussian, Gaussian
from unweave.likelihoods import BaseLikelihood, GaussianObservation
from unweave.metrics import metric
from unweave.objectives import MODEL, Term, Update, carry_from, elbo_terms
from unweave.objectives.base import BaseObjective
from unweave.testing import (
    check_dataset,
    check_latent,
    check_likelihood,
    check_metric,
    check_network,
    check_objective,
)


@uw.spec
class Played(uw.FactorVAE):
    """A FactorVAE with a mistake in its players."""

    gamma: uw.Weight = 5.0
    critic: uw.Critic = CRITIC
    mistake: str = ""

    @property
    def critics(self):
        return {} if self.mistake == "no network" else super().critics

    @property
    def updates(self):
        model, critic = super().updates
        if self.mistake == "one update":
            return (model,)
        return model, Update("crtic", critic.loss) if self.mistake == "name" else critic

    def critic_loss(self, nets, batch, noise, carry):
        terms, rest = super().critic_loss(nets, batch, noise, carry)
        if self.mistake == "no carry":
            return terms
        if self.mistake == "constant":
            return {name: Term(0.0, term.value) for name, term in terms.items()}, rest
        return terms, rest


PLAYERS = {
    "no network": (ValueError, "no network belongs to the player 'critic': the choices are model"),
    "name": (ValueError, "no network belongs to the player 'crtic': did you mean 'critic'"),
    "one update": (ValueError, "the player 'critic' has none, so it would never learn"),
    "no carry": (ValueError, "Played.critic_loss: expected the terms and a dict .* got a dict"),
    "constant": (AssertionError, "the loss of player critic has the gradient 0"),
}


@pytest.mark.parametrize("mistake", PLAYERS)
def test_mistakes_of_players_are_caught(mistake):
    error, law = PLAYERS[mistake]
    with pytest.raises(error, match=law):
        check_objective(Played(mistake=mistake))


def test_a_critic_that_no_player_has_is_named():
    nets = uw.VAE().build(Gaussian(2), uw.MLP((4,)), uw.likelihoods.Gaussian(), (3,))
    with pytest.raises(ValueError, match="critic: 'judge' is not known"):
        nets.critic(torch.zeros(1, 2), "judge")


@uw.spec
class Judged(BaseObjective):
    """A second player that reads observations: an objective builds its network itself."""

    gamma: uw.Weight = 2.0

    @property
    def updates(self):
        return Update(MODEL, self.model_loss), Update("judge", self.judge_loss)

    @property
    def optimisers(self):
        return {"judge": uw.Adam(lr=1e-3)}

    def build(self, latent, network, likelihood, shape):
        nets = super().build(latent, network, likelihood, shape)
        nets.critics["judge"] = nn.Sequential(nn.Flatten(), nn.Linear(math.prod(shape), 1))
        return nets

    def model_loss(self, nets, batch, noise, carry):
        forward = nets.model(batch.x, noise)
        fake = forward.px.mean
        fooled = nn.functional.softplus(-nets.critic(fake, "judge")[:, 0])
        carried = {**carry_from(forward), "fake": fake}
        return elbo_terms(forward) | {"fooled": Term(self.gamma, fooled)}, carried

    def judge_loss(self, nets, batch, noise, carry):
        fake, real = (nets.critic(x, "judge")[:, 0] for x in (carry["fake"], batch.x))
        softplus = nn.functional.softplus
        return {"judge": Term(1.0, softplus(fake) + softplus(-real))}, {}


def test_a_player_may_read_something_other_than_codes():
    check_objective(Judged(), neutral=Judged(gamma=0.0))


def test_a_neutral_point_with_a_small_penalty_is_caught():
    """A penalty on covariances of means is almost 0 at the initial weights."""
    with pytest.raises(AssertionError, match="must be the negative ELBO"):
        check_objective(uw.VAE(), neutral=uw.DIPVAE(off_diagonal=5.0, diagonal=0.0))


def test_modules_ask_for_the_latent_space_that_they_were_made_for():
    network = uw.Modules(lambda: nn.Linear(6, 4), lambda: nn.Linear(2, 6))
    with pytest.raises(AssertionError, match=r"made for, as in check_network\(..., latent="):
        check_network(network, shape=(6,))


@uw.spec
class Odd(uw.Schedule):
    """A schedule with a mistake."""

    mistake: str

    def __call__(self, step):
        return {
            "negative": 1.0 - step / 1_000,
            "nan": math.nan,
            "text": "1.0",
            "tensor": torch.tensor(1.0),
            "random": np.random.default_rng().random(),
            "changes": float(step // 100),
        }[self.mistake]

    def __str__(self):
        return self.mistake

    @property
    def last_change(self):
        return 50 if self.mistake == "changes" else None


SCHEDULES = {
    "negative": "Odd at step 1,001: expected a number of at least 0, got -0.00",
    "nan": "Odd at step 0: expected a number of at least 0, got nan",
    "text": "Odd at step 0: expected a number of at least 0, got '1.0'",
    "tensor": r"Odd at step 0: expected a number of at least 0, got tensor\(1.\)",
    "random": "beta: Odd at step 0 is .*, and if it is called again .*: it must be a function",
    "changes": "beta: Odd changes after its last_change, 50: it is 0 there, and 1 at step 100",
}


@pytest.mark.parametrize("mistake", SCHEDULES)
def test_mistakes_of_a_schedule_are_caught(mistake):
    with pytest.raises((ValueError, AssertionError), match=SCHEDULES[mistake]):
        check_objective(uw.BetaVAE(beta=Odd(mistake)))


class DetachedScale(Gaussian):
    def posterior(self, raw):
        q = super().posterior(raw)
        return DiagonalGaussian(q.loc, q.log_scale.detach())


class DetachedDraws(DiagonalGaussian):
    def rsample(self, noise, shape=()):
        return super().rsample(noise, shape).detach()


class DetachedSamples(Gaussian):
    def posterior(self, raw):
        q = super().posterior(raw)
        return DetachedDraws(q.loc, q.log_scale)


class DetachedRate(Gaussian):
    def rate(self, q, p, z):
        return super().rate(q, p, z).detach()


class CentredCodes(Gaussian):
    def codes(self, q):
        return q.mean - q.mean.mean(0)


class RandomCodes(Gaussian):
    def codes(self, q):
        return q.mean + torch.randn_like(q.mean)


class OutputsAsMethod(Gaussian):
    def outputs(self):
        return 2 * self.size


@pytest.mark.parametrize(
    ("block", "law"),
    [
        (DetachedScale(2), r"samples of q\(z\|x\): its gradient gives the slope"),
        (DetachedSamples(2), r"samples of q\(z\|x\): its gradient gives the slope 0"),
        (DetachedRate(2), "rate: its gradient gives the slope 0"),
        (CentredCodes(2), "codes: an observation has another code each time, or among other"),
        (RandomCodes(2), "codes: an observation has another code each time, or among other"),
        (OutputsAsMethod(2), "outputs: expected a number, .* make it a property"),
    ],
    ids=lambda part: type(part).__name__ if isinstance(part, Gaussian) else "",
)
def test_mistakes_of_a_block_are_caught(block, law):
    with pytest.raises(AssertionError, match=law):
        check_latent(block)


class DetachedObservation(GaussianObservation):
    def log_prob(self, x):
        return super().log_prob(x).detach()


@uw.spec
class Observed(BaseLikelihood):
    """A likelihood without a gradient, or a distribution of torch."""

    of_torch: bool

    def __call__(self, raw):
        if self.of_torch:
            return torch.distributions.Laplace(raw, 1.0)
        return DetachedObservation(raw, 1.0)


def test_mistakes_of_a_likelihood_are_caught():
    with pytest.raises(AssertionError, match=r"log_prob\(x\): its gradient gives the slope 0"):
        check_likelihood(Observed(False))
    with pytest.raises(AssertionError, match=r"a Laplace, must have a method sample\(noise\)"):
        check_likelihood(Observed(True))


class Waves(Dataset):
    """Sine waves."""

    def __init__(self, mistake, device):
        lattice = Lattice((Factor("frequency", 5), Factor("phase", 8, "cyclic")))
        bounded = mistake == "bounded"
        self.schema = Schema.on_lattice(lattice, (16,), bounded=bounded)
        self.mistake, self.device = mistake, device

    def images(self, index):
        if self.mistake == "sorted":
            index = index.sort().values
        frequency, phase = super().factors(index).unsqueeze(-1).unbind(-2)
        x = torch.sin(2 * torch.pi * ((1 + frequency) * torch.arange(16) / 16 + phase / 8))
        return x - x.mean() if self.mistake == "centred" else x

    def factors(self, index):
        return super().factors((index + (self.mistake == "shifted")) % self.size)


@uw.spec
class WaveSpec:
    mistake: str

    def load(self, device):
        return Waves(self.mistake, device)


WAVES = {
    "sorted": r"images\(index\): expected one row for each index, in the order and shape",
    "centred": r"images\(index\): the row of an index depends on the other indices",
    "shifted": r"factors\(index\): they differ from those of the schema's lattice",
    "bounded": r"the schema says bounded=True, .* values in \[-1, 1\]",
}


@pytest.mark.parametrize("mistake", WAVES)
def test_mistakes_of_a_dataset_are_caught(mistake):
    with pytest.raises(AssertionError, match=WAVES[mistake]):
        check_dataset(WaveSpec(mistake))


@metric
def of_the_first_half(inputs):
    half = len(inputs.codes) // 2
    with np.errstate(invalid="ignore"):
        table = np.corrcoef(inputs.codes[:half].T, inputs.values[:half].T)
    return float(np.abs(np.nan_to_num(table[: inputs.dims, inputs.dims :])).max(0).mean())


def test_a_metric_that_reads_the_first_rows_only_is_caught():
    with pytest.raises(AssertionError, match=r"half of the rows copy the factors, and it is 0\.5"):
        check_metric(of_the_first_half)
