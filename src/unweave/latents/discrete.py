"""Discrete blocks: a categorical variable, and bits.

Rates, aggregate posteriors and priors use the probabilities of the discrete values. Only the sample
that the decoder sees is relaxed, so that gradients flow.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from typing import Annotated, ClassVar, Literal

import torch
import torch.nn.functional as F
from pydantic import Field, PositiveFloat
from torch import Tensor, nn

from unweave.core.spec import Size, spec, tag
from unweave.core.tensors import Numbers
from unweave.latents.block import Encode, FixedPrior, FixedPriorBlock
from unweave.latents.distributions import Bits, Distribution, OneHot, nearest_bits, nearest_one_hot
from unweave.latents.prior import points, positive


class DiscreteBlock(FixedPriorBlock):
    """Variables that take one of finitely many values."""

    def kl(self, mean: Numbers, scale: Numbers) -> Tensor:
        """Raise a ValueError: a normal distribution has no KL to a discrete one."""
        raise ValueError(
            "a normal distribution has no KL to a discrete prior; compare probabilities: block."
            f"posterior(logits).kl(block.density(torch.zeros({self.size})))"
        )

    @property
    def outputs(self) -> int:
        return self.size

    @property
    def discrete(self) -> tuple[bool, ...]:
        return (True,) * len(self.variables)

    @abstractmethod
    def values(self) -> Tensor:
        """Return all values of z, (n, size)."""

    def prior_codes(self, q: Distribution, p: Distribution) -> Tensor:
        """Return the codes themselves: categories have no order."""
        return self.codes(q)


class LearnedClasses(nn.Module):
    """A categorical prior with learned probabilities."""

    def __init__(self, block: Categorical) -> None:
        super().__init__()
        self.block = block
        self.logits = nn.Parameter(torch.zeros(block.size))

    def forward(self, encode: Encode) -> OneHot:
        """Return p(z) over z of shape (K,)."""
        return self.block.posterior(self.logits)


@spec
class Categorical(DiscreteBlock):
    """One of `size` classes, equally likely under the prior.  [Esmaeili2019] sec. 6.

    The encoder outputs logits; the sample is a Concrete one-hot vector [Maddison2017] eq. 10 at the
    given temperature, rounded with `hard` (straight through). The rate and the aggregate posterior
    use the probabilities of the classes, never the Concrete density. All classes are one variable.
    With `learn` the prior's probabilities are learned. With `given`, the name of a discrete block
    before this one in the same `Product`, the prior is a learned p(z|z_given).  [Esmaeili2019] sec.
    5.
    """

    size: Annotated[int, Field(ge=2, le=1_000_000)] = 10
    """Number of classes."""
    temperature: PositiveFloat = 0.66
    """Temperature of the relaxed samples; lower is closer to one class."""
    hard: bool = False
    """Whether samples are rounded to one class (straight through)."""
    learn: bool = False
    """Whether the prior's probabilities are learned."""
    given: str | None = None
    """Discrete block that the prior depends on."""
    kind: Literal["categorical"] = tag("categorical")
    also_cites: ClassVar[tuple[str, ...]] = ("Maddison2017",)

    @property
    def variables(self) -> tuple[int, ...]:
        return (self.size,)

    @property
    def fixed_prior(self) -> bool:
        return not self.learn and self.given is None

    def posterior(self, raw: Tensor) -> OneHot:
        return OneHot(F.log_softmax(raw, -1), self.temperature, self.hard)

    def density(self, zero: Tensor) -> OneHot:
        return self.posterior(points(zero, self.size))

    def prior(self, shape: tuple[int, ...]) -> nn.Module:
        if self.given is not None:
            raise ValueError(
                f"expected a product with the block {self.given!r} before this categorical, got "
                f"the categorical alone: use Product({self.given}=..., ...), or leave out given"
            )
        return LearnedClasses(self) if self.learn else FixedPrior(self)

    def rates(self, q: Distribution, p: Distribution, z: Tensor) -> Tensor:
        """Compute sum_k q_k log(q_k / p_k), (..., 1)."""
        assert isinstance(q, OneHot)
        assert isinstance(p, OneHot)
        return q.kl(p).unsqueeze(-1)

    def hard_samples(self, z: Tensor) -> Tensor:
        return nearest_one_hot(z)

    def target(self, value: Tensor, classes: int) -> Tensor:
        if classes != self.size:
            raise ValueError(
                f"a label with {classes} classes needs a categorical of that size, got {self.size}"
            )
        return F.one_hot(value.long(), classes)

    def codes(self, q: Distribution) -> Tensor:
        return q.mean.argmax(-1, keepdim=True).to(q.mean.dtype)

    def traversal_values(self, p: Distribution, steps: int) -> tuple[Tensor, ...]:
        return (torch.eye(self.size, dtype=p.mean.dtype, device=p.mean.device),)

    def values(self) -> Tensor:
        return torch.eye(self.size)

    def entropy(self) -> float:
        return math.log(self.size)

    def log_normaliser(self, beta: float) -> float:
        """Compute log F_beta = log sum_k p_k^beta = (1 - beta) log size."""
        return (1 - positive(beta)) * math.log(self.size)

    def annealed(self, beta: float) -> Categorical:
        """Return p(z)^beta / F_beta, which is p(z) itself."""
        positive(beta)
        return self


