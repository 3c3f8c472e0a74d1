"""Claims of [Mathieu2019] sec. 6.2 and [Mathieu2018] fig. 2 about their ablation, with verdicts.

A row of their figure varies one weight; at each of its values there are networks of many seeds.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from unweave.data import Pinwheel
from unweave.latents import GaussianMixture
from unweave.studies.drawing import Values
from unweave.studies.intervals import redrawn
from unweave.studies.study import Network
from unweave.studies.workspace import Claim, Measured, judged

PRIOR = GaussianMixture()
_NEAR = 0.05  # nats of I(x; z) that count as none; ours


class Step(NamedTuple):
    """By how much a measure changes between two weights: mean and median of the seeds' changes.

    It rises if the mean or the median is above 0 beyond its interval and neither is below 0 beyond
    it. Means alone are not enough: a network that leaves a component of the prior out can have a
    KL divergence a hundred times larger than the others.
    """

    mean: Measured
    median: Measured
    up: int  # seeds for which it rises
    seeds: int

    @classmethod
    def of(cls, changes: Values) -> Step:
        """Summarise the changes of all seeds, (S,)."""
        up = int((changes > 0).sum())
        return cls(redrawn(changes), redrawn(changes, np.median), up, len(changes))

    @property
    def rises(self) -> bool:
        """Whether the measure rises, beyond chance."""
        both = self.mean, self.median
        return any(each.low > 0 for each in both) and all(each.high >= 0 for each in both)

    @property
    def falls(self) -> bool:
        """Whether the measure falls, beyond chance."""
        both = self.mean, self.median
        return any(each.high < 0 for each in both) and all(each.low <= 0 for each in both)

    def __str__(self) -> str:
        return f"mean {self.mean}, median {self.median}, up for {self.up} of {self.seeds} seeds"


@dataclasses.dataclass(frozen=True, eq=False)
class Row:
    """Networks (W, S) of W weights and S seeds with their measures: a row of the figure."""

    weights: tuple[float, ...]
    inside: int  # how many of them are the paper's; the rest are ours
    trained: int  # steps of training
    networks: list[list[Network]]
    measures: dict[str, Values]  # (W, S) each

    @property
    def own(self) -> tuple[float, ...]:
        """The paper's weights."""
        return self.weights[: self.inside]

    @property
    def beyond(self) -> tuple[float, ...]:
        """The largest of the paper's weights, and ours beyond it."""
        return self.weights[self.inside - 1 :]

    def at(self, name: str, weight: float) -> Measured:
        """A measure at a weight: the mean over seeds and its interval."""
        return redrawn(self.measures[name][self.weights.index(weight)])

    def steps(self, name: str, among: Sequence[float]) -> list[Step]:
        """The changes of a measure between neighbouring weights, seed by seed."""
        values = self.measures[name][[self.weights.index(weight) for weight in among]]
        return [Step.of(changes) for changes in np.diff(values, axis=0)]

    def middle(self, weight: float) -> Network:
        """The network with the median KL(p(z) || q(z)) over seeds, the lower of two."""
        return middle(self.networks[self.weights.index(weight)])

    def text(self, name: str, among: Sequence[float]) -> str:
        """A measure at weights: 0.01: 3 [2, 4], 0.3: 5 [4, 6]."""
        found = [(weight, self.at(name, weight)) for weight in among]
        return ", ".join(f"{w:g}: {m.value:.3g} [{m.low:.3g}, {m.high:.3g}]" for w, m in found)


