"""Likelihoods p(x|z): distributions over observations, given the decoder's output.

A likelihood is a spec that turns the decoder's raw output (B, C, ...) into a distribution over x.
It sets the shape of that output and may add a head with its own parameters. Log-densities are in
nats, summed over all values of an observation, normaliser included. To write one, subclass
`BaseLikelihood` and write `__call__`.
"""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal, Protocol

import torch
import torch.nn.functional as F
from pydantic import PositiveFloat
from torch import Tensor, nn

from unweave import kernels
from unweave.core.noise import Noise
from unweave.core.parts import Open
from unweave.core.spec import spec, tag
from unweave.latents.distributions import HALF_LOG_2PI

_MIN_SCALE = 1e-3  # of a learned scale, relative to its initial value
_SOFTPLUS_ONE = math.log(math.e - 1)  # where softplus is 1
_MOST_LOG_MEAN = 20.0  # of counts; exp(20) is 485 million
_NEAR_ZERO = 0.25  # below it sinh(h) / h and coth(h) - 1 / h lose digits; the series keep 12


Learned = Literal["nothing", "shared", "each"]


class Observation(Protocol):
    """A distribution over observations x of shape (B, *shape)."""

    @property
    def mean(self) -> Tensor:
        """Expected observation, (B, *shape)."""
        ...

    def log_prob(self, x: Tensor) -> Tensor:
        """Compute the log-density, summed over the values of each observation, (B,)."""
        ...

    def sample(self, noise: Noise) -> Tensor:
        """Draw observations, (B, *shape)."""
        ...


@dataclass(frozen=True)
class BernoulliObservation:
    """Independent Bernoulli values with the given logits (B, *shape)."""

    logits: Tensor

    @property
    def mean(self) -> Tensor:
        """Probability of a one, (B, *shape)."""
        return torch.sigmoid(self.logits)

    def log_prob(self, x: Tensor) -> Tensor:
        """Compute the sum of x log p + (1 - x) log(1 - p), (B,)."""
        if kernels.supports(self.logits) and self.logits.shape == x.shape:
            from unweave.kernels.bernoulli import bernoulli_log_prob

            return bernoulli_log_prob(self.logits, x)
        nats = F.binary_cross_entropy_with_logits(self.logits, x, reduction="none")
        return -nats.flatten(1).sum(1)

    def sample(self, noise: Noise) -> Tensor:
        """Draw zeros and ones, (B, *shape)."""
        uniform = noise.uniform(self.logits.shape, "bernoulli", self.logits.dtype)
        return (uniform < self.mean).to(self.logits.dtype)


@dataclass(frozen=True)
class ContinuousBernoulliObservation:
    """Independent values in [0, 1] with density exp(x l) / int_0^1 exp(t l) dt, l the logits.

    With h = l / 2 the integral is exp(h) sinh(h) / h.
    """

    logits: Tensor

    @property
    def mean(self) -> Tensor:
        """Expected values 1/2 + (coth h - 1 / h) / 2, (B, *shape)."""
        return 0.5 + 0.5 * _langevin(0.5 * self.logits)

    def log_prob(self, x: Tensor) -> Tensor:
        """Compute the sum of (x - 1/2) l - log(sinh(h) / h), (B,)."""
        nats = (x - 0.5) * self.logits - _log_sinhc(0.5 * self.logits)
        return nats.flatten(1).sum(1)

    def sample(self, noise: Noise) -> Tensor:
        """Draw values in [0, 1] by the inverse of the cdf, (B, *shape)."""
        uniform = noise.uniform(self.logits.shape, "continuous-bernoulli", self.logits.dtype)
        slope = -self.logits.abs()
        flat = slope == 0
        slope = slope.where(~flat, -1.0)
        falling = torch.log1p(uniform * torch.expm1(slope)) / slope
        return torch.where(self.logits > 0, 1 - falling, falling).where(~flat, uniform)


def _log_sinhc(h: Tensor) -> Tensor:
    """Compute log(sinh(h) / h), which is 0 at 0 and about |h| for large |h|."""
    near = h.abs() < _NEAR_ZERO
    far = h.abs().where(~near, 1.0)
    square = h.where(near, 0.0).square()
    series = square * (
        1 / 6 + square * (-1 / 180 + square * (1 / 2835 + square * (-1 / 37800 + square / 467775)))
    )
    return torch.where(near, series, far + torch.log1p(-torch.exp(-2 * far)) - torch.log(2 * far))