@spec
class Bernoulli(DiscreteBlock):
    """`size` independent bits, each a one with the given probability under the prior.

    [Esmaeili2019] sec. 6. The encoder outputs logits. Samples are relaxed as for `Categorical`; the
    rate and the aggregate posterior use the probabilities of the bits.
    """

    size: Size = 2
    """Number of bits."""
    probability: Annotated[float, Field(gt=0, lt=1)] = 0.5
    """Probability of a one under the prior."""
    temperature: PositiveFloat = 0.66
    """Temperature of the relaxed samples; lower is closer to 0 or 1."""
    hard: bool = False
    """Whether samples are rounded to 0 or 1 (straight through)."""
    kind: Literal["bernoulli"] = tag("bernoulli")
    also_cites: ClassVar[tuple[str, ...]] = ("Maddison2017",)

    def posterior(self, raw: Tensor) -> Bits:
        return Bits(raw, self.temperature, self.hard)

    def density(self, zero: Tensor) -> Bits:
        return self.posterior(zero + self._logit)

    def rates(self, q: Distribution, p: Distribution, z: Tensor) -> Tensor:
        assert isinstance(q, Bits)
        assert isinstance(p, Bits)
        return q.kl(p)

    def hard_samples(self, z: Tensor) -> Tensor:
        return nearest_bits(z)

    def target(self, value: Tensor, classes: int) -> Tensor:
        if classes != 2 or self.size != 1:
            raise ValueError(
                f"a bit can stand for a label with 2 classes, got {classes} for {self.size} bits"
            )
        return value.unsqueeze(-1)

    def codes(self, q: Distribution) -> Tensor:
        return (q.mean > 0.5).to(q.mean.dtype)

    def traversal_values(self, p: Distribution, steps: int) -> tuple[Tensor, ...]:
        return (p.mean.new_tensor([[0.0], [1.0]]),) * self.size

    def values(self) -> Tensor:
        return torch.cartesian_prod(*[torch.tensor([0.0, 1.0])] * self.size).reshape(-1, self.size)

    def entropy(self) -> float:
        p = self.probability
        return -self.size * (p * math.log(p) + (1 - p) * math.log1p(-p))

    def log_normaliser(self, beta: float) -> float:
        """Compute log F_beta = D log(p^beta + (1 - p)^beta)."""
        least, most = sorted((math.log(self.probability), math.log1p(-self.probability)))
        return self.size * (positive(beta) * most + math.log1p(math.exp(beta * (least - most))))

    @property
    def _logit(self) -> float:
        return math.log(self.probability) - math.log1p(-self.probability)
