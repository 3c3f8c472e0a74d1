"""The study of [Mathieu2019] figure 2: priors for axis-aligned disentanglement on 2D Shapes.

240 networks, ten seeds for each point of the figure, where the paper has a hundred. On an H200 a
step with a batch of 64 takes 81 us of each network in 64 lanes and 122 in 15; with a batch of 256
it should take at most four times as long. All networks then take 93 to 141 minutes. The runs are in
three slices, in order of importance:

- 60 networks, 19 to 28 minutes: Gaussian priors at beta = 1 and 4, 20 lanes for each prior;
- 60 networks, 37 to 56 minutes: Student-t priors, 10 lanes for each number of degrees of freedom;
- 120 networks, 37 to 56 minutes: Gaussian priors at the other beta, 40 lanes for each prior.

Runs of one prior train together whatever their slice, unless `--networks` leaves later ones out:
`unweave reproduce mathieu2019 fig2 --networks 60` trains the first slice alone.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from unweave.evaluation.model import FittedModel
from unweave.evaluation.monitor import Measure
from unweave.latents import Gaussian, StudentT
from unweave.metrics import evaluate
from unweave.presets import preset
from unweave.presets.mathieu2019 import BETAS, DEGREES
from unweave.studies.drawing import (
    BLUE,
    GREEN,
    INK,
    MUTED,
    ORANGE,
    Axes,
    Figure,
    Values,
    letter_panels,
    panels,
    shades,
)
from unweave.studies.forms import Divergences, Word
from unweave.studies.images import draw_pictures, traversals_png
from unweave.studies.intervals import RESAMPLES, difference_of_means, resampled_interval
from unweave.studies.study import PICTURES, Group, Network, Reader, Results, Study, best_of_settings
from unweave.studies.texts import Texts
from unweave.studies.workspace import Claim, Measured, Numbers, Result, Workspace
from unweave.training.records import Number
from unweave.training.run import Run

Setting = tuple[str, float]  # the prior, and its beta or degrees of freedom

GAUSSIANS, STUDENT = ("isotropic", "pca", "learned"), "student-t"
FIRST_BETAS = (1, 4)  # a VAE, and the value that Kim and Mnih found best
_DEGREES = (100, 5, 9, 3, 20, 50)  # nearly Gaussian, heavy tails, the released script, figure 5
SEEDS = "seed=0..9"

KIM, RELEASED = "factor_vae_score/kim2018", "factor_vae_score/mathieu2019"
DISTORTION = "terms/distortion"
MAPPED = "mapped_scores"  # on the codes as normal quantiles under the prior
SHOWN: tuple[Setting, ...] = (*((prior, 4.0) for prior in GAUSSIANS), (STUDENT, 5.0))
LATENTS = 6  # of a picture of traversals
ROWS = 10_000
_SHOWN = [column * 91_237 % 737_280 for column in range(8)]  # spread over the dataset
_START = 4 * 91_237 + 5_000  # the observation that traversals start from
Groups = Mapping[Setting, Group]
_NAMES = {
    "isotropic": "isotropic", "pca": "principal components", "learned": "learned variances",
    STUDENT: "Student-t",
}  # fmt: skip
_STYLES = dict(zip(GAUSSIANS, ((BLUE, "-", "o"), (ORANGE, "--", "s"), (GREEN, "-.", "^")),
                   strict=True))  # fmt: skip
_HEAVY = (STUDENT, 3.0)  # the lowest degrees of freedom, "very low" in the paper
_MIDDLE = (STUDENT, 5.0)
_LIGHT = (STUDENT, 100.0)  # nearly Gaussian
_MOST = 0.5  # of the variance of scores
_APART = 0.04  # of the range of losses, by which priors are drawn apart at few beta
_TEXTS = Texts(__package__, "fig2")


def _runs() -> list[Run]:
    assert set(_DEGREES) == set(DEGREES)
    later = [beta for beta in BETAS if beta not in FIRST_BETAS]

    def gaussian(betas: Iterable[float]) -> list[Run]:
        values = ",".join(map(str, betas))
        return [
            run
            for prior in GAUSSIANS
            for run in preset(f"mathieu2019/shapes2d-{prior}").runs(
                [f"objective.beta={values}", SEEDS]
            )
        ]

    degrees = f"latent.df={','.join(map(str, _DEGREES))}"
    student = preset(f"mathieu2019/shapes2d-{STUDENT}").runs([degrees, SEEDS])
    return [*gaussian(FIRST_BETAS), *student, *gaussian(later)]


def setting_of(run: Run) -> Setting:
    """Return the point of the figure that a run belongs to.

    >>> setting_of(STUDY.runs[0])
    ('isotropic', 1.0)
    """
    if isinstance(run.latent, StudentT):
        return STUDENT, run.latent.df
    assert isinstance(run.latent, Gaussian)
    learned = "pca" if run.latent.fixed_prior else "learned"
    prior = "isotropic" if run.latent.variances is None else learned
    return prior, float(run.weights["beta"])


def kim_score(network: Network) -> float:
    """Return the score as in the text: the metric of [Kim2018] on the means of q(z|x)."""
    return network.value(f"metrics/{KIM}")


def released_score(network: Network) -> float:
    """Return the score as in the released code: more votes, no pruning, and mapped codes."""
    return float(network.facts[MAPPED][RELEASED])


# The score of app. B, by how it is computed.
SCORES: dict[str, Callable[[Network], float]] = {
    "as in the text": kim_score,
    "as in the released code": released_score,
}


class _Facts(Divergences):
    """The form of the facts of a network."""

    prior_scales: list[Number]
    mapped_scores: dict[Word, Number]
    factors: dict[Word, Number]


def describe(model: FittedModel) -> Numbers:
    """Return what figures show of a trained network, beside its curves."""
    table = model.table(ROWS, codes="prior-cdf")
    assert table.kl is not None
    scores = evaluate(table, metrics=(KIM, RELEASED))
    return {
        "kl": table.kl.tolist(),
        "prior_scales": model.prior().stddev.tolist(),
        MAPPED: {name: score.value for name, score in scores.items()},
        "factors": scores[RELEASED].parts,
        PICTURES: {"traversals": traversals_png(model, table.kl, _SHOWN, _START, LATENTS)},
    }


STUDY = Study(
    "mathieu2019",
    "shapes2d",
    _runs(),
    measures=(
        Measure(every=11_520, rows=8_192),
        Measure(every=57_600, metrics=(KIM,)),
        Measure(  # at the end only
            every=230_400,
            metrics=(RELEASED, "mutual_information", "total_correlation", "dimension_kl"),
        ),
    ),
    describe=describe,
    pictured=best_of_settings(setting_of, released_score, among=SHOWN),
    form=_Facts,
)


def fig2(workspace: Workspace, results: Results) -> Result:
    """Figure 2: reconstruction loss against disentanglement, Gaussian and Student-t priors."""
    groups = {setting: g for setting, g in sorted(results.groups(setting_of).items()) if g.networks}
    counts = []
    for prior in (*GAUSSIANS, STUDENT):
        symbol = "ν" if prior == STUDENT else "β"
        own = {value: group for (name, value), group in groups.items() if name == prior}
        each = ", ".join(f"{symbol} = {v:g}: {len(group.networks)}" for v, group in own.items())
        counts += [f"{_NAMES[prior]} {each}"] if own else []
    return _TEXTS.result(
        {"": _draw(groups, results), "traversals": _draw_traversals(groups)}, claims_of(results),
        results=results, counts="; ".join(counts) or "none yet", latents=LATENTS,
        differences=_at_each_beta(groups), lines=_lines(groups),
        intervals=_intervals(groups),
    )  # fmt: skip


def _at_each_beta(groups: Groups) -> str:
    """List by how much anisotropic priors score above the isotropic one, beta by beta."""
    isotropic = _complete(groups, "isotropic")
    return "; ".join(
        f"{_NAMES[prior]}, β = {beta:g}: {name} {group.difference(isotropic[beta], score)}"
        for prior in GAUSSIANS[1:]
        for beta, group in _complete(groups, prior).items() if beta in isotropic
        for name, score in SCORES.items()
    ) or "none yet"  # fmt: skip


def _intervals(groups: Groups) -> str:
    """Explain how the caption's means and intervals are drawn."""
    apart = _apart(groups)
    students = any(prior == STUDENT for prior, _ in groups)
    texts = ["few" if apart else "several", *(["students"] if students else [])]
    return " ".join(_TEXTS(name, apart=apart) for name in texts)


