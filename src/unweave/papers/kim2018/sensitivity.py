"""Figures 16 and 17 of [Kim2018]: how both metrics depend on their settings, on stored codes."""

import numpy as np
import torch

from unweave.evaluation.model import chosen_rows
from unweave.metrics import beta_vae_score, factor_vae_score
from unweave.metrics.studies import Sensitivity, sensitivity
from unweave.papers.kim2018.methods import setting_of
from unweave.papers.kim2018.shapes2d import CODES
from unweave.studies.drawing import COLOURS, DASHES, Axes, Values, letter_panels, panels
from unweave.studies.images import unpack_array
from unweave.studies.intervals import mean_over_networks
from unweave.studies.study import Network, NotTrained, Results
from unweave.studies.texts import Texts
from unweave.studies.workspace import Claim, Result, Workspace

HIGGINS_GRID = {"pairs": (50, 100, 200), "steps": (1_000, 3_000, 10_000)}
KIM_GRID = {"batch": (25, 50, 100, 200), "votes": (200, 400, 800)}
METRIC_SEEDS = tuple(range(10))
SCORED_BETA = 4.0  # of the network whose codes are scored: the paper's is "randomly chosen"
MORE_SEEDS = tuple(range(10, 50))  # for the first rise, which ten seeds left undecided
_FIG16 = Texts(__package__, "fig16")


def fig16(workspace: Workspace, results: Results) -> Result:
    """Figures 16 and 17, on the codes of one beta-VAE of the study."""
    networks = results.groups(setting_of)["beta-vae", SCORED_BETA].networks
    network = next((each for each in networks if CODES in each.facts), None)
    if network is None:
        raise NotTrained(f"the network with β = {SCORED_BETA:g} and seed 0 is not trained yet")
    codes, factors = codes_of(network)
    older = sensitivity(beta_vae_score, codes, factors, HIGGINS_GRID, seeds=METRIC_SEEDS)
    newer = sensitivity(factor_vae_score, codes, factors, KIM_GRID, seeds=METRIC_SEEDS)
    few = HIGGINS_GRID | {"steps": HIGGINS_GRID["steps"][:2]}
    more = sensitivity(beta_vae_score, codes, factors, few, seeds=MORE_SEEDS)
    figure, axes = panels(1, 2, width=3.6, height=2.6)
    _draw_sensitivity(axes[0], older, "iterations of Adagrad")
    _draw_sensitivity(axes[1], newer, "votes")
    letter_panels(axes, ("Higgins et al.", "Kim & Mnih"))
    axes[0].set_ylabel("score")
    return _FIG16.result(
        {"": figure}, sensitivity_claims(older, newer, more), networks=(1, 1), used=[network],
        beta=SCORED_BETA, network_seed=network.run.seed,
        seeds=f"{METRIC_SEEDS[0]} to {METRIC_SEEDS[-1]}",
        more=len(MORE_SEEDS), further=f"{MORE_SEEDS[0]} to {MORE_SEEDS[-1]}",
    )  # fmt: skip


def codes_of(network: Network, without: str = "") -> tuple[Values, Values]:
    """Return the stored codes (N, D) of a network, and the factors (N, K) of their observations.

    A factor may be left out by its name.
    """
    codes = unpack_array(network.facts[CODES], -1, network.run.latent.size)
    dataset = network.run.data.load(torch.device("cpu"))
    factors = dataset.factors(chosen_rows(dataset, len(codes))).numpy()
    sizes = zip(dataset.factor_names, dataset.factor_sizes, strict=True)
    return codes, factors[:, [size > 1 and name != without for name, size in sizes]]


def sensitivity_claims(
    older: Sensitivity, newer: Sensitivity, more: Sensitivity
) -> tuple[Claim, ...]:
    """Judge what appendix B says about the two metrics.

    `more` are further seeds of few steps. The first rise is judged by them alone, because they were
    added after the first seeds had left it undecided.
    """
    over_pairs, further = older.values.mean(0), more.values.mean(0)  # (steps, seeds)
    first, *others = np.diff(over_pairs, axis=0)
    rises = [mean_over_networks(each) for each in (*np.diff(further, axis=0), *others)]
    means = zip(older.settings["steps"], over_pairs.mean(1), strict=True)
    ranges = {"older": float(np.ptp(older.mean)), "newer": float(np.ptp(newer.mean))}
    return (
        _FIG16.claim("iterations", all(rise.low > 0 for rise in rises),
                     contradicted=any(rise.high < 0 for rise in rises),
                     means=", ".join(f"{steps:,}: {mean:.3f}" for steps, mean in means),
                     first=mean_over_networks(first),
                     rises=rises),
        _FIG16.claim("sensitivity", False, contradicted=False, older=ranges["older"],
                     newer=ranges["newer"], ratio=ranges["older"] / max(ranges["newer"], 1e-9)),
    )  # fmt: skip


def _draw_sensitivity(axis: Axes, scores: Sensitivity, label: str) -> None:
    """Draw scores over the second setting, with a line for each value of the first."""
    batches, sizes = scores.settings.values()
    for number, batch in enumerate(batches):
        axis.errorbar(range(len(sizes)), scores.mean[number], scores.stddev[number],
                      color=COLOURS[number], linestyle=DASHES[number], capsize=2,
                      label=f"L = {batch}")  # fmt: skip
    axis.set_xticks(range(len(sizes)), [f"{size:,}" for size in sizes])
    axis.set(xlabel=label, ylim=(0.3, 1.0))
    axis.legend(loc="lower right", fontsize=7)
