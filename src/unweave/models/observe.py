"""Decode codes to p(x|z), in one process or in several together."""

from collections.abc import Callable
from functools import cached_property
from typing import Any

from torch import Tensor

from unweave.core.noise import Noise
from unweave.core.rows import all_rows, divides, gather_rows, map_own_rows, own_rows
from unweave.likelihoods import Likelihood, Observation


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
        """Return what the observation of a certain likelihood has besides."""
        return getattr(self._whole, name)


def observe(likelihood: Likelihood, decoder: Callable[[Tensor], Tensor], z: Tensor) -> Observation:
    """Return p(x|z) for codes (B, D), which are decoded by the processes that train together."""
    if divides(z):
        return DividedObservation(likelihood, map_own_rows(decoder, z))
    return likelihood(decoder(z))
