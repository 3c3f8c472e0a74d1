"""Drive workers: submit tasks, check the store, resubmit lost tasks, and stop cleanly."""

import abc
import importlib
import json
import math
import random
import time
from collections import deque
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence, Set
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar, Literal, NamedTuple, Protocol

import torch

from unweave.core import files
from unweave.core.groups import grouped
from unweave.core.hints import count_noun
from unweave.core.outputs import RUN
from unweave.core.parts import parts_of
from unweave.data import InMemory
from unweave.evaluation.scoring import ScoringTask, unscored
from unweave.evaluation.tasks import FailedTask, Job, Task, TasksFailed, Trained
from unweave.executors.division import lanes_for, lanes_in_memory, longest_first
from unweave.executors.places import Places
from unweave.executors.watch import Watch
from unweave.executors.worker import Ended, request
from unweave.training import Outcome, Progress, TrainingInterrupted, pick_device
from unweave.training.given_up import forget, give_up
from unweave.training.heartbeats import BEAT
from unweave.training.interrupt import Interrupt
from unweave.training.leases import FolderInUse, own_leases
from unweave.training.store import RunFolder

_POLL = 0.5  # seconds between two looks at the workers
_LOOK_AGAIN = 3.0  # seconds until a task that has to wait is looked at again
_MOST_PAUSE = 60.0  # seconds before a task of other processes is submitted again, at most
_SAVING = 120.0  # seconds that workers have to save what they train

_DEVICES = ("auto", "cpu", "cuda")


def import_engine(module: str, extra: str) -> Any:
    """Import the package of an engine, which is an extra of this one."""
    try:
        return importlib.import_module(module)
    except ImportError:
        raise ValueError(f"--on {extra} needs {module}: pip install 'unweave[{extra}]'") from None


class Pool(Protocol):
    """Workers, wherever they are."""

    slots: int  # tasks that run at once
    device: str  # of each worker
    threads: int  # CPU threads of each worker
    memory: float | None  # bytes of each device, if known

    @property
    def window(self) -> int:
        """The largest number of tasks that may be submitted at a time."""

    def probe(self, text: str) -> list[Hashable]:
        """Send a request to one worker per machine.

        Return a key for each; [] if probes would have to queue.
        """

    @property
    def places(self) -> Set[str] | None:
        """The places that can do a task now; None if they are not known."""

    def submit(self, texts: Sequence[str], avoid: Set[str] = frozenset()) -> list[Hashable]:
        """Submit requests to workers outside of some places; return a key for each."""

    def wait(self, seconds: float) -> dict[Hashable, Ended]:
        """Wait until attempts end, at most for some seconds; return those that have ended."""

    def stop(self) -> None:
        """Ask the workers to save their runs and to stop."""


@dataclass(eq=False)
class _Attempt:
    """A task and its state so far."""

    task: Task
    reached: int = 0  # steps of all runs that were stored when a worker died
    lost: int = 0  # submissions without progress whose worker died
    lost_at: set[str] = field(default_factory=set)  # places of these workers
    seconds: float = 0.0  # of training, as reported by workers
    steps: int = 0  # taken in these seconds
    not_before: float = field(default=-math.inf)
    waits: bool = False  # for another process, or for files to appear
    returned: int = 0  # times that workers gave it back unfinished
    reported: Ended | None = None  # by a worker that has done it, but the files are not here yet
    appears_by: float = math.inf

    def look(self) -> Literal["done", "waits", "ready"]:
        """Look in the store whether the task is done, has to wait, or can be submitted.

        It waits while another process trains one of the runs, and while what its own worker has
        written does not appear: network file systems show old names for up to a minute.
        """
        now = time.monotonic()
        if now < self.not_before:
            return "waits"
        if self.task.is_done:
            return "done"
        if self.lost:
            self._take_over()
        self.waits = self.task.is_in_use or (self.reported is not None and now < self.appears_by)
        if self.waits:
            self.not_before = now + _LOOK_AGAIN
            return "waits"
        return "ready"

    def _take_over(self) -> None:
        """Take the leases of workers that are gone, whom the next one would watch for a minute."""
        for folder in self.task.folders:
            with suppress(FolderInUse), folder.lock(wait=0):
                pass

    def add(self, ended: Ended) -> None:
        """Add the time of a worker; a stopped worker does not report its steps."""
        if ended.steps:
            self.seconds += ended.seconds
            self.steps += ended.steps

    def end(self, last: Ended) -> tuple[Task, Ended]:
        """Return how the task ended, with the time and the steps of all of its workers."""
        return self.task, last._replace(seconds=self.seconds, steps=self.steps)

    def give_back(self) -> None:
        """Submit the task again, after a delay that grows each time."""
        pause = min(_MOST_PAUSE, _LOOK_AGAIN * 2 ** min(self.returned, 10))
        self.not_before = time.monotonic() + pause * (0.5 + random.random())
        self.returned += 1

    def count_loss(self, place: str) -> None:
        """Count a dead worker and its place, unless its task made progress."""
        reached = sum(self.task.read_steps())
        progress = reached > self.reached
        self.lost = 1 if progress else self.lost + 1
        self.lost_at = set() if progress else self.lost_at | ({place} if place else set())
        self.reached = reached


