"""What every model offers, whatever trains it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar, cast

import torch
from torch import Tensor, nn

from unweave.latents import Distribution, Latent, Posterior
from unweave.likelihoods import Observation
from unweave.networks import statistics_held


def full(x: Tensor) -> Tensor:
    """What a network puts out, in float32 where its layers are in half precision."""
    return x.float() if x.dtype in (torch.bfloat16, torch.float16) else x


class Model(nn.Module, ABC):
    """Codes of observations, observations of codes, and a prior over codes."""

    latent: Latent
    prior: nn.Module
    players: ClassVar[tuple[str, ...]] = ()  # parts of it that are players of their own
    noise: int = 0  # columns of N(0, 1) noise that the decoder takes beside the codes

    @abstractmethod
    def raw(self, x: Tensor) -> Tensor:
        """The encoder's output for a batch (B, *shape), from which `latent` makes q(z|x)."""

    @abstractmethod
    def decode(self, z: Tensor) -> Observation:
        """p(x|z) for codes and, after them, the decoder's noise if it has any, (B, D + noise)."""

    def encode(self, x: Tensor) -> Posterior:
        """q(z|x) for a batch (B, *shape)."""
        return self.latent.posterior(self.raw(x))

    def p(self) -> Distribution:
        """The prior over codes."""
        return cast(Distribution, self.prior(self._raw_at_rest))

    def _raw_at_rest(self, x: Tensor) -> Tensor:
        """The encoder's output for what is not data: by the running statistics, which stay."""
        with statistics_held(self):
            return self.raw(x)
