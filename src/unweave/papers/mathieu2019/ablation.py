"""What [Mathieu2019] sec. 6.2 and [Mathieu2018] fig. 2 state of their ablation, and its verdicts.

A row of their figure is a weight at several values, of networks that differ in their seeds.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

import numpy as np

from unweave.data import Pinwheel
from unweave.fitted import Fitted
from unweave.latents import GaussianMixture
from unweave.papers.drawing import Values
from unweave.papers.form import Claim, Measured, judged
from unweave.papers.intervals import redrawn

PRIOR = GaussianMixture()
_FIRST = 10  # seeds that an earlier verdict was of


@dataclasses.dataclass(frozen=True, eq=False)
class Row:
    """What came of networks (W, S) with W weights and S seeds: a row of the figure."""

    weights: tuple[float, ...]
    inside: int  # the first so many are the paper's, the others ours
    models: list[list[Fitted]]
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

    def steps(self, name: str, among: Sequence[float], seeds: int | None = None) -> list[Measured]:
        """By how much a measure differs between neighbours among the weights, seed by seed."""
        rows = [self.weights.index(weight) for weight in among]
        values = self.measures[name][rows, :seeds]
        return [redrawn(difference) for difference in np.diff(values, axis=0)]

    def middle(self, weight: float) -> Fitted:
        """The network whose KL(p(z) || q(z)) is in the middle of the seeds'."""
        row = self.weights.index(weight)
        order = np.argsort(self.measures["inclusive"][row])
        return self.models[row][int(order[(len(order) - 1) // 2])]

    def text(self, name: str, among: Sequence[float]) -> str:
        """A measure at weights: 0.01: 3 [2, 4], 0.3: 5 [4, 6]."""
        found = [(weight, self.at(name, weight)) for weight in among]
        return ", ".join(f"{w:g}: {m.value:.3g} [{m.low:.3g}, {m.high:.3g}]" for w, m in found)


def rises(steps: Sequence[Measured]) -> bool:
    """Whether every step is up, beyond the interval."""
    return all(step.low > 0 for step in steps)


def falls(steps: Sequence[Measured]) -> bool:
    """Whether every step is down, beyond the interval."""
    return all(step.high < 0 for step in steps)


def beta_claims(top: Row, where: str, data: Pinwheel) -> tuple[Claim, ...]:
    """What both papers state of beta in their figure."""
    others = data.clusters * data.points_per_cluster - 1
    return (
        judged(
            "Increasing β increases the level of overlap in q(z)",
            f"{where}, top",
            f"more of the other {others} encodings overlap with one, at every step (our reading)",
            f"β = {top.text('neighbours', top.own)}",
            rises(top.steps("neighbours", top.own)),
            f"The steps are {'; '.join(map(str, top.steps('neighbours', top.own)))}: one whose "
            "bracket holds 0 may be chance. With weights beyond the figure's overlap is "
            f"{top.text('neighbours', top.beyond[1:])}.",
        ),
        judged(
            "It does so as a consequence of increasing the encoder variance",
            f"{where}, top",
            "the mean variance of q(z|x) rises at every step",
            f"β = {top.text('variance', top.own)}",
            rises(top.steps("variance", top.own)),
        ),
        _top_right(top, where),
    )


def alpha_claims(top: Row, bottom: Row, where: str, data: Pinwheel) -> tuple[Claim, ...]:
    """What both papers state of alpha in their figure."""
    own, most, strongest = data.points_per_cluster - 1, top.own[-1], bottom.own[-1]
    return (
        judged(
            "Increasing α always improves the match between q(z) and p(z)",
            f"{where}, bottom",
            "KL(p ‖ q) falls at every step between the paper's weights",
            f"α = {bottom.text('inclusive', bottom.own)}",
            falls(bottom.steps("inclusive", bottom.own)),
        ),
        judged(
            "There is an increase in overlap with increasing α",
            f"{where}, bottom",
            "more encodings overlap with one at every step",
            f"α = {bottom.text('neighbours', bottom.own)}",
            rises(bottom.steps("neighbours", bottom.own)),
        ),
        judged(
            "but only up to the level required for a non-negligible overlap between the nearby "
            "datapoints",
            f"{where}, bottom",
            f"less than the {own} others of a cluster (the bound is ours)",
            f"{bottom.at('neighbours', strongest)} at α = {strongest:g}; "
            f"{top.at('neighbours', most)} at β = {most:g}",
            bottom.at("neighbours", strongest).high < own,
        ),
    )


def _top_right(top: Row, where: str) -> Claim:
    """The claim about the largest weight of the figure, and the one before it."""
    before, most = top.own[-2:]
    step = top.steps("inclusive", (before, most))[0]
    first = top.steps("inclusive", (before, most), _FIRST)[0]
    both = top.measures["inclusive"][top.inside - 2 : top.inside]
    apart, middle = both[1] - both[0], np.sort(both)[:, (both.shape[1] - 1) // 2]
    return judged(
        "Overly large values of β cause a mismatch between q(z) and p(z), as seen top right",
        f"{where}, top right",
        f"KL(p ‖ q) is larger at β = {most:g} than at {before:g}",
        f"β = {top.text('inclusive', top.own)}; the last step is {step}, up for "
        f"{(apart > 0).sum()} of {len(apart)} seeds",
        rises([step]),
        f"With the first {_FIRST} of these seeds alone it came out as {first}, with which we had "
        "passed it: seeds differ by whole components, and so few of them are no measure of their "
        f"mean. In the middle of the seeds, which the panels show, it is {middle[0]:.2g} and "
        f"{middle[1]:.2g}. What larger weights do is in the rows below.",
    )


def limit_claims(top: Row, bottom: Row, where: str, data: Pinwheel) -> tuple[Claim, ...]:
    """What both papers state of weights without bound, at weights beyond those of the figure."""
    nats, last = math.log(data.clusters), top.weights[-1]
    informed, match = top.at("information", last), top.at("inclusive", last)
    best = top.measures["inclusive"][: top.inside].min(0)  # of every seed
    worse = top.measures["inclusive"][-1] - best
    kept = top.measures["information"][-1]
    strongest, lost = bottom.weights[-1], _lost(bottom, data)
    middle = np.median(bottom.measures["inclusive"][bottom.inside - 1 :], 1)
    return (
        judged(
            "When β is too large, the encoding of a datapoint loses meaning",
            where,
            f"I(x; z) below log {data.clusters} = {nats:.3f} nats, which name a cluster, at β = "
            f"{last:g} (weight and bound are ours)",
            f"β = {top.text('information', (top.own[-2], *top.beyond))}",
            informed.high < nats,
        ),
        judged(
            "q(z|x) → q(z) when β → ∞",
            where,
            f"I(x; z) near 0 at β = {last:g}: less than 0.05 nats (weight and bound are ours)",
            f"{informed} nats; more than 0.05 in {(kept > 0.05).sum()} of {len(kept)} networks",
            informed.high < 0.05,
            f"Some networks keep more, up to {kept.max():.2g} nats; the one in the middle has "
            f"{np.median(kept):.2g}.",
        ),
        judged(
            "As a Gaussian, q(z|x) is unable to match p(z) exactly, so overly large values of β "
            "cause a mismatch",
            where,
            f"KL(p ‖ q) at β = {last:g} (ours) as large as a Gaussian's must be, "
            f"{nearest_gaussian():.3f}, and larger than each seed's best in the figure",
            f"{match}; larger than the best by {redrawn(worse)}, and for {(worse > 0).sum()} of "
            f"{len(worse)} seeds",
            match.low > nearest_gaussian() and redrawn(worse).low > 0,
            f"With the other {(worse <= 0).sum()} seeds no weight of the figure gives a better "
            "match: most of these networks leave components of the prior out. The best of the seed "
            f"in the middle has {np.median(best):.2g}.",
        ),
        judged(
            f"Increasing α always improves the match, beyond the figure: α = "
            f"{listed(bottom.beyond[1:])}",
            where,
            f"KL(p ‖ q) falls at every step from α = {bottom.own[-1]:g} on (weights are ours)",
            f"α = {bottom.text('inclusive', bottom.beyond)}; steps of "
            + ", ".join(map(str, bottom.steps("inclusive", bottom.beyond))),
            falls(bottom.steps("inclusive", bottom.beyond)),
            f"At α = {strongest:g} {lost[-1]} of {bottom.measures['modes'].shape[1]} networks "
            "leave a component of the prior out. In the middle of the seeds it is "
            + ", ".join(f"{value:.2g}" for value in middle)
            + ".",
        ),
    )


def modes_claim(bottom: Row, among: Sequence[float], where: str, data: Pinwheel) -> Claim:
    """What [Mathieu2019] states of large alpha, of weights."""
    seeds = bottom.measures["modes"].shape[1]
    lost = dict(zip(bottom.weights, _lost(bottom, data), strict=True))
    fewest = min(bottom.measures["modes"][bottom.weights.index(each)].min() for each in among)
    return judged(
        f"Large values of α do not cause the encodings to collapse to a mode: α = {listed(among)}",
        where,
        f"all {data.clusters} components in use by every network (the bound is ours)",
        f"components: α = {bottom.text('modes', among)}; networks that leave one out: "
        + ", ".join(f"{lost[weight]} of {seeds}" for weight in among),
        not any(lost[weight] for weight in among),
        f"None collapses to a single component: the fewest in use are {fewest:.2g}.",
    )


def meaning_claim(bottom: Row, among: Sequence[float], where: str, data: Pinwheel) -> Claim:
    """What [Mathieu2018] states of large alpha, of weights."""
    nats = math.log(data.clusters)
    return judged(
        f"Large values of α do not cause the encodings to lose significance: α = {listed(among)}",
        where,
        f"I(x; z) above log {data.clusters} = {nats:.3f} nats, which name a cluster (the bound is "
        "ours)",
        f"α = {bottom.text('information', among)} nats",
        all(bottom.at("information", weight).low > nats for weight in among),
    )


def _lost(row: Row, data: Pinwheel) -> list[int]:
    """How many networks leave a component out, by the weight."""
    found: list[int] = (row.measures["modes"] < data.clusters - 0.5).sum(1).tolist()
    return found


def nearest_gaussian() -> float:
    """The least KL(p(z) || q(z)) of a Gaussian: the one with the mean and the variances of p(z).

    H(N(m, diag(v))) - H(p), since E_p[-log q] is the entropy of q where the moments are those of p.
    """
    centres = np.array(PRIOR.centres)
    variances = centres.var(0) + np.square(PRIOR.scales)
    entropy = 0.5 * np.log(2 * math.pi * math.e * variances).sum()
    return float(entropy) - PRIOR.entropy()


def listed(weights: Sequence[float]) -> str:
    """Weights as text: 20 and 100."""
    return " and ".join(f"{weight:g}" for weight in weights)
