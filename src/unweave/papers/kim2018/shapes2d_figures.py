"""Figures 4 to 7, 19, 20, 37 and 40 of [Kim2018], drawn from the study on 2D Shapes."""

import math
from collections.abc import Mapping, Sequence
from functools import partial

import numpy as np
from scipy import stats

from unweave.papers.kim2018.methods import (
    ACCURACY,
    CRITIC_TC,
    DISTORTION,
    HIGGINS,
    LATENTS,
    LIKELIHOOD,
    LIKELIHOODS,
    METHODS,
    MISMATCH,
    OURS,
    ROWS,
    TOLERANCES,
    TRUE_TC,
    Setting,
    best_of_all,
    by_weight,
    draw_samples,
    draw_settings,
    draw_trade_off,
    draw_training,
    draw_traversals,
    label,
    label_errors,
    likelihood_claim,
    result_of,
    setting_of,
    stated_claim,
)
from unweave.papers.kim2018.shapes2d import EDGES
from unweave.studies.drawing import (
    BLUE,
    INK,
    ORANGE,
    Values,
    letter_panels,
    panels,
    share_legend,
)
from unweave.studies.intervals import (
    RESAMPLES,
    correlation_interval,
    difference_of_means,
    mean_over_networks,
    median_over_networks,
    resampled_interval,
)
from unweave.studies.labels import PointLabel
from unweave.studies.study import Group, Network, Results
from unweave.studies.texts import Texts
from unweave.studies.workspace import Claim, Measured, Result, Workspace

_FAR = 40  # nats of rate, twice what networks have at the end
KINDS = ("beta-vae", "factor-vae")
FACTOR, BETA, VAE = ("factor-vae", 40.0), ("beta-vae", 4.0), ("beta-vae", 1.0)
EASY, HARD = ("x", "y", "scale"), ("orientation", "shape")
FOUND, ROBUST = 0.5, 0.9  # shares of votes
STATED_DIFFERENCE = 0.09  # 0.82 - 0.73
BEST = {BETA: 0.814, ("factor-vae", 35.0): 0.889}  # the scores of the networks in figure 6
_DENSEST = 0.7  # the end of the axis of densities in figure 40
texts_of = partial(Texts, __package__, "shapes2d")  # of a figure of this study


def fig4(workspace: Workspace, results: Results) -> Result:
    """Figure 4: reconstruction error and both metrics during training."""
    figure = draw_training(results, KINDS)
    texts, groups = texts_of("fig4"), results.groups(setting_of)
    ours, vae = groups[FACTOR], groups[VAE]
    error, before = ours.difference(vae, DISTORTION), vae.mean(DISTORTION)
    claims = [
        texts.above("better_than_vae", score, needs=(ours, vae), metric=metric,
                    ours=ours.mean(curve), vae=vae.mean(curve), difference=score)
        for curve, metric in ((HIGGINS, "the metric of Higgins et al."), (OURS, "their own metric"))
        for score in [ours.difference(vae, curve)]
    ]  # fmt: skip
    claims.append(
        texts.claim("reconstruction", error.high <= 0, contradicted=False, needs=(ours, vae),
                    ours=ours.mean(DISTORTION), vae=before, difference=error,
                    share=error.value / before.value)
    )  # fmt: skip
    return result_of(texts, results, figure, claims)


def fig5(workspace: Workspace, results: Results) -> Result:
    """Figure 5: reconstruction error against the score, and how the two metrics correlate."""
    figure, (axis,) = panels(1, 1, width=6.2, height=4.0)
    axis.set_xscale("log")
    stated = [
        PointLabel(45, 0.73, "paper, β = 4", BLUE),
        PointLabel(45, 0.82, "paper, γ = 40", ORANGE),
    ]
    for each in stated:
        axis.plot(each.x, each.y, "x", color=each.colour, markersize=8, markeredgewidth=2)
    draw_trade_off(axis, results, KINDS, stated)
    label_errors(axis.xaxis)
    claims = [*headline_claims(results), *correlation_claims(results)]
    groups = results.groups(setting_of)
    noticed = _remarks(groups[FACTOR], groups[BETA])
    return result_of(texts_of("fig5"), results, figure, claims, noticed)


