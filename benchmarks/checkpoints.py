"""What it costs to make checkpoints survive a power failure: python benchmarks/checkpoints.py.

Trains lanes for a few steps and writes checkpoints of all of them, as `unweave train` does every 30
seconds: with folders synced once per checkpoint, after every file, and not at all.
"""

from __future__ import annotations

import contextlib
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from unittest.mock import patch

import torch

import unweave as uw
from unweave.core import files
from unweave.training import Lanes, Silent, lane_group
from unweave.training.interrupt import Interrupt
from unweave.training.run import Run
from unweave.training.store import RunFolder

ROUNDS = 9


class Unsynced(files.Disk):
    """A disk whose folders are never synced."""

    def sync_folder(self, path: Path) -> None:
        """Do nothing."""


def group_of_lanes(count: int, root: Path) -> lane_group.LaneGroup:
    """Return lanes of the default network, with folders."""
    dataset = uw.Shapes2D(positions=4, orientations=3).load(torch.device("cpu"))
    runs = [Run(data=uw.Shapes2D(), seed=seed).resolve(dataset) for seed in range(count)]
    folders: list[RunFolder | None] = []
    for run in runs:
        folders.append(folder := RunFolder(root / run.digest))
        folder.create(run)
    lanes = Lanes(runs, dataset, dataset.device, "fp32", False)
    return lane_group.LaneGroup(lanes, folders, [None] * count, Silent(), Interrupt(), 30.0)


def seconds(save: Callable[[], object]) -> float:
    """Return the time of a call."""
    start = time.perf_counter()
    save()
    return time.perf_counter() - start


def main(count: int = 64) -> None:
    """Print the time of a checkpoint of all lanes; rounds alternate on a busy machine."""
    ways = {
        "never": lambda: patch.object(files, "disk", Unsynced()),
        "once per checkpoint": contextlib.nullcontext,
        "after every file": lambda: patch.object(lane_group, "sync_once", contextlib.nullcontext),
    }
    times: dict[str, list[float]] = {name: [] for name in ways}
    with tempfile.TemporaryDirectory(dir=".") as root:
        group = group_of_lanes(count, Path(root))
        for _ in range(ROUNDS):
            for name, way in ways.items():
                with way():
                    times[name].append(seconds(group._write_checkpoint))
    for name, each in times.items():
        print(f"{count} lanes, folders synced {name}: {statistics.median(each):.3f} s")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
