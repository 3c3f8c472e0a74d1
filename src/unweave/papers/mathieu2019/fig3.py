"""[Mathieu2019] fig. 3 and [Mathieu2018] fig. 2, the same ablation on the pinwheel.

The prior is a mixture of four Gaussians. Beta weights the rate and alpha KL(p(z) || q(z)); one of
them is varied at a time.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

import numpy as np
import torch

from unweave.aggregate import log_aggregate
from unweave.data import Pinwheel
from unweave.evaluation.model import FittedModel
from unweave.latents import DiagonalGaussian, GaussianMixture
from unweave.metrics import (
    cluster_occupancy,
    exact_mutual_information,
    overlapping_neighbours,
    prior_match,
)
from unweave.objectives import AlphaBetaVAE, BetaVAE
from unweave.papers.mathieu2019.ablation import (
    PRIOR,
    Row,
    alpha_claims,
    beta_claims,
    limit_claims,
    listed,
    meaning_claim,
    middle,
    modes_claim,
    top_right_claim,
)
from unweave.presets.mathieu2019 import PINWHEEL_ALPHAS, PINWHEEL_BETAS, pinwheel
from unweave.studies.drawing import (
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
from unweave.studies.images import packed, unpacked
from unweave.studies.study import PICTURES, Network, Study, results_of
from unweave.studies.workspace import Claim, Numbers, Result, Workspace
from unweave.training.run import Run

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

DATA = Pinwheel()
BETAS, ALPHAS = PINWHEEL_BETAS, PINWHEEL_ALPHAS  # [Mathieu2018] fig. 2
LARGER_BETAS, LARGER_ALPHAS = (2.0, 5.0), (20.0, 100.0)  # ours
LIMIT_BETAS = (5.0, 20.0)  # ours, trained for LONGER
SEEDS = {"beta": range(40), "alpha": range(10)}  # with alpha they train ten times as long
FEW = range(10)  # for the other reading of the data
STEPS, LONGER, SAMPLES = 500, 2_000, 2_000
SIDE, REACH = 160, 2.2  # points along an axis of a density, and how far it goes
_TWICE = math.sqrt(0.015)  # scales of the mixture p(z)^2 / F, whose components hardly overlap


def workshop_figure(workspace: Workspace) -> Result:
    """[Mathieu2018] fig. 2, with weights beyond it for its claims about large weights."""
    rows = _rows(workspace)
    top, bottom, twice, longer = (rows[name] for name in ("top", "bottom", "twice", "longer"))
    where = "fig. 2"
    return Result(
        drawings={"": _densities(top, bottom)},
        captions={"": _CAPTION},
        claims=(
            *_figure_claims(top, bottom, twice, where),
            meaning_claim(bottom, bottom.own[-1:], f"{where}, bottom", DATA),
            *limit_claims(top, longer, bottom, where, DATA),
            meaning_claim(bottom, bottom.beyond[1:], where, DATA),
        ),
        setting=_setting() + f" Weights beyond the paper's: {_larger()}.",
        seeds=_seeds(),
        noticed=(
            "The text of both papers is nearly the same. [Figure 3 of the 2019 "
            "paper](mathieu2019.md) also has the other reading of the data and the number of "
            "components in use; the prior, figure 3 here, is figure 6 there."
        ),
    )


def conference_figure(workspace: Workspace) -> Result:
    """[Mathieu2019] fig. 3, with weights beyond it, the other reading of the data, and measures."""
    rows = _rows(workspace)
    top, bottom, twice, longer = (rows[name] for name in ("top", "bottom", "twice", "longer"))
    where = "sec. 6.2, fig. 3"
    return Result(
        drawings={"": _densities(top, bottom), "measures": _measures(top, bottom)},
        captions={
            "": _CAPTION,
            "measures": "Overlap, information and match by weight, at equal steps along the axis. "
            "Dots are networks, lines their means; hollow dots are weights beyond the paper's. "
            "Overlap is the expected number of the other 399 encodings that overlap with one. "
            "Dotted lines: the 99 others of a cluster; log 4 nats, enough to tell the clusters "
            "apart, and log 400, enough to tell all observations apart.",
        },
        claims=(
            *_figure_claims(top, bottom, twice, where),
            modes_claim(bottom, bottom.own[-1:], f"{where}, bottom", DATA),
            *limit_claims(top, longer, bottom, where, DATA),
            modes_claim(bottom, bottom.beyond[1:], where, DATA),
        ),
        setting=_setting()
        + " The paper does not give its weights; these are the weights of the workshop paper, "
        f"[Mathieu2018] fig. 2. Ours, beyond them: {_larger()}.",
        seeds=_seeds(),
        noticed=_noticed(top, bottom, twice, rows["text"]),
    )


_CAPTION = (
    "Density of q(z) (blue, each panel on its own scale) over the contours of p(z) that hold 50% "
    "and 90% of its mass. Left: the prior, and the observations coloured by cluster. Each panel "
    "shows the network with the median KL(p ‖ q) over seeds (the lower of the middle two), given "
    "in its corner. Encodings are drawn at least a pixel wide."
)


def _figure_claims(top: Row, bottom: Row, twice: Row, where: str) -> list[Claim]:
    """The claims about the weights of the figure."""
    return [
        *beta_claims(top, where, DATA),
        top_right_claim(top, "with the rate as in the text", where, DATA),
        top_right_claim(twice, "with the rate of the released code", where, DATA),
        *alpha_claims(top, bottom, where, DATA),
    ]


def _setting() -> str:
    points = DATA.clusters * DATA.points_per_cluster
    return (
        f"`Pinwheel()`: {points} points in {DATA.clusters} arms, with "
        "standard deviations as in the generator's code; `GaussianMixture()`: variances 0.03, the "
        "centres of the released code; a hidden layer of 100 units, p(x|z) with scales learned by "
        f"the decoder, Adam (amsgrad) at 1e-3, {STEPS} steps with all points in the batch, as in "
        f"app. B; for the limit of large β, {LONGER:,} steps. There are {len(SEEDS['beta'])} seeds "
        f"for β and {len(SEEDS['alpha'])} for α, where seeds differ less. Brackets are 95% "
        "bootstrap intervals over seeds. A measure rises from one weight to the next if the mean "
        "or the median of the seeds' changes is above 0 beyond its interval and neither is below "
        "0 beyond it. Components in use: the exponential of the entropy of the shares of codes "
        "that belong to each component; a network leaves a component out if fewer than "
        f"{DATA.clusters - 0.5} are in use.\n\n"
        "Two choices were made after seeing results. Medians were added to the means because a few "
        "networks that leave components out dominate the means; by means alone, overlap between "
        f"β = {BETAS[-2]:g} and {BETAS[-1]:g} would be undecided. And β = {LIMIT_BETAS[-1]:g} was "
        f"added for the limit because one network keeps information at β = {LIMIT_BETAS[0]:g}.\n\n"
        "The released code sums the log-density of the prior over the two latent dimensions, so "
        "its rate is E[log q(z|x)] - 2 E[log p(z)] instead of E[log q(z|x)] - E[log p(z)]. We "
        "train with it by taking p(z)², normalised, as the prior: a mixture with half the "
        "variance, as its components hardly overlap. KL(p ‖ q) is still to the paper's prior."
    )


def _larger() -> str:
    return f"β of {listed(LARGER_BETAS)} and α of {listed(LARGER_ALPHAS)}"


def _seeds() -> str:
    return ", ".join(
        f"{seeds[0]} to {seeds[-1]} ({letter})"
        for letter, seeds in zip("βα", SEEDS.values(), strict=True)
    )


def _run(
    name: str, weight: float, seed: int, data: Pinwheel, prior: GaussianMixture, steps: int
) -> Run:
    objective = BetaVAE(beta=weight) if name == "beta" else AlphaBetaVAE(alpha=weight, beta=0.0)
    return dataclasses.replace(
        pinwheel(objective),
        data=data,
        latent=prior,
        batch_size=data.clusters * data.points_per_cluster,
        steps=steps,
        seed=seed,
    )


def _parts() -> dict[str, Part]:
    """The networks of both figures: the rows with weights beyond them, and more for some claims.

    These are the last two betas with the released code's rate, large ones trained longer, and the
    other reading of the data.
    """
    text = dataclasses.replace(DATA, convention="text")
    return {
        "top": Part("beta", (*BETAS, *LARGER_BETAS), len(BETAS)),
        "bottom": Part("alpha", (*ALPHAS, *LARGER_ALPHAS), len(ALPHAS)),
        "twice": Part("beta", BETAS[-2:], 2, prior=GaussianMixture(scales=_TWICE)),
        "longer": Part("beta", LIMIT_BETAS, 0, steps=LONGER),
        "text": Part("beta", BETAS, len(BETAS), FEW, text),
    }


@dataclasses.dataclass(frozen=True)
class Part:
    """Networks with several values of one of the two weights."""

    name: Literal["alpha", "beta"]
    weights: tuple[float, ...]
    inside: int  # how many of them are the paper's
    seeds: Sequence[int] = ()  # by default those of the weight
    data: Pinwheel | None = None
    prior: GaussianMixture = PRIOR
    steps: int = 0

    @property
    def runs(self) -> list[list[Run]]:
        """The runs of every weight."""
        seeds, steps = self.seeds or SEEDS[self.name], self.steps or STEPS
        return [
            [_run(self.name, weight, seed, self.data or DATA, self.prior, steps) for seed in seeds]
            for weight in self.weights
        ]

    def row(self, found: dict[str, Network]) -> Row:
        """The row of these networks, from the results of all networks by their keys."""
        networks = [[found[run.digest] for run in runs] for runs in self.runs]
        names = [name for name in networks[0][0].facts if name != PICTURES]
        measures = {
            name: np.array([[network.facts[name] for network in row] for row in networks])
            for name in names
        }
        return Row(self.weights, self.inside, self.steps or STEPS, networks, measures)


def study() -> Study:
    """The networks of both figures, and what is measured of each."""
    runs = [run for part in _parts().values() for row in part.runs for run in row]
    return Study(
        "mathieu2019", "pinwheel", runs, _measured, pictured=_pictured, precision="fp32", lanes=400
    )


def _pictured(networks: Sequence[Network]) -> list[Network]:
    """The networks that the figure shows; of a weight that is not complete, all of them."""
    found = {network.key: network for network in networks if network.failure is None}
    kept = []
    for part in (_parts()["top"], _parts()["bottom"]):
        for runs in part.runs[: part.inside]:
            own = [found[run.digest] for run in runs if run.digest in found]
            kept += [middle(own)] if len(own) == len(runs) else own
    return kept


def _rows(workspace: Workspace) -> dict[str, Row]:
    """The rows of both figures, after training what is missing."""
    found = {network.key: network for network in results_of(workspace, study()).whole}
    return {name: part.row(found) for name, part in _parts().items()}


def _measured(model: FittedModel) -> Numbers:
    """Overlap of the encodings and match of q(z) to the prior of the paper, whatever its own is.

    The pictures are the means and standard deviations of all encodings, (N, 4).
    """
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
        PICTURES: packed(np.concatenate([codes, scales], 1)),
    }


def _noticed(top: Row, bottom: Row, twice: Row, other: Row) -> str:
    claims = (*beta_claims(other, "", DATA), top_right_claim(other, "", "", DATA))
    missed = [claim for claim in claims if claim.verdict != "pass"]
    return (
        "How many components the codes use with β alone depends on the seed: β = "
        f"{top.text('modes', BETAS)}; with α alone: α = {bottom.text('modes', ALPHAS)}; with the "
        f"released code's rate: β = {twice.text('modes', twice.weights)}. With large β nearly all "
        "encodings lie between the four components, KL(q ‖ p) = "
        f"{top.at('exclusive', top.weights[-1])}, although any single component would be closer: "
        f"{math.log(DATA.clusters):.3f}.\n\n"
        'With standard deviations as in the text, `Pinwheel(convention="text")`, and '
        f"{len(FEW)} seeds, the claims about β in the figure "
        + (
            "all pass."
            if not missed
            else "pass except for: "
            + "; ".join(
                f"{claim.statement.removesuffix(': ')} ({claim.verdict}: {claim.got})"
                for claim in missed
            )
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
            draw_density(axis, lines, _density(row.middle(weight), z))
            axis.contour(lines, lines, prior.reshape(SIDE, SIDE), _levels(prior),
                         colors=ORANGE, linewidths=0.8, linestyles=["--", "-"])  # fmt: skip
            axis.set_title(f"{letter} = {weight:g}")
            found = row.measures["inclusive"][row.weights.index(weight)]
            middle = np.sort(found)[(len(found) - 1) // 2]  # the network that is shown
            shown = f"KL {middle:.0f}" if middle > 10 else f"KL {middle:.2g}"
            axis.text(0.97, 0.03, shown, transform=axis.transAxes, ha="right", fontsize=7.5,
                      color=INK)  # fmt: skip
    for axis in axes[: 1 + len(BETAS)] + axes[2 + len(BETAS) :]:
        square(axis, REACH, 2)
    axes[1].set_ylabel("α = 0", fontweight="bold")
    axes[2 + len(BETAS)].set_ylabel("β = 0", fontweight="bold")
    return figure


def _density(network: Network, z: torch.Tensor) -> Values:
    """q(z) of the data at points (S, 2), with encodings at least as wide as a pixel."""
    mean, scales = torch.from_numpy(unpacked(network.facts[PICTURES], -1, 4)).split(2, 1)
    wide = DiagonalGaussian(mean, 0.5 * (scales.square() + (2 * REACH / SIDE) ** 2).log())
    found: Values = log_aggregate(network.run.latent, wide, z)[:, 0].exp().numpy()
    return found


def _levels(density: Values) -> list[float]:
    """Densities on a regular grid above which nine tenths and half of the mass lie."""
    ordered = np.sort(density)[::-1]
    held = np.cumsum(ordered) / ordered.sum()
    return [float(ordered[np.searchsorted(held, share)]) for share in (0.9, 0.5)]


def _observations(axis: Axes) -> None:
    dataset = DATA.load(torch.device("cpu"))
    index = torch.arange(dataset.size)
    x, cluster = dataset.images(index).numpy(), dataset.factors(index).numpy()[:, 0]
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
