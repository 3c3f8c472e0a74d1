"""Figures 10, 11, 21 and 22 of [Kim2018]: beta-VAE and FactorVAE on 3D Shapes."""

from collections.abc import Mapping
from functools import partial

import numpy as np

from unweave.papers.kim2018.methods import (
    DISTORTION,
    LIKELIHOOD,
    LIKELIHOODS,
    MEASURES,
    METHODS,
    OURS,
    PARTICLES,
    VAEFacts,
    best_of_all,
    describe_vae,
    draw_samples,
    draw_trade_off,
    draw_traversals,
    label,
    result_of,
    runs_of,
    setting_of,
)
from unweave.studies.drawing import panels
from unweave.studies.intervals import mean_over_networks
from unweave.studies.study import Group, Results, Study, best_of_settings
from unweave.studies.texts import Texts
from unweave.studies.workspace import Claim, Result, Workspace

KINDS = ("beta-vae", "factor-vae")
VAE, BETA, FACTOR = ("beta-vae", 1.0), ("beta-vae", 24.0), ("factor-vae", 36.0)
BEST = {"beta-vae": 32.0, "factor-vae": 7.0}  # of figure 11
HARD = ("scale", "shape")
SIMILAR = 0.05  # of two mean scores
PERFECT = 0.995  # prints as 1.00
_SHOWN = np.arange(8) * 59_393 % 480_000  # observations in pictures: spread over the dataset
_START = 3 * 59_393 + 4_321  # the observation that traversals start from

texts_of = partial(Texts, __package__, "shapes3d")  # of a figure of this study

# The settings that the text names come first, then those of figures 11, 21 and 22.
_ORDER = (
    ("factor-vae", 36), ("beta-vae", 24), ("beta-vae", 1), ("factor-vae", 7), ("beta-vae", 32),
    ("factor-vae", 6), ("factor-vae", 20), ("beta-vae", 8), ("beta-vae", 16),
)  # fmt: skip


STUDY = Study(
    "kim2018",
    "shapes3d",
    [
        run
        for kind, weight in _ORDER
        for run in runs_of(f"shapes3d-{kind}", METHODS[kind].field, weight)
    ],
    measures=MEASURES,
    describe=partial(describe_vae, shown=_SHOWN, start=_START),
    pictured=best_of_settings(setting_of, OURS),
    form=VAEFacts,
)


def fig10(workspace: Workspace, results: Results) -> Result:
    """Figure 10: reconstruction error against the score."""
    figure, (axis,) = panels(1, 1, width=5.2, height=3.4)
    draw_trade_off(axis, results, KINDS, legend="lower right")
    return result_of(texts_of("fig10"), results, figure, trade_off_claims(results))


def trade_off_claims(results: Results) -> list[Claim]:
    """Judge scores and reconstruction errors of both methods."""
    texts, groups = texts_of("fig10"), results.groups(setting_of)
    best = {kind: best_of_all(results, kind) for kind in KINDS}
    ours, theirs, vae = best["factor-vae"], best["beta-vae"], groups[VAE]
    better, similar = ours.difference(vae, OURS), ours.difference(theirs, OURS)
    error = ours.difference(vae, DISTORTION)
    more = groups[FACTOR].difference(groups[BETA], DISTORTION)
    settings = {kind: _named(group) for kind, group in best.items()}
    return [
        texts.above("better_than_vae", better, needs=(ours, vae), best=settings["factor-vae"],
                    difference=better),
        texts.claim("reconstruction", error.high <= 0, contradicted=False, needs=(ours, vae),
                    best=settings["factor-vae"], difference=error),
        texts.claim("similar", similar.low > -SIMILAR and similar.high < SIMILAR,
                    contradicted=False, needs=(ours, theirs), bound=SIMILAR, difference=similar,
                    best=f"{settings['factor-vae']} and {settings['beta-vae']}"),
        texts.below("lower_error", more, needs=(groups[FACTOR], groups[BETA]), difference=more,
                    ours=groups[FACTOR].mean(DISTORTION), theirs=groups[BETA].mean(DISTORTION)),
    ]  # fmt: skip


def _named(group: Group) -> str:
    return label(setting_of(group.networks[0].run)) if group.networks else "–"


def fig11(workspace: Workspace, results: Results) -> Result:
    """Figure 11: traversals of the best and of the median networks."""
    figure = draw_traversals(results, KINDS)
    groups = results.groups(setting_of)
    claims = [_perfect_claim(kind, groups[kind, weight]) for kind, weight in BEST.items()]
    claims.append(_factors_claim({kind: best_of_all(results, kind) for kind in KINDS}))
    return result_of(texts_of("fig11"), results, figure, claims)


def _perfect_claim(kind: str, group: Group) -> Claim:
    scores = group.values(OURS)
    return texts_of("fig11").claim(
        "perfect", bool(scores.max() >= PERFECT), contradicted=False, needs=(group,),
        method=label((kind, BEST[kind])), best=scores.max(), median=float(np.median(scores)),
    )  # fmt: skip


def _factors_claim(best: Mapping[str, Group]) -> Claim:
    """Judge whether shape and scale get fewer of the votes of their samples than other factors."""
    differences, parts = [], []
    for kind, group in best.items():
        votes = [network.facts["factors"] for network in group.networks]
        differences.append(
            mean_over_networks(np.array([_hard_less_easy(n) for n in votes] or [np.nan]))
        )
        means = {name: np.mean([each[name] for each in votes]) for name in (votes or [{}])[0]}
        shares = ", ".join(f"{name.replace('_', ' ')} {value:.2f}" for name, value in means.items())
        parts.append(f"{METHODS[kind].name}: {shares}")
    return texts_of("fig11").claim(
        "factors", max(each.high for each in differences) < 0,
        contradicted=min(each.low for each in differences) > 0, needs=best.values(),
        votes="; ".join(parts),
    )  # fmt: skip


def _hard_less_easy(votes: Mapping[str, float]) -> float:
    """Return the mean share of votes of shape and scale, less that of the other factors."""
    hard = [share for name, share in votes.items() if name in HARD]
    easy = [share for name, share in votes.items() if name not in HARD]
    return float(np.mean(hard) - np.mean(easy))


def fig21(workspace: Workspace, results: Results) -> Result:
    """Figures 21 and 22: samples of the best networks, and their log-likelihoods."""
    groups, texts = results.groups(setting_of), texts_of("fig21")
    vae, factor, beta = groups[VAE], groups["factor-vae", 6.0], groups["beta-vae", 32.0]
    steps = [vae.difference(factor, LIKELIHOOD), factor.difference(beta, LIKELIHOOD)]
    claim = texts.above(
        "order", *steps, needs=(vae, factor, beta), vae=vae.mean(LIKELIHOOD),
        factor=factor.mean(LIKELIHOOD), beta=beta.mean(LIKELIHOOD),
    )  # fmt: skip
    return result_of(
        texts, results, draw_samples(results, KINDS), [claim], likelihoods=LIKELIHOODS,
        particles=PARTICLES,
    )  # fmt: skip