def _lines(groups: Groups) -> str:
    """Say how few lines the curve of the isotropic prior has, and how long they are."""
    losses = [group.mean(DISTORTION).value for group in _complete(groups, "isotropic").values()]
    count = len(losses) - 1
    if count < 1:
        return ""
    number = "one line" if count == 1 else f"{count} lines"
    return f", here {number} over {np.ptp(losses):.0f} nats"


def claims_of(results: Results) -> tuple[Claim, ...]:
    """Judge what the paper says about figure 2."""
    groups = results.groups(setting_of)
    anisotropic = "non-isotropic Gaussian priors get better disentanglement scores for a given "
    heavy, middle, light = (groups.get(s, Group((), 1)) for s in (_HEAVY, _MIDDLE, _LIGHT))
    more = middle.difference(light, DISTORTION)
    return (
        _no_gain(groups),
        *(_better(groups, prior, "isotropic",
                  f"{anisotropic}reconstruction loss ({_NAMES[prior]})")
          for prior in ("pca", "learned")),
        _better(groups, "learned", "pca",
                "improvement is achieved when the prior variance is learnt"),
        _above(
            "heavier_tails", [_all(groups, STUDENT)],
            {name: _slope(groups, score) for name, score in SCORES.items()},
        ),
        _TEXTS.claim("penalty", more.high <= 0, contradicted=False, needs=(middle, light),
                     more=more, light=light.mean(DISTORTION)),
        _above("drops", [middle, heavy], _differences(middle, heavy), decisive=False),
        _above("still_higher", [heavy, light], _differences(heavy, light)),
        between_seeds(groups),
    )  # fmt: skip