def _remarks(ours: Group, theirs: Group) -> str:
    """Say how many networks the headline needs, and which leave the prior early in training."""
    if min(len(ours.networks), len(theirs.networks)) < 2:
        return ""
    scores: dict[bool, list[str]] = {True: [], False: []}
    for network in ours.ranked(OURS):
        early = network.curve("terms/rate")[1][0]
        scores[bool(early > _FAR)].append(f"{network.value(OURS):.2f}")
    high, low = (", ".join(scores[far]) or "none" for far in (True, False))
    changes = ours.values(_change_of_tc)
    by_seed = [{n.run.seed: n.value(OURS) for n in group.networks} for group in (ours, theirs)]
    pairs = [by_seed[0][seed] - by_seed[1][seed] for seed in by_seed[0] if seed in by_seed[1]]
    return texts_of("fig5")(
        "noticed", count=len(scores[True]), all=len(ours.networks), far=_FAR, high=high, low=low,
        grows=int((changes > 0).sum()), difference=STATED_DIFFERENCE,
        unpaired=ours.difference(theirs, OURS),
        paired=mean_over_networks(np.array(pairs or [math.nan])),
        needed=networks_needed(ours.values(OURS), theirs.values(OURS), STATED_DIFFERENCE),
    )  # fmt: skip


def networks_needed(ours: Values, theirs: Values, difference: float) -> int:
    """Return how many networks of each setting show a difference of means four times in five.

    That is, the power of a two-sided test at 5% is 80%, with the variances of these scores.

    >>> networks_needed(np.array([0.0, 2.0]), np.array([0.0, 2.0]), 2.0)
    8
    """
    both = float(ours.var(ddof=1) + theirs.var(ddof=1))
    return math.ceil(both * float(stats.norm.ppf(0.975) + stats.norm.ppf(0.8)) ** 2 / difference**2)


def headline_claims(results: Results) -> list[Claim]:
    """Judge the means that the paper states for beta = 4 and gamma = 40, and which is larger."""
    groups = results.groups(setting_of)
    ours, theirs = groups[FACTOR], groups[BETA]
    more = ours.difference(theirs, OURS)
    texts, remark = texts_of("fig5"), "The reason is open; see the remark below."
    return [
        stated_claim(texts, results, BETA, "score", 0.73),
        stated_claim(texts, results, BETA, "error", 45.0),
        stated_claim(texts, results, FACTOR, "score", 0.82, reason=remark),
        stated_claim(texts, results, FACTOR, "error", 45.0, reason=remark),
        texts.above("higher_score", more, needs=(ours, theirs), difference=more),
        *(_best_weight_claim(results, setting) for setting in (FACTOR, BETA)),
        _equal_error_claim(results),
    ]  # fmt: skip


def _best_weight_claim(results: Results, stated: Setting) -> Claim:
    """Judge that the weight that the paper names has the best mean score of its method."""
    kind, weight = stated
    groups, method = results.groups(setting_of), METHODS[kind]
    others = {w: group for (name, w), group in sorted(groups.items())
              if name == kind and w != weight}  # fmt: skip
    level = 1 - 0.05 / len(others)  # Bonferroni: one that is better is enough
    best = groups[stated].values(OURS)
    more = {w: difference_of_means(group.values(OURS), best, level)
            for w, group in others.items() if group.networks}  # fmt: skip
    return texts_of("fig5").below(
        "best_weight", *more.values(), needs=(groups[stated], *others.values()),
        method=method.name, symbol=method.symbol, weight=weight, level=level,
        differences="; ".join(f"{method.symbol} = {w:g}: {each}" for w, each in more.items()),
    )  # fmt: skip


