"""The exact decomposition of the rate over the whole of shapes2d: time and memory.

    python benchmarks/decomposition.py [--samples 10000] [--latents 10] [--device auto]

The codes are 737,280 posteriors with scales like those of a trained model; q(z) and all q(z_j) are
means over all of them, at sampled points. Compares the time with that of the plain sum, one sample
at a time over the whole dataset (measured on a few samples and scaled up).
"""

from __future__ import annotations

import argparse
import resource
import time

import torch
from rich.progress import Progress

import unweave as uw
from unweave.aggregate import exact, summarise
from unweave.core.noise import Noise
from unweave.core.parallel import usable_cores
from unweave.latents import DiagonalGaussian
from unweave.training import pick_device

CODES = 737_280
PROBES = 3  # samples on which the plain way is timed


def posteriors(latents: int, device: torch.device) -> DiagonalGaussian:
    """Return posteriors with means as under the prior and scales from 0.1 to 1."""
    noise = Noise(0, 0, "posteriors", device)
    loc = noise.normal((CODES, latents), "loc")
    log_scale = torch.linspace(-2.3, 0.0, latents, device=device).expand(CODES, latents)
    return DiagonalGaussian(loc, log_scale.contiguous())


def timed(work: object, device: torch.device) -> float:
    """Return the seconds that a function without arguments takes."""
    start = time.perf_counter()
    work()  # type: ignore[operator]
    if device.type == "cuda":
        torch.cuda.synchronize()
    return time.perf_counter() - start


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--samples", type=int, default=10_000)
    parser.add_argument("--latents", type=int, default=10)
    parser.add_argument("--device", default="auto")
    options = parser.parse_args()
    torch.set_num_threads(usable_cores())
    device = pick_device(options.device)
    latent = uw.Gaussian(options.latents)
    q = posteriors(options.latents, device)
    p = latent.density(torch.zeros(options.latents, device=device))
    noise = Noise(0, 0, "benchmark", device)
    z = q.rsample(noise)[:PROBES]
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with Progress() as bar:
        task = bar.add_task(f"{options.samples:,} samples", total=1.0)

        def told(share: float) -> None:
            bar.update(task, completed=share)

        seconds = timed(
            lambda: print(summarise(latent, q, p, noise, options.samples, told)), device
        )
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    pairs = options.samples * CODES * options.latents
    print(f"{device}: {seconds:.1f} s, {pairs / seconds / 1e9:.2f} billion densities a second")
    print(f"memory {peak / 2**20:.2f} GB at the most, {before / 2**20:.2f} GB of it before")
    plain = timed(lambda: [exact(latent.log_nodes(q, each[None, None])) for each in z], device)
    print(f"sample by sample it would take {plain / PROBES * options.samples:.1f} s: "
          f"{plain / PROBES * options.samples / seconds:.2f} times as long")  # fmt: skip


if __name__ == "__main__":
    main()