def _complete(groups: Groups, prior: str) -> dict[float, Group]:
    """Return the complete groups of a prior, by beta or degrees of freedom."""
    return {
        value: group for (name, value), group in sorted(groups.items())
        if name == prior and group.complete and len(group.networks) > 1
    }  # fmt: skip


def _all(groups: Groups, *priors: str) -> Group:
    """Return all networks of some priors."""
    return Group.joined(group for (prior, _), group in groups.items() if prior in priors)


def _no_gain(groups: Groups) -> Claim:
    everyone, complete = _all(groups, "isotropic"), _complete(groups, "isotropic")
    if 1.0 not in complete or len(complete) < 2:
        return _TEXTS.claim("no_gain", needs=(Group((), everyone.total),), gains="")
    level = 1 - 0.05 / (len(complete) - 1)
    got, gains = [], []
    for name, score in SCORES.items():
        base = complete[1.0].values(score)
        more = {
            beta: difference_of_means(group.values(score), base, level)
            for beta, group in complete.items()
            if beta > 1
        }
        best = max(more, key=lambda beta: more[beta].low)
        gains.append(more[best].low > 0)
        got.append(f"{name}, β = {best:g} less β = 1: {more[best]}")
    return _TEXTS.claim("no_gain", not any(gains), contradicted=all(gains), needs=(everyone,),
                        gains="; ".join(got))  # fmt: skip


