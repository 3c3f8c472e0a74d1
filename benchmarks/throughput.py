"""Training images per second on shapes2d, against a plain PyTorch loop, in one run.

    python benchmarks/throughput.py [--rounds 40] [--steps 6]

Both sides train the beta-VAE of Kim & Mnih (table 1, batch 64, 10 latents) on the same kind of
images with the same threads. The plain side is what one writes first: a module, `torch.optim.Adam`
and a shuffling `DataLoader` over images stored as bytes, with 0 and with 2 workers. Ours is the
step behind `unweave train`. Each side has a process of its own, so that none inherits the memory
of another. Short rounds alternate, in an order that changes, so that a busy machine slows all
sides alike; a ratio is that of one round, its median and quartiles are over rounds.
"""

from __future__ import annotations

import argparse
import multiprocessing
import statistics
import time
from collections.abc import Callable, Iterator
from functools import partial
from multiprocessing.connection import Connection

import torch
from torch import Tensor
from torch.profiler import ProfilerActivity, profile
from torch.utils.data import DataLoader, TensorDataset

import unweave as uw
from unweave.bench import throughput as bench
from unweave.bench.throughput import BATCH
from unweave.core.parallel import usable_cores
from unweave.training import Lanes

STORED = 20_000  # images in the plain loop's dataset: enough that none is in cache


def endless(loader: DataLoader[tuple[Tensor, ...]]) -> Iterator[Tensor]:
    """Batches without end."""
    while True:
        for (x,) in loader:
            yield x.float()


def plain_step(workers: int) -> Callable[[], object]:
    """One step of the plain loop."""
    index = torch.randperm(737_280)[:STORED]
    images = uw.Shapes2D().load(torch.device("cpu")).images(index).to(torch.uint8)
    loader = DataLoader(
        TensorDataset(images), BATCH, shuffle=True, drop_last=True, num_workers=workers
    )
    return bench.plain_step(torch.device("cpu"), endless(loader))


def our_step() -> Callable[[], object]:
    """Our side."""
    cpu = torch.device("cpu")
    dataset = uw.Shapes2D().load(cpu)
    run = uw.Run(network=uw.Kim2018(), objective=uw.BetaVAE(beta=4.0)).resolve(dataset)
    return Lanes([run], dataset, cpu).advance


OURS = "unweave"
SIDES: dict[str, Callable[[], Callable[[], object]]] = {
    "plain loop, 0 workers": partial(plain_step, 0),
    "plain loop, 2 workers": partial(plain_step, 2),
    OURS: our_step,
}


def serve(name: str, threads: int, pipe: Connection) -> None:
    """Train one side for as many steps as the pipe asks, and answer with images per second."""
    torch.set_num_threads(threads)
    step = SIDES[name]()
    while steps := pipe.recv():
        start = time.perf_counter()
        for _ in range(steps):
            step()
        pipe.send(steps * BATCH / (time.perf_counter() - start))


def ask(pipe: Connection, steps: int) -> float:
    """The speed of one side over some steps, once the threads of the others have gone to sleep."""
    time.sleep(0.1)
    pipe.send(steps)
    speed: float = pipe.recv()
    return speed


def middle(values: list[float], digits: int) -> str:
    """Median and quartiles."""
    low, half, high = (round(q, digits) for q in statistics.quantiles(values, n=4))
    return f"median {half:.{digits}f}   quartiles {low:.{digits}f} to {high:.{digits}f}"


def where_time_goes(step: Callable[[], object]) -> None:
    """The largest parts of a step."""
    for _ in range(3):
        step()
    with profile(activities=[ProfilerActivity.CPU]) as profiled:
        for _ in range(5):
            step()
    events = profiled.key_averages()
    total = sum(event.self_cpu_time_total for event in events)
    groups = {
        "convolutions": ("conv", "mkldnn"), "activations": ("clamp", "threshold", "relu"),
        "likelihood": ("sigmoid", "binary"), "matrix products": ("mm",),
        "random numbers": ("random_words", "bitwise", "shift"), "optimiser": ("adam",),
    }  # fmt: skip
    print("where a step of ours goes:")
    left = total
    for name, words in groups.items():
        hits = [e for e in events if any(w in e.key.lower() for w in words)]
        share = sum(event.self_cpu_time_total for event in hits)
        left -= share
        print(f"  {name:16s} {100 * share / total:5.1f} %")
    print(f"  {'the rest':16s} {100 * left / total:5.1f} %")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--steps", type=int, default=6)
    options = parser.parse_args()
    threads = usable_cores()
    context = multiprocessing.get_context("spawn")
    pipes: dict[str, Connection] = {}
    processes = []
    for name in SIDES:
        pipes[name], far = context.Pipe()
        processes.append(context.Process(target=serve, args=(name, threads, far)))
        processes[-1].start()
    for pipe in pipes.values():
        ask(pipe, 5)
    speeds: dict[str, list[float]] = {name: [] for name in SIDES}
    order = list(SIDES)
    for _ in range(options.rounds):
        for name in order:
            speeds[name].append(ask(pipes[name], options.steps))
        order = order[1:] + order[:1]
    for pipe in pipes.values():
        pipe.send(0)
    for process in processes:
        process.join()
    print(f"{threads} threads, torch {torch.__version__}, images per second:")
    for name, values in speeds.items():
        print(f"  {name:22s} {middle(values, 0)}")
    print("unweave is faster by a factor of:")
    for name in [name for name in SIDES if name != OURS]:
        pairs = zip(speeds[OURS], speeds[name], strict=True)
        print(f"  {name:22s} {middle([mine / theirs for mine, theirs in pairs], 2)}")
    torch.set_num_threads(threads)
    where_time_goes(our_step())


if __name__ == "__main__":
    main()
