"""[Mathieu2019] fig. 6: the mixture prior, with the centres of the code and of the text."""

from __future__ import annotations

import dataclasses
import math
from typing import TYPE_CHECKING

import numpy as np
import torch

from unweave.core.noise import Noise
from unweave.latents import GaussianMixture
from unweave.metrics import cluster_occupancy
from unweave.papers.mathieu2019.priors import draw_angles, on_grid, rotated_kl
from unweave.studies.drawing import BLUE, DASHES, ORANGE, draw_density, lettered, panels, square
from unweave.studies.workspace import Claim, Result, Workspace, judged

if TYPE_CHECKING:
    from matplotlib.figure import Figure

DRAWN = 100_000
CORNERS = ((0.0, 0.0), (0.0, 1.0), (1.0, 0.0), (1.0, 1.0))


def mixture_prior(workspace: Workspace) -> Result:
    """Figure 6: the density of the mixture prior, with the code's centres and with the text's."""
    priors = {"as released": GaussianMixture(), "as printed": GaussianMixture(centres=CORNERS)}
    shares = {name: _shares(prior) for name, prior in priors.items()}
    excess = {name: dependence(prior) for name, prior in priors.items()}
    return Result(
        drawings={"": _draw(priors)},
        captions={
            "": "A: the prior with the centres of the released code. B: with those of the text, "
            "the corners of a square. C: the density of one column given the other; as printed "
            "(dashes) it does not depend on it. D: KL from a prior to itself turned by an angle."
        },
        claims=_claims(priors, shares, excess),
        setting=(
            "`GaussianMixture()`: four components of variance 0.03 and weight 1/4. Shares are of "
            f"{DRAWN:,} draws, integrals by quadrature; brackets are two standard errors of a mean "
            "over draws to either side."
        ),
        seeds="0 (draws)",
    )


def dependence(prior: GaussianMixture) -> float:
    """The total correlation sum_j H(z_j) - H(z) of a mixture of two columns, by quadrature."""
    columns = [
        dataclasses.replace(prior, centres=tuple((centre[j],) for centre in prior.centres))
        for j in range(2)
    ]
    return sum(column.entropy() for column in columns) - prior.entropy()


def _claims(
    priors: dict[str, GaussianMixture],
    shares: dict[str, list[float]],
    excess: dict[str, float],
) -> tuple[Claim, ...]:
    spread = max(abs(share - 0.25) for some in shares.values() for share in some)
    released, printed = priors
    quarter = {name: rotated_kl(prior, math.pi / 2, DRAWN) for name, prior in priors.items()}
    return (
        judged(
            "A mixture of four equally-weighted Gaussians",
            "sec. 6.2, fig. 6",
            "draws fall to four components alike",
            "; ".join(
                f"{name}: {', '.join(f'{share:.3f}' for share in some)}"
                for name, some in shares.items()
            ),
            all(len(some) == 4 for some in shares.values()) and spread < 0.01,
        ),
        Claim(
            "μ_c ∈ {0, 1} in each dimension",
            "app. B, eq. 9",
            "the corners of the unit square",
            "the released code has (0, -1), (0, 1), (1, 0), (-1, 0)",
            "not comparable",
            "Text and code differ, and which of them the figure shows cannot be told from the "
            "text. `GaussianMixture()` follows the code.",
        ),
        judged(
            "(ours) Clusters as released need dependent latents, clusters as printed do not",
            "not in the paper",
            "total correlations of the priors: about log 2 = 0.693, and 0",
            f"{excess[released]:.3f} and {abs(excess[printed]):.3f} nats",
            excess[released] > 0.5 and abs(excess[printed]) < 1e-3,
        ),
        judged(
            "(ours) A quarter turn leaves the prior as released, and not as printed",
            "not in the paper",
            "KL to the prior turned by 90° is 0, and above 0",
            f"{abs(quarter[released].value):.2g}, and {quarter[printed]}",
            abs(quarter[released].value) < 1e-9 and quarter[printed].low > 0,
        ),
    )


def _shares(prior: GaussianMixture) -> list[float]:
    z = prior.density(torch.zeros(2, dtype=torch.float64)).rsample(Noise(0, 0, "shares"), (DRAWN,))
    return list(cluster_occupancy(z.numpy(), prior.centres, prior.scales).parts.values())


def _draw(priors: dict[str, GaussianMixture]) -> Figure:
    figure, axes = panels(1, 4, width=2.6, height=2.5)
    lettered(axes, ("As released", "As printed", "A column given the other", "Turned priors"))
    lines = np.linspace(-2, 2, 400)
    for axis, prior in zip(axes, priors.values(), strict=False):
        draw_density(axis, *on_grid(prior, 2.0))
        square(axis, 2.0, 1)
        axis.set_xlabel("z₁")
        axis.set_ylabel("z₂")
    zero = torch.zeros(2, dtype=torch.float64)
    for dashes, (name, prior) in zip(DASHES, priors.items(), strict=False):
        for colour, other in ((BLUE, 0.0), (ORANGE, 1.0)):
            z = torch.from_numpy(np.stack([lines, np.full_like(lines, other)], -1))
            found = prior.density(zero).log_prob(z).exp().numpy()
            axes[2].plot(lines, found / (found.sum() * (lines[1] - lines[0])), color=colour,
                         linestyle=dashes, label=f"{name}, z₂ = {other:g}")  # fmt: skip
    axes[2].set_xlabel("z₁")
    axes[2].set_ylabel("p(z₁ | z₂)")
    axes[2].set_ylim(-0.1, 4.2)
    axes[2].legend(loc="upper left", fontsize=7)
    draw_angles(axes[3], priors, DRAWN)
    return figure
