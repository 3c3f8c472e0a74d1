"""Checks of an objective."""

import dataclasses
import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from unweave.core.noise import Noise, seeded
from unweave.core.schedules import Schedule, at
from unweave.latents import Bernoulli, Categorical, Gaussian, Latent, Product, StudentT, Uniform
from unweave.networks import MLP, Network
from unweave.objectives import MODEL, VAE, Batch, Nets, Objective, Terms, reduce_terms, total
from unweave.objectives.base import check_players, checked
from unweave.testing.laws import (
    CPU,
    STEPS,
    check_noise,
    check_spec,
    check_training,
    require,
    require_slope,
    slope_along,
    small_data,
)
from unweave.training.run import Run

_SPACES: tuple[Latent, ...] = (
    Gaussian(3),
    Gaussian(1),
    StudentT(3, df=1.0),
    Uniform(2),
    Categorical(3),
    Product(style=Gaussian(2), what=Categorical(3), flags=Bernoulli(2)),
)
_SEEDS = 16  # of the noise
_COPIES = 4  # of a batch
_SCHEDULED = 3_000  # first steps of a schedule that are tried


@seeded()
def check_objective(
    objective: Objective, *, latent: Latent | None = None, neutral: Objective | None = None
) -> None:
    """Check an objective.

    The spec survives a round trip through JSON; the objective trains every latent space or explains
    why it cannot; terms are functions of the noise that they are given; the gradient of each
    agrees with finite differences; each is finite, and a mean over the batch, not a sum; every
    player learns from its own updates; schedules return numbers of at least 0, the same for the
    same step and after `last_change`; an autoencoder reports distortion and rate without weights;
    runs in lanes equal runs alone; and an interrupted run ends with the same bits.

    Args:
        objective: weights should differ from their neutral values, so that every term counts.
        latent: the latent space of the gradient check; by default a Gaussian of three variables.
        neutral: the objective at weights where it must equal the negative ELBO, like BetaVAE(1.0).
    """
    run = Run(objective=objective)
    check_spec(objective, run)
    for name, weight in run.weights.items():
        _check_schedule(name, weight)
    for space in _SPACES:
        reason = objective.incompatibility(space)
        require(
            reason is None or (isinstance(reason, str) and reason),
            (f"incompatibility({space}) must be None or a reason, got {reason!r}"),
        )
        if reason is None:
            _check_losses(objective, space)
    space = latent or Gaussian(3)
    if reason := objective.incompatibility(space):
        raise AssertionError(f"the objective refuses {space} ({reason}): give another latent=")
    _check_noise(objective, space)
    _check_gradients(objective, space)
    _check_means(objective, space)
    if objective.autoencodes:
        _check_distortion_and_rate(objective, space)
    if neutral is not None:
        _check_neutral(neutral, space)
    check_training(
        Run(data=small_data(), objective=objective, latent=space, network=_network(objective))
    )


def _check_schedule(name: str, weight: float | Schedule) -> None:
    """A schedule is a function of the step, and constant after its last change."""
    if not isinstance(weight, Schedule):
        return
    end = weight.last_change
    steps = [*range(_SCHEDULED), *(10**power for power in range(4, 7))]
    values = {step: at(weight, step) for step in (*steps, *([] if end is None else [end]))}
    again = {step: at(weight, step) for step in reversed(values)}
    for step, value in values.items():
        require(
            value == again[step],
            f"{name}: {type(weight).__name__} at step {step:,} is {value:.6g}, and if it is called "
            f"again {again[step]:.6g}: it must be a function of the step",
        )
        if end is not None and step > end:
            require(
                value == values[end],
                f"{name}: {type(weight).__name__} changes after its last_change, {end:,}: it is "
                f"{values[end]:.6g} there, and {value:.6g} at step {step:,}",
            )


def _network(objective: Objective) -> Network | None:
    return MLP((16,)) if objective.autoencodes else None