def between_seeds(groups: Groups) -> Claim:
    """Judge how much of the variance of scores is between seeds of one setting."""
    everyone, listed, shares = _all(groups, *GAUSSIANS, STUDENT), [], []
    for name, score in SCORES.items():
        values = [group.values(score) for group in groups.values() if len(group.networks) > 1]
        if values:
            shares.append(_share_within(values))
            widest = max(map(np.ptp, values))
            listed.append(f"{name} {shares[-1]}, up to {widest:.2f} apart with one setting")
    high = bool(shares) and min(share.low for share in shares) > _MOST
    return _TEXTS.claim("seeds", high, contradicted=False, needs=(everyone,), bound=_MOST,
                        shares="; ".join(listed) or "–")  # fmt: skip


def _share_within(values: Sequence[Values]) -> Measured:
    """Return the share of the variance that is within groups, with a bootstrap interval.

    Networks that are drawn twice vary less, so the interval is rather too low than too high.
    """
    draw = np.random.default_rng(0).choice
    samples = [np.stack([each, *draw(each, (RESAMPLES, len(each)))]) for each in values]
    within = np.concatenate([each - each.mean(1, keepdims=True) for each in samples], 1)
    share = within.var(1) / np.concatenate(samples, 1).var(1)
    count, freedom = min(map(len, values)), within.shape[1] - len(values)
    return resampled_interval(share[0], share[1:], count, freedom=freedom)


def _better(groups: Groups, ours: str, theirs: str, text: str) -> Claim:
    """Judge whether one prior scores higher than another at equal reconstruction."""
    one, two = _complete(groups, ours), _complete(groups, theirs)
    betas = sorted(set(one) & set(two))
    one, two = ({beta: each[beta] for beta in betas} for each in (one, two))
    differences = {
        name: at_equal_reconstruction(one, two, score)
        if len(betas) > 1
        else Measured(*[np.nan] * 3)
        for name, score in SCORES.items()
    }
    return _above("better", [_all(groups, ours, theirs)], differences, text=text,
                  ours=_NAMES[ours], theirs=_NAMES[theirs])  # fmt: skip


def _above(
    name: str,
    needs: list[Group],
    differences: Mapping[str, Measured],
    decisive: bool = True,
    **values: Any,
) -> Claim:
    """Judge that differences are above 0: fails only if every version of the metric denies it."""
    known = [each for each in differences.values() if not np.isnan(each.value)]
    listed = "; ".join(f"{score} {each}" for score, each in differences.items())
    reason = "The intervals allow both answers."
    if not known:
        listed = "no common losses"
        reason = "The two priors reach no reconstruction loss in common."
    return _TEXTS.claim(
        name, bool(known) and all(each.low > 0 for each in known),
        contradicted=decisive and bool(known) and all(each.high < 0 for each in known),
        needs=needs, differences=listed, reason=reason, **values,
    )  # fmt: skip


def at_equal_reconstruction(
    ours: Mapping[float, Group], theirs: Mapping[float, Group], score: Reader
) -> Measured:
    """Return the mean score at given reconstruction losses, less that of others, with an interval.

    Between the settings the mean score is linear in the mean loss; the difference is averaged over
    the losses that both have. Seeds are resampled. Without common losses the result is NaN.
    """
    rng = np.random.default_rng(0)

    def resample(groups: Mapping[float, Group]) -> Values:
        """Return mean losses and scores, (settings, 1 + resamples, 2), the original first."""
        means = []
        for group in groups.values():
            pairs = np.stack([group.values(DISTORTION), group.values(score)], 1)
            picked = rng.integers(len(pairs), size=(RESAMPLES, len(pairs)))
            means.append(np.concatenate([pairs.mean(0)[None], pairs[picked].mean(1)]))
        return np.stack(means)

    one, two = resample(ours), resample(theirs)
    gaps = np.array([_gap(one[:, draw], two[:, draw]) for draw in range(1 + RESAMPLES)])
    count = min(len(group.networks) for group in (*ours.values(), *theirs.values()))
    return resampled_interval(gaps[0], gaps[1:], count)


