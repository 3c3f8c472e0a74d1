"""[Mathieu2019] fig. 3 and [Mathieu2018] fig. 2, which are one ablation, on the pinwheel.

A mixture of four Gaussians is the prior, beta weighs the rate and alpha KL(p(z) || q(z)), one of
them at a time.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

import numpy as np
import torch

from unweave.aggregate import log_aggregate
from unweave.data import Pinwheel
from unweave.fitted import Fitted
from unweave.latents import DiagonalGaussian, GaussianMixture
from unweave.metrics import (
    cluster_occupancy,
    exact_mutual_information,
    overlapping_neighbours,
    prior_match,
)
from unweave.objectives import AlphaBetaVAE, BetaVAE
from unweave.papers.drawing import (
    BLUE,
    COLOURS,
    INK,
    MUTED,
    ORANGE,
    Values,
    draw_density,
    lettered,
    panels,
    square,
)
from unweave.papers.form import Desk, Result
from unweave.papers.mathieu2019.ablation import (
    PRIOR,
    Row,
    alpha_claims,
    beta_claims,
    limit_claims,
    listed,
    meaning_claim,
    modes_claim,
)
from unweave.parallel import in_threads
from unweave.presets.mathieu2019 import PINWHEEL_ALPHAS, PINWHEEL_BETAS, pinwheel
from unweave.run import Run
from unweave.training.crew import torch_threads

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

DATA = Pinwheel()
BETAS, ALPHAS = PINWHEEL_BETAS, PINWHEEL_ALPHAS  # [Mathieu2018] fig. 2
LARGER_BETAS, LARGER_ALPHAS = (2.0, 5.0), (20.0, 100.0)  # ours
SEEDS = {"beta": range(40), "alpha": range(10)}  # with alpha they train ten times as long
FEW = range(10)  # for the other reading of the data
STEPS, SAMPLES = 500, 2_000
SIDE, REACH = 160, 2.2  # points along an axis of a density, and how far it goes
_TWICE = math.sqrt(0.015)  # scales of the mixture p(z)^2 / F, whose components hardly overlap


def workshop_figure(desk: Desk) -> Result:
    """[Mathieu2018] fig. 2, with weights beyond it for what it says of them."""
    top, bottom = _rows(desk)
    where = "fig. 2"
    return Result(
        drawings={"": _densities(top, bottom)},
        captions={"": _CAPTION},
        claims=(
            *beta_claims(top, where, DATA),
            *alpha_claims(top, bottom, where, DATA),
            meaning_claim(bottom, bottom.own[-1:], f"{where}, bottom", DATA),
            *limit_claims(top, bottom, where, DATA),
            meaning_claim(bottom, bottom.beyond[1:], where, DATA),
        ),
        setting=_setting() + f" Beyond the paper's: {_larger()}.",
        seeds=_seeds(),
        noticed=(
            "The text of both papers is nearly the same. What the other reading of the data and "
            "the released code's rate give, and which components are used, is with "
            "[figure 3 of 2019](mathieu2019.md); the prior of figure 3 is figure 6 there."
        ),
    )


def conference_figure(desk: Desk) -> Result:
    """[Mathieu2019] fig. 3, with weights beyond it, the other reading of the data, and measures."""
    top, bottom = _rows(desk)
    where = "sec. 6.2, fig. 3"
    return Result(
        drawings={"": _densities(top, bottom), "measures": _measures(top, bottom)},
        captions={
            "": _CAPTION,
            "measures": "Overlap, information and match by the weights, which stand at equal steps "
            "along the axis; dots are networks, lines go through their means, hollow dots are "
            "weights beyond the paper's. Overlap: how many of the other 399 encodings overlap with "
            "one, in expectation. The lines across are the 99 others of a cluster; log 4 nats, "
            "which name a cluster, and log 400, which name an observation.",
        },
        claims=(
            *beta_claims(top, where, DATA),
            *alpha_claims(top, bottom, where, DATA),
            modes_claim(bottom, bottom.own[-1:], f"{where}, bottom", DATA),
            *limit_claims(top, bottom, where, DATA),
            modes_claim(bottom, bottom.beyond[1:], where, DATA),
        ),
        setting=_setting()
        + " The paper does not name the weights; they are those of the workshop's figure, "
        f"[Mathieu2018] fig. 2. Ours: {_larger()}.",
        seeds=_seeds(),
        noticed=_noticed(desk, top, bottom),
    )


_CAPTION = (
    "Density of q(z) (blue, each panel on its own scale) over the contours of p(z) that hold half "
    "and nine tenths of it. Left, the prior and the observations by their cluster. Each panel is "
    "the network whose KL(p ‖ q), in its corner, is in the middle of the seeds'. Encodings are "
    "drawn no narrower than a pixel."
)


def _setting() -> str:
    run, points = _run("beta", 1.0, 0, DATA, PRIOR), DATA.clusters * DATA.points_per_cluster
    return (
        f"`Pinwheel()`: {points} points in {DATA.clusters} arms, with "
        "the generator's meaning of its standard deviations; `GaussianMixture()`: variances 0.03, "
        "the centres of the released code; a hidden layer of 100, scales of p(x|z) put out by the "
        f"decoder, Adam (amsgrad) at 1e-3, {run.steps} steps of all points, as in app. B. "
        "Brackets hold 95% of the means that come of drawing the seeds again, of "
        f"{len(SEEDS['beta'])} seeds with β and {len(SEEDS['alpha'])} with α, which differ less; a "
        "trend holds if that of every step does, seed by seed. Components in use: exp H of the "
        "shares of the codes that belong to each."
    )


def _larger() -> str:
    return f"β of {listed(LARGER_BETAS)} and α of {listed(LARGER_ALPHAS)}"


def _seeds() -> str:
    return ", ".join(
        f"{seeds[0]} to {seeds[-1]} ({letter})"
        for letter, seeds in zip("βα", SEEDS.values(), strict=True)
    )


def _run(name: str, weight: float, seed: int, data: Pinwheel, prior: GaussianMixture) -> Run:
    objective = BetaVAE(beta=weight) if name == "beta" else AlphaBetaVAE(alpha=weight, beta=0.0)
    return dataclasses.replace(
        pinwheel(objective),
        data=data,
        latent=prior,
        batch_size=data.clusters * data.points_per_cluster,
        steps=STEPS,
        seed=seed,
    )


def _rows(desk: Desk) -> tuple[Row, Row]:
    """The rows of the figure, with weights beyond it."""
    return (
        _study(desk, "beta", (*BETAS, *LARGER_BETAS), len(BETAS)),
        _study(desk, "alpha", (*ALPHAS, *LARGER_ALPHAS), len(ALPHAS)),
    )


def _study(
    desk: Desk,
    name: Literal["alpha", "beta"],
    weights: tuple[float, ...],
    inside: int,
    seeds: Sequence[int] | None = None,
    data: Pinwheel | None = None,
    prior: GaussianMixture | None = None,
) -> Row:
    """Networks with weights for one of the two terms, and what is measured of them."""
    seeds, data, prior = seeds or SEEDS[name], data or DATA, prior or PRIOR
    pairs = itertools.product(weights, seeds)
    runs = [_run(name, weight, seed, data, prior) for weight, seed in pairs]
    models = desk.carry_out(runs, data.load(desk.device))
    with torch_threads(1):  # of a few hundred rows: threads would only wait for each other
        every = list(in_threads(_measured, desk.each("networks measured", models)))
    shape = len(weights), -1
    measures = {name: np.array([each[name] for each in every]).reshape(shape) for name in every[0]}
    starts = range(0, len(models), len(seeds))
    return Row(weights, inside, [models[at : at + len(seeds)] for at in starts], measures)


def _measured(model: Fitted) -> dict[str, float]:
    """Overlap of the encodings and match of q(z) to the prior of the paper, whatever its own is."""
    codes, scales = model.posterior(model.observations(model.rows()))
    match = prior_match(codes, scales, prior=PRIOR, samples=SAMPLES, points=2)
    modes = cluster_occupancy(codes, PRIOR.centres, PRIOR.scales)
    return {
        "neighbours": overlapping_neighbours(codes, scales).value,
        "variance": float(np.square(scales).mean()),
        "information": exact_mutual_information(codes, scales, samples=SAMPLES).value,
        "inclusive": match["inclusive_kl/exact"].value,
        "exclusive": match["exclusive_kl/exact"].value,
        "modes": math.exp(modes.value),
    }


def _noticed(desk: Desk, top: Row, bottom: Row) -> str:
    text = dataclasses.replace(DATA, convention="text")
    other = _study(desk, "beta", BETAS, len(BETAS), FEW, text)
    end = BETAS[-2:]
    twice = _study(desk, "beta", end, len(end), prior=GaussianMixture(scales=_TWICE))
    verdicts = [claim for claim in beta_claims(other, "", text) if claim.verdict != "pass"]
    return (
        f"How many components the codes use, with β alone, hangs on the seed: β = "
        f"{top.text('modes', BETAS)}; with α alone α = {bottom.text('modes', ALPHAS)}. With large "
        "β nearly all encodings lie in the middle of the four components, KL(q ‖ p) = "
        f"{top.at('exclusive', top.weights[-1])}, though any one of them would be nearer, "
        f"{math.log(DATA.clusters):.3f}.\n\n"
        "The released code sums the log-density of the prior over its two columns, which counts "
        "p(z) twice in the rate. Then the match is lost sooner: KL(p ‖ q) β = "
        f"{twice.text('inclusive', end)}, and components in use β = {twice.text('modes', end)}.\n\n"
        'With standard deviations as the text has them, `Pinwheel(convention="text")`, and '
        f"{len(FEW)} seeds, the paper's claims of β in the figure "
        + (
            "have the verdict pass, all of them."
            if not verdicts
            else "pass but for: "
            + "; ".join(f"{claim.statement} ({claim.got})" for claim in verdicts)
            + "."
        )
    )


def _densities(top: Row, bottom: Row) -> Figure:
    figure, axes = panels(2, 1 + len(BETAS), width=1.75, height=1.85)
    lines = np.linspace(-REACH, REACH, SIDE)
    z = torch.from_numpy(np.stack(np.meshgrid(lines, lines), -1).reshape(-1, 2))
    prior = PRIOR.density(torch.zeros(2, dtype=torch.float64)).log_prob(z).exp().numpy()
    draw_density(axes[0], lines, prior)
    axes[0].set_title("prior p(z)")
    _observations(axes[1 + len(BETAS)])
    for start, row, letter in ((1, top, "β"), (2 + len(BETAS), bottom, "α")):
        for axis, weight in zip(axes[start:], row.own, strict=False):
            model = row.middle(weight)
            draw_density(axis, lines, _density(model, z))
            axis.contour(lines, lines, prior.reshape(SIDE, SIDE), _levels(prior),
                         colors=ORANGE, linewidths=0.8, linestyles=["--", "-"])  # fmt: skip
            axis.set_title(f"{letter} = {weight:g}")
            found = row.measures["inclusive"][row.weights.index(weight)]
            middle = np.sort(found)[(len(found) - 1) // 2]
            shown = f"KL {middle:.0f}" if middle > 10 else f"KL {middle:.2g}"
            axis.text(0.97, 0.03, shown, transform=axis.transAxes, ha="right", fontsize=7.5,
                      color=INK)  # fmt: skip
    for axis in axes[: 1 + len(BETAS)] + axes[2 + len(BETAS) :]:
        square(axis, REACH, 2)
    axes[1].set_ylabel("α = 0", fontweight="bold")
    axes[2 + len(BETAS)].set_ylabel("β = 0", fontweight="bold")
    return figure


def _density(model: Fitted, z: torch.Tensor) -> Values:
    """q(z) of the data at points (S, 2), with encodings at least as wide as a pixel."""
    q = model.posteriors(model.rows())
    pixel = 2 * REACH / SIDE
    spread = (q.spread.double().square() + pixel**2).sqrt()
    wide = DiagonalGaussian(q.mean.double(), spread.log())
    with torch.no_grad():
        found: Values = (
            log_aggregate(model.run.latent, wide, z.to(spread))[:, 0].exp().cpu().numpy()
        )
    return found


def _levels(density: Values) -> list[float]:
    """Densities on a regular grid above which nine tenths and half of the mass lie."""
    ordered = np.sort(density)[::-1]
    held = np.cumsum(ordered) / ordered.sum()
    return [float(ordered[np.searchsorted(held, share)]) for share in (0.9, 0.5)]


def _observations(axis: Axes) -> None:
    world = DATA.load(torch.device("cpu"))
    index = torch.arange(world.size)
    x, cluster = world.images(index).numpy(), world.factors(index).numpy()[:, 0]
    for number, colour in zip(range(DATA.clusters), COLOURS, strict=False):
        chosen = x[cluster == number]
        axis.plot(chosen[:, 0], chosen[:, 1], "o", color=colour, markersize=1.3, alpha=0.8)
    axis.set_title("observations x")
    square(axis, float(np.abs(x).max()) * 1.08, 2)


def _measures(top: Row, bottom: Row) -> Figure:
    figure, axes = panels(2, 3, width=3.1, height=2.3)
    lettered(axes, ("Overlap by β", "Information by β", "Match by β",
                    "Overlap by α", "Information by α", "Match by α"))  # fmt: skip
    clusters, size = DATA.clusters, DATA.clusters * DATA.points_per_cluster
    across: tuple[dict[str, float], ...] = (
        {f"{DATA.points_per_cluster - 1}": DATA.points_per_cluster - 1.0},
        {f"log {clusters}": math.log(clusters), f"log {size}": math.log(size)},
        {},
    )
    drawn = (
        {"neighbours": ("", BLUE, "-")},
        {"information": ("", BLUE, "-")},
        {"inclusive": ("KL(p ‖ q)", BLUE, "-"), "exclusive": ("KL(q ‖ p)", ORANGE, "--")},
    )
    labels = "overlapping encodings", "I(x; z), nats", "nats"
    for row, letter, own in ((top, "β", axes[:3]), (bottom, "α", axes[3:])):
        for axis, names, lines, label in zip(own, drawn, across, labels, strict=True):
            for name, (text, colour, dashes) in names.items():
                _draw_measure(axis, row, name, colour, dashes, text)
            for text, height in lines.items():
                axis.axhline(height, color=MUTED, linewidth=0.9, linestyle=":")
                axis.text(0.3, height, text, transform=axis.get_yaxis_transform(), va="bottom",
                          fontsize=7.5, color=MUTED)  # fmt: skip
            axis.set_xticks(range(len(row.weights)), [f"{weight:g}" for weight in row.weights])
            axis.set_xlabel(letter)
            axis.set_ylabel(label)
        own[0].set_yscale("log")
        own[2].set_yscale("log")
    axes[2].legend(loc="upper right")
    return figure


def _draw_measure(axis: Axes, row: Row, name: str, colour: str, dashes: str, label: str) -> None:
    values = row.measures[name]
    axis.plot(values.mean(1), color=colour, linestyle=dashes, label=label or None)
    for number, some in enumerate(values):
        axis.plot([number] * len(some), some, "o", color=colour, markersize=3, alpha=0.6,
                  markerfacecolor=colour if number < row.inside else "white")  # fmt: skip
