"""Why an objective or a divergence does not make sense on a latent space."""

from __future__ import annotations

from collections.abc import Callable

from unweave.latents import Distribution, GaussianMixture, Joint, Latent, Product, StudentT
from unweave.latents.block import Block, Continuous


def leaves(latent: Latent) -> dict[str, Block]:
    """The blocks of a latent space by their path, products taken apart.

    >>> from unweave.latents import Categorical, Gaussian
    >>> list(leaves(Product(style=Gaussian(3), what=Product(shape=Categorical(3)))))
    ['style', 'what.shape']
    """
    if not isinstance(latent, Product):
        return {"": latent}
    return {
        f"{name}.{path}".rstrip("."): block
        for name, child in latent.blocks.items()
        for path, block in leaves(child).items()
    }


def part(d: Distribution, path: str) -> Distribution:
    """The distribution of the block at a path of the latent tree."""
    for name in path.split(".") if path else ():
        assert isinstance(d, Joint)
        d = d.parts[name]
    return d


def exactly(method: object) -> bool:
    """Whether a method estimates q(z) exactly, which takes the whole data set in a batch."""
    return getattr(method, "estimator", "") == "exact"


def gaussian_only(latent: Latent, why: str) -> str | None:
    """A refusal of blocks whose posterior is not Gaussian."""
    return _first(latent, lambda block: not isinstance(block, Continuous), why)


def continuous_only(latent: Latent, why: str) -> str | None:
    """A refusal of blocks with discrete variables."""
    return _first(latent, lambda block: any(block.discrete), why)


def fixed_prior_only(latent: Latent, why: str) -> str | None:
    """A refusal of blocks whose prior is learned."""
    return _first(latent, lambda block: block.learned, why)


def finite_variance_only(latent: Latent, why: str) -> str | None:
    """A refusal of blocks whose prior has no variance."""
    return _first(latent, lambda block: isinstance(block, StudentT) and block.df <= 2, why)


def factorised_only(latent: Latent, why: str) -> str | None:
    """A refusal of blocks whose columns depend on each other under the prior."""
    return _first(latent, lambda block: isinstance(block, GaussianMixture), why)


def several_variables(latent: Latent) -> str | None:
    """A refusal of latent spaces of a single variable."""
    if len(latent.variables) > 1:
        return None
    return "one variable alone has no total correlation; use two or more"


def _first(latent: Latent, bad: Callable[[Block], bool], why: str) -> str | None:
    for path, block in leaves(latent).items():
        if bad(block):
            return f"{why}, and {path or 'the latent space'} is {type(block).__name__}"
    return None
