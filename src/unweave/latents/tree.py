"""`Product`: independent named blocks side by side, nested to any depth."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import torch
from pydantic import BaseModel, ConfigDict, Field, model_validator
from torch import Tensor, nn

from unweave.latents.distributions import Distribution, Joint
from unweave.latents.gaussian import Gaussian
from unweave.spec import explained


class JointPrior(nn.Module):
    """The product of the priors of named blocks."""

    def __init__(self, blocks: dict[str, Latent]) -> None:
        super().__init__()
        self.parts = nn.ModuleDict({name: block.prior() for name, block in blocks.items()})
        self.sizes = tuple(block.size for block in blocks.values())

    def forward(self) -> Joint:
        """The prior as a distribution over z of shape (D,)."""
        return Joint({name: part() for name, part in self.parts.items()}, self.sizes)


@explained
class Product(BaseModel):
    """Named blocks, independent under the prior: p(z) = prod_g p_g(z_g).  [Esmaeili2019] fig. 4.

    The names are the keyword arguments; their order is the order of the columns of z.

    >>> tree = Product(style=Gaussian(3), place=Product(x=Gaussian(1), y=Gaussian(1)))
    >>> tree.size, tree.names
    (5, ('style.0', 'style.1', 'style.2', 'place.x.0', 'place.y.0'))
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
                raise ValueError(f"{name!r} cannot name a block: it means something already")
        return self

    @property
    def blocks(self) -> dict[str, Latent]:
        """The blocks by name."""
        return dict(self.__pydantic_extra__)

    @property
    def size(self) -> int:
        """Columns of z."""
        return sum(block.size for block in self.blocks.values())

    @property
    def outputs(self) -> int:
        """Numbers that the encoder puts out for the tree."""
        return sum(block.outputs for block in self.blocks.values())

    @property
    def variables(self) -> tuple[int, ...]:
        """Columns of each variable."""
        return tuple(width for block in self.blocks.values() for width in block.variables)

    @property
    def names(self) -> tuple[str, ...]:
        """A name for every variable: the path of its block and its number there."""
        return tuple(f"{name}.{leaf}" for name, b in self.blocks.items() for leaf in b.names)

    def posterior(self, raw: Tensor) -> Joint:
        """q(z|x) = prod_g q_g(z_g|x) from the encoder's output."""
        pieces = raw.split([block.outputs for block in self.blocks.values()], -1)
        parts = {
            name: block.posterior(piece)
            for (name, block), piece in zip(self.blocks.items(), pieces, strict=True)
        }
        return Joint(parts, self._sizes)

    def prior(self) -> nn.Module:
        """A module that returns p(z)."""
        return JointPrior(self.blocks)

    def rate(self, q: Distribution, p: Distribution, z: Tensor) -> Tensor:
        """KL(q || p) of every variable, the blocks' side by side, (..., V)."""
        assert isinstance(q, Joint)
        assert isinstance(p, Joint)
        rates = [
            block.rate(q.parts[name], p.parts[name], part)
            for (name, block), part in zip(
                self.blocks.items(), z.split(self._sizes, -1), strict=True
            )
        ]
        return torch.cat(rates, -1)

    @property
    def _sizes(self) -> tuple[int, ...]:
        return tuple(block.size for block in self.blocks.values())

    def __hash__(self) -> int:
        return hash(tuple(self.blocks.items()))

    def __eq__(self, other: Any) -> bool:
        return isinstance(other, Product) and list(self.blocks.items()) == list(
            other.blocks.items()
        )


Latent = Annotated[Gaussian | Product, Field(discriminator="kind")]
Product.model_rebuild()
