"""The base class of all models, and p(x|z) of rows that are divided among processes."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import cached_property
from typing import Any, ClassVar, cast

import torch
from torch import Tensor, nn

from unweave.core.noise import Noise
from unweave.core.row_division import all_rows, divides, gather_rows, map_own_rows, own_rows
from unweave.latents import Distribution, Latent, Posterior
from unweave.likelihoods import Likelihood, Observation
from unweave.networks import frozen_statistics


def as_float32(x: Tensor) -> Tensor:
    """Convert the output of half-precision layers to float32."""
    return x.float() if x.dtype in (torch.bfloat16, torch.float16) else x


class Model(nn.Module, ABC):
    """An encoder, a decoder and a prior over codes."""

    latent: Latent
    prior: nn.Module
    players: ClassVar[tuple[str, ...]] = ()  # parts of the model that are separate players
    noise: int = 0  # columns of N(0, 1) noise that the decoder takes after the codes

    @abstractmethod
    def raw(self, x: Tensor) -> Tensor:
        """Compute the encoder's output for a batch (B, *shape); `latent` turns it into q(z|x)."""

    @abstractmethod
    def decode(self, z: Tensor) -> Observation:
        """Return p(x|z) for codes, followed by the decoder's noise if any, (B, D + noise)."""

    def encode(self, x: Tensor) -> Posterior:
        """Return q(z|x) for a batch (B, *shape)."""
        return self.latent.posterior(self.raw(x))

    def p(self) -> Distribution:
        """Return the prior over codes."""
        return cast(Distribution, self.prior(self._raw_with_frozen_statistics))

    def _raw_with_frozen_statistics(self, x: Tensor) -> Tensor:
        """Encode pseudo-inputs, which must not change the running statistics of the data."""
        with frozen_statistics(self):
            return self.raw(x)


class DividedObservation:
    """p(x|z) of rows that are divided among processes, as their decoders computed them.

    Only log-densities are gathered. Anything else, such as `mean`, gathers the decoder's output.
    """

    def __init__(self, likelihood: Likelihood, raw: Tensor) -> None:
        self._likelihood, self._raw = likelihood, raw

    @cached_property
    def _whole(self) -> Observation:
        return self._likelihood(gather_rows(self._raw))

    @property
    def mean(self) -> Tensor:
        """Expected observation, (B, *shape)."""
        return self._whole.mean

    def log_prob(self, x: Tensor) -> Tensor:
        """Compute the log-density, summed over the values of each observation, (B,)."""
        if len(x) != all_rows(len(self._raw)):
            return self._whole.log_prob(x)
        return gather_rows(self._likelihood(self._raw).log_prob(own_rows(x)))

    def sample(self, noise: Noise) -> Tensor:
        """Draw observations, (B, *shape)."""
        return self._whole.sample(noise)

    def __getattr__(self, name: str) -> Any:
        """Return an attribute that only the observations of some likelihoods have."""
        return getattr(self._whole, name)


def observe(likelihood: Likelihood, decoder: Callable[[Tensor], Tensor], z: Tensor) -> Observation:
    """Return p(x|z) for codes (B, D), which are decoded by the processes that train together."""
    if divides(z):
        return DividedObservation(likelihood, map_own_rows(decoder, z))
    return likelihood(decoder(z))
