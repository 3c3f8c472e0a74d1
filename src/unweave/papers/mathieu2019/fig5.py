"""[Mathieu2019] fig. 5: Student-t priors, and which priors see a rotation of the codes."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import torch

from unweave.core.noise import Noise
from unweave.core.optimisers import Adam
from unweave.data import Pinwheel
from unweave.evaluation.model import FittedModel
from unweave.latents import Gaussian, Sparse, StudentT
from unweave.likelihoods import Gaussian as GaussianLikelihood
from unweave.networks import MLP
from unweave.objectives import BetaVAE
from unweave.papers.mathieu2019.priors import draw_angles, on_grid, rotated_kl, turn
from unweave.studies.drawing import (
    BLUE,
    MUTED,
    ORANGE,
    Values,
    draw_density,
    lettered,
    panels,
    square,
)
from unweave.studies.intervals import redrawn
from unweave.studies.study import Study, results_of
from unweave.studies.workspace import Claim, Measured, Numbers, Result, Workspace, judged
from unweave.theory import Comparison, theorem_2
from unweave.training.run import Run

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Block = StudentT | Gaussian | Sparse
Priors = dict[str, Block]

FREEDOMS = (3.0, 5.0, 100.0)  # of the paper's panels
LONG = (1.6, 0.4)  # variances of a Gaussian that is not round, with a mean of 1
SEEDS = range(10)
STEPS, DRAWN = 500, 100_000
_SAME = 1e-9  # nats: what rounding leaves of no change


def student_priors(workspace: Workspace) -> Result:
    """Figure 5: densities of factored Student-t priors, and which priors a rotation changes."""
    students, others = _students(), _others()
    priors = _priors()
    moves = _turned(workspace)
    each = workspace.each("priors turned", list(priors.items()))
    apart = {name: rotated_kl(prior, math.pi / 4, DRAWN) for name, prior in each}
    limit = {df: from_normal(df) for df in (*FREEDOMS, 1000.0)}
    return Result(
        drawings={"": _draw(students, others, moves)},
        captions={
            "": "A to C: densities of two independent Student-t's, each on its own scale, with "
            "lines of equal density (orange) over the circles of radius 1 to 4 (dotted) that they "
            "would be if p(z) were round. D: KL from a prior to itself turned by an angle; that of "
            "N(0, I) is 0 throughout. E: KL from N(0, I). F: by how much the ELBO of trained "
            "models changes as their codes turn by 45°; dots are networks, bars their means."
        },
        claims=claims_of(priors, moves, apart, limit),
        setting=(
            f"Two columns; ν = {', '.join(f'{df:g}' for df in FREEDOMS)} as in the paper. Ours: D "
            f"to F, with a Gaussian of variances {LONG[0]:g} and {LONG[1]:g}, and the sparse prior "
            f"of sec. 6.3 (γ = 0.9, σ₀ = 0.05). KLs to a turned prior are means over {DRAWN:,} "
            "draws, their brackets two standard errors to either side; KL(N(0, I) ‖ p) is by "
            f"quadrature. Trained: {len(SEEDS)} VAEs on the pinwheel with each prior, scales of "
            f"0.1 for p(x|z) and {STEPS} steps; terms before and after the turn are by "
            "`unweave.theory.theorem_2`. Brackets of changes of the ELBO hold 95% of the means "
            "that come of drawing the seeds again."
        ),
        seeds=f"{SEEDS[0]} to {SEEDS[-1]} (networks), 0 (draws of priors)",
    )


def _students() -> dict[str, StudentT]:
    return {f"ν = {df:g}": StudentT(2, df=df) for df in FREEDOMS}


def _others() -> Priors:
    return {
        "isotropic": Gaussian(2),
        "anisotropic": Gaussian(2, variances=LONG),
        "sparse": Sparse(2, spike_weight=0.9),
    }


def _priors() -> Priors:
    return {**_students(), **_others()}


def from_normal(df: float) -> float:
    """KL(N(0, I) || p) of two Student-t's with a number of degrees of freedom, by quadrature."""
    zero = torch.zeros(2, dtype=torch.float64)
    return StudentT(2, df=df).kl(zero, zero + 1).sum().item()


def study() -> Study:
    """VAEs on the pinwheel with every prior, and what a rotation of their codes changes."""
    data = Pinwheel()
    runs = [_run(data, prior, seed) for prior in _priors().values() for seed in SEEDS]
    return Study("mathieu2019", "rotations", runs, _describe, precision="fp32", lanes=400)


def _describe(model: FittedModel) -> Numbers:
    return turned(theorem_2(model, 1.0, turn(math.pi / 4), noise=Noise(model.run.seed)))


def turned(both: Comparison) -> Numbers:
    """By how much the ELBO changes when the codes turn by 45°, and the terms that change."""
    return {"change": both.after["objective"] - both.before["objective"], "moved": both.moved()}


def _turned(workspace: Workspace) -> dict[str, list[Numbers]]:
    """What a rotation changes in the networks of each prior."""
    facts, count = results_of(workspace, study()).facts, len(SEEDS)
    return {name: facts[at * count :][:count] for at, name in enumerate(_priors())}


