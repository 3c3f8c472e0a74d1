"""Kill workers, nodes and the driver of a study on a Ray cluster, and compare the bits.

    python benchmarks/hundred_kills.py [--kills 100] [--runs 60] [--steps 1000] [--hosts] [--seed 0]

A study of small runs, in tasks of two, is trained twice by `python -m unweave train`: by one
process that nothing disturbs, and on a Ray cluster of three nodes on this machine, each with one
core, and a head without cores. Three of five kills are of a worker, one is of a node (its raylet
and all of its workers; it is started again after a few seconds), and one is of the driver (the same
command is started again at once). All are SIGKILLs. They are spread at random over the progress of
the study, so that all of them come before its end, and every second worker is killed while it
writes a file, if one does soon. With --hosts, each node has a host name of its own, and a lease is
taken over from another node only when its heartbeats have stopped for a minute.

Steps are counted by the objective. What a run resumes from is in the logs of the workers, and is
compared with the checkpoints that were in the store before. The exit code is 1 if a file differs,
is missing or is left over, if a step before a checkpoint was trained again, or if a driver ended
with an error. It takes 20 minutes on two busy cores, and needs Linux and Ray: pip install
'unweave[ray]'.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import json
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import unweave as uw
from unweave.core.schedules import Weight
from unweave.objectives import Term, VAEObjective

LANES, NODES = 2, 3
COMMAND = (
    "train data=shapes2d data.side=16 data.positions=4 data.orientations=1 network=mlp "
    "network.hidden=[64] latent.size=4 batch_size=16 objective=hundred_kills:CountedVAE "
    f"objective.beta=1,4 --device cpu --threads 1 --lanes {LANES} --checkpoint-seconds 0.5"
)
COUNTS = "UNWEAVE_BENCHMARK_COUNTS"  # the folder in which each process counts its steps
KINDS = ("worker", "worker", "worker", "node", "driver")
BEGUN = re.compile(r" (?:starts?|resumes? at step (\d+)), ")  # a line in the log of a worker


@uw.spec
class CountedVAE(VAEObjective):
    """A beta-VAE that counts the steps of its process in a file."""

    beta: Weight = 1.0

    def loss(self, forward: Any, batch: Any, noise: Any) -> dict[str, Term]:
        """Return the two terms."""
        count_step()
        return {
            "distortion": Term(1.0, forward.distortion),
            "rate": Term(self.beta, forward.rate),
        }


def count_step() -> None:
    """Add a byte to the file of this process."""
    os.write(counts_file(), b".")


@functools.cache
def counts_file() -> int:
    """Open the file in which this process counts."""
    path = Path(os.environ[COUNTS]) / str(os.getpid())
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)


def start(store: Path, options: argparse.Namespace, on: str) -> subprocess.Popen[bytes]:
    """Start to train; what it prints is in a file beside the store."""
    command = [sys.executable, "-m", "unweave", *COMMAND.split(), f"steps={options.steps}"]
    command.append(f"seed=0..{options.runs // 2 - 1}")
    with store.with_suffix(".txt").open("ab") as printed:
        return subprocess.Popen(
            [*command, "--store", str(store), "--on", on], stdout=printed, stderr=printed
        )


class Audit(threading.Thread):
    """Watches a store: how far its runs are, and from which steps they resume."""

    def __init__(self, store: Path) -> None:
        super().__init__(daemon=True)
        self.store = store
        self.ended = threading.Event()
        self.states: dict[str, set[int]] = {}  # the steps of the checkpoints of unfinished runs
        self.reached: dict[str, int] = {}  # the newest checkpoint of each run
        self.begun = self.resumed = 0  # attempts at tasks
        self.too_early: list[str] = []  # those that did not begin at the newest checkpoint
        self._read: dict[Path, int] = {}  # bytes of each log
        self._runs: dict[Path, list[str]] = {}  # of the newest task in each log

    def run(self) -> None:
        """Look twenty times a second."""
        while not self.ended.wait(0.05):
            self.look()

    def look(self) -> None:
        """Read checkpoints, then logs.

        An attempt that the logs show for the first time began after the last look, so the
        checkpoints of that look were there before it.
        """
        before, self.states = self.states, {}
        for folder in self.store.glob("[!.]*"):
            names = os.listdir(folder)
            steps = {int(name[6:].partition(".")[0]) for name in names if name[:6] == "state-"}
            self.reached[folder.name] = max(steps, default=self.reached.get(folder.name, 0))
            if "weights.safetensors" not in names:
                self.states[folder.name] = steps
        for log in self.store.glob(".workers/*.txt"):
            content = log.read_bytes()[self._read.get(log, 0) :]
            lines = content[: content.rfind(b"\n") + 1]
            self._read[log] = self._read.get(log, 0) + len(lines)
            for line in lines.decode().splitlines():
                self._hear(log, line, before)

    def _hear(self, log: Path, line: str, before: dict[str, set[int]]) -> None:
        """Take note of a line in the log of a worker."""
        if " cpu: " in line:
            self._runs[log] = line.partition(" cpu: ")[2].split(", ")
        elif found := BEGUN.search(line):
            step, runs = int(found[1] or 0), self._runs[log]
            states = [before[run] for run in runs if run in before]
            newest = max(set.intersection(*states), default=0) if states else 0
            self.begun += 1
            self.resumed += bool(step)
            if step < newest:
                self.too_early.append(f"{', '.join(runs)} at {step}, and there was {newest}")


def children(pid: int) -> list[int]:
    """Return the processes that a process has started."""
    found = []
    with contextlib.suppress(OSError):  # it has ended
        for path in Path(f"/proc/{pid}/task").glob("*/children"):
            found += [int(child) for child in path.read_text().split()]
    return found


def is_worker(pid: int) -> bool:
    """Return whether a process that a raylet has started does tasks."""
    with contextlib.suppress(OSError):
        return b"Agent" not in Path(f"/proc/{pid}/cmdline").read_bytes()
    return False


def kill(pids: Iterable[int]) -> None:
    """End processes at once."""
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


class Killer:
    """Kills parts of a cluster that trains, and starts them again."""

    def __init__(self, cluster: Any, store: Path, options: argparse.Namespace) -> None:
        self.cluster, self.store, self.options = cluster, store, options
        self.draw = random.Random(options.seed)
        self.nodes = [self.start_node(number) for number in range(NODES)]
        self.kills = Counter[str]()
        self.met: dict[str, Counter[str]] = {kind: Counter() for kind in KINDS}
        self.start_driver()

    def start_driver(self) -> None:
        """Start the command."""
        self.driver = start(self.store, self.options, f"ray:address={self.cluster.address}")

    def start_node(self, number: int) -> Any:
        """Start a node with one core."""
        name = {"UNWEAVE_HOST": f"host{number}"} if self.options.hosts else {}
        node = self.cluster.add_node(num_cpus=1, env_vars=name)
        node.number = number
        return node

    def workers(self, node: Any) -> list[int]:
        """Return the workers of a node."""
        return [pid for pid in children(raylet(node)) if is_worker(pid)]

    def every_worker(self) -> list[int]:
        """Return the workers of all nodes."""
        return [pid for node in self.nodes for pid in self.workers(node)]

    def kill(self, kind: str) -> bool:
        """Kill one of a kind; return False if the driver ended before."""
        if kind == "worker":
            writes = self.draw.random() < 0.5
            until = time.monotonic() + 5
            while not (found := self.every_worker()) or (
                writes and not (found := self.writing(found)) and time.monotonic() < until
            ):
                if self.driver.poll() is not None:
                    return False
            killed = [self.draw.choice(found or self.every_worker() or [0])]
        if self.driver.poll() is not None:
            return False
        if kind == "worker":
            kill(killed)
        elif kind == "node":
            node = self.nodes.pop(self.draw.randrange(NODES))
            killed = self.workers(node)
            kill([raylet(node), *children(raylet(node))])
        else:
            killed = self.every_worker()
            self.driver.kill()
            self.driver.wait()
        self.kills[kind] += 1
        self.met[kind] += Counter(map(self.phase, killed))
        if kind == "node":
            self.cluster.remove_node(node, allow_graceful=False)
            time.sleep(self.draw.uniform(0, 5))
            self.nodes.append(self.start_node(node.number))
        elif kind == "driver":
            self.start_driver()
        return True

    def writing(self, pids: list[int]) -> list[int]:
        """Return those of the workers that are writing a file."""
        folders = {path.parent for path in self.store.glob("[!.]*/.unfinished-*")}
        return [pid for pid in pids if folders & self.held(pid)]

    def held(self, pid: int) -> set[Path]:
        """Return the run folders that a process has the lease of."""
        found = set()
        for path in self.store.glob("[!.]*/lease-*.json"):
            with contextlib.suppress(OSError, ValueError):
                if json.loads(path.read_bytes())["worker"].split("-")[-2] == str(pid):
                    found.add(path.parent)
        return found

    def phase(self, pid: int) -> str:
        """Return what a process was doing when it was killed."""
        if not self.held(pid):
            return "starting or idle"
        return "writing a file" if self.writing([pid]) else "training"


def raylet(node: Any) -> int:
    """Return the process that leads a node."""
    return int(node.all_processes["raylet"][0].process.pid)


def train_with_kills(store: Path, audit: Audit, options: argparse.Namespace) -> list[str]:
    """Train on a cluster with kills; return what went wrong."""
    from ray.cluster_utils import Cluster

    settings = {"worker_register_timeout_seconds": 20}  # how long Ray waits for a killed one
    head = {"num_cpus": 0, "_system_config": settings}
    cluster = Cluster(initialize_head=True, head_node_args=head)
    killer = Killer(cluster, store, options)
    draw = killer.draw
    deck = [KINDS[n % len(KINDS)] for n in range(options.kills)]
    draw.shuffle(deck)
    moments = sorted(draw.uniform(0, 0.9) for _ in deck)
    for kind, moment in zip(deck, moments, strict=True):
        while sum(audit.reached.values()) < moment * options.runs * options.steps:
            if killer.driver.poll() is not None:
                break
            time.sleep(0.02)
        time.sleep(draw.uniform(0, 3))
        if not killer.kill(kind):
            break
        if killer.kills.total() % 10 == 0:
            print(f"{killer.kills.total()} kills, {moment:.0%} of the steps", flush=True)
    code = killer.driver.wait()
    cluster.shutdown()
    for kind, met in killer.met.items():
        doing = ", ".join(f"{number} {phase}" for phase, number in sorted(met.items()))
        print(f"{killer.kills[kind]} kills of a {kind}; workers met: {doing}")
    wrong = []
    if code:
        printed = store.with_suffix(".txt").read_text().splitlines()
        wrong = [f"the driver ended with code {code}, and printed last:", *printed[-20:]]
    if (made := killer.kills.total()) < options.kills:
        wrong.append(f"the study ended after {made} of {options.kills} kills")
    return wrong


def results(store: Path) -> dict[str, bytes]:
    """Return all files by name, but the logs of workers."""
    paths = (path for path in sorted(store.rglob("*")) if path.is_file())
    kept = (path for path in paths if path.parent.name != ".workers" or path.suffix != ".txt")
    return {str(path.relative_to(store)): path.read_bytes() for path in kept}


def main() -> None:
    """Train, kill and compare; print what was found."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--runs", type=int, default=60)
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--hosts", action="store_true", help="each node has its own host name")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    tasks = options.runs // LANES
    here = str(Path(__file__).parent)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        os.environ["PYTHONPATH"] = os.pathsep.join([here, os.environ.get("PYTHONPATH", "")])
        os.environ["RAY_TMPDIR"] = name  # a cluster that other commands do not find
        counted, begun = {}, time.monotonic()
        for store in ("whole", "killed"):
            counts = folder / f"{store}-steps"
            counts.mkdir()
            os.environ[COUNTS] = str(counts)
            if store == "whole":
                start(folder / store, options, "local").wait()
                print(f"undisturbed: {time.monotonic() - begun:.0f} s", flush=True)
            else:
                audit = Audit(folder / store)
                audit.start()
                wrong = train_with_kills(folder / store, audit, options)
                audit.ended.set()
                audit.join()
                audit.look()
            counted[store] = sum(path.stat().st_size for path in counts.iterdir())
        expected, found = results(folder / "whole"), results(folder / "killed")
    again = audit.begun - tasks  # each attempt takes one more step, on a copy
    extra = counted["killed"] - counted["whole"] - again
    print(
        f"{audit.begun} attempts at {tasks} tasks, of which {audit.resumed} resumed from a "
        f"checkpoint and {len(audit.too_early)} began before the newest one\n"
        f"{extra:,} of {tasks * options.steps:,} steps were taken again"
    )
    differ = [name for name in expected.keys() & found.keys() if expected[name] != found[name]]
    missing, left = sorted(expected.keys() - found.keys()), sorted(found.keys() - expected.keys())
    print(
        f"{len(expected)} files of {options.runs} runs: {len(differ)} differ, {len(missing)} are "
        f"missing, {len(left)} are left over; {time.monotonic() - begun:.0f} s in all"
    )
    wrong += [f"differs: {name}" for name in sorted(differ)]
    wrong += [f"missing: {name}" for name in missing] + [f"left over: {name}" for name in left]
    wrong += [f"began too early: {text}" for text in audit.too_early]
    wrong += [] if len(expected) == 5 * options.runs else ["the undisturbed study is not complete"]
    wrong += [] if audit.begun >= tasks else ["the logs of workers do not show all attempts"]
    if wrong:
        print("\n".join(wrong))
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
