"""Likelihoods p(x|z): what the decoder's output says about an observation.

A likelihood is a spec that turns the decoder's raw output (B, C, ...) into a distribution over x.
Log-densities are in nats, summed over all values of an observation, normaliser included.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal, Protocol

import torch
import torch.nn.functional as F
from pydantic import Field, PositiveFloat
from torch import Tensor

from unweave.latents.distributions import HALF_LOG_2PI
from unweave.noise import Noise
from unweave.spec import spec, tag


class Observation(Protocol):
    """A distribution over observations x of shape (B, *shape)."""

    @property
    def mean(self) -> Tensor:
        """Expected observation, (B, *shape)."""
        ...

    def log_prob(self, x: Tensor) -> Tensor:
        """Log-density summed over the values of each observation, (B,)."""
        ...

    def sample(self, noise: Noise) -> Tensor:
        """A draw from the distribution, (B, *shape)."""
        ...


@dataclass(frozen=True)
class BernoulliObservation:
    """Independent Bernoulli values with the given logits (B, *shape)."""

    logits: Tensor

    @property
    def mean(self) -> Tensor:
        """Probability of a one, (B, *shape)."""
        return torch.sigmoid(self.logits)

    def log_prob(self, x: Tensor) -> Tensor:
        """Sum of x log p + (1 - x) log(1 - p), (B,)."""
        nats = F.binary_cross_entropy_with_logits(self.logits, x, reduction="none")
        return -nats.flatten(1).sum(1)

    def sample(self, noise: Noise) -> Tensor:
        """Zeros and ones, (B, *shape)."""
        uniform = noise.uniform(self.logits.shape, "bernoulli", self.logits.dtype)
        return (uniform < self.mean).to(self.logits.dtype)


@dataclass(frozen=True)
class GaussianObservation:
    """Independent normal values around `mean` (B, *shape) with one standard deviation."""

    mean: Tensor
    scale: float

    def log_prob(self, x: Tensor) -> Tensor:
        """Sum of log N(x; mean, scale^2), (B,)."""
        log_scale = torch.log(torch.as_tensor(self.scale, dtype=x.dtype, device=x.device))
        nats = 0.5 * ((x - self.mean) / self.scale).square() + log_scale + HALF_LOG_2PI
        return -nats.flatten(1).sum(1)

    def sample(self, noise: Noise) -> Tensor:
        """Mean plus noise, (B, *shape)."""
        return self.mean + self.scale * noise.normal(self.mean.shape, "normal", self.mean.dtype)


@spec
class Bernoulli:
    """log p(x|z) = sum x log p + (1 - x) log(1 - p), for values in [0, 1].  [Kim2018] app. A.

    On grey values it is the cross-entropy the papers train with, not a normalised density.
    """

    kind: Literal["bernoulli"] = tag("bernoulli")

    @property
    def bounded(self) -> bool:
        """Whether observations must lie in [0, 1]."""
        return True

    def __call__(self, raw: Tensor) -> BernoulliObservation:
        """p(x|z) with the decoder's output as logits."""
        return BernoulliObservation(raw)


@spec
class Gaussian:
    """log p(x|z) = sum log N(x; decoder(z), scale^2), for real values.  [Kingma2014] app. C.2."""

    scale: PositiveFloat = 1.0
    kind: Literal["gaussian"] = tag("gaussian")

    @property
    def bounded(self) -> bool:
        """Whether observations must lie in [0, 1]."""
        return False

    def __call__(self, raw: Tensor) -> GaussianObservation:
        """p(x|z) with the decoder's output as the mean."""
        return GaussianObservation(raw, self.scale)


Likelihood = Annotated[Bernoulli | Gaussian, Field(discriminator="kind")]
