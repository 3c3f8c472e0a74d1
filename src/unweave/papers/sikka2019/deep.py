"""What figures 2 and 3 have in common: many deep beta-VAEs over beta, their terms and claims."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from unweave.core.noise import Noise
from unweave.data import Dataset, Mixing, MovingDigit
from unweave.evaluation.model import FittedModel
from unweave.networks import MLP
from unweave.objectives import BetaVAE, Nets
from unweave.objectives.importance import particle_bound
from unweave.papers.sikka2019.inference import Truth, inference_errors
from unweave.presets.sikka2019 import BATCH, deep
from unweave.studies.drawing import BLUE, INK, MUTED, PURPLE, SKY, Values
from unweave.studies.intervals import two_sigma_interval
from unweave.studies.workspace import Claim, Measured, Numbers, judged
from unweave.training.run import Run

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SAMPLES = 1000  # of q(z|x) for each observation, as in app. C
TERMS = {
    "elbo": "ELBO",
    "tie": "True inference error",
    "reconstruction": "Reconstruction objective",
    "rate": "Conditional independence loss",
    "mie": "Model inference error, at least",
}
LANES = 100  # networks that train at once
_AT_ONCE = {"cpu": 2**23, "cuda": 2**28}  # numbers that decoders put out at once
_RESAMPLES = 2000
_RISE = 0.1  # nats: less is the noise of samples
_AROUND = 0.5, 2.0  # what counts as around beta = 1; ours
BRACKETS = (
    "Brackets after a β have 95 % of what a bootstrap over initialisations gives, those after a "
    "rise two standard errors over initialisations on either side."
)


@dataclass(frozen=True)
class Sweep:
    """Networks of appendix C on data, for weights and seeds."""

    data: Mixing | MovingDigit
    latents: int
    betas: tuple[float, ...]
    seeds: tuple[int, ...]
    epochs: int = 1000
    hidden: tuple[int, ...] = (256, 200, 200)

    @property
    def runs(self) -> list[Run]:
        """All seeds of the first beta, then of the next."""
        return [self.run(beta, seed) for beta, seed in itertools.product(self.betas, self.seeds)]

    @property
    def steps(self) -> int:
        """Of each network."""
        return self.epochs * self.data.observations // BATCH

    def run(self, beta: float, seed: int) -> Run:
        """One of the networks."""
        return replace(
            deep(self.data, self.latents),
            network=MLP(hidden=self.hidden, activation="tanh"),
            objective=BetaVAE(beta=beta),
            steps=self.steps,
            seed=seed,
        )


def terms_of(model: FittedModel, dataset: Dataset, truth: Truth, samples: int) -> Numbers:
    """The terms of a model, means over the observations of a dataset, in nats.

    The reconstruction is over samples of q(z|x), so many for each observation; the rate and the
    true inference error are exact. The model inference error is log p(x) - ELBO, eq. 16, with the
    importance-weighted bound of log p(x) on the same samples in its place: it is no larger.
    """
    q, values = _passes(model, dataset, samples)
    mean, stddev = np.split(q, 2, axis=1)
    errors = inference_errors(mean, np.square(stddev), truth)
    bound, reconstruction, rate = values.mean(0).tolist()
    elbo = reconstruction - rate
    return {
        "elbo": elbo,
        "tie": errors.aligned,
        "reconstruction": reconstruction,
        "rate": rate,
        "mie": bound - elbo,
        "printed": errors.printed,
    }


def _passes(model: FittedModel, dataset: Dataset, samples: int) -> tuple[Values, Values]:
    """Means and scales (n, 2 k) of all observations, and bound, reconstruction and rate, (n, 3)."""
    size = max(
        1,
        _AT_ONCE.get(dataset.device.type, _AT_ONCE["cuda"])
        // (samples * int(np.prod(dataset.shape))),
    )
    parts = []
    for number, index in enumerate(torch.arange(dataset.size, device=dataset.device).split(size)):
        noise = Noise(0, number, "terms", dataset.device)

        def terms(nets: Nets, x: Tensor, noise: Noise = noise) -> Tensor:
            model = nets.model
            q = model.encode(x)
            bound, distortion, _ = particle_bound(model, q, x, noise, samples)
            rate = model.latent.rate(q, model.p(), q.mean)
            values = torch.stack([bound, -distortion, rate], -1)
            return torch.cat([q.mean, q.stddev, values], -1)

        parts.append(model.trained.alone(0, terms, dataset.images(index)).double().cpu().numpy())
    every = np.concatenate(parts)
    return every[:, :-3], every[:, -3:]


def gathered(betas: Sequence[float], facts: Sequence[Numbers]) -> Numbers:
    """The terms of all networks by name, on the data of training and on fresh data.

    The facts of a network are those of `terms_of`, under "fresh" the same on fresh data, and under
    "samples" how many samples of q(z|x) they are over.
    """

    def by_name(every: Sequence[Numbers]) -> Numbers:
        names = (*TERMS, "printed")
        return {"betas": betas, **{name: [each[name] for each in every] for name in names}}

    return {
        **by_name(facts),
        "fresh": by_name([each["fresh"] for each in facts]),
        "samples": sorted({each["samples"] for each in facts}),
    }


def samples_text(numbers: Numbers) -> str:
    """How many samples of q(z|x) the reconstruction is over.

    >>> samples_text({"samples": [100]})
    '100 samples for each observation (app. C has 1,000)'
    """
    counts = " or ".join(f"{count:,}" for count in numbers["samples"])
    paper = ", as in app. C" if numbers["samples"] == [SAMPLES] else f" (app. C has {SAMPLES:,})"
    return f"{counts} samples for each observation{paper}"


def curves(numbers: Numbers, name: str) -> Values:
    """A term of all networks, (betas, seeds)."""
    return np.array(numbers[name]).reshape(len(numbers["betas"]), -1)


def extremum(
    betas: Sequence[float], values: Values, top: bool, of: Callable[..., Values] = np.mean
) -> Measured:
    """Where the mean over seeds (betas, seeds) is largest or smallest, with a bootstrap interval.

    Of three neighbours on the grid the parabola through them over log beta says where; the interval
    has 95 % of what other draws of the same initialisations give. `of` takes the place of the mean.
    """
    rng = np.random.default_rng(0)
    count = values.shape[1]
    drawn = rng.integers(count, size=(_RESAMPLES, count))
    sign = 1 if top else -1
    places = [_peak(betas, sign * each) for each in of(values[:, drawn], axis=2).T]
    low, high = np.quantile(places, [0.025, 0.975])
    return Measured(_peak(betas, sign * of(values, axis=1)), float(low), float(high))


def _peak(betas: Sequence[float], y: Values) -> float:
    """Where a curve through points over log beta is highest; an end is the very beta."""
    x, at = np.log(np.array(betas)), int(y.argmax())
    if at in (0, len(x) - 1):
        return betas[at]
    left, right = x[at - 1] - x[at], x[at + 1] - x[at]
    slope_left, slope_right = (y[at - 1] - y[at]) / left, (y[at + 1] - y[at]) / right
    bend = (slope_right - slope_left) / (right - left)  # below 0, or 0 on a plateau
    if bend >= 0:
        return betas[at]
    return float(np.exp(x[at] - 0.5 * (slope_left - bend * left) / bend))


def largest_rise(values: Values) -> Measured:
    """The largest rise of the mean over seeds from one beta to the next, with two standard errors.

    values: (betas, seeds). Of the step whose upper end is highest, so that no other reaches beyond
    it; negative where the mean falls everywhere.
    """
    steps = np.diff(values, axis=0)
    rises, count = steps.mean(1), values.shape[1]
    errors = steps.std(1, ddof=1) / np.sqrt(count) if count > 1 else np.zeros(len(steps))
    at = int((rises + 2 * errors).argmax())
    return two_sigma_interval(rises[at], errors[at])


def claims_of(numbers: Numbers, figure: str, where: str) -> list[Claim]:
    """What figures 2 and 3 show: a largest ELBO near 1, TIE with an optimum, and two that fall."""
    return [
        _elbo_claim(numbers, f"{where}, fig. {figure}A"),
        *tie_claims(
            numbers,
            "TIE follows a non-monotonic trend and has an optimal β",
            f"{where}, fig. {figure}B",
        ),
        _fall_claim(numbers, "reconstruction", f"{where}, fig. {figure}C"),
        _fall_claim(numbers, "rate", f"{where}, fig. {figure}D"),
    ]


def _elbo_claim(numbers: Numbers, where: str) -> Claim:
    betas, elbo = numbers["betas"], curves(numbers, "elbo")
    top = extremum(betas, elbo, True)
    at = int(elbo.mean(1).argmax())
    start = min(at, len(betas) - 2)  # from which on it is to fall
    after = largest_rise(elbo[start:])
    side = "" if top.low <= 1 <= top.high else ", below 1" if top.high < 1 else ", above 1"
    note = (
        "Proposition 3 puts the maximum of optimal networks at 1; whether this one is “around 1” "
        "depends on our bound."
    )
    if betas[at] in _AROUND:
        note = (
            f"The largest mean on the grid is at β = {betas[at]:g}, the very edge of our bound; a "
            f"parabola through it and its neighbours has its maximum inside. {note}"
        )
    return judged(
        "After being maximized around β = 1 the ELBO decreases with β",
        where,
        f"a maximum at {_AROUND[0]:g} < β < {_AROUND[1]:g}, on the grid of β and between its "
        f"points, and after it no rise of {_RISE} nats within its error (our bounds)",
        f"β = {top}{side}, {betas[at]:g} on the grid; the largest rise from there on: {after} nats",
        _AROUND[0] < min(top.low, betas[at])
        and max(top.high, betas[at]) < _AROUND[1]
        and after.high <= _RISE,
        note,
        decisive=after.low > _RISE,
    )


def tie_claims(
    numbers: Numbers, statement: str, where: str, of: Callable[..., Values] = np.mean
) -> list[Claim]:
    """Whether TIE has an optimum inside: as the paper prints it, and with latents matched.

    `of`: of all initialisations, as in `extremum`.
    """
    betas = numbers["betas"]
    claims = []
    for name, title in (
        ("printed", "as printed (eq. 25, 27)"),
        ("tie", "latents matched to sources (ours)"),
    ):
        values = curves(numbers, name)
        found, line = extremum(betas, values, False, of), of(values, axis=1)
        claims.append(
            judged(
                f"{statement}: {title}",
                where,
                "a minimum inside our range of β, whose interval reaches neither end",
                f"β = {found}, TIE {line.min():.4g}; {line[0]:.4g} at β = {betas[0]:g}, "
                f"{line[-1]:.4g} at {betas[-1]:g}",
                bool(betas[0] < found.low and found.high < betas[-1]),
                _why_at_an_end(numbers, name, found),
                decisive=False,
            )
        )
    return claims


def _why_at_an_end(numbers: Numbers, name: str, found: Measured) -> str:
    betas = numbers["betas"]
    end = betas[0] if found.low <= betas[0] else betas[-1]
    told = "is smallest" if found.value == end else "may be smallest, by its interval,"
    why = (
        " As printed, latent i stands for source i, but no network knows the order and the signs "
        "of the sources. Most of this error comes from a wrong order, which costs less the less "
        "information latents carry."
        if name == "printed"
        else ""
    )
    return f"TIE {told} at β = {end:g}, an end of our range: there may be a minimum beyond it.{why}"


def _fall_claim(numbers: Numbers, name: str, where: str) -> Claim:
    values = curves(numbers, name)
    rise, means = largest_rise(values), values.mean(1)
    return judged(
        f"The {TERMS[name].lower()} is decreasing with β",
        where,
        f"no rise of {_RISE} nats from one β to the next, within its error (our bound)",
        f"from {means[0]:.5g} to {means[-1]:.5g} nats; the largest rise: {rise}",
        rise.high <= _RISE,
        decisive=rise.low > _RISE,
    )


def draw_term(axis: Axes, numbers: Numbers, name: str, top: bool | None = None) -> None:
    """A term over beta: mean, smallest and largest over initialisations, and its extremum.

    And its mean over other observations than those of training.
    """
    betas, values = numbers["betas"], curves(numbers, name)
    low, high = values.min(1), values.max(1)
    axis.fill_between(betas, low, high, color=SKY, alpha=0.25, linewidth=0)
    for edge in (low, high):
        axis.plot(betas, edge, color=BLUE, linewidth=0.9, linestyle=(0, (4, 2)))
    axis.plot(betas, values.mean(1), "o-", color=BLUE, markersize=3, label="mean")
    axis.plot([], [], color=BLUE, linewidth=0.9, linestyle=(0, (4, 2)), label="min, max")
    fresh = curves(numbers["fresh"], name).mean(1)
    axis.plot(betas, fresh, color=PURPLE, linestyle=":", label="mean, fresh data")
    if top is not None:
        at = extremum(betas, values, top)
        axis.axvspan(at.low, at.high, color=MUTED, alpha=0.25, linewidth=0)
        axis.axvline(at.value, color=INK, linewidth=0.9, linestyle=(0, (4, 3)))
        height = 0.5 if top else 1.0  # away from the curve
        axis.annotate(f" β = {at.value:.2g}", (at.value, height), va="top", fontsize=7.5,
                      xycoords=("data", "axes fraction"), color=INK)  # fmt: skip
    beta_axis(axis, betas)


def beta_axis(axis: Axes, betas: Sequence[float]) -> None:
    """Beta along a logarithmic axis."""
    axis.set_xscale("log")
    axis.set_xlim(0.85 * betas[0], 1.18 * betas[-1])
    ticks: list[Any] = [tick for tick in (0.01, 0.1, 1, 10, 100) if betas[0] <= tick <= betas[-1]]
    axis.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    axis.set_xlabel("β")
    axis.set_ylabel("nats")
