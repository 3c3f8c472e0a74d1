"""Drive workers: submit tasks, look at the store, resubmit what was lost, and stop cleanly."""

from __future__ import annotations

import abc
import importlib
import json
import math
import time
from collections import deque
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

import torch

from unweave.core import files
from unweave.core.hints import count_noun
from unweave.core.outputs import RUN
from unweave.core.parts import parts_of
from unweave.data import InMemory
from unweave.evaluation.scoring import ScoringTask
from unweave.evaluation.tasks import Job, Task, Trained
from unweave.executors.division import divide, lanes_for, lanes_in_memory, longest_first
from unweave.executors.watch import Watch
from unweave.executors.worker import Ended, request
from unweave.training import Outcome, Progress, TrainingInterrupted, pick_device, recall
from unweave.training.interrupt import Interrupt
from unweave.training.leases import FolderInUse, own_leases

_POLL = 0.5  # seconds between two looks at the workers
_LOOK_AGAIN = 3.0  # seconds until a run that another process trains is looked at again
_SAVING = 120.0  # seconds that workers have to save what they train


_DEVICES = ("auto", "cpu", "cuda")


class TasksFailed(ValueError):
    """Workers could not do some of their tasks; everything else is done and stored."""


def import_engine(module: str, extra: str) -> Any:
    """Import the package of an engine, which is an extra of this one."""
    try:
        return importlib.import_module(module)
    except ImportError:
        raise ValueError(f"--on {extra} needs {module}: pip install 'unweave[{extra}]'") from None


class Pool(Protocol):
    """Workers, wherever they are."""

    slots: int  # tasks that run at once
    window: int  # tasks that may be submitted and not ended
    device: str  # of each worker
    threads: int  # CPU threads of each worker
    memory: float | None  # bytes of each device, if known
    probes: bool  # whether a worker can be asked something before the first task, without waiting

    def submit(self, texts: Sequence[str]) -> list[Hashable]:
        """Let workers do what the texts request; return a key for each."""

    def wait(self, seconds: float) -> dict[Hashable, Ended]:
        """Wait until attempts end, at most for some seconds; return those that have ended."""

    def stop(self) -> None:
        """Ask the workers to save what they train and to stop."""


@dataclass(eq=False)
class _Attempt:
    """A task and what became of it so far."""

    task: Task
    reached: int = 0  # steps of all runs that were stored at the last submission
    lost: int = 0  # submissions without progress whose worker died
    seconds: float = 0.0
    not_before: float = field(default=-math.inf)

    @property
    def is_done(self) -> bool:
        """Whether all runs are finished, or have failed."""
        return all(folder.weights.exists() or folder.failed for folder in self.task.folders)

    @property
    def is_in_use(self) -> bool:
        """Whether another process trains one of the runs."""
        return any(folder.locked for folder in self.task.folders if not folder.weights.exists())

    def postpone(self) -> None:
        """Look again later."""
        self.not_before = time.monotonic() + _LOOK_AGAIN

    def count_loss(self) -> None:
        """Count a worker that died; one whose task made progress does not count."""
        pairs = zip(self.task.runs, self.task.folders, strict=True)
        reached = sum(folder.reached(run.steps) for run, folder in pairs)
        self.lost = 1 if reached > self.reached else self.lost + 1
        self.reached = reached


def drive(
    pool: Pool,
    tasks: Sequence[Task],
    tries: int,
    watch: Callable[[Sequence[Task]], object],
    stops: Callable[[], bool],
) -> Iterator[tuple[Task, Ended]]:
    """Let workers do tasks in order; yield each as it ends, done or failed.

    A task whose worker died is submitted again, at most `tries` times without progress. A task that
    another process trains waits until that one is done or gone.

    Args:
        pool: the workers.
        tasks: what to do.
        tries: submissions of a task without progress.
        watch: called with the running tasks between two looks at the workers.
        stops: whether to stop, after the workers have saved what they train.
    """
    waiting, running = [_Attempt(task) for task in tasks], dict[Hashable, _Attempt]()
    while (waiting or running) and not stops():
        ready, done = _ready(waiting, pool.window - len(running))
        for attempt in done:
            yield attempt.task, Ended("done", seconds=attempt.seconds)
        keys = pool.submit([request(attempt.task) for attempt in ready]) if ready else []
        running |= dict(zip(keys, ready, strict=True))
        waiting = [each for each in waiting if each not in ready and each not in done]
        for key, ended in pool.wait(_POLL).items():
            attempt = running.pop(key)
            attempt.seconds += ended.seconds
            last = _judge(attempt, ended, tries)
            if last is None:
                waiting.append(attempt)
            else:
                yield attempt.task, last._replace(seconds=attempt.seconds)
        watch([attempt.task for attempt in running.values()])
    _stop(pool, len(running))


