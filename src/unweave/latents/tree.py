"""`Product`: a latent tree of named blocks, nested to any depth."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Annotated, Any, Literal

import torch
from pydantic import BaseModel, ConfigDict, Field, model_validator
from torch import Tensor, nn

from unweave.core.parts import Open
from unweave.core.spec import plain_errors
from unweave.core.tensors import Numbers
from unweave.latents.block import Block, Encode, Node, Spectrum, unknown_prior
from unweave.latents.dependent import Conditional, ConditionalPrior, DependentJoint
from unweave.latents.discrete import Bernoulli, Categorical, DiscreteBlock
from unweave.latents.distributions import Distribution, Joint, log_sum
from unweave.latents.gaussian import Gaussian
from unweave.latents.independent import Laplace, Sparse, StudentT, Uniform
from unweave.latents.mixture import GaussianMixture, VampPrior
from unweave.latents.prior import PriorDensity, normal, points

_MAX_PARENT_BITS = 10  # of a block that another depends on: sums run over all of its values


class JointPrior(nn.Module):
    """The prior of a product, in which a block may depend on an earlier one."""

    def __init__(self, blocks: dict[str, Latent], shape: tuple[int, ...]) -> None:
        super().__init__()
        self.parts = nn.ModuleDict()
        for name, block in blocks.items():
            parent = _parent(blocks, name)
            if isinstance(block, Categorical) and parent is not None:
                self.parts[name] = ConditionalPrior(block, parent)
            else:
                self.parts[name] = block.prior(shape)
        self.sizes = tuple(block.size for block in blocks.values())
        self.outputs = tuple(block.outputs for block in blocks.values())

    def forward(self, encode: Encode) -> Joint:
        """Return p(z) over z of shape (D,)."""
        parts: dict[str, Distribution] = {}
        links: dict[str, Conditional] = {}
        for number, (name, part) in enumerate(self.parts.items()):
            if isinstance(part, ConditionalPrior):
                links[name] = part()
                parts[name] = links[name].marginal(parts[links[name].given])
            else:
                parts[name] = part(lambda x, n=number: encode(x).split(self.outputs, -1)[n])
        return DependentJoint(parts, self.sizes, links) if links else Joint(parts, self.sizes)


def _parent(blocks: dict[str, Latent], name: str) -> DiscreteBlock | None:
    """Return the block on which a block depends under the prior, if any."""
    block = blocks[name]
    given = block.given if isinstance(block, Categorical) else None
    if given is None:
        return None
    before = {other: blocks[other] for other in list(blocks)[: list(blocks).index(name)]}
    parent = before.get(given)
    if isinstance(parent, DiscreteBlock) and len(parent.variables) <= _MAX_PARENT_BITS:
        return parent
    named = f"{type(parent).__name__} of size {parent.size}" if parent else "no such block"
    raise ValueError(
        f"expected {name}.given={given!r} to name a categorical, or at most {_MAX_PARENT_BITS} "
        f"bits, before it in the same product, got {named}; before it: {', '.join(before) or '-'}"
    )


@plain_errors
class Product(BaseModel, Block, PriorDensity):
    """Named blocks, independent under the prior: p(z) = prod_g p_g(z_g).  [Esmaeili2019] fig. 4.

    The names are the keyword arguments; their order is the order of the columns of z. Blocks that
    name another one as `given` depend on it instead, p_g(z_g|z_given); see `Categorical`.

    >>> tree = Product(style=Gaussian(3), place=Product(x=Gaussian(1), y=Gaussian(1)))
    >>> tree.size, tree.names
    (5, ('style.0', 'style.1', 'style.2', 'place.x', 'place.y'))
    """

    model_config = ConfigDict(frozen=True, extra="allow", allow_inf_nan=False)
    __pydantic_extra__: dict[str, Latent] = Field(init=False)
    kind: Literal["product"] = "product"

    @model_validator(mode="after")
    def _check(self) -> Product:
        if not self.blocks:
            raise ValueError(
                "a product needs at least one named block: Product(style=Gaussian(8)), or "
                "latent=product latent.style=gaussian on the command line"
            )
        for name in self.blocks:
            if not name.isidentifier():
                raise ValueError(f"{name!r} cannot name a block: use letters, digits and _")
            if hasattr(nn.ModuleDict, name) or hasattr(BaseModel, name):
                raise ValueError(f"{name!r} cannot name a block: the name is reserved")
        for name in self.blocks:
            _parent(self.blocks, name)  # raises if the block cannot depend on the one it names
        return self

    @property
    def blocks(self) -> dict[str, Latent]:
        """The blocks by name."""
        return dict(self.__pydantic_extra__)

    @property
    def size(self) -> int:  # type: ignore[override]
        """Number of columns of z."""
        return sum(block.size for block in self.blocks.values())

    @property
    def outputs(self) -> int:
        return sum(block.outputs for block in self.blocks.values())

    @property
    def discrete_outputs(self) -> tuple[bool, ...]:
        return tuple(flag for block in self.blocks.values() for flag in block.discrete_outputs)

    @property
    def variables(self) -> tuple[int, ...]:
        return tuple(width for block in self.blocks.values() for width in block.variables)

    @property
    def names(self) -> tuple[str, ...]:
        """A name for every variable: the path of its block, and its number if it has several."""
        return tuple(node.name for node in self.nodes if node.leaf)

    @property
    def discrete(self) -> tuple[bool, ...]:
        return tuple(flag for block in self.blocks.values() for flag in block.discrete)

    @property
    def normal(self) -> tuple[bool, ...]:
        return tuple(flag for block in self.blocks.values() for flag in block.normal)

    @property
    def gaussian_posterior(self) -> bool:
        return all(block.gaussian_posterior for block in self.blocks.values())

    @property
    def factorised_posterior(self) -> bool:
        return all(block.factorised_posterior for block in self.blocks.values())

    @property
    def fixed_prior(self) -> bool:
        return all(block.fixed_prior for block in self.blocks.values())

    @property
    def finite_variance(self) -> bool:
        return all(block.finite_variance for block in self.blocks.values())

    @property
    def factorised(self) -> bool:
        dependent = any(_parent(self.blocks, name) for name in self.blocks)
        return not dependent and all(block.factorised for block in self.blocks.values())

    @property
    def leaf_blocks(self) -> dict[str, Block]:
        return {
            f"{name}.{path}".rstrip("."): leaf
            for name, block in self.blocks.items()
            for path, leaf in block.leaf_blocks.items()
        }

    @property
    def nodes(self) -> tuple[Node, ...]:
        nodes = [Node("", None, False)]
        for name, block in self.blocks.items():
            start = len(nodes)
            for node in block.nodes:
                parent = 0 if node.parent is None else start + node.parent
                nodes.append(Node(f"{name}.{node.name}".rstrip("."), parent, node.leaf))
        return tuple(nodes)

    def posterior(self, raw: Tensor) -> Joint:
        """Return q(z|x) = prod_g q_g(z_g|x) for the encoder's output."""
        pieces = raw.split([block.outputs for block in self.blocks.values()], -1)
        parts = {
            name: block.posterior(piece)
            for (name, block), piece in zip(self.blocks.items(), pieces, strict=True)
        }
        return Joint(parts, self._sizes)

    def prior(self, shape: tuple[int, ...]) -> nn.Module:
        return JointPrior(self.blocks, shape)

    def density(self, zero: Tensor) -> Joint:
        """Return p(z) = prod_g p_g(z_g) with the size, type and device of zeros (D,)."""
        zeros = points(zero, self.size).split(self._sizes, -1)
        densities = zip(self.blocks, self._methods("density"), zeros, strict=True)
        return Joint({name: density(z) for name, density, z in densities}, self._sizes)

    def log_prob(self, z: Numbers) -> Tensor:
        z = points(z, self.size)
        return self.density(z.new_zeros(self.size)).log_prob(z)

    def kl(self, mean: Numbers, scale: Numbers) -> Tensor:
        """Compute KL(N(mean, diag(scale^2)) || p(z)) of every column, (..., D).

        If the columns of some block are not independent, the result is that of the tree, (...).
        """
        q = normal(mean, scale, self.size)
        columns = q.mean.split(self._sizes, -1), q.scale.split(self._sizes, -1)
        values = [kl(m, s) for kl, m, s in zip(self._methods("kl"), *columns, strict=True)]
        if all(value.dim() == q.mean.dim() for value in values):
            return torch.cat(values, -1).to(q.dtype)
        joint = [v.sum(-1) if v.dim() == q.mean.dim() else v for v in values]
        return torch.stack(joint).sum(0).to(q.dtype)

    def entropy(self) -> float:
        return float(sum(entropy() for entropy in self._methods("entropy")))

    def log_normaliser(self, beta: float) -> float:
        return float(sum(integral(beta) for integral in self._methods("log_normaliser")))

    def rate(self, q: Distribution, p: Distribution, z: Tensor) -> Tensor:
        """Compute KL(q || p), the sum over the blocks, each given its parent if any, (...)."""
        assert isinstance(q, Joint)
        dependent = p if isinstance(p, DependentJoint) else None
        rates = [
            dependent.rate(name, q) if dependent and name in dependent.links else block.rate(*parts)
            for name, (block, *parts) in zip(self.blocks, self._parts(q, p, z), strict=True)
        ]
        return torch.stack(rates).sum(0)

    def rates(self, q: Distribution, p: Distribution, z: Tensor) -> Tensor:
        return torch.cat([block.rates(*parts) for block, *parts in self._parts(q, p, z)], -1)

    def log_nodes(self, d: Distribution, z: Tensor) -> Tensor:
        below = [block.log_nodes(*parts) for block, *parts in self._parts(d, z)]
        return torch.cat([d.log_prob(z).unsqueeze(-1), *below], -1)

    def log_sums(self, d: Distribution, z: Tensor) -> tuple[Tensor, Tensor]:
        sums = [block.log_sums(*parts) for block, *parts in self._parts(d, z)]
        own = [torch.cat([log_sum(joint).unsqueeze(-1), below], -1) for joint, below in sums]
        return torch.stack([joint for joint, _ in sums]).sum(0), torch.cat(own, -1)

    def hard_samples(self, z: Tensor) -> Tensor:
        return torch.cat([block.hard_samples(part) for block, part in self._parts(z)], -1)

    def codes(self, q: Distribution) -> Tensor:
        return torch.cat([block.codes(part) for block, part in self._parts(q)], -1)

    def prior_codes(self, q: Distribution, p: Distribution) -> Tensor:
        return torch.cat([block.prior_codes(*parts) for block, *parts in self._parts(q, p)], -1)

    def traversal_range(self, p: Distribution) -> tuple[Tensor, Tensor]:
        ranges = [block.traversal_range(part) for block, part in self._parts(p)]
        low, high = zip(*ranges, strict=True)
        return torch.cat(low), torch.cat(high)

    def traversal_values(self, p: Distribution, steps: int) -> tuple[Tensor, ...]:
        values = (block.traversal_values(part, steps) for block, part in self._parts(p))
        return tuple(itertools.chain.from_iterable(values))

    def resolve(self, spectrum: Spectrum) -> Product:
        return Product(**{name: block.resolve(spectrum) for name, block in self.blocks.items()})

    def _parts(self, *arguments: Any) -> list[tuple[Any, ...]]:
        """Return every block with its part of each distribution and its columns of each tensor."""
        split = (
            each.split(self._sizes, -1) if isinstance(each, Tensor) else each.parts.values()
            for each in arguments
        )
        return list(zip(self.blocks.values(), *split, strict=True))

    def _methods(self, name: str) -> list[Callable[..., Any]]:
        """Return a method of every block, after checking that each prior is known beforehand."""
        for path, block in self.blocks.items():
            if not block.fixed_prior:
                raise ValueError(unknown_prior(path))
            if not hasattr(block, name):
                raise ValueError(f"{type(block).__name__}, the block {path}, has no {name}()")
        return [getattr(block, name) for block in self.blocks.values()]

    @property
    def _sizes(self) -> tuple[int, ...]:
        return tuple(block.size for block in self.blocks.values())

    def __hash__(self) -> int:
        return hash(tuple(self.blocks.items()))

    def __eq__(self, other: Any) -> bool:
        return isinstance(other, Product) and list(self.blocks.items()) == list(
            other.blocks.items()
        )


Latent = Annotated[
    Gaussian
    | StudentT
    | Sparse
    | Laplace
    | Uniform
    | GaussianMixture
    | VampPrior
    | Categorical
    | Bernoulli
    | Product
    | Block,
    Open(),
]
Product.model_rebuild()
