"""Checks of a dataset."""

import torch

from unweave.core.noise import seeded
from unweave.data import Data
from unweave.data.dataset import MISSING, Dataset
from unweave.latents import Gaussian
from unweave.networks import MLP
from unweave.objectives import VAE
from unweave.testing.laws import CPU, check_spec, check_training, require
from unweave.training.run import Run


@seeded()
def check_dataset(data: Data) -> None:
    """Check a dataset.

    The spec survives a round trip through JSON; observations have the shape, type and bounds that
    the schema states, and are the same every time; factors are classes within their sizes; and a
    model trains on the dataset, also after an interruption.
    """
    check_spec(data, Run(data=data))
    dataset = data.load(CPU)
    require(
        isinstance(dataset, Dataset),
        f"load: expected a dataset, got {type(dataset).__name__}: return one, such as "
        "array_dataset(...).to(device)",
    )
    require(dataset.size > 1, f"expected several observations, got {dataset.size}")
    index = torch.arange(0, dataset.size, max(1, dataset.size // 50))
    x = dataset.images(index)
    require(isinstance(x, torch.Tensor), f"images: expected a tensor, got {type(x).__name__}")
    require(x.dtype == torch.float32, f"expected float32 observations, got {x.dtype}")
    require(
        tuple(x.shape) == (len(index), *dataset.shape),
        (f"expected observations of shape {dataset.shape}, got {tuple(x.shape[1:])}"),
    )
    require(x.isfinite().all(), "observations must be finite")
    if dataset.bounded:
        require(x.min() >= 0 and x.max() <= 1, f"bounded, but values in [{x.min()}, {x.max()}]")
    require(
        torch.equal(x, data.load(CPU).images(index)),
        "the same index gives different values each time",
    )
    require(torch.equal(x[:3], dataset.images(index[:3])), "an observation depends on its batch")
    factors = dataset.factors(index)
    sizes = dataset.factor_sizes
    require(
        len(sizes) == len(dataset.factor_names) == factors.shape[-1],
        ("factor_names, factor_sizes and the columns of factors(index) must be equally many"),
    )
    require(factors.dtype == torch.int64, f"expected int64 factors, got {factors.dtype}")
    for name, size, column in zip(dataset.factor_names, sizes, factors.T, strict=True):
        inside = column.min() >= MISSING and column.max() < size
        require(inside, f"{name}: neither in 0..{size - 1} nor MISSING")
    batch = min(16, dataset.size)
    run = Run(data=data, latent=Gaussian(2), objective=VAE(), network=MLP((8,)), batch_size=batch)
    check_training(run, dataset)
