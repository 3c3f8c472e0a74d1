"""The comparison of runs: groups of runs that differ only in their seed, and the best of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np

from unweave.core.groups import grouped
from unweave.core.intervals import (
    EQUAL,
    Estimate,
    holm,
    mean_interval,
    paired_p,
    welch_interval,
    welch_p,
)
from unweave.core.text import csv_text
from unweave.data.dataset import ExtremeValues
from unweave.evaluation.shared_latents import NO_INFORMATION, SharedLatent, is_informed
from unweave.metrics import METRICS, Score, Table
from unweave.metrics.evidence import unjudged
from unweave.metrics.model_metrics import UDR
from unweave.metrics.score import NO_EVIDENCE
from unweave.training.final_terms import end_of, final_values
from unweave.training.flat_settings import settings_text
from unweave.training.run import Run
from unweave.training.store import ScoreFacts

_HUGE = 1e150  # numbers whose squares may be infinite
_TERMS = ("terms/distortion", "terms/rate")  # other terms are not of every objective


@dataclass(frozen=True, eq=False)
class ComparedRun:
    """A run as a comparison reads it: settings, log, scores and codes.

    `data` identifies the data. `facts` describe what the scores were computed on; None without
    scores. `unused` says why stored scores are not used. `table` is None if the run could not be
    encoded. `extremes` are those of the data. `code` has the hashes of the user's own parts that it
    was trained with.
    """

    name: str
    run: Run
    data: str
    log: Sequence[Mapping[str, Any]]
    measures: Sequence[Mapping[str, Any]] = ()
    scores: Mapping[str, Score] = field(default_factory=dict)
    facts: ScoreFacts | None = None
    unused: str = ""
    table: Table | None = None
    extremes: ExtremeValues | None = None
    code: Mapping[str, str] = field(default_factory=dict)

    @cached_property
    def informed(self) -> bool:
        """Whether a code carries information about the data, as far as is known."""
        return self.table is None or is_informed(self.table)

    def no_evidence(self, name: str) -> str:
        """Return why a quantity proves nothing if it is a score, or ""."""
        if not is_score(name):
            return ""
        if not self.informed:
            return NO_INFORMATION
        if score := self.scores.get(name.split()[0]):
            return str(score.details.get(NO_EVIDENCE, ""))
        measured = Score(name, "", self.values[name])  # during training
        return "" if self.table is None else unjudged(measured, self.table)

    @property
    def values(self) -> dict[str, float]:
        """The quantities to compare by name, as far as they are finite."""
        return {name: value for name, value in self._quantities.items() if abs(value) < _HUGE}

    @property
    def not_finite(self) -> list[str]:
        """The names of the quantities that are not finite, or whose squares are not."""
        return [name for name in self._quantities if name not in self.values]

    @property
    def _quantities(self) -> dict[str, float]:
        """The end of the log, what was measured last, and the scores, by name."""
        every = final_values(end_of(self.log), self.measures)
        final = {n: x for n, x in every.items() if n in _TERMS or not n.startswith("terms/")}
        for key, score in self.scores.items():
            if key != UDR:  # a property of a group
                final[key] = float(score.value)
                final |= {f"{key} {part}": value for part, value in score.components.items()}
        return final


@dataclass(frozen=True)
class RunGroup:
    """Runs that differ only in their seed.

    `settings` are those that differ between groups. `udr` has a score for each run and `latents`
    the latents matched across the runs, both empty for fewer than two encoded runs; models in
    `latents` are indices into `encoded`.
    """

    name: str
    settings: dict[str, Any]
    runs: tuple[ComparedRun, ...]
    encoded: tuple[ComparedRun, ...] = ()
    udr: tuple[Score, ...] = ()
    latents: tuple[SharedLatent, ...] = ()

    def values(self, name: str) -> list[float]:
        """Return the values of a quantity by run, of the runs that have it."""
        return [run.values[name] for run in self.runs if name in run.values]

    def estimate(self, name: str, level: float) -> Estimate | None:
        """Return the mean of a quantity over the seeds with its interval; None without values."""
        values = self.values(name)
        return mean_interval(values, level) if values else None

    def shares_runs(self, other: RunGroup) -> bool:
        """Whether the groups differ only in steps and have seeds in common.

        Runs of one seed then share their first steps: the longer one continues the shorter one, or
        could have.
        """
        mine, theirs = ({**each.settings, "steps": 0} for each in (self, other))
        return mine == theirs and bool(self._seeds & other._seeds)

    @property
    def _seeds(self) -> set[int]:
        return {run.run.seed for run in self.runs}

    def difference(self, other: RunGroup, name: str, level: float) -> Estimate:
        """Return the difference of the means of a quantity with its interval.

        The interval is Welch's, or that of the differences by seed if both groups share runs and
        have the same seeds.
        """
        if pairs := self._pairs(other, name):
            return mean_interval(pairs, level)
        return welch_interval(self.values(name), other.values(name), level)

    def p_value(self, other: RunGroup, name: str) -> float | None:
        """Return the p-value of the test that belongs to `difference`, if there is one."""
        if pairs := self._pairs(other, name):
            return paired_p(pairs)
        return welch_p(self.values(name), other.values(name))

    def _pairs(self, other: RunGroup, name: str) -> list[float]:
        """Return the differences of a quantity by seed, if all runs of both groups have a pair."""
        if not self.shares_runs(other):
            return []
        mine, theirs = (
            {run.run.seed: run.values[name] for run in each.runs if name in run.values}
            for each in (self, other)
        )
        return [mine[seed] - theirs[seed] for seed in mine] if mine.keys() == theirs.keys() else []

    def no_evidence(self, name: str) -> str:
        """Return why a quantity proves nothing in any of the runs that have it, or ""."""
        reasons = [run.no_evidence(name) for run in self.runs if name in run.values]
        return reasons[0] if all(reasons) and reasons else ""

    @property
    def title(self) -> str:
        """The settings as text."""
        return settings_text(self.settings)


class Contrast(NamedTuple):
    """The best group by one quantity, the second best, and the difference of their means.

    The second best is one that does not share runs with the best, if there is one.
    """

    quantity: str
    best: RunGroup
    second: RunGroup
    difference: Estimate

    @property
    def tied(self) -> bool:
        """Whether both means are the same, up to rounding."""
        return abs(self.difference.value) < EQUAL

    @property
    def distinguishable(self) -> bool | None:
        """Whether the interval of the difference excludes 0; None without an interval."""
        low, high = self.difference.low, self.difference.high
        return None if low is None or high is None else low > 0 or high < 0

    @property
    def no_evidence(self) -> str:
        """Why the score of the best group proves nothing, or ""."""
        return self.best.no_evidence(self.quantity)


class PairwiseDifference(NamedTuple):
    """The difference of the means of two groups by one quantity, with its interval.

    `p` is the p-value of the test (see `RunGroup.difference`), and `p_holm` the same corrected by
    Holm's method for all pairs of groups by this quantity. Both are None if a group has one seed,
    or if no value varies.
    """

    quantity: str
    group: RunGroup
    other: RunGroup
    difference: Estimate
    p: float | None
    p_holm: float | None


@dataclass(frozen=True)
class Section:
    """The runs on one dataset: their groups, and the best by every quantity."""

    data: str  # as text
    settings: tuple[str, ...]
    groups: tuple[RunGroup, ...]
    quantities: tuple[str, ...]
    contrasts: tuple[Contrast, ...]

    @cached_property
    def no_evidence(self) -> dict[str, list[str]]:
        """The scores that prove nothing in any run, by the reason."""
        having = {n: [g for g in self.groups if g.values(n)] for n in self.quantities}
        reasons = {name: [g.no_evidence(name) for g in own] for name, own in having.items()}
        return grouped((each[0], name) for name, each in reasons.items() if all(each))

    @property
    def proven(self) -> list[str]:
        """The quantities other than these scores."""
        unproven = [name for names in self.no_evidence.values() for name in names]
        return [name for name in self.quantities if name not in unproven]

    def pairwise(self, level: float = 0.95) -> list[PairwiseDifference]:
        """Return the differences of all pairs of groups by every quantity."""
        found = []
        for name in self.quantities:
            pairs = list(combinations([group for group in self.groups if group.values(name)], 2))
            p_values = [one.p_value(other, name) for one, other in pairs]
            corrected = iter(holm([p for p in p_values if p is not None]))
            for (one, other), p in zip(pairs, p_values, strict=True):
                difference = one.difference(other, name, level)
                p_holm = None if p is None else next(corrected)
                found.append(PairwiseDifference(name, one, other, difference, p, p_holm))
        return found


@dataclass(frozen=True, repr=False)
class Comparison:
    """A comparison of runs, with a section for each dataset; it prints as text.

    `level` is the confidence level of all intervals. `notes` are remarks for the reader.
    """

    sections: tuple[Section, ...]
    notes: tuple[str, ...]
    level: float = 0.95

    def __str__(self) -> str:
        from unweave.evaluation.comparison_text import comparison_text

        return comparison_text(self)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        from unweave.evaluation.comparison_text import comparison_html

        return comparison_html(self)

    def to_csv(self) -> str:
        """Return CSV text: a line for each group and quantity, with its mean and interval."""
        settings = list(dict.fromkeys(name for s in self.sections for name in s.settings))
        head = ["data", "group", *settings, "quantity", "seeds", "mean", "low", "high"]
        rows: list[list[object]] = []
        for section in self.sections:
            for group in section.groups:
                own = [group.settings.get(name, "") for name in settings]
                for name in section.quantities:
                    if estimate := group.estimate(name, self.level):
                        ends = ["" if end is None else end for end in estimate]
                        count = len(group.values(name))
                        rows.append([section.data, group.name, *own, name, count, *ends])
                if group.udr:
                    mean = float(np.mean([score.value for score in group.udr]))
                    rows.append([section.data, group.name, *own, UDR, len(group.udr), mean, "", ""])
        return csv_text(head, rows)

    def pairwise(self) -> dict[str, list[PairwiseDifference]]:
        """Return the differences of all pairs of groups by every quantity, by dataset.

        P-values are corrected by Holm's method for the pairs of groups by one quantity.
        """
        return {section.data: section.pairwise(self.level) for section in self.sections}

    def pairwise_csv(self) -> str:
        """Return CSV text: a line for each quantity and pair of groups."""
        head = ["data", "quantity", "group", "other", "difference", "low", "high", "p", "p_holm"]
        rows = [
            [data, each.quantity, each.group.name, each.other.name,
             *("" if x is None else x for x in (*each.difference, each.p, each.p_holm))]
            for data, pairs in self.pairwise().items()
            for each in pairs
        ]  # fmt: skip
        return csv_text(head, rows)

    def to_json(self, *, pairwise: bool = False) -> dict[str, Any]:
        """Return the comparison as plain dicts, lists, strings and numbers.

        With `pairwise` it includes all pairs of groups.
        """
        sections = [
            {
                "data": section.data,
                "settings": list(section.settings),
                "groups": [_group_json(g, section, self.level) for g in section.groups],
                "best": [
                    {
                        "quantity": each.quantity,
                        "best": each.best.name,
                        "second": each.second.name,
                        "difference": each.difference._asdict(),
                        "distinguishable": each.distinguishable,
                        "no_evidence": each.no_evidence or None,
                    }
                    for each in section.contrasts
                ],
                "no_evidence": section.no_evidence,
            }
            | ({"pairwise": _pairs_json(section, self.level)} if pairwise else {})
            for section in self.sections
        ]
        return {"level": self.level, "notes": list(self.notes), "sections": sections}


def is_score(name: str) -> bool:
    """Return whether a quantity is the score of a metric that reads factors, or a part of one.

    >>> is_score("metrics/mig/chen2018"), is_score("mig/chen2018 shape"), is_score("terms/rate")
    (True, True, False)
    """
    return name.removeprefix("metrics/").split()[0] in METRICS


def _pairs_json(section: Section, level: float) -> list[dict[str, Any]]:
    return [
        each._asdict()
        | {"group": each.group.name, "other": each.other.name}
        | {"difference": each.difference._asdict()}
        for each in section.pairwise(level)
    ]


def _group_json(group: RunGroup, section: Section, level: float) -> dict[str, Any]:
    encoded = [run.name for run in group.encoded]
    estimates = {name: group.estimate(name, level) for name in section.quantities}
    return {
        "group": group.name,
        "settings": group.settings,
        "runs": [
            {"run": run.name, "seed": run.run.seed, "values": run.values} for run in group.runs
        ],
        "means": {name: each._asdict() for name, each in estimates.items() if each},
        "udr": {name: score.value for name, score in zip(encoded, group.udr, strict=True)}
        if group.udr
        else None,
        "latents": [
            {
                "run": encoded[each.model],
                "latent": each.latent,
                "found by": [encoded[m] for m in each.found_by],
                "matches": {encoded[m]: match._asdict() for m, match in each.matches.items()},
            }
            for each in group.latents
        ],
    }
