"""What the aggregate posterior of a whole data set says, without estimators from batches."""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor

from unweave.aggregate.blocks import Progress, log_aggregate
from unweave.aggregate.decompose import decomposed
from unweave.core.noise import Noise
from unweave.latents import Distribution, Latent, rows, with_hard_samples


class Summary(NamedTuple):
    """Information and dependence in q(x, z) = q(z|x) / N over N observations, in nats.

    mutual_information + total_correlation + dimension_kl is the rate, up to the noise of sampling.
    """

    mutual_information: float  # I(x; z)
    total_correlation: float  # KL(q(z) || prod_v q(z_v))
    dimension_kl: float  # sum_v KL(q(z_v) || p(z_v)), less the dependence under the prior
    correlations: dict[str, float]  # the total correlation by node of the tree
    information: list[float]  # I(x; z_v) of every variable


def summarise(
    latent: Latent,
    q: Distribution,
    p: Distribution,
    noise: Noise,
    samples: int = 2_000,
    progress: Progress | None = None,
) -> Summary:
    """Decompose the rate over the N observations of q, with exact q(z) at sampled points.

    Each sample is z ~ q(z|x_n) with n uniform; q(z) and q(z_v) there are means over all N.
    [Kim2018] sec. 2, app. C.
    """
    chosen = noise.integers(len(q.mean), (samples,), "summary")
    source = rows(q, chosen)
    z = with_hard_samples(source).rsample(noise.fold("summary"))
    own = latent.log_nodes(source, z)
    log_q = log_aggregate(latent, q, z, progress)
    parts = decomposed(latent.nodes, own[:, 0], log_q, latent.log_nodes(p, z))
    leaves = [index for index, node in enumerate(latent.nodes) if node.leaf]
    information = (own - log_q)[:, leaves]
    return Summary(
        _mean(parts.mutual_information),
        _mean(parts.total_correlation),
        _mean(parts.dimension_kl),
        {name: _mean(value) for name, value in parts.correlations.items()},
        information.double().mean(0).tolist(),
    )


def _mean(values: Tensor) -> float:
    return values.double().mean().item()
