"""The base classes of objectives.

An objective is a frozen value that describes one training step as a sequence of updates. Each
update computes the loss of one player on a batch and moves only that player's parameters. A VAE has
one player, the model; a FactorVAE also has a critic.

To write an objective, subclass `VAEObjective` and write `loss`, or subclass `BaseObjective` and
write `model_loss` if one forward pass is not enough.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, ClassVar, Literal, NamedTuple, TypeVar, cast

import torch
from torch import Tensor, nn

from unweave.aggregate import Estimator
from unweave.core.hints import check_choice, nearest
from unweave.core.noise import Noise
from unweave.core.optimisers import Adam
from unweave.core.row_division import rowwise
from unweave.core.schedules import Weight
from unweave.latents import Latent
from unweave.likelihoods import Likelihood
from unweave.models import ForwardPass, Model, VAEModel, as_float32
from unweave.networks import Critic, Network, Shape

MODEL = "model"
CRITIC = "critic"
CRITIC_ACCURACY = "critic_accuracy"

T = TypeVar("T")
Property = Literal[
    "continuous",
    "gaussian_posterior",
    "factorised_posterior",
    "fixed_prior",
    "finite_variance",
    "factorised",
]
Requirements = Mapping[Property, str]  # properties that every block needs, and why


class Batch(NamedTuple):
    """A batch of observations x (B, *shape) from a dataset of `dataset_size`."""

    x: Tensor
    dataset_size: int
    targets: Mapping[str, Tensor] = MappingProxyType({})  # of the labels, see labels.py


class Term(NamedTuple):
    """A weighted term of a loss, with a value for each example, (B,), or for the batch, ().

    Values are in nats unless the objective lists the term in `not_in_nats`. A term with weight 0 is
    a diagnostic.
    """

    weight: Weight | Tensor
    value: Tensor


Terms = dict[str, Term]
Carry = Mapping[str, Tensor]  # tensors that an update passes to later updates of the same step
Loss = tuple[Terms, Carry]


class Nets(nn.Module):
    """The networks of all players; objectives see them with the parameters of one lane."""

    def __init__(self, model: Model, critics: Mapping[str, nn.Module]) -> None:
        super().__init__()
        self.model = model
        self.critics = nn.ModuleDict(critics)

    @rowwise
    def critic(self, z: Tensor, name: str = CRITIC) -> Tensor:
        """Compute the logits of a critic on codes z."""
        check_choice("critic", name, self.critics)
        return as_float32(cast(Tensor, self.critics[name](z)))

    def forward(self, function: Callable[..., T], *arguments: object) -> T:
        """Call a function of these networks; `torch.func.functional_call` enters here."""
        return function(self, *arguments)

    def player_of(self, parameter: str) -> str:
        """Return the player that owns a parameter, given the parameter's name.

        Critics of codes are separate networks; a part of the model may be a player too.
        """
        network, part = parameter.split(".")[:2]
        return part if network == "critics" or part in self.model.players else MODEL


class Update(NamedTuple):
    """One optimiser step of one player.

    `loss(nets, batch, noise, carry)` returns the terms of the player's loss and the carry for later
    updates of the same step.
    """

    player: str
    loss: Callable[[Nets, Batch, Noise, Carry], Loss]


class BaseObjective(ABC):
    """The interface between objectives and the training loop; only `model_loss` is required."""

    kind: str
    autoencodes: ClassVar[bool] = True  # False if the objective brings its own networks
    estimator: Estimator | None = None  # for objectives that have this field
    """How q(z) is estimated from a batch."""
    requires: ClassVar[Requirements] = MappingProxyType({})  # of every block of the latent space
    several_variables: ClassVar[bool] = False  # whether one latent variable is too few

    @abstractmethod
    def model_loss(self, nets: Nets, batch: Batch, noise: Noise, carry: Carry) -> Loss:
        """Return the terms of the model's loss, and the carry for later updates."""

    @property
    def updates(self) -> tuple[Update, ...]:
        """The updates of one step, in order; each draws its own batch."""
        return (Update(MODEL, self.model_loss),)

    @property
    def critics(self) -> dict[str, Critic]:
        """The critics of codes that train with the model, by player."""
        return {}

    @property
    def optimisers(self) -> dict[str, Adam]:
        """The optimiser of every player except the model, which uses the run's optimiser."""
        return {name: critic.optimiser for name, critic in self.critics.items()}

    def build(
        self, latent: Latent, network: Network | None, likelihood: Likelihood, shape: Shape
    ) -> Nets:
        """Build the networks of all players: a VAE with the run's network, and the critics."""
        assert network is not None
        critics = {name: critic.network(latent.size) for name, critic in self.critics.items()}
        return Nets(VAEModel(latent, network, likelihood, shape), critics)

    @property
    def needs_full_batch(self) -> bool:
        """Whether every batch must be the whole dataset."""
        return self.estimator == "exact"

    @property
    def decodes_per_observation(self) -> int:
        """How many codes are decoded for each observation of a batch, to estimate memory."""
        return 1

    @property
    def not_in_nats(self) -> tuple[str, ...]:
        """The terms whose values are not in nats."""
        return (CRITIC_ACCURACY,) if self.critics else ()

    def incompatibility(self, latent: Latent) -> str | None:
        """Explain why this objective cannot train a latent space, or return None if it can."""
        if self.several_variables and len(latent.variables) < 2:
            return "one variable alone has no total correlation; use two or more"
        return unmet(latent, self.requires)

    def weights_without_effect(self, latent: Latent) -> dict[str, str]:
        """Return the weights whose term is zero for every model of a latent space, and why."""
        return {}


