"""Training objectives. The union `Objective` is the registry of those that ship."""

from typing import Annotated

from unweave.core.lazy import public_names
from unweave.core.parts import Open
from unweave.objectives import base as base, divergences as divergences
from unweave.objectives.adversarial import (
    InfoGAN as InfoGAN,
    InfoWGANGP as InfoWGANGP,
    gradient_penalty as gradient_penalty,
)
from unweave.objectives.base import (
    MODEL as MODEL,
    BaseObjective as BaseObjective,
    Batch as Batch,
    Carry as Carry,
    Nets as Nets,
    Term as Term,
    Terms as Terms,
    Update as Update,
    VAEObjective as VAEObjective,
    carry_from as carry_from,
    elbo_terms as elbo_terms,
    reduce_terms as reduce_terms,
    total as total,
)
from unweave.objectives.beta import (
    VAE as VAE,
    BetaVAE as BetaVAE,
    CapacityVAE as CapacityVAE,
    EntropyVAE as EntropyVAE,
)
from unweave.objectives.decomposed import (
    HFVAE as HFVAE,
    AnchorVAE as AnchorVAE,
    BetaTCVAE as BetaTCVAE,
    FactorVAE as FactorVAE,
    InformationDropout as InformationDropout,
    LagrangianVAE as LagrangianVAE,
)
from unweave.objectives.divergences import AnyDivergence as AnyDivergence, Divergence as Divergence
from unweave.objectives.importance import IWAE as IWAE, importance_bound as importance_bound
from unweave.objectives.labels import (
    Label as Label,
    LabelTargets as LabelTargets,
    with_labels as with_labels,
)
from unweave.objectives.matching import (
    AAE as AAE,
    DIPVAE as DIPVAE,
    WAE as WAE,
    AlphaBetaVAE as AlphaBetaVAE,
    InfoVAE as InfoVAE,
)

__all__ = public_names(__name__)

Objective = Annotated[
    VAE
    | BetaVAE
    | CapacityVAE
    | EntropyVAE
    | AlphaBetaVAE
    | FactorVAE
    | BetaTCVAE
    | HFVAE
    | LagrangianVAE
    | InformationDropout
    | AnchorVAE
    | DIPVAE
    | InfoVAE
    | WAE
    | AAE
    | IWAE
    | InfoGAN
    | InfoWGANGP
    | BaseObjective,
    Open(),
]
