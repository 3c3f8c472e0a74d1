"""Groups of networks that differ in the seed alone, and claims about them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from unweave.studies.drawing import Values
from unweave.studies.intervals import redrawn
from unweave.studies.study import PICTURES, Network
from unweave.studies.workspace import Claim, Measured
from unweave.training.run import Run

BEST, MEDIAN = "best", "median"
Reader = Callable[[Network], float]


@dataclass(frozen=True)
class Group:
    """The networks of one setting; those whose training broke are only counted."""

    networks: tuple[Network, ...]
    total: int  # how many the study has
    broken: int = 0

    @property
    def done(self) -> int:
        """How many are trained, or broke."""
        return len(self.networks) + self.broken

    def values(self, read: Reader) -> Values:
        """One number of each network."""
        return np.array([read(network) for network in self.networks], np.float64)

    def mean(self, read: Reader) -> Measured:
        """The mean over networks with its 95% bootstrap interval."""
        return redrawn(self.values(read))

    def chosen(self, read: Reader) -> dict[str, Network]:
        """The networks with the best and the median number, of those that kept their pictures.

        If the median network did not keep them, the one nearest to it in rank.
        """
        ranked = sorted(self.networks, key=lambda network: -read(network))
        shown = [place for place, network in enumerate(ranked) if PICTURES in network.facts]
        if not shown:
            return {}
        median = min(shown, key=lambda place: abs(place - len(ranked) // 2))
        return {BEST: ranked[shown[0]], MEDIAN: ranked[median]}


def groups_of(
    networks: Iterable[Network], settings: Mapping[str, Sequence[Run]]
) -> dict[str, Group]:
    """The networks of a study by the name of their setting."""
    found = {network.key: network for network in networks}
    groups = {}
    for name, runs in settings.items():
        own = [found[run.digest] for run in runs if run.digest in found]
        sound = tuple(network for network in own if network.failure is None)
        groups[name] = Group(sound, len(runs), len(own) - len(sound))
    return groups


class Finding(NamedTuple):
    """What the networks say about a claim."""

    got: str
    holds: bool
    contradicted: bool  # not merely missed


def claim_about(
    groups: Sequence[Group],
    statement: str,
    where: str,
    expected: str,
    find: Callable[[], Finding],
    note: str = "",
) -> Claim:
    """Judge a claim by its networks; it is undecided as long as some of them are missing.

    `find` is called if every group has a network. `note` says why a claim that does not hold may
    do so, where there is more to say than that the reason is open.
    """
    done, total = (sum(counts) for counts in zip(*((g.done, g.total) for g in groups), strict=True))
    finding = find() if all(group.networks for group in groups) else None
    if finding is None or done < total:
        got = finding.got if finding else "no networks yet"
        missing = f"{done} of {total} networks trained."
        return Claim(statement, where, expected, got, "undecided", missing)
    if finding.holds:
        return Claim(statement, where, expected, finding.got, "pass")
    if finding.contradicted:
        return Claim(statement, where, expected, finding.got, "fail", note or "The reason is open.")
    default = "The evidence allows both answers."
    return Claim(statement, where, expected, finding.got, "undecided", note or default)


def higher_by(differences: Mapping[str, Measured], got: str) -> Finding:
    """Find that something is higher than others: by the intervals of the differences to each."""
    return Finding(
        got,
        all(each.low > 0 for each in differences.values()),
        any(each.high < 0 for each in differences.values()),
    )


def short(measured: Measured) -> str:
    """Two digits after the point.

    >>> short(Measured(0.7123, 0.7, 0.72))
    '0.71 [0.70, 0.72]'
    """
    return f"{measured.value:.2f} [{measured.low:.2f}, {measured.high:.2f}]"


def shared_information(counts: ArrayLike) -> float:
    """I(c; y) / H(y) of counts (C, Y) of classes c and labels y: 1 if the class tells the label.

    >>> shared_information([[5, 0], [0, 5]]), shared_information([[1, 1], [1, 1]])
    (1.0, 0.0)
    """
    joint = np.asarray(counts, np.float64)
    joint = joint / joint.sum()
    label = joint.sum(0)
    product = joint.sum(1, keepdims=True) * label
    there, has = joint > 0, label > 0
    entropy = -(label[has] * np.log(label[has])).sum()
    return float((joint[there] * np.log(joint[there] / product[there])).sum() / entropy)
