"""The progress of the runs of a store: what is trained, how fast, by whom, and what failed."""

import math
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from unweave.core import files
from unweave.core.files import OddFile, error_text
from unweave.core.hints import count_noun
from unweave.core.processes import Process
from unweave.training.given_up import GivenUp, given_up
from unweave.training.heartbeats import FOLDER, log_path, log_sections, read_record
from unweave.training.leases import own_leases
from unweave.training.run_files import RunFiles, run_paths

_TIME = 19  # characters of the time with which a section of a log begins
STATES = ("finished", "failed", "running", "stopped", "not started", "damaged")


@dataclass(frozen=True)
class WorkerStatus:
    """A process that writes in the store, according to its record."""

    name: str
    host: str
    pid: int
    device: str
    runs: tuple[str, ...]
    step: int
    steps: int
    steps_per_second: float
    heartbeat: float  # seconds since the last one, by the clocks of its machine and of this one
    submitted: int = 0  # runs that it has given to other workers, or to a queue

    @property
    def speed(self) -> float:
        """Steps per second of all of its runs together."""
        return self.steps_per_second * len(self.runs)


@dataclass(frozen=True)
class RunStatus:
    """A run of the store, and its progress."""

    run: str
    status: str
    step: int
    steps: int
    reason: str = ""  # why it failed, was given up, or cannot be read


@dataclass(frozen=True)
class StoreStatus:
    """The runs and workers of a store at one moment."""

    runs: tuple[RunStatus, ...]
    workers: tuple[WorkerStatus, ...]

    @property
    def counts(self) -> dict[str, int]:
        """How many runs are in each state."""
        counts = Counter(run.status for run in self.runs)
        return {state: counts[state] for state in STATES if counts[state]}

    @property
    def steps_left(self) -> int:
        """Steps that unfinished runs still have to take, without those that failed."""
        ended = ("finished", "failed", "damaged")
        return sum(run.steps - run.step for run in self.runs if run.status not in ended)

    @property
    def speed(self) -> float:
        """Steps per second of all networks that are being trained."""
        return sum(worker.speed for worker in self.workers)

    @property
    def networks_per_hour(self) -> float:
        """Networks trained per hour at the present speed."""
        return sum(3600 * each.speed / each.steps for each in self.workers if each.steps)

    @property
    def seconds_left(self) -> float | None:
        """Seconds until all runs are done at the present speed; None if nothing is trained."""
        return self.steps_left / self.speed if self.speed else None

    def to_json(self) -> dict[str, Any]:
        """Return everything as plain JSON."""
        return {
            "counts": self.counts,
            "steps_per_second": self.speed,
            "networks_per_hour": self.networks_per_hour,
            "steps_left": self.steps_left,
            "seconds_left": self.seconds_left,
            "workers": [asdict(worker) for worker in self.workers],
            "runs": [asdict(run) for run in self.runs],
        }


def read_status(root: Path) -> StoreStatus:
    """Read the progress of the runs of a store; a damaged folder is described, not an error."""
    files.disk.pull(root)
    workers = _workers(root)
    steps, lost = _steps(workers), given_up(root)
    runs = (_run(RunFiles(path), steps, lost.get(path.name)) for path in run_paths(root))
    return StoreStatus(tuple(runs), workers)


def recorded_steps(roots: Iterable[Path]) -> dict[str, int]:
    """Return the steps of the runs that workers of stores train now, according to their records."""
    return _steps(worker for root in roots for worker in _workers(root))


def _steps(workers: Iterable[WorkerStatus]) -> dict[str, int]:
    return {run: worker.step for worker in workers for run in worker.runs}


def _workers(root: Path) -> tuple[WorkerStatus, ...]:
    return tuple(filter(None, (_worker(root, name) for name in _names(root, ".json"))))


def _run(folder: RunFiles, steps: Mapping[str, int], lost: GivenUp | None) -> RunStatus:
    name = folder.path.name
    try:
        total, status, failure = folder.settings["steps"], folder.status, folder.failure
        step = max(folder.reached(total), steps.get(name, 0))
    except (ValueError, OSError, RecursionError) as error:
        return RunStatus(name, "damaged", 0, 0, error_text(error))
    if lost is not None and status in ("stopped", "not started"):
        when = time.strftime("%Y-%m-%d %H:%M", time.localtime(lost["time"]))
        place = f" on {lost['host']}" if lost["host"] else ""
        return RunStatus(name, status, step, total, f"given up {when}{place}: {lost['text']}")
    if failure is None:
        return RunStatus(name, status, step, total)
    reason = f"{failure['term'].replace('_', ' ')} was not finite at step {failure['step']:,}"
    return RunStatus(name, status, step, total, reason)


def _names(root: Path, suffix: str) -> list[str]:
    """Return the names of workers that have a file with a suffix, the latest change first."""
    names = files.disk.newest(root / FOLDER)
    return [name.removesuffix(suffix) for name in names if name.endswith(suffix)]


def _worker(root: Path, name: str) -> WorkerStatus | None:
    """Read the record of a worker; None if it has ended, or if its record is not one."""
    record = read_record(root, name)
    if record is None:
        return None
    heartbeat = max(0.0, time.time() - record["time"])
    try:
        if not own_leases().seems_alive(root, Process.parse(name)):
            return None
    except ValueError:
        return None
    return WorkerStatus(
        name,
        record["host"],
        record["pid"],
        record.get("device", ""),
        tuple(record.get("runs", ())),
        record.get("step", 0),
        record.get("steps", 0),
        record.get("steps_per_second", 0.0),
        heartbeat,
        record.get("submitted", 0),
    )


def worker_log(root: Path, run: str) -> str:
    """Read what workers logged about a run, in order of time; "" if no worker has had it."""
    sections: list[str] = []
    for name in _names(root, ".txt"):
        with suppress(OddFile):
            content = files.disk.read(log_path(root, name), math.inf) or b""
            sections += log_sections(content.decode(errors="replace"), run)
    return "".join(sorted(sections, key=lambda each: each[:_TIME]))


def status_lines(status: StoreStatus) -> Sequence[str]:
    """Describe the runs of a store and how fast they are trained, in two lines at most."""
    counts = ", ".join(f"{count:,} {state}" for state, count in status.counts.items())
    lines = [f"{count_noun(len(status.runs), 'run')}: {counts}"]
    if (left := status.seconds_left) is not None:
        lines.append(
            f"{status.speed:,.1f} steps/s of all runs together, "
            f"{status.networks_per_hour:,.1f} runs/h, {duration(left)} left"
        )
    elif status.steps_left:
        count = sum(worker.submitted for worker in status.workers)
        wait = f", but {count_noun(count, 'run')} submitted to workers or a queue" if count else ""
        lines.append(f"nothing is being trained{wait}; {status.steps_left:,} steps are left")
    return lines


def duration(seconds: float) -> str:
    """Return a time in words.

    >>> duration(1), duration(50), duration(4000), duration(12_208), duration(400_000)
    ('1 second', '50 seconds', '67 minutes', '3 h 23 min', '111 hours')
    """
    if seconds < 120:
        return count_noun(round(seconds), "second")
    minutes = round(seconds / 60)
    if minutes < 120:
        return f"{minutes} minutes"
    hours = minutes // 60
    return f"{hours} h {minutes % 60} min" if hours < 48 else f"{seconds / 3600:.0f} hours"
