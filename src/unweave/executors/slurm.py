"""Train on a Slurm cluster, through submitit."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import time
from collections.abc import Hashable, Iterator, Sequence, Set
from pathlib import Path
from types import FrameType
from typing import Any, ClassVar, Literal

from pydantic import NonNegativeInt

from unweave.core.spec import Count, spec, tag
from unweave.core.text import error_line
from unweave.executors.driver import Pool, RemoteExecutor, import_engine
from unweave.executors.worker import Ended, work
from unweave.training.heartbeats import FOLDER
from unweave.training.interrupt import Interrupt

_MANY = 10**9  # tasks that may wait: the queue is Slurm's
_ARRAY = 1000  # jobs of an array, of which Slurm allows 1,000 unless it is set up otherwise


@spec
class Slurm(RemoteExecutor):
    """Train on a Slurm cluster, one array job of tasks with a GPU each.

    A job that is preempted or reaches its time limit saves what it trains and is queued again. The
    machines need unweave and a store that all of them see.
    """

    partition: str | None = None
    """Partition of the cluster; by default Slurm's."""
    minutes: Count = 240
    """Time limit of a job; what is not done then is queued again."""
    gpus: NonNegativeInt = 1
    """GPUs of a task."""
    cpus: Count = 4
    """CPU cores of a task."""
    gigabytes: Count = 16
    """Main memory of a task."""
    jobs: Count = 16
    """Jobs that run at once."""
    requeues: NonNegativeInt = 100
    """Times that a job may reach its time limit."""
    account: str | None = None
    """Account that is charged; by default the user's."""
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

    def check(self) -> None:
        """Raise a ValueError if submitit or Slurm is not installed."""
        import_engine("submitit", "slurm")
        if self.cluster == "slurm" and shutil.which("sbatch") is None:
            raise ValueError(
                "there is no Slurm here, the command sbatch is not found: run this on a login node "
                "of the cluster, or try it with --on slurm:cluster=local"
            )

    @contextlib.contextmanager
    def open(self, device: str, store: str) -> Iterator[Pool]:
        """Prepare to submit jobs; they end by themselves."""
        yield ArrayJobs(self._executor(store), self, device)

    def _executor(self, store: str) -> Any:
        submitit = import_engine("submitit", "slurm")
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
        )
        return executor


class ArrayJobs:
    """Tasks as jobs of Slurm arrays."""

    memory: float | None = None
    places: Set[str] | None = None  # the queue is Slurm's

    def __init__(self, executor: Any, settings: Slurm, device: str) -> None:
        if device == "cuda" and not settings.gpus:
            raise ValueError("--device cuda needs GPUs: use --on slurm:gpus=1, or --device cpu")
        self._executor = executor
        self.slots, self.window = settings.jobs, _MANY
        self.device = "cuda" if settings.gpus and device != "cpu" else "cpu"
        self.threads = settings.cpus
        self._jobs: dict[Hashable, Any] = {}
        self._stopped = False
        self._excluded: Set[str] = frozenset()

    def probe(self, text: str) -> list[Hashable]:
        """Send no probe: it would wait in the queue, and each task checks the store itself."""
        return []

    def submit(self, texts: Sequence[str], avoid: Set[str] = frozenset()) -> list[Hashable]:
        """Submit arrays of jobs, one job for each text, to other hosts than those to avoid."""
        if avoid != self._excluded:
            self._executor.update_parameters(slurm_exclude=",".join(sorted(avoid)) or None)
            self._excluded = avoid
        keys: list[Hashable] = []
        for at in range(0, len(texts), _ARRAY):
            try:
                jobs = self._executor.map_array(Requeued(), texts[at : at + _ARRAY])
            except Exception as error:  # submitit raises errors of many kinds
                if avoid:  # perhaps there are no others
                    return keys + self.submit(texts[at:])
                raise ValueError(f"Slurm rejected the jobs: {error_line(error, -1)}") from None
            self._jobs |= {job.job_id: job for job in jobs}  # `stop` has to know them already
            keys += [job.job_id for job in jobs]
        return keys

    def wait(self, seconds: float) -> dict[Hashable, Ended]:
        """Return the jobs that have ended, after some seconds if there are none."""
        if not (done := [key for key, job in self._jobs.items() if job.done()]):
            time.sleep(seconds)
        return {key: self._ended(self._jobs.pop(key)) for key in done}

    def stop(self) -> None:
        """Cancel the jobs, which save their runs first; those in the queue have no results."""
        self._stopped = True
        for job in self._jobs.values():
            job.cancel(check=False)

    def _ended(self, job: Any) -> Ended:
        if self._stopped:  # submitit waits 15 seconds for each result
            return Ended("stopped")
        try:
            return Ended.read(job.result())
        except Exception as error:  # submitit raises errors of many kinds if there is no result
            return Ended("died", f"job {job.job_id}: {error_line(error, -1)}")


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
