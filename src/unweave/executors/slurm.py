"""Train on a Slurm cluster, through submitit."""

import contextlib
import json
import logging
import math
import os
import re
import shlex
import shutil
import signal
import subprocess
import time
from collections.abc import Hashable, Iterable, Mapping, Sequence, Set
from contextlib import AbstractContextManager
from pathlib import Path
from types import FrameType
from typing import Annotated, Any, ClassVar, Literal
from uuid import uuid4

from pydantic import Field, NonNegativeInt

from unweave.core import files, signals
from unweave.core.console import err
from unweave.core.hints import count_noun
from unweave.core.spec import Count, spec, tag
from unweave.core.text import error_line
from unweave.executors.driver import Pool, RemoteExecutor, import_engine
from unweave.executors.worker import Ended, work
from unweave.training.heartbeats import FOLDER
from unweave.training.interrupt import Interrupt

_MANY = 10**9  # tasks that may wait: the queue is Slurm's
_ARRAY = 1000  # jobs of an array, of which Slurm allows 1,000 unless it is set up otherwise
_LOOK = 60.0  # seconds between two looks at the queue
_LOOK_STOPPED = 2.0  # the same while jobs are cancelled
_LEFT = re.compile(r"left-\w+\.json$")  # names of records of jobs whose command has ended
_ANSWER = 30.0  # seconds that Slurm has to answer


@spec
class Slurm(RemoteExecutor):
    """Train on a Slurm cluster, one array job of tasks with a GPU each.

    A job that is preempted or reaches its time limit saves what it trains and is queued again. The
    machines need unweave and a store that all of them see.
    """

    partition: str | None = None
    """Partition of the cluster; by default Slurm's."""
    minutes: Annotated[int, Field(ge=5, le=2**53)] = 240
    """Time limit of a job, which saves 90 seconds before it and is queued again."""
    gpus: NonNegativeInt = 1
    """GPUs of a task."""
    cpus: Count = 4
    """CPU cores of a task."""
    gigabytes: Count = 16
    """Main memory of a task."""
    jobs: Count = 16
    """Jobs of an array that run at once; tasks that are submitted again are further arrays."""
    requeues: NonNegativeInt = 100
    """Times that a job may reach its time limit."""
    account: str | None = None
    """Account that is charged; by default the user's."""
    extra: str = ""
    """More options of sbatch, as in "--qos=high --constraint=a100"."""
    setup: str = ""
    """Shell command that a job runs first, such as "module load cuda"."""
    folder: str | None = None
    """Folder of submitit's files; by default .workers/slurm in the store."""
    cluster: Literal["slurm", "local"] = "slurm"
    """"local" runs the jobs on this machine, to try settings."""
    lanes: Count | None = None
    """Runs in a task; by default as many as give every job work, at most 64."""
    tries: Count = 3
    """Submissions of a task without progress."""
    kind: Literal["slurm"] = tag("slurm")
    outlasting: ClassVar[bool] = True

    def __post_init__(self) -> None:
        self._options()

    def _options(self) -> dict[str, str]:
        """Read `extra`, by the names that submitit has for options."""
        options = {}
        for word in shlex.split(self.extra):
            name, _, value = word.removeprefix("--").partition("=")
            if not word.startswith("--") or not value:
                raise ValueError(f"extra: expected options of sbatch, --name=value, got {word!r}")
            options[name.replace("-", "_")] = value
        return options

    def check(self) -> None:
        """Raise a ValueError if submitit or Slurm is not installed."""
        import_engine("submitit", "slurm")
        if self.cluster == "slurm" and shutil.which("sbatch") is None:
            raise ValueError(
                "there is no Slurm here, the command sbatch is not found: run this on a login node "
                "of the cluster, or try it with --on slurm:cluster=local"
            )

    def open(self, device: str, store: str) -> AbstractContextManager[Pool]:
        """Prepare to submit jobs, and say at the end which of them go on without this command."""
        executor = self._executor(store)
        return contextlib.closing(ArrayJobs(executor, self, device, Path(executor.folder)))

    def _executor(self, store: str) -> Any:
        submitit = import_engine("submitit", "slurm")
        logging.getLogger("submitit").setLevel(logging.ERROR)  # our messages say what matters
        if self.folder is None and "://" in store:
            raise ValueError(
                f"submitit keeps files in a folder that all machines share, and {store} is not "
                "one: use --on slurm:folder=/shared/jobs"
            )
        folder = Path(self.folder or Path(store) / FOLDER / "slurm")
        executor = submitit.AutoExecutor(
            folder, cluster=self.cluster, **{f"{self.cluster}_max_num_timeout": self.requeues}
        )
        executor.update_parameters(
            name="unweave",
            timeout_min=self.minutes,
            gpus_per_node=self.gpus,
            cpus_per_task=self.cpus,
            mem_gb=self.gigabytes,
            slurm_array_parallelism=self.jobs,
            **{"slurm_partition": self.partition} if self.partition else {},
            **{"slurm_account": self.account} if self.account else {},
            **{"slurm_additional_parameters": more} if (more := self._options()) else {},
            **{f"{self.cluster}_setup": [self.setup]} if self.setup else {},
        )
        return executor


