"""Training images per second on shapes2d, against a plain PyTorch loop, in one run.

    python benchmarks/throughput.py [--rounds 5] [--steps 12]

Both sides train the beta-VAE of Kim & Mnih (table 1, batch 64, 10 latents) on the same kind of
images with the same threads. The plain side is what one writes first: a module, `torch.optim.Adam`
and a shuffling `DataLoader` over images stored as bytes, with the better of 0 and 2 workers. Ours
is the step behind `unweave train`. Rounds alternate, so that a busy machine slows both sides; the
ratio printed is the median over rounds.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable, Iterator

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.profiler import ProfilerActivity, profile
from torch.utils.data import DataLoader, TensorDataset

import unweave as uw
from unweave.cli import usable_cores
from unweave.training import Lanes

BATCH = 64
STORED = 20_000  # images in the plain loop's data set: enough that none is in cache


class PlainVAE(nn.Module):
    """The network of Kim & Mnih table 1, written down plainly."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder = nn.Sequential(
            nn.Conv2d(1, 32, 4, 2, 1), nn.ReLU(),
            nn.Conv2d(32, 32, 4, 2, 1), nn.ReLU(),
            nn.Conv2d(32, 64, 4, 2, 1), nn.ReLU(),
            nn.Conv2d(64, 64, 4, 2, 1), nn.ReLU(),
            nn.Flatten(), nn.Linear(1024, 128), nn.Linear(128, 20),
        )  # fmt: skip
        self.decoder = nn.Sequential(
            nn.Linear(10, 128), nn.ReLU(), nn.Linear(128, 1024), nn.ReLU(),
            nn.Unflatten(1, (64, 4, 4)),
            nn.ConvTranspose2d(64, 64, 4, 2, 1), nn.ReLU(),
            nn.ConvTranspose2d(64, 32, 4, 2, 1), nn.ReLU(),
            nn.ConvTranspose2d(32, 32, 4, 2, 1), nn.ReLU(),
            nn.ConvTranspose2d(32, 1, 4, 2, 1),
        )  # fmt: skip

    def forward(self, x: Tensor) -> Tensor:
        """The loss of a batch."""
        mean, log_variance = self.encoder(x).chunk(2, -1)
        z = mean + torch.exp(0.5 * log_variance) * torch.randn_like(mean)
        nats = F.binary_cross_entropy_with_logits(self.decoder(z), x, reduction="sum") / len(x)
        kl = 0.5 * (mean**2 + log_variance.exp() - 1 - log_variance).sum(-1).mean()
        return nats + 4.0 * kl


def endless(loader: DataLoader[tuple[Tensor, ...]]) -> Iterator[Tensor]:
    """Batches without end."""
    while True:
        for (x,) in loader:
            yield x


def plain_step(workers: int) -> Callable[[], object]:
    """One step of the plain loop."""
    index = torch.randperm(737_280)[:STORED]
    images = uw.Shapes2D().load(torch.device("cpu")).images(index).to(torch.uint8)
    loader = DataLoader(
        TensorDataset(images), BATCH, shuffle=True, drop_last=True, num_workers=workers
    )
    batches, model = endless(loader), PlainVAE()
    optimiser = torch.optim.Adam(model.parameters(), 1e-4)

    def step() -> None:
        loss = model(next(batches).float())
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()

    return step


def our_lanes() -> Lanes:
    """Our side."""
    cpu = torch.device("cpu")
    world = uw.Shapes2D().load(cpu)
    run = uw.Run(network=uw.Kim2018(), objective=uw.BetaVAE(beta=4.0)).resolve(world)
    return Lanes([run], world, cpu)


def images_per_second(step: Callable[[], object], steps: int) -> float:
    """Speed over a number of steps."""
    start = time.perf_counter()
    for _ in range(steps):
        step()
    return steps * BATCH / (time.perf_counter() - start)


def where_time_goes(step: Callable[[], object]) -> None:
    """The largest parts of a step."""
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
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=12)
    options = parser.parse_args()
    torch.set_num_threads(usable_cores())
    sides = {f"plain loop, {w} workers": plain_step(w) for w in (0, 2)}
    sides["unweave"] = our_lanes().advance
    speeds: dict[str, list[float]] = {name: [] for name in sides}
    for step in sides.values():
        images_per_second(step, 3)
    for _ in range(options.rounds):
        for name, step in sides.items():
            speeds[name].append(images_per_second(step, options.steps))
    print(f"{torch.get_num_threads()} threads, torch {torch.__version__}, images per second:")
    for name, values in speeds.items():
        middle, rounded = statistics.median(values), [round(v) for v in values]
        print(f"  {name:22s} median {middle:6.0f}   all {rounded}")
    *plain, ours = speeds.values()
    ratios = [mine / max(theirs) for mine, *theirs in zip(ours, *plain, strict=True)]
    print(f"ratio to the faster plain loop: median {statistics.median(ratios):.2f}, "
          f"rounds {[round(r, 2) for r in ratios]}")  # fmt: skip
    where_time_goes(sides["unweave"])


if __name__ == "__main__":
    main()
