"""[Mathieu2019] fig. 5 and 6: Student-t and mixture priors, and which change under a rotation."""

import dataclasses
import itertools
import math
from collections.abc import Mapping, Sequence

import numpy as np
import torch
from torch import Tensor
from typing_extensions import TypedDict

from unweave.core.noise import Noise
from unweave.core.optimisers import Adam
from unweave.data import Pinwheel
from unweave.evaluation.model import FittedModel
from unweave.latents import (
    Distribution,
    FixedPriorBlock,
    Gaussian,
    GaussianMixture,
    Sparse,
    StudentT,
)
from unweave.likelihoods import Gaussian as GaussianLikelihood
from unweave.metrics import cluster_occupancy
from unweave.networks import MLP
from unweave.objectives import BetaVAE
from unweave.studies.drawing import (
    BLUE,
    COLOURS,
    DASHES,
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
from unweave.studies.forms import Word
from unweave.studies.intervals import mean_over_networks, two_sigma_interval
from unweave.studies.study import Results, Study
from unweave.studies.texts import Texts
from unweave.studies.workspace import Claim, Measured, Numbers, Result, Workspace
from unweave.theory import BeforeAfter, theorem_2
from unweave.training.records import Number
from unweave.training.run import Run

Block = StudentT | Gaussian | Sparse
Priors = dict[str, Block]

FREEDOMS = (3.0, 5.0, 100.0)  # of the paper's panels
LONG = (1.6, 0.4)  # variances of a Gaussian that is not round, with a mean of 1
SEEDS = range(10)
STEPS, DRAWN = 500, 100_000
STUDENTS = {f"ν = {df:g}": StudentT(2, df=df) for df in FREEDOMS}
PRIORS: Priors = {
    **STUDENTS,
    "isotropic": Gaussian(2),
    "anisotropic": Gaussian(2, variances=LONG),
    "sparse": Sparse(2, spike_weight=0.9),
}
_SAME = 1e-9  # nats of change that are rounding errors
_TEXTS = Texts(__package__, "fig5")
CORNERS = ((0.0, 0.0), (0.0, 1.0), (1.0, 0.0), (1.0, 1.0))


def prior_density(prior: FixedPriorBlock) -> Distribution:
    """Return p(z) of two columns in float64."""
    return prior.density(torch.zeros(2, dtype=torch.float64))


def rotated_kl(prior: FixedPriorBlock, angle: float, draws: int) -> Measured:
    """Estimate KL(p(z) || p(R^T z)) of a prior of two columns and itself rotated by R, in nats.

    E_p[log p(z) - log p(R^T z)] over samples, with two standard errors to either side.
    """
    p = prior_density(prior)
    z = p.rsample(Noise(0, 0, "rotated"), (draws,))
    gaps = p.log_prob(z) - p.log_prob(z @ rotation(angle))
    return two_sigma_interval(gaps.mean().item(), gaps.std().item() / math.sqrt(draws))


def rotation(angle: float) -> Tensor:
    """Return the rotation of a plane by an angle, (2, 2)."""
    cosine, sine = math.cos(angle), math.sin(angle)
    return torch.tensor([[cosine, -sine], [sine, cosine]], dtype=torch.float64)


def grid(edge: float, side: int) -> tuple[Values, Tensor]:
    """Return the lines of a square grid, and its points row by row, (side * side, 2)."""
    lines = np.linspace(-edge, edge, side)
    return lines, torch.from_numpy(np.stack(np.meshgrid(lines, lines), -1).reshape(-1, 2))


def density_on_grid(prior: FixedPriorBlock, edge: float) -> tuple[Values, Values]:
    """Return the lines of a square grid, and a density at its points, row by row."""
    lines, z = grid(edge, 160)
    density: Values = prior_density(prior).log_prob(z).exp().numpy()
    return lines, density


def draw_angles(axis: Axes, priors: Mapping[str, FixedPriorBlock], draws: int) -> None:
    """Draw the KL from priors to themselves rotated over the angle, a line for each by its name."""
    degrees = np.arange(0, 91, 3)
    for colour, dashes, (name, prior) in zip(COLOURS, DASHES, priors.items(), strict=False):
        kls = [max(rotated_kl(prior, math.radians(angle), draws).value, 0.0) for angle in degrees]
        axis.plot(degrees, kls, color=colour, linestyle=dashes, label=name)
    axis.set_xticks([0, 15, 30, 45, 60, 75, 90])
    axis.set(xlabel="rotated by, degrees", ylabel="KL, nats")
    axis.legend(loc="upper left", fontsize=7)


def student_priors(workspace: Workspace, results: Results) -> Result:
    """Figure 5: densities of factored Student-t priors, and which priors a rotation changes."""
    count = len(SEEDS)
    changes = {name: results.facts[at * count :][:count] for at, name in enumerate(PRIORS)}
    each = workspace.each("priors rotated", list(PRIORS.items()))
    kls = {name: rotated_kl(prior, math.pi / 4, DRAWN) for name, prior in each}
    limit = {df: kl_from_normal(df) for df in (*FREEDOMS, 1000.0)}
    return _TEXTS.result(
        {"": _draw_students(changes)}, claims_of(PRIORS, changes, kls, limit),
        freedoms=", ".join(f"{df:g}" for df in FREEDOMS), long=LONG, drawn=DRAWN, seeds_each=count,
        steps=STEPS, seeds=f"{SEEDS[0]} to {SEEDS[-1]}",
    )  # fmt: skip


def kl_from_normal(df: float) -> float:
    """Return KL(N(0, I) || p) of two Student-t's with `df` degrees of freedom, by quadrature."""
    zero = torch.zeros(2, dtype=torch.float64)
    return StudentT(2, df=df).kl(zero, zero + 1).sum().item()


def study() -> Study:
    """Return the study: VAEs on the pinwheel with every prior, whose codes are rotated."""
    runs = [_run(prior, seed) for prior in PRIORS.values() for seed in SEEDS]
    return Study("mathieu2019", "rotations", runs, _describe, precision="fp32", lanes=400,
                 form=_Facts)  # fmt: skip


class _Facts(TypedDict):
    """The form of the facts of a network."""

    change: Number
    moved: list[Word]


def _describe(model: FittedModel) -> Numbers:
    """Return by how much the ELBO changes when the codes are rotated by 45°, and what changes."""
    return changes_of(theorem_2(model, 1.0, rotation(math.pi / 4), noise=Noise(model.run.seed)))


def changes_of(both: BeforeAfter) -> Numbers:
    """Return by how much the ELBO changes, and the terms that change."""
    return {"change": both.after["objective"] - both.before["objective"], "moved": both.moved()}


def _run(prior: Block, seed: int) -> Run:
    return Run(
        data=Pinwheel(),
        latent=prior,
        network=MLP(hidden=(100,)),
        likelihood=GaussianLikelihood(scale=0.1),
        objective=BetaVAE(beta=1.0),
        optimiser=Adam(lr=1e-3),
        batch_size=400,
        steps=STEPS,
        seed=seed,
    )


def claims_of(
    priors: Priors,
    changes: dict[str, list[Numbers]],
    kls: dict[str, Measured],
    limit: dict[float, float],
) -> tuple[Claim, ...]:
    """Judge what section 6.1 states about priors, and what follows for trained models."""
    means = {name: mean_over_networks(_changes(each)) for name, each in changes.items()}
    students = list(priors)[: len(FREEDOMS)]
    isotropic, long, *_ = list(priors)[len(FREEDOMS) :]
    others = (long, *students)
    excess = max(_excess(prior) for prior in priors.values())
    most = float(np.abs(_changes(changes[isotropic])).max())
    moved = sorted({name for each in changes[isotropic] for name in each["moved"]})
    falls = list(limit.values()) == sorted(limit.values(), reverse=True)
    return (
        _TEXTS.claim("limit", falls and limit[1000.0] < 1e-5,
                     values=", ".join(f"ν = {df:g}: {value:.2g}" for df, value in limit.items())),
        _TEXTS.claim("isotropic", "objective" not in moved and most < _SAME, most=most,
                     changed=" and ".join(moved)),
        _TEXTS.claim("anisotropic", kls[long].low > 0, long=LONG, kl=kls[long]),
        _TEXTS.claim("student", all(kls[name].low > 0 for name in students)
                     and _fall_apart([kls[name] for name in students]),
                     values="; ".join(f"{name}: {kls[name]}" for name in students)),
        _TEXTS.claim("trained", all(means[name].high < 0 for name in others),
                     contradicted=any(means[name].low > 0 for name in others),
                     values="; ".join(f"{name}: {means[name]}" for name in others),
                     kl=kls[students[0]].value, steps=STEPS),
        _TEXTS.claim("independence", excess < 1e-12, excess=excess),
    )  # fmt: skip


def _changes(facts: Sequence[Numbers]) -> Values:
    """Return by how much the ELBO of networks changes."""
    return np.array([each["change"] for each in facts])


def _fall_apart(values: Sequence[Measured]) -> bool:
    """Return whether values fall, each with an interval below the one before."""
    return all(after.high < before.low for before, after in itertools.pairwise(values))


def _excess(prior: Block) -> float:
    """Return the largest |log p(z) - sum_j log p(z_j)| at samples of a prior."""
    p = prior_density(prior)
    nodes = prior.log_nodes(p, p.rsample(Noise(0, 0, "excess"), (1000,)))
    return (nodes[:, 0] - nodes[:, 1:].sum(-1)).abs().max().item()


def _draw_students(facts: dict[str, list[Numbers]]) -> Figure:
    figure, axes = panels(2, 3, width=2.8, height=2.6)
    letter_panels(axes, (*STUDENTS, "Rotated priors", "Far from N(0, I)", "Rotated codes"))
    for axis, prior in zip(axes, STUDENTS.values(), strict=False):
        draw_density(axis, *density_on_grid(prior, 4.5))
        _draw_lines(axis, prior)
        square_panel(axis, 4.5, 4)
    rotated = {name: each for name, each in PRIORS.items() if name != "isotropic"}
    draw_angles(axes[3], rotated, DRAWN)
    freedoms = np.geomspace(1, 1000, 40)
    axes[4].loglog(freedoms, [kl_from_normal(df) for df in freedoms.tolist()], color=BLUE)
    axes[4].loglog(FREEDOMS, [kl_from_normal(df) for df in FREEDOMS], "o", color=BLUE, markersize=4)
    axes[4].set(xlabel="ν", ylabel="KL(N(0, I) ‖ p), nats")
    changes = {name: _changes(each) for name, each in facts.items()}
    means = [values.mean() for values in changes.values()]
    axes[5].barh(list(changes), means, color=BLUE, height=0.6, alpha=0.45)
    for row, values in enumerate(changes.values()):
        axes[5].plot(values, [row] * len(values), "o", color=BLUE, markersize=2.5)
        text = f"{means[row]:+.2g}" if np.abs(values).max() > _SAME else "0"
        axes[5].text(1.02, row, text, ha="left", va="center", fontsize=8,
                     transform=axes[5].get_yaxis_transform())  # fmt: skip
    axes[5].invert_yaxis()
    axes[5].set_xlabel("change of the ELBO, nats")
    axes[5].grid(axis="y", visible=False)
    return figure


def _draw_lines(axis: Axes, prior: StudentT) -> None:
    """Draw lines of equal density through points of an axis, over circles through these points."""
    lines, density = density_on_grid(prior, 4.5)
    radii = np.arange(1.0, 5.0)
    points = torch.from_numpy(np.stack([radii, 0 * radii], -1))
    levels = prior_density(prior).log_prob(points).exp().numpy()
    axis.contour(lines, lines, density.reshape(len(lines), -1), levels[::-1], colors=ORANGE,
                 linewidths=1.0)  # fmt: skip
    angles = np.linspace(0, 2 * math.pi, 200)
    for radius in radii:
        axis.plot(radius * np.cos(angles), radius * np.sin(angles), color=MUTED, linewidth=0.7,
                  linestyle=":")  # fmt: skip


def mixture_prior(workspace: Workspace) -> Result:
    """Figure 6: the density of the mixture prior, with the code's centres and with the text's."""
    priors = {"as released": GaussianMixture(), "as printed": GaussianMixture(centres=CORNERS)}
    texts = Texts(__package__, "fig6")
    shares = {name: _shares(prior) for name, prior in priors.items()}
    uneven = max(abs(share - 0.25) for each in shares.values() for share in each)
    released, printed = (abs(dependence(prior)) for prior in priors.values())
    quarter, moved = (rotated_kl(prior, math.pi / 2, DRAWN) for prior in priors.values())
    listed = {name: ", ".join(f"{share:.3f}" for share in each) for name, each in shares.items()}
    claims = (
        texts.claim("weights", all(len(each) == 4 for each in shares.values()) and uneven < 0.01,
                    shares="; ".join(f"{name}: {text}" for name, text in listed.items())),
        texts.claim("centres"),
        texts.claim("dependence", released > 0.5 and printed < 1e-3, released=released,
                    printed=printed),
        texts.claim("quarter", abs(quarter.value) < 1e-9 and moved.low > 0,
                    released=abs(quarter.value), printed=moved),
    )  # fmt: skip
    return texts.result({"": _draw_mixtures(priors)}, claims, drawn=DRAWN)


def dependence(prior: GaussianMixture) -> float:
    """Return the total correlation sum_j H(z_j) - H(z) of two columns, by quadrature."""
    columns = [
        dataclasses.replace(prior, centres=tuple((centre[j],) for centre in prior.centres))
        for j in range(2)
    ]
    return sum(column.entropy() for column in columns) - prior.entropy()


def _shares(prior: GaussianMixture) -> list[float]:
    z = prior_density(prior).rsample(Noise(0, 0, "shares"), (DRAWN,))
    return list(cluster_occupancy(z.numpy(), prior.centres, prior.scales).parts.values())


def _draw_mixtures(priors: dict[str, GaussianMixture]) -> Figure:
    figure, axes = panels(1, 4, width=2.6, height=2.5)
    letter_panels(axes, ("As released", "As printed", "A column given the other", "Rotated priors"))
    lines = np.linspace(-2, 2, 400)
    for axis, prior in zip(axes, priors.values(), strict=False):
        draw_density(axis, *density_on_grid(prior, 2.0))
        square_panel(axis, 2.0, 1)
        axis.set(xlabel="z₁", ylabel="z₂")
    for dashes, (name, prior) in zip(DASHES, priors.items(), strict=False):
        for colour, other in ((BLUE, 0.0), (ORANGE, 1.0)):
            z = torch.from_numpy(np.stack([lines, np.full_like(lines, other)], -1))
            density = prior_density(prior).log_prob(z).exp().numpy()
            axes[2].plot(lines, density / (density.sum() * (lines[1] - lines[0])), color=colour,
                         linestyle=dashes, label=f"{name}, z₂ = {other:g}")  # fmt: skip
    axes[2].set(xlabel="z₁", ylabel="p(z₁ | z₂)", ylim=(-0.1, 4.2))
    axes[2].legend(loc="upper left", fontsize=7)
    draw_angles(axes[3], priors, DRAWN)
    return figure
