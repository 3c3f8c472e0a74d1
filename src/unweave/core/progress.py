"""Show how far long work is: bars on a terminal, otherwise a line every few seconds."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Self

from rich.console import Console
from rich.progress import (
    BarColumn,
    DownloadColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeRemainingColumn,
)

_SECONDS_BETWEEN_LINES = 5.0


class ProgressDisplay:
    """How much of one or several tasks is done.

    Args:
        console: where to print.
        totals: the size of each task, by name; None if it is not known.
        completed: what is done before the start.
        in_bytes: whether sizes are bytes.
        quiet: print no line at all if everything is done within seconds. Bars are always shown.
    """

    def __init__(
        self,
        console: Console,
        totals: Mapping[str, int | None],
        completed: int = 0,
        in_bytes: bool = False,
        quiet: bool = True,
    ) -> None:
        self.console, self.totals, self.quiet = console, dict(totals), quiet
        self.done, self.unit = dict.fromkeys(totals, completed), " bytes" if in_bytes else ""
        self._last, self._line, self._detail = time.monotonic(), "", ""
        self._bars = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=24),
            DownloadColumn() if in_bytes else MofNCompleteColumn(),
            TimeRemainingColumn(),
            TextColumn("[dim]{task.fields[detail]}"),
            console=console,
            disable=not console.is_terminal,
        )
        self._tasks = {
            name: self._bars.add_task(name, total=total, completed=completed, detail="")
            for name, total in totals.items()
        }

    def __enter__(self) -> Self:
        self._bars.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self.quiet:
            self._detail = ""
        self._bars.stop()
        if self._bars.disable and (self._line or not self.quiet):
            self._print()

    def add(self, name: str, count: int = 1) -> None:
        """Count more of a task as done."""
        self.update(name, self.done[name] + count)

    def begin(self, name: str, item: str, slow: bool = False) -> None:
        """Name the item of a task that is being worked on; a slow one gets a line at once."""
        self.update(name, detail=f"now {item}", due=slow)

    def update(
        self,
        name: str,
        completed: int | None = None,
        total: int | None = None,
        detail: str = "",
        due: bool = False,
    ) -> None:
        """Set how much of a task is done; `due` prints a line however recent the last one is."""
        self.done[name] = self.done[name] if completed is None else completed
        self.totals[name] = total or self.totals[name]
        self._detail = detail
        self._bars.update(
            self._tasks[name], completed=self.done[name], total=self.totals[name], detail=detail
        )
        if self._bars.disable:
            now = time.monotonic()
            if due or now - self._last >= _SECONDS_BETWEEN_LINES:
                self._last = now
                self._print()

    def _print(self) -> None:
        counts = [f"{name} {self.done[name]:,}{self._of(name)}" for name in self.totals]
        line = ", ".join([*counts, self._detail] if self._detail else counts)
        if line != self._line:
            self.console.print(line, highlight=False, soft_wrap=True, markup=False)
        self._line = line

    def _of(self, name: str) -> str:
        total = self.totals[name]
        return f"{self.unit}" if total is None else f" of {total:,}{self.unit}"
