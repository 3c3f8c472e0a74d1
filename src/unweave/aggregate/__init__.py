"""The aggregate posterior q(z): estimators, and what they say about a representation."""

from unweave.aggregate.decompose import (
    Decomposition,
    decompose,
    decompose_exactly,
    decomposed,
)
from unweave.aggregate.estimators import Estimator, estimate, exact, stratified, weighted
from unweave.aggregate.summary import Summary, summarise

__all__ = [
    "Decomposition",
    "Estimator",
    "Summary",
    "decompose",
    "decompose_exactly",
    "decomposed",
    "estimate",
    "exact",
    "stratified",
    "summarise",
    "weighted",
]
