"""Discrete blocks: a categorical variable, and bits.

Their probabilities are masses, everywhere: in rates, in the aggregate posterior and in the prior.
Only the sample that the decoder sees is relaxed, so that a gradient passes.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from typing import Annotated, Literal

import torch
import torch.nn.functional as F
from pydantic import Field, PositiveFloat, PositiveInt
from torch import Tensor, nn

from unweave.core.spec import spec, tag
from unweave.core.tensors import Numbers
from unweave.latents.block import Annealed, Encode, Fixed, FixedPrior, points, positive
from unweave.latents.distributions import Bits, Distribution, OneHot, bit_corner, one_hot_corner


class Discrete(Fixed):
    """Variables that take one of finitely many values."""

    def kl(self, mean: Numbers, scale: Numbers) -> Tensor:
        """Refused: a normal distribution has no mass at the values."""
        raise ValueError(
            "a normal distribution cannot be held against a discrete prior; use masses: block."
            f"posterior(logits).kl(block.density(torch.zeros({self.size})))"
        )

    @abstractmethod
    def values(self) -> Tensor:
        """All values of z, (n, size)."""

    def prior_codes(self, q: Distribution, p: Distribution) -> Tensor:
        """The codes themselves: categories have no order."""
        return self.codes(q)


class LearnedClasses(nn.Module):
    """A categorical prior with learned probabilities."""

    def __init__(self, block: Categorical) -> None:
        super().__init__()
        self.block = block
        self.logits = nn.Parameter(torch.zeros(block.size))

    def forward(self, encode: Encode) -> OneHot:
        """p(z) over z of shape (K,)."""
        return self.block.posterior(self.logits)


@spec
class Categorical(Discrete):
    """One of `size` classes, equally likely under the prior.  [Esmaeili2019] sec. 6.

    The encoder puts out logits; the sample is a Concrete one-hot vector [Maddison2017] eq. 10 at
    the given temperature, rounded with `hard` (straight through). Rate and aggregate use the
    masses of the classes, never the Concrete density. All classes are one variable. With `learn`
    the prior's probabilities are learned. With `given`, the name of a discrete block that stands
    before it in the same `Product`, the prior is p(z|z_given), with learned probabilities.
    [Esmaeili2019] sec. 5.
    """

    size: Annotated[int, Field(ge=2)] = 10
    temperature: PositiveFloat = 0.66
    hard: bool = False
    learn: bool = False
    given: str | None = None
    kind: Literal["categorical"] = tag("categorical")

    @property
    def outputs(self) -> int:
        """Numbers that the encoder puts out for this block."""
        return self.size

    @property
    def variables(self) -> tuple[int, ...]:
        """All columns are one variable."""
        return (self.size,)

    @property
    def discrete(self) -> tuple[bool, ...]:
        """Whether each variable takes one of finitely many values."""
        return (True,)

    @property
    def learned(self) -> bool:
        """Whether the prior has parameters."""
        return self.learn or self.given is not None

    def posterior(self, raw: Tensor) -> OneHot:
        """q(z|x) from the encoder's logits."""
        return OneHot(F.log_softmax(raw, -1), self.temperature, self.hard)

    def density(self, zero: Tensor) -> OneHot:
        """p(z), with the size, type and device of zeros (K,)."""
        return self.posterior(points(zero, self.size))

    def prior(self, shape: tuple[int, ...]) -> nn.Module:
        """A module that returns p(z)."""
        if self.given is not None:
            raise ValueError(
                f"expected a product in which the block {self.given!r} stands before this "
                f"categorical, got it alone: use Product({self.given}=..., ...), or leave out given"
            )
        return LearnedClasses(self) if self.learn else FixedPrior(self)

    def rate(self, q: Distribution, p: Distribution, z: Tensor) -> Tensor:
        """sum_k q_k log(q_k / p_k), (...)."""
        assert isinstance(q, OneHot)
        assert isinstance(p, OneHot)
        return q.kl(p)

    def rates(self, q: Distribution, p: Distribution, z: Tensor) -> Tensor:
        """The same, (..., 1)."""
        return self.rate(q, p, z).unsqueeze(-1)

    def hard_samples(self, z: Tensor) -> Tensor:
        """The nearest one-hot vectors, (..., size)."""
        return one_hot_corner(z)

    def target(self, value: Tensor, classes: int) -> Tensor:
        """The one-hot vector of a class, (..., size)."""
        if classes != self.size:
            raise ValueError(
                f"a label with {classes} classes needs a categorical of that size, got {self.size}"
            )
        return F.one_hot(value.long(), classes)

    def codes(self, q: Distribution) -> Tensor:
        """The likeliest class, (..., 1)."""
        return q.mean.argmax(-1, keepdim=True).to(q.mean.dtype)

    def walks(self, p: Distribution, steps: int) -> tuple[Tensor, ...]:
        """The corner of every class, (K, K)."""
        return (torch.eye(self.size, dtype=p.mean.dtype, device=p.mean.device),)

    def values(self) -> Tensor:
        """The corner of every class, (K, K)."""
        return torch.eye(self.size)

    def entropy(self) -> float:
        """log of the number of classes."""
        return math.log(self.size)

    def log_normaliser(self, beta: float) -> float:
        """log F_beta = log sum_k p_k^beta = (1 - beta) log size."""
        return (1 - positive(beta)) * math.log(self.size)

    def annealed(self, beta: float) -> Categorical:
        """p(z)^beta / F_beta: the same."""
        positive(beta)
        return self


