"""What the aggregate posterior of a whole data set says, without estimators from batches."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from unweave.aggregate.decompose import decompose_exactly
from unweave.aggregate.estimators import exact
from unweave.latents import Distribution
from unweave.noise import Noise

_NUMBERS_AT_ONCE = 8_000_000  # about 100 MB of intermediate values


class Summary(NamedTuple):
    """Information and dependence in q(x, z) = q(z|x) / N over N observations, in nats.

    mutual_information + total_correlation + dimension_kl is the rate, up to the noise of sampling.
    """

    mutual_information: float  # I(x; z)
    total_correlation: float  # KL(q(z) || prod_v q(z_v))
    dimension_kl: float  # sum_v KL(q(z_v) || p(z_v))
    information: list[float]  # I(x; z_v) of every variable


def summarise(q: Distribution, p: Distribution, noise: Noise, samples: int = 2_000) -> Summary:
    """Decompose the rate over the N observations of q, with exact q(z) at sampled points.

    Each sample is z ~ q(z|x_n) with n uniform; q(z) and q(z_v) there are means over all N. Costs
    samples * N densities of every variable; memory is bounded.  [Kim2018] sec. 2, app. C.
    """
    everyone = q.rsample(noise.fold("summary"))  # (N, D)
    count = len(everyone)
    chosen = noise.integers(count, (samples,), "summary")
    own = q.log_prob(everyone)[chosen]
    own_each = q.log_marginals(everyone)[chosen]
    totals: list[Tensor] = []
    size = max(1, _NUMBERS_AT_ONCE // everyone.numel())
    for part, log_own, log_own_each in zip(
        everyone[chosen].split(size), own.split(size), own_each.split(size), strict=True
    ):
        parts = decompose_exactly(q, p, part, log_own)
        information = log_own_each - exact(q.log_marginals(part[:, None]))
        totals.append(torch.cat([torch.stack(parts, -1), information], -1))
    mutual, correlation, kl, *information = torch.cat(totals).double().mean(0).tolist()
    return Summary(mutual, correlation, kl, information)