def drive(
    pool: Pool,
    tasks: Sequence[Task],
    tries: int,
    watch: Callable[[Sequence[Task], Sequence[Task]], object],
    stops: Callable[[], bool],
    leaves: Callable[[], bool],
) -> Iterator[tuple[Task, Ended]]:
    """Run tasks on the workers in order; yield each as it ends, done or failed.

    A task whose worker died is submitted again, at most `tries` times without progress, and to
    other places if there are any. A task that another process trains waits until that one is done
    or gone.

    Args:
        pool: the workers.
        tasks: what to do.
        tries: submissions of a task without progress.
        watch: called between two looks at the workers, with the tasks that are submitted and those
            that wait for other processes.
        stops: whether to stop, after the workers have saved what they train.
        leaves: whether to leave the workers running then, without this process.
    """
    waiting, running = [_Attempt(task) for task in tasks], dict[Hashable, _Attempt]()
    places = Places(pool)
    try:
        while (waiting or running) and not stops():
            ready, done = _ready(waiting, pool.window - len(running))
            for attempt in done:
                yield attempt.end(attempt.reported or Ended("done"))
            for avoid, group in grouped((places.to_avoid(a.lost_at), a) for a in ready).items():
                keys = pool.submit([request(attempt.task) for attempt in group], avoid)
                running |= dict(zip(keys, group, strict=True))
            waiting = [each for each in waiting if each not in ready and each not in done]
            for key, ended in pool.wait(_POLL).items():
                attempt = running.pop(key)
                attempt.add(ended)
                last = _judge(attempt, ended, tries)
                if ended.how == "done" or attempt.lost_at:  # not if it made progress
                    places.record(ended, attempt)
                if last:
                    yield attempt.end(last)
                else:
                    waiting.append(attempt)
            elsewhere = [each.task for each in waiting if each.waits]
            watch([each.task for each in running.values()], elsewhere)
    except KeyboardInterrupt:  # the second Ctrl-C
        running.clear()
        raise
    finally:
        if not leaves():
            _stop(pool, len(running))


def _ready(waiting: Sequence[_Attempt], count: int) -> tuple[list[_Attempt], list[_Attempt]]:
    """Return the first attempts that can be submitted, at most `count`, and those that are done.

    Others are not looked up, because a store of many runs may be slow.
    """
    by_state: dict[str, list[_Attempt]] = {"done": [], "waits": [], "ready": []}
    for attempt in waiting:
        if len(by_state["ready"]) >= count:
            break
        by_state[attempt.look()].append(attempt)
    return by_state["ready"], by_state["done"]


def _judge(attempt: _Attempt, ended: Ended, tries: int) -> Ended | None:
    """Return how a task ended, or None if it has to be looked at or submitted again."""
    if ended.how == "failed" or (ended.how == "done" and attempt.task.is_done):
        return ended
    if ended.how in ("busy", "stopped"):
        attempt.give_back()
        return None
    attempt.count_loss(ended.place if ended.how == "died" else "")
    if ended.how == "done":
        attempt.reported, attempt.appears_by = ended, time.monotonic() + files.SHOWN_AFTER
        if attempt.lost <= tries:
            return None
        place = attempt.task.store
        return Ended("failed", f"its results do not appear in {place}: use a shared folder")
    if attempt.lost < tries:
        return None
    return Ended(
        "failed",
        f"its worker was lost {count_noun(attempt.lost, 'time')} without progress"
        f"{f' ({ended.text})' if ended.text else ''}"
        f"{'; if memory ran out, use fewer --lanes' if ended.may_lack_memory else ''}",
        host=ended.host,
    )


def _stop(pool: Pool, running: int) -> None:
    """Ask the workers to save their runs, and wait until they have."""
    pool.stop()  # also tasks that were submitted when an error or a second Ctrl-C came
    deadline = time.monotonic() + _SAVING
    while running and time.monotonic() < deadline:
        running -= len(pool.wait(_POLL))


class _Part(NamedTuple):
    """Runs to score, how often they are submitted, and where they lost their worker."""

    task: ScoringTask
    tried: int = 1
    lost_at: frozenset[str] = frozenset()


