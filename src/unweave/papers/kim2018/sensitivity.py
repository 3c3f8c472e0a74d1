"""Figures 16 and 17 of [Kim2018]: how both metrics depend on their own settings."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch

from unweave.evaluation.model import chosen_rows
from unweave.metrics import beta_vae_score, factor_vae_score
from unweave.metrics.studies import Sensitivity, sensitivity
from unweave.papers.kim2018.methods import setting_of
from unweave.papers.kim2018.shapes2d import CODES
from unweave.studies.drawing import COLOURS, DASHES, Values, letter_panels, panels
from unweave.studies.images import unpack_array
from unweave.studies.intervals import bootstrap_interval
from unweave.studies.study import Network, NotTrained, Results
from unweave.studies.texts import Texts
from unweave.studies.workspace import Claim, Result, Workspace

if TYPE_CHECKING:
    from matplotlib.axes import Axes

HIGGINS_GRID = {"pairs": (50, 100, 200), "steps": (1_000, 3_000, 10_000)}
KIM_GRID = {"batch": (25, 50, 100, 200), "votes": (200, 400, 800)}
SEEDS = tuple(range(10))
BETA = 4.0  # of the network whose codes are scored: the paper's is "randomly chosen"
_TEXTS = Texts(__package__, "fig16")


def fig16(workspace: Workspace, results: Results) -> Result:
    """Figures 16 and 17, on the codes of one beta-VAE of the study."""
    networks = results.groups(setting_of)["beta-vae", BETA].networks
    network = next((each for each in networks if CODES in each.facts), None)
    if network is None:
        raise NotTrained(f"the network with β = {BETA:g} and seed 0 is not trained yet")
    codes, factors = codes_of(network)
    older = sensitivity(beta_vae_score, codes, factors, HIGGINS_GRID, seeds=SEEDS)
    newer = sensitivity(factor_vae_score, codes, factors, KIM_GRID, seeds=SEEDS)
    figure, axes = panels(1, 2, width=3.6, height=2.6)
    _draw(axes[0], older, "iterations of Adagrad")
    _draw(axes[1], newer, "votes")
    letter_panels(axes, ("Higgins et al.", "Kim & Mnih"))
    axes[0].set_ylabel("score")
    return _TEXTS.result({"": figure}, claims_of(older, newer), networks=(1, 1), beta=BETA,
                         network_seed=network.run.seed,
                         seeds=f"{SEEDS[0]} to {SEEDS[-1]}")  # fmt: skip


def codes_of(network: Network) -> tuple[Values, Values]:
    """Return the stored codes (N, D) of a network, and the factors (N, K) of their observations."""
    codes = unpack_array(network.facts[CODES], -1, network.run.latent.size)
    dataset = network.run.data.load(torch.device("cpu"))
    factors = dataset.factors(chosen_rows(dataset, len(codes))).numpy()
    return codes, factors[:, np.array(dataset.factor_sizes) > 1]


def claims_of(older: Sensitivity, newer: Sensitivity) -> tuple[Claim, ...]:
    """Judge what appendix B says about the two metrics."""
    over_pairs = older.values.mean(0)  # (steps, seeds)
    rises = [bootstrap_interval(change) for change in np.diff(over_pairs, axis=0)]
    means = zip(older.settings["steps"], over_pairs.mean(1), strict=True)
    ranges = {"older": float(np.ptp(older.mean)), "newer": float(np.ptp(newer.mean))}
    return (
        _TEXTS.claim("iterations", all(rise.low > 0 for rise in rises),
                     contradicted=any(rise.high < 0 for rise in rises),
                     means=", ".join(f"{steps:,}: {mean:.3f}" for steps, mean in means)),
        _TEXTS.claim("sensitivity", ranges["newer"] < ranges["older"], contradicted=False,
                     older=ranges["older"], newer=ranges["newer"]),
    )  # fmt: skip


def _draw(axis: Axes, scores: Sensitivity, label: str) -> None:
    """Draw scores over the second setting, with a line for each value of the first."""
    batches, sizes = scores.settings.values()
    for number, batch in enumerate(batches):
        axis.errorbar(range(len(sizes)), scores.mean[number], scores.spread[number],
                      color=COLOURS[number], linestyle=DASHES[number], capsize=2,
                      label=f"L = {batch}")  # fmt: skip
    axis.set_xticks(range(len(sizes)), [f"{size:,}" for size in sizes])
    axis.set_xlabel(label)
    axis.set_ylim(0.3, 1.0)
    axis.legend(loc="lower right", fontsize=7)
