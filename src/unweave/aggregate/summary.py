"""Summary of the exact aggregate posterior of a whole dataset."""

from typing import NamedTuple

from torch import Tensor

from unweave.aggregate.blocks import Progress, log_aggregate
from unweave.aggregate.decompose import decompose_log_probs
from unweave.core.noise import Noise
from unweave.latents import Distribution, Latent, rows, with_hard_samples


class Summary(NamedTuple):
    """Information and dependence in q(x, z) = q(z|x) / N over N observations, in nats.

    mutual_information + total_correlation + dimension_kl is the rate, up to sampling noise.
    """

    mutual_information: float  # I(x; z)
    total_correlation: float  # KL(q(z) || prod_v q(z_v))
    dimension_kl: float  # sum_v KL(q(z_v) || p(z_v)), minus the dependence under the prior
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

    Each sample is z ~ q(z|x_n) with n uniform; q(z) and q(z_v) average over all N posteriors.
    [Kim2018] sec. 2, app. C.
    """
    chosen = noise.integers(len(q.mean), (samples,), "summary")
    source = rows(q, chosen)
    z = with_hard_samples(source).rsample(noise.fold("summary"))
    own = latent.log_nodes(source, z)
    log_q = log_aggregate(latent, q, z, progress)
    parts = decompose_log_probs(latent.nodes, own[:, 0], log_q, latent.log_nodes(p, z))
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
