"""The loop: players x lanes, with checkpoints, a log, and lanes that may break alone."""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import torch

from unweave import kernels
from unweave.data import Dataset
from unweave.training import compile as compiled
from unweave.training.engine import Row
from unweave.training.flat_parameters import Tensors
from unweave.training.lanes import Lanes, trained
from unweave.training.memory import memory_kept
from unweave.training.precision import Precision, checked, products
from unweave.training.run import Run
from unweave.training.store import (
    RunFolder,
    Store,
    read_facts,
    read_tensors,
    write_json,
    write_tensors,
)
from unweave.training.workers import LanePool

_WORTH_COMPILING = 10_000  # steps, in which the seconds that it takes are won back


class Progress(Protocol):
    """What the loop tells the outside while it works."""

    def begin(self, runs: Sequence[Run], step: int) -> None:
        """A group of runs starts, or goes on at a step."""

    def advance(self, step: int, rows: Sequence[Row]) -> None:
        """A stretch of steps is done; one row of the log a lane."""

    def broke(self, run: Run, failure: Row) -> None:
        """A lane stopped because a term is not finite."""

    def end(self) -> None:
        """The group is done."""


class Silent:
    """Progress that nobody reads."""

    def begin(self, runs: Sequence[Run], step: int) -> None:
        """Say nothing."""

    def advance(self, step: int, rows: Sequence[Row]) -> None:
        """Say nothing."""

    def broke(self, run: Run, failure: Row) -> None:
        """Say nothing."""

    def end(self) -> None:
        """Say nothing."""


class Monitor(Protocol):
    """Measures runs while they train, at steps of its choice, and leaves their state alone."""

    def next_step(self, step: int) -> int:
        """The first step after this one at which to measure."""

    def measure(self, lanes: Lanes) -> Callable[[], list[Row]]:
        """Begin to measure all lanes; the result waits for the rows, one for each lane."""


def pick_device(name: str) -> torch.device:
    """The device of a name; "auto" is the first CUDA device, else the CPU.

    >>> pick_device("cpu")
    device(type='cpu')
    """
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError):
        found = "auto, cpu or cuda" if torch.cuda.is_available() else "auto or cpu"
        raise ValueError(f"device {name!r} cannot be used here; use {found}") from None
    return device


def notes(runs: Sequence[Run], dataset: Dataset) -> list[str]:
    """What to know before training: of the data, of the runs, and of the device."""
    found = [*dataset.notes, *(note for run in runs for note in run.notes)]
    if dataset.device.type == "cuda":
        if why := kernels.reason():
            found.append(f"on this GPU torch's own layers train, not our faster ones: {why}")
        elif _compiles(runs) and not compiled.available():
            found.append(f"steps are not compiled, which is slower: torch {torch.__version__}")
    return list(dict.fromkeys(found))


def _compiles(runs: Sequence[Run]) -> bool:
    """Whether runs are long enough for compiling their steps."""
    return any(run.steps >= _WORTH_COMPILING for run in runs)