class VAEObjective(BaseObjective):
    """An objective computed from one forward pass of a VAE; write `loss`."""

    @abstractmethod
    def loss(self, forward: ForwardPass, batch: Batch, noise: Noise) -> Terms:
        """Return the terms of the loss of one forward pass."""

    def model_loss(self, nets: Nets, batch: Batch, noise: Noise, carry: Carry) -> Loss:
        forward = nets.model(batch.x, noise)
        return self.loss(forward, batch, noise), carry_from(forward)


def checked(update: Update) -> Update:
    """Return the update with a loss that raises a ValueError if what it returns is no loss."""

    def loss(nets: Nets, batch: Batch, noise: Noise, carry: Carry) -> Loss:
        returned: Any = update.loss(nets, batch, noise, carry)
        if not (isinstance(returned, tuple) and len(returned) == 2 and _is_carry(returned[1])):
            kinds = ", ".join(map(_kind, returned)) if isinstance(returned, tuple) else ""
            got = f"({kinds})" if kinds else f"a {_kind(returned)}"
            raise ValueError(
                f"{_loss_name(update)}: expected the terms and a dict of tensors for later "
                f"updates, as in `return terms, {{}}`, got {got}"
            )
        terms, carry = returned
        _check_terms(_loss_name(update), terms, len(batch.x))
        return terms, carry

    return Update(update.player, loss)


def _is_carry(value: object) -> bool:
    return isinstance(value, Mapping) and all(isinstance(each, Tensor) for each in value.values())


def _kind(value: object) -> str:
    """Name the type of a value, and those of the values of a dict."""
    kind = type(value).__name__
    inside = dict.fromkeys(map(_kind, value.values())) if isinstance(value, Mapping) else ()
    return f"{kind} of {' and '.join(inside)}" if inside else kind


