"""Figures 16 and 17 of [Kim2018]: how both metrics depend on their own settings."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch

from unweave.evaluation.model import chosen_rows
from unweave.metrics import beta_vae_score, factor_vae_score
from unweave.metrics.studies import Sensitivity, sensitivity
from unweave.papers.kim2018.shapes2d import CODES, STUDY
from unweave.studies.drawing import COLOURS, DASHES, Values, lettered, panels
from unweave.studies.images import unpacked
from unweave.studies.intervals import redrawn
from unweave.studies.study import Incomplete, Network, results_of
from unweave.studies.workspace import Claim, Result, Workspace, judged

if TYPE_CHECKING:
    from matplotlib.axes import Axes

HIGGINS_GRID = {"pairs": (50, 100, 200), "steps": (1_000, 3_000, 10_000)}
KIM_GRID = {"batch": (25, 50, 100, 200), "votes": (200, 400, 800)}
SEEDS = tuple(range(10))
BETA = 4.0  # of the network whose codes are scored: the paper's is "randomly chosen"


def fig16(workspace: Workspace) -> Result:
    """Figures 16 and 17, on the codes of one beta-VAE of the study."""
    networks = results_of(workspace, STUDY).of("beta-vae").get(BETA, [])
    network = next((each for each in networks if CODES in each.facts), None)
    if network is None:
        raise Incomplete(f"the network with β = {BETA:g} and seed 0 is not trained yet")
    codes, factors = codes_of(network)
    older = sensitivity(beta_vae_score, codes, factors, HIGGINS_GRID, seeds=SEEDS)
    newer = sensitivity(factor_vae_score, codes, factors, KIM_GRID, seeds=SEEDS)
    figure, axes = panels(1, 2, width=3.6, height=2.6)
    _draw(axes[0], older, "iterations of Adagrad")
    _draw(axes[1], newer, "votes")
    lettered(axes, ("Higgins et al.", "Kim & Mnih"))
    axes[0].set_ylabel("score")
    return Result(
        drawings={"": figure},
        captions={
            "": "Mean and standard deviation over ten seeds of the metric, on the codes of one "
            "network. A: by the number of iterations and of pairs L (figure 16). B: by the number "
            "of votes and the batch L of each (figure 17)."
        },
        claims=claims_of(older, newer),
        setting=(
            f"The codes of 10,000 observations, kept in half precision, by the β-VAE with β = "
            f"{BETA:g} and seed {network.run.seed} of the study of figure 4."
        ),
        seeds=f"{SEEDS[0]} to {SEEDS[-1]} (of the metrics)",
        networks=(1, 1),
    )


def codes_of(network: Network) -> tuple[Values, Values]:
    """Codes (N, D) that a network's results hold, and the factors (N, K) of their observations."""
    codes = unpacked(network.facts[CODES], -1, network.run.latent.size)
    dataset = network.run.data.load(torch.device("cpu"))
    factors = dataset.factors(chosen_rows(dataset, len(codes))).numpy()
    return codes, factors[:, np.array(dataset.factor_sizes) > 1]


def claims_of(older: Sensitivity, newer: Sensitivity) -> tuple[Claim, ...]:
    """What appendix B says about the two metrics."""
    over_batches = older.values.mean(0)  # (steps, seeds)
    means = over_batches.mean(1)
    rises = [redrawn(change) for change in np.diff(over_batches, axis=0)]
    ranges = [float(np.ptp(each.mean)) for each in (older, newer)]
    return (
        judged(
            "the metric in Higgins et al. constantly improves with more iterations",
            "app. B, fig. 16",
            "its mean over L rises with the number of iterations",
            ", ".join(
                f"{steps:,}: {mean:.3f}"
                for steps, mean in zip(older.settings["steps"], means, strict=True)
            ),
            all(rise.low > 0 for rise in rises),
            "The interval of a difference, over the seeds of the metric, allows both answers.",
            decisive=any(rise.high < 0 for rise in rises),
        ),
        judged(
            "our metric is much less sensitive to hyperparameters",
            "app. B, fig. 17",
            "the range of its means over the settings is smaller (settings are ours)",
            f"{ranges[1]:.3f} against {ranges[0]:.3f}",
            ranges[1] < ranges[0],
            decisive=False,
        ),
    )


def _draw(axis: Axes, found: Sensitivity, label: str) -> None:
    """Lines over the second setting, one for each value of the first."""
    batches, sizes = found.settings.values()
    for number, batch in enumerate(batches):
        axis.errorbar(range(len(sizes)), found.mean[number], found.spread[number],
                      color=COLOURS[number], linestyle=DASHES[number], capsize=2,
                      label=f"L = {batch}")  # fmt: skip
    axis.set_xticks(range(len(sizes)), [f"{size:,}" for size in sizes])
    axis.set_xlabel(label)
    axis.set_ylim(0.3, 1.0)
    axis.legend(loc="lower right", fontsize=7)