def _ready(waiting: Sequence[_Attempt], count: int) -> tuple[list[_Attempt], list[_Attempt]]:
    """Return the first attempts that can be submitted, at most `count`, and those that are done.

    It looks at no others, because a store of many runs may be slow.
    """
    ready: list[_Attempt] = []
    done: list[_Attempt] = []
    for attempt in waiting:
        if len(ready) >= count:
            break
        if time.monotonic() < attempt.not_before:
            continue
        if attempt.is_done:
            done.append(attempt)
        elif attempt.is_in_use:
            attempt.postpone()
        else:
            ready.append(attempt)
    return ready, done


def _judge(attempt: _Attempt, ended: Ended, tries: int) -> Ended | None:
    """Return how a task ended, or None if it has to be submitted again."""
    if ended.how == "failed" or (ended.how == "done" and attempt.is_done):
        return ended
    if ended.how in ("busy", "stopped"):
        attempt.postpone()
        return None
    attempt.count_loss()
    if attempt.lost < tries:
        return None
    store = attempt.task.store
    if ended.how == "done":
        return Ended("failed", f"its results do not appear in {store}: use a shared folder")
    return Ended(
        "failed",
        f"its worker was killed {count_noun(attempt.lost, 'time')} without progress"
        f"{f' ({ended.text})' if ended.text else ''}; if memory ran out, use fewer --lanes",
    )


def _stop(pool: Pool, running: int) -> None:
    """Let workers save what they train, and wait for them."""
    if not running:
        return
    pool.stop()
    deadline = time.monotonic() + _SAVING
    while running and time.monotonic() < deadline:
        running -= len(pool.wait(_POLL))


def _answers(pool: Pool, texts: Sequence[str], tries: int) -> Iterator[str]:
    """Yield the answers of workers as they come; ask again, a few times, if a worker died."""
    waiting, running = deque((text, 1) for text in texts), dict[Hashable, tuple[str, int]]()
    while waiting or running:
        ready = [waiting.popleft() for _ in range(min(len(waiting), pool.window - len(running)))]
        keys = pool.submit([text for text, _ in ready]) if ready else []
        running |= dict(zip(keys, ready, strict=True))
        for key, ended in pool.wait(_POLL).items():
            text, tried = running.pop(key)
            if ended.how == "done":
                yield ended.text
            elif ended.how == "failed" or tried >= tries:
                raise TasksFailed(ended.text or "a worker died; if memory ran out, use fewer rows")
            else:
                waiting.append((text, tried + 1))


