"""Judge the claims of [Mathieu2019] sec. 6.2 and [Mathieu2018] fig. 2 about their ablation.

A row of their figure varies one weight; at each of its values there are networks of many seeds.
"""

import dataclasses
import itertools
import math
from collections.abc import Sequence
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from unweave.core.hints import join_words
from unweave.data import Pinwheel
from unweave.latents import GaussianMixture
from unweave.studies.drawing import Values
from unweave.studies.intervals import mean_over_networks, median_over_networks
from unweave.studies.study import Network
from unweave.studies.texts import Texts
from unweave.studies.workspace import Claim, Measured

PRIOR = GaussianMixture()
_NEAR = 0.05  # nats of I(x; z) that count as none; ours
_TEXTS = Texts(__package__, "pinwheel")


class Step(NamedTuple):
    """The change of a measure between two weights: mean and median over seeds.

    It rises if the mean or the median is above 0 beyond its interval and neither is below 0 beyond
    it. Means alone are not enough: a network that leaves a component of the prior out can have a
    KL divergence a hundred times larger than the others.
    """

    mean: Measured
    median: Measured
    up: int  # seeds for which it rises
    seeds: int

    @classmethod
    def of(cls, changes: Values) -> Self:
        """Summarise the changes of all seeds, (S,)."""
        mean, median = mean_over_networks(changes), median_over_networks(changes)
        return cls(mean, median, int((changes > 0).sum()), len(changes))

    @property
    def rises(self) -> bool:
        """Whether the measure rises beyond its intervals."""
        both = self.mean, self.median
        return any(each.low > 0 for each in both) and all(each.high >= 0 for each in both)

    @property
    def falls(self) -> bool:
        """Whether the measure falls beyond its intervals."""
        both = self.mean, self.median
        return any(each.high < 0 for each in both) and all(each.low <= 0 for each in both)

    def __str__(self) -> str:
        return f"mean {self.mean}, median {self.median}, up for {self.up} of {self.seeds} seeds"


@dataclasses.dataclass(frozen=True, eq=False)
class Row:
    """A row of the figure: the networks of each weight, seeds 0, 1, ..., with their measures."""

    weights: tuple[float, ...]
    inside: int  # how many of them are the paper's; the rest are ours
    trained: int  # steps of training
    networks: list[list[Network]]
    measures: dict[str, list[Values]]  # by weight, (S,) each; S may differ between weights

    @property
    def own(self) -> tuple[float, ...]:
        """The paper's weights."""
        return self.weights[: self.inside]

    @property
    def beyond(self) -> tuple[float, ...]:
        """The largest of the paper's weights, and ours beyond it."""
        return self.weights[self.inside - 1 :]

    def at(self, name: str, weight: float) -> Measured:
        """Return the mean of a measure over seeds at a weight, with its interval."""
        return mean_over_networks(self.measures[name][self.weights.index(weight)])

    def steps(self, name: str, among: Sequence[float]) -> list[Step]:
        """Return the changes of a measure between neighbouring weights, in the seeds of both."""
        values = [self.measures[name][self.weights.index(weight)] for weight in among]
        return [
            Step.of(two[: len(one)] - one[: len(two)]) for one, two in itertools.pairwise(values)
        ]

    def middle(self, weight: float) -> Network:
        """Return the network with the median KL(p(z) || q(z)), over the seeds of all weights."""
        return middle(self.networks[self.weights.index(weight)][: min(map(len, self.networks))])

    def text(self, name: str, among: Sequence[float]) -> str:
        """Write a measure at weights: 0.01: 3 [2, 4], 0.3: 5 [4, 6].

        Components in use have two decimals, although they are hardly ever less than all.
        """
        spec = ".2f" if name == "modes" else ""
        means = [(weight, self.at(name, weight)) for weight in among]
        return ", ".join(f"{weight:g}: {mean:{spec}}" for weight, mean in means)


