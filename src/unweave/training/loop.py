"""The training loop: steps, log rows, measurements, checkpoints, and lanes that fail alone."""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import torch

from unweave import kernels
from unweave.core.files import write_json
from unweave.data import Dataset
from unweave.training import compile as compiler
from unweave.training.engine import Row
from unweave.training.flat_parameters import Tensors
from unweave.training.interrupt import Interrupt
from unweave.training.memory import reuse_memory
from unweave.training.precision import Precision, check_precision, matmul_precision
from unweave.training.progress import Progress, Silent
from unweave.training.resumption import (
    arithmetic,
    find_continuations,
    group_runs,
    label_notes,
    worth_compiling,
)
from unweave.training.run import Run
from unweave.training.state import model_weights
from unweave.training.step import Lanes
from unweave.training.store import RunFolder, Store, read_tensors, write_tensors
from unweave.training.workers import LanePool


class Monitor(Protocol):
    """Measures runs while they train, at steps of its choice, without changing their state."""

    def next_step(self, step: int) -> int:
        """Return the first step after this one at which to measure."""

    def measure(self, lanes: Lanes) -> Callable[[], list[Row]]:
        """Start to measure all lanes; return a function that waits for one row per lane."""


def pick_device(name: str) -> torch.device:
    """Return the device of a name; "auto" is the first CUDA device, or the CPU without one.

    >>> pick_device("cpu")
    device(type='cpu')
    """
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
        torch.empty(0, device=device).numpy(force=True)  # "meta" has no values
    except (RuntimeError, AssertionError, NotImplementedError):
        usable = "auto, cpu or cuda" if torch.cuda.is_available() else "auto or cpu"
        raise ValueError(f"device {name!r} cannot be used here; use {usable}") from None
    return device


def notes(
    runs: Sequence[Run],
    dataset: Dataset,
    store: Store | None = None,
    precision: Precision = "fp32",
    monitor: Monitor | None = None,
) -> list[str]:
    """Return what a user should know before `train` is called with the same arguments."""
    lines = [*dataset.notes, *(note for run in runs for note in run.notes)]
    if store:
        for run in runs:
            lines += label_notes(store.folder(run), dataset)
        continued = find_continuations(runs, dataset, store, precision, bool(monitor))
        for run in runs:
            if store.folder(run).states:  # resumes from its own
                continue
            if origin := continued.origins.get(run.digest):
                lines.append(f"continues run {origin.path.name} from step {max(origin.states):,}")
            elif refusal := continued.refusals.get(run.digest):
                lines.append(refusal)
    if dataset.device.type == "cuda":
        if why := kernels.unavailable_reason():
            lines.append(f"this GPU trains with torch's own layers, not our faster ones: {why}")
        elif worth_compiling(runs) and not compiler.available():
            lines.append(f"steps are not compiled, which is slower: torch {torch.__version__}")
    return list(dict.fromkeys(lines))


