"""Priors that are known before training, usable on plain tensors without a model."""

from __future__ import annotations

import contextlib
import functools
import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor

from unweave.core.tensors import Numbers, floating
from unweave.latents.distributions import HALF_LOG_2PI, Distribution

_POINTS = 8192  # quasi-random points for an expectation without a formula


class PriorDensity(ABC):
    """A prior p(z) known before training, with its divergences, entropy and powers.

    Only `log_prob` and `kl` are required. A block without a formula for its entropy or for the
    integral of p(z)^beta can leave those out; they are needed only by `unweave.theory`.
    """

    if TYPE_CHECKING:  # at run time pydantic would make it a field of `Product`
        size: int  # number of columns of z

    @abstractmethod
    def log_prob(self, z: Numbers) -> Tensor:
        """Compute log p(z) for points (..., D), (...)."""

    @abstractmethod
    def kl(self, mean: Numbers, scale: Numbers) -> Tensor:
        """Compute KL(N(mean, diag(scale^2)) || p(z)).

        The result has one value for each column, (..., D), if p(z) factorises, otherwise (...).
        """

    def entropy(self) -> float:
        """Compute -E[log p(z)] over all columns, in nats."""
        raise ValueError(f"{type(self).__name__} does not define entropy()")

    def log_normaliser(self, beta: float) -> float:
        """Compute log F_beta, the log of the integral of p(z)^beta.  [Mathieu2019] theorem 1."""
        raise ValueError(f"{type(self).__name__} does not define log_normaliser(beta)")

    def annealed(self, beta: float) -> PriorDensity:
        """Return the annealed prior f_beta(z) = p(z)^beta / F_beta.  [Mathieu2019] theorem 1."""
        return AnnealedPrior(self, positive(beta))


@dataclass(frozen=True)
class AnnealedPrior(PriorDensity):
    """The annealed prior f_beta(z) = p(z)^beta / F_beta.  [Mathieu2019] theorem 1."""

    block: PriorDensity
    beta: float

    @property
    def size(self) -> int:  # type: ignore[override]
        """Number of columns of z."""
        return self.block.size

    def log_prob(self, z: Numbers) -> Tensor:
        """Compute beta log p(z) - log F_beta for points (..., D), (...)."""
        return self.beta * self.block.log_prob(z) - self._log_f

    def kl(self, mean: Numbers, scale: Numbers) -> Tensor:
        """Compute KL(q || f_beta) = beta KL(q || p) + (beta - 1) H(q) + log F_beta.

        The result has the same shape as the KL to the prior that is annealed.
        """
        q = normal(mean, scale, self.size)
        kl, entropy = self.block.kl(q.mean, q.scale), q.entropy()
        if kl.dim() == entropy.dim():  # one value for each column, and all columns are alike
            value = self.beta * kl + (self.beta - 1) * entropy + self._log_f / self.size
        else:
            value = self.beta * kl + (self.beta - 1) * entropy.sum(-1) + self._log_f
        return value.to(q.dtype)

    def entropy(self) -> float:
        """Compute log F_beta - beta d/dbeta log F_beta, the derivative by finite differences."""
        step = 1e-3 * self.beta
        ahead, behind = (
            [self.block.log_normaliser(self.beta + sign * k * step) for k in (1, 2)]
            for sign in (1, -1)
        )
        slope = (8 * (ahead[0] - behind[0]) - (ahead[1] - behind[1])) / (12 * step)
        return self._log_f - self.beta * slope

    def log_normaliser(self, beta: float) -> float:
        """Compute the log of the integral of f^beta, log F_(beta self.beta) - beta log F."""
        return self.block.log_normaliser(self.beta * positive(beta)) - beta * self._log_f

    def annealed(self, beta: float) -> AnnealedPrior:
        """Return f^beta, normalised: the powers multiply."""
        return AnnealedPrior(self.block, self.beta * positive(beta))

    @functools.cached_property
    def _log_f(self) -> float:
        return self.block.log_normaliser(self.beta)


class Normals(NamedTuple):
    """Normal distributions with mean and scale (..., D), in float64 so small KLs keep digits."""

    mean: Tensor
    scale: Tensor
    dtype: torch.dtype  # of the arguments, and so of the result

    def entropy(self) -> Tensor:
        """Compute the entropy of every column, (..., D)."""
        return self.scale.log() + (0.5 + HALF_LOG_2PI)


def normal(mean: Numbers, scale: Numbers, size: int) -> Normals:
    """Check and broadcast a mean (..., size) and a scale, or raise a ValueError."""
    m, s = points(mean, size), floating(scale)
    if s.dim() and s.shape[-1] not in (1, size):
        raise ValueError(f"expected one scale or {size}, as the mean has, got {tuple(s.shape)}")
    with contextlib.suppress(RuntimeError):  # values cannot be read under vmap
        if (s < 0).any():
            raise ValueError(f"expected a scale of 0 or more, got {s.min().item():g}")
    dtype = torch.promote_types(m.dtype, s.dtype) if s.dim() else m.dtype
    m, s = torch.broadcast_tensors(m.double(), s.to(m.device).double())
    return Normals(m, s, dtype)


def points(z: Numbers, size: int) -> Tensor:
    """Return points (..., size) as a tensor, or raise a ValueError."""
    z = floating(z)
    if z.dim() == 0 or z.shape[-1] != size:
        raise ValueError(f"expected points of shape (..., {size}), got {tuple(z.shape)}")
    return z


def positive(beta: float) -> float:
    """Return a power to which a density can be raised, or raise a ValueError."""
    if not beta > 0 or math.isinf(beta):
        raise ValueError(f"expected a power beta above 0, got {beta}: p(z)^beta has no integral")
    return beta


def quasi_random_expectation(p: Distribution, mean: Tensor, scale: Tensor) -> Tensor:
    """Estimate E[log p(z)] for z ~ N(mean, diag(scale^2)), (N, D), by a Sobol sequence, (N,)."""
    sobol = torch.quasirandom.SobolEngine(mean.shape[-1], scramble=True, seed=0)
    share = sobol.draw(_POINTS, dtype=torch.float64).clamp(1e-12, 1 - 1e-12)
    u = torch.special.ndtri(share).to(mean)
    return p.log_prob(mean[:, None] + scale[:, None] * u).mean(-1)
