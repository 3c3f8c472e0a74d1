"""The aggregate posterior q(z): estimators, divergences and the decomposition of the rate."""

from unweave.aggregate.blocks import log_aggregate
from unweave.aggregate.decompose import (
    Decomposition,
    decompose,
    decompose_exactly,
    decompose_log_probs,
)
from unweave.aggregate.divergences import (
    CovariancePenalty,
    batch_total_correlation,
    covariance,
    covariance_penalty,
    directions,
    inclusive_kl,
    moment_matching,
    sliced_wasserstein,
    total_correlation,
)
from unweave.aggregate.estimators import (
    Estimator,
    LogWeights,
    estimate,
    exact,
    log_weights,
    stratified,
    weighted,
)
from unweave.aggregate.kernels import Group, Kernel, kernel_constants, mmd
from unweave.aggregate.summary import Summary, summarise

__all__ = [
    "CovariancePenalty",
    "Decomposition",
    "Estimator",
    "Group",
    "Kernel",
    "LogWeights",
    "Summary",
    "batch_total_correlation",
    "covariance",
    "covariance_penalty",
    "decompose",
    "decompose_exactly",
    "decompose_log_probs",
    "directions",
    "estimate",
    "exact",
    "inclusive_kl",
    "kernel_constants",
    "log_aggregate",
    "log_weights",
    "mmd",
    "moment_matching",
    "sliced_wasserstein",
    "stratified",
    "summarise",
    "total_correlation",
    "weighted",
]
