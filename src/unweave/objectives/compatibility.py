"""Check that a latent space has what an objective or a divergence needs."""

from __future__ import annotations

from collections.abc import Mapping
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
Requirements = Mapping[Property, str]  # properties that every block needs, and why


def unmet(latent: Latent, requirements: Requirements) -> str | None:
    """Say which block of a latent space lacks a property of `latents.Block`, or return None.

    >>> from unweave.latents import StudentT
    >>> unmet(StudentT(2, df=1), {"finite_variance": "moments need a finite variance"})
    'moments need a finite variance, and the latent space is StudentT'
    """
    for needed, why in requirements.items():
        for path, block in latent.leaf_blocks.items():
            if not getattr(block, needed):
                return f"{why}, and {path or 'the latent space'} is {type(block).__name__}"
    return None