def _fixed(objective: Objective) -> Objective:
    """The objective with its weights as numbers, as a step sees them."""
    weights = Run(objective=objective).weights
    value: Any = objective
    fixed: Objective = dataclasses.replace(value, **{n: at(w, 1) for n, w in weights.items()})
    return fixed


def _built(objective: Objective, latent: Latent) -> tuple[Nets, Batch, Run]:
    dataset = small_data().load(CPU)
    size = dataset.size if objective.needs_full_batch else 16
    run = Run(data=small_data(), latent=latent, objective=objective, network=_network(objective),
              batch_size=size).resolve(dataset)  # fmt: skip
    assert run.likelihood is not None
    nets = objective.build(latent, run.network, run.likelihood, dataset.shape).double()
    index = torch.randperm(dataset.size)[:size]
    return nets, Batch(dataset.images(index).double(), dataset.size), run


def _terms(
    objective: Objective, nets: Nets, batch: Batch, seed: int = 3
) -> list[tuple[str, Terms]]:
    """The player and the terms of every update, in order, on one batch."""
    found: list[tuple[str, Terms]] = []
    carry: Any = {}
    for number, update in enumerate(objective.updates):
        terms, carry = checked(update).loss(nets, batch, Noise(seed, 1).fold(str(number)), carry)
        for name, term in terms.items():
            require(term.value.isfinite().all(), f"term {name} is not finite")
        found.append((update.player, terms))
    return found


def _losses(objective: Objective, nets: Nets, batch: Batch) -> list[tuple[str, Tensor]]:
    """The player and the loss of every update."""
    return [(player, total(terms)) for player, terms in _terms(objective, nets, batch)]


def _means(objective: Objective, nets: Nets, batch: Batch) -> dict[str, Tensor]:
    """The batch mean of every term, for many seeds of the noise, (seeds,)."""
    found: dict[str, list[Tensor]] = {}
    with torch.no_grad():
        for seed in range(_SEEDS):
            for player, terms in _terms(objective, nets, batch, seed):
                for name, term in terms.items():
                    found.setdefault(f"{player} {name}", []).append(term.value.mean())
    return {name: torch.stack(values) for name, values in found.items()}


def _check_means(objective: Objective, latent: Latent) -> None:
    """A term of a batch that holds each observation several times is about the same."""
    nets, batch, _ = _built(objective, latent)
    bound = _fixed(objective)
    copies = Batch(torch.cat([batch.x] * _COPIES), _COPIES * batch.dataset_size)
    every = _means(bound, nets, batch), _means(bound, nets, copies)
    for name, once in every[0].items():
        value, other, error = _compare(once, every[1][name])
        summed = abs(other - _COPIES * value) < abs(other - value)
        require(
            not (summed and abs(other - value) > error),
            f"term {name.split()[-1]}: expected a mean over the batch, got a sum: with each "
            f"observation {_COPIES} times it grows from {value:.4g} to {other:.4g}",
        )


def _check_noise(objective: Objective, latent: Latent) -> None:
    """Terms are functions of the noise."""
    nets, batch, _ = _built(objective, latent)
    bound = _fixed(objective)

    def values(noise: Noise) -> Tensor:
        updates = _terms(bound, nets, batch, int(noise.seed))
        return torch.cat([term.value.flatten() for _, terms in updates for term in terms.values()])

    check_noise("terms of the loss", values, varies=False)


def _check_distortion_and_rate(objective: Objective, latent: Latent) -> None:
    """An autoencoder reports -log p(x|z) and the rate, whatever its loss."""
    nets, batch, _ = _built(objective, latent)
    reported = _means(_fixed(objective), nets, batch)
    expected = _means(VAE(), nets, batch)
    for name in ("distortion", "rate"):
        key = f"{MODEL} {name}"
        require(
            key in reported, f"the terms of the model must include {name}, even if with weight 0"
        )
        if name == "distortion" and not latent.continuous:
            continue  # a decoder may see hard or relaxed samples
        value, other, error = _compare(reported[key], expected[key])
        require(
            abs(value - other) < error,
            f"term {name}: expected its mean over the batch, {other:.6g}, without a weight, "
            f"got {value:.6g}",
        )