class RemoteExecutor(abc.ABC):
    """An executor whose workers are other processes, here or on other machines."""

    lanes: int | None  # runs in a task; None: as many as give every slot work, at most 64
    tries: int  # submissions of a task without progress

    @abc.abstractmethod
    def check(self) -> None:
        """Raise a ValueError of one line if the engine is not installed."""

    @abc.abstractmethod
    def open(self, device: str, store: Path) -> AbstractContextManager[Pool]:
        """Find workers with a device; raise a ValueError of one line if there are none.

        On leaving the context, workers that this has started are ended.
        """

    def is_remote(self, device: str) -> bool:
        """Return whether other processes do the work on a device."""
        return True

    def load_on(self, device: str) -> torch.device:
        """Return the CPU if this process only describes runs, otherwise the device itself."""
        if not self.is_remote(device):
            return pick_device(device)
        if device not in _DEVICES:
            raise ValueError(f"expected a device of workers, {', '.join(_DEVICES)}, got {device!r}")
        return torch.device("cpu")

    def run(
        self, jobs: Iterable[Job], progress: Progress, deadline: float = math.inf
    ) -> Iterator[Trained]:
        """Divide jobs into tasks, let workers do these, and yield outcomes as they end."""
        self.check()
        every = list(jobs)
        for job in every:
            _check_sendable(job.task)
        if not every:
            return
        failures: list[str] = []
        first = every[0].task
        with self.open(first.device, Path(first.store or "")) as pool, Interrupt() as interrupt:
            tasks = self._tasks(every, pool)
            yield from (Trained(_settled(job, tasks)) for job in every)
            stops = lambda: interrupt.requested or time.monotonic() >= deadline  # noqa: E731
            _create_folders(tasks)
            if tasks and pool.probes:
                _probe(pool, tasks[0], stops)
            with Watch([job.task for job in every], progress) as watch:
                for task, ended in drive(pool, tasks, self.tries, watch.look, stops):
                    watch.end(task)
                    if ended.how == "failed":
                        failures.append(ended.text)
                    else:
                        found = ended.seconds, task.device, ended.machine
                        yield Trained(_collect(task), *found)
        own_leases().delete_dead_records(Path(first.store or ""))  # of workers that were killed
        if interrupt.requested:
            stored = [outcome for job in every for outcome in _outcomes(job.task)]
            raise TrainingInterrupted(stored, interrupt.terminated)
        if failures:
            raise TasksFailed(
                f"{len(failures)} of {count_noun(len(tasks), 'task')} failed, and everything else "
                f"is trained and stored: {failures[0]}"
            )

    def score(self, task: ScoringTask) -> Iterator[dict[str, dict[str, Any]]]:
        """Let workers score runs; yield what each has scored."""
        self.check()
        _check_folder(Path(task.folders[0]).parent)
        with self.open(task.device, Path(task.folders[0]).parent) as pool:
            size = self.lanes or lanes_for(len(task.folders), pool.slots)
            given: dict[str, Any] = {"device": pool.device, "threads": task.threads or pool.threads}
            parts = [
                replace(task, folders=task.folders[at : at + size], **given)
                for at in range(0, len(task.folders), size)
            ]
            for text in _answers(pool, [request(part) for part in parts], self.tries):
                yield json.loads(text)

    def _tasks(self, jobs: Sequence[Job], pool: Pool) -> list[Task]:
        """Divide jobs into tasks for the workers, the longest first."""
        even = lanes_for(sum(len(job.task.runs) for job in jobs), pool.slots)
        found: list[tuple[int, Task]] = []
        for job in jobs:
            fitting = lanes_in_memory(job, pool.memory) if pool.memory else even
            parts = divide(job, self.lanes or min(even, fitting), torch.device(pool.device))
            found += longest_first(job, parts)
        found.sort(key=lambda pair: -pair[0])
        return [
            replace(task, device=pool.device, threads=task.threads or pool.threads)
            for _, task in found
        ]


def _check_sendable(task: Task) -> None:
    """Refuse tasks that other processes cannot do."""
    if task.store is None:
        raise ValueError(
            'training in other processes needs a store that they share: give store="runs"'
        )
    _check_folder(Path(task.store))
    if any(isinstance(part, InMemory) for part in parts_of(task.runs[0].data)):
        raise ValueError(
            "data in memory cannot be read by other processes: save them, as with "
            'np.save("data.npy", images), and give the path'
        )


def _check_folder(store: Path) -> None:
    """Refuse a store of which this process has a copy, which workers would not see."""
    if (place := files.disk.name(store)) != str(store):
        raise ValueError(
            f"expected a store in a folder that all workers share, got {place}: object storage "
            "works in this process, with --device cpu or --device cuda:0"
        )


def _create_folders(tasks: Sequence[Task]) -> None:
    """Create the folders of runs, by which workers see the store, and `unweave status` the runs."""
    pairs = [pair for task in tasks for pair in zip(task.runs, task.folders, strict=True)]
    missing = [(run, folder) for run, folder in pairs if not (folder.path / RUN).exists()]
    with ExitStack() as working:
        for run, folder in missing:
            working.enter_context(own_leases().working(folder.path.parent))  # one record for all
            with suppress(FolderInUse), folder.lock():  # whoever uses it has created it
                folder.create(run)


def _probe(pool: Pool, task: Task, stops: Callable[[], bool]) -> None:
    """Let one worker check that it could do a task, before any is done."""
    (key,) = pool.submit([request(task, probe=True)])
    while not stops():
        if ended := pool.wait(_POLL).get(key):
            if ended.how not in ("done", "stopped"):
                raise ValueError(ended.text or "a worker died before it had anything to do")
            return


def _settled(job: Job, tasks: Sequence[Task]) -> list[Outcome]:
    """Return the outcomes of runs that are in no task: they are finished, or have failed."""
    todo = {run.digest for task in tasks for run in task.runs}
    rest = [run for run in job.task.runs if run.digest not in todo]
    return [each for run in rest for each in _collect(replace(job.task, runs=(run,)))]


def _collect(task: Task) -> list[Outcome]:
    """Return the outcomes of runs that have ended, whose worker may have been killed after that."""
    for folder in task.folders:
        folder.clean_up()
    return _outcomes(task)


def _outcomes(task: Task) -> list[Outcome]:
    """Read the outcomes of runs from the store, as far as they are trained."""
    return [
        recall(folder, run) if (folder.path / RUN).exists() else Outcome(run, None, [], None)
        for run, folder in zip(task.runs, task.folders, strict=True)
    ]
