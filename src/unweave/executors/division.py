"""How many runs to train in a task, and how long tasks take."""

import math
from collections.abc import Sequence

from unweave.evaluation.tasks import Job, Task
from unweave.training import Lanes
from unweave.training.operations import count_operations

_MOST_LANES = 64  # more on one device are hardly faster


def lanes_for(runs: int, slots: int) -> int:
    """Return how many runs to train in one task, so that every slot gets work.

    >>> lanes_for(20, 8), lanes_for(1000, 8), lanes_for(3, 8)
    (3, 64, 1)
    """
    return max(1, min(_MOST_LANES, math.ceil(runs / slots)))


def lanes_in_memory(job: Job, memory: float) -> int:
    """Return how many runs of a job may fit into this many bytes, at least one."""
    needed = max(run.lanes_memory(job.dataset.shape, 1, 1) for run in job.task.runs)
    return int(max(1.0, min(memory // needed, len(job.task.runs))))


def longest_first(job: Job, tasks: Sequence[Task]) -> list[tuple[int, Task]]:
    """Return tasks of a job with the operations that are left of each, the longest first."""
    each = {task.runs[0].lane_key: task for task in tasks}
    dataset = job.dataset
    work = {
        key: count_operations(Lanes(task.runs[:1], dataset, dataset.device))
        for key, task in each.items()
    }
    all_steps = [sum(run.steps for run in task.runs) for task in tasks]
    left = [
        (work[task.runs[0].lane_key] * (steps - sum(task.read_steps())), task)
        for task, steps in zip(tasks, all_steps, strict=True)
    ]
    return sorted(left, key=lambda pair: -pair[0])
