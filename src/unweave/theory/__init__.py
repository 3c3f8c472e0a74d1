"""The papers' theory as functions: closed forms, identities, and the bias of batch estimates."""

from unweave.core.lazy import public_names
from unweave.theory.bias import (
    Encodings as Encodings,
    Estimates as Estimates,
    batch_size_for as batch_size_for,
    encodings_of as encodings_of,
    expected_estimates as expected_estimates,
    make_encodings as make_encodings,
)
from unweave.theory.identities import (
    BeforeAfter as BeforeAfter,
    Bounds as Bounds,
    Identity as Identity,
    Optimum as Optimum,
    corollary_1 as corollary_1,
    corollary_2 as corollary_2,
    elbo_parts as elbo_parts,
    optimum as optimum,
    proposition_1 as proposition_1,
    proposition_2 as proposition_2,
    proposition_3 as proposition_3,
    recode as recode,
    rescaling as rescaling,
    theorem_1 as theorem_1,
    theorem_2 as theorem_2,
)
from unweave.theory.linear import (
    Residuals as Residuals,
    Solution as Solution,
    observations as observations,
    solve as solve,
    solve_encoder as solve_encoder,
)
from unweave.theory.matching import (
    Alignment as Alignment,
    Matching as Matching,
    match_latents as match_latents,
)

__all__ = public_names(__name__)
