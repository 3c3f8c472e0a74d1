"""Figure 1: the linear beta-VAE.  [Sikka2019] sec. IV-B."""

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor
from typing_extensions import TypedDict

from unweave.core.optimisers import Adam
from unweave.data import Mixing
from unweave.evaluation.model import FittedModel
from unweave.latents import Gaussian
from unweave.likelihoods import Gaussian as GaussianLikelihood
from unweave.models import VAEModel as VAE
from unweave.networks import MLP
from unweave.objectives import BetaVAE
from unweave.papers.sikka2019.deep import Truth, inference_errors
from unweave.studies.drawing import (
    BLUE,
    DASHES,
    INK,
    MUTED,
    ORANGE,
    Axes,
    Figure,
    Values,
    letter_panels,
    panels,
)
from unweave.studies.intervals import range_interval
from unweave.studies.study import Results, Study
from unweave.studies.texts import Texts
from unweave.studies.workspace import Claim, Measured, Numbers, Result, Workspace
from unweave.theory import Optimum, Solution, solve
from unweave.theory.identities import double
from unweave.training.records import Number
from unweave.training.run import Run

MIXING = 0.5 * (1 + np.eye(128, 2))  # sec. IV-B: N = 128, k = 2, A_ij = (1 + delta_ij) / 2
BETAS = np.unique(np.concatenate([np.geomspace(0.05, 100, 400), np.linspace(0.7, 1.6, 901)]))
TRAINED = (0.1, 0.3, 0.6, 1.0, 2.0, 5.0, 12.0, 30.0, 60.0, 90.0)
SEEDS = (0, 1, 2)
_SIZE, _STEPS, _RATE = 256, 5000, 2e-3
_ITERATIONS = 500  # of L-BFGS at most
_BELOW, _APART = 0.01, 0.01  # nats, and a share: as close as this counts as the closed form
_TERMS = ("elbo", "mie", "tie_aligned", "reconstruction", "rate")
_TEXTS = Texts(__package__, "fig1")

Dots = Sequence[dict[str, float]]  # terms of trained networks


def fig1(workspace: Workspace, results: Results) -> Result:
    """Figure 1: terms of the optimal linear beta-VAE over beta, in closed form and trained."""
    solutions = [solve(MIXING, beta) for beta in workspace.each("solved", BETAS.tolist())]
    sampled, descended = (
        [facts[name] for facts in results.facts] for name in ("trained", "descended")
    )
    betas = [beta for beta, _ in itertools.product(TRAINED, SEEDS)]
    best = {name: np.array([getattr(each, name) for each in solutions]) for name in _TERMS}
    return _TEXTS.result(
        {"": _draw(solutions, best, betas, sampled, descended)},
        [*_claims(solutions, best), *_training_claims(betas, sampled, descended)], count=len(BETAS),
        betas=len(TRAINED), seed_count=len(SEEDS), size=_SIZE, steps=_STEPS, rate=_RATE,
        seeds=f"{SEEDS[0]} to {SEEDS[-1]}", dead=solutions[0].thresholds.max(),
        largest=best["tie_aligned"].max(),
        ties=sorted(solve(a, 1.1).tie for a in (MIXING, MIXING[:, ::-1])),
    )  # fmt: skip


class _Terms(TypedDict):
    """The form of what `terms_of` returns."""

    elbo: Number
    mie: Number
    tie_aligned: Number
    reconstruction: Number
    rate: Number
    objective: Number
    below: Number
    apart: Number
    norm: Number


class _Facts(TypedDict):
    """The form of the facts of a network."""

    trained: _Terms
    descended: _Terms


def study() -> Study:
    """Return the study: linear networks of all weights and seeds, after training and descent."""
    matrix = tuple(map(tuple, MIXING.tolist()))
    data = Mixing(matrix=matrix, observations=_SIZE, exact_moments=True)
    runs = [
        Run(
            data=data,
            latent=Gaussian(MIXING.shape[1]),
            network=MLP(hidden=()),
            likelihood=GaussianLikelihood(scale=1.0),
            objective=BetaVAE(beta=beta),
            optimiser=Adam(lr=_RATE),
            batch_size=_SIZE,
            steps=_STEPS,
            seed=seed,
        )
        for beta, seed in itertools.product(TRAINED, SEEDS)
    ]
    return Study("sikka2019", "linear", runs, _describe, precision="fp32", lanes=400,
                 form=_Facts)  # fmt: skip


def _describe(model: FittedModel) -> Numbers:
    return {
        "trained": terms_of(*_in_float64(model)),
        "descended": terms_of(*_descend(*_in_float64(model))),
    }


def _in_float64(model: FittedModel) -> tuple[VAE, Tensor, float]:
    """Return the networks in float64, all observations, and beta."""
    x = torch.from_numpy(model.observations(model.rows())).double()
    return double(model), x, float(model.run.weights["beta"])