def _score_parts(
    pool: Pool, parts: Iterable[ScoringTask], tries: int
) -> Iterator[dict[str, dict[str, Any]]]:
    """Score runs on the workers; yield the scores of each part.

    A part whose worker died is scored again, a few times. If that does not help, each of its runs
    is scored alone, so that one bad run does not cost the scores of the others.
    """
    waiting, running = deque(_Part(part) for part in parts), dict[Hashable, _Part]()
    places = Places(pool)
    try:
        while waiting or running:
            count = min(len(waiting), pool.window - len(running))
            ready = [waiting.popleft() for _ in range(count)]
            for avoid, group in grouped((places.to_avoid(p.lost_at), p) for p in ready).items():
                keys = pool.submit([request(part.task) for part in group], avoid)
                running |= dict(zip(keys, group, strict=True))
            for key, ended in pool.wait(_POLL).items():
                task, tried, lost_at = part = running.pop(key)
                places.record(ended, task.folders)
                if ended.how == "done":
                    yield json.loads(ended.text)
                elif ended.how != "failed" and tried < tries:
                    lost_at |= {ended.place} if ended.place else set()
                    waiting.append(part._replace(tried=tried + 1, lost_at=lost_at))
                elif len(task.folders) > 1:
                    waiting += [_Part(replace(task, folders=(each,))) for each in task.folders]
                else:
                    why = ended.reason or "its worker died; if memory ran out, use fewer --rows"
                    yield {task.folders[0]: unscored(why)}
    finally:
        pool.stop()


class RemoteExecutor(abc.ABC):
    """An executor whose workers are other processes, here or on other machines."""

    lanes: int | None  # runs in a task; None: as many as give every slot work, at most 64
    tries: int  # submissions of a task without progress
    outlasting: ClassVar[bool] = False  # whether workers survive the driver's SIGTERM

    @abc.abstractmethod
    def check(self) -> None:
        """Raise a ValueError of one line if the engine is not installed."""

    @abc.abstractmethod
    def open(self, device: str, store: str) -> AbstractContextManager[Pool]:
        """Find workers with a device; raise a ValueError of one line if there are none.

        On leaving the context, workers that this has started are ended.
        """

    def is_remote(self, device: str) -> bool:
        """Return whether other processes do the work on a device."""
        return True

    def load_on(self, device: str) -> torch.device:
        """Return the CPU if other processes train, otherwise the device itself."""
        if not self.is_remote(device):
            return pick_device(device)
        if device not in _DEVICES:
            raise ValueError(f"expected a device of workers, {', '.join(_DEVICES)}, got {device!r}")
        return torch.device("cpu")

    def run(
        self, jobs: Iterable[Job], progress: Progress, deadline: float = math.inf
    ) -> Iterator[Trained]:
        """Divide jobs into tasks, run them on the workers, and yield outcomes as they end."""
        self.check()
        every = list(jobs)
        for job in every:
            _check_sendable(job.task)
        if not every:
            return
        failures: list[FailedTask] = []
        in_use: list[RunFolder] = []
        first = every[0].task
        if all(job.task.is_done for job in every):  # nothing is left to do, so no cluster is needed
            yield from (Trained(_collect(job.task, in_use)) for job in every)
            _delete_leftovers(first, in_use)
            return
        with self.open(first.device, first.store or "") as pool, Interrupt() as interrupt:
            tasks = self._tasks(every, pool)
            yield from (Trained(_settled(job, tasks, in_use)) for job in every)
            stops = lambda: interrupt.requested or time.monotonic() >= deadline  # noqa: E731
            leaves = lambda: interrupt.terminated and self.outlasting  # noqa: E731
            watched = -math.inf
            _create_folders(tasks)
            if tasks:
                _probe(pool, request(tasks[0], probe=True), stops)
            with (
                Watch([job.task for job in every], progress) as watch,
                own_leases().working(_root(first)) as record,
            ):

                def look(running: Sequence[Task], elsewhere: Sequence[Task]) -> None:
                    nonlocal watched
                    watch.look(running, elsewhere)
                    record.facts = {"submitted": sum(len(task.runs) for task in running)}
                    if time.monotonic() - watched >= BEAT:  # to know who is dead when one is lost
                        own_leases().delete_dead_records(_root(first))
                        watched = time.monotonic()

                for task, ended in drive(pool, tasks, self.tries, look, stops, leaves):
                    watch.end(task)
                    digests, root = tuple(run.digest for run in task.runs), _root(task)
                    if ended.how == "failed":
                        failures.append(FailedTask(digests, ended.text, ended.host))
                        give_up(root, digests, ended.text, ended.host)
                    else:
                        forget(root, digests)
                        facts = ended.seconds, ended.steps, task.device, ended.machine
                        yield Trained(_collect(task, in_use), *facts)
        _delete_leftovers(first, [] if interrupt.requested else in_use)
        if interrupt.requested:
            stored = [outcome for job in every for outcome in job.task.read_outcomes()]
            raise TrainingInterrupted(stored, interrupt.terminated)
        if failures:
            raise TasksFailed(failures, len(tasks))

    def score(self, task: ScoringTask) -> Iterator[dict[str, dict[str, Any]]]:
        """Score runs on the workers; yield the scores of each part."""
        self.check()
        with self.open(task.device, task.folders[0].rpartition("/")[0]) as pool:
            size = self.lanes or lanes_for(len(task.folders), pool.slots)
            given: dict[str, Any] = {"device": pool.device, "threads": task.threads or pool.threads}
            parts = [
                replace(task, folders=task.folders[at : at + size], **given)
                for at in range(0, len(task.folders), size)
            ]
            _probe(pool, request(parts[0], probe=True), lambda: False)
            yield from _score_parts(pool, parts, self.tries)

    def _tasks(self, jobs: Sequence[Job], pool: Pool) -> list[Task]:
        """Divide jobs into tasks for the workers, the longest first."""
        even = lanes_for(sum(len(job.task.runs) for job in jobs), pool.slots)
        sized: list[tuple[int, Task]] = []
        for job in jobs:
            fitting = lanes_in_memory(job, pool.memory) if pool.memory else even
            parts = job.divide(self.lanes or min(even, fitting), torch.device(pool.device))
            sized += longest_first(job, parts)
        sized.sort(key=lambda pair: -pair[0])
        return [
            replace(task, device=pool.device, threads=task.threads or pool.threads)
            for _, task in sized
        ]