def _equal_error_claim(results: Results) -> Claim:
    """Judge that some gamma scores higher than beta-VAEs with the same reconstruction error."""
    betas, gammas = (by_weight(results, kind) for kind in KINDS)
    level = 1 - 0.05 / max(1, len(gammas))  # Bonferroni: one gamma is enough
    more = {gamma: difference_at_equal_error(group, list(betas.values()), level)
            for gamma, group in gammas.items() if betas}  # fmt: skip
    return texts_of("fig5").claim(
        "equal_error",
        any(each.low > 0 for each in more.values()),
        contradicted=all(each.high < 0 for each in more.values()),
        needs=(_everyone(results),),
        got="; ".join(f"γ = {gamma:g}: {each}" for gamma, each in more.items())
        + f" ({level:.1%} intervals)"
        if more
        else "–",
    )


def difference_at_equal_error(ours: Group, theirs: Sequence[Group], level: float) -> Measured:
    """Return the mean score of a group less that of others at its mean reconstruction error.

    Between the means of the other groups, the score is interpolated linearly in the error; beyond
    them it is that of the nearest. The interval is a bootstrap over the networks of each group.
    """
    rng = np.random.default_rng(0)

    def means(group: Group) -> Values:
        """Return mean error and score: of all networks, then of resampled ones."""
        values = np.stack([group.values(DISTORTION), group.values(OURS)], 1)
        rows = rng.integers(len(values), size=(RESAMPLES, len(values)))
        return np.concatenate([values.mean(0, keepdims=True), values[rows].mean(1)])

    others = np.stack([means(group) for group in theirs], 1)
    differences = [
        score - np.interp(error, *points[np.argsort(points[:, 0])].T)
        for (error, score), points in zip(means(ours), others, strict=True)
    ]
    count = min(len(group.networks) for group in (ours, *theirs))
    return resampled_interval(differences[0], differences[1:], count, level)


def _everyone(results: Results) -> Group:
    """Return all networks of both methods."""
    return Group.joined(results.groups(setting_of).values())


def correlation_claims(results: Results) -> list[Claim]:
    """Judge how the two metrics correlate over all networks."""
    everyone, tolerance = _everyone(results), TOLERANCES["correlation"]
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
                "correlation", measured.within(stated, tolerance), contradicted=False,
                needs=(everyone,), name=name, stated=stated, correlation=measured,
                count=len(everyone.networks), tolerance=tolerance,
            )
        )  # fmt: skip
    return claims


def fig7(workspace: Workspace, results: Results) -> Result:
    """Figures 7 and 37: the true total correlation, and the discriminator's estimate of it."""
    figure, axes = panels(1, 3, width=3.0, height=2.6)
    for axis, name in zip(axes, (TRUE_TC, CRITIC_TC, ACCURACY), strict=True):
        draw_settings(axis, results, "factor-vae", name)
        axis.set_xlabel("iterations")
        axis.set_ylabel("share" if name == ACCURACY else "nats")
    letter_panels(axes, ("true total correlation", "discriminator's estimate", "its accuracy"))
    share_legend(figure, axes)
    everyone = _every_gamma(results)
    return result_of(
        texts_of("fig7"), results, figure, critic_claims(results),
        networks=(everyone.done, everyone.total), used=everyone.networks,
    )  # fmt: skip


def critic_claims(results: Results) -> list[Claim]:
    """Judge what the paper says about the discriminator, and about larger gammas.

    All claims are about every gamma.
    """
    texts, everyone = texts_of("fig7"), _every_gamma(results)
    estimate, true = everyone.values(CRITIC_TC), everyone.values(TRUE_TC)
    changes = everyone.values(_change_of_tc)
    mean, median = mean_over_networks(changes), median_over_networks(changes)
    count = len(everyone.networks)
    claims = [
        texts.claim("underestimates", bool((estimate < true).all()), needs=(everyone,),
                    estimate=mean_over_networks(estimate), true=mean_over_networks(true),
                    below=int((estimate < true).sum()), count=count),
        texts.below("decreases", mean, needs=(everyone,), change=mean, median=median,
                    falls=int((changes < 0).sum()), count=count, least=changes.min(),
                    most=changes.max()),
    ]  # fmt: skip
    for name, curve in (("lower_tc", TRUE_TC), ("lower_accuracy", ACCURACY)):
        weights = everyone.values(lambda network: setting_of(network.run)[1])
        values = everyone.values(curve)
        several = len(set(weights)) > 2
        found = correlation_interval(weights, values, stats.spearmanr, weights) if several else None
        claims.append(
            texts.claim(name, bool(found and found.high < 0), needs=(everyone,),
                        contradicted=bool(found and found.low > 0), correlation=found or "–")
        )  # fmt: skip
    return claims


