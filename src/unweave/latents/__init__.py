"""Latent spaces as trees of named blocks over one flat z.

A block says how many columns of z it has (`size`), which of them form one variable
(`variables`), what the encoder must put out for it (`outputs`), and gives the posterior, the
prior and the rate KL(q(z|x) || p(z)). `Product` puts blocks side by side.
"""

from __future__ import annotations

import functools

import torch
from torch import Tensor

from unweave.latents.block import Annealed, Node
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
    rows,
    with_hard_samples,
)
from unweave.latents.gaussian import Gaussian
from unweave.latents.independent import Laplace, Sparse, StudentT, Uniform
from unweave.latents.mixture import GaussianMixture, VampPrior
from unweave.latents.tree import Latent, Product

__all__ = [
    "Annealed",
    "Bernoulli",
    "Bits",
    "Categorical",
    "DiagonalGaussian",
    "Distribution",
    "FullGaussian",
    "Gaussian",
    "GaussianMixture",
    "Joint",
    "Laplace",
    "Latent",
    "Node",
    "OneHot",
    "Posterior",
    "Product",
    "Sparse",
    "Squashed",
    "StudentT",
    "Uniform",
    "VampPrior",
    "owner",
    "rows",
    "with_hard_samples",
]


@functools.cache
def owner(latent: Latent, device: torch.device | None = None) -> Tensor:
    """The variable that every column of z belongs to, (D,).

    >>> owner(Gaussian(3)).tolist()
    [0, 1, 2]
    """
    widths = torch.tensor(latent.variables, device=device)
    return torch.arange(len(widths), device=device).repeat_interleave(widths)
