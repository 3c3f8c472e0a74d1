"""Lanes on the CPU against the same runs one after another, in one run.

    python benchmarks/lanes.py [--lanes 1,2,4,8,16] [--rounds 9] [--seconds 0.5] [--only mlp]

Both sides take the steps behind `unweave train`, in one process and with the same threads: several
lanes together, and a single run, whose step each of them would take one after another. Short
rounds alternate, in an order that changes, so that a busy machine slows both alike. Printed are
milliseconds for a step of one lane, medians over rounds, and how much faster lanes are: the ratio
of one round, its median and quartiles over rounds. One lane is the run alone against itself.
"""

from __future__ import annotations

import argparse
import statistics
import time

import numpy as np
import torch

import unweave as uw
from unweave.bench.throughput import OBJECTIVES
from unweave.core.parallel import usable_cores
from unweave.data import Data, Dataset, from_array
from unweave.networks import Network
from unweave.training import Lanes
from unweave.training.memory import reuse_memory
from unweave.training.workers import LanePool

CPU = torch.device("cpu")


class Side:
    """A pool of lanes to be timed."""

    def __init__(self, run: uw.Run, dataset: Dataset, lanes: int) -> None:
        runs = [uw.Run(**{**vars(run), "seed": seed}) for seed in range(lanes)]
        self.lanes, self.pool = lanes, LanePool(Lanes(runs, dataset, CPU))
        self.times: list[float] = []  # milliseconds for a step of one lane

    def warm_up(self, seconds: float) -> None:
        """Take a few steps that do not count, and choose the number of steps of a round."""
        self.pool.run(3)
        self.steps = max(2, round(seconds / (self._seconds(2) / 2)))

    def measure(self) -> None:
        """Time one round."""
        time.sleep(0.02)  # until the other side's threads have gone to sleep
        self.times.append(1000 * self._seconds(self.steps) / self.steps / self.lanes)

    def _seconds(self, steps: int) -> float:
        start = time.perf_counter()
        self.pool.run(steps)
        return time.perf_counter() - start


def networks() -> dict[str, tuple[Data, Dataset, Network]]:
    """Return networks with their data, from the smallest to the largest."""
    digits, small = from_array(np.random.default_rng(0).random((2_000, 8, 8), np.float32))
    shapes = uw.Shapes2D()
    dataset = shapes.load(CPU)
    return {
        "linear, 8x8": (digits, small, uw.MLP(hidden=())),
        "mlp 64, 8x8": (digits, small, uw.MLP(hidden=(64,))),
        "mlp 256 256, 64x64": (shapes, dataset, uw.MLP(hidden=(256, 256))),
        "kim2018, 64x64": (shapes, dataset, uw.Kim2018()),
    }


def compare(run: uw.Run, dataset: Dataset, lanes: int, rounds: int, seconds: float) -> str:
    """Measure one case and return its row of the table."""
    alone, together = (Side(run, dataset, count) for count in (1, lanes))
    for side in (alone, together):
        side.warm_up(seconds)
    for turn in range(rounds):
        for side in (alone, together) if turn % 2 else (together, alone):
            side.measure()
    ratios = [one / other for one, other in zip(alone.times, together.times, strict=True)]
    low, half, high = statistics.quantiles(ratios, n=4)
    plan = together.pool.plan
    dealt = f"{plan.parts:2d} x {plan.workers} x {plan.threads}"
    times = [statistics.median(side.times) for side in (alone, together)]
    return f"{times[0]:9.2f} {times[1]:9.2f}   {half:5.2f} ({low:.2f} to {high:.2f})   {dealt}"


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--lanes", default="1,2,4,8,16")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--seconds", type=float, default=0.5)
    parser.add_argument("--only", default="", help="cases with this in their name")
    options = parser.parse_args()
    torch.set_num_threads(usable_cores())
    print(f"{torch.get_num_threads()} threads, torch {torch.__version__}")
    print("network             objective   lanes  ms alone  in lanes   faster by"
          "                parts x workers x threads")  # fmt: skip
    with reuse_memory(CPU):
        for name, (data, dataset, network) in networks().items():
            for kind, objective in OBJECTIVES.items():
                if options.only not in (case := f"{name:19s} {kind:11s}"):
                    continue
                run = uw.Run(data=data, network=network, objective=objective).resolve(dataset)
                for lanes in map(int, options.lanes.split(",")):
                    row = compare(run, dataset, lanes, options.rounds, options.seconds)
                    print(f"{case} {lanes:4d} {row}", flush=True)


if __name__ == "__main__":
    main()
