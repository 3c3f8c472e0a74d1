"""The bias of estimates of q(z) from a batch, and the batch size that a given bias requires.

An estimator replaces q(z) = 1/N sum_n q(z|x_n) by a weighted sum over a batch. The sum may be
unbiased, but its logarithm is too small on average, the more so the less the encodings overlap;
entropy, KL and total correlation are expectations of log q(z).  [Mathieu2019] app. C, [Kim2018]
app. D.

Expected values here are over batches as well as over samples z. Given a sample z of q(z|x_i), the
rest of a batch is a random subset of the dataset, so the running sums of one pass over the data
set in random order give the estimates for all batch sizes. The last sum gives the exact q(z) at the
same samples, which removes most of the noise from the difference. Control variates remove more: the
means of log q(z|x) and log p(z) are known in closed form, and all averages over samples are
intercepts of a least-squares fit to the deviations of the two from their means.

>>> near = make_encodings(size=1000, dimension=2, scale=0.9)
>>> far = make_encodings(size=1000, dimension=2, scale=0.1)
>>> batch_size_for(0.1, near), batch_size_for(0.1, far) > 300
(4, True)
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple, Self, get_args

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from unweave.aggregate import LogWeights, decompose_log_probs, log_weights
from unweave.core.hints import nearest
from unweave.core.noise import Noise
from unweave.evaluation.model import FittedModel
from unweave.latents import (
    DiagonalGaussian,
    Distribution,
    Gaussian,
    Latent,
    rows,
    with_hard_samples,
)
from unweave.latents.distributions import Posterior, log_sum

BatchEstimator = Literal["weighted", "stratified", "batch", "outside"]
Quantity = Literal["entropy", "kl", "total_correlation"]

_NUMBERS = 2**18  # log-densities computed at once: as many as caches hold
_GRID = 60  # batch sizes that are tried first
_FEWEST = 10  # samples: enough for a fit of three numbers and its error


class Encodings(NamedTuple):
    """The encodings q(z|x) of all N observations of a dataset, and the prior."""

    latent: Latent
    q: Posterior  # batch shape (N,)
    p: Distribution

    @property
    def size(self) -> int:
        """The number of observations N."""
        return len(self.q.mean)


@dataclass(frozen=True, eq=False)
class Estimates:
    """Expected values of an estimator for some batch sizes, in nats.

    entropy is H[q(z)] = -E[log q(z)], kl is KL(q(z) || p(z)), total_correlation is
    KL(q(z) || prod_v q(z_v)). All are averages over samples, each with its standard error.

    alone is the estimate that would result if encodings overlapped in no variable, so that a sum
    over a batch contained only the sample's own encoding. It is exact up to rounding if the rate
    has a closed form and, for the total correlation, columns are independent given x. It is NaN
    for the estimator outside, whose sums would be empty.
    """

    estimator: BatchEstimator
    batch_sizes: tuple[int, ...]
    exact: dict[Quantity, float]
    exact_error: dict[Quantity, float] = field(repr=False)
    bias: dict[Quantity, NDArray[np.float64]] = field(repr=False)  # (sizes,)
    error: dict[Quantity, NDArray[np.float64]] = field(repr=False)  # of the bias
    alone: dict[Quantity, NDArray[np.float64]] = field(repr=False)  # (sizes,)
    alone_error: dict[Quantity, NDArray[np.float64]] = field(repr=False)

    def expected(self, quantity: Quantity) -> NDArray[np.float64]:
        """Return the expected estimate for every batch size, (sizes,)."""
        return self.exact[quantity] + self.bias[quantity]


def make_encodings(size: int, dimension: int, scale: float, seed: int = 0) -> Encodings:
    """Return encodings N(m_n, scale^2 I) with m_n ~ N(0, (1 - scale^2) I), so q(z) is about p(z).

    scale sets the overlap: at 1 all encodings are the prior, near 0 none overlaps another.
    """
    if size < 2 or dimension < 1 or not 0 < scale <= 1:
        raise ValueError(
            "expected two encodings or more, of one dimension or more, with a scale above 0 and "
            f"up to 1, got size={size}, dimension={dimension}, scale={scale}"
        )
    means = Noise(seed).normal((size, dimension), "constructed", torch.float64)
    loc = math.sqrt(1 - scale**2) * means
    latent = Gaussian(dimension)
    q = DiagonalGaussian(loc, torch.full_like(loc, math.log(scale)))
    return Encodings(latent, q, latent.density(loc.new_zeros(dimension)))


def encodings_of(model: FittedModel, count: int | None = None) -> Encodings:
    """Return the encodings of a trained model's data, or of `count` of its observations."""
    index = model.rows(model.dataset.size if count is None else count)
    raw = model.trained.raw(model.dataset, index)[0].double()
    return Encodings(model.run.latent, model.run.latent.posterior(raw), model.prior())


