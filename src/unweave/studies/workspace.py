"""Reproductions: a figure of a paper, its claims with their verdicts, and the workspace."""

from __future__ import annotations

import math
import os
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeVar, get_args

import torch

import unweave
from unweave.core.console import PlainConsole
from unweave.core.devices import machine
from unweave.core.progress import ProgressDisplay
from unweave.evaluation.tasks import Executor, ThisProcess
from unweave.training import Progress
from unweave.training.store import Store

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from unweave.studies.study import Study

T = TypeVar("T")
Verdict = Literal["pass", "fail", "undecided", "not measured yet", "not comparable"]
Numbers = dict[str, Any]  # a JSON object


class Cost(NamedTuple):
    """Wall-clock and CPU seconds, including those of finished child processes.

    >>> (Cost.now() - Cost.now()).wall <= 0
    True
    """

    wall: float
    cpu: float

    @classmethod
    def now(cls) -> Cost:
        """Read both clocks."""
        return cls(time.monotonic(), sum(os.times()[:4]))

    def __sub__(self, other: Cost) -> Cost:
        return Cost(self.wall - other.wall, self.cpu - other.cpu)


class Measured(NamedTuple):
    """A number and its interval, which is NaN if it is not known.

    As text it has as many digits as its interval supports: two of half its width. A bound that
    would be rounded to 0 has more, so that its sign is seen.

    >>> str(Measured(1.1314, 1.1251, 1.1377)), str(Measured(1040.2, 980.0, 1100.0))
    ('1.1314 [1.1251, 1.1377]', '1,040 [980, 1,100]')
    >>> f"{Measured(1.131, 1.125, 1.138):.1f}", str(Measured(0.5, math.nan, math.nan))
    ('1.1 [1.1, 1.1]', '0.5')
    >>> str(Measured(-0.02, -0.47, -0.004))
    '-0.02 [-0.47, -0.004]'
    """

    value: float
    low: float
    high: float

    def within(self, stated: float, tolerance: float) -> bool:
        """Return whether the whole interval is within a tolerance of a stated value."""
        return stated - tolerance <= self.low and self.high <= stated + tolerance

    def beyond(self, stated: float, tolerance: float) -> bool:
        """Return whether all of the interval is further from a stated value than a tolerance."""
        return self.high < stated - tolerance or self.low > stated + tolerance

    def __str__(self) -> str:
        return format(self)

    def __format__(self, spec: str) -> str:
        half = (self.high - self.low) / 2
        if half != half:
            return format(self.value, spec or ".4g")
        digits = max(0, 1 - math.floor(math.log10(half) + 1e-9)) if half > 0 else 0
        if spec or half <= 0:
            value, low, high = (format(each, spec or ".4g") for each in self)
        else:
            value = f"{self.value:,.{digits}f}"
            low, high = (_bound_text(each, digits) for each in self[1:])
        return f"{value} [{low}, {high}]"


def _bound_text(bound: float, digits: int) -> str:
    """Write a number with some decimals, and with more if it would be rounded to 0."""
    if bound and abs(bound) < 0.5 * 10.0**-digits:
        digits = math.ceil(-math.log10(abs(bound)))
    return f"{bound:,.{digits}f}"


@dataclass(frozen=True)
class Claim:
    """A statement of a paper, what it predicts for our measurement, what we measured, a verdict.

    A claim fails if the evidence contradicts it. It is undecided if the evidence allows both
    answers, or if it misses a bound, a range or a reading that is our choice.
    """

    statement: str  # in the paper's words where they are short
    where: str  # in the paper
    expected: str
    got: str
    verdict: Verdict
    note: str = ""  # the reason for any verdict but "pass"
    name: str = ""  # by which the summary of a page refers to it

    def __post_init__(self) -> None:
        if self.verdict not in get_args(Verdict):
            raise ValueError(
                f"expected a verdict of {', '.join(get_args(Verdict))}, got {self.verdict!r}"
            )
        if self.verdict != "pass" and not self.note:
            raise ValueError(f"a claim that does not pass needs a note: {self.statement}")


def judge(
    statement: str,
    where: str,
    expected: str,
    got: object,
    holds: bool,
    note: str = "",
    *,
    contradicted: bool = True,
    name: str = "",
) -> Claim:
    """Return a claim that passes if it `holds`; otherwise it fails, or is undecided.

    Set `contradicted=False` if a miss does not contradict the paper: because the bound, the range
    or the reading that was missed is our choice, or because the intervals allow both answers.

    >>> judge("TC is small", "sec. 2", "below 0.1 nats (our bound)", 0.2, False,
    ...       contradicted=False).verdict
    'undecided'
    """
    if holds:
        return Claim(statement, where, expected, str(got), "pass", name=name)
    verdict: Verdict = "fail" if contradicted else "undecided"
    default = (
        "The reason is open."
        if contradicted
        else "The bound is ours; with another one the verdict could differ."
    )
    return Claim(statement, where, expected, str(got), verdict, note or default, name)


