"""Spread lanes over the cores of a CPU: each worker process takes steps of lanes of its own."""

import contextlib
import itertools
import sys
from collections.abc import Collection, Iterator
from typing import NamedTuple

import torch

from unweave.training.engine import Engine
from unweave.training.operations import count_operations
from unweave.training.records import Row
from unweave.training.step import Lanes, can_vectorise
from unweave.training.worker_processes import WorkerProcesses, can_fork

# Operations that a core does in the time that Python needs for one step: of a lane alone, and of
# vectorised lanes.
_PYTHON_ALONE, _PYTHON_VECTORISED = 200_000_000, 500_000_000
_FEWEST_VECTORISED = 4  # lanes in a part, if lanes are vectorised


class Plan(NamedTuple):
    """How lanes are spread: in `parts`, over `workers`, each with `threads` for its products."""

    parts: int
    workers: int
    threads: int


def make_plan(lanes: int, work: int, vectorise: bool, cores: int, forks: bool = True) -> Plan:
    """Choose a plan for lanes with `work` operations per step, from these sizes alone.

    If Python takes longer than the work, lanes are vectorised in parts of four or more; otherwise
    each lane is a part. There are as many workers as parts and cores allow, and they share the
    cores. If processes cannot be forked, this process takes all steps. The same command always
    gives the same plan, and therefore the same bits.

    >>> make_plan(16, 4_000_000, True, cores=8), make_plan(16, 800_000_000, True, cores=8)
    (Plan(parts=4, workers=4, threads=1), Plan(parts=16, workers=8, threads=1))
    """
    if vectorise and work < _PYTHON_ALONE:
        parts = max(1, min(cores, lanes // _FEWEST_VECTORISED)) if forks else 1
    else:
        parts = lanes
    workers = min(cores, parts) if forks else 1
    threads = min(cores // workers, 1 + work * lanes // parts // _PYTHON_VECTORISED)
    return Plan(parts, workers, threads)


class LanePool:
    """Takes steps of lanes with one engine for each part of the plan, and joins their records.

    On CUDA there is one engine for all lanes. On the CPU an operation of a small network is too
    short to split among cores. Lanes are independent, so each core takes steps of its own lanes,
    in a process of its own because of the GIL, and they meet only when a log row is due. The number
    of cores is torch's (`torch.set_num_threads`).
    """

    def __init__(self, lanes: Lanes, plan: Plan | None = None) -> None:
        self.lanes = lanes
        self.plan = plan or plan_for(lanes)
        count, parts = len(lanes.runs), self.plan.parts
        cuts = [part * count // parts for part in range(parts + 1)]
        shares = [lanes.slice(*ends) for ends in itertools.pairwise(cuts)] if parts > 1 else [lanes]
        self.engines = [Engine(share) for share in shares]
        self._starts = dict(enumerate(cuts[:-1]))  # first lanes of the engines that take steps
        self._processes: WorkerProcesses | None = None

    def run(self, steps: int) -> None:
        """Take steps of all lanes that are not frozen, and add their terms to the records."""
        step = self.lanes.step
        if self.plan.workers > 1:
            if self._processes is None:
                plan = self.plan
                self._processes = WorkerProcesses(self.engines, plan.workers, plan.threads)
            self._processes.run(step, steps, list(self._starts))
        else:
            with torch_threads(self.plan.threads):
                for number in self._starts:
                    self.engines[number].lanes.seek(step)
                    self.engines[number].run(steps)
        self.lanes.seek(step + steps)

    def close(self) -> None:
        """End the worker processes; they also end with the pool."""
        if self._processes is not None:
            self._processes.close()
            self._processes = None

    def freeze(self, lanes: Collection[int]) -> None:
        """Stop taking steps of a part if all of its lanes are among these.

        Lanes of one part are one program. A frozen one keeps its place in it, so that the others
        keep their bits, and its numbers no longer matter.
        """
        for number, first in list(self._starts.items()):
            if all(first + lane in lanes for lane in range(len(self.engines[number].lanes.runs))):
                del self._starts[number]

    def rows(self) -> dict[int, Row]:
        """Return the mean of every term since the last `clear`, for every lane that took steps."""
        return {
            first + lane: row
            for number, first in self._starts.items()
            for lane, row in enumerate(self.engines[number].record.rows(self.lanes.step))
        }

    def failures(self) -> dict[int, Row]:
        """Return the step and the term that broke first, for every broken lane."""
        return {
            first + lane: failure
            for number, first in self._starts.items()
            for lane, failure in self.engines[number].record.failures().items()
        }

    def clear(self) -> None:
        """Start a new log row."""
        for engine in self.engines:
            engine.record.clear()


def plan_for(lanes: Lanes) -> Plan:
    """Choose the plan for lanes on this machine."""
    cores = torch.get_num_threads()
    if lanes.device.type != "cpu":
        return Plan(1, 1, cores)
    vectorise = can_vectorise(lanes.nets, lanes.device)
    forks = can_fork(lanes.dataset, lanes.device)

    def plan(work: int) -> Plan:
        return make_plan(len(lanes.runs), work, vectorise, cores, forks)

    least = plan(0)
    # The work does not matter to a single lane on a single core, say.
    return least if least == plan(sys.maxsize) else plan(count_operations(lanes))


@contextlib.contextmanager
def torch_threads(count: int) -> Iterator[None]:
    """Let torch use `count` threads in this block; then as many as before, in new threads too."""
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)
