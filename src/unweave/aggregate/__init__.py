"""The aggregate posterior q(z): estimators, divergences and the decomposition of the rate."""

from unweave.aggregate.decompose import (
    Decomposition as Decomposition,
    Summary as Summary,
    decompose as decompose,
    decompose_exactly as decompose_exactly,
    decompose_log_probs as decompose_log_probs,
    log_aggregate as log_aggregate,
    summarise as summarise,
)
from unweave.aggregate.divergences import (
    CovariancePenalty as CovariancePenalty,
    batch_total_correlation as batch_total_correlation,
    covariance as covariance,
    covariance_penalty as covariance_penalty,
    directions as directions,
    inclusive_kl as inclusive_kl,
    moment_matching as moment_matching,
    sliced_wasserstein as sliced_wasserstein,
    total_correlation as total_correlation,
)
from unweave.aggregate.estimators import (
    Estimator as Estimator,
    LogWeights as LogWeights,
    estimate as estimate,
    exact as exact,
    log_weights as log_weights,
    stratified as stratified,
    weighted as weighted,
)
from unweave.aggregate.kernels import (
    Group as Group,
    Kernel as Kernel,
    kernel_constants as kernel_constants,
    mmd as mmd,
)
from unweave.core.lazy import public_names

__all__ = public_names(__name__)