def _langevin(h: Tensor) -> Tensor:
    """Compute coth(h) - 1 / h, the derivative of log(sinh(h) / h)."""
    near = h.abs() < _NEAR_ZERO
    far = h.where(~near, 1.0)
    small = h.where(near, 0.0)
    square = small.square()
    series = small * (
        1 / 3 + square * (-1 / 45 + square * (2 / 945 + square * (-1 / 4725 + 2 * square / 93555)))
    )
    return torch.where(near, series, 1 / torch.tanh(far) - 1 / far)


@dataclass(frozen=True)
class GaussianObservation:
    """Independent normal values with mean `mean` (B, *shape).

    The standard deviation is one number, or one for every value.
    """

    mean: Tensor
    scale: float | Tensor

    def log_prob(self, x: Tensor) -> Tensor:
        """Compute the sum of log N(x; mean, scale^2), (B,)."""
        log_scale = self.scale.log() if isinstance(self.scale, Tensor) else math.log(self.scale)
        nats = 0.5 * ((x - self.mean) / self.scale).square() + log_scale + HALF_LOG_2PI
        return -nats.flatten(1).sum(1)

    def sample(self, noise: Noise) -> Tensor:
        """Draw mean plus noise, (B, *shape)."""
        return self.mean + self.scale * noise.normal(self.mean.shape, "normal", self.mean.dtype)


@dataclass(frozen=True)
class LaplaceObservation:
    """Independent values with density exp(-|x - mean| / b) / 2 b, mean (B, *shape)."""

    mean: Tensor
    scale: float

    def log_prob(self, x: Tensor) -> Tensor:
        """Compute the sum of -|x - mean| / scale - log(2 scale), (B,)."""
        nats = (x - self.mean).abs() / self.scale + math.log(2 * self.scale)
        return -nats.flatten(1).sum(1)

    def sample(self, noise: Noise) -> Tensor:
        """Draw values by the inverse of the cdf, (B, *shape)."""
        centred = noise.uniform(self.mean.shape, "laplace", self.mean.dtype) - 0.5
        return self.mean - self.scale * (centred.sign() * torch.log1p(-2 * centred.abs()))


@dataclass(frozen=True)
class PoissonObservation:
    """Independent counts with P(x) = m^x exp(-m) / x!, m = exp(log_mean), log_mean (B, *shape)."""

    log_mean: Tensor

    @property
    def mean(self) -> Tensor:
        """Expected counts, (B, *shape)."""
        return self.log_mean.exp()

    def log_prob(self, x: Tensor) -> Tensor:
        """Compute the sum of x log m - m - log x!, (B,).

        Float64, because these terms cancel: for x = 1e6 they are a million times their sum.
        """
        log_mean, x = self.log_mean.double(), x.double()
        nats = x * log_mean - log_mean.exp() - torch.lgamma(x + 1)
        return nats.flatten(1).sum(1).to(self.log_mean.dtype)

    def sample(self, noise: Noise) -> Tensor:
        """Draw counts by the inverse of the cdf, (B, *shape)."""
        return _poisson_quantile(self.mean, noise.uniform(self.mean.shape, "poisson"))


@dataclass(frozen=True)
class NegativeBinomialObservation:
    """Independent counts with mean m = exp(log_mean) and variance m + dispersion m^2."""

    log_mean: Tensor
    dispersion: float | Tensor

    @property
    def mean(self) -> Tensor:
        """Expected counts, (B, *shape)."""
        return self.log_mean.exp()

    def log_prob(self, x: Tensor) -> Tensor:
        """Compute the sum of log C(x + r - 1, x) + r log r/(r + m) + x log m/(r + m), (B,).

        r is 1 / dispersion. Float64, because these terms cancel for large x or r.
        """
        r, x = self._concentration, x.double()
        odds = self.log_mean.double() - r.log()
        choices = torch.lgamma(x + r) - torch.lgamma(r) - torch.lgamma(x + 1)
        nats = choices - r * F.softplus(odds) - x * F.softplus(-odds)
        return nats.flatten(1).sum(1).to(self.log_mean.dtype)

    def sample(self, noise: Noise) -> Tensor:
        """Draw counts of a Poisson distribution whose mean is drawn from a gamma, (B, *shape)."""
        share = _gamma_quantile(self._concentration, noise.uniform(self.mean.shape, "gamma"))
        mean = (self.mean * self.dispersion * share).to(self.log_mean.dtype)
        return _poisson_quantile(mean, noise.uniform(mean.shape, "poisson"))

    @property
    def _concentration(self) -> Tensor:
        return torch.ones_like(self.log_mean, dtype=torch.float64) / self.dispersion


