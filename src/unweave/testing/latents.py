"""Checks of a latent block."""

from __future__ import annotations

import torch
from torch import Tensor

from unweave.core.noise import Noise
from unweave.latents import Distribution, Latent, with_hard_samples
from unweave.networks import MLP
from unweave.objectives import VAE
from unweave.testing.laws import DRAWS, check_mean, check_spec, check_training, require, small_data
from unweave.training.run import Run


def check_latent(block: Latent) -> None:
    """Check a latent block.

    The spec survives a round trip through JSON; sizes and shapes agree; samples of posterior and
    prior have the stated moments and densities; the rate is the mean of log q(z|x) - log p(z);
    everything works under `torch.vmap`; traversals are within the support; and the block trains in
    lanes and after an interruption.
    """
    check_spec(block, Run(latent=block))
    require(sum(block.variables) == block.size, "variables must add up to the size of the block")
    count = len(block.variables)
    require(
        len(block.names) == len(set(block.names)) == len(block.discrete) == count,
        "there must be one distinct name, and one entry of `discrete`, for each variable",
    )
    raw = 0.5 * Noise(0).normal((4, block.outputs), "raw", torch.float64)
    q, p = block.posterior(raw), _prior(block)
    z = with_hard_samples(q).rsample(Noise(1), (DRAWS,))
    expected = {
        "mean of q": (q.mean.shape, (4, block.size)),
        "samples of q": (z.shape, (DRAWS, 4, block.size)),
        "log q(z|x)": (q.log_prob(z).shape, (DRAWS, 4)),
        "log q(z_v|x)": (q.log_marginals(z).shape, (DRAWS, 4, count)),
        "samples of p": (p.rsample(Noise(1), (7,)).shape, (7, block.size)),
        "codes": (block.codes(q).shape, (4, count)),
        "rates": (block.rates(q, p, z[0]).shape, (4, count)),
    }
    for name, (came, wanted) in expected.items():
        require(tuple(came) == wanted, f"{name}: expected shape {wanted}, got {tuple(came)}")
    check_mean("mean of samples of q", z, q.mean)
    check_mean("entropy of q", -q.log_prob(z), q.entropy())
    sampled = q.log_prob(z) - p.log_prob(z)
    rate = block.rate(q, p, z)
    check_mean("rate", sampled, rate.mean(0) if rate.dim() == 2 else rate)
    _check_prior(block, p)
    for name, values in zip(block.names, block.traversal_values(p, 5), strict=True):
        require(values.isfinite().all(), f"traversal of {name}: its values must be finite")
    _check_mapped(block)
    check_training(Run(data=small_data(), latent=block, objective=VAE(), network=MLP((16,))))


def _prior(block: Latent) -> Distribution:
    module = block.prior((4,)).double()
    weight = Noise(1).normal((block.outputs, 4), "weight", torch.float64)
    prior: Distribution = module(lambda x: x @ weight.T)
    return prior


def _check_prior(block: Latent, p: Distribution) -> None:
    """Samples, density, cdf and moments of p(z) describe the same distribution."""
    drawn = with_hard_samples(p).rsample(Noise(2), (DRAWS,)).detach()
    require(p.log_prob(drawn).isfinite().all(), "log p(z) must be finite at samples of p(z)")
    low, high = drawn.quantile(0.001, 0), drawn.quantile(0.999, 0)
    share = torch.linspace(0, 1, 4_001, dtype=drawn.dtype).unsqueeze(-1)
    grid = low + (high - low) * share
    density = p.log_marginals(grid).detach().exp()
    for number, columns in enumerate(block.columns):
        if block.discrete[number] or columns.stop - columns.start > 1:
            continue
        name, points = block.names[number], grid[:, columns.start].contiguous()
        mass = torch.cumulative_trapezoid(density[:, number], points)
        require(
            abs(mass[-1].item() - 0.998) < 0.02,
            f"p(z) of {name}: expected a mass of 0.998 between two quantiles of its samples, the "
            f"integral of its density is {mass[-1].item():.3f}",
        )
        below = torch.searchsorted(drawn[:, columns.start].sort().values, points[1:]) / DRAWS
        away = (below - 0.001 - mass).abs().max().item()
        require(
            away < 0.02,
            f"p(z) of {name}: samples and density differ by {away:.3f} in their cdf",
        )
        if hasattr(p, "cdf"):
            stated = p.cdf(grid).detach()[:, columns.start]
            away = (stated[1:] - stated[0] - mass).abs().max().item()
            require(away < 0.02, f"p(z) of {name}: `cdf` and density differ by {away:.3f}")
        if block.finite_variance:
            own = drawn[:, columns.start]
            scale = own.std()
            for moment, expected in (("mean", own.mean()), ("stddev", scale)):
                value = getattr(p, moment).expand(block.size)[columns.start].detach()
                require(
                    abs(value - expected) < 0.1 * scale,
                    f"p(z) of {name}: {moment} is {value.item():.3g}, of samples {expected:.3g}",
                )


def _check_mapped(block: Latent) -> None:
    """Everything that training computes gives the same under vmap as lane by lane."""
    raw = 0.5 * Noise(5).normal((3, 4, block.outputs), "raw", torch.float64)
    prior = _prior(block)

    def computed(raw: Tensor, seed: Tensor) -> tuple[Tensor, ...]:
        q = block.posterior(raw)
        z = q.rsample(Noise(seed))
        return z, q.log_prob(z), block.rate(q, prior, z), block.codes(q)

    mapped = torch.func.vmap(computed)(raw, torch.arange(3))
    for lane in range(3):
        for one, every in zip(computed(raw[lane], torch.tensor(lane)), mapped, strict=True):
            require(
                torch.allclose(one, every[lane], rtol=1e-6, atol=1e-8),
                ("results under torch.vmap differ from those of one lane"),
            )