@spec
class Bernoulli(Discrete):
    """`size` independent bits, each a one with the given probability under the prior.

    [Esmaeili2019] sec. 6. The encoder puts out logits; samples are relaxed as those of
    `Categorical`, and rate and aggregate use masses.
    """

    size: PositiveInt = 2
    probability: Annotated[float, Field(gt=0, lt=1)] = 0.5
    temperature: PositiveFloat = 0.66
    hard: bool = False
    kind: Literal["bernoulli"] = tag("bernoulli")

    @property
    def outputs(self) -> int:
        """Numbers that the encoder puts out for this block."""
        return self.size

    @property
    def variables(self) -> tuple[int, ...]:
        """Columns of each variable."""
        return (1,) * self.size

    @property
    def discrete(self) -> tuple[bool, ...]:
        """Whether each variable takes one of finitely many values."""
        return (True,) * self.size

    def posterior(self, raw: Tensor) -> Bits:
        """q(z|x) from the encoder's logits."""
        return Bits(raw, self.temperature, self.hard)

    def density(self, zero: Tensor) -> Bits:
        """p(z), with the size, type and device of zeros (D,)."""
        return self.posterior(zero + self._logit)

    def rate(self, q: Distribution, p: Distribution, z: Tensor) -> Tensor:
        """KL(q(z|x) || p(z)), (...)."""
        return self.rates(q, p, z).sum(-1)

    def rates(self, q: Distribution, p: Distribution, z: Tensor) -> Tensor:
        """KL of every bit, (..., D)."""
        assert isinstance(q, Bits)
        assert isinstance(p, Bits)
        return q.kl(p)

    def hard_samples(self, z: Tensor) -> Tensor:
        """The nearest zeros and ones, (..., D)."""
        return bit_corner(z)

    def target(self, value: Tensor, classes: int) -> Tensor:
        """The bit itself, (..., 1)."""
        if classes != 2 or self.size != 1:
            raise ValueError(
                f"a bit can stand for a label with 2 classes, got {classes} for {self.size} bits"
            )
        return value.unsqueeze(-1)

    def codes(self, q: Distribution) -> Tensor:
        """The likelier value of every bit, (..., D)."""
        return (q.mean > 0.5).to(q.mean.dtype)

    def walks(self, p: Distribution, steps: int) -> tuple[Tensor, ...]:
        """Zero and one for every bit, (2, 1) each."""
        return (p.mean.new_tensor([[0.0], [1.0]]),) * self.size

    def values(self) -> Tensor:
        """All combinations of zeros and ones, (2^D, D)."""
        return torch.cartesian_prod(*[torch.tensor([0.0, 1.0])] * self.size).reshape(-1, self.size)

    def entropy(self) -> float:
        """Sum of the entropies of the bits."""
        p = self.probability
        return -self.size * (p * math.log(p) + (1 - p) * math.log1p(-p))

    def log_normaliser(self, beta: float) -> float:
        """log F_beta = D log(p^beta + (1 - p)^beta)."""
        least, most = sorted((math.log(self.probability), math.log1p(-self.probability)))
        return self.size * (positive(beta) * most + math.log1p(math.exp(beta * (least - most))))

    def annealed(self, beta: float) -> Annealed:
        """p(z)^beta / F_beta: the logits times beta."""
        return Annealed(self, positive(beta))

    @property
    def _logit(self) -> float:
        return math.log(self.probability) - math.log1p(-self.probability)
