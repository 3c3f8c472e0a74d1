"""Tasks: runs to train on one dataset, described by specs and paths alone, and executors."""

import math
import random
import re
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Annotated, Any, NamedTuple, Protocol, Self

import torch
from pydantic import Field, NonNegativeInt

from unweave.core import files, spec as specs
from unweave.core.devices import machine
from unweave.core.groups import grouped
from unweave.core.hints import count_noun
from unweave.core.outputs import RUN
from unweave.core.parts import import_module, own_modules
from unweave.core.spec import spec
from unweave.data import Dataset
from unweave.evaluation.monitor import LaneMonitor, Measure, monitor_of
from unweave.evaluation.validation import Validation
from unweave.training import (
    Outcome,
    Precision,
    Progress,
    StoredOutcome,
    TrainingInterrupted,
    pick_device,
    train,
)
from unweave.training.interrupt import Interrupt
from unweave.training.leases import FolderInUse
from unweave.training.own_data import Datasets
from unweave.training.processes import ALONE, Processes
from unweave.training.remote_stores import store_root
from unweave.training.resumption import find_continuations, group_runs
from unweave.training.run import Run
from unweave.training.store import RunFolder, Store

_LOOK_AGAIN = 3.0  # seconds until runs that other processes train are looked at again
_MOST_REASONS = 3  # that an error has, and hosts of each
_BLINK = 0.1  # seconds until Ctrl-C is noticed


@spec
class Task:
    """Runs that train together, and how: everything that a worker on another machine needs."""

    runs: Annotated[tuple[Run, ...], Field(min_length=1)]
    """The runs, all on one dataset."""
    store: str | None = None
    """Folder or URL of the store; None keeps the runs in memory."""
    device: str = "auto"
    """Device to train on."""
    precision: Precision = "fp32"
    """GPU matmul precision."""
    checkpoint_seconds: float = 30.0
    """Seconds between checkpoints."""
    measure: tuple[Measure, ...] = ()
    """What to measure during training."""
    threads: NonNegativeInt = 0
    """CPU threads of a worker; 0 uses all of its cores."""

    @property
    def run_store(self) -> Store | None:
        """The store, None if runs are kept in memory."""
        return None if self.store is None else Store(store_root(self.store, refresh=False))

    @property
    def folders(self) -> list[RunFolder]:
        """The folders of the runs in the store, none without one."""
        store = self.run_store
        return [store.folder(run) for run in self.runs] if store else []

    @property
    def is_done(self) -> bool:
        """Whether all runs are finished, or have failed."""
        return all(folder.ended for folder in self.folders)

    @property
    def is_in_use(self) -> bool:
        """Whether another process trains one of the runs."""
        return any(folder.locked for folder in self.folders if not folder.ended)

    def read_outcomes(self) -> list[Outcome]:
        """Read the outcomes so far of runs, which other processes may have trained."""
        return [
            StoredOutcome(folder, run)
            if (folder.path / RUN).exists()
            else Outcome(run, None, [], None)
            for run, folder in zip(self.runs, self.pull(), strict=True)
        ]

    def read_steps(self) -> list[int]:
        """Read which step of each run is stored, perhaps by others; none without a store."""
        pairs = zip(self.runs, self.pull(), strict=False)
        return [folder.reached(run.steps) for run, folder in pairs]

    def pull(self) -> list[RunFolder]:
        """Return the folders of the runs, as other processes see them now."""
        folders = self.folders
        for folder in folders:
            files.disk.pull(folder.path)
        return folders

    def to_json(self) -> dict[str, Any]:
        """Return what `from_json` reads: the fields, digests, and modules of users' own parts."""
        own = {"imports": own_modules(self.runs), "digests": [run.digest for run in self.runs]}
        return own | {"task": specs.to_json(self)}

    @classmethod
    def from_json(cls, content: dict[str, Any]) -> Self:
        """Import the modules of users' own parts, and read a task."""
        for module in content["imports"]:
            import_module(module)
        task = specs.from_json(cls, content["task"])
        if [run.digest for run in task.runs] != content["digests"]:
            raise ValueError(
                f"the workers have other code of {', '.join(content['imports'])}, or of what it "
                "imports, than this command had when it began: give all machines the same files, "
                "and run the command again"
            )
        return task


class Trained(NamedTuple):
    """Outcomes of runs that ended together, with training time and device."""

    outcomes: list[Outcome]
    seconds: float = 0.0
    steps: int = 0  # of all runs together, in these seconds
    device: str = ""  # its type
    machine: str = ""  # its hardware


