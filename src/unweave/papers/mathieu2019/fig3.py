"""[Mathieu2019] fig. 3 and [Mathieu2018] fig. 2, the same ablation on the pinwheel.

The prior is a mixture of four Gaussians. Beta weights the rate and alpha KL(p(z) || q(z)); one of
them is varied at a time.
"""

import dataclasses
import math
from collections.abc import Mapping
from typing import Any, Literal, NotRequired

import numpy as np
import torch
from typing_extensions import TypedDict

from unweave.aggregate import log_aggregate
from unweave.data import Pinwheel
from unweave.evaluation.model import FittedModel
from unweave.latents import DiagonalGaussian, GaussianMixture
from unweave.metrics import (
    cluster_occupancy,
    mutual_information,
    overlapping_neighbours,
    prior_match,
)
from unweave.objectives import AlphaBetaVAE, BetaVAE
from unweave.papers.mathieu2019 import ablation
from unweave.papers.mathieu2019.ablation import PRIOR, Row
from unweave.papers.mathieu2019.priors import grid, prior_density
from unweave.presets.mathieu2019 import PINWHEEL_ALPHAS, PINWHEEL_BETAS, pinwheel
from unweave.studies.drawing import (
    BLUE,
    COLOURS,
    INK,
    MUTED,
    ORANGE,
    Axes,
    Figure,
    Values,
    draw_density,
    letter_panels,
    panels,
    square_panel,
)
from unweave.studies.forms import Packed
from unweave.studies.images import pack_array, unpack_array
from unweave.studies.study import PICTURES, Network, Results, Study
from unweave.studies.texts import Texts
from unweave.studies.workspace import Claim, Numbers, Result, Workspace
from unweave.training.records import Number
from unweave.training.run import Run

DATA = Pinwheel()
BETAS, ALPHAS = PINWHEEL_BETAS, PINWHEEL_ALPHAS  # [Mathieu2018] fig. 2
LARGER_BETAS, LARGER_ALPHAS = (2.0, 5.0), (20.0, 100.0)  # ours
LIMIT_BETAS = (5.0, 20.0)  # ours, trained for LONGER
MANY = range(40)  # seeds, for beta and for large alphas
FEW = range(10)  # for smaller alphas, where seeds differ less, and the other reading of the data
STEPS, LONGER, SAMPLES = 500, 2_000, 2_000
SIDE, EDGE = 160, 2.2  # points along an axis of a density, which goes from -EDGE to EDGE
_TWICE = math.sqrt(0.015)  # scales of the mixture p(z)^2 / F, whose components hardly overlap


def workshop_figure(workspace: Workspace, results: Results) -> Result:
    """[Mathieu2018] fig. 2, with weights beyond it for its claims about large weights."""
    rows, where = _rows(results), "fig. 2"
    top, bottom = rows["top"], rows["bottom"]
    claims = (
        *_figure_claims(rows, where),
        ablation.meaning_claim(bottom, bottom.own[-1:], f"{where}, bottom", DATA),
        *ablation.limit_claims(top, rows["longer"], bottom, where, DATA),
        ablation.meaning_claim(bottom, LARGER_ALPHAS, where, DATA),
    )
    return Texts(__package__, "pinwheel", "workshop").result(
        {"": _densities(top, bottom)}, claims, **_setting()
    )


def conference_figure(workspace: Workspace, results: Results) -> Result:
    """[Mathieu2019] fig. 3, with weights beyond it, the other reading of the data, and measures."""
    rows, where = _rows(results), "sec. 6.2, fig. 3"
    top, bottom, twice = (rows[name] for name in ("top", "bottom", "twice"))
    claims = (
        *_figure_claims(rows, where),
        ablation.modes_claim(bottom, bottom.own[-1:], f"{where}, bottom", DATA),
        *ablation.limit_claims(top, rows["longer"], bottom, where, DATA),
        ablation.modes_claim(bottom, LARGER_ALPHAS, where, DATA),
    )
    return Texts(__package__, "pinwheel", "fig3").result(
        {"": _densities(top, bottom), "measures": _measures(top, bottom)}, claims, **_setting(),
        top=top.text("modes", BETAS), bottom=bottom.text("modes", ALPHAS),
        twice=twice.text("modes", twice.weights), exclusive=top.at("exclusive", top.weights[-1]),
        nats=math.log(DATA.clusters), others=_other_reading(rows["text"]),
    )  # fmt: skip


def _figure_claims(rows: Mapping[str, Row], where: str) -> list[Claim]:
    """Judge the claims about the weights of the figure."""
    top, bottom = rows["top"], rows["bottom"]
    return [
        *ablation.beta_claims(top, where, DATA),
        ablation.top_right_claim(top, "with the rate as in the text", where, DATA),
        ablation.top_right_claim(rows["twice"], "with the rate of the released code", where, DATA),
        *ablation.alpha_claims(top, bottom, where, DATA),
    ]