@dataclass(frozen=True, eq=False)
class Result:
    """The drawings, texts and claims that a reproduction puts on the page."""

    drawings: dict[str, Figure]  # "" is <figure>.svg, "more" is <figure>-more.svg
    captions: dict[str, str]  # one for each drawing
    claims: tuple[Claim, ...]
    setting: str  # what was computed, in Markdown: sizes, weights, choices of ours
    seeds: str
    noticed: str = ""  # what the paper does not say, in Markdown
    networks: tuple[int, int] | None = None  # trained and planned; by default those of the study
    used: tuple[str, ...] | None = None  # keys of the networks it is about; by default all of them


@dataclass(frozen=True)
class Reproduction:
    """A figure of a paper, and the function that reproduces it.

    With a study, `make(workspace, results)` gets the study's results; without, `make(workspace)`.
    """

    paper: str  # the key in the bibliography, in lower case
    figure: str
    title: str
    cost: str  # about how long it takes on two cores
    make: Callable[..., Result]
    command: str = ""  # that reproduces it, if not `unweave reproduce`
    study: Study | None = None


@dataclass
class Workspace:
    """Where reproductions work: a store of runs, a device, and a console for messages."""

    store: Store
    device: torch.device
    progress: Progress
    console: PlainConsole | None = None
    checkpoint_seconds: float = 30.0
    deadline: float = math.inf  # on the clock of time.monotonic; studies stop training there
    networks: int | None = None  # train at most this many networks of studies
    on: Executor = field(default_factory=ThisProcess)  # what trains them
    worker_device: str = "auto"  # where others than this process train
    retry_failed: bool = False  # let networks that failed start again from their last checkpoint
    out: Path = field(default=Path(), init=False)  # the folder of the pages
    trained: int = field(default=0, init=False)  # networks trained for the current figure
    costs: dict[str, Numbers] = field(default_factory=dict, init=False)  # of its networks, by key

    def start_figure(self, out: Path) -> None:
        """Start another figure, to be written under `out`."""
        self.trained, self.costs, self.out = 0, {}, out

    def say(self, text: str) -> None:
        """Print a message."""
        if self.console is not None:
            self.console.print(text, soft_wrap=True)

    def each(self, what: str, items: Sequence[T]) -> Iterator[T]:
        """Iterate over items that take long, with a progress bar."""
        if self.console is None:
            yield from items
            return
        with ProgressDisplay(self.console, {what: len(items)}) as counts:
            for item in items:
                yield item
                counts.add(what)

    def cost_facts(self, cost: Cost, used: Sequence[str] | None = None) -> Numbers:
        """Summarise what a figure cost, and what training its networks cost, for its page.

        `used` are the keys of its networks, by default all.
        """
        costs = [each for key, each in self.costs.items() if used is None or key in used]
        trained = min(self.trained, len(costs))
        dates, versions = ({each.get(key) for each in costs} for key in ("date", "version"))
        return {
            "seconds": round(cost.wall),
            "cpu_seconds": round(cost.cpu),
            "trained": trained,
            "found": len(costs) - trained,
            "training": {
                "runs": len(costs),
                "seconds": round(sum(each["seconds"] or 0 for each in costs)),
                "machines": sorted({each["machine"] for each in costs}),
                "dates": sorted(filter(None, dates)) if None not in dates else [],
                "versions": sorted(filter(None, versions)) if None not in versions else [],
            },
            "machine": machine(self.device),
            "date": today(),
        }


def version() -> str:
    """Return the version of unweave, with the commit if it runs from a git checkout."""

    def git(*arguments: str) -> str:
        command = ["git", "-C", str(Path(unweave.__file__).parent), *arguments, "--", "."]
        return subprocess.run(command, capture_output=True, text=True).stdout.strip()

    try:
        commit = git("log", "-1", "--format=%h")  # the last one that changed the package
        changed = " with local changes" if commit and git("status", "--porcelain") else ""
    except OSError:  # no git
        return unweave.__version__
    return f"{unweave.__version__} (commit {commit}{changed})" if commit else unweave.__version__


def today() -> str:
    """Return the date in UTC, as 2026-01-31."""
    return time.strftime("%Y-%m-%d", time.gmtime())