def middle(networks: Sequence[Network]) -> Network:
    """Return the network with the median KL(p(z) || q(z)), the lower of two."""
    ordered = sorted(networks, key=lambda network: float(network.facts["inclusive"]))
    return ordered[(len(ordered) - 1) // 2]


def rises(steps: Sequence[Step]) -> bool:
    """Return whether a measure rises at every step."""
    return all(step.rises for step in steps)


def falls(steps: Sequence[Step]) -> bool:
    """Return whether a measure falls at every step."""
    return all(step.falls for step in steps)


def _steps(steps: Sequence[Step]) -> str:
    return "; ".join(map(str, steps))


def beta_claims(top: Row, where: str, data: Pinwheel) -> tuple[Claim, ...]:
    """Judge what both papers state about beta in their figure, except for its top right panel."""
    overlap, variance = (top.steps(name, top.own) for name in ("neighbours", "variance"))
    return (
        _TEXTS.claim("overlap", rises(overlap), contradicted=any(step.falls for step in overlap),
                     where=where, others=data.clusters * data.points_per_cluster - 1,
                     values=top.text("neighbours", top.own), last=overlap[-1],
                     steps=_steps(overlap)),
        _TEXTS.claim("variance", rises(variance), contradicted=any(step.falls for step in variance),
                     where=where, values=top.text("variance", top.own), steps=_steps(variance)),
    )  # fmt: skip


def top_right_claim(top: Row, rate: str, where: str, data: Pinwheel) -> Claim:
    """Judge what both papers state about the figure's largest beta, for one definition of the rate.

    The paper only says "mismatch". That it should be larger than at the weight before is our
    reading, so a miss leaves the claim undecided. Mean and median must both rise: a few networks
    that leave a component out dominate the mean.
    """
    before, most = top.own[-2:]
    last = slice(top.inside - 2, top.inside)
    kl, out = np.stack(top.measures["inclusive"][last]), np.stack(_leaves_out(top, data)[last])
    step, whole = Step.of(kl[1] - kl[0]), ~out.any(0)
    kept = (
        f"; in the {whole.sum()} networks that use all components at both weights the mean change "
        f"is {mean_over_networks((kl[1] - kl[0])[whole])}"
    ) if whole.any() else ""  # fmt: skip
    return _TEXTS.claim(
        "top_right", step.mean.low > 0 and step.median.low > 0, contradicted=False, rate=rate,
        where=where, most=most, before=before, values=top.text("inclusive", top.own[-2:]),
        medians=np.median(kl, 1), step=step, out=out.sum(1), seeds=kl.shape[1], kept=kept,
        down=(kl[1] < kl[0]).sum(),
    )  # fmt: skip


def alpha_claims(top: Row, bottom: Row, where: str, data: Pinwheel) -> tuple[Claim, ...]:
    """Judge what both papers state about alpha in their figure."""
    own, most, strongest = data.points_per_cluster - 1, top.own[-1], bottom.own[-1]
    match, overlap = (bottom.steps(name, bottom.own) for name in ("inclusive", "neighbours"))
    nearby = bottom.at("neighbours", strongest)
    return (
        _TEXTS.claim("match", falls(match), contradicted=any(step.rises for step in match),
                     where=where, values=bottom.text("inclusive", bottom.own), steps=_steps(match)),
        _TEXTS.claim("overlap_alpha", rises(overlap), where=where, steps=_steps(overlap),
                     contradicted=any(step.falls for step in overlap),
                     values=bottom.text("neighbours", bottom.own)),
        _TEXTS.claim("nearby", nearby.high < own, contradicted=False, where=where, others=own,
                     alpha=nearby, strongest=strongest, beta=top.at("neighbours", most), most=most),
    )  # fmt: skip


def limit_claims(top: Row, longer: Row, bottom: Row, where: str, data: Pinwheel) -> list[Claim]:
    """Judge what both papers state about large weights, at weights beyond those of the figure.

    `longer` has large betas trained for longer, as the limit is about optimal networks, and
    `bottom` large alphas.
    """
    nats, last, steps = math.log(data.clusters), longer.weights[-1], longer.trained
    informed, kl = longer.measures["information"], longer.measures["inclusive"][-1]
    best = np.min(top.measures["inclusive"][: top.inside], 0)  # of every seed
    worse, least = Step.of(kl - best), nearest_gaussian()
    further = bottom.steps("inclusive", bottom.beyond)
    medians = [np.median(kl) for kl in bottom.measures["inclusive"][bottom.inside - 1 :]]
    informations = "; ".join(
        f"β = {weight:g}: mean {mean_over_networks(kept)}, median {np.median(kept):.2g}, largest "
        f"{kept.max():.2g} nats, {(kept > _NEAR).sum()} of {len(kept)} networks above {_NEAR}"
        for weight, kept in zip(longer.weights, informed, strict=True)
    )
    return [
        _TEXTS.claim("loses_meaning", top.at("information", top.weights[-1]).high < nats,
                     contradicted=False, where=where, clusters=data.clusters, nats=nats,
                     weight=top.weights[-1],
                     values=top.text("information", (top.own[-2], *top.beyond))),
        _TEXTS.claim("limit", informed[-1].max() < _NEAR, contradicted=False, where=where,
                     near=_NEAR, weight=last, steps=steps, values=informations),
        _TEXTS.claim("gaussian", kl.min() > least and worse.rises, where=where, weight=last,
                     contradicted=kl.min() <= least or worse.falls, steps=steps, nearest=least,
                     smallest=kl.min(), median=np.median(kl), worse=worse),
        _TEXTS.claim("match_beyond", falls(further), contradicted=any(s.rises for s in further),
                     where=where, weights=listed(bottom.beyond[1:]), first=bottom.own[-1],
                     values=bottom.text("inclusive", bottom.beyond), steps=_steps(further),
                     medians=", ".join(f"{value:.2g}" for value in medians),
                     last=bottom.weights[-1], out=_leaves_out(bottom, data)[-1].sum(),
                     seeds=len(bottom.measures["modes"][-1])),
    ]  # fmt: skip


def modes_claim(bottom: Row, among: Sequence[float], where: str, data: Pinwheel) -> Claim:
    """Judge what [Mathieu2019] states about large alpha, at some weights."""
    rows = [bottom.weights.index(weight) for weight in among]
    out = [_leaves_out(bottom, data)[row] for row in rows]
    return _TEXTS.claim(
        "modes", not np.concatenate(out).any(), contradicted=False, where=where,
        weights=listed(among), clusters=data.clusters, values=bottom.text("modes", among),
        out=", ".join(f"{each.sum()} of {len(each)}" for each in out),
        fewest=min(bottom.measures["modes"][row].min() for row in rows),
    )  # fmt: skip


def meaning_claim(bottom: Row, among: Sequence[float], where: str, data: Pinwheel) -> Claim:
    """Judge what [Mathieu2018] states about large alpha, at some weights."""
    nats = math.log(data.clusters)
    return _TEXTS.claim(
        "meaning", all(bottom.at("information", weight).low > nats for weight in among),
        contradicted=False, where=where, weights=listed(among), clusters=data.clusters, nats=nats,
        values=bottom.text("information", among),
    )  # fmt: skip


def _leaves_out(row: Row, data: Pinwheel) -> list[NDArray[np.bool_]]:
    """Return which networks of each weight, (S,), leave a component of the prior out."""
    return [modes < data.clusters - 0.5 for modes in row.measures["modes"]]


def nearest_gaussian() -> float:
    """Return the least KL(p(z) || q(z)) of any Gaussian, which has the moments of p(z).

    H(N(m, diag(v))) - H(p), since E_p[-log q] is the entropy of q where the moments are those of p.
    """
    centres = np.array(PRIOR.centres)
    variances = centres.var(0) + np.square(PRIOR.scales)
    entropy = 0.5 * np.log(2 * math.pi * math.e * variances).sum()
    return float(entropy) - PRIOR.entropy()


def listed(weights: Sequence[float]) -> str:
    """Write weights as text: 8, 20 and 100."""
    return join_words([f"{weight:g}" for weight in weights])
