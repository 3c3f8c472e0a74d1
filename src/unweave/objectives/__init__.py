"""Training objectives. The union `Objective` is the registry of those that ship."""

from typing import Annotated

from unweave.core.parts import Open
from unweave.objectives import base, divergences
from unweave.objectives.adversarial import InfoGAN, InfoWGANGP, gradient_penalty
from unweave.objectives.base import (
    MODEL,
    BaseObjective,
    Batch,
    Carry,
    Nets,
    Term,
    Terms,
    Update,
    VAEObjective,
    carry_from,
    elbo_terms,
    reduce_terms,
    total,
)
from unweave.objectives.beta import VAE, BetaVAE, CapacityVAE, EntropyVAE
from unweave.objectives.decomposed import (
    HFVAE,
    AnchorVAE,
    BetaTCVAE,
    InformationDropout,
    LagrangianVAE,
)
from unweave.objectives.divergences import AnyDivergence, Divergence
from unweave.objectives.factor import FactorVAE
from unweave.objectives.importance import IWAE, importance_bound
from unweave.objectives.labels import Label, LabelTargets, with_labels
from unweave.objectives.matching import AAE, WAE, AlphaBetaVAE, InfoVAE
from unweave.objectives.moments import DIPVAE

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

__all__ = [
    "AAE",
    "DIPVAE",
    "HFVAE",
    "IWAE",
    "MODEL",
    "VAE",
    "WAE",
    "AlphaBetaVAE",
    "AnchorVAE",
    "AnyDivergence",
    "BaseObjective",
    "Batch",
    "BetaTCVAE",
    "BetaVAE",
    "CapacityVAE",
    "Carry",
    "Divergence",
    "EntropyVAE",
    "FactorVAE",
    "InfoGAN",
    "InfoVAE",
    "InfoWGANGP",
    "InformationDropout",
    "Label",
    "LabelTargets",
    "LagrangianVAE",
    "Nets",
    "Objective",
    "Term",
    "Terms",
    "Update",
    "VAEObjective",
    "base",
    "carry_from",
    "divergences",
    "elbo_terms",
    "gradient_penalty",
    "importance_bound",
    "reduce_terms",
    "total",
    "with_labels",
]
