"""Checks of a likelihood."""

import math

import numpy as np
import torch
from torch import Tensor

from unweave.core.noise import Noise, seeded
from unweave.data import from_array
from unweave.latents import Gaussian
from unweave.likelihoods import Likelihood, Observation
from unweave.networks import MLP
from unweave.objectives import VAE
from unweave.testing.laws import (
    DRAWS,
    check_gradient,
    check_mean,
    check_noise,
    check_spec,
    check_training,
    require,
)
from unweave.training.run import Run

_OUTPUTS = (-1.5, 0.0, 0.7)  # of the decoder
_LEAST_STEP = 1e-9
_SHARE = 0.1  # of the second density in a mixture


@seeded()
def check_likelihood(likelihood: Likelihood) -> None:
    """Check a likelihood.

    The spec survives a round trip through JSON; `log_prob`, `mean` and `sample` have the right
    shapes; samples are functions of the noise that they are given, and have the stated mean and
    density, which integrates (or sums) to 1, for one value and for several together; the gradient
    of the density agrees with finite differences; everything works under `torch.vmap`; and a model
    trains in lanes and after an interruption.
    """
    check_spec(likelihood, Run(likelihood=likelihood))
    _check_shapes(likelihood)
    for output in _OUTPUTS:
        raw = torch.full((DRAWS, *likelihood.raw_shape((1,))), output, dtype=torch.float64)
        p = _observation(likelihood, raw)
        x = p.sample(Noise(0)).detach()
        check_mean("mean of samples", x, p.mean[0])
        _check_density(likelihood, output, x[:, 0])
    _check_joint_density(likelihood)
    _check_mapped(likelihood)
    random = np.random.default_rng(0)
    values = random.random((60, 4)) if likelihood.bounded else random.standard_normal((60, 4))
    if likelihood.counts:
        values = random.integers(0, 9, (60, 4)).astype(np.float64)
    data, dataset = from_array(values, scale="counts" if likelihood.counts else "none")
    run = Run(data=data, latent=Gaussian(2), objective=VAE(), network=MLP((8,)),
              likelihood=likelihood)  # fmt: skip
    check_training(run, dataset)


def _observation(likelihood: Likelihood, raw: Tensor) -> Observation:
    return likelihood(likelihood.head().to(raw.dtype)(raw))


def _check_shapes(likelihood: Likelihood) -> None:
    """Images (5, 2, 3, 3) have one log-density each."""
    shape = (2, 3, 3)
    raw = torch.zeros(5, *likelihood.raw_shape(shape), dtype=torch.float64)
    p = _observation(likelihood, raw)
    try:
        p.sample(Noise(0))
    except (AttributeError, TypeError) as error:
        raise AssertionError(
            f"p(x|z), a {type(p).__name__}, must have a method sample(noise) that draws with "
            f"noise.normal or noise.uniform, got {type(error).__name__}: {error}"
        ) from error
    check_noise("samples of p(x|z)", p.sample)
    x = p.sample(Noise(0))
    for name, came, wanted in (
        ("mean", p.mean, (5, *shape)),
        ("sample(noise)", x, (5, *shape)),
        ("log_prob(x)", p.log_prob(x), (5,)),
    ):
        got = tuple(came.shape)
        require(got == wanted, f"{name}: expected shape {wanted}, got {got}")
    raw = Noise(2).normal(tuple(raw.shape), "raw", torch.float64)
    check_gradient("log_prob(x)", lambda raw: _observation(likelihood, raw).log_prob(x), raw)


def _check_density(likelihood: Likelihood, output: float, x: Tensor) -> None:
    """The density of one value has the mass of its samples, between two of their quantiles."""
    integers = bool((x == x.round()).all())
    if integers:
        points, stated = x.unique(), 1.0
    else:
        low, high = x.quantile(0.001).item(), x.quantile(0.999).item()
        points, stated = torch.linspace(low, high, 4_001, dtype=x.dtype), 0.998
    raw = torch.full((len(points), *likelihood.raw_shape((1,))), output, dtype=x.dtype)
    density = _observation(likelihood, raw).log_prob(points[:, None]).detach().exp()
    if integers:
        mass = density.cumsum(0)
        below = torch.searchsorted(x.sort().values, points, right=True) / len(x)
    else:
        mass = torch.cumulative_trapezoid(density, points)
        below = torch.searchsorted(x.sort().values, points[1:]) / len(x) - 0.001
    total, kind = mass[-1].item(), "sum" if integers else "integral"
    require(
        abs(total - stated) < 0.02,
        f"p(x|z): expected a mass of {stated} on its samples, the {kind} of its density is "
        f"{total:.3f}",
    )
    away = (below - mass).abs().max().item()
    require(away < 0.02, f"p(x|z): samples and density differ by {away:.3f} in their cdf")


def _check_joint_density(likelihood: Likelihood) -> None:
    """For the densities p and p' of two outputs of the decoder, E_m[p'(x) / m(x)] = 1.

    m is the mixture (1 - w) p + w p', so that the ratio is at most 1 / w. The law holds whether the
    values of x are independent or not, and fails if `log_prob` is not their joint density, or if
    samples are not from it.
    """
    shape = (2, 2, 2)
    raw = 0.5 * Noise(1).normal(likelihood.raw_shape(shape), "raw", torch.float64)
    p = _observation(likelihood, raw.expand(DRAWS, *raw.shape))
    x = p.sample(Noise(2)).detach()
    step = 2.0
    while True:
        step /= 2
        other = _observation(likelihood, (raw + step).expand(DRAWS, *raw.shape))
        log_ratio = (other.log_prob(x) - p.log_prob(x)).detach()
        if log_ratio.abs().median() < 1 or step < _LEAST_STEP:
            break
    y = other.sample(Noise(3)).detach()
    mean, variance = 0.0, 0.0
    for weight, nats in (
        (1 - _SHARE, log_ratio),
        (_SHARE, (other.log_prob(y) - p.log_prob(y)).detach()),
    ):
        ratio = 1 / ((1 - _SHARE) * torch.exp(-nats) + _SHARE)
        mean += weight * ratio.mean().item()
        variance += weight**2 * ratio.var().item() / DRAWS
    require(
        abs(mean - 1) < 6 * math.sqrt(variance) + 1e-6,
        f"p(x|z) of {math.prod(shape)} values: samples are not from the density: a mean of ratios "
        f"of densities over samples must be 1, got {mean:.3f}; log_prob must be the sum over all "
        "values, and every value needs noise of its own",
    )


def _check_mapped(likelihood: Likelihood) -> None:
    """Under vmap, log-densities are those of one lane."""
    raw = Noise(3).normal((3, 4, *likelihood.raw_shape((2,))), "raw", torch.float64)
    x = _observation(likelihood, raw[0]).sample(Noise(4)).detach()
    head = likelihood.head().to(raw.dtype)

    def log_prob(raw: Tensor) -> Tensor:
        return likelihood(head(raw)).log_prob(x)

    for one, every in zip(raw, torch.func.vmap(log_prob)(raw), strict=True):
        require(
            torch.allclose(log_prob(one), every, rtol=1e-6, atol=1e-8),
            "log_prob under torch.vmap differs from that of one lane",
        )