class ArrayJobs:
    """Tasks as jobs of Slurm arrays."""

    memory: float | None = None
    places: Set[str] | None = None  # the queue is Slurm's

    def __init__(self, executor: Any, settings: Slurm, device: str, folder: Path) -> None:
        if device == "cuda" and not settings.gpus:
            raise ValueError("--device cuda needs GPUs: use --on slurm:gpus=1, or --device cpu")
        self._executor = executor
        self.slots, self.window = settings.jobs, _MANY
        self.device = "cuda" if settings.gpus and device != "cpu" else "cpu"
        self.threads = settings.cpus
        self._queue = _Queue() if settings.cluster == "slurm" else None
        self._jobs: dict[Hashable, Any] = {}
        self._texts: dict[Hashable, str] = {}
        self._left = _Left(folder) if self._queue else None
        self._excluded: Set[str] = frozenset()
        self._stopped = self._seen = False  # whether a job has left something in the folder

    def probe(self, text: str) -> list[Hashable]:
        """Send no probe: it would wait in the queue, and each task checks the store itself."""
        return []

    def submit(self, texts: Sequence[str], avoid: Set[str] = frozenset()) -> list[Hashable]:
        """Submit arrays of jobs, one job for each text, to other hosts than those to avoid."""
        self._exclude(avoid)
        taken = {text: self._left.take(text) for text in texts} if self._left else {}
        jobs = {text: job for text, job in taken.items() if job}
        new = [text for text in texts if text not in jobs]
        try:
            for at in range(0, len(new), _ARRAY):
                part = new[at : at + _ARRAY]
                jobs |= zip(part, self._submit(part), strict=True)
        finally:  # `stop` has to know those before an error
            self._jobs |= {job.job_id: job for job in jobs.values()}
            self._texts |= {job.job_id: text for text, job in jobs.items()}
        return [jobs[text].job_id for text in texts]

    def _submit(self, texts: Sequence[str]) -> list[Any]:
        try:
            return list(self._executor.map_array(Requeued(), texts))
        except Exception as error:  # submitit raises errors of many kinds
            if self._excluded:  # perhaps there are no other hosts
                self._exclude(frozenset())
                return self._submit(texts)
            raise ValueError(f"Slurm rejected the jobs: {error_line(error, -1)}") from None

    def _exclude(self, hosts: Set[str]) -> None:
        if hosts != self._excluded:
            self._executor.update_parameters(slurm_exclude=",".join(sorted(hosts)) or None)
            self._excluded = hosts

    def close(self) -> None:
        """Record the jobs that go on without this command, which the next one takes over."""
        if self._left:
            going = {} if self._stopped else {key: self._texts[key] for key in self._jobs}
            self._left.write(going)

    def wait(self, seconds: float) -> dict[Hashable, Ended]:
        """Return the jobs that have ended, after some seconds if there are none.

        Raises:
            ValueError: a job ended without a trace, and so far no job has left one.
        """
        if not (ended := self._look()):
            time.sleep(seconds)
        self._jobs = {key: job for key, job in self._jobs.items() if key not in ended}
        return ended

    def stop(self) -> None:
        """Cancel the jobs, which save their runs first; those in the queue have no results."""
        self._stopped = True
        if self._queue and self._jobs:
            _call("scancel", *self._jobs)
        elif not self._queue:
            for job in self._jobs.values():
                job.cancel(check=False)

    def _look(self) -> dict[Hashable, Ended]:
        """Return the jobs that have results, or that Slurm no longer lists."""
        if not self._queue:
            return {key: self._read(job) for key, job in self._jobs.items() if job.done()}
        names = _names({job.paths.folder for job in self._jobs.values()})
        over = [key for key, job in self._jobs.items() if job.paths.result_pickle.name in names]
        ended = {key: self._read(self._jobs[key]) for key in over}
        missing = self._queue.missing(self._jobs, _LOOK_STOPPED if self._stopped else _LOOK)
        for key in self._jobs.keys() & missing.keys() - ended.keys():
            if self._stopped:
                ended[key] = Ended("stopped")
            elif missing[key] >= files.SHOWN_AFTER:
                ended[key] = self._lost(self._jobs[key], names)
        return ended

    def _read(self, job: Any) -> Ended:
        if self._stopped:  # submitit waits 15 seconds for each result
            return Ended("stopped")
        self._seen = True
        try:
            return Ended.read(job.result())
        except Exception as error:  # submitit raises errors of many kinds if there is no result
            return Ended("died", f"job {job.job_id}: {error_line(error, -1)}")

    def _lost(self, job: Any, names: set[str]) -> Ended:
        """Describe the end of a job that has no result."""
        self._seen |= any(each.paths.stdout.name in names for each in self._jobs.values())
        if job.paths.stdout.name in names:
            lines = job.paths.stderr.read_text(errors="replace").strip().splitlines()
            last = f", and printed last: {lines[-1]}" if lines else ""
            return Ended("died", f"job {job.job_id} ended without a result{last}")
        text = (
            f"job {job.job_id} ended without a file in {job.paths.folder}: it was cancelled in the "
            "queue, or the jobs cannot see this folder; use a folder that all machines share"
        )
        if not self._seen:
            raise ValueError(text)
        return Ended("died", text)


