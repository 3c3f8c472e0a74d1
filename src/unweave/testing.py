"""Checks for your own parts: the laws that unweave's own tests apply.

Call one in a test of your package. If a law is broken, it raises an AssertionError that names the
law and says by how much it is broken.

>>> import unweave as uw
>>> from unweave.testing import check_network
>>> check_network(uw.MLP(hidden=(16,)), shape=(1, 8, 8))
"""

from __future__ import annotations

import contextlib
import dataclasses
import math
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from unweave.core.noise import Noise
from unweave.core.schedules import at
from unweave.core.spec import digest, from_json, to_json
from unweave.data import Blobs, Data, from_array
from unweave.data.dataset import MISSING, Dataset
from unweave.latents import (
    Bernoulli,
    Categorical,
    Distribution,
    Gaussian,
    Latent,
    Product,
    StudentT,
    Uniform,
    with_hard_samples,
)
from unweave.metrics import Score
from unweave.networks import MLP, Network, Shape
from unweave.objectives import VAE, Batch, Nets, Objective, total
from unweave.training import Outcome, Row, Silent, train
from unweave.training.run import Run
from unweave.training.store import Store

__all__ = ["check_dataset", "check_latent", "check_metric", "check_network", "check_objective"]

_CPU = torch.device("cpu")
_STEPS = 12
_DRAWS = 20_000
_SPACES: tuple[Latent, ...] = (
    Gaussian(3),
    Gaussian(1),
    StudentT(3, df=1.0),
    Uniform(2),
    Categorical(3),
    Product(style=Gaussian(2), what=Categorical(3), flags=Bernoulli(2)),
)


def check_objective(
    objective: Objective, *, latent: Latent | None = None, neutral: Objective | None = None
) -> None:
    """Check an objective.

    The spec survives a round trip through JSON; the objective trains every latent space or explains
    why it cannot; its gradients agree with finite differences; each of its terms is finite; runs in
    lanes equal runs alone; and an interrupted run ends with the same bits.

    Args:
        objective: weights should differ from their neutral values, so that every term counts.
        latent: the latent space of the gradient check; by default a Gaussian of three variables.
        neutral: the objective at weights where it must equal the negative ELBO, like BetaVAE(1.0).
    """
    _check_spec(objective, Run(objective=objective))
    for space in _SPACES:
        reason = objective.incompatibility(space)
        _require(
            reason is None or (isinstance(reason, str) and reason),
            (f"incompatibility({space}) must be None or a reason, got {reason!r}"),
        )
        if reason is None:
            _check_losses(objective, space)
    space = latent or Gaussian(3)
    if reason := objective.incompatibility(space):
        raise AssertionError(f"the objective refuses {space} ({reason}): give another latent=")
    _check_gradients(objective, space)
    if neutral is not None:
        _check_neutral(neutral, space)
    _check_training(
        Run(data=_data(), objective=objective, latent=space, network=_network(objective))
    )


def check_latent(block: Latent) -> None:
    """Check a latent block.

    The spec survives a round trip through JSON; sizes and shapes agree; samples of posterior and
    prior have the stated moments and densities; the rate is the mean of log q(z|x) - log p(z);
    everything works under `torch.vmap`; traversals are within the support; and the block trains in
    lanes and after an interruption.
    """
    _check_spec(block, Run(latent=block))
    _require(sum(block.variables) == block.size, "variables must add up to the size of the block")
    count = len(block.variables)
    _require(
        len(block.names) == len(set(block.names)) == len(block.discrete) == count,
        "there must be one distinct name, and one entry of `discrete`, for each variable",
    )
    raw = 0.5 * Noise(0).normal((4, block.outputs), "raw", torch.float64)
    q, p = block.posterior(raw), _prior(block)
    z = with_hard_samples(q).rsample(Noise(1), (_DRAWS,))
    expected = {
        "mean of q": (q.mean.shape, (4, block.size)),
        "samples of q": (z.shape, (_DRAWS, 4, block.size)),
        "log q(z|x)": (q.log_prob(z).shape, (_DRAWS, 4)),
        "log q(z_v|x)": (q.log_marginals(z).shape, (_DRAWS, 4, count)),
        "samples of p": (p.rsample(Noise(1), (7,)).shape, (7, block.size)),
        "codes": (block.codes(q).shape, (4, count)),
        "rates": (block.rates(q, p, z[0]).shape, (4, count)),
    }
    for name, (came, wanted) in expected.items():
        _require(tuple(came) == wanted, f"{name}: expected shape {wanted}, got {tuple(came)}")
    _check_mean("mean of samples of q", z, q.mean)
    _check_mean("entropy of q", -q.log_prob(z), q.entropy())
    sampled = q.log_prob(z) - p.log_prob(z)
    rate = block.rate(q, p, z)
    _check_mean("rate", sampled, rate.mean(0) if rate.dim() == 2 else rate)
    _check_prior(block, p)
    _check_mapped(block)
    _check_training(Run(data=_data(), latent=block, objective=VAE(), network=MLP((16,))))


