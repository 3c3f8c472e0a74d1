"""Figures 4, 5, 7 and 37 of [Kim2018]: curves and means over seeds on 2D Shapes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from scipy import stats

from unweave.papers.kim2018.methods import (
    ACCURACY,
    DISTORTION,
    METHODS,
    Setting,
    by_weight,
    difference,
    result_of,
    setting_of,
    texts_of,
)
from unweave.papers.kim2018.shapes2d import CRITIC_TC, HIGGINS, OURS, TRUE_TC
from unweave.studies.drawing import BLUE, DASHES, MUTED, ORANGE, letter_panels, panels
from unweave.studies.intervals import bootstrap_interval, correlation_interval
from unweave.studies.study import Group, Results
from unweave.studies.workspace import Claim, Result, Workspace

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_FAR = 40  # nats of rate, twice what networks have at the end
FACTOR, BETA, VAE = ("factor-vae", 40.0), ("beta-vae", 4.0), ("beta-vae", 1.0)


def fig4(workspace: Workspace, results: Results) -> Result:
    """Figure 4: reconstruction error and both metrics during training."""
    rows = {DISTORTION: "reconstruction error", HIGGINS: "Higgins et al.'s metric", OURS: "score"}
    figure, axes = panels(len(rows), 2, width=3.6, height=2.1)
    for number, (name, label) in enumerate(rows.items()):
        for column, kind in enumerate(METHODS):
            axis = axes[2 * number + column]
            draw_curves(axis, _labelled(by_weight(results, kind), METHODS[kind][1]), name)
            axis.set_ylabel(label if column == 0 else "")
            axis.set_ylim((10, 110) if name == DISTORTION else (0.4, 1.0))
            if number == 0:
                axis.set_title(METHODS[kind][0])
            if number == 2:
                axis.set_xlabel("iterations")
    texts, groups = texts_of("fig4"), results.groups(setting_of)
    ours, vae = groups[FACTOR], groups[VAE]
    score, error = difference(ours, vae, OURS), difference(ours, vae, DISTORTION)
    claims = [
        texts.claim("better_than_vae", score.low > 0, contradicted=score.high < 0,
                    needs=(ours, vae), ours=ours.mean(OURS), vae=vae.mean(OURS), difference=score),
        texts.claim("reconstruction", False, contradicted=False, needs=(ours, vae),
                    ours=ours.mean(DISTORTION), vae=vae.mean(DISTORTION), difference=error),
    ]  # fmt: skip
    return result_of("fig4", results, figure, claims)


def _labelled(groups: Mapping[float, Group], weight: str) -> dict[str, Group]:
    return {f"{weight} = {value:g}": group for value, group in groups.items()}


def draw_curves(axis: Axes, groups: Mapping[str, Group], name: str) -> None:
    """Draw a line for each group: the mean over seeds and its interval, at every measured step."""
    from matplotlib import colormaps

    shades = colormaps["viridis"](np.linspace(0.0, 0.85, max(2, len(groups))))
    for colour, dashes, (label, group) in zip(shades, DASHES * 2, groups.items(), strict=False):
        curves = [dict(zip(*network.curve(name), strict=True)) for network in group.networks]
        if not curves:
            continue
        steps = sorted(set.intersection(*(set(curve) for curve in curves)))  # measured in all
        each = [bootstrap_interval(np.array([curve[step] for curve in curves])) for step in steps]
        axis.fill_between(steps, [m.low for m in each], [m.high for m in each], color=colour,
                          alpha=0.2, linewidth=0)  # fmt: skip
        axis.plot(steps, [m.value for m in each], color=colour, linestyle=dashes, label=label)
    axis.set_xticks([0, 100_000, 200_000, 300_000], ["0", "100k", "200k", "300k"])
    if groups:
        axis.legend(loc="best", fontsize=7, ncols=2, handlelength=2.2)


def fig5(workspace: Workspace, results: Results) -> Result:
    """Figure 5: reconstruction error against the score, and how the two metrics correlate."""
    figure, (axis,) = panels(1, 1, width=5.2, height=3.4)
    for kind, colour, marker in (("beta-vae", BLUE, "o"), ("factor-vae", ORANGE, "s")):
        name, weight = METHODS[kind]
        for number, (value, group) in enumerate(by_weight(results, kind).items()):
            axis.plot(group.values(DISTORTION), group.values(OURS), marker, color=colour,
                      markersize=3, alpha=0.35)  # fmt: skip
            error, score = group.mean(DISTORTION), group.mean(OURS)
            axis.errorbar(error.value, score.value, fmt=marker, color=colour, markersize=7,
                          xerr=[[error.value - error.low], [error.high - error.value]],
                          yerr=[[score.value - score.low], [score.high - score.value]],
                          label=name if number == 0 else "")  # fmt: skip
            axis.annotate(f"{weight} = {value:g}", (error.value, score.value), (6, 6),
                          textcoords="offset points", fontsize=8, color=colour)  # fmt: skip
    for stated, colour, text in ((0.73, BLUE, "β = 4"), (0.82, ORANGE, "γ = 40")):
        axis.plot(45, stated, "x", color=colour, markersize=8, markeredgewidth=2)
        axis.annotate(f"paper, {text}", (45, stated), (7, -3), textcoords="offset points",
                      fontsize=8, color=MUTED)  # fmt: skip
    axis.set_xlabel("reconstruction error at the end of training (nats)")
    axis.set_ylabel("score of Kim & Mnih")
    axis.legend(loc="lower left")
    groups = results.groups(setting_of)
    claims = [*headline_claims(results), *_correlation_claims(results)]
    return result_of("fig5", results, figure, claims, _excursions(groups[FACTOR]))


def _excursions(group: Group) -> str:
    """Say which networks leave the prior early in training, and how they score."""
    scores: dict[bool, list[str]] = {True: [], False: []}
    for network in group.ranked(OURS):
        early = network.curve("terms/rate")[1][0]
        scores[bool(early > _FAR)].append(f"{network.last(OURS):.2f}")
    high, low = (", ".join(scores[far]) or "none" for far in (True, False))
    if not group.networks:
        return ""
    count, total = len(scores[True]), len(group.networks)
    return texts_of("fig5")("noticed", count=count, all=total, far=_FAR, high=high, low=low)


def headline_claims(results: Results) -> list[Claim]:
    """Judge the means that the paper states for beta = 4 and gamma = 40, and which is larger."""
    groups = results.groups(setting_of)
    ours, theirs = groups[FACTOR], groups[BETA]
    more = difference(ours, theirs, OURS)
    return [
        _stated(results, BETA, "score", 0.73, 0.02),
        _stated(results, BETA, "error", 45.0, 2.0),
        _stated(results, FACTOR, "score", 0.82, 0.02),
        _stated(results, FACTOR, "error", 45.0, 2.0),
        texts_of("fig5").claim("higher_score", more.low > 0, contradicted=more.high < 0,
                               needs=(ours, theirs), difference=more),
    ]  # fmt: skip


def _stated(results: Results, setting: Setting, what: str, stated: float, slack: float) -> Claim:
    """Judge a mean that the paper states as "around" a value, without its error.

    It agrees if it is in our interval, up to a slack, and contradicts ours if it is more than
    three slacks away.
    """
    kind, weight = setting
    read = {"score": OURS, "error": DISTORTION}[what]
    label = {"score": "mean score", "error": "reconstruction error"}[what]
    group = results.groups(setting_of)[setting]
    mean = group.mean(read)
    away = max(mean.low - stated, stated - mean.high, 0.0)
    contradicted = away > 3 * slack
    reason = "The reason is open" + ("; see the remark below." if kind == "factor-vae" else ".")
    claim = texts_of("fig5").claim(
        "contradicted" if contradicted else "stated", away <= slack, contradicted=contradicted,
        needs=(group,), what=label, method=f"{METHODS[kind][0]} ({METHODS[kind][1]} = {weight:g})",
        stated=stated, slack=slack, limit=3 * slack, mean=mean,
        median=np.median(group.values(read)), away=away, reason=reason,
    )  # fmt: skip
    return replace(claim, name=f"{kind.partition('-')[0]}_{what}")


def _correlation_claims(results: Results) -> list[Claim]:
    """Judge how the two metrics correlate over all networks."""
    groups = [group for method in METHODS for group in by_weight(results, method).values()]
    networks = tuple(network for group in groups for network in group.networks)
    everyone = Group(networks, len(results.study.runs))
    if len(everyone.networks) < 3:
        return []
    claims = []
    for name, function, stated in (
        ("Pearson", stats.pearsonr, 0.404),
        ("Kendall", stats.kendalltau, 0.310),
        ("Spearman", stats.spearmanr, 0.444),
    ):
        measured = correlation_interval(everyone.values(OURS), everyone.values(HIGGINS), function)
        claims.append(
            texts_of("fig5").claim(
                "correlation", measured.low <= stated <= measured.high, contradicted=False,
                needs=(everyone,), name=name, stated=stated, correlation=measured,
                count=len(everyone.networks),
            )
        )  # fmt: skip
    return claims


def fig7(workspace: Workspace, results: Results) -> Result:
    """Figures 7 and 37: the true total correlation, and the critic's estimate of it."""
    groups = by_weight(results, "factor-vae")
    figure, axes = panels(1, 3, width=3.0, height=2.4)
    for axis, name in zip(axes, (TRUE_TC, CRITIC_TC, ACCURACY), strict=True):
        draw_curves(axis, _labelled(groups, "γ"), name)
        axis.set_xlabel("iterations")
    axes[0].set_ylabel("nats")
    letter_panels(axes, ("true total correlation", "critic's estimate", "critic's accuracy"))
    return result_of("fig7", results, figure, critic_claims(results))


