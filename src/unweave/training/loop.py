"""Train runs: read their stored state, group them into lanes, and train the groups."""

import contextlib
import math
from collections.abc import Sequence
from typing import Any

import torch

from unweave import kernels
from unweave.data import Dataset
from unweave.training import compile as compiler
from unweave.training.interrupt import Interrupt
from unweave.training.lane_group import LaneGroup, Monitor
from unweave.training.leases import own_leases
from unweave.training.memory import device_memory, reuse_memory
from unweave.training.outcome import Outcome, StoredOutcome
from unweave.training.precision import Precision, check_precision, matmul_precision
from unweave.training.processes import ALONE, Processes
from unweave.training.progress import Progress, RecordedProgress, Silent
from unweave.training.resumption import (
    code_notes,
    continuation_note,
    find_continuations,
    group_runs,
    label_notes,
    worth_compiling,
)
from unweave.training.run import Run
from unweave.training.step import Lanes
from unweave.training.store import Store
from unweave.training.worker_processes import can_fork


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
    processes: Processes = ALONE,
) -> list[str]:
    """Return what a user should know before `train` is called with the same arguments."""
    lines = [*dataset.notes, *(note for run in runs for note in run.notes)]
    if processes.several and len(runs) > 1:
        lines.append(
            f"note: {len(runs)} runs train one after the other, each in all {processes.size} "
            "processes of torchrun; small runs train faster side by side, without torchrun"
        )
    if store:
        for run in runs:
            lines += label_notes(store.folder(run), dataset)
        lines += code_notes(runs, store)
        given = dataset, store, precision, bool(monitor)
        continued = find_continuations(runs, *given, processes=processes)
        for run in runs:
            if store.folder(run).states:  # resumes from its own
                continue
            if origin := continued.origins.get(run.digest):
                lines.append(continuation_note(origin))
            elif refusal := continued.refusals.get(run.digest):
                lines.append(refusal)
    distinct = {run.digest: run for run in runs}.values()
    waiting = [run for run in distinct if not (store and store.folder(run).weights.exists())]
    if not waiting:
        some = "the run is" if len(distinct) == 1 else f"all {len(distinct):,} runs are"
        lines.append(f"{some} already finished; nothing is trained")
    for group in [] if processes.several else group_runs(waiting, None, {}):
        if len(parts := fitting_parts(group, dataset)) > 1:
            lines.append(
                f"{len(group)} runs do not fit into memory side by side, and are trained in "
                f"{len(parts)} groups"
            )
    if dataset.device.type == "cuda":
        if why := kernels.unavailable_reason():
            lines.append(f"this GPU trains with torch's own layers, not our faster ones: {why}")
        elif worth_compiling(runs) and not compiler.available() and not processes.several:
            lines.append(f"steps are not compiled, which is slower: torch {torch.__version__}")
    return list(dict.fromkeys(lines))


class TrainingInterrupted(KeyboardInterrupt):
    """Ctrl-C or SIGTERM during training: what was trained is saved, and the outcomes are here.

    `terminated` says that it was SIGTERM.
    """

    def __init__(self, outcomes: list[Outcome], terminated: bool = False) -> None:
        self.outcomes, self.terminated = outcomes, terminated
        ends = [outcome.log_end for outcome in outcomes if not outcome.failure]
        last = max((rows[-1]["step"] for rows in ends if rows), default=0)
        super().__init__(f"training was interrupted at step {last:,} of {outcomes[0].run.steps:,}")


