"""Quantiles of priors, for sliders that are even in the prior's probability."""

from typing import Protocol, runtime_checkable

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from unweave.core.noise import Noise
from unweave.latents import Distribution, Latent, distribution_at, with_hard_samples

# The probabilities of quantiles, as normal scores: -3, -2.9, ..., 3.
SCORES = torch.arange(-30, 31, dtype=torch.float64) / 10
_HALVINGS = 100  # of a bracket; more than the digits of a float64
_SAMPLES = 2**17  # of a prior without a cdf; 177 of them lie below the first quantile


@runtime_checkable
class _HasCdf(Protocol):
    """A distribution with a known cdf."""

    @property
    def mean(self) -> Tensor:
        """Expectation, (..., D)."""
        ...

    def cdf(self, z: Tensor) -> Tensor:
        """Compute the cdf of every column, (..., D)."""
        ...


def prior_quantiles(latent: Latent, prior: Distribution) -> NDArray[np.float64]:
    """Return the quantiles of every column of the prior at `SCORES`, (D, 61).

    They are exact if the prior of a block has a cdf, and otherwise those of many samples. Discrete
    columns have no quantiles; theirs are NaN.
    """
    blocks = []
    for path, block in latent.leaf_blocks.items():
        none = np.full((block.size, len(SCORES)), np.nan)
        blocks.append(none if all(block.discrete) else _quantiles(distribution_at(prior, path)))
    return np.concatenate(blocks)


def _quantiles(d: Distribution) -> NDArray[np.float64]:
    """Return the quantiles of every column of a distribution, (D, 61)."""
    shares = torch.special.ndtr(SCORES)
    if isinstance(d, _HasCdf):
        return _inverted(d, shares).T.detach().cpu().numpy()
    samples = with_hard_samples(d).rsample(Noise(0, 0, "quantiles", d.mean.device), (_SAMPLES,))
    found = np.quantile(samples.double().cpu().numpy(), shares.numpy(), axis=0)
    return np.asarray(found.T, np.float64)


def _inverted(d: _HasCdf, shares: Tensor) -> Tensor:
    """Solve cdf(z) = share for every share (S,) and column by bisection, (S, D)."""
    wanted = shares[:, None].to(d.mean.device)
    low, high = _bracket(d, wanted)
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        below = d.cdf(middle) < wanted
        low, high = torch.where(below, middle, low), torch.where(below, high, middle)
    return (low + high) / 2


def _bracket(d: _HasCdf, wanted: Tensor) -> tuple[Tensor, Tensor]:
    """Widen intervals about the mean until they hold the quantiles, (S, D) each."""
    centre = d.mean.double() + torch.zeros_like(wanted)
    half = torch.ones_like(centre)
    for _ in range(_HALVINGS):
        outside = (d.cdf(centre - half) > wanted) | (d.cdf(centre + half) < wanted)
        if not outside.any():
            break
        half = torch.where(outside, 2 * half, half)
    return centre - half, centre + half