def _poisson_quantile(mean: Tensor, probability: Tensor) -> Tensor:
    """Return the smallest count whose cdf is at least the probability, by bisection."""
    rate = mean.double()
    low, high = -torch.ones_like(rate), (rate + 12 * rate.sqrt() + 30).ceil()
    for _ in range(64):  # rates beyond 2**53 have no next count
        if not (high - low > 1).any():
            break
        middle = ((low + high) / 2).floor()
        enough = torch.special.gammaincc(middle + 1, rate) >= probability
        low, high = torch.where(enough, low, middle), torch.where(enough, middle, high)
    return high.to(mean.dtype)


def _gamma_quantile(concentration: Tensor, probability: Tensor) -> Tensor:
    """Return the value at which the cdf of a gamma distribution has a value, by bisection.

    To a relative precision of 1e-6 or better. The cdf at x is at most x^r / Gamma(r + 1), which
    bounds the value from below.
    """
    bound = (probability.double().log() + torch.lgamma(concentration + 1)) / concentration
    low, high = bound.clamp_min(-700.0), (concentration + 12 * concentration.sqrt() + 40).log()
    for _ in range(30):
        middle = (low + high) / 2
        enough = torch.special.gammainc(concentration, middle.exp()) >= probability
        low, high = torch.where(enough, low, middle), torch.where(enough, middle, high)
    return high.exp()


class SharedScale(nn.Module):
    """One learned number that sets the scale of all values, appended to the decoder's output."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.zeros(()))

    def forward(self, raw: Tensor) -> Tensor:
        """Map (B, C, ...) to (B, 2 C, ...); the second half repeats the learned number."""
        return torch.cat([raw, self.scale.expand_as(raw)], 1)


class BaseLikelihood(ABC):
    """p(x|z) as a function of the decoder's output; only `__call__` is required."""

    kind: str
    bounded: ClassVar[bool] = False  # whether observations must lie in [0, 1]
    counts: ClassVar[bool] = False  # whether observations must be the integers 0, 1, 2, ...

    @abstractmethod
    def __call__(self, raw: Tensor) -> Observation:
        """Return p(x|z) for the output of the head."""

    def raw_shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """Return the shape of the decoder's output; by default that of an observation."""
        return shape

    def head(self) -> nn.Module:
        """Return the module between the decoder and the likelihood; by default the identity."""
        return nn.Identity()

    def encoder_input(self, x: Tensor) -> Tensor:
        """Return what the encoder reads of observations (B, *shape): log(1 + x) of counts."""
        return torch.log1p(x.clamp_min(0)) if self.counts else x  # pseudo-inputs may be negative


class _LearnedScale(BaseLikelihood):
    """A likelihood whose scale or dispersion may be learned."""

    learn: Learned

    def raw_shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """Return the shape of the decoder's output: means, and scales if `learn="each"`."""
        return (2 * shape[0], *shape[1:]) if self.learn == "each" else shape

    def head(self) -> nn.Module:
        """Return the shared scale if there is one, otherwise the identity."""
        return SharedScale() if self.learn == "shared" else nn.Identity()

    def _split(self, raw: Tensor, scale: float) -> tuple[Tensor, float | Tensor]:
        """Return the decoder's means, and the scale: fixed, or learned from a start at `scale`."""
        if self.learn == "nothing":
            return raw, scale
        mean, free = raw.chunk(2, 1)
        # 1 at 0, and never below a thousandth.
        share = _MIN_SCALE + (1 - _MIN_SCALE) * F.softplus(free + _SOFTPLUS_ONE)
        return mean, scale * share


@spec
class Bernoulli(BaseLikelihood):
    """log p(x|z) = sum x log p + (1 - x) log(1 - p), for values in [0, 1].  [Kingma2014] C.1.

    For grey values it is the cross-entropy that the papers train with, not a normalised density.
    """

    kind: Literal["bernoulli"] = tag("bernoulli")
    bounded: ClassVar[bool] = True

    def __call__(self, raw: Tensor) -> BernoulliObservation:
        """Return p(x|z) with the decoder's output as logits."""
        return BernoulliObservation(raw)


