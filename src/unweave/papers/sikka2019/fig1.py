"""Figure 1: the linear beta-VAE.  [Sikka2019] sec. IV-B."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from unweave.core.optimisers import Adam
from unweave.data import Mixing
from unweave.evaluation.model import FittedModel
from unweave.latents import Gaussian
from unweave.likelihoods import Gaussian as GaussianLikelihood
from unweave.models import VAE
from unweave.networks import MLP
from unweave.objectives import BetaVAE
from unweave.papers.sikka2019.inference import Truth, inference_errors
from unweave.studies.drawing import BLUE, DASHES, INK, MUTED, ORANGE, Values, lettered, panels
from unweave.studies.intervals import range_interval
from unweave.studies.study import Study, results_of
from unweave.studies.workspace import Claim, Measured, Numbers, Result, Workspace, judged
from unweave.theory import Optimum, Solution, solve
from unweave.theory.identities import double
from unweave.training.run import Run

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MIXING = 0.5 * (1 + np.eye(128, 2))  # sec. IV-B: N = 128, k = 2, A_ij = (1 + delta_ij) / 2
BETAS = np.unique(np.concatenate([np.geomspace(0.05, 100, 400), np.linspace(0.7, 1.6, 901)]))
TRAINED = (0.1, 0.3, 0.6, 1.0, 2.0, 5.0, 12.0, 30.0, 60.0, 90.0)
SEEDS = (0, 1, 2)
_SIZE, _STEPS, _RATE = 256, 5000, 2e-3
_ITERATIONS = 500  # of L-BFGS at most
_BELOW, _APART = 0.01, 0.01  # nats, and a share: what still counts as the closed form
_TERMS = ("elbo", "mie", "tie_aligned", "reconstruction", "rate")

Dots = Sequence[dict[str, float]]  # terms of trained networks


def fig1(workspace: Workspace) -> Result:
    """Figure 1: terms of the optimal linear beta-VAE over beta, in closed form and trained."""
    found = [solve(MIXING, beta) for beta in workspace.each("solved", BETAS.tolist())]
    facts = results_of(workspace, study()).facts
    sampled, dots = ([each[name] for each in facts] for name in ("trained", "descended"))
    betas = [beta for beta, _ in itertools.product(TRAINED, SEEDS)]
    best = {name: np.array([getattr(each, name) for each in found]) for name in _TERMS}
    return Result(
        drawings={"": _draw(found, best, betas, sampled, dots)},
        captions={
            "": "Terms of the optimal β-VAE over β. A: ELBO and log-likelihood. B: model and true "
            "inference error. C: reconstruction objective. D: conditional independence loss. "
            "E and F, which are ours: A and B near β = 1, errors less their smallest value. Lines "
            "are in closed form; rings are linear networks trained on samples, dots the same "
            "networks after descent on the exact objective. Dotted: the eigenvalues of the "
            "covariance of x, at which latents die."
        },
        claims=(*_claims(found, best), *_training_claims(betas, sampled, dots)),
        setting=(
            "N = 128, k = 2, A_ij = (1 + δ_ij) / 2, noise 1, as in sec. IV-B; lines are "
            f"`unweave.theory.solve` at {len(BETAS)} values of β from 0.05 to 100, where the paper "
            "solves eq. 23 numerically. Where nothing else is said TIE is the smallest over orders "
            "and signs of the latents. Brackets after a β are its neighbours on the grid.\n\n"
            f"Ours: {len(TRAINED)} values of β with {len(SEEDS)} seeds, on {_SIZE} observations "
            "whose mean and covariance are exactly those of eq. 18. Linear networks are trained "
            f"together as lanes, {_STEPS:,} steps of Adam at {_RATE:g} with all observations in a "
            "batch and one sample of q(z|x) for each; then each goes on by L-BFGS on the mean "
            "objective over the same observations, whose expectation over q(z|x) is exact since "
            "the decoder is linear."
        ),
        noticed=_noticed(found, best),
        seeds=f"{SEEDS[0]} to {SEEDS[-1]} (networks); the closed form has none",
    )


def _noticed(found: Sequence[Solution], best: dict[str, Values]) -> str:
    ties = sorted(solve(a, 1.1).tie for a in (MIXING, MIXING[:, ::-1]))
    return (
        f"At β = {found[0].thresholds.max():.4g} the last latent dies. From there q(z|x), p(z|x) "
        "and p(z) are the same, and MIE is 0, while TIE is at its largest, "
        f"{best['tie_aligned'].max():.4g}: a small MIE does not mean a good model.\n\n"
        "As printed, with latent i taken for source i, TIE is not defined without a convention, "
        "since the optimum leaves the order and the signs of latents open. `tie` makes the first "
        "of the largest entries of each column of D positive. The second column goes with "
        f"(1, -1, 0, ...): at β = 1.1 TIE is {ties[0]:.4g} or {ties[1]:.4g}, by which of the two "
        "sources is called the first."
    )


def study() -> Study:
    """Linear networks of all weights and seeds, as trained and after descent."""
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
    return Study("sikka2019", "linear", runs, _describe, precision="fp32", lanes=400)


def _describe(model: FittedModel) -> Numbers:
    return {
        "trained": _reached(*_opened(model)),
        "descended": _reached(*_descended(*_opened(model))),
    }


def _opened(model: FittedModel) -> tuple[VAE, Tensor, float]:
    """Networks in float64, all observations, and beta."""
    x = torch.from_numpy(model.observations(model.rows())).double()
    return double(model), x, float(model.run.weights["beta"])


def _descended(nets: VAE, x: Tensor, beta: float) -> tuple[VAE, Tensor, float]:
    """Networks after L-BFGS on the exact objective, in place, with what else came in."""
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
    """D, (N, k), and what the decoder adds, (1, N)."""
    identity = torch.eye(MIXING.shape[1], dtype=torch.float64)
    offset = nets.decode(torch.zeros_like(identity[:1])).mean
    return (nets.decode(identity).mean - offset).T, offset


def _means(nets: VAE, x: Tensor) -> tuple[Tensor, Tensor]:
    """Reconstruction and rate as exact means over observations.

    E[log p(x|z)] = log p(x|E[z]) - tr(D S D^T) / 2, since the decoder is linear.
    """
    q, (loadings, _) = nets.encode(x), _decoder(nets)
    spread = q.stddev.square() @ loadings.square().sum(0)
    reconstruction = nets.decode(q.mean).log_prob(x) - 0.5 * spread
    return reconstruction.mean(), nets.latent.rate(q, nets.p(), q.mean).mean()


@torch.no_grad()
def _reached(nets: VAE, x: Tensor, beta: float) -> dict[str, float]:
    """The terms of a linear network, as exact means over observations, and how far it is off."""
    q, (loadings, offset) = nets.encode(x), _decoder(nets)
    mean, variance = q.mean.numpy(), q.stddev.square().numpy()
    reconstruction, rate = (each.item() for each in _means(nets, x))
    reached, best = Optimum(beta, reconstruction, rate), solve(MIXING, beta)
    # Against p(z|x) of the model itself there is nothing to be matched.
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
    """|D D^T - D* D*^T| / |D* D*^T|, with A in the place of D* below the line where that is 0."""
    scale = best if best.any() else MIXING
    off = loadings @ loadings.T - best @ best.T
    return float(np.linalg.norm(off) / np.linalg.norm(scale @ scale.T))


def _claims(found: Sequence[Solution], best: dict[str, Values]) -> list[Claim]:
    likelihood = np.array([each.log_likelihood for each in found])
    dead = found[0].thresholds.max()  # where the last latent dies
    before = np.where(dead > BETAS, best["mie"], np.inf)
    elbo, mie = _extremum(best["elbo"], True), _extremum(before, False)
    tie, ties = _extremum(best["tie_aligned"], False), best["tie_aligned"]
    orders = sorted(_printed(a) for a in (MIXING, MIXING[:, ::-1]))
    minimum = "The inference error is not monotonically decreasing and has a minimum at some β"
    return [
        judged("ELBO is maximized at β = 1", "fig. 1A, prop. 3", "β = 1", elbo, elbo.value == 1),
        judged(
            f"{minimum}: MIE",
            "fig. 1B",
            f"a minimum inside while a latent lives, β < {dead:.4g}; beyond, MIE is 0 with nothing "
            "left to infer",
            f"β = {mie}, MIE {before.min():.1g}; {before[0]:.4g} at β = 0.05, "
            f"{before[np.isfinite(before)][-1]:.4g} at {BETAS[np.isfinite(before)][-1]:.4g}",
            bool(BETAS[0] < mie.value < BETAS[np.isfinite(before)].max()),
        ),
        judged(
            f"{minimum}: TIE, as printed (eq. 25, 27)",
            "fig. 1B",
            "a minimum inside, whichever source is called the first",
            " or ".join(f"β = {at}, TIE {least:.4g}" for at, least in orders),
            all(BETAS[0] < at.value < BETAS[-1] for at, _ in orders),
        ),
        judged(
            f"{minimum}: TIE, latents matched to sources (ours)",
            "fig. 1B",
            "a minimum inside",
            f"β = {tie}, TIE {ties.min():.4g}; {ties[0]:.4g} at β = 0.05, {ties[-1]:.4g} at 100",
            bool(BETAS[0] < tie.value < BETAS[-1]),
        ),
        judged(
            "The data log-likelihood is monotonically decreasing with β",
            "sec. IV-B, not shown",
            "falls everywhere",
            f"rises by {likelihood.max() - likelihood[0]:.3f} nats from β = 0.05 to "
            f"{BETAS[likelihood.argmax()]:.4g}, and falls from there",
            _falls(likelihood),
            "It falls from β = 1 on only. At β = 1 the model is the truth, and none has a larger "
            "expected log-likelihood, so below 1 it must rise. That MIE has a minimum is true all "
            "the same.",
        ),
        *(
            judged(
                f"The {title} is monotonically decreasing",
                f"fig. 1{letter}, prop. 2",
                "falls everywhere",
                f"from {best[name][0]:.5g} to {best[name][-1]:.5g} nats, without a rise",
                _falls(best[name]),
            )
            for letter, title, name in (
                ("C", "reconstruction objective", "reconstruction"),
                ("D", "conditional independence loss", "rate"),
            )
        ),
    ]


def _falls(values: Values) -> bool:
    """Whether values never rise, but for rounding."""
    return bool(np.diff(values).max() <= 1e-9)


def _printed(mixing: Values) -> tuple[Measured, float]:
    """Where TIE as printed is smallest, and what it is there."""
    values = np.array([solve(mixing, beta).tie for beta in BETAS.tolist()])
    return _extremum(values, False), float(values.min())


def _training_claims(betas: Sequence[float], sampled: Dots, dots: Dots) -> list[Claim]:
    """Whether networks are at the closed form: after training on samples, and after descent."""
    first, low = sampled[: len(SEEDS)], solve(MIXING, TRAINED[0])  # of the smallest weight
    ties, norms = [dot["tie_aligned"] for dot in first], [dot["norm"] for dot in first]
    return [
        _at_optimum(
            "(ours) Adam on samples of q(z|x), at one learning rate, reaches the closed form",
            betas,
            sampled,
            "Each step sees samples of q(z|x), so at a learning rate that stays the same networks "
            "go on wandering about the optimum. And the scale of the codes is set by the rate "
            f"alone, whose weight is β: at β = {TRAINED[0]:g} the longest column of D is "
            f"{min(norms):.2f} to {max(norms):.2f} after {_STEPS:,} steps instead of "
            f"{np.linalg.norm(low.decoder, axis=0).max():.2f}, and TIE {min(ties):.1f} to "
            f"{max(ties):.1f} instead of {low.tie_aligned:.1f}, though the objective is within "
            f"{max(dot['below'] for dot in first):.2f} nats.",
        ),
        _at_optimum(
            "(ours) From there, descent on the exact objective reaches the closed form",
            betas,
            dots,
            f"L-BFGS stops after {_ITERATIONS:,} iterations.",
        ),
    ]


def _at_optimum(statement: str, betas: Sequence[float], dots: Dots, reason: str) -> Claim:
    """Whether every network is close to the optimum, and with which beta networks are not."""
    below, apart = ([dot[name] for dot in dots] for name in ("below", "apart"))
    good = [b <= _BELOW and a <= _APART for b, a in zip(below, apart, strict=True)]
    missed = sorted({beta for beta, there in zip(betas, good, strict=True) if not there})
    listed = ", ".join(f"{beta:g}" for beta in missed)
    return judged(
        statement,
        "not in the paper",
        f"the β-VAE objective at most {_BELOW:g} nats below, and D Dᵀ within {_APART:.0%} (of that "
        "of A where D is 0), for every network",
        f"{range_interval(below)} nats below, D Dᵀ off by {range_interval(apart)} of itself: mean "
        f"and range over {len(dots)} networks; within both: {sum(good)}",
        all(good),
        f"Networks at β = {listed} are not. {reason}",
    )


def _extremum(values: Values, top: bool) -> Measured:
    """Where values are largest or smallest, between its neighbours on the grid."""
    at = int(values.argmax() if top else values.argmin())
    low, high = BETAS[max(at - 1, 0)], BETAS[min(at + 1, len(BETAS) - 1)]
    return Measured(float(BETAS[at]), float(low), float(high))


def _draw(
    found: Sequence[Solution],
    best: dict[str, Values],
    betas: Sequence[float],
    sampled: Dots,
    dots: Dots,
) -> Figure:
    figure, axes = panels(2, 3, width=3.1)
    all_of, near = axes[:4], axes[4:]
    lettered(axes, ("ELBO", "Inference error", "Reconstruction objective",
                    "Conditional independence loss", "ELBO near β = 1",
                    "Error less its smallest, near 1"))  # fmt: skip
    likelihood = np.array([each.log_likelihood for each in found])
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
            for each, fill, label in ((sampled, "none", "on samples"), (dots, colour, "descended")):
                axis.plot(betas, [dot[name] for dot in each], "o", color=colour, markersize=3.4,
                          markerfacecolor=fill, markeredgewidth=0.7,
                          label=label if panel == 2 else None)  # fmt: skip
        if panel < 2:
            close = (BETAS >= 0.7) & (BETAS <= 1.6)
            height = values - (values.min() if panel else 0.0)
            near[panel].plot(BETAS[close], height[close], color=colour, linestyle=dashes)
    for axis in axes:
        _frame(axis, found[0].thresholds, axis in near)
    for axis in all_of[:3]:
        axis.legend(loc="best")
    for value, name in zip(found[0].thresholds, ("λ₁", "λ₂"), strict=True):
        text = f"{name} = {value:.4g} "
        axes[3].text(value, axes[3].get_ylim()[1], text, ha="right" if value > 2 else "left",
                     va="top", fontsize=7.5, color=MUTED)  # fmt: skip
    return figure


def _frame(axis: Axes, thresholds: Values, near: bool) -> None:
    if near:
        axis.set_xlim(0.7, 1.6)
        axis.ticklabel_format(useOffset=False)
    else:
        axis.set_xscale("log")
        axis.set_xlim(0.045, 110)
        axis.set_xticks([0.1, 1, 10, 100], ["0.1", "1", "10", "100"])
    axis.set_xlabel("β")
    axis.set_ylabel("nats")
    axis.axvline(1.0, color=INK, linewidth=0.8, linestyle=(0, (4, 3)))
    for value in thresholds[thresholds < axis.get_xlim()[1]]:
        axis.axvline(float(value), color=MUTED, linewidth=0.9, linestyle=":")