def _gap(one: Values, two: Values) -> float:
    """Return the mean vertical distance of two curves of points (n, 2) over their common x."""
    one, two = one[np.argsort(one[:, 0])], two[np.argsort(two[:, 0])]
    low, high = max(one[0, 0], two[0, 0]), min(one[-1, 0], two[-1, 0])
    if low >= high:
        return float("nan")
    grid = np.linspace(low, high, 65)
    return float(np.mean(np.interp(grid, *one.T) - np.interp(grid, *two.T)))


def _slope(groups: Groups, score: Reader) -> Measured:
    """Return the rise of the score with -log2 of the degrees of freedom, by least squares."""
    complete = {df: g for df, g in _complete(groups, STUDENT).items() if df > _HEAVY[1]}
    if len(complete) < 2:
        return Measured(*[float("nan")] * 3)
    rng = np.random.default_rng(0)
    values = [group.values(score) for group in complete.values()]
    x = -np.log2(np.repeat(list(complete), [len(each) for each in values]))
    samples = np.concatenate([rng.choice(each, (RESAMPLES, len(each))) for each in values], 1)
    weights = (x - x.mean()) / np.square(x - x.mean()).sum()
    slope, count = float(np.concatenate(values) @ weights), min(map(len, values))
    return resampled_interval(slope, samples @ weights, count)


def _differences(ours: Group, theirs: Group) -> dict[str, Measured]:
    """Return the differences of mean scores, for each version of the metric."""
    return {name: ours.difference(theirs, score) for name, score in SCORES.items()}


def _draw(groups: Groups, results: Results) -> Figure:
    """Draw a row of panels for each kind of prior that has networks."""
    kinds = {"Gaussian": GAUSSIANS, "Student-t": (STUDENT,)}
    there = {
        kind: sum(len(g.networks) for (prior, _), g in groups.items() if prior in priors)
        for kind, priors in kinds.items()
    }
    drawn = [kind for kind in kinds if there[kind]]
    figure, axes = panels(max(1, len(drawn)), 2, width=3.7, height=3.0)
    for kind, left, right in zip(drawn, axes[::2], axes[1::2], strict=False):
        for axis, score in zip((left, right), SCORES.values(), strict=True):
            if kind == "Gaussian":
                for prior in GAUSSIANS:
                    _draw_curve(axis, groups, prior, score)
            else:
                _draw_points(axis, groups, score)
            axis.set_xlabel("reconstruction loss (nats)")
        left.set_ylabel("disentanglement score")
        right.sharey(left)
        left.margins(y=0.12)  # room for labels
        left.autoscale()
        whole = sum(setting_of(run)[0] in kinds[kind] for run in results.study.runs)
        if there[kind] < whole:
            left.text(0.5, 0.02, f"{there[kind]} of {whole} networks", color=MUTED, fontsize=8,
                      ha="center", transform=left.transAxes)  # fmt: skip
        handles, labels = left.get_legend_handles_labels()
        if handles:
            figure.legend(handles, labels, loc="outside upper right", ncols=len(handles))
    letter_panels(axes, [f"{kind}, score {name}" for kind in drawn for name in SCORES])
    return figure


