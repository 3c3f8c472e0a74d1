"""The exact aggregate posterior of a whole dataset, in bounded memory."""

import math
from collections.abc import Callable

import torch
from torch import Tensor

from unweave.latents import Distribution, Latent, rows
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