def _check_sendable(task: Task) -> None:
    """Refuse tasks that cannot be sent to other processes."""
    if task.store is None:
        raise ValueError(
            'training in other processes needs a store that they share: give store="runs"'
        )
    if any(isinstance(part, InMemory) for part in parts_of(task.runs[0].data)):
        raise ValueError(
            "data in memory cannot be read by other processes: save them, as with "
            'np.save("data.npy", images), and give the path'
        )


def _create_folders(tasks: Sequence[Task]) -> None:
    """Create the run folders, so that workers find the store and `unweave status` the runs."""
    pairs = [pair for task in tasks for pair in zip(task.runs, task.folders, strict=True)]
    missing = [(run, folder) for run, folder in pairs if not (folder.path / RUN).exists()]
    if missing:
        with own_leases().working(missing[0][1].path.parent):  # one record for all
            for run, folder in missing:
                with suppress(FolderInUse), folder.lock():  # whoever uses it has created it
                    folder.create(run)


def _probe(pool: Pool, text: str, stops: Callable[[], bool]) -> None:
    """Ask one worker per machine to check that it could run a task, before any task runs."""
    waiting, lost = set(pool.probe(text)), list[Ended]()
    count = len(waiting)
    while waiting and not stops():
        for key, ended in pool.wait(_POLL).items():
            waiting.discard(key)
            if ended.how == "failed":
                raise ValueError(ended.reason)
            lost += [ended] if ended.how == "died" else []
    if lost and len(lost) == count:  # a machine that is gone does no harm if there are others
        why = f" ({lost[0].reason})" if lost[0].text else ""
        raise ValueError(f"a worker died before it got a task{why}")


def _root(task: Task) -> Path:
    """Return the folder of the store of a task that was checked to have one."""
    assert task.run_store is not None
    return task.run_store.root


def _settled(job: Job, tasks: Sequence[Task], in_use: list[RunFolder]) -> list[Outcome]:
    """Return the outcomes of runs that are in no task: they are finished, or have failed."""
    todo = {run.digest for task in tasks for run in task.runs}
    rest = tuple(run for run in job.task.runs if run.digest not in todo)
    return _collect(replace(job.task, runs=rest), in_use) if rest else []


def _delete_leftovers(task: Task, in_use: Sequence[RunFolder]) -> None:
    """Delete what killed workers left: their records, and files in folders that were in use."""
    own_leases().delete_dead_records(_root(task))
    for folder in in_use:
        folder.clean_up()


def _collect(task: Task, in_use: list[RunFolder]) -> list[Outcome]:
    """Return the outcomes of ended runs, and delete what a killed worker left.

    Folders that another process may still use are not waited for here, but added to `in_use`.
    """
    outcomes = task.read_outcomes()
    in_use += [folder for folder in task.folders if not folder.clean_up(wait=0)]
    return outcomes
