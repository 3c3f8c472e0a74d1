"""Checks that a latent space has what an objective or a divergence needs.

Each check returns None, or a sentence that explains why the latent space cannot be used.
"""

from __future__ import annotations

from typing import Literal

from unweave.latents import Latent

Property = Literal[
    "continuous",
    "gaussian_posterior",
    "factorised_posterior",
    "fixed_prior",
    "finite_variance",
    "factorised",
]


def require(latent: Latent, needed: Property, why: str) -> str | None:
    """Check that every block of a latent space has a property of `latents.Block`.

    >>> from unweave.latents import StudentT
    >>> require(StudentT(2, df=1), "finite_variance", "moments need a finite variance")
    'moments need a finite variance, and the latent space is StudentT'
    """
    for path, block in latent.leaf_blocks.items():
        if not getattr(block, needed):
            return f"{why}, and {path or 'the latent space'} is {type(block).__name__}"
    return None


def require_several_variables(latent: Latent) -> str | None:
    """Check that a latent space has more than one variable."""
    if len(latent.variables) > 1:
        return None
    return "one variable alone has no total correlation; use two or more"
