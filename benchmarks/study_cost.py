"""Compare the cost model with studies that were trained, and apply it to Locatello et al. 2019.

    python benchmarks/study_cost.py [--price 3] [--preemptions 0.1] [--waiting 300]

Step times are those of docs/speed.md: the network of Kim & Mnih, batch 64, bf16, on an H200. The
model is fitted to 1 and 256 runs side by side, and compared with 16 and 64, and with the networks
in docs/papers/kim2018, which were measured while they trained. The study of Locatello et al. 2019
has 12,600 networks: 6 methods, 6 weights, 50 seeds and 7 datasets, of 300,000 steps each. Three of
the methods were not timed, and are taken to be as fast as the beta-VAE.
"""

from __future__ import annotations

import argparse
import itertools
import json
from dataclasses import replace
from pathlib import Path

from unweave.bench.costs import Conditions, StepTime, estimate

MEASURED = {  # microseconds for a step of one run, by the number of runs side by side
    "beta-vae": {1: 307, 16: 96, 64: 81, 256: 78},
    "beta-tcvae": {1: 348, 16: 101, 64: 82, 256: 79},
    "factor-vae": {1: 745, 16: 201, 64: 174, 256: 169},
}
METHODS = ["beta-vae"] * 4 + ["beta-tcvae", "factor-vae"]  # three stand for others
STEPS, LANES = 300_000, 64
PAPER_HOURS = 2.52 * 365.25 * 24  # on P100s
PAPERS = Path(__file__).parent.parent / "docs" / "papers"


def fit(method: str) -> StepTime:
    """Fit the step time of a method."""
    one, most = MEASURED[method][1] / 1e6, 256 * MEASURED[method][256] / 1e6
    return StepTime.fit(1, one, 256, most)


def compare_steps() -> None:
    """Print fitted and measured step times."""
    for method, measured in MEASURED.items():
        step = fit(method)
        print(f"{method}: {1e6 * step.fixed:.0f} us, and {1e6 * step.each:.1f} us for each run")
        for lanes in (16, 64):
            model = 1e6 * step.seconds(lanes) / lanes
            print(f"  {lanes} runs: {model:.1f} us a run, measured {measured[lanes]} us")


def compare_studies() -> list[float]:
    """Print the seconds of trained networks beside those of the model; return their ratios."""
    ratios = []
    for path in sorted(PAPERS.glob("kim2018/shapes2d*.jsonl")):
        networks = [json.loads(line) for line in path.read_text().splitlines()]
        kinds = {
            (
                each["run"]["objective"]["kind"],
                each["run"]["steps"],
                each["cost"]["lanes"],
                each["cost"]["seconds"],
            )
            for each in networks
            if each["cost"]["precision"] == "bf16"
        }
        for method, steps, lanes, seconds in sorted(kinds):
            model = steps * fit(method).seconds(lanes) / lanes
            ratios.append(seconds / model)
            print(
                f"{path.stem}, {lanes} runs of {method} side by side, {steps:,} steps: "
                f"{model:.1f} s a network, "
                f"measured {seconds:.1f} s, {seconds / model:.2f} times as long"
            )
    return ratios


def locatello(factor: float) -> list[float]:
    """Return the seconds of training of each task, which take `factor` times the steps alone."""
    tasks = []
    for method, _dataset in itertools.product(METHODS, range(7)):
        step, runs = fit(method), 6 * 50
        sizes = [LANES] * (runs // LANES) + [runs % LANES]
        tasks += [factor * STEPS * step.seconds(size) for size in sizes]
    return tasks


def main() -> None:
    """Print the comparisons and the estimate."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--price", type=float, default=3.0, help="of an hour of a GPU")
    parser.add_argument("--preemptions", type=float, default=0.1, help="in an hour of a GPU")
    parser.add_argument("--waiting", type=float, default=300.0, help="seconds for another GPU")
    options = parser.parse_args()
    compare_steps()
    ratios = compare_studies()
    steady = Conditions(1)
    spot = Conditions(1, preemptions=options.preemptions, waiting=options.waiting)
    for factor, conditions in itertools.product((1.0, max(ratios)), (steady, spot)):
        tasks = locatello(factor)
        kind = "preemptible" if conditions.rate else "steady"
        for gpus in (1, 8, 64):
            found = estimate(tasks, replace(conditions, workers=gpus))
            mean, low, high = (seconds / 3600 for seconds in found.times)
            hours = found.spent.total / 3600
            print(
                f"{factor:.2f} times the steps, {gpus} {kind} GPUs: {mean:.1f} h ({low:.1f} to "
                f"{high:.1f}; by the model at least {found.least / 3600:.1f}), {hours:.1f} "
                f"GPU-hours ({found.spent.lost / 3600:.2f} lost), {options.price * hours:,.0f} in "
                f"all, {PAPER_HOURS / hours:.0f} times fewer than in the paper"
            )


if __name__ == "__main__":
    main()