def middle(networks: Sequence[Network]) -> Network:
    """The network with the median KL(p(z) || q(z)), the lower of two."""
    ordered = sorted(networks, key=lambda network: float(network.facts["inclusive"]))
    return ordered[(len(ordered) - 1) // 2]


def rises(steps: Sequence[Step]) -> bool:
    """Whether a measure rises at every step."""
    return all(step.rises for step in steps)


def falls(steps: Sequence[Step]) -> bool:
    """Whether a measure falls at every step."""
    return all(step.falls for step in steps)


def beta_claims(top: Row, where: str, data: Pinwheel) -> tuple[Claim, ...]:
    """What both papers state about beta in their figure, except for its top right panel."""
    others = data.clusters * data.points_per_cluster - 1
    overlap = top.steps("neighbours", top.own)
    variance = top.steps("variance", top.own)
    return (
        judged(
            "Increasing β increases the level of overlap in q(z)",
            f"{where}, top",
            f"each encoding overlaps with more of the other {others} at every step",
            f"β = {top.text('neighbours', top.own)}; the last step: {overlap[-1]}",
            rises(overlap),
            f"The steps are: {'; '.join(map(str, overlap))}.",
            decisive=any(step.falls for step in overlap),
        ),
        judged(
            "It does so as a consequence of increasing the encoder variance",
            f"{where}, top",
            "the mean variance of q(z|x) rises at every step",
            f"β = {top.text('variance', top.own)}",
            rises(variance),
            f"The steps are: {'; '.join(map(str, variance))}.",
            decisive=any(step.falls for step in variance),
        ),
    )


def top_right_claim(top: Row, rate: str, where: str, data: Pinwheel) -> Claim:
    """What both papers state about the largest beta of the figure, for one way to compute the rate.

    The paper only says "mismatch". That it should be larger than at the weight before is our
    reading, so a miss leaves the claim undecided.
    """
    before, most = top.own[-2:]
    last = slice(top.inside - 2, top.inside)
    kl, out = top.measures["inclusive"][last], _leaves_out(top, data)[last]
    step, whole = Step.of(kl[1] - kl[0]), ~out.any(0)
    medians, seeds = np.median(kl, 1), kl.shape[1]
    kept = (
        f"; in the {whole.sum()} networks that use all components at both weights the mean change "
        f"is {redrawn((kl[1] - kl[0])[whole])}"
        if whole.any()
        else ""
    )
    return judged(
        "Overly large values of β cause a mismatch between q(z) and p(z), as seen top right: "
        f"{rate}",
        f"{where}, top right",
        f"KL(p ‖ q) is larger at β = {most:g} than at {before:g} (our reading)",
        f"means: β = {top.text('inclusive', top.own[-2:])}; medians: {medians[0]:.3g} and "
        f"{medians[1]:.3g}; change: {step}; networks that leave a component out: "
        f"{out[0].sum()} and {out[1].sum()} of {seeds}{kept}",
        step.rises,
        "KL(p ‖ q) depends mostly on how many components of the prior a network leaves out, and β "
        f"= {most:g} does not make more networks leave one out. The paper does not say what the "
        "mismatch is larger than; larger weights are in the rows below.",
        decisive=False,
    )


def alpha_claims(top: Row, bottom: Row, where: str, data: Pinwheel) -> tuple[Claim, ...]:
    """What both papers state about alpha in their figure."""
    own, most, strongest = data.points_per_cluster - 1, top.own[-1], bottom.own[-1]
    match, overlap = (bottom.steps(name, bottom.own) for name in ("inclusive", "neighbours"))
    return (
        judged(
            "Increasing α always improves the match between q(z) and p(z)",
            f"{where}, bottom",
            "KL(p ‖ q) falls at every step between the paper's weights",
            f"α = {bottom.text('inclusive', bottom.own)}",
            falls(match),
            f"The steps are: {'; '.join(map(str, match))}.",
            decisive=any(step.rises for step in match),
        ),
        judged(
            "There is an increase in overlap with increasing α",
            f"{where}, bottom",
            "each encoding overlaps with more of the others at every step",
            f"α = {bottom.text('neighbours', bottom.own)}",
            rises(overlap),
            f"The steps are: {'; '.join(map(str, overlap))}.",
            decisive=any(step.falls for step in overlap),
        ),
        judged(
            "but only up to the level required for a non-negligible overlap between the nearby "
            "datapoints",
            f"{where}, bottom",
            f"less than the {own} others of a cluster (our bound)",
            f"{bottom.at('neighbours', strongest)} at α = {strongest:g}; "
            f"{top.at('neighbours', most)} at β = {most:g}",
            bottom.at("neighbours", strongest).high < own,
            decisive=False,
        ),
    )


def limit_claims(top: Row, longer: Row, bottom: Row, where: str, data: Pinwheel) -> list[Claim]:
    """What both papers state about large weights, judged at weights beyond those of the figure.

    `longer` has large betas trained for longer, as the limit is about optimal networks.
    """
    nats, last, steps = math.log(data.clusters), longer.weights[-1], longer.trained
    informed, kl = longer.measures["information"], longer.measures["inclusive"][-1]
    best = top.measures["inclusive"][: top.inside].min(0)  # of every seed
    worse = Step.of(kl - best)
    further = bottom.steps("inclusive", bottom.beyond)
    medians = np.median(bottom.measures["inclusive"][bottom.inside - 1 :], 1)
    return [
        judged(
            "When β is too large, the encoding of a datapoint loses meaning",
            where,
            f"I(x; z) below log {data.clusters} = {nats:.3f} nats, enough to tell the clusters "
            f"apart, at β = {top.weights[-1]:g} (our weight and our bound)",
            f"β = {top.text('information', (top.own[-2], *top.beyond))}",
            top.at("information", top.weights[-1]).high < nats,
            decisive=False,
        ),
        judged(
            "q(z|x) → q(z) when β → ∞",
            where,
            f"I(x; z) below {_NEAR} nats in every network at β = {last:g} after {steps:,} steps "
            "(our weight and our bound)",
            "; ".join(
                f"β = {weight:g}: mean {redrawn(kept)}, median {np.median(kept):.2g}, largest "
                f"{kept.max():.2g} nats, {(kept > _NEAR).sum()} of {len(kept)} networks above "
                f"{_NEAR}"
                for weight, kept in zip(longer.weights, informed, strict=True)
            ),
            informed[-1].max() < _NEAR,
            decisive=False,
        ),
        judged(
            "As a Gaussian, q(z|x) is unable to match p(z) exactly, so overly large values of β "
            "cause a mismatch",
            where,
            f"at β = {last:g} after {steps:,} steps KL(p ‖ q) is at least {nearest_gaussian():.3f} "
            "nats, the least of any Gaussian, and larger than the same seed's best in the figure",
            f"smallest {kl.min():.4g}, median {np.median(kl):.4g}; above the best by {worse}",
            kl.min() > nearest_gaussian() and worse.rises,
            decisive=kl.min() <= nearest_gaussian() or worse.falls,
        ),
        judged(
            f"Increasing α always improves the match, beyond the figure: α = "
            f"{listed(bottom.beyond[1:])}",
            where,
            f"KL(p ‖ q) falls at every step from α = {bottom.own[-1]:g} on",
            f"means: α = {bottom.text('inclusive', bottom.beyond)}; medians: "
            + ", ".join(f"{value:.2g}" for value in medians)
            + f"; changes: {'; '.join(map(str, further))}",
            falls(further),
            f"At α = {bottom.weights[-1]:g} {_leaves_out(bottom, data)[-1].sum()} of "
            f"{bottom.measures['modes'].shape[1]} networks leave a component of the prior out.",
            decisive=any(step.rises for step in further),
        ),
    ]


def modes_claim(bottom: Row, among: Sequence[float], where: str, data: Pinwheel) -> Claim:
    """What [Mathieu2019] states about large alpha, at some weights."""
    rows = [bottom.weights.index(weight) for weight in among]
    out, seeds = _leaves_out(bottom, data)[rows].sum(1), bottom.measures["modes"].shape[1]
    return judged(
        f"Large values of α do not cause the encodings to collapse to a mode: α = {listed(among)}",
        where,
        f"every network uses all {data.clusters} components (our bound)",
        f"components in use: α = {bottom.text('modes', among)}; networks that leave one out: "
        + ", ".join(f"{count} of {seeds}" for count in out),
        not out.any(),
        "No network collapses to a single component: the fewest in use are "
        f"{bottom.measures['modes'][rows].min():.2g}.",
        decisive=False,
    )


def meaning_claim(bottom: Row, among: Sequence[float], where: str, data: Pinwheel) -> Claim:
    """What [Mathieu2018] states about large alpha, at some weights."""
    nats = math.log(data.clusters)
    return judged(
        f"Large values of α do not cause the encodings to lose significance: α = {listed(among)}",
        where,
        f"I(x; z) above log {data.clusters} = {nats:.3f} nats, enough to tell the clusters apart "
        "(our bound)",
        f"α = {bottom.text('information', among)} nats",
        all(bottom.at("information", weight).low > nats for weight in among),
        decisive=False,
    )


def _leaves_out(row: Row, data: Pinwheel) -> NDArray[np.bool_]:
    """Which networks (W, S) leave a component of the prior out."""
    found: NDArray[np.bool_] = row.measures["modes"] < data.clusters - 0.5
    return found


def nearest_gaussian() -> float:
    """The least KL(p(z) || q(z)) of any Gaussian, which has the mean and the variances of p(z).

    H(N(m, diag(v))) - H(p), since E_p[-log q] is the entropy of q where the moments are those of p.
    """
    centres = np.array(PRIOR.centres)
    variances = centres.var(0) + np.square(PRIOR.scales)
    entropy = 0.5 * np.log(2 * math.pi * math.e * variances).sum()
    return float(entropy) - PRIOR.entropy()


def listed(weights: Sequence[float]) -> str:
    """Weights as text: 20 and 100."""
    return " and ".join(f"{weight:g}" for weight in weights)