def _other_reading(row: Row) -> str:
    """Say which claims about beta pass with the other reading of the data."""
    claims = (*ablation.beta_claims(row, "", DATA), ablation.top_right_claim(row, "", "", DATA))
    missed = [
        f"{claim.statement.removesuffix(': ')} ({claim.verdict}: {claim.got})"
        for claim in claims
        if claim.verdict != "pass"
    ]
    return f"pass except for: {'; '.join(missed)}." if missed else "all pass."


def _setting() -> dict[str, Any]:
    """Return what the texts of both figures say about the setting."""
    large = ablation.listed((ALPHAS[-1], *LARGER_ALPHAS))
    setting = Texts(__package__, "pinwheel")(
        "pinwheel", points=DATA.clusters * DATA.points_per_cluster, clusters=DATA.clusters,
        steps=STEPS, longer=LONGER, many=len(MANY), few=len(FEW), large=large,
        enough=DATA.clusters - 0.5, before=BETAS[-2], last=BETAS[-1], limit=LIMIT_BETAS[-1],
        first_limit=LIMIT_BETAS[0],
    )  # fmt: skip
    return {
        "pinwheel": setting,
        "larger": f"β of {ablation.listed(LARGER_BETAS)} and α of {ablation.listed(LARGER_ALPHAS)}",
        "few": len(FEW),
        "edge": EDGE,
        "seeds": f"{MANY[0]} to {MANY[-1]} (β, and α = {large}), {FEW[0]} to {FEW[-1]} (other α)",
    }


@dataclasses.dataclass(frozen=True)
class Part:
    """Networks with several values of one of the two weights."""

    name: Literal["alpha", "beta"]
    weights: tuple[float, ...]
    inside: int  # how many of them are the paper's
    data: Pinwheel | None = None  # by default DATA, with more seeds
    prior: GaussianMixture = PRIOR
    steps: int = 0  # by default STEPS

    @property
    def runs(self) -> list[list[Run]]:
        """The runs of every weight."""
        return [self._runs(weight) for weight in self.weights]

    def _runs(self, weight: float) -> list[Run]:
        few = self.data is not None or (self.name == "alpha" and weight < ALPHAS[-1])
        data, beta = self.data or DATA, self.name == "beta"
        run = dataclasses.replace(
            pinwheel(BetaVAE(beta=weight) if beta else AlphaBetaVAE(alpha=weight, beta=0.0)),
            data=data,
            latent=self.prior,
            batch_size=data.clusters * data.points_per_cluster,
            steps=self.steps or STEPS,
        )
        return [dataclasses.replace(run, seed=seed) for seed in (FEW if few else MANY)]

    def row(self, found: dict[str, Network]) -> Row:
        """Return the row of these networks, from all networks by their keys."""
        networks = [[found[run.digest] for run in runs] for runs in self.runs]
        names = [name for name in networks[0][0].facts if name != PICTURES]
        measures = {
            name: [np.array([network.facts[name] for network in row]) for row in networks]
            for name in names
        }
        return Row(self.weights, self.inside, self.steps or STEPS, networks, measures)


def _parts() -> dict[str, Part]:
    """Return the networks of both figures: their rows with more weights, and three more rows.

    These are the last two betas with the released code's rate, large ones trained longer, and the
    other reading of the data.
    """
    text = dataclasses.replace(DATA, convention="text")
    return {
        "top": Part("beta", (*BETAS, *LARGER_BETAS), len(BETAS)),
        "bottom": Part("alpha", (*ALPHAS, *LARGER_ALPHAS), len(ALPHAS)),
        "twice": Part("beta", BETAS[-2:], 2, prior=GaussianMixture(scales=_TWICE)),
        "longer": Part("beta", LIMIT_BETAS, 0, steps=LONGER),
        "text": Part("beta", BETAS, len(BETAS), text),
    }


def study() -> Study:
    """Return the study with the networks of both figures."""
    runs = {run.digest: run for part in _parts().values() for row in part.runs for run in row}
    return Study(
        "mathieu2019",
        "pinwheel",
        list(runs.values()),
        _describe,
        pictured=_pictured,
        precision="fp32",
        lanes=400,
        form=_Facts,
    )


def _pictured(results: Results) -> list[Network]:
    """Return the networks that the figure shows; all networks of an incomplete weight."""
    found = {network.key: network for network in results.networks if network.failure is None}
    kept = []
    for part in (_parts()["top"], _parts()["bottom"]):
        for runs in part.runs[: part.inside]:
            own = [found[run.digest] for run in runs if run.digest in found]
            shared = min(map(len, part.runs))
            kept += [ablation.middle(own[:shared])] if len(own) == len(runs) else own
    return kept


def _rows(results: Results) -> dict[str, Row]:
    found = {network.key: network for network in results.all_networks}
    return {name: part.row(found) for name, part in _parts().items()}


class _Facts(TypedDict):
    """The form of the facts of a network."""

    neighbours: Number
    variance: Number
    information: Number
    inclusive: Number
    exclusive: Number
    modes: Number
    pictures: NotRequired[Packed]