@dataclass(frozen=True)
class Job:
    """A task whose data are loaded, ready to train in this process."""

    task: Task  # with resolved runs
    dataset: Dataset
    validation: Validation | None
    processes: Processes = ALONE  # that train each run together

    @classmethod
    def prepare(cls, task: Task, datasets: Datasets, processes: Processes = ALONE) -> Self:
        """Load the data of a task, resolve its runs, and check that everything fits."""
        data = task.runs[0].data
        dataset = datasets.load(data)
        runs = tuple(run.resolve(dataset) for run in task.runs)
        held_out = datasets.validation(data)
        datasets.drop_whole(data)
        validation = Validation(held_out, dataset) if held_out else None
        job = cls(replace(task, runs=runs), dataset, validation, processes)
        _ = job.monitor  # raises if the data do not allow the measurements
        return job

    @cached_property
    def monitor(self) -> LaneMonitor | None:
        """The monitor that measures the runs while they train."""
        return monitor_of(self.task.measure, self.task.runs, self.dataset, self.validation)

    def of(self, runs: Iterable[Run]) -> Self:
        """Return the job of some of the runs."""
        return replace(self, task=replace(self.task, runs=tuple(runs)))

    def divide(self, lanes: int, device: torch.device) -> list[Task]:
        """Divide the runs into tasks of at most `lanes`, for workers with this type of device.

        Bits depend on which runs train together, so the division follows from the runs of the
        command and from what is stored alone. Runs of one structure are cut into parts in their
        order, finished ones too, so that the same command gives the same parts after some runs have
        ended. Runs with checkpoints stay with those they were saved with. Finished runs are left
        out, and failed ones stay only beside others.
        """
        store = self.task.run_store
        runs = list({run.digest: run for run in self.task.runs}.values())
        folders = {run.digest: store.folder(run) for run in runs} if store else {}
        finished = {digest for digest, folder in folders.items() if folder.weights.exists()}
        failed = {digest for digest, folder in folders.items() if folder.failed}
        todo = [run for run in runs if run.digest not in finished]
        given = self.dataset, store, self.task.precision, bool(self.monitor), device
        origins, _ = find_continuations(todo, *given)
        groups = group_runs(todo, store, origins, failed, _cut(runs, lanes))
        return [self.of(group).task for group in groups]

    @property
    def failed(self) -> list[Self]:
        """A job for each run that has failed, according to the store."""
        pairs = zip(self.task.runs, self.task.folders, strict=False)  # no folders without a store
        return [self.of([run]) for run, folder in pairs if folder.failed]

    def train(self, progress: Progress | None = None, deadline: float = math.inf) -> Trained:
        """Train the runs that are not finished, in this process."""
        begun, task = time.monotonic(), self.task
        before = sum(task.read_steps())
        outcomes = train(
            task.runs,
            self.dataset,
            task.run_store,
            progress,
            task.checkpoint_seconds,
            task.precision,
            self.monitor,
            deadline,
            self.processes,
        )
        ends = [] if task.store else [each.log_end for each in outcomes]
        after = task.read_steps() if task.store else [rows[-1]["step"] for rows in ends if rows]
        steps = sum(after) - before
        device = self.dataset.device
        return Trained(outcomes, time.monotonic() - begun, steps, device.type, machine(device))


class FailedTask(NamedTuple):
    """A task that was given up."""

    runs: tuple[str, ...]
    text: str
    host: str = ""  # where it was last, if that is known


class TasksFailed(ValueError):
    """Some tasks failed; all others are done and their results stored."""

    def __init__(self, failures: Sequence[FailedTask], tasks: int) -> None:
        self.failures, self.tasks = list(failures), tasks
        # Reasons that differ only in numbers, such as that of a job, are one.
        alike = grouped((re.sub(r"\d+", "", each.text), each) for each in failures).values()
        groups = sorted(alike, key=lambda group: -len(group))
        reasons = [_reason(group) for group in groups[:_MOST_REASONS]]
        more = sum(map(len, groups[_MOST_REASONS:]))
        reasons += [f"{count_noun(more, 'task')} for other reasons"] if more else []
        super().__init__(
            f"{len(failures)} of {count_noun(tasks, 'task')} failed, and everything else is "
            f"trained and stored; {'; '.join(reasons)}; `unweave status` names all runs"
        )


def _reason(group: Sequence[FailedTask]) -> str:
    """Describe failures of one reason."""
    runs = [run for each in group for run in each.runs]
    hosts = sorted({each.host for each in group if each.host})
    names = ", ".join(hosts[:_MOST_REASONS]) + ", ..." * (len(hosts) > _MOST_REASONS)
    many = f"{len(group)} tasks, with run {runs[0]}" if len(group) > 1 else f"run {runs[0]}"
    more = f" and {len(runs) - 1:,} more" if len(runs) > 1 else ""
    return f"{many}{more}: {group[0].text}{f' (on {names})' if names else ''}"


