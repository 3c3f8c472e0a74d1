"""Time training on this machine: a plain PyTorch loop, single runs and lanes, and its limits."""

import dataclasses
import statistics
import time
from collections.abc import Callable, Iterator
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from unweave import kernels
from unweave.data import Dataset, Shapes2D
from unweave.latents import Gaussian
from unweave.networks import MLP, Conv, Critic, Network
from unweave.objectives import BetaTCVAE, BetaVAE, FactorVAE, Objective
from unweave.training import Lanes, Precision
from unweave.training.memory import reuse_memory
from unweave.training.precision import matmul_precision
from unweave.training.run import Run
from unweave.training.workers import LanePool

BATCH = 64
_STORED = 20_000  # images in memory for the plain loop
_STRETCH = {"cpu": 2, "cuda": 25}  # steps between two points at which lanes wait for each other
OBJECTIVES: dict[str, Objective] = {
    "beta-vae": BetaVAE(),
    "beta-tcvae": BetaTCVAE(),
    "factor-vae": FactorVAE(),
}


class PlainVAE(nn.Module):
    """The network of [Kim2018] table 1 and its beta-VAE loss, in plain PyTorch."""

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

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return the loss of a batch, and its codes."""
        mean, log_variance = self.encoder(x).chunk(2, -1)
        z = mean + torch.exp(0.5 * log_variance) * torch.randn_like(mean)
        nats = F.binary_cross_entropy_with_logits(self.decoder(z), x, reduction="sum") / len(x)
        kl = 0.5 * (mean**2 + log_variance.exp() - 1 - log_variance).sum(-1).mean()
        return nats + 4.0 * kl, z


def plain_step(device: torch.device, batches: Iterator[Tensor] | None = None) -> Callable[[], None]:
    """Return one step of a beta-VAE in a plain eager loop, by default on stored images."""
    model = PlainVAE().to(device)
    optimiser = torch.optim.Adam(model.parameters(), 1e-4)
    images = batches or stored_batches(device)

    def step() -> None:
        loss, _ = model(next(images))
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()

    return step


def plain_factor_step(device: torch.device) -> Callable[[], None]:
    """Return one step of a FactorVAE in a plain eager loop: two batches, two players."""
    model, critic = PlainVAE().to(device), Critic().network(10).to(device)
    model_optimiser = torch.optim.Adam(model.parameters(), 1e-4)
    critic_optimiser = torch.optim.Adam(critic.parameters(), 1e-4, betas=(0.5, 0.9))
    images = stored_batches(device)
    labels = torch.arange(2, device=device).repeat_interleave(BATCH)

    def step() -> None:
        loss, z = model(next(images))
        logits = critic(z)
        model_optimiser.zero_grad()
        (loss + 35.0 * (logits[:, 0] - logits[:, 1]).mean()).backward()
        model_optimiser.step()
        with torch.no_grad():
            _, second = model(next(images))
            order = [torch.randperm(BATCH, device=device) for _ in range(10)]
            permuted = torch.stack([second[order[j], j] for j in range(10)], 1)
        critic_loss = F.cross_entropy(critic(torch.cat([z.detach(), permuted])), labels)
        critic_optimiser.zero_grad()
        critic_loss.backward()
        critic_optimiser.step()

    return step


def stored_batches(device: torch.device) -> Iterator[Tensor]:
    """Yield random batches, without end, of images stored on the device."""
    dataset = Shapes2D().load(device)
    images = dataset.images(torch.randperm(dataset.size, device=device)[:_STORED])
    while True:
        yield images[torch.randint(0, _STORED, (BATCH,), device=device)]


class Case(NamedTuple):
    """A run to time in a number of lanes."""

    name: str
    lanes: int
    run: Run
    plain: str  # the plain loop to compare with; "" if none


class Figure(NamedTuple):
    """The measurement of a case."""

    name: str
    lanes: int
    microseconds: float  # per step of one lane
    images: float  # per second, over all lanes
    ratio: float | None  # how many times faster than the plain loop
    arithmetic: float | None  # share of the machine's limit, for the network of `work`
    memory: float | None


class Limits(NamedTuple):
    """Operations and bytes: of a step, or per second at most."""

    operations: float
    bytes: float


def cases(lanes: list[int], quick: bool) -> list[Case]:
    """List the main objectives, alone and in lanes, then other batches, images and latents."""
    chosen = [
        Case(name, count, Run(objective=objective), name)
        for name, objective in OBJECTIVES.items()
        for count in lanes
    ]
    if quick:
        return chosen
    most = max(lanes)
    other: list[tuple[str, Network | None, dict[str, object]]] = [
        ("an MLP", MLP(hidden=(256, 256)), {}),
        ("batch 16", None, {"batch_size": 16}),
        ("batch 256", None, {"batch_size": 256}),
        ("32x32 images", Conv(), {"data": Shapes2D(side=32)}),
        ("128x128 images", Conv(), {"data": Shapes2D(side=128)}),
        ("2 latents", None, {"latent": Gaussian(2)}),
        ("50 latents", None, {"latent": Gaussian(50)}),
    ]
    for name, network, fields in other:
        run = dataclasses.replace(Run(network=network), **fields)  # type: ignore[arg-type]
        chosen += [Case(name, count, run, "") for count in dict.fromkeys((1, most))]
    return chosen


def measure(case: Case, device: torch.device, precision: Precision, seconds: float) -> float:
    """Time a step of all lanes of a case, in microseconds."""
    return time_step(case.run, case.lanes, case.run.data.load(device), precision, seconds)


def time_step(
    run: Run, lanes: int, dataset: Dataset, precision: Precision, seconds: float
) -> float:
    """Time a step of a run in this many lanes, all of them together, in microseconds."""
    device = dataset.device
    runs = [dataclasses.replace(run, seed=seed).resolve(dataset) for seed in range(lanes)]
    with kernels.on(device), matmul_precision(precision), reuse_memory(device):
        pool = LanePool(Lanes(runs, dataset, device, precision, compiles=True))
        stretch = _STRETCH.get(device.type, _STRETCH["cuda"])
        return timed(lambda: pool.run(stretch), device, seconds) / stretch


def timed(step: Callable[[], object], device: torch.device, seconds: float) -> float:
    """Time a step, in microseconds: the median over short rounds after a warm-up.

    On a CPU this takes at most twice the given seconds and one step. On a GPU the warm-up is always
    complete, because it builds kernels and records the step.
    """
    start = time.perf_counter()
    for _ in range(6):
        step()
        if device.type == "cpu" and time.perf_counter() - start > seconds:
            break
    _wait(device)
    rounds: list[float] = []
    end = time.perf_counter() + seconds
    while not rounds or time.perf_counter() < end:
        start, count = time.perf_counter(), 0
        while count < 5 and (not count or device.type != "cpu" or time.perf_counter() < end):
            step()
            count += 1
        _wait(device)
        rounds.append((time.perf_counter() - start) / count)
    return statistics.median(rounds) * 1e6


def limits(device: torch.device, precision: Precision) -> Limits:
    """Measure operations and bytes per second of a large matrix product and a large copy."""
    kind = torch.bfloat16 if precision == "bf16" and device.type == "cuda" else torch.float32
    size = 8192 if device.type == "cuda" else 1024
    a = torch.randn(size, size, device=device, dtype=kind)
    data = torch.zeros(2**28 if device.type == "cuda" else 2**24, device=device)
    with matmul_precision(precision):
        product = timed(lambda: a @ a, device, 0.3)
    copy = timed(lambda: data.clone(), device, 0.3)
    return Limits(2 * size**3 / product * 1e6, 2 * data.numel() * 4 / copy * 1e6)


def work(precision: Precision) -> Limits:
    """Count the operations and bytes that any implementation needs for one beta-VAE step.

    Bytes: activations and their gradients, each written and read once, and parameters, gradients
    and moments as Adam reads and writes them.
    """
    model, x = PlainVAE(), torch.zeros(BATCH, 1, 64, 64)
    from torch.utils.flop_counter import FlopCounterMode  # imports Triton, which takes 0.5 s

    sizes: list[int] = []
    for module in model.modules():
        if isinstance(module, (nn.Conv2d, nn.ConvTranspose2d, nn.Linear)):
            module.register_forward_hook(lambda m, i, out: sizes.append(out.numel()))
    with FlopCounterMode(display=False) as counter:
        model(x)[0].backward()
    width = 2 if precision == "bf16" else 4
    parameters = sum(p.numel() for p in model.parameters())
    return Limits(counter.get_total_flops(), 4 * width * sum(sizes) + 28 * parameters)


def figures(
    device: torch.device,
    precision: Precision,
    lanes: list[int],
    quick: bool = False,
    seconds: float = 1.0,
) -> Iterator[Figure]:
    """Measure every case on a device, the plain loops first."""
    plain = {
        "beta-vae": timed(plain_step(device), device, seconds),
        "factor-vae": timed(plain_factor_step(device), device, seconds),
    }
    for name, microseconds in plain.items():
        rate = BATCH / microseconds * 1e6
        yield Figure(f"plain loop, {name}", 1, microseconds, rate, 1.0, None, None)
    plain["beta-tcvae"] = plain["beta-vae"]  # there is no plain loop with its extra terms
    most, least = limits(device, precision), work(precision)
    for case in cases(lanes, quick):
        each = measure(case, device, precision, seconds) / case.lanes
        known = case.name == "beta-vae"
        yield Figure(
            case.name,
            case.lanes,
            each,
            case.run.batch_size / each * 1e6,
            plain[case.plain] / each if case.plain else None,
            least.operations / each * 1e6 / most.operations if known else None,
            least.bytes / each * 1e6 / most.bytes if known else None,
        )


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize()