def _describe(model: FittedModel) -> Numbers:
    """Measure the overlap of the encodings, and the match of q(z) to the prior of the paper.

    The pictures are the means and standard deviations of all encodings, (N, 4).
    """
    codes, scales = model.posterior(model.observations(model.rows()))
    match = prior_match(codes, scales, prior=PRIOR, samples=SAMPLES, points=2)
    modes = cluster_occupancy(codes, PRIOR.centres, PRIOR.scales)
    return {
        "neighbours": overlapping_neighbours(codes, scales).value,
        "variance": float(np.square(scales).mean()),
        "information": mutual_information(codes, scales, samples=SAMPLES).value,
        "inclusive": match["inclusive_kl/exact"].value,
        "exclusive": match["exclusive_kl/exact"].value,
        "modes": math.exp(modes.value),
        PICTURES: pack_array(np.concatenate([codes, scales], 1)),
    }


def _densities(top: Row, bottom: Row) -> Figure:
    figure, axes = panels(2, 1 + len(BETAS), width=1.75, height=1.85)
    lines, z = grid(EDGE, SIDE)
    prior: Values = prior_density(PRIOR).log_prob(z).exp().numpy()
    draw_density(axes[0], lines, prior)
    axes[0].set_title("prior p(z)")
    _draw_observations(axes[1 + len(BETAS)])
    for start, row, letter in ((1, top, "β"), (2 + len(BETAS), bottom, "α")):
        for axis, weight in zip(axes[start:], row.own, strict=False):
            draw_density(axis, lines, _density(row.middle(weight), z))
            axis.contour(lines, lines, prior.reshape(SIDE, SIDE), _levels(prior),
                         colors=ORANGE, linewidths=0.8, linestyles=["--", "-"])  # fmt: skip
            axis.set_title(f"{letter} = {weight:g}")
            kl = row.middle(weight).facts["inclusive"]
            text = f"KL {kl:.0f}" if kl > 10 else f"KL {kl:.2g}"
            axis.text(0.97, 0.03, text, transform=axis.transAxes, ha="right", fontsize=7.5,
                      color=INK)  # fmt: skip
    for axis in axes[: 1 + len(BETAS)] + axes[2 + len(BETAS) :]:
        square_panel(axis, EDGE, 2)
    axes[1].set_ylabel("α = 0", fontweight="bold")
    axes[2 + len(BETAS)].set_ylabel("β = 0", fontweight="bold")
    return figure


def _density(network: Network, z: torch.Tensor) -> Values:
    """Return q(z) of the data at points (S, 2), with encodings at least as wide as a pixel."""
    mean, scales = torch.from_numpy(unpack_array(network.facts[PICTURES], -1, 4)).split(2, 1)
    wide = DiagonalGaussian(mean, 0.5 * (scales.square() + (2 * EDGE / SIDE) ** 2).log())
    return log_aggregate(network.run.latent, wide, z)[:, 0].exp().numpy()


def _levels(density: Values) -> list[float]:
    """Return the densities on a regular grid above which nine tenths and half of the mass lie."""
    ordered = np.sort(density)[::-1]
    mass = np.cumsum(ordered) / ordered.sum()
    return [float(ordered[np.searchsorted(mass, share)]) for share in (0.9, 0.5)]


def _draw_observations(axis: Axes) -> None:
    dataset = DATA.load(torch.device("cpu"))
    index = torch.arange(dataset.size)
    x, cluster = dataset.images(index).numpy(), dataset.factors(index).numpy()[:, 0]
    for number, colour in zip(range(DATA.clusters), COLOURS, strict=False):
        chosen = x[cluster == number]
        axis.plot(chosen[:, 0], chosen[:, 1], "o", color=colour, markersize=1.3, alpha=0.8)
    axis.set_title("observations x")
    square_panel(axis, float(np.abs(x).max()) * 1.08, 2)


def _measures(top: Row, bottom: Row) -> Figure:
    figure, axes = panels(2, 3, width=3.1, height=2.3)
    letter_panels(axes, ("Overlap by β", "Information by β", "Match by β",
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
            axis.set(xlabel=letter, ylabel=label)
            if len(lines) > 1:
                axis.set_ylim(top=1.1 * max(lines.values()))  # room for the highest label
        own[0].set_yscale("log")
        own[2].set_yscale("log")
        own[2].legend(loc="upper right" if row is top else "lower left")
    return figure


def _draw_measure(axis: Axes, row: Row, name: str, colour: str, dashes: str, label: str) -> None:
    values = row.measures[name]
    axis.plot([some.mean() for some in values], color=colour, linestyle=dashes, label=label or None)
    for number, some in enumerate(values):
        axis.plot([number] * len(some), some, "o", color=colour, markersize=3, alpha=0.6,
                  markerfacecolor=colour if number < row.inside else "white")  # fmt: skip
