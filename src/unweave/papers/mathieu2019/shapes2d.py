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

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

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
    Values,
    letter_panels,
    panels,
    shades,
)
from unweave.studies.images import draw_pictures, traversals_png
from unweave.studies.intervals import RESAMPLES, bootstrap_difference, percentile_interval
from unweave.studies.study import PICTURES, Group, Network, Reader, Results, Study, best_of_settings
from unweave.studies.texts import Texts
from unweave.studies.workspace import Claim, Measured, Numbers, Result, Workspace
from unweave.training.run import Run

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

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
_MINOR = 0.1  # part of the reconstruction loss that we call minor
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
    return network.last(f"metrics/{KIM}")


def released_score(network: Network) -> float:
    """Return the score as in the released code: more votes, no pruning, and mapped codes."""
    return float(network.facts[MAPPED][RELEASED])


# The score of app. B, by how it is computed.
SCORES: dict[str, Callable[[Network], float]] = {
    "as in the text": kim_score,
    "as in the released code": released_score,
}


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
    failed = sum(network.failure is not None for network in results.networks)
    return _TEXTS.result(
        {"": _draw(groups, results), "traversals": _draw_traversals(groups)}, claims_of(results),
        there=len(results.networks), planned=len(results.study.runs),
        failed=f", {failed} of which failed" if failed else "",
        counts="; ".join(counts) or "none yet", seeds=results.seeds, latents=LATENTS,
    )  # fmt: skip


def claims_of(results: Results) -> tuple[Claim, ...]:
    """Judge what the paper says about figure 2."""
    groups = results.groups(setting_of)
    share = {prior: _share(groups, prior) for prior in _NAMES}
    anisotropic = "non-isotropic Gaussian priors get better disentanglement scores for a given "
    heavy, middle, light = (groups.get(s, Group((), 1)) for s in (_HEAVY, _MIDDLE, _LIGHT))
    more = middle.difference(light, DISTORTION)
    return (
        _no_gain(groups, share["isotropic"]),
        *(_better(groups, prior, "isotropic",
                  f"{anisotropic}reconstruction loss ({_NAMES[prior]})")
          for prior in ("pca", "learned")),
        _better(groups, "learned", "pca",
                "improvement is achieved when the prior variance is learnt"),
        _above(
            "heavier_tails", [middle, light],
            {name: _slope(groups, score) for name, score in SCORES.items()}, share=share[STUDENT],
        ),
        _TEXTS.claim("penalty", more.high < _MINOR * light.values(DISTORTION).mean(),
                     contradicted=False, needs=(middle, light), minor=_MINOR, more=more,
                     light=light.mean(DISTORTION)),
        _above("drops", [middle, heavy], _differences(middle, heavy), decisive=False),
        _above("still_higher", [heavy, light], _differences(heavy, light)),
    )  # fmt: skip


def _complete(groups: Groups, prior: str) -> dict[float, Group]:
    """Return the complete groups of a prior, by beta or degrees of freedom."""
    return {
        value: group for (name, value), group in sorted(groups.items())
        if name == prior and group.complete and len(group.networks) > 1
    }  # fmt: skip


def _share(groups: Groups, *priors: str) -> str:
    """Say how many networks a judgement rests on, if some of them are missing."""
    own = [group for (prior, _), group in groups.items() if prior in priors]
    done, total = sum(group.done for group in own), sum(group.total for group in own)
    return f" ({done} of {total} networks trained)" if done < total else ""


def _first(groups: Groups, *priors: str) -> list[Group]:
    """Return the groups that a claim about priors needs at least."""
    return [
        groups.get((prior, float(beta)), Group((), 1)) for prior in priors for beta in FIRST_BETAS
    ]


def _no_gain(groups: Groups, share: str) -> Claim:
    needs, complete = _first(groups, "isotropic"), _complete(groups, "isotropic")
    if not all(group.complete for group in needs):
        return _TEXTS.claim("no_gain", needs=needs, gains="", share="")
    level = 1 - 0.05 / (len(complete) - 1)
    got, gains = [], []
    for name, score in SCORES.items():
        base = complete[1.0].values(score)
        more = {
            beta: bootstrap_difference(group.values(score), base, level)
            for beta, group in complete.items()
            if beta > 1
        }
        best = max(more, key=lambda beta: more[beta].low)
        gains.append(more[best].low > 0)
        got.append(f"{name}, β = {best:g} less β = 1: {more[best]}")
    return _TEXTS.claim("no_gain", not any(gains), contradicted=all(gains), gains="; ".join(got),
                        share=share)  # fmt: skip


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
    return _above("better", _first(groups, ours, theirs), differences, text=text,
                  ours=_NAMES[ours], theirs=_NAMES[theirs],
                  share=_share(groups, ours, theirs))  # fmt: skip


