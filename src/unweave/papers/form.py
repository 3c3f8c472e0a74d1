"""The form of a reproduction: runs, drawings, and claims with a verdict each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, NamedTuple, get_args

import torch

from unweave.data import World
from unweave.fitted import Fitted
from unweave.progress import failure_text
from unweave.run import Run
from unweave.store import Store
from unweave.training import Progress, train

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Verdict = Literal["pass", "fail", "not comparable"]


class Measured(NamedTuple):
    """A number with the interval that it is known to lie in.

    >>> str(Measured(1.131, 1.125, 1.138))
    '1.131 [1.125, 1.138]'
    """

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.value:.4g} [{self.low:.4g}, {self.high:.4g}]"


@dataclass(frozen=True)
class Claim:
    """What a paper states, what follows from it, what we got, and whether that agrees."""

    statement: str  # in the paper's words where they are short
    where: str  # in the paper
    expected: str
    got: str
    verdict: Verdict
    note: str = ""  # why, where the verdict needs a reason

    def __post_init__(self) -> None:
        if self.verdict not in get_args(Verdict):
            raise ValueError(
                f"expected a verdict of {', '.join(get_args(Verdict))}, got {self.verdict!r}"
            )
        if self.verdict != "pass" and not self.note:
            raise ValueError(f"a claim that does not pass needs a note: {self.statement}")


def judged(
    statement: str, where: str, expected: str, got: object, holds: bool, note: str = ""
) -> Claim:
    """A claim that passes if something holds, and fails if not, for the reason in the note."""
    if holds:
        return Claim(statement, where, expected, str(got), "pass")
    return Claim(statement, where, expected, str(got), "fail", note or "The reason is open.")


@dataclass(frozen=True, eq=False)
class Result:
    """What a reproduction found."""

    drawings: dict[str, Figure]  # by the name of the file, with what each shows below
    captions: dict[str, str]
    claims: tuple[Claim, ...]
    setting: str  # what was computed, in Markdown: sizes, weights, choices of ours
    seeds: str
    noticed: str = ""  # what the paper does not say, in Markdown


@dataclass(frozen=True)
class Reproduction:
    """A figure of a paper and how it is made again."""

    paper: str  # the key in the bibliography, in lower case
    figure: str
    title: str
    cost: str  # about how long it takes on two cores
    make: Callable[[Desk], Result]


@dataclass
class Desk:
    """Where a reproduction works: a store of runs, a device, and somebody who watches."""

    store: Store
    device: torch.device
    progress: Progress
    checkpoint_seconds: float = 30.0
    trained: int = field(default=0, init=False)  # runs that were trained here
    found: int = field(default=0, init=False)  # runs that were finished before

    def carry_out(self, runs: Sequence[Run], world: World) -> list[Fitted]:
        """The runs of a study over one world, trained where the store does not have them.

        Interrupted, the same call goes on from the last checkpoint. A run that broke raises.
        """
        resolved = [run.resolve(world) for run in runs]
        there = [self.store.folder(run).status == "finished" for run in resolved]
        outcomes = train(resolved, world, self.store, self.progress, self.checkpoint_seconds)
        for outcome in outcomes:
            if outcome.failure:
                raise FloatingPointError(failure_text(outcome.run, outcome.failure))
        self.found += sum(there)
        self.trained += len(there) - sum(there)
        return [Fitted(each, world, self.store.folder(each.run).path) for each in outcomes]