class Executor(Protocol):
    """Trains jobs: in this process, in others, or on other machines."""

    def load_on(self, device: str) -> torch.device:
        """Return where this process loads the data of runs that train on `device`."""

    def run(
        self, jobs: Iterable[Job], progress: Progress, deadline: float = math.inf
    ) -> Iterator[Trained]:
        """Train jobs until the deadline, and yield outcomes as runs end.

        Ctrl-C and SIGTERM save what was trained and raise `TrainingInterrupted`. If tasks were
        given up, `TasksFailed` is raised after the others have ended.
        """


@dataclass(frozen=True)
class ThisProcess:
    """Trains one task after the other in this process.

    If another process trains a run of a task, the task is left to it; at the end this process
    waits for it, and trains whatever it left undone.
    """

    lanes: int | None = None  # runs in a task; by default all that can train together

    def load_on(self, device: str) -> torch.device:
        """Return the device itself."""
        return pick_device(device)

    def run(
        self, jobs: Iterable[Job], progress: Progress, deadline: float = math.inf
    ) -> Iterator[Trained]:
        """Train each job when the one before has ended."""
        left: list[Job] = []  # to other processes
        tasks: list[Task] = []
        for job in jobs:
            tasks += [] if job.processes.several else [job.task]
            for part in self._parts(job):
                if trained := _train_if_free(part, progress, deadline):
                    yield trained
                else:
                    left.append(part)
        while left and time.monotonic() < deadline:
            for part in _wait_for_others(left, progress, deadline):
                if trained := _train_if_free(part, progress, deadline):
                    left.remove(part)
                    yield trained
        if not left:  # others that were killed may have left their leases
            for folder in (each for task in tasks for each in task.folders if each.ended):
                folder.clean_up()

    def _parts(self, job: Job) -> Iterator[Job]:
        """Yield a job for each task, and one for the runs that are done, which are only read."""
        runs = job.task.runs
        if job.processes.several or (job.task.store is None and self.lanes is None):
            yield job
            return
        tasks = job.divide(self.lanes or len(runs), job.dataset.device)
        yield from (job.of(task.runs) for task in tasks)
        todo = {run.digest for task in tasks for run in task.runs}
        if done := [run for run in runs if run.digest not in todo]:
            yield job.of(done)


def _train_if_free(job: Job, progress: Progress, deadline: float) -> Trained | None:
    """Train a job; return None if another process trains one of its runs."""
    if job.processes.several:
        return job.train(progress, deadline)
    try:
        return None if job.task.is_in_use else job.train(progress, deadline)
    except FolderInUse:
        return None


def _wait_for_others(left: Sequence[Job], progress: Progress, deadline: float) -> list[Job]:
    """Wait until other processes have ended or left some of the tasks; return these.

    Ctrl-C and SIGTERM raise `TrainingInterrupted`.
    """
    runs = sum(not folder.ended for job in left for folder in job.task.folders)
    free: list[Job] = []
    with Interrupt() as interrupt:
        if runs:  # otherwise something is written in folders of finished runs
            progress.note(f"waiting for {count_noun(runs, 'run')} that other processes train")
        while not (free or interrupt.requested) and time.monotonic() < deadline:
            # Not always as long: two processes that took runs from each other must not do it again.
            pause = _LOOK_AGAIN * (0.5 + random.random())
            until = min(deadline, time.monotonic() + pause)
            while time.monotonic() < until and not interrupt.requested:
                time.sleep(_BLINK)
            free = [job for job in left if not job.task.is_in_use]
    if interrupt.requested:
        outcomes = [each for job in left for each in job.task.read_outcomes()]
        raise TrainingInterrupted(outcomes, interrupt.terminated)
    return free


def _cut(runs: Sequence[Run], lanes: int) -> dict[str, str]:
    """Cut the runs of each structure into parts of `lanes`; return the part of each digest."""
    counts: dict[str, int] = {}
    parts = {}
    for run in runs:
        place = counts[run.lane_key] = counts.get(run.lane_key, -1) + 1
        parts[run.digest] = str(place // lanes)
    return parts


def forget_failures(jobs: Iterable[Job]) -> None:
    """Delete the records of failures, so that the runs start again from their last checkpoint.

    A run that another process trains is left to it.
    """
    for folder in (folder for job in jobs for folder in job.task.folders):
        with suppress(FolderInUse), folder.lock():
            folder.forget_failure()
