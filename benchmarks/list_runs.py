"""Measure what `unweave runs` and `unweave status` cost in a store of many runs.

    python benchmarks/list_runs.py [--runs 5000]

The store is written here: every run has settings, the facts of its data, a log of 100 rows, the
scores of six metrics, and empty weights. Commands run in processes of their own; printed is the CPU
time of each, the median of three.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import torch

import unweave as uw
from unweave.training.records import record_to_bytes, rows_to_bytes
from unweave.training.run import Run
from unweave.training.store import ScoreFacts, run_to_record

COMMANDS = (
    "runs",
    "runs --csv",
    "runs --json",
    "runs --sort -mig",
    "runs --where objective.beta=4",
    "status",
    "cite RUN",
)
METRICS = ("mig", "sap", "dci", "modularity", "factor_vae", "beta_vae")


def write_store(root: Path, count: int) -> str:
    """Write run folders without training anything; return the name of one."""
    score = {"parts": {"shape": 0.1, "x": 0.5}, "matrix": [[0.1] * 10] * 5, "details": {"rows": 9}}
    data = uw.Shapes2D(positions=4, orientations=3)
    dataset = data.load(torch.device("cpu"))
    for seed in range(count):
        objective = uw.BetaVAE(beta=float(1 + seed % 8))
        run = Run(data=data, objective=objective, seed=seed).resolve(dataset)
        folder = root / run.digest
        folder.mkdir(parents=True)
        scores = {
            f"{name}/plain": {
                "name": name, "protocol": "plain", "value": 0.5 + seed / count, "interval": None,
                "null": None, "components": {}, **score,
            }
            for name in METRICS
        }  # fmt: skip
        facts = ScoreFacts("all", 10_000, "mean", step=29_700)._asdict() | {"scores": scores}
        for name, content in (("run.json", run_to_record(run)), ("scores.json", facts)):
            (folder / name).write_bytes(record_to_bytes(name, run.digest, content))
        rows = [
            {"step": 300 * n, "distortion": 40.0, "rate": 9.0, "loss": 49.0} for n in range(100)
        ]
        (folder / "log.jsonl").write_bytes(rows_to_bytes("log.jsonl", run.digest, rows))
        (folder / "weights.safetensors").touch()
    return run.digest


def cpu_seconds(words: list[str]) -> float:
    """Return the CPU time of a command in a process of its own."""
    before = os.times()
    command = [sys.executable, "-m", "unweave", *words]
    subprocess.run(command, stdout=subprocess.DEVNULL, check=True)
    after = os.times()
    return sum(after[2:4]) - sum(before[2:4])


def main() -> None:
    """Write a store, and measure the commands."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=5000)
    count = parser.parse_args().runs
    with tempfile.TemporaryDirectory() as folder:
        name = write_store(Path(folder), count)
        print(f"CPU seconds in a store of {count} runs")
        for text in COMMANDS:
            words = [name if word == "RUN" else word for word in text.split()]
            times = [cpu_seconds([*words, "--store", folder]) for _ in range(3)]
            print(f"{statistics.median(times):6.2f}  unweave {text}")


if __name__ == "__main__":
    main()
