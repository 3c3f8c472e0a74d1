"""Checks of a dataset."""

import torch

from unweave.core.noise import seeded
from unweave.data import Data
from unweave.data.dataset import MISSING, load_dataset
from unweave.latents import Gaussian
from unweave.networks import MLP
from unweave.objectives import VAE
from unweave.testing.laws import CPU, check_spec, check_training, require
from unweave.training.run import Run


@seeded()
def check_dataset(data: Data) -> None:
    """Check a dataset.

    The spec survives a round trip through JSON; observations have the shape, type and bounds that
    the schema states, and are the same every time; each index has its own observation and factors,
    whatever other indices are asked for; factors are classes within their sizes, and those of the
    lattice if there is one; and a model trains on the dataset, also after an interruption.

    Whether the factors are those of the observations is for you to test.
    """
    check_spec(data, Run(data=data))
    dataset = load_dataset(data, CPU)
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
        require(
            x.min() >= 0 and x.max() <= 1,
            "the schema says bounded=True, values in [0, 1], but observations have values in "
            f"[{x.min():g}, {x.max():g}]",
        )
    require(
        torch.equal(x, data.load(CPU).images(index)),
        "the same index gives different values each time",
    )
    factors = dataset.factors(index)
    for name, function, table in (
        ("images", dataset.images, x),
        ("factors", dataset.factors, factors),
    ):
        require(
            all(torch.equal(function(i), row) for i, row in zip(index, table, strict=True)),
            f"{name}(index): the row of an index depends on the other indices",
        )
        require(
            torch.equal(function(index[:2].flip(0)[None]), table[:2].flip(0)[None]),
            f"{name}(index): expected one row for each index, in the order and shape of `index`, "
            "which may have several dimensions",
        )
    if dataset.lattice is not None:
        require(
            torch.equal(factors, dataset.lattice.factors(index)),
            "factors(index): they differ from those of the schema's lattice; leave `factors` out",
        )
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
