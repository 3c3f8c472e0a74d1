"""Latent spaces: trees of named blocks over one flat z.

A block declares its columns of z (`size`), which of them form one variable (`variables`) and how
many values the encoder outputs for it (`outputs`). It provides the posterior, the prior and the
rate KL(q(z|x) || p(z)). `Product` combines blocks.
"""

from __future__ import annotations

import functools

import torch
from torch import Tensor

from unweave.latents.block import Block, FactorisedBlock, FixedPriorBlock, Node, SampledRateBlock
from unweave.latents.discrete import Bernoulli, Categorical
from unweave.latents.distributions import (
    Bits,
    DiagonalGaussian,
    Distribution,
    FullGaussian,
    Joint,
    OneHot,
    Posterior,
    Squashed,
    distribution_at,
    prior_samples,
    rows,
    with_hard_samples,
)
from unweave.latents.gaussian import Gaussian
from unweave.latents.independent import Laplace, Sparse, StudentT, Uniform
from unweave.latents.mixture import GaussianMixture, VampPrior
from unweave.latents.prior import AnnealedPrior, PriorDensity
from unweave.latents.tree import Latent, Product

__all__ = [
    "AnnealedPrior",
    "Bernoulli",
    "Bits",
    "Block",
    "Categorical",
    "DiagonalGaussian",
    "Distribution",
    "FactorisedBlock",
    "FixedPriorBlock",
    "FullGaussian",
    "Gaussian",
    "GaussianMixture",
    "Joint",
    "Laplace",
    "Latent",
    "Node",
    "OneHot",
    "Posterior",
    "PriorDensity",
    "Product",
    "SampledRateBlock",
    "Sparse",
    "Squashed",
    "StudentT",
    "Uniform",
    "VampPrior",
    "distribution_at",
    "prior_samples",
    "rows",
    "variable_of_column",
    "with_hard_samples",
]


@functools.cache
def variable_of_column(latent: Latent, device: torch.device | None = None) -> Tensor:
    """Return the index of the variable to which every column of z belongs, (D,).

    >>> variable_of_column(Gaussian(3)).tolist()
    [0, 1, 2]
    """
    widths = torch.tensor(latent.variables, device=device)
    return torch.arange(len(widths), device=device).repeat_interleave(widths)