def expected_estimates(
    encodings: Encodings,
    estimator: BatchEstimator = "stratified",
    batch_sizes: Sequence[int] = (2, 8, 32, 128, 512),
    samples: int = 512,
    seed: int = 0,
) -> Estimates:
    """Compute expected values of entropy, KL and total correlation by an estimator of log q(z).

    weighted, stratified   as in `unweave.aggregate`, at samples of the batch
    batch                  the mean over the batch, at its own samples
    outside                the mean over the batch, at samples of all of q(z): [Kim2018] eq. 6

    If no two encodings overlap, a sum reduces to q(z_i|x_i): with the stratified estimator the
    entropy becomes log n + E[H[q(z|x)]] and the KL the rate less log n ([Mathieu2019] app. C, last
    equations); the total correlation of V variables becomes that of q(z|x) plus (V - 1) log n. See
    `Estimates.alone`.
    """
    sizes = tuple(int(size) for size in batch_sizes)
    _check(encodings, estimator, sizes, samples)
    latent, q, p = encodings
    noise = Noise(seed, 0, "bias", q.mean.device)
    chosen = noise.integers(encodings.size, (samples,), "rows")
    source = rows(q, chosen)
    z = with_hard_samples(source).rsample(noise.fold("draws"))
    own, log_p = latent.log_nodes(source, z), latent.log_nodes(p, z)
    sums = _running_sums(encodings, z, chosen, sizes, noise)
    rank = noise.integers(encodings.size, (samples,), "ranks")
    estimated = torch.stack(
        [
            _estimate(estimator, size, encodings.size, own, sums[:, k], rank)
            for k, size in enumerate(sizes)
        ],
        1,
    )
    whole = torch.logaddexp(sums[:, -1, 0], own) - math.log(encodings.size)
    true, estimates, apart = (
        _quantities(latent, own, log_q, log_p)
        for log_q in (
            whole[:, None],
            estimated,
            _without_overlap(estimator, sizes, encodings.size, own),
        )
    )
    average = _Average.of(_controls(encodings, own[:, 0], log_p[:, 0], noise))
    gaps = {name: estimates[name] - true[name] for name in true}
    exact, bias, away = (
        {name: average(value) for name, value in each.items()} for each in (true, gaps, apart)
    )
    return Estimates(
        estimator,
        sizes,
        {name: mean.item() for name, (mean, _) in exact.items()},
        {name: error.item() for name, (_, error) in exact.items()},
        {name: mean for name, (mean, _) in bias.items()},
        {name: error for name, (_, error) in bias.items()},
        {name: mean for name, (mean, _) in away.items()},
        {name: error for name, (_, error) in away.items()},
    )


def batch_size_for(
    bias: float,
    encodings: Encodings,
    quantity: Quantity = "entropy",
    estimator: BatchEstimator = "stratified",
    samples: int = 512,
    seed: int = 0,
) -> int:
    """Return the smallest batch size at which the bias of a quantity is at most `bias` nats.

    The bias is estimated over `samples` samples, whose densities under all N encodings are computed
    three or four times.
    """
    if not bias > 0:
        raise ValueError(f"expected a bias above 0 nats, got {bias}")
    if quantity not in get_args(Quantity):
        raise ValueError(f"{quantity!r} is not known: {nearest(quantity, get_args(Quantity))}")
    low, high = 2, encodings.size
    while True:  # refine the grid between two neighbours until they differ by 1
        sizes = np.unique(np.geomspace(low, high, _GRID).round().astype(int)).tolist()
        off = (
            np.abs(expected_estimates(encodings, estimator, sizes, samples, seed).bias[quantity])
            > bias
        )
        if off[-1]:
            raise ValueError(
                f"the {estimator} estimator is off by more than {bias} nats with all "
                f"{encodings.size} observations in the batch; use the stratified one"
            )
        if not off.any():
            return int(sizes[0])
        last = int(off.nonzero()[0][-1])
        low, high = sizes[last], sizes[last + 1]
        if high - low == 1:
            return int(high)


