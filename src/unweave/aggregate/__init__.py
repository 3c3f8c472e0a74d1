"""The aggregate posterior q(z): estimators, and what they say about a representation."""

from unweave.aggregate.decompose import Decomposition, decompose, decompose_exactly
from unweave.aggregate.estimators import Estimator, estimate, exact, stratified, weighted

__all__ = [
    "Decomposition",
    "Estimator",
    "decompose",
    "decompose_exactly",
    "estimate",
    "exact",
    "stratified",
    "weighted",
]
