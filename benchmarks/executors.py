"""Train a sweep on one and on two Ray nodes of this machine, and kill one of two half way.

    python benchmarks/executors.py [--runs 40] [--steps 300] [--lanes 2]

Each node has one core. The overhead of a task is the time of all nodes that is not spent in tasks,
divided by their number: starting worker processes, which import torch, is most of it. What the cost
model expects of two nodes follows from the tasks of one. The exit code is 1 if a file differs from
that of the plain command, or if the killed node cost a run. It needs Ray: pip install
'unweave[ray]'.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import threading
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import ray
import torch
from ray.cluster_utils import Cluster

import unweave as uw
from unweave.bench.costs import Conditions, estimate
from unweave.evaluation.fit import train_runs
from unweave.evaluation.tasks import Executor, Job, Trained
from unweave.training import Progress
from unweave.training.own_data import Datasets
from unweave.training.run import Run
from unweave.training.store import Store

SMALL = {"side": 16, "positions": 4, "orientations": 1}


@dataclass
class Timed:
    """An executor that adds up the seconds of tasks."""

    executor: Executor
    seconds: list[float] = field(default_factory=list)

    def load_on(self, device: str) -> torch.device:
        """Return where the executor needs the data."""
        return self.executor.load_on(device)

    def run(
        self, jobs: Iterable[Job], progress: Progress, deadline: float = float("inf")
    ) -> Iterator[Trained]:
        """Train as the executor does."""
        for trained in self.executor.run(jobs, progress, deadline):
            self.seconds += [trained.seconds] if trained.seconds else []
            yield trained


def sweep(runs: int, steps: int) -> list[Run]:
    """Return small runs that differ in their seeds."""
    common: dict[str, Any] = {
        "data": uw.Shapes2D(**SMALL),
        "network": uw.MLP((64,)),
        "latent": uw.Gaussian(4),
        "likelihood": uw.likelihoods.Bernoulli(),
        "batch_size": 16,
        "steps": steps,
    }
    return [uw.Run(seed=seed, **common) for seed in range(runs)]


def files(root: Path) -> dict[str, bytes]:
    """Return the files of all runs by name."""
    found = [path for path in sorted(root.glob("*/*")) if path.parent.name[0] != "."]
    return {str(path.relative_to(root)): path.read_bytes() for path in found}


def train(on: Executor, root: Path, runs: list[Run]) -> tuple[float, list[float]]:
    """Train runs; return the wall time and the seconds of each task."""
    timed, begun = Timed(on), time.monotonic()
    options: dict[str, Any] = {"on": timed, "device": "cpu", "threads": 1}
    train_runs(runs, Datasets(torch.device("cpu")), Store(root), **options)
    return time.monotonic() - begun, timed.seconds


def start(nodes: int) -> tuple[Cluster, list[Any]]:
    """Start a Ray cluster with this many nodes of one core each, and a head without cores."""
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 0})
    return cluster, [cluster.add_node(num_cpus=1) for _ in range(nodes)]


def kill_half_way(cluster: Cluster, node: Any, root: Path, runs: int) -> None:
    """Kill a node as soon as half of the runs are finished."""
    while len(list(root.glob("*/weights.safetensors"))) < runs // 2:
        time.sleep(0.1)
    begun, there = time.monotonic(), len(list(root.glob("*/weights.safetensors")))
    cluster.remove_node(node, allow_graceful=False)
    while all(each["Alive"] for each in ray.nodes()):
        time.sleep(0.05)
    seconds = time.monotonic() - begun
    print(f"killed a node when {there} runs were finished; Ray noticed after {seconds:.1f} s")


def main() -> None:
    """Train, kill and compare; print what was found."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=40)
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--lanes", type=int, default=2)
    options = parser.parse_args()
    torch.set_num_threads(1)
    runs, differ = sweep(options.runs, options.steps), False
    with tempfile.TemporaryDirectory() as folder:
        seconds, _ = train(uw.Local(lanes=options.lanes), Path(folder) / "plain", runs)
        expected = files(Path(folder) / "plain")
        print(f"this process: {seconds:.1f} s for {len(runs)} runs")
        for nodes, kills in ((1, False), (2, False), (2, True)):
            root = Path(folder) / f"{nodes}-{kills}"
            cluster, workers = start(nodes)
            on = uw.Ray(address=cluster.address, lanes=options.lanes)
            if kills:
                given = cluster, workers[-1], root, len(runs)
                threading.Thread(target=kill_half_way, args=given, daemon=True).start()
            seconds, tasks = train(on, root, runs)
            cluster.shutdown()
            missing = [run for run in runs if not Store(root).folder(run).weights.exists()]
            other = sum(content != expected.get(name) for name, content in files(root).items())
            differ |= bool(missing or other or files(root).keys() != expected.keys())
            name = f"{nodes} Ray node{'s' * (nodes > 1)}{', one killed half way' * kills}"
            overhead = 1000 * (nodes * seconds - sum(tasks)) / len(tasks)
            if nodes == 1:
                alone = tasks, Conditions(2, starting=overhead / 1000, saving=0.0)
            print(
                f"{name}: {seconds:.1f} s, {len(tasks)} tasks of {sum(tasks) / len(tasks):.2f} s, "
                f"{overhead:.0f} ms of overhead each, {len(missing)} runs lost, "
                f"{other} files differ",
                flush=True,
            )
    expected_cost = estimate(*alone)
    print(
        f"of 2 Ray nodes, the cost model expects at least {expected_cost.least:.1f} s, and its "
        f"simulation {expected_cost.times[0]:.1f} s"
    )
    sys.exit(int(differ))


if __name__ == "__main__":
    main()