def _check_terms(where: str, terms: Any, rows: int) -> None:
    wrong = (
        terms
        if not isinstance(terms, dict)
        else next((each for each in terms.values() if not isinstance(each, Term)), None)
    )
    if not isinstance(terms, dict) or not terms or wrong is not None:
        inside = f"a dict with a {type(wrong).__name__}" if terms else "an empty dict"
        raise ValueError(
            f"{where}: expected a dict of terms, such as "
            '{"distortion": Term(1.0, forward.distortion), ...}, got '
            f"{inside if isinstance(terms, dict) else f'a {type(terms).__name__}'}"
        )
    for name, term in terms.items():
        if not isinstance(term.value, Tensor):
            raise ValueError(
                f"{where}: expected a tensor as the value of the term {name}, got {term.value!r}"
            )
        if tuple(term.value.shape) not in ((), (rows,)):
            raise ValueError(
                f"{where}, term {name}: expected one value, or one for each of {rows} "
                f"observations, got shape {tuple(term.value.shape)}"
            )


def _loss_name(update: Update) -> str:
    """Name the method that a user wrote, such as "MyVAE.loss"."""
    objective = getattr(update.loss, "__self__", None)
    if objective is None:
        return f"the loss of player {update.player}"
    alone = update.loss.__func__ is VAEObjective.model_loss  # type: ignore[attr-defined]
    method = "loss" if alone else update.loss.__name__
    return f"{type(objective).__name__}.{method}"


def check_players(updates: Sequence[Update], nets: Nets) -> None:
    """Raise unless each update has a player with parameters, and each player an update."""
    owners = {nets.player_of(name) for name, _ in nets.named_parameters()}
    if not owners:
        raise ValueError(
            "expected networks with parameters, got none: there is nothing to train; give the "
            "encoder or the decoder a layer"
        )
    players = [update.player for update in updates]
    for player in players:
        if player not in owners:
            raise ValueError(
                f"updates: no network belongs to the player {player!r}: {nearest(player, owners)} "
                "Players other than the model need an entry in `critics`"
            )
    if idle := sorted(owners - {*players}):
        raise ValueError(
            f"updates: the player {idle[0]!r} has none, so it would never learn: add "
            f"Update({idle[0]!r}, ...)"
        )


def total(terms: Terms) -> Tensor:
    """Compute the loss: the weighted sum of the terms' batch means."""
    return reduce_terms(terms)[0]


def reduce_terms(terms: Terms) -> tuple[Tensor, dict[str, Tensor], dict[str, Tensor]]:
    """Compute the loss, the batch mean of every term, and each term's contribution to the loss."""
    means = {name: term.value.mean() for name, term in terms.items()}
    shares = {name: weight_value(term.weight) * means[name] for name, term in terms.items()}
    return torch.stack(list(shares.values())).sum(), means, shares


def weight_value(weight: Weight | Tensor) -> float | Tensor:
    """Return the value of a weight; inside a loss, schedules have been replaced by numbers."""
    if isinstance(weight, (float, int, Tensor)):
        return weight
    raise TypeError(f"a loss needs a weight's value at a step, got the schedule {weight}")


def carry_from(forward: ForwardPass) -> Carry:
    """Return what later updates and labels need: the encoder's output and the codes."""
    return {"raw": forward.raw, "z": forward.hard_samples}


def elbo_terms(forward: ForwardPass, rate: Weight | Tensor = 1.0) -> Terms:
    """Return distortion and rate, whose sum is the negative ELBO.  [Kingma2014] eq. 7.

    A rate with weight 0 is only reported.
    """
    value = forward.rate
    unused = isinstance(rate, float) and rate == 0
    return {
        "distortion": Term(1.0, forward.distortion),
        "rate": Term(rate, value.detach() if unused else value),
    }


def unmet(latent: Latent, requirements: Requirements) -> str | None:
    """Say which block of a latent space lacks a property of `latents.Block`, or return None.

    >>> from unweave.latents import StudentT
    >>> unmet(StudentT(2, df=1), {"finite_variance": "moments need a finite variance"})
    'moments need a finite variance, and the latent space is StudentT'
    """
    for needed, why in requirements.items():
        for path, block in latent.leaf_blocks.items():
            if not getattr(block, needed):
                return f"{why}, and {path or 'the latent space'} is {type(block).__name__}"
    return None
