"""Figures 6, 19, 20 and 40 of [Kim2018]: what networks trained on 2D Shapes have learned."""

from __future__ import annotations

import numpy as np

from unweave.papers.kim2018.methods import (
    METHODS,
    MISMATCH,
    Setting,
    by_weight,
    difference,
    label,
    result_of,
    setting_of,
    texts_of,
)
from unweave.papers.kim2018.shapes2d import EDGES, LATENTS, LIKELIHOODS, OURS, PARTICLES
from unweave.studies.drawing import BLUE, INK, ORANGE, panels
from unweave.studies.images import draw_png
from unweave.studies.intervals import bootstrap_interval
from unweave.studies.study import PICTURES, Group, Results
from unweave.studies.workspace import Claim, Result, Workspace


def fig6(workspace: Workspace, results: Results) -> Result:
    """Figure 6: traversals of the best and of the median networks."""
    figure, axes = panels(1, 4, width=2.3, height=3.3)
    for axis in axes:
        axis.set_axis_off()
    best = {method: _best_group(results, method) for method in METHODS}
    for column, group in enumerate(best.values()):
        for place, (which, network) in enumerate(group.best_and_median(OURS).items()):
            axis = axes[2 * place + column]
            draw_png(axis, network.facts[PICTURES]["traversals"])
            name = label(setting_of(network.run)).replace(",", "")
            axis.set_title(f"{name}, {which}\nscore {network.last(OURS):.3f}", fontsize=8)
    return result_of("fig6", results, figure, [_factors_claim(best)], latents=LATENTS)


def _best_group(results: Results, method: str) -> Group:
    """Return the networks of the setting with the largest mean score."""
    groups = by_weight(results, method).values()
    return max(groups, key=lambda group: group.values(OURS).mean(), default=Group((), 1))


def _factors_claim(best: dict[str, Group]) -> Claim:
    parts, lows = [], []
    for method, group in best.items():
        votes = {
            name: np.array(
                [network.facts["factors"][name] for network in group.networks] or [np.nan]
            )
            for name in ("x", "y", "scale", "orientation", "shape")
        }
        lows += [
            bootstrap_interval(votes[good] - votes[bad]).low
            for good in ("x", "y", "scale")
            for bad in ("orientation", "shape")
        ]
        shares = ", ".join(f"{name} {each.mean():.2f}" for name, each in votes.items())
        parts.append(f"{METHODS[method][0]}: {shares}")
    return texts_of("fig6").claim("factors", min(lows) > 0, contradicted=False,
                                  needs=best.values(), votes="; ".join(parts))  # fmt: skip


def fig40(workspace: Workspace, results: Results) -> Result:
    """Figure 40: histograms of q(z_j) beside the prior."""
    groups = [group for method in METHODS for group in by_weight(results, method).values()]
    figure, axes = panels(max(1, len(groups)), 10, width=0.8, height=0.75)
    middle, width = (EDGES[1:] + EDGES[:-1]) / 2, EDGES[1] - EDGES[0]
    prior = np.exp(-(middle**2) / 2) / np.sqrt(2 * np.pi)
    for row, group in enumerate(groups):
        network = group.ranked(OURS)[len(group.networks) // 2]
        for column, latent in enumerate(np.argsort(-np.array(network.facts["kl"]))):
            axis = axes[10 * row + column]
            counts = np.array(network.facts["marginals"][latent])
            axis.fill_between(middle, counts / max(1, counts.sum()) / width, step="mid", color=BLUE,
                              alpha=0.6, linewidth=0)  # fmt: skip
            axis.plot(middle, prior, color=ORANGE, linewidth=0.9)
            axis.set(ylim=(0, 0.9), xticks=[], yticks=[])
            axis.grid(False)
            if column == 0:
                axis.set_ylabel(label(setting_of(network.run)).replace(",", ""), rotation=0,
                                ha="right", va="center", fontsize=7, color=INK)  # fmt: skip
    every = results.groups(setting_of)
    ours, theirs = every["factor-vae", 40.0], every["beta-vae", 4.0]
    more = difference(ours, theirs, MISMATCH)
    claim = texts_of("fig40").claim(
        "mismatch", more.low > 0, contradicted=more.high < 0, needs=(ours, theirs),
        ours=ours.mean(MISMATCH), theirs=theirs.mean(MISMATCH),
    )  # fmt: skip
    return result_of("fig40", results, figure, [claim])


def fig19(workspace: Workspace, results: Results) -> Result:
    """Figures 19 and 20: samples of the best networks, and their log-likelihoods."""
    figure, axes = panels(1, 2, width=3.6, height=2.4)
    for axis, method in zip(axes, METHODS, strict=True):
        axis.set_axis_off()
        if network := _best_group(results, method).best_and_median(OURS).get("best"):
            draw_png(axis, network.facts[PICTURES]["samples"])
            name = label(setting_of(network.run)).replace(",", "")
            axis.set_title(f"{name}, log p(x) ≥ {network.facts['log_likelihood']:.1f}")
    claims = [
        _likelihood_claim(results, ("beta-vae", 1.0), -43.3),
        _likelihood_claim(results, ("beta-vae", 4.0), -46.1),
        _likelihood_claim(results, ("factor-vae", 35.0), -51.9),
    ]
    return result_of("fig19", results, figure, claims, likelihoods=LIKELIHOODS)


def _likelihood_claim(results: Results, setting: Setting, stated: float) -> Claim:
    group, vae = results.groups(setting_of)[setting], setting[1] == 1.0
    values = group.values(lambda network: float(network.facts["log_likelihood"]))
    best = group.ranked(OURS)[0] if group.networks else None
    error = best.facts["log_likelihood_error"] if best else float("nan")
    value = float(values.mean()) if vae or not best else best.facts["log_likelihood"]
    return texts_of("fig19").claim(
        "likelihood", abs(value - stated) <= 2 * error, contradicted=False, needs=(group,),
        chosen="a randomly chosen VAE" if vae else f"the best {label(setting)}", stated=stated,
        value=value, error=error, low=values.min(), high=values.max(), particles=PARTICLES,
        likelihoods=LIKELIHOODS,
    )  # fmt: skip
