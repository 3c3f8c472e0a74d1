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
from unweave.papers.mathieu2019.priors import density_on_grid, draw_angles, rotated_kl
from unweave.studies.drawing import (
    BLUE,
    DASHES,
    ORANGE,
    draw_density,
    letter_panels,
    panels,
    square_panel,
)
from unweave.studies.texts import Texts
from unweave.studies.workspace import Result, Workspace

if TYPE_CHECKING:
    from matplotlib.figure import Figure

DRAWN = 100_000
CORNERS = ((0.0, 0.0), (0.0, 1.0), (1.0, 0.0), (1.0, 1.0))


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
    return texts.result({"": _draw(priors)}, claims, drawn=DRAWN)


def dependence(prior: GaussianMixture) -> float:
    """Return the total correlation sum_j H(z_j) - H(z) of two columns, by quadrature."""
    columns = [
        dataclasses.replace(prior, centres=tuple((centre[j],) for centre in prior.centres))
        for j in range(2)
    ]
    return sum(column.entropy() for column in columns) - prior.entropy()


def _shares(prior: GaussianMixture) -> list[float]:
    z = prior.density(torch.zeros(2, dtype=torch.float64)).rsample(Noise(0, 0, "shares"), (DRAWN,))
    return list(cluster_occupancy(z.numpy(), prior.centres, prior.scales).parts.values())


def _draw(priors: dict[str, GaussianMixture]) -> Figure:
    figure, axes = panels(1, 4, width=2.6, height=2.5)
    letter_panels(axes, ("As released", "As printed", "A column given the other", "Rotated priors"))
    lines = np.linspace(-2, 2, 400)
    for axis, prior in zip(axes, priors.values(), strict=False):
        draw_density(axis, *density_on_grid(prior, 2.0))
        square_panel(axis, 2.0, 1)
        axis.set(xlabel="z₁", ylabel="z₂")
    zero = torch.zeros(2, dtype=torch.float64)
    for dashes, (name, prior) in zip(DASHES, priors.items(), strict=False):
        for colour, other in ((BLUE, 0.0), (ORANGE, 1.0)):
            z = torch.from_numpy(np.stack([lines, np.full_like(lines, other)], -1))
            density = prior.density(zero).log_prob(z).exp().numpy()
            axes[2].plot(lines, density / (density.sum() * (lines[1] - lines[0])), color=colour,
                         linestyle=dashes, label=f"{name}, z₂ = {other:g}")  # fmt: skip
    axes[2].set(xlabel="z₁", ylabel="p(z₁ | z₂)", ylim=(-0.1, 4.2))
    axes[2].legend(loc="upper left", fontsize=7)
    draw_angles(axes[3], priors, DRAWN)
    return figure
