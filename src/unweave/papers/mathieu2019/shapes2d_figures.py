"""Figure 2 of [Mathieu2019]: reconstruction against disentanglement on 2D Shapes, by the prior."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from unweave.papers.mathieu2019.shapes2d import (
    DISTORTION,
    FIRST_BETAS,
    GAUSSIANS,
    LATENTS,
    SCORES,
    SHOWN,
    STUDENT,
    STUDY,
    Setting,
    best_and_median,
    by_setting,
    released_score,
    setting_of,
)
from unweave.studies.drawing import BLUE, GREEN, INK, MUTED, ORANGE, Values, lettered, panels
from unweave.studies.images import decoded_png
from unweave.studies.intervals import student_difference, student_mean
from unweave.studies.study import PICTURES, Network, Results, results_of
from unweave.studies.workspace import Claim, Measured, Result, Workspace, judged

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Score = Callable[[Network], float]
Found = Mapping[Setting, Sequence[Network]]
Gaps = Mapping[str, Measured]  # a difference that the paper says is above 0, for each score

_NAMES = {
    "isotropic": "isotropic", "pca": "principal components", "learned": "learned variances",
    STUDENT: "Student-t",
}  # fmt: skip
_STYLES = dict(zip(GAUSSIANS, ((BLUE, "-", "o"), (ORANGE, "--", "s"), (GREEN, "-.", "^")),
                   strict=True))  # fmt: skip
_DRAWS = 2_000  # of the bootstrap
_HEAVY = 3.0  # the lowest degrees of freedom, "very low" in the paper
_LIMIT = 100.0  # nearly Gaussian
_MINOR = 0.1  # part of the reconstruction loss that we call minor
_BOTH_ANSWERS = "The intervals allow both answers."


def fig2(workspace: Workspace) -> Result:
    """Figure 2: reconstruction loss against disentanglement, Gaussian and Student-t priors."""
    results = results_of(workspace, STUDY)
    found = by_setting(results.networks)
    return Result(
        {"": _draw(found), "traversals": _draw_traversals(found)},
        {
            "": "Means over seeds; bands and bars are 95% t intervals of the mean, and small "
            "points are networks. Top: Gaussian priors, labelled with β. Bottom: Student-t priors "
            "with β = 1, labelled with ν; grey: the isotropic Gaussian prior with β = 1, from the "
            "top row, which was trained with smaller batches. Left: the metric of Kim and Mnih as "
            "the text has it. Right: as the released code computes it. Low loss and a high score "
            "are good.",
            "traversals": "First row: originals. Second: reconstructions. Others: traversals over "
            f"two standard deviations of the prior to either side of the {LATENTS} latents with "
            "the largest KL(q(zⱼ|x) ‖ p(zⱼ)), largest first. Best and median by the score as in "
            "the released code. The paper does not show traversals.",
        },
        claims_of(results),
        _setting(results, found),
        _seeds(results),
    )


def claims_of(results: Results) -> tuple[Claim, ...]:
    """What the paper says of figure 2; undecided where the networks for it are missing."""
    return (
        _no_gain(results),
        *(_better(results, prior, "isotropic", "non-isotropic Gaussian priors get better "
                  f"disentanglement scores for a given reconstruction loss ({_NAMES[prior]})")
          for prior in ("pca", "learned")),
        _better(results, "learned", "pca", "improvement is achieved when the prior variance is "
                "learnt"),
        _heavier_tails(results), _minor_penalty(results), _drops_again(results),
        _still_higher(results),
    )  # fmt: skip


def _no_gain(results: Results) -> Claim:
    text = (
        "no gains in disentanglement from increasing β > 1 with an isotropic Gaussian prior",
        "sec. 4.1, fig. 2",
    )
    expected = "no β scores higher than β = 1, with 95% intervals for all β together"
    found = _trained(results, "isotropic")
    if not {float(beta) for beta in FIRST_BETAS} <= set(found):
        return _waiting(results, [("isotropic", float(beta)) for beta in FIRST_BETAS],
                        *text, expected)  # fmt: skip
    level = 1 - 0.05 / (len(found) - 1)
    got, gains = [], []
    for name, score in SCORES.items():
        gaps = {
            beta: student_difference(_of(found[beta], score), _of(found[1.0], score), level)
            for beta in found if beta > 1
        }  # fmt: skip
        best = max(gaps, key=lambda beta: gaps[beta].low)
        gains.append(gaps[best].low > 0)
        got.append(f"{name}, β = {best:g} less β = 1: {gaps[best]}")
    return judged(
        *text, expected, "; ".join(got) + _share(results, "isotropic"), not any(gains),
        "" if all(gains) else "The two versions of the metric disagree.", decisive=all(gains),
    )  # fmt: skip


def _better(results: Results, ours: str, theirs: str, statement: str) -> Claim:
    """Whether one prior scores higher than another at equal reconstruction."""
    where = "sec. 6.1, fig. 2 top"
    expected = (
        f"{_NAMES[ours]} less {_NAMES[theirs]}: the difference of scores at equal reconstruction, "
        "averaged over the losses that both priors reach, is above 0"
    )
    one, two = _trained(results, ours), _trained(results, theirs)
    betas = sorted(set(one) & set(two))
    if len(betas) < 2:
        needed = [(prior, float(beta)) for prior in (ours, theirs) for beta in FIRST_BETAS]
        return _waiting(results, needed, statement, where, expected)
    one, two = ({beta: each[beta] for beta in betas} for each in (one, two))
    gaps = {name: at_equal_reconstruction(one, two, score) for name, score in SCORES.items()}
    return _judged_by_all(statement, where, expected, gaps, _share(results, ours, theirs))


def at_equal_reconstruction(
    ours: Mapping[float, Sequence[Network]], theirs: Mapping[float, Sequence[Network]], score: Score
) -> Measured:
    """The mean score at given reconstruction losses, less that of others, with a 95% interval.

    Between the settings the mean score is linear in the mean loss; the difference is averaged over
    the losses that both have. Seeds are resampled. Without common losses all is NaN.
    """
    rng = np.random.default_rng(0)

    def drawn(settings: Mapping[float, Sequence[Network]]) -> Values:
        """Mean loss and score by setting, (settings, 1 + draws, 2), the seeds as they are first."""
        means = []
        for networks in settings.values():
            pairs = np.stack([_of(networks, _loss), _of(networks, score)], 1)
            picked = rng.integers(len(pairs), size=(_DRAWS, len(pairs)))
            means.append(np.concatenate([pairs.mean(0)[None], pairs[picked].mean(1)]))
        return np.stack(means)

    one, two = drawn(ours), drawn(theirs)
    gaps = np.array([_gap(one[:, draw], two[:, draw]) for draw in range(1 + _DRAWS)])
    if np.isnan(gaps[0]):
        return Measured(*[float("nan")] * 3)
    low, high = np.nanquantile(gaps[1:], (0.025, 0.975))
    return Measured(float(gaps[0]), float(low), float(high))


def _gap(one: Values, two: Values) -> float:
    """The mean vertical distance of two curves of points (n, 2) over the x that both have."""
    one, two = one[np.argsort(one[:, 0])], two[np.argsort(two[:, 0])]
    low, high = max(one[0, 0], two[0, 0]), min(one[-1, 0], two[-1, 0])
    if low >= high:
        return float("nan")
    grid = np.linspace(low, high, 65)
    return float(np.mean(np.interp(grid, *one.T) - np.interp(grid, *two.T)))


def _heavier_tails(results: Results) -> Claim:
    text = "reducing ν … for improved disentanglement"
    where, expected = "sec. 6.1, fig. 2 bottom", (
        "over ν from 100 down to 5, the score rises with each halving of ν"
    )  # fmt: skip
    found = {df: each for df, each in _trained(results, STUDENT).items() if df > _HEAVY}
    if len(found) < 2 or _LIMIT not in found:
        return _waiting(results, [(STUDENT, 5.0), (STUDENT, _LIMIT)], text, where, expected)
    gaps = {name: _slope(found, score) for name, score in SCORES.items()}
    return _judged_by_all(text, where, expected, gaps, _share(results, STUDENT))


def _slope(found: Mapping[float, Sequence[Network]], score: Score) -> Measured:
    """The rise of the score with -log2 ν by least squares, with its 95% bootstrap interval."""
    rng = np.random.default_rng(0)
    x = -np.log2(np.repeat(list(found), [len(each) for each in found.values()]))
    values = [_of(networks, score) for networks in found.values()]
    drawn = np.concatenate([rng.choice(each, (_DRAWS, len(each))) for each in values], 1)
    weights = (x - x.mean()) / np.square(x - x.mean()).sum()
    low, high = np.quantile(drawn @ weights, (0.025, 0.975))
    return Measured(float(np.concatenate(values) @ weights), float(low), float(high))


def _minor_penalty(results: Results) -> Claim:
    text = "reducing ν only incurs a minor reconstruction penalty"
    where, expected = "sec. 6.1, fig. 2 bottom", (
        f"the loss of ν = 5 is less than {_MINOR:.0%} above that of ν = 100 (our bound)"
    )  # fmt: skip

    def judge(found: Found) -> Claim:
        light = _of(found[STUDENT, _LIMIT], _loss)
        gap = student_difference(_of(found[STUDENT, 5.0], _loss), light)
        got = f"{gap} nats more than the {student_mean(light)} of ν = 100"
        holds = gap.high < _MINOR * light.mean()
        return judged(text, where, expected, got, holds, decisive=False)

    return _needing(results, [(STUDENT, 5.0), (STUDENT, _LIMIT)], text, where, expected, judge)


def _drops_again(results: Results) -> Claim:
    text = "very low values of ν caused the disentanglement score to drop again"
    where, expected = "sec. 6.1, fig. 2 bottom", "ν = 5 scores higher than ν = 3 (our reading)"

    def judge(found: Found) -> Claim:
        gaps = _gaps(found[STUDENT, 5.0], found[STUDENT, _HEAVY])
        note = "The paper does not say which values are very low; another ν could drop."
        return _judged_by_all(text, where, expected, gaps, "", note, decisive=False)

    return _needing(results, [(STUDENT, 5.0), (STUDENT, _HEAVY)], text, where, expected, judge)


def _still_higher(results: Results) -> Claim:
    text = "(very low values of ν) still giving higher values than the Gaussian"
    where = "sec. 6.1, fig. 2 bottom"
    expected = "ν = 3 scores higher than ν = 100, which is nearly Gaussian and trained alike"

    def judge(found: Found) -> Claim:
        gaps = _gaps(found[STUDENT, _HEAVY], found[STUDENT, _LIMIT])
        return _judged_by_all(text, where, expected, gaps)

    return _needing(results, [(STUDENT, _HEAVY), (STUDENT, _LIMIT)], text, where, expected, judge)


def _judged_by_all(
    statement: str,
    where: str,
    expected: str,
    gaps: Gaps,
    share: str = "",
    note: str = "",
    decisive: bool = True,
) -> Claim:
    """A claim that differences are above 0: fails only if every version of the metric denies it."""
    known = [gap for gap in gaps.values() if not np.isnan(gap.value)]
    got = "; ".join(f"{name}: {gap}" for name, gap in gaps.items()) + share
    if not known:
        return Claim(statement, where, expected, f"no common losses{share}", "undecided",
                     "The two priors reach no reconstruction loss in common.")  # fmt: skip
    denied = decisive and all(gap.high < 0 for gap in known)
    return judged(
        statement, where, expected, got, all(gap.low > 0 for gap in known),
        note or ("" if denied else _BOTH_ANSWERS), decisive=denied,
    )  # fmt: skip


def _gaps(ours: Sequence[Network], theirs: Sequence[Network]) -> Gaps:
    """Differences of mean scores, with 95% t intervals."""
    return {
        name: student_difference(_of(ours, score), _of(theirs, score))
        for name, score in SCORES.items()
    }


def _needing(
    results: Results,
    needed: Sequence[Setting],
    statement: str,
    where: str,
    expected: str,
    judge: Callable[[Found], Claim],
) -> Claim:
    """A claim about settings; undecided until the networks of each are trained."""
    found = {setting: _trained(results, setting[0]).get(setting[1]) for setting in needed}
    there = {setting: networks for setting, networks in found.items() if networks}
    if len(there) < len(needed):
        return _waiting(results, needed, statement, where, expected)
    return judge(there)


def _waiting(
    results: Results, needed: Sequence[Setting], statement: str, where: str, expected: str
) -> Claim:
    """A claim that cannot be judged yet."""
    missing = sum(setting_of(run) in needed for run in results.missing)
    whole = sum(setting_of(run) in needed for run in STUDY.runs)
    note = f"{whole - missing} of {whole} networks trained."
    return Claim(statement, where, expected, "not measured yet", "undecided", note)


def _trained(results: Results, prior: str) -> dict[float, list[Network]]:
    """The networks of a prior by beta or degrees of freedom, where all seeds are trained."""
    missing = {setting_of(run) for run in results.missing}
    found = by_setting(results.networks)
    return {
        setting[1]: found[setting]
        for setting in sorted(found)
        if setting[0] == prior and setting not in missing and len(found[setting]) > 1
    }


def _share(results: Results, *priors: str) -> str:
    """How many networks a judgement rests on, where some of them are missing."""
    runs = [run for run in STUDY.runs if setting_of(run)[0] in priors]
    missing = sum(setting_of(run)[0] in priors for run in results.missing)
    return f" ({len(runs) - missing} of {len(runs)} networks trained)" if missing else ""


def _loss(network: Network) -> float:
    return network.last(DISTORTION)


def _of(networks: Iterable[Network], value: Score) -> Values:
    return np.array([value(network) for network in networks])


def _setting(results: Results, found: Found) -> str:
    """What was trained, and how much of the study is there."""
    counts = []
    for prior in (*GAUSSIANS, STUDENT):
        symbol = "ν" if prior == STUDENT else "β"
        each = [f"{symbol} = {at:g}: {len(found[name, at])}"
                for name, at in sorted(found) if name == prior]  # fmt: skip
        counts += [f"{_NAMES[prior]} {', '.join(each)}"] if each else []
    broken = sum(network.failure is not None for network in results.networks)
    return (
        f"**{len(results.networks)} of {len(STUDY.runs)} networks**"
        f"{f', {broken} of which broke' if broken else ''} "
        f"({'; '.join(counts) or 'none yet'} seeds); the paper has 100 for each point. 2D Shapes "
        "is dSprites: `Shapes2D()` renders the same 737,280 images. Gaussian priors: 20 epochs in "
        "batches of 64; Student-t priors: 40 epochs in batches of 256 (app. B, presets "
        "`mathieu2019/shapes2d-*`). Products are in bfloat16 on a GPU. The reconstruction loss is "
        "E[-log p(x|z)] in nats on the same 8,192 observations for all networks. The score is the "
        "metric of Kim and Mnih on 10,000 observations: as the text has it, on the means of q(z|x) "
        "with 800 votes and without dead latents; and as in the released code, with 20,000 votes, "
        "all latents, and codes mapped to normal quantiles under the prior. A claim passes if both "
        "agree. Intervals of means and of their differences are t intervals over seeds, as in the "
        "paper; those at equal reconstruction and by halvings of ν are from a bootstrap."
    )


def _seeds(results: Results) -> str:
    seeds = [run.seed for run in STUDY.runs]
    return f"{min(seeds)} to {max(seeds)}" if results.networks else "none yet"


def _draw(found: Found) -> Figure:
    figure, axes = panels(2, 2, width=3.7, height=2.9)
    for column, score in enumerate(SCORES.values()):
        top, bottom = axes[column], axes[2 + column]
        for prior in GAUSSIANS:
            _draw_curve(top, found, prior, score)
        _draw_points(bottom, found, score)
        for axis in (top, bottom):
            axis.set_xlabel("reconstruction loss (nats)")
            axis.set_ylabel("disentanglement score" if column == 0 else "")
    for (left, right), priors in ((axes[:2], GAUSSIANS), (axes[2:], (STUDENT,))):
        right.sharey(left)
        left.autoscale()
        there = sum(len(each) for (prior, _), each in found.items() if prior in priors)
        whole = sum(setting_of(run)[0] in priors for run in STUDY.runs)
        if there < whole:
            left.text(0.02, 0.02, f"{there} of {whole} networks", color=MUTED, fontsize=8,
                      transform=left.transAxes)  # fmt: skip
        if not there:
            left.set(xticks=[], yticks=[])
            right.set(xticks=[], yticks=[])
    if axes[0].get_legend_handles_labels()[0]:
        axes[0].legend(loc="lower right", title="Gaussian prior", title_fontsize=8)
    lettered(axes, [f"{kind}, score {name}" for kind in ("Gaussian", "Student-t")
                    for name in SCORES])  # fmt: skip
    return figure


def _draw_curve(axis: Axes, found: Found, prior: str, score: Score) -> None:
    """Mean scores over mean losses, a point for each beta."""
    colour, dashes, marker = _STYLES[prior]
    settings = [(beta, found[name, beta]) for name, beta in sorted(found) if name == prior]
    if not settings:
        return
    losses = [float(_of(networks, _loss).mean()) for _, networks in settings]
    scores = [student_mean(_of(networks, score)) for _, networks in settings]
    for _, networks in settings:
        axis.plot(_of(networks, _loss), _of(networks, score), marker, color=colour, markersize=2,
                  alpha=0.25, linewidth=0)  # fmt: skip
    bounds = np.clip([(m.low, m.high) for m in scores], 0, 1)
    axis.fill_between(losses, *bounds.T, color=colour, alpha=0.15, linewidth=0)
    axis.plot(losses, [m.value for m in scores], color=colour, linestyle=dashes, marker=marker,
              markersize=5, label=_NAMES[prior])  # fmt: skip
    for (beta, _), loss, mean in zip(settings, losses, scores, strict=True):
        _label(axis, f"{beta:g}", loss, mean.value, colour)


def _label(axis: Axes, text: str, x: float, y: float, colour: str) -> None:
    """Name a point; a white edge keeps the name legible on bands and lines."""
    from matplotlib.patheffects import withStroke

    axis.annotate(text, (x, y), (4, 4), textcoords="offset points", fontsize=7.5, color=colour,
                  path_effects=[withStroke(linewidth=2, foreground="white")])  # fmt: skip


def _draw_points(axis: Axes, found: Found, score: Score) -> None:
    """A point for each number of degrees of freedom, and the isotropic Gaussian beside them."""
    from matplotlib import colormaps

    degrees = sorted(df for name, df in found if name == STUDENT)
    shades = colormaps["viridis"](np.linspace(0.0, 0.85, max(2, len(degrees))))
    points = [(found[STUDENT, df], f"ν = {df:g}", colour)
              for df, colour in zip(degrees, shades, strict=False)]  # fmt: skip
    if ("isotropic", 1.0) in found and degrees:
        points.append((found["isotropic", 1.0], "Gaussian", MUTED))
    for networks, label, colour in points:
        x, y = _of(networks, _loss), _of(networks, score)
        loss, mean = student_mean(x), student_mean(y)
        axis.plot(x, y, "o", color=colour, markersize=2, alpha=0.35)
        axis.errorbar(loss.value, mean.value, xerr=loss.high - loss.value,
                      yerr=mean.high - mean.value, color=colour, linewidth=1)  # fmt: skip
        axis.plot(loss.value, mean.value, "o", color=colour, markersize=6)
        _label(axis, label, loss.value, mean.value, INK)


def _draw_traversals(found: Found) -> Figure:
    figure, axes = panels(2, len(SHOWN), width=1.9, height=2.1)
    for axis in axes:
        axis.set_axis_off()
    for column, (prior, value) in enumerate(SHOWN):
        there = [each for each in found.get((prior, value), ()) if PICTURES in each.facts]
        for row, network in enumerate(best_and_median(there)):
            axis = axes[row * len(SHOWN) + column]
            sheet = decoded_png(network.facts[PICTURES]["traversals"])
            axis.imshow(sheet, interpolation="none")
            symbol = "ν" if prior == STUDENT else "β"
            which = ("best", "median")[row]
            axis.set_title(
                f"{_NAMES[prior]}, {symbol} = {value:g}\n{which}, "
                f"score {released_score(network):.2f}",
                fontsize=7.5,
            )
    return figure