def _compare(one: Tensor, other: Tensor) -> tuple[float, float, float]:
    """Return two means over seeds, and six standard errors of their difference."""
    variance = (one.var() + other.var()).item() / _SEEDS
    value, expected = one.mean().item(), other.mean().item()
    return value, expected, 6 * math.sqrt(variance) + 1e-6 * (1 + abs(expected))


def _check_losses(objective: Objective, latent: Latent) -> None:
    nets, batch, _ = _built(objective, latent)
    check_players(objective.updates, nets)
    for player, loss in _losses(_fixed(objective), nets, batch):
        own = [p for n, p in nets.named_parameters() if nets.player_of(n) == player]
        gradients = torch.autograd.grad(loss, own, retain_graph=True, allow_unused=True)
        for gradient in gradients:
            require(
                gradient is not None and gradient.isfinite().all(),
                (f"on {latent}: a parameter of player {player} has no finite gradient"),
            )
        require(
            any(gradient.any() for gradient in gradients),
            f"on {latent}: the loss of player {player} has the gradient 0, so it never learns",
        )


def _check_gradients(objective: Objective, latent: Latent) -> None:
    """Slopes of each term along a random direction, by differentiation and by differences."""
    nets, batch, _ = _built(objective, latent)
    bound = _fixed(objective)
    _leave_the_start(nets)
    for number in range(len(objective.updates)):
        player, shares = _shares(bound, nets, batch, number)
        own = [p for n, p in nets.named_parameters() if nets.player_of(n) == player]
        direction = [torch.randn_like(p) for p in own]
        slopes = {name: slope_along(share, own, direction) for name, share in shares.items()}
        differences = [
            _differences(bound, nets, batch, number, own, direction, step) for step in STEPS
        ]
        for name, slope in slopes.items():
            expected = [each[name] for each in differences]
            require_slope(f"term {name} of player {player}", slope, expected, shares[name])


def _differences(
    objective: Objective,
    nets: Nets,
    batch: Batch,
    number: int,
    parameters: Sequence[Tensor],
    direction: Sequence[Tensor],
    step: float,
) -> dict[str, float]:
    """The slope of each term of an update, by central differences."""
    ends = []
    for sign in (1, -1):
        _move(parameters, direction, sign * step)
        ends.append(_shares(objective, nets, batch, number)[1])
        _move(parameters, direction, -sign * step)
    return {name: (ends[0][name] - ends[1][name]).item() / (2 * step) for name in ends[0]}


def _shares(
    objective: Objective, nets: Nets, batch: Batch, number: int
) -> tuple[str, dict[str, Tensor]]:
    """The player of an update, and what each of its terms adds to the loss."""
    player, terms = _terms(objective, nets, batch)[number]
    return player, reduce_terms(terms)[2]


@torch.no_grad()
def _move(parameters: Sequence[Tensor], direction: Sequence[Tensor], step: float) -> None:
    for parameter, along in zip(parameters, direction, strict=True):
        parameter.add_(step * along)


@torch.no_grad()
def _leave_the_start(nets: Nets) -> None:
    """Change the initial parameters, at which a penalty may be flat, or almost 0."""
    for p in nets.parameters():
        p.mul_(2).add_(0.1 * torch.randn_like(p))


def _check_neutral(neutral: Objective, latent: Latent) -> None:
    nets, batch, _ = _built(neutral, latent)
    _leave_the_start(nets)
    (_, loss), *_ = _losses(_fixed(neutral), nets, batch)
    (_, elbo), *_ = _losses(VAE(), nets, batch)
    require(
        torch.allclose(loss, elbo, rtol=1e-9),
        f"at its neutral weights the loss must be the negative ELBO, {elbo.item():.6g}, got "
        f"{loss.item():.6g}",
    )