def _descend(nets: VAE, x: Tensor, beta: float) -> tuple[VAE, Tensor, float]:
    """Train the networks in place by L-BFGS on the exact objective, and return the arguments."""
    descent = torch.optim.LBFGS(
        nets.parameters(), max_iter=_ITERATIONS, history_size=20, tolerance_grad=1e-6,
        tolerance_change=1e-9, line_search_fn="strong_wolfe",
    )  # fmt: skip

    def loss() -> Tensor:
        descent.zero_grad()
        reconstruction, rate = _means(nets, x)
        below = beta * rate - reconstruction
        below.backward()
        return below

    descent.step(loss)
    return nets, x, beta


def _decoder(nets: VAE) -> tuple[Tensor, Tensor]:
    """Return D, (N, k), and the decoder's offset, (1, N)."""
    identity = torch.eye(MIXING.shape[1], dtype=torch.float64)
    offset = nets.decode(torch.zeros_like(identity[:1])).mean
    return (nets.decode(identity).mean - offset).T, offset


def _means(nets: VAE, x: Tensor) -> tuple[Tensor, Tensor]:
    """Return reconstruction and rate as exact means over observations.

    E[log p(x|z)] = log p(x|E[z]) - tr(D S D^T) / 2, since the decoder is linear.
    """
    q, (loadings, _) = nets.encode(x), _decoder(nets)
    variance = q.stddev.square() @ loadings.square().sum(0)
    reconstruction = nets.decode(q.mean).log_prob(x) - 0.5 * variance
    return reconstruction.mean(), nets.latent.rate(q, nets.p(), q.mean).mean()


@torch.no_grad()
def terms_of(nets: VAE, x: Tensor, beta: float) -> dict[str, float]:
    """Return the exact mean terms of a linear network, and its distance from the optimum."""
    q, (loadings, offset) = nets.encode(x), _decoder(nets)
    mean, variance = q.mean.numpy(), q.stddev.square().numpy()
    reconstruction, rate = (each.item() for each in _means(nets, x))
    reached, best = Optimum(beta, reconstruction, rate), solve(MIXING, beta)
    # p(z|x) of the model itself has its own order of latents, so there is nothing to match.
    model = Truth(loadings.numpy(), (x - offset).numpy())
    return {
        "elbo": reached.elbo,
        "mie": inference_errors(mean, variance, model).printed,
        "tie_aligned": inference_errors(mean, variance, Truth(MIXING, x.numpy())).aligned,
        "reconstruction": reconstruction,
        "rate": rate,
        "objective": reached.objective,
        "below": best.objective - reached.objective,
        "apart": _apart(loadings.numpy(), best.decoder),
        "norm": loadings.norm(dim=0).max().item(),
    }


def _apart(loadings: Values, best: Values) -> float:
    """Return |D D^T - D* D*^T| / |D* D*^T|, with A for D* in the denominator where D* is 0."""
    scale = best if best.any() else MIXING
    off = loadings @ loadings.T - best @ best.T
    return float(np.linalg.norm(off) / np.linalg.norm(scale @ scale.T))


def _claims(solutions: Sequence[Solution], best: dict[str, Values]) -> list[Claim]:
    likelihood = np.array([each.log_likelihood for each in solutions])
    dead = solutions[0].thresholds.max()  # where the last latent dies
    alive = dead > BETAS
    mie, ties = best["mie"][alive], best["tie_aligned"]
    elbo_at, mie_at, tie_at = (
        _extremum(best["elbo"], True),
        _extremum(np.where(alive, best["mie"], np.inf), False),
        _extremum(ties, False),
    )
    orders = sorted(_printed(a) for a in (MIXING, MIXING[:, ::-1]))
    return [
        _TEXTS.claim("elbo", elbo_at.value == 1, at=elbo_at),
        _TEXTS.claim("mie", BETAS[0] < mie_at.value < BETAS[alive].max(), dead=dead, at=mie_at,
                     least=mie.min(), first=mie[0], last=mie[-1], last_beta=BETAS[alive][-1]),
        _TEXTS.claim("tie_printed", all(BETAS[0] < at.value < BETAS[-1] for at, _ in orders),
                     orders=" or ".join(f"β = {at}, TIE {least:.4g}" for at, least in orders)),
        _TEXTS.claim("tie", BETAS[0] < tie_at.value < BETAS[-1], at=tie_at, least=ties.min(),
                     first=ties[0], last=ties[-1]),
        _TEXTS.claim("likelihood", _falls(likelihood), rise=likelihood.max() - likelihood[0],
                     top=BETAS[likelihood.argmax()]),
        *(_TEXTS.claim(name, _falls(best[name]), first=best[name][0], last=best[name][-1])
          for name in ("reconstruction", "rate")),
    ]  # fmt: skip


def _falls(values: Values) -> bool:
    """Return whether values never rise, up to rounding."""
    return bool(np.diff(values).max() <= 1e-9)


def _printed(mixing: Values) -> tuple[Measured, float]:
    """Return the beta where TIE as printed is smallest, and its value there."""
    values = np.array([solve(mixing, beta).tie for beta in BETAS.tolist()])
    return _extremum(values, False), float(values.min())


