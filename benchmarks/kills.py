"""Kill a training at random moments, resume it, and compare the bits with an undisturbed one.

    python benchmarks/kills.py [--kills 30] [--seed 0]

A sweep of three runs, one of which breaks, is trained by `python -m unweave train` twice: once
undisturbed, and once with SIGKILL at random moments: some of them anywhere, also while Python
starts, and most of them soon after a file of the store has changed. When a training ends before it
is killed, its files are compared and it begins again from nothing. The exit code is 1 if a file
differs or is left over.
"""

from __future__ import annotations

import argparse
import random
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

COMMAND = (
    "train data=shapes2d data.side=16 data.positions=4 data.orientations=1 network=mlp "
    "network.hidden=[32] latent.size=4 batch_size=16 steps=300 objective.beta=1,4,1e30 "
    "--device cpu --threads 1 --checkpoint-seconds 0.05"
)
STARTING = 0.2  # share of kills at any moment after the start


def start(store: Path) -> subprocess.Popen[bytes]:
    """Start to train."""
    command = [sys.executable, "-m", "unweave", *COMMAND.split(), "--store", str(store)]
    quiet = subprocess.DEVNULL
    return subprocess.Popen(command, stdout=quiet, stderr=quiet)


def results(store: Path) -> dict[str, bytes]:
    """Return all files by name, but the older checkpoint that a failed run keeps.

    Which one that is depends on the clock.
    """
    failed = {path.parent for path in store.glob("*/failed.json")}
    return {
        str(path.relative_to(store)): path.read_bytes()
        for path in sorted(store.glob("*/*"))
        if not (path.parent in failed and path.name.startswith("state-"))
    }


def change(store: Path) -> frozenset[tuple[str, int]]:
    """Return what changes whenever a file of the store is written, renamed or deleted."""
    return frozenset(
        (str(path), path.stat().st_mtime_ns) for path in store.glob("*") if path.exists()
    )


def kill_somewhere(process: subprocess.Popen[bytes], store: Path, draw: random.Random) -> bool:
    """Kill a process at a random moment; return False if it ended first."""
    before, began = change(store), time.monotonic()
    anywhere = draw.random() < STARTING
    after = draw.uniform(0, 20) if anywhere else 600.0
    while process.poll() is None and time.monotonic() - began < after:
        if not anywhere and change(store) != before:
            time.sleep(draw.expovariate(0.5))
            break
        time.sleep(0.002)
    if process.poll() is not None:
        return False
    process.kill()
    process.wait()
    return True


def main() -> None:
    """Kill, resume and compare; print what was found."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=30)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    draw = random.Random(options.seed)
    with tempfile.TemporaryDirectory() as folder:
        whole, killed = Path(folder) / "whole", Path(folder) / "killed"
        start(whole).wait()
        expected = results(whole)
        kills = compared = different = unfinished = 0
        while kills < options.kills:
            process = start(killed)
            if kill_somewhere(process, killed, draw):
                kills += 1
                unfinished += len(list(killed.glob("*/.unfinished-*")))
            if kills < options.kills and process.returncode < 0:
                continue
            start(killed).wait()
            compared += 1
            different += results(killed) != expected
            shutil.rmtree(killed)
    print(
        f"{kills} kills, which left {unfinished} unfinished files; {compared} trainings of "
        f"{len(expected)} files ended after them, of which {different} differ from the undisturbed"
    )
    sys.exit(1 if different or not expected else 0)


if __name__ == "__main__":
    main()
