"""The base class of all models."""

from abc import ABC, abstractmethod
from typing import ClassVar, cast

import torch
from torch import Tensor, nn

from unweave.latents import Distribution, Latent, Posterior
from unweave.likelihoods import Observation
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
