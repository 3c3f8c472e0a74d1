"""Progress of training and measuring: a bar on a terminal, plain lines in a pipe."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any, Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
from rich.progress import Progress as RichProgress

from unweave.training import Progress
from unweave.training.run import Run

_SECONDS_BETWEEN_LINES = 5.0


def describe(runs: Sequence[Run]) -> str:
    """What a group of runs is, in a few words."""
    kind = runs[0].objective.kind
    if len(runs) == 1:
        return f"{runs[0].digest} {kind} seed {runs[0].seed}"
    return f"{kind} in {len(runs)} lanes"


def summary(rows: Sequence[dict[str, Any]]) -> str:
    """The terms of the log, averaged over the lanes."""
    names = [name for name in rows[0] if name != "step"]
    means = {name: sum(row[name] for row in rows) / len(rows) for name in names}
    return "  ".join(f"{name} {mean:.2f}" for name, mean in means.items())


class _Rate:
    """Steps per second since training began or went on."""

    def __init__(self, step: int) -> None:
        self.first, self.start = step, time.monotonic()

    def __call__(self, step: int) -> float:
        return (step - self.first) / max(1e-9, time.monotonic() - self.start)


class Bars:
    """A bar with the rate, the time left and the terms."""

    def __init__(self, console: Console) -> None:
        self.console = console

    def begin(self, runs: Sequence[Run], step: int) -> None:
        """Show a bar for the group."""
        self.bar = RichProgress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=24),
            MofNCompleteColumn(),
            TextColumn("{task.fields[rate]}"),
            TimeRemainingColumn(),
            TextColumn("[dim]{task.fields[terms]}", justify="left"),
            console=self.console,
        )
        self.rate = _Rate(step)
        self.bar.start()
        self.task = self.bar.add_task(
            describe(runs), total=runs[0].steps, completed=step, rate="", terms=""
        )

    def advance(self, step: int, rows: Sequence[dict[str, Any]]) -> None:
        """Move the bar."""
        rate = f"{self.rate(step):.1f} steps/s"
        self.bar.update(self.task, completed=step, rate=rate, terms=summary(rows))

    def broke(self, run: Run, failure: dict[str, Any]) -> None:
        """Say which lane broke and where."""
        self.bar.console.print(break_text(run, failure), style="red")

    def end(self) -> None:
        """Leave the bar as it is."""
        self.bar.stop()


class Lines:
    """A line every few seconds, for pipes and logs."""

    def __init__(self, console: Console) -> None:
        self.console = console

    def begin(self, runs: Sequence[Run], step: int) -> None:
        """Say what starts."""
        self.steps, self.rate, self.last = runs[0].steps, _Rate(step), 0.0
        verb = f"goes on at step {step}" if step else "starts"
        self._say(f"{describe(runs)} {verb}, {self.steps} steps in all")

    def advance(self, step: int, rows: Sequence[dict[str, Any]]) -> None:
        """Say how far it is, at most every few seconds."""
        if step < self.steps and time.monotonic() - self.last < _SECONDS_BETWEEN_LINES:
            return
        self.last = time.monotonic()
        rate = self.rate(step)
        left = (self.steps - step) / max(rate, 1e-9)
        self._say(
            f"step {step}/{self.steps}  {rate:.1f} steps/s  {left:.0f} s left  {summary(rows)}"
        )

    def broke(self, run: Run, failure: dict[str, Any]) -> None:
        """Say which lane broke and where."""
        self._say(break_text(run, failure))

    def end(self) -> None:
        """Nothing more to say."""

    def _say(self, text: str) -> None:
        self.console.print(text, highlight=False, soft_wrap=True)


class Counts:
    """How many of so many are done, of several things at once."""

    def __init__(self, console: Console, totals: Mapping[str, int]) -> None:
        self.console, self.totals, self.done = console, totals, dict.fromkeys(totals, 0)
        self.last, self.said, self.current = time.monotonic(), "", ""
        self.bars = RichProgress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=24),
            MofNCompleteColumn(),
            TimeRemainingColumn(),
            TextColumn("[dim]{task.fields[current]}"),
            console=console,
            disable=not console.is_terminal,
        )
        self.tasks = {
            name: self.bars.add_task(name, total=n, current="") for name, n in totals.items()
        }

    def __enter__(self) -> Self:
        self.bars.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.current = ""
        self.bars.stop()
        if self.said:  # the last line is how it ended
            self._say()

    def add(self, name: str, count: int = 1) -> None:
        """So many more of one thing: move its bar, or say so at most every few seconds."""
        self.done[name] += count
        self.current = ""
        self.bars.update(self.tasks[name], advance=count, current="")
        self._say_now_and_then()

    def begin(self, name: str, current: str, slow: bool = False) -> None:
        """Which of one thing is on its way now; one that is slow is always said."""
        self.current = current
        self.bars.update(self.tasks[name], current=current)
        self._say_now_and_then(slow)

    def _say_now_and_then(self, always: bool = False) -> None:
        due = always or time.monotonic() - self.last >= _SECONDS_BETWEEN_LINES
        if self.bars.disable and due:
            self.last = time.monotonic()
            self._say()

    def _say(self) -> None:
        counts = [f"{name} {self.done[name]:,} of {n:,}" for name, n in self.totals.items()]
        counts += [f"now {self.current}"] if self.current else []
        if (text := ", ".join(counts)) != self.said:
            self.console.print(text, highlight=False, soft_wrap=True)
        self.said = text


def break_text(run: Run, failure: dict[str, Any]) -> str:
    """What broke and where."""
    term = failure["term"].replace("_", " ")
    return f"run {run.digest} (seed {run.seed}) stopped at step {failure['step']}: its {term} broke"


def failure_text(run: Run, failure: dict[str, Any]) -> str:
    """What broke, where, and what to do."""
    kept = failure["checkpoint"]
    last = "no checkpoint had been written" if kept is None else f"checkpoint {kept} is kept"
    return (
        f"{break_text(run, failure)}, it is not finite; {last}. Try a lower optimiser.lr or "
        f"smaller weights"
    )


def progress_on(console: Console) -> Progress:
    """Bars on a terminal, lines elsewhere."""
    return Bars(console) if console.is_terminal else Lines(console)