def _change_of_tc(network: Network) -> float:
    """Return by how much the true total correlation changes after its first measurement."""
    values = network.curve(TRUE_TC)[1]
    return float(values[-1] - values[0])


def _every_gamma(results: Results) -> Group:
    """Return all FactorVAEs."""
    groups = results.groups(setting_of).items()
    return Group.joined(group for (kind, _), group in groups if kind == "factor-vae")


def fig6(workspace: Workspace, results: Results) -> Result:
    """Figure 6: traversals of the best and of the median networks."""
    figure = draw_traversals(results, KINDS)
    claims = [
        *best_claims(results),
        *factor_claims({kind: best_of_all(results, kind) for kind in KINDS}),
    ]
    return result_of(texts_of("fig6"), results, figure, claims, latents=LATENTS)


def best_claims(results: Results) -> list[Claim]:
    """Judge whether the best networks score as much as the paper's."""
    claims, tolerance = [], TOLERANCES["score"]
    for (kind, weight), stated in BEST.items():
        groups = results.groups(setting_of)
        everyone = Group.joined(group for (name, _), group in groups.items() if name == kind)
        best, own = everyone.ranked(OURS)[:1], groups[kind, weight]
        score = everyone.values(OURS).max()
        claims.append(
            texts_of("fig6").claim(
                "best", abs(score - stated) <= tolerance, contradicted=False, needs=(everyone,),
                method=METHODS[kind].name, symbol=METHODS[kind].symbol, weight=weight,
                stated=stated, tolerance=tolerance, score=score,
                setting=f"{setting_of(best[0].run)[1]:g}" if best else "–",
                own=own.values(OURS).max(),
            )
        )  # fmt: skip
    return claims


def factor_claims(best: Mapping[str, Group]) -> list[Claim]:
    """Judge which factors both methods find, by the votes of their samples."""
    texts = texts_of("fig6")
    votes = {
        kind: {name: group.values(f"facts/factors/{name}") for name in (*EASY, *HARD)}
        for kind, group in best.items()
    }
    means = {kind: {name: mean_over_networks(each) for name, each in factors.items()}
             for kind, factors in votes.items()}  # fmt: skip
    ahead = [mean_over_networks(factors[good] - factors[bad])
             for factors in votes.values() for good in EASY for bad in HARD]  # fmt: skip
    hard = {kind: np.mean([factors[name] for name in HARD], 0) for kind, factors in votes.items()}
    more = difference_of_means(hard["factor-vae"], hard["beta-vae"])
    by_factor = ", ".join(
        f"{name} {difference_of_means(votes['factor-vae'][name], votes['beta-vae'][name])}"
        for name in HARD
    )
    shapes = {kind: factors["shape"] for kind, factors in votes.items()}

    def listed(names: Sequence[str]) -> str:
        return "; ".join(
            f"{_named(best[kind])}: " + ", ".join(f"{name} {each[name]}" for name in names)
            for kind, each in means.items()
        )

    return [
        texts.claim("finds", all(each[name].low > FOUND for each in means.values()
                                 for name in EASY), contradicted=False, needs=best.values(),
                    bound=FOUND, votes=listed(EASY)),
        texts.claim("struggles", min(each.low for each in ahead) > 0, contradicted=False,
                    needs=best.values(), votes=listed(HARD)),
        texts.above("especially", more, needs=best.values(), more=more, factors=by_factor),
        texts.claim("shape", all(each.min() < ROBUST for each in shapes.values()),
                    contradicted=False, needs=best.values(), bound=ROBUST,
                    counts="; ".join(f"{_named(best[kind])}: {int((each < ROBUST).sum())} of "
                                     f"{len(each)}" for kind, each in shapes.items())),
    ]  # fmt: skip