class _Left:
    """Jobs that go on though their command was ended by SIGTERM, with their tasks.

    A command takes over those whose tasks it would submit, instead of submitting them again.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._files = [folder / name for name in files.disk.names(folder) if _LEFT.match(name)]
        self._texts: dict[str, str] = {}  # by job
        for path in self._files:
            with contextlib.suppress(OSError, ValueError):  # another command has deleted it
                self._texts |= json.loads(path.read_bytes())
        self._texts = _those_listed(self._texts)

    def take(self, text: str) -> Any:
        """Return the job that does a task, or None."""
        for key, each in self._texts.items():
            if each == text:
                del self._texts[key]
                return import_engine("submitit", "slurm").SlurmJob(self._folder, key)
        return None

    def write(self, more: Mapping[Hashable, str]) -> None:
        """Record and print the jobs that go on: these, and earlier ones not taken over."""
        going = _those_listed({**self._texts, **{str(key): text for key, text in more.items()}})
        signals.jobs_go_on = any(str(key) in going for key in more)
        if going:
            files.write_json(self._folder / f"left-{uuid4().hex}.json", going)
            ids = " ".join(dict.fromkeys(key.partition("_")[0] for key in going))
            err.print(
                f"{count_noun(len(going), 'job')} of Slurm will go on: repeat the command to "
                f"collect the results, or cancel with scancel {ids}",
                soft_wrap=True,
            )
        for path in self._files:
            files.delete(path)


def _those_listed(texts: dict[str, str]) -> dict[str, str]:
    """Return the jobs that wait or run."""
    listed = _listed() if texts else None
    return texts if listed is None else {key: texts[key] for key in texts if key in listed}


class _Queue:
    """What Slurm has in its queue. It is asked with squeue, which works without accounting."""

    def __init__(self) -> None:
        self._looked = -math.inf
        self._since: dict[Hashable, float] = {}

    def missing(self, keys: Iterable[Hashable], every: float) -> dict[Hashable, float]:
        """Return the jobs that are not listed, with the seconds since this was first seen."""
        if time.monotonic() - self._looked >= every:
            listed = _listed()
            self._looked = now = time.monotonic()
            if listed is not None:
                gone = (key for key in keys if key not in listed)
                self._since = {key: self._since.get(key, now) for key in gone}
        return {key: time.monotonic() - since for key, since in self._since.items()}


def _listed() -> set[str] | None:
    """Return the ids of this user's jobs that wait or run, or None if Slurm does not answer."""
    found = _call("squeue", "--noheader", "--array", "--format=%i", f"--user={os.getuid()}")
    return None if found is None else set(found.split())


def _call(*command: Hashable) -> str | None:
    """Run a command of Slurm; return what it prints, or None if it fails."""
    given: dict[str, Any] = {"capture_output": True, "text": True, "timeout": _ANSWER}
    try:
        return str(subprocess.run([str(each) for each in command], check=True, **given).stdout)
    except (OSError, subprocess.SubprocessError):
        return None


def _names(folders: Iterable[Path]) -> set[str]:
    """List folders: network file systems show a new file sooner in a list than by its name."""
    return {name for folder in folders for name in files.disk.names(folder)}


class Requeued:
    """Does a task in a job; when the job is preempted or its time is up, saves and queues again."""

    def __call__(self, text: str) -> str:
        """Do a task. Slurm repeats its signals, and only the first has an effect."""
        due: list[tuple[int, FrameType | None]] = []
        with Interrupt(unattended=True) as interrupt:

            def save(number: int, frame: FrameType | None) -> None:
                due.append((number, frame))
                interrupt.requested = True
                os.kill(os.getpid(), signal.SIGTERM)  # which ends scoring

            requeue: Any = signal.signal(signal.SIGUSR2, save)
            try:
                reply = work(text)
                if due and Ended.read(reply).how == "stopped":
                    requeue(*due[0])  # exits
                return reply
            finally:
                signal.signal(signal.SIGUSR2, requeue)

    def checkpoint(self, text: str) -> Any:
        """Return what submitit queues again: the same task, which resumes from its checkpoint."""
        return import_engine("submitit", "slurm").helpers.DelayedSubmission(self, text)
