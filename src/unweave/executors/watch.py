"""Show the progress of workers, as recorded in the store."""

import time
from collections.abc import Mapping, Sequence
from typing import Self

from unweave.core.hints import count_noun
from unweave.core.progress import ProgressDisplay
from unweave.evaluation.tasks import Task
from unweave.training import Progress
from unweave.training.progress import ConsoleProgress
from unweave.training.status import recorded_steps

_SECONDS = 2.0  # between two looks at the store


class Watch:
    """Progress of runs that other processes train: their steps, and how many are done and failed.

    Progress of another kind than that of a console is not shown: the events that it reports happen
    in other processes.
    """

    def __init__(self, tasks: Sequence[Task], progress: Progress) -> None:
        self._console = progress.console if isinstance(progress, ConsoleProgress) else None
        self._steps = {run.digest: run.steps for task in tasks for run in task.runs}
        self._reached = dict.fromkeys(self._steps, 0)
        self._done, self._failed = set[str](), set[str]()
        self._last = 0.0
        for task in tasks:
            self._read(task)

    def __enter__(self) -> Self:
        if self._console:
            begun = sum(self._reached.values())
            total = {"steps": sum(self._steps.values())}
            self._display = ProgressDisplay(self._console, total, begun, quiet=False)
            self._display.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        if self._console:
            self._show()
            self._display.__exit__()

    def look(self, running: Sequence[Task], elsewhere: Sequence[Task]) -> None:
        """Read the progress of tasks, if the last reading is long enough ago."""
        if not self._console or time.monotonic() - self._last < _SECONDS:
            return
        tasks = [*running, *elsewhere]
        steps = recorded_steps({task.run_store.root for task in tasks if task.run_store})
        for task in tasks:
            self._read(task, steps)
        self._last = time.monotonic()
        self._show(*(sum(len(task.runs) for task in each) for each in (running, elsewhere)))

    def _show(self, running: int = 0, elsewhere: int = 0) -> None:
        done, failed = len(self._done), len(self._failed)
        texts = [f"{done} of {count_noun(len(self._steps), 'run')} done"]
        texts += [f"{failed} failed"] if failed else []
        texts += [f"{running} submitted"] if running else []
        texts += [f"{elsewhere} trained by other processes"] if elsewhere else []
        self._display.update("steps", sum(self._reached.values()), detail=texts)

    def end(self, task: Task) -> None:
        """Read the outcome of a task that has ended."""
        task.pull()
        self._read(task)
        self._last = 0.0  # the next look shows it

    def _read(self, task: Task, recorded: Mapping[str, int] | None = None) -> None:
        for run, folder in zip(task.runs, task.folders, strict=True):
            seen = (recorded or {}).get(run.digest, 0)
            self._reached[run.digest] = max(folder.reached(run.steps), seen)
            if folder.weights.exists():
                self._done.add(run.digest)
            elif folder.failed:
                self._failed.add(run.digest)