def _named(group: Group) -> str:
    """Name the setting of a group: β-VAE (β = 4)."""
    if not group.networks:
        return "–"
    method, weight = label(setting_of(group.networks[0].run)).split(", ")
    return f"{method} ({weight})"


def fig40(workspace: Workspace, results: Results) -> Result:
    """Figure 40: histograms of q(z_j) beside the prior."""
    groups = [group for kind in KINDS for group in by_weight(results, kind).values()]
    figure, axes = panels(max(1, len(groups)), 10, width=0.8, height=0.75)
    middle, width = (EDGES[1:] + EDGES[:-1]) / 2, EDGES[1] - EDGES[0]
    prior = np.exp(-(middle**2) / 2) / np.sqrt(2 * np.pi)
    beyond = {"": 0.0}  # the largest share of a latent's codes that is not drawn, by setting
    for row, group in enumerate(groups):
        network = group.ranked(MISMATCH)[len(group.networks) // 2]
        name = label(setting_of(network.run)).replace(",", "")
        beyond[name] = 1 - min(map(sum, network.facts["marginals"])) / ROWS
        for column, latent in enumerate(np.argsort(-np.array(network.facts["kl"]))):
            axis = axes[10 * row + column]
            counts = np.array(network.facts["marginals"][latent])
            axis.stairs(counts / ROWS / width, EDGES, fill=True, color=BLUE, alpha=0.6)
            axis.plot(middle, prior, color=ORANGE, linewidth=0.9)
            ticks = [-3, 0, 3] if row == len(groups) - 1 else []
            axis.set(ylim=(0, _DENSEST), xticks=ticks, yticks=[])
            axis.tick_params(labelsize=6)
            axis.grid(False)
            if column == 0:
                axis.set_ylabel(f"{name}\nΣ KL {network.value(MISMATCH):.2f}", rotation=0,
                                ha="right", va="center", fontsize=7, color=INK)  # fmt: skip
    every = results.groups(setting_of)
    ours, theirs = every["factor-vae", 40.0], every["beta-vae", 4.0]
    more = ours.difference(theirs, MISMATCH)
    claim = texts_of("fig40").above(
        "mismatch", more, needs=(ours, theirs), ours=ours.mean(MISMATCH),
        theirs=theirs.mean(MISMATCH),
        medians=[np.median(group.values(MISMATCH)) for group in (ours, theirs)],
    )  # fmt: skip
    most = max(beyond, key=lambda name: beyond[name])
    return result_of(
        texts_of("fig40"), results, figure, [claim], densest=_DENSEST, edge=EDGES[-1],
        most=most, beyond=beyond[most],
    )  # fmt: skip


def fig19(workspace: Workspace, results: Results) -> Result:
    """Figures 19 and 20: samples of the best networks, and their log-likelihoods."""
    texts = texts_of("fig19")
    claims = [
        likelihood_claim(texts, results, VAE, -43.3, best=False),
        likelihood_claim(texts, results, BETA, -46.1),
        likelihood_claim(texts, results, ("factor-vae", 35.0), -51.9),
        order_claim(results),
    ]
    figure = draw_samples(results, KINDS)
    return result_of(texts, results, figure, claims, likelihoods=LIKELIHOODS)


def order_claim(results: Results) -> Claim:
    """Judge that FactorVAE has the worse log-likelihood: the paper compares the best networks."""
    groups = results.groups(setting_of)
    ours, theirs = groups["factor-vae", 35.0], groups[BETA]
    more = ours.difference(theirs, LIKELIHOOD)
    best = [group.ranked(OURS)[0].value(LIKELIHOOD) if group.networks else math.nan
            for group in (ours, theirs)]  # fmt: skip
    return texts_of("fig19").claim(
        "order", more.high < 0, contradicted=False, needs=(ours, theirs), more=more, best=best,
        spread=np.ptp(ours.values(LIKELIHOOD)),
    )  # fmt: skip
