"""Densities of priors on a grid, and the KL divergence of priors from their rotations."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from unweave.core.noise import Noise
from unweave.latents import FixedPriorBlock
from unweave.studies.drawing import COLOURS, DASHES, Values
from unweave.studies.intervals import two_sigma_interval
from unweave.studies.workspace import Measured

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def rotated_kl(prior: FixedPriorBlock, angle: float, draws: int) -> Measured:
    """Estimate KL(p(z) || p(R^T z)) of a prior of two columns and itself rotated by R, in nats.

    E_p[log p(z) - log p(R^T z)] over samples, with two standard errors to either side.
    """
    p = prior.density(torch.zeros(2, dtype=torch.float64))
    z = p.rsample(Noise(0, 0, "rotated"), (draws,))
    gaps = p.log_prob(z) - p.log_prob(z @ rotation(angle))
    return two_sigma_interval(gaps.mean().item(), gaps.std().item() / math.sqrt(draws))


def rotation(angle: float) -> Tensor:
    """Return the rotation of a plane by an angle, (2, 2)."""
    cosine, sine = math.cos(angle), math.sin(angle)
    return torch.tensor([[cosine, -sine], [sine, cosine]], dtype=torch.float64)


def density_on_grid(prior: FixedPriorBlock, edge: float) -> tuple[Values, Values]:
    """Return the lines of a square grid, and a density at its points, row by row."""
    lines = np.linspace(-edge, edge, 160)
    z = torch.from_numpy(np.stack(np.meshgrid(lines, lines), -1).reshape(-1, 2))
    density: Values = prior.density(torch.zeros(2, dtype=z.dtype)).log_prob(z).exp().numpy()
    return lines, density


def draw_angles(axis: Axes, priors: Mapping[str, FixedPriorBlock], draws: int) -> None:
    """Draw the KL from priors to themselves rotated over the angle, a line for each by its name."""
    degrees = np.arange(0, 91, 3)
    for colour, dashes, (name, prior) in zip(COLOURS, DASHES, priors.items(), strict=False):
        kls = [max(rotated_kl(prior, math.radians(angle), draws).value, 0.0) for angle in degrees]
        axis.plot(degrees, kls, color=colour, linestyle=dashes, label=name)
    axis.set_xticks([0, 15, 30, 45, 60, 75, 90])
    axis.set_xlabel("rotated by, degrees")
    axis.set_ylabel("KL, nats")
    axis.legend(loc="upper left", fontsize=7)
