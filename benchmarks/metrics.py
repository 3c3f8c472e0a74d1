"""The cost of metrics of a table, compared with a plain implementation of the same protocol.

    python benchmarks/metrics.py [--rows 10000] [--only dci/locatello2019 ...] [--ours] [--trees]

A table of rows with 5 factors of 3, 6, 40, 32 and 32 values, as dSprites has them, and 10 codes
that are bent and noisy mixtures of them. Every metric of the registry is timed; so is its
protocol written as loops over scikit-learn and numpy, the way it is usually written. Where that
takes minutes, a part of its trees or samples is run and the time scaled up, which a mark says; the
part has no value to compare. Seconds are those of the clock; beside them are those of all
processors together, which other work on the machine does not change much. With `--ours` the plain
formulations are left out. With `--trees` nothing is timed: the boosted trees of `dci` are compared
with all of scikit-learn's on the rows that both are fitted to, which takes ten minutes.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from plain_metrics import PLAIN, Part, boosted, entropic
from unweave.metrics import METRICS, Table, evaluate

SIZES = (3, 6, 40, 32, 32)


def table(rows: int, dims: int = 10, seed: int = 0) -> Table:
    """Codes that mix a third of the factors each."""
    rng = np.random.default_rng(seed)
    factors = np.stack([rng.integers(size, size=rows) for size in SIZES], 1)
    v = (factors - factors.mean(0)) / factors.std(0)
    mix = rng.standard_normal((len(SIZES), dims)) * (rng.random((len(SIZES), dims)) < 0.35)
    codes = np.tanh(0.7 * v @ mix) + 0.15 * rng.standard_normal((rows, dims))
    return Table(codes, factors, scales=np.full(codes.shape, 0.15))


def compare_trees(data: Table) -> None:
    """Print the parts of DCI by our trees and by scikit-learn's, and their differences."""
    ours = METRICS["dci/locatello2019"](data)
    matrix, right = boosted(np.asarray(data.codes), np.asarray(data.factors), 100)
    theirs = {
        "disentanglement": entropic(matrix),
        "completeness": entropic(matrix.T),
        "informativeness": right,
    }
    print(f"{'':24}{'ours':>9}{'theirs':>9}{'off by':>9}")
    for name, value in theirs.items():
        print(f"{name:24}{ours.parts[name]:9.4f}{value:9.4f}{ours.parts[name] - value:9.4f}")
    print(f"{'importances, at most':42}{np.abs(ours.matrix - matrix).max():9.4f}")


def seconds(work: Callable[[], object]) -> tuple[float, np.ndarray]:
    """Return the result of a function as a number, and its wall and CPU seconds.

    What is done in less than a tenth of a second is done again, five times, and the least counts.
    """
    taken = np.full(2, np.inf)
    for _ in range(5):
        start = np.array([time.perf_counter(), time.process_time()])
        value = float(work())
        taken = np.minimum(taken, [time.perf_counter(), time.process_time()] - start)
        if taken[0] > 0.1:
            break
    return value, taken


def main() -> None:
    """Time the metrics and print a row for each."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=10_000)
    parser.add_argument("--only", nargs="*", default=list(METRICS))
    parser.add_argument("--ours", action="store_true", help="leave the plain formulations out")
    parser.add_argument("--trees", action="store_true", help="compare boosted trees, no times")
    options = parser.parse_args()
    warnings.simplefilter("ignore", ConvergenceWarning)
    warnings.simplefilter("ignore", FutureWarning)
    data = table(options.rows)
    if options.trees:
        compare_trees(data)
        return
    z, v = np.asarray(data.codes), np.asarray(data.factors)
    evaluate(table(100), metrics="all")  # what is loaded first is loaded by now
    total = np.zeros((2, 2))
    head = f"{'value':>9}{'seconds':>10}{'cpu':>9}"
    print(f"{'metric':32}{head}{'plain':>9}{head[9:]}{'ratio':>8}{'of cpu':>8}")
    for key in options.only:
        value, ours = seconds(lambda key=key: METRICS[key](data))
        line = f"{key:32}{value:9.3f}{_times(ours)}"
        total[0] += ours
        if not options.ours:
            entry = PLAIN[key]
            plain, share, rest = entry if isinstance(entry, Part) else Part(entry, 1.0)
            value, taken = seconds(lambda plain=plain: plain(z, v))
            taken /= share
            if rest is not None:
                taken += seconds(lambda rest=rest: rest(z, v))[1]
            total[1] += taken
            shown = f"{value:9.3f}" if share == 1 else f"{'':9}"
            scaled_up = "" if share == 1 else f"  scaled up from {share:.0%}"
            line += f"{shown}{_times(taken)}{_ratios(ours, taken)}{scaled_up}"
        print(line, flush=True)
    rest = "" if options.ours else f"{'':9}{_times(total[1])}{_ratios(*total)}"
    print(f"{'one after the other':32}{'':9}{_times(total[0])}{rest}")
    for name, asked in (("quick ones, by evaluate", None), ("all, by evaluate", "all")):
        taken = seconds(lambda asked=asked: len(evaluate(data, metrics=asked)))[1]
        print(f"{name:32}{'':9}{_times(taken)}")


def _times(taken: np.ndarray) -> str:
    return f"{taken[0]:10.3f}{taken[1]:9.3f}"


def _ratios(ours: np.ndarray, plain: np.ndarray) -> str:
    return "".join(f"{ratio:8.1f}" for ratio in plain / ours)


if __name__ == "__main__":
    main()
