"""Principal variances of a dataset: how much it varies along its principal components."""

import math
from weakref import WeakKeyDictionary

import torch
from torch import Tensor

from unweave.core.noise import Noise
from unweave.data.dataset import Dataset

_OBSERVATIONS = 10_000
_VALUES = 2**27  # values in memory at once, half a gigabyte
_OVERSAMPLING = 10  # directions beyond those asked for, which speed up convergence
_ITERATIONS = 30
_FEW = 1_000  # observations from which the noise is estimated


def principal_variances(dataset: Dataset, count: int) -> list[float]:
    """Compute the `count` largest eigenvalues of the covariance of the observations.

    They are computed by block Krylov iteration, from all observations or from a fixed random
    sample of 10,000, and returned in decreasing order. Directions in which the data do not vary
    have the eigenvalue 0.
    """
    noise = Noise(0, 0, "spectrum", dataset.device)
    x = _centred(dataset, noise, _OBSERVATIONS)
    size = len(x)
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


def noise_deviation(dataset: Dataset, components: int, least: float = 0.0) -> float:
    """Estimate the standard deviation of noise: what principal components leave unexplained.

    The sum of squares that they leave is divided by its degrees of freedom, (N - 1 - k)(D - k) for
    k components of N observations of D values. No more than half of the directions count as
    components. The estimate is computed from at most 1,000 observations, is 0 if the data are
    constant, and at least the share `least` of their standard deviation.
    """
    if dataset not in _SPECTRA:
        x = _centred(dataset, Noise(0, 0, "spectrum", dataset.device), _FEW).cpu().double()
        products = x @ x.mT if x.shape[0] < x.shape[1] else x.mT @ x
        _SPECTRA[dataset] = len(x), torch.linalg.eigvalsh(products).flip(0).clamp(min=0)
    size, squares = _SPECTRA[dataset]
    values, free = math.prod(dataset.shape), max(1, size - 1)
    k = min(components, values // 2, free // 2)
    left = float(squares[k:].sum()) / ((free - k) * (values - k))
    return math.sqrt(max(left, least**2 * float(squares.sum()) / (free * values)))


# Sizes of samples of datasets, and their sums of squares along principal components.
_SPECTRA: WeakKeyDictionary[Dataset, tuple[int, Tensor]] = WeakKeyDictionary()


def _centred(dataset: Dataset, noise: Noise, most: int) -> Tensor:
    """Return a random sample of observations as vectors (n, D), less their mean."""
    size = min(dataset.size, most, max(2, _VALUES // math.prod(dataset.shape)))
    index = noise.permutation(dataset.size, "rows")[:size].sort().values
    x = torch.cat([dataset.images(part).flatten(1) for part in index.split(256)])
    return x - x.mean(0)