def check_network(network: Network, shape: Shape = (1, 64, 64)) -> None:
    """Check a network: shapes of encoder and decoder, gradients of all weights, lanes, resumption.

    Args:
        network: the spec of an encoder and a decoder.
        shape: shape of the observations to test it with, (C, H, W) or (D,).
    """
    _check_spec(network, Run(network=network))
    block = Product(style=Gaussian(3), what=Categorical(2))
    encoder = network.encoder(shape, block.discrete_outputs)
    decoder = network.decoder(block.size, shape)
    raw = encoder(torch.rand(5, *shape))
    _require(
        tuple(raw.shape) == (5, block.outputs),
        (f"encoder: expected shape {(5, block.outputs)}, got {tuple(raw.shape)}"),
    )
    out = decoder(torch.randn(5, block.size))
    _require(
        tuple(out.shape) == (5, *shape),
        (f"decoder: expected shape {(5, *shape)}, got {tuple(out.shape)}"),
    )
    for part, value in (("encoder", raw), ("decoder", out)):
        module = encoder if part == "encoder" else decoder
        names, parameters = zip(*module.named_parameters(), strict=True)
        gradients = torch.autograd.grad(value.square().sum(), parameters, allow_unused=True)
        idle = [n for n, g in zip(names, gradients, strict=True) if g is None or not g.any()]
        _require(not idle, f"{part}: these parameters get no gradient: {', '.join(idle)}")
    images = np.random.default_rng(0).integers(0, 2, (40, *shape)).astype(np.uint8)
    data, dataset = from_array(images, axes="nchw" if len(shape) == 3 else None)
    run = Run(data=data, latent=Gaussian(3), objective=VAE(), network=network)
    _check_training(run, dataset)


def check_metric(metric: Callable[..., float | Score], *, codes: int = 4) -> None:
    """Check a metric of (codes, factors).

    The metric returns a finite number, the same for the same seed; it does not depend on the order
    of observations or of latent variables; codes that copy the factors score above codes that are
    independent of them; and rows that do not match, and NaN, raise a ValueError.

    Args:
        metric: a function decorated with `unweave.metrics.metric`, or any function of two arrays.
        codes: number of latent variables to test it with.
    """
    random = np.random.default_rng(0)
    factors = random.integers(0, 4, (1_000, 3))
    copied = np.concatenate([factors + 0.01 * random.normal(size=factors.shape),
                             random.normal(size=(1_000, max(codes - 3, 1)))], 1)  # fmt: skip
    value = _value(metric, copied, factors)
    _require(math.isfinite(value), f"expected a finite score, got {value}")
    again = _value(metric, copied, factors)
    _require(value == again, f"expected the same score of the same table, got {value} and {again}")
    rows, columns = random.permutation(1_000), random.permutation(copied.shape[1])
    for name, other in (
        ("observations", _value(metric, copied[rows], factors[rows])),
        ("latent variables", _value(metric, copied[:, columns], factors)),
    ):
        _require(
            abs(value - other) < 0.05,
            (f"the score must not depend on the order of {name}: got {value} and {other}"),
        )
    noise = _value(metric, random.normal(size=copied.shape), factors)
    _require(value > noise, f"codes that copy the factors score {value}, noise scores {noise}")
    for name, bad in (("rows that do not match", copied[:-1]), ("NaN", copied * np.nan)):
        try:
            came = _value(metric, bad, factors)
        except ValueError:
            continue
        raise AssertionError(f"expected a ValueError for {name}, got the score {came}")


