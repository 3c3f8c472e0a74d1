"""The exact aggregate posterior of a dataset, and the parts of the rate over a latent tree."""

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from unweave.aggregate.estimators import Estimator, estimate
from unweave.core.noise import Noise
from unweave.core.tensors import Numbers, columns, floating
from unweave.latents import Distribution, Latent, Node, rows, with_hard_samples
from unweave.latents.distributions import log_sum

# Log-densities computed at once: on a CPU as many as its caches hold, on a GPU enough to fill it.
_AT_ONCE = {"cpu": 2**18, "cuda": 2**26}
_SAMPLES = {"cpu": 16, "cuda": 512}

Progress = Callable[[float], None]  # called with the share that is done


def log_aggregate(
    latent: Latent, q: Distribution, z: Tensor, progress: Progress | None = None
) -> Tensor:
    """Compute log 1/N sum_n q(z_s|x_n) at every node of the tree, (S, nodes).

    q holds the posteriors of all N observations. The sum is exact and taken in blocks, so memory
    does not grow with S or N. It evaluates S * N densities at every node.
    """
    device = z.device.type
    at_once = _AT_ONCE.get(device, _AT_ONCE["cuda"])
    samples = min(len(z), _SAMPLES.get(device, _SAMPLES["cuda"]))
    count, nodes = len(q.mean), len(latent.nodes)
    step = max(1, at_once // (samples * nodes))
    results: list[Tensor] = []
    for part in z.split(samples):
        total = part.new_full((len(part), nodes), -torch.inf)
        for start in range(0, count, step):
            joint, below = latent.log_sums(rows(q, slice(start, start + step)), part)
            sums = torch.cat([log_sum(joint).unsqueeze(-1), below], -1)
            total = torch.logaddexp(total, sums)
        results.append(total)
        if progress:
            progress(sum(map(len, results)) / len(z))
    return torch.cat(results) - math.log(count)


class Decomposition(NamedTuple):
    """The parts of log q(z|x) - log p(z) on samples z, whose means are divergences, (S,) each.

    mutual_information   log q(z|x) / q(z), with mean I(x; z)
    correlations         log q(z_n) / prod_c q(z_c) for every node n with children c, with mean TC
    prior_correlations   log p(z_n) / prod_c p(z_c), 0 if the prior is independent there
    leaf_kls             log q(z_v) / p(z_v) of every variable, with mean KL(q(z_v) || p(z_v))

    mutual_information + correlations - prior_correlations + leaf_kls is log q(z|x) - log p(z) on
    every sample, whatever the estimator of q(z).  [Esmaeili2019] fig. 2, 4.
    """

    mutual_information: Tensor
    correlations: dict[str, Tensor]
    prior_correlations: dict[str, Tensor]
    leaf_kls: dict[str, Tensor]

    def excess(self, node: str) -> Tensor:
        """Return the dependence at a node beyond the prior's: minus terms A and i of the paper."""
        return self.correlations[node] - self.prior_correlations[node]

    @property
    def total_correlation(self) -> Tensor:
        """log q(z) / prod_v q(z_v), the sum of the correlations of all nodes, (S,)."""
        return _sum(self.correlations, self.mutual_information)

    @property
    def dimension_kl(self) -> Tensor:
        """log prod_v q(z_v) - log p(z), (S,)."""
        return _sum(self.leaf_kls, self.mutual_information) - _sum(
            self.prior_correlations, self.mutual_information
        )


def decompose(
    latent: Latent,
    q: Distribution,
    p: Distribution,
    z: Numbers,
    dataset_size: int,
    estimator: Estimator = "stratified",
) -> Decomposition:
    """Decompose the rate with q(z) estimated from the batch; z_i is a sample of q's i-th row.

    q: batch (B,), z: (B, D). q at every node is estimated from log q(z_i|x_j) over the batch.
    Relaxed samples of discrete variables are rounded to hard samples.
    """
    z = latent.hard_samples(floating(z))
    log_q = estimate(latent.log_nodes(q, z[:, None]), dataset_size, estimator)
    return decompose_log_probs(latent.nodes, q.log_prob(z), log_q, latent.log_nodes(p, z))


def decompose_exactly(
    latent: Latent,
    q: Distribution,
    p: Distribution,
    z: Tensor,
    log_own: Tensor,
    progress: Progress | None = None,
) -> Decomposition:
    """Decompose the rate exactly, with q holding the posteriors of all N observations.

    z: (S, D) samples of q(z), hard for discrete variables; log_own: (S,) = log q(z|x) of each
    sample at its own observation. Memory is bounded; `progress` is called with the share done.
    """
    log_q = log_aggregate(latent, q, z, progress)
    return decompose_log_probs(latent.nodes, log_own, log_q, latent.log_nodes(p, z))


def decompose_log_probs(
    nodes: Sequence[Node], log_own: Tensor, log_q: Tensor, log_p: Tensor
) -> Decomposition:
    """Decompose the rate given log q(z|x), (S,), and log q and log p at every node, (S, nodes)."""
    children: dict[int, list[int]] = {}
    for index, node in enumerate(nodes):
        if node.parent is not None:
            children.setdefault(node.parent, []).append(index)
    names = [node.name for node in nodes]
    return Decomposition(
        log_own - log_q[..., 0],
        {names[n]: log_q[..., n] - columns(log_q, c).sum(-1) for n, c in children.items()},
        {names[n]: log_p[..., n] - columns(log_p, c).sum(-1) for n, c in children.items()},
        {
            node.name: log_q[..., index] - log_p[..., index]
            for index, node in enumerate(nodes)
            if node.leaf
        },
    )


def _sum(parts: dict[str, Tensor], like: Tensor) -> Tensor:
    return torch.stack([torch.zeros_like(like), *parts.values()]).sum(0)


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
