"""Whether lower precision on a GPU changes what is learned: the same seeds in each precision.

    python benchmarks/precisions.py [--seeds 10] [--steps 50000] [--precisions fp32,tf32,bf16]

Trains the beta-VAE of Kim & Mnih on shapes2d, all seeds of a precision as lanes. Prints mean and
standard deviation over seeds of distortion, rate and FactorVAE score, and the time it took.
"""

from __future__ import annotations

import argparse
import statistics
import time

import torch

import unweave as uw
from unweave.training import Precision, pick_device
from unweave.training.precision import check_precision

_ROWS = 25  # of the log, of 200 steps each, that distortion and rate are means of


def measured(precision: Precision, seeds: int, steps: int) -> dict[str, list[float]]:
    """Distortion, rate and score of every seed."""
    run = {"objective": uw.BetaVAE(beta=4.0), "network": uw.Kim2018(), "steps": steps}
    device = str(pick_device("auto"))
    models = uw.fit(
        uw.Shapes2D(), seed=range(seeds), device=device, precision=precision, **run
    )  # fmt: skip
    scores = uw.evaluate(models)
    found = {
        term: [statistics.fmean(row[term] for row in model.log[-_ROWS:]) for model in models]
        for term in ("distortion", "rate")
    }
    return found | {
        key: [float(each[key]) for each in scores]
        for key in ("factor_vae_score/kim2018", "mig/locatello2019")
    }


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--steps", type=int, default=50_000)
    parser.add_argument("--precisions", default="fp32,tf32,bf16")
    options = parser.parse_args()
    for name in options.precisions.split(","):
        start = time.perf_counter()
        found = measured(check_precision(name), options.seeds, options.steps)
        seconds = time.perf_counter() - start
        spread = [
            f"{key} {statistics.fmean(values):.3f} ({statistics.pstdev(values):.3f})"
            for key, values in found.items()
        ]
        print(f"{name}  {seconds:.0f} s  " + "  ".join(spread), flush=True)
        for key, values in found.items():
            print("   ", key, " ".join(f"{value:.3f}" for value in values), flush=True)
    print(f"on {torch.cuda.get_device_name() if torch.cuda.is_available() else 'the CPU'}")


if __name__ == "__main__":
    main()
