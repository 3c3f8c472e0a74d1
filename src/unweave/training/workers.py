"""Who takes the steps: on the CPU lanes are dealt over processes, each with lanes of its own."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterator
from typing import NamedTuple

import torch

from unweave.training.engine import Engine, Row
from unweave.training.lanes import Lanes, vectorises
from unweave.training.worker_processes import WorkerProcesses, can_fork

# Operations that a core does in the time that Python takes for a step, of a lane alone and of lanes
# that are mapped.
_ALONE, _MAPPED = 200_000_000, 500_000_000
_LEAST = 4  # lanes that are mapped in one part


class Plan(NamedTuple):
    """How lanes are dealt: in `parts`, taken by `workers`, each with threads for its products."""

    parts: int
    workers: int
    threads: int


def planned(lanes: int, work: int, mapped: bool, cores: int, forks: bool = True) -> Plan:
    """The plan for lanes of so many operations a step, which can be mapped or not.

    Where Python takes longer than the work, lanes are mapped, four or more in a part. Else each is
    a part of its own. There are as many workers as parts and cores allow, and the cores are shared
    out among them; where processes cannot be forked, this one takes all steps. The plan is a
    function of sizes alone, so that the same command gives the same bits.

    >>> planned(16, 4_000_000, True, cores=8), planned(16, 800_000_000, True, cores=8)
    (Plan(parts=4, workers=4, threads=1), Plan(parts=16, workers=8, threads=1))
    """
    if mapped and work < _ALONE:
        parts = max(1, min(cores, lanes // _LEAST)) if forks else 1
    else:
        parts = lanes
    workers = min(cores, parts) if forks else 1
    return Plan(parts, workers, min(cores // workers, 1 + work * lanes // parts // _MAPPED))


class LanePool:
    """Engines that share the lanes, and what their records say together.

    On CUDA one engine has all lanes. On the CPU an operation of a small network is too short to be
    split among cores: they would wait for each other at the end of every one. Lanes never wait for
    each other, so each core takes steps of lanes of its own, and they meet when a row of the log is
    due. They do so in processes (`hands.py`), since Python works for one thread of a process at a
    time. How many cores there are is what torch says (`torch.set_num_threads`).
    """

    def __init__(self, lanes: Lanes, plan: Plan | None = None) -> None:
        self.lanes = lanes
        self.plan = plan or _plan(lanes)
        count, parts = len(lanes.runs), self.plan.parts
        cuts = [part * count // parts for part in range(parts + 1)]
        shares = [lanes.part(*ends) for ends in itertools.pairwise(cuts)] if parts > 1 else [lanes]
        self.engines = [Engine(share) for share in shares]
        self._hands: WorkerProcesses | None = None

    def run(self, steps: int) -> None:
        """Take steps of all lanes, and add their terms to the records."""
        step = self.lanes.step
        if self.plan.workers > 1:
            if self._hands is None:
                self._hands = WorkerProcesses(self.engines, self.plan.workers, self.plan.threads)
            self._hands.run(step, steps)
        else:
            with torch_threads(self.plan.threads):
                for engine in self.engines:
                    engine.lanes.seek(step)
                    engine.run(steps)
        self.lanes.seek(step + steps)

    def close(self) -> None:
        """Let go of the processes, which are also let go of with the pool."""
        if self._hands is not None:
            self._hands.close()
            self._hands = None

    def rows(self) -> list[Row]:
        """The mean of every term in each lane since the last row of the log."""
        step = self.lanes.step
        return [row for engine in self.engines for row in engine.record.rows(step)]

    def failures(self) -> dict[int, Row]:
        """For every broken lane, the step and the term that broke first."""
        found: dict[int, Row] = {}
        first = 0
        for engine in self.engines:
            broken = engine.record.failures()
            found |= {first + lane: failure for lane, failure in broken.items()}
            first += len(engine.lanes.runs)
        return found

    def clear(self) -> None:
        """Begin a new row."""
        for engine in self.engines:
            engine.record.clear()


def _plan(lanes: Lanes) -> Plan:
    cores = torch.get_num_threads()
    if lanes.device.type != "cpu":
        return Plan(1, 1, cores)
    mapped, forks = vectorises(lanes.nets, lanes.device), can_fork(lanes.dataset, lanes.device)
    return planned(len(lanes.runs), lanes.operations(), mapped, cores, forks)


@contextlib.contextmanager
def torch_threads(count: int) -> Iterator[None]:
    """Inside, torch has so many threads; after it, as many as before, for new threads too."""
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)
