"""The form of a reproduction: runs, drawings, and claims with a verdict each."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeVar, get_args

import torch
from rich.console import Console

from unweave.bench.throughput import machine
from unweave.core.progress import ProgressDisplay
from unweave.training import Progress
from unweave.training.store import Store

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from unweave.studies.study import Study

T = TypeVar("T")
Verdict = Literal["pass", "fail", "undecided", "not comparable"]
Numbers = dict[str, Any]  # what JSON holds


class Cost(NamedTuple):
    """Seconds that something took, and seconds of work of the CPU in them, ended processes' too.

    >>> (Cost.now() - Cost.now()).wall <= 0
    True
    """

    wall: float
    cpu: float

    @classmethod
    def now(cls) -> Cost:
        """The clocks as they are."""
        return cls(time.monotonic(), sum(os.times()[:4]))

    def __sub__(self, other: Cost) -> Cost:
        return Cost(self.wall - other.wall, self.cpu - other.cpu)

    def rounded(self) -> Numbers:
        """As the facts of a figure have it."""
        return {"seconds": round(self.wall), "cpu_seconds": round(self.cpu)}


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
    """What a paper states, what follows from it, what we got, and whether that agrees.

    A claim fails if the evidence contradicts it. It is undecided if the evidence allows both
    answers, or if another choice of a bound or reading of ours would change the verdict.
    """

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
    statement: str,
    where: str,
    expected: str,
    got: object,
    holds: bool,
    note: str = "",
    *,
    decisive: bool = True,
) -> Claim:
    """Return a claim that passes if `holds`; otherwise it fails, or is undecided.

    Set `decisive=False` if a miss does not contradict the paper: because the bound, the range or
    the reading that was missed is our choice, or because the intervals allow both answers.

    >>> judged("TC is small", "sec. 2", "below 0.1 nats (our bound)", 0.2, False,
    ...        decisive=False).verdict
    'undecided'
    """
    if holds:
        return Claim(statement, where, expected, str(got), "pass")
    if decisive:
        return Claim(statement, where, expected, str(got), "fail", note or "The reason is open.")
    default = "The bound is ours; with another one the verdict could differ."
    return Claim(statement, where, expected, str(got), "undecided", note or default)


@dataclass(frozen=True, eq=False)
class Result:
    """What a reproduction found."""

    drawings: dict[str, Figure]  # "" is <figure>.svg, "more" is <figure>-more.svg
    captions: dict[str, str]  # what each shows
    claims: tuple[Claim, ...]
    setting: str  # what was computed, in Markdown: sizes, weights, choices of ours
    seeds: str
    noticed: str = ""  # what the paper does not say, in Markdown
    networks: tuple[int, int] | None = None  # of a study: how many it shows, and of how many


@dataclass(frozen=True)
class Reproduction:
    """A figure of a paper and how it is made again."""

    paper: str  # the key in the bibliography, in lower case
    figure: str
    title: str
    cost: str  # about how long it takes on two cores
    make: Callable[[Workspace], Result]
    command: str = ""  # that makes it, where it is not one of `unweave reproduce`
    study: Study | None = None  # whose results it is drawn from


@dataclass
class Workspace:
    """Where a reproduction works: a store of runs, a device, and somebody who watches.

    `progress` is told of training; on the console, if there is one, stands what else is done.
    """

    store: Store
    device: torch.device
    progress: Progress
    console: Console | None = None
    checkpoint_seconds: float = 30.0
    deadline: float = math.inf  # on the clock of time.monotonic; large studies stop there
    networks: int | None = None  # the most that large studies train
    trained: int = field(default=0, init=False)  # networks trained for this figure just now
    costs: dict[str, Numbers] = field(default_factory=dict, init=False)  # of all its networks
    place: Path | None = field(default=None, init=False)  # the files of the figure, less their ends

    def turn_to(self, place: Path) -> None:
        """Begin with another figure."""
        self.trained, self.costs, self.place = 0, {}, place

    def say(self, text: str) -> None:
        """What is being done."""
        if self.console is not None:
            self.console.print(text, highlight=False, soft_wrap=True)

    def each(self, what: str, items: Sequence[T]) -> Iterator[T]:
        """Things that take long, one by one, with how many of them are done."""
        if self.console is None:
            yield from items
            return
        with ProgressDisplay(self.console, {what: len(items)}) as counts:
            for item in items:
                yield item
                counts.add(what)

    def spent(self, cost: Cost) -> Numbers:
        """What the page says of the cost of a figure."""
        return {
            **cost.rounded(),
            "trained": self.trained,
            "found": len(self.costs) - self.trained,
            "training": {
                "runs": len(self.costs),
                "seconds": round(sum(each["seconds"] or 0 for each in self.costs.values())),
                "machines": sorted({each["machine"] for each in self.costs.values()}),
            },
            "machine": machine(self.device),
        }