def _run(data: Pinwheel, prior: Block, seed: int) -> Run:
    return Run(
        data=data,
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
    moves: dict[str, list[Numbers]],
    apart: dict[str, Measured],
    limit: dict[float, float],
) -> tuple[Claim, ...]:
    """What section 6.1 states of priors, and what it makes of trained models."""
    changes = {name: redrawn(_changes(each)) for name, each in moves.items()}
    students = list(priors)[: len(FREEDOMS)]
    isotropic, long, *_ = list(priors)[len(FREEDOMS) :]
    excess = max(_excess(prior) for prior in priors.values())
    most = float(np.abs(_changes(moves[isotropic])).max())
    stays = sorted({name for each in moves[isotropic] for name in each["moved"]})
    return (
        judged(
            "p_ν(z) → N(z; 0, I) as ν → ∞",
            "fig. 5, sec. 6.1",
            "KL(N(0, I) ‖ p_ν) falls to 0",
            ", ".join(f"ν = {df:g}: {value:.2g}" for df, value in limit.items()),
            list(limit.values()) == sorted(limit.values(), reverse=True) and limit[1000.0] < 1e-5,
        ),
        judged(
            "An isotropic Gaussian is rotationally invariant, and so is the objective of the β-VAE",
            "sec. 6.1, theorem 2",
            "turned codes have the same ELBO, for every network",
            f"ELBO differs by at most {most:.1g}; what moves is {' and '.join(stays)}",
            "objective" not in stays and most < _SAME,
        ),
        judged(
            "Non-isotropic Gaussians help break that rotational invariance",
            "sec. 6.1",
            "KL to the turned prior above 0",
            f"variances {LONG[0]:g} and {LONG[1]:g}: {apart[long]}",
            apart[long].low > 0,
        ),
        judged(
            "So do products of Student-t's",
            "sec. 6.1",
            "KL to the turned prior above 0 for every ν, the less the larger ν is",
            "; ".join(f"{name}: {apart[name]}" for name in students),
            all(apart[name].low > 0 for name in students)
            and _apart_in_order([apart[name] for name in students]),
        ),
        judged(
            "(ours) Networks trained with these priors lose by a turn of their codes",
            "not in the paper",
            "the mean change of the ELBO is below 0, for each of these priors",
            "; ".join(f"{name}: {changes[name]}" for name in (long, *students)),
            all(changes[name].high < 0 for name in (long, *students)),
            "With Student-t priors, networks gain by a rotation about as often as they lose. These "
            f"priors are at most {apart[students[0]].value:.2f} nats from their rotated selves, "
            f"which has not aligned the codes with the axes in {STEPS} steps.",
            decisive=any(changes[name].low > 0 for name in (long, *students)),
        ),
        judged(
            "while preserving independence",
            "sec. 6.1",
            "log p(z) is the sum over columns",
            f"differs by at most {excess:.1g} at draws of each prior",
            excess < 1e-12,
        ),
    )


def _changes(facts: Sequence[Numbers]) -> Values:
    """By how much the ELBO of networks changes."""
    return np.array([each["change"] for each in facts])


def _apart_in_order(found: Sequence[Measured]) -> bool:
    """Whether values fall, each with an interval below the one before."""
    return all(after.high < before.low for before, after in itertools.pairwise(found))


def _excess(prior: Block) -> float:
    """The largest |log p(z) - sum_j log p(z_j)| at draws of a prior."""
    p = prior.density(torch.zeros(2, dtype=torch.float64))
    nodes = prior.log_nodes(p, p.rsample(Noise(0, 0, "excess"), (1000,)))
    return (nodes[:, 0] - nodes[:, 1:].sum(-1)).abs().max().item()


def _draw(
    students: dict[str, StudentT],
    others: Priors,
    moves: dict[str, list[Numbers]],
) -> Figure:
    figure, axes = panels(2, 3, width=2.8, height=2.6)
    lettered(axes, (*students, "Turned priors", "Far from N(0, I)", "Turned codes"))
    for axis, prior in zip(axes, students.values(), strict=False):
        draw_density(axis, *on_grid(prior, 4.5))
        _draw_lines(axis, prior)
        square(axis, 4.5, 4)
    drawn = {name: each for name, each in others.items() if name != "isotropic"}
    draw_angles(axes[3], {**students, **drawn}, DRAWN)
    freedoms = np.geomspace(1, 1000, 40)
    axes[4].loglog(freedoms, [from_normal(df) for df in freedoms.tolist()], color=BLUE)
    axes[4].loglog(FREEDOMS, [from_normal(df) for df in FREEDOMS], "o", color=BLUE, markersize=4)
    axes[4].set_xlabel("ν")
    axes[4].set_ylabel("KL(N(0, I) ‖ p), nats")
    changes = {name: _changes(each) for name, each in moves.items()}
    means = [values.mean() for values in changes.values()]
    axes[5].barh(list(moves), means, color=BLUE, height=0.6, alpha=0.45)
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
    """Lines of equal density through points of an axis, over circles through the same points."""
    lines, density = on_grid(prior, 4.5)
    radii = np.arange(1.0, 5.0)
    points = torch.from_numpy(np.stack([radii, 0 * radii], -1))
    levels = prior.density(torch.zeros(2, dtype=points.dtype)).log_prob(points).exp().numpy()
    axis.contour(lines, lines, density.reshape(len(lines), -1), levels[::-1], colors=ORANGE,
                 linewidths=1.0)  # fmt: skip
    angles = np.linspace(0, 2 * math.pi, 200)
    for radius in radii:
        axis.plot(radius * np.cos(angles), radius * np.sin(angles), color=MUTED, linewidth=0.7,
                  linestyle=":")  # fmt: skip
