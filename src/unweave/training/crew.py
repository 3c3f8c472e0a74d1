"""Who takes the steps: on the CPU lanes are dealt over threads, each with lanes of its own."""

from __future__ import annotations

import contextlib
import itertools
import threading
from collections import deque
from collections.abc import Iterator
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from typing import NamedTuple

import torch

from unweave.training.engine import Engine, Row
from unweave.training.lanes import Lanes, vectorises

# Operations that a core does in the time that Python takes for a step, of a lane alone and of lanes
# that are mapped. Python works for one thread at a time.
_ALONE, _MAPPED = 200_000_000, 500_000_000


class Plan(NamedTuple):
    """How lanes are dealt: into `parts`, taken by `workers`, each with threads for its products."""

    parts: int
    workers: int
    threads: int


def planned(lanes: int, work: int, mapped: bool, cores: int) -> Plan:
    """The plan for lanes of so many operations a step, which can be mapped or not.

    Where Python takes longer than the work, lanes are mapped, all together or in as many parts as
    have enough to do. Else each is a part of its own, and workers are as many as Python can serve.
    The plan is a function of sizes alone, so that the same command gives the same bits.

    >>> planned(16, 4_000_000, True, cores=8), planned(16, 800_000_000, True, cores=8)
    (Plan(parts=1, workers=1, threads=1), Plan(parts=16, workers=5, threads=1))
    """
    if mapped and work < _ALONE:
        parts = workers = max(1, min(cores, lanes * work // _MAPPED))
    else:
        parts, workers = lanes, min(cores, lanes, 1 + work // _ALONE)
    each = work * lanes // parts
    return Plan(parts, workers, min(cores // workers, 1 + each // _MAPPED))


class Crew:
    """Engines that share the lanes, and what their records say together.

    On CUDA one engine has all lanes. On the CPU an operation of a small network is too short to be
    split among cores: they would wait for each other at the end of every one. Lanes never wait for
    each other, so each core takes steps of lanes of its own, and they meet when a row of the log is
    due. How many threads there are is what torch says (`torch.set_num_threads`).
    """

    def __init__(self, lanes: Lanes, plan: Plan | None = None) -> None:
        self.lanes = lanes
        self.plan = plan or _plan(lanes)
        count, parts = len(lanes.runs), self.plan.parts
        cuts = [part * count // parts for part in range(parts + 1)]
        shares = [lanes.part(*ends) for ends in itertools.pairwise(cuts)] if parts > 1 else [lanes]
        self.engines = [Engine(share) for share in shares]

    def run(self, steps: int) -> None:
        """Take steps of all lanes, and add their terms to the records."""
        step = self.lanes.step
        for engine in self.engines:
            engine.lanes.seek(step)
        with _threads(self.plan.threads):
            if self.plan.workers == 1:
                for engine in self.engines:
                    engine.run(steps)
            else:
                _share_out(self.engines, steps, self.plan)
        self.lanes.seek(step + steps)

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
    mapped = vectorises(lanes.nets, lanes.device)
    return planned(len(lanes.runs), lanes.operations(), mapped, cores)


def _share_out(engines: list[Engine], steps: int, plan: Plan) -> None:
    """Have workers take the steps of engines; what one of them raises stops all, and is raised."""
    waiting = deque((engine, steps) for engine in engines)
    stop = threading.Event()
    with ThreadPoolExecutor(
        plan.workers, "lanes", initializer=torch.set_num_threads, initargs=(plan.threads,)
    ) as pool:
        futures = [pool.submit(_take_turns, waiting, stop) for _ in range(plan.workers)]
        try:
            done, _ = wait(futures, return_when=FIRST_EXCEPTION)
        finally:
            stop.set()
    for future in done:
        future.result()


def _take_turns(waiting: deque[tuple[Engine, int]], stop: threading.Event) -> None:
    """Take a step of the engine that has waited longest, until none waits."""
    while not stop.is_set():
        try:
            engine, left = waiting.popleft()
        except IndexError:
            return
        engine.run(1)
        if left > 1:
            waiting.append((engine, left - 1))


@contextlib.contextmanager
def _threads(count: int) -> Iterator[None]:
    """Inside, torch has so many threads; after it, as many as before, for new threads too."""
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)
