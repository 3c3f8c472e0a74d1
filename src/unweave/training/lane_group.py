"""Runs that train together: steps, log rows, measurements, checkpoints, and lanes that fail."""

import math
from collections.abc import Callable
from functools import partial
from typing import Protocol

import torch

from unweave.core.files import sync_once
from unweave.core.pace import CheckpointPace
from unweave.training import log_rows
from unweave.training.flat_parameters import Tensors
from unweave.training.interrupt import Interrupt
from unweave.training.outcome import Outcome, StoredOutcome
from unweave.training.progress import Progress
from unweave.training.records import Row
from unweave.training.resumption import arithmetic
from unweave.training.state import model_weights
from unweave.training.step import Lanes
from unweave.training.store import RunFolder
from unweave.training.workers import LanePool


class Monitor(Protocol):
    """Measures runs while they train, at steps of its choice, without changing their state."""

    def next_step(self, step: int) -> int:
        """Return the first step after this one at which to measure."""

    def measure(self, lanes: Lanes) -> Callable[[], list[Row]]:
        """Start to measure all lanes; return a function that waits for one row per lane."""


class LaneGroup:
    """Runs that train together, and the folders that keep them (None: in memory only).

    A lane that fails keeps its place until the end, so that the program and the bits of the other
    lanes stay the same. `origins` are the folders of shorter runs that they continue, if any.
    """

    def __init__(
        self,
        lanes: Lanes,
        folders: list[RunFolder | None],
        origins: list[RunFolder | None],
        progress: Progress,
        interrupt: Interrupt,
        checkpoint_seconds: float,
        monitor: Monitor | None = None,
        deadline: float = math.inf,
    ) -> None:
        self.lanes, self.folders, self.origins, self.progress = lanes, folders, origins, progress
        self.interrupt = interrupt
        self.checkpoint_seconds, self.monitor, self.deadline = checkpoint_seconds, monitor, deadline
        self.pool = LanePool(lanes)
        self.logs: list[list[Row]] = [[] for _ in folders]
        self.measures: list[list[Row]] = [[] for _ in folders]
        self.failures: dict[int, Row] = {}  # by lane
        self.outcomes: dict[str, Outcome] = {}
        self._pending: list[Callable[[], list[Row]]] = []
        self._saved: int | None = None  # the step of the newest checkpoint

    def train(self) -> None:
        """Resume from the newest checkpoint that all lanes have, train to the end, and save."""
        self._recall_failures()
        self._resume()
        self._follow_first()
        self.progress.begin(self.lanes.runs, self.lanes.step)
        try:
            self._train_steps()
            self._finish()
        finally:
            self.pool.close()
            self.progress.end()

    def _resume(self) -> None:
        """Restore the newest checkpoint that all lanes have, in their own folder or their origin's.

        Checkpoints of a lane's own folder come first. Lanes that have failed start anywhere.
        """
        places = {
            lane: {step: folder for folder in self._places(lane) for step in folder.states}
            for lane in self._healthy
        }
        common = set.intersection(*map(set, places.values())) if places else set()
        if not common:
            return
        step = self._saved = max(common)
        saved = [self.lanes.state.lane(lane) for lane in range(len(self.folders))]
        for lane, folders in places.items():
            saved[lane] = folders[step].read_state(step)
            self.logs[lane] = folders[step].read_log_to_checkpoint(step)
            self.measures[lane] = folders[step].read_measures_to_checkpoint(step)
        self.lanes.restore(saved, step)

    def _follow_first(self) -> None:
        """Start where the first of several processes does, which has read the checkpoint."""
        processes, state = self.lanes.processes, self.lanes.state
        processes.copy_from_first(v for values in state.tensors.values() for v in values.values())
        state.refresh()
        step, self.failures = processes.from_first((self.lanes.step, self.failures))
        self.lanes.seek(step)
        self.pool.freeze(self.failures)

    def _recall_failures(self) -> None:
        """Read which lanes have failed before, or as the shorter run that they continue."""
        for lane in range(len(self.folders)):
            for folder in self._places(lane):
                if failure := folder.failure:
                    self.failures[lane] = failure
                    self.logs[lane], self.measures[lane] = folder.read_log(), folder.read_measures()
        self.pool.freeze(self.failures)

    def _places(self, lane: int) -> list[RunFolder]:
        return [folder for folder in (self.origins[lane], self.folders[lane]) if folder]

    @property
    def _healthy(self) -> list[int]:
        return [lane for lane in range(len(self.folders)) if lane not in self.failures]

    def _train_steps(self) -> None:
        """Train to the last step, the deadline or Ctrl-C; save checkpoints on the way."""
        lanes = self.lanes
        steps, interval = lanes.runs[0].steps, log_rows.log_interval(lanes.runs[0].steps)
        pace = CheckpointPace(self.checkpoint_seconds)
        while self._healthy and lanes.step < steps:
            if self.interrupt.is_due(self.deadline, lanes.processes):
                break
            logged = min(steps, lanes.step + interval - lanes.step % interval)
            while lanes.step < logged:
                measured = self.monitor.next_step(lanes.step) if self.monitor else logged
                self.pool.run(min(logged, measured) - lanes.step)
                if lanes.step == logged:
                    self._log()
                if self.monitor and self._healthy and lanes.step in (measured, steps):
                    self._collect_measures()
                    self._pending.append(self.monitor.measure(lanes))
            if pace.is_due:
                with pace.saving():
                    self._save()

    def _log(self) -> None:
        """Add a row to the log of every healthy lane, and look for lanes that have failed since."""
        rows = self.pool.rows()
        shown = {lane: rows[lane] for lane in self._healthy}
        for lane, row in shown.items():
            self.logs[lane].append(row)
        self._find_failures()
        self.pool.clear()
        with self.interrupt.catch():
            self.progress.advance(self.lanes.step, list(shown.values()))

    def _find_failures(self) -> None:
        """Freeze the lanes in which a term or a number of the state is not finite.

        Every row of the log does this and nothing else does: a failure is the same whenever
        checkpoints are written, and what is in a checkpoint is finite.
        """
        failures = self.pool.failures()
        for lane, finite in enumerate(self.lanes.state.finite()):
            if not finite:
                failures.setdefault(lane, {"step": self.lanes.step - 1, "term": log_rows.GRADIENT})
        failures = self.lanes.processes.from_first(failures)
        for lane in sorted(failures.keys() - self.failures.keys()):
            self.failures[lane] = failures[lane]
            self.progress.broke(self.lanes.runs[lane], failures[lane])
        self.pool.freeze(self.failures)

    def _collect_measures(self) -> None:
        """Wait for the measurements that were started."""
        for wait in self._pending:
            for rows, row in zip(self.measures, wait(), strict=True):
                rows.append(row)
        self._pending = []

    def _results(self, lane: int) -> tuple[list[Row], list[Row]]:
        """Return the log and the measurements of a lane, up to its failure if it has failed."""
        end = self.failures[lane]["step"] if lane in self.failures else self.lanes.step
        log, measures = (
            [row for row in rows if row["step"] <= end]
            for rows in (self.logs[lane], self.measures[lane])
        )
        return log, measures

    def _save(self) -> None:
        """Write a checkpoint of every healthy lane, if there is none, and delete older ones."""
        self._collect_measures()
        if self.lanes.step != self._saved:
            self._write_checkpoint()
        for lane in self._healthy:
            if folder := self.folders[lane]:
                folder.drop_states(before=self.lanes.step)

    def _write_checkpoint(self) -> None:
        """Write the logs, then the states of healthy lanes, then the failures of the others.

        Each is on the disk before the next, so that a power failure never leaves a state without
        its log. A failure is written when all healthy lanes have a state that names the lanes of
        the group, and older states are deleted after that. So whenever this is stopped, the failed
        lane either keeps its place when the group resumes, or fails again.
        """
        lanes = self.lanes
        facts = {
            "lanes": [run.digest for run in lanes.runs],
            **arithmetic(lanes.runs, lanes.device, lanes.precision, lanes.processes),
        }
        stored = [(lane, f) for lane, f in enumerate(self.folders) if f and not f.failure]
        with sync_once():
            for lane, folder in stored:
                log, measures = self._results(lane)
                folder.write_log(log)
                folder.write_measures(measures)
        with sync_once():
            for lane, folder in stored:
                if lane not in self.failures:
                    measured = {"measured": len(self._results(lane)[1])}
                    folder.write_state(lanes.step, lanes.state.lane(lane), facts | measured)
        with sync_once():
            for lane, folder in stored:
                if lane in self.failures:
                    folder.write_failure(self.failures[lane])
        self._saved = lanes.step

    def _finish(self) -> None:
        """Save the state of all lanes, and then, if they are at the last step, their weights.

        The state stays beside the weights, so that a longer run can continue from it. If this was
        stopped before, lanes that have their weights are missing here, and states that were saved
        with all lanes stay.
        """
        self._save()
        for lane, (run, folder) in enumerate(zip(self.lanes.runs, self.folders, strict=True)):
            finished = self.lanes.step == run.steps
            weights = None
            if lane not in self.failures and (finished or self.interrupt.requested):
                weights = self._weights(lane)
            if folder and weights and finished:
                folder.write_weights(weights, self.lanes.step)
                self.outcomes[run.digest] = StoredOutcome(folder, run)
            else:
                log, measures = self._results(lane)
                failure = self.failures.get(lane)
                self.outcomes[run.digest] = Outcome(run, weights, log, failure, measures)

    def _weights(self, lane: int) -> Tensors | None:
        """Copy the weights of a lane; None before the first step.

        They have the memory layout in which files are read, so that both give the same bits.
        """
        weights = model_weights(self.lanes.state.lane(lane))
        copy = partial(torch.clone, memory_format=torch.contiguous_format)
        return {name: copy(value) for name, value in weights.items()} if self.lanes.step else None