def log_interval(steps: int) -> int:
    """Return the steps between two log rows: about 200 rows per run, at most 200 steps apart.

    >>> log_interval(100), log_interval(300_000)
    (1, 200)
    """
    return max(1, min(200, steps // 200))


@dataclass
class Outcome:
    """The result of a run: its weights, log and measurements, or its failure.

    A run that was stopped by a deadline has neither weights nor a failure. One that was interrupted
    has the weights of its last step.
    """

    run: Run
    weights: Tensors | None
    log: list[Row]
    failure: Row | None
    measures: list[Row] = field(default_factory=list)


class TrainingInterrupted(KeyboardInterrupt):
    """Ctrl-C during training: what was trained is saved, and the outcomes so far are here."""

    def __init__(self, outcomes: list[Outcome]) -> None:
        self.outcomes = outcomes
        last = max((o.log[-1]["step"] for o in outcomes if o.log and not o.failure), default=0)
        super().__init__(f"training was interrupted at step {last:,} of {outcomes[0].run.steps:,}")


class LaneGroup:
    """Runs that train together, and the folders that keep them (None: in memory only).

    `origins` are the folders of shorter runs that they continue, if any.
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
        self.measures: dict[str, list[Row]] = {run.digest: [] for run in lanes.runs}
        self.outcomes: dict[str, Outcome] = {}
        self._pending: list[tuple[list[str], Callable[[], list[Row]]]] = []

    def train(self) -> None:
        """Resume from the newest checkpoint that all lanes have, train to the end, and save."""
        self._resume()
        self.progress.begin(self.lanes.runs, self.lanes.step)
        try:
            self._train_steps()
            self._finish()
        finally:
            self.pool.close()
            self.progress.end()

    def _resume(self) -> None:
        """Restore the newest checkpoint that all lanes have, in their own folder or their origin's.

        Checkpoints of a lane's own folder come first.
        """
        places = [
            {step: folder for folder in (origin, own) if folder for step in folder.states}
            for origin, own in zip(self.origins, self.folders, strict=True)
        ]
        common = set.intersection(*(set(steps) for steps in places))
        if not common:
            return
        step = max(common)
        folders = [steps[step] for steps in places]
        self.lanes.restore([read_tensors(folder.states[step])[0] for folder in folders], step)
        self.logs = [folder.read_log(until=step) for folder in folders]
        for run, folder in zip(self.lanes.runs, folders, strict=True):
            self.measures[run.digest] = folder.read_measures(until=step)

    def _train_steps(self) -> None:
        """Train to the last step, the deadline or Ctrl-C; save a checkpoint every few seconds."""
        lanes = self.lanes
        steps, interval = lanes.runs[0].steps, log_interval(lanes.runs[0].steps)
        saved = time.monotonic()
        while lanes.runs and lanes.step < steps and not self._stops():
            logged = min(steps, lanes.step + interval - lanes.step % interval)
            while lanes.step < logged:
                measured = self.monitor.next_step(lanes.step) if self.monitor else logged
                self.pool.run(min(logged, measured) - lanes.step)
                if lanes.step == logged:
                    self._log()
                if self.monitor and lanes.runs and lanes.step in (measured, steps):
                    self._measure(self.monitor)
            if lanes.runs and time.monotonic() - saved >= self.checkpoint_seconds:
                self._save()
                saved = time.monotonic()

    def _stops(self) -> bool:
        return self.interrupt.requested or time.monotonic() >= self.deadline

    def _log(self) -> None:
        """Add a row to every log, and drop the lanes that failed."""
        rows, failures = self.pool.rows(), self.pool.failures()
        self.pool.clear()
        for log, row in zip(self.logs, rows, strict=True):
            log.append(row)
        self._drop(failures)
        with self.interrupt.catch():
            self.progress.advance(self.lanes.step, rows)

    def _measure(self, monitor: Monitor) -> None:
        """Start to measure the lanes; failed ones were dropped before."""
        self._collect_measures()
        digests = [run.digest for run in self.lanes.runs]
        self._pending.append((digests, monitor.measure(self.lanes)))

    def _collect_measures(self) -> None:
        """Wait for the measurements that were started."""
        for digests, wait in self._pending:
            for digest, row in zip(digests, wait(), strict=True):
                self.measures[digest].append(row)
        self._pending = []

    def _drop(self, failures: dict[int, Row]) -> None:
        """Continue without the lanes that failed."""
        if not failures:
            return
        failed = [
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
        # Save the others first. If they resumed from before the failure, they would repeat those
        # steps in a smaller group, which need not give the same bits.
        self._save()
        for run, folder, log, failure in failed:
            self._record_failure(run, folder, log, failure)

    def _record_failure(
        self, run: Run, folder: RunFolder | None, log: list[Row], failure: Row
    ) -> None:
        """Record the failure of a run, and keep its last good checkpoint."""
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
        """Write a checkpoint of every lane; delete older ones when all lanes have the new one."""
        lanes = self.lanes
        self._collect_measures()
        if not lanes.runs:
            return
        failed = [lane for lane, good in enumerate(lanes.state.finite()) if not good]
        self._drop({lane: {"step": lanes.step - 1, "term": "gradient"} for lane in failed})
        facts = {
            "step": lanes.step,
            "lanes": [run.digest for run in lanes.runs],
            **arithmetic(lanes.runs, lanes.device, lanes.precision),
        }
        for lane, folder in enumerate(self.folders):
            if folder:
                folder.write_log(self.logs[lane])
                folder.write_measures(self.measures[lanes.runs[lane].digest])
                path = folder.path / f"state-{lanes.step}.safetensors"
                write_tensors(path, lanes.state.lane(lane), facts)
        for folder in self.folders:
            if folder:
                folder.drop_states(before=lanes.step)

    def _finish(self) -> None:
        """Save the state of all lanes, and then, if they are at the last step, their weights.

        The state stays beside the weights, so that a longer run can continue from it.
        """
        self._save()
        lanes = self.lanes
        for lane, (run, folder) in enumerate(zip(lanes.runs, self.folders, strict=True)):
            log, measures = self.logs[lane], self.measures[run.digest]
            finished = lanes.step == run.steps
            if not finished and not (self.interrupt.requested and lanes.step):
                self.outcomes[run.digest] = Outcome(run, None, log, None, measures)
                continue
            # In the memory layout in which files are read, so that both give the same bits.
            weights = {
                name: value.clone(memory_format=torch.contiguous_format)
                for name, value in model_weights(lanes.state.lane(lane)).items()
            }
            self.outcomes[run.digest] = Outcome(run, weights, log, None, measures)
            if folder and finished:
                write_tensors(folder.weights, weights, {"step": lanes.step})


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
    """Train runs on one dataset, side by side where possible, and resume unfinished ones.

    With a store, runs that are finished or have failed are not trained again, and a run continues
    one that differs only in having fewer steps, if that gives the same bits. If the GPU's memory
    does not hold the lanes of a group, its halves are trained one after the other. At the deadline
    (on the clock of `time.monotonic`) runs are saved and stop; call again to continue. So they do
    after Ctrl-C, which then raises `TrainingInterrupted` with the outcomes so far.
    """
    check_precision(precision)
    outcomes: dict[str, Outcome] = {}
    with contextlib.ExitStack() as locks, Interrupt() as interrupt:
        unfinished = _open_runs(runs, dataset, store, locks, outcomes)
        origins, _ = find_continuations(unfinished, dataset, store, precision, bool(monitor))
        waiting = group_runs(unfinished, store, origins)
        while waiting:
            group = waiting.pop(0)
            if interrupt.requested or time.monotonic() >= deadline:
                outcomes |= {run.digest: Outcome(run, None, [], None) for run in group}
                continue
            trained = _train_group(
                group,
                dataset,
                precision,
                folders=[store.folder(run) if store else None for run in group],
                origins=[origins.get(run.digest) for run in group],
                progress=progress or Silent(),
                interrupt=interrupt,
                checkpoint_seconds=checkpoint_seconds,
                monitor=monitor,
                deadline=deadline,
            )
            if trained is None:
                half = len(group) // 2
                waiting = [group[:half], group[half:], *waiting]
            else:
                outcomes |= trained
    found = [outcomes[run.digest] for run in runs]
    if interrupt.requested:
        raise TrainingInterrupted(found)
    return found


def _train_group(
    group: list[Run], dataset: Dataset, precision: Precision, **options: Any
) -> dict[str, Outcome] | None:
    """Train runs as lanes, with the options of `LaneGroup`; return None if memory is too small."""
    device = dataset.device
    try:
        with kernels.on(device), matmul_precision(precision), reuse_memory(device):
            lanes = Lanes(group, dataset, device, precision, worth_compiling(group))
            job = LaneGroup(lanes, **options)
            job.train()
        return job.outcomes
    except torch.OutOfMemoryError:
        if len(group) == 1:
            raise
    torch.cuda.empty_cache()
    return None


def _open_runs(
    runs: Sequence[Run],
    dataset: Dataset,
    store: Store | None,
    locks: contextlib.ExitStack,
    outcomes: dict[str, Outcome],
) -> list[Run]:
    """Lock the folders of runs; add finished runs to the outcomes, and return the others."""
    distinct = list({run.digest: run for run in runs}.values())
    if not store:
        return distinct
    unfinished = []
    for run in distinct:
        folder = store.folder(run)
        folder.create(run)
        folder.check_data(dataset, labels=bool(run.labels))
        locks.enter_context(folder.lock())
        if folder.status in ("finished", "failed"):
            outcomes[run.digest] = recall(folder, run)
        else:
            unfinished.append(run)
    return unfinished


def recall(folder: RunFolder, run: Run) -> Outcome:
    """Read the result of a run from its folder, with the newest weights there are."""
    if folder.weights.exists():
        weights, _ = read_tensors(folder.weights)
        return Outcome(run, weights, folder.read_log(), None, folder.read_measures())
    if not folder.states:
        log, measures = folder.read_log(), folder.read_measures()
        return Outcome(run, None, log, folder.failure, measures)
    tensors, facts = read_tensors(folder.states[max(folder.states)])
    log, measures = folder.read_log(facts["step"]), folder.read_measures(facts["step"])
    return Outcome(run, model_weights(tensors), log, folder.failure, measures)
