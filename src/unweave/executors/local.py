"""Train on this machine: in this process, or with a process for each GPU."""

from __future__ import annotations

import contextlib
import functools
import itertools
import math
import os
import queue
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from typing import Any, Literal

import torch

from unweave.core.parallel import usable_cores
from unweave.core.spec import Count, spec, tag
from unweave.evaluation.scoring import ScoringTask
from unweave.evaluation.tasks import Job, ThisProcess, Trained
from unweave.executors.driver import Pool, RemoteExecutor
from unweave.executors.worker import Ended
from unweave.training import Progress, pick_device
from unweave.training.memory import device_memory

_TIDY = 10.0  # seconds that an idle worker has to end
_MOST_WORDS = 2000  # characters of what a worker printed before it died


@spec
class Local(RemoteExecutor):
    """Train on this machine, with one process for each GPU.

    With one device, this process trains. On a CPU it uses all cores itself, so more processes
    rarely help.
    """

    processes: Count | None = None
    """Number of processes; by default one for each GPU."""
    lanes: Count | None = None
    """Runs in a task; by default as many as give every process work, at most 64."""
    tries: Count = 3
    """Submissions of a task without progress."""
    kind: Literal["local"] = tag("local")

    def check(self) -> None:
        """Do nothing: everything is installed."""

    def devices(self, device: str) -> list[str]:
        """Return the device of each process, for what `--device` says."""
        gpus = torch.cuda.device_count() if device in ("auto", "cuda") else 0
        each = [f"cuda:{n}" for n in range(gpus)] if gpus > 1 else [str(pick_device(device))]
        return [each[n % len(each)] for n in range(self.processes or len(each))]

    def is_remote(self, device: str) -> bool:
        """Return whether there are several devices, or processes."""
        return len(self.devices(device)) > 1

    def run(
        self, jobs: Iterable[Job], progress: Progress, deadline: float = math.inf
    ) -> Iterator[Trained]:
        """Train in this process, or in one for each device."""
        jobs = iter(jobs)
        first = next(jobs, None)
        if first is None:
            return
        every = itertools.chain([first], jobs)
        if self.is_remote(first.task.device):
            yield from super().run(every, progress, deadline)
        else:
            yield from ThisProcess(self.lanes).run(every, progress, deadline)

    def score(self, task: ScoringTask) -> Iterator[dict[str, dict[str, Any]]]:
        """Score in this process, or in one for each device."""
        yield from super().score(task) if self.is_remote(task.device) else [task.run()]

    @contextlib.contextmanager
    def open(self, device: str, store: str) -> Iterator[Pool]:
        """Start a process for each device when it gets its first task."""
        pool = LocalPool(self.devices(device))
        try:
            yield pool
        finally:
            pool.close()


class LocalPool:
    """Workers on this machine, one for each device; one that died is started again."""

    def __init__(self, devices: Sequence[str]) -> None:
        kinds = [torch.device(each) for each in devices]
        self.slots = self.window = len(devices)
        self.device, self.threads = kinds[0].type, max(1, usable_cores() // len(devices))
        gpus = [device for device in kinds if device.type == "cuda"]
        self.memory = min(map(device_memory, gpus), default=None)
        self._devices = devices
        self._workers: dict[int, _Worker] = {}  # by place
        self._replies: queue.Queue[tuple[int, str]] = queue.Queue()
        self._keys = itertools.count()
        self._busy: dict[int, int] = {}  # the key of the attempt at each place

    def probe(self, text: str) -> list[Hashable]:
        """Ask one worker: all are on this machine."""
        return self.submit([text])

    def submit(self, texts: Sequence[str]) -> list[Hashable]:
        """Give each text to an idle worker."""
        return [self._begin(text) for text in texts]

    def _begin(self, text: str) -> int:
        place = next(n for n in range(self.slots) if n not in self._busy)
        if place not in self._workers:
            told = functools.partial(self._tell, place)
            self._workers[place] = _Worker(self._devices[place], told)
        self._workers[place].send(text)
        self._busy[place] = key = next(self._keys)
        return key

    def _tell(self, place: int, reply: str) -> None:
        self._replies.put((place, reply))

    def wait(self, seconds: float) -> dict[Hashable, Ended]:
        """Wait for a reply, or for a worker that died."""
        with contextlib.suppress(queue.Empty):
            place, reply = self._replies.get(timeout=seconds)
            ended = Ended.read(reply) if reply else Ended("died", self._workers[place].last_words)
            if not reply:
                self._workers.pop(place).close()
            if place in self._busy:
                return {self._busy.pop(place): ended}
        return {}

    def stop(self) -> None:
        """Let busy workers save and stop."""
        for place in self._busy:
            self._workers[place].process.terminate()

    def close(self) -> None:
        """End the workers: those that are busy at once, the others when they have tidied up."""
        for place, worker in self._workers.items():
            worker.close(kill=place in self._busy)


class _Worker:
    """A process that does one task at a time, and the thread that hears its replies."""

    def __init__(self, device: str, tell: Callable[[str], object]) -> None:
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115
        self.process = subprocess.Popen(
            [sys.executable, "-m", "unweave.executors.worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
            env=_environment(device),
            start_new_session=True,  # Ctrl-C is the parent's alone
        )
        threading.Thread(target=self._hear, args=(tell,), daemon=True).start()

    def _hear(self, tell: Callable[[str], object]) -> None:
        """Tell every reply, and "" when the process has ended."""
        assert self.process.stdout is not None
        with self.process.stdout as replies:
            for reply in replies:
                if reply.endswith("\n"):  # otherwise it was killed while it wrote
                    tell(reply)
        self.process.wait()
        tell("")

    def send(self, text: str) -> None:
        """Let the worker do a task; one that has died meanwhile does not."""
        assert self.process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.write(f"{text}\n")
            self.process.stdin.flush()

    @property
    def last_words(self) -> str:
        """The last line that it has printed to stderr."""
        size = self._errors.seek(0, os.SEEK_END)
        self._errors.seek(max(0, size - _MOST_WORDS))
        lines = self._errors.read().decode(errors="replace").strip().splitlines()
        return lines[-1] if lines else ""

    def close(self, kill: bool = True) -> None:
        """End the process, or let it end if it is idle."""
        assert self.process.stdin is not None
        if kill:
            self.process.kill()
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.close()
        try:
            self.process.wait(_TIDY)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self._errors.close()


def _environment(device: str) -> dict[str, str]:
    """Return the environment of a worker: it sees its own GPU, and imports what this one does."""
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    if (index := torch.device(device).index) is not None:
        every = os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",")
        environment["CUDA_VISIBLE_DEVICES"] = every[index] if any(every) else str(index)
    return environment