def critic_claims(results: Results) -> list[Claim]:
    """Judge what the paper says about the critic, and about larger gammas.

    The first two claims are about every network, so those that are trained suffice for them.
    """
    texts = texts_of("fig7")
    gammas = {w: g for (kind, w), g in results.groups(setting_of).items() if kind == "factor-vae"}
    trained = tuple(network for group in gammas.values() for network in group.networks)
    everyone = Group(trained, len(trained))
    estimate, true = everyone.values(CRITIC_TC), everyone.values(TRUE_TC)
    changes = everyone.values(lambda n: float(n.curve(TRUE_TC)[1][-1] - n.curve(TRUE_TC)[1][0]))
    change, count = bootstrap_interval(changes), len(trained)
    claims = [
        texts.claim("underestimates", bool((estimate < true).all()), needs=(everyone,),
                    estimate=bootstrap_interval(estimate), true=bootstrap_interval(true),
                    below=int((estimate < true).sum()), count=count),
        texts.claim("decreases", change.high < 0, contradicted=change.low > 0, needs=(everyone,),
                    change=change, falls=int((changes < 0).sum()), count=count),
    ]  # fmt: skip
    for name, curve in (("lower_tc", TRUE_TC), ("lower_accuracy", ACCURACY)):
        pairs = [(gamma, n.last(curve)) for gamma, group in gammas.items() for n in group.networks]
        weights, values = np.array(pairs).reshape(-1, 2).T
        several = len(set(weights)) > 2
        found = correlation_interval(weights, values, stats.spearmanr, weights) if several else None
        claims.append(
            texts.claim(name, bool(found and found.high < 0), needs=gammas.values(),
                        contradicted=bool(found and found.low > 0), correlation=found or "–")
        )  # fmt: skip
    return claims
