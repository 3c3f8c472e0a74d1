"""The cost of evaluation compared with training: encoding, the exact decomposition and the metrics.

    python benchmarks/evaluation.py [--models 8] [--images 737280] [--rows 10000]
                                    [--samples 10000] [--precision fp32] [--device auto]
                                    [--threads 0]

Models of the network of Kim & Mnih on shapes2d, in lanes: a step of training as `unweave bench`
times it, which is also all the training they get; then all images encoded in lanes, against one
model after the other; the exact decomposition of the rate over these codes; tables of `rows`
images; and all metrics of the tables on all cores, against one after the other. What is done for a
few models only is scaled up to all, and said to be.
"""

from __future__ import annotations

import argparse
import resource
import time
from collections.abc import Callable, Iterator
from typing import TypeVar

import torch

import unweave as uw
from unweave.bench.throughput import timed
from unweave.core.parallel import process_map, usable_cores
from unweave.evaluation.evaluate import encode
from unweave.metrics import evaluate as evaluate_table
from unweave.training import Lanes, Outcome, Precision, pick_device
from unweave.training.engine import Engine
from unweave.training.precision import check_precision, matmul_precision
from unweave.training.run import Run
from unweave.training.state import model_weights

STEPS = 50_000  # of a run, as a study has them
FEW = 2  # models that what scales plainly is measured on
WARM = 5_000  # images encoded first, so that kernels are compiled

T = TypeVar("T")


def trained_models(
    count: int, device: torch.device, precision: Precision
) -> tuple[list[uw.FittedModel], float]:
    """Return models after the steps that were timed, and the seconds per step of one model."""
    dataset = uw.Shapes2D().load(device)
    runs = [Run(seed=seed).resolve(dataset) for seed in range(count)]
    with matmul_precision(precision):
        lanes = Lanes(runs, dataset, device, precision, compiles=True)
        engine = Engine(lanes)
        step = timed(lambda: engine.run(1), device, 2.0) / 1e6 / count
    states = [
        {n: v.clone() for n, v in model_weights(lanes.state.lane(k)).items()} for k in range(count)
    ]
    outcomes = [Outcome(*pair, [], None) for pair in zip(runs, states, strict=True)]
    return [uw.FittedModel(outcome, dataset) for outcome in outcomes], step


def seconds(work: Callable[[], T], device: torch.device) -> tuple[T, float]:
    """Return the result of a function without arguments, and the seconds it takes."""
    start = time.perf_counter()
    result = work()
    if device.type == "cuda":
        torch.cuda.synchronize()
    return result, time.perf_counter() - start


def encoded(models: list[uw.FittedModel], images: int) -> int:
    """Encode images with all models in lanes; return how many codes there are."""
    return sum(len(one.rows) for one in encode(models, images))


def figures(options: argparse.Namespace, device: torch.device) -> Iterator[tuple[str, float, str]]:
    """Yield each part of the work, its seconds for all models, and how they were measured."""
    models, step = trained_models(options.models, device, check_precision(options.precision))
    count, few = len(models), models[:FEW]
    scale = count / len(few)
    scaled = f"{len(few)} models, scaled" if scale > 1 else "measured"
    images = min(options.images, models[0].dataset.size)
    yield f"training, {STEPS:,} steps", step * STEPS * count, f"{1e6 * step:,.0f} us a model-step"
    encoded(models, WARM)
    for model in few:
        model.posteriors(model.rows(WARM))
    _, taken = seconds(lambda: encoded(models, images), device)
    yield f"encoding {images:,} images in lanes", taken, "measured"
    index = models[0].rows(images)
    _, alone = seconds(lambda: [model.posteriors(index) for model in few], device)
    yield f"encoding {images:,} images, model by model", alone * scale, scaled
    few_q = [model.posteriors(index) for model in few]
    _, taken = seconds(
        lambda: [m.summarise(q, options.samples) for m, q in zip(few, few_q, strict=True)], device
    )
    yield f"exact decomposition, {options.samples:,} samples", taken * scale, scaled
    tables, taken = seconds(lambda: uw.tables(models, options.rows), device)
    yield f"tables of {options.rows:,} rows", taken, "measured"
    cores = options.threads or usable_cores()
    _, taken = seconds(lambda: list(process_map(evaluate_table, tables, cores)), device)
    yield f"metrics in {cores} processes", taken, "measured, with their beginning"
    _, alone = seconds(lambda: [evaluate_table(table) for table in tables[:FEW]], device)
    yield "metrics, table by table", alone * scale, scaled


def memory(device: torch.device) -> str:
    """Return the peak memory in words."""
    host = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    if device.type != "cuda":
        return f"memory {host:.1f} GB at the most"
    return f"memory {host:.1f} GB, {torch.cuda.max_memory_allocated() / 2**30:.1f} GB on the GPU"


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--models", type=int, default=8)
    parser.add_argument("--images", type=int, default=737_280)
    parser.add_argument("--rows", type=int, default=10_000)
    parser.add_argument("--samples", type=int, default=10_000)
    parser.add_argument("--precision", default="fp32")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--threads", type=int, default=0)
    options = parser.parse_args()
    torch.set_num_threads(options.threads or usable_cores())
    device, total, training = pick_device(options.device), 0.0, 0.0
    print(f"{options.models} models, {device}")
    for what, taken, how in figures(options, device):
        each = taken / options.models
        print(f"{what:44} {taken:11,.1f} s {each:10,.2f} s a model   {how}", flush=True)
        training = training or taken
        # The slower of two ways is there to be compared with.
        total += 0 if "training" in what or " by " in what else taken
    print(
        f"measuring takes {total:,.1f} s in all, {total / options.models:,.2f} s a model: "
        f"{total / training:.2%} of training; {memory(device)}"
    )


if __name__ == "__main__":
    main()
