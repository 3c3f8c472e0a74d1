"""Principal variances of a data set: how much it varies along its principal components."""

from __future__ import annotations

import math

import torch

from unweave.core.noise import Noise
from unweave.data.dataset import Dataset

_OBSERVATIONS = 10_000
_NUMBERS = 2**27  # values held at once, half a gigabyte
_SPARE = 10  # directions beyond those asked for, which make the iteration converge fast
_ROUNDS = 30


def principal_variances(dataset: Dataset, count: int) -> list[float]:
    """The `count` largest eigenvalues of the covariance of the observations, largest first.

    Of all observations, or of 10,000 drawn at random, always the same; centred; by block Krylov
    iteration. Directions in which the data do not vary give 0.
    """
    noise = Noise(0, 0, "spectrum", dataset.device)
    size = min(dataset.size, _OBSERVATIONS, max(2, _NUMBERS // math.prod(dataset.shape)))
    index = noise.permutation(dataset.size, "rows")[:size].sort().values
    x = torch.cat([dataset.images(part).flatten(1) for part in index.split(256)])
    x = x - x.mean(0)
    width = min(count + _SPARE, *x.shape)
    spans = [torch.linalg.qr(noise.normal((x.shape[1], width), "start")).Q]
    for _ in range(min(_ROUNDS, x.shape[1] // width)):
        spans.append(torch.linalg.qr(x.mT @ (x @ spans[-1])).Q)
    # All that the iteration has passed through, where the largest eigenvalues are found sooner.
    v = torch.linalg.qr(torch.cat(spans, 1)).Q
    along = (x @ v).double()
    found = torch.linalg.eigvalsh(along.mT @ along / size).flip(0).clamp(min=0)[:count].tolist()
    least = 1e-6 * max(found)
    known = [float(f"{value:.6g}") if value > least else 0.0 for value in found]
    return known + [0.0] * (count - len(known))
