"""Divide runs into tasks, and order tasks by how long they take."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch

from unweave.evaluation.tasks import Job, Task
from unweave.training import Lanes
from unweave.training.operations import count_operations
from unweave.training.resumption import find_continuations, group_runs
from unweave.training.run import Run

_MOST_LANES = 64  # more on one device are hardly faster


def lanes_for(runs: int, slots: int) -> int:
    """Return how many runs to train in a task, so that every one of the slots gets work.

    >>> lanes_for(20, 8), lanes_for(1000, 8), lanes_for(3, 8)
    (3, 64, 1)
    """
    return max(1, min(_MOST_LANES, math.ceil(runs / slots)))


def lanes_in_memory(job: Job, memory: float) -> int:
    """Return how many runs of a job may fit into this many bytes, at least one."""
    needed = max(run.lanes_memory(job.dataset.shape, 1, 1) for run in job.task.runs)
    return int(max(1.0, min(memory // needed, len(job.task.runs))))


def divide(job: Job, lanes: int, device: torch.device) -> list[Task]:
    """Divide a job into tasks of at most `lanes` runs, for workers with this type of device.

    Bits depend on which runs train together, so the division follows from the runs of the command
    and from what is stored alone. Runs of one structure are cut into parts in their order, finished
    ones too, so that the same command gives the same parts after some runs have ended. Runs with
    checkpoints stay with those they were saved with. Finished runs are left out, and failed ones
    stay only beside others.
    """
    task, store = job.task, job.task.run_store
    runs = list({run.digest: run for run in task.runs}.values())
    folders = {run.digest: store.folder(run) for run in runs} if store else {}
    finished = {digest for digest, folder in folders.items() if folder.weights.exists()}
    failed = {digest for digest, folder in folders.items() if folder.failed}
    todo = [run for run in runs if run.digest not in finished]
    given = job.dataset, store, task.precision, bool(job.monitor), device
    origins, _ = find_continuations(todo, *given)
    groups = group_runs(todo, store, origins, failed, _parts(runs, lanes))
    return [job.of(group).task for group in groups]


def _parts(runs: Sequence[Run], lanes: int) -> dict[str, str]:
    """Cut the runs of each structure into parts of `lanes`; return the part of each digest."""
    counts: dict[str, int] = {}
    parts = {}
    for run in runs:
        place = counts[run.lane_key] = counts.get(run.lane_key, -1) + 1
        parts[run.digest] = str(place // lanes)
    return parts


def longest_first(job: Job, tasks: Sequence[Task]) -> list[tuple[int, Task]]:
    """Return tasks of a job with the operations that are left of each, the longest first."""
    each = {task.runs[0].lane_key: task for task in tasks}
    work = {key: _operations(job.of(task.runs)) for key, task in each.items()}
    left = [(work[task.runs[0].lane_key] * _steps_left(task), task) for task in tasks]
    return sorted(left, key=lambda pair: -pair[0])


def _operations(job: Job) -> int:
    """Count the operations of a step of one run."""
    return count_operations(Lanes(job.task.runs[:1], job.dataset, job.dataset.device))


def _steps_left(task: Task) -> int:
    """Return the steps that the runs of a task still have to take, all together."""
    return sum(
        run.steps - folder.reached(run.steps)
        for run, folder in zip(task.runs, task.folders, strict=True)
    )
