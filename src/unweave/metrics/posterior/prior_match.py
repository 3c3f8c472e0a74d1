"""Divergences between the aggregate posterior q(z) and the prior p(z).

Their match is the second of the two factors of decomposition in [Mathieu2019] sec. 3.
"""

from typing import get_args

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor

from unweave.aggregate import (
    Kernel,
    Summary,
    directions,
    inclusive_kl,
    log_aggregate,
    mmd,
    moment_matching,
    sliced_wasserstein,
    summarise,
)
from unweave.core.noise import Noise
from unweave.latents import (
    DiagonalGaussian,
    Distribution,
    FixedPriorBlock,
    Gaussian,
    Latent,
    prior_samples,
    rows,
    with_hard_samples,
)
from unweave.metrics.arrays import Seed, as_codes, as_scales, as_seed
from unweave.metrics.score import Detail, Score
from unweave.metrics.validation import check_arguments
from unweave.objectives.divergences import InclusiveKL, Moments, SlicedWasserstein

DIRECTIONS = 200  # random directions of the sliced distance


@check_arguments
def prior_match(
    codes: ArrayLike,
    scales: ArrayLike,
    *,
    prior: FixedPriorBlock | None = None,
    seed: Seed = 0,
    samples: int = 10_000,
    points: int = 1_000,
) -> dict[str, Score]:
    """Compute divergences between q(z) = 1/N sum_n N(codes_n, diag(scales_n^2)) and a prior.

    By name and protocol, 0 if q(z) is p(z):

    - `exclusive_kl/exact`: KL(q || p) in nats, at `samples` points of q with q(z) summed over all
      rows.
    - `inclusive_kl/exact`: KL(p || q) in nats, at `samples` points of p.  [Mathieu2019] app. B.
      If narrow encodings leave holes in the prior it is large and noisy.
    - `mmd/imq`, `mmd/imq-dimensionwise`, `mmd/imq-unsquared`, `mmd/rbf`: the unbiased squared
      discrepancy of `points` samples of each, which may be negative.  [Gretton2012] lemma 6,
      [Tolstikhin2018] sec. 4; the kernels are those of `unweave.aggregate.mmd`.
    - `moments/samples`: |E_q z - E_p z|^2 + |Cov_q - Cov_p|_F^2, from `samples` of each.
    - `sliced_wasserstein/kolouri2018`: mean of W_2^2 along 200 random directions, from `samples` of
      each.  [Kolouri2018] alg. 1

    The last three include sampling noise: `details["of the prior itself"]` is the value between two
    sets of samples of the prior. Divergences that need a critic are only available in training.
    Divergences that are infinite for a prior without variance are left out.

    Args:
        codes: (N, D) posterior means.
        scales: (N, D) posterior standard deviations.
        prior: a block with a known prior, such as `Sparse(10)`; default: N(0, I).
        seed: an integer or a NumPy generator.
        samples: samples for densities, moments and directions.
        points: samples of each for the kernels, whose cost is quadratic.

    >>> same = prior_match(np.zeros((4, 1)), np.ones((4, 1)), samples=50, points=50)
    >>> [abs(round(same[f"{name}/exact"].value, 6)) for name in ("exclusive_kl", "inclusive_kl")]
    [0.0, 0.0]
    """
    z = as_codes(codes).astype(np.float64)
    scale = as_scales(scales, z.shape).astype(np.float64)
    block = Gaussian(z.shape[1]) if prior is None else prior
    p = block.density(torch.zeros(z.shape[1], dtype=torch.float64))
    q = DiagonalGaussian(torch.from_numpy(z), torch.from_numpy(np.log(scale)))
    if block.size != z.shape[1] or not all(block.normal):
        raise ValueError(
            f"expected a prior over {z.shape[1]} columns with normal posteriors, as the codes are, "
            f"got {block}"
        )
    noise = Noise(as_seed(seed))
    latent: Latent = block
    return match_scores(
        latent, q, p, summarise(latent, q, p, noise, samples), noise, points, samples
    )


def match_scores(
    latent: Latent,
    q: Distribution,
    p: Distribution,
    summary: Summary,
    noise: Noise,
    points: int = 1_000,
    samples: int = 10_000,
) -> dict[str, Score]:
    """Compute `prior_match` for posteriors q, batch (N,), given their summary."""
    x = _aggregate_samples(q, samples, noise)
    y, again = (prior_samples(p, samples, noise.fold(name)) for name in ("match", "again"))
    details: dict[str, Detail] = {"rows": len(q.mean), "samples": samples}
    exclusive = summary.total_correlation + summary.dimension_kl
    scores = [Score("exclusive_kl", "exact", exclusive, details=details)]
    if InclusiveKL().incompatibility(latent) is None:
        log_q = log_aggregate(latent, q, y)[:, :1]
        value = float(inclusive_kl(p.log_prob(y).double(), log_q.double()))
        scores.append(Score("inclusive_kl", "exact", value, details=details))
    for kernel in get_args(Kernel):
        value, floor = (float(mmd(s[:points], y[:points], kernel)) for s in (x, again))
        fewer = {**details, "samples": min(points, samples)}
        scores.append(_sampled_score("mmd", kernel, value, floor, fewer))
    if Moments().incompatibility(latent) is None:
        value, floor = (float(moment_matching(s.double(), y.double())) for s in (x, again))
        scores.append(_sampled_score("moments", "samples", value, floor, details))
    if SlicedWasserstein().incompatibility(latent) is None:
        lines = directions(noise, DIRECTIONS, x.shape[1], x.dtype)
        value, floor = (float(sliced_wasserstein(s, y, lines)) for s in (x, again))
        scores.append(_sampled_score("sliced_wasserstein", "kolouri2018", value, floor, details))
    return {f"{score.name}/{score.protocol}": score for score in scores}


def _sampled_score(
    name: str, protocol: str, value: float, floor: float, details: dict[str, Detail]
) -> Score:
    return Score(name, protocol, value, details={**details, "of the prior itself": floor})


def _aggregate_samples(q: Distribution, samples: int, noise: Noise) -> Tensor:
    """Draw (S, D) from q(z), each from a random row; discrete variables are hard samples."""
    index = noise.integers(len(q.mean), (samples,), "match")
    return with_hard_samples(rows(q, index)).rsample(noise.fold("aggregate"))
