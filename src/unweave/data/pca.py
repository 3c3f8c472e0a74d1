"""Principal variances of a dataset: how much it varies along its principal components."""

import math

import torch

from unweave.core.noise import Noise
from unweave.data.dataset import Dataset

_OBSERVATIONS = 10_000
_VALUES = 2**27  # values in memory at once, half a gigabyte
_OVERSAMPLING = 10  # directions beyond those asked for, which speed up convergence
_ITERATIONS = 30


def principal_variances(dataset: Dataset, count: int) -> list[float]:
    """Compute the `count` largest eigenvalues of the covariance of the observations.

    They are computed by block Krylov iteration, from all observations or from a fixed random
    sample of 10,000, and returned in decreasing order. Directions in which the data do not vary
    have the eigenvalue 0.
    """
    noise = Noise(0, 0, "spectrum", dataset.device)
    size = min(dataset.size, _OBSERVATIONS, max(2, _VALUES // math.prod(dataset.shape)))
    index = noise.permutation(dataset.size, "rows")[:size].sort().values
    x = torch.cat([dataset.images(part).flatten(1) for part in index.split(256)])
    x = x - x.mean(0)
    width = min(count + _OVERSAMPLING, *x.shape)
    spans = [torch.linalg.qr(noise.normal((x.shape[1], width), "start")).Q]
    for _ in range(min(_ITERATIONS, x.shape[1] // width)):
        spans.append(torch.linalg.qr(x.mT @ (x @ spans[-1])).Q)
    # The span of all iterates contains the leading eigenvectors sooner than the last iterate.
    v = torch.linalg.qr(torch.cat(spans, 1)).Q
    along = (x @ v).double()
    values = torch.linalg.eigvalsh(along.mT @ along / size).flip(0).clamp(min=0)[:count].tolist()
    least = 1e-6 * max(values)
    known = [float(f"{value:.6g}") if value > least else 0.0 for value in values]
    return known + [0.0] * (count - len(known))
