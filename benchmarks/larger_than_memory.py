"""Training on a file larger than memory, and on a folder of images, against arrays in memory.

    python benchmarks/larger_than_memory.py [--gigabytes 5] [--images 5000] [--seconds 20]

Makes an .npy file of random colour images of 64 x 64 and a folder of pictures of mixed sizes in a
folder of its own (--folder), trains on each through the doors of `unweave train`, and prints the
memory that the process took at most (all of it, with libraries) and the speed as a share of that on
an array in memory of the same shape. Each case has a process of its own; the shares are medians
over rounds that alternate with the array in memory in the same process.
"""

from __future__ import annotations

import argparse
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import torch
from PIL import Image

import unweave as uw
from unweave.core.parallel import usable_cores
from unweave.data import Data, Dataset, from_array
from unweave.networks import Network
from unweave.training import Lanes, pick_device
from unweave.training.memory import reuse_memory
from unweave.training.workers import LanePool

SHAPE = (64, 64, 3)
HELD = 20_000  # images of the array in memory
NETWORKS: dict[str, Network] = {"kim2018": uw.Kim2018(), "mlp": uw.MLP(hidden=(64,))}


def make_array(path: Path, gigabytes: float) -> None:
    """Random images, 12,288 bytes each, written block by block."""
    each = int(np.prod(SHAPE))
    count = int(gigabytes * 2**30 / each)
    block = np.random.default_rng(0).integers(0, 256, (4096, *SHAPE), dtype=np.uint8)
    with path.open("wb") as file:
        header = {"descr": "|u1", "fortran_order": False, "shape": (count, *SHAPE)}
        np.lib.format.write_array_header_1_0(file, header)
        for start in range(0, count, len(block)):
            file.write(np.roll(block, start, 0)[: count - start].data)


def make_pictures(folder: Path, count: int) -> None:
    """Pictures of sizes from 40 to 300 pixels."""
    rng = np.random.default_rng(0)
    folder.mkdir()
    for number in range(count):
        height, width = rng.integers(40, 300, 2)
        pixels = rng.integers(0, 256, (height // 8 + 1, width // 8 + 1, 3), dtype=np.uint8)
        picture = Image.fromarray(pixels).resize((int(width), int(height)))
        picture.save(folder / f"{number:06d}.jpg")


def crew_of(data: Data, dataset: Dataset, network: Network) -> LanePool:
    """What takes the steps of a run."""
    run = uw.Run(data=data, network=network).resolve(dataset)
    pool = LanePool(Lanes([run], dataset, dataset.device))
    pool.run(20)
    return pool


def seconds_for(pool: LanePool, steps: int) -> float:
    """Time for steps, after which the device has nothing left to do."""
    start = time.perf_counter()
    pool.run(steps)
    if pool.lanes.device.type == "cuda":
        torch.cuda.synchronize()
    return time.perf_counter() - start


def measure(data: Data, network: Network, device: torch.device, seconds: float) -> str:
    """Load, train in rounds beside an array in memory, and say what it took."""
    start = time.perf_counter()
    dataset = data.load(device)
    loading = time.perf_counter() - start
    with reuse_memory(device):
        pool = crew_of(data, dataset, network)
        steps = max(1, round(20 * seconds / 8 / seconds_for(pool, 20)))
        spec, held = from_array(
            np.random.default_rng(1).integers(0, 256, (HELD, *SHAPE), dtype=np.uint8),
            device=device,
        )
        other = crew_of(spec, held, network)
        times = [[seconds_for(each, steps) for each in (pool, other)] for _ in range(8)]
    share = statistics.median(there / here for here, there in times)
    fastest = 64 * steps / statistics.median(here for here, _ in times)
    # ru_maxrss is in kilobytes on Linux and in bytes on a Mac.
    unit = 1 if sys.platform == "darwin" else 1024
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
    feed = pool.lanes.sampler.feed
    passed = f", {pool.lanes.step // feed.steps} windows passed" if feed else ""
    return (
        f"loaded in {loading:6.1f} s   {fastest:9,.0f} images/s   "
        f"{share:5.0%} of the speed in memory   {most / 1e9:.2f} GB at most{passed}"
    )


def main() -> None:
    """Make the data, and measure every case in a process of its own."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--gigabytes", type=float, default=5)
    parser.add_argument("--images", type=int, default=5000)
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--folder", type=Path, default=None, help="for the data, some gigabytes")
    parser.add_argument("--only", default="", help="networks with this in their name")
    parser.add_argument("--case", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    torch.set_num_threads(usable_cores())
    if options.case:
        path, network = options.case
        data: Data = uw.Folder(path) if Path(path).is_dir() else uw.Arrays(path)
        device = pick_device(options.device)
        print(measure(data, NETWORKS[network], device, options.seconds), flush=True)
        return
    with tempfile.TemporaryDirectory(dir=options.folder) as place:
        array, pictures = Path(place) / "array.npy", Path(place) / "pictures"
        make_array(array, options.gigabytes)
        make_pictures(pictures, options.images)
        print(f"{usable_cores()} cores, {options.gigabytes:g} GB, {options.images} pictures")
        for path in (array, pictures):
            for network in (name for name in NETWORKS if options.only in name):
                print(f"{path.name:9s} {network:8s} ", end="", flush=True)
                command = [sys.executable, __file__, "--case", str(path), network]
                more = ["--device", options.device, "--seconds", str(options.seconds)]
                subprocess.run([*command, *more], check=True)


if __name__ == "__main__":
    main()
