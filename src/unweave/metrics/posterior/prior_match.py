"""How far the aggregate posterior q(z) is from the prior p(z), by every divergence there is.

The second of the two factors of decomposition in [Mathieu2019] sec. 3.
"""

from __future__ import annotations

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
    Gaussian,
    Latent,
    rows,
    with_hard_samples,
)
from unweave.latents.block import Fixed
from unweave.metrics.inputs import Seed, as_codes, as_scales, as_seed
from unweave.metrics.score import Detail, Score
from unweave.metrics.validation import check_arguments
from unweave.objectives.divergences import (
    Divergence,
    InclusiveKL,
    Moments,
    SlicedWasserstein,
    drawn,
)

DIRECTIONS = 200  # random lines of the sliced distance


@check_arguments
def prior_match(
    codes: ArrayLike,
    scales: ArrayLike,
    *,
    prior: Fixed | None = None,
    seed: Seed = 0,
    samples: int = 10_000,
    points: int = 1_000,
) -> dict[str, Score]:
    """Divergences between q(z) = 1/N sum_n N(codes_n, diag(scales_n^2)) and a prior.

    By name and protocol, 0 where q(z) is p(z):

    - `exclusive_kl/exact`: KL(q || p) in nats, at `samples` points of q with q(z) summed over all
      rows.
    - `inclusive_kl/exact`: KL(p || q) in nats, at `samples` points of p.  [Mathieu2019] app. B.
      Where narrow encodings leave holes in the prior it is large, and noisy.
    - `mmd/imq`, `mmd/imq-dimensionwise`, `mmd/imq-unsquared`, `mmd/rbf`: the squared discrepancy of
      `points` samples of each, unbiased, so that it may be below 0.  [Gretton2012] lemma 6,
      [Tolstikhin2018] sec. 4; the kernels are those of `unweave.aggregate.mmd`.
    - `moments/samples`: |E_q z - E_p z|^2 + |Cov_q - Cov_p|_F^2, of `samples` of each.
    - `sliced_wasserstein/kolouri2018`: mean of W_2^2 along 200 random lines, of `samples` of each.
      [Kolouri2018] alg. 1

    The three on samples see their noise too: `details["of the prior itself"]` is the same number
    between two sets of samples of the prior. Divergences by a critic belong to training, and are
    not among them. Those that a prior without a variance makes infinite are left out.

    Args:
        codes: (N, D) posterior means.
        scales: (N, D) posterior standard deviations.
        prior: a block whose prior is known, such as `Sparse(10)`; N(0, I) if not given.
        seed: an integer or a NumPy generator.
        samples: points at which densities are evaluated, and that moments and lines are of.
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
    latent: Latent = block  # type: ignore[assignment]  # blocks that are fixed are all in the union
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
    """`prior_match` of posteriors q, batch (N,), under a prior, with the summary of both."""
    x = _aggregate_samples(q, samples, noise)
    y, again = (drawn(p, samples, noise.fold(name)) for name in ("match", "again"))
    details: dict[str, Detail] = {"rows": len(q.mean), "samples": samples}
    exclusive = summary.total_correlation + summary.dimension_kl
    scores = [Score("exclusive_kl", "exact", exclusive, details=details)]
    if _suits(InclusiveKL(), latent):
        log_q = log_aggregate(latent, q, y)[:, :1]
        value = float(inclusive_kl(p.log_prob(y).double(), log_q.double()))
        scores.append(Score("inclusive_kl", "exact", value, details=details))
    for kernel in get_args(Kernel):
        few = {**details, "samples": min(points, samples)}
        scores.append(_kernel_score(kernel, x[:points], y[:points], again[:points], few))
    if _suits(Moments(), latent):
        value, floor = (float(moment_matching(s.double(), y.double())) for s in (x, again))
        scores.append(_sampled("moments", "samples", value, floor, details))
    if _suits(SlicedWasserstein(), latent):
        lines = directions(noise, DIRECTIONS, x.shape[1], x.dtype)
        value, floor = (float(sliced_wasserstein(s, y, lines)) for s in (x, again))
        scores.append(_sampled("sliced_wasserstein", "kolouri2018", value, floor, details))
    return {f"{score.name}/{score.protocol}": score for score in scores}


def _kernel_score(
    kernel: Kernel, x: Tensor, y: Tensor, again: Tensor, details: dict[str, Detail]
) -> Score:
    value, floor = (float(mmd(s, y, kernel)) for s in (x, again))
    return _sampled("mmd", kernel, value, floor, details)


def _sampled(
    name: str, protocol: str, value: float, floor: float, details: dict[str, Detail]
) -> Score:
    return Score(name, protocol, value, details={**details, "of the prior itself": floor})


def _aggregate_samples(q: Distribution, samples: int, noise: Noise) -> Tensor:
    """Samples of q(z), classes and bits as hard samples: of random rows, one each, (S, D)."""
    chosen = noise.integers(len(q.mean), (samples,), "match")
    return with_hard_samples(rows(q, chosen)).rsample(noise.fold("aggregate"))


def _suits(divergence: Divergence, latent: Latent) -> bool:
    return divergence.incompatibility(latent) is None
