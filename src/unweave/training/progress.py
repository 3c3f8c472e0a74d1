"""Progress of training: the events that the loop reports, and their display."""

import time
from collections import deque
from collections.abc import Sequence
from typing import Any, Protocol, runtime_checkable

from unweave.core.console import PlainConsole
from unweave.core.hints import count_noun
from unweave.core.progress import ProgressDisplay
from unweave.training.heartbeats import Worker
from unweave.training.records import Row
from unweave.training.run import Run
from unweave.training.status import duration
from unweave.training.step import LOSS

_SETTLED = 5.0  # seconds after which the speed says how long training takes
_LONG = 600.0  # seconds left from which a line announces how long training takes
_RECENT = 60.0  # seconds over which the speed is averaged


@runtime_checkable
class Progress(Protocol):
    """The events that the training loop reports."""

    def begin(self, runs: Sequence[Run], step: int) -> None:
        """A group of runs starts, or resumes at a step."""

    def advance(self, step: int, rows: Sequence[Row]) -> None:
        """The runs have reached a step; `rows` has a log row for each lane."""

    def broke(self, run: Run, failure: Row) -> None:
        """A lane stopped because a term is not finite."""

    def note(self, text: str) -> None:
        """Something that a user should know, such as what training waits for."""

    def end(self) -> None:
        """The group is done."""


class Silent:
    """Progress that is not shown."""

    def begin(self, runs: Sequence[Run], step: int) -> None:
        """Do nothing."""

    def advance(self, step: int, rows: Sequence[Row]) -> None:
        """Do nothing."""

    def broke(self, run: Run, failure: Row) -> None:
        """Do nothing."""

    def note(self, text: str) -> None:
        """Do nothing."""

    def end(self) -> None:
        """Do nothing."""


class Speed:
    """Steps per second, over about the last minute.

    The time until the first report, in which everything starts, counts only until the second one.
    """

    def __init__(self, step: int) -> None:
        self._marks, self._starts = deque([(time.monotonic(), step)]), True

    def at(self, step: int) -> float:
        """Return the speed on reaching a step."""
        marks, now = self._marks, time.monotonic()
        marks.append((now, step))
        if self._starts and len(marks) > 2:
            marks.popleft()
            self._starts = False
        while now - marks[1][0] >= _RECENT:
            marks.popleft()
        then, first = marks[0]
        return (step - first) / max(1e-9, now - then)


class RecordedProgress:
    """Progress that is also in the record of this process, for `unweave status`."""

    def __init__(self, shown: Progress, worker: Worker, device: str) -> None:
        self.shown, self.worker, self.device = shown, worker, device

    def begin(self, runs: Sequence[Run], step: int) -> None:
        """Record the runs and the step."""
        self._speed = Speed(step)
        digests = [run.digest for run in runs]
        self.worker.facts = {
            "device": self.device, "runs": digests, "step": step, "steps": runs[0].steps
        }  # fmt: skip
        self.shown.begin(runs, step)

    def advance(self, step: int, rows: Sequence[Row]) -> None:
        """Record the step and the steps per second."""
        reached = {"step": step, "steps_per_second": self._speed.at(step)}
        self.worker.facts = self.worker.facts | reached
        self.shown.advance(step, rows)

    def broke(self, run: Run, failure: Row) -> None:
        """Show it; the failure has a file of its own."""
        self.shown.broke(run, failure)

    def note(self, text: str) -> None:
        """Show it."""
        self.shown.note(text)

    def end(self) -> None:
        """Record that nothing is being trained."""
        self.worker.facts = {}
        self.shown.end()


class ConsoleProgress:
    """Progress on a console: steps, rate, time left, and the terms averaged over the lanes."""

    def __init__(self, console: PlainConsole) -> None:
        self.console = console

    def begin(self, runs: Sequence[Run], step: int) -> None:
        """Print what starts; a notebook has it in the bar."""
        self._name, self._steps = describe(runs), runs[0].steps
        self._speed, self._start, self._announced = Speed(step), time.monotonic(), False
        self._bars = self.console.is_terminal or self.console.is_jupyter
        if not self.console.is_jupyter:
            one = len(runs) == 1
            how = f" (run {runs[0].digest})" if one else ", side by side (as lanes)"
            steps = f"to {self._steps:,}" if step else count_noun(self._steps, "step")
            begun = f"from step {step:,} {steps}" if step else f"for {steps}"
            self._print(f"training {self._name} {begun}{how}")
        self._display = ProgressDisplay(
            self.console, {self._name: self._steps}, completed=step, quiet=False
        )
        self._display.__enter__()

    def advance(self, step: int, rows: Sequence[Row]) -> None:
        """Show the step and the terms."""
        rate = self._speed.at(step)
        speed, left = f"{rate:.{rate < 10:d}f} steps/s", (self._steps - step) / max(rate, 1e-9)
        if not self._announced and time.monotonic() - self._start >= _SETTLED:
            self._announced = True
            if left >= _LONG:
                self._print(
                    f"{self._name}: about {duration(left)} left at the present speed; Ctrl-C stops "
                    "training and keeps what is trained"
                )
        terms = terms_text(rows)
        detail = [*terms, speed] if self._bars else [speed, f"{duration(left)} left", *terms]
        self._display.update(self._name, step, detail=detail)

    def broke(self, run: Run, failure: Row) -> None:
        """Print which lane broke, and where."""
        self._print(break_text(run, failure), style="red")

    def note(self, text: str) -> None:
        """Print it."""
        self._print(text)

    def end(self) -> None:
        """Leave the bar as it is, or print the last line."""
        self._display.__exit__()

    def _print(self, text: str, style: str | None = None) -> None:
        self.console.print(text, style=style, soft_wrap=True)


def describe(runs: Sequence[Run]) -> str:
    """Describe a group of runs in a few words."""
    kind = runs[0].objective.kind
    if len(runs) == 1:
        return f"{kind} seed {runs[0].seed}"
    return f"{len(runs)} runs of {kind}"


def terms_text(rows: Sequence[Row]) -> list[str]:
    """Format the terms of the log, averaged over the lanes, with the loss first.

    >>> terms_text([{"step": 1, "rate": 1.0, "loss": 5.0}, {"step": 1, "rate": 2.0, "loss": 6.0}])
    ['loss 5.50', 'rate 1.50']
    """
    names = sorted((name for name in rows[0] if name != "step"), key=lambda name: name != LOSS)
    means = {name: sum(row[name] for row in rows) / len(rows) for name in names}
    return [f"{name} {_short(mean)}" for name, mean in means.items()]


def _short(value: float) -> str:
    """Format a number in at most nine characters, however large it is."""
    return f"{value:.2f}" if abs(value) < 1e5 else f"{value:.2e}"


def break_text(run: Run, failure: dict[str, Any]) -> str:
    """Say which term of a run is not finite, and at which step."""
    term, step = failure["term"].replace("_", " "), failure["step"]
    return f"run {run.digest} (seed {run.seed}) stopped at step {step}: its {term} is not finite"


def failure_text(run: Run, failure: dict[str, Any]) -> str:
    """Say which term of a run is not finite, at which step, and what to do."""
    return f"{break_text(run, failure)}. Try a lower optimiser.lr or smaller weights"
