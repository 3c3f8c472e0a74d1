"""The Gaussian block: the standard normal prior with a diagonal Gaussian posterior."""

from __future__ import annotations

from typing import Literal

import torch
from pydantic import PositiveInt
from torch import Tensor, nn

from unweave.latents.distributions import DiagonalGaussian, Distribution
from unweave.spec import spec, tag

# A posterior narrower or wider than this is numerically a point or flat; exp stays in float32.
LOG_VARIANCE_BOUNDS = (-30.0, 20.0)


class FixedGaussian(nn.Module):
    """The distribution N(0, I) as a prior without parameters."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.register_buffer("zero", torch.zeros(size), persistent=False)
        self.zero: Tensor

    def forward(self) -> DiagonalGaussian:
        """The prior as a distribution over z of shape (D,)."""
        return DiagonalGaussian(self.zero, self.zero)


@spec
class Gaussian:
    """`size` independent standard normal variables: p(z) = N(0, I).  [Kingma2014] sec. 3.

    The posterior is N(mean(x), diag(exp(log_variance(x)))); the encoder puts out the means and
    then the log-variances.
    """

    size: PositiveInt = 10
    kind: Literal["gaussian"] = tag("gaussian")

    @property
    def outputs(self) -> int:
        """Numbers that the encoder puts out for this block."""
        return 2 * self.size

    @property
    def variables(self) -> tuple[int, ...]:
        """Columns of each variable."""
        return (1,) * self.size

    @property
    def names(self) -> tuple[str, ...]:
        """A name for every variable."""
        return tuple(str(i) for i in range(self.size))

    def posterior(self, raw: Tensor) -> DiagonalGaussian:
        """q(z|x) from the encoder's output (..., 2 D)."""
        loc, log_variance = raw.chunk(2, -1)
        return DiagonalGaussian(loc, 0.5 * log_variance.clamp(*LOG_VARIANCE_BOUNDS))

    def prior(self) -> nn.Module:
        """A module that returns p(z)."""
        return FixedGaussian(self.size)

    def rate(self, q: Distribution, p: Distribution, z: Tensor) -> Tensor:
        """KL(q(z_j|x) || p(z_j)) of every variable in closed form, (..., D)."""
        assert isinstance(q, DiagonalGaussian)
        assert isinstance(p, DiagonalGaussian)
        return q.kl(p)
