"""The exact aggregate posterior of a whole data set, in blocks of bounded memory."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

from unweave.latents import Distribution, Latent, rows
from unweave.latents.distributions import log_sum

# Log-densities at once: on a CPU as many as its caches hold, on a GPU enough to fill it.
_AT_ONCE = {"cpu": 2**18, "cuda": 2**26}
_SAMPLES = {"cpu": 16, "cuda": 512}

Progress = Callable[[float], None]  # told the share that is done


def log_aggregate(
    latent: Latent, q: Distribution, z: Tensor, progress: Progress | None = None
) -> Tensor:
    """log 1/N sum_n q(z_s|x_n) at every node of the tree, (S, nodes), q holding all N observations.

    The sum is exact and taken in blocks, so memory does not grow with S or N; costs S * N densities
    of every node.
    """
    device = z.device.type
    at_once = _AT_ONCE.get(device, _AT_ONCE["cuda"])
    samples = min(len(z), _SAMPLES.get(device, _SAMPLES["cuda"]))
    count, nodes = len(q.mean), len(latent.nodes)
    step = max(1, at_once // (samples * nodes))
    done: list[Tensor] = []
    for part in z.split(samples):
        total = part.new_full((len(part), nodes), -torch.inf)
        for start in range(0, count, step):
            joint, below = latent.log_sums(rows(q, slice(start, start + step)), part)
            sums = torch.cat([log_sum(joint).unsqueeze(-1), below], -1)
            total = torch.logaddexp(total, sums)
        done.append(total)
        if progress:
            progress(sum(map(len, done)) / len(z))
    return torch.cat(done) - math.log(count)