def _draw_curve(axis: Axes, groups: Groups, prior: str, score: Reader) -> None:
    """Draw mean scores over mean losses, a point for each beta."""
    colour, dashes, marker = _STYLES[prior]
    own = {beta: group for (name, beta), group in groups.items() if name == prior}
    if not own:
        return
    losses = np.array([group.values(DISTORTION).mean() for group in own.values()])
    means = [group.mean(score) for group in own.values()]
    scores, bounds = np.array([m.value for m in means]), np.array([(m.low, m.high) for m in means])
    apart = _apart(groups)
    shift = (GAUSSIANS.index(prior) - 1) * apart
    for group in own.values():
        axis.plot(group.values(DISTORTION) + shift, group.values(score), marker, color=colour,
                  markersize=2, alpha=0.25, linewidth=0)  # fmt: skip
    if apart:  # a band would suggest measurements in between
        axis.plot(losses + shift, scores, color=colour, linestyle=":", linewidth=0.8)
        axis.errorbar(losses + shift, scores, np.abs(bounds.T - scores), fmt=marker, color=colour,
                      markersize=5, capsize=2, linewidth=1.2, label=_NAMES[prior])  # fmt: skip
    else:
        axis.fill_between(losses, *bounds.clip(0, 1).T, color=colour, alpha=0.15, linewidth=0)
        axis.plot(losses, scores, color=colour, linestyle=dashes, marker=marker, markersize=5,
                  label=_NAMES[prior])  # fmt: skip
    for beta, loss in zip(own, losses, strict=True):
        first = next(name for name in GAUSSIANS if (name, beta) in groups)
        if prior == first:  # the losses of the others are nearly the same
            axis.annotate(f"β = {beta:g}", (loss, 0.03), xycoords=axis.get_xaxis_transform(),
                          ha="center", fontsize=7.5, color=INK)  # fmt: skip


def _apart(groups: Groups) -> float:
    """Return by how many nats priors are drawn apart: 0 if there are enough beta for curves."""
    losses = {
        beta: group.values(DISTORTION).mean()
        for (prior, beta), group in groups.items()
        if prior in GAUSSIANS
    }
    return _APART * float(np.ptp(list(losses.values()))) if 0 < len(losses) < 3 else 0.0


def _label(axis: Axes, text: str, x: float, y: float) -> None:
    """Label a point; a white edge keeps the label legible on bands and lines."""
    from matplotlib.patheffects import withStroke

    edge = withStroke(linewidth=2, foreground="white")
    axis.annotate(text, (x, y), (4, 4), textcoords="offset points", fontsize=7.5, color=INK,
                  path_effects=[edge])  # fmt: skip


def _draw_points(axis: Axes, groups: Groups, score: Reader) -> None:
    """Draw a point for each number of degrees of freedom, and one for the isotropic Gaussian."""
    degrees = sorted(df for name, df in groups if name == STUDENT)
    points = [(groups[STUDENT, df], f"ν = {df:g}", colour)
              for df, colour in zip(degrees, shades(len(degrees)), strict=False)]  # fmt: skip
    if ("isotropic", 1.0) in groups and degrees:
        points.append((groups["isotropic", 1.0], "Gaussian", MUTED))
    for group, label, colour in points:
        loss, mean = group.mean(DISTORTION), group.mean(score)
        axis.plot(group.values(DISTORTION), group.values(score), "o", color=colour, markersize=2,
                  alpha=0.35)  # fmt: skip
        axis.plot([loss.low, loss.high], [mean.value] * 2, color=colour, linewidth=1)
        axis.plot([loss.value] * 2, [mean.low, mean.high], color=colour, linewidth=1)
        axis.plot(loss.value, mean.value, "o", color=colour, markersize=6)
        _label(axis, label, loss.value, mean.value)


def _draw_traversals(groups: Groups) -> Figure:
    ranked = {
        setting: groups[setting].best_and_median(released_score)
        for setting in SHOWN if setting in groups
    }  # fmt: skip
    pictures = {}
    for column, ((prior, value), networks) in enumerate(ranked.items()):
        for row, (which, network) in enumerate(networks.items()):
            symbol = "ν" if prior == STUDENT else "β"
            title = f"{_NAMES[prior]}, {symbol} = {value:g}\n{which}, score "
            pictures[row * len(ranked) + column] = (
                network.facts[PICTURES]["traversals"], title + f"{released_score(network):.2f}",
            )  # fmt: skip
    return draw_pictures(2, max(1, len(ranked)), pictures, 1.9, 2.1, fontsize=7.5)
