"""Tasks: runs to train on one dataset, described by specs and paths alone, and who trains them."""

import math
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, NamedTuple, Protocol, Self

import torch
from pydantic import Field, NonNegativeInt

from unweave.core import spec as specs
from unweave.core.devices import machine
from unweave.core.parts import import_module, own_parts
from unweave.core.spec import spec
from unweave.data import Dataset
from unweave.evaluation.monitor import LaneMonitor, Measure, monitor_of
from unweave.evaluation.validation import Validation
from unweave.training import Outcome, Precision, Progress, pick_device, train
from unweave.training.own_data import Datasets
from unweave.training.processes import ALONE, Processes
from unweave.training.run import Run
from unweave.training.store import RunFolder, Store


@spec
class Task:
    """Runs that train together, and how: everything that a worker on another machine needs."""

    runs: Annotated[tuple[Run, ...], Field(min_length=1)]
    """The runs, all on one dataset."""
    store: str | None = None
    """Folder of the store; None keeps the runs in memory."""
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
        return None if self.store is None else Store(Path(self.store))

    @property
    def folders(self) -> list[RunFolder]:
        """The folders of the runs in the store, none without one."""
        store = self.run_store
        return [store.folder(run) for run in self.runs] if store else []

    def to_json(self) -> dict[str, Any]:
        """Return what `from_json` reads: the fields, and the modules of users' own parts."""
        parts = sorted({name.partition(":")[0] for run in self.runs for name in own_parts(run)})
        return {"imports": parts, "task": specs.to_json(self)}

    @classmethod
    def from_json(cls, content: dict[str, Any]) -> Self:
        """Import the modules of users' own parts, and read a task."""
        for module in content["imports"]:
            import_module(module)
        return specs.from_json(cls, content["task"])


class Trained(NamedTuple):
    """Outcomes of runs that ended together, how long they were trained, and where."""

    outcomes: list[Outcome]
    seconds: float = 0.0
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
        """What measures the runs while they train."""
        return monitor_of(self.task.measure, self.task.runs, self.dataset, self.validation)

    def of(self, runs: Iterable[Run]) -> Self:
        """Return the job of some of the runs."""
        return replace(self, task=replace(self.task, runs=tuple(runs)))

    @property
    def failed(self) -> list[Self]:
        """A job for each run that has failed, according to the store."""
        pairs = zip(self.task.runs, self.task.folders, strict=False)  # no folders without a store
        return [self.of([run]) for run, folder in pairs if folder.failed]

    def train(self, progress: Progress | None = None, deadline: float = math.inf) -> Trained:
        """Train the runs that are not finished, in this process."""
        begun, task = time.monotonic(), self.task
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
        device = self.dataset.device
        return Trained(outcomes, time.monotonic() - begun, device.type, machine(device))


class Executor(Protocol):
    """Trains jobs: in this process, in others, or on other machines."""

    def load_on(self, device: str) -> torch.device:
        """Return where this process needs the data of runs that train on a device."""

    def run(
        self, jobs: Iterable[Job], progress: Progress, deadline: float = math.inf
    ) -> Iterator[Trained]:
        """Train jobs until the deadline, and yield outcomes as runs end.

        Ctrl-C and SIGTERM save what was trained and raise `TrainingInterrupted`.
        """


class ThisProcess:
    """Trains one job after the other in this process."""

    def load_on(self, device: str) -> torch.device:
        """Return the device itself."""
        return pick_device(device)

    def run(
        self, jobs: Iterable[Job], progress: Progress, deadline: float = math.inf
    ) -> Iterator[Trained]:
        """Train each job when the one before has ended."""
        for job in jobs:
            yield job.train(progress, deadline)


def forget_failures(jobs: Iterable[Job]) -> None:
    """Delete the records of failures, so that the runs start again from their last checkpoint."""
    for folder in (folder for job in jobs for folder in job.task.folders):
        with folder.lock():
            folder.forget_failure()
