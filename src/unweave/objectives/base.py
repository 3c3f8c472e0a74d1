"""Training as a game: who moves, in which order, and what each tries to make small.

An objective is a frozen callable value: a sequence of updates. In a turn one player's loss is
computed from a batch and only that player's parameters move. A VAE has one player and one turn; a
FactorVAE has two.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import ClassVar, NamedTuple, TypeVar, cast

import torch
from torch import Tensor, nn

from unweave.core.noise import Noise
from unweave.core.optimisers import Adam
from unweave.core.schedules import Weight
from unweave.latents import Latent
from unweave.likelihoods import Likelihood
from unweave.models import VAE, ForwardPass, Model, full
from unweave.networks import Critic, Network, Shape
from unweave.objectives.compatibility import exactly

MODEL = "model"
CRITIC_ACCURACY = "critic_accuracy"

T = TypeVar("T")


class Batch(NamedTuple):
    """A batch of observations x (B, *shape) out of a data set of `dataset_size`."""

    x: Tensor
    dataset_size: int
    targets: Mapping[str, Tensor] = MappingProxyType({})  # what labels say, see labels.py


class Term(NamedTuple):
    """A weighted part of a loss; the value is (B,), one for each example, or () for the batch.

    It is in nats unless the objective has it among the `not_in_nats`. A weight of 0 makes it a
    diagnostic.
    """

    weight: Weight | Tensor
    value: Tensor


Terms = dict[str, Term]
Carry = Mapping[str, Tensor]  # what earlier updates of the same step leave for later ones


class Nets(nn.Module):
    """The networks of all players; objectives see them with the parameters of one lane."""

    def __init__(self, model: Model, critics: Mapping[str, nn.Module]) -> None:
        super().__init__()
        self.model = model
        self.critics = nn.ModuleDict(critics)

    def critic(self, z: Tensor, name: str = "critic") -> Tensor:
        """The logits of a critic on codes z."""
        return full(cast(Tensor, self.critics[name](z)))

    def forward(self, play: Callable[..., T], *arguments: object) -> T:
        """Run a function of these networks: the door for `torch.func.functional_call`."""
        return play(self, *arguments)

    def player_of(self, parameter: str) -> str:
        """The player who owns a parameter, by its name: whose network it is in.

        Critics of codes stand beside the model; a part of the model may be a player too.
        """
        place, part = parameter.split(".")[:2]
        return part if place == "critics" or part in self.model.players else MODEL


class Update(NamedTuple):
    """One move: `loss(nets, batch, noise, carry)` gives the player's terms and a carry."""

    player: str
    loss: Callable[[Nets, Batch, Noise, Carry], tuple[Terms, Carry]]


class BaseObjective(ABC):
    """What an objective offers to the training loop."""

    kind: str
    autoencodes: ClassVar[bool] = True  # else the objective has networks of its own

    @property
    @abstractmethod
    def updates(self) -> tuple[Update, ...]:
        """The moves of one step, in order; each draws a batch of its own."""

    @property
    def critics(self) -> dict[str, Critic]:
        """The critics of codes beside the model, by player."""
        return {}

    @property
    def optimisers(self) -> dict[str, Adam]:
        """The optimiser of every player but the model, whose optimiser is the run's."""
        return {name: critic.optimiser for name, critic in self.critics.items()}

    def build(
        self, latent: Latent, network: Network | None, likelihood: Likelihood, shape: Shape
    ) -> Nets:
        """The networks of all players: a VAE of the run's network, and critics of its codes."""
        assert network is not None
        critics = {name: critic.network(latent.size) for name, critic in self.critics.items()}
        return Nets(VAE(latent, network, likelihood, shape), critics)

    @property
    def whole(self) -> bool:
        """Whether it needs the whole data set in every batch."""
        return exactly(self)

    @property
    def not_in_nats(self) -> tuple[str, ...]:
        """The terms whose values are not in nats."""
        return (CRITIC_ACCURACY,) if self.critics else ()

    def incompatibility(self, latent: Latent) -> str | None:
        """Why a latent space cannot be trained in this way, if it cannot."""
        return None


class OnePlayer(BaseObjective):
    """An objective in which only the model moves."""

    @property
    def updates(self) -> tuple[Update, ...]:
        """The model moves."""
        return (Update(MODEL, self.play),)

    def play(self, nets: Nets, batch: Batch, noise: Noise, carry: Carry) -> tuple[Terms, Carry]:
        """The model's loss."""
        passed = nets.model(batch.x, noise)
        return self.terms(passed, batch, noise), left(passed)

    @abstractmethod
    def terms(self, passed: ForwardPass, batch: Batch, noise: Noise) -> Terms:
        """The loss of one forward pass."""


def total(terms: Terms) -> Tensor:
    """The loss: the weighted sum of the terms' batch means."""
    return reduce_terms(terms)[0]


def reduce_terms(terms: Terms) -> tuple[Tensor, dict[str, Tensor], dict[str, Tensor]]:
    """The loss, the batch mean of every term, and what each term adds to the loss."""
    means = {name: term.value.mean() for name, term in terms.items()}
    shares = {name: number(term.weight) * means[name] for name, term in terms.items()}
    return torch.stack(list(shares.values())).sum(), means, shares


def number(weight: Weight | Tensor) -> float | Tensor:
    """A weight inside a loss, where schedules have their value at the step."""
    if isinstance(weight, (float, int, Tensor)):
        return weight
    raise TypeError(f"a loss needs a weight's value at a step, got the schedule {weight}")


def left(passed: ForwardPass) -> Carry:
    """What a pass leaves for later updates and for labels: the encoder's output, and the codes."""
    return {"raw": passed.raw, "z": passed.hard_samples}


def elbo(passed: ForwardPass, rate: Weight | Tensor = 1.0) -> Terms:
    """Distortion and rate, whose sum is the negative evidence lower bound.  [Kingma2014] eq. 7.

    A rate of weight 0 is only reported.
    """
    value = passed.rate
    idle = isinstance(rate, float) and rate == 0
    return {
        "distortion": Term(1.0, passed.distortion),
        "rate": Term(rate, value.detach() if idle else value),
    }