def log_interval(steps: int) -> int:
    """Steps between two rows of the log: about 200 rows a run, at most 200 steps each.

    >>> log_interval(100), log_interval(300_000)
    (1, 200)
    """
    return max(1, min(200, steps // 200))


@dataclass
class Outcome:
    """The result of a run: its weights, log and measurements, or its failure.

    A run that was stopped by a deadline has neither weights nor a failure.
    """

    run: Run
    weights: Tensors | None
    log: list[Row]
    failure: Row | None
    measures: list[Row] = field(default_factory=list)


class Group:
    """Runs that train together, with the folders they are kept in (none: only in memory)."""

    def __init__(
        self,
        lanes: Lanes,
        folders: list[RunFolder | None],
        progress: Progress,
        checkpoint_seconds: float,
        monitor: Monitor | None = None,
        deadline: float = math.inf,
    ) -> None:
        self.lanes, self.folders, self.progress = lanes, folders, progress
        self.checkpoint_seconds, self.monitor, self.deadline = checkpoint_seconds, monitor, deadline
        self.pool = LanePool(lanes)
        self.logs: list[list[Row]] = [[] for _ in folders]
        self.measures: dict[str, list[Row]] = {run.digest: [] for run in lanes.runs}
        self.outcomes: dict[str, Outcome] = {}
        self._pending: list[tuple[list[str], Callable[[], list[Row]]]] = []

    def train(self) -> None:
        """Resume from the newest checkpoint that all lanes have, train to the end, and save."""
        self._resume()
        self.progress.begin(self.lanes.runs, self.lanes.step)
        try:
            self._advance()
            self._finish()
        finally:
            self.pool.close()
            self.progress.end()

    def _advance(self) -> None:
        """Train to the last step or the deadline; save a checkpoint every so many seconds."""
        lanes = self.lanes
        steps, interval = lanes.runs[0].steps, log_interval(lanes.runs[0].steps)
        saved = time.monotonic()
        while lanes.runs and lanes.step < steps and time.monotonic() < self.deadline:
            logged = min(steps, lanes.step + interval - lanes.step % interval)
            while lanes.step < logged:
                measured = self.monitor.next_step(lanes.step) if self.monitor else logged
                self.pool.run(min(logged, measured) - lanes.step)
                if lanes.step == logged:
                    self._report()
                if self.monitor and lanes.runs and lanes.step in (measured, steps):
                    self._measure(self.monitor)
            if lanes.runs and time.monotonic() - saved >= self.checkpoint_seconds:
                self._save()
                saved = time.monotonic()

    def _measure(self, monitor: Monitor) -> None:
        """Begin to measure the lanes; those that broke were dropped before."""
        self._collect()
        digests = [run.digest for run in self.lanes.runs]
        self._pending.append((digests, monitor.measure(self.lanes)))

    def _collect(self) -> None:
        """Wait for the measurements under way."""
        for digests, wait in self._pending:
            for digest, row in zip(digests, wait(), strict=True):
                self.measures[digest].append(row)
        self._pending = []

    def _resume(self) -> None:
        kept = [set(folder.states) if folder else set() for folder in self.folders]
        common = set.intersection(*kept)
        if not common:
            return
        step = max(common)
        states = [read_tensors(folder.states[step])[0] for folder in self.folders if folder]
        self.lanes.restore(states, step)
        self.logs = [folder.read_log(until=step) for folder in self.folders if folder]
        for run, folder in zip(self.lanes.runs, self.folders, strict=True):
            if folder:
                self.measures[run.digest] = folder.read_measures(until=step)

    def _report(self) -> None:
        """Write the log's rows, and part with the lanes that broke."""
        rows, failures = self.pool.rows(), self.pool.failures()
        self.pool.clear()
        for log, row in zip(self.logs, rows, strict=True):
            log.append(row)
        self._drop(failures)
        self.progress.advance(self.lanes.step, rows)

    def _drop(self, failures: dict[int, Row]) -> None:
        if not failures:
            return
        broken = [
            (self.lanes.runs[lane], self.folders[lane], self.logs[lane], failure)
            for lane, failure in failures.items()
        ]
        kept = [lane for lane in range(len(self.folders)) if lane not in failures]
        self.folders = [self.folders[lane] for lane in kept]
        self.logs = [self.logs[lane] for lane in kept]
        self.pool.close()
        self.lanes.keep(kept)
        if kept:
            self.pool = LanePool(self.lanes)
        # The others' checkpoint comes first: resumed from before the break, they would do those
        # steps in a smaller group, and that need not give the same bits.
        self._save()
        for run, folder, log, failure in broken:
            self._bury(run, folder, log, failure)

    def _bury(self, run: Run, folder: RunFolder | None, log: list[Row], failure: Row) -> None:
        """Put down where a run broke; its last good checkpoint stays."""
        failure["checkpoint"] = max(folder.states, default=None) if folder else None
        rows = [row for row in log if row["step"] <= failure["step"]]
        measures = [row for row in self.measures[run.digest] if row["step"] <= failure["step"]]
        self.outcomes[run.digest] = Outcome(run, None, rows, failure, measures)
        if folder:
            folder.write_log(rows)
            folder.write_measures(measures)
            write_json(folder.path / "failed.json", failure)
        self.progress.broke(run, failure)

    def _save(self) -> None:
        """A checkpoint of every lane; older ones go only when all lanes have the new one."""
        lanes = self.lanes
        self._collect()
        if not lanes.runs:
            return
        broken = [lane for lane, good in enumerate(lanes.finite()) if not good]
        self._drop({lane: {"step": lanes.step - 1, "term": "gradient"} for lane in broken})
        facts = {"step": lanes.step, "lanes": [run.digest for run in lanes.runs]}
        for lane, folder in enumerate(self.folders):
            if folder:
                folder.write_log(self.logs[lane])
                folder.write_measures(self.measures[lanes.runs[lane].digest])
                path = folder.path / f"state-{lanes.step}.safetensors"
                write_tensors(path, lanes.state(lane), facts)
        for folder in self.folders:
            if folder:
                folder.drop_states(before=lanes.step)

    def _finish(self) -> None:
        """Save the state of all lanes, and then, if they are at the last step, their weights."""
        self._save()
        lanes = self.lanes
        for lane, (run, folder) in enumerate(zip(lanes.runs, self.folders, strict=True)):
            log, measures = self.logs[lane], self.measures[run.digest]
            if lanes.step < run.steps:
                self.outcomes[run.digest] = Outcome(run, None, log, None, measures)
                continue
            # Laid out as they will be read back, so that both give the same bits.
            weights = {
                name: value.clone(memory_format=torch.contiguous_format)
                for name, value in trained(lanes.state(lane)).items()
            }
            self.outcomes[run.digest] = Outcome(run, weights, log, None, measures)
            if folder:
                write_tensors(folder.weights, weights, {"step": lanes.step})
                folder.drop_states(before=lanes.step + 1)


def train(
    runs: Sequence[Run],
    dataset: Dataset,
    store: Store | None = None,
    progress: Progress | None = None,
    checkpoint_seconds: float = 30.0,
    precision: Precision = "fp32",
    monitor: Monitor | None = None,
    deadline: float = math.inf,
) -> list[Outcome]:
    """Train runs over one dataset, those that can together in lanes; resume what is under way.

    With a store, runs that are finished or have failed are not trained again. Where the memory of a
    GPU does not hold the lanes of a group, its halves are trained one after the other. At the
    deadline, on the clock of `time.monotonic`, runs are saved and stop; call again to go on.
    """
    outcomes: dict[str, Outcome] = {}
    checked(precision)
    with contextlib.ExitStack() as locks:
        waiting = list(_groups(runs, dataset, store, locks, outcomes))
        while waiting:
            group = waiting.pop(0)
            if time.monotonic() >= deadline:
                outcomes |= {run.digest: Outcome(run, None, [], None) for run in group}
                continue
            folders = [store.folder(run) if store else None for run in group]
            found = _together(
                group,
                dataset,
                precision,
                folders=folders,
                progress=progress or Silent(),
                checkpoint_seconds=checkpoint_seconds,
                monitor=monitor,
                deadline=deadline,
            )
            if found is None:
                half = len(group) // 2
                waiting = [group[:half], group[half:], *waiting]
            else:
                outcomes |= found
    return [outcomes[run.digest] for run in runs]


def _together(
    group: list[Run], dataset: Dataset, precision: Precision, **options: Any
) -> dict[str, Outcome] | None:
    """Train runs as lanes; None if the device has too little memory for them.

    The options are those of `Group`.
    """
    try:
        with kernels.on(dataset.device), products(precision), memory_kept(dataset.device):
            lanes = Lanes(group, dataset, dataset.device, precision, _compiles(group))
            job = Group(lanes, **options)
            job.train()
        return job.outcomes
    except torch.OutOfMemoryError:
        if len(group) == 1:
            raise
    torch.cuda.empty_cache()
    return None


def _groups(
    runs: Sequence[Run],
    dataset: Dataset,
    store: Store | None,
    locks: contextlib.ExitStack,
    outcomes: dict[str, Outcome],
) -> Iterator[list[Run]]:
    """The runs still to train, those that can together.

    Lanes have the same structure. Those that have checkpoints stay with the lanes that they were
    saved with, so that they go on with the same bits; beside new runs they would begin anew.
    """
    open_runs: dict[str, list[Run]] = {}
    for run in {run.digest: run for run in runs}.values():
        if store:
            folder = store.folder(run)
            folder.create(run)
            folder.check_data(dataset.fingerprint)
            locks.enter_context(folder.lock())
            if folder.status in ("finished", "failed"):
                outcomes[run.digest] = recall(folder, run)
                continue
        open_runs.setdefault(run.lane_key, []).append(run)
    for alike in open_runs.values():
        yield from _saved_together(alike, store) if store else [alike]


def _saved_together(runs: Sequence[Run], store: Store) -> list[list[Run]]:
    """Runs of one structure by the groups that their checkpoints name; new ones are one group.

    A run whose group was stopped during its first checkpoint may have none itself.
    """
    saved: dict[str, frozenset[str]] = {}  # the lanes that a run was saved with
    for run in runs:
        if states := store.folder(run).states:
            saved[run.digest] = frozenset(read_facts(states[max(states)])["lanes"])
    named = {digest: together for together in saved.values() for digest in together} | saved
    groups: dict[frozenset[str], list[Run]] = {}
    for run in runs:
        groups.setdefault(named.get(run.digest, frozenset()), []).append(run)
    return list(groups.values())


def recall(folder: RunFolder, run: Run) -> Outcome:
    """The result of a run from its folder, with the newest weights there are."""
    if folder.weights.exists():
        weights, _ = read_tensors(folder.weights)
        return Outcome(run, weights, folder.read_log(), None, folder.read_measures())
    if not folder.states:
        log, measures = folder.read_log(), folder.read_measures()
        return Outcome(run, None, log, folder.failure, measures)
    tensors, facts = read_tensors(folder.states[max(folder.states)])
    log, measures = folder.read_log(facts["step"]), folder.read_measures(facts["step"])
    return Outcome(run, trained(tensors), log, folder.failure, measures)