def _above(
    name: str,
    needs: list[Group],
    differences: Mapping[str, Measured],
    decisive: bool = True,
    **values: Any,
) -> Claim:
    """Judge that differences are above 0: fails only if every version of the metric denies it."""
    known = [each for each in differences.values() if not np.isnan(each.value)]
    listed = "; ".join(f"{score}: {each}" for score, each in differences.items())
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
    return percentile_interval(gaps[0], gaps[1:])


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
    return percentile_interval(float(np.concatenate(values) @ weights), samples @ weights)


def _differences(ours: Group, theirs: Group) -> dict[str, Measured]:
    """Return the differences of mean scores, for each version of the metric."""
    return {name: ours.difference(theirs, score) for name, score in SCORES.items()}


def _draw(groups: Groups, results: Results) -> Figure:
    figure, axes = panels(2, 2, width=3.7, height=2.9)
    for column, score in enumerate(SCORES.values()):
        top, bottom = axes[column], axes[2 + column]
        for prior in GAUSSIANS:
            _draw_curve(top, groups, prior, score)
        _draw_points(bottom, groups, score)
        for axis in (top, bottom):
            axis.set_xlabel("reconstruction loss (nats)")
            axis.set_ylabel("disentanglement score" if column == 0 else "")
    for (left, right), priors in ((axes[:2], GAUSSIANS), (axes[2:], (STUDENT,))):
        right.sharey(left)
        left.autoscale()
        there = sum(len(g.networks) for (prior, _), g in groups.items() if prior in priors)
        whole = sum(setting_of(run)[0] in priors for run in results.study.runs)
        if there < whole:
            left.text(0.02, 0.02, f"{there} of {whole} networks", color=MUTED, fontsize=8,
                      transform=left.transAxes)  # fmt: skip
        if not there:
            left.set(xticks=[], yticks=[])
            right.set(xticks=[], yticks=[])
    if axes[0].get_legend_handles_labels()[0]:
        axes[0].legend(loc="lower right", title="Gaussian prior", title_fontsize=8)
    letter_panels(axes, [f"{kind}, score {name}" for kind in ("Gaussian", "Student-t")
                         for name in SCORES])  # fmt: skip
    return figure


def _draw_curve(axis: Axes, groups: Groups, prior: str, score: Reader) -> None:
    """Draw mean scores over mean losses, a point for each beta."""
    colour, dashes, marker = _STYLES[prior]
    own = {beta: group for (name, beta), group in groups.items() if name == prior}
    if not own:
        return
    losses = [float(group.values(DISTORTION).mean()) for group in own.values()]
    scores = [group.mean(score) for group in own.values()]
    for group in own.values():
        axis.plot(group.values(DISTORTION), group.values(score), marker, color=colour, markersize=2,
                  alpha=0.25, linewidth=0)  # fmt: skip
    bounds = np.clip([(m.low, m.high) for m in scores], 0, 1)
    axis.fill_between(losses, *bounds.T, color=colour, alpha=0.15, linewidth=0)
    axis.plot(losses, [m.value for m in scores], color=colour, linestyle=dashes, marker=marker,
              markersize=5, label=_NAMES[prior])  # fmt: skip
    for beta, loss, mean in zip(own, losses, scores, strict=True):
        _label(axis, f"{beta:g}", loss, mean.value, colour)


def _label(axis: Axes, text: str, x: float, y: float, colour: str) -> None:
    """Label a point; a white edge keeps the label legible on bands and lines."""
    from matplotlib.patheffects import withStroke

    axis.annotate(text, (x, y), (4, 4), textcoords="offset points", fontsize=7.5, color=colour,
                  path_effects=[withStroke(linewidth=2, foreground="white")])  # fmt: skip


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
        _label(axis, label, loss.value, mean.value, INK)


def _draw_traversals(groups: Groups) -> Figure:
    pictures = {}
    for column, (prior, value) in enumerate(SHOWN):
        group = groups.get((prior, value), Group((), 0))
        for row, (which, network) in enumerate(group.best_and_median(released_score).items()):
            symbol = "ν" if prior == STUDENT else "β"
            title = f"{_NAMES[prior]}, {symbol} = {value:g}\n{which}, score "
            pictures[row * len(SHOWN) + column] = (
                network.facts[PICTURES]["traversals"], title + f"{released_score(network):.2f}",
            )  # fmt: skip
    return draw_pictures(2, len(SHOWN), pictures, 1.9, 2.1, fontsize=7.5)
