"""The papers' theory as functions: what can be solved, what must be equal, what is biased."""

from unweave.theory.identities import (
    Bounds,
    Comparison,
    Identity,
    Optimum,
    corollary_1,
    corollary_2,
    elbo_parts,
    optimum,
    proposition_1,
    proposition_2,
    proposition_3,
    recoded,
    rescaling,
    theorem_1,
    theorem_2,
)
from unweave.theory.linear import Alignment, Residuals, Solution, solve

__all__ = [
    "Alignment",
    "Bounds",
    "Comparison",
    "Identity",
    "Optimum",
    "Residuals",
    "Solution",
    "corollary_1",
    "corollary_2",
    "elbo_parts",
    "optimum",
    "proposition_1",
    "proposition_2",
    "proposition_3",
    "recoded",
    "rescaling",
    "solve",
    "theorem_1",
    "theorem_2",
]