def check_dataset(data: Data) -> None:
    """Check a dataset.

    The spec survives a round trip through JSON; observations have the shape, type and bounds that
    the schema states, and are the same every time; factors are classes within their sizes; and a
    model trains on the dataset, also after an interruption.
    """
    _check_spec(data, Run(data=data))
    dataset = data.load(_CPU)
    _require(dataset.size > 1, f"expected several observations, got {dataset.size}")
    index = torch.arange(0, dataset.size, max(1, dataset.size // 50))
    x = dataset.images(index)
    _require(x.dtype == torch.float32, f"expected float32 observations, got {x.dtype}")
    _require(
        tuple(x.shape) == (len(index), *dataset.shape),
        (f"expected observations of shape {dataset.shape}, got {tuple(x.shape[1:])}"),
    )
    _require(x.isfinite().all(), "observations must be finite")
    if dataset.bounded:
        _require(x.min() >= 0 and x.max() <= 1, f"bounded, but values in [{x.min()}, {x.max()}]")
    _require(torch.equal(x, data.load(_CPU).images(index)), "the same index gives other values")
    _require(torch.equal(x[:3], dataset.images(index[:3])), "an observation depends on its batch")
    factors = dataset.factors(index)
    sizes = dataset.factor_sizes
    _require(
        len(sizes) == len(dataset.factor_names) == factors.shape[-1],
        ("factor_names, factor_sizes and the columns of factors(index) must be as many"),
    )
    _require(factors.dtype == torch.int64, f"expected int64 factors, got {factors.dtype}")
    for name, size, column in zip(dataset.factor_names, sizes, factors.T, strict=True):
        inside = column.min() >= MISSING and column.max() < size
        _require(inside, f"{name}: neither in 0..{size - 1} nor MISSING")
    batch = min(16, dataset.size)
    run = Run(data=data, latent=Gaussian(2), objective=VAE(), network=MLP((8,)), batch_size=batch)
    _check_training(run, dataset)


def _require(holds: object, message: str) -> None:
    """Raise an AssertionError, whichever way Python was started."""
    if not holds:
        raise AssertionError(message)


def _check_spec(part: Any, run: Run) -> None:
    """A spec is immutable, survives JSON, and names its run."""
    again = from_json(Run, to_json(run))
    _require(again == run, f"expected the same part after JSON, got {again} for {run}")
    _require(digest(again) == digest(run), "the digest must survive JSON")
    name = (
        next((f.name for f in dataclasses.fields(part)), None)
        if dataclasses.is_dataclass(part)
        else None
    )
    if name is None:
        return
    try:
        setattr(part, name, None)
    except (AttributeError, TypeError, ValueError):
        return
    raise AssertionError(f"{type(part).__name__} can be changed: decorate it with @unweave.spec")


def _data() -> Data:
    return Blobs()


def _network(objective: Objective) -> Network | None:
    return MLP((16,)) if objective.autoencodes else None


def _fixed(objective: Objective) -> Objective:
    """The objective with its weights as numbers, as a step sees them."""
    weights = Run(objective=objective).weights
    value: Any = objective
    fixed: Objective = dataclasses.replace(value, **{n: at(w, 1) for n, w in weights.items()})
    return fixed


def _built(objective: Objective, latent: Latent) -> tuple[Nets, Batch, Run]:
    dataset = _data().load(_CPU)
    size = dataset.size if objective.needs_full_batch else 16
    run = Run(data=_data(), latent=latent, objective=objective, network=_network(objective),
              batch_size=size).resolve(dataset)  # fmt: skip
    torch.manual_seed(0)
    nets = run.build(dataset.shape).double()
    index = torch.randperm(dataset.size)[:size]
    return nets, Batch(dataset.images(index).double(), dataset.size), run


def _losses(objective: Objective, nets: Nets, batch: Batch) -> list[tuple[str, Tensor]]:
    """The loss of every update, in order, on one batch."""
    found: list[tuple[str, Tensor]] = []
    carry: Any = {}
    for number, update in enumerate(objective.updates):
        terms, carry = update.loss(nets, batch, Noise(3, 1).fold(str(number)), carry)
        for name, term in terms.items():
            _require(
                tuple(term.value.shape) in ((), (len(batch.x),)),
                f"term {name}: expected one value, or one for each of {len(batch.x)} observations, "
                f"got shape {tuple(term.value.shape)}",
            )
            _require(term.value.isfinite().all(), f"term {name} is not finite")
        found.append((update.player, total(terms)))
    return found


def _check_losses(objective: Objective, latent: Latent) -> None:
    nets, batch, _ = _built(objective, latent)
    for player, loss in _losses(_fixed(objective), nets, batch):
        own = [p for n, p in nets.named_parameters() if nets.player_of(n) == player]
        gradients = torch.autograd.grad(loss, own, retain_graph=True, allow_unused=True)
        for gradient in gradients:
            _require(
                gradient is not None and gradient.isfinite().all(),
                (f"on {latent}: a parameter of player {player} has no finite gradient"),
            )


def _check_gradients(objective: Objective, latent: Latent, step: float = 1e-5) -> None:
    """Slopes along a random direction, by differentiation and by differences."""
    nets, batch, _ = _built(objective, latent)
    bound = _fixed(objective)
    for number, (player, loss) in enumerate(_losses(bound, nets, batch)):
        own = [p for n, p in nets.named_parameters() if nets.player_of(n) == player]
        direction = [torch.randn_like(p) for p in own]
        gradients = torch.autograd.grad(loss, own)
        products = [(g * d).sum() for g, d in zip(gradients, direction, strict=True)]
        slope = torch.stack(products).sum()
        ends = []
        for sign in (1, -1):
            with torch.no_grad():
                for p, d in zip(own, direction, strict=True):
                    p.add_(sign * step * d)
                ends.append(_losses(bound, nets, batch)[number][1])
                for p, d in zip(own, direction, strict=True):
                    p.sub_(sign * step * d)
        expected = (ends[0] - ends[1]) / (2 * step)
        _require(
            torch.allclose(slope, expected, rtol=1e-3, atol=1e-5),
            f"update {number} of player {player}: the gradient gives the slope {slope.item():.6g}, "
            f"finite differences give {expected.item():.6g}",
        )


def _check_neutral(neutral: Objective, latent: Latent) -> None:
    nets, batch, _ = _built(neutral, latent)
    (_, loss), *_ = _losses(_fixed(neutral), nets, batch)
    (_, elbo), *_ = _losses(VAE(), nets, batch)
    _require(
        torch.allclose(loss, elbo, rtol=1e-6),
        f"at its neutral weights the loss must be the negative ELBO, {elbo.item():.6g}, got "
        f"{loss.item():.6g}",
    )


def _check_mean(name: str, samples: Tensor, expected: Tensor) -> None:
    """A mean over samples agrees with what it should be, within six standard errors."""
    samples, expected = samples.detach(), expected.detach()
    error = 6 * samples.std(0) / math.sqrt(len(samples)) + 1e-6
    away = (samples.mean(0) - expected).abs()
    _require(
        (away < error).all(),
        f"{name}: differs from the mean of {len(samples):,} samples by {float(away.max()):.4g}, "
        f"more than six standard errors ({float(error.max()):.4g})",
    )


def _prior(block: Latent) -> Distribution:
    module = block.prior((4,)).double()
    weight = Noise(1).normal((block.outputs, 4), "weight", torch.float64)
    prior: Distribution = module(lambda x: x @ weight.T)
    return prior


def _check_prior(block: Latent, p: Distribution) -> None:
    """Samples, density, cdf and moments of p(z) describe the same distribution."""
    drawn = with_hard_samples(p).rsample(Noise(2), (_DRAWS,)).detach()
    _require(p.log_prob(drawn).isfinite().all(), "log p(z) must be finite at samples of p(z)")
    low, high = drawn.quantile(0.001, 0), drawn.quantile(0.999, 0)
    share = torch.linspace(0, 1, 4_001, dtype=drawn.dtype).unsqueeze(-1)
    grid = low + (high - low) * share
    density = p.log_marginals(grid).detach().exp()
    for number, columns in enumerate(block.columns):
        if block.discrete[number] or columns.stop - columns.start > 1:
            continue
        name, points = block.names[number], grid[:, columns.start].contiguous()
        mass = torch.cumulative_trapezoid(density[:, number], points)
        _require(
            abs(mass[-1].item() - 0.998) < 0.02,
            f"p(z) of {name}: expected a mass of 0.998 between two quantiles of its samples, the "
            f"integral of its density is {mass[-1].item():.3f}",
        )
        below = torch.searchsorted(drawn[:, columns.start].sort().values, points[1:]) / _DRAWS
        away = (below - 0.001 - mass).abs().max().item()
        _require(
            away < 0.02,
            f"p(z) of {name}: samples and density differ by {away:.3f} in their cdf",
        )
        if hasattr(p, "cdf"):
            stated = p.cdf(grid).detach()[:, columns.start]
            away = (stated[1:] - stated[0] - mass).abs().max().item()
            _require(away < 0.02, f"p(z) of {name}: `cdf` and density differ by {away:.3f}")
        if block.finite_variance:
            own = drawn[:, columns.start]
            scale = own.std()
            for moment, expected in (("mean", own.mean()), ("stddev", scale)):
                value = getattr(p, moment).expand(block.size)[columns.start].detach()
                _require(
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
            _require(
                torch.allclose(one, every[lane], rtol=1e-6, atol=1e-8),
                ("results under torch.vmap differ from those of one lane"),
            )


class _Interruption(Exception):
    """Raised to stop a run in the middle."""


class _Interrupt(Silent):
    """Stops training at a step."""

    def advance(self, step: int, rows: Sequence[Row]) -> None:
        """Raise at half of the steps."""
        if step >= _STEPS // 2:
            raise _Interruption


def _check_training(run: Run, dataset: Dataset | None = None) -> None:
    """Lanes equal runs alone, and an interrupted run ends with the same bits."""
    dataset = dataset or run.data.load(_CPU)
    size = dataset.size if run.objective.needs_full_batch else min(16, dataset.size)
    runs = [
        dataclasses.replace(run, steps=_STEPS, seed=seed, batch_size=size).resolve(dataset)
        for seed in (0, 1)
    ]
    lanes, (alone,) = train(runs, dataset), train(runs[1:], dataset)
    for outcome in (*lanes, alone):
        _require(outcome.failure is None, f"training broke: {outcome.failure}")
    _check_weights("in lanes and alone", lanes[1], alone, tolerance=1e-4)
    with tempfile.TemporaryDirectory() as folder:
        store = Store(Path(folder))
        with contextlib.suppress(_Interruption):
            train(runs[1:], dataset, store, _Interrupt(), checkpoint_seconds=0.0)
        (resumed,) = train(runs[1:], dataset, store)
        _check_weights("interrupted and resumed, and at once", resumed, alone, tolerance=0.0)
        _require(store.folder(runs[1]).read_run() == runs[1], "the stored run must be the same")


def _check_weights(what: str, one: Outcome, other: Outcome, tolerance: float) -> None:
    assert one.weights is not None
    assert other.weights is not None
    for name, value in one.weights.items():
        away = float((value - other.weights[name]).abs().max()) if value.numel() else 0.0
        _require(away <= tolerance, f"{name} differs by {away:.3g} between training {what}")


def _value(metric: Callable[..., float | Score], codes: Any, factors: Any) -> float:
    found = metric(codes, factors)
    return float(found.value if isinstance(found, Score) else found)