def train(
    runs: Sequence[Run],
    dataset: Dataset,
    store: Store | None = None,
    progress: Progress | None = None,
    checkpoint_seconds: float = 30.0,
    precision: Precision = "fp32",
    monitor: Monitor | None = None,
    deadline: float = math.inf,
    processes: Processes = ALONE,
) -> list[Outcome]:
    """Train runs on one dataset, side by side where possible, and resume unfinished ones.

    With a store, runs that are finished or have failed are not trained again, and a run continues
    one that differs only in having fewer steps, if that gives the same bits. If memory does not
    hold the lanes of a group, its halves are trained one after the other. At the deadline
    (on the clock of `time.monotonic`) runs are saved and stop; call again to continue. So they do
    after Ctrl-C or SIGTERM, which then raises `TrainingInterrupted` with the outcomes so far.

    If several processes call this, they train each run together, one run after the other. The store
    and the monitor of all but the first are not used.
    """
    check_precision(precision)
    processes.check(runs)
    if not processes.is_first:
        store = monitor = None
    outcomes: dict[str, Outcome] = {}
    progress = progress or Silent()
    with contextlib.ExitStack() as locks, Interrupt() as interrupt:
        if store:
            worker = locks.enter_context(own_leases().working(store.root))
            progress = RecordedProgress(progress, worker, str(dataset.device))
        unfinished = _open_runs(runs, dataset, store, locks, outcomes)
        origins, _ = find_continuations(
            unfinished, dataset, store, precision, bool(monitor), processes=processes
        )
        if processes.several:
            waiting = _one_by_one(unfinished, outcomes, processes)
        else:
            groups = group_runs(unfinished, store, origins, failed=outcomes)
            waiting = [part for group in groups for part in fitting_parts(group, dataset)]
        while waiting:
            group = waiting.pop(0)
            if interrupt.is_due(deadline, processes):
                outcomes = {run.digest: Outcome(run, None, [], None) for run in group} | outcomes
                continue
            trained = _train_group(
                group,
                dataset,
                precision,
                processes,
                folders=[store.folder(run) if store else None for run in group],
                origins=[origins.get(run.digest) for run in group],
                progress=progress,
                interrupt=interrupt,
                checkpoint_seconds=checkpoint_seconds,
                monitor=monitor,
                deadline=deadline,
            )
            if trained is None:
                half = len(group) // 2
                waiting = [group[:half], group[half:], *waiting]
            else:
                outcomes = trained | outcomes
    results = [outcomes.get(run.digest) or Outcome(run, None, [], None) for run in runs]
    if interrupt.requested:
        raise TrainingInterrupted(results, interrupt.terminated)
    return results


def fitting_parts(group: list[Run], dataset: Dataset) -> list[list[Run]]:
    """Divide runs that would train side by side into halves until memory can hold their lanes.

    What they need is estimated from below, so a GPU may still run out of memory.
    """
    lanes, device = len(group), dataset.device
    if lanes == 1:
        return [group]
    at_once = lanes if device.type == "cuda" else 1
    if can_fork(dataset, device):
        at_once = min(lanes, torch.get_num_threads())
    needed = group[0].lanes_memory(dataset.shape, lanes, at_once)
    if needed <= device_memory(device):
        return [group]
    halves = group[: lanes // 2], group[lanes // 2 :]
    return [part for half in halves for part in fitting_parts(half, dataset)]


def _train_group(
    group: list[Run], dataset: Dataset, precision: Precision, processes: Processes, **options: Any
) -> dict[str, Outcome] | None:
    """Train runs as lanes, with the options of `LaneGroup`; return None if memory is too small."""
    device = dataset.device
    try:
        with kernels.on(device), matmul_precision(precision), reuse_memory(device):
            compiles = worth_compiling(group) and not processes.several
            lanes = Lanes(group, dataset, device, precision, compiles, processes)
            job = LaneGroup(lanes, **options)
            job.train()
        return job.outcomes
    except torch.OutOfMemoryError:
        if len(group) == 1:
            raise
    torch.cuda.empty_cache()
    return None


def _one_by_one(
    runs: list[Run], outcomes: dict[str, Outcome], processes: Processes
) -> list[list[Run]]:
    """Return the groups that several processes train: each run alone, unless it is done."""
    unfinished = processes.from_first([r.digest for r in runs if r.digest not in outcomes])
    by_digest = {run.digest: run for run in runs}
    return [[by_digest[digest]] for digest in unfinished]


def _open_runs(
    runs: Sequence[Run],
    dataset: Dataset,
    store: Store | None,
    locks: contextlib.ExitStack,
    outcomes: dict[str, Outcome],
) -> list[Run]:
    """Lock the folders of unfinished runs; return them, and those that have failed.

    Outcomes of runs that are finished or have failed are added to `outcomes`.
    """
    distinct = list({run.digest: run for run in runs}.values())
    if not store:
        return distinct
    for run in distinct:
        folder = store.folder(run)
        with contextlib.ExitStack() as lock:
            lock.enter_context(folder.lock())
            folder.create(run)
            folder.check_data(dataset, labels=bool(run.labels))
            folder.drop_older_states()
            if folder.status in ("finished", "failed"):
                outcomes[run.digest] = StoredOutcome(folder, run)
            else:
                locks.push(lock.pop_all())
    return [run for run in distinct if (done := outcomes.get(run.digest)) is None or done.failure]
