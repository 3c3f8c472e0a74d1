"""Resident memory of a long training on the CPU, which must not grow.

    python benchmarks/memory.py [--steps 100000] [--lanes 1] [--every 10000]

Trains a tiny VAE, with a store, a checkpoint every five seconds and its terms measured every 1,000
steps, and prints the resident memory of this process at intervals. Ends with exit code 1 if it
grows by more than 1 MB per 10,000 steps in the second half.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch

import unweave as uw
from unweave.data import from_array
from unweave.evaluation.monitor import Measure, monitor_of
from unweave.training import Row, Silent, train
from unweave.training.store import Store

MOST = 1.0  # MB per 10,000 steps


class Meter(Silent):
    """Notes the resident memory in MB at multiples of a number of steps."""

    def __init__(self, every: int) -> None:
        self.every, self.found = every, dict[int, float]()

    def advance(self, step: int, rows: Sequence[Row]) -> None:
        """Print and keep the memory when it is due."""
        if step % self.every == 0:
            self.found[step] = resident()
            print(f"{step:>9,} steps  {self.found[step]:8.1f} MB", flush=True)

    def growth(self) -> float:
        """Fit a line to the second half; return its slope in MB per 10,000 steps."""
        steps, sizes = (np.array(each) for each in zip(*self.found.items(), strict=True))
        late = steps >= steps[-1] / 2
        return float(np.polyfit(steps[late] / 10_000, sizes[late], 1)[0])


def resident() -> float:
    """Return the resident memory of this process in MB (Linux)."""
    line = next(x for x in Path("/proc/self/status").read_text().splitlines() if "VmRSS" in x)
    return int(line.split()[1]) / 1024


def main() -> None:
    """Train, print the memory, and say whether it grows."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=100_000)
    parser.add_argument("--lanes", type=int, default=1)
    parser.add_argument("--every", type=int, default=10_000)
    options = parser.parse_args()
    torch.set_num_threads(1)
    data, dataset = from_array(np.random.default_rng(0).random((256, 4, 4), np.float32))
    runs = [
        uw.Run(
            data=data, network=uw.MLP((8,)), latent=uw.Gaussian(2), batch_size=8,
            steps=options.steps, seed=seed,
        ).resolve(dataset)
        for seed in range(options.lanes)
    ]  # fmt: skip
    monitor = monitor_of(Measure(every=1_000, rows=64), runs, dataset)
    meter = Meter(options.every)
    with tempfile.TemporaryDirectory() as folder:
        train(runs, dataset, Store(Path(folder)), meter, 5.0, monitor=monitor)
    growth = meter.growth()
    print(f"growth in the second half: {growth:.2f} MB per 10,000 steps (at most {MOST})")
    sys.exit(growth > MOST)


if __name__ == "__main__":
    main()
