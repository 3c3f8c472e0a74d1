"""Train on this machine: in this process, or with a process for each GPU."""

from __future__ import annotations

import contextlib
import itertools
import math
import os
import queue
import subprocess
import sys
import tempfile
import threading
from collections.abc import Hashable, Iterable, Iterator, Sequence, Set
from contextlib import AbstractContextManager
from typing import Any, Literal

import torch

from unweave.core.parallel import starting_processes, usable_cores
from unweave.core.spec import Count, spec, tag
from unweave.evaluation.scoring import ScoringTask
from unweave.evaluation.tasks import Job, ThisProcess, Trained
from unweave.executors.driver import Pool, RemoteExecutor
from unweave.executors.worker import Ended
from unweave.training import Progress, pick_device
from unweave.training.memory import device_memory

_TIDY = 10.0  # seconds that an idle worker has to end
_MOST_CHARACTERS = 2000  # of what a worker printed to stderr before it died


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
        """Return the device of each process, as `--device` requests."""
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

    def open(self, device: str, store: str) -> AbstractContextManager[Pool]:
        """Start a process for each device when it gets its first task."""
        return contextlib.closing(LocalPool(self.devices(device)))


class LocalPool:
    """Workers on this machine, one for each device; one that died is started again.

    A place is the number of a device in the list.
    """

    def __init__(self, devices: Sequence[str]) -> None:
        kinds = [torch.device(each) for each in devices]
        self.slots = len(devices)
        self.device, self.threads = kinds[0].type, max(1, usable_cores() // len(devices))
        gpus = [device for device in kinds if device.type == "cuda"]
        shares = (device_memory(gpu) / gpus.count(gpu) for gpu in gpus)
        self.memory = min(shares, default=None)
        self._devices = devices
        self._workers: dict[int, _Worker] = {}  # by place
        self._replies: queue.Queue[tuple[_Worker, str]] = queue.Queue()
        self._keys = itertools.count()
        self._busy: dict[int, int] = {}  # the attempt at each place
        self._queue: list[tuple[int, str, Set[str]]] = []  # attempts that must avoid idle places
        self._dropped: dict[Hashable, Ended] = {}  # attempts that `stop` found in the queue
        self.places = frozenset(map(str, range(len(devices))))

    @property
    def window(self) -> int:
        """One task at each place, besides those that wait for another place than those idle."""
        return len(self._devices) + len(self._queue)

    def probe(self, text: str) -> list[Hashable]:
        """Ask one worker: all are on this machine."""
        return self.submit([text])

    def submit(self, texts: Sequence[str], avoid: Set[str] = frozenset()) -> list[Hashable]:
        """Give each text to an idle worker, or to the next that is idle and not to be avoided."""
        added = [(next(self._keys), text, avoid) for text in texts]
        self._queue += added
        self._begin()
        return [key for key, *_ in added]

    def _begin(self) -> None:
        """Give texts of the queue to idle workers."""
        for each in list(self._queue):
            key, text, avoid = each
            idle = (place for place in range(len(self._devices)) if place not in self._busy)
            if (place := next((p for p in idle if str(p) not in avoid), None)) is not None:
                if place not in self._workers:
                    self._workers[place] = _Worker(self._devices[place], place, self._replies)
                self._workers[place].send(text)
                self._busy[place] = key
                self._queue.remove(each)

    def wait(self, seconds: float) -> dict[Hashable, Ended]:
        """Wait for a reply, or for a worker that died."""
        if self._dropped:
            dropped, self._dropped = self._dropped, {}
            return dropped
        try:
            worker, reply = self._replies.get(timeout=seconds)
        except queue.Empty:
            return {}
        place = worker.place
        if self._workers.get(place) is not worker:  # it has been replaced
            return {}
        ended = Ended.read(reply) if reply else Ended("died", worker.last_stderr_line)
        if ended.how == "died":  # also if it lives: an error may have left its device unusable
            self._workers.pop(place).close()
        if place not in self._busy:
            return {}
        key = self._busy.pop(place)
        self._begin()
        return {key: ended._replace(place=str(place))}

    def stop(self) -> None:
        """Ask busy workers to save and stop."""
        self._dropped = {key: Ended("stopped") for key, *_ in self._queue}
        self._queue.clear()
        for place in self._busy:
            self._workers[place].process.terminate()

    def close(self) -> None:
        """End the workers: those that are busy at once, the others when they have tidied up."""
        for place, worker in self._workers.items():
            worker.end(kill=place in self._busy)
        for worker in self._workers.values():
            worker.close(kill=False)


class _Worker:
    """A process that does one task at a time, and the thread that reads its replies."""

    def __init__(self, device: str, place: int, replies: queue.Queue[tuple[_Worker, str]]) -> None:
        self.place = place
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115
        with starting_processes():
            self.process = subprocess.Popen(
                [sys.executable, "-m", "unweave.executors.worker"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._errors,
                text=True,
                env=_environment(device),
                start_new_session=True,  # Ctrl-C is the parent's alone
            )
        threading.Thread(target=self._read_replies, args=(replies,), daemon=True).start()

    def _read_replies(self, replies: queue.Queue[tuple[_Worker, str]]) -> None:
        """Pass on every reply, and "" when the process has ended."""
        assert self.process.stdout is not None
        with self.process.stdout as lines:
            for line in lines:
                if line.endswith("\n"):  # otherwise it was killed while it wrote
                    replies.put((self, line))
        self.process.wait()
        replies.put((self, ""))

    def send(self, text: str) -> None:
        """Send a task to the worker; if it has died, nothing happens."""
        assert self.process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.write(f"{text}\n")
            self.process.stdin.flush()

    @property
    def last_stderr_line(self) -> str:
        """The last line of its stderr, which may say why it died."""
        size = self._errors.seek(0, os.SEEK_END)
        self._errors.seek(max(0, size - _MOST_CHARACTERS))
        lines = self._errors.read().decode(errors="replace").strip().splitlines()
        return f"it printed last: {lines[-1]}" if lines else ""

    def end(self, kill: bool) -> None:
        """Kill the process if it is busy; otherwise let it exit by itself."""
        assert self.process.stdin is not None
        if kill:
            self.process.kill()
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.close()

    def close(self, kill: bool = True) -> None:
        """End the process, and wait for it."""
        self.end(kill)
        try:
            self.process.wait(_TIDY)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self._errors.close()


def _environment(device: str) -> dict[str, str]:
    """Return the environment of a worker: its own GPU, and the same import path as this process."""
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    if (index := torch.device(device).index) is not None:
        every = os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",")
        environment["CUDA_VISIBLE_DEVICES"] = every[index] if any(every) else str(index)
    return environment
