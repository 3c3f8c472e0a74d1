"""Figures 6, 19, 20 and 40 of [Kim2018]: what networks trained on 2D Shapes have learned."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from unweave.papers.kim2018.comparison import (
    METHODS,
    MISMATCH,
    Found,
    compared,
    final,
    gap,
    mean_of,
    result_of,
)
from unweave.papers.kim2018.shapes2d import (
    EDGES,
    LATENTS,
    LIKELIHOODS,
    OURS,
    PARTICLES,
    STUDY,
    ranked,
)
from unweave.studies.drawing import BLUE, INK, ORANGE, panels
from unweave.studies.images import decoded_png
from unweave.studies.intervals import redrawn
from unweave.studies.study import PICTURES, Network, Results, results_of
from unweave.studies.workspace import Claim, Result, Workspace, judged

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def fig6(workspace: Workspace) -> Result:
    """Figure 6: traversals of the best and of the median networks."""
    results = results_of(workspace, STUDY)
    chosen = {kind: _best_and_median(results, kind) for kind in METHODS}
    figure, axes = panels(1, 4, width=2.3, height=3.3)
    for axis in axes:
        axis.set_axis_off()
    for column, networks in enumerate(chosen.values()):
        for place, (which, network) in enumerate(networks.items()):
            _show(axes[2 * place + column], network, "traversals")
            axes[2 * place + column].set_title(
                f"{_label(network)}, {which}\nscore {network.last(OURS):.3f}", fontsize=8
            )
    return result_of(
        results,
        {"": figure},
        {
            "": "First row: originals. Second: reconstructions. Others: traversals from -2 to 2 of "
            f"the {LATENTS} latents with the largest KL(q(zⱼ|x) ‖ p(zⱼ)), largest first, from the "
            "code of one observation. Best and median are by the paper's score among all networks "
            "of the best setting."
        },
        [_factors_found(results)],
    )


def _best_setting(results: Results, kind: str) -> Sequence[Network]:
    """The networks of the setting with the largest mean score."""
    settings = results.of(kind)
    return max(settings.values(), key=lambda each: final(each, OURS).mean()) if settings else ()


def _best_and_median(results: Results, kind: str) -> dict[str, Network]:
    """The best network of the best setting and the one nearest its median, among those pictured."""
    order = ranked(_best_setting(results, kind))
    pictured = [network for network in order if PICTURES in network.facts]
    if not pictured:
        return {}
    middle = float(np.median([network.last(OURS) for network in order]))
    nearest = min(pictured, key=lambda network: abs(network.last(OURS) - middle))
    return {"best": pictured[0], "median": nearest}


def _label(network: Network) -> str:
    name, weight = METHODS[network.run.objective.kind]
    return f"{name} {weight} = {next(iter(network.run.weights.values())):g}"


def _show(axis: Axes, network: Network, picture: str) -> None:
    axis.imshow(decoded_png(network.facts[PICTURES][picture]), interpolation="none")


def _factors_found(results: Results) -> Claim:
    text = (
        "both models are capable of finding x-position, y-position, and scale, but struggle to "
        "disentangle orientation and shape, β-VAE especially; neither method can robustly capture "
        "shape",
        "sec. 6, fig. 6",
    )
    expected = (
        "with both, x, y and scale get a larger share of the votes of their samples than "
        "orientation and shape (our reading)"
    )

    def judge(found: Found) -> Claim:
        parts, lowest = [], 1.0
        for (kind, _), networks in found.items():
            votes = {
                name: np.array([network.facts["factors"][name] for network in networks])
                for name in ("x", "y", "scale", "orientation", "shape")
            }
            lows = [
                redrawn(votes[good] - votes[bad]).low
                for good in ("x", "y", "scale")
                for bad in ("orientation", "shape")
            ]
            lowest = min(lowest, *lows)
            listed = ", ".join(f"{name} {each.mean():.2f}" for name, each in votes.items())
            parts.append(f"{METHODS[kind][0]}: {listed}")
        note = "The interval of at least one of the differences, seed by seed, allows both answers."
        return judged(*text, expected, "; ".join(parts), lowest > 0, note, decisive=False)

    best = {kind: _best_setting(results, kind) for kind in METHODS}
    needed = {k: (float(next(iter(n[0].run.weights.values()))),) for k, n in best.items() if n}
    return compared(results, needed, *text, expected, judge)


def fig40(workspace: Workspace) -> Result:
    """Figure 40: histograms of q(z_j) beside the prior."""
    results = results_of(workspace, STUDY)
    rows = [
        ranked(networks)[len(networks) // 2] for kind in METHODS
        for networks in results.of(kind).values()
    ]  # fmt: skip
    figure, axes = panels(max(1, len(rows)), 10, width=0.8, height=0.75)
    middle, width = (EDGES[1:] + EDGES[:-1]) / 2, EDGES[1] - EDGES[0]
    prior = np.exp(-(middle**2) / 2) / np.sqrt(2 * np.pi)
    for number, network in enumerate(rows):
        order = np.argsort(-np.array(network.facts["kl"]))
        for column, latent in enumerate(order):
            axis = axes[10 * number + column]
            counts = np.array(network.facts["marginals"][latent])
            axis.fill_between(middle, counts / max(1, counts.sum()) / width, step="mid", color=BLUE,
                              alpha=0.6, linewidth=0)  # fmt: skip
            axis.plot(middle, prior, color=ORANGE, linewidth=0.9)
            axis.set_ylim(0, 0.9)
            axis.set_xticks([])
            axis.set_yticks([])
            axis.grid(False)
            if column == 0:
                axis.set_ylabel(_label(network), rotation=0, ha="right", va="center", fontsize=7,
                                color=INK)  # fmt: skip
    return result_of(
        results,
        {"": figure},
        {
            "": "Samples of q(z) of the median network of each setting, one column for each latent "
            "in the order of its KL; orange: the prior N(0, 1), from -4 to 4."
        },
        [_mismatch(results)],
    )


def _mismatch(results: Results) -> Claim:
    text = (
        "the marginals of FactorVAE are quite different from the prior; it can focus on "
        "factorising q(z) instead of pushing it towards the prior",
        "app. I, fig. 40",
    )
    expected = "Σⱼ KL(q(zⱼ) ‖ p(zⱼ)) is larger with γ = 40 than with β = 4"

    def judge(found: Found) -> Claim:
        ours, theirs = found["factor-vae", 40.0], found["beta-vae", 4.0]
        more = gap(ours, theirs, MISMATCH)
        got = f"{mean_of(ours, MISMATCH)} and {mean_of(theirs, MISMATCH)} nats"
        return judged(*text, expected, got, more.low > 0, decisive=more.high < 0)

    needed = {"beta-vae": (4.0,), "factor-vae": (40.0,)}
    return compared(results, needed, *text, expected, judge)


def fig19(workspace: Workspace) -> Result:
    """Figures 19 and 20: samples of the best networks, and their log-likelihoods."""
    results = results_of(workspace, STUDY)
    figure, axes = panels(1, 2, width=3.6, height=2.4)
    best = {kind: _best_and_median(results, kind).get("best") for kind in METHODS}
    for axis, network in zip(axes, best.values(), strict=True):
        axis.set_axis_off()
        if network:
            _show(axis, network, "samples")
            axis.set_title(f"{_label(network)}, log p(x) ≥ {network.facts['log_likelihood']:.1f}")
    return result_of(
        results,
        {"": figure},
        {
            "": "Images at draws of the prior from the best network of the best setting of each "
            "method by the paper's score. log p(x) is the mean bound over "
            f"{LIKELIHOODS} observations."
        },
        [
            _likelihood(results, "beta-vae", 1.0, -43.3),
            _likelihood(results, "beta-vae", 4.0, -46.1),
            _likelihood(results, "factor-vae", 35.0, -51.9),
        ],
    )


def _likelihood(results: Results, kind: str, weight: float, stated: float) -> Claim:
    name = f"{METHODS[kind][0]}, {METHODS[kind][1]} = {weight:g}"
    chosen = "a randomly chosen VAE" if weight == 1.0 else f"the best {name}"
    statement = f"log marginal likelihood of {chosen}: {stated}"
    expected = f"{stated}, up to two standard errors"

    def judge(found: Found) -> Claim:
        networks = ranked(found[kind, weight])
        values = [network.facts["log_likelihood"] for network in networks]
        error = networks[0].facts["log_likelihood_error"]
        value = float(np.mean(values)) if weight == 1.0 else values[0]
        got = (
            f"{value:.1f}, standard error {error:.1f}; all seeds from {min(values):.1f} to "
            f"{max(values):.1f}"
        )
        note = (
            f"Ours is the bound with {PARTICLES:,} particles, as the paper's, on {LIKELIHOODS} "
            "observations; the paper's is on the entire data set."
        )
        away = abs(value - stated)
        return judged(statement, "app. E", expected, got, away <= 2 * error, note, decisive=False)

    return compared(results, {kind: (weight,)}, statement, "app. E", expected, judge)