def _running_sums(
    encodings: Encodings, z: Tensor, chosen: Tensor, sizes: Sequence[int], noise: Noise
) -> Tensor:
    """Return log sums of q(z_s|x_j) over the first B - 1 and the first B others in random order.

    (S, sizes + 1, 2, nodes); for the whole dataset, which comes last, both are over all others.
    """
    latent, q, _ = encodings
    count = encodings.size
    step = max(1, _NUMBERS // (count * len(latent.nodes)))
    ends = [(size - 1, min(size, count - 1)) for size in (*sizes, count)]
    parts: list[Tensor] = []
    for start in range(0, len(z), step):
        points, own = z[start : start + step], chosen[start : start + step]
        keys = noise.fold(str(start)).uniform((len(own), count), "order", torch.float64)
        keys[torch.arange(len(own)), own] = torch.inf  # its own encoding comes last
        order = keys.argsort(1)[:, None]
        table = latent.log_nodes(q, points[:, None]).movedim(1, -1)
        table = torch.take_along_dim(table, order, -1)  # (draws, nodes, N)
        total, done, sums = torch.full_like(table[..., 0], -torch.inf), 0, {}
        for end in sorted({end for pair in ends for end in pair}):
            total = torch.logaddexp(total, log_sum(table[..., done:end]))
            sums[end], done = total, end
        pairs = [torch.stack([sums[before], sums[after]], 1) for before, after in ends]
        parts.append(torch.stack(pairs, 1))
    return torch.cat(parts)


def _estimate(
    estimator: BatchEstimator, batch: int, size: int, own: Tensor, sums: Tensor, rank: Tensor
) -> Tensor:
    """Return log q(z_s) by an estimator, (S, nodes)."""
    weights = _weights(estimator, batch, size)
    inside = torch.logaddexp(own + weights.own, sums[:, 0] + weights.other)
    if estimator != "outside":
        return inside
    # The sample's own encoding is in the batch as often as any other.
    return torch.where((rank < batch)[:, None], inside, sums[:, 1] + weights.other)


def _without_overlap(
    estimator: BatchEstimator, sizes: Sequence[int], size: int, own: Tensor
) -> Tensor:
    """Return log q(z_s) by an estimator if no encodings overlapped, (S, sizes, nodes)."""
    weights = [_weights(estimator, batch, size).own for batch in sizes]
    nothing = estimator == "outside"
    return own[:, None] + own.new_tensor([math.nan if nothing else w for w in weights])[:, None]


def _weights(estimator: BatchEstimator, batch: int, size: int) -> LogWeights:
    if estimator == "weighted" or estimator == "stratified":
        return log_weights(estimator, batch, size)
    return log_weights("exact", batch, size)


def _quantities(
    latent: Latent, own: Tensor, log_q: Tensor, log_p: Tensor
) -> dict[Quantity, Tensor]:
    """Return the quantities at each sample, (S, sizes), from log-densities (S, sizes, nodes)."""
    parts = decompose_log_probs(latent.nodes, own[:, None, 0], log_q, log_p[:, None])
    return {
        "entropy": -log_q[..., 0],
        "kl": log_q[..., 0] - log_p[:, None, 0],
        "total_correlation": parts.total_correlation,
    }


def _controls(encodings: Encodings, own: Tensor, log_p: Tensor, noise: Noise) -> Tensor:
    """Return log q(z|x) and log p(z) at the samples (S,) less their means, (S, 1 or 2).

    The means are -E[H[q(z|x)]] and that less E[KL(q(z|x) || p(z))], over all N encodings. If the
    rate depends on the sample of q(z|x), it has no formula, and the second is left out.
    """
    latent, q, p = encodings
    entropy = q.entropy().mean()
    z = [with_hard_samples(q).rsample(noise.fold(f"rate {turn}")) for turn in range(2)]
    rates = [latent.rate(q, p, each) for each in z]
    controls = [own + entropy]
    if torch.equal(*rates):
        controls.append(log_p + entropy + rates[0].mean())
    return torch.stack(controls, 1)


class _Average(NamedTuple):
    """Means over samples of values, given control variates whose mean is known to be 0.

    The mean is the intercept of a least-squares fit of the values to the controls; its standard
    error allows for residuals of different size.
    """

    design: NDArray[np.float64]  # (S, 1 + controls)
    inverse: NDArray[np.float64]

    @classmethod
    def of(cls, controls: Tensor) -> Self:
        design = np.insert(controls.detach().double().cpu().numpy(), 0, 1.0, axis=1)
        return cls(design, np.linalg.pinv(design, rcond=1e-9))

    def __call__(self, values: Tensor) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return means and errors of values (S, sizes), (sizes,) each."""
        array = values.detach().double().cpu().numpy()
        fitted = self.inverse @ array
        rest = self.inverse[0][:, None] * (array - self.design @ fitted)
        draws, numbers = self.design.shape
        error = np.sqrt(np.square(rest).sum(0) * draws / (draws - numbers))
        return fitted[0], error


def _check(
    encodings: Encodings, estimator: BatchEstimator, sizes: Sequence[int], samples: int
) -> None:
    if estimator not in get_args(BatchEstimator):
        known = get_args(BatchEstimator)
        raise ValueError(f"{estimator!r} is not known: {nearest(estimator, known)}")
    if not sizes or min(sizes) < 2 or max(sizes) > encodings.size:
        raise ValueError(
            f"expected batches of 2 to {encodings.size} observations, got {list(sizes)}"
        )
    if samples < _FEWEST:
        raise ValueError(f"expected {_FEWEST} samples or more, got {samples}")
