"""Priors in which a discrete block depends on another: p(z) = prod_b p(z_b|z_a(b)).

The parts of such a prior are the marginals p(z_b), so code that reads one block at a time sees the
right distribution. Only the joint density, samples and the rate use the dependence.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Self

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from unweave.core.noise import Noise
from unweave.latents.discrete import Categorical, DiscreteBlock
from unweave.latents.distributions import Distribution, Joint, OneHot, nearest_bits, nearest_one_hot


@dataclass(frozen=True)
class Conditional:
    """p(z_b|z_a) = softmax(weight z_a + bias) for a class z_b and n possible values of z_a.

    For a one-hot z_a this is a table of conditional probabilities with one row for each class.
    """

    given: str  # the block a
    values: Tensor  # (n, D_a), all values of z_a
    weight: Tensor  # (K, D_a)
    bias: Tensor  # (K,)
    temperature: float
    hard: bool

    def at(self, z: Tensor) -> OneHot:
        """Return p(z_b|z_a = z) for values (..., D_a)."""
        logits = z @ self.weight.T + self.bias
        return OneHot(F.log_softmax(logits, -1), self.temperature, self.hard)

    def marginal(self, parent: Distribution) -> OneHot:
        """Return p(z_b), the sum over z_a of p(z_a) p(z_b|z_a)."""
        weights = parent.log_prob(self.values).unsqueeze(-1)
        log_probs = torch.logsumexp(weights + self.at(self.values).log_probs, 0)
        return OneHot(log_probs, self.temperature, self.hard)

    def rate(self, q_a: Distribution, q_b: Distribution) -> Tensor:
        """Compute E[log q(z_b|x) - log p(z_b|z_a)] for independent posteriors, (...)."""
        batch = (1,) * (q_a.mean.dim() - 1)
        values = self.values.reshape(len(self.values), *batch, -1)
        shares = q_a.log_prob(values).exp().movedim(0, -1)  # (..., n)
        expected = shares @ self.at(self.values).log_probs
        entropy: Tensor = q_b.entropy()  # type: ignore[attr-defined]
        return -entropy - (q_b.mean * expected).sum(-1)


@dataclass(frozen=True)
class DependentJoint(Joint):
    """prod_b p(z_b|z_a(b)), with the marginals p(z_b) as parts; a block comes after its parent."""

    links: Mapping[str, Conditional]

    def log_prob(self, z: Tensor) -> Tensor:
        """Compute the sum of log p(z_b|z_a(b)) over the blocks, (...)."""
        columns = dict(zip(self.parts, z.split(self.sizes, -1), strict=True))
        given = {name: link.at(columns[link.given]) for name, link in self.links.items()}
        parts: dict[str, Distribution] = {**self.parts, **given}
        return torch.stack([parts[name].log_prob(own) for name, own in columns.items()]).sum(0)

    def rsample(self, noise: Noise, shape: Sequence[int] = ()) -> Tensor:
        """Draw every block given the hard sample of its parent."""
        samples: dict[str, Tensor] = {}
        for name, part in self.parts.items():
            link = self.links.get(name)
            if link is None:
                samples[name] = part.rsample(noise.fold(name), shape)
                continue
            one_hot = isinstance(self.parts[link.given], OneHot)
            given = (nearest_one_hot if one_hot else nearest_bits)(samples[link.given])
            samples[name] = link.at(given).rsample(noise.fold(name))
        return torch.cat(list(samples.values()), -1)

    def rate(self, name: str, q: Joint) -> Tensor:
        """Compute E[log q(z_b|x) - log p(z_b|z_a)] for a block b that depends on another, (...)."""
        link = self.links[name]
        return link.rate(q.parts[link.given], q.parts[name])

    def with_hard_samples(self) -> Self:
        links = {name: replace(link, hard=True) for name, link in self.links.items()}
        return replace(self, parts=super().with_hard_samples().parts, links=links)


class ConditionalPrior(nn.Module):
    """A learned p(z_b|z_a), initially uniform for every z_a."""

    def __init__(self, block: Categorical, parent: DiscreteBlock) -> None:
        super().__init__()
        self.block = block
        self.weight = nn.Parameter(torch.zeros(block.size, parent.size))
        self.bias = nn.Parameter(torch.zeros(block.size))
        self.register_buffer("values", parent.values(), persistent=False)
        self.values: Tensor

    def forward(self) -> Conditional:
        """Return the conditional distribution."""
        block = self.block
        assert block.given is not None
        return Conditional(
            block.given, self.values, self.weight, self.bias, block.temperature, block.hard
        )