def _training_claims(betas: Sequence[float], sampled: Dots, descended: Dots) -> list[Claim]:
    """Judge whether networks reach the closed form, after training and after descent."""
    first, low = sampled[: len(SEEDS)], solve(MIXING, TRAINED[0])  # of the smallest weight
    ties, norms = ([dot[name] for dot in first] for name in ("tie_aligned", "norm"))
    return [
        _reaches("sampled", betas, sampled, beta=TRAINED[0], steps=_STEPS, tie=low.tie_aligned,
                 norm=np.linalg.norm(low.decoder, axis=0).max(), norms=(min(norms), max(norms)),
                 ties=(min(ties), max(ties)), close=max(dot["below"] for dot in first)),
        _reaches("descended", betas, descended, iterations=_ITERATIONS),
    ]  # fmt: skip


def _reaches(name: str, betas: Sequence[float], dots: Dots, **values: Any) -> Claim:
    """Judge whether every network is close to the optimum, and name those beta that are not."""
    below, apart = ([dot[name] for dot in dots] for name in ("below", "apart"))
    good = [b <= _BELOW and a <= _APART for b, a in zip(below, apart, strict=True)]
    missed = sorted({beta for beta, close in zip(betas, good, strict=True) if not close})
    return _TEXTS.claim(
        name, all(good), below=_BELOW, apart=_APART, objective=range_interval(below),
        decoder=range_interval(apart), count=len(dots), good=sum(good),
        within=sum(good) or "None",
        missed=", ".join(f"{beta:g}" for beta in missed), **values,
    )  # fmt: skip


def _extremum(values: Values, top: bool) -> Measured:
    """Return the beta where values are largest or smallest, with its neighbours on the grid."""
    at = int(values.argmax() if top else values.argmin())
    low, high = BETAS[max(at - 1, 0)], BETAS[min(at + 1, len(BETAS) - 1)]
    return Measured(float(BETAS[at]), float(low), float(high))


def _draw(
    solutions: Sequence[Solution],
    best: dict[str, Values],
    betas: Sequence[float],
    sampled: Dots,
    descended: Dots,
) -> Figure:
    figure, axes = panels(2, 3, width=3.1)
    all_of, near = axes[:4], axes[4:]
    letter_panels(axes, ("ELBO", "Inference error", "Reconstruction objective",
                         "Conditional independence loss", "ELBO near β = 1",
                         "Error less its smallest, near 1"))  # fmt: skip
    likelihood = np.array([each.log_likelihood for each in solutions])
    one, other = (BLUE, DASHES[0]), (ORANGE, DASHES[1])
    lines = [
        (0, likelihood, "log-likelihood", "", other),
        (0, best["elbo"], "ELBO", "elbo", one),
        (1, best["tie_aligned"], "TIE", "tie_aligned", other),
        (1, best["mie"], "MIE", "mie", one),
        (2, best["reconstruction"], "closed form", "reconstruction", one),
        (3, best["rate"], "closed form", "rate", one),
    ]
    for panel, values, label, name, (colour, dashes) in lines:
        axis = all_of[panel]
        axis.plot(BETAS, values, color=colour, linestyle=dashes, label=label)
        if name:
            for each, fill, label in (
                (sampled, "none", "on samples"),
                (descended, colour, "descended"),
            ):
                axis.plot(betas, [dot[name] for dot in each], "o", color=colour, markersize=3.4,
                          markerfacecolor=fill, markeredgewidth=0.7,
                          label=label if panel == 2 else None)  # fmt: skip
        if panel < 2:
            close = (BETAS >= 0.7) & (BETAS <= 1.6)
            height = values - (values.min() if panel else 0.0)
            near[panel].plot(BETAS[close], height[close], color=colour, linestyle=dashes)
    for axis in axes:
        _set_axes(axis, solutions[0].thresholds, axis in near)
    for axis in all_of[:3]:  # over the vertical lines
        axis.legend(loc="best", frameon=True, framealpha=1.0, edgecolor="none")
    for value, name, height in zip(solutions[0].thresholds, ("λ₁", "λ₂"), (0.9, 1.0), strict=True):
        axes[3].text(value, height, f" {name} = {value:.4g} ", ha="right" if value > 2 else "left",
                     transform=axes[3].get_xaxis_transform(), va="top", fontsize=7.5,
                     color=MUTED)  # fmt: skip
    return figure


def _set_axes(axis: Axes, thresholds: Values, near: bool) -> None:
    if near:
        axis.set_xlim(0.7, 1.6)
        axis.ticklabel_format(useOffset=False)
    else:
        axis.set(xscale="log", xlim=(0.045, 110))
        axis.set_xticks([0.1, 1, 10, 100], ["0.1", "1", "10", "100"])
    axis.set(xlabel="β", ylabel="nats")
    axis.axvline(1.0, color=INK, linewidth=0.8, linestyle=(0, (4, 3)))
    for value in thresholds[thresholds < axis.get_xlim()[1]]:
        axis.axvline(float(value), color=MUTED, linewidth=0.9, linestyle=":")