@spec
class ContinuousBernoulli(BaseLikelihood):
    """log p(x|z) = sum x log p + (1 - x) log(1 - p) + log C(p), a density on [0, 1].

    C(p) = 2 artanh(1 - 2 p) / (1 - 2 p), which is 2 at p = 1/2.  [LoaizaGanem2019] sec. 3
    """

    kind: Literal["continuous-bernoulli"] = tag("continuous-bernoulli")
    bounded: ClassVar[bool] = True

    def __call__(self, raw: Tensor) -> ContinuousBernoulliObservation:
        """Return p(x|z) with the decoder's output as logits, log p / (1 - p)."""
        return ContinuousBernoulliObservation(raw)


@spec
class Gaussian(_LearnedScale):
    """log p(x|z) = sum log N(x; decoder(z), scale^2), for real values.  [Kingma2014] app. C.2.

    The scale is fixed (`learn="nothing"`), one learned number (`"shared"`), or an output of the
    decoder for every value (`"each"`, as in [Mathieu2019] table 1b). A learned scale is a softplus,
    as in the code of that paper; it starts at `scale` and, unlike there, stays above a thousandth
    of it, so that densities are bounded.
    """

    scale: PositiveFloat = 1.0
    """Standard deviation of the values; its initial value if it is learned."""
    learn: Learned = "nothing"
    """What to learn of the scale: nothing, one shared number, or one for each value."""
    kind: Literal["gaussian"] = tag("gaussian")

    def __call__(self, raw: Tensor) -> GaussianObservation:
        """Return p(x|z); the channels of `raw` hold the mean, then the learned scale if any."""
        return GaussianObservation(*self._split(raw, self.scale))


@spec
class Laplace(BaseLikelihood):
    """log p(x|z) = sum -|x - decoder(z)| / scale - log(2 scale), for real values.

    Its gradient does not grow with the error. [Mathieu2019] app. B does not state the likelihood of
    its images; the released experiments use this one with scale 0.1.
    """

    scale: PositiveFloat = 1.0
    """Scale of the distribution."""
    kind: Literal["laplace"] = tag("laplace")

    def __call__(self, raw: Tensor) -> LaplaceObservation:
        """Return p(x|z) with the decoder's output as the mean."""
        return LaplaceObservation(raw, self.scale)


@spec
class Poisson(BaseLikelihood):
    """log p(x|z) = sum x log m - m - log x!, m = exp(decoder(z)), for counts.  [Gronbech2020].

    The encoder reads log(1 + x). Counts of most experiments vary more than this: see
    `NegativeBinomial`.
    """

    kind: Literal["poisson"] = tag("poisson")
    counts: ClassVar[bool] = True

    def __call__(self, raw: Tensor) -> PoissonObservation:
        """Return p(x|z) with the decoder's output as the logarithm of the mean."""
        return PoissonObservation(_log_mean(raw))


@spec
class NegativeBinomial(_LearnedScale):
    """log p(x|z) of counts with mean m = exp(decoder(z)) and variance m + dispersion m^2.

    [Gronbech2020] [Lopez2018]. The encoder reads log(1 + x). The dispersion is fixed
    (`learn="nothing"`), one learned number (`"shared"`), or an output of the decoder for every
    value (`"each"`). A learned one starts at `dispersion` and stays above a thousandth of it.
    """

    dispersion: PositiveFloat = 1.0
    """Dispersion d: the variance of a count with mean m is m + d m^2."""
    learn: Learned = "shared"
    """What to learn of the dispersion: nothing, one shared number, or one for each value."""
    kind: Literal["negative-binomial"] = tag("negative-binomial")
    counts: ClassVar[bool] = True

    def __call__(self, raw: Tensor) -> NegativeBinomialObservation:
        """Return p(x|z); the channels of `raw` hold log-means, then the learned dispersion."""
        mean, dispersion = self._split(raw, self.dispersion)
        return NegativeBinomialObservation(_log_mean(mean), dispersion)


def _log_mean(raw: Tensor) -> Tensor:
    """Bound the logarithm of a mean smoothly from above, so that the mean stays finite."""
    return -torch.logaddexp(-raw, torch.full_like(raw, -_MOST_LOG_MEAN))


Likelihood = Annotated[
    Bernoulli
    | ContinuousBernoulli
    | Gaussian
    | Laplace
    | Poisson
    | NegativeBinomial
    | BaseLikelihood,
    Open(),
]
