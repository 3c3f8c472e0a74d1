"""Checks of a latent block."""

import torch
from torch import Tensor

from unweave.core.noise import Noise, seeded
from unweave.latents import Distribution, Latent, with_hard_samples
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
    small_data,
)
from unweave.training.run import Run


@seeded()
def check_latent(block: Latent) -> None:
    """Check a latent block.

    The spec survives a round trip through JSON; sizes and shapes agree; samples of posterior and
    prior are functions of the noise that they are given, and have the stated moments and densities,
    which are products where variables are stated to be independent; the rate is the mean of log
    q(z|x) - log p(z), also of each variable; gradients agree with finite differences; the code of a
    variable depends on its posterior alone, and on no other observation;
    everything works under `torch.vmap`; traversals are finite; and the block trains in lanes and
    after an interruption.
    """
    require(
        hasattr(block, "size"),
        f"{type(block).__name__} has no `size`, the number of columns of z: add a setting, as in "
        "size: int = 10",
    )
    require(
        isinstance(block.outputs, int),
        f"outputs: expected a number, got {block.outputs!r}: make it a property",
    )
    check_spec(block, Run(latent=block))
    require(sum(block.variables) == block.size, "variables must add up to the size of the block")
    count = len(block.variables)
    require(
        len(block.names) == len(set(block.names)) == len(block.discrete) == count,
        "there must be one distinct name, and one entry of `discrete`, for each variable",
    )
    raw = 0.5 * Noise(0).normal((4, block.outputs), "raw", torch.float64)
    q, p = block.posterior(raw), _prior(block)
    check_noise("samples of q(z|x)", q.rsample)
    check_noise("samples of p(z)", lambda noise: p.rsample(noise, (7,)))
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
    rates = block.rates(q, p, z)
    sampled = q.log_marginals(z) - p.log_marginals(z)
    check_mean("rates of the variables", sampled, rates.mean(0) if rates.dim() == 3 else rates)
    if block.factorised_posterior:
        _check_product("q(z|x)", q, z)
    _check_marginals("q(z|x)", block, block.posterior(raw[0]), z[:, 0].detach())
    drawn = with_hard_samples(p).rsample(Noise(2), (DRAWS,)).detach()
    require(p.log_prob(drawn).isfinite().all(), "log p(z) must be finite at samples of p(z)")
    if block.factorised:
        _check_product("p(z)", p, drawn)
    _check_marginals("p(z)", block, p, drawn)
    _check_codes(block)
    _check_gradients(block, raw)
    for name, values in zip(block.names, block.traversal_values(p, 5), strict=True):
        require(values.isfinite().all(), f"traversal of {name}: its values must be finite")
    _check_mapped(block)
    check_training(Run(data=small_data(), latent=block, objective=VAE(), network=MLP((16,))))


def _prior(block: Latent) -> Distribution:
    module = block.prior((4,)).double()
    weight = Noise(1).normal((block.outputs, 4), "weight", torch.float64)
    prior: Distribution = module(lambda x: x @ weight.T)
    return prior


def _check_product(what: str, d: Distribution, z: Tensor) -> None:
    """The density of independent variables is the product of their own densities."""
    joint, product = d.log_prob(z).detach(), d.log_marginals(z).detach().sum(-1)
    require(
        torch.allclose(joint, product, rtol=1e-6, atol=1e-6),
        f"log {what}: the variables are stated to be independent, but the sum of `log_marginals` "
        f"differs from `log_prob` by up to {float((joint - product).abs().max()):.3g}",
    )


def _check_codes(block: Latent) -> None:
    """The code of each variable differs between observations, with its posterior alone."""
    raw = 3 * Noise(6).normal((100, block.outputs), "raw", torch.float64)
    q = block.posterior(raw)
    z = with_hard_samples(q).rsample(Noise(7))
    codes, log_q = block.codes(q), q.log_marginals(z)
    for again in (block.codes(q), torch.cat([block.codes(block.posterior(r[None])) for r in raw])):
        require(
            torch.allclose(again, codes, rtol=1e-9, atol=1e-12),
            "codes: an observation has another code each time, or among other observations: "
            "compute it from its own row of q(z|x) alone, without random numbers",
        )
    for name, same in zip(block.names, (codes == codes[:1]).all(0), strict=True):
        require(not same, f"code of {name}: the same for all outputs of the encoder")
    for output, values in enumerate(raw.flip(0).T):
        changed = raw.clone()
        changed[:, output] = values
        other = block.posterior(changed)
        posterior = torch.isclose(other.log_marginals(z), log_q, rtol=1e-9).all(0)
        code = torch.isclose(block.codes(other), codes, rtol=1e-9).all(0)
        for name, wrong in zip(block.names, posterior & ~code, strict=True):
            require(
                not wrong,
                f"code of {name}: output {output} of the encoder changes it, but not q(z_v|x)",
            )


def _check_gradients(block: Latent, raw: Tensor) -> None:
    """Samples, densities and rates pass on the gradient that trains the encoder.

    Discrete variables may be rounded, with the gradient of relaxed samples.
    """
    prior = _prior(block)
    z = block.posterior(raw).rsample(Noise(8)).detach()
    rounded = (block.hard_samples(z) == z).all(0)
    smooth = torch.ones(block.size, dtype=torch.bool)
    for discrete, columns in zip(block.discrete, block.columns, strict=True):
        smooth[columns] = not (discrete and rounded[columns].all())

    def samples(raw: Tensor) -> Tensor:
        return block.posterior(raw).rsample(Noise(8))

    def rate(raw: Tensor) -> Tensor:
        return block.rate(block.posterior(raw), prior, samples(raw) if smooth.all() else z)

    check_gradient("samples of q(z|x)", lambda raw: samples(raw)[:, smooth], raw)
    check_gradient("log q(z|x)", lambda raw: block.posterior(raw).log_prob(z), raw)
    check_gradient("rate", rate, raw)


def _check_marginals(what: str, block: Latent, p: Distribution, drawn: Tensor) -> None:
    """Samples, densities, cdf and moments of each variable describe the same distribution."""
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
            f"{what} of {name}: expected a mass of 0.998 between two quantiles of its samples, the "
            f"integral of its density is {mass[-1].item():.3f}",
        )
        below = torch.searchsorted(drawn[:, columns.start].sort().values, points[1:]) / DRAWS
        away = (below - 0.001 - mass).abs().max().item()
        require(
            away < 0.02,
            f"{what} of {name}: samples and density differ by {away:.3f} in their cdf",
        )
        if hasattr(p, "cdf"):
            stated = p.cdf(grid).detach()[:, columns.start]
            away = (stated[1:] - stated[0] - mass).abs().max().item()
            require(away < 0.02, f"{what} of {name}: `cdf` and density differ by {away:.3f}")
        if block.finite_variance:
            own = drawn[:, columns.start]
            scale = own.std()
            for moment, expected in (("mean", own.mean()), ("stddev", scale)):
                value = getattr(p, moment).expand(block.size)[columns.start].detach()
                require(
                    abs(value - expected) < 0.1 * scale,
                    f"{what} of {name}: {moment} is {value.item():.3g}, of samples {expected:.3g}",
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
