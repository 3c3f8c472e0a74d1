"""Latent spaces: trees of named blocks over one flat z.

A block declares its columns of z (`size`), which of them form one variable (`variables`) and how
many values the encoder outputs for it (`outputs`). It provides the posterior, the prior and the
rate KL(q(z|x) || p(z)). `Product` combines blocks.
"""

import functools

import torch
from torch import Tensor

from unweave.core.lazy import public_names
from unweave.latents.block import (
    Block as Block,
    FactorisedBlock as FactorisedBlock,
    FixedPriorBlock as FixedPriorBlock,
    Node as Node,
    SampledRateBlock as SampledRateBlock,
)
from unweave.latents.densities import CentredColumns as CentredColumns
from unweave.latents.discrete import Bernoulli as Bernoulli, Categorical as Categorical
from unweave.latents.distributions import (
    Bits as Bits,
    DiagonalGaussian as DiagonalGaussian,
    Distribution as Distribution,
    FullGaussian as FullGaussian,
    Joint as Joint,
    OneHot as OneHot,
    Posterior as Posterior,
    Squashed as Squashed,
    distribution_at as distribution_at,
    prior_samples as prior_samples,
    rows as rows,
    with_hard_samples as with_hard_samples,
)
from unweave.latents.gaussian import Gaussian as Gaussian
from unweave.latents.independent import (
    Laplace as Laplace,
    Sparse as Sparse,
    StudentT as StudentT,
    Uniform as Uniform,
)
from unweave.latents.mixture import GaussianMixture as GaussianMixture, VampPrior as VampPrior
from unweave.latents.prior import AnnealedPrior as AnnealedPrior, PriorDensity as PriorDensity
from unweave.latents.tree import Latent as Latent, Product as Product

__all__ = public_names(__name__)


@functools.cache
def variable_of_column(latent: Latent, device: torch.device | None = None) -> Tensor:
    """Return the index of the variable to which every column of z belongs, (D,).

    >>> variable_of_column(Gaussian(3)).tolist()
    [0, 1, 2]
    """
    widths = torch.tensor(latent.variables, device=device)
    return torch.arange(len(widths), device=device).repeat_interleave(widths)
