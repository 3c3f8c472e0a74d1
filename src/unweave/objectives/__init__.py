"""Objectives: one frozen value each. The union of them is the registry."""

from typing import Annotated

from pydantic import Field

from unweave.objectives import game
from unweave.objectives.beta import VAE, BetaVAE
from unweave.objectives.decomposed import BetaTCVAE
from unweave.objectives.factor import FactorVAE
from unweave.objectives.game import (
    MODEL,
    Batch,
    Memo,
    Nets,
    Term,
    Terms,
    Turn,
    networks,
    reckon,
    total,
)

Objective = Annotated[VAE | BetaVAE | FactorVAE | BetaTCVAE, Field(discriminator="kind")]

__all__ = [
    "MODEL",
    "VAE",
    "Batch",
    "BetaTCVAE",
    "BetaVAE",
    "FactorVAE",
    "Memo",
    "Nets",
    "Objective",
    "Term",
    "Terms",
    "Turn",
    "game",
    "networks",
    "reckon",
    "total",
]
